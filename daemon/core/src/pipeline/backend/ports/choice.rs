//! Which of a µop's ports it is assigned to, at issue.
//!
//! The rules of Intel's cores are those that Abel & Reineke found (ICS 2022, section 4.1.2 and their
//! public code): they look at how many µops are assigned to each port and not yet dispatched, as
//! counted at the start of the issue cycle (a dispatch is seen one cycle later).

use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{MAX_PORTS, PortChoice, PortLayout, PortSet};

const PORT_MASK: usize = MAX_PORTS - 1;
/// Bits that a port's number takes in a key by which ports are ordered.
const PORT_BITS: u32 = MAX_PORTS.trailing_zeros();
/// The highest port in such a key.
const LAST: u32 = MAX_PORTS as u32 - 1;

/// µops by port, in halves: most cores have no port in the second one.
type Usage = [[u16; HALF]; 2];

const HALF: usize = MAX_PORTS / 2;

#[inline(always)]
fn used(usage: &Usage, port: u32) -> u16 {
    usage.as_flattened()[port as usize & PORT_MASK]
}

#[inline(always)]
fn used_mut(usage: &mut Usage, port: u8) -> &mut u16 {
    &mut usage.as_flattened_mut()[usize::from(port) & PORT_MASK]
}

/// A multiple of every number of ports up to 16.
const MANY_TURNS: u32 = 720_720;

/// The order in which µops of one cycle that may use the same ports take them
/// ([`PortChoice::Ordered`], [`PortChoice::OrderedBySlot`]).
#[derive(Clone, Copy)]
struct Order {
    ports: PortSet,
    /// µops so far.
    taken: u8,
    /// How many of `order` may be taken.
    eligible: u8,
    /// Ports, least used first.
    order: [u8; MAX_PORTS],
}

/// Ports that are taken in turn.
#[derive(Clone, Copy)]
struct Turn {
    ports: PortSet,
    count: u8,
    /// Which of them is next.
    next: u8,
}

/// Assigns ports.
pub struct Chooser {
    choice: PortChoice,
    alu: PortSet,
    /// Number of ports.
    count: usize,
    /// Ports that nothing is assigned to.
    unbound: u32,
    /// There are ports in the second half.
    many: bool,
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
        Self {
            choice: layout.choice,
            alu: layout.alu,
            count: layout.count().min(MAX_PORTS),
            unbound: layout.unbound.0,
            many: layout.count() > HALF,
            now: Usage::default(),
            at_start: Usage::default(),
            before: Usage::default(),
            orders: Vec::with_capacity(16),
            turns: (layout.in_turn.iter())
                .map(|&ports| Turn {
                    ports,
                    count: ports.len() as u8,
                    next: 0,
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
            *used_mut(&mut self.now, port) -= 1;
        }
    }

    /// An issue cycle ends and the next one begins. One µop on each of `ports` was dispatched in the
    /// cycle before the one that ends.
    #[inline]
    pub fn next_cycle(&mut self, ports: u32) {
        let ports = ports & !self.unbound;
        self.next_cycle_of(0, ports);
        if self.many {
            self.next_cycle_of(1, ports >> HALF);
        }
        self.orders.clear();
    }

    #[inline(always)]
    fn next_cycle_of(&mut self, half: usize, ports: u32) {
        // Many ports at once: which ones dispatch cannot be foreseen.
        for (port, used) in self.now[half].iter_mut().enumerate() {
            *used = used.wrapping_sub(u16::from(ports as u16 & (1 << port) != 0));
        }
        self.before[half] = self.at_start[half];
        self.at_start[half] = self.now[half];
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
        *used_mut(&mut self.now, port) += 1;
        port
    }

    #[inline(never)]
    fn of_several(&mut self, ports: PortSet, slot: u32) -> u8 {
        if matches!(self.choice, PortChoice::InTurn | PortChoice::Scattered) {
            return self.regardless(ports);
        }
        if ports.0 & !self.in_turn == 0
            && let Some(turn) = self.turns.iter_mut().find(|turn| turn.ports == ports)
        {
            let next = turn.next + 1;
            let port = nth_port(ports, u32::from(turn.next));
            turn.next = if next < turn.count { next } else { 0 };
            return port;
        }
        match self.choice {
            PortChoice::LeastOrSecond => self.least_or_second(ports, slot),
            PortChoice::LeastUsed | PortChoice::InTurn | PortChoice::Scattered => {
                self.least_used(ports)
            }
            PortChoice::Ordered | PortChoice::OrderedBySlot => self.ordered(ports, slot),
            PortChoice::LeastOrMost => self.least_or_most(ports, slot),
        }
    }

    /// A port that does not depend on the use of any.
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

    fn least_used(&mut self, ports: PortSet) -> u8 {
        let last = self.rotation;
        let key = |port: u32| {
            let used = used(&self.now, port);
            let behind = port.wrapping_sub(last + 1) % MAX_PORTS as u32;
            u32::from(used) << PORT_BITS | behind
        };
        let port = ports.iter().map(u32::from).min_by_key(|port| key(*port));
        self.rotation = port.unwrap_or(0);
        self.rotation as u8
    }

    #[inline]
    fn least_or_second(&self, ports: PortSet, slot: u32) -> u8 {
        // Of equally used ports the higher one comes first.
        let (mut first, mut second) = (u32::MAX, u32::MAX);
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = used(&self.at_start, port);
            let key = u32::from(used) << PORT_BITS | (LAST - port);
            second = second.min(first.max(key));
            first = first.min(key);
        }
        let port = |key: u32| (LAST - (key & LAST)) as u8;
        if slot.is_multiple_of(2) || second >> PORT_BITS >= (first >> PORT_BITS) + 3 {
            port(first)
        } else {
            port(second)
        }
    }

    fn ordered(&mut self, ports: PortSet, slot: u32) -> u8 {
        let place = match self.orders.iter().position(|o| o.ports == ports) {
            Some(place) => place,
            None => {
                let order = self.order(ports);
                self.orders.push(order);
                self.orders.len() - 1
            }
        };
        let choice = self.choice;
        let order = &mut self.orders[place];
        let earlier = order.taken;
        order.taken += 1;
        let place = match (choice, slot) {
            (PortChoice::OrderedBySlot, _) => slot as u8 % order.eligible,
            (_, 4) => 0,
            (_, 3) if earlier == 0 && order.eligible > 1 => 1,
            _ => earlier % order.eligible,
        };
        order.order[usize::from(place) & PORT_MASK]
    }

    /// The order of `ports` in the current cycle.
    fn order(&self, ports: PortSet) -> Order {
        let mut keys = [u32::MAX; MAX_PORTS];
        let mut n = 0;
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = used(&self.before, port);
            let key = u32::from(used) << PORT_BITS | (LAST - port);
            // Insertion: these are few.
            let mut at = n;
            while at > 0 && keys[at - 1] > key {
                keys[at] = keys[at - 1];
                at -= 1;
            }
            keys[at] = key;
            n += 1;
        }
        let least = keys[0] >> PORT_BITS;
        let mut order = [0; MAX_PORTS];
        let mut eligible = 0;
        for (place, key) in order.iter_mut().zip(&keys[..n]) {
            *place = (LAST - (key & LAST)) as u8;
            eligible += u8::from(key >> PORT_BITS < least + 5);
        }
        Order {
            ports,
            taken: 0,
            eligible,
            order,
        }
    }

    fn least_or_most(&self, ports: PortSet, slot: u32) -> u8 {
        // Of equally used ports the lower one comes first, the higher one last.
        let mut least = u32::MAX;
        let mut most = 0;
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = used(&self.at_start, port);
            let key = u32::from(used) << PORT_BITS | port;
            least = least.min(key);
            most = most.max(key);
        }
        let first = (least & LAST) as u8;
        if (most >> PORT_BITS) - (least >> PORT_BITS) >= 3 {
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
            (most & LAST) as u8
        }
    }
}

impl Part for Chooser {
    fn reset(&mut self, _: &Moment) {
        let Self {
            choice: _,
            alu: _,
            count: _,
            unbound: _,
            many: _,
            now,
            at_start,
            before,
            orders,
            turns,
            in_turn: _,
            rotation,
        } = self;
        for usage in [now, at_start, before] {
            *usage = Usage::default();
        }
        orders.clear();
        for turn in turns {
            turn.next = 0;
        }
        *rotation = 0;
    }

    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            choice: _,
            alu: _,
            count,
            unbound: _,
            many: _,
            now,
            at_start,
            before,
            orders,
            turns,
            in_turn: _,
            rotation,
        } = self;
        for usage in [now, at_start, before] {
            h.add_distances(
                usage
                    .as_flattened()
                    .iter()
                    .take(*count)
                    .map(|n| u64::from(*n)),
            );
        }
        for order in orders {
            h.add(u64::from(order.ports.0) << 8 | u64::from(order.taken));
        }
        h.add(
            turns
                .iter()
                .fold(0, |all, turn| all << 8 | u64::from(turn.next)),
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
