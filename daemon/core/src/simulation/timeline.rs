//! Recording of a window of a run: every µop's stamps, handed out as they are known.
//!
//! The recorded model runs in a pipeline of its own, whose observer wants µops; the pipelines
//! that make the report stay as they are, so that recording costs nothing when it is off and
//! cannot change a result when it is on. Memory does not depend on the window's length: stamps go
//! to the [`TimelineSink`] block by block.

use std::ops::Range;
use std::sync::Arc;

use mcad_proto::event::RegionDef;
use mcad_proto::word::{BlockId, StreamId};
use rustc_hash::FxHashMap;

use super::core::{Core, Watch};
use super::dictionary::{Dictionary, TranslatedBlock};
use super::execution::Execution;
use super::homes::Change;
use super::hottest::Hottest;
use super::region::Tracker;
use crate::lists::part;
use crate::pipeline::inst::Inst;
use crate::pipeline::observer::{Retired, UopStamps};
use mcad_isa::code::{Code, Printer};
use mcad_isa::machine::CpuModel;
use mcad_isa::program::{Program, flag};

/// Which part of a run is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Window {
    /// Instructions by number in their thread, from 0.
    Instructions(Range<u64>),
    /// Instructions that retire in these cycles of their thread.
    Cycles(Range<u64>),
    /// One stay in a region of interest.
    Region {
        /// Name of the region.
        name: String,
        /// Which stay of a thread, from 0.
        occurrence: u64,
    },
    /// About this many instructions, half of them before and half of them after the end of one
    /// execution of the block that has the most cycles of all. They are told at the end.
    Hottest(u64),
}

/// One executed instruction, or a macro-fused pair, with the stamps of its µops.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    /// Guest thread.
    pub thread: StreamId,
    /// Number in its thread, from 0.
    pub number: u64,
    /// As told to [`TimelineSink::code`].
    pub code: u32,
    /// Whether it is a macro-fused pair: two instructions, the second one without µops.
    pub pair: bool,
    /// When it retired.
    pub retired: Retired,
    /// Its µops in program order, the machine's own before it included.
    pub uops: &'a [UopStamps],
}

/// Receives what is recorded. It deals with its own errors.
pub trait TimelineSink {
    /// An instruction of a block. Comes once, before any execution of it; `code` numbers are
    /// dense. Most are never executed in the window.
    fn code(&mut self, code: u32, block: BlockId, address: u64, text: &str);

    /// An instruction in the window retired; in program order within a thread.
    fn instruction(&mut self, timed: &Timed<'_>);

    /// The run is over. `cycles` are the recorded model's over the whole run, as in the report;
    /// `left_out` are the window's instructions beyond the limit.
    fn end(&mut self, cycles: u64, left_out: u64);
}

/// An instruction whose stamps wait to be told.
#[derive(Clone, Copy, Debug)]
struct Done {
    instr: u32,
    tag: u32,
    retired: Retired,
    /// One past its last µop in [`Stamps::uops`].
    end: usize,
}

/// Keeps stamps until the recorder takes them.
#[derive(Debug, Default)]
pub(super) struct Stamps {
    uops: Vec<UopStamps>,
    done: Vec<Done>,
}

impl Watch for Stamps {
    const UOPS: bool = true;

    fn uop(&mut self, stamps: UopStamps) {
        self.uops.push(stamps);
    }

    fn retired(&mut self, inst: &Inst, retired: Retired) {
        self.done.push(Done {
            instr: inst.instr,
            tag: inst.tag,
            retired,
            end: self.uops.len(),
        });
    }
}

/// What one thread's recording has come to.
#[derive(Default)]
struct Progress {
    /// Instructions so far.
    number: u64,
    last: u64,
    tracker: Tracker,
}

/// A model that is recorded.
pub(super) struct Recording {
    core: Core<Stamps>,
    /// By instruction of the program, its code as the sink knows it: one for all vector types.
    codes: Vec<u32>,
    /// Codes that were told.
    told: u32,
    window: Window,
    hottest: Option<Hottest>,
    /// Instructions that may still be told.
    budget: u64,
    left_out: u64,
    sink: Box<dyn TimelineSink>,
    threads: FxHashMap<StreamId, Progress>,
    printer: Printer,
}

impl Recording {
    pub(super) fn new(
        model: Arc<CpuModel>,
        window: Window,
        limit: u64,
        sink: Box<dyn TimelineSink>,
    ) -> Self {
        Self {
            core: Core::new(model),
            codes: Vec::new(),
            told: 0,
            hottest: match window {
                Window::Hottest(instructions) => Some(Hottest::new(instructions.min(limit))),
                _ => None,
            },
            window,
            budget: limit,
            left_out: 0,
            sink,
            threads: FxHashMap::default(),
            printer: Printer::new(),
        }
    }

    pub(super) fn define(&mut self, id: BlockId, decoded: &[Code]) {
        self.core.define(id, decoded);
        for d in decoded {
            let text = self.printer.text(d);
            self.sink.code(self.told, id, d.address(), &text);
            self.codes.push(self.told);
            self.told += 1;
        }
    }

    /// Something happens to processes.
    pub(super) fn change(&mut self, change: &Change) {
        self.core.change(change);
    }

    pub(super) fn execute(
        &mut self,
        stream: StreamId,
        block: &TranslatedBlock,
        execution: &Execution<'_>,
        memory: bool,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) {
        self.core
            .execute(stream.into(), block, execution, memory, &[], dictionary);
        if self.codes.len() < self.core.program().instrs.len() {
            // The block was met with another vector type.
            self.codes
                .extend_from_within(self.core.range(execution.block));
        }
        let (program, stamps) = self.core.watched(stream);
        if let Some(stamps) = stamps {
            let passage = Passage {
                stream,
                window: &self.window,
                hottest: self.hottest.as_mut(),
                budget: &mut self.budget,
                left_out: &mut self.left_out,
                sink: &mut *self.sink,
                regions,
                dictionary,
                program,
                codes: &self.codes,
            };
            passage.pass(stamps, self.threads.entry(stream).or_default(), false);
        }
    }

    pub(super) fn end_thread(
        &mut self,
        stream: StreamId,
        regions: &[RegionDef],
        dictionary: &Dictionary,
    ) {
        let Some(mut stamps) = self.core.end_thread(stream.into(), &[], dictionary) else {
            return;
        };
        let mut progress = self.threads.remove(&stream).unwrap_or_default();
        let passage = Passage {
            stream,
            window: &self.window,
            hottest: self.hottest.as_mut(),
            budget: &mut self.budget,
            left_out: &mut self.left_out,
            sink: &mut *self.sink,
            regions,
            dictionary,
            program: self.core.program(),
            codes: &self.codes,
        };
        passage.pass(&mut stamps, &mut progress, true);
        if let Some(hottest) = &mut self.hottest {
            hottest.end_thread(stream);
        }
    }

    pub(super) fn end(mut self) {
        if let Some(hottest) = self.hottest.take() {
            hottest.tell(|timed| {
                if self.budget == 0 {
                    self.left_out += 1;
                } else {
                    self.budget -= 1;
                    self.sink.instruction(timed);
                }
            });
        }
        self.sink.end(self.core.cycles_so_far(), self.left_out);
    }
}

/// The passage of a thread's stamps to the sink, as far as they are in the window.
struct Passage<'a> {
    stream: StreamId,
    window: &'a Window,
    hottest: Option<&'a mut Hottest>,
    budget: &'a mut u64,
    left_out: &'a mut u64,
    sink: &'a mut dyn TimelineSink,
    regions: &'a [RegionDef],
    dictionary: &'a Dictionary,
    program: &'a Program,
    codes: &'a [u32],
}

impl Passage<'_> {
    /// Takes whole blocks out of `stamps`, and with `last` whatever is there.
    fn pass(mut self, stamps: &mut Stamps, progress: &mut Progress, last: bool) {
        let mut begin = 0;
        let mut uop = 0;
        while begin < stamps.done.len() {
            let rest = part(&stamps.done, begin..stamps.done.len());
            let len = match rest.iter().position(|done| done.tag != 0) {
                Some(tagged) => tagged + 1,
                None if last => rest.len(),
                None => break,
            };
            let block = part(rest, 0..len);
            uop = self.block(block, &stamps.uops, uop, progress);
            begin += len;
        }
        stamps.done.drain(..begin);
        stamps.uops.drain(..uop);
        for done in &mut stamps.done {
            done.end -= uop;
        }
    }

    /// Tells one block's instructions; their µops begin at `uop`. Returns where they end.
    fn block(
        &mut self,
        block: &[Done],
        uops: &[UopStamps],
        mut uop: usize,
        progress: &mut Progress,
    ) -> usize {
        let in_region = self.in_region(block, progress);
        for done in block {
            let pair = self
                .program
                .instrs
                .get(done.instr as usize)
                .is_some_and(|instr| instr.is(flag::FUSED_NEXT));
            let number = progress.number;
            progress.number += 1 + u64::from(pair);
            let timed = Timed {
                thread: self.stream,
                number,
                code: (self.codes.get(done.instr as usize).copied()).unwrap_or_default(),
                pair,
                retired: done.retired,
                uops: part(uops, uop..done.end),
            };
            let inside = match self.window {
                Window::Instructions(range) => range.contains(&number),
                Window::Cycles(range) => range.contains(&done.retired.last),
                Window::Region { .. } => in_region,
                Window::Hottest(_) => false,
            };
            if inside && *self.budget == 0 {
                *self.left_out += 1;
            } else if inside {
                *self.budget -= 1;
                self.sink.instruction(&timed);
            }
            if let Some(hottest) = &mut self.hottest {
                hottest.instruction(&timed);
            }
            uop = done.end;
        }
        if let Some(hottest) = &mut self.hottest
            && let Some(done) = block.last()
            && let Some(id) = done.tag.checked_sub(1)
        {
            let spent = done.retired.last.saturating_sub(progress.last);
            progress.last = done.retired.last;
            hottest.block(self.stream, BlockId(id), spent);
        }
        uop
    }

    /// Whether the block is in the stay that the window asks for.
    fn in_region(&self, block: &[Done], progress: &mut Progress) -> bool {
        let Window::Region { name, occurrence } = self.window else {
            return false;
        };
        let (Some(region), Some(done)) =
            (self.regions.iter().find(|r| r.name == *name), block.last())
        else {
            return false;
        };
        let Some(executed) = done
            .tag
            .checked_sub(1)
            .and_then(|id| self.dictionary.get(BlockId(id)))
        else {
            return false;
        };
        let spent = done.retired.last.saturating_sub(progress.last);
        progress.last = done.retired.last;
        progress.tracker.block(
            std::slice::from_ref(region),
            executed,
            spent,
            executed.len() as u64,
        );
        progress.tracker.stay() == Some(*occurrence)
    }
}
