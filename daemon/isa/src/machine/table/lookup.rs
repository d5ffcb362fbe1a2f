//! Selecting the form of a decoded instruction.
//!
//! A table is an array over iced's `Code` whose entries are short lists of candidates. A
//! candidate applies when the instruction's [`Traits`] agree with its [`Selector`]; the first that
//! applies wins, as the rows of uops.info are meant to be read (a row applies when all its XED
//! attributes match). Measured forms stand before approximated ones.

use iced_x86::{Code, Instruction, OpKind, Register};

use super::Form;
use crate::regs::is_high8;
use crate::x86::encoding::is_immediate;

/// What distinguishes instructions of one `Code`, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Traits(pub u32);

impl Traits {
    /// An operand is in memory, or is an address (`lea`).
    pub const MEMORY: u32 = 1 << 0;
    /// `lock` prefix.
    pub const LOCK: u32 = 1 << 1;
    /// `F3` prefix.
    pub const REP: u32 = 1 << 2;
    /// `F2` prefix.
    pub const REPNE: u32 = 1 << 3;
    /// An opmask other than `k0`.
    pub const MASKED: u32 = 1 << 4;
    /// Zeroing masking.
    pub const ZEROING: u32 = 1 << 5;
    /// Memory broadcast.
    pub const BROADCAST: u32 = 1 << 6;
    /// Embedded rounding or suppressed exceptions.
    pub const ROUNDING: u32 = 1 << 7;
    /// The first immediate is zero.
    pub const ZERO_IMMEDIATE: u32 = 1 << 8;
    /// Operand 0 is `ah`, `bh`, `ch` or `dh`.
    pub const HIGH8_0: u32 = 1 << 9;
    /// Operand 1 is `ah`, `bh`, `ch` or `dh`.
    pub const HIGH8_1: u32 = 1 << 10;
    /// The low three bits of operand 0's register number are 4 to 7.
    pub const UPPER_REGISTER: u32 = 1 << 11;
    /// The address is relative to `rip`.
    pub const RIP: u32 = 1 << 12;
    /// The address has a base register.
    pub const BASE: u32 = 1 << 13;
    /// The address has an index register.
    pub const INDEX: u32 = 1 << 14;
    /// The index is scaled by more than 1.
    pub const SCALED: u32 = 1 << 15;
    /// The address has an 8-bit displacement.
    pub const DISPLACEMENT8: u32 = 1 << 16;
    /// The address has a 32-bit (or 64-bit) displacement.
    pub const DISPLACEMENT32: u32 = 1 << 17;
    /// All bits that describe an address.
    pub const ADDRESS: u32 = Self::RIP
        | Self::BASE
        | Self::INDEX
        | Self::SCALED
        | Self::DISPLACEMENT8
        | Self::DISPLACEMENT32;

    /// The traits of an instruction.
    #[must_use]
    pub fn of(instruction: &Instruction) -> Self {
        let mut bits = 0;
        let mut set = |condition: bool, bit: u32| bits |= if condition { bit } else { 0 };
        set(instruction.has_lock_prefix(), Self::LOCK);
        set(instruction.has_rep_prefix(), Self::REP);
        set(instruction.has_repne_prefix(), Self::REPNE);
        set(
            !matches!(instruction.op_mask(), Register::None | Register::K0),
            Self::MASKED,
        );
        set(instruction.zeroing_masking(), Self::ZEROING);
        set(instruction.is_broadcast(), Self::BROADCAST);
        set(
            instruction.suppress_all_exceptions()
                || instruction.rounding_control() != iced_x86::RoundingControl::None,
            Self::ROUNDING,
        );
        let mut immediate_seen = false;
        for i in 0..instruction.op_count() {
            match instruction.op_kind(i) {
                OpKind::Register if i < 2 => {
                    let register = instruction.op_register(i);
                    let high = is_high8(register);
                    set(high, if i == 0 { Self::HIGH8_0 } else { Self::HIGH8_1 });
                    let number = register.full_register().number();
                    set(i == 0 && number & 4 != 0, Self::UPPER_REGISTER);
                }
                OpKind::Memory => {
                    set(true, Self::MEMORY);
                    set_address(instruction, &mut set);
                }
                kind if !immediate_seen && is_immediate(kind) => {
                    immediate_seen = true;
                    set(instruction.immediate(i) == 0, Self::ZERO_IMMEDIATE);
                }
                _ => {}
            }
        }
        Self(bits)
    }
}

fn set_address(instruction: &Instruction, set: &mut impl FnMut(bool, u32)) {
    let base = instruction.memory_base();
    let index = instruction.memory_index() != Register::None;
    let relative = matches!(base, Register::RIP | Register::EIP);
    set(relative, Traits::RIP);
    set(!relative && base != Register::None, Traits::BASE);
    set(index, Traits::INDEX);
    set(
        index && instruction.memory_index_scale() > 1,
        Traits::SCALED,
    );
    let displacement = instruction.memory_displ_size();
    set(displacement == 1, Traits::DISPLACEMENT8);
    set(displacement > 1, Traits::DISPLACEMENT32);
}

/// Which traits a candidate requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// Traits that are looked at.
    pub mask: u32,
    /// Their values.
    pub value: u32,
}

impl Selector {
    /// Adds the requirement that a trait is present or absent.
    pub fn require(&mut self, bit: u32, present: bool) {
        self.mask |= bit;
        if present {
            self.value |= bit;
        }
    }

    /// Whether an instruction with these traits is selected.
    #[must_use]
    pub fn accepts(self, traits: Traits) -> bool {
        traits.0 & self.mask == self.value
    }

    /// Whether every instruction that `other` selects is selected by this too.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.mask & other.mask == self.mask && other.value & self.mask == self.value
    }
}

/// One possible form of a `Code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) selector: Selector,
    pub(super) form: u16,
}

/// All forms of one CPU.
#[derive(Clone, Debug, Default)]
pub struct FormTable {
    /// The CPU of its figures, and what a file has changed of them.
    pub(crate) name: String,
    pub(super) forms: Vec<Form>,
    /// Candidates of all codes, grouped by code.
    pub(super) candidates: Vec<Candidate>,
    /// For each code the end of its candidates; they begin where the previous code's end.
    pub(super) ends: Vec<u32>,
}

impl FormTable {
    /// Selects the form of an instruction; `None` if the table has none.
    #[must_use]
    pub fn find(&self, instruction: &Instruction) -> Option<&Form> {
        let code = instruction.code() as usize;
        let end = *self.ends.get(code)? as usize;
        let start = match code {
            0 => 0,
            _ => self.ends[code - 1] as usize,
        };
        let candidates = self.candidates.get(start..end)?;
        if candidates.is_empty() {
            return None;
        }
        let traits = Traits::of(instruction);
        let found = candidates.iter().find(|c| c.selector.accepts(traits))?;
        self.forms.get(usize::from(found.form))
    }

    /// All codes with what else selects a form, and the form, in order of preference within a code.
    pub fn candidates(&self) -> impl Iterator<Item = (Code, Selector, &Form)> {
        let mut start = 0;
        let ranges = self.ends.iter().map(move |end| {
            let range = start..*end as usize;
            start = *end as usize;
            range
        });
        Code::values().zip(ranges).flat_map(move |(code, range)| {
            let candidates = self.candidates.get(range).unwrap_or(&[]);
            candidates.iter().filter_map(move |c| {
                let form = self.forms.get(usize::from(c.form))?;
                Some((code, c.selector, form))
            })
        })
    }

    /// All forms, to change their figures.
    pub(crate) fn forms_mut(&mut self) -> &mut [Form] {
        &mut self.forms
    }

    /// All forms, measured ones before approximated ones.
    #[must_use]
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }
}
