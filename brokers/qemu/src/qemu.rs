//! Finds a QEMU that loads plugins.
//!
//! Newer Debian packages of `qemu-user` are statically linked and know no `-plugin`, whatever
//! their version says, so every candidate is run once to see.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mcad_proto::event::Arch;

/// File name of the emulator for an instruction set: `qemu-aarch64`.
#[must_use]
pub fn name(arch: Arch) -> String {
    format!("qemu-{arch}")
}

/// A usable emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// Its file.
    pub path: PathBuf,
    /// Its version, for example `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
}

/// No usable emulator.
#[derive(Debug, thiserror::Error)]
#[error(
    "no {} that loads plugins was found ({}).\n\
     On Debian 12: apt-get install qemu-user\n\
     Elsewhere (Debian 13 and later ship it without plugins): `cargo xtask setup` in mcad's source \
     builds one. Another place is given by --qemu PATH or $MCAD_QEMU.",
    name(*.arch), .tried.join("; ")
)]
pub struct NoQemu {
    /// Instruction set that it was to emulate.
    pub arch: Arch,
    /// Each place with what is wrong there.
    pub tried: Vec<String>,
}

/// Finds the emulator of `arch`: `explicit` alone if given, else `$MCAD_QEMU` alone if set, else the cache
/// directory that the set-up builds into, else `$PATH`. An emulator of another instruction set in
/// one of the first two stands for the right one beside it.
///
/// # Errors
/// [`NoQemu`] with everything that was tried.
pub fn find(explicit: Option<&Path>, arch: Arch) -> Result<Qemu, NoQemu> {
    let mut tried = Vec::new();
    for (origin, path) in candidates(explicit, arch) {
        match check(&path, arch) {
            Ok(qemu) => return Ok(qemu),
            Err(what) => tried.push(format!("{origin}{}: {what}", path.display())),
        }
    }
    if tried.is_empty() {
        tried.push(format!("nothing named {} in $PATH", name(arch)));
    }
    Err(NoQemu { arch, tried })
}

/// Where the set-up puts a self-built emulator: `$XDG_CACHE_HOME/mcad/qemu/bin`, or the same under
/// `~/.cache`. `None` without a home directory.
#[must_use]
pub fn cache_dir() -> Option<PathBuf> {
    crate::cache_root().map(|root| root.join("qemu/bin"))
}

/// A wish of the user's is the only candidate: something else in its place would surprise.
fn candidates(explicit: Option<&Path>, arch: Arch) -> Vec<(&'static str, PathBuf)> {
    let other = |path: &Path| {
        let file = path.file_name().unwrap_or_default();
        let mut others = Arch::ALL.into_iter().filter(|other| *other != arch);
        others.any(|other| file == name(other).as_str())
    };
    let wished = |path: PathBuf| match other(&path) {
        true => path.with_file_name(name(arch)),
        false => path,
    };
    if let Some(path) = explicit {
        return vec![("", wished(path.to_owned()))];
    }
    if let Some(path) = std::env::var_os("MCAD_QEMU").filter(|p| !p.is_empty()) {
        return vec![("$MCAD_QEMU ", wished(path.into()))];
    }
    let path = crate::executable::search_path();
    cache_dir()
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|directory| directory.join(name(arch)))
        .filter(|file| file.is_file())
        .map(|file| ("", file))
        .collect()
}

/// Whether the file is an emulator of `arch` that takes `-plugin`.
///
/// # Errors
/// What is wrong with it.
pub fn check(path: &Path, arch: Arch) -> Result<Qemu, String> {
    let name = name(arch);
    let version = run(path, &["-version"])?;
    let version = version
        .lines()
        .find_map(|line| line.strip_prefix(&name)?.trim().strip_prefix("version "))
        .ok_or_else(|| format!("is not {name}"))?
        .to_owned();
    // One that knows the option complains of the library, one that does not, of the option.
    let answer = run(path, &["-plugin", "file=/nonexistent/mcad", "/nonexistent"])?;
    if answer.contains("unknown option") {
        return Err(format!("version {version} was built without plugins"));
    }
    if !answer.to_lowercase().contains("could not load plugin") {
        let line = answer.lines().next().unwrap_or("no message");
        return Err(format!("version {version} does not load plugins: {line}"));
    }
    Ok(Qemu {
        path: path.to_owned(),
        version,
    })
}

/// Runs it and returns what it prints on either output.
fn run(path: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(path)
        .args(arguments)
        .env_remove("QEMU_PLUGIN")
        .env_remove("QEMU_VERSION")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot be run: {error}"))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn fake(script: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name(Arch::X86_64));
        // Another process writes it: a descriptor open for writing here would be inherited by
        // whatever other tests fork at that moment, and the file could not be executed as long
        // as they have it.
        let written = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\""])
            .arg(&path)
            .arg(script)
            .status();
        assert!(written.unwrap().success());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, path)
    }

    #[test]
    fn an_emulator_without_plugins_is_refused_with_the_way_out() {
        let (_dir, path) = fake(
            "case $1 in -version) echo 'qemu-x86_64 version 10.0.2 (Debian)';; \
             *) echo \"qemu: unknown option 'plugin'\" >&2; exit 1;; esac",
        );
        let error = find(Some(&path), Arch::X86_64).unwrap_err().to_string();
        assert!(
            error.contains("10.0.2 (Debian) was built without plugins"),
            "{error}"
        );
        assert!(error.contains("apt-get install qemu-user"), "{error}");
        assert!(error.contains("cargo xtask setup"), "{error}");
    }

    #[test]
    fn other_programs_are_refused() {
        let (_dir, path) = fake("echo hello");
        assert_eq!(check(&path, Arch::X86_64), Err("is not qemu-x86_64".into()));
        let missing = path.with_file_name("missing");
        assert!(
            check(&missing, Arch::X86_64)
                .unwrap_err()
                .contains("cannot be run")
        );
    }

    #[test]
    fn one_with_plugins_is_taken() {
        let (_dir, path) = fake(
            "case $1 in -version) echo 'qemu-x86_64 version 7.2.22';; \
             *) echo 'qemu-x86_64: Could not load plugin /nonexistent' >&2; exit 1;; esac",
        );
        assert_eq!(check(&path, Arch::X86_64).unwrap().version, "7.2.22");
    }
}
