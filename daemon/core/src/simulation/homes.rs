//! Whose threads are whose, and what those of a process share.
//!
//! Processes share nothing: which of their accesses come first is not known, and the result of each
//! would depend on it.

use std::ops::Range;

use mcad_isa::machine::CpuModel;
use mcad_proto::word::{ProcessId, StreamId};
use rustc_hash::FxHashMap;

use crate::pipeline::backend::memory::lines::SharedLines;

/// What happens to processes between executions.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A file is mapped at these addresses.
    MapFile(ProcessId, Range<u64>),
    /// A thread that begins is of this process.
    AtHome(StreamId, ProcessId),
    /// A process has other memory from here on, or none: nothing of it is in a cache that its
    /// threads share, and no file is mapped.
    Renew(ProcessId),
    /// Threads of one process have a core together.
    Mixed,
}

/// Processes at home on one CPU model.
#[derive(Default)]
pub(super) struct Homes {
    /// By process.
    shared: Vec<SharedLines>,
    /// Processes of threads that have begun; the first where there is none.
    of: FxHashMap<StreamId, ProcessId>,
}

impl Homes {
    /// Something happens.
    pub(super) fn change(&mut self, model: &CpuModel, change: &Change) {
        match change {
            Change::MapFile(process, addresses) => {
                if let Some(shared) = self.lines(model, *process).get() {
                    shared.pages.map_file(addresses.clone());
                }
            }
            Change::AtHome(stream, process) => drop(self.of.insert(*stream, *process)),
            Change::Mixed => {}
            Change::Renew(process) => {
                if let Some(shared) = self.shared.get_mut(process.0 as usize) {
                    *shared = SharedLines::default();
                }
            }
        }
    }

    /// A thread ended.
    pub(super) fn end(&mut self, stream: StreamId) {
        self.of.remove(&stream);
    }

    /// The process of a thread.
    pub(super) fn of(&self, stream: StreamId) -> ProcessId {
        self.of.get(&stream).copied().unwrap_or_default()
    }

    /// What the threads of a process share; it is made when it is first asked for.
    #[inline]
    pub(super) fn lines(&mut self, model: &CpuModel, process: ProcessId) -> &mut SharedLines {
        let place = process.0 as usize;
        if self.shared.len() <= place {
            self.shared.resize_with(place + 1, SharedLines::default);
        }
        let shared = &mut self.shared[place];
        if shared.get().is_none() && model.core.cache.is_some() {
            *shared = SharedLines::of_program(&model.core);
        }
        shared
    }
}
