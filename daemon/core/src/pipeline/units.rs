//! The units of a CPU as LLVM's scheduling model has them: which are free in a cycle, and which of
//! several an instruction takes.
//!
//! Time stamps: each unit has the cycle from which on it is free. The rules of choice are llvm-mca's
//! (`lib/MCA/HardwareUnits/ResourceManager.cpp`): of a group or of several alike the highest of
//! those that have not had their turn, where units taken by way of other groups count as having had
//! it. Callers come in the order of time.

use mcad_isa::llvm::sched::{Cost, Machine, Taken};

/// Whose turn it is among the units of a group, or among several alike.
#[derive(Clone, Copy, Debug)]
struct Turn {
    all: u64,
    next: u64,
    removed: u64,
}

impl Turn {
    const fn new(all: u64) -> Self {
        Self {
            all,
            next: all,
            removed: 0,
        }
    }

    /// One of those that are free.
    fn choose(&mut self, free: u64) -> u64 {
        if free & self.next == 0 {
            self.next = self.all ^ self.removed;
            self.removed = 0;
            if free & self.next == 0 {
                self.next = self.all;
            }
        }
        let candidates = free & self.next;
        let chosen = 1u64 << candidates.checked_ilog2().unwrap_or(0);
        self.next &= chosen | (chosen - 1);
        chosen
    }

    /// One was taken.
    fn used(&mut self, one: u64) {
        if one > self.next {
            self.removed |= one;
            return;
        }
        self.next &= !one;
        if self.next == 0 {
            self.next = self.all ^ self.removed;
            self.removed = 0;
        }
    }
}

/// State of a resource.
#[derive(Clone, Debug)]
struct State {
    group: bool,
    /// Of a group its members by place; else its units.
    units: u64,
    /// By unit: the cycle from which on it is free; of a group nothing.
    free: Vec<u64>,
    /// The whole group is taken until then.
    reserved: u64,
    /// Groups that it is in, by place.
    groups: u64,
    turn: Turn,
    /// It has no buffer: what is dispatched to it holds up dispatch.
    hazard: bool,
    /// The port of its first unit.
    port: Option<u8>,
}

/// All units.
#[derive(Clone, Debug)]
pub struct Units {
    states: Vec<State>,
}

/// The bits of a word, lowest first.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            bit
        })
    })
}

impl Units {
    /// All units of a CPU, free.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let groups_of = |place: usize| {
            let all = machine.resources.iter().enumerate();
            all.filter(|(n, r)| r.is_group() && *n != place && r.units >> place & 1 == 1)
                .fold(0, |groups, (n, _)| groups | 1 << n)
        };
        let states = machine.resources.iter().enumerate().map(|(n, r)| State {
            group: r.is_group(),
            units: r.units,
            free: match r.is_group() {
                true => Vec::new(),
                false => vec![0; r.units.count_ones() as usize],
            },
            reserved: 0,
            groups: groups_of(n),
            turn: Turn::new(r.units),
            hazard: r.buffer == 0,
            port: r.port,
        });
        Self {
            states: states.collect(),
        }
    }

    /// All are free again.
    pub fn reset(&mut self) {
        for state in &mut self.states {
            state.free.fill(0);
            state.reserved = 0;
            state.turn = Turn::new(state.units);
        }
    }

    /// The free units of a resource, or the members of a group that have free units.
    #[inline]
    fn free(&self, place: usize, now: u64) -> u64 {
        let Some(state) = self.states.get(place) else {
            return 0;
        };
        if state.group {
            let with_units = bits(state.units).filter(|member| self.free(*member, now) != 0);
            return with_units.fold(0, |all, member| all | 1 << member);
        }
        let free = state.free.iter().enumerate().filter(|(_, at)| **at <= now);
        free.fold(0, |all, (n, _)| all | 1 << n)
    }

    /// Whether an instruction finds all it takes in this cycle.
    #[must_use]
    pub fn available(&self, cost: &Cost, now: u64) -> bool {
        for taken in &cost.taken {
            let place = usize::from(taken.resource);
            let Some(state) = self.states.get(place) else {
                continue;
            };
            let units = if taken.reserved { 0 } else { taken.units };
            let open = state.reserved <= now || state.hazard;
            if !open || self.free(place, now).count_ones() < units {
                return false;
            }
        }
        let reserved = |place: usize| self.states.get(place).is_some_and(|s| s.reserved > now);
        if bits(cost.groups).any(reserved) {
            return false;
        }
        !cost.overlapping || self.groups_have_units(cost, now)
    }

    /// Whether groups that share units find one each.
    fn groups_have_units(&self, cost: &Cost, now: u64) -> bool {
        let mut left: Vec<(usize, u32)> = Vec::new();
        let mut consumed = 0u64;
        let single = |taken: &&Taken| {
            let state = self.states.get(usize::from(taken.resource));
            state.is_some_and(|state| !state.group)
        };
        for taken in cost.taken.iter().filter(single) {
            let place = usize::from(taken.resource);
            let free = self.free(place, now).count_ones();
            let free = free.saturating_sub(taken.units);
            left.push((place, free));
            consumed |= if free == 0 { 1 << place } else { 0 };
        }
        for taken in cost.taken.iter().filter(|t| !t.reserved && !single(t)) {
            let ready = self.free(usize::from(taken.resource), now) & !consumed;
            let Some(member) = ready.checked_ilog2() else {
                return false;
            };
            let member = member as usize;
            let at = left.iter().position(|(place, _)| *place == member);
            let at = at.unwrap_or_else(|| {
                left.push((member, self.free(member, now).count_ones()));
                left.len() - 1
            });
            let Some((_, units)) = left.get_mut(at).filter(|(_, units)| *units > 0) else {
                return false;
            };
            *units -= 1;
            consumed |= if *units == 0 { 1 << member } else { 0 };
        }
        true
    }

    /// The first cycle from `now` on in which an instruction finds all it takes.
    #[must_use]
    pub fn when(&self, cost: &Cost, now: u64) -> u64 {
        let mut at = now;
        while !self.available(cost, at) {
            at += 1;
        }
        at
    }

    /// Takes what an instruction needs; gives the first port among it.
    pub fn take(&mut self, cost: &Cost, now: u64) -> Option<u8> {
        let mut port = None;
        if !cost.overlapping {
            for taken in &cost.taken {
                let taken = self.take_one(taken, now);
                port = port.or(taken);
            }
            return port;
        }
        let mut waiting: Vec<Taken> = Vec::new();
        for taken in &cost.taken {
            let place = usize::from(taken.resource);
            let group = self.states.get(place).is_some_and(|state| state.group);
            if !taken.reserved && group && self.free(place, now).count_ones() > 1 {
                waiting.push(*taken);
            } else {
                let taken = self.take_one(taken, now);
                port = port.or(taken);
            }
        }
        // Groups with less choice first.
        while !waiting.is_empty() {
            let choice = |taken: &Taken| self.free(usize::from(taken.resource), now).count_ones();
            waiting.sort_by_key(|taken| (choice(taken), taken.resource));
            let mut later = Vec::new();
            for (n, taken) in waiting.iter().enumerate() {
                let choice = self.free(usize::from(taken.resource), now).count_ones();
                if n == 0 || choice == 1 {
                    let taken = self.take_one(taken, now);
                    port = port.or(taken);
                } else {
                    later.push(*taken);
                }
            }
            waiting = later;
        }
        port
    }

    fn take_one(&mut self, taken: &Taken, now: u64) -> Option<u8> {
        let place = usize::from(taken.resource);
        let until = now + u64::from(taken.cycles);
        if taken.reserved {
            if let Some(state) = self.states.get_mut(place) {
                state.reserved = until;
            }
            return None;
        }
        let mut place = place;
        if self.states.get(place).is_some_and(|state| state.group) {
            let free = self.free(place, now);
            let state = self.states.get_mut(place)?;
            place = state.turn.choose(free).trailing_zeros() as usize;
        }
        let free = self.free(place, now);
        let state = self.states.get_mut(place)?;
        let unit = match state.free.len() {
            1 => 1,
            _ => state.turn.choose(free),
        };
        if let Some(at) = state.free.get_mut(unit.trailing_zeros() as usize) {
            *at = until;
        }
        if state.free.len() > 1 {
            state.turn.used(unit);
        }
        let port = (state.port).map(|first| first + unit.trailing_zeros() as u8);
        let (groups, full) = (state.groups, free & !unit == 0);
        if full {
            for group in bits(groups) {
                if let Some(state) = self.states.get_mut(group) {
                    state.turn.used(1 << place);
                }
            }
        }
        port
    }
}
