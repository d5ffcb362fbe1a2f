//! The memory of a whole program's core: caches, translation, prefetchers, DRAM.
//!
//! It answers in time stamps. An access comes in program order with the cycle in which it starts,
//! and gets how many cycles later than a first-level hit it is served ([`Answer::late`]). What it
//! changes in caches and buffers is changed in program order, which is an approximation: younger
//! accesses that start earlier find lines of older ones on their way.
//!
//! * A line carries its arrival ([`sets`]): hits under misses and late prefetches cost the rest.
//! * Latencies of levels are the parameters' and add up: translation, wait for a buffer
//!   ([`queues`]), the level's latency, wait for bandwidth.
//! * Stores ask for their line, to write it; lines that were written go back when they leave.
//! * The first touch of a page finds it where the kernel left it ([`pages`]).
//! * Caches behind the first level are looked up by a hash of the page, which stands for the
//!   frame; prefetches to pages that were never touched are dropped, since nothing is mapped.
//!
//! One [`Memory`] is a thread's, with the [`Shared`] part lent to it: the third level and the
//! pages. Sources of the figures are in the CPUs' files.

mod below;
pub mod counts;
mod kernel;
pub mod pages;
pub mod prefetch;
pub mod queues;
mod request;
pub mod sets;
mod shared;
pub mod slices;
mod snapshot;
pub mod tlb;

use crate::pipeline::fold::Folding;
use mcad_isa::machine::hierarchy::{
    Caches, FirstLevel, LINE_BYTES, Level as LevelParams, OnItsWay, PageCache,
};
use mcad_isa::machine::params::Core;

use below::{Found, Why};
use counts::{Counts, Misses, MissesByInstruction};
use pages::Touch;
use prefetch::Wanted;
use prefetch::region::Region;
use prefetch::stream::Stream;
use prefetch::stride::Stride;
use queues::{Bandwidth, Buffers, Share};
pub use request::{Answer, CodeLate, Level, Request};
use sets::{Index, Key, Sets, State};
pub use shared::Shared;
use tlb::{Side, Tlb};

/// Lines that come into the first level while nobody asks when, more than an access and what it makes prefetchers fetch.
const MOST_ARRIVALS: usize = 64;

/// Lines of a page.
const PAGE_LINES: u64 = 4096 / LINE_BYTES;

/// Memory as one core sees it.
#[derive(Clone)]
pub struct Memory {
    /// Cycle of its own clock in which its core's begins.
    epoch: u64,
    l1d: Sets,
    l1i: Sets,
    l2: Sets,
    shared: Box<Shared>,
    tlb: Option<Box<Tlb>>,
    fill: Buffers,
    l2_fill: Buffers,
    l2_rate: Bandwidth,
    /// What a line that goes back to the second level takes of that.
    l2_written: Option<Share>,
    l3_rate: Bandwidth,
    dram_rate: Bandwidth,
    /// Cycles that a level adds to the one before.
    l2_more: u64,
    l3_more: u64,
    dram_more: u64,
    l3_victim: bool,
    files_in_l3: bool,
    /// Lines of the kernel's, of code and of data, that a fault or a system call brings into the
    /// first level.
    fault_lines: (u32, u32),
    call_lines: (u32, u32),
    /// Lines that came into the first level since somebody asked.
    filled: u64,
    fills_hold_up_stores: bool,
    on_its_way: OnItsWay,
    /// When lines come into the first level, since somebody asked, where they hold up loads; the first ones of them, where nobody does.
    arrivals: Option<Vec<u64>>,
    perfect_l1d: bool,
    perfect_l1i: bool,
    perfect_l2: bool,
    next_line: bool,
    adjacent: bool,
    stride: Option<Stride>,
    region: Option<Region>,
    l1_stream: Option<Stream>,
    stream: Option<Stream>,
    /// That one does not see code.
    stream_data_only: bool,
    /// What was found so far.
    pub counts: Counts,
    /// The same by instruction, of those that miss.
    pub by_instruction: MissesByInstruction,
}

/// Cycles beyond a hit that a load in cycle `at` takes, of a line that is in the first level from `there` on.
#[inline]
fn late(p: &OnItsWay, there: u64, at: u64) -> u64 {
    let wait = there.saturating_sub(at);
    match wait <= p.before && there + p.behind > at {
        true => p.late,
        false => wait,
    }
}

/// The first and the last line of so many bytes.
#[inline(always)]
fn lines_of(address: u64, bytes: u16) -> (u64, u64) {
    let last = address.wrapping_add(u64::from(bytes.max(1)) - 1);
    (address / LINE_BYTES, last / LINE_BYTES)
}

fn first_level(p: &FirstLevel) -> Sets {
    let lines = u64::from(p.kib) * 1024 / LINE_BYTES;
    Sets::new(lines, p.ways, Index::Direct, p.replacement)
}

fn level(p: &LevelParams) -> Sets {
    let lines = u64::from(p.kib) * 1024 / LINE_BYTES;
    let index = match p.folded_bits {
        0 => Index::Frames,
        bits => Index::FoldedFrames(bits),
    };
    Sets::new(lines, p.ways, index, p.replacement)
}

impl Memory {
    /// Memory with nothing in it; `None` for a core whose caches are not modelled.
    #[must_use]
    pub fn new(core: &Core) -> Option<Box<Self>> {
        let (caches, dram) = (core.cache.as_ref()?, core.dram.as_ref()?);
        let Caches { l2, l3, .. } = caches;
        let last = caches.last_latency();
        Some(Box::new(Self {
            epoch: 0,
            l1d: first_level(&caches.l1d),
            l1i: first_level(&caches.l1i),
            l2: level(l2),
            shared: Box::default(),
            tlb: core.tlb.as_ref().map(|p| Box::new(Tlb::new(p))),
            fill: Buffers::new(caches.fill_buffers),
            l2_fill: Buffers::new(caches.l2_fill_buffers),
            l2_rate: Bandwidth::new(l2.bytes_per_cycle),
            l2_written: l2.written_bytes_per_cycle.map(Share::of_a_line),
            filled: 0,
            fills_hold_up_stores: caches.fills_hold_up_stores,
            on_its_way: caches.on_its_way.unwrap_or_default(),
            arrivals: caches.fills_hold_up_loads.then(Vec::new),
            l3_rate: Bandwidth::new(l3.map_or(l2.bytes_per_cycle, |l3| l3.bytes_per_cycle)),
            dram_rate: Bandwidth::new(dram.bytes_per_cycle),
            l2_more: l2.latency.saturating_sub(core.execute.load_latency),
            l3_more: l3.map_or(0, |l3| l3.latency.saturating_sub(l2.latency)),
            dram_more: dram.latency.saturating_sub(last),
            l3_victim: l3.is_some_and(|l3| l3.victim),
            fault_lines: (core.tlb).map_or((0, 0), |p| (p.fault_code_lines, p.fault_data_lines)),
            call_lines: (core.tlb).map_or((0, 0), |p| (p.call_code_lines, p.call_data_lines)),
            files_in_l3: caches.page_cache == PageCache::LastLevel,
            perfect_l1d: caches.perfect_l1d,
            perfect_l1i: caches.perfect_l1i,
            perfect_l2: caches.perfect_l2,
            next_line: core.prefetch.next_line,
            adjacent: core.prefetch.adjacent_line,
            stride: core.prefetch.stride.as_ref().map(Stride::new),
            region: core.prefetch.region.as_ref().map(Region::new),
            l1_stream: core.prefetch.l1_stream.as_ref().map(Stream::new),
            stream: core.prefetch.stream.as_ref().map(Stream::new),
            stream_data_only: core.prefetch.stream.is_some_and(|p| p.data_only),
            counts: Counts::default(),
            by_instruction: MissesByInstruction::default(),
        }))
    }

    /// Shows its tables.
    pub fn fold(&mut self, folding: &mut Folding) {
        for sets in [&mut self.l1d, &mut self.l1i, &mut self.l2] {
            sets.fold(folding);
        }
        if let Some(tlb) = &mut self.tlb {
            tlb.fold(folding);
        }
        for rate in [&mut self.l2_rate, &mut self.l3_rate, &mut self.dram_rate] {
            rate.fold(folding);
        }
        if let Some(stride) = &mut self.stride {
            stride.fold(folding);
        }
        if let Some(region) = &mut self.region {
            region.fold(folding);
        }
        for stream in [&mut self.l1_stream, &mut self.stream]
            .into_iter()
            .flatten()
        {
            stream.fold(folding);
        }
    }

    /// Exchanges the part that threads share with `other`.
    pub fn lend(&mut self, other: &mut Box<Shared>) {
        std::mem::swap(&mut self.shared, other);
    }

    /// Whether an access by the instruction at `pc` finds its page where it was found last, and its line
    /// as soon as the first level can give it; if so, it is done, else it goes on to
    /// [`Memory::load_beyond`] or [`Memory::store_beyond`].
    #[inline(always)]
    pub fn hits_at_once(
        &mut self,
        (pc, address): (u64, u64),
        size: u16,
        at: u64,
        write: bool,
    ) -> bool {
        let at = at + self.epoch;
        let (line, last) = lines_of(address, size);
        if last != line || !self.hits(line, at, write) {
            return false;
        }
        if !write {
            self.train_stride(pc, address, at, false);
        }
        true
    }

    /// A load.
    #[inline]
    pub fn load(&mut self, r: Request) -> Answer {
        match self.hits_at_once((r.pc, r.address), r.size, r.at, false) {
            true => Answer::default(),
            false => self.load_beyond(r),
        }
    }

    /// Cycles in which no store was written since this was asked last, since lines came into the first level.
    #[inline]
    pub fn held_up_stores(&mut self) -> u64 {
        let filled = std::mem::take(&mut self.filled);
        if self.fills_hold_up_stores { filled } else { 0 }
    }

    /// Hands over when lines came or will come into the first level, of those since this was asked last, where they hold up loads.
    pub fn take_arrivals(&mut self, into: &mut Vec<u64>) {
        let epoch = self.epoch;
        if let Some(arrivals) = &mut self.arrivals {
            into.extend(arrivals.drain(..).map(|at| at - epoch));
        }
    }

    /// The first cycle from `at` on in which another line may be on its way into the first level.
    #[must_use]
    pub fn buffer_is_free(&self, at: u64) -> u64 {
        self.fill.take(at + self.epoch).1 - self.epoch
    }

    /// A load that [`Memory::hits_at_once`] does not serve.
    pub fn load_beyond(&mut self, r: Request) -> Answer {
        let r = self.request(r);
        let answer = self.lines(&r, false);
        let missed = answer.from != Level::L1;
        self.train_stride(r.pc, r.address, r.at, missed);
        answer
    }

    /// A load on a wrong path ([`crate::pipeline::frontend::wrong_path`]): it asks for its lines like any other, but counts as
    /// none, since it never retires. Returns how much later than from the first level its data is there; `None`: it would fault.
    pub fn load_on_wrong_path(&mut self, r: Request) -> Option<u64> {
        let r = self.request(r);
        let (first, last) = lines_of(r.address, r.size);
        let late = self.line_on_wrong_path(first, &r)?;
        match first == last {
            true => Some(late),
            false => Some(late.max(self.line_on_wrong_path(last, &r)?)),
        }
    }

    fn line_on_wrong_path(&mut self, line: u64, r: &Request) -> Option<u64> {
        let page = line / PAGE_LINES;
        let searched = |tlb: &mut Box<Tlb>| !tlb.is_last(page) && !tlb.hits(page, r.at);
        let mut at = r.at;
        if self.tlb.as_mut().is_some_and(searched) {
            if !self.shared.pages.is_touched(page) {
                return None;
            }
            at += self.translate(Side::Data, page, at).late;
        }
        if let Some(place) = self.l1d.find(Key(line)) {
            at += late(&self.on_its_way, self.l1d.state(place).at(), at);
        } else if !self.perfect_l1d {
            if !self.shared.pages.is_touched(page) {
                return None;
            }
            let there = self.fetch_line(line, at, false).at;
            self.first_use(r.pc, line, at);
            at = there;
        }
        Some(at - r.at)
    }

    /// The prefetcher of the first level sees a load.
    #[inline(always)]
    fn train_stride(&mut self, pc: u64, address: u64, at: u64, missed: bool) {
        if let Some(stride) = &mut self.stride {
            let wanted = stride.access(pc, address, missed);
            if wanted.count > 0 {
                self.prefetch_l1(wanted, at);
            }
        }
    }

    /// A store asks for its line; the answer says when it may be written.
    #[inline]
    pub fn store(&mut self, r: Request) -> Answer {
        match self.hits_at_once((r.pc, r.address), r.size, r.at, true) {
            true => Answer::default(),
            false => self.store_beyond(r),
        }
    }

    /// A store that [`Memory::hits_at_once`] does not serve.
    pub fn store_beyond(&mut self, r: Request) -> Answer {
        self.lines(&self.request(r), true)
    }

    /// A request by its own clock.
    #[inline]
    fn request(&self, r: Request) -> Request {
        Request {
            at: r.at + self.epoch,
            ..r
        }
    }

    /// An instruction that prefetches asks for a line; nobody waits for it.
    pub fn prefetch(&mut self, address: u64, at: u64) {
        let at = at + self.epoch;
        let line = address / LINE_BYTES;
        if self.translates(line, at) {
            let wanted = Wanted {
                first: line,
                step: 1,
                count: 1,
            };
            self.prefetch_l1(wanted, at);
        }
    }

    /// Translates for a prefetching instruction: it walks the tables like a load, but does not
    /// fault.
    fn translates(&mut self, line: u64, at: u64) -> bool {
        if self.shared.pages.is_touched(line / PAGE_LINES) {
            self.translate(Side::Data, line / PAGE_LINES, at);
            return true;
        }
        false
    }

    /// A fetch of the line of code that `address` lies in.
    pub fn fetch(&mut self, address: u64, at: u64) -> Answer {
        let at = at + self.epoch;
        let line = address / LINE_BYTES;
        let mut answer = Answer::default();
        if self.tlb.is_some() {
            let translated = self.translate(Side::Instructions, line / PAGE_LINES, at);
            answer.late = translated.late;
            answer.translation = translated.late;
            self.counts.fetch_walks += u64::from(translated.walked);
            if translated.walked {
                answer.fault = self.first_touch(line / PAGE_LINES, at) != Touch::Known;
            }
        }
        let at = at + answer.late;
        if self.perfect_l1i {
            self.counts.fetches[0] += 1;
            return answer;
        }
        if let Some(place) = self.l1i.find(Key(line)) {
            let state = *self.l1i.state(place);
            if state.at() > at {
                answer.late += state.at() - at;
                answer.from = state.level();
            }
        } else {
            let found = self.below(line, at, Why::Code);
            self.l1i
                .insert(Key(line), State::new(found.at, found.level));
            answer.late += found.at - at;
            answer.from = found.level;
            answer.fault |= found.touched != Touch::Known;
        }
        if answer.fault {
            self.kernel_ran(self.fault_lines, at);
        }
        self.counts.fetches[answer.from as usize] += 1;
        answer
    }

    /// Translates the address of code that needs no line; returns how many cycles that takes.
    #[inline]
    pub fn translate_code(&mut self, address: u64, at: u64) -> u64 {
        let at = at + self.epoch;
        let page = address / LINE_BYTES / PAGE_LINES;
        if (self.tlb.as_mut()).is_none_or(|tlb| tlb.hits_code(page, at)) {
            return 0;
        }
        let translated = self.translate(Side::Instructions, page, at);
        self.counts.fetch_walks += u64::from(translated.walked);
        translated.late
    }

    #[inline(never)]
    fn lines(&mut self, r: &Request, write: bool) -> Answer {
        let (line, last) = lines_of(r.address, r.size);
        let answer = self.line(line, r, write);
        if last == line {
            return answer;
        }
        answer.and(self.line(last, r, write))
    }

    /// Whether an access to a line in cycle `at` finds its translation where it was found last, and the
    /// line in the first level, as most do; if so, it is done.
    #[inline(always)]
    fn hits(&mut self, line: u64, at: u64, write: bool) -> bool {
        let page = line / PAGE_LINES;
        if let Some(tlb) = &mut self.tlb
            && !tlb.is_last(page)
            && !tlb.hits(page, at)
        {
            return false;
        }
        let behind = if write { 0 } else { self.on_its_way.behind };
        let there = |state: &State| state.at() + behind <= at && !state.is_prefetched();
        let Some(state) = self.l1d.find_if(Key(line), there) else {
            return false;
        };
        *state = state.dirty(write);
        let counts = if write {
            &mut self.counts.stores
        } else {
            &mut self.counts.loads
        };
        counts[Level::L1 as usize] += 1;
        true
    }

    fn line(&mut self, line: u64, r: &Request, write: bool) -> Answer {
        let mut answer = Answer::default();
        let page = line / PAGE_LINES;
        let searched = |tlb: &mut Box<Tlb>| !tlb.is_last(page) && !tlb.hits(page, r.at);
        if self.tlb.as_mut().is_some_and(searched) {
            let translated = self.translate(Side::Data, page, r.at);
            answer.late = translated.late;
            answer.translation = translated.late;
            if translated.missed_first {
                self.counts.tlb_misses += 1;
                if translated.walked {
                    self.counts.walks += 1;
                    self.by_instruction.entry(r.instr).or_default().walks += 1;
                    answer.fault = self.first_touch(page, r.at) != Touch::Known;
                }
            }
        }
        let at = r.at + answer.late;
        match self.l1d.find(Key(line)) {
            Some(place) => {
                let state = self.l1d.state(place);
                let seen = *state;
                *state = state.dirty(write).prefetched(false);
                let late = match write {
                    true => seen.at().saturating_sub(at),
                    false => late(&self.on_its_way, seen.at(), at),
                };
                if late > 0 {
                    answer.late += late;
                    answer.from = seen.level();
                }
                if seen.is_prefetched() {
                    self.counts.useful_prefetches += 1;
                    self.first_use(r.pc, line, at);
                }
            }
            None if self.perfect_l1d => {}
            None => self.miss(line, r, at, write, &mut answer),
        }
        let counts = if write {
            &mut self.counts.stores
        } else {
            &mut self.counts.loads
        };
        counts[answer.from as usize] += 1;
        if answer.fault {
            self.kernel_ran(self.fault_lines, at);
        }
        answer
    }

    #[inline(never)]
    fn miss(&mut self, line: u64, r: &Request, at: u64, write: bool, answer: &mut Answer) {
        let found = self.fetch_line(line, at, write);
        answer.late += found.at - at;
        answer.from = found.level;
        answer.fault |= found.touched != Touch::Known;
        let misses = self.by_instruction.entry(r.instr).or_default();
        misses.add(&Misses {
            l1: 1,
            l2: u64::from(found.level >= Level::L3),
            l3: u64::from(found.level >= Level::Dram),
            walks: 0,
        });
        self.first_use(r.pc, line, at);
    }

    /// A line is asked for, from below the first level into that.
    fn fetch_line(&mut self, line: u64, at: u64, write: bool) -> Found {
        let (buffer, start) = self.fill.take(at);
        let found = self.below(line, start, Why::Demand);
        self.fill.hold(buffer, found.at);
        self.fill_l1(line, State::new(found.at, found.level).dirty(write));
        found
    }

    /// A line that was not in the first level, or that a prefetcher brought there, is used for the
    /// first time: that is what the prefetchers look at.
    fn first_use(&mut self, pc: u64, line: u64, at: u64) {
        if self.next_line {
            let wanted = Wanted {
                first: line + 1,
                step: 1,
                count: u32::from(!(line + 1).is_multiple_of(PAGE_LINES)),
            };
            self.prefetch_l1(wanted, at);
        }
        if let Some(stream) = &mut self.l1_stream {
            let wanted = stream.access(line);
            self.prefetch_l1(wanted, at);
        }
        if let Some(region) = &mut self.region {
            let footprint = region.access(pc, line);
            let (at, second_level) = (at + region.delay, region.second_level);
            let one = |first| Wanted {
                first,
                step: 1,
                count: 1,
            };
            for line in footprint.lines() {
                match second_level {
                    true => self.prefetch_l2(line, at),
                    false => self.prefetch_l1(one(line), at),
                }
            }
        }
    }

    #[inline]
    fn translate(&mut self, side: Side, page: u64, at: u64) -> tlb::Translated {
        let Some(mut tlb) = self.tlb.take() else {
            return tlb::Translated::default();
        };
        let translated = tlb.translate(side, page, at, &mut |line, at| self.table(line, at));
        self.tlb = Some(tlb);
        translated
    }

    /// Reads a line of a page table, which the second level holds; memory for tables is the
    /// kernel's and counts as touched.
    fn table(&mut self, line: Key, at: u64) -> u64 {
        let more = self.l2_more;
        if let Some(place) = self.l2.find(line) {
            return self.l2.state(place).at().max(at) + more;
        }
        let there = match self.shared.l3.as_mut().and_then(|l3| l3.find(line)) {
            Some(_) => at + self.l3_more,
            // The kernel has just written it.
            None => at,
        };
        self.place_l2(line.0, State::new(there, Level::L3));
        there + more
    }
}
