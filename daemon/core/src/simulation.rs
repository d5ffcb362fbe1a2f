//! One session's simulation: events in, a [`Report`] out.
//!
//! [`Simulation`] owns the block dictionary and, per guest thread and CPU model, one analysis. It
//! does no I/O and its result does not depend on how the records were cut into events.

use std::sync::Arc;

use mcad_proto::event::Event;
use mcad_proto::word::GuestAddr;

use crate::machine::CpuModel;
use crate::report::Report;

/// Which analysis runs over the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnalysisKind {
    /// The out-of-order core, instruction by instruction.
    Pipeline,
    /// Every block predicted on its own in a loop, times its executions.
    Block,
}

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPU models; each is simulated over the one stream.
    pub cpus: Vec<Arc<CpuModel>>,
    /// Analyses per CPU model.
    pub analyses: Vec<AnalysisKind>,
    /// Whether memory dependencies are simulated from the recorded addresses.
    pub memory: bool,
}

/// How far a simulation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Guest instructions simulated.
    pub instructions: u64,
    /// Cycles on the first CPU model.
    pub cycles: u64,
}

/// A broken stream of events.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// An event came out of order or names something that was never defined.
    #[error("the event stream is broken after {records} records: {what}")]
    BrokenStream {
        /// Records accepted before.
        records: u64,
        /// What is wrong.
        what: String,
    },
}

/// A name for a code address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Demangled function name.
    pub name: String,
    /// Distance from the function's start in bytes.
    pub offset: u64,
    /// File name of the module.
    pub module: String,
}

/// Turns code addresses into names; implemented outside the core, which does no I/O.
pub trait Symbolizer {
    /// The function at an address.
    fn symbol(&self, address: GuestAddr) -> Option<Symbol>;
    /// `file:line` of an address.
    fn line(&self, address: GuestAddr) -> Option<String>;
}

/// A [`Symbolizer`] that knows nothing.
pub struct NoSymbols;

impl Symbolizer for NoSymbols {
    fn symbol(&self, _: GuestAddr) -> Option<Symbol> {
        None
    }
    fn line(&self, _: GuestAddr) -> Option<String> {
        None
    }
}

/// A running simulation.
pub struct Simulation {
    _options: Options,
}

impl Simulation {
    /// Starts a simulation.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { _options: options }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// [`SimulationError`] when the stream is broken; what came before stays valid and
    /// [`Simulation::finish`] may still be called.
    pub fn event(&mut self, _event: &Event<'_>) -> Result<(), SimulationError> {
        Ok(())
    }

    /// How far the simulation is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// Ends the simulation and builds the report; [`Report::run`] is left for the caller.
    #[must_use]
    pub fn finish(self, _symbols: &dyn Symbolizer) -> Report {
        Report {
            schema_version: crate::report::SCHEMA_VERSION,
            tool: crate::report::Tool {
                name: "mcad".into(),
                version: env!("CARGO_PKG_VERSION").into(),
            },
            program: Default::default(),
            trace: Default::default(),
            cpus: Vec::new(),
            unknown_instructions: Default::default(),
            notes: Vec::new(),
            run: Default::default(),
        }
    }
}
