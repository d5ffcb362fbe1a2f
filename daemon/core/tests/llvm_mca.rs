//! Cycles of 100 iterations as llvm-mca 22.1.8 printed them (`llvm-mca -iterations=100`, with
//! `-mattr=+all` for A64), of blocks that each show one rule. `mcad eval --llvm-mca` compares the
//! blocks of real programs where llvm-mca is installed.

#![allow(clippy::unwrap_used)] // Tests fail by panicking.

use mcad_core::block::{Block, Options};
use mcad_core::llvm_mca::{Refused, cycles};
use mcad_isa::llvm;
use mcad_isa::llvm::table::CpuTable;
use mcad_isa::machine;

const A64_CPUS: [&str; 11] = [
    "cortex-a53",
    "cortex-a55",
    "cortex-a57",
    "cortex-a510",
    "neoverse-n1",
    "neoverse-n2",
    "neoverse-v1",
    "neoverse-v2",
    "a64fx",
    "apple-m1",
    "thunderx2t99",
];
const A64: &[(&str, &str, [u64; 11])] = &[
    (
        "a chain of additions",
        "0000018b0000018b0000018b",
        [303, 303, 303, 301, 303, 303, 303, 303, 303, 603, 303],
    ),
    (
        "shifted operands, which come late",
        "2004008b021cc2ca6340024b",
        [304, 304, 306, 403, 205, 205, 205, 205, 405, 305, 505],
    ),
    (
        "rotation of one register, and of two",
        "8480c4938520c693",
        [304, 303, 308, 203, 106, 106, 106, 106, 205, 204, 104],
    ),
    (
        "a zero register before another",
        "3f0000b9220400b942040011",
        [204, 203, 203, 201, 203, 103, 103, 103, 103, 106, 303],
    ),
    (
        "loads and stores of pairs, with write-back",
        "020cc1a88400028b231081a8a50400f181ffff54",
        [1201, 1201, 406, 601, 405, 207, 132, 207, 504, 213, 505],
    ),
    (
        "divisions",
        "2008c29a6300008b2408c39a",
        [
            504, 1601, 7003, 3301, 1018, 4003, 1018, 4003, 4603, 2603, 4603,
        ],
    ),
    (
        "multiply and add, whose sum may come late",
        "2000029b6000049b057c019b",
        [604, 604, 610, 1004, 1104, 405, 206, 206, 1008, 1107, 1008],
    ),
    (
        "floating point",
        "2000421f6328601e6418611e8000789e",
        [4907, 3004, 3302, 3005, 819, 1604, 419, 421, 959, 1032, 982],
    ),
    (
        "vectors",
        "00a0df4c4284a04e439ca14e64b8b14e2370004c",
        [2301, 1701, 421, 1501, 315, 264, 215, 216, 1117, 509, 771],
    ),
    (
        "a call",
        "e00740f90104009110000094",
        [10205, 10204, 414, 10003, 414, 327, 222, 218, 244, 222, 530],
    ),
    (
        "constants and moves",
        "000280d2010080d2e20301aa2000a0f20300028b",
        [303, 303, 254, 202, 171, 105, 79, 88, 130, 205, 254],
    ),
    (
        "conditions",
        "201042fa20b0829ae3179f1aa3ff0737",
        [602, 602, 204, 202, 138, 105, 105, 105, 105, 104, 204],
    ),
];

const RISCV_CPUS: [&str; 8] = [
    "sifive-u74",
    "rocket-rv64",
    "spacemit-x60",
    "sifive-p450",
    "sifive-p670",
    "xiangshan-nanhu",
    "andes-ax45",
    "syntacore-scr7",
];
const RISCV: &[(&str, &str, [u64; 8])] = &[
    (
        "a chain of additions",
        "2e952e952e95",
        [303, 301, 301, 303, 303, 303, 301, 303],
    ),
    (
        "compressed code",
        "1c60b6971ce44104e31ce4fe",
        [602, 601, 902, 174, 133, 108, 502, 257],
    ),
    (
        "divisions",
        "33c5c502aa963be7d502",
        [10002, 6801, 3301, 5304, 5304, 2003, 7901, 5503],
    ),
    (
        "multiplications",
        "4d9d3b06b502b296",
        [404, 901, 902, 305, 305, 307, 602, 406],
    ),
    (
        "floating point",
        "43f5c552d3f6a60253f7b61a531527c2",
        [7103, 3402, 3307, 3214, 1111, 329, 4103, 3512],
    ),
    (
        "a call",
        "226593051500ef000004",
        [9855, 10103, 10005, 412, 231, 218, 10004, 924],
    ),
    (
        "bits",
        "33a5a520131605609356766033d7a60e",
        [304, 0, 402, 139, 106, 108, 402, 205],
    ),
    (
        "atomics",
        "2f35b600af3606103387a600af37e618",
        [801, 501, 1309, 407, 406, 504, 1203, 2323],
    ),
];

fn block(cpu: &CpuTable, hex: &str) -> Vec<llvm::Instruction> {
    let (block, bad) = llvm::decode(cpu.arch, &hex::decode(hex).unwrap(), 0x1000);
    assert_eq!(bad, None, "{hex}");
    block
}

fn compare<const N: usize>(cpus: [&str; N], blocks: &[(&str, &str, [u64; N])]) {
    for (what, hex, expected) in blocks {
        for (cpu, expected) in cpus.iter().zip(expected) {
            let cpu = llvm::table::cpu(cpu).unwrap().unwrap();
            let found = cycles(&cpu, &block(&cpu, hex), 100);
            match expected {
                // llvm-mca refuses it, too.
                0 => assert!(found.is_err(), "{what} on {}", cpu.cpu.name),
                _ => assert_eq!(found, Ok(*expected), "{what} on {}", cpu.cpu.name),
            }
        }
    }
}

#[test]
fn blocks_of_a64_take_the_cycles_of_llvm_mca() {
    compare(A64_CPUS, A64);
}

#[test]
fn blocks_of_riscv_take_the_cycles_of_llvm_mca() {
    compare(RISCV_CPUS, RISCV);
}

#[test]
fn what_a_model_lacks_is_refused() {
    let cpu = llvm::table::cpu("cortex-a57").unwrap().unwrap();
    assert_eq!(cycles(&cpu, &[], 100), Err(Refused::Empty));
    // Vectors of scalable length, which a Cortex-A57 has not: add z0.b, z0.b, z1.b
    let refused = cycles(&cpu, &block(&cpu, "00002104"), 100).unwrap_err();
    assert!(matches!(refused, Refused::Unsupported { .. }), "{refused}");
    assert!(refused.to_string().contains("cortex-a57"), "{refused}");
}

#[test]
fn in_order_cores_predict_blocks_by_the_same_rules() {
    // What llvm-mca does differently from a program: calls, and what it keeps of an opcode.
    let alike = |what: &str| !what.contains("call") && !what.contains("zero register");
    let mut compared = 0;
    let a64 = A64
        .iter()
        .map(|(what, hex, _)| (*what, *hex, &A64_CPUS[..]));
    let riscv = RISCV
        .iter()
        .map(|(what, hex, _)| (*what, *hex, &RISCV_CPUS[..]));
    for (what, hex, cpus) in a64.chain(riscv).filter(|(what, ..)| alike(what)) {
        for name in cpus {
            let table = llvm::table::cpu(name).unwrap().unwrap();
            let code = block(&table, hex);
            let (Ok(half), Ok(whole)) = (cycles(&table, &code, 100), cycles(&table, &code, 200))
            else {
                continue;
            };
            let model = machine::cpu(name).unwrap();
            if model.core.in_order.is_none() {
                continue;
            }
            let found = Block::new(&model, &hex::decode(hex).unwrap()).unwrap();
            let found = found.predict(Options::default()).cycles;
            let expected = (whole - half) as f64 / 100.0;
            assert!(
                (found - expected).abs() < 0.02,
                "{what} on {name}: {found}, {expected}"
            );
            compared += 1;
        }
    }
    assert!(compared > 30);
}
