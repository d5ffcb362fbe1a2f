//! What a jump costs does not depend on how far it goes, nor on where its line of code ends; only where buffers have
//! some bits of a target, on whether it goes to or from shared objects.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, Event, ModuleDef};
use mcad_proto::word::{BlockId, GuestAddr, block_word};
use support::{begin, finish, run, simulation};

const TURNS: usize = 4000;

/// Cycles a turn of a comparison with a jump at `address`, fused, and one back from `target`.
fn cycles(cpu: &str, address: u64, target: u64) -> f64 {
    let relative = |from: u64, to: u64| (to.wrapping_sub(from) as u32).to_le_bytes();
    // add rcx,rdx; cmp rax,rbx; je target
    let mut there = vec![0x48, 0x01, 0xd1, 0x48, 0x39, 0xd8, 0x0f, 0x84];
    there.extend(relative(address + 12, target));
    // jmp address
    let mut back = vec![0xe9];
    back.extend(relative(target + 5, address));
    let words: Vec<u64> = (0..2 * TURNS)
        .map(|n| block_word(BlockId(n as u32 % 2)))
        .collect();
    let blocks = [(address, 3, there), (target, 1, back)];
    let report = run(cpu, Arch::X86_64, &blocks, &words);
    report.cpus.first().map_or(0, |cpu| cpu.cycles) as f64 / TURNS as f64
}

/// A comparison and a jump that lie in one line of code, or go on in the next: natively on a Zen 5 a turn
/// takes one cycle more then, however far the jump goes (1.26 and 2.26 with three jumps a turn).
#[test]
fn a_fused_pair_across_two_lines_jumps_as_any_other() {
    for info in machine::cpus_of(Arch::X86_64) {
        let erratum = machine::cpu(info.name).is_ok_and(|cpu| cpu.core.frontend.jcc_erratum);
        // What crosses a line comes from the decoders there.
        let most = if erratum { 5.5 } else { 1.5 };
        for target in [0x40_8000, 0x44_0000, 0x3f_0000] {
            let within = cycles(info.name, 0x40_0000, target);
            let across = cycles(info.name, 0x40_003b, target);
            assert!(
                (across - within).abs() < most,
                "{}, target {target:x}: {across} across, {within} within",
                info.name
            );
            assert!(within < 6.0, "{}, target {target:x}: {within}", info.name);
        }
    }
}

/// Cycles a turn of a jump from the program to a jump back, which is in a file of that name.
fn cycles_to(cpu: &str, file: &str) -> f64 {
    let (here, there) = (0x40_0000u64, 0x50_0000u64);
    let mut simulation = simulation(cpu);
    let jump = |from: u64, to: u64| {
        let mut bytes = vec![0xe9];
        bytes.extend((to.wrapping_sub(from + 5) as u32).to_le_bytes());
        bytes
    };
    begin(&mut simulation, Arch::X86_64, &[] as &[(u64, u16, Vec<u8>)]);
    for (path, start) in [("/usr/bin/program", here), (file, there)] {
        let module = ModuleDef {
            path: path.into(),
            start: GuestAddr(start),
            end: GuestAddr(start + 0x1000),
            file_offset: 0,
        };
        simulation.event(&Event::Module(module)).unwrap();
    }
    for (id, from, to) in [(0, here, there), (1, there, here)] {
        let block = BlockDef {
            id: BlockId(id),
            address: GuestAddr(from),
            instructions: 1,
            bytes: &jump(from, to),
        };
        simulation.event(&Event::Block(block)).unwrap();
    }
    let words: Vec<u64> = (0..2 * TURNS)
        .map(|n| block_word(BlockId(n as u32 % 2)))
        .collect();
    let report = finish(simulation, &words);
    report.cpus.first().map_or(0, |cpu| cpu.cycles) as f64 / TURNS as f64
}

/// Zen 4's branch target buffer has 37 bits of a target (docs/BRANCHES.md): Linux maps shared objects further from the
/// program than that, though QEMU does not. Each way takes three cycles more; on the others nothing.
#[test]
fn a_jump_to_a_shared_object_is_far() {
    for (cpu, more) in [("zen4", 6.0), ("zen5", 0.0), ("skl", 0.0), ("glc", 0.0)] {
        let near = cycles_to(cpu, "/usr/bin/another");
        for name in ["/lib/libc.so.6", "/lib/plugin.so"] {
            let far = cycles_to(cpu, name) - near;
            assert!((far - more).abs() < 0.1, "{cpu}, {name}: {far}");
        }
    }
}
