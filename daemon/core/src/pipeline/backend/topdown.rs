//! Where issue slots went (Yasin, ISPASS 2014): every slot is counted once, when the cycle in
//! which the next µop issues is known.

use super::memory::lines::Late;
use crate::memory::Level;
use crate::pipeline::inorder;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_report::TopDown;

/// Why the next µop could not issue in the slot after its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Not delivered in time, since fetch went the wrong way.
    BadSpeculation,
    /// Not delivered in time.
    FrontEnd,
    /// Re-order buffer or scheduler full behind a load or store, or the store buffer full.
    Memory(Wait),
    /// Re-order buffer or scheduler full behind anything else.
    Core(Unit),
    /// Issue-group rule or serialisation.
    Other,
    /// On an in-order core.
    InOrder(inorder::slots::Cause),
}

impl Stall {
    /// Whether a line or its translation came from behind the first level.
    #[must_use]
    pub fn is_miss(&self) -> bool {
        matches!(
            self,
            Self::Memory(Wait::L2 | Wait::L3 | Wait::Dram | Wait::Translation)
        )
    }
}

/// What a load or store waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// The first level, or an older store.
    #[default]
    First = 0,
    /// A line from the second level.
    L2 = 1,
    /// A line from the third level.
    L3 = 2,
    /// A line from memory.
    Dram = 3,
    /// The translation of its address.
    Translation = 4,
    /// The line of a store, for which the store buffer waits.
    Stores = 5,
    /// The kernel, which was to provide the page.
    Faults = 6,
}

impl Wait {
    /// What made an access late.
    #[inline]
    #[must_use]
    pub fn of(late: Late) -> Self {
        match late {
            Late::No | Late::From(Level::L1) => Self::First,
            Late::From(Level::L2) => Self::L2,
            Late::From(Level::L3) => Self::L3,
            Late::From(Level::Dram) => Self::Dram,
            Late::Translation => Self::Translation,
        }
    }
}

/// What a µop that is no load waits for once it has issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: it runs, and takes its time.
    #[default]
    Latency = 0,
    /// The result of another µop.
    Dependencies = 1,
    /// Its port, or what waits before it.
    Ports = 2,
    /// A unit that is not pipelined, or an instruction that does not overlap with itself.
    Divider = 3,
}

impl Unit {
    /// Of a µop that entered the scheduler in `entered`, was ready at `ready` and started at
    /// `dispatched`: the last constraint that held.
    #[inline(always)]
    #[must_use]
    pub fn of(entered: u64, ready: u64, dispatched: u64) -> Self {
        if dispatched > ready {
            Self::Ports
        } else if ready > entered {
            Self::Dependencies
        } else {
            Self::Latency
        }
    }
}

/// Why a fused µop retired when it did, in some bits of its stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cause(u8);

impl Cause {
    /// Bits that it takes.
    pub const BITS: u32 = 4;
    /// Nothing else than the time that it takes.
    pub const CORE: Self = Self(Unit::Latency as u8);
    const MEMORY: u8 = 4;

    /// Something else than a load or store.
    #[inline(always)]
    #[must_use]
    pub fn core(unit: Unit) -> Self {
        Self(unit as u8)
    }

    /// A load or store that waited for this.
    #[inline(always)]
    #[must_use]
    pub fn memory(wait: Wait) -> Self {
        Self(Self::MEMORY + wait as u8)
    }

    /// Of a µop whose fused µop was done for `load` so far: what waits for the load that it is fused
    /// with is late for what that load waits for.
    #[inline(always)]
    #[must_use]
    pub fn after(self, load: Self) -> Self {
        match self == Self::memory(Wait::First) && load.0 > self.0 {
            true => load,
            false => self,
        }
    }

    /// As bits.
    #[inline]
    #[must_use]
    pub fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// From bits.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self((bits & ((1 << Self::BITS) - 1)) as u8)
    }

    /// Where slots lost to it are booked.
    #[inline]
    #[must_use]
    pub fn stall(self) -> Stall {
        match self.0 {
            0 => Stall::Core(Unit::Latency),
            1 => Stall::Core(Unit::Dependencies),
            2 => Stall::Core(Unit::Ports),
            3 => Stall::Core(Unit::Divider),
            5 => Stall::Memory(Wait::L2),
            6 => Stall::Memory(Wait::L3),
            7 => Stall::Memory(Wait::Dram),
            8 => Stall::Memory(Wait::Translation),
            9 => Stall::Memory(Wait::Stores),
            _ => Stall::Memory(Wait::First),
        }
    }
}

/// Slots that were lost for an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The instruction that is to blame, by its place in the program: the branch that fetch went
    /// wrong at, the one that was delivered late, or the oldest one that had not retired.
    pub instr: u32,
    /// Slots.
    pub slots: u64,
    /// Why.
    pub why: Stall,
}

/// Counts slots.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotCount {
    slots: TopDown,
}

impl SlotCount {
    /// So many slots were lost.
    #[inline]
    pub fn lose(&mut self, slots: u64, why: Stall) {
        match why {
            Stall::BadSpeculation => self.slots.bad_speculation += slots,
            Stall::FrontEnd => self.slots.frontend += slots,
            Stall::Memory(wait) => {
                self.slots.backend_memory += slots;
                let levels = &mut self.slots.memory_levels;
                match wait {
                    Wait::First => levels.l1 += slots,
                    Wait::L2 => levels.l2 += slots,
                    Wait::L3 => levels.l3 += slots,
                    Wait::Dram => levels.dram += slots,
                    Wait::Translation => levels.translation += slots,
                    Wait::Stores => levels.stores += slots,
                    Wait::Faults => levels.faults += slots,
                }
            }
            Stall::Core(_) => self.slots.backend_core += slots,
            // In-order cores count their own.
            Stall::Other | Stall::InOrder(_) => self.slots.other += slots,
        }
    }

    /// The counts after `cycles` cycles of `width` slots, `issued` of which issued a µop; what is
    /// left (the drain at the end) is `other`.
    #[must_use]
    pub fn at(&self, cycles: u64, width: u64, issued: u64) -> TopDown {
        let mut t = self.slots;
        t.retiring = issued;
        let counted = t.retiring
            + t.bad_speculation
            + t.frontend
            + t.backend_memory
            + t.backend_core
            + t.other;
        t.slots = (cycles * width).max(counted);
        t.other += t.slots - counted;
        t
    }
}

impl Part for SlotCount {
    fn reset(&mut self, _: &Moment) {
        let Self { slots } = self;
        *slots = TopDown::default();
    }

    /// Nothing depends on it.
    fn fingerprint(&self, _: &Moment, _: &mut Fingerprint) {
        let Self { slots: _ } = self;
    }
}
