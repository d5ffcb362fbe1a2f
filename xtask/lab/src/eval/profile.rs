//! `cargo xtask eval-profile`: what is promised of `mcad profile block`, measured on this CPU.
//!
//! The same blocks are measured twice, with another core busy; the two runs are compared with each
//! other, and with labels. Labels of another kind of CPU say nothing, so that comparison is judged
//! only with --same-cpu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{Figure, Limit};
use xtask::build;
use xtask::command::{command, execute};

/// Options of `cargo xtask eval-profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Blocks with measured cycles, unrolled: DATA/goldencove/U.csv.xz (docs/PROFILE.md)
    #[arg(long, value_name = "FILE")]
    unrolled: Option<PathBuf>,
    /// Blocks with measured cycles, as loops: DATA/goldencove/L.csv.xz (docs/PROFILE.md)
    #[arg(long, value_name = "FILE")]
    loops: Option<PathBuf>,
    /// How many blocks of each
    #[arg(long, value_name = "N", default_value_t = 2000)]
    sample: usize,
    /// Which
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// The labels were measured on a CPU of this kind
    #[arg(long)]
    same_cpu: bool,
}

/// What is promised for one notion.
struct Promise {
    mode: &'static str,
    measured: f64,
    as_labelled: f64,
}

const UNROLLED: Promise = Promise {
    mode: "unrolled",
    measured: 97.0,
    as_labelled: 95.0,
};
const LOOPS: Promise = Promise {
    mode: "loop",
    measured: 97.0,
    as_labelled: 93.0,
};

/// Relative difference that counts as agreement.
const AGREEMENT: f64 = 0.01;

/// Measures and prints everything.
#[allow(clippy::print_stdout)] // Its output is what it is for.
pub fn run(args: &Args) -> Result<ExitCode> {
    let parts = [(&args.unrolled, UNROLLED), (&args.loops, LOOPS)];
    if parts.iter().all(|(file, _)| file.is_none()) {
        bail!("give --unrolled FILE, --loops FILE or both");
    }
    let mcad = build::release()?.join("mcad");
    let work = build::target_dir().join("eval-profile");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    execute(command(&mcad).args(["profile", "clock"]))?;
    let mut figures = Vec::new();
    for (file, promise) in parts {
        if let Some(file) = file {
            let rows = sample(read(file)?, args.sample, args.seed);
            figures.extend(measure(&mcad, &work, &rows, &promise, args.same_cpu)?);
        }
    }
    println!();
    for figure in &figures {
        println!("{figure}");
    }
    Ok(if figures.iter().all(Figure::kept) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A block and its label, or what a run gave.
type Row = (String, Option<f64>);

fn read(path: &Path) -> Result<Vec<Row>> {
    let text = super::read_text(path)?;
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.split(',');
        let hex = fields.next()?;
        Some((hex.to_owned(), fields.next()?.parse().ok()))
    });
    Ok(rows.collect())
}

/// `count` rows in an order that depends on nothing but them and the seed.
fn sample(mut rows: Vec<Row>, count: usize, seed: u64) -> Vec<Row> {
    let hash = |text: &str| {
        let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        text.bytes().fold(start, fnv)
    };
    rows.sort_by_cached_key(|(hex, _)| hash(hex));
    rows.truncate(count);
    rows
}

fn measure(
    mcad: &Path,
    work: &Path,
    rows: &[Row],
    promise: &Promise,
    same_cpu: bool,
) -> Result<Vec<Figure>> {
    let input = work.join("blocks.csv");
    let blocks: String = rows.iter().map(|(hex, _)| format!("{hex}\n")).collect();
    fs::write(&input, blocks)?;
    let busy = AtomicBool::new(true);
    let (runs, seconds) = std::thread::scope(|scope| -> Result<_> {
        scope.spawn(|| {
            while busy.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let measured = (|| {
            let mut runs = Vec::new();
            let started = Instant::now();
            for n in 0..2 {
                let output = work.join(format!("{}{n}.csv", promise.mode));
                let mut run = command(mcad);
                run.args(["profile", "block", "--init", "filled"])
                    .args(["--mode", promise.mode, "--batch"])
                    .arg(&input)
                    .arg("-o")
                    .arg(&output);
                execute(&mut run)?;
                runs.push(read(&output)?);
            }
            Ok((runs, started.elapsed().as_secs_f64()))
        })();
        busy.store(false, Ordering::Relaxed);
        measured
    })?;
    let [first, second] = runs.as_slice() else {
        bail!("two runs were expected");
    };
    let judged = |limit| if same_cpu { limit } else { Limit::None };
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let measured = first.iter().filter(|(_, cycles)| cycles.is_some()).count();
    let repeated = Agreement::of(first, second);
    let labelled = Agreement::of(rows, first);
    let [name, agreement, speed, labels] = match promise.mode {
        "loop" => [
            "loops measured",
            "loops: two runs within 1 %",
            "loops: blocks a second",
            "loops: within 1 % of the labels",
        ],
        _ => [
            "unrolled measured",
            "unrolled: two runs within 1 %",
            "unrolled: blocks a second",
            "unrolled: within 1 % of the labels",
        ],
    };
    Ok(vec![
        Figure::new(
            name,
            share(measured, rows.len()),
            "%",
            judged(Limit::Least(promise.measured)),
        ),
        Figure::new(agreement, repeated.share(), "%", Limit::Least(95.0)),
        Figure::new(
            speed,
            2.0 * rows.len() as f64 / seconds,
            "",
            Limit::Least(150.0),
        ),
        Figure::new(
            labels,
            labelled.share(),
            "%",
            judged(Limit::Least(promise.as_labelled)),
        ),
    ])
}

/// How many of the blocks that two lists both have figures for agree.
#[derive(Default)]
struct Agreement {
    both: usize,
    within: usize,
}

impl Agreement {
    fn of(a: &[Row], b: &[Row]) -> Self {
        let pairs = a.iter().zip(b);
        pairs.fold(Self::default(), |mut sum, ((_, a), (_, b))| {
            if let (Some(a), Some(b)) = (a, b) {
                sum.both += 1;
                sum.within += usize::from((b / a - 1.0).abs() <= AGREEMENT);
            }
            sum
        })
    }

    fn share(&self) -> f64 {
        100.0 * self.within as f64 / self.both.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_blocks_neither_agree_nor_disagree() {
        let row = |cycles| (String::from("90"), cycles);
        let first = [row(Some(1.0)), row(Some(2.0)), row(None), row(Some(1.0))];
        let second = [row(Some(1.009)), row(Some(2.1)), row(Some(1.0)), row(None)];
        let agreement = Agreement::of(&first, &second);
        assert_eq!((agreement.both, agreement.within), (2, 1));
        assert_eq!(agreement.share(), 50.0);
    }

    #[test]
    fn samples_depend_on_rows_and_seed_only() {
        let rows =
            |order: &[u32]| -> Vec<Row> { order.iter().map(|n| (n.to_string(), None)).collect() };
        let one = sample(rows(&[1, 2, 3, 4, 5]), 3, 7);
        assert_eq!(one, sample(rows(&[5, 4, 3, 2, 1]), 3, 7));
        assert_eq!(one.len(), 3);
    }
}
