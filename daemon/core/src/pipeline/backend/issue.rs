//! The issue cycle: how many µops it has taken, and why the next one had to wait for a later one.

use super::dealt::Taken;
use super::entries::Entries;
use super::ports::Ports;
use super::registers::Registers;
use super::retire::Retirement;
use super::topdown::{Loss, SlotCount, Stall};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::PortSet;
use mcad_isa::program::{Dealt, Laminated};

/// The current issue cycle.
pub struct Issue {
    width: u32,
    /// What a cycle counts beside slots, constants or instructions: the most that it has room for, and those
    /// that it has.
    most_counted: u32,
    counted: u32,
    /// Ports that its µops have, of those of which each is given one.
    taken: Taken,
    /// Whether a µop that synchronises the stack pointer is in it.
    synchronised: bool,
    cycle: u64,
    slots: u32,
    /// Slots that the current cycle has: its width, or none where no more µops may issue in it.
    limit: u32,
    /// Nothing may issue before.
    blocked_until: u64,
    /// Why, and which instruction of the program is to blame.
    blocked_for: (Stall, u32),
    /// What is to blame when the next µop is not delivered in time.
    late_for: Stall,
    /// The instruction that issues, and the one before it.
    instr: u32,
    before: u32,
    /// Slots lost since they were last taken.
    losses: Vec<Loss>,
}

/// More than a cycle has µops for; twice that many can still be counted.
const ANY_NUMBER: u32 = u32::MAX / 2;

/// What µops that issue together must find in one cycle.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Slots.
    pub slots: u32,
    /// What a cycle counts beside them.
    pub counted: u32,
    /// Ports for themselves.
    pub dealt: Dealt,
}

impl Needs {
    /// Slots alone.
    #[must_use]
    pub fn slots(slots: u32) -> Self {
        Self {
            slots,
            counted: 0,
            dealt: Dealt::NONE,
        }
    }

    /// One slot, and so many of these ports, where each is given one µop a cycle.
    #[must_use]
    pub fn on_ports(ports: PortSet, count: u32, each: PortSet) -> Self {
        let dealt = (0..count).fold(Dealt::NONE, |all, _| all.with_uop(ports, each, false));
        Self {
            dealt,
            ..Self::slots(1)
        }
    }

    /// Those of a laminated µop.
    #[inline(always)]
    #[must_use]
    pub fn of(uop: &Laminated) -> Self {
        Self {
            slots: u32::from(uop.slots),
            counted: u32::from(uop.counted),
            dealt: uop.dealt,
        }
    }
}

/// What a new issue cycle makes move on, and what it asks for room.
pub struct Resources<'a> {
    /// Ports and schedulers.
    pub ports: &'a mut Ports,
    /// The re-order buffer.
    pub retirement: &'a mut Retirement,
    /// What else is taken until retirement.
    pub entries: &'a mut Entries,
    /// Registers.
    pub registers: &'a mut Registers,
    /// Where lost slots are booked.
    pub slot_count: &'a mut SlotCount,
    /// Why a µop may not issue before.
    pub held_by: Stall,
}

impl Issue {
    /// Before the first cycle of a core that issues `width` fused µops with so many of what it counts beside
    /// them a cycle; 0: any number.
    #[must_use]
    pub fn new(width: u32, most_counted: u32) -> Self {
        Self {
            width,
            most_counted: match most_counted {
                0 => ANY_NUMBER,
                most => most.min(ANY_NUMBER),
            },
            counted: 0,
            taken: Taken::NONE,
            synchronised: false,
            cycle: 0,
            slots: 0,
            limit: 0,
            blocked_until: 0,
            blocked_for: (Stall::Other, 0),
            late_for: Stall::FrontEnd,
            instr: 0,
            before: 0,
            losses: Vec::new(),
        }
    }

    /// The cycle.
    #[inline(always)]
    #[must_use]
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// The instruction that issued last, in its program.
    #[inline]
    #[must_use]
    pub fn instr(&self) -> u32 {
        self.instr
    }

    /// Fused µops that it has taken.
    #[inline(always)]
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// What follows belongs to this instruction of the program.
    #[inline(always)]
    pub fn begin(&mut self, instr: u32) {
        // Told twice where µops of the machine's own come first.
        if self.instr != instr {
            self.before = self.instr;
            self.instr = instr;
        }
    }

    /// Slots lost since this was last emptied.
    #[inline(always)]
    pub fn losses(&mut self) -> &mut Vec<Loss> {
        &mut self.losses
    }

    /// The first µops of a new cycle have these needs; their slots are told apart ([`Issue::take`]).
    #[inline]
    pub fn begin_with(&mut self, needs: Needs) {
        self.counted += needs.counted;
        // What no cycle has ports enough for has this one to itself.
        self.taken = self.taken.with(needs.dealt).unwrap_or(self.taken);
    }

    /// It has taken so many slots more.
    #[inline(always)]
    pub fn take(&mut self, slots: u32) {
        self.slots += slots;
    }

    /// Whether a µop is in it that synchronises the stack pointer.
    #[must_use]
    pub fn has_synchronised(&self) -> bool {
        self.synchronised
    }

    /// Such a one is.
    pub fn synchronised(&mut self) {
        self.synchronised = true;
    }

    /// No more µops may issue in it.
    pub fn close(&mut self) {
        self.limit = 0;
    }

    /// When the next µop is not delivered in time, that is to blame for it.
    pub fn late_for(&mut self, why: Stall) {
        self.late_for = why;
    }

    /// Nothing may issue before this cycle, because of the current instruction.
    pub fn block_until(&mut self, cycle: u64, why: Stall) {
        if cycle > self.blocked_until {
            self.blocked_until = cycle;
            self.blocked_for = (why, self.instr);
        }
    }

    /// Nothing may issue for so many cycles, because of the current instruction.
    pub fn block(&mut self, cycles: u64, why: Stall) {
        self.blocked_until = self.cycle + cycles;
        self.blocked_for = (why, self.instr);
    }

    /// Gives µops what they need but their slots ([`Issue::take`]), if the cycle has it, which are in the queue from
    /// `delivered` on and may not issue before `at_least`. Returns whether it has; else one must be opened for them.
    #[inline(always)]
    #[must_use]
    pub fn admits(&mut self, needs: Needs, delivered: u64, at_least: u64) -> bool {
        let free = self.slots + needs.slots <= self.limit
            && self.counted + needs.counted <= self.most_counted
            && delivered < self.cycle
            && at_least.max(self.blocked_until) <= self.cycle;
        if !free {
            return false;
        }
        if !needs.dealt.is_empty() {
            let Some(taken) = self.taken.with(needs.dealt) else {
                return false;
            };
            self.taken = taken;
        }
        self.counted += needs.counted;
        true
    }

    /// Opens a cycle for a µop that is in the queue from `delivered` on and may not issue before
    /// `at_least`.
    #[inline]
    pub fn open(&mut self, delivered: u64, at_least: u64, r: Resources<'_>) {
        let (held_by, to_blame) = match self.blocked_until > at_least {
            true => self.blocked_for,
            false => (r.held_by, self.instr),
        };
        let at_least = at_least.max(self.blocked_until);
        let width = self.width;
        let lost = u64::from(width - self.slots.min(width));
        let first = self.cycle + 1;
        let most = u64::from(width);
        let room = r.retirement.room_for(most).max(r.entries.room(self.cycle));
        let mut gate = first.max(room);
        r.ports.step_to(gate);
        self.cycle = gate;
        if r.ports.schedulers().full(width) {
            gate = self.wait_for_schedulers(r.ports);
        }
        let target = gate.max(delivered + 1).max(at_least);
        if target > gate {
            self.idle_to(target, r.ports);
        }
        r.registers.end_cycle(target - gate);
        // Slots left over in the old cycle go with the reason that closed it.
        let whole = |cycles: u64| cycles * u64::from(width);
        let late_for = std::mem::replace(&mut self.late_for, Stall::FrontEnd);
        let (late, to_blame) = if delivered + 1 >= target {
            (late_for, self.instr)
        } else if at_least >= target {
            (held_by, to_blame)
        } else {
            (Stall::Other, self.instr)
        };
        if gate > first {
            // Whatever the oldest µop waits for keeps those behind it in the schedulers, too; when it
            // has retired, it is the next one.
            let (mut from, mut lost) = (first, lost);
            while from < gate {
                let (cause, oldest, retires) = r.retirement.oldest(from);
                let until = retires.clamp(from + 1, gate);
                let slots = lost + whole(until - from);
                self.lose(slots, cause.stall(), oldest, r.slot_count);
                (from, lost) = (until, 0);
            }
            self.lose(whole(target - gate), late, to_blame, r.slot_count);
        } else {
            // It came just in time for the new cycle: the old one ended for lack of it.
            self.lose(lost + whole(target - gate), late, to_blame, r.slot_count);
        }
        // What a cycle could not hold of the slots that an overflow takes is the next one's.
        self.slots = self.slots.saturating_sub(width);
        self.counted = 0;
        self.taken = Taken::NONE;
        self.synchronised = false;
        self.limit = width;
    }

    /// Slots were lost while `instr` was waited for.
    #[inline]
    fn lose(&mut self, slots: u64, why: Stall, instr: u32, count: &mut SlotCount) {
        if slots == 0 {
            return;
        }
        count.lose(slots, why);
        let instr = match why {
            Stall::BadSpeculation => self.before,
            _ => instr,
        };
        self.losses.push(Loss { instr, slots, why });
    }

    /// Lets cycles pass until no scheduler is full; returns the one in which that is so.
    #[inline(never)]
    fn wait_for_schedulers(&mut self, ports: &mut Ports) -> u64 {
        while ports.schedulers().full(self.width) {
            self.cycle += 1;
            ports.step_to(self.cycle);
        }
        self.cycle
    }

    /// Lets cycles pass in which nothing issues.
    #[inline(never)]
    fn idle_to(&mut self, cycle: u64, ports: &mut Ports) {
        ports.step_to(cycle);
        self.cycle = cycle;
    }
}

impl Part for Issue {
    fn reset(&mut self, _: &Moment) {
        *self = Self::new(self.width, self.most_counted);
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            width: _,
            most_counted: _,
            counted,
            taken,
            synchronised,
            cycle: _,
            slots,
            limit,
            blocked_until,
            // It says only how lost slots are called.
            late_for: _,
            blocked_for: _,
            // They say only whose slots were lost.
            instr: _,
            before: _,
            losses: _,
        } = self;
        h.add(u64::from(*counted) << 32 | u64::from(*slots) << 1 | u64::from(*limit == 0));
        h.add(taken.bits());
        h.add(u64::from(*synchronised));
        h.add_future(*blocked_until, at.issue);
    }
}
