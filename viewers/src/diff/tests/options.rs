//! Reports that were made with other options.

use mcad_report::{AnalysisOptions, CoreUse, IntervalReport};

use super::*;

#[test]
fn what_reports_were_made_with_is_told_where_it_differs() {
    let made = |memory, cores, warm_up: Option<u64>, table: &str, parameters| {
        let mut version = after();
        version.report.options = Some(AnalysisOptions { memory, cores });
        let cpu = &mut version.report.cpus[0];
        cpu.intervals = warm_up.map(|warm_up| IntervalReport {
            length: 50_000,
            warm_up,
            ..IntervalReport::default()
        });
        cpu.table = Some(table.into());
        cpu.parameters = parameters;
        version
    };
    let parameters =
        |kib, mhz| serde_json::json!({"cache": {"l3": {"kib": kib}, "clock_mhz": mhz}});
    let first = || {
        made(
            true,
            Some(CoreUse::Each),
            None,
            "skl",
            parameters(8192, 3500),
        )
    };
    assert_eq!(compare(&[first(), first()]).unwrap().warnings, [""; 0]);
    let second = made(
        false,
        Some(CoreUse::One),
        Some(1000),
        "skl, 1 changed: 0",
        parameters(4096, 3600),
    );
    let diff = compare(&[first(), second.clone()]).unwrap();
    let end = "so part of the change is not the program's";
    let expected = [
        format!("memory is on in new.json and off in new.json (--no-memory), {end}"),
        format!("cores is each in new.json and one in new.json (--cores), {end}"),
        format!("skl: interval is uncut in new.json and 50000 in new.json (--jobs), {end}"),
        format!("skl: table is skl in new.json and skl, 1 changed: 0 in new.json (--cpu), {end}"),
        format!(
            "the parameters of skl differ between new.json and new.json, {end}: cache.l3.kib is \
             8192 and 4096 (--last-level), cache.clock_mhz is 3500 and 3600 (--clock)"
        ),
    ];
    assert_eq!(diff.warnings, expected);
    assert!(text(&diff).contains("note: memory is on in new.json"));
    let mut json = Vec::new();
    json::write(&diff, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let options = json["overall"]["options"].as_array().unwrap();
    assert_eq!(options.len(), 6);
    assert_eq!(
        options[0],
        serde_json::json!({"what": "memory", "option": "--no-memory", "before": "on", "after": "off"})
    );
    assert_eq!(options[4]["what"], "cache.l3.kib");
    assert_eq!(
        (&options[4]["cpu"], &options[4]["after"]),
        (&"skl".into(), &4096.into())
    );

    // Of two that are cut, how long the warm-up was; of one thread, nothing of cores; and a report
    // of a version before says by its accesses whether it has memory.
    let third = second;
    let mut fourth = third.clone();
    fourth.report.options = Some(AnalysisOptions {
        memory: false,
        cores: None,
    });
    if let Some(intervals) = &mut fourth.report.cpus[0].intervals {
        intervals.warm_up = 2000;
    }
    let warnings = compare(&[third.clone(), fourth]).unwrap().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("(--warm-up)"),
        "{warnings:?}"
    );
    let mut old = third.clone();
    old.report.options = None;
    let warnings = compare(&[old, third]).unwrap().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("(--no-memory)"),
        "{warnings:?}"
    );
}
