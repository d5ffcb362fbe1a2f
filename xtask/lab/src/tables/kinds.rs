//! Whether an operand type as uops.info writes it (`R64`, `M64_1to8`, `VSIB_YMM`) is one of iced's
//! operand kinds.

use iced_x86::{OpCodeInfo, OpCodeOperandKind as Kind};
use mcad_isa::machine::table::{Selector, Traits, example};

use super::spec::Spec;

/// What is compared of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Everything.
    Exact,
    /// Not the size of memory operands.
    AnyMemory,
    /// Nor the width of general-purpose registers.
    AnyWidth,
}

/// Checks one operand and adds what it requires; `None` if it does not fit.
pub fn operand(
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
    let either = example::register_or_memory(kind);
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
