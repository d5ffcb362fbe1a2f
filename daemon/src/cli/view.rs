//! `mcad view REPORT`: shows a JSON report.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use mcad_viewers::{view, views};

use super::output::style_of;
use super::report_file;

/// Options of `mcad view`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// JSON report; - reads stdin
    report: PathBuf,
    /// How to show it
    #[arg(long, default_value = "text", value_parser = formats())]
    format: String,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn formats() -> PossibleValuesParser {
    let values = views()
        .iter()
        .map(|view| clap::builder::PossibleValue::new(view.name()).help(view.description()));
    PossibleValuesParser::new(values)
}

/// Shows a report.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let report = report_file::read(&args.report)?;
    let Some(view) = view(&args.format) else {
        bail!("no view is called '{}'", args.format);
    };
    if let Some(path) = &args.output {
        let name = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(name)?);
        view.write(&report, mcad_viewers::Style::plain(), &mut file)?;
        file.flush().with_context(name)?;
    } else {
        let style = style_of(&io::stdout());
        let mut stdout = BufWriter::new(io::stdout().lock());
        view.write(&report, style, &mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    Ok(ExitCode::SUCCESS)
}
