//! `mcad block`: the throughput of basic blocks.

mod batch;
pub(super) mod hex;

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;
use mcad_core::block::{self, Block, Options, Simulator};
use mcad_core::machine;

/// The model used when none is asked for.
const DEFAULT_CPU: &str = "skl";

/// Options of `mcad block`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// CPU model (repeatable: side by side); `mcad cpus` lists them
    #[arg(long = "cpu", value_name = "NAME", default_value = DEFAULT_CPU)]
    cpus: Vec<String>,
    #[command(flatten)]
    notion: NotionArgs,
    /// The block's bytes in hexadecimal
    #[arg(long, value_name = "HEX", conflicts_with = "batch")]
    hex: Option<String>,
    /// One block a line, in hexadecimal up to the first comma; writes hex,cycles or
    /// hex,ERR,reason for each; - is stdin
    #[arg(long, value_name = "FILE.csv")]
    batch: Option<PathBuf>,
    /// Threads for --batch [default: all cores]
    #[arg(long, value_name = "N", requires = "batch")]
    jobs: Option<NonZeroUsize>,
    /// Print blocks per second to stderr after --batch
    #[arg(long, requires = "batch")]
    stats: bool,
}

/// What the figures are to mean.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct NotionArgs {
    /// Notion of throughput; auto: loop if the block ends in a branch, else unrolled
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    mode: Mode,
    /// Register values at the start, which say what addresses are equal
    #[arg(long, value_enum, default_value_t = Init::Distinct)]
    init: Init,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Loop if the block ends in a branch, else unrolled
    Auto,
    /// The block end to end in memory
    Unrolled,
    /// A loop in its steady state
    Loop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Init {
    /// All different
    Distinct,
    /// All equal
    Equal,
    /// All equal but the stack and frame pointers (as BHive's profiler sets them)
    Stack,
}

/// Syntax of assembly text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Syntax {
    /// As Intel's manuals write it
    Intel,
    /// As compilers and the GNU assembler write it
    Att,
}

impl Syntax {
    /// Writes instructions in this syntax.
    pub(super) fn printer(self) -> impl Fn(&iced_x86::Instruction) -> String {
        use iced_x86::Formatter;
        move |instruction| {
            let mut text = String::new();
            match self {
                Self::Intel => {
                    let mut formatter = iced_x86::IntelFormatter::new();
                    formatter
                        .options_mut()
                        .set_space_after_operand_separator(true);
                    formatter.format(instruction, &mut text);
                }
                Self::Att => {
                    let mut formatter = iced_x86::GasFormatter::new();
                    formatter
                        .options_mut()
                        .set_space_after_operand_separator(true);
                    formatter.format(instruction, &mut text);
                }
            }
            text
        }
    }
}

impl NotionArgs {
    /// For the core.
    pub(super) fn options(self) -> Options {
        Options {
            mode: match self.mode {
                Mode::Auto => block::Mode::Auto,
                Mode::Unrolled => block::Mode::Unrolled,
                Mode::Loop => block::Mode::Loop,
            },
            init: match self.init {
                Init::Distinct => block::Init::Distinct,
                Init::Equal => block::Init::Equal,
                Init::Stack => block::Init::Stack,
            },
        }
    }
}

/// Predicts one block or many.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let models = args
        .cpus
        .iter()
        .map(|name| machine::cpu(name))
        .collect::<Result<Vec<_>, _>>()?;
    let options = args.notion.options();
    if let Some(path) = &args.batch {
        let [model] = models.as_slice() else {
            bail!("--batch takes one --cpu; run it once per CPU");
        };
        return run_batch(args, model, options, path);
    }
    let Some(text) = &args.hex else {
        bail!("no block: give --hex HEX or --batch FILE.csv");
    };
    let bytes = hex::decode(text.as_bytes()).context("--hex")?;
    for model in &models {
        let block = Block::new(model, &bytes)?;
        let prediction = Simulator::new(model).predict(&block, options);
        println!("{} {:.4}", model.name, prediction.cycles);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_batch(
    args: &Args,
    model: &std::sync::Arc<machine::CpuModel>,
    options: Options,
    path: &Path,
) -> anyhow::Result<ExitCode> {
    let jobs = args
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN));
    let started = Instant::now();
    let input = super::input::open(path)?;
    let name = path.display().to_string();
    let counts = batch::run(model, options, input, io::stdout(), jobs, &name)?;
    if args.stats {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "{} blocks in {seconds:.2} s on {jobs} threads: {:.0} a second; {} without a figure",
            counts.lines,
            counts.lines as f64 / seconds.max(1e-9),
            counts.errors
        );
    }
    Ok(ExitCode::SUCCESS)
}
