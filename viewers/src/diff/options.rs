//! What reports were made with, where it differs and cycles depend on it: such reports can be
//! compared, but part of the change is not the program's.

use mcad_report::{CpuReport, Report};
use serde_json::{Value, json};

use super::OptionDelta;

/// Parameters that a warning lists.
const LISTED: usize = 4;

/// What differs between two reports, apart from their CPUs.
pub(super) fn of_reports(before: &Report, after: &Report) -> Vec<OptionDelta> {
    let mut all = Vec::new();
    // Reports of versions before do not say it, but programs without any access do not exist.
    let memory = |report: &Report| match report.options {
        Some(options) => options.memory,
        None => report.trace.memory_accesses > 0,
    };
    let on = |report| if memory(report) { "on" } else { "off" };
    all.extend(delta(
        "memory",
        "--no-memory",
        json!(on(before)),
        json!(on(after)),
    ));
    let cores = |report: &Report| report.options.and_then(|options| options.cores);
    if let (Some(a), Some(b)) = (cores(before), cores(after)) {
        all.extend(delta("cores", "--cores", json!(a), json!(b)));
    }
    all
}

/// What differs between two reports of a CPU and analysis.
pub(super) fn of_cpus(before: &CpuReport, after: &CpuReport) -> Vec<OptionDelta> {
    let mut all = Vec::new();
    let length = |cpu: &CpuReport| cpu.intervals.map_or(json!("uncut"), |i| json!(i.length));
    let (a, b) = (length(before), length(after));
    let option = match before.intervals.is_some() && after.intervals.is_some() {
        true => "--interval",
        false => "--jobs",
    };
    all.extend(delta("interval", option, a, b));
    if let (Some(a), Some(b)) = (before.intervals, after.intervals) {
        all.extend(delta(
            "warm_up",
            "--warm-up",
            json!(a.warm_up),
            json!(b.warm_up),
        ));
    }
    if let (Some(a), Some(b)) = (&before.table, &after.table) {
        all.extend(delta("table", "--cpu", json!(a), json!(b)));
    }
    let mut parameters = Vec::new();
    differing("", &before.parameters, &after.parameters, &mut parameters);
    // What follows from an option comes behind it.
    parameters.sort_by_key(|delta: &OptionDelta| delta.option == "--cpu");
    all.extend(parameters);
    for delta in &mut all {
        delta.cpu = Some(after.cpu.clone());
    }
    all
}

/// All leaves of two values that differ, by their path.
fn differing(path: &str, before: &Value, after: &Value, all: &mut Vec<OptionDelta>) {
    if before == after {
        return;
    }
    let (Value::Object(a), Value::Object(b)) = (before, after) else {
        let option = match path {
            "cache.clock_mhz" => "--clock",
            "cache.l3.kib" => "--last-level",
            _ => "--cpu",
        };
        all.extend(delta(path, option, before.clone(), after.clone()));
        return;
    };
    let only_after = b.keys().filter(|key| !a.contains_key(*key));
    for key in a.keys().chain(only_after) {
        let path = match path {
            "" => key.clone(),
            _ => format!("{path}.{key}"),
        };
        let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
        differing(&path, &of(a), &of(b), all);
    }
}

fn delta(what: &str, option: &'static str, before: Value, after: Value) -> Option<OptionDelta> {
    (before != after).then(|| OptionDelta {
        cpu: None,
        what: what.to_owned(),
        option,
        before,
        after,
    })
}

/// The warnings of what differs between the versions of these names.
pub(super) fn warnings(all: &[OptionDelta], from: &str, to: &str) -> Vec<String> {
    let (parameters, options): (Vec<_>, Vec<_>) = all.iter().partition(|delta| {
        !["memory", "cores", "interval", "warm_up", "table"].contains(&delta.what.as_str())
    });
    let mut warnings: Vec<String> = options
        .iter()
        .map(|delta| {
            let cpu = delta.cpu.as_ref().map_or(String::new(), |cpu| format!("{cpu}: "));
            format!(
                "{cpu}{} is {} in {from} and {} in {to} ({}), so part of the change is not the program's",
                delta.what.replace('_', "-"),
                text(&delta.before),
                text(&delta.after),
                delta.option
            )
        })
        .collect();
    for of_cpu in parameters.chunk_by(|a, b| a.cpu == b.cpu) {
        let listed = of_cpu.iter().take(LISTED).map(|delta| {
            let option = match delta.option {
                "--cpu" => String::new(),
                option => format!(" ({option})"),
            };
            let (before, after) = (text(&delta.before), text(&delta.after));
            format!("{} is {before} and {after}{option}", delta.what)
        });
        let listed: Vec<String> = listed.collect();
        let more = match of_cpu.len().saturating_sub(LISTED) {
            0 => String::new(),
            more => format!(", and {more} more differ"),
        };
        let cpu = of_cpu.first().and_then(|delta| delta.cpu.as_deref());
        warnings.push(format!(
            "the parameters of {} differ between {from} and {to}, so part of the change is not the program's: {}{more}",
            cpu.unwrap_or_default(),
            listed.join(", ")
        ));
    }
    warnings
}

/// A value for people; of a list or section, that there is one.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a section".to_owned(),
        other => other.to_string(),
    }
}
