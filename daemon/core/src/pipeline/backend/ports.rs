//! Ports: the calendar of who dispatches where and when.
//!
//! The calendar keeps one bit per port and cycle; a µop takes the first free cycle of its port at or
//! after the one in which it is ready, which is oldest-first selection because µops come in program
//! order. `choice` assigns ports at issue, `unbound` has those that are not, `queue` is what µops wait in before their scheduler,
//! `divider` the units that are not pipelined.

mod choice;
mod divider;
mod queue;
mod unbound;

use choice::Chooser;
use divider::Dividers;
use queue::Queues;
use unbound::Unbound;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::scheduler::{Schedulers, Started};
use crate::pipeline::access::Line;
use crate::pipeline::fold::Folding;
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::{Core, MAX_PORTS, MIN_BANK_BYTES, PortSet};

/// Cycles that the calendar looks ahead of the issue cycle.
const WINDOW: u64 = 1 << 14;
const MASK: u64 = WINDOW - 1;
/// Longest distance of a dispatch from the issue cycle.
const HORIZON: u64 = WINDOW - 128;

const PORT_MASK: usize = MAX_PORTS - 1;

/// 64 cycles of the calendar make a word.
const WORDS: usize = (WINDOW / 64) as usize;

/// Dispatches of one cycle.
#[derive(Clone, Copy, Default, PartialEq)]
#[repr(align(32))]
struct Slot {
    /// Ports on which a µop starts.
    ports: u32,
    /// Unbound ports that µops take in vain, which were woken too soon.
    in_vain: u32,
    /// Number of these µops, by scheduler.
    started: Started,
    /// Port that the µop was assigned to which starts on the first divider's port, plus 1.
    divider: u8,
    /// [`A_LOAD`], [`A_WIDE_LOAD`].
    loads: u8,
    /// Where loads conflict in banks: those that loads take, one bit each: any, and as many as may.
    banks: [u16; 2],
}

/// What the assignment of ports sees to have started: one cycle late.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// See [`Slot`].
    ports: u32,
    divider: u8,
}

/// A load starts in a cycle.
const A_LOAD: u8 = 1;
/// A wide load starts in a cycle.
const A_WIDE_LOAD: u8 = 2;

/// Ports of one core.
pub struct Ports {
    /// Number of ports.
    count: usize,
    store_data: PortSet,
    slow_256: bool,
    loads_per_bank: u32,
    bank_shift: u32,
    /// Whether rules beyond the port itself may hold loads up, or store data.
    loads_conflict: bool,
    stores_conflict: bool,
    /// Issue cycle.
    cycle: u64,
    /// [`WINDOW`] of them, but for a folded core.
    slots: Box<[Slot]>,
    /// What started in the cycle before the issue cycle.
    seen: Seen,
    /// By word, of which there are [`WORDS`], and port: cycles that are taken.
    busy: Box<[[u64; MAX_PORTS]]>,
    /// Line of the store data that starts in a cycle, where stores of one cycle must share it.
    lines: Box<[Line]>,
    chooser: Chooser,
    schedulers: Schedulers,
    dividers: Dividers,
    queues: Queues,
    unbound: Unbound,
    /// µops executed per port.
    pub executed: [u64; MAX_PORTS],
    /// Dispatches cut to the calendar's window.
    pub clamped: u64,
    /// µops that start behind the calendar's window, where they are not cut: when, on which port,
    /// and for which port they were counted.
    far: Option<BinaryHeap<Reverse<(u64, u8, u8)>>>,
    /// When the first of these starts.
    first_far: u64,
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
    /// Banks that a load takes ([`Ports::banks`]).
    pub banks: u16,
}

impl Ports {
    /// Idle ports.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        let (layout, p) = (&core.ports, &core.execute);
        Self {
            count: layout.count().min(MAX_PORTS),
            store_data: layout.store_data,
            slow_256: p.slow_256,
            loads_per_bank: p.loads_per_bank,
            bank_shift: p.bank_bytes.max(MIN_BANK_BYTES).trailing_zeros(),
            loads_conflict: p.slow_256 || p.loads_per_bank > 0,
            stores_conflict: p.slow_256 || p.stores_together.by_line(),
            cycle: 0,
            slots: vec![Slot::default(); WINDOW as usize].into(),
            seen: Seen::default(),
            busy: vec![[0; MAX_PORTS]; WORDS].into(),
            lines: if p.stores_together.by_line() {
                vec![Line::default(); WINDOW as usize].into()
            } else {
                Box::default()
            },
            chooser: Chooser::new(layout),
            schedulers: Schedulers::new(core),
            dividers: Dividers::new(layout),
            queues: Queues::new(layout),
            unbound: Unbound::new(layout),
            executed: [0; MAX_PORTS],
            clamped: 0,
            far: None,
            first_far: u64::MAX,
        }
    }

    /// µops may start behind the calendar's window, as they do when they wait for memory one after
    /// the other: there they do not get in each other's way.
    pub fn wait_without_end(&mut self) {
        self.far = Some(BinaryHeap::new());
    }

    /// What the schedulers hold of what has issued before the current cycle.
    #[inline]
    #[must_use]
    pub fn schedulers(&self) -> &Schedulers {
        &self.schedulers
    }

    /// Moves the issue cycle on to a later one.
    // In line, since that is most of what it takes to open a cycle of issue.
    #[inline(always)]
    pub fn step_to(&mut self, cycle: u64) {
        // The choice of ports looks back two cycles.
        if self.cycle + 2 < cycle {
            self.pass_to(cycle - 2);
        }
        while self.cycle < cycle {
            self.step(true);
        }
    }

    /// The same while no choice looks.
    #[inline(never)]
    fn pass_to(&mut self, cycle: u64) {
        while self.cycle < cycle {
            self.step(false);
        }
    }

    /// Moves the issue cycle on by one; `is_seen`: by a choice of ports.
    #[inline(always)]
    fn step(&mut self, is_seen: bool) {
        let Seen { mut ports, divider } = self.seen;
        if divider != 0 {
            self.chooser.release(divider - 1);
            ports &= !(1 << self.dividers.first_port());
        }
        if self.first_far <= self.cycle {
            self.start_far();
        }
        match is_seen {
            true => self.chooser.next_cycle(ports),
            false => self.chooser.pass_cycle(ports),
        }
        // Nothing more can start in this cycle.
        let starting = std::mem::take(&mut self.slots[(self.cycle & MASK) as usize]);
        self.seen = Seen {
            ports: starting.ports,
            divider: starting.divider,
        };
        self.queues.end_cycle(self.cycle, starting.ports);
        self.schedulers.step(self.cycle, starting.started);
        self.cycle += 1;
        if self.cycle & 63 == 0 {
            // The 64 cycles behind are never asked for again.
            self.busy[((self.cycle - 64) & MASK) as usize / 64] = [0; MAX_PORTS];
        }
    }

    /// Chooses the port of a µop that issues in `slot` of the current cycle.
    #[inline(always)]
    pub fn choose(&mut self, ports: PortSet, slot: u32) -> u8 {
        let port = self.chooser.choose(ports, slot);
        self.schedulers.enter(port);
        port
    }

    /// Whether rules beyond the port itself may hold loads up.
    #[inline]
    #[must_use]
    pub fn loads_conflict(&self) -> bool {
        self.loads_conflict
    }

    /// Whether rules beyond the port itself may hold store data up, or others because of it.
    #[inline]
    #[must_use]
    pub fn stores_conflict(&self) -> bool {
        self.stores_conflict
    }

    /// Books the first cycle in which a µop can start that nothing but its port holds up.
    #[inline(always)]
    pub fn start(&mut self, port: u8, ready: u64) -> u64 {
        // As `soon_free` and `book` do, which look at the same word of the calendar.
        let from = ready.max(self.cycle + 1);
        let own = usize::from(port) & PORT_MASK;
        let busy = &mut self.busy[(from & MASK) as usize / 64][own];
        let free = !*busy & (u64::MAX << (from & 63));
        if free == 0 || from >= self.cycle + HORIZON - 64 || self.queues.has(port) {
            return self.start_late(port, ready);
        }
        *busy |= free & free.wrapping_neg();
        let at = from & !63 | u64::from(free.trailing_zeros());
        let slot = &mut self.slots[(at & MASK) as usize];
        slot.started[self.schedulers.of(port)] += 1;
        slot.ports |= 1 << own;
        self.executed[own] += 1;
        at
    }

    /// Keeps the first free cycle of a port from `from` on for a µop that started there before.
    #[cold]
    pub fn occupy(&mut self, port: u8, from: u64) {
        let at = self.first_free(port, from.max(self.cycle + 1));
        if at < self.cycle + HORIZON {
            self.take(at, port.into());
        }
    }

    /// Keeps the first free cycle from `from` on of each of these ports for what is no µop.
    #[cold]
    pub fn occupy_all(&mut self, ports: PortSet, from: u64) {
        for port in ports.iter() {
            self.occupy(port, from);
        }
    }

    /// [`Ports::start`] in general.
    #[inline(never)]
    fn start_late(&mut self, port: u8, ready: u64) -> u64 {
        let ready = ready.max(self.first_scheduled(port));
        let at = self.first_free(port, ready.max(self.cycle + 1));
        if at >= self.cycle + HORIZON {
            return self.behind_window(port, port, at.max(ready));
        }
        self.book(port, at);
        at
    }

    /// First cycle in which a µop on `port` may start for what its scheduler holds.
    #[inline(always)]
    fn first_scheduled(&mut self, port: u8) -> u64 {
        if self.queues.has(port) {
            self.leave_queue(port)
        } else {
            0
        }
    }

    #[inline(never)]
    fn leave_queue(&mut self, port: u8) -> u64 {
        let slots = &self.slots;
        let starting = |at: u64| slots[(at & MASK) as usize].ports;
        self.queues.enter(port, self.cycle + HORIZON, starting)
    }

    #[inline(always)]
    fn book(&mut self, port: u8, at: u64) {
        let place = (at & MASK) as usize;
        let slot = &mut self.slots[place];
        slot.started[self.schedulers.of(port)] += 1;
        let port = usize::from(port) & PORT_MASK;
        slot.ports |= 1 << port;
        self.busy[place / 64][port] |= 1 << (at & 63);
        self.executed[port] += 1;
    }

    /// A µop on `port`, counted for `counted`, cannot start before `at`, behind the window.
    #[cold]
    fn behind_window(&mut self, port: u8, counted: u8, at: u64) -> u64 {
        match &mut self.far {
            Some(far) => {
                far.push(Reverse((at, port, counted)));
                self.first_far = self.first_far.min(at);
                self.executed[usize::from(port) & PORT_MASK] += 1;
                at
            }
            None => self.clamp(port, counted),
        }
    }

    /// Those of the µops behind the window leave that start in the current cycle.
    #[inline(never)]
    fn start_far(&mut self) {
        let Some(far) = &mut self.far else {
            return;
        };
        while let Some(&Reverse((at, port, counted))) = far.peek() {
            self.first_far = at;
            if at > self.cycle {
                return;
            }
            far.pop();
            self.queues.leave(port);
            self.schedulers.leave(port);
            self.chooser.release(counted);
        }
        self.first_far = u64::MAX;
    }

    /// Books the end of the calendar for a µop on `port` that was counted for `counted`.
    #[cold]
    fn clamp(&mut self, port: u8, counted: u8) -> u64 {
        self.clamped += 1;
        let at = self.cycle + HORIZON;
        let slot = &mut self.slots[(at & MASK) as usize];
        if slot.ports & (1 << port) != 0 {
            // The slot stands for two µops, of which it frees one.
            slot.started[self.schedulers.of(port)] -= 1;
            self.queues.leave(port);
            self.schedulers.leave(port);
            self.chooser.release(counted);
        }
        self.book(port, at);
        at
    }

    /// Books the first cycle in which a µop can start that takes part in memory accesses or
    /// divides.
    #[inline(always)]
    pub fn dispatch(&mut self, r: Request) -> u64 {
        let soon = match r.divider {
            0 if r.load => self.start_load(&r),
            0 => self.start_store(&r),
            _ => None,
        };
        soon.unwrap_or_else(|| self.dispatch_late(&r))
    }

    /// [`Ports::dispatch`] in general.
    #[inline(never)]
    fn dispatch_late(&mut self, r: &Request) -> u64 {
        // A divider's µops start on its port, whichever port they were assigned to.
        let (divider, port) = match r.divider {
            0 => (0, r.port),
            _ => self.dividers.of(r.port),
        };
        self.schedulers.hand_over(r.port, port);
        let horizon = self.cycle + HORIZON;
        let mut at = r.ready.max(self.cycle + 1).max(self.first_scheduled(port));
        loop {
            at = self.first_free(port, at);
            if at >= horizon {
                at = self.behind_window(port, r.port, at.max(r.ready));
                break;
            }
            if let Some(later) = self.conflict(r, divider, at) {
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
            self.dividers
                .book(divider, at, u64::from(r.divider), self.cycle);
            if port != r.port {
                self.slots[place].divider = r.port + 1;
            }
        }
        if r.load {
            self.book_load(r, at);
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

    /// [`Ports::dispatch`] for a load that finds its port free in the next cycles, and there nothing
    /// in its way, as most do.
    #[inline(always)]
    fn start_load(&mut self, r: &Request) -> Option<u64> {
        let at = self.soon_free(r.port, r.ready)?;
        if self.load_waits(r, at) {
            return None;
        }
        self.book(r.port, at);
        self.book_load(r, at);
        Some(at)
    }

    /// The same for store data.
    #[inline(always)]
    fn start_store(&mut self, r: &Request) -> Option<u64> {
        let at = self.soon_free(r.port, r.ready)?;
        let place = (at & MASK) as usize;
        if let Some(line) = r.store_line {
            if self.slow_256 && r.wide || self.is_unpaired(r.port, line, place) {
                return None;
            }
            if let Some(entry) = self.lines.get_mut(place) {
                *entry = line;
            }
        }
        self.book(r.port, at);
        Some(at)
    }

    /// Whether store data starts on another port in the cycle of this slot that goes to another line:
    /// two in one cycle must go into the same (Intel: "paired stores").
    #[inline(always)]
    fn is_unpaired(&self, port: u8, line: Line, place: usize) -> bool {
        let others = self.store_data.0 & !(1 << port);
        let other = self.lines.get(place);
        self.slots[place].ports & others != 0 && other.is_some_and(|other| !line.same(*other))
    }

    /// Whether other loads that start in cycle `at` keep one from it.
    #[inline(always)]
    fn load_waits(&self, r: &Request, at: u64) -> bool {
        let slot = &self.slots[(at & MASK) as usize];
        // A wide load takes the data of all ports.
        let hindering = if r.wide { A_LOAD } else { A_WIDE_LOAD };
        slot.banks[1] & r.banks != 0 || (self.slow_256 && slot.loads & hindering != 0)
    }

    #[inline(always)]
    fn book_load(&mut self, r: &Request, at: u64) {
        let most = self.loads_per_bank;
        let slot = &mut self.slots[(at & MASK) as usize];
        let [any, full] = &mut slot.banks;
        *full |= if most > 1 { *any & r.banks } else { r.banks };
        *any |= r.banks;
        slot.loads |= A_LOAD | if r.wide { A_WIDE_LOAD } else { 0 };
    }

    /// First cycle from `ready` on in which `port` is free, if that is one of the next 64 and no
    /// queue is before its scheduler.
    #[inline(always)]
    fn soon_free(&self, port: u8, ready: u64) -> Option<u64> {
        let at = ready.max(self.cycle + 1);
        let busy = self.busy[(at & MASK) as usize / 64][usize::from(port) & PORT_MASK];
        let free = !busy & (u64::MAX << (at & 63));
        let soon = free != 0 && at < self.cycle + HORIZON - 64 && !self.queues.has(port);
        soon.then_some(at & !63 | u64::from(free.trailing_zeros()))
    }

    /// First cycle at or after `at` in which `port` is free, or one behind the calendar's end.
    #[inline]
    #[must_use]
    pub fn first_free(&self, port: u8, mut at: u64) -> u64 {
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

    /// Banks that a load takes of `size` bytes at this place in its line, one bit each; none where loads
    /// do not conflict in banks.
    #[inline]
    #[must_use]
    pub fn banks(&self, place: u8, size: u16) -> u16 {
        if self.loads_per_bank == 0 {
            return 0;
        }
        let first = u32::from(place) >> self.bank_shift;
        let last = ((u32::from(place) + u32::from(size.max(1)) - 1).min(63)) >> self.bank_shift;
        (u16::MAX << first) & (u16::MAX >> (15 - last))
    }

    /// When a rule beyond the port itself forbids cycle `at`: the next cycle to try.
    #[inline]
    fn conflict(&self, r: &Request, divider: usize, at: u64) -> Option<u64> {
        if r.divider > 0 {
            return self.dividers.conflict(divider, at, u64::from(r.divider));
        }
        if let Some(line) = r.store_line
            && self.is_unpaired(r.port, line, (at & MASK) as usize)
        {
            return Some(at + 1);
        }
        (r.load && self.load_waits(r, at)).then_some(at + 1)
    }
}

impl Part for Ports {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.slots, Slot::default());
        folding.table(&mut self.busy, [0; MAX_PORTS]);
        folding.table(&mut self.lines, Line::default());
    }

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
        self.seen = Seen::default();
        self.chooser.reset(at);
        self.schedulers.reset(at);
        self.dividers.reset(at);
        self.queues.reset(at);
        self.unbound.reset(at);
        self.executed = [0; MAX_PORTS];
        self.clamped = 0;
        // Only programs wait that long, and they are never brought to rest.
        self.far = None;
        self.first_far = u64::MAX;
    }

    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        // Nothing is booked behind the last retirement.
        let (moment, end) = (at, at.retired);
        self.chooser.fingerprint(moment, h);
        self.schedulers.fingerprint(moment, h);
        self.dividers.fingerprint(moment, h);
        self.queues.fingerprint(moment, h);
        self.unbound.fingerprint(moment, h);
        let first = self.cycle;
        let cycles = first..=end.min(first + WINDOW);
        h.add(end.saturating_sub(first));
        let Seen { ports, divider } = self.seen;
        h.add(u64::from(ports) << 8 | u64::from(divider));
        for at in cycles {
            let slot = &self.slots[(at & MASK) as usize];
            let [any, full] = slot.banks;
            h.add(u64::from(slot.ports) | u64::from(any) << 32 | u64::from(full) << 48);
            h.add(u64::from(slot.divider) | u64::from(slot.loads) << 8);
        }
        if !self.loads_conflict() && !self.stores_conflict() && self.unbound.is_none() {
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
