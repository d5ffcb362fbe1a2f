//! Golden Cove's AVX-512 forms, better than plainly borrowed.
//!
//! The published rows are those of a client core, whose AVX-512 is switched off. The forms are
//! borrowed from Rocket Lake, a client core too, and then corrected by what is known of the core:
//!
//! - 128 and 256 bits: vector µops go where the same instruction's VEX form goes on Golden Cove;
//! - 512 bits: servers have a second unit on port 5 as Cascade Lake has, so vector µops go where
//!   they go there;
//! - latencies change by as much as those of the VEX form do from Rocket Lake to Golden Cove.

use std::collections::HashMap;

use mcad_isa::machine::table::{Form, LatencyKind, Perf, PortSet};

/// Forms by name.
pub type ByName<'a> = HashMap<&'a str, &'a Form>;

/// Indexes forms by name.
pub fn by_name(forms: &[Form]) -> ByName<'_> {
    forms.iter().map(|f| (&*f.name, f)).collect()
}

/// Corrects a form that was borrowed from `lender` (in Golden Cove's layout already).
pub fn correct(form: &mut Form, own: &ByName<'_>, lender: &ByName<'_>, server: &ByName<'_>) {
    let name = form.name.to_string();
    let wide = name.contains("ZMM");
    let sibling = vex_name(&name);
    let sibling_own = sibling.as_deref().and_then(|n| own.get(n));
    let sibling_there = sibling.as_deref().and_then(|n| lender.get(n));
    let ports_from = match wide {
        true => server.get(name.as_str()),
        false => sibling_own,
    };
    let change = match (sibling_own, sibling_there) {
        (Some(here), Some(there)) => slowest(&here.perf) - slowest(&there.perf),
        _ => 0,
    };
    let variants = [
        Some(&mut form.perf),
        form.indexed.as_mut(),
        form.same_reg.as_mut(),
    ];
    for perf in variants.into_iter().flatten() {
        if let Some(model) = ports_from {
            take_vector_ports(perf, &model.perf, wide);
        }
        for latency in &mut perf.latencies {
            // A masked move or store has its own latency, not its sibling's.
            let cycles = i32::from(latency.cycles) + change;
            if latency.cycles > 0 {
                latency.cycles = u16::try_from(cycles.max(1)).unwrap_or(latency.cycles);
            }
        }
    }
}

/// Whether a set is one of vector units: ports 0, 1 and 5, of which 512 bits leave out 1.
fn is_vector(ports: PortSet, wide: bool) -> bool {
    let units = if wide { 0b10_0001 } else { 0b10_0011 };
    ports.0 & !units == 0
}

/// Replaces all µops on vector units by those of a model, if they are as many.
fn take_vector_ports(perf: &mut Perf, model: &Perf, wide: bool) {
    let vector = |p: &Perf| -> Vec<(PortSet, u16)> {
        let of = p.ports.iter().filter(|(ports, _)| is_vector(*ports, wide));
        of.copied().collect()
    };
    let count = |list: &[(PortSet, u16)]| list.iter().map(|p| u32::from(p.1)).sum::<u32>();
    let (present, better) = (vector(perf), vector(model));
    if count(&present) != count(&better) {
        return;
    }
    perf.ports.retain(|(ports, _)| !is_vector(*ports, wide));
    perf.ports.extend(better);
    // The order of published tables: by the names of the ports.
    perf.ports
        .sort_by_key(|(p, _)| (0..16).filter(|n| p.0 & 1 << n != 0).collect::<Vec<u32>>());
}

/// The longest latency between registers.
fn slowest(perf: &Perf) -> i32 {
    let between = perf
        .latencies
        .iter()
        .filter(|l| l.kind == LatencyKind::Reg || l.kind == LatencyKind::Mem);
    between.map(|l| i32::from(l.cycles)).max().unwrap_or(0)
}

/// The name of the VEX form with at most 256 bits that does the same.
pub fn vex_name(name: &str) -> Option<String> {
    let (head, operands) = name.split_once(" (")?;
    let mnemonic = head.split('_').next()?;
    // The element size matters to masking only.
    let mnemonic = match mnemonic {
        "VMOVDQU8" | "VMOVDQU16" | "VMOVDQU32" | "VMOVDQU64" => "VMOVDQU",
        "VMOVDQA32" | "VMOVDQA64" => "VMOVDQA",
        "VPANDD" | "VPANDQ" => "VPAND",
        "VPANDND" | "VPANDNQ" => "VPANDN",
        "VPORD" | "VPORQ" => "VPOR",
        "VPXORD" | "VPXORQ" => "VPXOR",
        other => other,
    };
    let mut operands: Vec<&str> = operands.trim_end_matches(')').split(", ").collect();
    if operands.first() == Some(&"K") {
        return None;
    }
    if operands.get(1) == Some(&"K") {
        operands.remove(1);
    }
    let wide = operands.contains(&"ZMM") || operands.contains(&"YMM");
    let operands: Vec<&str> = operands
        .into_iter()
        .map(|o| match o {
            "ZMM" => "YMM",
            "M512" => "M256",
            _ if o.contains("_1to") && wide => "M256",
            _ if o.contains("_1to") => "M128",
            other => other,
        })
        .collect();
    Some(format!("{mnemonic} ({})", operands.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_vex_forms() {
        let vex = |name| vex_name(name).expect("a VEX form");
        assert_eq!(vex("VADDPD_EVEX (XMM, XMM, XMM)"), "VADDPD (XMM, XMM, XMM)");
        assert_eq!(
            vex("VADDPD_Z (ZMM, K, ZMM, M64_1to8)"),
            "VADDPD (YMM, YMM, M256)"
        );
        assert_eq!(vex("VMOVDQU64 (M256, YMM)"), "VMOVDQU (M256, YMM)");
        assert_eq!(vex_name("VPCMPEQB (K, ZMM, ZMM)"), None);
    }
}
