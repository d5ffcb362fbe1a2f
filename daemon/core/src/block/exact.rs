//! Which addresses a repeated block accesses, from values: when those at the start are known, and
//! where the place of an access in its line matters.
//!
//! Addresses are computed from [`super::values`]: numbers where they are known, else symbols with
//! offsets. Different symbols are taken to point to different memory, aligned to cache lines.
//! What a load returns is the value last stored there, else what memory was filled with, or a
//! symbol for what lies there.
//!
//! For recurrence each iteration gets a signature: which stores its loads take from and, where the
//! core cares, which lines its stores share and where in a line everything lies.

use rustc_hash::FxHashMap;

use super::Block;
use super::alias::Init;
use super::steps::{Place, Step, Steps};
use super::values::{Reader, Symbols, Value, result_of, zero_extend};
use super::written::{Stored, Written};
use crate::lists::part;
use crate::pipeline::access::{Access, Line};
use crate::pipeline::inst::Inst;
use crate::pipeline::state::Fingerprint;
use mcad_isa::machine::params::Core;
use mcad_isa::regs::RegId;
use mcad_isa::x86::effect::Source;

/// What BHive's profiler puts into every register and every eight bytes of memory (Chen et al.,
/// IISWC 2019).
const FILL: i64 = 0x1234_5600;

/// Iterations without a change after which there will be none.
const STEADY: u32 = 2;

/// Bytes between the memory that different symbols point to.
const REGION: u64 = 1 << 44;

/// Stores whose lines are compared with a new store's.
const NEIGHBOURS: usize = 8;

/// The region that an access went to last, and what it depends on.
#[derive(Clone, Copy, Default)]
struct Region {
    key: (u32, u32, u8),
    base: u64,
}

/// The accesses of a repeated block, iteration by iteration.
#[derive(Default)]
pub struct Exact {
    steps: Steps,
    now: Now,
    /// Some iterations later, where these were asked about: they do not depend on when.
    ahead: Option<Box<Now>>,
}

/// Values of registers and memory.
#[derive(Clone)]
struct Now {
    init: Init,
    values: [Option<Value>; RegId::COUNT],
    symbols: Symbols,
    /// Regions by the symbols of base and index, and the scale.
    regions: FxHashMap<(u32, u32, u8), u64>,
    /// Of each access of an iteration, the last one.
    known_regions: Vec<Region>,
    memory: Written,
    /// Lines of the last stores, in a ring.
    lines: [Line; NEIGHBOURS],
    /// Stores that have been there.
    stored: usize,
    /// Whether it matters where in its line an access lies.
    places: bool,
    /// Whether it matters which stores share a line.
    shared_lines: bool,
    /// Or parts of a line, of so many bytes.
    part: u64,
    /// Whether it matters that a store crosses a line.
    crossings: bool,
    /// Whether the current iteration changed any value.
    changed: bool,
    /// Iterations in a row that changed nothing.
    unchanged: u32,
    /// Accesses of the last iteration.
    round: Vec<Access>,
    /// Signatures of the iterations so far.
    signatures: Vec<u64>,
    signature: Fingerprint,
    loaded: Option<Value>,
    /// The stores that the loads of the current instruction take from, the youngest of each.
    found: Vec<Option<Stored>>,
    inputs: Vec<Value>,
}

impl Exact {
    /// Whether values are worth following for `init` on a core: when they are known at the start,
    /// or when it matters where in its line an access lies.
    #[must_use]
    pub fn is_wanted(core: &Core, init: Init) -> bool {
        init != Init::Distinct || core.execute.loads_per_bank > 0
    }

    /// Values at the start of a block.
    #[must_use]
    pub fn new(init: Init, block: &Block) -> Self {
        let mut exact = Self::default();
        exact.begin(init, block);
        exact
    }

    /// Starts again with another block.
    pub fn begin(&mut self, init: Init, block: &Block) {
        self.steps.take(block);
        self.now.begin(init, block);
        self.ahead = None;
    }

    /// Executes instruction `n` of the block: adds its accesses, loads first.
    pub fn step(&mut self, n: usize, inst: &mut Inst, out: &mut Vec<Access>) {
        if let Some(step) = self.steps.get(n).filter(|step| step.matters()) {
            inst.loads = step.loads;
            inst.stores = step.stores;
            self.now.step(&self.steps, n, step, out);
        }
    }

    /// Whether every iteration from now on accesses what the last one did.
    #[inline]
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.now.is_steady()
    }

    /// Ends an iteration.
    pub fn end_round(&mut self) {
        self.now.end_round();
    }

    /// Whether iterations `from` to `to` access memory as those `period` before them do.
    #[must_use]
    pub fn repeats(&mut self, from: u32, period: u32, to: u32) -> bool {
        let (from, period, to) = (from as usize, period as usize, to as usize);
        let alike = |signatures: &[u64], n: usize| {
            let before = n.checked_sub(period);
            before.is_some_and(|b| signatures.get(b) == signatures.get(n))
        };
        let signatures = &self.now.signatures;
        let seen = signatures.len();
        if !(from..to.min(seen)).all(|n| alike(signatures, n)) {
            return false;
        }
        let recent = seen.checked_sub(period).filter(|start| *start >= from);
        let recent = recent.and_then(|start| signatures.get(start..));
        if let Some([first, others @ ..]) = recent
            && self.is_steady()
            && others.iter().all(|signature| signature == first)
        {
            // The last one goes on unchanged, and a whole period is like it.
            return true;
        }
        let known = self.ahead.take();
        let known = known.filter(|ahead| ahead.signatures.len() >= seen);
        let ahead = known.unwrap_or_else(|| Box::new(self.now.clone()));
        let ahead = self.ahead.insert(ahead);
        (seen.max(from)..to).all(|n| {
            ahead.go_on_to(&self.steps, n + 1);
            alike(&ahead.signatures, n)
        })
    }
}

impl Now {
    fn begin(&mut self, init: Init, block: &Block) {
        self.init = init;
        let execute = &block.model.core.execute;
        let by_line = execute.store_buffer > 0 && execute.stores_together.by_line();
        self.places = execute.loads_per_bank > 0 || by_line;
        self.shared_lines = execute.stores_together.by_line();
        self.crossings = execute.store_buffer > 0;
        self.part = execute.stores_together.bytes();
        self.values = [None; RegId::COUNT];
        self.symbols.clear();
        self.regions.clear();
        self.known_regions.clear();
        self.memory.clear();
        self.lines = [Line::default(); NEIGHBOURS];
        self.stored = 0;
        self.changed = false;
        self.unchanged = 0;
        self.round.clear();
        self.signatures.clear();
        self.signature = Fingerprint::default();
        self.loaded = None;
        if init == Init::Stack {
            for reg in [RegId::RSP, RegId::RBP] {
                let fresh = self.symbols.fresh();
                self.values[usize::from(reg.0)] = Some(fresh);
            }
        }
    }

    #[inline]
    fn is_steady(&self) -> bool {
        self.unchanged >= STEADY
    }

    /// Executes instruction number `n`, which matters: adds its accesses.
    fn step(&mut self, steps: &Steps, n: usize, step: &Step, out: &mut Vec<Access>) {
        if self.is_steady() {
            out.extend_from_slice(part(&self.round, step.accesses.clone()));
            return;
        }
        // Values change, what instructions do with them does not.
        let first = out.len();
        for (at, place) in step.accesses.clone().zip(steps.places(step)) {
            out.push(self.access(at, place));
        }
        let accesses = out.get(first..).unwrap_or(&[]);
        self.sign(step, accesses);
        self.execute(n as u32, steps, step, accesses);
        self.round.truncate(step.accesses.start);
        self.round.extend_from_slice(accesses);
    }

    fn end_round(&mut self) {
        if self.unchanged < STEADY {
            if std::mem::take(&mut self.changed) {
                self.unchanged = 0;
            } else {
                self.unchanged += 1;
            }
            self.signatures.push(self.signature.value());
            self.signature = Fingerprint::default();
        } else if let Some(&last) = self.signatures.last() {
            self.signatures.push(last);
        }
    }

    /// Executes the block until so many iterations are done.
    fn go_on_to(&mut self, steps: &Steps, rounds: usize) {
        let mut accesses = Vec::new();
        while self.signatures.len() < rounds {
            // One that is steady is like the last one.
            let changing = if self.is_steady() { 0 } else { steps.len() };
            for n in 0..changing {
                accesses.clear();
                if let Some(step) = steps.get(n).filter(|step| step.matters()) {
                    self.step(steps, n, step, &mut accesses);
                }
            }
            self.end_round();
        }
    }

    /// Adds accesses to the iteration's signature, and finds out which stores its loads take from.
    fn sign(&mut self, step: &Step, accesses: &[Access]) {
        self.found.clear();
        for (n, access) in accesses.iter().enumerate() {
            if self.places {
                self.signature.add(u64::from(access.in_line()));
            } else if self.crossings {
                self.signature.add(u64::from(access.crosses_line()));
            }
            if n < usize::from(step.loads) {
                let mut found = None;
                for stored in self.memory.under(access) {
                    self.signature.add(stored.map_or(u64::MAX, |stored| {
                        found = Some(*stored);
                        let same = stored.address == access.bytes().start;
                        let distance = self.memory.count() - stored.number;
                        distance << 2 | u64::from(same) << 1 | u64::from(stored.contains(access))
                    }));
                }
                self.found.push(found);
            } else if self.shared_lines {
                let line = access.part(self.part);
                let lines = self.lines.iter().enumerate();
                let shared = lines.fold(0u8, |all, (n, l)| {
                    all | u8::from(l.shares(line, self.part)) << n
                });
                // The youngest on top.
                let oldest = (self.stored % NEIGHBOURS) as u32;
                self.signature.add(u64::from(shared.rotate_right(oldest)));
                self.lines[self.stored % NEIGHBOURS] = line;
                self.stored = self.stored.wrapping_add(1);
            }
        }
    }

    fn value(&mut self, reg: RegId) -> Value {
        let place = usize::from(reg.0) & (RegId::COUNT - 1);
        if let Some(value) = self.values[place] {
            return value;
        }
        let value = match self.init {
            Init::Equal | Init::Stack if reg.is_gpr() => Value::number(FILL),
            Init::Registers(values) if reg.is_gpr() => {
                let value = values.get(place).copied().unwrap_or_default();
                Value::number(value as i64)
            }
            _ => self.symbols.fresh(),
        };
        self.values[place] = Some(value);
        value
    }

    fn set(&mut self, reg: RegId, value: Value) {
        let place = usize::from(reg.0) & (RegId::COUNT - 1);
        if self.values[place] != Some(value) {
            self.values[place] = Some(value);
            self.changed = true;
        }
    }

    /// Where access `at` of an iteration goes.
    fn access(&mut self, at: usize, place: &Place) -> Access {
        let memory = &place.memory;
        let zero = Value::number(0);
        let base = memory.base.map_or(zero, |r| self.value(r));
        let index = memory.index.map_or(zero, |r| self.value(r));
        let scale = i64::from(memory.scale);
        let offset = base
            .offset
            .wrapping_add(index.offset.wrapping_mul(scale))
            .wrapping_add(memory.displacement)
            .wrapping_add(place.below);
        let scale = if index.symbol == 0 { 1 } else { memory.scale };
        let key = (base.symbol, index.symbol, scale);
        let region = match self.known_regions.get(at) {
            Some(known) if known.key == key => known.base,
            _ => self.region(at, key),
        };
        let address = (region.wrapping_mul(REGION)).wrapping_add(offset as u64);
        let size = memory.size.max(1);
        Access::known(address, size)
    }

    /// The region of a sum of symbols, to which access `at` of an iteration goes.
    fn region(&mut self, at: usize, key: (u32, u32, u8)) -> u64 {
        let next = self.regions.len() as u64 + 1;
        let base = match key {
            (0, 0, _) => 0,
            _ => *self.regions.entry(key).or_insert(next),
        };
        if self.known_regions.len() <= at {
            self.known_regions.resize(at + 1, Region::default());
        }
        self.known_regions[at] = Region { key, base };
        base
    }

    /// What a load loads that takes from store `found`.
    fn load(&self, access: &Access, found: Option<Stored>) -> Option<Value> {
        let start = access.bytes().start;
        match found {
            Some(s) if s.address == start && s.size == access.size => Some(s.value),
            Some(s) if s.contains(access) && s.size <= 8 => {
                let shifted = (s.value.known()? as u64) >> (8 * (start - s.address));
                let number = zero_extend(shifted as i64, access.size * 8);
                Some(Value::number(number))
            }
            Some(_) => None,
            None if self.init != Init::Distinct
                && access.size <= 8
                && (start & 7) + u64::from(access.size) <= 8 =>
            {
                let shifted = (FILL as u64) >> (8 * (start & 7));
                let number = zero_extend(shifted as i64, access.size * 8);
                Some(Value::number(number))
            }
            None => None,
        }
    }

    fn store(&mut self, access: &Access, value: Value) {
        self.changed |= self.memory.store(access, value);
    }

    /// Executes instruction number `n` on the values; `accesses` are its own.
    fn execute(&mut self, n: u32, steps: &Steps, step: &Step, accesses: &[Access]) {
        if step.fused {
            return;
        }
        let (loads, stores) = accesses.split_at(accesses.len().min(usize::from(step.loads)));
        if !step.executed {
            // Only where stores go matters.
            for store in stores {
                self.store(store, Value::number(0));
            }
            self.move_stack(step);
            return;
        }
        self.loaded = match loads {
            [only] => self.load(only, self.found.first().copied().flatten()),
            _ => None,
        };
        let effect = step.effect.as_ref();
        let target = effect.map(|effect| effect.target);
        let followed = effect.and_then(|effect| result_of(effect, self));
        self.inputs.clear();
        let mut inputs = std::mem::take(&mut self.inputs);
        for id in steps.inputs(step) {
            let value = self.value(*id);
            inputs.push(value);
        }
        for (n, load) in loads.iter().enumerate() {
            let found = self.found.get(n).copied().flatten();
            let value = match self.load(load, found) {
                Some(value) => value,
                None => {
                    let place = [
                        Value::number(load.bytes().start as i64),
                        Value::number(i64::from(load.size)),
                    ];
                    let [start, size] = place;
                    match found {
                        None => self.symbols.result(u32::MAX, 0, &place),
                        Some(s) if s.contains(load) => {
                            let part = [s.value, Value::number(s.address as i64), start, size];
                            self.symbols.result(u32::MAX, 1, &part)
                        }
                        Some(_) => self.symbols.fresh(),
                    }
                }
            };
            inputs.push(value);
        }
        let mut output = 0u8;
        for store in stores {
            let value = match self.stored(step, store) {
                Some(value) => value,
                None => self.symbols.result(n, 255, &inputs),
            };
            self.store(store, value);
        }
        for (place, id) in steps.outputs(step).iter().copied().enumerate() {
            let is_target = place == 0 && target == Some(id);
            if steps.live.register(id) {
                let result = match followed {
                    Some(value) if is_target => value,
                    _ => self.symbols.result(n, output, &inputs),
                };
                self.set(id, result);
            }
            output = output.saturating_add(1).min(254);
        }
        self.inputs = inputs;
        self.move_stack(step);
    }

    /// What an instruction does to the stack pointer without naming it.
    fn move_stack(&mut self, step: &Step) {
        if step.moves_stack {
            let mut rsp = self.value(RegId::RSP);
            rsp.offset = rsp.offset.wrapping_add(step.moved);
            self.set(RegId::RSP, rsp);
        }
    }

    /// The value that a plain store stores.
    fn stored(&mut self, step: &Step, store: &Access) -> Option<Value> {
        let bits = store.size * 8;
        let value = match step.stored? {
            Source::Register { id, .. } => self.value(id),
            Source::Number(number) => Value::number(number),
            Source::Memory { .. } => return None,
        };
        match value.known() {
            Some(number) => Some(Value::number(zero_extend(number, bits))),
            None => (bits >= 32).then_some(value),
        }
    }
}

impl Default for Now {
    fn default() -> Self {
        Self {
            init: Init::Distinct,
            values: [None; RegId::COUNT],
            symbols: Symbols::default(),
            regions: FxHashMap::default(),
            known_regions: Vec::new(),
            memory: Written::default(),
            lines: [Line::default(); NEIGHBOURS],
            stored: 0,
            places: false,
            shared_lines: false,
            part: 1,
            crossings: false,
            changed: false,
            unchanged: 0,
            round: Vec::new(),
            signatures: Vec::new(),
            signature: Fingerprint::default(),
            loaded: None,
            found: Vec::new(),
            inputs: Vec::new(),
        }
    }
}

impl Reader for Now {
    fn register(&mut self, id: RegId) -> Value {
        self.value(id)
    }

    fn loaded(&mut self) -> Option<Value> {
        self.loaded
    }

    fn exclusive_or(&mut self, a: Value, b: Value) -> Option<Value> {
        Some(self.symbols.exclusive_or(a, b))
    }
}
