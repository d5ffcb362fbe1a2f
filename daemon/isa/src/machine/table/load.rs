//! The embedded tables: decoded once, when first asked for.

use std::sync::OnceLock;

use iced_x86::{Code, Register};

use super::lookup::{Candidate, FormTable, Selector};
use super::{Binding, FlagGroups, Form, Latency, LatencyKind, Operand, Perf, PortSet, wire};

/// Why a table cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// There is no table of this name.
    #[error("there is no instruction table for '{0}'; there are: {names}", names = names())]
    UnknownCpu(String),
    /// The embedded file does not fit this program.
    #[error(
        "the embedded instruction table of {cpu} is damaged ({what}); \
         `cargo xtask tables` makes it anew"
    )]
    Damaged {
        /// CPU.
        cpu: &'static str,
        /// What is wrong.
        what: String,
    },
}

struct Embedded {
    cpu: &'static str,
    bytes: &'static [u8],
    table: OnceLock<Result<FormTable, TableError>>,
}

macro_rules! embedded {
    ($($cpu:literal),* $(,)?) => {
        [$(Embedded {
            cpu: $cpu,
            bytes: include_bytes!(concat!("../../../data/", $cpu, ".table")),
            table: OnceLock::new(),
        }),*]
    };
}

static TABLES: [Embedded; 17] = embedded![
    "snb", "ivb", "hsw", "bdw", "skl", "skx", "clx", "icl", "tgl", "rkl", "glc", "rwc", "zen1",
    "zen2", "zen3", "zen4", "zen5",
];

fn names() -> String {
    embedded_cpus().collect::<Vec<_>>().join(" ")
}

/// The CPUs that have a table.
pub fn embedded_cpus() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|t| t.cpu)
}

impl FormTable {
    /// The table of a CPU (`skl`, `glc`, …).
    ///
    /// # Errors
    /// [`TableError`] when there is none or it does not fit this program.
    pub fn for_cpu(name: &str) -> Result<&'static Self, TableError> {
        let embedded = TABLES
            .iter()
            .find(|t| t.cpu == name)
            .ok_or_else(|| TableError::UnknownCpu(name.to_owned()))?;
        let result = embedded.table.get_or_init(|| {
            let mut table = Self::decode(embedded.bytes).map_err(|what| TableError::Damaged {
                cpu: embedded.cpu,
                what,
            })?;
            embedded.cpu.clone_into(&mut table.name);
            Ok(table)
        });
        result.as_ref().map_err(Clone::clone)
    }

    /// Decodes a table file made by `cargo xtask tables`.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        Self::from_file(&wire::decode(bytes)?)
    }

    /// Builds the table from its wire form.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn from_file(file: &wire::File) -> Result<Self, String> {
        let fingerprint = wire::code_fingerprint();
        if file.codes != fingerprint {
            return Err("it was made with another version of iced-x86".to_owned());
        }
        let forms = file
            .forms
            .iter()
            .map(|f| form(file, f))
            .collect::<Result<Vec<_>, _>>()?;
        let mut ends = vec![0_u32; Code::values().len()];
        let mut code = 0_usize;
        let mut candidates = Vec::with_capacity(file.candidates.len());
        for c in &file.candidates {
            code += usize::from(c.code_step);
            if usize::from(c.form) >= forms.len() {
                return Err("a candidate without a form".to_owned());
            }
            candidates.push(Candidate {
                selector: Selector {
                    mask: c.mask,
                    value: c.value,
                },
                form: c.form,
            });
            let end = u32::try_from(candidates.len()).map_err(|e| e.to_string())?;
            *ends.get_mut(code).ok_or("a candidate without a code")? = end;
        }
        let mut last = 0;
        for end in &mut ends {
            last = last.max(*end);
            *end = last;
        }
        Ok(Self {
            name: String::new(),
            forms,
            candidates,
            ends,
        })
    }
}

fn at<T>(list: &[T], index: u16) -> Result<&T, String> {
    list.get(usize::from(index))
        .ok_or_else(|| format!("number {index} of {} does not exist", list.len()))
}

fn form(file: &wire::File, f: &wire::Form) -> Result<Form, String> {
    let groups = |shift: u8| FlagGroups {
        c: f.flags >> shift & 1 != 0,
        spazo: f.flags >> shift & 2 != 0,
    };
    let optional = |index: Option<u16>| index.map(|i| perf(file, i)).transpose();
    Ok(Form {
        name: at(&file.texts, f.name)?.as_str().into(),
        operands: at(&file.operands, f.operands)?
            .iter()
            .map(operand)
            .collect::<Result<_, _>>()?,
        flags_read: groups(0),
        flags_written: groups(2),
        macro_fusible: f.macro_fusible,
        locked: f.flags & 16 != 0,
        perf: perf(file, f.perf)?,
        indexed: optional(f.indexed)?,
        same_reg: optional(f.same_reg)?,
        approximated_from: match f.approximated_from {
            Some(i) => Some(at(&file.texts, i)?.as_str().into()),
            None => None,
        },
        source: at(&file.texts, f.source)?.as_str().into(),
    })
}

fn operand(o: &wire::Operand) -> Result<Operand, String> {
    let small = u8::try_from(o.number).map_err(|_| format!("operand number {}", o.number));
    let binding = match o.kind {
        0 => Binding::Explicit(small?),
        1 => {
            Binding::Implicit(Register::try_from(usize::from(o.number)).map_err(|e| e.to_string())?)
        }
        2 => Binding::OpMask,
        3 => Binding::Flags,
        4 => Binding::StackEngine,
        5 => Binding::ImplicitMemory(small?),
        other => return Err(format!("operand binding {other}")),
    };
    Ok(Operand {
        name: wire::name_of(o.name),
        binding,
        read: o.access & 1 != 0,
        written: o.access & 2 != 0,
    })
}

fn perf(file: &wire::File, index: u16) -> Result<Perf, String> {
    let p = at(&file.perfs, index)?;
    let latency = |l: &wire::Latency| {
        Ok(Latency {
            from: wire::name_of(l.from),
            to: wire::name_of(l.to),
            kind: match l.kind {
                0 => LatencyKind::Reg,
                1 => LatencyKind::Addr,
                2 => LatencyKind::Index,
                3 => LatencyKind::Mem,
                other => return Err(format!("kind of latency {other}")),
            },
            cycles: l.cycles,
        })
    };
    Ok(Perf {
        uops: p.uops,
        retire_slots: p.retire_slots,
        uops_mite: p.uops_mite,
        uops_ms: p.uops_ms,
        ports: at(&file.ports, p.ports)?
            .iter()
            .map(|&(ports, uops)| (PortSet(ports), uops))
            .collect(),
        div_cycles: p.div_cycles,
        tp: p.tp,
        complex_decoder: p.complex_decoder,
        simple_decoders: p.simple_decoders,
        latencies: at(&file.latencies, p.latencies)?
            .iter()
            .map(latency)
            .collect::<Result<_, _>>()?,
    })
}
