//! A profile for the Firefox profiler (processed format, version 48), weighted with predicted
//! cycles: one thread per CPU model, one sample for each path of calls with the cycles at its end as
//! the weight. In reports without calls the stacks are flat, module and function. The samples have no
//! order in time: the call tree and the flame graph tell something, the tracks above them do not.

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
        "a profile weighted with cycles for the Firefox profiler"
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

/// The tables of a thread. Every path of calls, or function and module, has one frame and one stack
/// of the same number, which hangs under its caller's, or its module's; what has the same name is
/// one func.
#[derive(Default)]
struct Tables {
    strings: Strings,
    /// Names by func, and the func of each frame.
    names: Vec<usize>,
    funcs: Vec<usize>,
    by_name: HashMap<usize, usize>,
    prefixes: Vec<Option<usize>>,
    modules: HashMap<String, usize>,
}

impl Tables {
    fn stack(&mut self, name: &str, prefix: Option<usize>) -> usize {
        let name = self.strings.number(&escape(name));
        let next = self.names.len();
        let func = *self.by_name.entry(name).or_insert(next);
        if func == next {
            self.names.push(name);
        }
        self.funcs.push(func);
        self.prefixes.push(prefix);
        self.prefixes.len() - 1
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
    for (n, call) in cpu.calls.iter().enumerate() {
        // A caller comes before what it calls; a foreign report's that does not is left out.
        let caller = call.caller.map(|c| c as usize).filter(|caller| *caller < n);
        let stack = tables.stack(&call.function, caller);
        if call.cycles > 0 {
            stacks.push(stack);
            weights.push(call.cycles);
        }
    }
    let flat = cpu.functions.iter().filter(|f| f.cycles > 0);
    for f in flat.filter(|_| cpu.calls.is_empty()) {
        let module = tables.module(&f.module);
        stacks.push(tables.stack(&f.name, Some(module)));
        weights.push(f.cycles);
    }
    let samples = stacks.len();
    let (length, funcs) = (tables.prefixes.len(), tables.names.len());
    let same = |value: Value| vec![value; length];
    let of_all = |value: Value| vec![value; funcs];
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
            "length": length, "func": tables.funcs, "address": same(json!(-1)),
            "inlineDepth": same(json!(0)), "category": same(json!(0)),
            "subcategory": same(json!(0)), "nativeSymbol": same(Value::Null),
            "innerWindowID": same(json!(0)), "implementation": same(Value::Null),
            "line": same(Value::Null), "column": same(Value::Null),
        },
        "funcTable": {
            "length": funcs, "name": tables.names, "isJS": of_all(json!(false)),
            "relevantForJS": of_all(json!(false)), "resource": of_all(json!(-1)),
            "fileName": of_all(Value::Null), "lineNumber": of_all(Value::Null),
            "columnNumber": of_all(Value::Null),
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
