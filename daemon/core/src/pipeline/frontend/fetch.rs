//! The executed instructions in program order, waiting for the front end, and the decision from
//! where each is delivered.
//!
//! Instructions are gathered into groups: consecutive addresses within one 64-byte line, up to a
//! taken branch. A closed group is split into µop-cache blocks, each of which comes from the µop
//! cache or from the decoders. Only closed groups are released, so that no decision depends on how
//! the stream was cut.

mod gather;

use std::sync::Arc;

use super::ahead::{Ahead, Now, Wait};
use super::loop_stream::Detector;
use super::predict::stream::{Start, Starts};
use super::uop_cache::contents::UopCache;
use super::uop_cache::groups::{Groups, Pieces};
use super::uop_cache::pack::{Entry, Line, Open};
use super::uop_cache::refills::Refills;
use crate::memory::CodeLate;
use crate::pipeline::access::Access;
use crate::pipeline::backend::Backend;
use crate::pipeline::backlog::Backlog;
use crate::pipeline::fold::Folding;
use crate::pipeline::functional::Warm;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::state::{Fingerprint, Moment, Part, Remember};
use crate::pipeline::window::Window;
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::params::Frontend;

/// Released instructions with which the front end always knows what comes next, but where wrong paths are followed
/// ([`super::wrong_path::LOOKAHEAD`]).
pub const LOOKAHEAD: u64 = 96;
/// Backlog at which the front end is set to work.
pub const RUN_AT: u64 = 512;

/// Instructions between the caller and the front end.
pub struct FetchQueue {
    p: Frontend,
    cache: UopCache,
    groups: Groups,
    insts: Window<Inst>,
    accesses: Backlog<Access>,
    /// First instruction of the open group.
    open: u64,
    /// What the last line before the open group has room for.
    line: Open,
    /// The open group's instructions.
    pieces: Pieces,
    next_address: u64,
    route: Source,
    after_branch: bool,
    detector: Detector,
    /// The iteration so far came from the µop cache.
    cached: bool,
    /// First instruction of the loop stream refill that is being gathered.
    stream_from: u64,
    /// Branch prediction of a whole program.
    pub prediction: Option<Box<Starts>>,
    /// First instruction that has not been fetched.
    limit: u64,
    /// Cycle until which delivery waited for fetch last.
    waited: u64,
    /// Entries of µop-cache lines on their way to the front end.
    pub entries: Backlog<Entry>,
    /// Their lines.
    pub lines: Backlog<Line>,
    /// What has come back into the µop cache since the last page fault.
    pub refills: Refills,
}

impl FetchQueue {
    /// An empty queue; `warm`: everything that can be in the µop cache is.
    #[must_use]
    pub fn new(model: &Arc<CpuModel>, warm: bool) -> Self {
        let p = model.core.frontend.of_blocks();
        Self {
            cache: UopCache::new(&p, warm),
            groups: Groups::new(),
            p,
            // It grows where more wait; blocks do with this, which fits a first-level cache.
            insts: Window::new(256),
            accesses: Backlog::new(),
            open: 0,
            line: Open::default(),
            pieces: Pieces::default(),
            next_address: 0,
            route: Source::Decoders,
            after_branch: true,
            detector: Detector::new(&model.core.frontend, !warm),
            cached: true,
            stream_from: 0,
            prediction: None,
            limit: u64::MAX,
            waited: 0,
            entries: Backlog::new(),
            lines: Backlog::new(),
            refills: Refills::default(),
        }
    }

    /// Keeps code as in whole programs from now on.
    pub fn decode_alone(&mut self, p: &Frontend) {
        self.p = p.of_programs();
        self.cache.decode_alone(p);
    }

    /// Exchanges what is known of groups with another queue of the same program: who found it out
    /// shows in nothing but time.
    pub fn exchange_groups(&mut self, groups: &mut Groups) {
        std::mem::swap(&mut self.groups, groups);
    }

    /// Number of the next instruction to be delivered.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u64 {
        self.insts.head()
    }

    /// One past the last instruction that may be looked at.
    #[inline]
    #[must_use]
    pub fn released(&self) -> u64 {
        self.open
    }

    /// One past the last instruction that may be delivered: it is released, and fetched.
    #[inline]
    #[must_use]
    pub fn fetchable(&self) -> u64 {
        self.open.min(self.limit)
    }

    /// Says how far fetch has got in cycle `clock`; if that is not to the next instruction, when
    /// it will be there and what it waits for. `executed` is when the last instruction that was
    /// delivered is.
    pub fn fetch(
        &mut self,
        ahead: &mut Ahead,
        clock: u64,
        executed: u64,
        back: &mut Backend,
    ) -> Option<(u64, Wait)> {
        let insts = &self.insts;
        let starts = self.prediction.as_mut()?;
        let now = Now {
            head: insts.head(),
            released: self.open,
            clock,
            executed,
            visits: back.visits(),
        };
        let translated = self.p.uop_cache_translates;
        let decoded = |start: &Start| {
            (insts.get(start.number)).is_some_and(|inst| inst.source == Source::Decoders)
        };
        let late = |start: &Start, at: u64| match insts.get(start.number) {
            Some(inst) if inst.source == Source::Decoders => back.fetch(start.address, at),
            // What is kept as µops is not fetched.
            _ if translated => CodeLate {
                translation: back.translate_code(start.address, at),
                line: 0,
            },
            _ => CodeLate::default(),
        };
        let waiting = (&mut starts.queue, &mut starts.frames);
        let (limit, wait) = ahead.limit(waiting, &now, decoded, late);
        starts.counts.wrong_return += std::mem::take(&mut starts.frames.lost);
        self.limit = limit;
        if let Some((cycle, _)) = wait {
            self.waited = cycle;
        }
        wait
    }

    /// Cycles by which the predecoder may be ahead of delivery in cycle `clock`, of those that it takes: the µop cache was
    /// delivering, while code behind what it has was there.
    #[inline]
    #[must_use]
    pub fn ahead_of(&self, clock: u64) -> u64 {
        match self.p.decoders_run_ahead && self.prediction.is_some() {
            true => (clock.saturating_sub(self.waited)).min(self.p.predecode_to_decode),
            false => 0,
        }
    }

    /// Released instructions that wait.
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.open - self.insts.head()
    }

    /// An instruction by number.
    #[inline]
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&Inst> {
        self.insts.get(number)
    }

    /// An instruction by number.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut Inst> {
        self.insts.get_mut(number)
    }

    /// Instructions by number: all of `from..to` must be there.
    #[inline(always)]
    #[must_use]
    pub fn range(&self, from: u64, to: u64) -> &[Inst] {
        self.insts.range(from, to)
    }

    /// The same, to change them.
    #[inline(always)]
    pub fn range_mut(&mut self, from: u64, to: u64) -> &mut [Inst] {
        self.insts.range_mut(from, to)
    }

    /// The next instruction to be delivered.
    #[inline]
    #[must_use]
    pub fn front(&self) -> Option<&Inst> {
        self.insts.front()
    }

    /// The next so many instructions to be delivered, as far as they are there, and the accesses of these and those behind them.
    #[must_use]
    pub fn ahead(&self, count: u64) -> (&[Inst], &[Access]) {
        let to = self.insts.end().min(self.head() + count);
        (self.insts.range(self.head(), to), self.accesses.all())
    }

    /// Numbers of the instructions to which fetch will come from a wrong path.
    pub fn wrong_starts(&self) -> impl Iterator<Item = u64> {
        let starts = self.prediction.iter().flat_map(|p| p.queue.all());
        let wrong = starts.filter(|start| start.is_right_path());
        wrong.map(|start| start.number)
    }

    /// Accesses of the next instruction to be delivered.
    #[inline]
    #[must_use]
    pub fn front_accesses(&self) -> &[Access] {
        self.accesses.all()
    }

    /// The next instruction has been delivered completely.
    #[inline]
    pub fn pop(&mut self) {
        if let Some(inst) = self.insts.pop() {
            let accesses = inst.accesses();
            if accesses > 0 {
                self.accesses.pop(accesses);
            }
        }
    }

    /// The same of one that has so many accesses.
    #[inline(always)]
    pub fn pop_with(&mut self, accesses: usize) {
        self.insts.skip_one();
        if accesses > 0 {
            self.accesses.pop(accesses);
        }
    }

    /// Whether the next instruction has the next entry of a µop-cache line.
    #[inline]
    #[must_use]
    pub fn begins_with_entry(&self) -> bool {
        match (self.entries.front(), self.lines.front()) {
            (Some(entry), Some(line)) => line.from + u64::from(entry.number) == self.head(),
            _ => false,
        }
    }

    /// Whether no µop of the next instruction has been taken from the µop cache.
    #[must_use]
    pub fn between_instructions(&self) -> bool {
        self.entries.front().is_none_or(Entry::starts_instruction)
    }

    /// Says whether everything that can be in the µop cache is, from the next reset on.
    pub fn warm(&mut self, warm: bool) {
        self.cache.warm(warm);
        // A caller that feeds a warm loop decides itself what is replayed.
        self.detector.want(!warm);
    }
}

impl Remember for FetchQueue {
    fn resume(&mut self, warm: &mut Warm) {
        if let Some(code) = warm.code.take() {
            self.cache = code.route.cache;
            self.line = code.route.line;
            (self.route, self.after_branch) = (code.route.last, code.route.after_branch);
            self.prediction = code.prediction;
            self.refills = code.refills;
        }
    }
}

impl Part for FetchQueue {
    fn fold(&mut self, folding: &mut Folding) {
        self.groups.fold(folding);
        self.insts.fold(folding);
        self.accesses.fold(folding);
        self.entries.fold(folding);
        self.lines.fold(folding);
        self.refills.fold(folding);
        if let Some(prediction) = &mut self.prediction {
            prediction.fold(folding);
        }
    }

    fn reset(&mut self, end: &Moment) {
        let Self {
            p: _,
            cache,
            groups,
            insts,
            accesses,
            open,
            line,
            pieces,
            next_address,
            route,
            after_branch,
            detector,
            cached,
            stream_from,
            // Of a whole program, which is never brought to rest.
            prediction: _,
            limit: _,
            waited: _,
            entries,
            lines,
            refills,
        } = self;
        cache.reset(end);
        groups.reset();
        insts.reset();
        accesses.clear();
        (*open, *next_address) = (0, 0);
        *line = Open::default();
        pieces.clear();
        (*route, *after_branch) = (Source::Decoders, true);
        detector.reset(end);
        (*cached, *stream_from) = (true, 0);
        entries.clear();
        lines.clear();
        *refills = Refills::default();
    }

    /// The place in the current line of the µop cache. All else that waits here follows from the
    /// program, as do the contents of the µop cache and the detector's state where a block is
    /// executed again and again.
    fn fingerprint(&self, _: &Moment, h: &mut Fingerprint) {
        let Self {
            p: _,
            cache: _,
            groups: _,
            insts,
            accesses: _,
            open: _,
            line: _,
            pieces: _,
            next_address: _,
            route: _,
            after_branch: _,
            detector: _,
            cached: _,
            stream_from: _,
            entries,
            prediction: _,
            limit: _,
            waited: _,
            lines,
            refills,
        } = self;
        h.add(refills.count());
        match (entries.front(), lines.front()) {
            (Some(entry), Some(line)) => {
                entry.fingerprint(line.from, insts.head(), h);
                h.add(u64::from(line.left));
            }
            _ => h.add(0),
        }
    }
}
