//! The way of a load or store: fences before it, older stores, the store buffer, and behind them
//! what holds memory's lines.
//!
//! A load asks, in this order, whether a fence holds it up ([`Fences`]), whether an older store has
//! its bytes ([`OlderStores`]) and whether it went ahead of that ([`disambiguation`]), and what no store serves asks the
//! [`lines`]. A store tells its
//! address and data to `OlderStores` when they are there, and goes to the [`StoreBuffer`] when it
//! retires, which writes it to its line.

pub mod disambiguation;
pub mod fences;
mod learnt;
pub mod lines;
pub mod older_stores;
mod partial_words;
mod renaming;
mod steady;
pub mod store_buffer;

use std::collections::VecDeque;
use std::ops::Range;

use super::addresses::Made;
use super::topdown::Wait;
use crate::memory::counts::Counts;
use crate::memory::{Answer, CodeLate};
use crate::pipeline::access::{Access, Line};
use crate::pipeline::inst::Inst;
use crate::pipeline::state::parts;
use disambiguation::{Disambiguation, Way};
use fences::Fences;
use learnt::Learning;
use lines::{Late, Lines, Lookup, SharedLines};
use mcad_isa::machine::hierarchy::LINE_BYTES;
use mcad_isa::machine::params::{Core, CrossingLoads, Execute};
use mcad_isa::program::{Instr, NOT_FORWARDED, Uop, flag};
use mcad_proto::word::Kernel;
use older_stores::{Forward, Handed, OlderStores};
use renaming::Renaming;
use store_buffer::StoreBuffer;

/// Where a load gets its data from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// From its line, so many cycles later than from the first level of cache.
    Line(u64),
    /// From an older store, not before this cycle.
    Store(u64),
    /// From the register that an older store's data comes from, there at this cycle.
    Register(u64),
}

/// Everything that loads and stores of one thread go through.
pub struct Memory {
    p: Execute,
    fences: Fences,
    older: OlderStores,
    pub(super) disambiguation: Disambiguation,
    buffer: StoreBuffer,
    lines: Lines,
    renaming: Renaming,
    /// When the lines of the last stores may be written, where lines are modelled, by number.
    owned: Box<[u64]>,
    /// What instructions to come reach beyond the accesses that come with them.
    reaches: VecDeque<Reach>,
    /// What the last access waited for.
    late: Wait,
    /// What loads cost that cross the end of a part of a line.
    crossing: Option<CrossingLoads>,
    /// Until when nothing may issue, after the fault of the last access.
    fault: Option<u64>,
    /// Until when nothing may issue, after the last load went ahead of a store in vain, or was given another one's register.
    restart: Option<u64>,
    /// When lines come into the first level that hold up loads.
    arrivals: Vec<u64>,
    /// When the last load was sent.
    loaded_at: u64,
    /// Page faults so far, and system calls that displace code as they do.
    visits: u64,
    calls_displace: bool,
    fault_cycles: u64,
}

/// What an instruction reaches beyond the accesses that come with it.
enum Reach {
    /// All that iterations of a repeated string instruction load and store.
    Strings(Range<u64>, Range<u64>),
    /// What the kernel does in a system call.
    Kernel(Box<[Kernel]>),
}

parts! {
    Memory { fences, older, disambiguation, buffer, renaming }
    remembers { lines }
    tables { owned: 0 }
    fixed { p, reaches, late, crossing, fault, restart, arrivals, loaded_at, visits, calls_displace, fault_cycles }
}

/// Stores whose lines are remembered, more than can be in flight.
const OWNED: u64 = 1 << 10;

impl Memory {
    /// No access yet.
    #[must_use]
    pub fn new(p: &Execute) -> Self {
        Self {
            p: p.clone(),
            fences: Fences::default(),
            older: OlderStores::new(),
            disambiguation: Disambiguation::new(None),
            buffer: StoreBuffer::new(p.store_buffer, p),
            lines: Lines::default(),
            renaming: Renaming::new(p),
            owned: Box::default(),
            reaches: VecDeque::new(),
            late: Wait::First,
            crossing: None,
            fault: None,
            restart: None,
            arrivals: Vec::new(),
            loaded_at: 0,
            visits: 0,
            calls_displace: false,
            fault_cycles: 0,
        }
    }

    /// No access yet of a program: lines may be anywhere, where the core's caches are modelled.
    #[must_use]
    pub fn of_program(core: &Core) -> Self {
        let mut memory = Self::new(&core.execute);
        memory.disambiguation = Disambiguation::new(core.execute.disambiguation);
        if let Some(d) = core.execute.disambiguation {
            let of_instructions = core.execute.memory_renaming_of_instructions;
            (memory.renaming).learns_after(d.renamed_after, of_instructions);
            memory.p.store_address_latency = d.address.unwrap_or(memory.p.store_address_latency);
        }
        memory.lines = Lines::of_program(core);
        if let Some(caches) = core.cache.filter(|_| memory.lines.are_modelled()) {
            if !memory.buffer.is_modelled() {
                memory.buffer = StoreBuffer::new(caches.store_buffer, &core.execute);
            }
            (memory.renaming).is_steady_after(core.execute.memory_renaming_steady);
            (memory.older).are_handed_on_in_parts(core.execute.store_forward_parts);
            memory.crossing = core.execute.crossing_loads;
            memory
                .buffer
                .writes_the_first_alone(caches.first_store_alone);
            memory.owned = vec![0; OWNED as usize].into();
            memory.fault_cycles = core.tlb.map_or(0, |tlb| tlb.fault);
            memory.calls_displace = core.tlb.is_some_and(|tlb| tlb.call_code_lines > 0);
        }
        memory
    }

    /// The caches, where they are modelled.
    #[inline]
    pub fn lines(&mut self) -> &mut Lines {
        &mut self.lines
    }

    /// What loads, stores and fetches found.
    #[must_use]
    pub fn found(&self) -> Counts {
        self.lines.found()
    }

    /// What the last access waited for.
    #[inline]
    #[must_use]
    pub fn late(&self) -> Wait {
        self.late
    }

    /// Until when nothing may issue, if the last access faulted.
    #[inline]
    pub fn take_fault(&mut self) -> Option<u64> {
        self.fault.take()
    }

    /// Until when nothing may issue, if the last load went ahead of a store in vain, or was given another one's register.
    #[inline]
    pub fn take_restart(&mut self) -> Option<u64> {
        self.restart.take()
    }

    /// When a line comes into the first level that takes a cycle of the load ports; each is told once.
    #[inline(always)]
    pub fn take_arrival(&mut self) -> Option<u64> {
        self.arrivals.pop()
    }

    /// What all iterations load and store of a repeated string instruction to come; whether that
    /// matters.
    pub fn reach(&mut self, loads: Range<u64>, stores: Range<u64>) -> bool {
        if self.lines.are_modelled() {
            self.reaches.push_back(Reach::Strings(loads, stores));
        }
        self.lines.are_modelled()
    }

    /// What the kernel does in a system call to come; whether that matters.
    pub fn enter_kernel(&mut self, work: &[Kernel]) -> bool {
        if self.lines.are_modelled() {
            self.reaches.push_back(Reach::Kernel(work.into()));
        }
        self.lines.are_modelled()
    }

    /// The next system call is there in cycle `at`.
    pub fn call_kernel(&mut self, at: u64) {
        if let Some(Reach::Kernel(work)) = self.reaches.front()
            && let Some(memory) = self.lines.memory()
        {
            memory.enter_kernel(work, at);
            self.reaches.pop_front();
            self.visits += u64::from(self.calls_displace);
        }
    }

    /// How often the kernel ran so far and left its code in the place of the program's.
    #[inline]
    #[must_use]
    pub fn visits(&self) -> u64 {
        self.visits
    }

    /// A line of code is asked for in cycle `at`; returns how much later than from the
    /// first-level cache it comes.
    pub fn fetch(&mut self, address: u64, at: u64) -> CodeLate {
        let answer = (self.lines.memory()).map_or_else(Answer::default, |m| m.fetch(address, at));
        self.visits += u64::from(answer.fault);
        let fault = if answer.fault { self.fault_cycles } else { 0 };
        CodeLate {
            translation: answer.translation,
            line: answer.late - answer.translation + fault,
        }
    }

    /// Code that is kept as µops is asked for in cycle `at`; returns how many cycles its translation
    /// takes.
    #[inline]
    pub fn translate_code(&mut self, address: u64, at: u64) -> u64 {
        (self.lines.memory()).map_or(0, |m| m.translate_code(address, at))
    }

    /// An access that started in cycle `at` faulted.
    fn faulted(&mut self, at: u64, answer: &Answer) {
        self.visits += 1;
        self.fault = Some(at + answer.late + self.fault_cycles);
    }

    /// The next of these instructions goes through its lines from cycle `at` on and would be done
    /// `least` cycles later if all of them were in the first level; returns how many it takes, and
    /// what the latest one waited for.
    pub fn repeat(&mut self, inst: &Inst, at: u64, least: u64) -> (u64, Late) {
        let Some(Reach::Strings(loads, stores)) = self.reaches.pop_front() else {
            return (least, Late::No);
        };
        let lines = |bytes: &Range<u64>| match bytes.is_empty() {
            true => 0,
            false => (bytes.end - 1) / LINE_BYTES - bytes.start / LINE_BYTES + 1,
        };
        let all = lines(&loads).max(lines(&stores)).max(1);
        let mut done = at + least;
        let mut latest = Late::No;
        // Page faults end what is under way: all that follows comes later.
        let mut kernel = 0;
        for n in 0..all {
            let lookup = |first: u64, kernel: u64| Lookup {
                access: Access::known((first / LINE_BYTES + n) * LINE_BYTES, 1),
                by: inst.address,
                instr: inst.instr,
                at: at + least * n / all + kernel,
            };
            for (bytes, is_store) in [(&loads, false), (&stores, true)] {
                if n < lines(bytes) {
                    let lookup = lookup(bytes.start, kernel);
                    let answer = match is_store {
                        true => self.lines.store(&lookup),
                        false => self.lines.load(&lookup),
                    };
                    if lookup.at + answer.late > done {
                        done = lookup.at + answer.late;
                        latest = Late::of(&answer);
                    }
                    if answer.fault {
                        self.faulted(lookup.at, &answer);
                        kernel += answer.late + self.fault_cycles;
                    }
                }
            }
        }
        (done.max(at + least + kernel) - at, latest)
    }

    /// Exchanges what threads share: whoever simulates them lends it to the one that is at work.
    #[inline]
    pub fn lend(&mut self, shared: &mut SharedLines) {
        self.lines.lend(shared);
    }

    /// Fences.
    #[inline]
    #[must_use]
    pub fn fences(&self) -> &Fences {
        &self.fences
    }

    /// Fences.
    #[inline]
    pub fn fences_mut(&mut self) -> &mut Fences {
        &mut self.fences
    }

    /// The line of the store whose data comes next, where more than the store buffer needs it.
    #[inline]
    #[must_use]
    pub fn store_line(&self) -> Option<Line> {
        if self.buffer.is_modelled() {
            return None;
        }
        self.older.line()
    }

    /// Where load number `number` of an instruction gets its data from; `made`: what its address is made of.
    #[inline(always)]
    pub fn load(
        &mut self,
        inst: &Inst,
        instr: &Instr,
        number: u8,
        dispatched: u64,
        accesses: &[Access],
        made: Made,
    ) -> Loaded {
        self.late = Wait::First;
        self.loaded_at = dispatched;
        if inst.loads == 0 {
            return Loaded::Line(0);
        }
        let Some(access) = accesses.get(usize::from(number.min(inst.loads - 1))) else {
            debug_assert!(false, "an instruction comes with all of its loads");
            return Loaded::Line(0);
        };
        let forward = match self.p.dependencies_through_memory {
            true => self.older.find(access),
            false => Forward::Cache,
        };
        match forward {
            Forward::Cache => self.line_behind_stores(inst, access, dispatched),
            // Long ago: in the cache, or no more.
            Forward::From { store, .. }
            | Forward::Blocked {
                youngest: store, ..
            } if self.lines.are_modelled() && !self.buffer.holds(store, dispatched) => {
                self.line_behind_stores(inst, access, dispatched)
            }
            Forward::From {
                source: Some(source),
                store,
                ..
            } if instr.is(flag::RENAMED_LOAD)
                && (inst.stores == 0 || self.p.memory_renaming_updates)
                && self.renaming.is_steady(inst) =>
            {
                match self.renames(inst, instr, store, made) {
                    Learning::Renamed => {
                        self.disambiguation.learns(inst.address);
                        Loaded::Register(source)
                    }
                    Learning::Unknown => self.store_serves(inst, instr, dispatched, store, forward),
                    Learning::InVain => {
                        let loaded = self.store_serves(inst, instr, dispatched, store, forward);
                        self.renamed_in_vain(dispatched, loaded)
                    }
                }
            }
            Forward::From { store, .. }
            | Forward::Blocked {
                youngest: store, ..
            } => self.store_serves(inst, instr, dispatched, store, forward),
        }
    }

    /// By how much longer than of a general register a load or a store's data takes, if caches are modelled.
    #[inline(always)]
    pub fn longer(&self, uop: &Uop) -> u64 {
        match self.lines.are_modelled() {
            true => uop.vector_later.into(),
            false => 0,
        }
    }

    /// What a load costs for where it lies, if it goes to its port twice for that.
    #[inline(always)]
    pub fn crossing(&self, inst: &Inst, number: u8, accesses: &[Access]) -> Option<CrossingLoads> {
        let last = inst.loads.checked_sub(1)?;
        self.crossing.filter(|crossing| {
            let access = accesses.get(usize::from(number.min(last)));
            access.is_some_and(|access| access.crosses(u64::from(crossing.bytes)))
        })
    }

    /// Fetch has been sent elsewhere than it had gone so many times.
    #[inline]
    pub fn steered(&mut self, times: u64) {
        self.renaming.steered(times);
    }

    /// A load that has its data from this store, or would have it but for others.
    fn store_serves(
        &mut self,
        inst: &Inst,
        instr: &Instr,
        at: u64,
        store: u64,
        forward: Forward,
    ) -> Loaded {
        if instr.is(flag::RENAMED_LOAD) {
            self.disambiguation.learns(inst.address);
        }
        let loaded = self.served_by(instr, forward);
        self.disambiguated(inst, at, store, loaded)
    }

    /// A load that had been given the register of another store than the one that it meets, if any, as turns out in cycle `at`:
    /// it issues anew, and all behind it.
    #[cold]
    fn renamed_in_vain(&mut self, at: u64, loaded: Loaded) -> Loaded {
        let until = at + self.disambiguation.restart();
        let until = self.restart.map_or(until, |known| known.max(until));
        self.restart = Some(until);
        let starts = until + self.p.issue_to_dispatch;
        match loaded {
            Loaded::Store(there) => Loaded::Store(there.max(starts + self.p.store_forward)),
            Loaded::Line(later) => Loaded::Line(later.max(starts.saturating_sub(at))),
            Loaded::Register(there) => Loaded::Register(there),
        }
    }

    /// Whether rename gives a load the register of the store that serves it.
    #[inline]
    fn renames(&mut self, inst: &Inst, instr: &Instr, store: u64, made: Made) -> Learning {
        // Stores between the load and its own.
        let back = self.older.count().saturating_sub(store);
        let farthest = u64::from(self.p.memory_renaming_stores);
        if farthest > 0 && back >= farthest {
            return match self.renaming.forget(inst) {
                true => Learning::InVain,
                false => Learning::Unknown,
            };
        }
        // How far back matters to what is learnt only where loads go ahead of stores.
        let back = match self.disambiguation.is_modelled() {
            true => back,
            false => 0,
        };
        (self.renaming).possible(&self.p, inst, instr, store, made, back)
    }

    /// What a load has that needs older stores, if it knows.
    #[inline]
    fn served_by(&self, instr: &Instr, forward: Forward) -> Loaded {
        match forward {
            Forward::Cache => Loaded::Line(0),
            Forward::From { ready, source, .. } => {
                let miss = match source {
                    Some(_) if !instr.is(flag::RENAMED_LOAD) => self.p.memory_renaming_miss,
                    _ => 0,
                };
                Loaded::Store(ready + self.p.store_forward + miss)
            }
            Forward::Blocked { youngest, .. }
                if self.p.store_forward_written > 0 && self.buffer.is_modelled() =>
            {
                Loaded::Store(self.buffer.written(youngest) + self.p.store_forward_written)
            }
            Forward::Blocked { ready, store, .. } => {
                let forwarded = ready + self.p.store_forward;
                let written = self.buffer.written(store);
                Loaded::Store(forwarded.max(written) + self.p.store_forward_blocked)
            }
        }
    }

    /// A load that no store serves, as it may not know.
    #[inline]
    fn line_behind_stores(&mut self, inst: &Inst, access: &Access, at: u64) -> Loaded {
        let in_vain = self.disambiguation.met_none(inst.address) && self.renaming.forget(inst);
        let loaded = match self.disambiguation.load(inst.address, at) {
            Way::Waits(until) => match self.line(inst, access, until) {
                Loaded::Line(later) => Loaded::Line(later + (until - at)),
                other => other,
            },
            Way::Ahead | Way::Restarts(_) => self.line(inst, access, at),
        };
        match in_vain {
            true => self.renamed_in_vain(at, loaded),
            false => loaded,
        }
    }

    /// A load that would have its data from this store.
    #[inline]
    fn disambiguated(&mut self, inst: &Inst, at: u64, store: u64, loaded: Loaded) -> Loaded {
        let older = &self.older;
        let known = older.address_known(store);
        let between = || older.addresses_known_from(store);
        let starts = match (self.disambiguation).load_behind(inst.address, at, known, between) {
            Way::Ahead if known <= at => return loaded,
            Way::Ahead => 0,
            Way::Waits(until) => until,
            Way::Restarts(until) => {
                self.restart = Some(until);
                until + self.p.issue_to_dispatch
            }
        };
        match loaded {
            Loaded::Store(there) => {
                let again = match known > at {
                    true => self.disambiguation.again(at),
                    false => 0,
                };
                Loaded::Store(there.max(starts + self.p.store_forward).max(again))
            }
            other => other,
        }
    }

    /// A load that no store serves.
    #[inline]
    fn line(&mut self, inst: &Inst, access: &Access, at: u64) -> Loaded {
        if !self.lines.are_modelled() {
            return Loaded::Line(0);
        }
        let lookup = Lookup {
            access: *access,
            by: inst.address,
            instr: inst.instr,
            at,
        };
        if self.lines.hits(&lookup, false) {
            return Loaded::Line(0);
        }
        let answer = self.lines.load_beyond(&lookup);
        self.lines.take_arrivals(&mut self.arrivals);
        self.late = Wait::of(Late::of(&answer));
        if answer.fault {
            self.faulted(at, &answer);
        }
        Loaded::Line(answer.late)
    }

    /// A load that the right path has, too, starts in cycle `at` on a wrong one; returns how much later its data is there than
    /// from the first level, `None` where its page is not.
    pub fn load_on_wrong_path(&mut self, inst: &Inst, access: &Access, at: u64) -> Option<u64> {
        self.lines.load_on_wrong_path(&Lookup {
            access: *access,
            by: inst.address,
            instr: inst.instr,
            at,
        })
    }

    /// The address of store number `number` of an instruction, made of `made`, is sent at `dispatched`;
    /// returns when it is there.
    #[inline]
    pub fn store_address(
        &mut self,
        inst: &Inst,
        number: u8,
        dispatched: u64,
        accesses: &[Access],
        made: Made,
    ) -> u64 {
        let at = dispatched + self.p.store_address_latency;
        let access = (inst.stores > 0)
            .then(|| {
                accesses.get(usize::from(inst.loads) + usize::from(number.min(inst.stores - 1)))
            })
            .flatten();
        // An update's is its load's.
        let is_update = inst.loads > 0 && access == accesses.first();
        let (known, started) = match is_update && self.disambiguation.is_modelled() {
            true => (self.loaded_at, self.loaded_at),
            false => (at, dispatched),
        };
        self.older.address(access.copied(), known);
        self.disambiguation.store(known, started);
        (self.renaming).store(self.older.count() + 1, inst.address, made);
        self.late = Wait::First;
        if let Some(access) = access.filter(|_| self.lines.are_modelled()) {
            let lookup = Lookup {
                access: *access,
                by: inst.address,
                instr: inst.instr,
                at,
            };
            let answer = match self.lines.hits(&lookup, true) {
                true => Answer::default(),
                false => {
                    let answer = self.lines.store_beyond(&lookup);
                    self.lines.take_arrivals(&mut self.arrivals);
                    answer
                }
            };
            self.owned[((self.older.count() + 1) % OWNED) as usize] = at + answer.late;
            if answer.fault {
                self.faulted(at, &answer);
            }
        }
        at
    }

    /// The data of the store whose address came last is sent at `dispatched`, from registers that
    /// are there at `inputs`; returns when it is there.
    #[inline]
    pub fn store_data(
        &mut self,
        inst: &Inst,
        instr: &Instr,
        uop: &Uop,
        dispatched: u64,
        inputs: u64,
    ) -> u64 {
        let later = uop.forwarded_later;
        let updates = inst.loads > 0;
        let at = dispatched + self.p.store_data_latency;
        let renamed = self.p.memory_renaming && instr.is(flag::RENAMED_STORE);
        let sooner = if updates {
            self.p.store_update_sooner
        } else {
            0
        };
        let there = at.saturating_sub(sooner);
        let source = match renamed {
            true => Handed::FromRegister(inputs),
            false if later == NOT_FORWARDED => Handed::NotBeforeWritten,
            false => Handed::FromStore,
        };
        let later = match source {
            Handed::NotBeforeWritten => 0,
            Handed::FromRegister(_) | Handed::FromStore => u64::from(later),
        };
        self.older.data(there + later, source);
        at + self.longer(uop)
    }

    /// First cycle in which an instruction can issue, for its stores.
    #[inline(always)]
    #[must_use]
    pub fn room_for(&self, inst: &Inst) -> u64 {
        if inst.stores > 0 && self.buffer.is_modelled() {
            self.buffer.room_for(u64::from(inst.stores))
        } else {
            0
        }
    }

    /// An instruction's stores go to the store buffer as it retires.
    #[inline(always)]
    pub fn retire(&mut self, inst: &Inst, accesses: &[Access], retired: u64) {
        if inst.stores > 0 && self.buffer.is_modelled() {
            self.retire_stores(inst, accesses, retired);
        }
    }

    #[inline(never)]
    fn retire_stores(&mut self, inst: &Inst, accesses: &[Access], retired: u64) {
        // All that were sent: an instruction may have more store µops than accesses.
        let stored = self.older.count();
        self.buffer.hold_up(self.lines.held_up_stores());
        let last = usize::from(inst.stores).saturating_sub(1);
        let mut n = 0;
        while self.buffer.count() < stored {
            let access = accesses.get(usize::from(inst.loads) + last.min(n));
            let number = self.buffer.count() + 1;
            let owned = self.owned.get((number % OWNED) as usize);
            (self.buffer).retire(access, retired, owned.copied().unwrap_or(0));
            n += 1;
        }
    }

    /// Stores that have retired so far.
    #[inline]
    #[must_use]
    pub fn stores(&self) -> u64 {
        self.buffer.count()
    }

    /// Cycle in which the last store is written.
    #[inline]
    #[must_use]
    pub fn last_written(&self) -> u64 {
        self.buffer.last()
    }
}
