//! Finds the plugin, or builds it: its sources are part of this library.
//!
//! The built plugin lies in the cache directory under a name that holds a hash of its sources, so
//! an update never loads an old one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use sha2::{Digest, Sha256};

/// File name that `build.sh` gives the plugin.
pub const FILE_NAME: &str = "libmcad-plugin.so";

/// How the names of directories begin in which plugins are built.
const SCRATCH: &str = "build-";
/// What a build takes at most; some seconds are usual.
const LONGEST_BUILD: Duration = Duration::from_secs(3600);

macro_rules! sources {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../qemu-plugin/", $name)))),*]
    };
}

const SOURCES: &[(&str, &str)] = sources![
    "build.sh",
    "dict.c",
    "dict.h",
    "follow.c",
    "follow.h",
    "guest.c",
    "guest.h",
    "kernel.c",
    "kernel.h",
    "mcad_ring.h",
    "modules.c",
    "modules.h",
    "plugin.c",
    "qemu_api.h",
    "ring.c",
    "ring.h",
    "signals.c",
    "signals.h",
    "syscalls.c",
    "syscalls.h",
    "target.c",
    "target.h",
    "watch.c",
    "watch.h",
];

/// No usable plugin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The file that was asked for cannot be used.
    #[error("the QEMU plugin {} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// The sources cannot be unpacked.
    #[error("cannot build the QEMU plugin in {}: {}", .0.display(), .1)]
    Directory(PathBuf, io::Error),
    /// There is no home directory to keep it in.
    #[error("no cache directory for the QEMU plugin: set HOME or XDG_CACHE_HOME, or $MCAD_PLUGIN")]
    NoCache,
    /// The compiler failed.
    #[error(
        "cannot build the QEMU plugin: {0}\nIt needs a C compiler (Debian: apt-get install gcc \
         libc6-dev), or a built one in $MCAD_PLUGIN."
    )]
    Build(String),
}

/// Finds the plugin: `explicit`, `$MCAD_PLUGIN`, in `../lib/mcad` as installed, next to the running
/// program, or in the cache directory, where it is built if it is not there yet.
///
/// # Errors
/// [`PluginError`].
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, PluginError> {
    if let Some(path) = explicit {
        return readable(path);
    }
    if let Some(path) = std::env::var_os("MCAD_PLUGIN").filter(|p| !p.is_empty()) {
        return readable(Path::new(&path));
    }
    let name = format!("libmcad-plugin-{:016x}.so", *FINGERPRINT);
    let exe = std::env::current_exe().unwrap_or_default();
    let beside = exe.parent().into_iter().flat_map(|bin| {
        let installed = bin.parent().map(|prefix| prefix.join("lib/mcad"));
        installed.into_iter().chain([bin.to_owned()])
    });
    if let Some(path) = beside
        .map(|directory| directory.join(&name))
        .find(|path| path.is_file())
    {
        return Ok(path);
    }
    let directory = crate::cache_root()
        .ok_or(PluginError::NoCache)?
        .join("plugin");
    let path = directory.join(&name);
    if path.is_file() {
        return readable(&path);
    }
    build(&directory, &name)
}

fn readable(path: &Path) -> Result<PathBuf, PluginError> {
    let unreadable = |error| PluginError::Unreadable(path.to_owned(), error);
    std::fs::File::open(path).map_err(unreadable)?;
    // The emulator must not search its library path for a bare name.
    std::path::absolute(path).map_err(unreadable)
}

/// Builds into `directory` under `name`.
fn build(directory: &Path, name: &str) -> Result<PathBuf, PluginError> {
    let failed = |error| PluginError::Directory(directory.to_owned(), error);
    std::fs::create_dir_all(directory).map_err(failed)?;
    clear(directory);
    let scratch = tempfile::Builder::new()
        .prefix(SCRATCH)
        .tempdir_in(directory)
        .map_err(failed)?;
    for (file, text) in SOURCES {
        std::fs::write(scratch.path().join(file), text).map_err(failed)?;
    }
    let output = Command::new("sh")
        .arg(scratch.path().join("build.sh"))
        .arg(scratch.path())
        .output()
        .map_err(|error| PluginError::Build(format!("sh: {error}")))?;
    if !output.status.success() {
        return Err(PluginError::Build(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    let path = directory.join(name);
    std::fs::rename(scratch.path().join(FILE_NAME), &path).map_err(failed)?;
    readable(&path)
}

/// Removes what builds have left behind that were ended before they were done.
fn clear(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let age = entry.metadata().and_then(|about| about.modified());
        let age = age.map(|changed| changed.elapsed().unwrap_or_default());
        let named = entry.file_name().to_string_lossy().starts_with(SCRATCH);
        if named && age.is_ok_and(|age| age > LONGEST_BUILD) {
            // What cannot be removed harms nobody.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The first eight bytes of the sources' SHA-256, in the order in which `build.sh` reads them: itself,
/// then `*.c`, then `*.h`. A plugin and the rings that it serves have the same one.
pub static FINGERPRINT: LazyLock<u64> = LazyLock::new(|| {
    let mut hasher = Sha256::new();
    for end in [".sh", ".c", ".h"] {
        for (_, text) in SOURCES.iter().filter(|(name, _)| name.ends_with(end)) {
            hasher.update(text);
        }
    }
    let sum = hasher.finalize();
    sum.iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_file_is_embedded() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../qemu-plugin");
        let mut on_disk: Vec<String> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| [".c", ".h", ".sh"].iter().any(|end| name.ends_with(end)))
            .collect();
        on_disk.sort();
        let embedded: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(on_disk, embedded);
    }

    #[test]
    fn builds_from_the_embedded_sources() {
        let dir = tempfile::tempdir().unwrap();
        let path = build(dir.path(), "p.so").unwrap();
        assert!(std::fs::metadata(path).unwrap().len() > 4096);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_an_ended_build_left_goes_with_the_next_and_what_others_do_stays() {
        let dir = tempfile::tempdir().unwrap();
        for (name, age) in [
            ("build-old", 2 * LONGEST_BUILD),
            ("build-new", Duration::ZERO),
        ] {
            let scratch = dir.path().join(name);
            std::fs::create_dir(&scratch).unwrap();
            std::fs::write(scratch.join("plugin.c"), "").unwrap();
            let changed = std::time::SystemTime::now() - age;
            let opened = std::fs::File::open(&scratch).unwrap();
            opened.set_modified(changed).unwrap();
        }
        clear(dir.path());
        assert!(!dir.path().join("build-old").exists());
        assert!(dir.path().join("build-new/plugin.c").exists());
    }

    #[test]
    fn an_unreadable_plugin_is_named() {
        let error = find(Some(Path::new("/no/such/plugin.so"))).unwrap_err();
        assert!(error.to_string().contains("/no/such/plugin.so"), "{error}");
    }
}
