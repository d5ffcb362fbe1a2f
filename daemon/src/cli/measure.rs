//! `mcad-run --measure`: the traced program once more without emulator, several times, so that
//! prediction and measurement stand side by side.

use std::ffi::OsString;

use mcad_report::Measured;

/// How often a program is measured unless told otherwise: until its cycles are known, so often at
/// least and at most.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const RUNS: (u32, u32) = (10, 100);

/// Not more than the fewest once they took so long.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

/// What to measure, checked before the program is traced.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) struct Measure(mcad_profile::command::Experiment, bool);

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl Measure {
    /// Plans `runs` runs, or as many as it takes, of a command that reads what this process reads.
    ///
    /// # Errors
    /// When that can be read only once.
    pub(super) fn new(
        runs: Option<u32>,
        command: &[OsString],
        quiet: bool,
    ) -> anyhow::Result<Self> {
        use mcad_profile::command::{Experiment, Runs};

        let mut experiment = Experiment::new(command.to_vec());
        experiment.runs = match runs {
            Some(runs) => Runs::Exactly(runs),
            None => Runs::UntilSteady {
                least: RUNS.0,
                most: RUNS.1,
                patience: PATIENCE,
            },
        };
        experiment.input = input()?;
        // Who runs a program does not ask for real-time priority.
        experiment.ahead = false;
        // On a busy machine an uncertain figure beside the prediction is better than none, as long as
        // it says so.
        experiment.any_clock = true;
        Ok(Self(experiment, quiet))
    }

    /// Runs the command.
    ///
    /// # Errors
    /// When it cannot be measured.
    pub(super) fn run(&self) -> anyhow::Result<Measured> {
        use mcad_profile::command::{CLAIMED, Doubt};
        use mcad_report::{Interval, Load};

        let m = super::profile::watched(&self.0, self.1)?;
        let whole = |cycles: f64| cycles.round() as u64;
        Ok(Measured {
            host: m.host.name,
            model: m.host.core.map(str::to_owned),
            source: m.source.to_string(),
            runs: m.cycles.runs as u64,
            rejected: (m.drifted + m.shared + m.outliers) as u64,
            cycles: whole(m.cycles.quartiles.median),
            low: whole(m.cycles.quartiles.low),
            high: whole(m.cycles.quartiles.high),
            min: whole(m.cycles.min),
            interval: Some(Interval {
                low: whole(m.interval.low),
                high: whole(m.interval.high),
                percent: (1000.0 * m.interval.level.min(0.95)).round() / 10.0,
                mostly: match m.interval.mostly {
                    Doubt::Runs => "runs",
                    Doubt::Ticks => "ticks",
                    Doubt::Samples => "samples",
                    Doubt::Clock => "clock",
                }
                .to_owned(),
                asked_percent: 100.0 * CLAIMED,
            }),
            load: m.load.map(|load| Load {
                others: (100.0 * load.others).round() / 100.0,
                cpus: load.cpus as u64,
                busy: load.is_busy(),
            }),
            not_from_exec: m.not_from_exec,
            core_mhz: m.core_mhz,
        })
    }
}

/// How stdin is given to every run.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn input() -> anyhow::Result<mcad_profile::command::Input> {
    use mcad_profile::command::Input;
    use rustix::fs::{FileType, SeekFrom, fstat, seek};

    let stdin = std::io::stdin();
    let Ok(stat) = fstat(&stdin) else {
        return Ok(Input::Nothing);
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let offset = seek(&stdin, SeekFrom::Current(0))?;
            Ok(Input::OwnFile { offset })
        }
        FileType::CharacterDevice => Ok(Input::Inherited),
        _ => anyhow::bail!(
            "--measure runs the program again, and its stdin can be read only once; \
             give it a file (< FILE)"
        ),
    }
}

/// What to measure: nothing, on this system.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub(super) struct Measure(std::convert::Infallible);

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
impl Measure {
    pub(super) fn new(_: Option<u32>, _: &[OsString], _: bool) -> anyhow::Result<Self> {
        anyhow::bail!("--measure needs x86-64 Linux")
    }

    pub(super) fn run(&self) -> anyhow::Result<Measured> {
        match self.0 {}
    }
}
