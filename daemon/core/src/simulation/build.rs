//! Builds the report of a finished simulation.

use std::collections::BTreeMap;

use mcad_isa::code::Printer;
use mcad_proto::event::{Arch, EndReason};
use mcad_proto::word::{BlockId, StreamId};

use super::assumptions;
use super::bound;
use super::branches;
use super::call_report;
use super::core::Core;
use super::dictionary::TranslatedBlock;
use super::fingerprint::Fingerprints;
use super::listing;
use super::misses;
use super::run::Executed;
use super::{AnalysisKind, Simulation, Symbolizer};
use crate::block::{self, Mode};
use mcad_isa::machine::CpuModel;
use mcad_report::{
    AnalysisOptions, BlockReport, CoreUse, CpuReport, FunctionReport, IntervalReport, PortUse,
    ProcessCycles, Report, SCHEMA_VERSION, SlotStack, ThreadReport, Tool, TopDown, TracedProgram,
    Unknown, UnknownForm, is_place,
};

/// Hottest blocks that a report lists.
const BLOCKS: usize = 100;
/// Those of them for which it says what bounds them.
const BOUNDS: usize = 16;
/// Forms without figures that a report lists.
const FORMS: usize = 50;

pub(super) struct Named {
    function: String,
    module: String,
    symbol: String,
    near: Option<String>,
}

/// Names of all executed blocks.
pub(super) type Names = BTreeMap<BlockId, Named>;

/// Has lines looked up where most instructions were executed: most of the blocks whose lines will be
/// asked for are among these, so that files are read while others still simulate.
pub(super) fn read_lines(s: &Simulation, symbols: &dyn Symbolizer) {
    let mut busiest: Vec<_> = s
        .dictionary
        .iter()
        .map(|(id, block)| (executed(s, id).instructions, id, block))
        .filter(|(instructions, ..)| *instructions > 0)
        .collect();
    busiest.sort_by_key(|(instructions, id, _)| (std::cmp::Reverse(*instructions), *id));
    for (_, id, block) in busiest.into_iter().take(BLOCKS) {
        symbols.line(id, block.address);
    }
}

/// Names of all executed blocks, which do not depend on what was simulated.
pub(super) fn names(s: &Simulation, symbols: &dyn Symbolizer) -> Names {
    s.dictionary
        .iter()
        .filter(|(id, _)| executed(s, *id).times > 0)
        .map(|(id, block)| {
            let named = match symbols.symbol(id, block.address) {
                Some(symbol) => Named {
                    symbol: if symbol.offset == 0 {
                        symbol.name.clone()
                    } else {
                        format!("{}+{:#x}", symbol.name, symbol.offset)
                    },
                    function: symbol.name,
                    module: symbol.module,
                    near: symbol.near,
                },
                None => Named {
                    function: "[unknown]".into(),
                    module: String::new(),
                    symbol: String::new(),
                    near: None,
                },
            };
            (id, named)
        })
        .collect()
}

fn executed(s: &Simulation, id: BlockId) -> Executed {
    s.run
        .executed
        .get(id.0 as usize)
        .copied()
        .unwrap_or_default()
}

/// See [`Simulation::finish`].
pub fn report(
    mut s: Simulation,
    cores: &[(Core, Option<IntervalReport>)],
    names: &Names,
    symbols: &dyn Symbolizer,
) -> Report {
    s.stats.distinct_blocks = s.dictionary.defined() as u64;
    let mut cpus = Vec::new();
    for (n, model) in s.options.cpus.iter().enumerate() {
        for analysis in &s.options.analyses {
            cpus.push(match analysis {
                AnalysisKind::Pipeline => match cores.get(n) {
                    Some((core, intervals)) => CpuReport {
                        intervals: *intervals,
                        ..pipeline_report(&s, core, names, symbols)
                    },
                    None => continue,
                },
                AnalysisKind::Block => block_report(&s, model, names, symbols),
            });
        }
    }
    let mut unknown = Unknown::default();
    let mut notes = std::mem::take(&mut s.notices);
    for cpu in cpus.iter().filter(|c| c.analysis == "pipeline") {
        unknown.count += cpu.unknown_instructions.count;
        unknown.approximated += cpu.unknown_instructions.approximated;
        unknown
            .forms
            .extend(cpu.unknown_instructions.forms.iter().cloned());
    }
    unknown
        .forms
        .sort_by(|a, b| b.count.cmp(&a.count).then(a.form.cmp(&b.form)));
    unknown.forms.truncate(FORMS);
    for (core, intervals) in cores {
        notes.extend(intervals.as_ref().map(|i| interval_note(core, i)));
        if core.totals.clamped > 0 {
            notes.push(format!(
                "{}: {} µops would have waited longer than the port calendar reaches; they were taken to start at its end",
                core.model.name, core.totals.clamped
            ));
        }
    }
    let (end, complete) = match &s.end {
        Some(end) => (
            end_text(end),
            matches!(
                end,
                EndReason::Exited(_) | EndReason::Signaled(_) | EndReason::Complete
            ),
        ),
        None => ("no end received".to_owned(), false),
    };
    let modules = std::mem::take(&mut s.modules);
    notes.extend(modules.note());
    let command = s.session.as_ref().map_or(&[][..], |i| &i.command);
    let processes = match s.run.processes.are_many() {
        true => s.run.processes.report(command, &end, end_text),
        false => Vec::new(),
    };
    let several = match processes.as_slice() {
        [] => s.stats.threads > 1,
        all => all.iter().any(|process| process.threads > 1),
    };
    let options = AnalysisOptions {
        memory: s.options.memory && s.session.as_ref().is_none_or(|info| info.memory),
        cores: several.then_some(match s.run.mixed {
            false => CoreUse::Each,
            true => CoreUse::One,
        }),
    };
    Report {
        schema_version: SCHEMA_VERSION,
        tool: Tool {
            name: "mcad".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        },
        program: TracedProgram {
            command: s
                .session
                .as_ref()
                .map(|i| i.command.clone())
                .unwrap_or_default(),
            arch: s
                .session
                .as_ref()
                .map_or(Arch::X86_64, |i| i.arch)
                .name()
                .into(),
            end,
            complete: complete && s.stats.lost_records == 0,
            modules: modules.list(),
        },
        processes,
        trace: s.stats,
        options: Some(options),
        cpus,
        unknown_instructions: unknown,
        notes,
        run: mcad_report::RunInfo::default(),
    }
}

/// Threads, each of its intervals, in the order of their processes, and the sums over these where there are
/// several.
fn by_process(s: &Simulation, core: &Core) -> (Vec<ThreadReport>, Vec<ProcessCycles>) {
    let mut by_stream: BTreeMap<StreamId, ThreadReport> = BTreeMap::new();
    for part in &core.finished {
        // What a thread did before it went on with another program is the same thread's, as are its intervals.
        let stream = s.run.processes.thread(StreamId(part.thread));
        let thread = by_stream.entry(stream).or_insert_with(|| ThreadReport {
            thread: stream.0,
            instructions: 0,
            cycles: 0,
            ..part.clone()
        });
        thread.instructions += part.instructions;
        thread.cycles += part.cycles;
    }
    let mut threads: Vec<ThreadReport> = by_stream.into_values().collect();
    if !s.run.processes.are_many() {
        return (threads, Vec::new());
    }
    let numbers = s.run.processes.by_descent();
    for thread in &mut threads {
        let number = numbers.get(thread.process as usize);
        thread.process = number.copied().unwrap_or_default();
    }
    // Within a process streams are numbered in the order of their threads.
    threads.sort_by_key(|t| (t.process, t.thread));
    let mut processes: Vec<ProcessCycles> = (0..numbers.len() as u32)
        .map(|process| ProcessCycles {
            process,
            instructions: 0,
            cycles: 0,
        })
        .collect();
    for (n, thread) in threads.iter_mut().enumerate() {
        thread.thread = n as u32;
        if let Some(process) = processes.get_mut(thread.process as usize) {
            process.instructions += thread.instructions;
            process.cycles += thread.cycles;
        }
    }
    (threads, processes)
}

fn interval_note(core: &Core, i: &IntervalReport) -> String {
    let difference = match i.compared {
        0 => {
            "no two of them simulate the same, so how far all of it is off is not known".to_owned()
        }
        compared => format!(
            "neighbours differ by {:.3} % of the cycles that both simulate, and all of it is unlikely to be further off",
            100.0 * i.difference as f64 / compared as f64
        ),
    };
    format!(
        "{}: simulated in {} intervals of {} instructions, each begun with the caches and predictors \
         of that moment and warmed up by the {} instructions before it; {difference}; who called whom \
         is not known of intervals, so there are no call stacks",
        core.model.name, i.count, i.length, i.warm_up,
    )
}

fn end_text(end: &EndReason) -> String {
    match end {
        EndReason::Exited(status) => format!("exited {status}"),
        EndReason::Signaled(signal) => format!("signal {signal}"),
        EndReason::Complete => "complete".to_owned(),
        EndReason::ProducerDied(text) => format!("the emulator died: {text}"),
        EndReason::Truncated(text) => format!("truncated: {text}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

/// Instructions without figures of their own, those most often executed first.
fn unknown_instructions(core: &Core) -> Unknown {
    let mut unknown = Unknown::default();
    for (form, unlisted) in &core.unlisted {
        if unlisted.count == 0 {
            continue;
        }
        let treatment = match &unlisted.borrowed_from {
            Some(from) => {
                unknown.approximated += unlisted.count;
                format!("approximated as {from}")
            }
            None => {
                unknown.count += unlisted.count;
                "unknown: one cycle on any integer ALU, with its loads and stores".to_owned()
            }
        };
        unknown.forms.push(UnknownForm {
            form: form.clone(),
            treatment,
            cpu: core.model.name.clone(),
            count: unlisted.count,
        });
    }
    unknown
        .forms
        .sort_by(|a, b| b.count.cmp(&a.count).then(a.form.cmp(&b.form)));
    unknown.forms.truncate(FORMS);
    unknown
}

fn pipeline_report(
    s: &Simulation,
    core: &Core,
    names: &Names,
    symbols: &dyn Symbolizer,
) -> CpuReport {
    let cycles: u64 = core.finished.iter().map(|t| t.cycles).sum();
    let port_names = core.model.core.port_names();
    let (threads, processes) = by_process(s, core);
    let cycles_of = |id: BlockId| core.cycles(id).iter().sum();
    let uops_of = |id: BlockId| core.fused_in(id) * executed(s, id).times;
    let slots_of = |id: BlockId| Some(core.slots(id, executed(s, id).times));
    CpuReport {
        cpu: core.model.name.clone(),
        name: core.model.full_name.clone(),
        analysis: "pipeline".into(),
        in_order: core.model.core.in_order.is_some(),
        assumes: assumptions::of_programs(&core.model.core, s.run.mixed),
        doubts: assumptions::doubts_of_programs(&core.model.core, s.run.evidence.as_ref()),
        instructions: s.stats.instructions,
        uops: core.totals.uops,
        cycles,
        ipc: ratio(s.stats.instructions, cycles),
        topdown: core.totals.topdown,
        slots: sum(names.keys().filter_map(|id| slots_of(*id))),
        ports: core
            .totals
            .port_uops
            .iter()
            .zip(&port_names)
            .map(|(uops, name)| PortUse {
                port: name.clone(),
                uops: *uops,
            })
            .collect(),
        threads,
        processes,
        functions: functions(s, names, &cycles_of, &uops_of, &slots_of),
        calls: core.calls.as_ref().map_or_else(Vec::new, |calls| {
            let name = |id| {
                names
                    .get(&id)
                    .map(|n| (n.function.as_str(), n.module.as_str()))
            };
            call_report::report(calls, name)
        }),
        blocks: blocks(s, names, symbols, &core.model, Some(core), &cycles_of),
        lines: listing::lines(
            core,
            names.iter().filter_map(|(id, named)| {
                Some((*id, s.dictionary.get(*id)?, named.function.as_str()))
            }),
            symbols,
        ),
        branches: branches::report(
            core,
            names.iter().filter_map(|(id, named)| {
                let block = s.dictionary.get(*id)?;
                Some((*id, block, named.function.as_str(), named.module.as_str()))
            }),
            symbols,
        ),
        memory: misses::report(
            core,
            names.iter().filter_map(|(id, named)| {
                let block = s.dictionary.get(*id)?;
                Some((*id, block, named.function.as_str(), named.module.as_str()))
            }),
            symbols,
        ),
        regions: s
            .run
            .regions
            .iter()
            .enumerate()
            .map(|(n, region)| {
                core.stays
                    .get(n)
                    .cloned()
                    .unwrap_or_default()
                    .report(&region.name)
            })
            .collect(),
        unknown_instructions: unknown_instructions(core),
        intervals: None,
        table: Some(core.model.instructions.name().to_owned()),
        parameters: parameters(&core.model),
    }
}

/// Every block on its own: predicted throughput times executions.
fn block_report(
    s: &Simulation,
    model: &std::sync::Arc<CpuModel>,
    names: &Names,
    symbols: &dyn Symbolizer,
) -> CpuReport {
    let mut cycles: Vec<u64> = vec![0; s.run.executed.len()];
    let mut uops: Vec<u64> = vec![0; s.run.executed.len()];
    let mut unknown = Unknown::default();
    for (id, b) in s.dictionary.iter() {
        let times = executed(s, id).times;
        if times == 0 {
            continue;
        }
        let place = id.0 as usize;
        match block::Block::new(model, &b.bytes) {
            Ok(ready) => {
                let options = block::Options {
                    mode: Mode::Loop,
                    ..block::Options::default()
                };
                cycles[place] = (ready.predict(options).cycles * times as f64).round() as u64;
                uops[place] = ready.fused_uops() * times;
            }
            Err(error) => {
                unknown.count += times;
                unknown.forms.push(UnknownForm {
                    form: format!("block at {:#x}", b.address.0),
                    treatment: error.to_string(),
                    cpu: model.name.clone(),
                    count: times,
                });
            }
        }
    }
    unknown
        .forms
        .sort_by(|a, b| b.count.cmp(&a.count).then(a.form.cmp(&b.form)));
    unknown.forms.truncate(FORMS);
    let total: u64 = cycles.iter().sum();
    let of = |v: &[u64], id: BlockId| v.get(id.0 as usize).copied().unwrap_or(0);
    CpuReport {
        cpu: model.name.clone(),
        name: model.full_name.clone(),
        analysis: "block".into(),
        in_order: model.core.in_order.is_some(),
        assumes: assumptions::of_blocks(),
        doubts: assumptions::doubts_of_blocks(s.run.evidence.as_ref()),
        instructions: s.stats.instructions,
        uops: uops.iter().sum(),
        cycles: total,
        ipc: ratio(s.stats.instructions, total),
        topdown: TopDown::default(),
        slots: None,
        ports: Vec::new(),
        threads: Vec::new(),
        processes: Vec::new(),
        functions: functions(
            s,
            names,
            &|id| of(&cycles, id),
            &|id| of(&uops, id),
            &|_| None,
        ),
        calls: Vec::new(),
        blocks: blocks(s, names, symbols, model, None, &|id| of(&cycles, id)),
        lines: Vec::new(),
        memory: None,
        branches: None,
        regions: Vec::new(),
        unknown_instructions: unknown,
        intervals: None,
        table: Some(model.instructions.name().to_owned()),
        parameters: parameters(model),
    }
}

/// All of them together; none when there are none.
fn sum(stacks: impl Iterator<Item = SlotStack>) -> Option<SlotStack> {
    stacks.reduce(|mut sum, stack| {
        sum.add(&stack);
        sum
    })
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

fn parameters(model: &CpuModel) -> serde_json::Value {
    serde_json::to_value(&model.core).unwrap_or(serde_json::Value::Null)
}

fn functions(
    s: &Simulation,
    names: &Names,
    cycles: &dyn Fn(BlockId) -> u64,
    uops: &dyn Fn(BlockId) -> u64,
    slots: &dyn Fn(BlockId) -> Option<SlotStack>,
) -> Vec<FunctionReport> {
    let mut by_name: BTreeMap<(&str, &str), FunctionReport> = BTreeMap::new();
    let mut prints = Fingerprints::default();
    for (id, named) in names {
        if is_place(&named.function, &named.module)
            && let Some(block) = s.dictionary.get(*id)
        {
            let function = (named.function.as_str(), named.module.as_str());
            prints.add(function, block, executed(s, *id).instructions);
        }
        let f = by_name
            .entry((&named.function, &named.module))
            .or_insert_with(|| FunctionReport {
                name: named.function.clone(),
                module: named.module.clone(),
                cycles: 0,
                instructions: 0,
                uops: 0,
                slots: None,
                near: named.near.clone(),
                fingerprint: Vec::new(),
            });
        f.cycles += cycles(*id);
        f.instructions += executed(s, *id).instructions;
        f.uops += uops(*id);
        f.slots = sum(f.slots.into_iter().chain(slots(*id)));
    }
    for (function, fingerprint) in prints.finish() {
        if let Some(f) = by_name.get_mut(&function) {
            f.fingerprint = fingerprint;
        }
    }
    let mut functions: Vec<FunctionReport> = by_name.into_values().collect();
    functions.sort_by(|a, b| {
        b.cycles
            .cmp(&a.cycles)
            .then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
    });
    functions
}

fn blocks(
    s: &Simulation,
    names: &Names,
    symbols: &dyn Symbolizer,
    model: &std::sync::Arc<CpuModel>,
    core: Option<&Core>,
    cycles: &dyn Fn(BlockId) -> u64,
) -> Vec<BlockReport> {
    let mut hottest: Vec<(u64, BlockId)> = names.keys().map(|id| (cycles(*id), *id)).collect();
    hottest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    hottest.truncate(BLOCKS);
    hottest
        .into_iter()
        .enumerate()
        .filter_map(|(rank, (cycles, id))| {
            let block = s.dictionary.get(id)?;
            let named = names.get(&id)?;
            let (bound, ports) = (rank < BOUNDS && cycles > 0)
                .then(|| bound::of(model, &block.bytes))
                .flatten()
                .unzip();
            Some(BlockReport {
                address: format!("{:#x}", block.address.0),
                symbol: named.symbol.clone(),
                module: named.module.clone(),
                line: symbols.line(id, block.address),
                executions: executed(s, id).times,
                instructions: block.len() as u32,
                cycles,
                slots: core.map(|core| core.slots(id, executed(s, id).times)),
                code: code(block),
                listing: core.map_or_else(Vec::new, |core| {
                    listing::of(core, id, block, ports.unwrap_or_default(), symbols)
                }),
                bound,
            })
        })
        .collect()
}

fn code(block: &TranslatedBlock) -> Vec<String> {
    let mut printer = Printer::new();
    let decoded = block.decode();
    decoded.iter().map(|code| printer.text(code)).collect()
}
