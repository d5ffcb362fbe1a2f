//! `mcad diff`: compares JSON reports, or runs commands and compares what they take.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::{Args as _, Command};
use mcad_viewers::Style;
use mcad_viewers::diff::{self, Diff, Regression, Version};
use mcad_viewers::escape::escape;

use super::analysis::AnalysisArgs;
use super::destination::Destination;
use super::exit::{NEGATIVE, exit_code};
use super::json::JsonArgs;
use super::output::{incomplete, style_of};
use super::report_file;
use super::run::{self, EmulatorArgs};
use super::signals;

/// Options of `mcad diff`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mcad diff [OPTIONS] A.json B.json [C.json …]\n       \
                      mcad diff [OPTIONS] -- CMD_A [ARGS] -- CMD_B [ARGS] [-- …]",
    after_help = "The first version is the baseline, and the last one is compared with it; more \
                  versions are also compared each with the one before. The deltas of all \
                  functions add up to the total's. Commands keep their stdin, stdout and stderr; \
                  where an output of mcad goes to stdout, theirs goes to stderr.\n\n\
                  Exit status 0: no regression, 1: a regression above --fail-above, 2: error, \
                  also when --fail-above is to judge a run that crashed, stopped early or ended \
                  otherwise than the first."
)]
pub(super) struct Args {
    #[command(flatten)]
    analysis: AnalysisArgs,
    /// Exit with 1 if the cycles of the last version are more than PERCENT above the first's: of
    /// the total and of every region, or of what --watch names
    #[arg(long, value_name = "PERCENT")]
    fail_above: Option<Percent>,
    /// Let --fail-above look at this function or region instead of the totals (repeatable)
    #[arg(long, value_name = "NAME", requires = "fail_above")]
    watch: Vec<String>,
    #[command(flatten)]
    json: JsonArgs,
    /// Write Markdown for a pull request
    #[arg(long, group = "form")]
    markdown: bool,
    /// Write the last version's figures as [{name, unit, value}] for benchmark actions
    #[arg(long, group = "form")]
    benchmark: bool,
    /// Also write a plot over the versions to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    emulator: EmulatorArgs,
    /// Show no progress
    #[arg(short, long)]
    quiet: bool,
    /// JSON reports, the baseline first; - reads stdin
    #[arg(value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Commands to run and compare, with -- between them
    #[arg(last = true, value_name = "CMD", conflicts_with = "reports")]
    commands: Vec<OsString>,
}

/// A share in percent, `5%` or `5`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Percent(f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).trim_end();
        match number.parse::<f64>() {
            Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(Self(percent)),
            _ => Err("not a percentage of 0 or more, such as 5%".to_owned()),
        }
    }
}

/// Compares.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let stdout = Path::new("-");
    // A form that is asked for goes to stdout unless -o says otherwise; the text gives way.
    let asked = (args.markdown || args.benchmark).then_some(stdout);
    let form = args.output.as_deref().or(asked);
    let json = args
        .json
        .open(form.into_iter().chain(args.svg.as_deref()))?;
    let svg = args.svg.as_deref().map(Destination::open).transpose()?;
    let taken = json.is_stdout() || svg.as_ref().is_some_and(Destination::is_stdout);
    let output = form.or((!taken).then_some(stdout));
    let output = output.map(Destination::open).transpose()?;
    let taken = taken || output.as_ref().is_some_and(Destination::is_stdout);
    let versions = if args.commands.is_empty() {
        if args.analysis.given() || args.emulator.given() {
            let (last, others) = for_commands();
            bail!(
                "{} and {last} are for commands; reports have what they were made with",
                others.join(", ")
            );
        }
        from_files(&args.reports)?
    } else {
        from_commands(args, taken)?
    };
    let diff = diff::compare(&versions)?;
    let regressions = match args.fail_above {
        Some(Percent(percent)) => diff.regressions(percent / 100.0, &args.watch, &versions)?,
        None => Vec::new(),
    };
    if let Some(output) = output {
        write(args, &diff, &versions, output)?;
    }
    json.write_with(|out| diff::json::write(&diff, out))?;
    if let Some(svg) = svg {
        svg.write(|out| diff::svg::write(&diff, out))?;
    }
    if args.fail_above.is_some() {
        comparable(&versions)?;
    }
    for Regression { cpu, what, cycles } in &regressions {
        let change = cycles
            .relative
            .map_or_else(|| "new".to_owned(), |r| format!("{:+.2} %", r * 100.0));
        crate::say!(
            "mcad: regression on {}: {}: {} → {} cycles ({change})",
            escape(cpu),
            escape(what),
            cycles.before,
            cycles.after,
        );
    }
    Ok(if regressions.is_empty() {
        ExitCode::SUCCESS
    } else {
        exit_code(NEGATIVE)
    })
}

/// The options that only commands take: the last one, and the others.
fn for_commands() -> (String, Vec<String>) {
    let command = AnalysisArgs::augment_args(Command::new("diff"));
    let command = EmulatorArgs::augment_args(command);
    let names = command.get_arguments().filter_map(|arg| arg.get_long());
    let mut names: Vec<String> = names.map(|name| format!("--{name}")).collect();
    (names.pop().unwrap_or_default(), names)
}

/// Refuses to judge runs of which one crashed, stopped early or did something else: less work is
/// no improvement.
fn comparable(versions: &[Version]) -> anyhow::Result<()> {
    for Version { label, report } in versions {
        let label = escape(label);
        let end = escape(&report.program.end);
        if !report.program.complete {
            let what = incomplete(report);
            bail!("--fail-above cannot judge '{label}': {}", escape(&what));
        }
        if report.program.end.starts_with("signal ") {
            bail!("--fail-above cannot judge '{label}': the program was ended by {end}");
        }
        if report.trace.instructions == 0 {
            bail!("--fail-above cannot judge '{label}': nothing was executed");
        }
    }
    let [first, .., last] = versions else {
        return Ok(());
    };
    let (before, after) = (&first.report.program.end, &last.report.program.end);
    if before != after {
        bail!(
            "--fail-above cannot judge '{}': it {}, '{}' {}",
            escape(&last.label),
            escape(after),
            escape(&first.label),
            escape(before)
        );
    }
    Ok(())
}

fn write(
    args: &Args,
    diff: &Diff,
    versions: &[Version],
    output: Destination,
) -> anyhow::Result<()> {
    let to = |style: Style, out: &mut dyn Write| {
        if args.markdown {
            diff::markdown::write(diff, out)
        } else if args.benchmark {
            diff::benchmark::write(diff, versions, out)
        } else {
            diff::text::write(diff, style, out)
        }
    };
    let style = match output.is_stdout() {
        true => style_of(&io::stdout()),
        false => Style::plain(),
    };
    output.write(|out| to(style, out))
}

fn from_files(paths: &[PathBuf]) -> anyhow::Result<Vec<Version>> {
    if paths.iter().filter(|p| p.as_os_str() == "-").count() > 1 {
        bail!("only one report can come from stdin");
    }
    let labels = paths.iter().map(|path| path.display().to_string());
    let labels = told_apart(labels.collect());
    labels
        .into_iter()
        .zip(paths)
        .map(|(label, path)| {
            Ok(Version {
                label,
                report: report_file::read(path)?,
            })
        })
        .collect()
}

fn from_commands(args: &Args, stdout_is_taken: bool) -> anyhow::Result<Vec<Version>> {
    let commands: Vec<&[OsString]> = args.commands.split(|word| word == "--").collect();
    if commands.len() < 2 || commands.iter().any(|command| command.is_empty()) {
        bail!("commands are given as -- CMD_A [ARGS] -- CMD_B [ARGS]");
    }
    // A name that is wrong is told before anything runs.
    for command in &commands {
        args.analysis.resolve(run::arch_of(command))?;
    }
    let shown = |command: &&[OsString]| {
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    };
    let labels = told_apart(commands.iter().map(shown).collect());
    let mut versions = Vec::new();
    for (label, command) in labels.into_iter().zip(commands) {
        let (emulator, analysis) = (&args.emulator, &args.analysis);
        let report = run::report_of(command, emulator, analysis, args.quiet, stdout_is_taken)
            .with_context(|| format!("'{label}' could not be analysed"))?;
        if report.program.end != "exited 0" {
            crate::say!("mcad: '{}' {}", escape(&label), escape(&report.program.end));
        }
        if signals::interrupted() {
            bail!("interrupted while '{}' ran", escape(&label));
        }
        versions.push(Version { label, report });
    }
    Ok(versions)
}

/// Numbers labels that occur more than once.
fn told_apart(labels: Vec<String>) -> Vec<String> {
    let several = |label: &String| labels.iter().filter(|other| *other == label).count() > 1;
    let number = |(n, label): (usize, &String)| {
        if several(label) {
            format!("{label} ({})", n + 1)
        } else {
            label.clone()
        }
    };
    labels.iter().enumerate().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_percentages() {
        assert_eq!("5%".parse(), Ok(Percent(5.0)));
        assert_eq!("0.5".parse(), Ok(Percent(0.5)));
        for wrong in ["", "%", "-1%", "nan", "inf%", "5%%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn equal_labels_are_told_apart() {
        let labels = ["a", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(told_apart(labels), ["a (1)", "b", "a (3)"]);
    }
}
