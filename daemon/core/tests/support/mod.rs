//! Sessions of one traced program, for tests of whole simulations.

#![allow(clippy::unwrap_used, dead_code)] // Helpers of tests fail tests; each test has its own need.

pub mod predictors;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Simulation};
use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, SessionInfo};
use mcad_proto::word::{Access, BlockId, GuestAddr, StreamId, access_word, block_word};
use mcad_report::Report;

/// The only thread.
pub const THREAD: StreamId = StreamId(0);

/// Simulates the pipeline of one CPU.
pub fn simulation(cpu: &str) -> Simulation {
    Simulation::new(Options {
        cpus: vec![machine::cpu(cpu).unwrap()],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    })
}

/// What a session begins with.
pub fn session(arch: Arch) -> Event<'static> {
    Event::Session(SessionInfo {
        arch,
        producer: "test".into(),
        command: vec!["test".into()],
        memory: true,
    })
}

/// `mov rax, [rdi]`.
pub const LOAD: [u8; 3] = [0x48, 0x8b, 0x07];

/// Words of a thread that executes its first block, a [`LOAD`], once for each of so many lines.
pub fn loads_of_lines(lines: u64) -> Vec<u64> {
    let one = |line: u64| {
        let access = Access {
            index: 0,
            store: false,
            size: 8,
            address: GuestAddr(0x10_0000 + line * 64),
        };
        [block_word(BlockId(0)), access_word(access)]
    };
    (0..lines).flat_map(one).collect()
}

/// Begins a session with these blocks: address, instructions, bytes.
pub fn begin<B: AsRef<[u8]>>(simulation: &mut Simulation, arch: Arch, blocks: &[(u64, u16, B)]) {
    simulation.event(&session(arch)).unwrap();
    for (n, (address, instructions, bytes)) in (0..).zip(blocks) {
        let block = BlockDef {
            id: BlockId(n),
            address: GuestAddr(*address),
            instructions: *instructions,
            bytes: bytes.as_ref(),
        };
        simulation.event(&Event::Block(block)).unwrap();
    }
}

/// The rest of a session: these words of its thread, and its end.
pub fn finish(mut simulation: Simulation, words: &[u64]) -> Report {
    let stream = THREAD;
    for event in [
        Event::StreamStart(stream),
        Event::Records { stream, words },
        Event::StreamEnd(stream),
        Event::End(EndReason::Exited(0)),
    ] {
        simulation.event(&event).unwrap();
    }
    simulation.finish(&NoSymbols)
}

/// A whole session.
pub fn run<B: AsRef<[u8]>>(
    cpu: &str,
    arch: Arch,
    blocks: &[(u64, u16, B)],
    words: &[u64],
) -> Report {
    let mut simulation = simulation(cpu);
    begin(&mut simulation, arch, blocks);
    finish(simulation, words)
}

/// Cycles of a turn of a loop of these blocks on a CPU for x86-64, once it is settled.
pub fn cycles_a_turn<B: AsRef<[u8]>>(cpu: &str, blocks: &[(u64, u16, B)]) -> f64 {
    let words: Vec<u64> = (0..blocks.len())
        .map(|n| block_word(BlockId(n as u32)))
        .collect();
    let cycles = |turns| run(cpu, Arch::X86_64, blocks, &words.repeat(turns)).cpus[0].cycles;
    (cycles(240) - cycles(120)) as f64 / 120.0
}

/// An access of eight bytes by an instruction of the block.
pub fn access(index: u16, store: bool, address: u64) -> u64 {
    access_word(Access {
        index,
        store,
        size: 8,
        address: GuestAddr(address),
    })
}

/// The bytes of instruction words.
pub fn code(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
