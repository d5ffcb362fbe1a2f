//! From a row to iced's codes: operand types, encoding, opcode, and the traits that an instruction
//! must have.

use std::collections::HashMap;

use iced_x86::{
    Code, DecoderOptions, EncodingKind, Mnemonic, OpCodeInfo, OpCodeOperandKind as Kind,
};
use mcad_core::machine::table::{Selector, Traits};

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

/// What is compared of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strictness {
    /// Everything.
    Exact,
    /// Not the size of memory operands.
    AnyMemory,
    /// Nor the width of general-purpose registers.
    AnyWidth,
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
            operand(*kind, position, text, spec, info, strictness, &mut selector)?;
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

/// Checks one operand and adds what it requires; `None` if it does not fit.
fn operand(
    kind: Kind,
    position: usize,
    text: &str,
    spec: &Spec,
    info: &OpCodeInfo,
    strictness: Strictness,
    selector: &mut Selector,
) -> Option<()> {
    let memory = text == "AGEN"
        || text.starts_with("VSIB_")
        || text
            .strip_prefix('M')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let either = matches!(
        kind,
        Kind::r8_or_mem
            | Kind::r16_or_mem
            | Kind::r32_or_mem
            | Kind::r32_or_mem_mpx
            | Kind::r64_or_mem
            | Kind::r64_or_mem_mpx
            | Kind::mm_or_mem
            | Kind::xmm_or_mem
            | Kind::ymm_or_mem
            | Kind::zmm_or_mem
            | Kind::bnd_or_mem_mpx
            | Kind::k_or_mem
    );
    if memory {
        let fits = match kind {
            Kind::mem_vsib32x | Kind::mem_vsib64x => text == "VSIB_XMM",
            Kind::mem_vsib32y | Kind::mem_vsib64y => text == "VSIB_YMM",
            Kind::mem_vsib32z | Kind::mem_vsib64z => text == "VSIB_ZMM",
            Kind::mem | Kind::mem_mpx | Kind::mem_mib | Kind::sibmem => true,
            _ => either,
        };
        let size_fits =
            strictness != Strictness::Exact || !text.starts_with('M') || memory_size(text, info);
        if either {
            selector.require(Traits::MEMORY, true);
        }
        return (fits && size_fits).then_some(());
    }
    if either {
        selector.require(Traits::MEMORY, false);
    }
    let high = match position {
        0 => Traits::HIGH8_0,
        _ => Traits::HIGH8_1,
    };
    let any_width = strictness == Strictness::AnyWidth && matches!(text, "R16" | "R32" | "R64");
    let fits = match text {
        _ if any_width => ["R16", "R32", "R64"]
            .iter()
            .any(|text| fits_general(kind, text)),
        "R8l" | "R8h" => {
            selector.require(high, text == "R8h");
            matches!(kind, Kind::r8_or_mem | Kind::r8_reg | Kind::r8_opcode)
        }
        // A pair of opmasks is listed as R64.
        "R64" if spec.mnemonic.starts_with("VP2INTERSECT") => kind == Kind::kp1_reg,
        "R16" | "R32" | "R64" | "R" => fits_general(kind, text),
        "MM" => matches!(kind, Kind::mm_or_mem | Kind::mm_reg | Kind::mm_rm),
        "XMM" => matches!(
            kind,
            Kind::xmm_or_mem
                | Kind::xmm_reg
                | Kind::xmm_rm
                | Kind::xmm_vvvv
                | Kind::xmmp3_vvvv
                | Kind::xmm_is4
                | Kind::xmm_is5
        ),
        "YMM" => matches!(
            kind,
            Kind::ymm_or_mem
                | Kind::ymm_reg
                | Kind::ymm_rm
                | Kind::ymm_vvvv
                | Kind::ymm_is4
                | Kind::ymm_is5
        ),
        "ZMM" => matches!(
            kind,
            Kind::zmm_or_mem | Kind::zmm_reg | Kind::zmm_rm | Kind::zmm_vvvv | Kind::zmmp3_vvvv
        ),
        "K" => matches!(
            kind,
            Kind::k_or_mem | Kind::k_reg | Kind::kp1_reg | Kind::k_rm | Kind::k_vvvv
        ),
        "BND" => matches!(kind, Kind::bnd_reg | Kind::bnd_or_mem_mpx),
        "SEG" => kind == Kind::seg_reg,
        "FS" => kind == Kind::fs,
        "GS" => kind == Kind::gs,
        "CR" => kind == Kind::cr_reg,
        "DR" => kind == Kind::dr_reg,
        "AL" => kind == Kind::al,
        "AX" => kind == Kind::ax,
        "EAX" => kind == Kind::eax,
        "RAX" => kind == Kind::rax,
        "CL" => kind == Kind::cl,
        "DX" => kind == Kind::dx,
        "1" => kind == Kind::imm8_const_1,
        "I8" | "0" if !spec.wide_immediate || text == "I8" => matches!(
            kind,
            Kind::imm8 | Kind::imm4_m2z | Kind::imm8sex16 | Kind::imm8sex32 | Kind::imm8sex64
        ),
        "0" => matches!(kind, Kind::imm16 | Kind::imm32 | Kind::imm32sex64),
        "I16" => kind == Kind::imm16,
        "I32" => matches!(kind, Kind::imm32 | Kind::imm32sex64),
        "I64" => kind == Kind::imm64,
        "Rel8" => matches!(kind, Kind::br16_1 | Kind::br32_1 | Kind::br64_1),
        "Rel32" => matches!(kind, Kind::br32_4 | Kind::br64_4),
        _ if text.starts_with("Moffs") => kind == Kind::mem_offs,
        _ => false,
    };
    fits.then_some(())
}

/// Whether an operand is a general-purpose register of a width.
fn fits_general(kind: Kind, text: &str) -> bool {
    match text {
        "R16" => matches!(
            kind,
            Kind::r16_or_mem | Kind::r16_reg | Kind::r16_reg_mem | Kind::r16_rm | Kind::r16_opcode
        ),
        "R32" => matches!(
            kind,
            Kind::r32_or_mem
                | Kind::r32_or_mem_mpx
                | Kind::r32_reg
                | Kind::r32_reg_mem
                | Kind::r32_rm
                | Kind::r32_opcode
                | Kind::r32_vvvv
        ),
        _ => matches!(
            kind,
            Kind::r64_or_mem
                | Kind::r64_or_mem_mpx
                | Kind::r64_reg
                | Kind::r64_reg_mem
                | Kind::r64_rm
                | Kind::r64_opcode
                | Kind::r64_vvvv
        ),
    }
}

/// Compares `M64`, `M64_1to8` with the code's memory size.
fn memory_size(text: &str, info: &OpCodeInfo) -> bool {
    let (element, count) = match text.trim_start_matches('M').split_once("_1to") {
        Some((element, count)) => (element, count.parse().unwrap_or(0)),
        None => (text.trim_start_matches('M'), 1),
    };
    let bits = element.parse::<usize>().unwrap_or(0) * count;
    bits == info.memory_size().size() * 8 && (count == 1 || info.can_broadcast())
}
