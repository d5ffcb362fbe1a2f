//! `mcad eval --llvm-mca`: the hottest blocks of traces, by mcad's rules of llvm-mca and by an
//! installed llvm-mca.

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use mcad_core::llvm_mca::{Refused, cycles};
use mcad_core::simulation::dictionary::{Dictionary, TranslatedBlock};
use mcad_core::simulation::execution::{Assembler, Execution};
use mcad_isa::llvm::table::CpuTable;
use mcad_isa::llvm::{self, Instruction};
use mcad_isa::machine::Instructions;
use mcad_proto::event::{Arch, Event};
use mcad_proto::word::StreamId;

use crate::cli::replay;
use crate::llvm_mca::Tool;
use crate::source::Source;

/// Iterations of a block.
const ITERATIONS: u32 = 100;

/// Options of `mcad eval --llvm-mca`.
#[derive(Debug, clap::Args)]
pub(super) struct LlvmMcaArgs {
    /// Hold the hottest AArch64 or RISC-V blocks of traces against an installed llvm-mca: cycles of
    /// 100 iterations, by its rules
    #[arg(long = "llvm-mca", value_name = "CPU", conflicts_with_all = ["rtl", "in_order", "predict", "sample", "hold_out", "ablations", "categories", "instructions", "json"])]
    pub(super) cpus: Vec<String>,
    /// How many blocks of all traces together
    #[arg(long, value_name = "N", default_value_t = 500, requires = "cpus")]
    blocks: usize,
    /// llvm-mca; llvm-mc is expected beside it
    #[arg(long, value_name = "PROGRAM")]
    pub(super) llvm_mca_program: Option<PathBuf>,
}

/// A block and its part of what its program executed.
struct Hot {
    bytes: Box<[u8]>,
    address: u64,
    share: f64,
}

/// Compares and prints a line for each CPU.
///
/// # Errors
/// When a trace cannot be read, or llvm-mca is not there or of another version.
pub(super) fn run(args: &LlvmMcaArgs, files: &[PathBuf], worst: usize) -> anyhow::Result<ExitCode> {
    let mut by_arch: HashMap<Arch, Vec<Hot>> = HashMap::new();
    for file in files {
        let (arch, blocks) = hottest(file).with_context(|| file.display().to_string())?;
        by_arch.entry(arch).or_default().extend(blocks);
    }
    for blocks in by_arch.values_mut() {
        *blocks = merged(std::mem::take(blocks), args.blocks);
    }
    let tool = Tool::find(args.llvm_mca_program.as_deref())?;
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "{:<22} {:>6} {:>6} {:>8} {:>8} {:>8}",
        "CPU", "blocks", "equal", "%", "largest", "refused"
    )?;
    for name in &args.cpus {
        let found = table(name)?;
        let Some(cpu) = &found else {
            bail!("{name}: there is no scheduling model of LLVM's under this name here");
        };
        tool.check_version(&cpu.table.file.llvm)?;
        let Some(blocks) = by_arch.get(&cpu.arch) else {
            bail!("{name}: no trace is of {} code", cpu.arch);
        };
        let compared = compare(&tool, cpu, blocks)?;
        compared.write(&mut out, &cpu.cpu.name, worst)?;
    }
    out.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// The scheduling model of that name, or of the CPU of that name.
fn table(name: &str) -> anyhow::Result<Option<CpuTable>> {
    if let Some(cpu) = llvm::table::cpu(name).map_err(anyhow::Error::msg)? {
        return Ok(Some(cpu));
    }
    let model = mcad_isa::machine::cpu(name).ok();
    Ok(model.and_then(|model| match &model.instructions {
        Instructions::Llvm { cpu, .. } => Some(*cpu),
        Instructions::X86(_) => None,
    }))
}

/// Executed blocks of a trace, with the share of its instructions that each has.
fn hottest(trace: &Path) -> anyhow::Result<(Arch, Vec<Hot>)> {
    let (mut source, _) = replay::open(trace)?;
    let mut counts = Counts::default();
    let (mut over, mut failed) = (false, None);
    while !over && failed.is_none() {
        source
            .pull(Duration::from_secs(1), &mut |event| {
                over |= matches!(event, Event::End(_));
                if let Err(error) = counts.event(&event) {
                    failed.get_or_insert(error);
                }
            })
            .map_err(anyhow::Error::msg)?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    let arch = counts.arch.context("the trace has no session")?;
    if arch == Arch::X86_64 {
        bail!("the trace is of {arch} code; llvm-mca is a reference for AArch64 and RISC-V here");
    }
    let all: u64 = counts.executed.values().sum();
    let blocks = counts.dictionary.iter().filter_map(|(id, block)| {
        let count = *counts.executed.get(&id.0)?;
        Some(Hot {
            bytes: block.bytes.clone(),
            address: block.address.0,
            share: count as f64 / all.max(1) as f64,
        })
    });
    Ok((arch, blocks.collect()))
}

/// Blocks of the same bytes as one, the hottest of them.
fn merged(blocks: Vec<Hot>, most: usize) -> Vec<Hot> {
    let mut all: HashMap<Box<[u8]>, Hot> = HashMap::new();
    for block in blocks {
        match all.get_mut(&block.bytes) {
            Some(known) => {
                known.share += block.share;
                known.address = known.address.min(block.address);
            }
            None => {
                all.insert(block.bytes.clone(), block);
            }
        }
    }
    let mut all: Vec<Hot> = all.into_values().collect();
    all.sort_by(|a, b| (b.share.total_cmp(&a.share)).then_with(|| a.bytes.cmp(&b.bytes)));
    all.truncate(most);
    all
}

/// Counts instructions by block.
#[derive(Default)]
struct Counts {
    arch: Option<Arch>,
    dictionary: Dictionary,
    threads: HashMap<StreamId, Assembler>,
    executed: HashMap<u32, u64>,
}

impl Counts {
    fn event(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            Event::Session(info) => {
                self.arch = Some(info.arch);
                self.dictionary = Dictionary::new(info.arch);
            }
            Event::Block(def) => {
                self.dictionary.define(def).map_err(anyhow::Error::msg)?;
            }
            Event::Records { stream, words } => {
                let assembler = self.threads.entry(*stream);
                let assembler = assembler.or_insert_with(|| Assembler::new(false));
                for &word in *words {
                    let (dictionary, executed) = (&self.dictionary, &mut self.executed);
                    assembler
                        .word(
                            word,
                            dictionary,
                            &mut |block: &TranslatedBlock, execution: &Execution<'_>| {
                                let whole = execution.first == 0 && execution.end >= block.len();
                                if whole {
                                    *executed.entry(execution.block.0).or_default() +=
                                        block.len() as u64;
                                }
                            },
                        )
                        .map_err(|_| anyhow::anyhow!("a record that belongs to no block"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A block that differs.
struct Difference {
    text: Vec<String>,
    ours: String,
    theirs: String,
}

/// What came of a CPU.
#[derive(Default)]
struct Compared {
    blocks: usize,
    equal: usize,
    /// Neither has a figure.
    refused: usize,
    largest: u64,
    differences: Vec<Difference>,
}

fn compare(tool: &Tool, cpu: &CpuTable, blocks: &[Hot]) -> anyhow::Result<Compared> {
    let mut decoded: Vec<Vec<Instruction>> = Vec::new();
    for block in blocks {
        let (instructions, bad) = llvm::decode(cpu.arch, &block.bytes, block.address);
        if bad.is_some() {
            bail!("a block at {:#x} does not decode", block.address);
        }
        decoded.push(instructions);
    }
    let texts = tool.disassemble(cpu.arch, &decoded)?;
    let ours: Vec<Result<u64, Refused>> = decoded
        .iter()
        .map(|block| cycles(cpu, block, ITERATIONS))
        .collect();
    // llvm-mca gives up all blocks for one that it refuses.
    let (accepted, refused): (Vec<usize>, Vec<usize>) =
        (0..ours.len()).partition(|&n| ours[n].is_ok());
    let mut theirs: Vec<Option<u64>> = vec![None; ours.len()];
    let name = &cpu.cpu.name;
    let wanted: Vec<&[String]> = accepted.iter().map(|&n| texts[n].as_slice()).collect();
    for (n, cycles) in accepted
        .iter()
        .zip(tool.cycles(cpu.arch, name, &wanted, ITERATIONS)?)
    {
        theirs[*n] = cycles;
    }
    for n in refused {
        let one = [texts[n].as_slice()];
        theirs[n] = tool
            .cycles(cpu.arch, name, &one, ITERATIONS)?
            .first()
            .copied()
            .flatten();
    }
    let mut compared = Compared {
        blocks: ours.len(),
        ..Compared::default()
    };
    for ((ours, theirs), text) in ours.into_iter().zip(theirs).zip(texts) {
        match (&ours, theirs) {
            (Err(_), None) => compared.refused += 1,
            (Ok(ours), Some(theirs)) if *ours == theirs => compared.equal += 1,
            _ => {
                if let (Ok(ours), Some(theirs)) = (&ours, theirs) {
                    compared.largest = compared.largest.max(ours.abs_diff(theirs));
                }
                compared.differences.push(Difference {
                    text,
                    ours: ours.map_or_else(|refused| refused.to_string(), |c| c.to_string()),
                    theirs: theirs.map_or_else(|| "refused".into(), |c| c.to_string()),
                });
            }
        }
    }
    Ok(compared)
}

impl Compared {
    fn write(&self, out: &mut dyn Write, name: &str, worst: usize) -> anyhow::Result<()> {
        let known = self.blocks - self.refused;
        writeln!(
            out,
            "{name:<22} {:>6} {:>6} {:>8.2} {:>8} {:>8}",
            self.blocks,
            self.equal,
            100.0 * self.equal as f64 / known.max(1) as f64,
            self.largest,
            self.refused
        )?;
        for difference in self.differences.iter().take(worst) {
            writeln!(
                out,
                "  mcad {}, llvm-mca {}:",
                difference.ours, difference.theirs
            )?;
            for line in &difference.text {
                writeln!(out, "    {line}")?;
            }
        }
        Ok(())
    }
}
