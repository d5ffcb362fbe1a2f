//! `cargo xtask tables-coverage`: which instructions of blocks and programs have no form, or only
//! an approximated one, by frequency.
//!
//! Blocks count by their weight (BHive's `application,hex,weight`; else 1), the instructions of an
//! ELF file's executable sections once each.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use iced_x86::{Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter};
use liblzma::read::XzDecoder;
use mcad_isa::machine::table::{FormTable, embedded_cpus};
use object::{Object, ObjectSection, SectionKind};

use super::operands::needs_avx512;

/// Arguments of `cargo xtask tables-coverage`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files of blocks: CSV, `hex,…` or `application,hex,weight`, plain or .xz (repeatable, several at once).
    #[arg(long, num_args = 1..)]
    blocks: Vec<PathBuf>,
    /// ELF files (repeatable, several at once).
    #[arg(long, num_args = 1..)]
    elf: Vec<PathBuf>,
    /// Only this CPU (repeatable).
    #[arg(long)]
    cpu: Vec<String>,
    /// How many of the most frequent forms to print.
    #[arg(long, default_value_t = 25)]
    top: usize,
}

/// How an instruction fares on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Unknown,
    /// AVX-512 on a CPU that does not have it.
    NotOnThisCpu,
    Approximated,
}

#[derive(Default)]
struct Coverage {
    instructions: f64,
    /// By standing and form: weight and an example.
    lacking: BTreeMap<(Standing, String), (f64, String)>,
}

/// Every distinct instruction (bytes) with its total weight.
#[derive(Default)]
struct Corpus {
    weights: HashMap<Instruction, (f64, Vec<u8>)>,
    undecodable: f64,
}

/// Prints the coverage.
///
/// # Errors
/// When an input cannot be read.
pub fn run(args: &Args) -> Result<()> {
    if args.blocks.is_empty() && args.elf.is_empty() {
        bail!("nothing to look at: name --blocks or --elf files");
    }
    let mut corpus = Corpus::default();
    for path in &args.blocks {
        corpus.add_blocks(path)?;
    }
    for path in &args.elf {
        corpus.add_elf(path)?;
    }
    let mut out = String::new();
    for cpu in embedded_cpus() {
        if args.cpu.is_empty() || args.cpu.iter().any(|c| c == cpu) {
            let table = FormTable::for_cpu(cpu)?;
            out += &render(cpu, &corpus.against(table), corpus.undecodable, args.top);
        }
    }
    eprint!("{out}");
    Ok(())
}

impl Corpus {
    fn add(&mut self, bytes: &[u8], weight: f64) {
        let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let start = decoder.position();
            let mut instruction = decoder.decode();
            if instruction.is_invalid() {
                self.undecodable += weight;
                // Data between functions: go on behind the first byte.
                if decoder.set_position(start + 1).is_err() {
                    break;
                }
                continue;
            }
            instruction.set_ip(0);
            let bytes = &bytes[start..decoder.position()];
            let entry = self.weights.entry(instruction);
            entry.or_insert_with(|| (0.0, bytes.to_vec())).0 += weight;
        }
    }

    fn add_blocks(&mut self, path: &Path) -> Result<()> {
        let place = || path.display().to_string();
        let file = fs::File::open(path).with_context(place)?;
        let reader: Box<dyn std::io::Read> = if path.extension().is_some_and(|e| e == "xz") {
            Box::new(XzDecoder::new(file))
        } else {
            Box::new(file)
        };
        let mut rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(reader);
        for (n, row) in rows.records().enumerate() {
            let line = || format!("{}:{}", place(), n + 1);
            let row = row.with_context(line)?;
            let field = |i: usize| row.get(i).unwrap_or_default();
            // `hex,…`, or `application,hex,weight`.
            let (bytes, weight) = match (from_hex(field(0)), from_hex(field(1))) {
                (Some(bytes), _) => (bytes, 1.0),
                (None, Some(bytes)) => (bytes, field(2).parse().with_context(line)?),
                (None, None) if n == 0 => continue,
                (None, None) => bail!("{}: no hexadecimal block", line()),
            };
            self.add(&bytes, weight);
        }
        Ok(())
    }

    fn add_elf(&mut self, path: &Path) -> Result<()> {
        let place = || path.display().to_string();
        let data = fs::read(path).with_context(place)?;
        let file = object::File::parse(&*data).with_context(place)?;
        for section in file.sections().filter(|s| s.kind() == SectionKind::Text) {
            self.add(section.data().with_context(place)?, 1.0);
        }
        Ok(())
    }

    fn against(&self, table: &FormTable) -> Coverage {
        let mut coverage = Coverage::default();
        let mut formatter = IntelFormatter::new();
        let has_avx512 = table
            .forms()
            .iter()
            .any(|f| f.approximated_from.is_none() && f.name.contains("ZMM"));
        for (instruction, (weight, bytes)) in &self.weights {
            coverage.instructions += weight;
            let form = table.find(instruction);
            let (standing, title) = match form {
                Some(form) => match &form.approximated_from {
                    None => continue,
                    Some(source) => (
                        Standing::Approximated,
                        format!("{} from {source}", form.name),
                    ),
                },
                None if needs_avx512(instruction.code()) && !has_avx512 => {
                    (Standing::NotOnThisCpu, "AVX-512".to_owned())
                }
                None => (Standing::Unknown, format!("{:?}", instruction.code())),
            };
            let entry = coverage
                .lacking
                .entry((standing, title))
                .or_insert_with(|| {
                    let mut text = String::new();
                    formatter.format(instruction, &mut text);
                    let hex = hex::encode(bytes);
                    (0.0, format!("{hex}  {text}"))
                });
            entry.0 += weight;
        }
        coverage
    }
}

pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    hex::decode(text.trim()).ok()
}

fn render(cpu: &str, coverage: &Coverage, undecodable: f64, top: usize) -> String {
    use std::fmt::Write as _;
    let sum = |wanted: Standing| -> f64 {
        let of = coverage.lacking.iter().filter(|((s, _), _)| *s == wanted);
        of.map(|(_, (weight, _))| weight).sum()
    };
    let (unknown, foreign, approximated) = (
        sum(Standing::Unknown),
        sum(Standing::NotOnThisCpu),
        sum(Standing::Approximated),
    );
    let all = coverage.instructions;
    let per_10000 = (unknown + approximated) / all.max(1.0) * 1e4;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{cpu}: {all:.0} instructions; {unknown:.0} unknown, {approximated:.0} approximated \
         ({per_10000:.3} in 10 000), {foreign:.0} not on this CPU; {undecodable:.0} bytes no instruction"
    );
    let mut lacking: Vec<_> = coverage.lacking.iter().collect();
    lacking.sort_by(|a, b| {
        (a.0.0, b.1.0)
            .partial_cmp(&(b.0.0, a.1.0))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    for ((standing, title), (weight, example)) in lacking.into_iter().take(top) {
        let _ = writeln!(text, "  {weight:>10.0}  {standing:?}  {title}  ({example})");
    }
    text
}
