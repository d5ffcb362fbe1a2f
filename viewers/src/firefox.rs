//! A profile for the Firefox profiler (processed format, version 48), weighted with predicted
//! cycles: one thread per CPU model, one sample per function with its cycles as the weight.
//!
//! As in [`crate::collapsed`] the stacks are flat, module and function. The samples have no order
//! in time: the call tree and the flame graph tell something, the tracks above them do not.

use std::collections::HashMap;
use std::io::Write;

use mcad_report::{CpuReport, Report};
use serde_json::{Value, json};

use crate::escape::{self, escape};
use crate::{Style, View, ViewError};

/// The `firefox` view.
pub struct Firefox;

/// Version of the processed format, and of the recorded one that it came from.
const PROCESSED: u32 = 48;
const RECORDED: u32 = 27;

impl View for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn description(&self) -> &'static str {
        "a profile weighted with cycles for the Firefox profiler (functions without callers)"
    }

    fn write(&self, report: &Report, _: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        let view = self.name();
        escape::json::compact(out, &profile(report))
            .map_err(|source| ViewError::Encode { view, source })?;
        out.write_all(b"\n")
            .map_err(|source| ViewError::Write { view, source })
    }
}

fn profile(report: &Report) -> Value {
    let threads: Vec<Value> = report
        .cpus
        .iter()
        .enumerate()
        .map(|(n, cpu)| thread(n, cpu))
        .collect();
    let command = report.program.command.join(" ");
    json!({
        "meta": {
            "interval": 1, "startTime": 0, "processType": 0, "stackwalk": 1,
            "version": RECORDED, "preprocessedProfileVersion": PROCESSED,
            "product": format!("mcad {}: {}", report.tool.version, escape(&command)),
            "importedFrom": "mcad", "abi": report.program.arch, "misc": "", "oscpu": "",
            "platform": "", "toolkit": "", "appBuildID": "", "sourceURL": "",
            "symbolicated": true, "symbolicationNotSupported": true, "debug": false,
            "extensions": {"id": [], "name": [], "baseURL": [], "length": 0},
            // The format requires a grey one: it is the default.
            "categories": [
                {"name": "Predicted", "color": "blue", "subcategories": ["Other"]},
                {"name": "Other", "color": "grey", "subcategories": ["Other"]},
            ],
            "markerSchema": [],
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        },
        "libs": [], "pages": [], "threads": threads,
    })
}

/// Texts by number.
#[derive(Default)]
struct Strings {
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Strings {
    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.texts.len();
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// The tables of a thread. Every function and every module has one func, one frame and one stack,
/// all with the same number; a function's stack hangs under its module's.
#[derive(Default)]
struct Tables {
    strings: Strings,
    names: Vec<usize>,
    prefixes: Vec<Option<usize>>,
    modules: HashMap<String, usize>,
}

impl Tables {
    fn stack(&mut self, name: &str, prefix: Option<usize>) -> usize {
        let name = self.strings.number(&escape(name));
        self.names.push(name);
        self.prefixes.push(prefix);
        self.names.len() - 1
    }

    fn module(&mut self, name: &str) -> usize {
        let name = if name.is_empty() { "[unknown]" } else { name };
        if let Some(stack) = self.modules.get(name) {
            return *stack;
        }
        let stack = self.stack(name, None);
        self.modules.insert(name.to_owned(), stack);
        stack
    }
}

fn thread(n: usize, cpu: &CpuReport) -> Value {
    let mut tables = Tables::default();
    let mut stacks = Vec::new();
    let mut weights = Vec::new();
    for f in cpu.functions.iter().filter(|f| f.cycles > 0) {
        let module = tables.module(&f.module);
        stacks.push(tables.stack(&f.name, Some(module)));
        weights.push(f.cycles);
    }
    let samples = stacks.len();
    let length = tables.names.len();
    let same = |value: Value| vec![value; length];
    let numbers: Vec<usize> = (0..length).collect();
    json!({
        "name": format!("{}/{} cycles", cpu.cpu, cpu.analysis),
        "processName": "mcad", "processType": "default", "isMainThread": n == 0,
        "pid": "0", "tid": n, "registerTime": 0, "unregisterTime": null,
        "processStartupTime": 0, "processShutdownTime": null, "pausedRanges": [],
        "samples": {
            "length": samples, "stack": stacks, "weight": weights, "weightType": "samples",
            "time": (0..samples).collect::<Vec<_>>(), "eventDelay": vec![0; samples],
        },
        "stackTable": {
            "length": length, "frame": numbers, "prefix": tables.prefixes,
            "category": same(json!(0)), "subcategory": same(json!(0)),
        },
        "frameTable": {
            "length": length, "func": numbers, "address": same(json!(-1)),
            "inlineDepth": same(json!(0)), "category": same(json!(0)),
            "subcategory": same(json!(0)), "nativeSymbol": same(Value::Null),
            "innerWindowID": same(json!(0)), "implementation": same(Value::Null),
            "line": same(Value::Null), "column": same(Value::Null),
        },
        "funcTable": {
            "length": length, "name": tables.names, "isJS": same(json!(false)),
            "relevantForJS": same(json!(false)), "resource": same(json!(-1)),
            "fileName": same(Value::Null), "lineNumber": same(Value::Null),
            "columnNumber": same(Value::Null),
        },
        "resourceTable": {"length": 0, "lib": [], "name": [], "host": [], "type": []},
        "nativeSymbols": {
            "length": 0, "libIndex": [], "address": [], "name": [], "functionSize": [],
        },
        "markers": {
            "length": 0, "data": [], "name": [], "startTime": [], "endTime": [], "phase": [],
            "category": [],
        },
        "stringArray": tables.strings.texts,
    })
}

#[cfg(test)]
mod tests;
