//! Predictions of whole blocks on every CPU in both notions, as they were when last looked at.
//!
//! `BLESS=1 cargo test -p mcad-core --test golden` writes them anew; the difference belongs into
//! the same commit as its cause.

#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;

use mcad_core::block::{Block, EarlyEnd, Init, Mode, Options};
use mcad_isa::machine::{self, cpu};

fn predictions(golden: &str) -> String {
    let models: Vec<_> = machine::cpus_of(mcad_proto::event::Arch::X86_64)
        .map(|c| cpu(c.name).unwrap())
        .filter(|m| m.core.in_order.is_none())
        .collect();
    let mut out = String::from("# hex");
    for model in &models {
        write!(out, ",{0} unrolled,{0} loop", model.name).unwrap();
    }
    out.push('\n');
    for line in golden.lines().filter(|l| !l.starts_with('#')) {
        let hex = line.split(',').next().unwrap();
        let bytes = ::hex::decode(hex).unwrap();
        out.push_str(hex);
        for model in &models {
            for mode in [Mode::Unrolled, Mode::Loop] {
                let init = Init::Distinct;
                match Block::new(model, &bytes) {
                    Ok(block) => {
                        let cycles = block
                            .predict(Options {
                                mode,
                                init,
                                early_end: EarlyEnd::Recurring,
                            })
                            .cycles;
                        write!(out, ",{cycles:.2}").unwrap();
                    }
                    Err(_) => out.push_str(",ERR"),
                }
            }
        }
        out.push('\n');
    }
    out
}

#[test]
fn predictions_are_those_last_looked_at() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/blocks.csv");
    let golden = std::fs::read_to_string(&path).unwrap();
    let now = predictions(&golden);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, now).unwrap();
        return;
    }
    let changed: Vec<String> = golden
        .lines()
        .zip(now.lines())
        .filter(|(before, after)| before != after)
        .map(|(before, after)| format!("- {before}\n+ {after}"))
        .collect();
    assert!(
        golden.lines().count() > 50 && changed.is_empty(),
        "{} blocks changed; if that is meant: BLESS=1 cargo test -p mcad-core --test golden\n{}",
        changed.len(),
        changed.join("\n")
    );
}
