//! What reports say of in-order cores: every cycle of a block is waited for by one instruction and
//! for one cause, units are counted, and parts that the model has not are not reported.

#![allow(clippy::unwrap_used)]

use mcad_core::block::{Block, Mode, Options};
use mcad_isa::machine;
use mcad_report::block::Detail;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn explain(cpu: &str, code: &[u8]) -> Detail {
    let model = machine::cpu(cpu).unwrap();
    let options = Options {
        mode: Mode::Unrolled,
        ..Options::default()
    };
    let block = Block::new(&model, code).unwrap();
    block.explain(options, 0, &|i| i.to_string())
}

/// Cycles that the notes of all instructions add up to.
fn waited(detail: &Detail) -> f64 {
    let notes = detail.instructions.iter().flat_map(|i| &i.notes);
    let cycles = notes.filter_map(|note| note.split(": ").nth(1)?.strip_suffix(" cycles"));
    cycles.map(|cycles| cycles.parse::<f64>().unwrap()).sum()
}

#[test]
fn every_cycle_is_waited_for() {
    // ldr x1, [x0]; add x2, x1, #1; mul x3, x2, x2; udiv x4, x3, x1; add x5, x4, #2; ldr x6, [x0, #8]
    let a64 = words(&[
        0xf940_0001,
        0x9100_0422,
        0x9b02_7c43,
        0x9ac1_0864,
        0x9100_0885,
        0xf940_0406,
    ]);
    // ld a0, 0(a1); addi a2, a0, 1; mul a3, a2, a2; add a4, a3, a0; addi a5, a5, 1
    let rv64 = words(&[
        0x0005_b503,
        0x0015_0613,
        0x02c6_06b3,
        0x00a6_8733,
        0x0017_8793,
    ]);
    // mov eax, [rdi]; add rax, 1; imul rax, rax; add rbx, 8; dec rcx
    let x86 = hex::decode("8b074883c001480fafc04883c30848ffc9").unwrap();
    for (cpu, code) in [
        ("cortex-a53", &a64),
        ("cortex-a55", &a64),
        ("cortex-a510", &a64),
        ("sifive-u74", &rv64),
        ("rocket", &rv64),
        ("atom", &x86),
    ] {
        let detail = explain(cpu, code);
        let cycles = detail.cycles;
        let waited = waited(&detail);
        assert!(
            (waited - cycles).abs() < 0.03,
            "{cpu}: {waited} of {cycles}"
        );
    }
}

/// What begins a cycle behind one whose slots are all taken waits for nothing: no slot is lost.
#[test]
fn behind_a_full_cycle_nothing_is_waited_for() {
    // add x1, x0, #1; add x2, x0, #1; add x3, x0, #1; add x4, x0, #1
    let code = words(&[0x9100_0401, 0x9100_0402, 0x9100_0403, 0x9100_0404]);
    let detail = explain("cortex-a53", &code);
    assert!((detail.cycles - 2.0).abs() < 0.01, "{}", detail.cycles);
    let notes: Vec<&str> = (detail.instructions.iter())
        .flat_map(|i| i.notes.iter().map(String::as_str))
        .collect();
    assert_eq!(notes, ["issue width: 1.00 cycles"; 2]);
}

#[test]
fn units_are_counted_and_executed_on() {
    // ldr x1, [x0]; mul x3, x2, x2; add x5, x4, #2
    let detail = explain(
        "cortex-a53",
        &words(&[0xf940_0001, 0x9b02_7c43, 0x9100_0885]),
    );
    let on = |n: usize, unit: &str| {
        let ports = detail
            .port_names
            .iter()
            .zip(&detail.instructions[n].port_uops);
        let of_unit = ports.filter(|(name, _)| name.starts_with(unit));
        of_unit.map(|(_, uops)| uops).sum::<f64>().round()
    };
    assert_eq!([on(0, "LdSt"), on(1, "MAC"), on(2, "ALU")], [1.0; 3]);
    // An in-order core of x86-64 has the units of its own file and not the ports of its base.
    let detail = explain("atom", &hex::decode("8b074801d8").unwrap());
    assert_eq!(detail.port_names, ["0", "1"]);
    assert!(
        detail
            .instructions
            .iter()
            .all(|i| (i.executed - 1.0).abs() < 1e-9)
    );
    assert!(detail.instructions.iter().all(|i| i.eliminated == 0.0));
}
