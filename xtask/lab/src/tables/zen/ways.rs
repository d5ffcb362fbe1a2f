//! Latencies in whole cycles, from those of which half a way there and back was taken off.
//!
//! Between registers of different kinds only the way there and back is measured, and the profiler takes each
//! way to be half. Of an odd number of cycles the way to the vector or mask register has the longer half in
//! the table; whatever else was measured by way of such registers is put right by what its helper really has there.

use mcad_isa::machine::table::{LatencyKind, OperandName};

/// How far from half a cycle a half may be measured.
const NEAR_HALF: f64 = 0.06;

/// By how much the way from a general-purpose register is longer than half of the way there and back, in cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ways {
    vector: f64,
    mmx: f64,
    mask: f64,
}

/// Kinds of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    General,
    Vector,
    Mmx,
    Mask,
}

fn is_half(cycles: f64) -> bool {
    (cycles - cycles.floor() - 0.5).abs() < NEAR_HALF
}

impl Ways {
    /// From what was measured of the helpers' forms.
    pub(super) fn of(measured: impl Fn(&str) -> Option<f64>) -> Self {
        let longer = |form: &str| match measured(form).is_some_and(is_half) {
            true => 0.5,
            false => 0.0,
        };
        Self {
            vector: longer("VMOVQ (XMM, R64)"),
            mmx: longer("MOVQ (MM, R64)"),
            mask: longer("KMOVD (K, R32)"),
        }
    }

    fn longer(self, kind: Kind) -> f64 {
        match kind {
            Kind::General => 0.0,
            Kind::Vector => self.vector,
            Kind::Mmx => self.mmx,
            Kind::Mask => self.mask,
        }
    }

    /// A latency as the table has it. What a helper brings back from where the result is to where the form takes it
    /// from goes by a general-purpose register.
    pub(super) fn whole(
        self,
        cycles: f64,
        form: &str,
        (from, to, kind): (OperandName, OperandName, LatencyKind),
    ) -> f64 {
        let operands = form.split_once(" (").map_or("", |(_, operands)| operands);
        let kind_of = |name: OperandName| {
            let OperandName::Reg(n) = name else {
                return Kind::General;
            };
            let operand = operands.split([',', ')']).nth(n.into()).unwrap_or("");
            match operand.trim() {
                "XMM" | "YMM" | "ZMM" => Kind::Vector,
                "MM" => Kind::Mmx,
                "K" => Kind::Mask,
                _ => Kind::General,
            }
        };
        let (source, target) = (kind_of(from), kind_of(to));
        let through_memory = kind == LatencyKind::Mem || matches!(to, OperandName::Mem(_));
        let right = match through_memory {
            true => cycles,
            false => cycles + self.longer(target) - self.longer(source),
        };
        if !is_half(right) {
            return right.round();
        }
        match (source, target) {
            (Kind::General, Kind::General) => cycles.round(),
            (Kind::General, _) => cycles.ceil(),
            (_, Kind::General) => cycles.floor(),
            _ => cycles.round(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REG0: OperandName = OperandName::Reg(0);
    const REG1: OperandName = OperandName::Reg(1);

    #[test]
    fn what_helpers_have_is_put_right() {
        // Vector and back 6 cycles, mask and back 9.
        let ways = Ways::of(|form| {
            Some(if form.starts_with("KMOVD") {
                4.49
            } else {
                2.99
            })
        });
        let whole = |cycles, form| ways.whole(cycles, form, (REG1, REG0, LatencyKind::Reg));
        assert_eq!(whole(4.49, "KMOVD (R32, K)"), 4.0);
        assert_eq!(whole(4.50, "KMOVD (K, R32)"), 5.0);
        // 10 cycles there and back: by `vmovq` 3 and by `kmovd` 5.
        assert_eq!(whole(2.5, "VANDPS_Z (XMM, K, XMM, XMM)"), 2.0);
        assert_eq!(whole(1.49, "VPTESTMB (K, XMM, XMM)"), 2.0);
        assert_eq!(whole(3.0, "VMOVQ (R64, XMM)"), 3.0);
    }

    #[test]
    fn odd_numbers_go_to_the_way_there() {
        let ways = Ways::of(|_| Some(3.5));
        let whole = |cycles, form| ways.whole(cycles, form, (REG1, REG0, LatencyKind::Reg));
        assert_eq!(whole(3.49, "VMOVQ (XMM, R64)"), 4.0);
        assert_eq!(whole(3.51, "VMOVQ (R64, XMM)"), 3.0);
        assert_eq!(whole(2.49, "VANDPS_Z (XMM, K, XMM, XMM)"), 2.0);
    }
}
