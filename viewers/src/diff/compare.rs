//! Puts a comparison together: pairs CPUs, lines up totals, warns of what does not compare.

use mcad_report::{CpuReport, RegionReport, Report, TopDown};

use super::{
    Comparison, CpuDiff, DIFF_SCHEMA_VERSION, Delta, Diff, DiffError, Figures, OptionDelta,
    RegionDelta, Series, SlotDelta, Version, VersionInfo, causes, functions, lines, options,
};

/// Compares versions, the baseline first.
///
/// # Errors
/// [`DiffError`] when there is nothing to compare.
pub fn compare(versions: &[Version]) -> Result<Diff, DiffError> {
    let ([first, .., last], [_, later @ ..]) = (versions, versions) else {
        return Err(DiffError::TooFew);
    };
    let common: Vec<&CpuReport> = first
        .report
        .cpus
        .iter()
        .filter(|cpu| later.iter().all(|v| same_cpu(&v.report, cpu).is_some()))
        .collect();
    if common.is_empty() {
        let names: Vec<String> = versions.iter().map(has).collect();
        return Err(DiffError::NothingInCommon(names.join("; ")));
    }
    let pair = |from: &Version, to: &Version| Comparison {
        from: from.label.clone(),
        to: to.label.clone(),
        options: option_deltas(&from.report, &to.report, &common),
        cpus: common
            .iter()
            .filter_map(|cpu| {
                let before = same_cpu(&from.report, cpu)?;
                Some(cpus(
                    [&from.report, &to.report],
                    before,
                    same_cpu(&to.report, cpu)?,
                ))
            })
            .collect(),
    };
    let series = common.iter().map(|cpu| Series {
        cpu: cpu.cpu.clone(),
        analysis: cpu.analysis.clone(),
        totals: versions
            .iter()
            .filter_map(|v| same_cpu(&v.report, cpu).map(figures))
            .collect(),
    });
    let steps = if versions.len() > 2 {
        versions
            .iter()
            .zip(later)
            .map(|(a, b)| pair(a, b))
            .collect()
    } else {
        Vec::new()
    };
    Ok(Diff {
        schema_version: DIFF_SCHEMA_VERSION,
        versions: versions
            .iter()
            .map(|version| VersionInfo {
                label: version.label.clone(),
                command: version.report.program.command.clone(),
                complete: version.report.program.complete,
            })
            .collect(),
        warnings: warnings(versions, &common),
        series: series.collect(),
        overall: pair(first, last),
        steps,
    })
}

fn same_cpu<'r>(report: &'r Report, cpu: &CpuReport) -> Option<&'r CpuReport> {
    report
        .cpus
        .iter()
        .find(|other| other.cpu == cpu.cpu && other.analysis == cpu.analysis)
}

fn has(version: &Version) -> String {
    let cpus: Vec<String> = version
        .report
        .cpus
        .iter()
        .map(|cpu| format!("{}/{}", cpu.cpu, cpu.analysis))
        .collect();
    let cpus = if cpus.is_empty() {
        "none".to_owned()
    } else {
        cpus.join(", ")
    };
    format!("{} has {cpus}", version.label)
}

fn warnings(versions: &[Version], common: &[&CpuReport]) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in versions {
        let report = &version.report;
        if !report.program.complete {
            warnings.push(format!(
                "the trace of {} is incomplete ({}): its figures cover what was received",
                version.label, report.program.end
            ));
        }
        for cpu in &report.cpus {
            warnings.extend(cpu.doubts.iter().map(|doubt| {
                let (cpu, label) = (&cpu.cpu, &version.label);
                format!("{label} has too few cycles on {cpu}: {doubt}")
            }));
        }
        let left: Vec<String> = report
            .cpus
            .iter()
            .filter(|cpu| {
                !common
                    .iter()
                    .any(|c| c.cpu == cpu.cpu && c.analysis == cpu.analysis)
            })
            .map(|cpu| format!("{}/{}", cpu.cpu, cpu.analysis))
            .collect();
        if !left.is_empty() {
            warnings.push(format!(
                "not compared, since not all versions have it: {} of {}",
                left.join(", "),
                version.label
            ));
        }
    }
    let Some((first, later)) = versions.split_first() else {
        return warnings;
    };
    for version in later {
        let (a, b) = (&first.report, &version.report);
        if a.tool.version != b.tool.version {
            warnings.push(format!(
                "{} was made by mcad {} and {} by mcad {}: part of the change may be the models'",
                first.label, a.tool.version, version.label, b.tool.version
            ));
        }
        if a.program.end != b.program.end && a.program.complete && b.program.complete {
            warnings.push(format!(
                "{} ended with '{}' and {} with '{}': they may not have done the same work",
                first.label, a.program.end, version.label, b.program.end
            ));
        }
        if let (Some(cpu), Some(other)) =
            (common.first(), common.first().and_then(|c| same_cpu(b, c)))
        {
            let only = |of: &CpuReport, other: &CpuReport, label: &str| {
                let missing = |r: &&RegionReport| other.regions.iter().all(|o| o.name != r.name);
                let note = |r: &RegionReport| {
                    format!("region '{}' is only in {label} and not compared", r.name)
                };
                of.regions
                    .iter()
                    .filter(missing)
                    .map(note)
                    .collect::<Vec<_>>()
            };
            warnings.extend(only(cpu, other, &first.label));
            warnings.extend(only(other, cpu, &version.label));
        }
        let options = option_deltas(a, b, common);
        warnings.extend(options::warnings(&options, &first.label, &version.label));
    }
    warnings
}

/// What two reports were made with, where it differs.
fn option_deltas(before: &Report, after: &Report, common: &[&CpuReport]) -> Vec<OptionDelta> {
    let mut all = options::of_reports(before, after);
    for cpu in common {
        if let (Some(a), Some(b)) = (same_cpu(before, cpu), same_cpu(after, cpu)) {
            let own = options::of_cpus(a, b);
            // Two analyses of a CPU have its parameters in common.
            let new = own.into_iter().filter(|delta| !all.contains(delta));
            all.extend(new.collect::<Vec<_>>());
        }
    }
    all
}

fn figures(cpu: &CpuReport) -> Figures {
    Figures {
        cycles: cpu.cycles,
        instructions: cpu.instructions,
        uops: cpu.uops,
        ipc: cpu.ipc,
        topdown: cpu.topdown,
    }
}

/// H(P2)/H(P1) of two cycle counts.
fn throughput(cycles: &Delta) -> Option<f64> {
    (cycles.before > 0 && cycles.after > 0).then(|| cycles.before as f64 / cycles.after as f64)
}

fn cpus(reports: [&Report; 2], before: &CpuReport, after: &CpuReport) -> CpuDiff {
    let [from, to] = reports;
    let cycles = Delta::new(before.cycles, after.cycles);
    let functions = functions::deltas(before, after, &cycles);
    CpuDiff {
        cpu: after.cpu.clone(),
        name: after.name.clone(),
        assumes: after.assumes.clone(),
        analysis: after.analysis.clone(),
        instructions: Delta::new(before.instructions, after.instructions),
        uops: Delta::new(before.uops, after.uops),
        ipc: [before.ipc, after.ipc],
        differential_throughput: throughput(&cycles),
        topdown: slots(&before.topdown, &after.topdown),
        slots: by_cause(before, after).unwrap_or_default(),
        causes: causes::deltas(before, after),
        matched: functions.matched,
        functions: functions.deltas,
        unattributed: functions.rest,
        lines: lines::deltas(
            lines::Version {
                cpu: before,
                sources: &from.run.sources,
            },
            lines::Version {
                cpu: after,
                sources: &to.run.sources,
            },
        ),
        regions: regions(&before.regions, &after.regions),
        cycles,
    }
}

fn slots(before: &TopDown, after: &TopDown) -> Vec<SlotDelta> {
    if before.slots == 0 && after.slots == 0 {
        return Vec::new();
    }
    [
        ("retiring", before.retiring, after.retiring),
        (
            "bad_speculation",
            before.bad_speculation,
            after.bad_speculation,
        ),
        ("frontend", before.frontend, after.frontend),
        (
            "backend_memory",
            before.backend_memory,
            after.backend_memory,
        ),
        ("backend_core", before.backend_core, after.backend_core),
        ("other", before.other, after.other),
    ]
    .into_iter()
    .map(|(kind, a, b)| slot(kind, [a, b], [before.slots, after.slots]))
    .collect()
}

fn slot(kind: &'static str, [before, after]: [u64; 2], whole: [u64; 2]) -> SlotDelta {
    let share = |part: u64, whole: u64| match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    };
    SlotDelta {
        kind,
        slots: Delta::new(before, after),
        share: [share(before, whole[0]), share(after, whole[1])],
    }
}

/// Slots of a core that issues in order, cause by cause; what is before the first issue and behind the
/// last has none.
fn by_cause(before: &CpuReport, after: &CpuReport) -> Option<Vec<SlotDelta>> {
    let of = |cpu: &CpuReport| cpu.slots.filter(|_| cpu.in_order);
    let (a, b) = (of(before)?, of(after)?);
    let whole = [before.topdown.slots, after.topdown.slots];
    let causes = a.causes().into_iter().zip(b.causes());
    let all = causes.map(|((kind, a), (_, b))| slot(kind, [a, b], whole));
    Some(
        all.filter(|s| s.slots.before > 0 || s.slots.after > 0)
            .collect(),
    )
}

/// Regions that both versions were asked for, by name.
fn regions(before: &[RegionReport], after: &[RegionReport]) -> Vec<RegionDelta> {
    before
        .iter()
        .filter_map(|a| Some((a, after.iter().find(|b| b.name == a.name)?)))
        .filter(|(a, b)| a != b)
        .map(|(a, b)| {
            let of = |count: fn(&RegionReport) -> u64| Delta::new(count(a), count(b));
            let cycles = of(|r| r.cycles);
            RegionDelta {
                name: a.name.clone(),
                count: of(|r| r.count),
                instructions: of(|r| r.instructions),
                min: of(|r| r.min),
                median: of(|r| r.median),
                max: of(|r| r.max),
                differential_throughput: throughput(&cycles),
                cycles,
            }
        })
        .collect()
}
