//! Runs of a list's programs, several at once: each is an `mcad run` of its own, whose program has
//! the environment and input of its line, and its output thrown away.
//!
//! One that fails keeps nothing from the others. What is finished is appended to a file of results, one JSON line each, if there is one: an
//! evaluation of hours that was ended goes on where it was. A result is that of one build of this
//! program, one CPU model and one program: with another of any of them it is not used.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, bail};
use mcad_viewers::escape::escape;
use serde::{Deserialize, Serialize};

use crate::cli::listed::Listed;
use crate::cli::model::{is_file, resolved};
use crate::cli::output::incomplete;
use crate::cli::report_file;
use crate::eval::programs::Row;
use crate::files::path_of;

/// What a run gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub cycles: u64,
    pub instructions: u64,
}

/// A line of the file of results.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// All that it depends on but the program's inputs.
    key: String,
    #[serde(flatten)]
    outcome: Outcome,
}

/// Results that are kept.
struct Kept {
    known: Vec<Line>,
    file: Option<File>,
}

impl Kept {
    fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let mut known = Vec::new();
        let Some(path) = path else {
            let file = None;
            return Ok(Self { known, file });
        };
        let name = path.display();
        if let Ok(file) = File::open(path) {
            for (n, line) in BufReader::new(file).lines().enumerate() {
                let line = line.with_context(|| format!("cannot read {name}"))?;
                // An evaluation that was ended may have left half of its last line.
                match serde_json::from_str(&line) {
                    Ok(line) => known.push(line),
                    Err(_) => crate::say!("mcad: {name}: line {} is no result; left out", n + 1),
                }
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = Some(file.with_context(|| format!("cannot write {name}"))?);
        Ok(Self { known, file })
    }

    fn get(&self, key: &str) -> Option<Outcome> {
        let mut found = self.known.iter().filter(|line| line.key == key);
        found.next_back().map(|line| line.outcome)
    }

    fn add(&mut self, key: String, outcome: Outcome) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let line = serde_json::to_string(&Line { key, outcome })?;
            // In one piece, and on a line of its own.
            writeln!(file, "{line}").context("cannot write the results")?;
        }
        Ok(())
    }
}

/// Runs all jobs on a CPU, `at_once` at a time, and gives what they took in their order; says on
/// stderr which begins and ends.
///
/// # Errors
/// Within the list those of the jobs; else what keeps all of them from being run.
pub(super) fn run_all(
    jobs: &[Listed],
    cpu: &str,
    at_once: usize,
    results: Option<&Path>,
) -> anyhow::Result<Vec<anyhow::Result<Outcome>>> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    // The simulator and its built-in models are all in this file; a model of one's own is not.
    let simulator = digest(std::iter::once(own.clone()).chain(model_files(cpu)))?;
    let kept = Mutex::new(Kept::open(results)?);
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let run = |n: usize, job: &Listed| {
        let key = key(job, cpu, simulator)?;
        if let Some(known) = with(&kept, |kept| kept.get(&key)) {
            return Ok(known);
        }
        crate::say!("mcad: {} ({} of {})", job.name(), n + 1, jobs.len());
        let outcome = one(&own, job, cpu)?;
        with(&kept, |kept| kept.add(key, outcome))?;
        Ok(outcome)
    };
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(n) else { return };
            let outcome = run(n, job);
            if let Err(error) = &outcome {
                // Told at once, since the end may be hours away.
                crate::say!("mcad: {}: {}", job.name(), escape(&format!("{error:#}")));
            }
            with(&outcomes, |all| all.push((n, outcome)));
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
    });
    let mut all = with(&outcomes, std::mem::take);
    all.sort_by_key(|(n, _)| *n);
    Ok(all.into_iter().map(|(_, outcome)| outcome).collect())
}

fn with<T, R>(mutex: &Mutex<T>, f: impl FnOnce(&mut T) -> R) -> R {
    f(&mut mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// What QEMU shows the program, unless the CPU model says that.
fn qemu_cpu(row: &Row) -> Option<&str> {
    row.qemu_cpu.as_deref().filter(|name| !name.is_empty())
}

/// What tells a result from those of other simulators, CPUs, programs and command lines.
fn key(job: &Listed, cpu: &str, simulator: u64) -> anyhow::Result<String> {
    let program = digest(job.command.first().map(Path::new))?;
    let stdin = digest(&job.stdin)?;
    Ok(format!(
        "{simulator:016x} {} {:?} {:?} {:?} {:?} {:?} {stdin:016x} {program:016x}",
        resolved(cpu),
        job.row.last_level_kib,
        job.row.core_mhz,
        qemu_cpu(&job.row),
        job.environment,
        job.command
    ))
}

/// The files that make a CPU model, if it is a file: it and those that it is based on. Names of
/// built-in models are no files.
fn model_files(cpu: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    let directory = Path::new(cpu).parent().unwrap_or(Path::new(""));
    let mut next = is_file(cpu).then(|| PathBuf::from(cpu));
    // A circle has been refused before, as has a file that is none.
    while let Some(file) = next.filter(|file| !files.contains(file)) {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let table: Option<toml::Table> = text.parse().ok();
        let base = table.as_ref().and_then(|table| table.get("base")?.as_str());
        next = base.filter(|base| is_file(base)).map(|b| directory.join(b));
        files.push(file);
    }
    files
}

/// A digest of files' contents, the same as long as they are.
fn digest(files: impl IntoIterator<Item = impl AsRef<Path>>) -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in files {
        let path = path.as_ref();
        let bytes = std::fs::read(path);
        hasher.write(&bytes.with_context(|| format!("cannot read {}", path.display()))?);
    }
    Ok(hasher.finish())
}

/// Runs one.
fn one(own: &Path, job: &Listed, cpu: &str) -> anyhow::Result<Outcome> {
    let file = tempfile::tempfile().context("cannot make a file for the report")?;
    let path = path_of(&file);
    let mut command = Command::new(own);
    // Programs are measured on one CPU.
    command.args(["run", "--quiet", "--cores", "one", "--cpu", cpu, "--json"]);
    command.arg(&path);
    if let Some(qemu_cpu) = qemu_cpu(&job.row) {
        command.args(["--qemu-cpu", qemu_cpu]);
    }
    if let Some(kib) = job.row.last_level_kib {
        command.args(["--last-level", &kib.to_string()]);
    }
    if let Some(mhz) = job.row.core_mhz {
        command.args(["--clock", &mhz.to_string()]);
    }
    command.arg("--").args(&job.command);
    command.env_remove("MCAD_DAEMON");
    command.envs(job.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&job.directory);
    command.stdin(match &job.stdin {
        None => Stdio::null(),
        Some(path) => File::open(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .into(),
    });
    // As in measurements: programs do less work for /dev/null.
    let sink = File::options().write(true).open("/dev/zero");
    command.stdout(sink.context("cannot open /dev/zero")?);
    command.stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start mcad run")?;
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        // The end of it is enough to say what was wrong.
        let mut bytes = Vec::new();
        BufReader::new(stderr).read_to_end(&mut bytes)?;
        let end = bytes.split_off(bytes.len().saturating_sub(2000));
        said = String::from_utf8_lossy(&end).into_owned();
    }
    let status = child.wait().context("cannot wait for mcad run")?;
    let Ok(report) = report_file::read(&path) else {
        bail!("the run gave no report ({status}): {}", said.trim());
    };
    // Less than the whole program would pass for a fast one.
    if !report.program.complete {
        bail!("{}", incomplete(&report));
    }
    if report.program.end.starts_with("signal ") || report.trace.instructions == 0 {
        bail!("the program did not run to its end: {}", report.program.end);
    }
    let cpu = report.cpus.first().context("the report has no CPU")?;
    Ok(Outcome {
        cycles: cpu.cycles,
        instructions: report.trace.instructions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_results_are_found_again_and_half_a_line_is_left_out() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("results");
        let outcome = |cycles| Outcome {
            cycles,
            instructions: 7,
        };
        let mut kept = Kept::open(Some(&path))?;
        kept.add("a \"b\"".into(), outcome(1))?;
        kept.add("c".into(), outcome(2))?;
        drop(kept);
        let mut text = std::fs::read_to_string(&path)?;
        text.push_str("{\"key\":\"d\",\"cyc\n");
        std::fs::write(&path, text)?;
        let kept = Kept::open(Some(&path))?;
        assert_eq!(kept.get("a \"b\""), Some(outcome(1)));
        assert_eq!(kept.get("c"), Some(outcome(2)));
        assert_eq!(kept.get("d"), None);
        Ok(())
    }

    #[test]
    fn a_result_is_of_one_simulator_model_and_program() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = directory.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path)
        };
        let base = file("base.toml", "base = \"zen5\"\n")?;
        let own = file("own.toml", "base = \"base.toml\"\n")?;
        let name = own.to_string_lossy();
        assert_eq!(model_files("zen5"), Vec::<PathBuf>::new());
        assert_eq!(model_files(&name), [own.clone(), base]);
        let before = digest(model_files(&name))?;
        assert_eq!(digest(model_files(&name))?, before);
        file("base.toml", "base = \"zen5\"\n[retire]\nwidth = 6\n")?;
        assert_ne!(digest(model_files(&name))?, before);

        let program = file("program", "one")?;
        let job = Listed {
            row: Row::default(),
            command: vec![program.into_os_string()],
            environment: Vec::new(),
            stdin: Some(file("input", "one")?),
            directory: directory.path().to_owned(),
        };
        let first = key(&job, "zen5", 1)?;
        assert_eq!(key(&job, "zen5", 1)?, first);
        assert_ne!(key(&job, "zen5", 2)?, first);
        assert_ne!(key(&job, "glc", 1)?, first);
        file("program", "two")?;
        assert_ne!(key(&job, "zen5", 1)?, first);
        file("program", "one")?;
        assert_eq!(key(&job, "zen5", 1)?, first);
        file("input", "two")?;
        assert_ne!(key(&job, "zen5", 1)?, first);
        Ok(())
    }
}
