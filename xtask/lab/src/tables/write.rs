//! A finished table as the wire form: lists and texts once, everything else by number.

use std::collections::HashMap;
use std::hash::Hash;

use anyhow::{Context, Result};
use mcad_isa::machine::table::{Binding, FlagGroups, Form, LatencyKind, Operand, Perf, wire};

use super::draft::Draft;

/// Things that occur once, numbered in order of first use.
struct Interner<T> {
    items: Vec<T>,
    numbers: HashMap<T, u16>,
}

impl<T: Clone + Eq + Hash> Interner<T> {
    fn new() -> Self {
        Self {
            items: Vec::new(),
            numbers: HashMap::new(),
        }
    }

    fn number(&mut self, item: T) -> Result<u16> {
        if let Some(number) = self.numbers.get(&item) {
            return Ok(*number);
        }
        let number = u16::try_from(self.items.len())
            .context("more than 65536 different entries; the wire format needs wider numbers")?;
        self.items.push(item.clone());
        self.numbers.insert(item, number);
        Ok(number)
    }
}

struct Writer {
    texts: Interner<String>,
    operands: Interner<Vec<wire::Operand>>,
    ports: Interner<Vec<(u32, u16)>>,
    latencies: Interner<Vec<wire::Latency>>,
    perfs: Interner<wire::Perf>,
}

/// Turns a draft into its file.
///
/// # Errors
/// When a number does not fit.
pub fn file(draft: &Draft) -> Result<wire::File> {
    let mut writer = Writer {
        texts: Interner::new(),
        operands: Interner::new(),
        ports: Interner::new(),
        latencies: Interner::new(),
        perfs: Interner::new(),
    };
    let mut numbers = HashMap::new();
    let mut forms = Vec::new();
    let mut ordered: Vec<_> = draft.candidates.iter().collect();
    ordered.sort_by_key(|c| c.code as usize);
    let used: std::collections::BTreeSet<usize> = ordered.iter().map(|c| c.form).collect();
    for index in used {
        numbers.insert(index, u16::try_from(forms.len())?);
        forms.push(writer.form(&draft.forms[index])?);
    }
    let mut previous = 0;
    let mut candidates = Vec::new();
    for c in ordered {
        let code = c.code as usize;
        candidates.push(wire::Candidate {
            code_step: u16::try_from(code - previous)?,
            mask: c.selector.mask,
            value: c.selector.value,
            form: numbers[&c.form],
        });
        previous = code;
    }
    Ok(wire::File {
        version: wire::VERSION,
        codes: wire::code_fingerprint(),
        texts: writer.texts.items,
        operands: writer.operands.items,
        ports: writer.ports.items,
        latencies: writer.latencies.items,
        perfs: writer.perfs.items,
        forms,
        candidates,
    })
}

impl Writer {
    fn form(&mut self, form: &Form) -> Result<wire::Form> {
        let bits = |groups: FlagGroups| u8::from(groups.c) | u8::from(groups.spazo) << 1;
        let perf = self.perf(&form.perf)?;
        let mut optional = |p: &Option<Perf>| p.as_ref().map(|p| self.perf(p)).transpose();
        let indexed = optional(&form.indexed)?;
        let same_reg = optional(&form.same_reg)?;
        let approximated_from = match &form.approximated_from {
            Some(source) => Some(self.texts.number(source.to_string())?),
            None => None,
        };
        Ok(wire::Form {
            name: self.texts.number(form.name.to_string())?,
            operands: self
                .operands
                .number(form.operands.iter().map(operand).collect())?,
            flags: bits(form.flags_read)
                | bits(form.flags_written) << 2
                | u8::from(form.locked) << 4,
            macro_fusible: form.macro_fusible,
            perf,
            indexed,
            same_reg,
            approximated_from,
            source: self.texts.number(form.source.to_string())?,
        })
    }

    fn perf(&mut self, perf: &Perf) -> Result<u16> {
        let latencies = perf
            .latencies
            .iter()
            .map(|l| wire::Latency {
                from: wire::name_number(l.from),
                to: wire::name_number(l.to),
                kind: match l.kind {
                    LatencyKind::Reg => 0,
                    LatencyKind::Addr => 1,
                    LatencyKind::Index => 2,
                    LatencyKind::Mem => 3,
                },
                cycles: l.cycles,
            })
            .collect();
        let ports = perf.ports.iter().map(|(p, n)| (p.0, *n)).collect();
        let perf = wire::Perf {
            uops: perf.uops,
            retire_slots: perf.retire_slots,
            uops_mite: perf.uops_mite,
            uops_ms: perf.uops_ms,
            ports: self.ports.number(ports)?,
            div_cycles: perf.div_cycles,
            tp: perf.tp,
            complex_decoder: perf.complex_decoder,
            simple_decoders: perf.simple_decoders,
            latencies: self.latencies.number(latencies)?,
        };
        self.perfs.number(perf)
    }
}

fn operand(operand: &Operand) -> wire::Operand {
    let (kind, number) = match operand.binding {
        Binding::Explicit(n) => (0, n.into()),
        Binding::Implicit(register) => (1, register as u16),
        Binding::OpMask => (2, 0),
        Binding::Flags => (3, 0),
        Binding::StackEngine => (4, 0),
        Binding::ImplicitMemory(n) => (5, n.into()),
    };
    wire::Operand {
        name: wire::name_number(operand.name),
        kind,
        number,
        access: u8::from(operand.read) | u8::from(operand.written) << 1,
    }
}
