//! From a row to iced's codes: operand types, encoding, opcode, and the traits that an instruction
//! must have.

use std::collections::HashMap;

use iced_x86::{
    Code, DecoderOptions, EncodingKind, Mnemonic, OpCodeInfo, OpCodeOperandKind as Kind,
};
use mcad_isa::machine::table::{Selector, Traits};

use super::kinds::{self, Strictness};
use super::source::Row;
use super::spec::Spec;

/// How sure a mapping is; better ones are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Encoding and operand types agree.
    Exact,
    /// The same operation in an encoding that was not measured on its own.
    OtherEncoding,
}

/// A code that a row applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub code: Code,
    pub selector: Selector,
    pub fit: Fit,
}

/// Instructions that have encodings (REX.W, 66h) with another register width and no other effect.
const IGNORES_WIDTH: [&str; 22] = [
    "MOVMSKPS",
    "MOVMSKPD",
    "PMOVMSKB",
    "PEXTRB",
    "PEXTRW",
    "PINSRB",
    "PINSRW",
    "EXTRACTPS",
    "VMOVMSKPS",
    "VMOVMSKPD",
    "VPMOVMSKB",
    "VPEXTRB",
    "VPEXTRW",
    "VPINSRB",
    "VPINSRW",
    "VEXTRACTPS",
    "MOVSXD",
    "LSL",
    "LAR",
    "SMSW",
    "SLDT",
    "BSWAP",
];

/// All codes that exist in 64-bit mode, by mnemonic.
pub struct Catalogue {
    by_mnemonic: HashMap<String, Vec<&'static OpCodeInfo>>,
}

impl Catalogue {
    /// Collects the codes.
    pub fn new() -> Self {
        let mut by_mnemonic: HashMap<String, Vec<_>> = HashMap::new();
        for info in Code::values().map(Code::op_code) {
            // What the decoder of an Intel CPU yields in 64-bit mode; `Prefetch` is listed under AMD.
            let real = info.is_instruction() && info.mode64() && info.intel_decoder64();
            let foreign = info.encoding() == EncodingKind::MVEX
                || info.decoder_option() & DecoderOptions::KNC != 0;
            if real && !foreign {
                let name = format!("{:?}", info.mnemonic()).to_uppercase();
                // The same operation under another name.
                let alias = match name.as_str() {
                    "SAL" => Some("SHL"),
                    "JECXZ" => Some("JRCXZ"),
                    _ => None,
                };
                if let Some(alias) = alias {
                    by_mnemonic.entry(alias.to_owned()).or_default().push(info);
                }
                by_mnemonic.entry(name).or_default().push(info);
            }
        }
        Self { by_mnemonic }
    }

    /// The codes of a mnemonic.
    pub fn codes(&self, mnemonic: &str) -> Vec<Code> {
        let infos = self.by_mnemonic.get(mnemonic);
        infos
            .into_iter()
            .flatten()
            .map(|info| info.code())
            .filter(|code| format!("{:?}", code.mnemonic()).to_uppercase() == mnemonic)
            .collect()
    }

    /// All codes a row applies to.
    pub fn targets(&self, row: &Row, spec: &Spec) -> Vec<Target> {
        let Some(infos) = self.by_mnemonic.get(&spec.mnemonic) else {
            return Vec::new();
        };
        let mut targets = Vec::new();
        // The size of a memory operand is compared only where it tells forms apart: for some
        // instructions (prefetches, state saves) XED and iced give it differently.
        for strictness in [Strictness::Exact, Strictness::AnyMemory] {
            for info in infos {
                let Some(selector) = selector(row, spec, info, strictness) else {
                    continue;
                };
                let fit = match spec.opcode {
                    Some((byte, digit))
                        if info.op_code() & 0xff != u32::from(byte)
                            || digit.is_some_and(|d| info.group_index() != d) =>
                    {
                        Fit::OtherEncoding
                    }
                    _ if info.mnemonic() == Mnemonic::Jecxz => Fit::OtherEncoding,
                    _ => Fit::Exact,
                };
                targets.push(Target {
                    code: info.code(),
                    selector,
                    fit,
                });
            }
            if !targets.is_empty() {
                break;
            }
        }
        if IGNORES_WIDTH.contains(&spec.mnemonic.as_str()) {
            for info in infos {
                if let Some(selector) = selector(row, spec, info, Strictness::AnyWidth) {
                    targets.push(Target {
                        code: info.code(),
                        selector,
                        fit: Fit::OtherEncoding,
                    });
                }
            }
        }
        // Several rows may share a string and differ in opcode only, so a lone inexact match is
        // still the same operation.
        targets.sort_by_key(|t| (t.fit, t.code as usize));
        targets
    }
}

/// Whether an operand of iced's is implied by the mnemonic and not in uops.info's strings.
fn is_implied(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::seg_rBX_al | Kind::seg_rSI | Kind::seg_rDI | Kind::es_rDI
    )
}

fn selector(row: &Row, spec: &Spec, info: &OpCodeInfo, strictness: Strictness) -> Option<Selector> {
    if spec.evex != (info.encoding() == EncodingKind::EVEX)
        || matches!(info.encoding(), EncodingKind::XOP | EncodingKind::D3NOW)
            && !matches!(info.code(), Code::Prefetch_m8)
    {
        return None;
    }
    let mut selector = Selector::default();
    let kinds = info.op_kinds();
    let is_string = kinds.iter().any(|k| is_implied(*k))
        && !matches!(
            spec.mnemonic.as_str(),
            "MASKMOVDQU" | "MASKMOVQ" | "VMASKMOVDQU" | "XLATB"
        );
    if spec.string_instruction != is_string {
        return None;
    }
    if !is_string {
        let explicit: Vec<_> = kinds
            .iter()
            .enumerate()
            .filter(|(_, k)| !is_implied(**k))
            .collect();
        if explicit.len() != spec.operands.len() {
            return None;
        }
        for ((position, kind), text) in explicit.into_iter().zip(&spec.operands) {
            kinds::operand(*kind, position, text, spec, info, strictness, &mut selector)?;
        }
    }
    let size = match row.attrs.get("eosz").map(String::as_str) {
        // The rows of repeated string instructions have 32 bits here, whatever their size.
        _ if is_string || strictness == Strictness::AnyWidth => 0,
        Some("1") => 16,
        Some("2") => 32,
        Some("3") => 64,
        _ => 0,
    };
    if size != 0 && info.operand_size() != 0 && info.operand_size() != size {
        return None;
    }
    // An exchange with memory locks with or without the prefix.
    if info.can_use_lock_prefix() {
        if spec.mnemonic != "XCHG" {
            selector.require(Traits::LOCK, spec.lock);
        }
    } else if spec.lock {
        return None;
    }
    if is_string {
        let rep = row.attrs.get("rep").map(String::as_str);
        selector.require(Traits::REP, rep == Some("3"));
        selector.require(Traits::REPNE, rep == Some("2"));
    }
    for (attribute, bit) in [
        ("mask", Traits::MASKED),
        ("zeroing", Traits::ZEROING),
        ("bcast", Traits::BROADCAST),
        ("sae", Traits::ROUNDING),
        ("immzero", Traits::ZERO_IMMEDIATE),
    ] {
        if let Some(value) = row.attrs.get(attribute) {
            // `1` in the string is an encoding of its own, without an immediate.
            if attribute == "immzero" && !spec.operands.iter().any(|o| o == "0" || o == "I8") {
                continue;
            }
            selector.require(bit, value != "0");
        }
    }
    match row.attrs.get("rm").map(String::as_str) {
        Some("0,1,2,3") => selector.require(Traits::UPPER_REGISTER, false),
        Some("4,5,6,7") => selector.require(Traits::UPPER_REGISTER, true),
        _ => {}
    }
    if let Some(address) = row.attrs.get("agen") {
        selector.mask |= Traits::ADDRESS;
        for part in address.split('_') {
            selector.value |= match part {
                "R" => Traits::RIP,
                "B" => Traits::BASE,
                "I" => Traits::INDEX,
                "IS" => Traits::INDEX | Traits::SCALED,
                "D8" => Traits::DISPLACEMENT8,
                "D32" => Traits::DISPLACEMENT32,
                _ => return None,
            };
        }
    }
    Some(selector)
}
