//! Move elimination: a move is done by renaming as long as slots are free that count the
//! registers which share a physical one.
//!
//! The rules (slots, pipeline length, when a slot is freed) are those of uiCA (Abel & Reineke,
//! ICS 2022, section 4.1.3). Time counts in *active* cycles, those in which rename could work.

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Rename, Slots};
use mcad_isa::regs::RegId;

const HISTORY: usize = 8;

#[derive(Clone, Copy, Default)]
struct Shared {
    /// Registers that share one physical register.
    regs: u64,
    /// Active cycle in which it came down to one register or none.
    single_since: u64,
}

/// Slots of one register class.
struct Class {
    slots: Option<u32>,
    all_aliases: bool,
    shared: Vec<Shared>,
    /// Union of all `shared` registers.
    regs: u64,
    now: u32,
    /// Eliminations and slots in use, by active cycle.
    history: [(u32, u32); HISTORY],
    /// Cycles in a row, as far as that matters, that ended with nothing eliminated and as much
    /// shared as before.
    quiet: u32,
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
            now: 0,
            history: [(0, 0); HISTORY],
            quiet: 0,
        }
    }

    fn reset(&mut self) {
        let Self {
            slots: _,
            all_aliases: _,
            shared,
            regs,
            now,
            history,
            quiet,
        } = self;
        shared.clear();
        (*regs, *now, *history, *quiet) = (0, 0, [(0, 0); HISTORY], 0);
    }

    /// Whether cycles end without a change: the whole history is as this cycle will be.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.slots.is_none() || self.quiet > HISTORY as u32 && self.now == 0
    }

    fn possible(&self, active: u64, pipeline: u64) -> bool {
        let Some(slots) = self.slots else { return true };
        let at = |back: u64| {
            active
                .checked_sub(back)
                .map_or((0, 0), |c| self.history[c as usize % HISTORY])
        };
        let recent: u32 = (1..pipeline).map(|i| at(i).0).sum();
        self.now + recent + at(pipeline).1 < slots
    }

    fn share(&mut self, from: RegId, to: RegId) {
        // Without a limit nothing asks who shares what.
        if self.slots.is_none() {
            return;
        }
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
        self.regs |= from | to;
    }

    fn overwrite(&mut self, regs: u64, active: u64) {
        if self.regs & regs == 0 {
            return;
        }
        self.quiet = 0;
        for shared in &mut self.shared {
            if shared.regs & regs != 0 {
                shared.regs &= !regs;
                if shared.regs.count_ones() <= 1 {
                    shared.single_since = active;
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
            now,
            history,
            // It follows from the history.
            quiet: _,
        } = self;
        if slots.is_none() {
            return;
        }
        for shared in shared {
            h.add(shared.regs);
            h.add(u64::from(shared.single_since < active));
        }
        h.add(u64::from(*now));
        for back in 1..=HISTORY as u64 {
            let (eliminated, used) = history[(active.wrapping_sub(back)) as usize % HISTORY];
            h.add(u64::from(eliminated) << 32 | u64::from(used));
        }
    }

    fn end_cycle(&mut self, active: u64) {
        if self.slots.is_none() {
            return;
        }
        if !self.shared.is_empty() {
            let drop_single = self.now == 0 && !self.all_aliases;
            self.shared.retain(|s| {
                let n = s.regs.count_ones();
                n > 1 || (n == 1 && !(drop_single && s.single_since < active))
            });
            self.regs = self.shared.iter().fold(0, |a, s| a | s.regs);
        }
        let ended = (self.now, self.shared.len() as u32);
        let before = self.history[active.wrapping_sub(1) as usize % HISTORY];
        self.quiet = match ended == before && self.now == 0 {
            true => (self.quiet + 1).min(HISTORY as u32 + 1),
            false => 0,
        };
        self.history[active as usize % HISTORY] = ended;
        self.now = 0;
    }
}

/// Move elimination of one core.
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
        let (active, pipeline) = (self.active, self.pipeline);
        let Some(class) = self.class(from) else {
            return false;
        };
        if !class.possible(active, pipeline) {
            return false;
        }
        class.now += 1;
        class.share(from, to);
        true
    }

    /// A register gets a physical register of its own.
    #[inline]
    pub fn overwrite(&mut self, reg: RegId) {
        if reg.0 < RegId::MASK && (self.gpr.regs | self.simd.regs) >> reg.0 & 1 != 0 {
            self.no_longer_shared(reg);
        }
    }

    fn no_longer_shared(&mut self, reg: RegId) {
        let active = self.active;
        if let Some(class) = self.class(reg) {
            class.overwrite(1 << reg.0, active);
        }
    }

    /// Ends the current active cycle and lets `idle` more pass.
    #[inline]
    pub fn end_cycle(&mut self, idle: u64) {
        if self.gpr.is_quiet() && self.simd.is_quiet() {
            // The history stays as it is, wherever in it the cycle falls.
            self.active += 1 + idle;
        } else {
            self.end_busy_cycle(idle);
        }
    }

    fn end_busy_cycle(&mut self, idle: u64) {
        let skipped = idle.saturating_sub(HISTORY as u64 + 1);
        for _ in 0..=idle.min(HISTORY as u64 + 1) {
            self.gpr.end_cycle(self.active);
            self.simd.end_cycle(self.active);
            self.active += 1;
        }
        // All later idle cycles are alike and the history holds only the last ones.
        self.active += skipped / HISTORY as u64 * HISTORY as u64;
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
