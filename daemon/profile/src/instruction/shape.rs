//! An instruction form with its registers left open.

use iced_x86::{Code, Encoder, Instruction, OpCodeOperandKind as Kind, OpKind, Register};
use mcad_isa::machine::table::{Binding, Form, FormTable, OperandName, Selector, example};

use crate::init::FILL;

/// Kinds of places that values are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// General-purpose registers.
    General,
    /// `xmm`, `ymm`, `zmm`.
    Vector,
    /// `mm`.
    Mmx,
    /// `k`.
    Mask,
    /// The status flags.
    Flags,
    /// `st`.
    X87,
}

/// Where an operand of a form is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An explicit register operand whose number may be chosen.
    Free(u32, Class),
    /// A register that the form demands.
    Fixed(Register),
    /// The opmask.
    OpMask,
    /// The status flags.
    Flags,
    /// Memory, with the address in the base register.
    Memory,
}

impl Place {
    /// The kind of value; none for memory and what is not followed.
    pub(crate) fn class(self) -> Option<Class> {
        match self {
            Self::Free(_, class) => Some(class),
            Self::Fixed(register) => class_of(register),
            Self::OpMask => Some(Class::Mask),
            Self::Flags => Some(Class::Flags),
            Self::Memory => None,
        }
    }
}

pub(crate) fn class_of(register: Register) -> Option<Class> {
    Some(match register {
        r if r.is_gpr() => Class::General,
        r if r.is_vector_register() => Class::Vector,
        r if r.is_mm() => Class::Mmx,
        r if r.is_k() => Class::Mask,
        r if r.is_st() => Class::X87,
        _ => return None,
    })
}

/// Number of the register that memory operands have as base.
pub(crate) const BASE: u8 = 6;
/// And of the one that they have as index where there is to be one.
pub(crate) const INDEX: u8 = 5;

/// How a form finds its memory operand, which is the same in all ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// By [`BASE`].
    Base,
    /// By [`BASE`] and [`INDEX`].
    Indexed,
    /// By no register.
    Absolute,
}

/// A form with an example of it.
#[derive(Debug)]
pub(crate) struct Shape<'t> {
    pub(crate) form: &'t Form,
    table: &'t FormTable,
    example: Instruction,
}

impl<'t> Shape<'t> {
    /// Of a candidate of a table; none when its example is not that form.
    pub(crate) fn new(
        table: &'t FormTable,
        code: Code,
        selector: Selector,
        form: &'t Form,
    ) -> Option<Self> {
        let example = example::build(code, selector);
        let found = example::round_trip(&example)?;
        table
            .find(&found)
            .is_some_and(|f| std::ptr::eq(f, form))
            .then_some(Self {
                form,
                table,
                example,
            })
    }

    pub(crate) fn example(&self) -> &Instruction {
        &self.example
    }

    /// Where an operand of the form is.
    pub(crate) fn place(&self, name: OperandName) -> Option<Place> {
        let operand = self.form.operands.iter().find(|o| o.name == name)?;
        match operand.binding {
            Binding::Explicit(n) => self.explicit(u32::from(n)),
            Binding::Implicit(register) => Some(Place::Fixed(register)),
            Binding::OpMask => Some(Place::OpMask),
            Binding::Flags => Some(Place::Flags),
            Binding::StackEngine | Binding::ImplicitMemory(_) => None,
        }
    }

    fn explicit(&self, n: u32) -> Option<Place> {
        match self.example.op_kind(n) {
            OpKind::Register => {
                let register = self.example.op_register(n);
                Some(match self.free(n) {
                    Some(class) => Place::Free(n, class),
                    None => Place::Fixed(register),
                })
            }
            OpKind::Memory if self.example.memory_base() == Register::RSI => Some(Place::Memory),
            _ => None,
        }
    }

    /// The class of an explicit operand whose number may be chosen.
    fn free(&self, n: u32) -> Option<Class> {
        let register = self.example.op_register(n);
        let demanded = matches!(
            self.example.code().op_code().op_kind(n),
            Kind::al
                | Kind::cl
                | Kind::ax
                | Kind::dx
                | Kind::eax
                | Kind::rax
                | Kind::st0
                | Kind::seg_reg
                | Kind::fs
                | Kind::gs
                | Kind::kp1_reg
                | Kind::xmmp3_vvvv
                | Kind::zmmp3_vvvv
        );
        // A REX prefix, which most registers need, would make another register of these.
        let operands = 0..self.example.op_count();
        let high = operands
            .filter(|i| self.example.op_kind(*i) == OpKind::Register)
            .any(|i| is_high(self.example.op_register(i)));
        if demanded || high {
            return None;
        }
        class_of(register).filter(|class| *class != Class::X87)
    }

    /// The register that operand `n` is when its number is `number`.
    pub(crate) fn register(&self, n: u32, number: u8) -> Register {
        let example = self.example.op_register(n);
        let first = match example {
            // Numbers from 8 on have no second names.
            r if r.is_gpr8() => return offset(Register::R8L, number.saturating_sub(8)),
            r if r.is_gpr16() => Register::AX,
            r if r.is_gpr32() => Register::EAX,
            r if r.is_gpr64() => Register::RAX,
            r if r.is_xmm() => Register::XMM0,
            r if r.is_ymm() => Register::YMM0,
            r if r.is_zmm() => Register::ZMM0,
            r if r.is_mm() => return offset(Register::MM0, number & 7),
            r if r.is_k() => return offset(Register::K0, number & 7),
            other => return other,
        };
        offset(first, number)
    }

    /// The instruction with these operands' registers, and with numbers of their own for all
    /// others; none when it is no longer this form, or has no encoding.
    pub(crate) fn instance(&self, chosen: &[(u32, u8)]) -> Option<Instruction> {
        let mut instruction = self.example;
        for n in 0..instruction.op_count() {
            if instruction.op_kind(n) != OpKind::Register {
                continue;
            }
            let number = match chosen.iter().find(|(operand, _)| *operand == n) {
                Some((_, number)) => *number,
                None => self.default_number(n),
            };
            if self.free(n).is_some() {
                instruction.set_op_register(n, self.register(n, number));
            }
        }
        self.same_form(&instruction).then_some(instruction)
    }

    /// Bytes of the memory operand.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.example.memory_size().size()
    }

    /// The same instance with its memory operand elsewhere, or by another way; none when it is
    /// another form then.
    pub(crate) fn at(&self, instance: &Instruction, address: Address) -> Option<Instruction> {
        let mut instance = *instance;
        match address {
            Address::Base => return Some(instance),
            Address::Indexed => {
                let there = instance.memory_index();
                if there != Register::None && !there.is_gpr64() {
                    return None;
                }
                instance.set_memory_index(offset(Register::RAX, INDEX));
            }
            Address::Absolute => {
                instance.set_memory_base(Register::None);
                instance.set_memory_displacement64(FILL);
                instance.set_memory_displ_size(4);
            }
        }
        self.same_form(&instance).then_some(instance)
    }

    fn same_form(&self, instance: &Instruction) -> bool {
        let decoded = encode(instance).map(|bytes| {
            let options = iced_x86::DecoderOptions::NONE;
            iced_x86::Decoder::with_ip(64, &bytes, 0, options).decode()
        });
        let form = decoded.and_then(|decoded| self.table.find(&decoded));
        form.is_some_and(|form| std::ptr::eq(form, self.form))
    }

    /// Numbers of operands that nothing depends on: 10 and on, or 4 and on where there are eight.
    fn default_number(&self, n: u32) -> u8 {
        let n = n as u8;
        match self.free(n.into()) {
            Some(Class::Mmx | Class::Mask) => 4 + (n & 3),
            _ => 10 + (n & 3),
        }
    }
}

fn is_high(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}

pub(crate) fn offset(first: Register, by: u8) -> Register {
    Register::try_from(first as usize + usize::from(by)).unwrap_or(first)
}

/// The bytes of an instruction; none when it has no encoding.
pub(crate) fn encode(instruction: &Instruction) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(64);
    encoder.encode(instruction, 0).ok()?;
    Some(encoder.take_buffer())
}
