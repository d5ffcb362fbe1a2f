//! The last version's figures as `[{name, unit, value}]`, the form that continuous-benchmark
//! actions take ("customSmallerIsBetter"): they keep the history and compare by themselves.

use std::io::{self, Write};

use serde::Serialize;

use super::{Diff, Version};
use crate::escape::json;

#[derive(Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: u64,
    extra: String,
}

/// Writes totals and regions of the last version.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, versions: &[Version], out: &mut dyn Write) -> io::Result<()> {
    let mut entries = Vec::new();
    let cpus = versions.last().map_or(&[][..], |v| &v.report.cpus);
    for cpu in cpus {
        let series = (&cpu.cpu, &cpu.analysis);
        if !diff.series.iter().any(|s| (&s.cpu, &s.analysis) == series) {
            continue;
        }
        let label = format!("{}/{}", cpu.cpu, cpu.analysis);
        entries.push(Entry {
            name: label.clone(),
            unit: "cycles",
            value: cpu.cycles,
            extra: format!("{} instructions, IPC {:.3}", cpu.instructions, cpu.ipc),
        });
        for region in &cpu.regions {
            entries.push(Entry {
                name: format!("{label} {}", region.name),
                unit: "cycles",
                value: region.cycles,
                extra: format!("{} times, median {}", region.count, region.median),
            });
        }
    }
    json::pretty(out, &entries)?;
    out.write_all(b"\n")
}
