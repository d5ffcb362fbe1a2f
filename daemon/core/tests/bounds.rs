//! What is said to bound a block agrees with what its simulation shows.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use mcad_core::block::{Block, EarlyEnd, Mode, Options};
use mcad_isa::machine;
use mcad_proto::event::Arch;
use mcad_report::block::{Detail, Part};

fn explain(cpu: &str, code: &[u8], mode: Mode) -> Option<Detail> {
    let model = machine::cpu(cpu).unwrap();
    let block = Block::new(&model, code).ok()?;
    let options = Options {
        mode,
        early_end: EarlyEnd::Recurring,
        ..Options::default()
    };
    Some(block.explain(options, 0, &|i| i.to_string()))
}

fn of(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

/// The blocks of the goldens.
fn blocks() -> impl Iterator<Item = Vec<u8>> {
    let lines = include_str!("golden/blocks.csv").lines();
    let fields = lines.filter(|line| !line.starts_with('#'));
    fields.filter_map(|line| hex::decode(line.split(',').next()?).ok())
}

/// Blocks put together from them.
fn mixtures(seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let all: Vec<Vec<u8>> = blocks().collect();
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).map(move |_| {
        let mut code = Vec::new();
        for _ in 0..random.usize(2..7) {
            code.extend_from_slice(&all[random.usize(0..all.len())]);
        }
        code
    })
}

/// Bounds of a block above what is predicted.
fn above(cpu: &str, code: &[u8], mode: Mode) -> Vec<String> {
    let Some(detail) = explain(cpu, code, mode) else {
        return Vec::new();
    };
    let used = detail.limits.iter().filter(|l| l.used);
    let above = used.filter(|l| l.cycles > detail.cycles * 1.005 + 0.005);
    above
        .map(|l| {
            format!(
                "{cpu} {} {mode:?}: {:.2} below {:?} {:.2} ({})",
                hex::encode(code),
                detail.cycles,
                l.part,
                l.cycles,
                l.evidence
            )
        })
        .collect()
}

#[test]
fn no_prediction_is_below_a_bound_of_its_own() {
    let mut found = Vec::new();
    for (n, info) in (0u64..).zip(machine::cpus_of(Arch::X86_64)) {
        for code in blocks().chain(mixtures(n, 60)) {
            for mode in [Mode::Unrolled, Mode::Loop] {
                found.extend(above(info.name, &code, mode));
            }
        }
    }
    assert!(found.is_empty(), "{}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn what_does_not_overlap_with_itself_is_no_division() {
    let detail = explain("skl", &of("0f05"), Mode::Unrolled).unwrap();
    let divider = detail.limits.iter().find(|l| l.part == Part::Divider);
    assert!(divider.is_none(), "{:?}", detail.limits);
    assert!(!detail.bottlenecks.contains(&Part::Divider));
}

#[test]
fn what_uses_ports_is_not_said_to_need_none() {
    for info in machine::cpus_of(Arch::X86_64) {
        // mov eax,5; mov eax,[rsi]; nop; xor ecx,ecx; vzeroupper
        let Some(detail) = explain(info.name, &of("b8050000008b069031c9c5f877"), Mode::Unrolled)
        else {
            continue;
        };
        for i in &detail.instructions {
            let none = i.notes.iter().any(|n| n == "needs no port");
            assert!(!none || i.executed < 0.005, "{}: {i:?}", info.name);
        }
    }
}
