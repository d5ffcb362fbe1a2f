//! `cargo xtask eval-isa`: what is promised of AArch64 and RISC-V programs, measured with Debian's
//! own: output and status as under QEMU alone, counts as an independent plugin has them,
//! instructions without figures, blocks as llvm-mca times them, speed beside x86-64's, and what the
//! tables take of the programs' files and of their start.

mod sysroot;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::program::{number, rate, read};
use super::speed::counted;
use super::{Figure, Limit, judge};
use crate::compare::programs;
use crate::tables::folder;
use sysroot::Debian;
use xtask::build;
use xtask::command::{command, execute, exists, output, root};

/// Options of `cargo xtask eval-isa`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure the programs that are built here [default: a release build of this tree]
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
    /// Only this instruction set: aarch64 or riscv64
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Leave out the comparison with llvm-mca, which takes minutes
    #[arg(long)]
    no_llvm_mca: bool,
    /// Leave out speeds, which mean little on a busy machine
    #[arg(long)]
    no_speed: bool,
}

/// An instruction set: where Debian's programs for it come from, and the models to run them on.
struct Set {
    debian: Debian,
    /// The model that is usual for it, and one that speed is measured on.
    cpu: &'static str,
    /// Models whose blocks are held against llvm-mca's.
    held: &'static [&'static str],
}

const SETS: [Set; 2] = [
    Set {
        debian: sysroot::ARM64,
        cpu: "neoverse-n1",
        held: &[
            "cortex-a35",
            "cortex-a53",
            "cortex-a55",
            "cortex-a57",
            "cortex-a72",
            "cortex-a76",
            "cortex-a78",
            "cortex-a510",
            "neoverse-n1",
            "neoverse-n2",
            "neoverse-v1",
            "neoverse-v2",
            "a64fx",
            "apple-m1",
            "exynos-m5",
            "olympus",
        ],
    },
    Set {
        debian: sysroot::RISCV64,
        cpu: "sifive-p670",
        held: &[
            "sifive-u74",
            "sifive-x280",
            "sifive-p450",
            "sifive-p670",
            "rocket",
            "syntacore-scr5",
            "spacemit-x60",
            "xiangshan-nanhu",
        ],
    },
];

/// Instructions of the window in which speeds are compared, in millions, and those that callgrind
/// counts.
const MILLIONS: u64 = 20;
const COUNTED: u64 = 4;

/// The programs' arguments, and what they read.
fn programs() -> [(&'static str, Vec<String>, Vec<u8>); 4] {
    let text = programs::text(1, 60_000);
    let sql = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<1500) SELECT \
               count(DISTINCT x*x%97), sum(length(hex(x)||x)) FROM c; SELECT nonsense;";
    let python = "import sys\nd = {}\nfor i in range(2000):\n    k = str(i * i % 97)\n    d[k] = \
                  d.get(k, 0) + len(sorted(k + k)) / 3\nprint(sorted(d.items()))\nsys.exit(3)\n";
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    [
        ("gzip", words(&["-c"]), text.clone().into_bytes()),
        ("sqlite3", words(&[":memory:", sql]), Vec::new()),
        ("xz", words(&["-c", "-2"]), text.into_bytes()),
        ("python3", words(&["-S", "-E", "-c", python]), Vec::new()),
    ]
}

/// Measures and prints everything.
///
/// # Errors
/// When a program or package is not there, or a figure cannot be measured.
pub fn run(args: &Args) -> Result<ExitCode> {
    let built = match &args.built {
        Some(built) => std::path::absolute(built)?,
        None => build::release()?,
    };
    let work = build::target_dir().join("eval-isa");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let wanted = |set: &&Set| (args.arch.as_deref()).is_none_or(|arch| arch == set.debian.arch);
    let sets: Vec<&Set> = SETS.iter().filter(wanted).collect();
    if sets.is_empty() {
        bail!("--arch: there are aarch64 and riscv64");
    }
    let mut figures = tables(&built)?;
    for set in sets {
        let sysroot = sysroot::make(&set.debian, &work)?;
        let mut traces = Vec::new();
        for (program, arguments, input) in programs() {
            let case = Case {
                set,
                program,
                arguments,
                input,
                sysroot: &sysroot,
            };
            traces.push(case.measure(&built, &work, &mut figures)?);
        }
        if !args.no_llvm_mca {
            figures.extend(against_llvm_mca(&built, set, &traces)?);
        }
        if !args.no_speed {
            figures.extend(speed(&built, &work, set, &sysroot)?);
        }
    }
    Ok(judge(&figures))
}

/// A program of one instruction set.
struct Case<'a> {
    set: &'a Set,
    program: &'static str,
    arguments: Vec<String>,
    input: Vec<u8>,
    sysroot: &'a Path,
}

impl Case<'_> {
    /// Runs it alone and under mcad-run with the counting plugin; its trace.
    fn measure(&self, built: &Path, work: &Path, figures: &mut Vec<Figure>) -> Result<PathBuf> {
        let arch = self.set.debian.arch;
        let name = format!("{} of {arch}", self.program);
        let file = sysroot::program(self.sysroot, self.program)?;
        let input = work.join("input");
        fs::write(&input, &self.input)?;
        let stdin = || fs::File::open(&input).map(Stdio::from);

        let emulator = format!("qemu-{arch}");
        if !exists(&emulator) {
            bail!("{emulator} is missing: apt-get install qemu-user");
        }
        let plain = command(&emulator)
            .arg("-L")
            .arg(self.sysroot)
            .arg(&file)
            .args(&self.arguments)
            .stdin(stdin()?)
            .output()?;

        let (json, trace) = (
            work.join("report.json"),
            work.join(format!("{}-{arch}.mcad", self.program)),
        );
        let count = work.join("count.txt");
        let traced = command(built.join("mcad-run"))
            .args(["-q", "--cpu", self.set.cpu, "--json"])
            .arg(&json)
            .arg("--record")
            .arg(&trace)
            .arg("--sysroot")
            .arg(self.sysroot)
            .arg("--qemu")
            .arg(counting(work, &emulator, &count)?)
            .arg("--")
            .arg(&file)
            .args(&self.arguments)
            .stdin(stdin()?)
            .output()?;
        let same = plain.stdout == traced.stdout && plain.status.code() == traced.status.code();
        if !same {
            eprint!("{}", String::from_utf8_lossy(&traced.stderr));
        }
        figures.push(Figure::new(
            format!("{name}: output or status not QEMU's"),
            f64::from(u8::from(!same)),
            "",
            Limit::Most(0.0),
        ));
        let report = read(&json)?;
        let instructions = number(&report, "/trace/instructions")?;
        let counted = counted_by_plugin(&count)?;
        figures.push(Figure::new(
            format!("{name}: instructions"),
            instructions,
            "",
            Limit::None,
        ));
        figures.push(Figure::new(
            format!("{name}: more than the counting plugin's"),
            (instructions - counted).abs(),
            "instructions",
            Limit::Most(0.0),
        ));
        let unknown = number(&report, "/cpus/0/unknown_instructions/count")?;
        let approximated = number(&report, "/cpus/0/unknown_instructions/approximated")?;
        figures.push(Figure::new(
            format!("{name}: unknown"),
            unknown,
            "instructions",
            Limit::Most(0.0),
        ));
        figures.push(Figure::new(
            format!("{name}: approximated"),
            approximated / instructions * 10_000.0,
            "in 10000",
            Limit::Most(1.0),
        ));
        Ok(trace)
    }
}

/// An emulator that counts, too: a script that hands its arguments on.
fn counting(work: &Path, emulator: &str, count: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let built = work.join("count-plugin");
    execute(
        command("sh")
            .arg(root().join("tests/plugin/build.sh"))
            .arg(&built),
    )?;
    let script = work.join(emulator);
    let plugin = built.join("libcount-plugin.so");
    fs::write(
        &script,
        format!(
            "#!/bin/sh\nexec {emulator} -plugin 'file={},out={}' \"$@\"\n",
            plugin.display(),
            count.display()
        ),
    )?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

fn counted_by_plugin(count: &Path) -> Result<f64> {
    let text = fs::read_to_string(count)
        .with_context(|| format!("the counting plugin has not written {}", count.display()))?;
    let line = text.lines().find_map(|l| l.strip_prefix("instructions "));
    let number = line.and_then(|number| number.trim().parse().ok());
    number.with_context(|| format!("{} has no number", count.display()))
}

/// For each model how many of the hottest blocks take what llvm-mca says.
fn against_llvm_mca(built: &Path, set: &Set, traces: &[PathBuf]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for cpu in set.held {
        let text = output(
            command(built.join("mcad"))
                .args(["eval", "--llvm-mca", cpu])
                .args(traces),
        )
        .with_context(|| format!("`mcad eval --llvm-mca {cpu}` fails"))?;
        // CPU, blocks, equal, per cent, largest difference, refused.
        let columns: Vec<&str> = text
            .lines()
            .last()
            .unwrap_or("")
            .split_whitespace()
            .collect();
        let [_, of, equal, _, _, refused] = *columns else {
            bail!("`mcad eval --llvm-mca {cpu}` prints no figures:\n{text}");
        };
        let equal: f64 = equal.parse()?;
        let of = of.parse::<f64>()?;
        if refused != "0" {
            eprintln!("{cpu}: llvm-mca's model lacks instructions of {refused} blocks");
        }
        figures.push(Figure::new(
            format!("{cpu}: of {of} blocks as llvm-mca's"),
            equal / of * 100.0,
            "%",
            Limit::Least(98.0),
        ));
    }
    Ok(figures)
}

/// How fast gzip is simulated beside x86-64's gzip: by processor time, and by the machine
/// instructions of the simulation.
fn speed(built: &Path, work: &Path, set: &Set, sysroot: &Path) -> Result<Vec<Figure>> {
    let names = ["gzip".to_owned()];
    let gzip = sysroot::program(sysroot, "gzip")?;
    let mut work_of = Vec::new();
    let mut seconds_of = Vec::new();
    for (millions, results) in [(COUNTED, &mut work_of), (MILLIONS, &mut seconds_of)] {
        let native = programs::traces(built, work, &names, millions)?;
        let native = native.first().context("gzip is not installed")?;
        let kept = work.join(format!("gzip-{}-{millions}M.mcad", set.debian.arch));
        if !kept.is_file() {
            let input = work.join(format!("text-{millions}M"));
            let mut run = command(built.join("mcad-run"));
            run.args(["-q", "--cpu", set.cpu, "--sysroot"]).arg(sysroot);
            programs::record(
                run,
                &[
                    gzip.display().to_string(),
                    "-c".into(),
                    input.display().to_string(),
                ],
                &kept,
                millions * 1_000_000,
            )?;
        }
        for (cpu, trace) in [("skl", native), (set.cpu, &kept)] {
            results.push(match millions {
                COUNTED => counted(built, work, cpu, trace)?,
                _ => {
                    let best = (0..3).map(|_| rate(built, work, cpu, trace));
                    best.collect::<Result<Vec<_>>>()?
                        .into_iter()
                        .fold(0.0, f64::max)
                }
            });
        }
    }
    let name = format!("gzip of {} on {}", set.debian.arch, set.cpu);
    let figure = |what: String, value, unit, limit| Figure::new(what, value, unit, limit);
    let mut figures = Vec::new();
    if let [native, ours] = *work_of {
        let unit = "machine instructions per instruction";
        figures.push(figure(
            "gzip of x86-64 on skl".into(),
            native,
            unit,
            Limit::None,
        ));
        figures.push(figure(name.clone(), ours, unit, Limit::Most(1.2 * native)));
    }
    if let [native, ours] = *seconds_of {
        let unit = "M instructions per CPU second";
        figures.push(figure(
            "gzip of x86-64 on skl".into(),
            native,
            unit,
            Limit::None,
        ));
        figures.push(figure(name, ours, unit, Limit::Least(native / 1.2)));
    }
    Ok(figures)
}

/// What the tables add to the program's file, and to its start.
fn tables(built: &Path) -> Result<Vec<Figure>> {
    let mut bytes = 0;
    for name in ["aarch64.isa", "riscv.isa"] {
        bytes += fs::metadata(folder().join(name))?.len();
    }
    let mut figures = vec![Figure::new(
        "tables of both instruction sets",
        bytes as f64 / 1024.0,
        "KiB",
        Limit::Most(1024.0),
    )];
    // A block of one instruction: what is not asked for must not be read.
    for (arch, cpu, hex) in [
        ("x86-64", "skl", "4801d8"),
        ("aarch64", "neoverse-n1", "2000028b"),
        ("riscv64", "sifive-p670", "3385c500"),
    ] {
        let mut milliseconds = f64::INFINITY;
        for _ in 0..5 {
            let started = std::time::Instant::now();
            let mut block = command(built.join("mcad"));
            block.args(["block", "--arch", arch, "--cpu", cpu, "--json", "-"]);
            let text = output(block.args(["--hex", hex]));
            let text = text.with_context(|| format!("`mcad block --arch {arch}` fails"))?;
            let _: Value = serde_json::from_str(&text)?;
            milliseconds = milliseconds.min(started.elapsed().as_secs_f64() * 1e3);
        }
        figures.push(Figure::new(
            format!("mcad block --arch {arch}, all of it"),
            milliseconds,
            "ms",
            Limit::None,
        ));
    }
    Ok(figures)
}
