//! Which values of a repeated block can ever become part of an address.
//!
//! The others need not be followed. A register matters when it is in an address, or when something
//! that matters is computed from it, in this iteration or a later one; what memory holds matters
//! when something that matters is loaded.

use super::Block;
use mcad_isa::regs::RegId;
use mcad_isa::x86::build::Described;

/// Values that matter for addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Live {
    /// Registers and flags, one bit each.
    registers: u128,
    /// What stores store.
    memory: bool,
}

/// What an instruction reads and writes.
struct Flow {
    reads: u128,
    writes: u128,
    loads: bool,
    stores: bool,
}

fn bit(id: RegId) -> u128 {
    1 << (id.0 & 127)
}

impl Live {
    /// Of a block that is executed again and again.
    pub(super) fn of(block: &Block) -> Self {
        let mut live = Self {
            registers: bit(RegId::RSP),
            memory: false,
        };
        let flows: Vec<Flow> = block
            .described
            .iter()
            .zip(&block.decoded)
            .map(|(d, decoded)| {
                for id in d.operands.address_registers() {
                    live.registers |= bit(id);
                }
                let ids = d.operands.in_regs.iter().chain(&d.operands.in_flags);
                let mut reads = ids.filter_map(|v| v.id).fold(0, |a, id| a | bit(id));
                // Operands that the tables do not call inputs: what of them is kept, or computed.
                reads |= decoded.named().fold(0, |a, id| a | bit(id));
                Flow {
                    reads,
                    writes: written(d),
                    loads: !d.operands.in_mems.is_empty(),
                    stores: !d.operands.out_mems.is_empty(),
                }
            })
            .collect();
        loop {
            let before = live;
            for flow in flows.iter().rev() {
                let matters = flow.writes & live.registers != 0;
                live.memory |= matters && flow.loads;
                if matters || (flow.stores && live.memory) {
                    live.registers |= flow.reads;
                    live.memory |= flow.loads;
                }
            }
            if live == before {
                return live;
            }
        }
    }

    /// Whether the value of a register matters.
    pub(super) fn register(self, id: RegId) -> bool {
        self.registers & bit(id) != 0
    }

    /// Whether anything that an instruction writes matters.
    pub(super) fn needs(self, d: &Described) -> bool {
        written(d) & self.registers != 0 || (self.memory && !d.operands.out_mems.is_empty())
    }
}

fn written(d: &Described) -> u128 {
    let outputs = d.operands.out_regs.iter().chain(&d.operands.out_flags);
    outputs.filter_map(|v| v.id).fold(0, |a, id| a | bit(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(code: &[u8]) -> Live {
        let model = mcad_isa::machine::cpu("skl").unwrap();
        Live::of(&Block::new(&model, code).unwrap())
    }

    const RDX: RegId = RegId(2);
    const RCX: RegId = RegId(1);
    const RDI: RegId = RegId(7);

    #[test]
    fn a_counter_beside_a_load_does_not_matter() {
        // mov rax, [rdi]; add rcx, 1
        let live = live(&[0x48, 0x8b, 0x07, 0x48, 0x83, 0xc1, 0x01]);
        assert!(live.register(RDI));
        assert!(!live.register(RCX) && !live.register(RegId::CARRY) && !live.memory);
    }

    #[test]
    fn what_selects_an_address_matters_even_in_the_next_iteration() {
        // mov rax, [rdi]; cmp rcx, rdx; cmovb rdi, rsi
        let code = [0x48, 0x8b, 0x07, 0x48, 0x39, 0xd1, 0x48, 0x0f, 0x42, 0xfe];
        let live = live(&code);
        assert!(
            [RCX, RDX, RDI, RegId::CARRY]
                .iter()
                .all(|r| live.register(*r))
        );
        assert!(!live.memory && !live.register(RegId(0)));
    }

    #[test]
    fn stored_values_matter_when_an_address_is_loaded() {
        // mov rdi, [rdi]; mov [rsi], rcx
        let live = live(&[0x48, 0x8b, 0x3f, 0x48, 0x89, 0x0e]);
        assert!(live.memory && live.register(RCX));
    }
}
