//! `cargo xtask eval-instructions`: what is promised of `mcad profile instruction`, measured on
//! this CPU.
//!
//! All forms of a table are measured twice. On any CPU the two must agree, and latencies that no
//! half way of a helper is in must be whole cycles; on a CPU that there are published rows of
//! (--same-cpu), so must latencies and rows. Rows of another CPU may be compared with, too: what
//! differs then is the CPU, and its largest groups are printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::{Figure, Limit, judge};
use xtask::build;
use xtask::command::{command, execute, root};

/// Options of `cargo xtask eval-instructions`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CPU in whose table the forms are [default: the host's, or glc]
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Compare with these published rows, too: DATA/uops/ZEN3.jsonl.xz (docs/PROFILE.md)
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// The rows are of the CPU at hand: latencies must agree with them
    #[arg(long, requires = "rows")]
    same_cpu: bool,
}

/// Difference that is none, in cycles.
const AGREEMENT: f64 = 0.1;
/// The same for long latencies, relative: what two runs of blocks may differ by.
const RELATIVE: f64 = 0.01;
/// How many latencies must agree, in per cent.
const AGREEING: f64 = 95.0;
/// Groups of differences that are printed, and forms of each.
const GROUPS: usize = 12;
const EXAMPLES: usize = 3;

/// A pair of operands: form, source, destination, part of the source.
type Name = (String, String, String, String);

/// A line of the profiler's output.
#[derive(Debug, Deserialize)]
struct Line {
    form: String,
    example: String,
    figure: String,
    from: String,
    to: String,
    kind: String,
    cycles: Option<f64>,
    exact: String,
}

/// A measured latency.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    cycles: f64,
    exact: bool,
    /// Cycles from one independent instance to the next; zero when that is not known.
    throughput: f64,
}

/// By the instruction that was measured, too: forms may share a name.
type Run = BTreeMap<(String, Name), Measured>;

/// A published row.
#[derive(Debug, Deserialize)]
struct Row {
    string: String,
    #[serde(default)]
    lat: Vec<(String, String, String, f64)>,
}

/// Measures and prints everything.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mcad = build::release()?.join("mcad");
    let work = build::target_dir().join("eval-profile");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let runs = [0, 1].map(|n| measure(&mcad, &work, args, n));
    let [first, second] = runs;
    let (first, second) = (first?, second?);
    let mut figures = vec![
        Figure::new(
            "latencies: two runs within 0.1 cycles or 1 %",
            agreement(&first, &second),
            "%",
            Limit::Least(AGREEING),
        ),
        Figure::new(
            "exact latencies that are whole cycles",
            whole(&first, true, 1.0),
            "%",
            Limit::None,
        ),
        Figure::new(
            "... or the form's throughput",
            share_of(&first, true, |m| m.whole(1.0) || m.bound()),
            "%",
            Limit::Least(AGREEING),
        ),
        Figure::new(
            "the others that are whole or half cycles",
            whole(&first, false, 0.5),
            "%",
            Limit::None,
        ),
    ];
    if let Some(path) = &args.rows {
        let rows = published(&root().join(path))?;
        figures.extend(compare(&first, &rows, args.same_cpu));
    }
    Ok(judge(&figures))
}

fn measure(mcad: &Path, work: &Path, args: &Args, n: u32) -> Result<Run> {
    let output = work.join(format!("instructions{n}.csv"));
    let mut run = command(mcad);
    run.args(["profile", "instruction", "--quiet", "--output"])
        .arg(&output);
    if let Some(cpu) = &args.cpu {
        run.args(["--cpu", cpu]);
    }
    execute(&mut run)?;
    let name = || format!("cannot read {}", output.display());
    let mut lines = csv::Reader::from_path(&output).with_context(name)?;
    let mut measured = Run::new();
    // The lines of a form begin with its throughput.
    let mut throughput = 0.0;
    for line in lines.deserialize() {
        let line: Line = line.with_context(name)?;
        match (line.figure.as_str(), line.cycles) {
            ("throughput", cycles) => throughput = cycles.unwrap_or_default(),
            ("latency", Some(cycles)) => {
                let latency = Measured {
                    cycles,
                    exact: line.exact == "yes",
                    throughput,
                };
                let name = (line.form, line.from, line.to, line.kind);
                measured.insert((line.example, name), latency);
            }
            _ => {}
        }
    }
    Ok(measured)
}

/// Published latencies; a name that several forms share has all of theirs.
fn published(path: &Path) -> Result<BTreeMap<Name, Vec<f64>>> {
    let text = super::read_text(path)?;
    let mut published = BTreeMap::<Name, Vec<f64>>::new();
    for line in text.lines() {
        let row: Row = serde_json::from_str(line)
            .with_context(|| format!("{} has another kind of line", path.display()))?;
        for (from, to, kind, cycles) in row.lat {
            let name = (row.string.clone(), from, to, kind);
            published.entry(name).or_default().push(cycles);
        }
    }
    Ok(published)
}

fn share(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// How many latencies of two runs agree, of those that both have, in per cent.
fn agreement(a: &Run, b: &Run) -> f64 {
    let both: Vec<_> = a
        .iter()
        .filter_map(|(name, a)| Some((a.cycles, b.get(name)?.cycles)))
        .collect();
    let agree = |(a, b): &&(f64, f64)| (a - b).abs() <= AGREEMENT.max(RELATIVE * a.max(*b));
    share(both.iter().filter(agree).count(), both.len())
}

impl Measured {
    /// Whether it is a multiple of so many cycles.
    fn whole(&self, unit: f64) -> bool {
        let units = self.cycles / unit;
        (units - units.round()).abs() * unit <= AGREEMENT
    }

    /// Whether it is no latency: the instance goes as soon as there is a place for it.
    fn bound(&self) -> bool {
        self.cycles <= self.throughput + AGREEMENT.max(RELATIVE * self.throughput)
    }
}

/// How many exact latencies, or others, are so, in per cent.
fn share_of(run: &Run, exact: bool, so: impl Fn(&Measured) -> bool) -> f64 {
    let of: Vec<_> = run.values().filter(|m| m.exact == exact).collect();
    share(of.iter().filter(|m| so(m)).count(), of.len())
}

fn whole(run: &Run, exact: bool, unit: f64) -> f64 {
    share_of(run, exact, |m| m.whole(unit))
}

/// Exact latencies beside published ones, with the largest groups of differences.
#[allow(clippy::print_stdout)] // Its output is what it is for.
fn compare(run: &Run, published: &BTreeMap<Name, Vec<f64>>, same_cpu: bool) -> Vec<Figure> {
    let both = run.iter().filter(|(_, measured)| measured.exact);
    let both: Vec<_> = both
        .filter_map(|((_, name), measured)| Some((name, measured.cycles, published.get(name)?)))
        .collect();
    let equal = |cycles: f64, theirs: &[f64], by: f64| {
        theirs.iter().any(|t| (t - cycles).abs() <= by + AGREEMENT)
    };
    let mut groups = BTreeMap::<(i64, Vec<i64>), BTreeSet<&str>>::new();
    let mut sizes = BTreeMap::<(i64, Vec<i64>), usize>::new();
    for (name, cycles, theirs) in &both {
        if !equal(*cycles, theirs, 0.0) {
            let mut values: Vec<_> = theirs.iter().map(|t| t.round() as i64).collect();
            values.sort_unstable();
            values.dedup();
            let group = (cycles.round() as i64, values);
            *sizes.entry(group.clone()).or_default() += 1;
            groups.entry(group).or_default().insert(&name.0);
        }
    }
    let mut order: Vec<_> = sizes.into_iter().collect();
    order.sort_by_key(|(group, size)| (std::cmp::Reverse(*size), group.clone()));
    println!("\nLargest groups of latencies that differ from the rows");
    for ((here, there), size) in order.into_iter().take(GROUPS) {
        let forms = groups.get(&(here, there.clone()));
        let examples: Vec<&str> = forms
            .into_iter()
            .flatten()
            .copied()
            .take(EXAMPLES)
            .collect();
        let there: Vec<String> = there.iter().map(ToString::to_string).collect();
        println!(
            "  {size:>5} pairs: {here} here, {} there: {} ...",
            there.join(" or "),
            examples.join(", ")
        );
    }
    let within = |by: f64| {
        let agree = both.iter().filter(|(_, cycles, t)| equal(*cycles, t, by));
        share(agree.count(), both.len())
    };
    let limit = if same_cpu {
        Limit::Least(AGREEING)
    } else {
        Limit::None
    };
    let exactly = "exact latencies as the rows have them";
    let near = "exact latencies within a cycle of the rows";
    vec![
        Figure::new(
            "exact latencies that the rows have",
            both.len() as f64,
            "",
            Limit::None,
        ),
        Figure::new(exactly, within(0.0), "%", limit),
        Figure::new(near, within(1.0), "%", Limit::None),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(figures: &[(&str, f64, bool)]) -> Run {
        let name = |form: &str| {
            let text = |t: &str| t.to_owned();
            (text(form), text("REG0"), text("REG0"), text("reg"))
        };
        let entry = |(form, cycles, exact): &(&str, f64, bool)| {
            let (cycles, exact) = (*cycles, *exact);
            let measured = Measured {
                cycles,
                exact,
                throughput: 0.25,
            };
            (((*form).to_owned(), name(form)), measured)
        };
        figures.iter().map(entry).collect()
    }

    #[test]
    fn what_one_run_lacks_neither_agrees_nor_disagrees() {
        let first = run(&[("A", 1.0, true), ("B", 2.0, true), ("C", 100.0, true)]);
        let second = run(&[("A", 1.05, true), ("B", 2.2, true), ("D", 7.0, true)]);
        assert_eq!(agreement(&first, &second), 50.0);
        assert_eq!(agreement(&first, &run(&[("C", 100.9, true)])), 100.0);
    }

    #[test]
    fn whole_and_half_cycles_are_counted_apart() {
        let measured = run(&[
            ("A", 1.02, true),
            ("B", 0.26, true),
            ("C", 3.51, false),
            ("D", 4.0, false),
            ("E", 4.25, false),
        ]);
        assert_eq!(whole(&measured, true, 1.0), 50.0);
        assert!((whole(&measured, false, 0.5) - 200.0 / 3.0).abs() < 1e-9);
        // One goes as fast as independent ones do.
        assert_eq!(
            share_of(&measured, true, |m| m.whole(1.0) || m.bound()),
            100.0
        );
    }

    #[test]
    fn only_exact_latencies_are_compared() {
        let measured = run(&[("A", 2.0, true), ("B", 1.0, true), ("C", 9.5, false)]);
        let rows = run(&[("A", 1.0, true), ("B", 1.0, true), ("C", 3.0, true)]);
        let rows = rows
            .into_iter()
            .map(|((_, name), m)| (name, vec![m.cycles]));
        let figures = compare(&measured, &rows.collect(), false);
        let values: Vec<f64> = figures.iter().map(|f| f.value).collect();
        assert_eq!(values, [2.0, 50.0, 100.0]);
    }
}
