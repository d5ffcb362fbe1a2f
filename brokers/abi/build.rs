//! Fingerprints the sources that decide what a broker of mcad's own says: brokers, plugin, the words
//! and events that they speak, and the versions of foreign crates. `MCAD_SOURCES` is the result.

use std::error::Error;
use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("Cargo.lock")];
    for part in ["proto/src", "brokers", "qemu-plugin"] {
        gather(&root.join(part), part == "brokers", &mut found)?;
    }
    // Fixed keys: the same sources always give the same number.
    let mut hasher = std::hash::DefaultHasher::new();
    for path in found.iter().filter(|path| path.is_file()) {
        let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
        hasher.write(name.as_bytes());
        hasher.write(&fs::read(path)?);
    }
    for path in &found {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    println!("cargo::rustc-env=MCAD_SOURCES={:016x}", hasher.finish());
    Ok(())
}

/// Files below `directory` in order of their names, and the directories that Cargo is to watch for
/// new ones. With `crates`, only what is compiled into brokers: no tests or examples.
fn gather(directory: &Path, crates: bool, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with('.') {
            // An editor's.
        } else if !path.is_dir() {
            found.push(path);
        } else if !crates || ["src", "include"].contains(&name) {
            found.push(path.clone());
            gather(&path, false, found)?;
        } else if !["tests", "examples", "benches"].contains(&name) {
            gather(&path, true, found)?;
        }
    }
    Ok(())
}
