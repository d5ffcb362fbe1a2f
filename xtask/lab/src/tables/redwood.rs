//! Golden Cove is measured through the rows of its successor, Redwood Cove, which is the same core
//! but for details. What is known to differ is put right here, before other CPUs borrow.
//!
//! Floating-point multiplication takes 4 cycles on Golden Cove and 3 on Redwood Cove: a chain of
//! `vmulsd` takes 4.0 cycles each on a Golden Cove server, whose measured blocks
//! docs/GOLDEN-COVE.md names.

use mcad_isa::machine::table::{Form, Perf};

/// Corrects the forms of Golden Cove.
pub fn to_golden_cove(forms: &mut [Form]) {
    for form in forms {
        if is_multiplication(&form.name) {
            let variants = [
                Some(&mut form.perf),
                form.indexed.as_mut(),
                form.same_reg.as_mut(),
            ];
            variants.into_iter().flatten().for_each(slow_down);
        }
    }
}

/// Plain multiplication of scalars or vectors of floating-point numbers.
fn is_multiplication(name: &str) -> bool {
    let name = name.strip_prefix('V').unwrap_or(name);
    ["MULSS", "MULSD", "MULPS", "MULPD"].iter().any(|m| {
        name.strip_prefix(m)
            .is_some_and(|rest| rest.starts_with([' ', '_']))
    })
}

/// One cycle more from every input that takes part in the multiplication.
fn slow_down(perf: &mut Perf) {
    for latency in &mut perf.latencies {
        if latency.cycles > 1 {
            latency.cycles += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_multiplications() {
        for name in ["VMULSD (XMM, XMM, XMM)", "MULPS (XMM, M128)"] {
            assert!(is_multiplication(name), "{name}");
        }
        for name in [
            "PMULUDQ (XMM, XMM)",
            "VPMULLD (XMM, XMM, XMM)",
            "MUL (R64)",
            "MULX (R64, R64, R64)",
        ] {
            assert!(!is_multiplication(name), "{name}");
        }
    }
}
