//! Figures that `mcad profile instruction -o FILE.csv` measured, laid over a draft: latencies as they
//! are; throughputs as pipes where another number of them explains the figure, else as themselves.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use liblzma::read::XzDecoder;
use mcad_isa::machine::measured::{kind_of, operand_of};
use mcad_isa::machine::table::{Binding, Form, Latency, LatencyKind, OperandName, Perf, PortSet};

use super::classes;
use super::memory::Shape;
use super::ways::Ways;
use super::{Pipes, halves};
use crate::tables::cpus::Layout;
use crate::tables::draft::Draft;

/// What was measured of the forms of one name.
#[derive(Debug, Default)]
struct Figures {
    throughput: Option<f64>,
    latencies: Vec<(OperandName, OperandName, LatencyKind, f64)>,
    /// What it takes from instructions that keep two vector units busy each: their places in
    /// [`REFERENCES`], 0 to 1.
    conflicts: [Option<f64>; 3],
}

/// The profiler's references, and the vector units that they keep busy on Zen.
const REFERENCES: [(&str, u32); 3] = [("multiply", 0b0011), ("add", 0b1100), ("shuffle", 0b0110)];

/// What hypervisors intercept: in a virtual machine not the CPU's time was measured. On an EPYC of Zen 5 `cpuid` took 15 700 cycles.
const INTERCEPTED: [&str; 1] = ["CPUID"];

/// Reads a file of measurements.
fn read(path: &Path) -> Result<HashMap<String, Figures>> {
    let place = || path.display().to_string();
    let file = std::fs::File::open(path).with_context(place)?;
    let mut text = String::new();
    XzDecoder::new(file)
        .read_to_string(&mut text)
        .with_context(place)?;
    let mut all: HashMap<String, Figures> = HashMap::new();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    for record in reader.records() {
        let record = record.with_context(place)?;
        let field = |n: usize| record.get(n).unwrap_or("");
        let Ok(cycles) = field(6).parse::<f64>() else {
            continue;
        };
        if INTERCEPTED.contains(&field(0)) {
            continue;
        }
        let figures = all.entry(field(0).to_owned()).or_default();
        if field(2) == "throughput" {
            let least = figures.throughput.map_or(cycles, |known| known.min(cycles));
            figures.throughput = Some(least);
        } else if field(2) == "conflict" {
            let place = REFERENCES.iter().position(|r| r.0 == field(4));
            if let Some(known) = place.and_then(|n| figures.conflicts.get_mut(n)) {
                *known = Some(cycles);
            }
        } else if let (Some(from), Some(to), Some(kind)) = (
            operand_of(field(3)),
            operand_of(field(4)),
            kind_of(field(5)),
        ) {
            figures.latencies.push((from, to, kind, cycles));
        }
    }
    Ok(all)
}

/// Lays the measurements of a file over a draft.
///
/// # Errors
/// When the file cannot be read.
pub fn overlay(draft: &mut Draft, path: &Path) -> Result<()> {
    let Some(pipes) = Pipes::of(draft.cpu.layout) else {
        return Ok(());
    };
    let measured = read(path)?;
    let ways = Ways::of(|form| {
        let figures = measured.get(form)?;
        figures.latencies.first().map(|l| l.3)
    });
    for form in &mut draft.forms {
        let Some(figures) = measured.get(&*form.name) else {
            continue;
        };
        let before = form.perf.clone();
        let unmasked = measured.get(&form.name.replace(", K, ", ", "));
        take(form, (figures, unmasked), &pipes, &ways);
        if form.perf.ports != before.ports {
            draft.report.disagreements.push(format!(
                "{}: {} cycles are not those of {}",
                form.name,
                figures.throughput.unwrap_or(0.0),
                names(&before)
            ));
        }
        form.approximated_from = None;
        let throughput = match figures.throughput {
            Some(_) => "throughput, ",
            None => "",
        };
        let latencies = figures.latencies.len();
        form.source = format!(
            "{}; measured: {throughput}{latencies} latencies",
            form.source
        )
        .into();
    }
    if draft.cpu.layout == Layout::Zen5 {
        take_locks_results(&mut draft.forms);
    }
    Ok(())
}

/// Gives locked instructions the latencies that they have without the lock.
///
/// Chains of them take what one keeps the next from retiring, longer than any latency; behind a chain that is longer
/// still, results are there as soon as others' (docs/ZEN5.md, "Locked instructions").
fn take_locks_results(forms: &mut [Form]) {
    let plain: HashMap<_, _> = (forms.iter())
        .filter(|form| !form.locked)
        .map(|form| (form.name.to_string(), form.perf.latencies.clone()))
        .collect();
    for form in forms.iter_mut().filter(|form| form.locked) {
        // What `xchg` loads and stores have nothing to do with each other.
        let (load, store) = match form.name.strip_prefix("XCHG (M") {
            Some(rest) => (
                rest.split_once(", ")
                    .map(|(bits, reg)| format!("MOV ({}, M{bits})", reg.trim_end_matches(')'))),
                Some(form.name.replace("XCHG", "MOV")),
            ),
            None => (Some(form.name.replace("_LOCK", "")), None),
        };
        let of = |name: Option<String>| name.and_then(|name| plain.get(&name));
        let (load, store) = (of(load), of(store));
        form.perf.latencies.retain_mut(|latency| {
            let same = |known: &&Latency| {
                (known.from, known.to, known.kind) == (latency.from, latency.to, latency.kind)
            };
            let known = load.into_iter().chain(store).flatten().find(same);
            if let Some(known) = known {
                latency.cycles = latency.cycles.min(known.cycles);
            }
            known.is_some() || store.is_none()
        });
        if let Some(indexed) = &mut form.indexed {
            indexed.latencies.clone_from(&form.perf.latencies);
        }
    }
}

fn names(perf: &Perf) -> String {
    let of = |(set, n): &(PortSet, u16)| format!("{n}×{:x}", set.0);
    perf.ports.iter().map(of).collect::<Vec<_>>().join("+")
}

/// `unmasked`: what was measured of the same form without a mask.
fn take(
    form: &mut Form,
    (figures, unmasked): (&Figures, Option<&Figures>),
    pipes: &Pipes,
    ways: &Ways,
) {
    let shape = Shape::of(form);
    let to_memory = |name: OperandName| matches!(name, OperandName::Mem(_));
    // Loads do not have what a store under a mask writes before it is written, which is in what was measured and not
    // in the store.
    let most_to_memory = unmasked.map_or(f64::MAX, |unmasked| {
        let latencies = unmasked.latencies.iter().filter(|l| to_memory(l.1));
        latencies.map(|l| l.3).fold(f64::MIN, f64::max)
    });
    let operands = form.operands.clone();
    for &(from, to, kind, cycles) in &figures.latencies {
        let cycles = match to_memory(to) && kind == LatencyKind::Reg {
            true => cycles.min(most_to_memory.max(0.0)),
            false => cycles,
        };
        // What only gives the elements above a scalar is not waited for: this is as quick as the form can be.
        let unseen = kind == LatencyKind::Reg
            && classes::gives_upper(&form.name) == Some(from)
            && figures
                .throughput
                .is_some_and(|all| cycles <= all * (1.0 + FIT));
        let cycles = ways.whole(cycles, &form.name, (from, to, kind));
        let cycles = match unseen {
            true => 0,
            false => cycles.clamp(0.0, 10_000.0) as u16,
        };
        let named = |name| operands.iter().any(|o| o.name == name);
        let known = form.perf.latencies.iter_mut();
        let mut same = known.filter(|l| (l.from, l.to, l.kind) == (from, to, kind));
        match same.next() {
            // Between registers an update cannot be seen to be quicker than from one to the next through memory.
            Some(latency) if shape.updates() && kind == LatencyKind::Reg => {
                latency.cycles = latency.cycles.min(cycles);
            }
            Some(latency) => latency.cycles = cycles,
            None if named(from) && named(to) => form.perf.latencies.push(Latency {
                from,
                to,
                kind,
                cycles,
            }),
            None => {}
        }
    }
    shorten_updates(&mut form.perf, pipes.generation);
    // Those from an index are among them. What other variants have may be of a row of another make, whose loads
    // take longer.
    if let Some(indexed) = &mut form.indexed {
        indexed.latencies.clone_from(&form.perf.latencies);
    }
    let Some(throughput) = figures.throughput else {
        return;
    };
    let by_class = classes::pipes_of(&form.name, pipes);
    let exact = if classes::is_integer(&form.name) {
        EXACT_INTEGER
    } else {
        EXACT
    };
    let name = form.name.clone();
    let perf = &mut form.perf;
    if perf.ports.is_empty() && throughput > executed(pipes) {
        let class = match by_class == pipes.alu && !classes::is_integer(&name) {
            true => pipes.vector,
            false => by_class,
        };
        perf.ports = vec![(class, 1)];
        perf.uops = 1;
    }
    fewer(perf, throughput, shape, pipes);
    let halves = halves(&name, pipes.generation);
    if !units(perf, halves, throughput, &figures.conflicts, shape, pipes) {
        refit(perf, throughput, shape, pipes);
    }
    // What the core's parameters have: constants in a line, and the stack's way through memory.
    let elsewhere = ["I64", "Moffs"].iter().any(|part| name.contains(part))
        || operands.iter().any(|o| o.binding == Binding::StackEngine);
    let told = throughput >= LEAST_SPACING || !elsewhere;
    perf.tp = (told && throughput > bound(perf, pipes) * (1.0 + exact))
        .then(|| (throughput * 100.0).round().min(6e6) as u32);
    // Equal registers and an index make no difference to what is executed, unless nothing is.
    for other in [form.same_reg.as_mut(), form.indexed.as_mut()]
        .into_iter()
        .flatten()
    {
        if !other.ports.is_empty() {
            let latencies = std::mem::take(&mut other.latencies);
            *other = Perf {
                latencies,
                ..form.perf.clone()
            };
        }
    }
}

/// Latency of a load of the general-purpose registers.
const LOAD: u16 = 4;

/// From data in memory to data in memory an update takes its load and what it computes. What was
/// measured has the way through the store buffer in it, which the core's parameters have, too, and
/// which it does not take where it renames memory: Zen 3 does so in the profiler's chains, too, where no load is left.
fn shorten_updates(perf: &mut Perf, generation: Layout) {
    let computing = |to: OperandName| matches!(to, OperandName::Reg(_));
    let registers = perf
        .latencies
        .iter()
        .filter(|l| l.kind == LatencyKind::Reg && computing(l.to));
    let slowest = registers.map(|l| l.cycles).max().unwrap_or(1).max(1);
    for latency in &mut perf.latencies {
        if latency.kind == LatencyKind::Mem && matches!(latency.to, OperandName::Mem(_)) {
            let whole = LOAD + slowest;
            latency.cycles = match generation == Layout::Zen3 && latency.cycles < LOAD {
                true => whole,
                false => latency.cycles.min(whole),
            };
        }
    }
}

/// From here on a throughput is not that of pipes, but of a unit that is not pipelined.
const LEAST_SPACING: f64 = 1.6;
/// By how much figures may differ from what pipes allow.
const FIT: f64 = 0.1;
/// By how much they differ, at most, where pipes explain them.
const EXACT: f64 = 0.02;
/// The same of integer instructions, which lose some slots of their units to each other
/// (docs/ZEN5.md, `unbound`).
const EXACT_INTEGER: f64 = 0.3;

/// What takes longer than this is executed: rename does six and more a cycle, Zen's five.
fn executed(pipes: &Pipes) -> f64 {
    match pipes.generation {
        Layout::Zen1 => 0.23,
        _ => 0.2,
    }
}

/// Least cycles between two executions.
fn bound(perf: &Perf, pipes: &Pipes) -> f64 {
    let load = |union: u32| {
        let uops = perf.ports.iter().filter(|(set, _)| set.0 & !union == 0);
        let uops: u32 = uops.map(|(_, n)| u32::from(*n)).sum();
        f64::from(uops) / f64::from(union.count_ones().max(1))
    };
    // Two sets together may be scarcer than each.
    let sets = perf.ports.iter().map(|(set, _)| set.0);
    let unions = sets.clone().flat_map(|a| sets.clone().map(move |b| a | b));
    let own = unions.map(load).fold(0.0, f64::max);
    own.max(f64::from(perf.retire_slots) / f64::from(pipes.width))
}

/// Takes macro-ops away that the throughput leaves no room for: the core that the rows are of needs
/// more of them.
fn fewer(perf: &mut Perf, throughput: f64, shape: Shape, pipes: &Pipes) {
    let memory = pipes.load.0 | pipes.store_address.0;
    let data = if shape.stores > 0 {
        pipes.store_data.0
    } else {
        0
    };
    while bound(perf, pipes) > throughput * (1.0 + FIT) + 0.02 {
        let computing = |(set, n): &&mut (PortSet, u16)| *n > 0 && set.0 & (memory | data) == 0;
        let most = perf
            .ports
            .iter_mut()
            .filter(computing)
            .max_by_key(|(_, n)| *n);
        let single = most.as_ref().is_none_or(|(_, n)| *n <= 1);
        if let Some((_, n)) = most {
            *n -= u16::from(*n > 1);
        }
        if single && perf.retire_slots <= 1 {
            // One of each set is left, of which the narrowest goes.
            let computing = |(_, (set, _)): &(usize, &(PortSet, u16))| set.0 & (memory | data) == 0;
            let sets = perf.ports.iter().enumerate().filter(computing);
            let narrowest = sets.clone().min_by_key(|(_, (set, _))| set.0.count_ones());
            let Some((place, _)) = narrowest.filter(|_| sets.count() > 1) else {
                break;
            };
            perf.ports.remove(place);
        }
        if perf.retire_slots > 1 {
            perf.retire_slots -= 1;
        }
    }
    let slots = perf.retire_slots;
    (perf.uops_mite, perf.uops_ms) = match slots {
        0..=2 => (slots.max(1), 0),
        _ => (1, slots - 1),
    };
    perf.complex_decoder = slots > 1;
    perf.uops = perf.ports.iter().map(|p| p.1).sum();
}

/// What three units take in a cycle's share of two, 2/3, and a little.
const FEWER: f64 = 0.7;
/// A conflict from which on two instructions need the same units.
const SAME: f64 = 0.75;

/// Gives the only computing µop the units that its conflicts show, if they show any.
fn units(
    perf: &mut Perf,
    halves: u16,
    throughput: f64,
    conflicts: &[Option<f64>; 3],
    shape: Shape,
    pipes: &Pipes,
) -> bool {
    let same = REFERENCES.iter().zip(conflicts);
    let same = same.filter_map(|(reference, conflict)| Some((reference.1, (*conflict)?)));
    let most = same.max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((units, _)) = most.filter(|(_, conflict)| *conflict >= SAME) else {
        return false;
    };
    let Some(set) = computing(perf, halves, shape, pipes) else {
        return false;
    };
    if throughput * f64::from(units.count_ones()) < f64::from(halves) * FEWER {
        // It has more units than those.
        return false;
    }
    *set = PortSet(units << pipes.vector.0.trailing_zeros());
    true
}

/// The set of the only computing µop, if it is one of vectors, or of its `halves`.
fn computing<'p>(
    perf: &'p mut Perf,
    halves: u16,
    shape: Shape,
    pipes: &Pipes,
) -> Option<&'p mut PortSet> {
    let memory = pipes.load.0 | pipes.store_address.0;
    let data = if shape.stores > 0 {
        pipes.store_data.0
    } else {
        0
    };
    let mut sets = perf.ports.iter_mut();
    let mut sets = sets
        .by_ref()
        .filter(|(set, _)| set.0 & (memory | data) == 0);
    match (sets.next(), sets.next()) {
        (Some((set, n)), None) if *n == halves && set.0 & pipes.vector.0 != 0 => Some(set),
        _ => None,
    }
}

/// Changes the set of the only computing µop to one of the size that the throughput shows.
fn refit(perf: &mut Perf, throughput: f64, shape: Shape, pipes: &Pipes) {
    let Some(set) = computing(perf, 1, shape, pipes) else {
        return;
    };
    // Where loads or stores take as long, a wider set would not show.
    let others = if shape.stores > 0 {
        1.0 / f64::from(pipes.store_data.0.count_ones())
    } else if shape.loads > 0 {
        let load = if shape.vector {
            pipes.vector_load
        } else {
            pipes.load
        };
        1.0 / f64::from(load.0.count_ones())
    } else {
        0.0
    };
    let old = 1.0 / f64::from(set.0.count_ones().max(1));
    let explained = old.max(others);
    if throughput > LEAST_SPACING {
        return;
    }
    let two = match set.0.count_ones() {
        2 => *set,
        _ => PortSet(pipes.vector.0 & pipes.vector.0 >> 2),
    };
    let choices = [pipes.vector, two, first(two)];
    let off = |cycles: f64| (throughput / cycles).ln().abs();
    let cycles = |set: PortSet| (1.0 / f64::from(set.0.count_ones().max(1))).max(others);
    let best = choices
        .into_iter()
        .min_by(|a, b| off(cycles(*a)).total_cmp(&off(cycles(*b))));
    if let Some(best) = best
        && off(explained) > REFIT
        && off(cycles(best)) < off(explained)
    {
        *set = best;
    }
}

/// How far a throughput is off before the published pipes are given up: a factor of 1.35.
const REFIT: f64 = 0.3;

fn first(set: PortSet) -> PortSet {
    PortSet(1 << set.0.trailing_zeros().min(15))
}
