//! `mcad profile block`: the throughput of blocks, measured.

mod batch;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::ValueEnum;
use mcad_profile::block::{Measured, Notion};
use mcad_profile::clock::Source;
use mcad_profile::reject::Reject;
use mcad_viewers::escape::escape;
use serde::Serialize;

use super::super::block::{InputArgs, Syntax};
use super::super::exit::{NEGATIVE, exit_code};
use super::machine::BlockArgs;
use crate::cli::json::JsonArgs;

/// Options of `mcad profile block`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Assembly syntax of FILE [default: att]
    #[arg(long, value_enum)]
    syntax: Option<Syntax>,
    /// Notion of throughput; auto: loop if the block ends in `dec r; jnz`, else unrolled
    /// [default: both, auto with --batch]
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// One block a line, in hexadecimal up to the first comma; writes hex,cycles,spread or
    /// hex,ERR,reason for each; - is stdin
    #[arg(long, value_name = "FILE.csv")]
    batch: Option<PathBuf>,
    /// Write the results of --batch to OUT instead of stdout
    #[arg(short, long, value_name = "OUT", requires = "batch")]
    output: Option<PathBuf>,
    /// Go on behind the lines that OUT has already
    #[arg(long, requires = "output")]
    resume: bool,
    /// No progress and no summary after --batch
    #[arg(short, long, requires = "batch")]
    quiet: bool,
    #[command(flatten)]
    json: JsonArgs,
    #[command(flatten)]
    machine: BlockArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Loop if the block ends in `dec r; jnz` to its start, else unrolled
    Auto,
    /// The block end to end in memory
    Unrolled,
    /// A loop in its steady state
    Loop,
    /// Unrolled and as a loop
    Both,
}

/// Whether the block brings its own counted loop.
fn natural(bytes: &[u8]) -> Notion {
    match mcad_profile::screen::Screened::new(bytes) {
        Ok(block) if block.counter.is_some() => Notion::Loop,
        _ => Notion::Unrolled,
    }
}

impl Mode {
    fn notions(self, bytes: &[u8]) -> Vec<Notion> {
        match self {
            Self::Auto => vec![natural(bytes)],
            Self::Unrolled => vec![Notion::Unrolled],
            Self::Loop => vec![Notion::Loop],
            Self::Both => vec![Notion::Unrolled, Notion::Loop],
        }
    }
}

/// Measures one block or many.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.batch {
        let mode = args.mode.unwrap_or(Mode::Auto);
        if mode == Mode::Both {
            bail!("--batch has one figure a line; run it once per --mode");
        }
        let place = batch::Place {
            input: path,
            output: args.output.as_deref(),
            resume: args.resume,
            quiet: args.quiet,
        };
        return batch::run(&place, &args.machine, |bytes| {
            mode.notions(bytes)
                .first()
                .copied()
                .unwrap_or(Notion::Unrolled)
        });
    }
    let regions = args
        .input
        .regions(args.syntax, mcad_proto::event::Arch::X86_64)?;
    let json = args.json.open([])?;
    let mut profiler = args.machine.profiler()?;
    let mut blocks = Vec::new();
    for region in regions {
        let mut results = Vec::new();
        for notion in args.mode.unwrap_or(Mode::Both).notions(&region.bytes) {
            let outcome = Outcome::of(profiler.measure(&region.bytes, notion)?);
            results.push(Figure { notion, outcome });
        }
        blocks.push(MeasuredBlock {
            name: region.name.clone(),
            bytes: ::hex::encode(&region.bytes),
            results,
        });
    }
    let results = Results {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        source: profiler.source(),
        blocks,
    };
    if !json.is_stdout() {
        let mut stdout = BufWriter::new(io::stdout().lock());
        results.write(&mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&results)?;
    Ok(exit_code(if results.complete() { 0 } else { NEGATIVE }))
}

/// Version of the JSON that --json writes.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Results {
    schema_version: u32,
    version: &'static str,
    source: Source,
    blocks: Vec<MeasuredBlock>,
}

#[derive(Serialize)]
struct MeasuredBlock {
    /// Name of the marker or function; empty for bytes without one.
    name: String,
    /// In hexadecimal.
    bytes: String,
    results: Vec<Figure>,
}

#[derive(Serialize)]
struct Figure {
    notion: Notion,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Measured(Measured),
    Rejected { class: &'static str, reason: String },
}

impl Outcome {
    fn of(result: Result<Measured, Reject>) -> Self {
        match result {
            Ok(measured) => Self::Measured(measured),
            Err(reject) => Self::Rejected {
                class: reject.class(),
                reason: reject.to_string(),
            },
        }
    }
}

impl Results {
    fn complete(&self) -> bool {
        let mut figures = self.blocks.iter().flat_map(|block| &block.results);
        figures.all(|figure| matches!(figure.outcome, Outcome::Measured(_)))
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "cycles by {}", self.source)?;
        for block in &self.blocks {
            if !block.name.is_empty() {
                writeln!(out, "{}", escape(&block.name))?;
            }
            for figure in &block.results {
                let notion = match figure.notion {
                    Notion::Unrolled => "unrolled",
                    Notion::Loop => "loop",
                };
                match &figure.outcome {
                    Outcome::Measured(m) => writeln!(
                        out,
                        "  {notion:<9} {:>10.3} cycles  (interquartile range {:.3} over {} rounds, {} repeated for drift)",
                        m.cycles, m.spread, m.rounds, m.drifted
                    )?,
                    Outcome::Rejected { reason, .. } => {
                        writeln!(out, "  {notion:<9} {}", escape(reason))?;
                    }
                }
            }
        }
        Ok(())
    }
}
