//! Blocks to compare: of a file, of the recorded programs, and generated ones.
//!
//! A generated block is a random sequence of instructions that the tables have a form for, or that
//! a recorded program executes; so it reaches forms that no program uses, and operands that no
//! example has.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use iced_x86::{Decoder, DecoderOptions, Encoder};
use mcad_isa::machine::table::{FormTable, embedded_cpus, example};
use mcad_proto::event::Event;
use mcad_proto::trace::TraceReader;
use serde_json::Value;

use super::{Args, Builds, Found, Piece, json};
use crate::eval::read_text;

/// Most instructions of a generated block.
const LONGEST: usize = 24;
/// Blocks in one process that tells all details.
const AT_ONCE: usize = 50;
const MODES: [&str; 2] = ["loop", "unrolled"];
const STARTS: [&str; 4] = ["distinct", "equal", "stack", "filled"];

/// Blocks that both builds are to predict.
pub struct Set {
    /// As a file for `--batch`.
    file: PathBuf,
    count: usize,
    /// As assembly text with markers, for details.
    listings: Vec<(PathBuf, Vec<String>)>,
}

impl Set {
    /// Gathers blocks and writes them to the cache.
    pub fn gather(args: &Args, traces: &[PathBuf], cache: &Path) -> Result<Self> {
        let mut random = fastrand::Rng::with_seed(args.seed);
        let mut executed = BTreeSet::new();
        for trace in traces {
            of_trace(trace, &mut executed)?;
        }
        let mut executed: Vec<String> = executed.into_iter().collect();
        let mut blocks = Vec::new();
        if args.random > 0 {
            let (tables, seen) = (examples()?, instructions(&executed));
            for _ in 0..args.random {
                // One table a block, since a block with an instruction that a CPU lacks is refused
                // there as a whole.
                let table = &tables[random.usize(..tables.len())];
                let length = random.usize(1..=LONGEST);
                let block = (0..length).map(|_| {
                    let seen = if random.bool() {
                        random.choice(&seen)
                    } else {
                        None
                    };
                    seen.or_else(|| random.choice(table))
                        .map_or("", String::as_str)
                });
                blocks.push(block.collect::<String>());
            }
        }
        random.shuffle(&mut executed);
        executed.truncate(args.random);
        blocks.append(&mut executed);
        random.shuffle(&mut blocks);
        if let Some(file) = &args.blocks {
            let text = read_text(file)?;
            let hex = text.lines().filter_map(|line| line.split(',').next());
            blocks.splice(..0, hex.filter(|hex| !hex.is_empty()).map(str::to_owned));
        }
        let file = cache.join("blocks.csv");
        fs::write(&file, blocks.join("\n") + "\n")?;
        let step = blocks.len().checked_div(args.details).unwrap_or(0).max(1);
        let detailed: Vec<String> = blocks
            .iter()
            .step_by(step)
            .take(args.details)
            .filter(|hex| hex.len() % 2 == 0 && hex.bytes().all(|c| c.is_ascii_hexdigit()))
            .cloned()
            .collect();
        let mut listings = Vec::new();
        for (number, chunk) in detailed.chunks(AT_ONCE).enumerate() {
            let path = cache.join(format!("blocks-{number}.s"));
            fs::write(&path, listing(chunk)?)?;
            listings.push((path, chunk.to_vec()));
        }
        Ok(Self {
            file,
            count: blocks.len(),
            listings,
        })
    }

    /// A comparison for each CPU, mode and initial state, and for each listing.
    pub fn pieces<'a>(
        &'a self,
        builds: &'a Builds,
        cpus: &[String],
        args: &'a Args,
    ) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        if self.count == 0 {
            return pieces;
        }
        for cpu in cpus {
            for mode in MODES {
                for init in STARTS {
                    let cpu = cpu.clone();
                    pieces.push(Piece {
                        name: format!("blocks on {cpu}, {mode}, {init}"),
                        compare: Box::new(move || self.predictions(builds, &cpu, mode, init)),
                    });
                }
            }
            for (number, (path, hex)) in self.listings.iter().enumerate() {
                let cpu = cpu.clone();
                pieces.push(Piece {
                    name: format!("details of blocks on {cpu}, listing {number}"),
                    compare: Box::new(move || details(builds, &cpu, path, hex, &args.ignored)),
                });
            }
        }
        pieces
    }

    fn predictions(&self, builds: &Builds, cpu: &str, mode: &str, init: &str) -> Result<Found> {
        let both = builds.both(|mcad| {
            mcad.args(["block", "--cpu", cpu, "--mode", mode, "--init", init])
                .args(["--jobs", "1", "--batch"])
                .arg(&self.file);
        })?;
        let mut found = Found {
            differences: both.statuses(),
            ..Found::default()
        };
        let text = String::from_utf8_lossy(&both.base.stdout);
        let new = String::from_utf8_lossy(&both.new.stdout);
        if text.lines().count() != new.lines().count() {
            let (a, b) = (text.lines().count(), new.lines().count());
            found.differences.push(format!("{a} lines | {b} lines"));
        }
        for (base, new) in text.lines().zip(new.lines()) {
            if base != new {
                let (hex, figure) = base.split_once(',').unwrap_or((base, ""));
                let other = new.split_once(',').unwrap_or((new, "")).1;
                found.differences.push(format!("{hex}: {figure} | {other}"));
            }
        }
        let figures = text.lines().filter(|line| !line.contains(",ERR,")).count();
        let counts = [("predictions", figures), ("refusals", self.count - figures)];
        for (what, count) in counts {
            found.compared.insert(what, count as u64);
        }
        Ok(found)
    }
}

/// Whether a build's `--json` names a file; in older ones, with which this one is compared, it is a
/// flag.
fn json_takes_a_file(mcad: &Command) -> bool {
    let help = Command::new(mcad.get_program())
        .args(["block", "-h"])
        .output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--json <FILE>"))
}

fn details(
    builds: &Builds,
    cpu: &str,
    path: &Path,
    hex: &[String],
    ignored: &[String],
) -> Result<Found> {
    let both = builds.both(|mcad| {
        let json: &[&str] = match json_takes_a_file(mcad) {
            true => &["--json", "-"],
            false => &["--json"],
        };
        mcad.arg("block").args(json);
        mcad.args(["--timeline=2", "--cpu", cpu]).arg(path);
    })?;
    let mut found = Found {
        differences: both.statuses(),
        ..Found::default()
    };
    if !found.differences.is_empty() {
        return Ok(found);
    }
    found.compared.insert("details", hex.len() as u64);
    if both.base.stdout == both.new.stdout {
        return Ok(found);
    }
    let parse = |text: &[u8]| serde_json::from_slice::<Value>(text).context("no JSON");
    let (base, new) = (parse(&both.base.stdout)?, parse(&both.new.stdout)?);
    found.differences = json::differences(&base, &new, ignored)
        .into_iter()
        .map(|difference| {
            let number = difference
                .strip_prefix("/blocks/")
                .and_then(|rest| rest.split('/').next())
                .and_then(|number| number.parse::<usize>().ok());
            match number.and_then(|number| hex.get(number)) {
                Some(hex) => format!("{hex} {difference}"),
                None => difference,
            }
        })
        .collect();
    if found.differences.is_empty() && ignored.is_empty() {
        found.differences.push("the text of a number".into());
    }
    Ok(found)
}

/// Blocks of a recorded program, in hexadecimal.
fn of_trace(path: &Path, blocks: &mut BTreeSet<String>) -> Result<()> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    let mut reader = TraceReader::new(BufReader::new(file), &*name)?;
    while let Some(event) = reader.next()? {
        match event {
            Event::Block(block) => {
                blocks.insert(hex::encode(block.bytes));
            }
            Event::End(_) => break,
            _ => {}
        }
    }
    Ok(())
}

/// An example of every form, for each table that has examples.
fn examples() -> Result<Vec<Vec<String>>> {
    let mut tables = Vec::new();
    for cpu in embedded_cpus() {
        let mut examples = BTreeSet::new();
        for (code, selector, _) in FormTable::for_cpu(cpu)?.candidates() {
            let Some(example) = example::round_trip(&example::build(code, selector)) else {
                continue;
            };
            let mut encoder = Encoder::new(64);
            if encoder.encode(&example, 0x1000).is_ok() {
                examples.insert(hex::encode(encoder.take_buffer()));
            }
        }
        tables.push(examples.into_iter().collect());
    }
    tables.retain(|table: &Vec<String>| !table.is_empty());
    Ok(tables)
}

/// The distinct instructions of blocks but branches, which may only end a block.
fn instructions(blocks: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for block in blocks {
        let bytes = hex::decode(block).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let start = decoder.position();
            let instruction = decoder.decode();
            if instruction.flow_control() == iced_x86::FlowControl::Next {
                seen.insert(hex::encode(&bytes[start..decoder.position()]));
            }
        }
    }
    seen.into_iter().collect()
}

/// Assembly text that holds each block between markers.
fn listing(blocks: &[String]) -> Result<String> {
    let mut text = String::new();
    for (number, hex) in blocks.iter().enumerate() {
        let bytes = hex::decode(hex)?;
        let bytes: Vec<String> = bytes.iter().map(|b| format!("{b:#04x}")).collect();
        writeln!(text, "# LLVM-MCA-BEGIN {number}")?;
        writeln!(text, ".byte {}", bytes.join(","))?;
        writeln!(text, "# LLVM-MCA-END {number}")?;
    }
    Ok(text)
}
