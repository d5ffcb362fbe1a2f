//! Which of a µop's ports it is assigned to, at issue.
//!
//! The rules of Intel's cores are those that Abel & Reineke found (ICS 2022, section 4.1.2 and their
//! public code): they look at how many µops are assigned to each port and not yet dispatched, as
//! counted at the start of the issue cycle (a dispatch is seen one cycle later).

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{MAX_PORTS, PortChoice, PortLayout, PortSet};

mod usage;

use usage::{Usage, VECTORS};

/// The highest rank of a port.
const LAST: u8 = MAX_PORTS as u8 - 1;
/// µops that a port may have more than the least used one and still be chosen
/// ([`PortChoice::Ordered`], [`PortChoice::OrderedBySlot`]).
const ELIGIBLE: u16 = 5;

/// A multiple of every number of ports up to 16.
const MANY_TURNS: u32 = 720_720;

/// How many µops of one cycle have taken one of the same ports ([`PortChoice::Ordered`]).
#[derive(Clone, Copy)]
struct Order {
    ports: PortSet,
    taken: u8,
}

/// Ports that are taken in turn.
#[derive(Clone, Copy)]
struct Turn {
    ports: PortSet,
    /// Those of them whose turn has not come since the lowest one's.
    left: u32,
}

impl Turn {
    #[inline(always)]
    fn next(&mut self) -> u8 {
        let port = self.left.trailing_zeros() as u8;
        self.left &= self.left.wrapping_sub(1);
        if self.left == 0 {
            self.left = self.ports.0;
        }
        port
    }

    /// How many of them have had their turn since.
    fn taken(&self) -> u32 {
        self.ports.0.count_ones() - self.left.count_ones()
    }
}

/// Assigns ports.
pub struct Chooser {
    choice: PortChoice,
    alu: PortSet,
    /// Number of ports.
    count: usize,
    /// Ports that nothing is assigned to.
    unbound: u32,
    /// Vectors of ports that there are.
    vectors: usize,
    /// Whether the choice looks at most at what is assigned now, so that what was before need not be
    /// kept.
    looks_at_now: bool,
    /// µops assigned and not dispatched: now, at the start of the issue cycle and of the one before.
    now: Usage,
    at_start: Usage,
    before: Usage,
    orders: Vec<Order>,
    turns: Vec<Turn>,
    /// All ports that are taken in turn.
    in_turn: u32,
    rotation: u32,
}

impl Chooser {
    /// Nothing is assigned.
    pub fn new(layout: &PortLayout) -> Self {
        let count = layout.count().min(MAX_PORTS);
        let usage = idle(layout.choice);
        Self {
            choice: layout.choice,
            alu: layout.alu,
            count,
            unbound: layout.unbound.with(layout.oldest_first).0,
            looks_at_now: matches!(
                layout.choice,
                PortChoice::InTurn | PortChoice::Scattered | PortChoice::LeastUsed
            ),
            vectors: count.div_ceil(MAX_PORTS / VECTORS).min(VECTORS),
            now: usage,
            at_start: usage,
            before: usage,
            orders: Vec::with_capacity(16),
            turns: (layout.in_turn.iter())
                .map(|&ports| Turn {
                    ports,
                    left: ports.0,
                })
                .collect(),
            in_turn: layout.in_turn.iter().fold(0, |all, ports| all | ports.0),
            rotation: 0,
        }
    }

    /// One µop that was assigned to `port` is no longer.
    #[inline]
    pub fn release(&mut self, port: u8) {
        if self.unbound & (1 << port) == 0 {
            self.now.remove(port);
        }
    }

    /// An issue cycle ends and the next one begins. One µop on each of `ports` was dispatched in the
    /// cycle before the one that ends.
    #[inline(always)]
    pub fn next_cycle(&mut self, ports: u32) {
        if !self.looks_at_now {
            self.before.copy(&self.at_start, self.vectors);
        }
        self.pass_cycle(ports);
        if !self.looks_at_now {
            self.at_start.copy(&self.now, self.vectors);
            self.orders.clear();
        }
    }

    /// The same where no µop issues in this cycle nor in the next two, so that nobody asks for more
    /// than what is assigned.
    #[inline(always)]
    pub fn pass_cycle(&mut self, ports: u32) {
        self.now.remove_each(ports & !self.unbound, self.vectors);
    }

    /// Chooses the port of a µop that issues in `slot` of the current cycle.
    #[inline(always)]
    pub fn choose(&mut self, ports: PortSet, slot: u32) -> u8 {
        if self.unbound & ports.0 != 0 {
            return ports.0.trailing_zeros() as u8;
        }
        let port = match ports.0.is_power_of_two() {
            true => ports.0.trailing_zeros() as u8,
            false => self.of_several(ports, slot),
        };
        self.now.add(port);
        port
    }

    #[inline]
    fn of_several(&mut self, ports: PortSet, slot: u32) -> u8 {
        if ports.0 & !self.in_turn == 0
            && let Some(turn) = self.turns.iter_mut().find(|turn| turn.ports == ports)
        {
            return turn.next();
        }
        match usage::vectors_of(ports) {
            1 => self.by_use::<1>(ports, slot),
            2 => self.by_use::<2>(ports, slot),
            _ => self.by_use::<VECTORS>(ports, slot),
        }
    }

    /// A port by the choice's rule, of those in so many vectors.
    #[inline(never)]
    fn by_use<const N: usize>(&mut self, ports: PortSet, slot: u32) -> u8 {
        match self.choice {
            PortChoice::LeastOrSecond => self.least_or_second::<N>(ports, slot),
            PortChoice::LeastUsed => self.least_used(ports),
            PortChoice::InTurn | PortChoice::Scattered => self.regardless(ports),
            PortChoice::Ordered => self.ordered::<N>(ports, slot),
            PortChoice::OrderedBySlot => self.by_slot::<N>(ports, slot),
            PortChoice::LeastOrMost => self.least_or_most::<N>(ports, slot),
        }
    }

    /// A port that does not depend on the use of any.
    #[inline(never)]
    fn regardless(&mut self, ports: PortSet) -> u8 {
        let count = ports.len().max(1);
        let n = if self.choice == PortChoice::Scattered {
            // Knuth, "The Art of Computer Programming", volume 2, section 3.3.4, table 1.
            self.rotation = self
                .rotation
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            ((self.rotation >> 16) * count) >> 16
        } else {
            self.rotation = (self.rotation + 1) % MANY_TURNS;
            self.rotation % count
        };
        nth_port(ports, n)
    }

    /// The least used port; of equally used ones the next after the last one that was chosen so.
    #[inline(never)]
    fn least_used(&mut self, ports: PortSet) -> u8 {
        let next = self.rotation + 1;
        let behind = |port: u32| port.wrapping_sub(next) % MAX_PORTS as u32;
        let key = |port: &u8| (self.now.of(*port), behind(u32::from(*port)));
        let port = ports.iter().min_by_key(key).unwrap_or(0);
        self.rotation = u32::from(port);
        port
    }

    #[inline(never)]
    fn least_or_second<const N: usize>(&self, ports: PortSet, slot: u32) -> u8 {
        // Of equally used ports the higher one comes first.
        let keys = self.at_start.keys::<N>(ports);
        let first = keys.least();
        if slot.is_multiple_of(2) {
            return LAST - first.rank();
        }
        let second = keys.without(first).least();
        let far = second.used() >= first.used() + 3;
        LAST - if far { first } else { second }.rank()
    }

    #[inline(never)]
    fn ordered<const N: usize>(&mut self, ports: PortSet, slot: u32) -> u8 {
        let orders = &mut self.orders;
        let place = orders.iter().position(|o| o.ports == ports);
        let place = place.unwrap_or_else(|| {
            orders.push(Order { ports, taken: 0 });
            orders.len() - 1
        });
        let earlier = orders[place].taken;
        orders[place].taken += 1;
        self.in_order::<N>(ports, |eligible| match slot {
            4 => 0,
            3 if earlier == 0 && eligible > 1 => 1,
            _ => earlier % eligible,
        })
    }

    #[inline(never)]
    fn by_slot<const N: usize>(&self, ports: PortSet, slot: u32) -> u8 {
        self.in_order::<N>(ports, |eligible| slot as u8 % eligible)
    }

    /// The port in the place that is chosen of those that are eligible, least used first.
    #[inline(always)]
    fn in_order<const N: usize>(&self, ports: PortSet, place: impl FnOnce(u8) -> u8) -> u8 {
        // Of equally used ports the higher one comes first.
        let mut keys = self.before.keys::<N>(ports);
        let mut key = keys.least();
        let eligible = keys.close_to(key, ELIGIBLE).max(1);
        for _ in 0..place(eligible) {
            keys = keys.without(key);
            key = keys.least();
        }
        LAST - key.rank()
    }

    #[inline(never)]
    fn least_or_most<const N: usize>(&self, ports: PortSet, slot: u32) -> u8 {
        // Of equally used ports the lower one comes first, the higher one last.
        let keys = self.at_start.keys::<N>(ports);
        let (least, most) = (keys.least(), keys.most());
        let first = least.rank();
        if most.used() - least.used() >= 3 {
            first
        } else if ports == self.alu && ports.len() == 3 {
            // Lowest, middle and highest port by issue slot, beginning with the least used.
            let order = match (ports.0 & ((1 << first) - 1)).count_ones() {
                0 => [0, 2, 1, 0],
                1 => [1, 2, 0, 1],
                _ => [2, 1, 0, 2],
            };
            nth_port(ports, order[(slot & 3) as usize])
        } else if slot.is_multiple_of(2) {
            first
        } else {
            most.rank()
        }
    }
}

/// No µops, with the ranks that a choice needs.
fn idle(choice: PortChoice) -> Usage {
    match choice {
        PortChoice::LeastOrMost => Usage::new(|port| port),
        _ => Usage::new(|port| LAST - port),
    }
}

impl Part for Chooser {
    fn reset(&mut self, _: &Moment) {
        let Self {
            choice,
            alu: _,
            count: _,
            unbound: _,
            vectors: _,
            looks_at_now: _,
            now,
            at_start,
            before,
            orders,
            turns,
            in_turn: _,
            rotation,
        } = self;
        for usage in [now, at_start, before] {
            *usage = idle(*choice);
        }
        orders.clear();
        for turn in turns {
            turn.left = turn.ports.0;
        }
        *rotation = 0;
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            choice: _,
            alu: _,
            count,
            unbound: _,
            vectors: _,
            looks_at_now: _,
            now,
            at_start,
            before,
            orders,
            turns,
            in_turn: _,
            rotation,
        } = self;
        for usage in [now, at_start, before] {
            h.add_distances(usage.counts().take(*count).map(u64::from));
        }
        for order in orders {
            h.add(u64::from(order.ports.0) << 8 | u64::from(order.taken));
        }
        h.add(
            turns
                .iter()
                .fold(0, |all, turn| all << 8 | u64::from(turn.taken())),
        );
        h.add(u64::from(*rotation));
    }
}

#[inline]
fn nth_port(ports: PortSet, n: u32) -> u8 {
    let mut rest = ports.0;
    for _ in 0..n {
        rest &= rest - 1;
    }
    rest.trailing_zeros() as u8
}
