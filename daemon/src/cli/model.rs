//! CPU models as the command line names them: one of the built-in ones, `native` for the one of
//! the host's core, or a file (`mcad_isa::machine::file`), anyone's own or one that
//! `mcad profile instruction --export` wrote.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use mcad_isa::machine::{self, CpuModel, MachineError};
use mcad_isa::near;
use mcad_profile::host::Host;
use mcad_proto::event::Arch;
use mcad_viewers::escape::escape;

use crate::files::read_text;

/// Largest file that is read; the largest table has less than a tenth of it.
const MAX_BYTES: u64 = 64 << 20;

/// The model of a name that a peer sent: a built-in one, since every other name is a file of this
/// machine or the machine itself.
///
/// # Errors
/// When there is no such model.
pub(super) fn built_in(name: &str) -> anyhow::Result<Arc<CpuModel>> {
    Ok(machine::cpu(name)?)
}

/// Whether a name is a file's.
pub(super) fn is_file(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "toml")
}

/// The host's own CPU among the names of models.
const NATIVE: &str = "native";

/// The model of a name, or of a file when the name ends in `.toml`.
///
/// # Errors
/// When the name is unknown, the host has no model, or the file is no model.
pub(super) fn model(name: &str) -> anyhow::Result<Arc<CpuModel>> {
    if !is_file(name) {
        return match name {
            NATIVE => native(&Host::at_hand()),
            _ => machine::cpu(name).map_err(|error| match error {
                MachineError::UnknownCpu(name) => anyhow!(unknown(&name)),
                other => other.into(),
            }),
        };
    }
    let path = Path::new(name);
    let text = read_text(path, MAX_BYTES).with_context(|| format!("cannot read {name}"))?;
    // Bases lie beside the file that names them.
    let base = |name: &str| {
        let beside = path.parent().unwrap_or(Path::new("")).join(name);
        read_text(&beside, MAX_BYTES).map_err(|e| e.to_string())
    };
    Ok(machine::model_from(name, &text, &base)?)
}

/// A name that means the same CPU on every machine, where there is one.
pub(super) fn resolved(name: &str) -> &str {
    match name {
        NATIVE => Host::at_hand().core.unwrap_or(name),
        _ => name,
    }
}

/// Says that there is no model of this name, and which may have been meant.
fn unknown(name: &str) -> String {
    let names = machine::cpus().iter().map(|cpu| cpu.name);
    let aliases = machine::cpus().iter().flat_map(|cpu| &cpu.aliases);
    let wanted = name.to_ascii_lowercase();
    let near = near::nearest(&wanted, names.chain(aliases.map(String::as_str)));
    let meant = match near.first() {
        Some(near) => format!("did you mean {near}?"),
        None => {
            let x86 = machine::cpus()
                .iter()
                .filter(|cpu| cpu.arch == Arch::X86_64);
            let names: Vec<&str> = x86.map(|cpu| cpu.name).collect();
            format!("of x86-64 there are {};", names.join(" "))
        }
    };
    format!(
        "there is no model '{}'; {meant} `mcad cpus` lists all",
        escape(name)
    )
}

fn native(host: &Host) -> anyhow::Result<Arc<CpuModel>> {
    let Some(core) = host.core else {
        bail!(
            "there is no model of this machine's CPU ({}, family {}, model {}){}",
            escape(&host.name),
            host.family,
            host.model,
            nearest(host)
        );
    };
    Ok(machine::cpu(core)?)
}

/// Which model may stand in for a CPU that has none: the vendor's newest, since those without a
/// model are newer than those with one, and vendors build a core upon the one before.
fn nearest(host: &Host) -> String {
    let (vendor, newest) = match host.vendor.as_str() {
        "GenuineIntel" => ("Intel", "rwc"),
        "AuthenticAMD" | "HygonGenuine" => ("AMD", "zen5"),
        _ => return "; `mcad cpus` lists those there are".to_owned(),
    };
    match machine::cpus().iter().find(|cpu| cpu.name == newest) {
        Some(cpu) => format!(
            "; the nearest is {vendor}'s newest that is modelled, --cpu {} ({}): another core, so \
             expect its figures to differ",
            cpu.name, cpu.full_name
        ),
        None => format!("; no core of {vendor} is modelled, `mcad cpus` lists those that are"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(core: Option<&'static str>) -> Host {
        Host {
            name: "a CPU".to_owned(),
            vendor: "GenuineIntel".to_owned(),
            family: 6,
            model: 1,
            core,
        }
    }

    #[test]
    fn the_hosts_model_is_found_or_its_lack_is_told() {
        let model = native(&host(Some("glc"))).map(|m| m.name.clone());
        assert_eq!(model.ok().as_deref(), Some("glc"));
        let error = native(&host(None)).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| {
            e.contains("a CPU, family 6, model 1") && e.contains("--cpu rwc (Intel Redwood Cove")
        }));
    }
}
