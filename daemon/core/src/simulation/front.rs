//! Threads that go through the stream ahead of those that simulate a CPU model.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use mcad_isa::machine::CpuModel;
use mcad_proto::word::StreamId;

use super::chunk::Chunk;
use super::homes::Change;
use super::oracle::Oracle;
use super::warmer::Warmer;
use super::workers::{Definition, OnThread};
use crate::pipeline::functional::{Functional, Warm};

/// Those of one model.
#[derive(Default)]
pub(super) struct Front {
    /// Predicts its branches, if it has predictors.
    oracle: Option<Oracle>,
    /// Keeps its long memory, where threads are cut and it has one.
    warmer: Option<Warmer>,
}

impl Front {
    /// Starts the threads of the model with that number. `cut`: for intervals, where accesses are
    /// looked at if `memory` says so.
    ///
    /// # Errors
    /// When the system gives none.
    pub(super) fn start(
        number: usize,
        model: &Arc<CpuModel>,
        (cut, memory): (bool, bool),
        on_thread: &OnThread,
    ) -> io::Result<Self> {
        let keeps = cut && Functional::is_modelled(model);
        let warmer = keeps.then(|| Warmer::start(number, model, memory, on_thread));
        Ok(Self {
            oracle: Oracle::start(number, model, on_thread)?,
            warmer: warmer.transpose()?,
        })
    }

    /// Whether those who simulate are told what becomes of branches.
    pub(super) fn tells(&self) -> bool {
        self.oracle.is_some()
    }

    /// A block was defined.
    pub(super) fn define(&self, definition: &Arc<Definition>) {
        if let Some(oracle) = &self.oracle {
            oracle.define(definition);
        }
        if let Some(warmer) = &self.warmer {
            warmer.define(definition);
        }
    }

    /// Something happens to processes, behind what was executed before.
    pub(super) fn change(&self, change: &Change) {
        if let Some(warmer) = &self.warmer {
            warmer.change(change);
        }
    }

    /// Blocks were executed.
    pub(super) fn execute(&self, chunk: &Arc<Chunk>) {
        if let Some(oracle) = &self.oracle {
            oracle.execute(chunk);
        }
        if let Some(warmer) = &self.warmer {
            warmer.execute(chunk);
        }
    }

    /// Where what a thread's core remembers now will come; the instruction at `next` comes next.
    pub(super) fn snapshot(&self, stream: StreamId, next: u64) -> Option<Receiver<Warm>> {
        (self.warmer.as_ref()).map(|warmer| warmer.snapshot(stream, next))
    }

    /// A guest thread ended.
    pub(super) fn end_thread(&self, stream: StreamId) {
        if let Some(oracle) = &self.oracle {
            oracle.end_thread(stream);
        }
        if let Some(warmer) = &self.warmer {
            warmer.end_thread(stream);
        }
    }

    /// Waits until all is done.
    pub(super) fn finish(self) {
        if let Some(oracle) = self.oracle {
            oracle.finish();
        }
        if let Some(warmer) = self.warmer {
            warmer.finish();
        }
    }
}
