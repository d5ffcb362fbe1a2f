//! Lookups of hand-encoded instructions: the form's name and the figures that uops.info prints.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction};

use super::*;

fn decode(hex: &str) -> Instruction {
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).expect("hex"))
        .collect();
    let mut decoder = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "{hex} does not decode");
    assert_eq!(instruction.len(), bytes.len(), "{hex} has bytes to spare");
    instruction
}

fn form(cpu: &str, hex: &str) -> &'static Form {
    let table = FormTable::for_cpu(cpu).expect("table");
    table
        .find(&decode(hex))
        .unwrap_or_else(|| panic!("{cpu}: {hex} has no form"))
}

/// `0156+23*2`, in the table's order.
fn ports(perf: &Perf) -> String {
    let set = |p: PortSet| -> String {
        (0..12)
            .filter(|n| p.0 & 1 << n != 0)
            .map(|n| char::from_digit(n, 16).expect("port").to_ascii_uppercase())
            .collect()
    };
    let list: Vec<_> = perf
        .ports
        .iter()
        .map(|(p, n)| match n {
            1 => set(*p),
            n => format!("{}*{n}", set(*p)),
        })
        .collect();
    list.join("+")
}

fn latency(perf: &Perf, from: OperandName, to: OperandName) -> Option<u16> {
    let same = |l: &&Latency| l.from == from && l.to == to && l.kind == LatencyKind::Reg;
    perf.latencies.iter().find(same).map(|l| l.cycles)
}

const REG0: OperandName = OperandName::Reg(0);
const REG1: OperandName = OperandName::Reg(1);

#[test]
fn names_and_ports_are_those_of_uops_info() {
    for (cpu, hex, name, expected) in CASES {
        let form = form(cpu, hex);
        assert_eq!(&*form.name, *name, "{cpu}: {hex}");
        assert_eq!(ports(&form.perf), *expected, "{cpu}: {hex} {name}");
        assert_eq!(form.approximated_from, None, "{cpu}: {hex} {name}");
    }
}

/// CPU, bytes, uops.info's name, ports.
const CASES: &[(&str, &str, &str, &str)] = &[
    // Integer, all encodings of the same operation.
    ("skl", "4801d8", "ADD_01 (R64, R64)", "0156"),
    ("skl", "4803c3", "ADD_03 (R64, R64)", "0156"),
];

#[test]
fn every_code_can_be_looked_up() {
    for cpu in embedded_cpus() {
        let table = FormTable::for_cpu(cpu).expect("table");
        for code in Code::values() {
            let mut instruction = Instruction::new();
            instruction.set_code(code);
            let _ = table.find(&instruction);
        }
    }
}

#[test]
fn a_chain_of_adds_has_one_cycle_a_link() {
    assert_eq!(latency(&form("skl", "4801d8").perf, REG0, REG0), Some(1));
    assert_eq!(latency(&form("skl", "4801d8").perf, REG1, REG0), Some(1));
}
