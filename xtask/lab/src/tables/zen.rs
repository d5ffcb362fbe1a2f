//! AMD's Zen family: published rows name ports for vector µops only, and count macro-ops. What they
//! leave out is added here: the pipes of integer µops, by what an instruction does, and the µops of
//! the memory pipeline.
//!
//! *Macro-ops* are what dispatch and retirement count: an instruction that loads, computes and stores
//! is one (AMD, *Software Optimization Guide*, section 2.9 of those for families 17h to 1Ah).
//! Pipes of integer classes are those of LLVM's `X86ScheduleZnver*.td` (Apache-2.0 with LLVM
//! exception) for Zen 2 to 4, and measured for Zen 5 (docs/ZEN5.md).

mod classes;
mod measured;
mod memory;
mod ways;

use std::collections::HashMap;

use mcad_isa::machine::table::{Form, Perf, PortSet};

use super::cpus::{Cpu, Layout};
use super::evex;
use super::source::{Figures, Row};
pub use measured::overlay;

/// The pipes of one generation, as sets of ports.
#[derive(Clone, Copy, Debug)]
pub struct Pipes {
    /// Whose they are.
    pub generation: Layout,
    /// Macro-ops that are dispatched in a cycle.
    pub width: u16,
    /// All integer units.
    pub alu: PortSet,
    /// Multiplication.
    pub multiply: PortSet,
    /// Shifts, rotations, bit fields.
    pub shift: PortSet,
    /// Branches.
    pub branch: PortSet,
    /// Addresses of three parts.
    pub long_address: PortSet,
    /// Addresses relative to the instruction's.
    pub own_address: PortSet,
    /// Moves of 64-bit immediates.
    pub wide_immediate: PortSet,
    /// Conditional moves and sets.
    pub conditional: PortSet,
    /// Division.
    pub divide: PortSet,
    /// Loads.
    pub load: PortSet,
    /// Loads to vector registers.
    pub vector_load: PortSet,
    /// Addresses of stores.
    pub store_address: PortSet,
    /// Data of stores.
    pub store_data: PortSet,
    /// Data of stores of what a general-purpose register or the instruction has.
    pub plain_store_data: PortSet,
    /// All vector units.
    pub vector: PortSet,
    /// From general-purpose to vector registers.
    pub to_vector: PortSet,
}

const fn set(first: u32, count: u32) -> PortSet {
    PortSet(((1 << count) - 1) << first)
}

/// First port of the vector units, on all of them.
const VECTOR: u32 = 10;

impl Pipes {
    /// Those of a layout; `None` for one that is not AMD's.
    pub const fn of(layout: Layout) -> Option<Self> {
        let common = Self {
            generation: layout,
            width: 6,
            alu: set(0, 4),
            multiply: set(1, 1),
            shift: set(1, 2),
            branch: PortSet(0b1_0001),
            long_address: set(0, 4),
            own_address: set(0, 4),
            wide_immediate: set(0, 4),
            conditional: PortSet(0b1001),
            divide: set(2, 1),
            load: set(6, 3),
            vector_load: set(6, 2),
            store_address: set(7, 2),
            store_data: set(16, 2),
            plain_store_data: set(16, 2),
            vector: set(VECTOR, 4),
            to_vector: set(VECTOR, 2),
        };
        match layout {
            Layout::Zen1 | Layout::Zen2 => Some(Self {
                shift: set(0, 4),
                branch: PortSet(0b1001),
                conditional: set(0, 4),
                load: set(6, 2),
                store_address: match layout {
                    Layout::Zen1 => set(6, 2),
                    _ => set(8, 1),
                },
                store_data: set(16, 1),
                plain_store_data: set(16, 1),
                to_vector: set(VECTOR + 2, 1),
                ..common
            }),
            Layout::Zen3 | Layout::Zen4 => Some(common),
            Layout::Zen5 => Some(Self {
                width: 8,
                alu: set(0, 6),
                multiply: set(0, 3),
                shift: set(3, 3),
                branch: set(3, 3),
                long_address: set(0, 6),
                own_address: set(3, 3),
                wide_immediate: set(3, 3),
                conditional: set(0, 6),
                divide: set(0, 1),
                load: set(6, 4),
                vector_load: set(6, 2),
                store_address: set(8, 2),
                plain_store_data: set(0, 6),
                to_vector: set(VECTOR + 1, 1),
                ..common
            }),
            _ => None,
        }
    }
}

/// Puts the ports' names of AMD's rows (`FP0123`) into those of the tables, and counts macro-ops as
/// slots: the rows leave that at one.
pub fn rename(rows: &mut [Row]) {
    for row in rows {
        let own = [
            Some(&mut row.figures),
            row.indexed.as_mut(),
            row.same_reg.as_mut(),
        ];
        for figures in own.into_iter().flatten() {
            rename_figures(figures);
        }
    }
}

fn rename_figures(figures: &mut Figures) {
    if let Some(ports) = figures.ports.take() {
        let name = |old: &str| {
            let units = old.strip_prefix("FP").unwrap_or(old).chars();
            let letter = |c: char| Some(char::from(b'A' + u8::try_from(c.to_digit(6)?).ok()?));
            units.filter_map(letter).collect::<String>()
        };
        figures.ports = Some(ports.iter().map(|(old, n)| (name(old), *n)).collect());
    }
    figures.retire_slots = figures.uops.map(|n| n.max(1));
    if let Some(slots) = figures.retire_slots {
        figures.uops_mite = Some(if slots > MAX_DECODED { 1 } else { slots });
        figures.uops_ms = Some(if slots > MAX_DECODED { slots - 1 } else { 0 });
    }
}

/// Macro-ops that the decoders make of an instruction; more come from microcode.
const MAX_DECODED: u64 = 2;

/// Adds integer pipes and memory to the forms of AMD's own rows.
pub fn complete(cpu: &Cpu, forms: &mut [Form]) {
    let Some(pipes) = Pipes::of(cpu.layout) else {
        return;
    };
    for form in forms {
        let shape = memory::Shape::of(form);
        let name = form.name.to_string();
        let base = form.perf.clone();
        complete_perf(&mut form.perf, &name, shape, &pipes, false);
        for perf in form.indexed.iter_mut() {
            complete_perf(perf, &name, shape, &pipes, false);
        }
        let idiom = form.same_reg.is_some();
        if let Some(perf) = form.same_reg.as_mut() {
            complete_perf(perf, &name, shape, &pipes, idiom);
            perf.retire_slots = perf.retire_slots.max(base.retire_slots.min(1));
        }
        form.macro_fusible = classes::fusible(&name, cpu.layout);
        form.source = format!("{}; pipes of integer and memory by class", form.source).into();
        classes::cut_dependencies(form);
    }
}

/// `idiom`: the figures are those of equal registers.
fn complete_perf(perf: &mut Perf, name: &str, shape: memory::Shape, pipes: &Pipes, idiom: bool) {
    let no_delay = perf.latencies.iter().all(|l| l.cycles == 0);
    let mut vector: Vec<(PortSet, u16)> = std::mem::take(&mut perf.ports);
    if shape.stores > 0 {
        // Vector store data goes with the store.
        vector.retain(|(ports, _)| ports.0 & pipes.vector.0 != 0);
    }
    let vector_uops: u16 = vector.iter().map(|p| p.1).sum();
    // On Zen an idiom waits for nothing, but takes a unit: `xor eax, eax` four a cycle, `mov` five.
    let executed = pipes.generation == Layout::Zen1;
    let free = classes::is_free(name)
        || (no_delay && idiom && vector_uops == 0 && !executed)
        || (no_delay && classes::is_register_move(name) && shape.is_none());
    let mut ports = if free { Vec::new() } else { vector };
    if !free {
        let moves_only = shape.any() && shape.is_plain_move(name, perf, pipes.generation);
        let integer = match (moves_only, perf.retire_slots.saturating_sub(vector_uops)) {
            (true, n) => n.saturating_sub(1),
            // A load, a store and what is computed between are one macro-op.
            (false, 0) => 0,
            (false, n) if vector_uops > 0 && shape.any() => n.saturating_sub(1),
            (false, n) => n,
        };
        if idiom && !classes::is_integer(name) && ports.is_empty() {
            ports.push((pipes.vector, perf.retire_slots));
        } else if integer > 0 {
            ports.push((classes::pipes_of(name, pipes), integer));
        }
    }
    shape.append(&mut ports, pipes);
    perf.uops = ports.iter().map(|p| p.1).sum();
    perf.ports = ports;
    perf.complex_decoder = perf.uops_ms > 0 || perf.uops_mite > 1;
    perf.simple_decoders = None;
    if perf.div_cycles > 0 {
        // Published as cycles of the whole divider; it is what limits the throughput.
        perf.tp = Some(perf.tp.unwrap_or(0).max(100 * u32::from(perf.div_cycles)));
        perf.div_cycles = 0;
    }
    if let Some(cycles) = classes::vector_division(name, pipes.generation) {
        perf.tp = Some(perf.tp.unwrap_or(0).max(100 * u32::from(cycles)));
    }
}

/// Makes a form borrowed from an Intel CPU one of Zen's: macro-ops and pipes of the sibling that is
/// nearest to it, else by what it does.
pub fn adopt(form: &mut Form, cpu: &Cpu, own: &HashMap<String, Form>) {
    let Some(pipes) = Pipes::of(cpu.layout) else {
        return;
    };
    let sibling = own
        .get(&*form.name)
        .or_else(|| own.get(&evex::vex_name(&form.name)?));
    let shape = memory::Shape::of(form);
    let name = form.name.to_string();
    let halves = halves(&name, cpu.layout);
    let variants = [
        Some(&mut form.perf),
        form.indexed.as_mut(),
        form.same_reg.as_mut(),
    ];
    for perf in variants.into_iter().flatten() {
        let (slots, ports) = match sibling {
            Some(sibling) => {
                let of = |mask: u32| {
                    let all = sibling.perf.ports.iter();
                    all.filter(move |(set, _)| set.0 & mask != 0).copied()
                };
                (
                    sibling.perf.retire_slots,
                    of(pipes.vector.0 | pipes.alu.0).collect::<Vec<_>>(),
                )
            }
            None => adopted(perf, &name, shape, &pipes),
        };
        let mut ports: Vec<_> = ports.iter().map(|(set, n)| (*set, n * halves)).collect();
        if ports.is_empty() && shape.merges(&name) {
            // The sibling only loads.
            ports.push((pipes.vector, halves));
        }
        if perf.uops == 0 && shape.is_none() {
            ports.clear();
        }
        shape.append(&mut ports, &pipes);
        perf.retire_slots = slots.max(1);
        (perf.uops_mite, perf.uops_ms) = match slots {
            0..=2 => (slots.max(1), 0),
            _ => (1, slots - 1),
        };
        perf.uops = ports.iter().map(|p| p.1).sum();
        perf.ports = ports;
        perf.div_cycles = 0;
        perf.complex_decoder = perf.uops_ms > 0 || perf.uops_mite > 1;
        perf.simple_decoders = None;
    }
    form.macro_fusible = classes::fusible(&name, cpu.layout);
    let pipes = match sibling {
        Some(sibling) => format!("those of {}", sibling.name),
        None => "by class".to_owned(),
    };
    form.source = format!("{}; macro-ops and pipes {pipes}", form.source).into();
    classes::cut_dependencies(form);
}

/// µops of one operation: Zen does 256 bits in two halves, Zen 4 512.
fn halves(name: &str, layout: Layout) -> u16 {
    let has = |wide: [&str; 2]| wide.iter().any(|part| name.contains(part));
    1 + u16::from(match layout {
        Layout::Zen1 => has(["YMM", "M256"]),
        Layout::Zen4 => has(["ZMM", "M512"]),
        _ => false,
    })
}

/// Macro-ops and computing µops of a form that nothing is known of but what Intel does.
fn adopted(
    perf: &Perf,
    name: &str,
    shape: memory::Shape,
    pipes: &Pipes,
) -> (u16, Vec<(PortSet, u16)>) {
    let memory = shape.loads + 2 * shape.stores;
    let computing = perf.uops.saturating_sub(memory);
    let set = if name.contains("MM") || name.contains("(K") || name.contains(", K") {
        pipes.vector
    } else {
        classes::pipes_of(name, pipes)
    };
    let ports = if computing > 0 {
        vec![(set, computing)]
    } else {
        Vec::new()
    };
    (computing.max(1), ports)
}
