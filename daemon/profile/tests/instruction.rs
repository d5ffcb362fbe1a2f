//! Benchmarks of instruction forms: that they run and what they consist of. No timing is asserted.

#![allow(clippy::unwrap_used)]

use iced_x86::{Decoder, DecoderOptions, Mnemonic};
use mcad_isa::machine::table::{FormTable, LatencyKind, OperandName};
use mcad_profile::block::{Profiler, Settings};
use mcad_profile::cell::Sandbox;
use mcad_profile::init::Init;
use mcad_profile::instruction::{Bench, Subject, Subjects};

fn named<'s, 't>(subjects: &'s Subjects<'t>, name: &str) -> Subject<'s, 't> {
    subjects.iter().find(|s| &*s.form().name == name).unwrap()
}

#[test]
fn most_forms_of_a_table_can_be_measured() {
    for cpu in ["skl", "glc"] {
        let table = FormTable::for_cpu(cpu).unwrap();
        let subjects = Subjects::of(table);
        assert_eq!(subjects.iter().count(), table.forms().len(), "{cpu}");
        let fit = subjects.iter().filter(|s| s.objection().is_none());
        let fit = fit.filter(|s| s.throughput_code().is_some()).count();
        assert!(fit >= 1500, "{cpu}: {fit}");
    }
    let table = FormTable::for_cpu("skl").unwrap();
    let subjects = Subjects::of(table);
    let syscall = named(&subjects, "SYSCALL").objection().unwrap();
    assert!(syscall.contains("enters the kernel"), "{syscall}");
}

#[test]
fn instances_are_independent_where_registers_allow() {
    let table = FormTable::for_cpu("skl").unwrap();
    let subjects = Subjects::of(table);
    let (bytes, count) = named(&subjects, "ADD_01 (R64, R64)")
        .throughput_code()
        .unwrap();
    let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
    let instructions: Vec<_> = decoder.iter().collect();
    assert_eq!(instructions.len(), count as usize);
    let mut targets: Vec<_> = instructions.iter().map(|i| i.op0_register()).collect();
    targets.sort_unstable();
    targets.dedup();
    assert!(targets.len() >= 10, "{targets:?}");
    for instruction in instructions {
        assert_eq!(instruction.mnemonic(), Mnemonic::Add);
        assert!(
            !targets.contains(&instruction.op1_register()),
            "{instruction}"
        );
    }
}

#[test]
fn forms_of_all_kinds_have_figures() {
    let settings = Settings {
        init: Init::Equal,
        sandbox: Sandbox::Required,
        unfiltered: true,
    };
    let mut bench = Bench::new(Profiler::new(settings).unwrap()).unwrap();
    let table = FormTable::for_cpu("skl").unwrap();
    let subjects = Subjects::of(table);
    for (name, pairs) in [
        ("ADD_01 (R64, R64)", 4),
        ("MOV (R64, M64)", 3),
        ("MOV (M64, R64)", 3),
        ("ADD (M64, R64)", 8),
        ("ADDPD (XMM, XMM)", 2),
        ("MOVD (R32, XMM)", 1),
        ("SHL (R64, CL)", 0),
        ("DIV (R32)", 0),
    ] {
        let figures = bench.measure(named(&subjects, name)).unwrap();
        if pairs > 0 {
            assert_eq!(figures.latencies.len(), pairs, "{name}: {figures:?}");
        }
        // A machine may be too busy for any one of them, but not for all.
        let known = figures
            .latencies
            .iter()
            .filter(|l| l.result.is_ok())
            .count();
        assert!(
            known > 0 || figures.throughput.is_ok(),
            "{name}: {figures:?}"
        );
    }
    let load = bench.measure(named(&subjects, "MOV (R64, M64)")).unwrap();
    let pairs: Vec<_> = load
        .latencies
        .iter()
        .map(|l| (l.pair.from, l.pair.kind, l.exact))
        .collect();
    let memory = OperandName::Mem(0);
    let expected = [
        (memory, LatencyKind::Addr, true),
        (memory, LatencyKind::Index, true),
        // Through a store, whose share of the way can only be taken to be half.
        (memory, LatencyKind::Mem, false),
    ];
    assert_eq!(pairs, expected);
}
