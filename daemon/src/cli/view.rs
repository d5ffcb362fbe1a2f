//! `mcad view`: shows a JSON report or a recorded timeline in one of the formats.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use mcad_proto::trace::FILE_MAGIC;
use mcad_viewers::timeline::read::Reader;
use mcad_viewers::timeline::{MAGIC, chrome, konata, terminal};
use mcad_viewers::{Style, View, views};

use super::output::style_of;
use super::report_file;

/// Formats of timelines besides `text`.
const TIMELINE_FORMATS: [(&str, &str); 2] = [
    (
        "chrome",
        "a timeline as trace events for Perfetto and chrome://tracing",
    ),
    ("konata", "a timeline as Konata's pipeline log"),
];

/// Options of `mcad view`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A timeline is recorded with `mcad-run --timeline FILE` or `mcad replay TRACE \
                  --timeline FILE` and is shown as text, chrome or konata; a report as any of the \
                  others."
)]
pub(super) struct Args {
    /// JSON report or timeline; - reads stdin
    file: PathBuf,
    /// How to show it
    #[arg(long, default_value = "text", value_parser = formats())]
    format: String,
    /// Most cycles that the text of a timeline shows
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_cycles: u64,
    /// Write to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn formats() -> PossibleValuesParser {
    let reports = views()
        .iter()
        .map(|view| PossibleValue::new(view.name()).help(view.description()));
    let timelines = TIMELINE_FORMATS
        .iter()
        .map(|(name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(reports.chain(timelines))
}

/// Shows a report or timeline.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let name = args.file.display();
    let mut input = open(&args.file)?;
    let begin = input
        .fill_buf()
        .with_context(|| format!("cannot read {name}"))?;
    if begin.starts_with(&FILE_MAGIC) {
        bail!(
            "{name} is a trace: `mcad replay {name}` analyses it (--json FILE keeps the report, \
             --timeline FILE the cycles of every µop)"
        );
    }
    if begin.starts_with(MAGIC) {
        return timeline(args, input);
    }
    let report = report_file::read_from(input, &name.to_string())?;
    let Some(view) = mcad_viewers::view(&args.format) else {
        bail!(
            "{name} is a report, and the format '{}' needs a timeline: record one with `mcad \
             replay TRACE --timeline FILE` or `mcad-run --timeline FILE`",
            args.format
        );
    };
    to_output(args, &mut |style, out| {
        View::write(view, &report, style, out).map_err(Into::into)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<BufReader<Box<dyn Read>>> {
    let input: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        Box::new(file)
    };
    Ok(BufReader::with_capacity(1 << 16, input))
}

fn timeline(args: &Args, input: impl Read) -> anyhow::Result<ExitCode> {
    let name = args.file.display().to_string();
    let mut reader = Reader::new(input).with_context(|| name.clone())?;
    let mut hidden = 0;
    to_output(args, &mut |style, out| {
        match args.format.as_str() {
            "chrome" => {
                chrome::write(&mut reader, out)?;
            }
            "konata" => hidden = konata::write(&mut reader, out)?.other_threads,
            "text" => hidden = terminal::write(&mut reader, style, args.max_cycles, out)?,
            other => bail!(
                "{name} is a timeline, which is shown as text, chrome or konata; '{other}' needs \
                 a report"
            ),
        }
        Ok(())
    })
    .with_context(|| format!("cannot show {name}"))?;
    if hidden > 0 {
        eprintln!(
            "mcad: {hidden} instructions are not shown: beyond --max-cycles, or of other threads \
             than the first (--format chrome shows all)"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn to_output(
    args: &Args,
    write: &mut dyn FnMut(Style, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if let Some(path) = &args.output {
        let name = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(name)?);
        write(Style::plain(), &mut file)?;
        file.flush().with_context(name)
    } else {
        let style = style_of(&io::stdout());
        let mut stdout = BufWriter::new(io::stdout().lock());
        write(style, &mut stdout)?;
        stdout.flush().context("cannot write to stdout")
    }
}
