//! What executed blocks are told to: the cores, a recording, and the counts of the run.

use std::ops::Range;

use mcad_isa::code::Code;
use mcad_proto::event::RegionDef;
use mcad_proto::word::{BlockId, ProcessId, StreamId};

use super::Options;
use super::core::Core;
use super::dictionary::{Dictionary, TranslatedBlock};
use super::evidence::Evidence;
use super::execution::Execution;
use super::homes::Change;
use super::processes::Processes;
use super::seats::Seats;
use super::timeline::Recording;
use super::workers::Workers;

/// Executions of one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Executed {
    pub(super) times: u64,
    pub(super) instructions: u64,
}

/// Who simulates.
pub(super) enum Cores {
    /// This thread, a core for each model.
    Here(Vec<Core>),
    /// Others.
    Workers(Box<Workers>),
}

impl Default for Cores {
    fn default() -> Self {
        Self::Here(Vec::new())
    }
}

impl Cores {
    pub(super) fn cycles_so_far(&self) -> u64 {
        match self {
            Self::Here(cores) => cores.first().map_or(0, |core| core.cycles_so_far()),
            Self::Workers(workers) => workers.cycles_so_far(),
        }
    }
}

/// A run, as far as it has come.
pub(super) struct Run {
    pub(super) cores: Cores,
    pub(super) recording: Option<Recording>,
    /// By block.
    pub(super) executed: Vec<Executed>,
    pub(super) processes: Processes,
    pub(super) regions: Vec<RegionDef>,
    /// Whether what models take for granted holds, where one does that takes something.
    pub(super) evidence: Option<Evidence>,
    /// Whether memory dependencies are simulated from the recorded addresses.
    memory: bool,
    seats: Seats,
    /// Threads of one process have a core together.
    pub(super) mixed: bool,
}

impl Run {
    /// Nothing has run.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            cores: Cores::default(),
            recording: None,
            executed: Vec::new(),
            processes: Processes::default(),
            regions: Vec::new(),
            evidence: None,
            memory: options.memory,
            seats: Seats::new(options.one_core),
            mixed: false,
        }
    }

    /// A block was defined, and is in the dictionary.
    pub(super) fn define(&mut self, dictionary: &Dictionary, id: BlockId, decoded: Vec<Code>) {
        if let Some(recording) = &mut self.recording {
            recording.define(id, &decoded);
        }
        match &mut self.cores {
            Cores::Here(cores) => cores.iter_mut().for_each(|core| core.define(id, &decoded)),
            Cores::Workers(workers) => {
                if let Some(block) = dictionary.share(id) {
                    workers.define(id, block, decoded);
                }
            }
        }
        let place = id.0 as usize;
        if self.executed.len() <= place {
            self.executed.resize(place + 1, Executed::default());
        }
    }

    /// A thread of the process that was entered begins; whether it is a new one.
    pub(super) fn begin_thread(&mut self, stream: StreamId) -> bool {
        let (process, is_new) = self.processes.begin_thread(stream);
        // All are of the first process until told otherwise.
        if process != ProcessId::FIRST {
            self.change(&Change::AtHome(stream, process));
        }
        is_new
    }

    /// A process has other memory than before, or none.
    pub(super) fn renew(&mut self, process: ProcessId) {
        self.change(&Change::Renew(process));
    }

    fn change(&mut self, change: &Change) {
        match &mut self.cores {
            Cores::Here(cores) => cores.iter_mut().for_each(|core| core.change(change)),
            Cores::Workers(workers) => workers.change(change),
        }
        if let Some(recording) = &mut self.recording {
            recording.change(change);
        }
    }

    /// The process that was entered has a file at these addresses, or will before its code runs.
    pub(super) fn announce(&mut self, addresses: Range<u64>) {
        if let Some((process, addresses)) = self.processes.announce(addresses) {
            self.change(&Change::MapFile(process, addresses));
        }
    }

    /// A region is watched from here on.
    pub(super) fn watch(&mut self, region: &RegionDef) {
        self.regions.push(region.clone());
        if let Cores::Workers(workers) = &mut self.cores {
            workers.region(region);
        }
    }

    /// A thread executed a block.
    pub(super) fn execute(
        &mut self,
        stream: StreamId,
        block: &TranslatedBlock,
        execution: &Execution<'_>,
        dictionary: &Dictionary,
    ) {
        if let Some(executed) = self.executed.get_mut(execution.block.0 as usize) {
            executed.times += 1;
            executed.instructions += (execution.end - execution.first) as u64;
        }
        if let Some(evidence) = &mut self.evidence {
            evidence.execute(stream, block, execution);
        }
        let process = self.processes.of(stream);
        let address = block.address.0;
        if let Some(file) = self.processes.executes(process, execution.block, address) {
            self.change(&Change::MapFile(process, file));
        }
        let seated = self.seats.of(stream, process);
        if seated.joins {
            self.mixed = true;
            self.change(&Change::Mixed);
        }
        let stream = seated.core;
        let (memory, regions) = (self.memory, &*self.regions);
        match &mut self.cores {
            Cores::Here(cores) => {
                for core in cores {
                    let part = stream.into();
                    core.execute(part, block, execution, memory, regions, dictionary);
                }
            }
            Cores::Workers(workers) => {
                workers.execute(stream, block.address_of(execution.first), execution);
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.execute(stream, block, execution, memory, regions, dictionary);
        }
    }

    /// A thread ended.
    pub(super) fn end_thread(&mut self, stream: StreamId, dictionary: &Dictionary) {
        if let Some(evidence) = &mut self.evidence {
            evidence.end_thread(stream);
        }
        let process = self.processes.of(stream);
        let Some(stream) = self.seats.end(stream, process) else {
            return;
        };
        match &mut self.cores {
            Cores::Here(cores) => {
                for core in cores {
                    core.end_thread(stream.into(), &self.regions, dictionary);
                }
            }
            Cores::Workers(workers) => workers.end_thread(stream),
        }
        if let Some(recording) = &mut self.recording {
            recording.end_thread(stream, &self.regions, dictionary);
        }
    }
}
