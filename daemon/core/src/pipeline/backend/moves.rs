//! Move elimination: a move is done by renaming as long as slots are free that count the
//! registers which share a physical one.
//!
//! The rules (slots, pipeline length, when a slot is freed) are those of uiCA (Abel & Reineke,
//! ICS 2022, section 4.1.3). Time counts in *active* cycles, those in which rename could work.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Rename, Slots};
use mcad_isa::regs::RegId;

/// Active cycles that are remembered.
const HISTORY: u64 = 8;

/// Eliminations and slots in use at the end of the last active cycles: a byte each, the last one
/// lowest. A cycle has fewer eliminations, and a class fewer registers, than a byte counts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct History {
    eliminated: u64,
    used: u64,
}

impl History {
    const BITS: u64 = 8;

    /// All cycles alike, with nothing eliminated.
    #[inline]
    fn still(used: u8) -> Self {
        Self {
            eliminated: 0,
            used: u64::from(used) * (u64::MAX / 0xff),
        }
    }

    /// What happened so many active cycles ago, up to [`HISTORY`].
    #[inline]
    fn back(self, cycles: u64) -> (u8, u8) {
        let bits = cycles.wrapping_sub(1) % HISTORY * Self::BITS;
        ((self.eliminated >> bits) as u8, (self.used >> bits) as u8)
    }

    /// So many more cycles end, with nothing eliminated.
    #[inline]
    fn push_still(&mut self, cycles: u64, used: u8) {
        let still = Self::still(used);
        *self = match cycles {
            0 => *self,
            HISTORY.. => still,
            _ => {
                let bits = cycles * Self::BITS;
                Self {
                    eliminated: self.eliminated << bits,
                    used: self.used << bits | still.used & !(u64::MAX << bits),
                }
            }
        };
    }

    /// Another cycle ends.
    #[inline]
    fn push(&mut self, eliminated: u8, used: u8) {
        self.eliminated = self.eliminated << Self::BITS | u64::from(eliminated);
        self.used = self.used << Self::BITS | u64::from(used);
    }
}

#[derive(Clone, Copy, Default)]
struct Shared {
    /// Registers that share one physical register.
    regs: u64,
    /// Active cycle in which it came down to one register or none.
    single_since: u64,
}

/// Slots of one register class.
#[derive(Clone)]
struct Class {
    slots: Option<u32>,
    all_aliases: bool,
    shared: Vec<Shared>,
    /// Union of all `shared` registers.
    regs: u64,
    /// The slot of some of them may be freed.
    loose: bool,
    /// Nothing changes when cycles end, until something is shared or written.
    still: bool,
    /// Eliminations in the current cycle.
    now: u8,
    history: History,
}

impl Class {
    fn new(slots: Slots, all_aliases: bool) -> Self {
        Self {
            slots: match slots {
                Slots::Limited(n) => Some(n),
                Slots::Unlimited(_) => None,
            },
            all_aliases,
            shared: Vec::new(),
            regs: 0,
            loose: false,
            still: false,
            now: 0,
            history: History::default(),
        }
    }

    fn reset(&mut self) {
        let Self {
            slots: _,
            all_aliases: _,
            shared,
            regs,
            loose,
            still,
            now,
            history,
        } = self;
        shared.clear();
        (*regs, *loose, *still, *now) = (0, false, false, 0);
        *history = History::default();
    }

    fn possible(&self, pipeline: u64) -> bool {
        let Some(slots) = self.slots else { return true };
        let recent: u32 = (1..pipeline)
            .map(|back| u32::from(self.history.back(back).0))
            .sum();
        u32::from(self.now) + recent + u32::from(self.history.back(pipeline).1) < slots
    }

    fn share(&mut self, from: RegId, to: RegId) {
        // Without a limit nothing asks who shares what.
        if self.slots.is_none() {
            return;
        }
        self.now += 1;
        self.still = false;
        let (from, to) = (1u64 << from.0, 1u64 << to.0);
        let entry = self.shared.iter().position(|s| s.regs & from != 0);
        if entry.is_none_or(|e| self.shared[e].regs & to == 0) {
            self.overwrite(to, 0);
        }
        match entry {
            Some(e) => self.shared[e].regs |= from | to,
            None => self.shared.push(Shared {
                regs: from | to,
                single_since: 0,
            }),
        }
        self.loose |= self.may_go(from | to);
        self.regs |= from | to;
    }

    fn overwrite(&mut self, regs: u64, active: u64) {
        if self.regs & regs == 0 {
            return;
        }
        self.still = false;
        for shared in &mut self.shared {
            if shared.regs & regs != 0 {
                shared.regs &= !regs;
                if is_single(shared.regs) {
                    shared.single_since = active;
                    self.loose |= shared.regs == 0 || !self.all_aliases;
                }
            }
        }
        self.regs &= !regs;
    }

    fn fingerprint(&self, active: u64, h: &mut Fingerprint) {
        let Self {
            slots,
            all_aliases: _,
            shared,
            regs: _,
            loose: _,
            still: _,
            now,
            history,
        } = self;
        if slots.is_none() {
            return;
        }
        for shared in shared {
            h.add(shared.regs);
            h.add(u64::from(shared.single_since < active));
        }
        h.add(u64::from(*now));
        for back in 1..=HISTORY {
            let (eliminated, used) = history.back(back);
            h.add(u64::from(eliminated) << 32 | u64::from(used));
        }
    }

    /// Whether nothing changes when cycles end.
    #[inline(always)]
    fn is_still(&self) -> bool {
        self.now == 0 && !self.loose && self.history == History::still(self.shared.len() as u8)
    }

    /// Ends so many cycles, at least one, the first of which is `active`.
    #[inline]
    fn end_cycles(&mut self, active: u64, cycles: u64) {
        if self.still {
            return;
        }
        if self.slots.is_none() || self.is_still() {
            self.still = true;
            return;
        }
        if self.loose {
            self.end_loose(active, cycles);
            return;
        }
        let used = self.shared.len() as u8;
        self.history.push(self.now, used);
        self.now = 0;
        // The others are alike.
        self.history.push_still(cycles - 1, used);
    }

    /// The same while slots may become free.
    #[inline(never)]
    fn end_loose(&mut self, active: u64, cycles: u64) {
        let mut ended = 0;
        while self.loose && ended < cycles {
            self.free(active + ended);
            self.history.push(self.now, self.shared.len() as u8);
            self.now = 0;
            ended += 1;
        }
        if ended < cycles {
            let used = self.shared.len() as u8;
            self.history.push(self.now, used);
            self.now = 0;
            self.history.push_still(cycles - ended - 1, used);
        }
    }

    /// Frees the slots of what is no longer shared.
    fn free(&mut self, active: u64) {
        let drop_single = self.now == 0 && !self.all_aliases;
        self.shared.retain(|s| {
            !is_single(s.regs) || (s.regs != 0 && !(drop_single && s.single_since < active))
        });
        self.regs = self.shared.iter().fold(0, |a, s| a | s.regs);
        self.loose = self.shared.iter().any(|s| self.may_go(s.regs));
    }

    /// Whether a slot may become free as long as these registers share it.
    #[inline]
    fn may_go(&self, regs: u64) -> bool {
        regs == 0 || (is_single(regs) && !self.all_aliases)
    }
}

/// Whether there is at most one register.
#[inline]
fn is_single(regs: u64) -> bool {
    regs & regs.wrapping_sub(1) == 0
}

/// Move elimination of one core.
#[derive(Clone)]
pub struct Moves {
    gpr: Class,
    simd: Class,
    pipeline: u64,
    active: u64,
}

impl Moves {
    /// All slots free.
    #[must_use]
    pub fn new(p: &Rename) -> Self {
        Self {
            gpr: Class::new(p.move_elimination_gpr, p.move_elimination_all_aliases),
            // Vector registers free a slot as soon as one alias is left.
            simd: Class::new(p.move_elimination_simd, false),
            pipeline: u64::from(p.move_elimination_pipeline),
            active: 1,
        }
    }

    fn class(&mut self, reg: RegId) -> Option<&mut Class> {
        if reg.is_gpr() {
            Some(&mut self.gpr)
        } else if reg.is_vector() {
            Some(&mut self.simd)
        } else {
            None
        }
    }

    /// Tries to eliminate a move; takes a slot if it can.
    #[inline]
    pub fn eliminate(&mut self, from: RegId, to: RegId) -> bool {
        let pipeline = self.pipeline;
        let Some(class) = self.class(from) else {
            return false;
        };
        if !class.possible(pipeline) {
            return false;
        }
        class.share(from, to);
        true
    }

    /// Registers, one bit each, that share a physical one.
    #[inline(always)]
    #[must_use]
    pub fn shared(&self) -> u64 {
        self.gpr.regs | self.simd.regs
    }

    /// A register gets a physical register of its own.
    pub fn overwrite(&mut self, reg: RegId) {
        let active = self.active;
        if let Some(class) = self.class(reg) {
            class.overwrite(1 << reg.0, active);
        }
    }

    /// Several registers of any class get physical ones of their own.
    pub fn overwrite_all(&mut self, registers: u64) {
        self.gpr.overwrite(registers, self.active);
        self.simd.overwrite(registers, self.active);
    }

    /// Lets pass what it takes until slots that are no longer needed are free, and known to be.
    #[inline]
    pub fn settle(&mut self) {
        self.end_cycle(HISTORY);
    }

    /// Ends the current active cycle and lets `idle` more pass.
    #[inline]
    pub fn end_cycle(&mut self, idle: u64) {
        self.gpr.end_cycles(self.active, 1 + idle);
        self.simd.end_cycles(self.active, 1 + idle);
        self.active += 1 + idle;
    }
}

impl Part for Moves {
    fn reset(&mut self, _: &Moment) {
        let Self {
            gpr,
            simd,
            pipeline: _,
            active,
        } = self;
        gpr.reset();
        simd.reset();
        *active = 1;
    }

    /// Slots and their history.
    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            gpr,
            simd,
            pipeline: _,
            active,
        } = self;
        gpr.fingerprint(*active, h);
        simd.fingerprint(*active, h);
    }
}
