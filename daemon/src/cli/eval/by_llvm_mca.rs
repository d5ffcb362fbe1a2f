//! `mcad eval --predict CPU --labels-from-llvm-mca`: what an installed llvm-mca predicts for the same
//! blocks and CPU takes the place of the labels.
//!
//! It is not the truth: the figures say where two models differ, not which of them is right. Cycles
//! per iteration are those of [`ITERATIONS`] iterations, over their number.

use std::path::Path;

use anyhow::bail;
use mcad_isa::machine::cpus;
use mcad_proto::event::Arch;

use crate::eval::Pair;
use crate::llvm_mca::Tool;

/// Iterations of a block.
const ITERATIONS: u32 = 100;
/// Blocks of one run of the program.
const BATCH: usize = 100;

/// The blocks that it knows, labelled by it; says on stderr how many it does not know.
///
/// # Errors
/// When it is not installed, or the CPU has no name of LLVM's.
pub(super) fn relabel(
    pairs: Vec<Pair>,
    cpu: &str,
    program: Option<&Path>,
) -> anyhow::Result<Vec<Pair>> {
    let wanted = cpu.to_ascii_lowercase();
    let mut known = cpus().iter().filter(|info| info.arch == Arch::X86_64);
    let named = known.find(|info| info.name == wanted || info.aliases.contains(&wanted));
    let Some(name) = named.and_then(|info| info.aliases.first()) else {
        bail!(
            "--labels-from-llvm-mca: {cpu} has no name of LLVM's; `mcad cpus` lists those that do"
        );
    };
    let tool = Tool::find(program)?;
    let all = pairs.len();
    let mut labelled = Vec::with_capacity(all);
    for pairs in pairs.chunks(BATCH) {
        let blocks: Vec<Vec<Vec<u8>>> = pairs.iter().map(instructions).collect();
        let texts = tool.disassemble_x86(&blocks)?;
        let whole = |(pair, text): (_, Option<Vec<String>>)| Some((pair, text?));
        let known: Vec<(&Pair, Vec<String>)> = pairs.iter().zip(texts).filter_map(whole).collect();
        let texts: Vec<&[String]> = known.iter().map(|(_, text)| text.as_slice()).collect();
        let cycles = tool.cycles(Arch::X86_64, name, &texts, ITERATIONS)?;
        labelled.extend(known.iter().zip(cycles).filter_map(|((pair, _), cycles)| {
            let label = cycles? as f64 / f64::from(ITERATIONS);
            Some(Pair {
                label,
                ..(*pair).clone()
            })
        }));
    }
    if labelled.is_empty() {
        bail!("llvm-mca knows none of the blocks");
    }
    if labelled.len() < all {
        eprintln!("llvm-mca refuses {} of {all} blocks", all - labelled.len());
    }
    Ok(labelled)
}

/// The bytes of each instruction of a block.
fn instructions(pair: &Pair) -> Vec<Vec<u8>> {
    let bytes = pair.bytes();
    let mut rest = bytes.as_slice();
    let mut all = Vec::new();
    for instruction in pair.instructions() {
        let (own, others) = rest.split_at(instruction.len().min(rest.len()));
        all.push(own.to_vec());
        rest = others;
    }
    all
}
