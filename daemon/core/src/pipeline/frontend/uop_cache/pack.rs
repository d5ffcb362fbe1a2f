//! How blocks of code lie in the µop cache's lines.

use crate::pipeline::inst::Inst;
use crate::pipeline::state::Fingerprint;
use crate::pipeline::window::Window;
use mcad_isa::machine::params::Frontend;
use mcad_isa::program::{Instr, Program, flag};

/// Laminated µop of an entry without one: an instruction whose µops all come from microcode.
pub const NO_UOP: u16 = u16::MAX;

/// One entry of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Address of the instruction.
    pub address: u64,
    /// Instruction, by number from the first of the block of code.
    pub number: u8,
    /// Laminated µop of the instruction.
    pub laminated: u16,
    /// The same by its place in the program.
    pub place: u32,
    /// Place in the line.
    pub slot: u8,
    /// Microcode follows.
    pub microcode: bool,
    /// Takes two entries.
    pub extra: bool,
    /// Control goes elsewhere after the instruction.
    pub taken: bool,
    /// First of its line.
    pub starts_line: bool,
    /// What it takes of a cycle: fused µops, where these are what is delivered, or one.
    pub width: u8,
    /// Last of its instruction.
    pub ends_instruction: bool,
    /// Bytes of the instruction and of what it is fused with; 0 where it is the last of its group, so that
    /// the next one says.
    pub bytes: u8,
    /// The next instruction is fused with it, where `bytes` says how many they have.
    pub pair: bool,
}

impl Entry {
    /// Whether no µop of its instruction comes before it.
    #[must_use]
    pub fn starts_instruction(&self) -> bool {
        self.laminated == 0 || self.laminated == NO_UOP
    }

    /// Control goes elsewhere after it.
    #[inline]
    #[must_use]
    pub fn leaves(&self) -> bool {
        self.taken && self.ends_instruction
    }

    /// Whether it has µops and is in one place, and no microcode follows.
    fn is_usual(&self) -> bool {
        self.laminated != NO_UOP && !self.extra && !self.microcode
    }

    /// Whether another entry is of the same block of code.
    #[inline]
    #[must_use]
    pub fn shares_block(&self, other: &Self, p: &Frontend) -> bool {
        (self.address ^ other.address) >> p.uop_cache_block_bytes.trailing_zeros() == 0
    }

    /// The first laminated µop of its instruction that comes from microcode, where some do.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> u16 {
        match self.laminated {
            NO_UOP => 0,
            laminated => laminated + 1,
        }
    }

    /// Adds what it is, relative to instruction `head`.
    pub fn fingerprint(&self, from: u64, head: u64, h: &mut Fingerprint) {
        h.add((from + u64::from(self.number)).wrapping_sub(head));
        h.add(u64::from(self.laminated) << 8 | u64::from(self.slot));
    }
}

/// What the last line of a block of code has room for, where lines go on in the next block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Entries.
    entries: i32,
    /// Constants.
    constants: u32,
    /// Branches that it has.
    branches: u32,
}

impl Open {
    /// What tells it from others.
    #[inline]
    pub fn key(self) -> u64 {
        (self.entries as u64) << 32 | u64::from(self.branches) << 16 | u64::from(self.constants)
    }
}

/// How a block of code lies in the µop cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Lines that begin in it.
    pub lines: u32,
    /// Whether it can be cached at all.
    pub cacheable: bool,
}

/// A line on its way to the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Entries that are left.
    pub left: u8,
    /// Each of its entries has µops and is in one place, and no microcode follows.
    pub usual: bool,
    /// Number of the instruction that its entries' numbers count from.
    pub from: u64,
    /// Begins with the block of code; else it is the rest of a line of the block before.
    pub begins: bool,
}

/// Appends the lines that these entries make, which count from number 0.
pub fn lines_of(entries: &[Entry], lines: &mut Vec<Line>) {
    let first = lines.len();
    for entry in entries {
        match lines.get_mut(first..).and_then(<[Line]>::last_mut) {
            Some(line) if !entry.starts_line => {
                line.left += 1;
                line.usual &= entry.is_usual();
            }
            _ => lines.push(Line {
                left: 1,
                usual: entry.is_usual(),
                from: 0,
                begins: entry.starts_line,
            }),
        }
    }
}

/// Packs the instructions from number `from` to before `to`, which are all of a group in one block
/// of code, and appends their entries, numbered from the first of them; the group ends before `end`. The
/// first ones go to what is `open` of the line before, of which it leaves what the next block has.
pub fn pack(
    program: &Program,
    p: &Frontend,
    insts: &Window<Inst>,
    (from, to, end): (u64, u64, u64),
    open: &mut Open,
    out: &mut Vec<Entry>,
) -> Packed {
    let mut lines = 0;
    // Entries and constants that the line has room for.
    let Open {
        entries: mut left,
        constants: mut room,
        mut branches,
    } = *open;
    let most_branches = match p.uop_cache_line_branches {
        0 => u32::MAX,
        most => most,
    };
    let mut slot = match left {
        0 => 0,
        left => (p.uop_cache_line_entries as u8).saturating_sub(left as u8),
    };
    // The line begins where the block does.
    let mut whole_block = false;
    let mut erratum = false;
    let mut lcp = LcpRule::default();
    for number in from..to {
        let Some(inst) = insts.get(number) else {
            continue;
        };
        let Some(instr) = program.instrs.get(inst.instr as usize) else {
            continue;
        };
        let behind = inst.address.wrapping_add(u64::from(instr.len));
        if p.jcc_erratum && number + 1 == to {
            let pair_end = if instr.is(flag::FUSED_NEXT) {
                // The pair's jump may lie in the next block, which may not be known yet: its
                // length is that of the static successor.
                let jump = program
                    .instrs
                    .get(inst.instr as usize + 1)
                    .map_or(0, |j| j.len);
                Some(behind + u64::from(jump))
            } else if instr.is(flag::BRANCH) {
                Some(behind)
            } else {
                None
            };
            erratum |= pair_end.is_some_and(|e| inst.address >> 5 != e >> 5);
        }
        if p.uop_cache_prefix_limit {
            let counts = instr.is(flag::LCP) && instr.is(flag::FUSIBLE);
            lcp.add(inst.address, instr.nominal_opcode, counts);
        }
        if instr.is(flag::FUSED_PREVIOUS) {
            continue;
        }
        let whole = p.uop_cache_whole_instructions;
        let needed = match whole {
            true => 1,
            false => i32::from(instr.uops_mite.max(1)),
        };
        let extra = p.uop_cache_wide_immediates && instr.is(flag::EXTRA_SLOT);
        let constants = match p.uop_cache_constants {
            0 => 0,
            _ => u32::from(instr.constants),
        };
        // A macro-fused pair is left when its jump is.
        let taken = inst.taken
            || (instr.is(flag::FUSED_NEXT) && insts.get(number + 1).is_some_and(|j| j.taken));
        let (bytes, pair) = extent(program, insts, (number, end), instr);
        let mut starts_line = false;
        let taken_room = p.constants_taken(left - needed);
        let is_branch = instr.is(flag::BRANCH | flag::FUSED_NEXT);
        let block = u64::from(p.uop_cache_block_bytes);
        let ends_block = whole_block && inst.address / block != behind / block;
        let full = needed + i32::from(extra) > left
            || ends_block
            || constants + taken_room > room
            || (is_branch && branches == most_branches);
        if instr.microcoded || full {
            lines += 1;
            branches = 0;
            left = p.uop_cache_line_entries as i32;
            room = p.uop_cache_constants;
            slot = 0;
            starts_line = true;
            whole_block = p.uop_cache_lines_end_before_blocks && inst.address % block == 0;
        }
        let mut push = |laminated: u16, slot: u8, microcode: bool, last: bool, starts: bool| {
            let place = instr.laminated as usize + usize::from(laminated);
            let fused = program.laminated.get(place).map_or(1, |l| l.fused);
            out.push(Entry {
                address: inst.address,
                // A block of code has no more bytes than a line has.
                number: (number - from) as u8,
                laminated,
                place: place as u32,
                slot,
                microcode,
                extra: last && extra && laminated != NO_UOP,
                taken,
                starts_line: starts,
                width: match p.uop_cache_delivers_unlaminated {
                    true => fused.min(255) as u8,
                    false => 1,
                },
                ends_instruction: last,
                bytes,
                pair,
            });
        };
        if instr.uops_mite > 0 {
            let count = instr.laminated_mite.max(1);
            for n in 0..count {
                let last = n + 1 == count;
                let microcode = last && instr.laminated_len > instr.laminated_mite;
                push(n, slot, microcode, last, starts_line && n == 0);
                if !whole || last {
                    slot += 1;
                    left -= 1;
                }
            }
        } else {
            push(NO_UOP, slot, instr.microcoded, true, starts_line);
            slot += 1;
            if !instr.microcoded {
                left -= 1;
            }
        }
        if extra {
            left -= 1;
        }
        room = room.saturating_sub(constants);
        branches += u32::from(is_branch);
        if instr.microcoded {
            left = 0;
        }
    }
    *open = match p.uop_cache_lines_flow {
        true => Open {
            entries: left,
            constants: room,
            branches,
        },
        false => Open::default(),
    };
    Packed {
        lines,
        cacheable: lines <= p.uop_cache_lines_per_block && !erratum && !lcp.too_many(),
    }
}

/// Bytes of instruction `number` and of what it is fused with, and whether it is fused; 0 bytes where its
/// group ends behind it, or something else follows than it is made for.
fn extent(
    program: &Program,
    insts: &Window<Inst>,
    (number, end): (u64, u64),
    instr: &Instr,
) -> (u8, bool) {
    let next = insts.get(number + 1).filter(|_| number + 1 < end);
    let next = next.and_then(|next| program.instrs.get(next.instr as usize));
    let pair = instr.is(flag::FUSED_NEXT);
    match next {
        Some(next) if next.is(flag::FUSED_PREVIOUS) == pair => {
            (instr.len + if pair { next.len } else { 0 }, pair)
        }
        _ => (0, false),
    }
}

/// A block with too many fusible instructions with length-changing prefixes is not cached: seen
/// by uiCA's authors, cause unknown. Counted per 16-byte half of each 32 bytes.
#[derive(Default)]
struct LcpRule {
    window: u64,
    first_last: bool,
    second: u32,
    hit: bool,
}

impl LcpRule {
    fn add(&mut self, address: u64, nominal: u8, lcp: bool) {
        if address >> 5 != self.window {
            self.hit |= self.first_last && self.second >= 2;
            *self = Self {
                window: address >> 5,
                hit: self.hit,
                ..Self::default()
            };
        }
        // An instruction whose opcode lies in the second half counts there.
        let second = address & 16 != 0 || (address & 15) + u64::from(nominal) >= 16;
        if second {
            self.second += u32::from(lcp);
        } else {
            self.first_last = lcp;
        }
    }

    fn too_many(&self) -> bool {
        self.hit || (self.first_last && self.second >= 2)
    }
}
