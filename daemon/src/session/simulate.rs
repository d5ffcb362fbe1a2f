//! The simulation side of a session: takes batches, keeps the modules, finishes with a report.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use mcad_core::simulation::{OnThread, Options, Parallel, Simulation, SimulationError};
use mcad_proto::event::Event;
use mcad_report::Report;

use super::SessionError;
use super::batch::Batch;
use super::limits::Retained;
use super::state::State;
use crate::recorder::RecordingError;
use crate::regions::{RegionSpec, Regions};
use crate::symbols::Symbols;
use crate::timeline::{FileSink, Recorded, TimelinePlan};

/// What the simulation thread is to do.
pub(super) struct Analysis<'a> {
    pub options: Options,
    pub parallel: Option<Parallel>,
    pub regions: &'a [RegionSpec],
    pub timeline: Option<TimelinePlan>,
    pub retained: Retained,
}

/// What the simulation thread has when the events are over.
pub(super) struct Simulated {
    pub report: Report,
    /// Why it stopped before the end, if it did.
    pub failure: Option<SessionError>,
    /// What became of the timeline.
    pub timeline: Option<Result<File, RecordingError>>,
}

/// Runs until the feeder hangs up or the stream is broken. Used batches go back through `free`.
pub(super) fn simulate(
    batches: &Receiver<Batch>,
    free: &Sender<Batch>,
    analysis: Analysis<'_>,
    state: &State,
) -> Simulated {
    let retained = analysis.retained;
    let _charge = retained.account().charge();
    let mut simulation = match analysis.parallel {
        None => Simulation::new(analysis.options),
        Some(parallel) => {
            let account = retained.account().clone();
            let charge: OnThread = Arc::new(move || Box::new(account.charge()));
            Simulation::parallel(analysis.options, parallel, charge)
        }
    };
    simulation.tell_calls();
    let symbols = Rc::new(RefCell::new(Symbols::new()));
    let recorded = Rc::new(RefCell::new(Recorded::default()));
    if let Some(timeline) = &analysis.timeline {
        let sink = FileSink::for_model(timeline, Rc::clone(&symbols), Rc::clone(&recorded));
        let window = timeline.window.window.clone();
        simulation.record(window, timeline.limit, sink);
    }
    let mut regions = Regions::new(analysis.regions);
    let mut failure = None;
    'stream: for mut batch in batches {
        for event in batch.events() {
            let taken = take(&mut simulation, &event, &symbols, &mut regions)
                .map_err(SessionError::from)
                .and_then(|()| retained.check());
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
    let mut report = simulation.finish(&*symbols.borrow());
    report.notes.extend(regions.unresolved(&symbols.borrow()));
    if let Some(error) = &failure {
        report.program.complete = false;
        report.program.end = error.to_string();
    }
    let timeline = analysis.timeline.map(|timeline| {
        let recorded = recorded.take();
        report.notes.extend(recorded.note());
        recorded.into_result(timeline)
    });
    Simulated {
        report,
        failure,
        timeline,
    }
}

fn take(
    simulation: &mut Simulation,
    event: &Event<'_>,
    symbols: &RefCell<Symbols>,
    regions: &mut Regions,
) -> Result<(), SimulationError> {
    simulation.event(event)?;
    let found = match event {
        Event::Block(block) => {
            symbols.borrow_mut().defined(block.id);
            regions.reached(block.address)
        }
        Event::Module(module) => {
            symbols.borrow_mut().add(module);
            if simulation.wants_images()
                && let Some(image) = symbols.borrow().image(module)
            {
                simulation.load(module.start.0..module.end.0, image);
            }
            regions.resolve(module, &symbols.borrow())
        }
        Event::Process { id, what } => {
            symbols.borrow_mut().process(*id, what);
            return Ok(());
        }
        _ => return Ok(()),
    };
    for region in found {
        simulation.event(&Event::Region(region))?;
    }
    Ok(())
}
