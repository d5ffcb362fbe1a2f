//! `mcad view`: shows a JSON report or a recorded timeline in one of the formats.

use std::collections::BTreeSet;
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
    /// Show only this thread of a timeline, as text or konata; the first one otherwise as text
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
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
    if args.thread.is_some() {
        bail!("--thread is for timelines, and {name} is none");
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
    let mut left = Left::default();
    to_output(args, &mut |style, out| {
        match args.format.as_str() {
            "chrome" if args.thread.is_some() => {
                bail!("--thread is for text and konata; chrome has a process for each thread")
            }
            "chrome" => {
                chrome::write(&mut reader, out)?;
            }
            "konata" => left = konata(args, &mut reader, out)?,
            "text" => {
                let drawn = terminal::write(&mut reader, style, args.thread, args.max_cycles, out)?;
                left = Left::of(
                    args,
                    drawn.thread,
                    drawn.records + drawn.beyond,
                    drawn.others,
                )?;
                left.beyond = drawn.beyond;
            }
            other => bail!(
                "{name} is a timeline, which is shown as text, chrome or konata; '{other}' needs \
                 a report"
            ),
        }
        Ok(())
    })
    .with_context(|| format!("cannot show {name}"))?;
    left.tell();
    Ok(ExitCode::SUCCESS)
}

/// All threads one after the other, or the one asked for. A stream can be read only once, so that
/// of stdin there is only the first.
fn konata(
    args: &Args,
    reader: &mut Reader<impl Read>,
    out: &mut dyn Write,
) -> anyhow::Result<Left> {
    let mut log = konata::Log::new(out)?;
    let first = log.thread(reader, args.thread)?;
    if args.thread.is_some() || args.file.as_os_str() == "-" {
        return Left::of(args, first.thread, first.records, first.others);
    }
    for thread in first.others {
        log.thread(&mut Reader::new(open(&args.file)?)?, Some(thread))?;
    }
    Ok(Left::default())
}

/// What of a timeline is not shown.
#[derive(Default)]
struct Left {
    /// The thread that is shown.
    thread: u32,
    others: BTreeSet<u32>,
    beyond: u64,
}

impl Left {
    /// Fails where the thread that was asked for is not there.
    fn of(
        args: &Args,
        thread: Option<u32>,
        records: u64,
        others: BTreeSet<u32>,
    ) -> anyhow::Result<Self> {
        if let Some(wanted) = args.thread.filter(|_| records == 0) {
            bail!("no thread {wanted}; it has {}", list(&others));
        }
        Ok(Self {
            thread: thread.unwrap_or(0),
            others: if args.thread.is_none() {
                others
            } else {
                BTreeSet::new()
            },
            beyond: 0,
        })
    }

    fn tell(&self) {
        if !self.others.is_empty() {
            eprintln!(
                "mcad: thread {} is shown; --thread N shows another of {}",
                self.thread,
                list(&self.others)
            );
        }
        if self.beyond > 0 {
            eprintln!(
                "mcad: {} instructions beyond --max-cycles are not shown",
                self.beyond
            );
        }
    }
}

/// The first threads of many.
fn list(threads: &BTreeSet<u32>) -> String {
    const SHOWN: usize = 16;
    let mut names: Vec<String> = threads.iter().take(SHOWN).map(u32::to_string).collect();
    match threads.len() {
        0 => names.push("no instructions".to_owned()),
        n if n > SHOWN => names.push(format!("… ({n} in all)")),
        _ => {}
    }
    names.join(", ")
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
