//! CPU models as the command line names them: one of the built-in ones, or a file that
//! `mcad profile instruction --export` wrote.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use mcad_core::machine::{self, CpuModel};

/// Largest file that is read; the largest table has less than a tenth of it.
const MAX_BYTES: u64 = 64 << 20;

/// The model of a name, or of a file when the name ends in `.toml`.
///
/// # Errors
/// When the name is unknown, or the file is no model.
pub(super) fn model(name: &str) -> anyhow::Result<Arc<CpuModel>> {
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Ok(machine::cpu(name)?);
    }
    let metadata = path
        .metadata()
        .with_context(|| format!("cannot read {name}"))?;
    if metadata.len() > MAX_BYTES {
        bail!("{name} has more than {MAX_BYTES} bytes");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    machine::measured::model(&text).with_context(|| format!("{name} is no model"))
}
