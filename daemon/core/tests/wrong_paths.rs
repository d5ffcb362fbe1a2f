//! Loads on wrong paths that join the right one, in whole programs: what they asked for is there when the right path comes to it.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Simulation};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::file::model_from;
use mcad_proto::event::{Arch, EndReason, Event};
use mcad_proto::word::{BlockId, block_word};

const DATA: u64 = 0x7000_0000;

/// What lies between the branch and where its two ways join.
#[derive(Clone, Copy)]
enum Arm {
    /// So many no-operations.
    Idle(usize),
    /// An addition to the register that addresses are made of.
    Moves,
    /// The same, and each address is made of a copy.
    MovesWhatIsCopied,
}

/// A core that follows wrong paths, or one that does not.
fn model(cpu: &str, follows: bool) -> Arc<CpuModel> {
    let text = format!("base = \"{cpu}\"\n[branch]\nwrong_path_loads = {follows}\n");
    model_from("cpu.toml", &text, &|name| Err(format!("no file {name}"))).unwrap()
}

/// Turns.
const TURNS: usize = 20_000;

/// Blocks: address, instructions, bytes.
type Blocks = Vec<(u64, u16, Vec<u8>)>;

/// Turns with a branch on what a load brings, taken at random if `random`, from so many KiB: the blocks, the words of these and of as many
/// turns more, and the number of the former.
fn program(arm: Arm, kib: u64, random: bool) -> (Blocks, Vec<u64>, usize) {
    let copies = matches!(arm, Arm::MovesWhatIsCopied);
    let arm = match arm {
        Arm::Idle(nops) => vec![0x90; nops],
        Arm::Moves | Arm::MovesWhatIsCopied => vec![0x48, 0x83, 0xc2, 0x08], // add rdx, 8
    };
    let mut head = match copies {
        true => vec![0x48, 0x89, 0xd1, 0x48, 0x03, 0x34, 0x0f], // mov rcx, rdx; add rsi, [rdi + rcx]
        false => vec![0x48, 0x03, 0x34, 0x17],                  // add rsi, [rdi + rdx]
    };
    // test rsi, r8; jz behind the arm
    head.extend([0x4c, 0x85, 0xc6, 0x0f, 0x84]);
    head.extend((arm.len() as i32).to_le_bytes());
    let mut tail = vec![0x49, 0xff, 0xcb, 0x0f, 0x85]; // dec r11; jnz to the first
    let back = -((head.len() + arm.len() + tail.len() + 4) as i32);
    tail.extend(back.to_le_bytes());
    let mut blocks = vec![(0x1000, if copies { 4 } else { 3 }, head)];
    let mut push = |instructions: usize, bytes: &[u8]| {
        let (at, _, before) = blocks.last().unwrap();
        let at = at + before.len() as u64;
        blocks.push((at, instructions as u16, bytes.to_vec()));
    };
    for part in arm.chunks(200) {
        push(if part[0] == 0x90 { part.len() } else { 1 }, part);
    }
    push(2, &tail);
    let last = blocks.len() as u32 - 1;
    let mut state = 88_172_645_463_325_252u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    let mut words = Vec::new();
    let mut half = 0;
    for turn in 0..2 * TURNS {
        if turn == TURNS {
            half = words.len();
        }
        words.push(block_word(BlockId(0)));
        words.push(support::access(
            u16::from(copies),
            false,
            DATA + next() % (kib * 16) * 64,
        ));
        if random && next() % 2 == 0 {
            words.extend((1..last).map(|n| block_word(BlockId(n))));
        }
        words.push(block_word(BlockId(last)));
    }
    (blocks, words, half)
}

/// The session so far, of these blocks.
fn begin(model: &Arc<CpuModel>, blocks: &Blocks) -> Simulation {
    let mut simulation = Simulation::new(Options {
        cpus: vec![Arc::clone(model)],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    support::begin(&mut simulation, Arch::X86_64, blocks);
    simulation
}

/// Cycles of a turn.
fn turn(model: &Arc<CpuModel>, arm: Arm, kib: u64, random: bool) -> f64 {
    let (blocks, words, half) = program(arm, kib, random);
    let cycles = |words: &[u64]| support::finish(begin(model, &blocks), words).cpus[0].cycles;
    (cycles(&words) - cycles(&words[..half])) as f64 / TURNS as f64
}

/// Cycles of a turn on a core that follows wrong paths, and on one that does not.
fn turns(cpu: &str, arm: Arm, kib: u64) -> (f64, f64) {
    let of = |follows| turn(&model(cpu, follows), arm, kib, true);
    (of(true), of(false))
}

#[test]
fn lines_of_loads_behind_the_joint_are_there() {
    for cpu in ["skl", "glc", "zen4"] {
        let p = model(cpu, true).core.clone();
        let second = p.cache.as_ref().unwrap().l2.latency - p.execute.load_latency;
        let near = turns(cpu, Arm::Idle(1), 16);
        assert!((near.0 - near.1).abs() < 0.3, "{cpu}: {near:?}");
        let far = turns(cpu, Arm::Idle(1), 192);
        // Every second branch is wrong, and most loads miss the first level.
        let hidden = 0.5 * second as f64 * 0.75;
        assert!(far.1 - far.0 > 0.6 * hidden, "{cpu}: {far:?}, {hidden}");
        assert!(far.0 - near.0 < 0.25 * hidden, "{cpu}: {far:?} {near:?}");
    }
}

#[test]
fn what_follows_from_either_way_is_not_known_on_the_other() {
    for cpu in ["glc", "zen4", "zen5"] {
        for arm in [Arm::Moves, Arm::MovesWhatIsCopied] {
            let (follows, does_not) = turns(cpu, arm, 192);
            assert!(
                (follows - does_not).abs() < 0.2,
                "{cpu}: {follows} {does_not}"
            );
        }
    }
}

#[test]
fn a_joint_beyond_what_is_executed_helps_nothing() {
    for cpu in ["glc", "zen4"] {
        // Neither core issues that many until the branch is executed.
        let (follows, does_not) = turns(cpu, Arm::Idle(60), 16);
        assert!(
            (follows - does_not).abs() < 0.2,
            "{cpu}: {follows} {does_not}"
        );
        let far = turns(cpu, Arm::Idle(600), 192);
        assert!((far.0 - far.1).abs() < 0.2, "{cpu}: {far:?}");
    }
}

#[test]
fn branches_that_are_foreseen_lead_nowhere() {
    for cpu in ["glc", "zen4"] {
        let of = |follows| turn(&model(cpu, follows), Arm::Idle(1), 192, false);
        assert_eq!(of(true), of(false), "{cpu}");
    }
}

/// Of how many instructions the queue knows when a wrong path is followed.
#[test]
fn how_the_stream_is_cut_shows_in_nothing() {
    let (blocks, words, half) = program(Arm::Idle(10), 192, true);
    let words = &words[..half];
    for cpu in ["skl", "glc", "zen4"] {
        let model = model(cpu, true);
        let whole = support::finish(begin(&model, &blocks), words).cpus[0].cycles;
        for cut in [1, 7, 100, 1000] {
            let mut simulation = begin(&model, &blocks);
            let stream = support::THREAD;
            simulation.event(&Event::StreamStart(stream)).unwrap();
            for words in words.chunks(cut) {
                simulation.event(&Event::Records { stream, words }).unwrap();
            }
            simulation.event(&Event::StreamEnd(stream)).unwrap();
            simulation.event(&Event::End(EndReason::Exited(0))).unwrap();
            let cycles = simulation.finish(&NoSymbols).cpus[0].cycles;
            assert_eq!(cycles, whole, "{cpu}, cut into {cut}");
        }
    }
}
