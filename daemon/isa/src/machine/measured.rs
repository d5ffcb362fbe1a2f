//! Models whose latencies and throughputs were measured: a base model with figures of its own.
//!
//! `mcad profile instruction --export` writes the file. What cannot be measured without counters,
//! above all the ports, is the base's, and so are all parameters of the core: such a model is as
//! good as the base is near. A throughput is taken over only where the base's ports allow more
//! than was measured.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::table::{FormTable, LatencyKind, OperandName, Perf};
use super::{CpuModel, MachineError, cpu};

/// The file.
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

/// Figures of one form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredForm {
    /// uops.info's name, as the base's table has it.
    pub name: String,
    /// Least cycles between two independent executions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// Source, destination, part of the source (`reg`, `addr`, `index`, `mem`), cycles.
    #[serde(default)]
    pub latencies: Vec<(String, String, String, f64)>,
}

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

fn operand(text: &str) -> Option<OperandName> {
    let number = |prefix: &str| text.strip_prefix(prefix)?.parse().ok();
    number("REG")
        .map(OperandName::Reg)
        .or_else(|| number("MEM").map(OperandName::Mem))
        .or_else(|| (text == "AGEN").then_some(OperandName::Agen))
}

fn kind(text: &str) -> Option<LatencyKind> {
    let kinds = [
        LatencyKind::Reg,
        LatencyKind::Addr,
        LatencyKind::Index,
        LatencyKind::Mem,
    ];
    kinds.into_iter().find(|kind| kind_text(*kind) == text)
}

/// Builds the model that a file describes. Its table lives as long as the process.
///
/// # Errors
/// [`MachineError::BadModel`] says what is wrong; a form that the base lacks is wrong, too.
pub fn model(text: &str) -> Result<Arc<CpuModel>, MachineError> {
    let bad = |name: &str, what: String| MachineError::BadModel {
        name: name.to_owned(),
        what,
    };
    let file: Measured = toml::from_str(text).map_err(|e| bad("file", e.to_string()))?;
    let base = cpu(&file.base)?;
    let table = table(base.table, &file).map_err(|what| bad(&file.name, what))?;
    Ok(Arc::new(CpuModel {
        full_name: format!("{} as measured, ports of {}", file.name, base.full_name),
        name: file.name,
        core: base.core.clone(),
        table: Box::leak(Box::new(table)),
    }))
}

fn table(base: &FormTable, file: &Measured) -> Result<FormTable, String> {
    let mut table = base.clone();
    for measured in &file.forms {
        let forms = table.forms_mut().iter_mut();
        let mut found = false;
        for form in forms.filter(|f| *f.name == *measured.name) {
            found = true;
            apply(&mut form.perf, measured)?;
            form.approximated_from = None;
        }
        if !found {
            return Err(format!("{} has no form '{}'", file.base, measured.name));
        }
    }
    Ok(table)
}

fn apply(perf: &mut Perf, measured: &MeasuredForm) -> Result<(), String> {
    let cycles = |cycles: f64| {
        (0.0..=MAX_CYCLES)
            .contains(&cycles)
            .then(|| cycles.round() as u16)
            .ok_or_else(|| format!("{}: {cycles} is no number of cycles", measured.name))
    };
    for (from, to, part, value) in &measured.latencies {
        let names = operand(from).zip(operand(to)).zip(kind(part));
        let Some(((from, to), kind)) = names else {
            return Err(format!(
                "{}: no latency '{from}, {to}, {part}'",
                measured.name
            ));
        };
        let value = cycles(*value)?;
        // Only what the base's operands have: dependencies are not measured.
        let known = perf.latencies.iter_mut();
        for latency in known.filter(|l| (l.from, l.to, l.kind) == (from, to, kind)) {
            latency.cycles = value;
        }
    }
    if let Some(throughput) = measured.throughput {
        let value = cycles(throughput)?;
        if throughput > bound(perf) + 0.5 {
            perf.tp = Some(value);
        }
    }
    Ok(())
}

/// Least cycles between two executions that the ports alone allow.
fn bound(perf: &Perf) -> f64 {
    let sets = perf.ports.iter().map(|(set, _)| set.0);
    let load = |union: u16| {
        let uops = perf.ports.iter().filter(|(set, _)| set.0 & !union == 0);
        let uops: u32 = uops.map(|(_, n)| u32::from(*n)).sum();
        f64::from(uops) / f64::from(union.count_ones().max(1))
    };
    let own = sets.map(load).fold(0.0, f64::max);
    own.max(f64::from(perf.div_cycles))
        .max(perf.tp.map_or(0.0, f64::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(forms: &str) -> String {
        format!("name = \"here\"\nbase = \"skl\"\n{forms}")
    }

    #[test]
    fn a_wrong_file_is_an_error_that_names_what_is_wrong() {
        for (forms, expected) in [
            ("[[form]]\nname = \"NONE\"\n", "no form 'NONE'"),
            ("speed = 1\n", "unknown field `speed`"),
            (
                "[[form]]\nname = \"IMUL (R64, R64)\"\nthroughput = -1.0\n",
                "-1 is no number of cycles",
            ),
            (
                "[[form]]\nname = \"IMUL (R64, R64)\"\nlatencies = [[\"REGX\", \"REG0\", \"reg\", 1.0]]\n",
                "no latency 'REGX, REG0, reg'",
            ),
        ] {
            let error = model(&file(forms)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(model("name = \"a\"\nbase = \"none\"").is_err());
    }

    #[test]
    fn names_of_operands_are_read_as_they_are_written() {
        for name in [OperandName::Reg(3), OperandName::Mem(1), OperandName::Agen] {
            assert_eq!(operand(&operand_text(name)), Some(name));
        }
    }
}
