//! Which addresses are equal when no addresses are known: values as expressions.
//!
//! A register holds a base value plus an offset. Moves copy, additions of immediates change the
//! offset, everything else makes a fresh value (uiCA's abstract values). Two accesses alias when
//! base, index, scale and displacement are the same.

use rustc_hash::FxHashMap;

use crate::isa::build::Described;
use crate::isa::operands::{MemoryRef, Value};
use crate::isa::regs::RegId;
use crate::pipeline::inst::{Access, Inst};

/// Register values at the start of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Init {
    /// All different.
    Distinct,
    /// All equal.
    Equal,
    /// All equal but the stack and frame pointers, as BHive's profiler sets them.
    Stack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Abstract {
    base: u32,
    offset: i64,
}

type Expression = (Option<Abstract>, Option<Abstract>, u8);

/// Values of registers and identities of addresses.
pub struct Aliases {
    init: Init,
    values: [Option<Abstract>; RegId::COUNT],
    next: u32,
    expressions: FxHashMap<Expression, u64>,
    addresses: FxHashMap<(u64, i64), u64>,
}

impl Aliases {
    /// Values at the start.
    #[must_use]
    pub fn new(init: Init) -> Self {
        let mut aliases = Self {
            init,
            values: [None; RegId::COUNT],
            next: 1,
            expressions: FxHashMap::default(),
            addresses: FxHashMap::default(),
        };
        if init == Init::Stack {
            for reg in [RegId::RSP, RegId::RBP] {
                let fresh = aliases.fresh();
                aliases.values[usize::from(reg.0)] = Some(fresh);
            }
        }
        aliases
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
            Init::Distinct => self.fresh(),
            Init::Equal | Init::Stack => Abstract { base: 0, offset: 0 },
        };
        self.values[place] = Some(value);
        value
    }

    fn access(&mut self, memory: &MemoryRef) -> Access {
        let base = memory.base.map(|r| self.value(r));
        let index = memory.index.map(|r| self.value(r));
        let next = self.expressions.len() as u64;
        let line = *self
            .expressions
            .entry((base, index, memory.scale))
            .or_insert(next);
        let next = self.addresses.len() as u64;
        let address = *self
            .addresses
            .entry((line, memory.displacement))
            .or_insert(next);
        // One granule of the store table each: equal or disjoint.
        Access {
            address: address * 8,
            size: 1,
            line,
            offset: memory.displacement,
        }
    }

    /// Adds the instruction's accesses, loads first.
    pub fn accesses(&mut self, d: &Described, inst: &mut Inst, out: &mut Vec<Access>) {
        let mut add = |values: &[Value], out: &mut Vec<Access>| {
            let mut n = 0u8;
            for value in values {
                if let Some(memory) = d.operands.memory.get(value.memory) {
                    out.push(self.access(memory));
                    n += 1;
                }
            }
            n
        };
        inst.loads = add(&d.operands.in_mems, out);
        inst.stores = add(&d.operands.out_mems, out);
    }

    /// Executes the instruction on the values.
    pub fn execute(&mut self, d: &Described) {
        let Some(form) = d.form else { return };
        if d.fused_previous || d.operands.out_regs.is_empty() {
            return;
        }
        let eliminated_or_executed = d.perf.uops > 0 || !d.operands.in_regs.is_empty();
        if !eliminated_or_executed {
            // A zero idiom: what it had does not matter, it is a value of its own.
            for n in 0..d.operands.out_regs.len() {
                let fresh = self.fresh();
                self.set(d, n, fresh);
            }
            return;
        }
        let source = d
            .operands
            .in_regs
            .first()
            .and_then(|v| v.id)
            .map(|r| self.value(r));
        let name = &form.name;
        let shifted = |by: i64| {
            source.map(|s| Abstract {
                base: s.base,
                offset: s.offset.wrapping_add(by),
            })
        };
        let value = if name.contains("MOV") && !name.contains("CMOV") {
            source
        } else if name.contains("ADD") && d.immediate.is_some() {
            shifted(d.immediate.unwrap_or(0))
        } else if name.contains("SUB") && d.immediate.is_some() {
            shifted(d.immediate.unwrap_or(0).wrapping_neg())
        } else if name.contains("INC") {
            shifted(1)
        } else if name.contains("DEC") {
            shifted(-1)
        } else {
            None
        };
        for n in 0..d.operands.out_regs.len() {
            let value = match value {
                Some(value) => value,
                None => self.fresh(),
            };
            self.set(d, n, value);
        }
    }

    fn set(&mut self, d: &Described, output: usize, value: Abstract) {
        if let Some(id) = d.operands.out_regs.get(output).and_then(|v| v.id) {
            self.values[usize::from(id.0) & (RegId::COUNT - 1)] = Some(value);
        }
    }
}
