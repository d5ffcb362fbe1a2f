//! Any bytes give a prediction or an error, never a panic, and in bounded time.

#![allow(clippy::unwrap_used)]

use mcad_core::block::{Block, BlockError, Init, MAX_INSTRUCTIONS, Mode, Options, Simulator};
use mcad_isa::machine::file::model_from;
use mcad_isa::machine::params::{MAX_HOLD, MAX_SCHEDULERS};
use mcad_isa::machine::{self, cpu};

#[test]
fn random_bytes_give_a_figure_or_an_error() {
    let mut random = fastrand::Rng::with_seed(3);
    for info in machine::cpus_of(mcad_proto::event::Arch::X86_64) {
        let model = cpu(info.name).unwrap();
        let mut simulator = Simulator::new(&model);
        let mut predicted = 0;
        for _ in 0..1500 {
            let length = random.usize(1..=14);
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            let Ok(block) = Block::new(&model, &bytes) else {
                continue;
            };
            predicted += 1;
            let mode = [Mode::Auto, Mode::Unrolled, Mode::Loop][random.usize(..3)];
            let init = [Init::Distinct, Init::Equal, Init::Stack][random.usize(..3)];
            let cycles = simulator
                .predict(
                    &block,
                    Options {
                        mode,
                        init,
                        ..Options::default()
                    },
                )
                .cycles;
            assert!(
                cycles.is_finite() && cycles > 0.0,
                "{} {bytes:02x?}",
                info.name
            );
            if predicted % 20 == 0 {
                let detail = block.explain(
                    Options {
                        mode,
                        init,
                        ..Options::default()
                    },
                    1,
                    &|i| i.to_string(),
                );
                assert_eq!(detail.instructions.len(), block.decoded.len());
            }
        }
        // The generator does reach the simulation.
        assert!(predicted > 50, "{}: {predicted}", info.name);
    }
}

/// A user's file may give any ports a scheduler of their own, with a queue before it.
#[test]
fn any_ports_may_have_schedulers_of_their_own() {
    let mut random = fastrand::Rng::with_seed(11);
    for name in ["skl", "glc", "zen5"].iter().cycle().take(60) {
        let mut left = cpu(name).unwrap().core.ports.names.clone();
        random.shuffle(&mut left);
        let scheduler = |_| {
            let ports: Vec<String> = left.drain(..random.usize(0..=left.len().min(3))).collect();
            format!(
                "{{ ports = \"{}\", entries = {}, queue = {}, hold = {} }}",
                ports.join(" "),
                random.u32(16..40),
                [0, 0, 60][random.usize(..3)],
                [0, 0, 5, MAX_HOLD][random.usize(..4)]
            )
        };
        let schedulers: Vec<String> = (1..MAX_SCHEDULERS).map(scheduler).collect();
        let text = format!(
            // Ports that are not bound have one scheduler.
            "base = \"{name}\"\n[ports]\nunbound = \"\"\noldest_first = \"\"\nschedulers = [{}]\n",
            schedulers.join(", ")
        );
        let model = model_from("random.toml", &text, &|_| Err(String::new())).unwrap();
        let mut simulator = Simulator::new(&model);
        for _ in 0..150 {
            let length = random.usize(1..=60);
            let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
            if let Ok(block) = Block::new(&model, &bytes) {
                let cycles = simulator.predict(&block, Options::default()).cycles;
                assert!(cycles.is_finite() && cycles > 0.0, "{name} {bytes:02x?}");
            }
        }
    }
}

#[test]
fn instructions_that_end_or_trap_have_figures_or_errors() {
    let model = cpu("skl").unwrap();
    // ret; call; call rax; jmp rax; jmp [rax]; int3; syscall; ud2; hlt; mov cr3, rax; cpuid; rep movsb
    for hex in [
        "c3",
        "e800000000",
        "ffd0",
        "ffe0",
        "ff20",
        "cc",
        "0f05",
        "0f0b",
        "f4",
        "0f22d8",
        "0fa2",
        "f3a4",
    ] {
        let bytes = ::hex::decode(hex).unwrap();
        match Block::new(&model, &bytes) {
            Ok(block) => {
                for mode in [Mode::Auto, Mode::Unrolled, Mode::Loop] {
                    let options = Options {
                        mode,
                        ..Options::default()
                    };
                    assert!(block.predict(options).cycles > 0.0, "{hex}");
                }
            }
            Err(error) => assert!(
                matches!(error, BlockError::Unsupported { .. }),
                "{hex}: {error}"
            ),
        }
    }
    assert!(matches!(Block::new(&model, &[]), Err(BlockError::Empty)));
    let cut = Block::new(&model, &[0x90, 0x48, 0x8b]);
    assert!(matches!(
        cut,
        Err(BlockError::Undecodable { offset: 1, .. })
    ));
}

#[test]
fn long_blocks_are_simulated_up_to_the_limit() {
    let model = cpu("icl").unwrap();
    // add rax, rbx; mov [rdi], rax
    let block = Block::new(&model, &[0x48, 0x01, 0xd8, 0x48, 0x89, 0x07].repeat(5000)).unwrap();
    assert_eq!(block.decoded.len(), 10_000);
    let prediction = block.predict(Options::default());
    assert!(
        (5000.0..=5100.0).contains(&prediction.cycles),
        "{prediction:?}"
    );
    let too_long = Block::new(&model, &[0x90].repeat(MAX_INSTRUCTIONS + 1));
    assert!(matches!(too_long, Err(BlockError::TooLong(_))));
}
