//! Ports: choice at issue, and the calendar of who dispatches where and when.
//!
//! The choice follows the rules that Abel & Reineke found (ICS 2022, section 4.1.2 and their
//! public code): it looks at how many µops are assigned to each port and not yet dispatched, as
//! counted at the start of the issue cycle (a dispatch is seen one cycle later). The calendar
//! keeps one bit per port and cycle; a µop takes the first free cycle of its port at or after the
//! one in which it is ready, which is oldest-first selection because µops come in program order.

use super::state::Fingerprint;
use crate::machine::params::{Execute, PortChoice};

/// Cycles that the calendar looks ahead of the issue cycle.
const WINDOW: u64 = 1 << 14;
const MASK: u64 = WINDOW - 1;
/// Longest distance of a dispatch from the issue cycle.
const HORIZON: u64 = WINDOW - 128;

/// Number of ports that any CPU may have.
pub const MAX_PORTS: usize = 16;

type Usage = [u16; MAX_PORTS];

/// Dispatches of one cycle.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Ports on which a µop starts.
    ports: u16,
    /// Port that the divider's µop was assigned to, plus 1 (it dispatches on port 0).
    divider: u8,
    /// Bits 0 and 1: a load starts on port 2, 3; bits 2 and 3: a wide one.
    loads: u8,
    /// Banks that loads take, one bit each: any, and as many as may.
    banks: [u64; 2],
}

/// Ports of one core.
pub struct Ports {
    choice: PortChoice,
    slow_256: bool,
    loads_per_bank: u32,
    bank_shift: u32,
    /// Issue cycle.
    cycle: u64,
    slots: Box<[Slot]>,
    busy: Vec<Box<[u64]>>,
    /// Line of the store data that starts on port 4 or 9 in a cycle.
    lines: Box<[(u64, i64)]>,
    now: Usage,
    at_start: Usage,
    before: Usage,
    in_scheduler: u32,
    same_sets: Vec<(u16, u8)>,
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
        let words = (WINDOW / 64) as usize;
        Self {
            choice: p.port_choice,
            slow_256: p.slow_256,
            loads_per_bank: p.loads_per_bank,
            bank_shift: p.bank_bytes.max(1).trailing_zeros(),
            cycle: 0,
            slots: vec![Slot::default(); WINDOW as usize].into(),
            busy: (0..p.ports).map(|_| vec![0u64; words].into()).collect(),
            lines: if p.ports > 9 {
                vec![(0, 0); WINDOW as usize].into()
            } else {
                Box::default()
            },
            now: [0; MAX_PORTS],
            at_start: [0; MAX_PORTS],
            before: [0; MAX_PORTS],
            in_scheduler: 0,
            same_sets: Vec::with_capacity(16),
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
            for four in usage.chunks_exact(4) {
                h.add(four.iter().fold(0, |a, n| a << 16 | u64::from(*n)));
            }
        }
        h.add(u64::from(self.in_scheduler));
        for &(ports, n) in &self.same_sets {
            h.add(u64::from(ports) << 8 | u64::from(n));
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
        for at in first..=end.min(first + WINDOW) {
            let slot = self.slots[(at & MASK) as usize];
            h.add(
                u64::from(slot.ports)
                    | u64::from(slot.divider) << 16
                    | u64::from(slot.loads) << 24
                    | (at - first) << 32,
            );
            if self.loads_per_bank > 0 {
                h.add(slot.banks[0]);
                h.add(slot.banks[1]);
            }
        }
        for busy in &self.busy {
            let mut at = self.cycle + 1;
            while at <= end {
                // 64 cycles from `at` on: the rest of one word and the start of the next.
                let shift = at & 63;
                let low = busy[(at & MASK) as usize / 64] >> shift;
                let high = busy[((at + 63) & MASK) as usize / 64];
                h.add(if shift == 0 {
                    low
                } else {
                    low | high << (64 - shift)
                });
                at += 64;
            }
        }
    }

    /// Makes the ports idle again; nothing is booked behind `end`.
    pub fn reset(&mut self, end: u64) {
        let first = self.cycle.saturating_sub(2);
        for at in first..=(end + 2).min(first + WINDOW) {
            self.slots[(at & MASK) as usize] = Slot::default();
        }
        for busy in &mut self.busy {
            let mut at = first.saturating_sub(128);
            while at <= end.min(first + WINDOW) + 64 {
                busy[(at & MASK) as usize / 64] = 0;
                at += 64;
            }
        }
        self.cycle = 0;
        self.now = [0; MAX_PORTS];
        self.at_start = [0; MAX_PORTS];
        self.before = [0; MAX_PORTS];
        self.in_scheduler = 0;
        self.same_sets.clear();
        self.next_load = 0;
        self.next_data = 4;
        self.next_address = 7;
        self.rotation = 0;
        self.divider_free = 0;
        self.divider_ring.clear();
        self.executed = [0; MAX_PORTS];
        self.clamped = 0;
    }

    /// µops issued and not dispatched before the current issue cycle.
    #[inline]
    #[must_use]
    pub fn in_scheduler(&self) -> u32 {
        self.in_scheduler
    }

    /// Moves the issue cycle on by one.
    #[inline]
    pub fn step(&mut self) {
        self.before = self.at_start;
        if self.cycle > 0 {
            let at = ((self.cycle - 1) & MASK) as usize;
            let slot = std::mem::take(&mut self.slots[at]);
            let mut ports = slot.ports;
            if slot.divider != 0 {
                self.now[usize::from(slot.divider - 1)] -= 1;
                ports &= !1;
            }
            while ports != 0 {
                let port = ports.trailing_zeros() as usize;
                self.now[port & (MAX_PORTS - 1)] -= 1;
                ports &= ports - 1;
            }
        }
        self.at_start = self.now;
        self.in_scheduler -= self.slots[(self.cycle & MASK) as usize].ports.count_ones();
        self.cycle += 1;
        if self.cycle & 63 == 0 {
            // The 64 cycles behind are never asked for again.
            let word = ((self.cycle - 64) & MASK) as usize / 64;
            for busy in &mut self.busy {
                busy[word] = 0;
            }
        }
        self.same_sets.clear();
    }

    /// Chooses the port of a µop that issues in `slot` of the current cycle.
    #[inline]
    pub fn choose(&mut self, ports: u16, slot: u32) -> u8 {
        let port = if ports.is_power_of_two() {
            ports.trailing_zeros() as u8
        } else {
            match self.choice {
                PortChoice::EightPorts => self.choose_of_eight(ports, slot),
                PortChoice::TenPorts => self.choose_of_ten(ports, slot),
                PortChoice::SixPorts => self.choose_of_six(ports, slot),
                PortChoice::LeastLoaded => self.choose_least_loaded(ports),
                PortChoice::RoundRobin => {
                    self.rotation = self.rotation.wrapping_add(1);
                    nth_port(ports, self.rotation % ports.count_ones())
                }
            }
        };
        self.now[usize::from(port) & (MAX_PORTS - 1)] += 1;
        self.in_scheduler += 1;
        port
    }

    fn next_load_port(&mut self, ports: u16) -> u8 {
        let port = nth_port(ports, self.next_load);
        self.next_load = (self.next_load + 1) % ports.count_ones();
        port
    }

    fn choose_of_eight(&mut self, ports: u16, slot: u32) -> u8 {
        if ports == 0b1100 {
            return self.next_load_port(ports);
        }
        // Of equally used ports the higher one comes first.
        let key =
            |usage: &Usage, port: u8| (usage[usize::from(port) & 15] << 4) | u16::from(15 - port);
        let (mut first, mut second) = (u16::MAX, u16::MAX);
        let mut rest = ports;
        while rest != 0 {
            let key = key(&self.at_start, rest.trailing_zeros() as u8);
            rest &= rest - 1;
            if key < first {
                second = first;
                first = key;
            } else if key < second {
                second = key;
            }
        }
        let port = |key: u16| 15 - (key & 15) as u8;
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
        let mut keys = [u16::MAX; MAX_PORTS];
        let mut n = 0;
        let mut rest = ports;
        while rest != 0 {
            let port = rest.trailing_zeros() as u16;
            rest &= rest - 1;
            let key = (self.before[usize::from(port) & 15] << 4) | (15 - port);
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
        let eligible = keys[..n].iter().filter(|k| (**k >> 4) < least + 5).count();
        let earlier = match self.same_sets.iter_mut().find(|s| s.0 == ports) {
            Some(set) => {
                set.1 += 1;
                usize::from(set.1) - 1
            }
            None => {
                self.same_sets.push((ports, 1));
                0
            }
        };
        let place = match slot {
            4 => 0,
            3 if earlier == 0 && eligible > 1 => 1,
            _ => earlier % eligible,
        };
        15 - (keys[place] & 15) as u8
    }

    /// The port with the fewest µops, those of the same cycle included.
    fn choose_least_loaded(&mut self, ports: u16) -> u8 {
        if matches!(
            ports,
            0b1100 | 0b100_0000_1100 | 0b10_0001_0000 | 0b1_1000_0000
        ) {
            return self.choose_of_ten(ports, 0);
        }
        let mut rest = ports;
        let mut least = u16::MAX;
        while rest != 0 {
            let port = rest.trailing_zeros() as u16;
            rest &= rest - 1;
            least = least.min((self.now[usize::from(port) & 15] << 4) | (15 - port));
        }
        15 - (least & 15) as u8
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

    /// Books the first cycle in which the µop can start.
    #[inline]
    pub fn dispatch(&mut self, r: Request) -> u64 {
        // The divider's µops all start on port 0, whichever port they were counted for.
        let port = if r.divider > 0 {
            0
        } else {
            usize::from(r.port)
        };
        let horizon = self.cycle + HORIZON;
        let mut at = r.ready.max(self.cycle + 1);
        loop {
            if at >= horizon {
                self.clamped += 1;
                at = horizon;
                break;
            }
            at = self.first_free(port, at, horizon);
            if at >= horizon {
                continue;
            }
            if let Some(later) = self.conflict(&r, at) {
                if r.divider == 0 {
                    // The oldest µop of a port does not let younger ones pass.
                    self.busy[port][(at & MASK) as usize / 64] |= 1 << (at & 63);
                }
                at = later;
                continue;
            }
            break;
        }
        if r.divider > 0 {
            self.book_divider(at, u64::from(r.divider));
        }
        let place = (at & MASK) as usize;
        let banks = self.banks(r.in_line);
        let slot = &mut self.slots[place];
        if slot.ports & (1 << port) != 0 {
            // Only at the end of the window: the slot stands for two µops, of which it frees one.
            self.in_scheduler -= 1;
            self.now[usize::from(r.port) & (MAX_PORTS - 1)] -= 1;
        }
        slot.ports |= 1 << port;
        self.busy[port][place / 64] |= 1 << (at & 63);
        self.executed[port & (MAX_PORTS - 1)] += 1;
        if r.divider > 0 {
            slot.divider = r.port + 1;
        }
        if r.load && self.loads_per_bank > 0 {
            // The first word: taken by some load; the second: by two, if two may.
            let again = if self.loads_per_bank > 1 {
                slot.banks[0] & banks
            } else {
                banks
            };
            slot.banks[1] |= again;
            slot.banks[0] |= banks;
        }
        if r.load && (port == 2 || port == 3) {
            slot.loads |= (1 << (port - 2)) | (u8::from(r.wide) << port);
        }
        if let Some(line) = r.store_line {
            if let Some(entry) = self.lines.get_mut(place) {
                *entry = line;
            }
            if self.slow_256 && r.wide {
                let next = ((at + 1) & MASK) as usize;
                self.busy[port][next / 64] |= 1 << (next & 63);
            }
        }
        at
    }

    /// First cycle at or after `at` in which `port` is free.
    #[inline]
    fn first_free(&self, port: usize, mut at: u64, horizon: u64) -> u64 {
        let Some(busy) = self.busy.get(port) else {
            return at;
        };
        while at < horizon {
            let word = busy[(at & MASK) as usize / 64] >> (at & 63);
            let taken = u64::from(word.trailing_ones());
            if taken < 64 - (at & 63) {
                return at + taken;
            }
            at = (at | 63) + 1;
        }
        horizon
    }

    /// Banks that a load takes, one bit each.
    #[inline]
    fn banks(&self, in_line: Option<(u8, u16)>) -> u64 {
        let Some((place, size)) = in_line else {
            return 0;
        };
        let first = u32::from(place) >> self.bank_shift;
        let last = ((u32::from(place) + u32::from(size.max(1)) - 1).min(63)) >> self.bank_shift;
        (u64::MAX << first) & (u64::MAX >> (63 - last))
    }

    /// When a rule beyond the port itself forbids cycle `at`: the next cycle to try.
    #[inline]
    fn conflict(&self, r: &Request, at: u64) -> Option<u64> {
        let slot = &self.slots[(at & MASK) as usize];
        if r.divider > 0 {
            return self.divider_conflict(at, u64::from(r.divider));
        }
        if let Some(line) = r.store_line
            && !self.lines.is_empty()
        {
            // Two stores in one cycle must go into the same line (Intel: "paired stores").
            let other = if r.port == 4 { 9 } else { 4 };
            if slot.ports & (1 << other) != 0
                && !super::inst::Access::same_line(line, self.lines[(at & MASK) as usize])
            {
                return Some(at + 1);
            }
        }
        if r.load && self.loads_per_bank > 0 && slot.banks[1] & self.banks(r.in_line) != 0 {
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

#[inline]
fn nth_port(ports: u16, n: u32) -> u8 {
    let mut rest = ports;
    for _ in 0..n {
        rest &= rest - 1;
    }
    rest.trailing_zeros() as u8
}
