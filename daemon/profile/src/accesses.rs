//! Which addresses a block touches: seen by running some copies one instruction at a time.
//!
//! Where an access moves on from copy to copy, the step between the last two is taken to go on.

use std::collections::VecDeque;

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use mcad_isa::machine::hierarchy::LINE_BYTES as LINE;

use crate::cell::Registers;
use crate::cell::layout::{PAGE, is_harness, is_stack};
use crate::reject::Reject;

/// Instructions after which a store has left the store buffer for certain.
const WINDOW: u64 = 256;

#[derive(Clone, Copy, Debug)]
struct Access {
    address: u64,
    bytes: u64,
    read: bool,
    written: bool,
}

/// Judges the accesses of instructions as they come.
pub(crate) struct Watch<'a> {
    instructions: &'a [Instruction],
    begin: u64,
    length: u64,
    factory: InstructionInfoFactory,
    /// Recent stores with the number of their instruction.
    stores: VecDeque<(u64, Access)>,
    /// Accesses of the copy before, and of this one.
    copies: [Vec<Access>; 2],
    executed: u64,
    found: Option<Reject>,
}

impl<'a> Watch<'a> {
    /// For copies of these instructions, decoded at 0, that lie end to end from `begin`.
    pub(crate) fn new(instructions: &'a [Instruction], begin: u64, length: u64) -> Self {
        Self {
            instructions,
            begin,
            length: length.max(1),
            factory: InstructionInfoFactory::new(),
            stores: VecDeque::new(),
            copies: [Vec::new(), Vec::new()],
            executed: 0,
            found: None,
        }
    }

    /// What was found, if anything.
    pub(crate) fn found(self) -> Option<Reject> {
        let [before, now] = &self.copies;
        let moving = || {
            before
                .iter()
                .zip(now)
                .find_map(|(a, b)| moves_across(*a, *b))
        };
        self.found.or_else(moving)
    }

    /// The byte of the block at an address of code.
    pub(crate) fn offset(&self, pointer: u64) -> Option<u64> {
        Some(pointer.checked_sub(self.begin)? % self.length)
    }

    /// Looks at the instruction that is about to run; false when there is no need to go on.
    pub(crate) fn see(&mut self, registers: &Registers) -> bool {
        let Some(copy) = registers.rip.checked_sub(self.begin) else {
            // Not there yet.
            return true;
        };
        let offset = copy % self.length;
        let place = self.instructions.binary_search_by_key(&offset, |i| i.ip());
        let Some(instruction) = place.ok().and_then(|n| self.instructions.get(n)) else {
            return false;
        };
        self.executed += 1;
        if offset == 0 {
            let [before, now] = &mut self.copies;
            std::mem::swap(before, now);
            now.clear();
        }
        let next = registers.rip + instruction.len() as u64;
        for used in self.factory.info(instruction).used_memory() {
            let Some(access) = access(instruction, used, registers, next) else {
                continue;
            };
            if let Some(reject) = judge(access, &self.stores, self.executed) {
                self.found = Some(reject);
                return false;
            }
            self.copies[1].push(access);
            if access.written {
                self.stores.push_back((self.executed, access));
            }
        }
        while matches!(self.stores.front(), Some((at, _)) if at + WINDOW < self.executed) {
            self.stores.pop_front();
        }
        true
    }
}

/// Whether an access that moves on as these two do crosses a line some time.
fn moves_across(before: Access, now: Access) -> Option<Reject> {
    let step = now.address.wrapping_sub(before.address);
    // The offset in the line recurs after at most as many steps as a line has bytes.
    (1..=LINE)
        .map(|n| Access {
            address: now.address.wrapping_add(n.wrapping_mul(step)),
            ..now
        })
        .find_map(crosses)
}

fn crosses(access: Access) -> Option<Reject> {
    let inside = access.address % LINE + access.bytes <= LINE;
    if inside || access.bytes > LINE {
        return None;
    }
    Some(Reject::SplitLine {
        address: access.address,
        bytes: access.bytes as usize,
    })
}

fn judge(access: Access, stores: &VecDeque<(u64, Access)>, now: u64) -> Option<Reject> {
    if is_harness(access.address) {
        return Some(Reject::Harness(access.address));
    }
    if let Some(split) = crosses(access) {
        return Some(split);
    }
    if !access.read {
        return None;
    }
    let meets = |store: &Access| {
        let (load_at, store_at) = (access.address % PAGE, store.address % PAGE);
        access.address / PAGE != store.address / PAGE
            && is_stack(access.address) == is_stack(store.address)
            && load_at < store_at + store.bytes
            && store_at < load_at + access.bytes
    };
    stores
        .iter()
        .filter(|(at, _)| at + WINDOW >= now)
        .find(|(_, store)| meets(store))
        .map(|(_, store)| Reject::MayAlias {
            load: access.address,
            store: store.address,
        })
}

/// The access, when its address and size are known: gathers and state saves are not looked at.
fn access(
    instruction: &Instruction,
    used: &UsedMemory,
    registers: &Registers,
    next: u64,
) -> Option<Access> {
    let bytes = used.memory_size().size() as u64;
    if bytes == 0 || instruction.is_vsib() {
        return None;
    }
    let (read, written) = match used.access() {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => return None,
    };
    let address = if instruction.is_ip_rel_memory_operand() && used.base() == Register::None {
        // Decoded at another address than it runs at.
        let displacement = instruction
            .ip_rel_memory_address()
            .wrapping_sub(instruction.next_ip());
        next.wrapping_add(displacement)
    } else {
        used.virtual_address(0, |register, _, _| value(register, registers))?
    };
    Some(Access {
        address,
        bytes,
        read,
        written,
    })
}

fn value(register: Register, r: &Registers) -> Option<u64> {
    match register {
        Register::FS => return Some(r.fs_base),
        Register::GS => return Some(r.gs_base),
        Register::CS | Register::DS | Register::ES | Register::SS => return Some(0),
        _ => {}
    }
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        _ => return None,
    };
    Some(match register.size() {
        1 => full & 0xff,
        2 => full & 0xffff,
        4 => full & 0xffff_ffff,
        _ => full,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(address: u64, bytes: u64) -> Access {
        Access {
            address,
            bytes,
            read: true,
            written: false,
        }
    }

    #[test]
    fn accesses_that_cross_a_line_are_found() {
        let none = VecDeque::new();
        assert_eq!(judge(load(0x1_0038, 8), &none, 1), None);
        assert!(matches!(
            judge(load(0x1_0039, 8), &none, 1),
            Some(Reject::SplitLine { bytes: 8, .. })
        ));
        assert_eq!(judge(load(0x1_0000, 64), &none, 1), None);
    }

    #[test]
    fn accesses_that_will_cross_a_line_are_found() {
        let moves = |step: u64| moves_across(load(0x1_0000, 8), load(0x1_0000 + step, 8));
        for step in [0, 8, 64, 24] {
            assert_eq!(moves(step), None, "{step}");
        }
        assert!(matches!(
            moves(4),
            Some(Reject::SplitLine {
                address: 0x1_003c,
                bytes: 8
            })
        ));
    }

    #[test]
    fn loads_that_meet_a_store_in_another_page_are_found() {
        let store = Access {
            read: false,
            written: true,
            ..load(0x1000_0100, 8)
        };
        let stores = VecDeque::from([(1, store)]);
        // The same address, another offset, another page with another offset: nothing to fear.
        for address in [0x1000_0100, 0x1000_0104, 0x1000_0108, 0x1000_2108] {
            assert_eq!(judge(load(address, 4), &stores, 2), None, "{address:#x}");
        }
        let met = Some(Reject::MayAlias {
            load: 0x1000_2104,
            store: 0x1000_0100,
        });
        assert_eq!(judge(load(0x1000_2104, 4), &stores, 2), met);
        assert_eq!(judge(load(0x1000_2104, 4), &stores, 2 + WINDOW), None);
        // The stack has a physical page of its own.
        let stack = crate::cell::layout::STACK & !(PAGE - 1) | 0x100;
        assert_eq!(judge(load(stack, 4), &stores, 2), None);
    }
}
