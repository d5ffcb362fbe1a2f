//! Parameters at the ends of their types: each is refused, or harms nothing.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashSet;
use std::sync::Arc;

use mcad_core::simulation::{AnalysisKind, Options, Simulation};
use mcad_isa::machine::params::Core;
use mcad_isa::machine::{CpuModel, cpu, cpus};
use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};
use serde_json::{Value, json};

/// Where the numbers of a table are, and each one's name, which all elements of a list of tables share.
fn numbers(value: &Value, place: &str, name: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Number(_) => found.push((place.to_owned(), name.to_owned())),
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                let name = match value.is_object() {
                    true => name.to_owned(),
                    false => format!("{name}/{n}"),
                };
                numbers(value, &format!("{place}/{n}"), &name, found);
            }
        }
        Value::Object(table) => {
            for (key, value) in table {
                let (place, name) = (format!("{place}/{key}"), format!("{name}/{key}"));
                numbers(value, &place, &name, found);
            }
        }
        _ => {}
    }
}

/// The core with the greatest number that the one at `place` can be.
fn greatest(core: &Value, place: &str) -> Core {
    let greatest = [
        json!(u64::MAX),
        json!(i64::MAX),
        json!(u32::MAX),
        json!(i32::MAX),
        json!(u16::MAX),
        json!(u8::MAX),
    ];
    let all = greatest.into_iter().find_map(|number| {
        let mut changed = core.clone();
        let old = changed.pointer_mut(place)?;
        *old = match old.is_f64() {
            true => json!(f64::MAX),
            false => number,
        };
        serde_json::from_value(changed).ok()
    });
    all.unwrap()
}

/// Cycles of a loop that loads and stores.
fn cycles(model: CpuModel) -> u64 {
    let words = |words: [u32; 3]| support::code(&words);
    let (size, code) = match model.arch() {
        Arch::X86_64 => (16, vec![0x0f, 0x10, 0x07, 0x0f, 0x11, 0x07, 0xeb, 0xf8]),
        Arch::AArch64 => (8, words([0xf940_0020, 0xf900_0020, 0x17ff_fffe])),
        _ => (4, words([0x0005_a503, 0x00a5_a023, 0xff9f_f06f])),
    };
    let arch = model.arch();
    let mut simulation = Simulation::new(Options {
        cpus: vec![Arc::new(model)],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    support::begin(&mut simulation, arch, &[(0x1000, 3, code)]);
    let access = |store: bool| {
        access_word(Access {
            index: store.into(),
            store,
            size,
            address: GuestAddr(0x7000_0040),
        })
    };
    let turn = [block_word(BlockId(0)), access(false), access(true)];
    let report = support::finish(simulation, &turn.repeat(50));
    report.cpus[0].cycles
}

#[test]
fn the_greatest_number_of_each_parameter_is_refused_or_simulated() {
    let mut known = HashSet::new();
    let mut simulated = Vec::new();
    for info in cpus() {
        let model = cpu(info.name).unwrap();
        let core = serde_json::to_value(&model.core).unwrap();
        let mut found = Vec::new();
        numbers(&core, "", "", &mut found);
        for (place, name) in found {
            if !known.insert(name.clone()) {
                continue;
            }
            let changed = greatest(&core, &place);
            if changed.check().is_err() {
                continue;
            }
            let cycles = cycles(CpuModel {
                name: model.name.clone(),
                full_name: model.full_name.clone(),
                core: changed,
                instructions: model.instructions.clone(),
                qemu_cpu: None,
            });
            assert!((1..1_000_000).contains(&cycles), "{name}: {cycles} cycles");
            simulated.push(name);
        }
    }
    assert!(known.len() > 300, "{} parameters", known.len());
    // What is left are numbers of a byte.
    assert!(simulated.len() < 40, "{simulated:?}");
}

#[test]
fn a_delay_without_end_is_refused_by_name() {
    let model = cpu("rwc").unwrap();
    let core = serde_json::to_value(&model.core).unwrap();
    for (section, name) in [
        ("branch", "decoded_redirect"),
        ("branch", "indirect_bubbles"),
        ("branch", "changed_return_bubbles"),
        ("execute", "store_forward"),
        ("execute", "sum_to_shift"),
        ("frontend", "lcp_stall"),
    ] {
        let mut changed = core.clone();
        changed[section][name] = json!(1001);
        let refused = serde_json::from_value::<Core>(changed).unwrap().check();
        let refused = refused.unwrap_err();
        assert_eq!(refused.key, format!("{section}.{name}"));
        assert_eq!(refused.what, "1001 is not in 0..=1000");
    }
    let mut changed = core;
    changed["branch"]["streamed_loops"]["taken_branches"] = json!(0);
    let refused = serde_json::from_value::<Core>(changed).unwrap().check();
    assert_eq!(
        refused.unwrap_err().key,
        "branch.streamed_loops.taken_branches"
    );
}
