//! What bounds a block: the cycles per iteration that each part of the core would allow if it
//! were the only one (as uiCA's `simulator` prints its bottlenecks), with the evidence.
//!
//! A part whose bound is the prediction, up to [`TOLERANCE`], is a bottleneck. When none is, parts
//! get into each other's way (a chain that misses its port, bursts from the front end), and the
//! largest bound is named as the nearest.

use std::fmt::Display;

use std::collections::BTreeMap;

use mcad_report::block::{Chain, Limit, Part};

use super::dependencies::uops_of;
use super::{Block, Mode};
use crate::pipeline::frontend::fetch::FetchQueue;
use crate::pipeline::frontend::predecode::Predecoder;
use crate::pipeline::inst::Inst;
use mcad_isa::machine::params::{Frontend, PortLayout, PortSet};
use mcad_isa::program::{Instr, flag};

/// How near, relative to the prediction, a bound must be to be the bottleneck.
pub const TOLERANCE: f64 = 0.02;

/// How the front end delivers, over the steady state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delivery {
    pub(super) decoders: bool,
    pub(super) uop_cache: bool,
    pub(super) loop_stream: bool,
}

/// The bounds of all parts, those on the block's way first, larger ones first.
pub(super) fn limits(
    block: &Block,
    mode: Mode,
    delivery: Delivery,
    chain: Option<&Chain>,
) -> Vec<Limit> {
    if let Some(core) = &block.model.core.in_order {
        return vec![in_order_issue(block, core.width)];
    }
    let mut limits = vec![issue(block), ports(block), retirement(block)];
    let ideal = block.model.core.frontend.ideal;
    if !ideal {
        limits.push(predecoder(block, mode, delivery));
        limits.push(decoders(block, mode, delivery));
    }
    if mode == Mode::Loop && !ideal {
        limits.extend(uop_cache(block, delivery));
        limits.extend(loop_stream(block, delivery));
    }
    limits.extend(divider(block));
    limits.extend(throughput(block));
    if let Some(chain) = chain {
        limits.push(dependencies(chain));
    }
    limits.sort_by(|a, b| {
        b.used
            .cmp(&a.used)
            .then_with(|| b.cycles.total_cmp(&a.cycles))
    });
    limits
}

/// Holds the bounds to what was simulated: a part on its own cannot take longer than all together.
/// Where a bound comes out above `cycles`, by more than what the steady rate is uncertain by, its
/// estimate leaves out something that the simulation has (a part of the code from elsewhere, a
/// value that is there sooner), so it bounds nothing.
pub(super) fn hold_to(limits: &mut [Limit], cycles: f64) {
    for limit in limits.iter_mut().filter(|l| l.used && l.cycles > cycles) {
        if limit.cycles > cycles * (1.0 + TOLERANCE) {
            limit.used = false;
            limit
                .evidence
                .push_str("; estimated, and the simulation is quicker");
        } else {
            limit.cycles = cycles;
        }
    }
    limits.sort_by_key(|l| !l.used);
}

/// The parts that bound a block predicted to take `cycles`; `true` when their bounds explain it.
pub(super) fn bottlenecks(limits: &[Limit], cycles: f64) -> (Vec<Part>, bool) {
    let used = || limits.iter().filter(|l| l.used);
    let near = |l: &&Limit| l.cycles >= cycles * (1.0 - TOLERANCE) && l.cycles > 0.0;
    let found: Vec<Part> = used().filter(near).map(|l| l.part).collect();
    if found.is_empty() {
        return (used().take(1).map(|l| l.part).collect(), false);
    }
    (found, true)
}

fn executed(block: &Block) -> impl Iterator<Item = (u32, &Instr)> {
    let instrs = block.program.instrs.iter().enumerate();
    instrs
        .filter(|(_, i)| !i.is(flag::FUSED_PREVIOUS))
        .map(|(n, i)| (n as u32, i))
}

/// The predecoder on its own, over all places that the block can have in its blocks of bytes.
fn predecoder(block: &Block, mode: Mode, delivery: Delivery) -> Limit {
    let p = &block.model.core.frontend;
    let bytes = u64::from(p.predecode_block_bytes);
    let looped = mode == Mode::Loop;
    let rounds = if looped {
        1
    } else {
        bytes / gcd(bytes, block.length)
    };
    let mut queue = FetchQueue::new(&block.model, false);
    let count = block.count() as u64;
    // The first period only fills the queues; short blocks get more periods to even out what lies
    // at the ends. Two more iterations follow, so that there is always something to look at.
    let periods = 1 + (2000 / (rounds * count)).clamp(1, 32);
    for round in 0..periods * rounds + 2 {
        let mut address = block.alignment + if looped { 0 } else { round * block.length };
        for (n, instr) in block.program.instrs.iter().enumerate() {
            let mut inst = Inst::new(n as u32, address);
            inst.taken = looped && n as u64 + 1 == count;
            address += u64::from(instr.len);
            let inst = inst.laid_out(instr, p.predecode_block_bytes);
            queue.push_straight(&[inst], &[]);
        }
    }
    let mut predecoder = Predecoder::default();
    let mut clock = 0u64;
    let mut until = |number: u64| {
        // A cycle per instruction and its stalls at most.
        let most = clock + (number + 1) * u64::from(p.lcp_stall + 2);
        while predecoder.queued < number && clock < most {
            predecoder.cycle(clock, p, &mut queue, 0);
            clock += 1;
        }
        clock
    };
    let half = until(rounds * count);
    let whole = until(periods * rounds * count);
    let prefixes: Vec<u32> = (0u32..)
        .zip(&block.program.instrs)
        .filter(|(_, i)| i.is(flag::LCP))
        .map(|(n, _)| n)
        .collect();
    let evidence = if prefixes.is_empty() {
        format!(
            "{} in {}, at most {} a cycle and {bytes} bytes at a time",
            counted(count, "instruction"),
            counted(block.length, "byte"),
            p.predecode_width
        )
    } else {
        format!(
            "{} with a length-changing prefix, each of which stalls it for {}",
            counted(prefixes.len(), "instruction"),
            counted(p.lcp_stall, "cycle")
        )
    };
    Limit {
        part: Part::Predecoder,
        cycles: (whole - half) as f64 / (rounds * (periods - 1)) as f64,
        used: delivery.decoders,
        evidence,
        instructions: prefixes,
    }
}

/// Decode groups of many iterations in a row: the rate between two iterations that begin with the
/// same decoders left, which is where they repeat.
fn decoders(block: &Block, mode: Mode, delivery: Delivery) -> Limit {
    let p = &block.model.core.frontend;
    let instructions = || executed(block);
    let complex: Vec<u32> = instructions()
        .filter(|(_, i)| i.is(flag::COMPLEX))
        .map(|(n, _)| n)
        .collect();
    let mut group = Group {
        cycles: 0,
        remaining: p.decoders,
        empty: true,
    };
    let mut seen: Vec<Group> = Vec::new();
    // The first iteration begins with all of them, which no later one may.
    let same = |g: &Group, other: &Group| (g.remaining, g.empty) == (other.remaining, other.empty);
    let mut repeats = None;
    while repeats.is_none() {
        repeats = seen.iter().position(|other| same(&group, other));
        seen.push(group);
        for (_, instr) in instructions() {
            group.take(p, instr);
        }
        if mode == Mode::Loop {
            group.remaining = 0;
        }
    }
    let (first, last) = (repeats.unwrap_or(0), seen.len() - 1);
    let cycles_at = |n: usize| seen.get(n).map_or(0, |group| group.cycles);
    let evidence = format!(
        "{}; {} of {} for the first one only",
        counted(p.decoders, "decoder"),
        complex.len(),
        counted(instructions().count(), "instruction")
    );
    Limit {
        part: Part::Decoders,
        cycles: (cycles_at(last) - cycles_at(first)) as f64 / (last - first).max(1) as f64,
        used: delivery.decoders,
        evidence,
        instructions: complex,
    }
}

/// What is decoded in a cycle.
#[derive(Clone, Copy)]
struct Group {
    /// Cycles before it.
    cycles: u64,
    /// Decoders that it has left.
    remaining: u32,
    /// Nothing has been decoded yet.
    empty: bool,
}

impl Group {
    /// An instruction is decoded, in this cycle or the next one.
    fn take(&mut self, p: &Frontend, instr: &Instr) {
        let needs_first = instr.is(flag::COMPLEX);
        if self.remaining == 0 || (needs_first && !self.empty) {
            self.cycles += 1;
            self.remaining = p.decoders;
        }
        self.empty = false;
        self.remaining -= 1;
        if needs_first {
            self.remaining = self.remaining.min(u32::from(instr.simple_decoders));
        }
        if instr.microcoded {
            let microcode = u64::from(instr.laminated_len.saturating_sub(instr.laminated_mite));
            // There, and back if it goes there for µops.
            let switches = if microcode > 0 { 2 } else { 1 };
            self.cycles += microcode.div_ceil(u64::from(p.microcode_width.max(1)))
                + switches * u64::from(p.decoder_to_microcode_stall);
            self.remaining = 0;
        }
        if instr.is(flag::BRANCH | flag::FUSED_NEXT) {
            self.remaining = 0;
        }
    }
}

fn delivered(block: &Block) -> u32 {
    executed(block)
        .map(|(_, i)| u32::from(i.laminated_len))
        .sum()
}

fn uop_cache(block: &Block, delivery: Delivery) -> Option<Limit> {
    let p = &block.model.core.frontend;
    if !delivery.uop_cache {
        return None;
    }
    let uops = delivered(block);
    Some(Limit {
        part: Part::UopCache,
        cycles: f64::from(uops) / f64::from(p.uop_cache_width),
        used: true,
        evidence: format!(
            "{}, {} a cycle; how they lie in lines may cost more",
            counted(uops, "µop"),
            p.uop_cache_width
        ),
        instructions: Vec::new(),
    })
}

fn loop_stream(block: &Block, delivery: Delivery) -> Option<Limit> {
    if !delivery.loop_stream {
        return None;
    }
    let copies = block.loop_stream_copies()?;
    let width = block.model.core.rename.issue_width;
    let fused: u32 = executed(block).map(|(_, i)| u32::from(i.fused)).sum();
    Some(Limit {
        part: Part::LoopStream,
        cycles: f64::from((fused * copies).div_ceil(width)) / f64::from(copies),
        used: true,
        evidence: format!(
            "{copies} times {}, {width} a cycle; two replays share no cycle",
            counted(fused, "fused µop")
        ),
        instructions: Vec::new(),
    })
}

fn issue(block: &Block) -> Limit {
    let width = block.model.core.rename.issue_width;
    let fused: u32 = executed(block).map(|(_, i)| u32::from(i.fused)).sum();
    Limit {
        part: Part::Issue,
        cycles: f64::from(fused) / f64::from(width),
        used: true,
        evidence: format!("{}, {width} a cycle", counted(fused, "fused µop")),
        instructions: Vec::new(),
    }
}

/// An in-order core issues whole instructions.
fn in_order_issue(block: &Block, width: u32) -> Limit {
    let instructions = block.count() as f64;
    Limit {
        part: Part::Issue,
        cycles: instructions / f64::from(width),
        used: true,
        evidence: format!("{}, {width} a cycle", counted(instructions, "instruction")),
        instructions: Vec::new(),
    }
}

fn retirement(block: &Block) -> Limit {
    let width = block.model.core.retire.width;
    let fused: u32 = executed(block).map(|(_, i)| u32::from(i.fused)).sum();
    Limit {
        part: Part::Retirement,
        cycles: f64::from(fused) / f64::from(width),
        used: true,
        evidence: format!("{}, {width} a cycle", counted(fused, "fused µop")),
        instructions: Vec::new(),
    }
}

/// The optimal assignment of µops to ports is bounded by the largest ratio of the µops that must
/// go to a set of ports to the ports in it; unions of the µops' own port sets suffice as sets.
fn ports(block: &Block) -> Limit {
    let mut uses: Vec<(PortSet, u32, u32)> = Vec::new();
    let rename = &block.model.core.rename;
    for (n, instr) in executed(block) {
        let added = instr.is(flag::ADD_IMMEDIATE) && rename.may_add(instr.step);
        if instr.is(flag::ELIMINABLE) || added {
            continue;
        }
        for uop in uops_of(block, instr).iter().filter(|u| !u.ports.is_empty()) {
            uses.push((uop.ports, 1, n));
        }
    }
    let mut sets: Vec<PortSet> = uses.iter().map(|u| u.0).collect();
    sets.sort_unstable();
    sets.dedup();
    let mut unions = sets.clone();
    for set in &sets {
        let more: Vec<PortSet> = unions.iter().map(|u| u.with(*set)).collect();
        unions.extend(more);
        unions.sort_unstable();
        unions.dedup();
    }
    let mut best = (0.0, PortSet::NONE, 0u32);
    for union in unions {
        let uops: u32 = uses
            .iter()
            .filter(|(set, ..)| union.contains(*set))
            .map(|(_, n, _)| n)
            .sum();
        let cycles = f64::from(uops) / f64::from(union.len().max(1));
        if cycles > best.0 {
            best = (cycles, union, uops);
        }
    }
    let mut instructions: Vec<u32> = uses
        .iter()
        .filter(|(set, ..)| best.1.contains(*set))
        .map(|u| u.2)
        .collect();
    instructions.dedup();
    Limit {
        part: Part::Ports,
        cycles: best.0,
        used: true,
        evidence: format!(
            "{} µop{} only use {}",
            best.2,
            if best.2 == 1 { " can" } else { "s can" },
            port_names(&block.model.core.ports, best.1)
        ),
        instructions,
    }
}

/// `port 1`, `ports 0, 1, 5`.
fn port_names(layout: &PortLayout, set: PortSet) -> String {
    let names: Vec<&str> = set.iter().map(|port| layout.name(port)).collect();
    let word = if names.len() == 1 { "port" } else { "ports" };
    format!("{word} {}", names.join(", "))
}

fn divider(block: &Block) -> Option<Limit> {
    let mut cycles = 0.0;
    let mut instructions = Vec::new();
    for (n, instr) in executed(block) {
        let own: u32 = uops_of(block, instr)
            .iter()
            .map(|u| u32::from(u.divider))
            .sum();
        if own > 0 {
            cycles += f64::from(own);
            instructions.push(n);
        }
    }
    // Some leave it later than they say, and some CPUs' tables have that only.
    if let Some((sum, slow)) = forms_that_do_not_overlap(block, |n| divides(block, n))
        && sum > cycles
    {
        (cycles, instructions) = (sum, slow);
    }
    (cycles > 0.0).then(|| Limit {
        part: Part::Divider,
        cycles,
        used: true,
        evidence: match instructions.len() {
            1 => "one instruction keeps it busy".to_owned(),
            count => format!("{count} instructions keep it busy"),
        },
        instructions,
    })
}

/// Of the forms that start only every so many cycles and have instructions that are `meant`, the
/// one that takes most, in cycles, with its instructions.
fn forms_that_do_not_overlap(
    block: &Block,
    meant: impl Fn(u32) -> bool,
) -> Option<(f64, Vec<u32>)> {
    let mut forms: BTreeMap<u32, (u32, Vec<u32>)> = BTreeMap::new();
    let all = executed(block).filter(|(n, i)| i.throughput > 0 && meant(*n));
    for (n, instr) in all {
        let form = forms.entry(instr.form).or_default();
        form.0 += instr.throughput;
        form.1.push(n);
    }
    let most = forms.into_values().max_by_key(|(sum, _)| *sum);
    most.map(|(sum, instructions)| (f64::from(sum) / 100.0, instructions))
}

/// Whether an instruction divides or takes a root.
fn divides(block: &Block, n: u32) -> bool {
    let decoded = block.decoded.get(n as usize);
    decoded.is_some_and(|d| {
        let name = format!("{:?}", d.instruction.mnemonic());
        ["div", "Div", "sqrt", "Sqrt"]
            .iter()
            .any(|part| name.contains(part))
    })
}

/// An instruction that does not overlap with itself, and does not divide.
fn throughput(block: &Block) -> Option<Limit> {
    let (cycles, instructions) = forms_that_do_not_overlap(block, |n| !divides(block, n))?;
    Some(Limit {
        part: Part::Throughput,
        cycles,
        used: true,
        evidence: format!(
            "{} of a form that does not overlap with itself",
            counted(instructions.len(), "instruction")
        ),
        instructions,
    })
}

fn dependencies(chain: &Chain) -> Limit {
    let mut instructions: Vec<u32> = chain.steps.iter().map(|s| s.instruction).collect();
    instructions.dedup();
    let cycles: u64 = chain.steps.iter().map(|s| s.cycles).sum();
    let evidence = match chain.iterations {
        0 => "no value is carried from one iteration to the next".to_owned(),
        1 => format!(
            "a chain of {} from one iteration to the next",
            counted(cycles, "cycle")
        ),
        n => format!(
            "a chain of {} over {n} iterations",
            counted(cycles, "cycle")
        ),
    };
    Limit {
        part: Part::Dependencies,
        cycles: chain.cycles,
        used: true,
        evidence,
        instructions,
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// So many of something.
fn counted(count: impl Display, what: &str) -> String {
    let count = count.to_string();
    let s = if count == "1" { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_told_from_many() {
        assert_eq!(counted(1, "µop"), "1 µop");
        assert_eq!(counted(0, "µop"), "0 µops");
        assert_eq!(counted(1.0, "cycle"), "1 cycle");
        assert_eq!(counted(1.5, "cycle"), "1.5 cycles");
    }
}
