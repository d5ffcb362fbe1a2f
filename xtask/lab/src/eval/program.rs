//! Figures of a real program: memory, rates, sizes, cost of capturing, unknown instructions.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{Figure, Limit, cores};
use xtask::command::{cargo, command, cpu_seconds, execute, output};

const MIB: f64 = (1 << 20) as f64;

/// Makes a clip of two seconds for ffmpeg to decode.
pub fn make_clip(work: &Path) -> Result<PathBuf> {
    let clip = work.join("clip.mp4");
    let source = "testsrc2=duration=2:size=320x240:rate=25";
    execute(
        command("ffmpeg")
            .args(["-v", "error", "-y", "-f", "lavfi", "-i", source])
            .args(["-c:v", "mpeg4", "-q:v", "5", "-threads", "1"])
            .arg(&clip),
    )?;
    Ok(clip)
}

/// Decodes a clip a number of times.
pub fn ffmpeg(clip: &Path, times: u32) -> Vec<String> {
    let again = (times.saturating_sub(1)).to_string();
    let clip = clip.display().to_string();
    let words = [
        "ffmpeg",
        "-v",
        "error",
        "-threads",
        "1",
        "-stream_loop",
        &again,
        "-i",
        &clip,
        "-f",
        "null",
        "-",
    ];
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A run that is longer than another.
pub struct Longer<'a> {
    /// How many times the instructions.
    pub times: u32,
    /// The command that does the work a number of times.
    pub command: &'a dyn Fn(u32) -> Vec<String>,
}

/// Repetitions of the work that tell how many instructions one takes.
const PROBE: u32 = 10;

/// How the peak of memory grows with the length of a run, neither of which is recorded.
fn growth(built: &Path, work: &Path, cpu: &str, longer: &Longer<'_>) -> Result<Vec<Figure>> {
    let of = |times: u32| -> Result<(f64, f64)> {
        let report = run(built, work, cpu, &(longer.command)(times), None)?;
        let instructions = number(&report, "/trace/instructions")?;
        Ok((instructions, number(&report, "/run/peak_memory_bytes")?))
    };
    let (short, peak) = of(1)?;
    // Starting takes most of a short run, so doing the work N times is not N times as long.
    let once = (of(PROBE)?.0 - short) / f64::from(PROBE - 1);
    let more = f64::from(longer.times - 1) * short / once.max(1.0);
    let (long, high) = of(1 + more.ceil() as u32)?;
    Ok(vec![
        Figure::new(
            "instructions of the longer run",
            long / short,
            "times",
            Limit::Least(f64::from(longer.times) * 0.99),
        ),
        Figure::new(
            "growth of the peak with the longer run",
            (high / peak - 1.0) * 100.0,
            "%",
            Limit::Most(5.0),
        ),
    ])
}

/// Measures a program.
pub fn measure(
    built: &Path,
    work: &Path,
    cpu: &str,
    short: &[String],
    longer: Option<&Longer<'_>>,
) -> Result<Vec<Figure>> {
    let trace = work.join("program.mcad");
    let live = run(built, work, cpu, short, Some(&trace))?;
    let instructions = number(&live, "/trace/instructions")?;
    let peak = number(&live, "/run/peak_memory_bytes")?;
    let mut figures = vec![Figure::new(
        "peak memory of a run",
        peak / MIB,
        "MiB",
        Limit::Most(256.0),
    )];
    if let Some(longer) = longer {
        figures.extend(growth(built, work, cpu, longer)?);
    }
    let bytes = std::fs::metadata(&trace)?.len() as f64;
    figures.push(Figure::new(
        "trace file",
        bytes / instructions,
        "bytes per instruction",
        Limit::Most(2.0),
    ));
    figures.push(Figure::new(
        "analysis of the recorded trace",
        rate(built, work, cpu, &trace)?,
        "M instructions per CPU second",
        Limit::Least(10.0),
    ));
    let unknown = number(&live, "/unknown_instructions/count")?
        + number(&live, "/unknown_instructions/approximated")?;
    figures.push(Figure::new(
        "unknown or approximated instructions",
        unknown / instructions * 10_000.0,
        "in 10000",
        Limit::Most(1.0),
    ));
    figures.extend(cores::measure(built, work, cpu, &trace)?);
    figures.extend(capture(short)?);
    Ok(figures)
}

/// Runs a program under mcad-run and gives its report.
fn run(
    built: &Path,
    work: &Path,
    cpu: &str,
    program: &[String],
    trace: Option<&Path>,
) -> Result<Value> {
    let json = work.join("report.json");
    let mut run = command(built.join("mcad-run"));
    run.args(["-q", "--cpu", cpu, "--json"]).arg(&json);
    if let Some(trace) = trace {
        run.arg("--record").arg(trace);
    }
    run.arg("--").args(program);
    // Figures are what is to be read here, not the program's output.
    execute(run.stdin(Stdio::null()).stdout(Stdio::null()))?;
    read(&json)
}

/// Replays a trace; million instructions a second of processor time, decoding included.
pub fn rate(built: &Path, work: &Path, cpu: &str, trace: &Path) -> Result<f64> {
    let json = work.join("replay.json");
    let seconds = cpu_seconds(
        command(built.join("mcad"))
            .args(["replay", "-q", "--cpu", cpu, "--json"])
            .arg(&json)
            .arg(trace),
    )?;
    Ok(number(&read(&json)?, "/trace/instructions")? / seconds / 1e6)
}

/// Reads a report.
pub fn read(json: &Path) -> Result<Value> {
    let text = std::fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// A number of a report.
pub fn number(report: &Value, pointer: &str) -> Result<f64> {
    let value = report.pointer(pointer).and_then(Value::as_f64);
    value.with_context(|| format!("the report has no number at {pointer}"))
}

/// What capturing costs, from the broker's own measurement.
fn capture(program: &[String]) -> Result<Vec<Figure>> {
    let arguments = [
        "run",
        "--release",
        "--locked",
        "--quiet",
        "--package",
        "mcad-broker-qemu",
    ];
    execute(
        cargo()
            .args([
                "build",
                "--release",
                "--locked",
                "--package",
                "mcad-broker-qemu",
            ])
            .args(["--example", "capture_cost"]),
    )?;
    let mut run = cargo();
    run.args(arguments)
        .args(["--example", "capture_cost", "--"])
        .args(program);
    // Its exit status only says that a limit was missed, which is judged here.
    let text = output_of_any_status(&mut run)?;
    let figure = |prefix: &str| -> Result<f64> {
        let line = text.lines().find_map(|line| line.strip_prefix(prefix));
        let word = line.and_then(|rest| rest.split_whitespace().next());
        let value = word.and_then(|word| word.parse().ok());
        value.with_context(|| format!("capture_cost does not print '{prefix}…':\n{text}"))
    };
    Ok(vec![
        Figure::new(
            "CPU time of QEMU with the plugin to without",
            figure("ratio ")?,
            "times",
            Limit::Most(4.0),
        ),
        Figure::new(
            "shared ring",
            figure("bytes per instruction ")?,
            "bytes per instruction",
            Limit::Most(6.0),
        ),
    ])
}

fn output_of_any_status(run: &mut std::process::Command) -> Result<String> {
    let done = run.output().context("cannot run cargo")?;
    if done.stdout.is_empty() {
        bail!(
            "capture_cost failed: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The newest llvm-mca in `PATH`, with its version.
pub fn newest_llvm_mca() -> Option<(PathBuf, String)> {
    let path = std::env::var_os("PATH")?;
    let mut found = Vec::new();
    for directory in std::env::split_paths(&path) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("llvm-mca") {
                found.push(entry.path());
            }
        }
    }
    let version = |path: &PathBuf| -> Option<(u32, String)> {
        let text = output(command(path).arg("--version"))?;
        let line = text.lines().find(|line| line.contains("version"))?;
        let digits = line.split("version ").nth(1)?.split('.').next()?.trim();
        Some((digits.parse().ok()?, line.trim().to_owned()))
    };
    let versions = found.into_iter().filter_map(|path| {
        let (number, line) = version(&path)?;
        Some((number, path, line))
    });
    versions
        .max_by_key(|(number, _, _)| *number)
        .map(|(_, path, line)| (path, line))
}
