//! `mcad eval --forms`: throughputs and latencies of single instruction forms, simulated, beside published
//! or measured ones.
//!
//! Each form is simulated in the very code with which `mcad profile instruction` measures it:
//! independent instances in a loop, and the same with what they hand on cut where that is possible;
//! the least is the throughput. Cycles from one instance to the next. Latencies are those of [`latencies`].

mod latencies;

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcad_core::block::{Block, Init, Mode, Options};
use mcad_isa::machine::CpuModel;
use mcad_profile::instruction::{Subject, Subjects};
use serde::Deserialize;

use crate::cli::{input, model};
use latencies::{Helpers, PairName};

/// How far a throughput may be off, relative.
const AGREEMENT: f64 = 0.05;
/// Groups of forms that differ which are shown, and examples of each.
const GROUPS: usize = 40;
const EXAMPLES: usize = 3;

/// What a file has, by the names of forms; a name that several forms share has all of theirs.
#[derive(Default)]
struct Published {
    throughputs: HashMap<String, Vec<f64>>,
    latencies: HashMap<(String, PairName), Vec<f64>>,
}

/// A row of uops.info's.
#[derive(Deserialize)]
struct Row {
    string: String,
    tp: Option<f64>,
    #[serde(default)]
    lat: Vec<(String, String, String, f64)>,
}

/// A form with its simulated and its published throughput or latency.
struct Compared {
    name: String,
    simulated: f64,
    published: f64,
}

impl Compared {
    /// With the one of the figures that is nearest; none where there is none.
    fn with_nearest(name: String, simulated: f64, published: &[f64]) -> Option<Self> {
        let off = |cycles: &&f64| (simulated - **cycles).abs() / **cycles;
        let nearest = published.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
        Some(Self {
            name,
            simulated,
            published: *nearest,
        })
    }

    /// Relative.
    fn off(&self) -> f64 {
        (self.simulated - self.published).abs() / self.published
    }

    fn agrees(&self) -> bool {
        self.off() <= AGREEMENT
    }
}

/// Compares, and prints the share that agrees, the groups that do not, and the `worst` of each kind.
pub(super) fn run(
    cpu: Option<&str>,
    files: &[impl AsRef<Path>],
    worst: usize,
) -> anyhow::Result<ExitCode> {
    let (Some(cpu), [file]) = (cpu, files) else {
        bail!("--forms takes --predict CPU and one file: rows (JSON lines) or figures (CSV)");
    };
    let model = model::model(cpu)?;
    let table = model
        .forms()
        .with_context(|| format!("{cpu} has no table of instruction forms"))?;
    let (published, kind) = read(file.as_ref())?;
    // Latencies through memory are of instances that share one in both.
    let independent = match kind {
        Kind::Rows => through_memory_of_their_own(&model),
        Kind::Figures => Arc::clone(&model),
    };
    let mut throughputs = Vec::new();
    let mut exact = Vec::new();
    let mut halves = Vec::new();
    let helpers = Helpers::of(&model, kind == Kind::Figures);
    for subject in Subjects::of(table).iter() {
        let name = &*subject.form().name;
        if subject.objection().is_some() {
            continue;
        }
        if let Some(rows) = published.throughputs.get(name)
            && let Some(simulated) = simulate(&independent, subject)
        {
            throughputs.extend(Compared::with_nearest(name.to_owned(), simulated, rows));
        }
        for latency in subject.latency_loops() {
            let pair = PairName::of(latency.pair);
            if let Some(rows) = published.latencies.get(&(name.to_owned(), pair.clone()))
                && let Some(simulated) = helpers.simulate(&model, &latency)
            {
                let list = match latency.exact {
                    true => &mut exact,
                    false => &mut halves,
                };
                let name = format!("{name} {pair}");
                list.extend(Compared::with_nearest(name, simulated, rows));
            }
        }
    }
    if throughputs.is_empty() && exact.is_empty() {
        bail!("no form of {cpu} is in {}", file.as_ref().display());
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for (what, compared) in [
        ("throughputs", &throughputs),
        ("latencies", &exact),
        ("latencies with half of a way there and back", &halves),
    ] {
        write(what, compared, worst, &mut out).context("cannot write to stdout")?;
    }
    writeln!(out, "helpers: {helpers}").context("cannot write to stdout")?;
    out.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// Cycles from one instance to the next.
fn simulate(model: &Arc<CpuModel>, subject: Subject<'_, '_>) -> Option<f64> {
    let ways = subject.throughput_loops().into_iter();
    ways.filter_map(|(bytes, count)| Some(turn(model, &bytes, Init::Distinct)? / f64::from(count)))
        .min_by(f64::total_cmp)
}

/// Cycles of a turn of a loop.
fn turn(model: &Arc<CpuModel>, bytes: &[u8], init: Init) -> Option<f64> {
    let options = Options {
        mode: Mode::Loop,
        init,
        ..Options::default()
    };
    Some(Block::new(model, bytes).ok()?.predict(options).cycles)
}

/// The model with instances that store to places of their own: so are published rows measured, while
/// the profiler's instances share one.
fn through_memory_of_their_own(model: &CpuModel) -> Arc<CpuModel> {
    let mut core = model.core.clone();
    core.execute.dependencies_through_memory = false;
    Arc::new(CpuModel {
        core,
        name: model.name.clone(),
        full_name: model.full_name.clone(),
        instructions: model.instructions.clone(),
        qemu_cpu: model.qemu_cpu.clone(),
    })
}

/// What a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// uops.info's rows.
    Rows,
    /// The profiler's figures.
    Figures,
}

fn read(path: &Path) -> anyhow::Result<(Published, Kind)> {
    let place = || path.display().to_string();
    let mut text = String::new();
    input::open(path)?
        .read_to_string(&mut text)
        .with_context(place)?;
    let mut published = Published::default();
    let Published {
        throughputs,
        latencies,
    } = &mut published;
    if text.starts_with('{') {
        for (n, line) in text.lines().enumerate() {
            let row: Row = serde_json::from_str(line)
                .with_context(|| format!("{}:{}: no row of uops.info's", place(), n + 1))?;
            for (from, to, kind, cycles) in row.lat {
                let name = (row.string.clone(), PairName { from, to, kind });
                add(latencies, name, cycles);
            }
            add(throughputs, row.string, row.tp.unwrap_or_default());
        }
        return Ok((published, Kind::Rows));
    }
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    for record in reader.records() {
        let record = record.with_context(place)?;
        let field = |n: usize| record.get(n).unwrap_or_default();
        let name = field(0).to_owned();
        let Ok(cycles) = field(6).parse() else {
            continue;
        };
        match field(2) {
            "throughput" => add(throughputs, name, cycles),
            "latency" => {
                let [from, to, kind] = [3, 4, 5].map(|n| field(n).to_owned());
                add(latencies, (name, PairName { from, to, kind }), cycles);
            }
            _ => {}
        }
    }
    // A form that was measured several times has its least figure.
    for figures in throughputs.values_mut().chain(latencies.values_mut()) {
        let least = figures.iter().copied().min_by(f64::total_cmp);
        *figures = least.into_iter().collect();
    }
    Ok((published, Kind::Figures))
}

/// Files a figure; none of nothing, of which no error is a fraction.
fn add<K: Eq + Hash>(figures: &mut HashMap<K, Vec<f64>>, name: K, cycles: f64) {
    if cycles > 0.0 {
        figures.entry(name).or_default().push(cycles);
    }
}

fn write(what: &str, compared: &[Compared], worst: usize, out: &mut dyn Write) -> io::Result<()> {
    if compared.is_empty() {
        return Ok(());
    }
    let agreeing = compared.iter().filter(|c| c.agrees()).count();
    writeln!(
        out,
        "{} {what} of forms: {:.1} % within {:.0} %",
        compared.len(),
        100.0 * agreeing as f64 / compared.len().max(1) as f64,
        100.0 * AGREEMENT
    )?;
    let hundredths = |cycles: f64| (cycles * 20.0).round() as i64 * 5;
    let mut groups: BTreeMap<(i64, i64), Vec<&str>> = BTreeMap::new();
    for c in compared.iter().filter(|c| !c.agrees()) {
        let group = (hundredths(c.simulated), hundredths(c.published));
        groups.entry(group).or_default().push(&c.name);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(group, names)| (std::cmp::Reverse(names.len()), *group));
    for ((simulated, published), mut names) in groups.into_iter().take(GROUPS) {
        names.sort_unstable();
        let step = (names.len() / EXAMPLES).max(1);
        let examples: Vec<_> = names.iter().step_by(step).take(EXAMPLES).collect();
        let cycles = |hundredths: i64| hundredths as f64 / 100.0;
        writeln!(
            out,
            "  {:>5} forms: {:.2} simulated, {:.2} there: {}",
            names.len(),
            cycles(simulated),
            cycles(published),
            examples.iter().map(|n| **n).collect::<Vec<_>>().join(", ")
        )?;
    }
    let mut furthest: Vec<_> = compared.iter().filter(|c| !c.agrees()).collect();
    furthest.sort_by(|a, b| b.off().total_cmp(&a.off()).then(a.name.cmp(&b.name)));
    for c in furthest.into_iter().take(worst) {
        let (simulated, published) = (c.simulated, c.published);
        writeln!(
            out,
            "  {simulated:.2} simulated, {published:.2} there: {}",
            c.name
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn file(name: &str, text: &str) -> tempfile::TempPath {
        let file = tempfile::Builder::new().suffix(name).tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file.into_temp_path()
    }

    #[test]
    fn rows_and_figures_are_read_alike() {
        let rows = file(
            ".jsonl",
            "{\"string\":\"A\",\"tp\":7.0,\"lat\":[[\"REG0\",\"REG0\",\"reg\",3]]}\n{\"string\":\"B\"}\n{\"string\":\"A\",\"tp\":5.0}\n",
        );
        let (published, kind) = read(&rows).unwrap();
        assert_eq!(
            (published.throughputs["A"].as_slice(), kind),
            ([7.0, 5.0].as_slice(), Kind::Rows)
        );
        assert_eq!(published.throughputs.len(), 1);
        let pair = PairName {
            from: "REG0".into(),
            to: "REG0".into(),
            kind: "reg".into(),
        };
        let latency = ("A".to_owned(), pair);
        assert_eq!(published.latencies[&latency], [3.0]);
        let figures = file(
            ".csv",
            "form,example,figure,from,to,kind,cycles,spread,exact,reason\n\
             A,,throughput,,,,7.02,,,\nA,,latency,REG0,REG0,reg,1,,,\nA,,throughput,,,,6.98,,,\n",
        );
        let (published, kind) = read(&figures).unwrap();
        assert_eq!(
            (published.throughputs["A"].as_slice(), kind),
            ([6.98].as_slice(), Kind::Figures)
        );
        assert_eq!(published.latencies[&latency], [1.0]);
    }

    #[test]
    fn a_form_takes_what_its_ports_allow() {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        let subjects = Subjects::of(model.forms().unwrap());
        for (name, want) in [("ADD_01 (R64, R64)", 0.25), ("IMUL (R64, R64)", 1.0)] {
            let subject = subjects.iter().find(|s| &*s.form().name == name).unwrap();
            let got = simulate(&model, subject).unwrap();
            assert!((got - want).abs() < 0.04 * want, "{name}: {got}");
        }
    }
}
