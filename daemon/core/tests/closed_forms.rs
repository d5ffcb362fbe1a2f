//! Blocks whose throughput follows from the parameters: one sweep per part of the core, on all
//! CPUs. `measured` has what was found by experiments on one of them.

#![allow(clippy::unwrap_used)]

#[path = "closed_forms/measured.rs"]
mod measured;
#[path = "closed_forms/zen1.rs"]
mod zen1;
#[path = "closed_forms/zen3.rs"]
mod zen3;
#[path = "closed_forms/zen4.rs"]
mod zen4;
#[path = "closed_forms/zen4_addresses.rs"]
mod zen4_addresses;
#[path = "closed_forms/zen5.rs"]
mod zen5;

use std::sync::Arc;

use mcad_core::block::{Block, Init, Mode, Options};
use mcad_isa::machine::params::{PortChoice, Slots};
use mcad_isa::machine::{self, CpuModel, cpu, model_from};
use mcad_report::block::{Detail, Part};

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}

/// Blocks, each with what it takes in a loop with all memory filled, as measured on a CPU, and what it shows.
#[track_caller]
fn in_loops(name: &str, tolerance: impl Fn(f64) -> f64, blocks: &[(&str, f64, &str)]) {
    let model = cpu(name).unwrap();
    for (hex, measured, what) in blocks {
        let filled = Options {
            init: Init::Filled,
            ..options(Mode::Loop)
        };
        let block = Block::new(&model, &bytes(hex)).unwrap();
        let cycles = block.predict(filled).cycles;
        near(cycles, *measured, tolerance(*measured), what);
    }
}

/// The out-of-order ones; `atom.rs` has those of the others.
fn models() -> impl Iterator<Item = Arc<CpuModel>> {
    let built_in = machine::cpus_of(mcad_proto::event::Arch::X86_64).map(|c| cpu(c.name).unwrap());
    let built_in = built_in.filter(|m| m.core.in_order.is_none());
    built_in.chain([strange()])
}

fn changed(base: &str, text: &str) -> Arc<CpuModel> {
    let text = format!("base = \"{base}\"\n{text}");
    model_from("changed.toml", &text, &|_| Err(String::new())).unwrap()
}

/// A Skylake with more ports, of other names, than any rule by their number would know.
fn strange() -> Arc<CpuModel> {
    changed(
        "skl",
        "name = \"strange\"\n[ports]\n\
         names = \"int0 int1 load0 load1 data int2 int3 address x0 x1 x2 x3 x4 x5\"\n\
         alu = \"int0 int1 int2 int3\"\nload = \"load0 load1\"\n\
         store_address = \"load0 load1 address\"\nstore_data = \"data\"\n\
         merge = \"int1 int2\"\nnot_taken = \"int0 int3\"\ndivider = \"int0\"\ntaken_by_512 = \"int1\"\n\
         in_turn = [\"load0 load1\"]\n",
    )
}

fn options(mode: Mode) -> Options {
    Options {
        mode,
        ..Options::default()
    }
}

fn cycles(model: &Arc<CpuModel>, mode: Mode, hex: &str) -> f64 {
    Block::new(model, &bytes(hex))
        .unwrap()
        .predict(options(mode))
        .cycles
}

fn explain(model: &Arc<CpuModel>, mode: Mode, hex: &str) -> Detail {
    let block = Block::new(model, &bytes(hex)).unwrap();
    block.explain(options(mode), 2, &|i| i.to_string())
}

fn limit(detail: &Detail, part: Part) -> f64 {
    let found = detail.limits.iter().find(|l| l.part == part);
    found.map_or(0.0, |l| l.cycles)
}

#[track_caller]
fn near(got: f64, want: f64, tolerance: f64, what: &str) {
    assert!(
        (got - want).abs() <= want * tolerance + 1e-9,
        "{what}: {got}, expected {want}"
    );
}

#[test]
fn a_chain_of_n_takes_n_times_its_latency() {
    for model in models() {
        for n in 1..=12 {
            // add rax, rbx; imul rax, rbx
            for (hex, latency) in [("4801d8", 1), ("480fafc3", 3)] {
                for mode in [Mode::Unrolled, Mode::Loop] {
                    let got = cycles(&model, mode, &hex.repeat(n));
                    let what = format!("{} {n} of {hex} {mode:?}", model.name);
                    near(got, (n * latency) as f64, 0.0, &what);
                }
            }
        }
    }
}

#[test]
fn fused_multiply_adds_take_five_then_four_cycles() {
    for (name, want) in [
        ("hsw", 5.0),
        ("bdw", 5.0),
        ("skl", 4.0),
        ("icl", 4.0),
        ("glc", 4.0),
    ] {
        let model = cpu(name).unwrap();
        // vfmadd231pd ymm0, ymm1, ymm2
        near(
            cycles(&model, Mode::Unrolled, "c4e2f5b8c2"),
            want,
            0.0,
            name,
        );
    }
}

#[test]
fn loads_of_pointers_take_the_load_latency() {
    for model in models() {
        let execute = &model.core.execute;
        let sooner = u64::from(execute.fast_pointer_chasing);
        // mov rax, [rax]
        let got = cycles(&model, Mode::Unrolled, "488b00");
        near(
            got,
            (execute.load_latency - sooner) as f64,
            0.0,
            &model.name,
        );
    }
}

#[test]
fn a_changed_load_latency_is_the_one_of_every_load() {
    for (latency, pointer, sum) in [(5, 4.0, 6.0), (12, 11.0, 13.0)] {
        let slow = changed("skl", &format!("[execute]\nload_latency = {latency}\n"));
        // mov rax, [rax]; add rax, [rax + 0x1000]
        for (hex, want) in [("488b00", pointer), ("48038000100000", sum)] {
            let got = cycles(&slow, Mode::Unrolled, hex);
            assert_eq!(got, want, "{latency} {hex}");
        }
    }
}

#[test]
fn one_scheduler_of_all_ports_is_the_common_one() {
    let base = cpu("skl").unwrap();
    let own = changed(
        "skl",
        "[ports]\nschedulers = [{ ports = \"0 1 2 3 4 5 6 7\", entries = 97 }]\n",
    );
    for hex in [
        "4801d84889c348034e08",
        "488b07480fafc1488907",
        "c5f15ec2c5f558c14801d8",
    ] {
        for mode in [Mode::Unrolled, Mode::Loop] {
            assert_eq!(cycles(&own, mode, hex), cycles(&base, mode, hex), "{hex}");
        }
    }
}

#[test]
fn what_waits_before_a_full_scheduler_starts_in_program_order() {
    // A chain of 32 vaddps (xmm0), then two chains of 31 that begin anew (vxorps xmm2).
    let anew = "c5e857d2".to_owned() + &"c5e858d1".repeat(31);
    let block = "c5f858c1".repeat(32) + &anew.repeat(2);
    let with = |entries: u32| {
        let text = format!(
            "[ports]\nschedulers = [{{ ports = \"0 1 5\", entries = {entries}, queue = 200 }}]\n"
        );
        cycles(&changed("skl", &text), Mode::Unrolled, &block)
    };
    // The chain of 32 takes 128 cycles, and the others meanwhile if they are in the scheduler. One
    // that holds 16 begins with a chain only when the one before has 16 µops left, 64 cycles.
    near(with(200), 128.0, 0.02, "all in sight");
    near(
        with(16),
        128.0 + 2.0 * 124.0 - 3.0 * 64.0,
        0.05,
        "16 in sight",
    );
}

#[test]
fn ports_chosen_by_their_use_are_used_alike() {
    // 12 additions of an immediate to registers of their own, four ports for them, four a cycle
    let block: String = [
        "4883c001", "4883c101", "4883c201", "4883c301", "4883c601", "4883c701", "4983c001",
        "4983c101", "4983c201", "4983c301", "4983c401", "4983c501",
    ]
    .concat();
    for (choice, least, most) in [
        ("least_used", 3.0, 3.03),
        ("in_turn", 3.0, 3.03),
        // Four ports hold 12 chains' µops at random: 4 (1 - (3/4)^12) = 3.87 a cycle at best.
        ("scattered", 3.09, 3.6),
    ] {
        let text = format!("[ports]\nchoice = \"{choice}\"\nin_turn = []\n");
        let got = cycles(&changed("skl", &text), Mode::Unrolled, &block);
        assert!((least..=most).contains(&got), "{choice}: {got}");
    }
}

#[test]
fn a_move_goes_with_the_operation_on_its_destination() {
    let fused = changed("skl", "[frontend]\nmove_fusion = true\n");
    // mov rdx, r14; and operations on rdx, four times, from the µop cache: one slot each
    for (hex, slots) in [
        ("4c89f24801c2", 1.0),     // add rdx, rax
        ("4c89f24883e2f8", 1.0),   // and rdx, -8
        ("4c89f24829c2", 1.0),     // sub rdx, rax
        ("4c89f24801d0", 2.0),     // add rax, rdx: not on the destination
        ("4c89f24803166690", 3.0), // add rdx, [rsi]: from memory; nop
        ("4c89f283e2f8", 2.0),     // and edx, -8: not as wide
    ] {
        let detail = explain(&fused, Mode::Loop, &hex.repeat(4));
        let issue = limit(&detail, Part::Issue);
        near(issue, slots, 0.0, hex);
        assert!(detail.cycles >= issue, "{hex}: {}", detail.cycles);
    }
    // mov rdx, rax; add rdx, rcx; mov rax, rdx; add rax, rcx: a chain through what is fused
    let chain = "4889c24801ca4889d04801c8";
    near(cycles(&fused, Mode::Unrolled, chain), 2.0, 0.0, chain);
}

#[test]
fn straight_code_that_fits_comes_from_the_uop_cache() {
    let with = |sets: u32| {
        let text = format!(
            "[frontend]\nuop_cache_straight_bytes = 8192\nuop_cache_sets = {sets}\n\
             uop_cache_ways = 8\n[rename]\nissue_width = 6\n"
        );
        changed("icl", &text)
    };
    // add rax, 0x12345678 … 8 of 8 bytes: 64 bytes take two lines of six, 8192 take 256
    let hex = "4881c078563412904881c178563412904881c278563412904881c37856341290".repeat(2);
    let delivered = |sets| {
        let detail = explain(&with(sets), Mode::Unrolled, &hex);
        let sum = |of: fn(&mcad_report::block::Delivered) -> f64| -> f64 {
            detail.instructions.iter().map(|i| of(&i.delivered)).sum()
        };
        (sum(|d| d.decoders), sum(|d| d.uop_cache))
    };
    near(delivered(64).1, 16.0, 0.01, "fits");
    near(delivered(16).0, 16.0, 0.01, "does not");
}

#[test]
fn data_goes_through_memory_in_the_time_of_a_store_and_its_forwarding() {
    // From Ice Lake on, memory renaming takes the time away: the tables have 0 cycles there.
    for name in ["snb", "ivb", "hsw", "bdw", "skl", "skx", "clx"] {
        let model = cpu(name).unwrap();
        let execute = &model.core.execute;
        // mov [rdi], rax; mov rax, [rdi]
        let got = cycles(&model, Mode::Unrolled, "488907488b07");
        let want = execute.store_data_latency + execute.store_forward;
        near(got, want as f64, 0.0, &model.name);
    }
}

#[test]
fn independent_additions_are_bound_by_ports_or_issue() {
    // add rcx, rax; add rdx, rax; … 15 registers
    let all: Vec<String> = (1..16u8)
        .map(|r| {
            format!(
                "{}01{:02x}",
                if r < 8 { "48" } else { "49" },
                0xc0 | (r & 7)
            )
        })
        .collect();
    for model in models() {
        let alus = model.core.ports.alu.len();
        for n in [6, 8, 12, 15] {
            let got = cycles(&model, Mode::Loop, &all[..n].concat());
            let width = alus.min(model.core.rename.issue_width);
            let want = (n as f64 / f64::from(width)).max(1.0);
            // Ports are chosen at issue, without knowing what comes: not always the best way.
            let slack = match model.core.ports.choice {
                PortChoice::LeastOrMost | PortChoice::LeastOrSecond => 1.1,
                _ => 1.5,
            };
            assert!(
                got >= want - 1e-9 && got <= want * slack,
                "{} {n}: {got}, bound {want}",
                model.name
            );
        }
    }
}

#[test]
fn zero_idioms_cost_only_issue() {
    for model in models() {
        for n in [12, 24] {
            // xor eax, eax; xor ecx, ecx
            let detail = explain(&model, Mode::Loop, &"31c031c9".repeat(n / 2));
            // On Zen idioms wait for nothing, but take one of four ALUs (docs/ZEN1.md).
            let executed = model.name == "zen1";
            let width = if executed {
                4
            } else {
                model.core.rename.issue_width
            };
            let issue = n as f64 / f64::from(width);
            let want = issue.max(limit(&detail, Part::LoopStream));
            near(detail.cycles, want, 0.05, &format!("{} {n}", model.name));
            let mut instructions = detail.instructions.iter();
            assert!(instructions.all(|i| (i.executed > 0.0) == executed));
        }
    }
}

/// What a scalar operation keeps of its destination has no published latency, and must not stand for what it computes.
#[test]
fn scalar_operations_take_as_long_as_those_that_keep_nothing() {
    for model in models() {
        for (scalar, other) in [
            ("f20f51c0", "c5fb51c0"), // sqrtsd xmm0, xmm0; vsqrtsd xmm0, xmm0, xmm0
            ("f30f51c0", "c5fa51c0"), // sqrtss, vsqrtss
            ("f30f53c0", "0f53c0"),   // rcpss xmm0, xmm0; rcpps xmm0, xmm0
            ("f30f52c0", "0f52c0"),   // rsqrtss, rsqrtps
        ] {
            let found = cycles(&model, Mode::Unrolled, scalar);
            let least = cycles(&model, Mode::Unrolled, other) - 2.0;
            assert!(found >= least, "{} {scalar}: {found}", model.name);
        }
    }
}

#[test]
fn eliminated_moves_do_not_lengthen_a_chain() {
    for model in models() {
        // mov rbx, rax; mov rax, rbx; add rax, rcx
        let hex = "4889c34889d84801c8";
        let got = cycles(&model, Mode::Unrolled, hex);
        match model.core.rename.move_elimination_gpr {
            Slots::Limited(0) => near(got, 3.0, 0.0, &model.name),
            // At times no slot is free.
            Slots::Limited(_) => assert!((1.0..=3.0).contains(&got), "{} {got}", model.name),
            Slots::Unlimited(_) => near(got, 1.0, 0.02, &model.name),
        }
    }
}

#[test]
fn length_changing_prefixes_stall_the_predecoder() {
    for model in models() {
        // add ax, 0x1234, four in 16 bytes
        let hex = "66053412".repeat(4);
        let detail = explain(&model, Mode::Unrolled, &hex);
        near(
            detail.cycles,
            // Where a prefix costs nothing, the four wait for one another.
            limit(&detail, Part::Predecoder).max(limit(&detail, Part::Dependencies)),
            // An odd number of iterations is seen; with 32-byte blocks they go in pairs.
            0.05,
            &model.name,
        );
        let stalls = f64::from(model.core.frontend.lcp_stall * 4);
        assert!(detail.cycles >= stalls, "{}: {}", model.name, detail.cycles);
    }
}

#[test]
fn instructions_for_the_first_decoder_go_one_a_cycle() {
    for name in ["snb", "ivb", "hsw", "bdw", "skl", "clx"] {
        let model = cpu(name).unwrap();
        // bswap of rax, rcx, rdx, rbx: two µops each
        let detail = explain(&model, Mode::Unrolled, "480fc8480fc9480fca480fcb");
        near(detail.cycles, 4.0, 0.02, name);
        assert!(detail.bottlenecks.contains(&Part::Decoders), "{name}");
        // As a loop from the µop cache the decoders do not matter.
        if ["skl", "clx"].contains(&name) {
            assert!(detail.looped < 3.0, "{name}: {}", detail.looped);
        }
    }
}

#[test]
fn the_divider_is_kept_for_its_cycles() {
    for model in models() {
        // vdivpd xmm0, xmm1, xmm2
        let detail = explain(&model, Mode::Unrolled, "c5f15ec2");
        let busy = limit(&detail, Part::Divider);
        assert!(busy >= 3.0, "{}: {busy}", model.name);
        near(detail.cycles, busy, 0.01, &model.name);
        assert!(detail.bottlenecks.contains(&Part::Divider));
    }
}

#[test]
fn jumps_go_one_a_cycle_and_bound_small_loops() {
    for model in models() {
        // dec rcx; jnz
        let detail = explain(&model, Mode::Loop, "48ffc975fb");
        near(detail.cycles, 1.0, 0.0, &model.name);
        let fused = |n: usize| {
            detail.instructions[n]
                .notes
                .iter()
                .any(|n| n.contains("macro-fused"))
        };
        // Zen 2 fuses comparisons alone.
        let fuses = !["zen1", "zen2"].contains(&model.name.as_str());
        assert_eq!([fused(0), fused(1)], [fuses, fuses], "{}", model.name);
    }
}

#[test]
fn the_chain_names_its_instructions() {
    for model in models() {
        // imul rax, rcx; add rdx, rsi; add rax, rdi
        let detail = explain(&model, Mode::Unrolled, "480fafc14801f24801f8");
        let chain = detail.chain.unwrap();
        assert_eq!((chain.cycles, chain.iterations), (4.0, 1), "{}", model.name);
        let steps: Vec<(u32, u64)> = chain
            .steps
            .iter()
            .map(|s| (s.instruction, s.cycles))
            .collect();
        assert_eq!(steps, [(0, 3), (2, 1)], "{}", model.name);
        near(detail.cycles, 4.0, 0.0, &model.name);
        assert_eq!(detail.bottlenecks, [Part::Dependencies]);
    }
}

#[test]
fn chains_through_memory_and_over_two_iterations_are_found() {
    let model = cpu("skl").unwrap();
    // add [rdi], rax: load, add, store, again
    let detail = explain(&model, Mode::Unrolled, "480107");
    let chain = detail.chain.clone().unwrap();
    near(chain.cycles, detail.cycles, 0.02, "add [rdi], rax");
    // xchg-like rotation without eliminated moves: lea rcx, [rax+1]; lea rax, [rbx+1]; lea rbx, [rcx+1]
    let detail = explain(&model, Mode::Unrolled, "488d4801488d4301488d5901");
    let chain = detail.chain.unwrap();
    assert_eq!((chain.cycles, chain.iterations), (1.5, 2));
}

#[test]
fn stamps_of_a_timeline_are_in_order() {
    for model in models() {
        let detail = explain(&model, Mode::Unrolled, "488b0748010748f7f1505bc5f158c2");
        assert!(!detail.timeline.is_empty());
        let mut retired = 0;
        for uop in &detail.timeline {
            assert!(uop.delivered < uop.issued, "{} {uop:?}", model.name);
            assert!(uop.issued <= uop.ready && uop.ready <= uop.dispatched);
            assert!(uop.dispatched <= uop.executed && uop.executed < uop.retired);
            assert!(uop.retired >= retired, "retired out of order: {uop:?}");
            retired = uop.retired;
        }
    }
}

#[test]
fn prefetches_are_no_wide_accesses() {
    for name in ["snb", "ivb"] {
        let model = cpu(name).unwrap();
        // prefetcht0 [r8]; mov rax, [rdi]: two loads a cycle; vmovups ymm0, [r8]: both ports' data
        near(
            cycles(&model, Mode::Loop, "410f1808488b07"),
            1.0,
            0.01,
            name,
        );
        let wide = "c4c17c1000488b07".repeat(2);
        assert!(cycles(&model, Mode::Loop, &wide) > 3.0, "{name}");
    }
}

#[test]
fn additions_at_rename_take_no_port_and_are_shown() {
    // add rax, rbx; add rdi, 8; vfmadd231pd; vaddpd; add rdi, 8; vaddpd
    let hex = "4801d84883c708c4e2f5b8c2c5f558c14883c708c5f558c1";
    let detail = explain(&cpu("glc").unwrap(), Mode::Unrolled, hex);
    let bound = limit(&detail, Part::Ports);
    assert!(bound <= detail.cycles, "{bound} > {}", detail.cycles);
    for n in [1, 4] {
        let add = &detail.instructions[n];
        // Once in a while the sum overflows and the addition is executed.
        assert!(add.eliminated + add.executed > 0.999, "{add:?}");
        assert!(add.eliminated > 0.95, "{add:?}");
        assert!(add.notes[0].starts_with("added at rename"), "{add:?}");
    }
    // 0x1000 is too far: it is executed every time.
    let detail = explain(&cpu("glc").unwrap(), Mode::Unrolled, "4881c700100000");
    near(limit(&detail, Part::Ports), 0.2, 0.0, "ports");
    near(detail.instructions[0].executed, 1.0, 1e-9, "executed");
}

#[test]
fn no_block_is_faster_than_its_bounds() {
    let pieces = [
        "4801d8",
        "480fafc1",
        "4889c3",
        "488b07",
        "488907",
        "48034e08",
        "4883c708",
        "31c0",
        "50",
        "5b",
        "f7f1",
        "c5f558c1",
        "c5fe7f07",
        "c4e2f5b8c2",
        "48d3e0",
        "4821da",
        "c5f15ec2",
    ];
    for model in models() {
        // Each model has random blocks of its own, whatever models come before it.
        let seed = model.name.bytes().fold(1, |seed, byte| {
            u64::wrapping_mul(seed, 0x0100_0000_01b3) ^ u64::from(byte)
        });
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..40 {
            let hex: String = (0..random.usize(1..=7))
                .map(|_| pieces[random.usize(..pieces.len())])
                .collect();
            for mode in [Mode::Unrolled, Mode::Loop] {
                let Ok(block) = Block::new(&model, &bytes(&hex)) else {
                    continue;
                };
                let detail = block.explain(options(mode), 0, &|i| i.to_string());
                for limit in detail.limits.iter().filter(|l| l.used) {
                    assert!(
                        limit.cycles <= detail.cycles * 1.03 + 0.05,
                        "{} {mode:?} {hex}: {:?} {} > {} ({})",
                        model.name,
                        limit.part,
                        limit.cycles,
                        detail.cycles,
                        limit.evidence
                    );
                }
                let ports: f64 = detail.instructions.iter().map(|i| i.executed).sum();
                let by_port: f64 = detail.instructions.iter().flat_map(|i| &i.port_uops).sum();
                assert!((ports - by_port).abs() < 1e-6);
            }
        }
    }
}
