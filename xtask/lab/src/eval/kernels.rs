//! `cargo xtask eval-kernels`: a model is right when the same small program costs the same natively
//! and simulated.
//!
//! `kernels/kernels.cpp` has everyday programs of some thousand cycles, which run again and again
//! until whatever learns has learnt them. Natively the program times its turns itself
//! (`kernels/clock.h`); simulated, two runs of the whole program differ by nothing but turns, so
//! that their difference is what turns cost. The models' figures say nothing of another CPU, so they
//! are judged only where the CPU at hand is the one that is simulated.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;

use super::program::{number, read};
use super::{Figure, Limit, NATIVE, Simulated, judge};
use crate::parallel;
use xtask::build;
use xtask::command::{command, execute, execute_aside, exists, output};

/// Options of `cargo xtask eval-kernels`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    simulated: Simulated,
    /// Only this program (repeatable)
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Only simulate
    #[arg(long)]
    no_native: bool,
    /// Write the figures to a file, too, a line for each program
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Rounds of native measurements, each before and after the simulations, of which the least counts: a neighbour at work on
/// the same core makes one half as long again. All kernels in turn, turns and repeats of each.
const ROUNDS: u32 = 4;
const TURNS: u32 = 40;
const REPEATS: u32 = 15;

/// Turns of the two simulated runs.
const FEW: u32 = 20;
const MANY: u32 = 60;

/// Simulations at a time.
const AT_ONCE: usize = 2;

/// The simulated program sees no AVX-512, since QEMU has none; the native one's C library must not
/// choose it either.
pub(super) const TUNABLES: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-RTM,-Prefer_No_VZEROUPPER",
);

/// Largest mean of the differences' sizes, and largest difference, in per cent.
const MEAN: f64 = 10.0;
const WORST: f64 = 20.0;

/// Measures and prints everything.
///
/// # Errors
/// Without a C++ compiler or a model of the CPU, or when a program fails.
#[allow(clippy::print_stdout)] // Its output is what it is for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let work = build::target_dir().join("eval-kernels");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let kernels = Kernels::compile(&work)?;
    let names = chosen(kernels.names()?, &args.only)?;
    let built = args.simulated.built()?;
    // A file is named from the caller's directory, programs run in the workspace's.
    let cpu = match args.simulated.cpu.ends_with(".toml") {
        true => std::path::absolute(&args.simulated.cpu)?
            .display()
            .to_string(),
        false => args.simulated.cpu.clone(),
    };
    let model = Model::of(&built, &cpu)?;
    println!("simulated: {} ({})", model.full_name, model.name);
    let mut same = false;
    if !args.no_native {
        let host = Model::of(&built, NATIVE).ok();
        same = host.as_ref() == Some(&model);
        let host = host.map_or("one without a model".to_owned(), |host| host.full_name);
        println!(
            "native: the CPU at hand, {host}{}",
            match same {
                true => "",
                false => ", another than is simulated: compared, not judged",
            }
        );
    }
    // One after the other and not beside simulations, so that none is in another's way.
    let mut natives = vec![None; names.len()];
    let measure = |natives: &mut [Option<f64>]| -> Result<()> {
        let rounds = if args.no_native { 0 } else { ROUNDS };
        for round in 1..=rounds {
            eprintln!("measuring natively, round {round} of {rounds}");
            for (name, least) in names.iter().zip(natives.iter_mut()) {
                let cycles = kernels.measure(name)?;
                *least = Some(least.map_or(cycles, |least| cycles.min(least)));
            }
        }
        Ok(())
    };
    measure(&mut natives)?;
    let simulated = parallel::map(&names, AT_ONCE, |name| {
        kernels.simulate(&built, &work, &cpu, name)
    })?;
    measure(&mut natives)?;
    let lines: Vec<Line> = (names.into_iter().zip(natives).zip(simulated))
        .map(|((kernel, native), turn)| Line::new(kernel, native, turn))
        .collect();
    println!("\n{}", Line::HEADER);
    for line in &lines {
        println!("{}", line.text());
    }
    if let Some(path) = &args.csv {
        write(path, &lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(judge(&figures(&lines, same)))
}

/// Those of `names` that are asked for, in the order of the source.
fn chosen(names: Vec<String>, only: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        bail!(
            "--only: there is no {unknown}; there are {}",
            names.join(" ")
        );
    }
    let wanted = |name: &String| only.is_empty() || only.contains(name);
    Ok(names.into_iter().filter(wanted).collect())
}

/// A CPU model as `mcad` knows it.
#[derive(Debug, PartialEq)]
struct Model {
    name: String,
    full_name: String,
}

impl Model {
    /// The model of a name, `native` and other names of it included; what `mcad` says when there is
    /// none.
    fn of(built: &Path, name: &str) -> Result<Self> {
        let mut block = command(built.join("mcad"));
        block.args(["block", "--cpu", name, "--hex", "90", "--json", "-"]);
        let done = block.output().context("cannot run mcad")?;
        if !done.status.success() {
            let message = String::from_utf8_lossy(&done.stderr);
            let message = message.trim();
            bail!("{}", message.strip_prefix("mcad: ").unwrap_or(message));
        }
        let block: Value = serde_json::from_slice(&done.stdout)?;
        let text = |pointer: &str| {
            let value = block.pointer(pointer).and_then(Value::as_str);
            let value = value.with_context(|| format!("`mcad block` has no {pointer}"))?;
            anyhow::Ok(value.to_owned())
        };
        Ok(Self {
            name: text("/blocks/0/cpus/0/cpu")?,
            full_name: text("/blocks/0/cpus/0/cpu_full_name")?,
        })
    }
}

/// Cycles and instructions of a run or a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    cycles: f64,
    instructions: f64,
}

impl Cost {
    /// What a turn costs, from two runs that differ by turns alone.
    fn of_a_turn(few: Self, many: Self) -> Self {
        let turns = f64::from(MANY - FEW);
        Self {
            cycles: (many.cycles - few.cycles) / turns,
            instructions: (many.instructions - few.instructions) / turns,
        }
    }
}

/// The compiled program.
struct Kernels {
    program: PathBuf,
}

impl Kernels {
    /// Compiles it into a directory.
    fn compile(into: &Path) -> Result<Self> {
        if !exists("c++") {
            bail!("there is no C++ compiler (c++): apt-get install g++");
        }
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/kernels.cpp");
        let program = into.join("kernels");
        execute_aside(
            command("c++")
                .args(["-O2", "-g", "-std=c++17", "-o"])
                .args([&program, &source]),
        )?;
        Ok(Self { program })
    }

    /// The names of all, as in the source.
    fn names(&self) -> Result<Vec<String>> {
        let text = output(command(&self.program).arg("list"));
        let text = text.context("`kernels list` fails")?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Core cycles of a turn on the CPU at hand.
    fn measure(&self, name: &str) -> Result<f64> {
        let mut measure = command(&self.program);
        measure
            .env(TUNABLES.0, TUNABLES.1)
            .args(["measure", name, &TURNS.to_string(), &REPEATS.to_string()])
            .stderr(Stdio::inherit());
        let done = measure.output().context("cannot run kernels")?;
        let text = String::from_utf8_lossy(&done.stdout);
        let cycles = text.trim().parse::<f64>().ok();
        let cycles = cycles.filter(|_| done.status.success());
        cycles.with_context(|| format!("`kernels measure {name}` fails"))
    }

    /// What a turn costs simulated.
    fn simulate(&self, built: &Path, work: &Path, cpu: &str, name: &str) -> Result<Cost> {
        let of = |turns: u32| -> Result<Cost> {
            let json = work.join(format!("{name}-{turns}.json"));
            execute(
                command(built.join("mcad-run"))
                    .args(["-q", "--cpu", cpu, "--json"])
                    .arg(&json)
                    .arg("--")
                    .arg(&self.program)
                    .args(["run", name, &turns.to_string()])
                    .stdin(Stdio::null()),
            )?;
            let report = read(&json)?;
            Ok(Cost {
                cycles: number(&report, "/cpus/0/cycles")?,
                instructions: number(&report, "/cpus/0/instructions")?,
            })
        };
        Ok(Cost::of_a_turn(of(FEW)?, of(MANY)?))
    }
}

/// What a turn of one program takes.
#[derive(Debug, Serialize)]
struct Line {
    kernel: String,
    native_cycles: Option<f64>,
    instructions: f64,
    simulated_cycles: f64,
    difference_percent: Option<f64>,
}

impl Line {
    const HEADER: &str = "kernel               native   IPC  simulated  difference";

    fn new(kernel: String, native_cycles: Option<f64>, turn: Cost) -> Self {
        Self {
            kernel,
            native_cycles,
            instructions: turn.instructions,
            simulated_cycles: turn.cycles,
            difference_percent: native_cycles.map(|native| 100.0 * (turn.cycles / native - 1.0)),
        }
    }

    /// As a line below the header. Instructions per cycle are native ones where there are any.
    fn text(&self) -> String {
        let native = self.native_cycles.map(|cycles| format!("{cycles:.0}"));
        let difference = self.difference_percent.map(|d| format!("{d:+.1} %"));
        format!(
            "{:<16} {:>10} {:>5.2} {:>10.0} {:>11}",
            self.kernel,
            native.as_deref().unwrap_or("-"),
            self.instructions / self.native_cycles.unwrap_or(self.simulated_cycles),
            self.simulated_cycles,
            difference.as_deref().unwrap_or("-"),
        )
    }
}

/// What the differences come to, which there are none of without native figures.
fn figures(lines: &[Line], judged: bool) -> Vec<Figure> {
    let named = |line: &Line| Some((line.kernel.clone(), line.difference_percent?));
    let differences: Vec<(String, f64)> = lines.iter().filter_map(named).collect();
    let worst = (differences.iter()).max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
    let Some((worst, most)) = worst else {
        return Vec::new();
    };
    let count = differences.len() as f64;
    let size: f64 = differences.iter().map(|(_, d)| d.abs()).sum();
    let signed: f64 = differences.iter().map(|(_, d)| d).sum();
    let limit = |most| match judged {
        true => Limit::Most(most),
        false => Limit::None,
    };
    vec![
        Figure::new("mean size of differences", size / count, "%", limit(MEAN)),
        Figure::new(format!("largest: {worst}"), most.abs(), "%", limit(WORST)),
        Figure::new("mean of differences", signed / count, "%", Limit::None),
    ]
}

fn write(path: &Path, lines: &[Line]) -> Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    for line in lines {
        csv.serialize(line)?;
    }
    Ok(csv.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All programs, as docs and lists of figures name them.
    const NAMES: [&str; 28] = [
        "sort",
        "qsort",
        "unordered_map",
        "map",
        "lexer",
        "snprintf",
        "objects",
        "histogram",
        "lz",
        "range_coder",
        "fib",
        "malloc",
        "short_strings",
        "c_strings",
        "vm",
        "matmul",
        "crc",
        "strtol",
        "bigmul",
        "utf8",
        "bst",
        "division",
        "itoa",
        "branches",
        "sqrt",
        "memcmp",
        "copy_blocks",
        "calls_virtual",
    ];

    #[test]
    fn a_turn_is_a_fortieth_of_what_forty_more_turns_take() {
        let of = |turns: f64| Cost {
            cycles: 500_000.0 + 1_250.0 * turns,
            instructions: 100_000.0 + 2_500.0 * turns,
        };
        let turn = Cost::of_a_turn(of(20.0), of(60.0));
        assert_eq!((turn.cycles, turn.instructions), (1_250.0, 2_500.0));
        let line = Line::new("fib".into(), Some(1_000.0), turn);
        assert_eq!(line.difference_percent, Some(25.0));
        // 2 500 instructions in the 1 000 cycles of the CPU.
        assert_eq!(
            line.text(),
            "fib                    1000  2.50       1250     +25.0 %"
        );
        let simulated = Line::new("fib".into(), None, turn);
        assert_eq!(
            simulated.text(),
            "fib                       -  2.00       1250           -"
        );
    }

    #[test]
    fn differences_are_summed_up_with_and_without_signs() {
        let line = |name: &str, cycles| {
            let turn = Cost {
                cycles,
                instructions: 1.0,
            };
            Line::new(name.to_owned(), Some(100.0), turn)
        };
        let lines = [line("a", 104.0), line("b", 76.0), line("c", 108.0)];
        let summed = figures(&lines, true);
        let values: Vec<f64> = summed.iter().map(|f| f.value.round()).collect();
        assert_eq!(values, [12.0, 24.0, -4.0]);
        assert!(summed[1].name.ends_with(" b"), "{}", summed[1]);
        let kept: Vec<bool> = summed.iter().map(Figure::kept).collect();
        assert_eq!(kept, [false, false, true]);
        // What is native of another CPU is told, not judged.
        assert!(figures(&lines, false).iter().all(Figure::kept));
        let turn = Cost {
            cycles: 1.0,
            instructions: 1.0,
        };
        assert!(figures(&[Line::new("a".into(), None, turn)], true).is_empty());
    }

    #[test]
    fn programs_are_chosen_in_the_sources_order() {
        let all = || NAMES.map(str::to_owned).to_vec();
        let only = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(chosen(all(), &[]).unwrap(), NAMES);
        assert_eq!(chosen(all(), &only(&["lz", "map"])).unwrap(), ["map", "lz"]);
        let error = chosen(all(), &only(&["lz", "no_such"])).unwrap_err();
        assert!(error.to_string().contains("no no_such"), "{error}");
    }

    #[test]
    fn all_programs_compile_run_and_are_measured() {
        let directory = tempfile::tempdir().unwrap();
        let kernels = Kernels::compile(directory.path()).unwrap();
        assert_eq!(kernels.names().unwrap(), NAMES);
        let run = |words: &[&str]| {
            let done = command(&kernels.program).args(words).output().unwrap();
            (done.status.code(), String::from_utf8(done.stdout).unwrap())
        };
        for name in NAMES {
            // Nothing is printed, since printing would be simulated.
            assert_eq!(run(&["run", name, "1"]), (Some(0), String::new()), "{name}");
        }
        let (status, cycles) = run(&["measure", "fib", "1", "1"]);
        assert_eq!(status, Some(0));
        assert!(cycles.trim().parse::<f64>().unwrap() > 0.0, "{cycles}");
        for wrong in [
            &["run", "no_such", "1"][..],
            &["run", "fib", "0"],
            &["measure", "fib", "1"],
            &[],
        ] {
            assert_eq!(run(wrong), (Some(2), String::new()), "{wrong:?}");
        }
    }
}
