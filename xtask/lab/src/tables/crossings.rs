//! Latencies between general-purpose and vector registers, which the published rows bound from above only.
//!
//! Such a latency can be measured in a chain alone that comes back by another instruction, whose part in it is not known:
//! uops.info takes the least that it could be, a cycle, off the chain's length, and marks the rest as a bound (Abel and Reineke,
//! ASPLOS 2019, section 5.2.1). On Redwood Cove `movq x, r; movq r, x` takes 4.0 cycles, so each of both is published as 3,
//! and a chain of both would take 6. Of 18 chains that go there and back, by conversions, insertions and extractions, masks, and
//! comparisons to flags, all take two cycles less than the sum of what is published. Chains go as often one way as the
//! other, so each way has a cycle less here.

use iced_x86::Register;
use mcad_isa::machine::table::{Binding, Form, Latency, LatencyKind, Operand, Perf};

/// CPUs whose crossings were measured, or whose successor's were.
pub const CPUS: [&str; 2] = ["glc", "rwc"];

/// Where an operand lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// General-purpose registers and flags.
    General,
    Vector,
}

/// Takes a cycle off all latencies from one side to the other.
pub fn settle(forms: &mut [Form]) {
    for form in forms {
        let explicit: Vec<Option<Side>> = explicit(&form.name);
        let side = |operand: &Operand| match operand.binding {
            Binding::Explicit(n) => explicit.get(usize::from(n)).copied().flatten(),
            Binding::Flags => Some(Side::General),
            Binding::Implicit(register) => of_register(register),
            Binding::OpMask | Binding::StackEngine | Binding::ImplicitMemory(_) => None,
        };
        let sides: Vec<_> = form.operands.iter().map(|o| (o.name, side(o))).collect();
        let of = |name| {
            sides
                .iter()
                .find(|(other, _)| *other == name)
                .and_then(|(_, side)| *side)
        };
        let crosses = |latency: &Latency| {
            latency.kind == LatencyKind::Reg
                && matches!(
                    (of(latency.from), of(latency.to)),
                    (Some(Side::General), Some(Side::Vector))
                        | (Some(Side::Vector), Some(Side::General))
                )
        };
        let variants = [
            Some(&mut form.perf),
            form.indexed.as_mut(),
            form.same_reg.as_mut(),
        ];
        for perf in variants.into_iter().flatten() {
            sooner(perf, crosses);
        }
    }
}

fn sooner(perf: &mut Perf, crosses: impl Fn(&Latency) -> bool) {
    for latency in perf
        .latencies
        .iter_mut()
        .filter(|l| l.cycles > 1 && crosses(l))
    {
        latency.cycles -= 1;
    }
}

/// The sides of the operands in a name like `MOVQ (XMM, R64)`.
fn explicit(name: &str) -> Vec<Option<Side>> {
    let list = name.split_once('(').map_or("", |(_, list)| list);
    let of = |operand: &str| match operand.trim() {
        o if ["XMM", "YMM", "ZMM"].iter().any(|v| o.starts_with(v)) => Some(Side::Vector),
        o if ["R8", "R16", "R32", "R64"].iter().any(|r| o.starts_with(r)) => Some(Side::General),
        _ => None,
    };
    list.trim_end_matches(')').split(',').map(of).collect()
}

fn of_register(register: Register) -> Option<Side> {
    match register {
        r if r.is_gpr() => Some(Side::General),
        r if r.is_vector_register() => Some(Side::Vector),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_told_apart_by_their_names() {
        use Side::{General, Vector};
        for (name, sides) in [
            ("MOVQ (XMM, R64)", vec![Some(Vector), Some(General)]),
            (
                "PEXTRB (R32, XMM, I8)",
                vec![Some(General), Some(Vector), None],
            ),
            (
                "VADDPD_Z (ZMM, K, ZMM, M64_1to8)",
                vec![Some(Vector), None, Some(Vector), None],
            ),
            ("CPUID", vec![None]),
        ] {
            assert_eq!(explicit(name), sides, "{name}");
        }
    }
}
