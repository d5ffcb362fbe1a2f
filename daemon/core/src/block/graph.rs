//! Which instruction of a repeated block depends on which, through which register, flag or store;
//! and which of these edges are on the longest chain.
//!
//! Taken from the µops as they are simulated: zeroing idioms depend on nothing, the stack engine's
//! changes of the stack pointer are no dependencies, a macro-fused pair is its first instruction.

use std::collections::{BTreeMap, VecDeque};

use mcad_isa::llvm;
use mcad_isa::program::{Instr, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;
use mcad_proto::event::Arch;
use mcad_report::block::{Chain, Edge};

use super::Block;
use super::alias::{Accesses, Aliases, Init};
use super::dependencies::uops_of;

/// Instructions up to which a graph is drawn up: beyond it nobody looks at one.
const MAX_INSTRUCTIONS: usize = 1000;

/// From where to where, and how many iterations later.
type Place = (u32, u32, u32);

/// The edges of a block, by the instruction that needs something; empty for very large blocks.
pub(super) fn edges(block: &Block, init: Init, chain: Option<&Chain>) -> Vec<Edge> {
    if block.count() > MAX_INSTRUCTIONS {
        return Vec::new();
    }
    let mut found: BTreeMap<Place, Vec<String>> = BTreeMap::new();
    registers(block, &mut found);
    memory(block, init, &mut found);
    let mut edges: Vec<Edge> = found
        .into_iter()
        .map(|((to, from, carried), through)| Edge {
            from,
            to,
            carried,
            through,
            critical: false,
        })
        .collect();
    if let Some(chain) = chain {
        mark(block, chain, &mut edges);
    }
    edges
}

/// Edges through registers and flags: what the second of two iterations reads.
fn registers(block: &Block, found: &mut BTreeMap<Place, Vec<String>>) {
    let mut writers: [Option<(u32, u32)>; RegId::COUNT] = [None; RegId::COUNT];
    for round in 0..2 {
        for (n, instr) in (0u32..).zip(&block.program.instrs) {
            let (reads, writes) = (reads(block, instr), writes(block, instr));
            let mut read = |reg: RegId| {
                let writer = writers.get(usize::from(reg.0)).copied().flatten();
                if let Some((from, when)) = writer.filter(|_| round == 1) {
                    let through = found.entry((n, from, round - when)).or_default();
                    let name = name(block, reg);
                    if !through.contains(&name) {
                        through.push(name);
                    }
                }
            };
            reads.into_iter().for_each(&mut read);
            for reg in writes {
                if let Some(writer) = writers.get_mut(usize::from(reg.0)) {
                    *writer = Some((n, round));
                }
            }
            for reg in zeroed(block, instr) {
                if let Some(writer) = writers.get_mut(usize::from(reg.0)) {
                    *writer = None;
                }
            }
        }
    }
}

fn zeroed<'b>(block: &'b Block, instr: &Instr) -> &'b [RegId] {
    let range = instr.zeroed.start as usize..instr.zeroed.end as usize;
    block.program.zeroed.get(range).unwrap_or(&[])
}

/// Registers that an instruction's result hangs on.
fn reads(block: &Block, instr: &Instr) -> Vec<RegId> {
    let uops = uops_of(block, instr).iter();
    let inputs = uops.flat_map(|uop| block.program.inputs_of(uop).iter().copied());
    let mut reads: Vec<RegId> = inputs.filter(|reg| reg.0 < RegId::NONE.0).collect();
    if instr.is(flag::ELIMINABLE) && !reads.contains(&instr.move_from) {
        reads.push(instr.move_from);
    }
    reads
}

fn writes(block: &Block, instr: &Instr) -> Vec<RegId> {
    let uops = uops_of(block, instr).iter();
    let outputs = uops.flat_map(|uop| block.program.outputs_of(uop).iter().map(|o| o.reg));
    let mut writes: Vec<RegId> = outputs.filter(|reg| reg.0 < RegId::NONE.0).collect();
    if instr.is(flag::ELIMINABLE) {
        writes.push(instr.move_to);
    }
    writes
}

/// Edges from stores to the loads that meet them.
fn memory(block: &Block, init: Init, found: &mut BTreeMap<Place, Vec<String>>) {
    let mut loads: Vec<u32> = Vec::new();
    let mut stores: Vec<u32> = Vec::new();
    // A pair's accesses are its first instruction's.
    let mut place = 0;
    for ((n, described), instr) in (0u32..).zip(&block.described).zip(&block.program.instrs) {
        if !instr.is(flag::FUSED_PREVIOUS) {
            place = n;
        }
        loads.extend(described.operands.in_mems.iter().map(|_| place));
        stores.extend(described.operands.out_mems.iter().map(|_| place));
    }
    if loads.is_empty() || stores.is_empty() {
        return;
    }
    let forwards = |n: u32| {
        let instr = block.program.instrs.get(n as usize);
        instr.is_some_and(|i| {
            let mut uops = uops_of(block, i).iter();
            uops.any(|uop| matches!(uop.kind, UopKind::StoreData(_)))
        })
    };
    let meetings = Aliases::meetings(&Accesses::new(&block.described), init, 3);
    for (load, met) in loads.iter().zip(meetings) {
        let Some((store, back)) = met else { continue };
        let Some(&from) = stores.get(store).filter(|n| forwards(**n)) else {
            continue;
        };
        let through = found.entry((*load, from, back)).or_default();
        if !through.iter().any(|name| name == "memory") {
            through.push("memory".to_owned());
        }
    }
}

/// Marks the edges of the longest chain. Instructions that take no time on it (eliminated moves, renamed memory) are
/// no steps of it, but on the way from one to the next.
fn mark(block: &Block, chain: &Chain, edges: &mut [Edge]) {
    let timeless = |n: u32| {
        let instr = block.program.instrs.get(n as usize);
        let nothing =
            flag::ELIMINABLE | flag::ADD_IMMEDIATE | flag::RENAMED_STORE | flag::RENAMED_LOAD;
        instr.is_some_and(|i| i.is(nothing))
    };
    let mut from: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, edge) in edges.iter().enumerate() {
        from.entry(edge.from).or_default().push(place);
    }
    let steps: Vec<u32> = chain.steps.iter().map(|s| s.instruction).collect();
    let next = steps.iter().cycle().skip(1);
    for (&start, &end) in steps.iter().zip(next) {
        // Breadth first, so the shortest way; each edge is gone once.
        let mut before: BTreeMap<usize, Option<usize>> = BTreeMap::new();
        let mut queue: VecDeque<(u32, Option<usize>)> = VecDeque::from([(start, None)]);
        let mut last = None;
        'search: while let Some((at, came)) = queue.pop_front() {
            for &edge in from.get(&at).map_or(&[][..], Vec::as_slice) {
                if before.contains_key(&edge) {
                    continue;
                }
                before.insert(edge, came);
                let to = edges.get(edge).map_or(end, |e| e.to);
                if to == end {
                    last = Some(edge);
                    break 'search;
                }
                if timeless(to) {
                    queue.push_back((to, Some(edge)));
                }
            }
        }
        while let Some(edge) = last {
            if let Some(edge) = edges.get_mut(edge) {
                edge.critical = true;
            }
            last = before.get(&edge).copied().flatten();
        }
    }
}

/// A register as assembly writes it; a vector register by its 128-bit name.
fn name(block: &Block, reg: RegId) -> String {
    match block.model.arch() {
        Arch::X86_64 => reg.x86_name(),
        Arch::AArch64 => llvm::regs::name("aarch64", reg),
        _ => llvm::regs::name("riscv", reg),
    }
}
