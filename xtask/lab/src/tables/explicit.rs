//! A code's explicit operands and flags as iced knows them.

use iced_x86::{
    Code, EncodingKind, InstructionInfoFactory, OpAccess, OpCodeOperandKind as Kind, RflagsBits,
};
use mcad_isa::machine::table::{Binding, FlagGroups, Operand, OperandName, Selector, Traits};

use super::mapping::{Fit, Target};
use super::spec::Spec;
use mcad_isa::machine::table::example;

/// Names XED's operands in order.
#[derive(Default)]
pub struct Namer {
    pub registers: u8,
    pub memories: u8,
}

impl Namer {
    /// The next register.
    pub fn register(&mut self) -> OperandName {
        self.registers += 1;
        OperandName::Reg(self.registers - 1)
    }

    /// The next memory operand and its number.
    pub fn memory(&mut self) -> (OperandName, u8) {
        self.memories += 1;
        (OperandName::Mem(self.memories - 1), self.memories - 1)
    }

    /// Names the operands of a list in order.
    pub fn name(&mut self, operands: &mut [Operand]) {
        for operand in operands {
            operand.name = match operand.name {
                OperandName::Reg(_) => self.register(),
                OperandName::Mem(_) => self.memory().0,
                OperandName::Agen => OperandName::Agen,
            };
        }
    }
}

/// The explicit operands of a code that no row describes, named in order.
pub fn of_code(code: Code) -> Vec<Operand> {
    let spec = Spec::default();
    let mut selector = Selector::default();
    selector.require(
        Traits::MEMORY,
        code.op_code().op_kinds().contains(&Kind::mem),
    );
    let target = Target {
        code,
        selector,
        fit: Fit::OtherEncoding,
    };
    let mut operands = of_row(&spec, &target);
    Namer::default().name(&mut operands);
    operands
}

/// The operand of the flags as iced knows them, behind the operands of a list.
pub fn flags_operand(code: Code, list: &[Operand]) -> Option<Operand> {
    let (read, written) = flags(code);
    let none = FlagGroups::default();
    (read != none || written != none).then(|| Operand {
        name: OperandName::Reg(registers(list)),
        binding: Binding::Flags,
        read: read != none,
        written: written != none,
    })
}

/// How many register names a list uses.
fn registers(list: &[Operand]) -> u8 {
    let names = list
        .iter()
        .filter(|o| matches!(o.name, OperandName::Reg(_)));
    u8::try_from(names.count()).unwrap_or(u8::MAX)
}

/// The flags that a code reads and writes, from iced.
pub fn flags(code: Code) -> (FlagGroups, FlagGroups) {
    let example = example::build(code, Selector::default());
    let groups = |bits: u32| FlagGroups {
        c: bits & RflagsBits::CF != 0,
        spazo: bits
            & (RflagsBits::SF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::OF)
            != 0,
    };
    (
        groups(example.rflags_read()),
        groups(example.rflags_written() | example.rflags_cleared() | example.rflags_set()),
    )
}

/// The explicit operands, still with placeholder numbers in their names.
pub fn of_row(spec: &Spec, target: &Target) -> Vec<Operand> {
    let info = target.code.op_code();
    let example = example::build(target.code, target.selector);
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(&example);
    let access = |i: u32| match used.op_access(i) {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    };
    let mut operands = Vec::new();
    if spec.string_instruction {
        return operands;
    }
    let in_memory = target.selector.value & Traits::MEMORY != 0;
    for (i, kind) in (0_u32..).zip(info.op_kinds()) {
        let name = match kind {
            Kind::seg_rBX_al | Kind::seg_rSI | Kind::seg_rDI | Kind::es_rDI => continue,
            Kind::mem | Kind::mem_mpx | Kind::mem_mib | Kind::r64_or_mem_mpx
                if spec.operands.last().is_some_and(|o| o == "AGEN") =>
            {
                OperandName::Agen
            }
            Kind::mem
            | Kind::mem_mpx
            | Kind::mem_mib
            | Kind::mem_offs
            | Kind::sibmem
            | Kind::mem_vsib32x
            | Kind::mem_vsib64x
            | Kind::mem_vsib32y
            | Kind::mem_vsib64y
            | Kind::mem_vsib32z
            | Kind::mem_vsib64z => OperandName::Mem(0),
            either if in_memory && example::register_or_memory(*either) => OperandName::Mem(0),
            Kind::imm4_m2z
            | Kind::imm8
            | Kind::imm8_const_1
            | Kind::imm8sex16
            | Kind::imm8sex32
            | Kind::imm8sex64
            | Kind::imm16
            | Kind::imm32
            | Kind::imm32sex64
            | Kind::imm64
            | Kind::br16_1
            | Kind::br32_1
            | Kind::br64_1
            | Kind::br16_2
            | Kind::br32_4
            | Kind::br64_4
            | Kind::xbegin_2
            | Kind::xbegin_4 => continue,
            _ => OperandName::Reg(0),
        };
        let (mut read, written) = access(i);
        read |= name == OperandName::Agen;
        operands.push(Operand {
            name,
            binding: Binding::Explicit(u8::try_from(i).unwrap_or(u8::MAX)),
            read,
            written,
        });
        if i == 0 && info.encoding() == EncodingKind::EVEX && info.can_use_op_mask_register() {
            operands.push(Operand {
                name: OperandName::Reg(0),
                binding: Binding::OpMask,
                read: target.selector.value & Traits::MASKED != 0,
                written: info.is_op_mask_read_write(),
            });
        }
    }
    operands
}
