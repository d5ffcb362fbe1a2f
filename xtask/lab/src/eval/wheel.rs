//! Published Python wheels that evaluations need: fetched with pip, of one version each, and held
//! to their hash.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use xtask::command::{command, execute};
use xtask::setup::{ensure, package};

/// A wheel as PyPI has it.
pub struct Wheel {
    /// Name and version, as `name==version`.
    pub requirement: &'static str,
    /// SHA-256 of the file.
    pub sha256: &'static str,
    /// What pip must be told to choose this file on any machine.
    pub tags: &'static [&'static str],
}

impl Wheel {
    /// Fetches and unpacks the wheel below `work` unless it is there; gives its directory.
    ///
    /// # Errors
    /// Without a network, or when the file is another than the one named here.
    pub fn fetch(&self, work: &Path) -> Result<PathBuf> {
        let name = self.requirement.replace("==", "-");
        let unpacked = work.join(&name);
        if unpacked.is_dir() {
            return Ok(unpacked);
        }
        ensure(&[
            package("python3-pip", "pip3"),
            package("python3", "python3"),
        ])?;
        let packed = work.join(format!("{name}.packed"));
        fs::create_dir_all(&packed)?;
        let pin = packed.join("requirements.txt");
        let line = format!("{} --hash=sha256:{}\n", self.requirement, self.sha256);
        fs::write(&pin, line).with_context(|| format!("cannot write {}", pin.display()))?;
        execute(
            command("pip3")
                .args(["download", "--quiet", "--no-deps", "--require-hashes"])
                .args(["--only-binary", ":all:", "--disable-pip-version-check"])
                .args(self.tags)
                .arg("--dest")
                .arg(&packed)
                .arg("--requirement")
                .arg(&pin),
        )?;
        let wheel = fs::read_dir(&packed)?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
            .with_context(|| format!("pip left no wheel in {}", packed.display()))?;
        // Under another name until it is whole.
        let partial = work.join(format!("{name}.partial"));
        execute(
            command("python3")
                .args(["-m", "zipfile", "-e"])
                .args([&wheel, &partial]),
        )?;
        fs::rename(&partial, &unpacked)?;
        Ok(unpacked)
    }
}
