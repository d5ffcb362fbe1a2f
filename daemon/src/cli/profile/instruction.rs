//! `mcad profile instruction`: latencies, throughputs and conflicts of instructions, measured.

mod check;
mod conflicts;
mod export;

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mcad_isa::machine::measured::{kind_text, operand_text};
use mcad_isa::machine::table::LatencyKind;
use mcad_profile::host::Host;
use mcad_profile::instruction::{Bench, Figure, FormFigures, Subject, Subjects};

use super::super::model::model;
use super::machine::MachineArgs;
use crate::cli::destination::Destination;

/// The table whose forms are measured when the host's CPU has none: the one with most forms.
const DEFAULT_CPU: &str = "glc";

/// Options of `mcad profile instruction`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Forms whose name contains this (repeatable), in any case of letters [default: all]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// The CPU in whose table the forms are; `mcad cpus` lists them [default: the host's, or glc]
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// List the forms with an example instead of measuring
    #[arg(long)]
    list: bool,
    /// Compare with the table of this CPU
    #[arg(long, value_name = "CPU", conflicts_with = "cpu")]
    check: Option<String>,
    /// Write the figures as CSV
    #[arg(short, long, value_name = "FILE.csv")]
    output: Option<PathBuf>,
    /// Write a model that --cpu FILE.toml of the other commands loads: these figures, everything
    /// else of the CPU's own
    #[arg(long, value_name = "FILE.toml")]
    export: Option<PathBuf>,
    /// Measure what forms take from each other instead: 24 common ones, or those of the patterns
    #[arg(long, conflicts_with_all = ["check", "export", "list"])]
    conflicts: bool,
    /// Draw the conflicts
    #[arg(long, value_name = "FILE.svg", requires = "conflicts")]
    heatmap: Option<PathBuf>,
    /// Neither progress nor one line a form
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    machine: MachineArgs,
}

/// Measures.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = match args.check.as_ref().or(args.cpu.as_ref()) {
        Some(name) => name.as_str(),
        None => Host::at_hand().core.unwrap_or(DEFAULT_CPU),
    };
    let model = model(name)?;
    let table = model
        .forms()
        .with_context(|| format!("{name} executes {} code, not this host's", model.arch()))?;
    let subjects = Subjects::of(table);
    let mut chosen: Vec<_> = subjects.iter().filter(|s| args.wants(*s)).collect();
    if chosen.is_empty() {
        bail!("no form of {name} has a name with this in it; --list shows them");
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.list {
        for subject in &chosen {
            writeln!(out, "{:<44} {}", subject.form().name, subject.example())?;
        }
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    // Places that cannot be written are told before an hour of measuring.
    let open = |path: &Option<PathBuf>| path.as_deref().map(Destination::open).transpose();
    let (export, heatmap) = (open(&args.export)?, open(&args.heatmap)?);
    let conflicts_csv = args.output.as_ref().filter(|_| args.conflicts);
    let conflicts_csv = open(&conflicts_csv.cloned())?;
    let mut bench = Bench::new(args.machine.profiler()?)?;
    if args.conflicts {
        if args.patterns.is_empty() {
            chosen = conflicts::common(table, &subjects);
        }
        let to = conflicts::To {
            csv: conflicts_csv,
            heatmap,
        };
        return conflicts::run(to, &mut bench, &chosen, &mut out);
    }
    let mut csv = args.output.as_deref().map(create_csv).transpose()?;
    let mut results = Vec::with_capacity(chosen.len());
    let bar = progress(args.quiet, chosen.len() as u64);
    for subject in chosen {
        let figures = match subject.objection() {
            Some(why) => Err(why),
            None => Ok(bench.measure(subject)?),
        };
        if let Some(csv) = &mut csv {
            write_rows(csv, subject, &figures)?;
        }
        if !args.quiet {
            let line = line(subject, &figures);
            match &bar {
                Some(bar) => bar.suspend(|| writeln!(out, "{line}").and_then(|()| out.flush()))?,
                None => writeln!(out, "{line}")?,
            }
        }
        if let Some(bar) = &bar {
            bar.inc(1);
        }
        results.push((subject, figures));
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    if let Some(mut csv) = csv {
        csv.flush().context("cannot write the figures")?;
    }
    if let (Some(to), Some(path)) = (export, &args.export) {
        export::write(to, path, &model.name, &results)?;
    }
    summary(&bench, &results, &mut out)?;
    if args.check.is_some() {
        check::write(&model, &results, &mut out)?;
    }
    out.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// A form with what was measured, or why nothing was.
type Outcome<'s, 't> = (Subject<'s, 't>, Result<FormFigures, String>);

impl Args {
    fn wants(&self, subject: Subject<'_, '_>) -> bool {
        let name = subject.form().name.to_ascii_lowercase();
        let mut patterns = self.patterns.iter();
        self.patterns.is_empty() || patterns.any(|p| name.contains(&p.to_ascii_lowercase()))
    }
}

fn progress(quiet: bool, forms: u64) -> Option<ProgressBar> {
    if quiet || !io::stderr().is_terminal() {
        return None;
    }
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let bar = ProgressBar::with_draw_target(Some(forms), target);
    let template = "{bar:30} {pos} of {len} forms, {per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    Some(bar)
}

fn source(from: &str, kind: LatencyKind) -> String {
    match kind {
        LatencyKind::Reg => from.to_owned(),
        other => format!("{from}.{}", kind_text(other)),
    }
}

fn line(subject: Subject<'_, '_>, figures: &Result<FormFigures, String>) -> String {
    let name = &subject.form().name;
    let figures = match figures {
        Ok(figures) => figures,
        Err(why) => return format!("{name:<44} not measured: {why}"),
    };
    let throughput = match &figures.throughput {
        Ok(figure) => format!("{:8.2}", figure.cycles),
        Err(_) => "       -".to_owned(),
    };
    let latencies: Vec<_> = figures
        .latencies
        .iter()
        .filter_map(|latency| {
            let cycles = latency.result.as_ref().ok()?.cycles;
            let from = source(&operand_text(latency.pair.from), latency.pair.kind);
            let to = operand_text(latency.pair.to);
            let about = if latency.exact { "" } else { "~" };
            Some(format!("{from} to {to} {about}{cycles:.2}"))
        })
        .collect();
    format!("{name:<44} {throughput}  {}", latencies.join(", "))
}

fn create_csv(path: &Path) -> anyhow::Result<csv::Writer<File>> {
    let name = path.display();
    let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
    let mut csv = csv::Writer::from_writer(file);
    csv.write_record([
        "form", "example", "figure", "from", "to", "kind", "cycles", "spread", "exact", "reason",
    ])
    .with_context(|| format!("cannot write {name}"))?;
    Ok(csv)
}

fn write_rows(
    csv: &mut csv::Writer<File>,
    subject: Subject<'_, '_>,
    figures: &Result<FormFigures, String>,
) -> anyhow::Result<()> {
    let (name, example) = (&*subject.form().name, subject.example());
    let mut row = |what: [&str; 5], result: Result<&Figure, &String>| {
        let (cycles, spread, reason) = match result {
            Ok(f) => (format!("{:.4}", f.cycles), format!("{:.4}", f.spread), ""),
            Err(why) => (String::new(), String::new(), why.as_str()),
        };
        let [figure, from, to, kind, exact] = what;
        csv.write_record([
            name, &example, figure, from, to, kind, &cycles, &spread, exact, reason,
        ])
        .context("cannot write the figures")
    };
    let figures = match figures {
        Ok(figures) => figures,
        Err(why) => return row(["none", "", "", "", ""], Err(why)),
    };
    row(["throughput", "", "", "", ""], figures.throughput.as_ref())?;
    for (reference, conflict) in &figures.conflicts {
        let figure = Figure {
            cycles: *conflict,
            spread: 0.0,
        };
        row(["conflict", "", reference, "", ""], Ok(&figure))?;
    }
    for latency in &figures.latencies {
        let pair = latency.pair;
        let (from, to) = (operand_text(pair.from), operand_text(pair.to));
        let exact = if latency.exact { "yes" } else { "no" };
        let what = ["latency", &from, &to, kind_text(pair.kind), exact];
        row(what, latency.result.as_ref())?;
    }
    Ok(())
}

/// How many forms have which figures, and what the helpers take.
fn summary(bench: &Bench, results: &[Outcome<'_, '_>], out: &mut dyn Write) -> io::Result<()> {
    let measured: Vec<_> = results
        .iter()
        .filter_map(|(_, f)| f.as_ref().ok())
        .collect();
    let with_throughput = measured.iter().filter(|f| f.throughput.is_ok()).count();
    let with_latency = |f: &&&FormFigures| f.latencies.iter().any(|l| l.result.is_ok());
    let latencies = measured.iter().flat_map(|f| &f.latencies);
    let helpers: Vec<_> = bench
        .helpers()
        .into_iter()
        .map(|(name, cycles)| format!("{name} {cycles:.2}"))
        .collect();
    writeln!(
        out,
        "\n{} forms: throughput of {with_throughput}, latencies of {} ({} pairs of operands)",
        results.len(),
        measured.iter().filter(with_latency).count(),
        latencies.filter(|l| l.result.is_ok()).count()
    )?;
    let published = Published::of(results);
    if published.pairs.iter().any(|(_, _, all)| *all > 0) {
        writeln!(out, "{published}")?;
    }
    writeln!(out, "helpers: {}", helpers.join(", "))
}

/// How many of the latencies that a table has for some forms were measured, those of forms that
/// cannot be measured included.
struct Published {
    /// By the part of the source that they are from: measured, and all.
    pairs: [(LatencyKind, usize, usize); 4],
}

impl Published {
    fn of(results: &[Outcome<'_, '_>]) -> Self {
        use LatencyKind::{Addr, Index, Mem, Reg};
        let pairs = [Reg, Addr, Index, Mem].map(|kind| {
            let (mut measured, mut all) = (0, 0);
            for (subject, figures) in results {
                let known = figures.as_ref().map_or(&[][..], |f| &f.latencies);
                let published = subject.form().perf.latencies.iter();
                for entry in published.filter(|entry| entry.kind == kind) {
                    all += 1;
                    let name = (entry.from, entry.to, entry.kind);
                    measured += usize::from(known.iter().any(|l| {
                        (l.pair.from, l.pair.to, l.pair.kind) == name && l.result.is_ok()
                    }));
                }
            }
            (kind, measured, all)
        });
        Self { pairs }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |part: fn(&(LatencyKind, usize, usize)) -> usize| -> usize {
            self.pairs.iter().map(part).sum()
        };
        let (measured, all) = (sum(|p| p.1), sum(|p| p.2));
        let share = 100.0 * measured as f64 / all.max(1) as f64;
        write!(
            f,
            "of the table's {all} pairs {measured} ({share:.1} %) were measured: from"
        )?;
        for (n, (kind, measured, all)) in self.pairs.iter().enumerate() {
            let source = match kind {
                LatencyKind::Reg => "registers",
                LatencyKind::Addr => "base registers",
                LatencyKind::Index => "index registers",
                LatencyKind::Mem => "memory",
            };
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma} {source} {measured} of {all}")?;
        }
        Ok(())
    }
}
