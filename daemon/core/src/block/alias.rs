//! Which addresses are equal when no addresses are known: values as expressions.
//!
//! A register holds a base value plus an offset. Moves copy, additions of immediates change the
//! offset, everything else makes a fresh value (uiCA's abstract values). Two accesses alias when
//! base, index, scale and displacement are the same.

use rustc_hash::FxHashMap;

use crate::pipeline::access::{Access, Address as Place, Symbol};
use crate::pipeline::inst::Inst;
use mcad_isa::regs::RegId;
use mcad_isa::x86::build::Described;
use mcad_isa::x86::facts;
use mcad_isa::x86::operands::{MemoryRef, Value};

/// Register values at the start of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Init {
    /// All different.
    Distinct,
    /// All equal.
    Equal,
    /// All equal but the stack and frame pointers, as BHive's profiler sets them.
    Stack,
    /// All different, but all memory is filled with one value, which is known.
    Filled,
    /// The general-purpose registers have these values, and all memory is filled with one.
    Registers([u64; 16]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Abstract {
    base: u32,
    offset: i64,
}

/// What an instruction does to values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Outputs are this register's value plus an immediate.
    Sum(RegId, i64),
    /// Outputs are values of their own.
    Fresh,
}

#[derive(Clone, Debug)]
struct Step {
    loads: Vec<MemoryRef>,
    stores: Vec<MemoryRef>,
    effect: Effect,
    outputs: Vec<RegId>,
}

impl Step {
    fn new(d: &Described) -> Self {
        let memory = |values: &[Value]| values.iter().filter_map(|v| d.memory(v)).collect();
        let changes = d.form.is_some() && !d.fused_previous;
        Self {
            loads: memory(&d.operands.in_mems),
            stores: memory(&d.operands.out_mems),
            effect: effect(d),
            outputs: if changes {
                d.operands.out_regs.iter().filter_map(|v| v.id).collect()
            } else {
                Vec::new()
            },
        }
    }
}

fn effect(d: &Described) -> Effect {
    let source = d.operands.in_regs.first().and_then(|v| v.id);
    match (d.form, source, d.facts.effect) {
        (Some(_), Some(source), facts::Effect::Copy) => Effect::Sum(source, 0),
        (Some(_), Some(source), facts::Effect::Add(by)) => Effect::Sum(source, by),
        // An unknown instruction; or a zero idiom, an immediate, a load: what the register had does
        // not matter.
        _ => Effect::Fresh,
    }
}

/// Whether any address of a block matters: loads must meet stores, or, where stores leave in pairs,
/// two stores each other, or, where the cache has banks, loads each other. Where stores leave more slowly than they start, that there are
/// any does.
#[must_use]
pub fn matters(block: &[Described], leaving_stores: bool, banks: bool) -> bool {
    let any = |accessed: fn(&Described) -> &[Value]| block.iter().any(|d| !accessed(d).is_empty());
    let (loads, stores) = (any(|d| &d.operands.in_mems), any(|d| &d.operands.out_mems));
    (stores && (loads || leaving_stores)) || (loads && banks)
}

/// A block's accesses and what it does to address registers.
pub struct Accesses {
    steps: Vec<Step>,
    loads: usize,
    stores: usize,
}

/// How accesses of later iterations lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From this iteration on, which access meets which is the same in each.
    Settles(u32),
    /// Nothing is known before it is tried.
    Unknown,
}

impl Accesses {
    /// What a block accesses.
    #[must_use]
    pub fn new(block: &[Described]) -> Self {
        let steps: Vec<Step> = block.iter().map(Step::new).collect();
        Self {
            loads: steps.iter().map(|s| s.loads.len()).sum(),
            stores: steps.iter().map(|s| s.stores.len()).sum(),
            steps,
        }
    }

    /// Stores of one iteration.
    #[must_use]
    pub fn stores(&self) -> usize {
        self.stores
    }

    /// How accesses of different iterations lie to each other.
    ///
    /// One iteration is executed on symbols: every register at its end is a register at its start
    /// plus a constant, or fresh. When each register in an address goes back, by copies, to a
    /// fresh value or to a register that is itself plus a constant, the distances between
    /// accesses are the same in all iterations; provided that two such registers with different
    /// constants never have the same base.
    #[must_use]
    pub fn pattern(&self, init: Init) -> Pattern {
        let mut symbols = Aliases::symbols();
        let mut used = [false; RegId::COUNT];
        for step in &self.steps {
            for memory in step.loads.iter().chain(&step.stores) {
                for reg in memory.base.iter().chain(&memory.index) {
                    if let Some(start) = symbols.symbol(*reg) {
                        used[start] = true;
                    }
                }
            }
            symbols.execute(step);
        }
        let mut depth = 0;
        let mut constant = None;
        for reg in (0..RegId::COUNT).filter(|n| used[*n]) {
            let mut at = reg;
            let mut hops = 0;
            while let Some(from) = symbols.symbol(RegId(at as u8)) {
                if from == at {
                    let step = symbols.values[at].map_or(0, |v| v.offset);
                    if init != Init::Distinct && *constant.get_or_insert(step) != step {
                        return Pattern::Unknown;
                    }
                    break;
                }
                at = from;
                hops += 1;
                if hops > RegId::COUNT as u32 {
                    // Registers that change places.
                    return Pattern::Unknown;
                }
            }
            depth = depth.max(hops);
        }
        Pattern::Settles(depth + 1)
    }
}

type Expression = (Option<Abstract>, Option<Abstract>, u8);

#[derive(Clone, Copy)]
struct Address {
    id: u32,
    /// Number of the last store to it.
    stored: u64,
}

/// Values of registers and identities of addresses.
#[derive(Clone)]
pub struct Aliases {
    init: Init,
    values: [Option<Abstract>; RegId::COUNT],
    next: u32,
    expressions: FxHashMap<Expression, u32>,
    addresses: FxHashMap<(u32, i64), Address>,
    stores: u64,
    /// Per load: how many stores ago its address was last stored to.
    distances: Vec<u64>,
}

/// First base that is no symbol and not the common one.
const FIRST_FRESH: u32 = RegId::COUNT as u32 + 1;

impl Aliases {
    /// Values at the start.
    #[must_use]
    pub fn new(init: Init) -> Self {
        let mut aliases = Self {
            init,
            values: [None; RegId::COUNT],
            next: FIRST_FRESH,
            expressions: FxHashMap::default(),
            addresses: FxHashMap::default(),
            stores: 0,
            distances: Vec::new(),
        };
        aliases.reset(init);
        aliases
    }

    /// Starts again.
    pub fn reset(&mut self, init: Init) {
        self.init = init;
        self.values = [None; RegId::COUNT];
        self.next = FIRST_FRESH;
        self.expressions.clear();
        self.addresses.clear();
        self.stores = 0;
        self.distances.clear();
        if init == Init::Stack {
            for reg in [RegId::RSP, RegId::RBP] {
                let fresh = self.fresh();
                self.values[usize::from(reg.0)] = Some(fresh);
            }
        }
    }

    /// Every register a symbol: its number plus 1.
    fn symbols() -> Self {
        let mut symbols = Self::new(Init::Distinct);
        for (n, value) in symbols.values.iter_mut().enumerate() {
            *value = Some(Abstract {
                base: n as u32 + 1,
                offset: 0,
            });
        }
        symbols
    }

    /// The register whose symbol `reg` has.
    fn symbol(&self, reg: RegId) -> Option<usize> {
        let value = self.values[usize::from(reg.0) & (RegId::COUNT - 1)]?;
        (value.base < FIRST_FRESH).then(|| value.base as usize - 1)
    }

    fn fresh(&mut self) -> Abstract {
        self.next += 1;
        Abstract {
            base: self.next,
            offset: 0,
        }
    }

    fn value(&mut self, reg: RegId) -> Abstract {
        let place = usize::from(reg.0) & (RegId::COUNT - 1);
        if let Some(value) = self.values[place] {
            return value;
        }
        let value = match self.init {
            Init::Distinct | Init::Filled | Init::Registers(_) => self.fresh(),
            Init::Equal | Init::Stack => Abstract { base: 0, offset: 0 },
        };
        self.values[place] = Some(value);
        value
    }

    fn access(&mut self, memory: &MemoryRef, store: bool) -> Access {
        let base = memory.base.map(|r| self.value(r));
        let index = memory.index.map(|r| self.value(r));
        let next = self.expressions.len() as u32;
        let line = *self
            .expressions
            .entry((base, index, memory.scale))
            .or_insert(next);
        let next = self.addresses.len() as u32;
        let address = self
            .addresses
            .entry((line, memory.displacement))
            .or_insert(Address {
                id: next,
                stored: 0,
            });
        if store {
            self.stores += 1;
            address.stored = self.stores;
        } else {
            self.distances.push(match address.stored {
                0 => u64::MAX,
                stored => self.stores - stored,
            });
        }
        Access {
            address: Place::Symbolic(Symbol {
                id: address.id,
                expression: line,
                displacement: memory.displacement,
            }),
            size: 1,
        }
    }

    /// Executes instruction `number` of the block: adds its accesses, loads first.
    pub fn step(
        &mut self,
        accesses: &Accesses,
        number: usize,
        inst: &mut Inst,
        out: &mut Vec<Access>,
    ) {
        let Some(step) = accesses.steps.get(number) else {
            return;
        };
        for memory in &step.loads {
            out.push(self.access(memory, false));
        }
        for memory in &step.stores {
            out.push(self.access(memory, true));
        }
        inst.loads = step.loads.len().min(255) as u8;
        inst.stores = step.stores.len().min(255) as u8;
        self.execute(step);
    }

    fn execute(&mut self, step: &Step) {
        match step.effect {
            Effect::Sum(source, by) if !step.outputs.is_empty() => {
                let source = self.value(source);
                let value = Abstract {
                    base: source.base,
                    offset: source.offset.wrapping_add(by),
                };
                for reg in &step.outputs {
                    self.values[usize::from(reg.0) & (RegId::COUNT - 1)] = Some(value);
                }
            }
            Effect::Sum(..) => {}
            Effect::Fresh => {
                for reg in &step.outputs {
                    let value = self.fresh();
                    self.values[usize::from(reg.0) & (RegId::COUNT - 1)] = Some(value);
                }
            }
        }
    }

    /// For each load of the block, in order: the store of the block (by number) that it meets and
    /// how many iterations before, as it is in iteration `round`.
    #[must_use]
    pub fn meetings(accesses: &Accesses, init: Init, round: u32) -> Vec<Option<(usize, u32)>> {
        let mut aliases = Self::new(init);
        let mut scratch = Vec::new();
        let mut inst = Inst::new(0, 0);
        let mut met = Vec::new();
        for at in 0..=round {
            for n in 0..accesses.steps.len() {
                scratch.clear();
                let (before, seen) = (aliases.stores, aliases.distances.len());
                aliases.step(accesses, n, &mut inst, &mut scratch);
                if at < round {
                    continue;
                }
                met.extend(aliases.distances[seen..].iter().map(|distance| {
                    let number = before.checked_sub(*distance)?.checked_sub(1)?;
                    let stores = accesses.stores as u64;
                    let back = u64::from(round).checked_sub(number.checked_div(stores)?)?;
                    Some((number.checked_rem(stores)? as usize, back as u32))
                }));
            }
        }
        met
    }

    /// Whether the iterations so far are followed by iterations like them: `rounds` more, each
    /// with loads that meet the same stores as `period` iterations before. Only the last `window`
    /// stores count. All iterations so far must have been executed from the start.
    #[must_use]
    pub fn repeats(
        &self,
        accesses: &Accesses,
        from: u32,
        period: u32,
        to: u32,
        window: u64,
    ) -> bool {
        if accesses.loads == 0 {
            return true;
        }
        let mut ahead = self.clone();
        let mut scratch = Vec::new();
        let mut inst = Inst::new(0, 0);
        while ahead.distances.len() < accesses.loads * to as usize {
            for n in 0..accesses.steps.len() {
                scratch.clear();
                ahead.step(accesses, n, &mut inst, &mut scratch);
            }
        }
        let seen = |distance: u64| {
            if distance < window {
                distance
            } else {
                u64::MAX
            }
        };
        let (first, back) = (
            accesses.loads * from as usize,
            accesses.loads * period as usize,
        );
        (first..accesses.loads * to as usize).all(|n| {
            let before = n.checked_sub(back).and_then(|n| ahead.distances.get(n));
            let here = ahead.distances.get(n);
            here.is_some() && here.map(|d| seen(*d)) == before.map(|d| seen(*d))
        })
    }
}
