//! Sessions over sources made by hand.

use std::time::Duration;

use mcad_core::simulation::{AnalysisKind, Options};
use mcad_isa::machine;
use mcad_proto::event::{Arch, EndReason, Event, SessionInfo};
use mcad_proto::word::{BlockId, StreamId, block_word};

use super::{Job, MemoryLimit, Outcome, State, run};
use crate::recorder::{Recorder, Sink};
use crate::source::Source;

/// What a test's source does next.
enum Step {
    Give(Event<'static>),
    Fail(&'static str),
    Silence,
}

struct Script(std::vec::IntoIter<Step>);

impl Source for Script {
    fn pull(&mut self, _: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String> {
        match self.0.next() {
            Some(Step::Give(event)) => take(event),
            Some(Step::Fail(text)) => return Err(text.to_owned()),
            Some(Step::Silence) => {}
            None => return Err("the script is over".to_owned()),
        }
        Ok(())
    }

    fn stop(&mut self) {}
}

fn info() -> Event<'static> {
    Event::Session(SessionInfo {
        arch: Arch::X86_64,
        producer: "test".into(),
        command: vec!["true".into()],
        memory: true,
    })
}

fn options() -> Options {
    Options {
        cpus: vec![machine::cpu("skl").unwrap()],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    }
}

fn session(steps: Vec<Step>, record: Option<Recorder>) -> Outcome {
    let job = Job {
        analyse: Some(options()),
        parallel: None,
        regions: vec!["nowhere".parse().unwrap()],
        record,
        timeline: None,
        memory: MemoryLimit::local(),
        source: "test".into(),
    };
    run(&mut Script(steps.into_iter()), job, &State::default())
}

#[test]
fn a_source_that_fails_ends_the_session_with_what_arrived() {
    let steps = vec![
        Step::Give(info()),
        Step::Silence,
        Step::Give(Event::StreamStart(StreamId(0))),
        Step::Fail("the wire broke"),
    ];
    let outcome = session(steps, None);
    assert_eq!(outcome.end, EndReason::Truncated("the wire broke".into()));
    let report = outcome.report.unwrap();
    assert!(!report.program.complete);
    assert!(
        report.notes.iter().any(|note| note.contains("'nowhere'")),
        "{:?}",
        report.notes
    );
    assert_eq!(report.run.source, "test");
    assert!(report.run.peak_memory_bytes > 0);
}

#[test]
fn a_broken_stream_is_reported_and_the_source_still_drained() {
    let words: &'static [u64] = Box::leak(Box::new([block_word(BlockId(99))]));
    let steps = vec![
        Step::Give(info()),
        Step::Give(Event::StreamStart(StreamId(0))),
        Step::Give(Event::Records {
            stream: StreamId(0),
            words,
        }),
        Step::Give(Event::End(EndReason::Exited(3))),
    ];
    let outcome = session(steps, None);
    assert_eq!(outcome.end, EndReason::Exited(3));
    assert!(outcome.failure.is_some());
    assert!(!outcome.report.unwrap().program.complete);
}

/// Takes so many events, then the disk is full.
struct SmallDisk(usize);

impl Sink for SmallDisk {
    fn event(&mut self, _: &Event<'_>) -> Result<(), String> {
        self.0 = self.0.checked_sub(1).ok_or("no space left on device")?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_the_recording_and_nothing_else() {
    for (room, whole) in [(0, false), (1, false), (2, true)] {
        let steps = vec![
            Step::Give(info()),
            Step::Give(Event::End(EndReason::Exited(0))),
        ];
        let recorder = Recorder::new("t.mcad".as_ref(), SmallDisk(room));
        let outcome = session(steps, Some(recorder));
        assert_eq!(outcome.recording.unwrap().is_ok(), whole);
        assert!(outcome.report.is_some());
    }
}

#[test]
fn dictionaries_beyond_the_limit_end_the_analysis() {
    let job = Job {
        analyse: Some(options()),
        parallel: None,
        regions: Vec::new(),
        record: None,
        timeline: None,
        memory: MemoryLimit(10),
        source: "test".into(),
    };
    let steps = vec![
        Step::Give(info()),
        Step::Give(Event::End(EndReason::Complete)),
    ];
    let outcome = run(&mut Script(steps.into_iter()), job, &State::default());
    assert!(!outcome.report.unwrap().program.complete);
    assert!(outcome.failure.unwrap().to_string().contains("more than"));
}

#[test]
fn a_stopped_session_tells_its_source() {
    struct Endless(bool);
    impl Source for Endless {
        fn pull(&mut self, _: Duration, take: &mut dyn FnMut(Event<'_>)) -> Result<(), String> {
            take(match self.0 {
                true => Event::End(EndReason::Signaled(9)),
                false => Event::StreamStart(StreamId(0)),
            });
            Ok(())
        }
        fn stop(&mut self) {
            self.0 = true;
        }
    }
    let state = State::default();
    state.stop();
    let job = Job {
        analyse: None,
        parallel: None,
        regions: Vec::new(),
        record: None,
        timeline: None,
        memory: MemoryLimit::local(),
        source: "test".into(),
    };
    let outcome = run(&mut Endless(false), job, &state);
    assert_eq!(outcome.end, EndReason::Signaled(9));
}
