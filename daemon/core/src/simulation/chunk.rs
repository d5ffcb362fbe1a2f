//! Executed blocks packed for the way to another thread.

use std::sync::OnceLock;

use mcad_proto::word::{BlockId, Kernel, StreamId};

use super::execution::{Execution, Reach};
use crate::pipeline::access::{Access, Span};
use crate::pipeline::frontend::predict::stream::Steers;

/// Executions in a chunk at most: some 40 000 instructions, and less than a mebibyte.
const EXECUTIONS: usize = 1 << 13;
/// Accesses in a chunk, after which it is full.
const ACCESSES: usize = 1 << 15;

/// An execution; its spans, accesses, reaches and what its system call did begin where those of the
/// one before end.
#[derive(Clone, Copy, Debug)]
struct Packed {
    block: BlockId,
    first: u16,
    end: u16,
    spans: u32,
    accesses: u32,
    in_order: bool,
    repeats: u64,
    reaches: u32,
    kernel: u32,
}

/// Executions of one or more guest threads, in order.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Blocks that must have been defined before.
    pub(super) defined: usize,
    /// Threads, and where the executions of each end.
    threads: Vec<(StreamId, usize)>,
    executions: Vec<Packed>,
    spans: Vec<Span>,
    accesses: Vec<Access>,
    reaches: Vec<Reach>,
    kernel: Vec<Kernel>,
    /// By CPU model, what becomes of the branches in it, once somebody has found out.
    steers: Vec<OnceLock<Steers>>,
}

impl Chunk {
    /// Somebody will find out, on so many models, what becomes of its branches.
    pub(super) fn promise(&mut self, models: usize) {
        self.steers.resize_with(models, OnceLock::new);
    }

    /// What becomes of its branches on a model; what comes later than the first is left out.
    pub(super) fn tell(&self, model: usize, steers: Steers) {
        if let Some(slot) = self.steers.get(model) {
            let _ = slot.set(steers);
        }
    }

    /// Waits for what becomes of its branches on a model.
    pub(super) fn steers(&self, model: usize) -> Steers {
        let steers = self.steers.get(model).map(OnceLock::wait);
        steers.cloned().unwrap_or_default()
    }

    /// The first thread that executes in it.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.threads.first().map(|(stream, _)| *stream)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.executions.len() >= EXECUTIONS || self.accesses.len() + self.kernel.len() >= ACCESSES
    }

    pub(super) fn push(&mut self, stream: StreamId, execution: &Execution) {
        self.spans.extend_from_slice(&execution.spans);
        self.accesses.extend_from_slice(&execution.accesses);
        self.reaches.extend_from_slice(&execution.reaches);
        self.kernel.extend_from_slice(&execution.kernel);
        self.executions.push(Packed {
            block: execution.block,
            // A block has no more than 512 instructions.
            first: execution.first as u16,
            end: execution.end as u16,
            spans: self.spans.len() as u32,
            accesses: self.accesses.len() as u32,
            in_order: execution.in_order,
            repeats: execution.repeats,
            reaches: self.reaches.len() as u32,
            kernel: self.kernel.len() as u32,
        });
        let end = self.executions.len();
        match self.threads.last_mut() {
            Some((last, to)) if *last == stream => *to = end,
            _ => self.threads.push((stream, end)),
        }
    }

    /// Calls `take` with every execution, in order; `scratch` is where each is put.
    pub(super) fn each(&self, scratch: &mut Execution, mut take: impl FnMut(StreamId, &Execution)) {
        let (mut at, mut span, mut access, mut reach, mut work) = (0, 0, 0, 0, 0);
        for &(stream, end) in &self.threads {
            for packed in &self.executions[at..end] {
                let (spans, accesses) = (packed.spans as usize, packed.accesses as usize);
                scratch.block = packed.block;
                scratch.first = usize::from(packed.first);
                scratch.end = usize::from(packed.end);
                scratch.in_order = packed.in_order;
                scratch.repeats = packed.repeats;
                scratch.spans.clear();
                scratch.spans.extend_from_slice(&self.spans[span..spans]);
                scratch.accesses.clear();
                scratch
                    .accesses
                    .extend_from_slice(&self.accesses[access..accesses]);
                let reaches = packed.reaches as usize;
                scratch.reaches.clear();
                scratch
                    .reaches
                    .extend_from_slice(&self.reaches[reach..reaches]);
                let kernel = packed.kernel as usize;
                scratch.kernel.clear();
                scratch.kernel.extend_from_slice(&self.kernel[work..kernel]);
                (span, access, reach, work) = (spans, accesses, reaches, kernel);
                take(stream, scratch);
            }
            at = end;
        }
    }
}
