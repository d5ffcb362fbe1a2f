//! The longest loop-carried chain of dependencies: its cycles per iteration and the instructions
//! on it.
//!
//! One iteration maps the times at which values (registers, flags, stored data) are there at its
//! start to those at its end, in max-plus algebra; the throughput bound is the largest mean of a
//! cycle in that map's graph (Karp 1978). Latencies are those of the pipeline: of µops, of
//! store-to-load forwarding, without eliminated moves and zeroed registers.

use mcad_report::block::{Chain, ChainStep};

use super::Block;
use super::alias::{Accesses, Aliases, Init};
use mcad_isa::program::{Instr, NO_REG, NOT_FORWARDED, Uop, flag};
use mcad_isa::regs::RegId;
use mcad_isa::uop::UopKind;

/// Latest value of a cell: its time and the last step towards it.
#[derive(Clone, Copy)]
struct Time {
    at: u64,
    step: Option<usize>,
}

/// A step in the arena: instruction, cycles, step before.
type Step = (u32, u64, Option<usize>);

struct Walk<'b> {
    block: &'b Block,
    /// Moves that are eliminated most of the time, by instruction.
    eliminated: &'b [bool],
    meetings: Vec<Option<(usize, u32)>>,
    /// Stores that loads can be renamed to.
    renamed: std::collections::BTreeSet<usize>,
    /// Registers, then the block's stores.
    cells: Vec<Option<Time>>,
    steps: Vec<Step>,
    pointers: [u8; RegId::COUNT],
    written: Vec<bool>,
}

/// Carried values times µops up to which chains are looked for: about a second of work.
const MAX_EFFORT: usize = 50_000_000;
/// Carried values up to which chains are looked for.
const MAX_CARRIED: usize = 400;

/// Finds the longest chain of `block`; `None` when that would take too long.
#[must_use]
pub(super) fn longest_chain(block: &Block, init: Init, eliminated: &[bool]) -> Option<Chain> {
    let accesses = Accesses::new(&block.described);
    let mut walk = Walk {
        block,
        eliminated,
        meetings: Aliases::meetings(&accesses, init, 3),
        renamed: std::collections::BTreeSet::new(),
        cells: vec![None; RegId::COUNT + accesses.stores()],
        steps: Vec::new(),
        pointers: [0; RegId::COUNT],
        written: vec![false; RegId::COUNT + accesses.stores()],
    };
    // The first pass says what is written, and settles which registers hold pointers.
    walk.iterate();
    let mut carried: Vec<usize> = (0..RegId::PSEUDO as usize)
        .filter(|n| walk.written[*n])
        .collect();
    let met = walk.meetings.iter().flatten();
    carried.extend(
        met.filter(|(_, back)| *back == 1)
            .map(|m| RegId::COUNT + m.0),
    );
    carried.sort_unstable();
    carried.dedup();
    let effort = carried.len() * block.program.uops.len();
    if effort > MAX_EFFORT || carried.len() > MAX_CARRIED {
        return None;
    }
    // Times at the end for each single value that is there at the start.
    let mut edges: Vec<Vec<Option<Time>>> = Vec::with_capacity(carried.len());
    for &from in &carried {
        walk.cells.fill(None);
        walk.cells[from] = Some(Time { at: 0, step: None });
        walk.iterate();
        edges.push(carried.iter().map(|n| walk.cells[*n]).collect());
    }
    Some(largest_mean(&edges, &walk.steps))
}

const POINTER: u8 = 1;
const ZEROED: u8 = 2;
const MOVE32: u8 = 4;

impl Walk<'_> {
    fn iterate(&mut self) {
        let program = &self.block.program;
        let (mut loads, mut stores) = (0, 0);
        for (n, instr) in program.instrs.iter().enumerate() {
            if instr.is(flag::FUSED_PREVIOUS) {
                let operands = self.block.described.get(n).map(|d| &d.operands);
                loads += operands.map_or(0, |o| o.in_mems.len());
                stores += operands.map_or(0, |o| o.out_mems.len());
                continue;
            }
            self.instruction(n as u32, instr, loads, stores);
            if let Some(d) = self.block.described.get(n) {
                loads += d.operands.in_mems.len();
                stores += d.operands.out_mems.len();
            }
        }
    }

    fn instruction(&mut self, n: u32, instr: &Instr, loads: usize, stores: usize) {
        let program = &self.block.program;
        if instr.is(flag::ELIMINABLE) && self.eliminated.get(n as usize) == Some(&true) {
            let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
            self.cells[to] = self.cells[from];
            self.written[to] = true;
            self.pointers[to] =
                self.pointers[from] & !MOVE32 | if instr.is(flag::MOVE32) { MOVE32 } else { 0 };
            return;
        }
        if instr.is(flag::ADD_IMMEDIATE) {
            self.add_at_rename(n, instr);
            return;
        }
        let mut late: Vec<(usize, Option<Time>)> = Vec::new();
        let mut store_address: Option<Time> = None;
        for uop in uops_of(self.block, instr) {
            let inputs = program.inputs_of(uop).iter();
            let start = inputs
                .filter_map(|r| self.cells.get(usize::from(r.0)).copied().flatten())
                .max_by_key(|t| t.at);
            let execute = &self.block.model.core.execute;
            match uop.kind {
                UopKind::StoreAddress(_) => {
                    store_address = start.map(|t| self.add(n, t, execute.store_address_latency));
                    continue;
                }
                UopKind::StoreData(k)
                    if execute.memory_renaming && instr.is(flag::RENAMED_STORE) =>
                {
                    // Loads can have what it stores before it is stored.
                    let store = stores + usize::from(k);
                    if let Some(cell) = self.cells.get_mut(RegId::COUNT + store) {
                        *cell = start;
                    }
                    self.renamed.insert(store);
                    continue;
                }
                UopKind::StoreData(k) => {
                    let later = match uop.forwarded_later {
                        NOT_FORWARDED => 0,
                        later => u64::from(later),
                    };
                    let data = execute.store_data_latency + later;
                    let data = start.map(|t| self.add(n, t, data));
                    let cell = RegId::COUNT + stores + usize::from(k);
                    if let Some(cell) = self.cells.get_mut(cell) {
                        *cell = data.into_iter().chain(store_address).max_by_key(|t| t.at);
                    }
                    continue;
                }
                UopKind::Load(_) | UopKind::Compute => {}
            }
            let forwarded = match uop.kind {
                UopKind::Load(k) => self.forwarded(loads + usize::from(k), stores),
                _ => None,
            };
            let forward = execute.store_forward + u64::from(uop.forwarded_later);
            let updates = execute.memory_renaming_updates || !stores_too(self.block, n);
            let (forwarded, renamed) = match forwarded {
                Some((t, true)) if instr.is(flag::RENAMED_LOAD) && updates => (Some(t), true),
                Some((t, true)) => {
                    let cycles = execute.store_data_latency + forward;
                    (Some(self.add(n, t, cycles)), false)
                }
                Some((t, false)) => (Some(self.add(n, t, forward)), false),
                None => (None, false),
            };
            let sooner = u64::from(execute.fast_pointer_chasing && uop.near && self.chases(uop));
            for output in program.outputs_of(uop) {
                let latency = u64::from(output.latency).saturating_sub(sooner);
                let computed = start.filter(|_| !renamed).map(|t| self.add(n, t, latency));
                let time = computed.into_iter().chain(forwarded).max_by_key(|t| t.at);
                let cell = usize::from(output.reg.0) & (RegId::COUNT - 1);
                if instr.is(flag::DEFERRED_WRITES) && output.reg.0 < RegId::PSEUDO {
                    late.push((cell, time));
                } else {
                    self.write(cell, time, instr);
                }
            }
        }
        for (cell, time) in late {
            self.write(cell, time, instr);
        }
        let zeroed = instr.zeroed.start as usize..instr.zeroed.end as usize;
        for reg in program.zeroed.get(zeroed).unwrap_or(&[]) {
            let cell = usize::from(reg.0) & (RegId::COUNT - 1);
            self.cells[cell] = None;
            self.pointers[cell] = ZEROED;
        }
    }

    fn write(&mut self, cell: usize, time: Option<Time>, instr: &Instr) {
        self.cells[cell] = time;
        self.written[cell] = true;
        self.pointers[cell] = if instr.is(flag::POINTER_LOAD) {
            POINTER
        } else {
            0
        };
    }

    fn chases(&self, uop: &Uop) -> bool {
        let flags = |reg: u8| self.pointers.get(usize::from(reg)).copied().unwrap_or(0);
        flags(uop.base) & (POINTER | MOVE32) == POINTER
            && (uop.index == NO_REG || flags(uop.index) & ZEROED != 0)
    }

    /// When the data of the store that load `number` meets is there. One of this iteration counts
    /// if it came before, one of the last iteration if it comes later.
    /// Also whether loads can be renamed to that store.
    fn forwarded(&self, number: usize, stores: usize) -> Option<(Time, bool)> {
        let (store, back) = (*self.meetings.get(number)?)?;
        let usable = (back == 0 && store < stores) || (back == 1 && store >= stores);
        self.cells
            .get(RegId::COUNT + store)
            .copied()
            .flatten()
            .filter(|_| usable)
            .map(|t| (t, self.renamed.contains(&store)))
    }

    /// An addition that rename does: no time for the register, a cycle for the flags.
    fn add_at_rename(&mut self, n: u32, instr: &Instr) {
        let block = self.block;
        let (from, to) = (usize::from(instr.move_from.0), usize::from(instr.move_to.0));
        let source = self.cells.get(from).copied().flatten();
        for uop in uops_of(block, instr) {
            for output in block.program.outputs_of(uop) {
                let cell = usize::from(output.reg.0) & (RegId::COUNT - 1);
                let time = match source {
                    Some(t) if cell != to => Some(self.add(n, t, 1)),
                    other => other,
                };
                self.write(cell, time, instr);
            }
        }
    }

    fn add(&mut self, instruction: u32, time: Time, cycles: u64) -> Time {
        self.steps.push((instruction, cycles, time.step));
        Time {
            at: time.at + cycles,
            step: Some(self.steps.len() - 1),
        }
    }
}

/// Whether an instruction stores.
fn stores_too(block: &Block, n: u32) -> bool {
    block
        .described
        .get(n as usize)
        .is_some_and(|d| !d.operands.out_mems.is_empty())
}

/// The µops of an instruction.
pub(super) fn uops_of<'b>(block: &'b Block, instr: &Instr) -> &'b [Uop] {
    let program = &block.program;
    let first = instr.laminated as usize;
    let groups = program
        .laminated
        .get(first..first + usize::from(instr.laminated_len))
        .unwrap_or(&[]);
    let count: usize = groups.iter().map(|l| usize::from(l.uops_len)).sum();
    let start = instr.uops as usize;
    program.uops.get(start..start + count).unwrap_or(&[])
}

/// Karp's algorithm on the matrix of one iteration; then the cycle and the steps on it.
fn largest_mean(edges: &[Vec<Option<Time>>], steps: &[Step]) -> Chain {
    let n = edges.len();
    if n == 0 {
        return Chain::default();
    }
    // best[k][v]: the longest walk of k edges to v from anywhere, with the vertex before.
    let mut best: Vec<Vec<Option<(u64, usize)>>> = vec![vec![Some((0, 0)); n]];
    for k in 0..n {
        let mut next = vec![None; n];
        for (u, row) in edges.iter().enumerate() {
            let Some((so_far, _)) = best[k][u] else {
                continue;
            };
            for (v, edge) in row.iter().enumerate() {
                let Some(edge) = edge else { continue };
                let length = so_far + edge.at;
                if next[v].is_none_or(|(l, _)| length > l) {
                    next[v] = Some((length, u));
                }
            }
        }
        best.push(next);
    }
    let mean_to = |v: usize| {
        let (whole, _) = best[n][v]?;
        (0..n)
            .filter_map(|k| {
                let (part, _) = best[k][v]?;
                Some((whole as f64 - part as f64) / (n - k) as f64)
            })
            .min_by(f64::total_cmp)
    };
    let Some((end, cycles)) = (0..n)
        .filter_map(|v| Some((v, mean_to(v)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))
    else {
        return Chain::default();
    };
    // The longest walk of n edges to there goes round the cycle.
    let mut walk = vec![end];
    for k in (1..=n).rev() {
        let last = walk.last().copied().unwrap_or(end);
        match best[k][last] {
            Some((_, before)) => walk.push(before),
            None => break,
        }
    }
    walk.reverse();
    let Some((from, to)) = cycle_in(&walk) else {
        return Chain::default();
    };
    let mut on_it: Vec<ChainStep> = Vec::new();
    for pair in walk[from..=to].windows(2) {
        let mut part: Vec<ChainStep> = Vec::new();
        let mut at = edges[pair[0]][pair[1]].and_then(|t| t.step);
        while let Some((instruction, cycles, before)) = at.and_then(|s| steps.get(s).copied()) {
            match part.last_mut() {
                // Two µops of one instruction.
                Some(last) if last.instruction == instruction => last.cycles += cycles,
                _ => part.push(ChainStep {
                    instruction,
                    cycles,
                }),
            }
            at = before;
        }
        on_it.extend(part.into_iter().rev());
    }
    Chain {
        cycles,
        iterations: (to - from) as u32,
        steps: on_it,
    }
}

/// The shortest part of a walk that starts and ends at the same vertex.
fn cycle_in(walk: &[usize]) -> Option<(usize, usize)> {
    (1..walk.len())
        .flat_map(|length| (0..walk.len() - length).map(move |from| (from, from + length)))
        .find(|(from, to)| walk[*from] == walk[*to])
}
