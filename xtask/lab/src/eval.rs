//! `cargo xtask eval-main`: the figures that the project promises for whole programs, measured.
//!
//! Speeds are per second of processor time over all threads, so they hold on a loaded machine, too,
//! as far as its cores share caches and hyper-threads. Each figure is printed with its limit; the exit status is 1 when one is
//! missed.

mod cores;
pub mod diff;
pub mod functions;
pub mod instructions;
pub mod isa;
pub mod kernels;
pub mod profile;
mod program;
pub mod programs;
mod speed;
mod straight;
pub mod views;
mod wheel;

use std::fmt;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};

use xtask::build;
use xtask::setup;

/// Options of `cargo xtask eval-main`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Video that ffmpeg decodes; without it a test picture of two seconds is made
    #[arg(long, value_name = "FILE")]
    clip: Option<PathBuf>,
    /// CPU model
    #[arg(long, value_name = "NAME", default_value = "skl")]
    cpu: String,
    /// How many times the instructions the long run has
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100))]
    longer: u32,
    /// Only how fast recorded programs are simulated, and the work that takes
    #[arg(long, conflicts_with = "command")]
    speed: bool,
    /// Another program to measure instead of ffmpeg, without a long run
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// The name of the host's own model.
const NATIVE: &str = "native";

/// What is simulated beside native runs, and by which build.
#[derive(Debug, clap::Args)]
pub struct Simulated {
    /// CPU model, or a file of one; `native` is the one of the CPU at hand
    #[arg(long, value_name = "NAME", default_value = NATIVE)]
    cpu: String,
    /// Simulate with the programs that are built here [default: a release build of this tree]
    #[arg(long, value_name = "DIR")]
    built: Option<PathBuf>,
}

impl Simulated {
    /// The directory of the build.
    fn built(&self) -> Result<PathBuf> {
        match &self.built {
            Some(built) => Ok(std::path::absolute(built)?),
            None => build::release(),
        }
    }
}

/// A measured figure with its limit.
pub struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    limit: Limit,
}

/// What a figure must keep.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Not above.
    Most(f64),
    /// Not below.
    Least(f64),
    /// Told, not judged.
    None,
}

impl Figure {
    /// A figure to print.
    pub fn new(name: impl Into<String>, value: f64, unit: &'static str, limit: Limit) -> Self {
        Self {
            name: name.into(),
            value,
            unit,
            limit,
        }
    }

    fn kept(&self) -> bool {
        match self.limit {
            Limit::Most(limit) => self.value <= limit,
            Limit::Least(limit) => self.value >= limit,
            Limit::None => true,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = match self.limit {
            Limit::Most(limit) => format!("(at most {limit})"),
            Limit::Least(limit) => format!("(at least {limit})"),
            Limit::None => String::new(),
        };
        let mark = if self.kept() { "ok    " } else { "MISSED" };
        let Self {
            name, value, unit, ..
        } = self;
        write!(f, "{mark}  {name:<44} {value:>10.3} {unit} {limit}")
    }
}

/// A text file, compressed with xz or not.
pub fn read_text(path: &Path) -> Result<String> {
    let name = || format!("cannot read {}", path.display());
    let bytes = fs::read(path).with_context(name)?;
    if !bytes.starts_with(b"\xfd7zXZ\0") {
        return String::from_utf8(bytes).with_context(name);
    }
    let mut text = String::new();
    liblzma::read::XzDecoder::new_multi_decoder(bytes.as_slice())
        .read_to_string(&mut text)
        .with_context(name)?;
    Ok(text)
}

/// Prints figures beside their limits; fails when one is missed.
#[allow(clippy::print_stdout)] // Its output is what it is for.
fn judge(figures: &[Figure]) -> ExitCode {
    println!();
    for figure in figures {
        println!("{figure}");
    }
    if figures.iter().all(Figure::kept) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Measures and prints everything.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::run(&setup::Args {
        tests: true,
        build_qemu: false,
    })?;
    setup::install_newest_llvm()?;
    let built = build::release()?;
    let work = build::target_dir().join("eval");
    fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    if args.speed {
        return Ok(judge(&speed::measure(&built, &work)?));
    }
    let mut figures = if args.command.is_empty() {
        let clip = match &args.clip {
            Some(clip) => std::path::absolute(clip)?,
            None => program::make_clip(&work)?,
        };
        let longer = program::Longer {
            times: args.longer,
            command: &|times| program::ffmpeg(&clip, times),
        };
        let short = program::ffmpeg(&clip, 1);
        let mut figures = program::measure(&built, &work, &args.cpu, &short, Some(&longer))?;
        figures.extend(speed::measure(&built, &work)?);
        figures
    } else {
        program::measure(&built, &work, &args.cpu, &args.command, None)?
    };
    figures.extend(straight::measure(&built, &work)?);
    Ok(judge(&figures))
}
