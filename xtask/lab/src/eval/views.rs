//! `cargo xtask eval-views`: the figures that the project promises for what people see, measured;
//! one file per section.

mod exports;
mod page;
mod perfetto;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};

use super::Figure;
use xtask::command::{command, execute};
use xtask::{build, setup};

/// Options of `cargo xtask eval-views`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these sections (repeatable)
    #[arg(long, value_name = "SECTION")]
    only: Vec<Section>,
    /// Video that ffmpeg decodes for the page; without it a test picture of two seconds is made
    #[arg(long, value_name = "FILE")]
    clip: Option<PathBuf>,
}

/// A part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Section {
    /// Speed and memory of recording and exporting timelines
    Exports,
    /// The HTML page of an ffmpeg run in Chromium
    Page,
    /// Chrome traces in Perfetto's trace processor
    Perfetto,
}

const ALL: [Section; 3] = [Section::Exports, Section::Page, Section::Perfetto];

/// Where programs and files are.
struct Place {
    /// Built programs.
    built: PathBuf,
    /// Files of the evaluation.
    work: PathBuf,
}

/// Measures and prints all sections or the chosen ones.
pub fn run(args: &Args) -> Result<ExitCode> {
    setup::run(&setup::Args {
        tests: true,
        build_qemu: false,
    })?;
    let place = Place {
        built: build::release()?,
        work: build::target_dir().join("eval"),
    };
    let work = &place.work;
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    let mut figures: Vec<Figure> = Vec::new();
    for section in ALL {
        if args.only.is_empty() || args.only.contains(&section) {
            figures.extend(match section {
                Section::Exports => exports::measure(&place)?,
                Section::Page => page::measure(&place, args.clip.as_deref())?,
                Section::Perfetto => perfetto::measure(&place)?,
            });
        }
    }
    Ok(super::judge(&figures))
}

impl Place {
    /// A recorded run of gzip, some 1.6 million instructions.
    fn trace(&self) -> Result<PathBuf> {
        let trace = self.work.join("gzip.mcad");
        execute(
            command(self.built.join("mcad"))
                .args(["record", "-o"])
                .arg(&trace)
                .args(["--", "gzip", "-kc", "LICENSE-APACHE"])
                .stdout(Stdio::null()),
        )?;
        Ok(trace)
    }

    /// The timeline of the first instructions of a trace.
    fn timeline(&self, trace: &Path, records: u64) -> Result<PathBuf> {
        let timeline = self.work.join(format!("gzip-{records}.timeline"));
        execute(
            command(self.built.join("mcad"))
                .args(["replay", "-q", "--cpu", "skl", "--timeline-limit"])
                .args([&records.to_string(), "--json", "/dev/null", "--timeline"])
                .args([&timeline, trace]),
        )?;
        Ok(timeline)
    }
}
