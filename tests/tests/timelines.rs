//! Timelines of a program with several threads: every form agrees with the report.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mcad_report::{CpuReport, Report};
use mcad_tests::{inputs, mcad, report};
use serde_json::Value;

const SOURCE: &str = "\
#include <pthread.h>
static unsigned long results[2];
static void *work(void *argument) {
    unsigned long *result = argument, sum = 1;
    for (unsigned i = 0; i < 300; i++)
        sum = sum * 31 + i;
    *result = sum;
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], 0, work, &results[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], 0);
    return results[0] != results[1];
}
";

/// What a thread's timeline adds up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Figures {
    /// Cycle of the last retirement.
    cycles: u64,
    /// µops by port.
    ports: BTreeMap<String, u64>,
}

struct Recorded {
    directory: tempfile::TempDir,
    report: Report,
    timeline: PathBuf,
}

fn recorded() -> Recorded {
    let directory = tempfile::tempdir().unwrap();
    let program = inputs::compile(directory.path(), "threads", SOURCE);
    let path = |name: &str| directory.path().join(name);
    let (trace, json, timeline) = (path("t.mcad"), path("t.json"), path("t.timeline"));
    mcad(["record", "-o"])
        .args([&trace, Path::new("--"), &program])
        .run()
        .expect(0);
    mcad(["replay", "-q", "--cpu", "skl", "--json"])
        .args([&json, Path::new("--timeline"), &timeline, &trace])
        .run()
        .expect(0);
    Recorded {
        report: report::read(&json),
        directory,
        timeline,
    }
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

/// By thread, from the trace events.
fn chrome(trace: &Value) -> BTreeMap<u64, Figures> {
    let mut threads: BTreeMap<u64, Figures> = BTreeMap::new();
    for event in trace["traceEvents"].as_array().unwrap() {
        if event["ph"] != "X" || event["cat"] != "instruction" {
            continue;
        }
        let thread = threads.entry(number(&event["pid"])).or_default();
        let end = number(&event["ts"]) + number(&event["dur"]) - 1;
        assert!(end >= thread.cycles, "instructions retire in order");
        thread.cycles = end;
        for uop in event["args"]["uops"].as_array().unwrap() {
            if let Some(port) = uop[0].as_u64() {
                *thread.ports.entry(format!("{port:X}")).or_default() += 1;
            }
        }
    }
    threads
}

/// By thread, from the log: its threads follow one another, each from where the one before ended.
fn konata(log: &str) -> BTreeMap<u64, Figures> {
    let mut threads: BTreeMap<u64, Figures> = BTreeMap::new();
    let mut rows: Vec<u64> = Vec::new();
    let mut first: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut now, mut next) = (0, 0);
    for line in log.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |n: usize| fields[n].parse::<u64>().unwrap();
        match fields[0] {
            "C=" => now = number(1),
            "C" => now += number(1),
            "I" => {
                assert_eq!(number(1), rows.len() as u64);
                first.entry(number(3)).or_insert(now);
                rows.push(number(3));
            }
            "L" if fields[2] == "1" => {
                let thread = threads.entry(rows[number(1) as usize]).or_default();
                if let Some((_, port)) = fields[3].rsplit_once(", port ") {
                    *thread.ports.entry(port.to_owned()).or_default() += 1;
                }
            }
            "R" => {
                assert_eq!(number(1), next, "µops retire in order");
                next += 1;
                threads.get_mut(&rows[number(1) as usize]).unwrap().cycles = now;
            }
            _ => {}
        }
    }
    assert_eq!(next, rows.len() as u64);
    // Without the shift: all threads begin in the same cycle of their own.
    let begin = first.values().min().copied().unwrap();
    for (thread, figures) in &mut threads {
        figures.cycles -= first[thread] - begin;
    }
    threads
}

/// What the report says of threads and ports.
fn check(cpu: &CpuReport, threads: &BTreeMap<u64, Figures>) {
    let cycles: BTreeMap<u64, u64> = cpu
        .threads
        .iter()
        .map(|thread| (thread.thread.into(), thread.cycles))
        .collect();
    let exported = threads.iter().map(|(thread, f)| (*thread, f.cycles));
    assert_eq!(exported.collect::<BTreeMap<_, _>>(), cycles);
    assert_eq!(threads.values().map(|f| f.cycles).sum::<u64>(), cpu.cycles);
    let functions = cpu.functions.iter().map(|f| f.cycles);
    assert_eq!(functions.sum::<u64>(), cpu.cycles);
    for port in &cpu.ports {
        let uops = threads.values().filter_map(|f| f.ports.get(&port.port));
        assert_eq!(uops.sum::<u64>(), port.uops, "port {}", port.port);
    }
}

#[test]
fn all_threads_are_exported_and_agree_with_the_report() {
    let Recorded {
        directory,
        report,
        timeline,
    } = recorded();
    let cpu = &report.cpus[0];
    assert_eq!(cpu.threads.len(), 3);
    let export = |format: &str| {
        let path = directory.path().join(format);
        let view = ["view", "--format", format, "-o"];
        mcad(view).args([&path, &timeline]).run().expect(0);
        fs::read_to_string(path).unwrap()
    };
    let trace = chrome(&serde_json::from_str(&export("chrome")).unwrap());
    check(cpu, &trace);
    let log = konata(&export("konata"));
    check(cpu, &log);
    assert_eq!(trace, log);
}

#[test]
fn the_thread_of_a_timeline_is_chosen_and_named() {
    let recorded = recorded();
    let timeline = &recorded.timeline;
    let view = |options: &[&str]| {
        let view = mcad(["view", "--max-cycles", "1000000"]).args(options);
        view.args([timeline]).run()
    };
    let first = view(&[]).expect(0).says("thread 0 is shown");
    let first = first.says("--thread N shows another of 1, 2").text();
    assert_ne!(view(&["--thread", "1"]).expect(0).text(), first);
    assert_eq!(view(&["--thread", "0"]).expect(0).text(), first);
    view(&["--thread", "7"]).expect(2).says("no thread 7");
    view(&["--thread", "1", "--format", "chrome"])
        .expect(2)
        .says("--thread is for");
    let log = view(&["--thread", "2", "--format", "konata"]);
    let log = log.expect(0).text();
    assert!(
        log.lines()
            .all(|line| !line.starts_with("I\t") || line.ends_with("\t2"))
    );
}
