//! Forms that nobody measured but that do what a measured form does: reserved no-operations,
//! restores of saved state, half-precision arithmetic beside single precision.
//!
//! Each is marked `approximated_from` with the name of the form it was taken from.

use std::collections::HashMap;

use iced_x86::Code;
use mcad_isa::machine::table::{Form, Selector};

use super::draft::Draft;
use super::explicit;
use super::mapping::{Catalogue, Fit, Target};

/// Mnemonic (iced's) and the form it costs the same as.
const SAME_COST: &[(&str, &str)] = &[
    ("ENDBR64", "NOP (R32)"),
    ("ENDBR32", "NOP (R32)"),
    ("RESERVEDNOP", "NOP (R32)"),
    ("RDSSPD", "NOP (R32)"),
    ("RDSSPQ", "NOP (R32)"),
    ("CLDEMOTE", "NOP (M32)"),
    ("PREFETCHWT1", "PREFETCHW (M512)"),
    ("PREFETCHIT0", "NOP (M32)"),
    ("PREFETCHIT1", "NOP (M32)"),
    ("PREFETCHRESERVED3", "PREFETCHW (M512)"),
    ("PREFETCHRESERVED4", "PREFETCHW (M512)"),
    ("PREFETCHRESERVED5", "PREFETCHW (M512)"),
    ("PREFETCHRESERVED6", "PREFETCHW (M512)"),
    ("PREFETCHRESERVED7", "PREFETCHW (M512)"),
    ("XRSTOR", "XSAVE (M4608)"),
    ("XRSTOR64", "XSAVE64 (M4608)"),
    ("FXRSTOR", "FXSAVE (M4096)"),
    ("FXRSTOR64", "FXSAVE64 (M4096)"),
    ("XTEST", "CMC"),
    ("MOVNTSS", "MOVSS (M32, XMM)"),
    ("MOVNTSD", "MOVSD_XMM (M64, XMM)"),
    ("EXTRQ", "PSRLQ (XMM, XMM)"),
    ("INSERTQ", "PSRLQ (XMM, XMM)"),
];

/// Parts of the names of iced's codes and of the code that costs the same.
const SAME_SHAPE: &[(&str, &str)] = &[("Vdpbf16ps", "Vpdpwssd"), ("ph_", "ps_"), ("sh_", "ss_")];

/// Offers all analogous forms to a draft.
pub fn offer(draft: &mut Draft, catalogue: &Catalogue) {
    for (mnemonic, source) in SAME_COST {
        let Some(source) = draft.forms.iter().find(|f| &*f.name == *source).cloned() else {
            continue;
        };
        for code in catalogue.codes(mnemonic) {
            let (flags_read, flags_written) = explicit::flags(code);
            let mut list = explicit::of_code(code);
            list.extend(explicit::flags_operand(code, &list));
            let form = Form {
                name: renamed(&source.name, mnemonic),
                operands: list,
                flags_read,
                flags_written,
                macro_fusible: 0,
                same_reg: None,
                ..source.clone()
            };
            let target = Target {
                code,
                selector: Selector::default(),
                fit: Fit::OtherEncoding,
            };
            // A hint does nothing where it is not known or, as `endbr64` in Linux programs, not
            // switched on: that is the same operation, not an approximation.
            let is_nop = source.name.starts_with("NOP");
            let from = (!is_nop).then_some(&*source.name);
            let added = draft.offer(target, &form, from);
            draft.report.analogous += usize::from(added);
        }
    }
    if draft.cpu.avx512 {
        offer_shapes(draft);
    }
}

/// A form's name with another mnemonic: `XSAVE (M4608)` becomes `XRSTOR (M4608)`.
fn renamed(name: &str, mnemonic: &str) -> Box<str> {
    let end = name.find(['_', ' ']).unwrap_or(name.len());
    format!("{mnemonic}{}", &name[end..]).into()
}

fn offer_shapes(draft: &mut Draft) {
    let by_name: HashMap<String, Code> = Code::values().map(|c| (format!("{c:?}"), c)).collect();
    let mut offers = Vec::new();
    for (name, code) in &by_name {
        if !super::operands::needs_avx512(*code) {
            continue;
        }
        for (part, other) in SAME_SHAPE {
            // Half precision: elements of 16 bits become 32, scalars too.
            let name = name
                .replacen(part, other, 1)
                .replace("b16", "b32")
                .replace("xmmm16", "xmmm32");
            let Some(similar) = by_name.get(&name).filter(|c| *c != code) else {
                continue;
            };
            for c in draft.candidates.iter().filter(|c| c.code == *similar) {
                offers.push((*code, c.selector, c.form));
            }
        }
    }
    offers.sort_by_key(|(code, selector, _)| (*code as usize, *selector));
    for (code, selector, form) in offers {
        let mut form = draft.forms[form].clone();
        form.approximated_from = None;
        let mnemonic = format!("{:?}", code.mnemonic()).to_uppercase();
        let source = std::mem::replace(&mut form.name, "".into());
        form.name = renamed(&source, &mnemonic);
        let target = Target {
            code,
            selector,
            fit: Fit::OtherEncoding,
        };
        let added = draft.offer(target, &form, Some(&source));
        draft.report.analogous += usize::from(added);
    }
}
