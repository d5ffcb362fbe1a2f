//! Ports: choice at issue, and the calendar of who dispatches where and when.
//!
//! The choice follows the rules that Abel & Reineke found (ICS 2022, section 4.1.2 and their
//! public code): it looks at how many µops are assigned to each port and not yet dispatched, as
//! counted at the start of the issue cycle (a dispatch is seen one cycle later). The calendar
//! keeps one bit per port and cycle; a µop takes the first free cycle of its port at or after the
//! one in which it is ready, which is oldest-first selection because µops come in program order.

use super::scheduler::Schedulers;
use crate::pipeline::access::Line;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Core, MAX_PORTS, MIN_BANK_BYTES, PortChoice, PortSet};

/// Cycles that the calendar looks ahead of the issue cycle.
const WINDOW: u64 = 1 << 14;
const MASK: u64 = WINDOW - 1;
/// Longest distance of a dispatch from the issue cycle.
const HORIZON: u64 = WINDOW - 128;

const PORT_MASK: usize = MAX_PORTS - 1;
/// Bits that a port's number takes in a key by which ports are ordered.
const PORT_BITS: u32 = MAX_PORTS.trailing_zeros();

/// 64 cycles of the calendar make a word.
const WORDS: usize = (WINDOW / 64) as usize;

type Usage = [u16; MAX_PORTS];

/// Dispatches of one cycle.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Ports on which a µop starts.
    ports: u32,
    /// Number of these ports.
    started: u16,
    /// Port that the µop was assigned to which starts on the first divider's port, plus 1.
    divider: u8,
    /// [`A_LOAD`], [`A_WIDE_LOAD`].
    loads: u8,
    /// Where loads conflict in banks: those that loads take, one bit each: any, and as many as may.
    banks: [u16; 2],
}

/// A load starts in a cycle.
const A_LOAD: u8 = 1;
/// A wide load starts in a cycle.
const A_WIDE_LOAD: u8 = 2;

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

/// A unit that takes the next µop only when it has done with the one before.
struct Divider {
    /// Port on which its µops start.
    port: u8,
    free: u64,
    /// Cycles in which it is taken, from and to.
    taken: Vec<(u64, u64)>,
}

/// Ports of one core.
pub struct Ports {
    choice: PortChoice,
    /// Number of ports.
    count: usize,
    alu: PortSet,
    store_data: PortSet,
    slow_256: bool,
    loads_per_bank: u32,
    bank_shift: u32,
    /// Issue cycle.
    cycle: u64,
    slots: Box<[Slot; WINDOW as usize]>,
    /// By word and port: cycles that are taken.
    busy: Box<[[u64; MAX_PORTS]; WORDS]>,
    /// Line of the store data that starts in a cycle, where stores of one cycle must share it.
    lines: Box<[Line]>,
    now: Usage,
    at_start: Usage,
    before: Usage,
    schedulers: Schedulers,
    orders: Vec<Order>,
    turns: Vec<Turn>,
    rotation: u32,
    dividers: Vec<Divider>,
    /// µops executed per port.
    pub executed: [u64; MAX_PORTS],
    /// Dispatches cut to the calendar's window.
    pub clamped: u64,
}

/// What the calendar must know of a µop.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Port assigned at issue.
    pub port: u8,
    /// First cycle in which it could start.
    pub ready: u64,
    /// Cycles that it keeps the divider.
    pub divider: u16,
    /// A load.
    pub load: bool,
    /// Accesses 256 bits or more.
    pub wide: bool,
    /// Line that store data goes to.
    pub store_line: Option<Line>,
    /// Place of a load in its line and its size, when they are known.
    pub in_line: Option<(u8, u16)>,
}

impl Ports {
    /// Idle ports.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let (layout, p) = (&core.ports, &core.execute);
        Self {
            choice: layout.choice,
            count: layout.count().min(MAX_PORTS),
            alu: layout.alu,
            store_data: layout.store_data,
            slow_256: p.slow_256,
            loads_per_bank: p.loads_per_bank,
            bank_shift: p.bank_bytes.max(MIN_BANK_BYTES).trailing_zeros(),
            cycle: 0,
            slots: boxed(Slot::default()),
            busy: boxed([0; MAX_PORTS]),
            lines: if p.paired_stores {
                vec![Line::default(); WINDOW as usize].into()
            } else {
                Box::default()
            },
            now: [0; MAX_PORTS],
            at_start: [0; MAX_PORTS],
            before: [0; MAX_PORTS],
            schedulers: Schedulers::new(core),
            orders: Vec::with_capacity(16),
            turns: (layout.in_turn.iter())
                .map(|&ports| Turn {
                    ports,
                    count: ports.len() as u8,
                    next: 0,
                })
                .collect(),
            rotation: 0,
            dividers: (layout.divider.iter())
                .map(|port| Divider {
                    port,
                    free: 0,
                    taken: Vec::new(),
                })
                .collect(),
            executed: [0; MAX_PORTS],
            clamped: 0,
        }
    }

    /// What the schedulers hold of what has issued before the current cycle.
    #[inline]
    #[must_use]
    pub fn schedulers(&self) -> &Schedulers {
        &self.schedulers
    }

    /// Moves the issue cycle on by one.
    #[inline]
    pub fn step(&mut self) {
        self.before = self.at_start;
        let behind = (self.cycle.wrapping_sub(1) & MASK) as usize;
        let slot = std::mem::take(&mut self.slots[behind]);
        let mut ports = slot.ports;
        if slot.divider != 0 {
            self.now[usize::from(slot.divider - 1) & PORT_MASK] -= 1;
            ports &= !(1 << self.first_divider());
        }
        // Many ports at once: which ones dispatch cannot be foreseen.
        let (low, high) = self.now.split_at_mut(MAX_PORTS / 2);
        let halves = [(low, ports as u16), (high, (ports >> 16) as u16)];
        let used = if self.count > MAX_PORTS / 2 { 2 } else { 1 };
        for (half, ports) in halves.into_iter().take(used) {
            for (port, used) in half.iter_mut().enumerate() {
                *used = used.wrapping_sub(u16::from(ports & (1 << port) != 0));
            }
        }
        self.at_start = self.now;
        let starting = self.slots[(self.cycle & MASK) as usize];
        self.schedulers
            .step(self.cycle, starting.ports, starting.started);
        self.cycle += 1;
        if self.cycle & 63 == 0 {
            // The 64 cycles behind are never asked for again.
            self.busy[((self.cycle - 64) & MASK) as usize / 64] = [0; MAX_PORTS];
        }
        self.orders.clear();
    }

    /// Chooses the port of a µop that issues in `slot` of the current cycle.
    #[inline]
    pub fn choose(&mut self, ports: PortSet, slot: u32) -> u8 {
        let port = if ports.0.is_power_of_two() {
            ports.0.trailing_zeros() as u8
        } else if self.choice == PortChoice::InTurn {
            self.rotation = self.rotation.wrapping_add(1);
            nth_port(ports, self.rotation % ports.len().max(1))
        } else if let Some(turn) = self.turns.iter_mut().find(|turn| turn.ports == ports) {
            let next = turn.next + 1;
            let port = nth_port(ports, u32::from(turn.next));
            turn.next = if next < turn.count { next } else { 0 };
            port
        } else {
            match self.choice {
                PortChoice::LeastOrSecond | PortChoice::InTurn => self.least_or_second(ports, slot),
                PortChoice::Ordered | PortChoice::OrderedBySlot => self.ordered(ports, slot),
                PortChoice::LeastOrMost => self.least_or_most(ports, slot),
            }
        };
        self.now[usize::from(port) & PORT_MASK] += 1;
        self.schedulers.enter(port);
        port
    }

    #[inline]
    fn least_or_second(&self, ports: PortSet, slot: u32) -> u8 {
        // Of equally used ports the higher one comes first.
        const LAST: u32 = MAX_PORTS as u32 - 1;
        let (mut first, mut second) = (u32::MAX, u32::MAX);
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = self.at_start[port as usize & PORT_MASK];
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
        const LAST: u32 = MAX_PORTS as u32 - 1;
        let mut keys = [u32::MAX; MAX_PORTS];
        let mut n = 0;
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = self.before[port as usize & PORT_MASK];
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
        const LAST: u32 = MAX_PORTS as u32 - 1;
        let mut least = u32::MAX;
        let mut most = 0;
        let mut rest = ports.0;
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = self.at_start[port as usize & PORT_MASK];
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

    /// Whether rules beyond the port itself may hold loads up.
    #[inline]
    #[must_use]
    pub fn loads_conflict(&self) -> bool {
        self.slow_256 || self.loads_per_bank > 0
    }

    /// Whether rules beyond the port itself may hold store data up, or others because of it.
    #[inline]
    #[must_use]
    pub fn stores_conflict(&self) -> bool {
        self.slow_256 || !self.lines.is_empty()
    }

    /// Books the first cycle in which a µop can start that nothing but its port holds up.
    #[inline]
    pub fn start(&mut self, port: u8, ready: u64) -> u64 {
        let at = self.first_free(port, ready.max(self.cycle + 1));
        if at >= self.cycle + HORIZON {
            return self.clamp(port, port);
        }
        self.book(port, at);
        at
    }

    #[inline]
    fn book(&mut self, port: u8, at: u64) {
        let place = (at & MASK) as usize;
        let port = usize::from(port) & PORT_MASK;
        let slot = &mut self.slots[place];
        slot.ports |= 1 << port;
        slot.started += 1;
        self.busy[place / 64][port] |= 1 << (at & 63);
        self.executed[port] += 1;
    }

    /// Books the end of the calendar for a µop on `port` that was counted for `counted`.
    #[cold]
    fn clamp(&mut self, port: u8, counted: u8) -> u64 {
        self.clamped += 1;
        let at = self.cycle + HORIZON;
        let slot = &mut self.slots[(at & MASK) as usize];
        if slot.ports & (1 << port) != 0 {
            // The slot stands for two µops, of which it frees one.
            slot.started -= 1;
            self.schedulers.leave(port);
            self.now[usize::from(counted) & PORT_MASK] -= 1;
        }
        self.book(port, at);
        at
    }

    /// Books the first cycle in which a µop can start that takes part in memory accesses or
    /// divides.
    #[inline]
    pub fn dispatch(&mut self, r: Request) -> u64 {
        // A divider's µops start on its port, whichever port they were counted for.
        let divider = self.dividers.iter().position(|d| d.port == r.port);
        let divider = divider.unwrap_or(0);
        let port = match self.dividers.get(divider) {
            Some(divider) if r.divider > 0 => divider.port,
            _ => r.port,
        };
        let horizon = self.cycle + HORIZON;
        let mut at = r.ready.max(self.cycle + 1);
        loop {
            at = self.first_free(port, at);
            if at >= horizon {
                at = self.clamp(port, r.port);
                break;
            }
            if let Some(later) = self.conflict(&r, divider, at) {
                if r.divider == 0 {
                    // The oldest µop of a port does not let younger ones pass.
                    let busy = &mut self.busy[(at & MASK) as usize / 64];
                    busy[usize::from(port) & PORT_MASK] |= 1 << (at & 63);
                }
                at = later;
                continue;
            }
            self.book(port, at);
            break;
        }
        let place = (at & MASK) as usize;
        if r.divider > 0 {
            self.book_divider(divider, at, u64::from(r.divider));
            if port != r.port {
                self.slots[place].divider = r.port + 1;
            }
        }
        if r.load {
            if self.loads_per_bank > 0 {
                let taken = self.banks_of(r.in_line);
                let [any, full] = &mut self.slots[place].banks;
                *full |= if self.loads_per_bank > 1 {
                    *any & taken
                } else {
                    taken
                };
                *any |= taken;
            }
            self.slots[place].loads |= A_LOAD | if r.wide { A_WIDE_LOAD } else { 0 };
        }
        if let Some(line) = r.store_line {
            if let Some(entry) = self.lines.get_mut(place) {
                *entry = line;
            }
            if self.slow_256 && r.wide {
                let next = ((at + 1) & MASK) as usize;
                self.busy[next / 64][usize::from(port) & PORT_MASK] |= 1 << (next & 63);
            }
        }
        at
    }

    /// First cycle at or after `at` in which `port` is free, or one behind the calendar's end.
    #[inline]
    fn first_free(&self, port: u8, mut at: u64) -> u64 {
        let port = usize::from(port) & PORT_MASK;
        let end = self.cycle + HORIZON;
        while at < end {
            let word = self.busy[(at & MASK) as usize / 64][port] >> (at & 63);
            let free = !word;
            if free != 0 {
                let taken = u64::from(free.trailing_zeros());
                if taken < 64 - (at & 63) {
                    return at + taken;
                }
            }
            at = (at | 63) + 1;
        }
        at
    }

    /// Banks that a load takes, one bit each.
    #[inline]
    fn banks_of(&self, in_line: Option<(u8, u16)>) -> u16 {
        let Some((place, size)) = in_line else {
            return 0;
        };
        let first = u32::from(place) >> self.bank_shift;
        let last = ((u32::from(place) + u32::from(size.max(1)) - 1).min(63)) >> self.bank_shift;
        (u16::MAX << first) & (u16::MAX >> (15 - last))
    }

    /// When a rule beyond the port itself forbids cycle `at`: the next cycle to try.
    #[inline]
    fn conflict(&self, r: &Request, divider: usize, at: u64) -> Option<u64> {
        if r.divider > 0 {
            let divider = self.dividers.get(divider)?;
            return divider.conflict(at, u64::from(r.divider));
        }
        let slot = &self.slots[(at & MASK) as usize];
        if let Some(line) = r.store_line
            && !self.lines.is_empty()
        {
            // Two stores in one cycle must go into the same line (Intel: "paired stores").
            let others = self.store_data.0 & !(1 << r.port);
            if slot.ports & others != 0 && !line.same(self.lines[(at & MASK) as usize]) {
                return Some(at + 1);
            }
        }
        if self.loads_per_bank > 0 && r.load && slot.banks[1] & self.banks_of(r.in_line) != 0 {
            return Some(at + 1);
        }
        if self.slow_256 && r.load {
            // A wide load takes the data of all ports.
            let hindering = if r.wide { A_LOAD } else { A_WIDE_LOAD };
            if slot.loads & hindering != 0 {
                return Some(at + 1);
            }
        }
        None
    }

    /// Port of the first divider, where µops start that were counted for another.
    fn first_divider(&self) -> u8 {
        self.dividers.first().map_or(0, |divider| divider.port)
    }

    fn book_divider(&mut self, divider: usize, at: u64, cycles: u64) {
        let now = self.cycle;
        if let Some(divider) = self.dividers.get_mut(divider) {
            divider.taken.retain(|(_, to)| *to > now);
            divider.taken.push((at, at + cycles));
            divider.free = divider.free.max(at + cycles);
        }
    }
}

impl Divider {
    /// When it is taken for some of `cycles` from `at` on: the next cycle to try.
    fn conflict(&self, at: u64, cycles: u64) -> Option<u64> {
        if at >= self.free {
            return None;
        }
        let taken = self.taken.iter();
        taken
            .filter(|(from, to)| at < *to && at + cycles > *from)
            .map(|(_, to)| *to)
            .max()
    }
}

impl Part for Ports {
    fn reset(&mut self, at: &Moment) {
        // Nothing is booked behind the last retirement.
        let end = at.retired;
        let first = self.cycle.saturating_sub(2);
        for at in first..=(end + 2).min(first + WINDOW) {
            self.slots[(at & MASK) as usize] = Slot::default();
        }
        let mut word = first.saturating_sub(128);
        while word <= end.min(first + WINDOW) + 64 {
            self.busy[(word & MASK) as usize / 64] = [0; MAX_PORTS];
            word += 64;
        }
        self.cycle = 0;
        self.now = [0; MAX_PORTS];
        self.at_start = [0; MAX_PORTS];
        self.before = [0; MAX_PORTS];
        self.schedulers.reset(at);
        self.orders.clear();
        for turn in &mut self.turns {
            turn.next = 0;
        }
        self.rotation = 0;
        for divider in &mut self.dividers {
            divider.free = 0;
            divider.taken.clear();
        }
        self.executed = [0; MAX_PORTS];
        self.clamped = 0;
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        // Nothing is booked behind the last retirement.
        let (moment, end) = (at, at.retired);
        for usage in [&self.now, &self.at_start, &self.before] {
            h.add_distances(usage.iter().take(self.count).map(|n| u64::from(*n)));
        }
        self.schedulers.fingerprint(moment, h);
        for order in &self.orders {
            h.add(u64::from(order.ports.0) << 8 | u64::from(order.taken));
        }
        let turns = self.turns.iter();
        h.add(turns.fold(0, |all, turn| all << 8 | u64::from(turn.next)));
        if self.choice == PortChoice::InTurn {
            // The least common multiple of all numbers of ports that a set may have.
            h.add(u64::from(self.rotation % 360_360));
        }
        for divider in &self.dividers {
            h.add_future(divider.free, self.cycle);
            for &(from, to) in &divider.taken {
                if to > self.cycle {
                    h.add_future(from, self.cycle);
                    h.add(to - self.cycle);
                }
            }
        }
        let first = self.cycle.saturating_sub(1);
        let cycles = first..=end.min(first + WINDOW);
        h.add(end.saturating_sub(first));
        for at in cycles {
            let slot = &self.slots[(at & MASK) as usize];
            let [any, full] = slot.banks;
            h.add(u64::from(slot.ports) | u64::from(any) << 32 | u64::from(full) << 48);
            h.add(u64::from(slot.divider) | u64::from(slot.loads) << 8);
        }
        if !self.loads_conflict() && !self.stores_conflict() {
            // Ports are taken only by what starts.
            return;
        }
        let mut at = self.cycle + 1;
        while at <= end {
            // 64 cycles from `at` on: the rest of one word and the start of the next.
            let shift = at & 63;
            let low = &self.busy[(at & MASK) as usize / 64];
            let high = &self.busy[((at + 63) & MASK) as usize / 64];
            for (low, high) in low.iter().zip(high).take(self.count) {
                h.add(if shift == 0 {
                    *low
                } else {
                    low >> shift | high << (64 - shift)
                });
            }
            at += 64;
        }
    }
}

/// An array on the heap.
fn boxed<T: Clone, const N: usize>(value: T) -> Box<[T; N]> {
    match vec![value; N].into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("the length is the array's"),
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
