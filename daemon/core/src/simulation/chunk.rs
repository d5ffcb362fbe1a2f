//! Executed blocks packed for the way to other threads.
//!
//! Whoever is done with a chunk last gives its memory back for the next one ([`Pool`]).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mcad_proto::word::{BlockId, Kernel, StreamId};

use super::execution::{Execution, Reach};
use crate::lists::part;
use crate::pipeline::access::{Access, Span};
use crate::pipeline::frontend::predict::Steer;
use crate::pipeline::frontend::predict::stream::Steers;

/// Executions in a chunk at most: some 40 000 instructions, and about a mebibyte.
const EXECUTIONS: usize = 1 << 13;
/// Accesses in a chunk, after which it is full: those of the last execution seldom make its lists
/// larger than a power of two.
const ACCESSES: usize = (1 << 14) - 256;

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

/// What a chunk has.
#[derive(Debug, Default)]
struct Rows {
    /// Threads, and where the executions of each end.
    threads: Vec<(StreamId, usize)>,
    executions: Vec<Packed>,
    spans: Vec<Span>,
    accesses: Vec<Access>,
    reaches: Vec<Reach>,
    kernel: Vec<Kernel>,
}

impl Rows {
    fn clear(&mut self) {
        let Self {
            threads,
            executions,
            spans,
            accesses,
            reaches,
            kernel,
        } = self;
        threads.clear();
        executions.clear();
        spans.clear();
        accesses.clear();
        reaches.clear();
        kernel.clear();
    }
}

/// Memory of chunks that nobody needs any more. It has as much as chunks lived at the same time,
/// which queues bound.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<Rows>>>);

impl Pool {
    fn rows(&self) -> std::sync::MutexGuard<'_, Vec<Rows>> {
        // Whole rows are put in and taken out: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty chunk.
    pub(super) fn chunk(&self) -> Chunk {
        let rows = self.rows().pop().unwrap_or_default();
        Chunk {
            defined: 0,
            rows,
            told: Vec::new(),
            pool: self.clone(),
        }
    }
}

/// What becomes of the branches in a chunk.
#[derive(Debug, Default)]
struct Told {
    steers: Arc<[Steer]>,
    /// Where those of each row of executions of a thread end.
    ends: Box<[usize]>,
}

/// Executions of one or more guest threads, in order.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Blocks that must have been defined before.
    pub(super) defined: usize,
    rows: Rows,
    /// By CPU model, what becomes of the branches in it, once somebody has found out.
    told: Vec<OnceLock<Told>>,
    pool: Pool,
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        if rows.executions.capacity() > 0 {
            rows.clear();
            self.pool.rows().push(rows);
        }
    }
}

impl Chunk {
    /// Takes all that is in it, and begins anew.
    pub(super) fn take(&mut self) -> Self {
        let empty = self.pool.chunk();
        std::mem::replace(self, empty)
    }

    /// Somebody will find out, on so many models, what becomes of its branches.
    pub(super) fn promise(&mut self, models: usize) {
        self.told.resize_with(models, OnceLock::new);
    }

    /// What becomes of its branches on a model, and where those of each of its [`Chunk::threads`]
    /// end; what comes later than the first is left out.
    pub(super) fn tell(&self, model: usize, steers: &[Steer], ends: &[usize]) {
        if let Some(slot) = self.told.get(model) {
            let (steers, ends) = (steers.into(), ends.into());
            let _ = slot.set(Told { steers, ends });
        }
    }

    /// Waits for what becomes of the branches of one of its [`Chunk::threads`] on a model.
    pub(super) fn steers(&self, model: usize, thread: usize) -> Steers {
        let Some(told) = self.told.get(model).map(OnceLock::wait) else {
            return Steers::default();
        };
        let end = |thread: usize| told.ends.get(thread).copied().unwrap_or(0);
        let first = thread.checked_sub(1).map_or(0, end);
        Steers::new(&told.steers, first..end(thread))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.executions.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        let rows = &self.rows;
        rows.executions.len() >= EXECUTIONS || rows.accesses.len() + rows.kernel.len() >= ACCESSES
    }

    pub(super) fn push(&mut self, stream: StreamId, execution: &Execution<'_>) {
        let rows = &mut self.rows;
        rows.spans.extend_from_slice(execution.spans);
        rows.accesses.extend_from_slice(execution.accesses);
        if !execution.reaches.is_empty() {
            rows.reaches.extend_from_slice(execution.reaches);
        }
        if !execution.kernel.is_empty() {
            rows.kernel.extend_from_slice(execution.kernel);
        }
        rows.executions.push(Packed {
            block: execution.block,
            // A block has no more than 512 instructions.
            first: execution.first as u16,
            end: execution.end as u16,
            spans: rows.spans.len() as u32,
            accesses: rows.accesses.len() as u32,
            in_order: execution.in_order,
            repeats: execution.repeats,
            reaches: rows.reaches.len() as u32,
            kernel: rows.kernel.len() as u32,
        });
        let end = rows.executions.len();
        match rows.threads.last_mut() {
            Some((last, to)) if *last == stream => *to = end,
            _ => rows.threads.push((stream, end)),
        }
    }

    /// Which threads execute, one row of executions behind the other.
    pub(super) fn threads(&self) -> impl Iterator<Item = (StreamId, Executions<'_>)> {
        let mut before = (0, [0; 4]);
        self.rows.threads.iter().map(move |&(stream, end)| {
            let (first, starts) = before;
            let last = self.rows.executions.get(end.wrapping_sub(1));
            before = (end, last.map_or(starts, Packed::ends));
            let packed = part(&self.rows.executions, first..end);
            let executions = Executions {
                rows: &self.rows,
                packed: packed.iter(),
                starts,
            };
            (stream, executions)
        })
    }
}

impl Packed {
    /// Where what it has of each row ends.
    #[inline]
    fn ends(&self) -> [usize; 4] {
        [self.spans, self.accesses, self.reaches, self.kernel].map(|end| end as usize)
    }
}

/// Executions of one thread.
pub(super) struct Executions<'a> {
    rows: &'a Rows,
    packed: std::slice::Iter<'a, Packed>,
    /// Where those of the next one begin.
    starts: [usize; 4],
}

impl<'a> Iterator for Executions<'a> {
    type Item = Execution<'a>;

    #[inline]
    fn next(&mut self) -> Option<Execution<'a>> {
        let packed = self.packed.next()?;
        let ends = packed.ends();
        let [span, access, reach, work] = self.starts;
        let [spans, accesses, reaches, kernel] = ends;
        self.starts = ends;
        Some(Execution {
            block: packed.block,
            first: usize::from(packed.first),
            end: usize::from(packed.end),
            in_order: packed.in_order,
            repeats: packed.repeats,
            spans: part(&self.rows.spans, span..spans),
            accesses: part(&self.rows.accesses, access..accesses),
            reaches: part(&self.rows.reaches, reach..reaches),
            kernel: part(&self.rows.kernel, work..kernel),
        })
    }
}
