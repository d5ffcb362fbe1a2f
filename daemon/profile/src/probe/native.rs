//! Assembles probes and runs them on this CPU.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Source;
use super::program::{CHAIN_CYCLES, ROUND_BYTES, text};

/// Rounds whose clock is this much off the quickest chain are left out: the clock changed or the
/// core was busy with something else.
const DRIFT: f64 = 0.02;

/// What a probe took on this CPU, in core cycles for one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cycles {
    /// Least over the rounds.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Rounds that count.
    pub rounds: usize,
}

/// Why a probe gives no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// A tool is not there.
    #[error("cannot run {0}: probes are assembled with binutils (apt-get install binutils)")]
    NoTool(&'static str),
    /// A tool refused the text.
    #[error("{tool} refused the probe: {messages}")]
    Refused {
        /// Its name.
        tool: &'static str,
        /// What it said.
        messages: String,
    },
    /// The system.
    #[error("cannot {what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// The program ended with something else than its rounds.
    #[error("the probe ended with {0}")]
    Ended(String),
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ProbeError {
    move |cause| ProbeError::System { what, cause }
}

/// A probe's executable, removed with this.
#[derive(Debug)]
pub struct Executable {
    directory: tempfile::TempDir,
}

impl Executable {
    /// Assembles and links.
    ///
    /// # Errors
    /// [`ProbeError`] when binutils are missing or the probe is no program.
    pub fn new(source: &Source) -> Result<Self, ProbeError> {
        let directory = tempfile::tempdir().map_err(system("make a directory"))?;
        let path = |name| directory.path().join(name);
        std::fs::write(path("probe.s"), text(source)).map_err(system("write the probe"))?;
        let tool = |tool: &'static str, command: &mut Command| -> Result<(), ProbeError> {
            let output = command.output().map_err(|e| match e.kind() {
                ErrorKind::NotFound => ProbeError::NoTool(tool),
                _ => system("run binutils")(e),
            })?;
            if output.status.success() {
                return Ok(());
            }
            let messages = String::from_utf8_lossy(&output.stderr);
            Err(ProbeError::Refused {
                tool,
                messages: messages.chars().take(2000).collect(),
            })
        };
        let (object, program) = (path("probe.o"), path("probe"));
        tool(
            "as",
            Command::new("as")
                .args(["--64", "-o"])
                .arg(&object)
                .arg(path("probe.s")),
        )?;
        tool(
            "ld",
            Command::new("ld").arg("-o").arg(&program).arg(&object),
        )?;
        Ok(Self { directory })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("probe")
    }

    /// Runs it for so many rounds, the first of which does not count.
    ///
    /// # Errors
    /// [`ProbeError`] when it does not run to its end.
    pub fn run(&self, rounds: u32, operations: f64) -> Result<Cycles, ProbeError> {
        let program = self.path();
        let output = Command::new(&program)
            .args(arguments(rounds, "x"))
            .output()
            .map_err(system("run the probe"))?;
        if !output.status.success() {
            return Err(ProbeError::Ended(output.status.to_string()));
        }
        cycles(&output.stdout, operations)
            .ok_or_else(|| ProbeError::Ended(format!("{} bytes", output.stdout.len())))
    }
}

/// The arguments that make a probe run so many rounds, two at least; its name counts as one.
fn arguments(rounds: u32, argument: &'static str) -> impl Iterator<Item = &'static str> {
    (1..rounds.max(2)).map(move |_| argument)
}

/// The command line for `rounds` rounds without output.
#[must_use]
pub fn command(program: &Path, rounds: u32) -> Vec<std::ffi::OsString> {
    let mut command = vec![program.into()];
    command.extend(arguments(rounds, "s").map(Into::into));
    command
}

/// Cycles from the ticks that a program wrote.
fn cycles(ticks: &[u8], operations: f64) -> Option<Cycles> {
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
    let rounds: Vec<(u64, u64)> = ticks
        .chunks_exact(ROUND_BYTES)
        .skip(1)
        .filter_map(|round| Some((number(round.get(..8)?)?, number(round.get(8..)?)?)))
        .collect();
    let quickest = rounds.iter().map(|(chain, _)| *chain).min()? as f64;
    let mut cycles: Vec<f64> = rounds
        .iter()
        .filter(|(chain, _)| *chain as f64 <= quickest * (1.0 + DRIFT))
        .map(|(chain, run)| *run as f64 * CHAIN_CYCLES / *chain as f64 / operations)
        .collect();
    cycles.sort_by(f64::total_cmp);
    Some(Cycles {
        min: *cycles.first()?,
        median: *cycles.get(cycles.len() / 2)?,
        rounds: cycles.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{counted, repeated};

    #[test]
    fn ticks_become_cycles() {
        let mut ticks = Vec::new();
        for (chain, run) in [(1u64, 1u64), (6000, 12_000), (6000, 18_000), (9000, 2000)] {
            ticks.extend_from_slice(&chain.to_le_bytes());
            ticks.extend_from_slice(&run.to_le_bytes());
        }
        // The first round warms up, the last one's clock is off.
        let cycles = cycles(&ticks, 1000.0).unwrap();
        assert_eq!((cycles.min, cycles.median, cycles.rounds), (12.0, 18.0, 2));
        assert!(super::cycles(&[0; 16], 1.0).is_none());
    }

    #[test]
    fn a_chain_of_additions_takes_a_cycle_each() {
        let source = Source {
            run: counted(2000, &repeated(50, "add rax, rbx")),
            operations: 100_000.0,
            data: 4096,
            ..Source::default()
        };
        let cycles = Executable::new(&source)
            .unwrap()
            .run(40, source.operations)
            .unwrap();
        assert!((cycles.min - 1.0).abs() < 0.05, "{cycles:?}");
    }
}
