//! What registers and memory hold when a block starts: the assumptions of `mcad block --init`, as
//! values.

use iced_x86::Register;

use crate::cell::layout::{PAGE, STACK};

/// The value that BHive's profiler writes to registers and memory (Chen et al., section 3): an
/// address, and small enough that arithmetic on it stays one.
pub const FILL: u64 = 0x1234_5600;

/// Register values at the start of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// All different, each at a page offset of its own, and so is all of memory.
    Distinct,
    /// All [`FILL`], and so is memory.
    Equal,
    /// All [`FILL`] but the stack and frame pointers, as BHive's profiler sets them.
    Stack,
    /// Registers all different, memory [`FILL`], as the Golden Cove blocks were measured.
    Filled,
}

/// General-purpose registers, in the order of their encoding.
pub(crate) const REGISTERS: [Register; 16] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RBX,
    Register::RSP,
    Register::RBP,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

const RSP: usize = 4;
const RBP: usize = 5;

impl Init {
    /// Values of the general-purpose registers, in the order of their encoding.
    #[must_use]
    pub fn registers(self) -> [u64; 16] {
        let mut values = [FILL; 16];
        match self {
            Self::Equal => {}
            Self::Stack => {
                values[RSP] = STACK;
                values[RBP] = STACK;
            }
            Self::Distinct | Self::Filled => {
                for (n, value) in (0_u64..).zip(&mut values) {
                    // A page of its own, and 256 bytes of the page that no other begins in.
                    *value = 0x1000_0000 + n * 0x0100_0000 + n * 0x100;
                }
                values[RSP] = STACK;
            }
        }
        values
    }

    /// What the physical page of memory is filled with.
    pub(crate) fn memory(self) -> Vec<u8> {
        let words = 0..PAGE / 8;
        words
            .map(|n| match self {
                Self::Distinct => 0x2000_0000 + n * 0x1_0000 + n * 64 % PAGE,
                Self::Equal | Self::Stack | Self::Filled => FILL,
            })
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// What the physical page of the stack is filled with.
    pub(crate) fn stack(self) -> Vec<u8> {
        self.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_registers_share_no_part_of_a_page() {
        for init in [Init::Distinct, Init::Filled] {
            let mut values = init.registers();
            let mut offsets: Vec<_> = values.iter().enumerate().collect();
            // The stack has a physical page of its own.
            offsets.remove(RSP);
            let mut offsets: Vec<_> = offsets.iter().map(|(_, v)| **v % PAGE / 0x100).collect();
            offsets.sort_unstable();
            offsets.dedup();
            assert_eq!(offsets.len(), 15);
            values.sort_unstable();
            assert!(values.windows(2).all(|pair| pair[1] - pair[0] >= PAGE));
        }
    }

    #[test]
    fn bhive_sets_all_but_the_stack_and_frame_pointers() {
        let values = Init::Stack.registers();
        assert_eq!(values.iter().filter(|v| **v == FILL).count(), 14);
        assert_eq!(values[RSP], values[RBP]);
        assert_eq!(Init::Equal.registers(), [FILL; 16]);
        assert_eq!(Init::Equal.memory().len() as u64, PAGE);
    }
}
