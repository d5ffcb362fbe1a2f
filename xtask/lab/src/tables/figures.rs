//! From published figures to [`Perf`]: defaults, variants merged with their base, contradictions
//! settled.

use std::collections::BTreeMap;

use mcad_isa::machine::table::{Latency, LatencyKind, OperandName, Perf, PortSet};

use super::source::{Figures, Row};

/// How often something had to be settled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// The ports' µops did not add up to `uops`.
    pub uops_from_ports: u32,
    /// `uops` is given, ports are not.
    pub no_ports: u32,
    /// A number beyond 16 bits.
    pub clamped: u32,
    /// A variant's ports are missing or incomplete; the base's were taken.
    pub ports_from_base: u32,
}

/// The figures of a row: base, with indexed addressing, with equal registers.
pub struct RowPerf {
    pub base: Perf,
    pub indexed: Option<Perf>,
    pub same_reg: Option<Perf>,
}

/// Makes a row's figures.
///
/// # Errors
/// A text that says which field is beyond understanding.
pub fn of_row(row: &Row, settled: &mut Settled) -> Result<RowPerf, String> {
    let base = perf(&Figures::default(), &row.figures, settled)?;
    let mut variant = |figures: &Option<Figures>| {
        let Some(figures) = figures else {
            return Ok(None);
        };
        let merged = perf(&row.figures, figures, settled)?;
        Ok::<_, String>((merged != base).then_some(merged))
    };
    let indexed = variant(&row.indexed)?;
    let same_reg = variant(&row.same_reg)?;
    Ok(RowPerf {
        base,
        indexed,
        same_reg,
    })
}

fn total(ports: &BTreeMap<String, u64>) -> u64 {
    ports.values().sum()
}

fn perf(base: &Figures, own: &Figures, settled: &mut Settled) -> Result<Perf, String> {
    let uops = own.uops.or(base.uops).unwrap_or(0);
    let empty = BTreeMap::new();
    let base_ports = base.ports.as_ref().unwrap_or(&empty);
    let ports = match &own.ports {
        // As many µops as the base, but not all attributed to ports.
        Some(ports)
            if total(ports) < uops && total(ports) < total(base_ports) && own.uops == base.uops =>
        {
            settled.ports_from_base += 1;
            base_ports
        }
        Some(ports) => ports,
        None if uops == 0 => &empty,
        None => {
            settled.ports_from_base += u32::from(own.uops.is_some() && base.ports.is_some());
            base_ports
        }
    };
    let attributed = total(ports);
    let uops = match (attributed, uops) {
        (0, 0) => 0,
        (0, uops) => {
            settled.no_ports += 1;
            uops
        }
        (attributed, uops) => {
            settled.uops_from_ports += u32::from(attributed != uops);
            attributed
        }
    };
    // Only `wbinvd`, which runs for milliseconds, is beyond 16 bits; its ports keep their shares.
    let limit = u64::from(u16::MAX);
    let share = |n: u64| if uops > limit { n * limit / uops } else { n };
    let mut small = |n: u64| {
        u16::try_from(n).unwrap_or_else(|_| {
            settled.clamped += 1;
            u16::MAX
        })
    };
    let uops_mite = small(own.uops_mite.or(base.uops_mite).unwrap_or(1));
    let uops_ms = small(own.uops_ms.or(base.uops_ms).unwrap_or(0));
    let complex = own
        .complex_decoder
        .or(base.complex_decoder)
        .unwrap_or(false);
    let ports: Vec<(PortSet, u16)> = ports
        .iter()
        .map(|(names, n)| Ok((port_set(names)?, small(share(*n)))))
        .collect::<Result<_, String>>()?;
    let truncated = |n: Option<f64>| n.map(|n| n.max(0.0) as u64);
    Ok(Perf {
        uops: match attributed {
            0 => small(uops),
            _ => ports.iter().map(|p| p.1).sum(),
        },
        retire_slots: small(own.retire_slots.or(base.retire_slots).unwrap_or(1)).max(1),
        uops_mite,
        uops_ms,
        ports,
        div_cycles: small(truncated(own.div_cycles.or(base.div_cycles)).unwrap_or(0)),
        tp: truncated(own.tp.or(base.tp)).map(|cycles| 100 * u32::from(small(cycles))),
        complex_decoder: complex || uops_ms > 0 || uops_mite > 1,
        simple_decoders: own.simple_decoders.or(base.simple_decoders),
        latencies: match own.lat.as_ref().or(base.lat.as_ref()) {
            Some(list) => list.iter().map(latency).collect::<Result<_, _>>()?,
            None => Vec::new(),
        },
    })
}

/// `015`, `23A`: a set of ports.
pub fn port_set(names: &str) -> Result<PortSet, String> {
    let mut set = 0;
    for c in names.chars() {
        let port = c
            .to_digit(16)
            .ok_or_else(|| format!("port '{c}' in '{names}'"))?;
        set |= 1 << port;
    }
    Ok(PortSet(set))
}

fn operand_name(name: &str) -> Result<OperandName, String> {
    let numbered = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse().ok());
    if name == "AGEN" {
        return Ok(OperandName::Agen);
    }
    numbered("REG")
        .map(OperandName::Reg)
        .or_else(|| numbered("MEM").map(OperandName::Mem))
        .ok_or_else(|| format!("operand '{name}' of a latency"))
}

fn latency((from, to, kind, cycles): &(String, String, String, f64)) -> Result<Latency, String> {
    Ok(Latency {
        from: operand_name(from)?,
        to: operand_name(to)?,
        kind: match kind.as_str() {
            "reg" => LatencyKind::Reg,
            "addr" => LatencyKind::Addr,
            "index" => LatencyKind::Index,
            "mem" => LatencyKind::Mem,
            other => return Err(format!("kind of latency '{other}'")),
        },
        cycles: (cycles.max(0.0) as u64).min(u64::from(u16::MAX)) as u16,
    })
}
