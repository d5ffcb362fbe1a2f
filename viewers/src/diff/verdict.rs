//! Whether a comparison is a regression: the last version against the first.

use super::{CpuDiff, Delta, Diff, DiffError, Version};

/// Something that takes more cycles than allowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// CPU model.
    pub cpu: String,
    /// `total`, or the name of a function or region.
    pub what: String,
    /// Its cycles.
    pub cycles: Delta,
}

impl Diff {
    /// What takes more cycles in the last version than in the first by more than `threshold`
    /// (a fraction: 0.05 is 5 %). Looks at the totals and at all regions of interest, or, where
    /// `watch` names functions or regions, at these alone.
    ///
    /// `versions` are those that were compared: what did not change is only there.
    ///
    /// # Errors
    /// [`DiffError::NothingToWatch`] when a name is in no version.
    pub fn regressions(
        &self,
        threshold: f64,
        watch: &[String],
        versions: &[Version],
    ) -> Result<Vec<Regression>, DiffError> {
        let mut found = Vec::new();
        for cpu in &self.overall.cpus {
            for (what, cycles) in watched(cpu, watch, versions)? {
                if exceeds(&cycles, threshold) {
                    found.push(Regression {
                        cpu: cpu.cpu.clone(),
                        what,
                        cycles,
                    });
                }
            }
        }
        Ok(found)
    }
}

fn watched(
    cpu: &CpuDiff,
    watch: &[String],
    versions: &[Version],
) -> Result<Vec<(String, Delta)>, DiffError> {
    let regions = cpu.regions.iter().map(|r| (r.name.clone(), r.cycles));
    if watch.is_empty() {
        return Ok(std::iter::once(("total".to_owned(), cpu.cycles))
            .chain(regions)
            .collect());
    }
    let functions = cpu.functions.iter().map(|f| (f.name.clone(), f.cycles));
    let all: Vec<(String, Delta)> = regions.chain(functions).collect();
    let mut found = Vec::new();
    for name in watch {
        let same = all.iter().filter(|(what, _)| what == name).cloned();
        let before = found.len();
        found.extend(same);
        if found.len() == before && !versions.iter().any(|v| has(v, &cpu.cpu, name)) {
            return Err(DiffError::NothingToWatch {
                name: name.clone(),
                cpu: cpu.cpu.clone(),
            });
        }
    }
    Ok(found)
}

/// Whether a version has a function or region of that name.
fn has(version: &Version, cpu: &str, name: &str) -> bool {
    version
        .report
        .cpus
        .iter()
        .filter(|c| c.cpu == cpu)
        .any(|c| {
            c.functions.iter().any(|f| f.name == name) || c.regions.iter().any(|r| r.name == name)
        })
}

/// More than `threshold` above; something out of nothing is above any.
fn exceeds(cycles: &Delta, threshold: f64) -> bool {
    match cycles.relative {
        Some(relative) => relative > threshold,
        None => cycles.delta > 0,
    }
}
