//! `mcad block`: the throughput of basic blocks.

pub(super) mod batch;
mod cut;
pub(super) mod hex;
mod input;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::ValueEnum;
use mcad_assemble::Region;
use mcad_core::block::{self, Block, EarlyEnd, Options};
use mcad_core::llvm_mca;
use mcad_isa::llvm;
use mcad_isa::machine::{self, CpuModel, Instructions};
use mcad_proto::event::Arch;
use mcad_report::block::Detail;
use mcad_viewers::html::block as html;
use mcad_viewers::{Style, block as view};
use serde::Serialize;

pub(super) use self::input::InputArgs;
use super::destination::Destination;
use super::exit::{NEGATIVE, exit_code};
use super::json::JsonArgs;
use super::output::style_of;

/// Options of `mcad block`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// CPU model (repeatable: side by side); `mcad cpus` lists them, native is this machine's,
    /// FILE.toml is one of your own [default: skl, neoverse-n1 or sifive-p670]
    #[arg(long = "cpu", value_name = "NAME")]
    cpus: Vec<String>,
    /// Instruction set [default: the first CPU's]
    #[arg(long, value_enum)]
    arch: Option<Machine>,
    /// Whose rules; llvm-mca: cycles of 100 iterations as LLVM's tool counts them, of AArch64 and
    /// RISC-V
    #[arg(long, value_enum, conflicts_with_all = ["batch", "timeline", "json"])]
    rules: Option<Rules>,
    #[command(flatten)]
    notion: NotionArgs,
    #[command(flatten)]
    input: InputArgs,
    /// Assembly syntax, of FILE and of what is printed [default: att for FILE, intel for what is
    /// printed]
    #[arg(long, value_enum)]
    syntax: Option<Syntax>,
    /// Show the cycles of the first N iterations
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "3",
        conflicts_with = "batch"
    )]
    timeline: Option<u32>,
    #[command(flatten)]
    json: JsonArgs,
    /// Write a page for the browser to FILE, too: what bounds the block, its dependencies, a timeline
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    html: Option<PathBuf>,
    /// The block's address modulo 64, where that matters: how it lies in what is fetched and cached;
    /// all: the cycles at each, too
    #[arg(long, value_name = "N|all", conflicts_with_all = ["batch", "rules"])]
    align: Option<Alignment>,
    /// Show which instruction depends on which; dot: as a graph for Graphviz and nothing else
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true,
          default_missing_value = "text", conflicts_with_all = ["batch", "rules"])]
    graph: Option<Graph>,
    /// One block a line, in hexadecimal up to the first comma; writes hex,cycles or
    /// hex,ERR,reason for each; - is stdin
    #[arg(long, value_name = "FILE.csv", conflicts_with = "json")]
    batch: Option<PathBuf>,
    /// Threads for --batch [default: all cores]
    #[arg(long, value_name = "N", requires = "batch", value_parser = super::analysis::threads)]
    jobs: Option<NonZeroUsize>,
    /// Print blocks per second to stderr after --batch
    #[arg(long, requires = "batch")]
    stats: bool,
}

/// How dependencies are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Graph {
    /// A row for each instruction, behind the other tables
    Text,
    /// Graphviz's language
    Dot,
}

/// Where a block begins in the 64 bytes that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    At(u8),
    /// At their start, and the cycles of all.
    All,
}

impl std::str::FromStr for Alignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(at) if at < block::ALIGNMENTS => Ok(Self::At(at)),
            _ if text == "all" => Ok(Self::All),
            _ => Err(format!("from 0 to {}, or all", block::ALIGNMENTS - 1)),
        }
    }
}

/// Iterations that a page's timeline has if no number is given.
const PAGE_ITERATIONS: u32 = 12;

/// What the figures are to mean.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct NotionArgs {
    /// Notion of throughput; auto: loop if the block ends in a branch, else unrolled
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    mode: Mode,
    /// Register values at the start, which say what addresses are equal
    #[arg(long, value_enum, default_value_t = Init::Distinct)]
    init: Init,
    /// Simulate all 500 cycles, also where iterations have settled before
    #[arg(long)]
    full: bool,
}

/// Instruction sets of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Machine {
    /// x86-64
    #[value(name = "x86-64", alias = "x86_64")]
    X86,
    /// AArch64
    #[value(name = "aarch64", alias = "arm64")]
    AArch64,
    /// 64-bit RISC-V
    #[value(name = "riscv64")]
    RiscV64,
    /// 32-bit RISC-V: RV32IMC
    #[value(name = "riscv32")]
    RiscV32,
}

impl Machine {
    const fn arch(self) -> Arch {
        match self {
            Self::X86 => Arch::X86_64,
            Self::AArch64 => Arch::AArch64,
            Self::RiscV64 => Arch::RiscV64,
            Self::RiscV32 => Arch::RiscV32,
        }
    }
}

/// Whose rules a block is simulated by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rules {
    /// llvm-mca's
    LlvmMca,
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

/// Register values at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Init {
    /// All different
    Distinct,
    /// All equal
    Equal,
    /// All equal but the stack and frame pointers (as BHive's profiler sets them)
    Stack,
    /// All different, and all memory filled with one value (as the Golden Cove blocks were
    /// measured)
    Filled,
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
                    let options = formatter.options_mut();
                    options.set_space_after_operand_separator(true);
                    options.set_hex_prefix("0x");
                    options.set_hex_suffix("");
                    options.set_uppercase_hex(false);
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
                Init::Filled => block::Init::Filled,
            },
            early_end: match self.full {
                true => EarlyEnd::Never,
                false => EarlyEnd::Settled,
            },
        }
    }
}

/// Predicts one block or many.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let usual = machine::default_cpu(args.arch.map_or(Arch::X86_64, Machine::arch)).to_owned();
    let names = match args.cpus.as_slice() {
        [] => std::slice::from_ref(&usual),
        names => names,
    };
    let models = names
        .iter()
        .map(|name| super::model::model(name))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let arch = match (args.arch, models.first()) {
        (Some(arch), _) => arch.arch(),
        (None, model) => model.map_or(Arch::X86_64, |model| model.arch()),
    };
    if let Some(other) = models.iter().find(|model| model.arch() != arch) {
        bail!(
            "{} executes {} code, not {arch}; `mcad cpus` lists the CPUs of each",
            other.name,
            other.arch()
        );
    }
    let options = args.notion.options();
    if let Some(path) = &args.batch {
        let [model] = models.as_slice() else {
            bail!("--batch takes one --cpu; run it once per CPU");
        };
        return run_batch(args, model, options, path);
    }
    let (regions, cut) = args.input.blocks(args.syntax, arch)?;
    if let Some(function) = cut {
        crate::say!(
            "{} has branches: each of its {} blocks is predicted as if it were repeated by itself; \
             for how they follow each other, trace the program: mcad-run",
            mcad_viewers::escape::escape(function),
            regions.len()
        );
    }
    if args.rules == Some(Rules::LlvmMca) {
        return by_llvm_mca(&models, &regions);
    }
    show(args, &models, options, &regions)
}

/// Iterations by llvm-mca's rules: its own default.
const ITERATIONS: u32 = 100;

/// Prints cycles of regions by llvm-mca's rules.
fn by_llvm_mca(models: &[Arc<CpuModel>], regions: &[Region]) -> anyhow::Result<ExitCode> {
    let mut stdout = BufWriter::new(io::stdout().lock());
    let mut failures = 0;
    for region in regions {
        if !region.name.is_empty() {
            writeln!(stdout, "{}", mcad_viewers::escape::escape(&region.name))?;
        }
        for model in models {
            let Instructions::Llvm { cpu, .. } = &model.instructions else {
                bail!("--rules llvm-mca: for CPUs of AArch64 and RISC-V");
            };
            let (block, bad) = llvm::decode(cpu.arch, &region.bytes, region.address);
            if let Some(offset) = bad {
                bail!("no {} instruction at byte {offset}", cpu.arch);
            }
            match llvm_mca::cycles(cpu, &block, ITERATIONS) {
                Ok(cycles) => writeln!(
                    stdout,
                    "{}: {cycles} cycles for {ITERATIONS} iterations",
                    model.name
                )?,
                Err(refused) => {
                    failures += 1;
                    writeln!(stdout, "{}: {refused}", model.name)?;
                }
            }
        }
    }
    stdout.flush().context("cannot write to stdout")?;
    Ok(exit_code(if failures > 0 { NEGATIVE } else { 0 }))
}

/// A block's result on one CPU.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcome {
    Done(Box<Detail>),
    Failed { cpu: String, error: String },
}

#[derive(Serialize)]
struct RegionResult {
    /// Name of the marker or function; empty for bytes without one.
    name: String,
    /// The block in hexadecimal.
    bytes: String,
    cpus: Vec<Outcome>,
}

impl RegionResult {
    /// For views.
    fn shown(&self) -> html::PredictedBlock<'_> {
        let mut shown = html::PredictedBlock {
            name: match self.name.as_str() {
                "" => self.bytes.clone(),
                name => name.to_owned(),
            },
            bytes: &self.bytes,
            details: Vec::new(),
            failed: Vec::new(),
        };
        for outcome in &self.cpus {
            match outcome {
                Outcome::Done(detail) => shown.details.push(detail),
                Outcome::Failed { cpu, error } => shown.failed.push((cpu, error)),
            }
        }
        shown
    }
}

#[derive(Serialize)]
struct Results {
    schema_version: u32,
    version: &'static str,
    blocks: Vec<RegionResult>,
}

/// Tables with a column per port need room; where there is no terminal they get it.
const FILE_WIDTH: usize = 140;

/// Version of the JSON that --json writes.
const SCHEMA_VERSION: u32 = 1;

fn show(
    args: &Args,
    models: &[Arc<CpuModel>],
    options: Options,
    regions: &[Region],
) -> anyhow::Result<ExitCode> {
    let print = args.syntax.unwrap_or(Syntax::Intel).printer();
    let json = args.json.open(args.html.as_deref())?;
    let page = args.html.as_deref().map(Destination::open).transpose()?;
    let timeline = match (args.timeline, &page) {
        (Some(iterations), _) => iterations,
        (None, Some(_)) => PAGE_ITERATIONS,
        (None, None) => 0,
    };
    if args.align.is_some() && models.iter().any(|model| model.core.frontend.ideal) {
        bail!("--align: these CPUs are modelled without what it would matter to, their front end");
    }
    let mut blocks = Vec::new();
    let mut failures = 0;
    for region in regions {
        let mut cpus = Vec::new();
        for model in models {
            cpus.push(match Block::new(model, &region.bytes) {
                Ok(block) => {
                    let block = match args.align {
                        Some(Alignment::At(at)) => block.aligned(at),
                        Some(Alignment::All) | None => block,
                    };
                    let mut detail = block.explain(options, timeline, &print);
                    if args.align == Some(Alignment::All) {
                        detail.alignments = block.over_alignments(options);
                    }
                    Outcome::Done(Box::new(detail))
                }
                Err(error) => {
                    failures += 1;
                    Outcome::Failed {
                        cpu: model.name.clone(),
                        error: error.to_string(),
                    }
                }
            });
        }
        blocks.push(RegionResult {
            name: region.name.clone(),
            bytes: ::hex::encode(&region.bytes),
            cpus,
        });
    }
    if failures == regions.len() * models.len()
        && let Some(Outcome::Failed { error, .. }) = blocks.first().and_then(|b| b.cpus.first())
        && !json.wanted()
    {
        bail!("{error}");
    }
    let taken = json.is_stdout() || page.as_ref().is_some_and(Destination::is_stdout);
    if let Some(page) = page {
        let shown: Vec<_> = blocks.iter().map(RegionResult::shown).collect();
        page.write(|out| html::page(&shown, env!("CARGO_PKG_VERSION"), out))?;
    }
    let results = Results {
        schema_version: SCHEMA_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        blocks,
    };
    json.write(&results)?;
    let blocks = results.blocks;
    let mut stdout = BufWriter::new(io::stdout().lock());
    if taken {
        // Stdout is the page's, or JSON's.
    } else if args.graph == Some(Graph::Dot) {
        for block in &blocks {
            let shown = block.shown();
            view::dot(&shown.name, &shown.details, &mut stdout)?;
        }
    } else {
        let mut style = style_of(&io::stdout());
        if !io::stdout().is_terminal() {
            style.width = FILE_WIDTH;
        }
        for (n, block) in blocks.iter().enumerate() {
            write_text(args, block, n, blocks.len(), style, &mut stdout)?;
        }
    }
    stdout.flush().context("cannot write to stdout")?;
    Ok(exit_code(if failures > 0 { NEGATIVE } else { 0 }))
}

fn write_text(
    args: &Args,
    block: &RegionResult,
    number: usize,
    of: usize,
    style: Style,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if of > 1 || !block.name.is_empty() {
        let name = match block.name.as_str() {
            "" => format!("block {number}"),
            name => mcad_viewers::escape::escape(name).into_owned(),
        };
        let gap = if number > 0 { "\n" } else { "" };
        writeln!(out, "{gap}{name}")?;
    }
    let shown = block.shown();
    view::summary(&shown.details, style, out)?;
    for (cpu, error) in &shown.failed {
        writeln!(out, "  {cpu}: {error}")?;
    }
    for detail in &shown.details {
        view::detail(detail, style, out)?;
        if args.graph == Some(Graph::Text) {
            view::dependencies(detail, style, out)?;
        }
        if args.timeline.is_some() {
            view::timeline(detail, style, out)?;
        }
    }
    Ok(())
}

fn run_batch(
    args: &Args,
    model: &Arc<CpuModel>,
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
        crate::say!(
            "{} blocks in {seconds:.2} s on {jobs} threads: {:.0} a second; {} without a figure",
            counts.lines,
            counts.lines as f64 / seconds.max(1e-9),
            counts.errors
        );
    }
    Ok(ExitCode::SUCCESS)
}
