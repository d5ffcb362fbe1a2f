//! The simulation side of a session: takes batches, keeps the modules, finishes with a report.

use crossbeam_channel::{Receiver, Sender};
use mcad_core::report::Report;
use mcad_core::simulation::{Options, Simulation, SimulationError};
use mcad_proto::event::Event;

use super::SessionError;
use super::batch::Batch;
use super::limits::Retained;
use super::state::State;
use crate::regions::{RegionSpec, Regions};
use crate::symbols::Symbols;

/// What the simulation thread has when the events are over.
pub(super) struct Simulated {
    pub report: Report,
    /// Why it stopped before the end, if it did.
    pub failure: Option<SessionError>,
}

/// Runs until the feeder hangs up or the stream is broken. Used batches go back through `free`.
pub(super) fn simulate(
    batches: &Receiver<Batch>,
    free: &Sender<Batch>,
    options: Options,
    regions: &[RegionSpec],
    mut retained: Retained,
    state: &State,
) -> Simulated {
    let mut simulation = Simulation::new(options);
    let mut symbols = Symbols::new();
    let mut regions = Regions::new(regions);
    let mut failure = None;
    'stream: for mut batch in batches {
        for event in batch.events() {
            let taken = retained
                .account(&event)
                .and_then(|()| Ok(take(&mut simulation, &event, &mut symbols, &mut regions)?));
            if let Err(error) = taken {
                failure = Some(error);
                break 'stream;
            }
        }
        state.taken(batch.bytes() as u64);
        state.simulated(simulation.progress());
        batch.clear();
        // A full return channel means that the feeder has enough.
        let _ = free.try_send(batch);
    }
    state.simulated(simulation.progress());
    let mut report = simulation.finish(&symbols);
    for name in regions.unresolved() {
        report.notes.push(format!(
            "region '{name}' was never found: no mapped file has a function of that name"
        ));
    }
    if let Some(error) = &failure {
        report.program.complete = false;
        report.program.end = error.to_string();
    }
    Simulated { report, failure }
}

fn take(
    simulation: &mut Simulation,
    event: &Event<'_>,
    symbols: &mut Symbols,
    regions: &mut Regions,
) -> Result<(), SimulationError> {
    simulation.event(event)?;
    let found = match event {
        Event::Session(_) => regions.take_fixed(),
        Event::Block(block) => {
            symbols.defined(block.id);
            return Ok(());
        }
        Event::Module(module) => {
            symbols.add(module);
            regions.resolve(module, symbols)
        }
        _ => return Ok(()),
    };
    for region in found {
        simulation.event(&Event::Region(region))?;
    }
    Ok(())
}
