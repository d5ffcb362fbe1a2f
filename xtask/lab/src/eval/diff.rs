//! `cargo xtask eval-diff`: what comparisons of versions are worth, measured; one file per section.
//!
//! The *change* between two versions is the sum over all functions of how much their cycles
//! differ, whichever way: it does not cancel out as the difference of the totals does.

mod compilers;
mod lines;
mod stripped;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Figure, Limit};
use xtask::command::{command, execute};
use xtask::{build, setup};

/// Options of `cargo xtask eval-diff`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these sections (repeatable)
    #[arg(long, value_name = "SECTION")]
    only: Vec<Section>,
    /// C++ file that clang-format formats
    #[arg(long, value_name = "FILE", default_value = "qemu-plugin/plugin.c")]
    source: PathBuf,
}

/// A part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Debian's clang-14 and clang-19 compiling a small file
    Compilers,
    /// Two versions of a small program with debug information
    Lines,
    /// clang-format 13.0.1 and 23.1.5 as PyPI has them, stripped
    Stripped,
}

/// Where programs and files are.
struct Place {
    /// Built programs.
    built: PathBuf,
    /// Files of the evaluation.
    work: PathBuf,
}

/// Measures and prints all sections or the chosen ones.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::run(&setup::Args::default())?;
    let place = Place {
        built: build::release()?,
        work: build::target_dir().join("eval"),
    };
    let work = &place.work;
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    let wanted = |section| args.only.is_empty() || args.only.contains(&section);
    let mut figures: Vec<Figure> = Vec::new();
    if wanted(Section::Compilers) {
        figures.extend(compilers::measure(&place)?);
    }
    if wanted(Section::Lines) {
        figures.extend(lines::measure(&place)?);
    }
    if wanted(Section::Stripped) {
        figures.extend(stripped::measure(&place, &args.source)?);
    }
    Ok(super::judge(&figures))
}

impl Place {
    /// Runs a command under mcad-run; gives the path of its report.
    fn report(&self, name: &str, program: &[&OsStr]) -> Result<PathBuf> {
        let report = self.work.join(format!("{name}.json"));
        execute(
            command(self.built.join("mcad-run"))
                .args(["-q", "--cpu", "skl", "--json"])
                .arg(&report)
                .arg("--")
                .args(program)
                // What it prints is not what is to be read here.
                .stdin(Stdio::null())
                .stdout(Stdio::null()),
        )?;
        Ok(report)
    }

    /// Compares two reports and shows the first functions.
    fn compare(&self, versions: [&Path; 2]) -> Result<Compared> {
        let mcad = self.built.join("mcad");
        let text = command(&mcad).arg("diff").args(versions).output()?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        eprintln!("{}", text.lines().take(40).collect::<Vec<_>>().join("\n"));
        let done = command(&mcad)
            .args(["diff", "--json", "-"])
            .args(versions)
            .output()
            .context("cannot run mcad diff")?;
        if !done.status.success() {
            bail!("mcad diff: {}", String::from_utf8_lossy(&done.stderr));
        }
        Compared::read(&serde_json::from_slice(&done.stdout)?)
    }

    /// What must hold of any comparison: the deltas add up, and a version is equal to itself.
    fn rules(&self, what: &str, compared: &Compared, version: &Path) -> Result<Vec<Figure>> {
        let done = command(self.built.join("mcad"))
            .args(["diff", "--json", "-", "--fail-above", "0%"])
            .args([version, version])
            .output()
            .context("cannot run mcad diff")?;
        let itself = Compared::read(&serde_json::from_slice(&done.stdout)?)?;
        let rows = itself.functions.len() + itself.lines.len();
        let none = |name: &str, value: f64, unit| {
            Figure::new(format!("{what}: {name}"), value, unit, Limit::Most(0.0))
        };
        Ok(vec![
            none(
                "sum of the deltas to the total's",
                compared.missing.unsigned_abs() as f64,
                "cycles apart",
            ),
            none("rows of a version against itself", rows as f64, "rows"),
            none(
                "exit status of a version against itself",
                done.status.code().map_or(255.0, f64::from),
                "",
            ),
        ])
    }
}

/// A function that changed.
struct Function {
    /// Cycles that it takes more or less.
    size: u64,
    /// It has a name of its own.
    named: bool,
    /// It is known after which named function it lies.
    near: bool,
    /// It is in both versions.
    found: bool,
}

/// What a comparison says.
struct Compared {
    functions: Vec<Function>,
    /// Lines with the cycles that they take more or less.
    lines: Vec<(String, u64)>,
    /// What the deltas lack to the total's.
    missing: i64,
    /// Change of what is in no function.
    unattributed: u64,
}

impl Compared {
    fn read(diff: &Value) -> Result<Self> {
        let cpu = diff.pointer("/overall/cpus/0").context("no CPU compared")?;
        let list = |key: &str| {
            let list = cpu.get(key).and_then(Value::as_array);
            list.with_context(|| format!("the comparison has no {key}"))
        };
        let mut missing = delta(cpu)?;
        let mut functions = Vec::new();
        for f in list("functions")? {
            let change = delta(f)?;
            missing -= change;
            let text = |key: &str| f.get(key).and_then(Value::as_str).unwrap_or("");
            let place = format!("{}+0x", text("module"));
            functions.push(Function {
                size: change.unsigned_abs(),
                named: !text("name").starts_with(&place) && !text("name").starts_with('['),
                near: f.get("near").is_some(),
                found: text("status") == "changed",
            });
        }
        let lines = list("lines")?.iter().map(|line| {
            let name = line.get("line").and_then(Value::as_str).unwrap_or("");
            Ok((name.to_owned(), delta(line)?.unsigned_abs()))
        });
        let unattributed = cpu.pointer("/unattributed/delta").and_then(Value::as_i64);
        let unattributed = unattributed.context("the comparison has no rest")?;
        Ok(Self {
            functions,
            lines: lines.collect::<Result<_>>()?,
            missing: missing - unattributed,
            unattributed: unattributed.unsigned_abs(),
        })
    }

    /// All of the change.
    fn change(&self) -> u64 {
        self.functions.iter().map(|f| f.size).sum::<u64>() + self.unattributed
    }

    /// Percentage of the change in some functions.
    fn share(&self, which: impl Fn(&Function) -> bool) -> f64 {
        let some = self.functions.iter().filter(|f| which(f));
        percent(some.map(|f| f.size).sum(), self.change())
    }
}

fn delta(row: &Value) -> Result<i64> {
    let delta = row.pointer("/cycles/delta").and_then(Value::as_i64);
    delta.context("the comparison has a row without cycles")
}

/// `part` of `whole` in percent.
fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}
