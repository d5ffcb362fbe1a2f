//! Independent instances of a form, for its reciprocal throughput.

use iced_x86::{Code, Instruction, Register};

use super::shape::{BASE, Class, Place, Shape, encode, offset};
use crate::init::REGISTERS;

/// Code with this many instances.
#[derive(Clone, Debug)]
pub(crate) struct Instances {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: u32,
}

/// Instances at most.
const COUNT: usize = 12;
/// Number of r15, which counts the loop, and of rsp.
const COUNTER: u8 = 15;
const STACK: u8 = 4;

/// Ways to write the instances; the fastest is the throughput.
pub(crate) fn ways(shape: &Shape<'_>) -> Vec<Instances> {
    let plain = instances(shape, &[]);
    let breakers = breakers(shape);
    let broken = (!breakers.is_empty())
        .then(|| instances(shape, &breakers))
        .flatten();
    plain.into_iter().chain(broken).collect()
}

fn instances(shape: &Shape<'_>, before: &[u8]) -> Option<Instances> {
    let written: Vec<(u32, Class)> = shape
        .form
        .operands
        .iter()
        .filter(|o| o.written)
        .filter_map(|o| match shape.place(o.name) {
            Some(Place::Free(n, class)) => Some((n, class)),
            _ => None,
        })
        .collect();
    let mut bytes = Vec::new();
    let mut count = 0;
    for n in 0..COUNT {
        let chosen: Option<Vec<_>> = written
            .iter()
            .enumerate()
            .map(|(i, (operand, class))| {
                let pool = pool(shape, *class);
                let place = (n * written.len() + i) % pool.len().max(1);
                Some((*operand, *pool.get(place)?))
            })
            .collect();
        // Forms that demand certain registers skip the others.
        let Some(instruction) = chosen.and_then(|chosen| shape.instance(&chosen)) else {
            continue;
        };
        bytes.extend_from_slice(before);
        bytes.extend(encode(&instruction)?);
        count += 1;
    }
    (count > 0).then_some(Instances { bytes, count })
}

/// Registers that results may go to: not the harness's, the address's, or the form's own, nor the
/// ones that all instances read.
fn pool(shape: &Shape<'_>, class: Class) -> Vec<u8> {
    let read: Vec<Register> = match shape.instance(&[]) {
        Some(instance) => (0..instance.op_count())
            .filter(|n| !writes(shape, *n))
            .map(|n| instance.op_register(n).full_register())
            .collect(),
        None => Vec::new(),
    };
    let fixed = |register: Register| {
        read.contains(&register)
            || shape.form.operands.iter().any(|o| {
                matches!(shape.place(o.name), Some(Place::Fixed(r)) if r.full_register() == register)
            })
    };
    match class {
        Class::General => (0..16_u8)
            .filter(|n| ![BASE, COUNTER, STACK].contains(n))
            .filter(|n| !is_byte(shape) || *n >= 8)
            .filter(|n| REGISTERS.get(usize::from(*n)).is_some_and(|r| !fixed(*r)))
            .collect(),
        Class::Vector => (0..16)
            .filter(|n| !fixed(offset(Register::ZMM0, *n)))
            .collect(),
        Class::Mmx => (0..8)
            .filter(|n| !fixed(offset(Register::MM0, *n)))
            .collect(),
        Class::Mask => (2..8)
            .filter(|n| !fixed(offset(Register::K0, *n)))
            .collect(),
        Class::Flags | Class::X87 => Vec::new(),
    }
}

fn is_byte(shape: &Shape<'_>) -> bool {
    let example = shape.example();
    (0..example.op_count()).any(|n| example.op_register(n).is_gpr8())
}

fn writes(shape: &Shape<'_>, operand: u32) -> bool {
    shape.form.operands.iter().any(|o| {
        o.written && matches!(shape.place(o.name), Some(Place::Free(n, _)) if n == operand)
    })
}

/// Instructions that end what each instance hands to the next through places that cannot be
/// chosen: immediates for implicit registers, a `test` for flags.
fn breakers(shape: &Shape<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut add = |instruction: Result<Instruction, iced_x86::IcedError>| {
        bytes.extend(
            instruction
                .ok()
                .and_then(|i| encode(&i))
                .unwrap_or_default(),
        );
    };
    let carried = shape
        .form
        .operands
        .iter()
        .filter(|o| o.read && o.written)
        .filter_map(|o| shape.place(o.name));
    for place in carried {
        match place {
            Place::Fixed(r) if r.is_gpr() => {
                // What a division takes without a fault.
                let full = r.full_register();
                let value = if full == Register::RDX { 0 } else { 1 };
                add(Instruction::with2(
                    Code::Mov_r32_imm32,
                    full.full_register32(),
                    value,
                ));
            }
            Place::Flags => {
                let counter = offset(Register::RAX, COUNTER);
                add(Instruction::with2(Code::Test_rm64_r64, counter, counter));
            }
            _ => {}
        }
    }
    bytes
}
