//! `mcad eval --rtl CPU`: an in-order model against retirements of the real core's RTL.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use mcad_core::pipeline::inorder::slots::Cause;
use mcad_proto::event::Arch;

use crate::cli::{input, model};
use crate::eval::rtl::{self, Comparison};

/// Prints `file,instructions,measured,predicted` to stdout (cycles from the first to the last
/// retirement), and how single instructions agree to stderr.
pub(super) fn run(cpu: &str, files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let model = model::model(cpu)?;
    let core = match &model.core.in_order {
        Some(core) if model.arch() == Arch::RiscV32 => core,
        _ => bail!("{cpu}: not an in-order core of RV32IMC, which these files are of; eh1 is one"),
    };
    let mut out = csv::Writer::from_writer(BufWriter::new(io::stdout().lock()));
    let mut err = BufWriter::new(io::stderr().lock());
    out.write_record(["file", "instructions", "measured", "predicted"])?;
    let mut all = Agreement::default();
    for file in files {
        let name = file.display().to_string();
        let comparison = rtl::compare(core, &name, input::open(file)?)?;
        let (measured, predicted) = comparison.cycles();
        let instructions = comparison.instructions.len();
        out.serialize((&name, instructions, measured, predicted))?;
        writeln!(err, "{name}: {}", all.add(&comparison))?;
        for line in describe(&comparison) {
            writeln!(err, "  {line}")?;
        }
    }
    out.flush().context("cannot write to stdout")?;
    writeln!(err, "{}", all.text())?;
    err.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Sums over files.
#[derive(Default)]
struct Agreement {
    files: u32,
    errors: f64,
    largest: f64,
    instructions: u64,
    within: u64,
}

impl Agreement {
    fn add(&mut self, comparison: &Comparison) -> String {
        let (measured, predicted) = comparison.cycles();
        let error = 100.0 * (predicted as f64 / measured.max(1) as f64 - 1.0);
        let (instructions, within) = (
            comparison.instructions.len() as u64,
            comparison.within_a_cycle(),
        );
        self.files += 1;
        self.errors += error.abs();
        self.largest = self.largest.max(error.abs());
        self.instructions += instructions;
        self.within += within;
        format!(
            "cycles {error:+.2} %; {:.2} % of instructions retire within a cycle",
            percent(within, instructions)
        )
    }

    fn text(&self) -> String {
        format!(
            "{} files: cycles off by {:.2} % on average, {:.2} % at most; {:.2} % of instructions \
             retire within a cycle",
            self.files,
            self.errors / f64::from(self.files.max(1)),
            self.largest,
            percent(self.within, self.instructions)
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// Where the model's issue slots went, and what it could not know.
fn describe(comparison: &Comparison) -> Vec<String> {
    let slots = &comparison.slots;
    let mut lost = String::new();
    for (cause, &n) in Cause::ALL.iter().zip(&slots.lost) {
        if n > 0 {
            lost += &format!(", {} {:.1} %", cause.name(), percent(n, slots.total()));
        }
    }
    let mispredicted = comparison
        .instructions
        .iter()
        .filter(|i| i.stamps.mispredicted);
    let mut lines = vec![
        format!(
            "issue slots: used {:.1} %{lost}",
            percent(slots.used, slots.total())
        ),
        format!("redirections of fetch: {}", mispredicted.count()),
    ];
    for (what, divisions) in [
        ("the trace does not show", comparison.unknown_divisions),
        (
            "rest on memory being zero that was never written",
            comparison.assumed_divisions,
        ),
    ] {
        if divisions > 0 {
            lines.push(format!("divisions whose operands {what}: {divisions}"));
        }
    }
    if comparison.wrong_addresses > 0 {
        lines.push(format!(
            "addresses of c.lw and c.sw that are 124 too high in the file, as others show, and \
             were put right: {}",
            comparison.wrong_addresses
        ));
    }
    lines
}
