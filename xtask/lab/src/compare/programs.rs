//! Recorded programs: a window of a few million instructions of each, recorded once and kept.
//!
//! The window is the program's end, since its beginning is the dynamic linker's work in all of
//! them. A program that is not installed is named and left out.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use mcad_proto::event::Event;
use mcad_proto::trace::{TraceReader, TraceWriter, info};
use mcad_proto::word::{Record, decode_word};
use serde_json::Value;

use super::{Args, Builds, Found, Piece, json};
use xtask::command::{command, execute, exists, root};

/// A program to record: its name, and its command for so many million instructions of work.
struct Workload {
    name: &'static str,
    command: fn(u64, &Path) -> Vec<String>,
}

const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "gzip",
        command: |_, input| words(&["gzip", "-c"], &[input.display().to_string()]),
    },
    Workload {
        name: "sqlite3",
        // Some five thousand instructions a row.
        command: |millions, _| {
            let rows = 200 * millions;
            let query = format!(
                "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<{rows}) \
                 SELECT count(DISTINCT x*x%97), sum(length(hex(x)||x)) FROM c;"
            );
            words(&["sqlite3", ":memory:"], &[query])
        },
    },
    Workload {
        name: "python3",
        // Some six thousand instructions a turn.
        command: |millions, _| {
            let turns = 180 * millions;
            let code = format!(
                "d = {{}}\nfor i in range({turns}):\n    k = str(i * i % 97)\n    \
                 d[k] = d.get(k, 0) + len(sorted(k + k))\n"
            );
            words(&["/usr/bin/python3", "-S", "-E", "-c"], &[code])
        },
    },
    Workload {
        name: "ffmpeg",
        // Some 800 000 instructions a picture.
        command: |millions, _| {
            let pictures = 10 + 5 * millions / 4;
            let source = format!("testsrc2=size=64x64:rate={pictures}:duration=1");
            let start = ["ffmpeg", "-v", "error", "-nostdin", "-filter_threads", "1"];
            let rest = [
                "-f", "lavfi", "-i", &source, "-c:v", "mpeg4", "-threads", "1",
            ];
            let end = ["-f", "null", "-"].map(str::to_owned);
            words(&start, &[rest.map(str::to_owned).as_slice(), &end].concat())
        },
    },
    Workload {
        name: "clang-format",
        command: |_, _| {
            let source = root().join("qemu-plugin/plugin.c");
            words(&["clang-format"], &[source.display().to_string()])
        },
    },
];

fn words(start: &[&str], rest: &[String]) -> Vec<String> {
    let start = start.iter().map(|&word| word.to_owned());
    start.chain(rest.iter().cloned()).collect()
}

/// The traces of these programs, or of all when none is named, so many million instructions of each,
/// recorded with `base` where they are not kept already.
pub fn traces(base: &Path, cache: &Path, names: &[String], millions: u64) -> Result<Vec<PathBuf>> {
    let asked =
        |program: &&Workload| names.is_empty() || names.iter().any(|name| name == program.name);
    let mut traces = Vec::new();
    for program in WORKLOADS.iter().filter(asked) {
        let kept = cache.join(format!("{}-{millions}M.mcad", program.name));
        if !kept.is_file() {
            let input = cache.join(format!("text-{millions}M"));
            let program = (program.command)(millions, &input);
            if !exists(&program[0]) && !Path::new(&program[0]).is_file() {
                eprintln!("{} is not installed: left out", program[0]);
                continue;
            }
            write_text(&input, millions)?;
            let mut run = command(base.join("mcad-run"));
            run.args(["--quiet", "--cpu", "skl"]);
            record(run, &program, &kept, millions * 1_000_000)?;
        }
        traces.push(kept);
    }
    Ok(traces)
}

/// A text for gzip, some three hundred instructions a byte.
fn write_text(path: &Path, millions: u64) -> Result<()> {
    fs::write(path, text(millions, (millions as usize) * 4000))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A text of at least so many bytes, in which words come again, as in texts.
pub fn text(seed: u64, bytes: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut text = String::new();
    while text.len() < bytes {
        let word: String = (0..random.usize(2..9))
            .map(|_| random.lowercase())
            .collect();
        for _ in 0..random.usize(1..4) {
            text.push_str(&word);
            text.push(if random.u8(0..9) == 0 { '\n' } else { ' ' });
        }
    }
    text
}

/// Records a command by `run`, which is mcad-run with its options, and keeps the last
/// `instructions` of it.
pub fn record(mut run: Command, program: &[String], kept: &Path, instructions: u64) -> Result<()> {
    let whole = kept.with_extension("whole");
    execute(
        run.arg("--record")
            .arg(&whole)
            .arg("--")
            .args(program)
            .stdout(Stdio::null()),
    )?;
    let part = kept.with_extension("part");
    cut(&whole, &part, instructions).with_context(|| format!("cannot cut {}", whole.display()))?;
    fs::rename(&part, kept)?;
    fs::remove_file(&whole)?;
    Ok(())
}

/// Copies a trace with no records but those of the last `instructions`.
fn cut(from: &Path, to: &Path, instructions: u64) -> Result<()> {
    let mut before = info(from)?.instructions.saturating_sub(instructions);
    let name = from.display().to_string();
    let mut reader = TraceReader::new(BufReader::new(File::open(from)?), &*name)?;
    let out = BufWriter::new(File::create(to)?);
    let mut writer = TraceWriter::new(out, to.display().to_string(), reader.session())?;
    let mut lengths: Vec<u16> = Vec::new();
    while let Some(event) = reader.next()? {
        let ends = matches!(event, Event::End(_));
        match event {
            Event::Records { stream, words } => {
                let mut first = words.len();
                for (at, word) in words.iter().enumerate() {
                    if let Ok(Record::Block(id)) = decode_word(*word) {
                        if before == 0 {
                            first = at;
                            break;
                        }
                        let length = lengths.get(id.0 as usize).copied().unwrap_or(0);
                        before = before.saturating_sub(u64::from(length));
                    }
                }
                let words = &words[first..];
                writer.event(&Event::Records { stream, words })?;
            }
            Event::Block(block) => {
                let id = block.id.0 as usize;
                lengths.resize(lengths.len().max(id + 1), 0);
                lengths[id] = block.instructions;
                writer.event(&event)?;
            }
            _ => writer.event(&event)?,
        }
        if ends {
            break;
        }
    }
    let (_, mut out) = writer.finish_into()?;
    Ok(out.flush()?)
}

/// A comparison for each trace on each CPU.
pub(super) fn pieces<'a>(
    builds: &'a Builds,
    cpus: &[String],
    traces: &[PathBuf],
    args: &'a Args,
) -> Vec<Piece<'a>> {
    let mut pieces = Vec::new();
    for trace in traces {
        for cpu in cpus {
            let (trace, cpu) = (trace.clone(), cpu.clone());
            pieces.push(Piece {
                name: format!("{} on {cpu}", trace.display()),
                compare: Box::new(move || compare(builds, &trace, &cpu, &args.ignored)),
            });
        }
    }
    pieces
}

fn compare(builds: &Builds, trace: &Path, cpu: &str, ignored: &[String]) -> Result<Found> {
    let both = builds.both(|mcad| {
        mcad.args(["replay", "--quiet", "--json", "-", "--cpu", cpu])
            .args(["--analysis", "pipeline", "--analysis", "block"])
            .arg(trace);
    })?;
    let mut found = Found {
        differences: both.statuses(),
        ..Found::default()
    };
    if !found.differences.is_empty() {
        return Ok(found);
    }
    let parse = |text: &[u8]| -> Result<Value> {
        let mut report: Value = serde_json::from_slice(text).context("no JSON report")?;
        if let Some(report) = report.as_object_mut() {
            report.shift_remove("run");
        }
        Ok(report)
    };
    let (base, new) = (parse(&both.base.stdout)?, parse(&both.new.stdout)?);
    found.differences = json::differences(&base, &new, ignored);
    found.compared.insert("reports", 1);
    let instructions = base.pointer("/trace/instructions").and_then(Value::as_u64);
    found
        .compared
        .insert("instructions", instructions.unwrap_or_default());
    Ok(found)
}
