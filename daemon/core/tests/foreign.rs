//! Closed forms of A64 and RISC-V code through the whole simulation: chains take their latencies,
//! independent work its units.

#![allow(clippy::unwrap_used)]

mod support;

use mcad_core::llvm_mca;
use mcad_isa::llvm;
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::Report;

const TIMES: u64 = 1000;

/// Runs a loop of these words, the last of which jumps to the first; `loads` are instructions that
/// load from one address.
fn run(arch: Arch, cpu: &str, code: &[u32], loads: &[u16]) -> Report {
    run_times(TIMES, arch, cpu, code, loads)
}

/// The same so many times.
fn run_times(times: u64, arch: Arch, cpu: &str, code: &[u32], loads: &[u16]) -> Report {
    let mut words = Vec::new();
    for _ in 0..times {
        words.push(block_word(BlockId(0)));
        words.extend(loads.iter().map(|n| support::access(*n, false, 0x8000)));
    }
    let block = (0x1000, code.len() as u16, support::code(code));
    support::run(cpu, arch, &[block], &words)
}

/// Cycles of one turn, once the first turns are over.
fn cycles(report: &Report) -> f64 {
    report.cpus[0].cycles as f64 / TIMES as f64
}

/// A64: b to the first of `n` instructions before it.
fn back(n: u32) -> u32 {
    0x1400_0000 | (n.wrapping_neg() & 0x03ff_ffff)
}

fn a64(cpu: &str, body: &[u32], loads: &[u16]) -> f64 {
    let mut code = body.to_vec();
    code.push(back(body.len() as u32));
    // Without what is missing at first.
    let times = |times| run_times(times, Arch::AArch64, cpu, &code, loads).cpus[0].cycles;
    (times(2 * TIMES) - times(TIMES)) as f64 / TIMES as f64
}

/// A block of straight code that is executed again begins anew as behind a jump that was foreseen: EH1,
/// which predicts its branches, takes four cycles and more to go elsewhere.
#[test]
fn straight_code_again_and_again_mispredicts_nothing() {
    // addi x0, x0, 0
    let report = run(Arch::RiscV32, "eh1", &[0x0000_0013; 6], &[]);
    let topdown = &report.cpus[0].topdown;
    assert_eq!(topdown.bad_speculation, 0, "{topdown:?}");
    assert!(cycles(&report) < 5.0, "{}", cycles(&report));
}

/// Units and memory are EH1's own, whatever the table that its instructions are decoded with says.
#[test]
fn eh1_has_units_of_its_own_and_memory_beside_it() {
    // mul x10, x10, x10; lw x11, 0(x12); addi x13, x13, 1
    let report = run(
        Arch::RiscV32,
        "eh1",
        &[0x02a5_0533, 0x0006_2583, 0x0016_8693],
        &[1],
    );
    let cpu = &report.cpus[0];
    let listing = &cpu.blocks[0].listing;
    let units: Vec<&str> = listing.iter().map(|i| i.ports.as_str()).collect();
    assert_eq!(units, ["1*multiplier", "1*memory", ""]);
    let names: Vec<&str> = cpu.ports.iter().map(|port| port.port.as_str()).collect();
    assert_eq!(names, ["memory", "multiplier"]);
    let assumed = &cpu.assumes;
    assert!(
        assumed.iter().any(|a| a.contains("closely coupled")),
        "{assumed:?}"
    );
    assert!(!assumed.iter().any(|a| a.contains("cache")), "{assumed:?}");
}

#[test]
fn chains_take_their_latencies() {
    // add x0, x0, #1; mul w0, w0, w0; ldr x0, [x0]
    let (add, mul, ldr) = (0x9100_0400, 0x1b00_7c00, 0xf940_0000);
    for n in [1, 2, 5, 9] {
        let adds = a64("neoverse-n1", &vec![add; n], &[]);
        assert!((adds - n as f64).abs() < 0.05, "{n} additions: {adds}");
        // Arm, Neoverse N1 Software Optimization Guide, 3.3 and 3.5: 2 and 4 cycles.
        let muls = a64("neoverse-n1", &vec![mul; n], &[]);
        assert!((muls - 2.0 * n as f64).abs() < 0.05, "{n} products: {muls}");
        let all: Vec<u16> = (0..n as u16).collect();
        let loads = a64("neoverse-n1", &vec![ldr; n], &all);
        assert!((loads - 4.0 * n as f64).abs() < 0.05, "{n} loads: {loads}");
    }
}

/// An accumulator is forwarded within its unit, so that a chain through it is faster than one through
/// a factor: as fast as llvm-mca has it on the same model, which knows ReadAdvance.
#[test]
fn accumulators_are_forwarded() {
    let accumulated = [
        0x4e22_cc20, // fmla v0.4s, v1.4s, v2.4s
        0x4ea2_9420, // mla v0.4s, v1.4s, v2.4s
        0x9b02_0020, // madd x0, x1, x2, x0
        0x9b22_0020, // smaddl x0, w1, w2, x0
        0x1f42_0020, // fmadd d0, d1, d2, d0
        0x4e22_cc00, // fmla v0.4s, v0.4s, v2.4s
        0x9b02_0c00, // madd x0, x0, x2, x3
    ];
    let cpus = [
        "cortex-a57",
        "cortex-a76",
        "neoverse-n1",
        "neoverse-v1",
        "neoverse-v2",
        "cortex-x4",
        "tsv110",
        "apple-m1",
    ];
    let mut sooner = 0;
    for cpu in cpus {
        let table = llvm::table::cpu(cpu).unwrap().unwrap();
        let mca = |word: u32| {
            let (code, _) = llvm::decode(Arch::AArch64, &word.to_le_bytes(), 0x1000);
            let cycles = |turns| llvm_mca::cycles(&table, &code, turns).unwrap();
            (cycles(600) - cycles(200)) as f64 / 400.0
        };
        let mut chains = Vec::new();
        for word in accumulated {
            let expected = mca(word);
            let cycles = a64(cpu, &[word; 8], &[]) / 8.0;
            assert!(
                (cycles - expected).abs() < 0.05,
                "{word:08x} on {cpu}: {cycles}, {expected} by llvm-mca"
            );
            chains.push(cycles);
        }
        // The last two are chains through a factor.
        sooner += usize::from(chains[0] < chains[5]) + usize::from(chains[2] < chains[6]);
    }
    assert!(sooner >= 8, "{sooner} of 16 chains are forwarded");
}

#[test]
fn fences_order_what_they_name() {
    // ldr x0, [x0], a barrier and ldr x1, [x9]: the second load waits for the chain unless the
    // barrier is for stores alone. dmb ish, ishld, ishst; fence rw,rw, r,rw, w,w.
    let turn = |barrier: u32| a64("neoverse-n1", &[0xf940_0000, barrier, 0xf940_0121], &[0, 2]);
    let (all, loads, stores) = (turn(0xd503_3bbf), turn(0xd503_39bf), turn(0xd503_3abf));
    assert!((all - loads).abs() < 0.05, "{all} {loads}");
    assert!(
        (stores - 4.0).abs() < 0.05 && loads > stores,
        "{loads} {stores}"
    );
    // ld a0, 0(a0), fence, ld a1, 0(s1), j
    let turn = |fence: u32| {
        let code = [0x0005_3503, fence, 0x0004_b583, 0xff5f_f06f];
        let report = run(Arch::RiscV64, "sifive-p670", &code, &[0, 2]);
        let unknown = &report.cpus[0].unknown_instructions;
        assert_eq!((unknown.count, unknown.approximated), (0, 0));
        report.cpus[0].cycles
    };
    let (all, loads, stores) = (turn(0x0330_000f), turn(0x0230_000f), turn(0x0110_000f));
    assert_eq!(all, loads);
    assert!(stores < loads, "{stores} {loads}");
}

#[test]
fn independent_work_takes_its_units() {
    // mul w1, w9, w9 …: the N1 has one unit for products, which those of 64 bits keep for three
    // cycles (the same guide, 3.5).
    for (word, each) in [(0x1b09_7d20, 1.0), (0x9b09_7d20, 3.0)] {
        let muls: Vec<u32> = (1..=6).map(|reg| word | reg).collect();
        let cycles = a64("neoverse-n1", &muls, &[]);
        assert!((cycles - 6.0 * each).abs() < 0.05, "{cycles}");
    }
    // ldr x1, [x9] …: and two for loads; three µops a cycle go in.
    let loads: Vec<u32> = (1..=8).map(|reg| 0xf940_0120 | reg).collect();
    let cycles = a64("neoverse-n1", &loads, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((cycles - 4.0).abs() < 0.05, "{cycles}");
}

#[test]
fn the_zero_register_is_no_dependency() {
    // add xzr, x0, x1 (as adds xzr: cmn x0, x1) and reads of xzr: orr x0, xzr, x1.
    let moves = vec![0xaa01_03e0; 6];
    let cycles = a64("neoverse-n1", &moves, &[]);
    assert!(cycles < 3.0, "{cycles}");
    // RISC-V: add x0, x0, x0.
    let mut code = vec![0x0000_0033; 7];
    // jal x0, -28
    code.push(0xfe5f_f06f);
    let report = run(Arch::RiscV64, "sifive-p670", &code, &[]);
    let turns = report.cpus[0].cycles as f64 / TIMES as f64;
    assert!(turns < 3.0, "{turns}");
}

#[test]
fn a_trace_of_another_instruction_set_is_refused() {
    let session = support::session(Arch::AArch64);
    let error = support::simulation("skl").event(&session);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("aarch64") && error.contains("skl"),
        "{error}"
    );
}

/// An in-order core that knows kinds of instructions only, by its file's latencies and units
/// (models/cortex-a8.toml).
#[test]
fn kinds_of_instructions_take_what_their_classes_say() {
    // add x0, x0, #1; mul w0, w0, w0; ldr x0, [x0]
    let (add, mul, ldr) = (0x9100_0400, 0x1b00_7c00, 0xf940_0000);
    let near = |found: f64, cycles: f64, what: &str| {
        assert!((found - cycles).abs() < 0.05, "{what}: {found}");
    };
    for n in [2, 5] {
        let all: Vec<u16> = (0..n as u16).collect();
        let cycles = n as f64;
        near(a64("cortex-a8", &vec![add; n], &[]), cycles, "additions");
        near(
            a64("cortex-a8", &vec![mul; n], &[]),
            4.0 * cycles,
            "products",
        );
        near(a64("cortex-a8", &vec![ldr; n], &all), 2.0 * cycles, "loads");
    }
    // Two a cycle where nothing waits, and the branch beside the last: add x1..x4, xn, #1.
    let apart: Vec<u32> = (1..4).map(|n| add | n << 5 | n).collect();
    near(a64("cortex-a8", &apart, &[]), 2.0, "additions apart");
    // ldr x1, [x2], #8: the address is there in the next cycle, what was loaded in two.
    near(a64("cortex-a8", &[0xf840_8441], &[0]), 1.0, "walk");
    // fadd d0, d1, d2 and d3, d1, d2: nine cycles in a unit that is not pipelined.
    near(
        a64("cortex-a8", &[0x1e62_2820, 0x1e62_2823], &[]),
        18.0,
        "sums",
    );
}
