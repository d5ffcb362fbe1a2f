//! `mcad view REPORT`: shows a JSON report.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::PossibleValuesParser;
use mcad_core::report::{Report, SCHEMA_VERSION};
use mcad_viewers::{view, views};

use super::output::style_of;

/// Longest report that is read: far above what a run gives, far below what hurts.
const MAX_BYTES: u64 = 1 << 30;

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
    let report = read(&args.report)?;
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

/// Reads a report of this schema version.
fn read(path: &PathBuf) -> anyhow::Result<Report> {
    let name = path.display();
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text)
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
        BufReader::new(file)
            .take(MAX_BYTES)
            .read_to_string(&mut text)
    };
    read.with_context(|| format!("cannot read {name}"))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("{name} is no JSON report (line and column say where)"))?;
    match value
        .get("schema_version")
        .and_then(serde_json::Value::as_u64)
    {
        Some(version) if version == u64::from(SCHEMA_VERSION) => {}
        Some(version) => bail!(
            "{name} has schema version {version}; this mcad reads {SCHEMA_VERSION}: make the \
             report again, or use the mcad that made it"
        ),
        None => bail!("{name} is JSON but no mcad report: schema_version is missing"),
    }
    serde_json::from_value(value).with_context(|| format!("{name} is a damaged report"))
}
