//! Several processes in one stream: each is simulated as if it were alone.

#![allow(clippy::unwrap_used)] // As in the tests themselves.

mod support;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Simulation};
use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ProcessEvent, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, ProcessId, StreamId};

#[test]
fn processes_share_nothing_and_are_numbered_by_descent() {
    let process = |id, what| Event::Process {
        id: ProcessId(id),
        what,
    };
    let forked = |parent| ProcessEvent::Forked {
        parent: ProcessId(parent),
    };
    // A load of a line that the one before has brought.
    let words = support::loads_of_lines(64);
    let run = |order: &[u32]| {
        let mut simulation = Simulation::new(Options {
            cpus: vec![machine::cpu("skl").unwrap()],
            analyses: vec![AnalysisKind::Pipeline],
            memory: true,
            one_core: false,
        });
        let mut take = |event: Event<'_>| simulation.event(&event).unwrap();
        take(Event::Session(SessionInfo {
            arch: Arch::X86_64,
            producer: String::new(),
            command: vec!["first".into()],
            memory: true,
        }));
        take(Event::Block(BlockDef {
            id: BlockId(0),
            address: GuestAddr(0x1000),
            instructions: 1,
            bytes: &support::LOAD,
        }));
        take(Event::StreamStart(StreamId(0)));
        // The second child is made known before the first one's child, or behind it.
        take(process(1, forked(0)));
        take(process(2, forked(order[0])));
        take(process(3, forked(order[1])));
        for id in 1..4 {
            take(process(id, ProcessEvent::Entered));
            take(Event::StreamStart(StreamId(id)));
            let child = match id {
                1 => "child",
                _ if order[id as usize - 2] == 0 => "second child",
                _ => "grandchild",
            };
            let command = vec![child.to_owned()];
            take(process(id, ProcessEvent::Replaced { command }));
        }
        for stream in (0..4).map(StreamId) {
            let words = &words;
            take(Event::Records { stream, words });
            take(Event::StreamEnd(stream));
        }
        take(process(1, ProcessEvent::Ended(EndReason::Exited(3))));
        take(Event::End(EndReason::Exited(0)));
        simulation.finish(&NoSymbols)
    };
    let report = run(&[0, 1]);
    assert_eq!(report, run(&[1, 0]));
    let of = |n: usize| &report.processes[n];
    let commands: Vec<&str> = (0..4).map(|n| &*of(n).command[0]).collect();
    assert_eq!(commands, ["first", "child", "grandchild", "second child"]);
    let parents: Vec<Option<u32>> = (0..4).map(|n| of(n).parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(0)]);
    assert_eq!(of(1).end, "exited 3");
    assert_eq!(of(2).end, "still running");
    let cpu = &report.cpus[0];
    assert_eq!(cpu.instructions, 4 * 64);
    // None finds what another has brought: each takes as long as alone.
    for process in &cpu.processes {
        assert_eq!(process.instructions, 64);
        assert_eq!(process.cycles, cpu.processes[0].cycles, "{process:?}");
    }
    assert_eq!(cpu.cycles, 4 * cpu.processes[0].cycles);
}
