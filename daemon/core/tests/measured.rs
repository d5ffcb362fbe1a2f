//! A model exported from measurements predicts with them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use mcad_core::block::{Block, Mode, Options};
use mcad_isa::machine::{CpuModel, cpu, model_from};

fn file(forms: &str) -> String {
    format!("name = \"here\"\nbase = \"skl\"\n{forms}")
}

fn cycles(model: &Arc<CpuModel>, bytes: &[u8]) -> f64 {
    let options = Options {
        mode: Mode::Loop,
        ..Options::default()
    };
    Block::new(model, bytes).unwrap().predict(options).cycles
}

#[test]
fn measured_figures_replace_the_bases() {
    let base = cpu("skl").unwrap();
    // imul rax, rax; dec r15; jnz
    let chain = [0x48, 0x0f, 0xaf, 0xc0, 0x49, 0xff, 0xcf, 0x75, 0xf7];
    assert_eq!(cycles(&base, &chain), 3.0);
    let text = file(
        "[[form]]\nname = \"IMUL (R64, R64)\"\nthroughput = 4.02\n\
         latencies = [[\"REG0\", \"REG0\", \"reg\", 6.04], [\"REG1\", \"REG0\", \"reg\", 6.96]]\n",
    );
    let slow = model_from("here.toml", &text, &|_| Err(String::new())).unwrap();
    assert_eq!(slow.name, "here");
    assert_eq!(cycles(&slow, &chain), 7.0);
    let form = |m: &CpuModel| {
        let forms = m.forms().unwrap().forms().iter();
        forms
            .clone()
            .find(|f| &*f.name == "IMUL (R64, R64)")
            .cloned()
            .unwrap()
    };
    assert_eq!(form(&slow).perf.tp, Some(400));
    assert_eq!(form(&slow).perf.ports, form(&base).perf.ports);
}
