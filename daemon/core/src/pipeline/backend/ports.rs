//! Ports: choice at issue, and the calendar of who dispatches where and when.
//!
//! The choice follows the rules that Abel & Reineke found (ICS 2022, section 4.1.2 and their
//! public code): it looks at how many µops are assigned to each port and not yet dispatched, as
//! counted at the start of the issue cycle (a dispatch is seen one cycle later). The calendar
//! keeps one bit per port and cycle; a µop takes the first free cycle of its port at or after the
//! one in which it is ready, which is oldest-first selection because µops come in program order.

use super::entries::Entries;
use crate::pipeline::state::Fingerprint;
use mcad_isa::machine::params::{Execute, MIN_BANK_BYTES, PortChoice};

/// Cycles that the calendar looks ahead of the issue cycle.
const WINDOW: u64 = 1 << 14;
const MASK: u64 = WINDOW - 1;
/// Longest distance of a dispatch from the issue cycle.
const HORIZON: u64 = WINDOW - 128;

/// Number of ports that any CPU may have.
pub const MAX_PORTS: usize = 16;
const PORT_MASK: usize = MAX_PORTS - 1;

/// 64 cycles of the calendar make a word.
const WORDS: usize = (WINDOW / 64) as usize;

type Usage = [u16; MAX_PORTS];

/// Dispatches of one cycle.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Ports on which a µop starts.
    ports: u16,
    /// Number of these ports.
    started: u16,
    /// Port that the divider's µop was assigned to, plus 1 (it dispatches on port 0).
    divider: u8,
    /// Bits 0 and 1: a load starts on port 2, 3; bits 2 and 3: a wide one.
    loads: u8,
    /// Where loads conflict in banks: those that loads take, one bit each: any, and as many as may.
    banks: [u16; 2],
}

/// The order in which µops of one cycle that may use the same ports take them (ten ports and
/// twelve).
#[derive(Clone, Copy)]
struct Order {
    ports: u16,
    /// µops so far.
    taken: u8,
    /// How many of `order` may be taken.
    eligible: u8,
    /// Ports, least used first.
    order: [u8; MAX_PORTS],
}

/// Ports of one core.
pub struct Ports {
    choice: PortChoice,
    /// Number of ports.
    count: usize,
    slow_256: bool,
    loads_per_bank: u32,
    bank_shift: u32,
    /// Issue cycle.
    cycle: u64,
    slots: Box<[Slot; WINDOW as usize]>,
    /// By word and port: cycles that are taken.
    busy: Box<[[u64; MAX_PORTS]; WORDS]>,
    /// Line of the store data that starts on port 4 or 9 in a cycle.
    lines: Box<[(u64, i64)]>,
    now: Usage,
    at_start: Usage,
    before: Usage,
    entries: Entries,
    orders: Vec<Order>,
    next_load: u32,
    next_data: u8,
    next_address: u8,
    rotation: u32,
    divider_free: u64,
    divider_ring: Vec<(u64, u64)>,
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
    pub store_line: Option<(u64, i64)>,
    /// Place of a load in its line and its size, when they are known.
    pub in_line: Option<(u8, u16)>,
}

impl Ports {
    /// Idle ports.
    #[must_use]
    pub fn new(p: &Execute) -> Self {
        Self {
            choice: p.port_choice,
            count: (p.ports as usize).min(MAX_PORTS),
            slow_256: p.slow_256,
            loads_per_bank: p.loads_per_bank,
            bank_shift: p.bank_bytes.max(MIN_BANK_BYTES).trailing_zeros(),
            cycle: 0,
            slots: boxed(Slot::default()),
            busy: boxed([0; MAX_PORTS]),
            lines: if p.ports > 9 {
                vec![(0, 0); WINDOW as usize].into()
            } else {
                Box::default()
            },
            now: [0; MAX_PORTS],
            at_start: [0; MAX_PORTS],
            before: [0; MAX_PORTS],
            entries: Entries::new(p),
            orders: Vec::with_capacity(16),
            next_load: 0,
            next_data: 4,
            next_address: 7,
            rotation: 0,
            divider_free: 0,
            divider_ring: Vec::new(),
            executed: [0; MAX_PORTS],
            clamped: 0,
        }
    }

    /// Adds what later choices and dispatches depend on; nothing is booked behind `end`.
    pub fn fingerprint(&self, end: u64, h: &mut Fingerprint) {
        for usage in [&self.now, &self.at_start, &self.before] {
            h.add_distances(usage.iter().take(self.count).map(|n| u64::from(*n)));
        }
        self.entries.fingerprint(self.cycle, h);
        for order in &self.orders {
            h.add(u64::from(order.ports) << 8 | u64::from(order.taken));
        }
        h.add(
            u64::from(self.next_load)
                | u64::from(self.next_data) << 8
                | u64::from(self.next_address) << 16,
        );
        if self.choice == PortChoice::RoundRobin {
            // The least common multiple of all numbers of ports that a set may have.
            h.add(u64::from(self.rotation % 360_360));
        }
        h.add_future(self.divider_free, self.cycle);
        for &(from, to) in &self.divider_ring {
            if to > self.cycle {
                h.add_future(from, self.cycle);
                h.add(to - self.cycle);
            }
        }
        let first = self.cycle.saturating_sub(1);
        let cycles = first..=end.min(first + WINDOW);
        h.add(end.saturating_sub(first));
        for at in cycles {
            let slot = &self.slots[(at & MASK) as usize];
            let [any, full] = slot.banks;
            h.add(
                u64::from(slot.ports)
                    ^ u64::from(any) << 16
                    ^ u64::from(full) << 32
                    ^ u64::from(slot.divider) << 48
                    ^ u64::from(slot.loads) << 56,
            );
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

    /// Makes the ports idle again; nothing is booked behind `end`.
    pub fn reset(&mut self, end: u64) {
        let first = self.cycle.saturating_sub(2);
        for at in first..=(end + 2).min(first + WINDOW) {
            self.slots[(at & MASK) as usize] = Slot::default();
        }
        let mut at = first.saturating_sub(128);
        while at <= end.min(first + WINDOW) + 64 {
            self.busy[(at & MASK) as usize / 64] = [0; MAX_PORTS];
            at += 64;
        }
        self.cycle = 0;
        self.now = [0; MAX_PORTS];
        self.at_start = [0; MAX_PORTS];
        self.before = [0; MAX_PORTS];
        self.entries.reset();
        self.orders.clear();
        self.next_load = 0;
        self.next_data = 4;
        self.next_address = 7;
        self.rotation = 0;
        self.divider_free = 0;
        self.divider_ring.clear();
        self.executed = [0; MAX_PORTS];
        self.clamped = 0;
    }

    /// The schedulers' entries that µops take which have issued before the current cycle.
    #[inline]
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.entries
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
            ports &= !1;
        }
        // All ports at once: which ones dispatch cannot be foreseen.
        for (port, used) in self.now.iter_mut().enumerate() {
            *used = used.wrapping_sub(u16::from(ports & (1 << port) != 0));
        }
        self.at_start = self.now;
        let starting = self.slots[(self.cycle & MASK) as usize];
        self.entries
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
    pub fn choose(&mut self, ports: u16, slot: u32) -> u8 {
        let port = if ports.is_power_of_two() {
            ports.trailing_zeros() as u8
        } else {
            match self.choice {
                PortChoice::EightPorts => self.choose_of_eight(ports, slot),
                PortChoice::TenPorts | PortChoice::TwelvePorts => self.choose_of_ten(ports, slot),
                PortChoice::SixPorts => self.choose_of_six(ports, slot),
                PortChoice::RoundRobin => {
                    self.rotation = self.rotation.wrapping_add(1);
                    nth_port(ports, self.rotation % ports.count_ones())
                }
            }
        };
        self.now[usize::from(port) & PORT_MASK] += 1;
        self.entries.enter(port);
        port
    }

    /// Loads go round the ports 2 and 3, or 2, 3 and A.
    #[inline]
    fn next_load_port(&mut self, ports: u16) -> u8 {
        let count = if ports == 0b1100 { 2 } else { 3 };
        let port = nth_port(ports, self.next_load);
        self.next_load = if self.next_load + 1 < count {
            self.next_load + 1
        } else {
            self.next_load + 1 - count
        };
        port
    }

    #[inline]
    fn choose_of_eight(&mut self, ports: u16, slot: u32) -> u8 {
        if ports == 0b1100 {
            return self.next_load_port(ports);
        }
        // Of equally used ports the higher one comes first.
        let (mut first, mut second) = (u32::MAX, u32::MAX);
        let mut rest = u32::from(ports);
        while rest != 0 {
            let port = rest.trailing_zeros();
            rest &= rest - 1;
            let used = self.at_start[port as usize & PORT_MASK];
            let key = u32::from(used) << 4 | (15 - port);
            second = second.min(first.max(key));
            first = first.min(key);
        }
        let port = |key: u32| 15 - (key & 15) as u8;
        if slot.is_multiple_of(2) || second >> 4 >= (first >> 4) + 3 {
            port(first)
        } else {
            port(second)
        }
    }

    fn choose_of_ten(&mut self, ports: u16, slot: u32) -> u8 {
        match ports {
            // Loads on 2, 3 (and A); store data on 4, 9; store addresses on 7, 8.
            0b1100 | 0b100_0000_1100 => return self.next_load_port(ports),
            0b10_0001_0000 => {
                let port = self.next_data;
                self.next_data = 13 - port;
                return port;
            }
            0b1_1000_0000 => {
                let port = self.next_address;
                self.next_address = 15 - port;
                return port;
            }
            _ => {}
        }
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
            (PortChoice::TwelvePorts, _) => slot as u8 % order.eligible,
            (_, 4) => 0,
            (_, 3) if earlier == 0 && order.eligible > 1 => 1,
            _ => earlier % order.eligible,
        };
        order.order[usize::from(place) & PORT_MASK]
    }

    /// The order of `ports` in the current cycle.
    fn order(&self, ports: u16) -> Order {
        let mut keys = [u16::MAX; MAX_PORTS];
        let mut n = 0;
        let mut rest = ports;
        while rest != 0 {
            let port = rest.trailing_zeros() as u16;
            rest &= rest - 1;
            let key = (self.before[usize::from(port) & PORT_MASK] << 4) | (15 - port);
            // Insertion: at most five ports.
            let mut at = n;
            while at > 0 && keys[at - 1] > key {
                keys[at] = keys[at - 1];
                at -= 1;
            }
            keys[at] = key;
            n += 1;
        }
        let least = keys[0] >> 4;
        Order {
            ports,
            taken: 0,
            eligible: keys[..n].iter().filter(|k| (**k >> 4) < least + 5).count() as u8,
            order: keys.map(|key| 15 - (key & 15) as u8),
        }
    }

    fn choose_of_six(&mut self, ports: u16, slot: u32) -> u8 {
        if ports == 0b1100 {
            return self.next_load_port(ports);
        }
        // Of equally used ports the lower one comes first, the higher one last.
        let mut least = u16::MAX;
        let mut most = 0;
        let mut rest = ports;
        while rest != 0 {
            let port = rest.trailing_zeros() as u16;
            rest &= rest - 1;
            let key = (self.at_start[usize::from(port) & 15] << 4) | port;
            least = least.min(key);
            most = most.max(key);
        }
        let first = (least & 15) as u8;
        if (most >> 4) - (least >> 4) >= 3 {
            first
        } else if ports == 0b10_0011 {
            let order = match first {
                0 => [0, 5, 1, 0],
                1 => [1, 5, 0, 1],
                _ => [5, 1, 0, 5],
            };
            order[(slot & 3) as usize]
        } else if slot.is_multiple_of(2) {
            first
        } else {
            (most & 15) as u8
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
            self.entries.leave(port);
            self.now[usize::from(counted) & PORT_MASK] -= 1;
        }
        self.book(port, at);
        at
    }

    /// Books the first cycle in which a µop can start that takes part in memory accesses or
    /// divides.
    #[inline]
    pub fn dispatch(&mut self, r: Request) -> u64 {
        // The divider's µops all start on port 0, whichever port they were counted for.
        let port = if r.divider > 0 { 0 } else { r.port };
        let horizon = self.cycle + HORIZON;
        let mut at = r.ready.max(self.cycle + 1);
        loop {
            at = self.first_free(port, at);
            if at >= horizon {
                at = self.clamp(port, r.port);
                break;
            }
            if let Some(later) = self.conflict(&r, at) {
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
            self.book_divider(at, u64::from(r.divider));
            self.slots[place].divider = r.port + 1;
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
            if port == 2 || port == 3 {
                self.slots[place].loads |= (1 << (port - 2)) | (u8::from(r.wide) << port);
            }
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
    fn conflict(&self, r: &Request, at: u64) -> Option<u64> {
        if r.divider > 0 {
            return self.divider_conflict(at, u64::from(r.divider));
        }
        let slot = &self.slots[(at & MASK) as usize];
        if let Some(line) = r.store_line
            && !self.lines.is_empty()
        {
            // Two stores in one cycle must go into the same line (Intel: "paired stores").
            let other = if r.port == 4 { 9 } else { 4 };
            if slot.ports & (1 << other) != 0
                && !crate::pipeline::inst::Access::same_line(line, self.lines[(at & MASK) as usize])
            {
                return Some(at + 1);
            }
        }
        if self.loads_per_bank > 0 && r.load && slot.banks[1] & self.banks_of(r.in_line) != 0 {
            return Some(at + 1);
        }
        if self.slow_256 && r.load && (r.port == 2 || r.port == 3) {
            let other = 1 - (r.port - 2);
            if slot.loads & (1 << other) != 0 && (r.wide || slot.loads & (4 << other) != 0) {
                return Some(at + 1);
            }
        }
        None
    }

    fn divider_conflict(&self, at: u64, cycles: u64) -> Option<u64> {
        if at >= self.divider_free {
            return None;
        }
        self.divider_ring
            .iter()
            .filter(|(from, to)| at < *to && at + cycles > *from)
            .map(|(_, to)| *to)
            .max()
    }

    fn book_divider(&mut self, at: u64, cycles: u64) {
        let now = self.cycle;
        self.divider_ring.retain(|(_, to)| *to > now);
        self.divider_ring.push((at, at + cycles));
        self.divider_free = self.divider_free.max(at + cycles);
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
fn nth_port(ports: u16, n: u32) -> u8 {
    let mut rest = ports;
    for _ in 0..n {
        rest &= rest - 1;
    }
    rest.trailing_zeros() as u8
}
