//! Figures of single instruction forms in a CPU's file, in place of its table's.
//!
//! `mcad profile instruction --export` writes such files. What cannot be measured without counters,
//! above all the ports, is then the base's, and so are all parameters of the core: such a model is
//! as good as the base is near. A throughput counts only where the ports allow more than that.

use serde::{Deserialize, Serialize};

use super::params::{PortLayout, PortSet};
use super::table::{FormTable, LatencyKind, OperandName, Perf};
use crate::near::nearest;

/// A file that has nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Short name of the model.
    pub name: String,
    /// The model that everything else is taken from.
    pub base: String,
    /// Figures by form.
    #[serde(default, rename = "form")]
    pub forms: Vec<MeasuredForm>,
}

/// Figures of one form; what is left out stays as the table has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredForm {
    /// uops.info's name, as the table has it.
    pub name: String,
    /// Which of the form's figures: those for any registers when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<Variant>,
    /// Least cycles between two independent executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// The ports of each µop that needs one, names with spaces between them: `["0 1 5 6", "2 3"]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<String>>,
    /// Issue slots, which are those of retirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u16>,
    /// µops from the decoders or the µop cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoded: Option<u16>,
    /// µops from the microcode sequencer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<u16>,
    /// Cycles that a divider is occupied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divider: Option<u16>,
    /// Source, destination, part of the source (`reg`, `addr`, `index`, `mem`), cycles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<(String, String, String, f64)>,
}

/// Figures of a form that differ from those for any registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// With an index register in the address.
    Indexed,
    /// With all registers the same.
    SameRegister,
}

/// A throughput that is longer by this factor than what ports allow is not theirs.
const UNEXPLAINED: f64 = 1.1;
/// Longest latency or throughput that is believed.
const MAX_CYCLES: f64 = 10_000.0;

/// The text of an operand's name in such a file: `REG0`, `MEM0`, `AGEN`.
#[must_use]
pub fn operand_text(name: OperandName) -> String {
    match name {
        OperandName::Reg(n) => format!("REG{n}"),
        OperandName::Mem(n) => format!("MEM{n}"),
        OperandName::Agen => "AGEN".to_owned(),
    }
}

/// The text of a part of a source.
#[must_use]
pub fn kind_text(kind: LatencyKind) -> &'static str {
    match kind {
        LatencyKind::Reg => "reg",
        LatencyKind::Addr => "addr",
        LatencyKind::Index => "index",
        LatencyKind::Mem => "mem",
    }
}

/// The operand of such a text.
#[must_use]
pub fn operand_of(text: &str) -> Option<OperandName> {
    let number = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
    number("REG")
        .map(OperandName::Reg)
        .or_else(|| number("MEM").map(OperandName::Mem))
        .or_else(|| (text == "AGEN").then_some(OperandName::Agen))
}

/// The part of a source of such a text.
#[must_use]
pub fn kind_of(text: &str) -> Option<LatencyKind> {
    let kinds = [
        LatencyKind::Reg,
        LatencyKind::Addr,
        LatencyKind::Index,
        LatencyKind::Mem,
    ];
    kinds.into_iter().find(|kind| kind_text(*kind) == text)
}

/// Puts figures in place of a table's.
pub(super) fn apply(
    table: &mut FormTable,
    figures: &MeasuredForm,
    ports: &PortLayout,
) -> Result<(), String> {
    let mut found = false;
    let forms = table.forms_mut().iter_mut();
    for form in forms.filter(|form| *form.name == *figures.name) {
        found = true;
        let perf = match figures.variant {
            None => &mut form.perf,
            Some(Variant::Indexed) => form.indexed.get_or_insert_with(|| form.perf.clone()),
            Some(Variant::SameRegister) => form.same_reg.get_or_insert_with(|| form.perf.clone()),
        };
        change(perf, figures, ports).map_err(|what| format!("{}: {what}", figures.name))?;
        form.approximated_from = None;
    }
    if found {
        return Ok(());
    }
    let start = figures.name.split(' ').next().unwrap_or_default();
    let same = (table.forms().iter())
        .map(|form| &*form.name)
        .filter(|name| !start.is_empty() && name.starts_with(start));
    let mut like = nearest(&figures.name, same.clone());
    if like.is_empty() {
        like = same.take(8).map(str::to_owned).collect();
    }
    Err(match like.as_slice() {
        [] => format!("the table has no form '{}'", figures.name),
        like => format!(
            "the table has no form '{}'; like it are: {}",
            figures.name,
            like.join(", ")
        ),
    })
}

fn cycles(cycles: f64) -> Result<u16, String> {
    (0.0..=MAX_CYCLES)
        .contains(&cycles)
        .then(|| cycles.round() as u16)
        .ok_or_else(|| format!("{cycles} is no number of cycles in 0..={MAX_CYCLES}"))
}

fn change(perf: &mut Perf, figures: &MeasuredForm, layout: &PortLayout) -> Result<(), String> {
    if let Some(uops) = &figures.ports {
        let sets = uops.iter().map(|uop| layout.set(uop));
        perf.ports = counted(&sets.collect::<Result<Vec<_>, _>>()?);
        perf.uops = uops.len().min(usize::from(u16::MAX)) as u16;
    }
    if let Some(slots) = figures.slots {
        if slots == 0 {
            return Err("slots = 0: every instruction takes at least one".to_owned());
        }
        perf.retire_slots = slots;
    }
    perf.uops_mite = figures.decoded.unwrap_or(perf.uops_mite);
    perf.uops_ms = figures.microcode.unwrap_or(perf.uops_ms);
    perf.div_cycles = figures.divider.unwrap_or(perf.div_cycles);
    for (from, to, part, value) in &figures.latencies {
        let Some(((from, to), kind)) = operand_of(from).zip(operand_of(to)).zip(kind_of(part))
        else {
            return Err(format!("no latency '{from}, {to}, {part}'"));
        };
        let value = cycles(*value)?;
        // Only what the table's operands have: dependencies are not measured.
        let known = perf.latencies.iter_mut();
        for latency in known.filter(|l| (l.from, l.to, l.kind) == (from, to, kind)) {
            latency.cycles = value;
        }
    }
    if let Some(throughput) = figures.throughput {
        cycles(throughput)?;
        let bound = bound(perf);
        if throughput > bound + 0.5 {
            perf.tp = Some(100 * throughput.round() as u32);
        } else if throughput > bound * UNEXPLAINED {
            perf.tp = Some((throughput * 100.0).round() as u32);
        }
    }
    Ok(())
}

/// µops by their ports, in order of appearance.
fn counted(sets: &[PortSet]) -> Vec<(PortSet, u16)> {
    let mut counts: Vec<(PortSet, u16)> = Vec::new();
    for &set in sets {
        match counts.iter_mut().find(|(known, _)| *known == set) {
            Some((_, count)) => *count += 1,
            None => counts.push((set, 1)),
        }
    }
    counts
}

/// Least cycles between two executions that the ports alone allow.
fn bound(perf: &Perf) -> f64 {
    let load = |union: PortSet| {
        let uops = perf.ports.iter().filter(|(set, _)| union.contains(*set));
        let uops: u32 = uops.map(|(_, n)| u32::from(*n)).sum();
        f64::from(uops) / f64::from(union.len().max(1))
    };
    let own = perf.ports.iter().map(|(set, _)| load(*set));
    own.fold(0.0, f64::max)
        .max(f64::from(perf.div_cycles))
        .max(perf.tp.map_or(0.0, |tp| f64::from(tp) / 100.0))
}

#[cfg(test)]
mod tests {
    use super::super::CpuModel;
    use super::*;
    use std::sync::Arc;

    fn model(forms: &str) -> Result<Arc<CpuModel>, String> {
        let text = format!("name = \"here\"\nbase = \"skl\"\n{forms}");
        super::super::model_from("here.toml", &text, &|_| Err(String::new()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_wrong_file_is_an_error_that_names_what_is_wrong() {
        for (forms, expected) in [
            (
                "[[form]]\nname = \"IMUL (R64, R99)\"\n",
                "like it are: IMUL",
            ),
            ("speed = 1\n", "unknown field `speed`"),
            (
                "[[form]]\nname = \"IMUL (R64, R64)\"\nthroughput = -1.0\n",
                "here.toml:3: IMUL (R64, R64): -1 is no number of cycles",
            ),
            (
                "[[form]]\nname = \"IMUL (R64, R64)\"\nlatencies = [[\"REGX\", \"REG0\", \"reg\", 1.0]]\n",
                "no latency 'REGX, REG0, reg'",
            ),
            (
                "[[form]]\nname = \"IMUL (R64, R64)\"\nports = [\"1 X\"]\n",
                "'X' is none of: 0 1 2 3 4 5 6 7",
            ),
        ] {
            let error = model(forms).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn figures_replace_those_of_the_variant_that_they_name() {
        let model = model(
            "[[form]]\nname = \"IMUL (R64, R64)\"\nports = [\"0 1\", \"5\", \"0 1\"]\nslots = 2\n\
             [[form]]\nname = \"IMUL (R64, R64)\"\nvariant = \"same_register\"\ndivider = 7\n",
        )
        .unwrap();
        let form = model.forms().unwrap().forms().iter();
        let form = form
            .clone()
            .find(|f| &*f.name == "IMUL (R64, R64)")
            .unwrap();
        assert_eq!(form.perf.ports, [(PortSet(3), 2), (PortSet(32), 1)]);
        assert_eq!((form.perf.uops, form.perf.retire_slots), (3, 2));
        assert_eq!(form.perf.div_cycles, 0);
        assert_eq!(form.same_reg.as_ref().unwrap().div_cycles, 7);
    }

    #[test]
    fn names_of_operands_are_read_as_they_are_written() {
        for name in [OperandName::Reg(3), OperandName::Mem(1), OperandName::Agen] {
            assert_eq!(operand_of(&operand_text(name)), Some(name));
        }
    }
}
