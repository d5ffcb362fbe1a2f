//! Threads that share a core: they take turns as the stream brings them, and find what the others left there.

#![allow(clippy::unwrap_used)] // As in the tests themselves.

mod support;

use std::sync::Arc;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Parallel, Simulation};
use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ProcessEvent};
use mcad_proto::word::{BlockId, GuestAddr, ProcessId, StreamId};
use mcad_report::{CpuReport, Report};

const LINES: u64 = 200;

fn loads() -> Vec<u64> {
    support::loads_of_lines(LINES)
}

fn begun(one_core: bool, parallel: bool) -> Simulation {
    let options = Options {
        cpus: vec![machine::cpu("skl").unwrap()],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core,
    };
    let mut simulation = match parallel {
        false => Simulation::new(options),
        true => Simulation::parallel(
            options,
            Parallel {
                ahead: true,
                ..Parallel::default()
            },
            Arc::new(|| Box::new(())),
        ),
    };
    simulation.tell_calls();
    simulation.event(&support::session(Arch::X86_64)).unwrap();
    let load = BlockDef {
        id: BlockId(0),
        address: GuestAddr(0x1000),
        instructions: 1,
        bytes: &support::LOAD,
    };
    simulation.event(&Event::Block(load)).unwrap();
    simulation
}

/// These streams in turn, each of which executes all loads in its turn; all end at the end.
fn run(one_core: bool, parallel: bool, turns: &[u32]) -> Report {
    let words = loads();
    let turns: Vec<_> = turns.iter().map(|stream| (*stream, &*words)).collect();
    run_turns(one_core, parallel, &turns)
}

fn run_turns(one_core: bool, parallel: bool, turns: &[(u32, &[u64])]) -> Report {
    let mut simulation = begun(one_core, parallel);
    let mut take = |event: Event<'_>| simulation.event(&event).unwrap();
    let mut streams: Vec<u32> = turns.iter().map(|turn| turn.0).collect();
    streams.sort_unstable();
    streams.dedup();
    for &stream in &streams {
        take(Event::StreamStart(StreamId(stream)));
    }
    for &(stream, words) in turns {
        let stream = StreamId(stream);
        take(Event::Records { stream, words });
    }
    for &stream in &streams {
        take(Event::StreamEnd(StreamId(stream)));
    }
    take(Event::End(EndReason::Exited(0)));
    simulation.finish(&NoSymbols)
}

#[test]
fn threads_on_one_core_take_what_one_thread_takes() {
    // What a thread executed last is known to be whole when it goes on or ends.
    let words = loads();
    let (most, last) = words.split_at(words.len() - 2);
    let alone = [most, &*words, most, most, last, last, last].map(|words| (0, words));
    let alone = run_turns(false, false, &alone);
    let shared = run(true, false, &[0, 1, 1, 2]);
    let (alone, shared) = (&alone.cpus[0], &shared.cpus[0]);
    assert_eq!(alone.cycles, shared.cycles);
    assert_eq!(alone.memory, shared.memory);
    assert_eq!(alone.blocks, shared.blocks);
    assert_eq!(shared.threads.len(), 1);
    assert_eq!(shared.threads[0].instructions, 4 * LINES);
    let shares = |cpu: &CpuReport| cpu.assumes.iter().any(|text| text.contains("share a core"));
    assert!(shares(shared) && !shares(alone));
    assert!(!shares(&run(true, false, &[0, 0]).cpus[0]));
}

#[test]
fn each_has_its_own_unless_told_otherwise() {
    let each = run(false, false, &[0, 1]);
    let one = run(true, false, &[0, 1]);
    let misses = |report: &Report| report.cpus[0].memory.as_ref().unwrap().walks;
    assert_eq!(misses(&each), 2 * misses(&one));
    assert!(each.cpus[0].cycles > one.cpus[0].cycles);
    assert_eq!(each.cpus[0].threads.len(), 2);
}

#[test]
fn several_threads_that_simulate_give_the_same() {
    let turns = [0, 1, 0, 2, 1];
    assert_eq!(run(true, false, &turns), run(true, true, &turns));
}

#[test]
fn calls_are_told_while_there_is_one_thread() {
    assert!(!run(true, false, &[0, 0]).cpus[0].calls.is_empty());
    assert!(run(true, false, &[0, 1]).cpus[0].calls.is_empty());
    assert!(!run(false, false, &[0, 1]).cpus[0].calls.is_empty());
}

#[test]
fn processes_have_a_core_each() {
    let words = loads();
    let mut simulation = begun(true, false);
    let mut take = |event: Event<'_>| simulation.event(&event).unwrap();
    take(Event::StreamStart(StreamId(0)));
    let forked = ProcessEvent::Forked {
        parent: ProcessId::FIRST,
    };
    for what in [forked, ProcessEvent::Entered] {
        let id = ProcessId(1);
        take(Event::Process { id, what });
    }
    take(Event::StreamStart(StreamId(1)));
    for stream in [0, 1].map(StreamId) {
        let words = &words;
        take(Event::Records { stream, words });
        take(Event::StreamEnd(stream));
    }
    take(Event::End(EndReason::Exited(0)));
    let report = simulation.finish(&NoSymbols);
    let threads = &report.cpus[0].threads;
    assert_eq!(threads.len(), 2);
    assert_eq!(threads[0].cycles, threads[1].cycles);
}
