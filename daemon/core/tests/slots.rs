//! Where issue slots went, by block: what the simulation saw of each block's executions, and not
//! what the block would do by itself.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use mcad_isa::machine;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};
use mcad_report::{CpuReport, SlotStack};

/// A block: address, instructions, bytes.
type Block = (u64, u16, &'static [u8]);

/// Runs executed blocks, each with the address that its first instruction loads from, if it does.
fn run(cpu: &str, blocks: &[Block], path: &[(u32, Option<u64>)]) -> CpuReport {
    let mut words = Vec::new();
    for (block, address) in path {
        words.push(block_word(BlockId(*block)));
        words.extend(address.map(|address| support::access(0, false, address)));
    }
    support::run(cpu, Arch::X86_64, blocks, &words)
        .cpus
        .remove(0)
}

/// The slots of the block at an address.
fn slots(cpu: &CpuReport, address: u64) -> SlotStack {
    let address = format!("{address:#x}");
    let block = cpu.blocks.iter().find(|b| b.address == address).unwrap();
    block.slots.unwrap()
}

fn share(slots: u64, of: &SlotStack) -> f64 {
    slots as f64 / of.sum() as f64
}

/// The n-th of a sequence without a pattern.
fn random(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678;
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 29)
}

/// `nop` times nine and a jump back to the block before.
const NOPS: Block = (
    0x2000,
    10,
    &[
        0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xf5,
    ],
);

#[test]
fn a_miss_is_booked_on_the_block_that_loads_and_not_on_the_one_that_cannot_issue() {
    // mov rax,[rax]; jmp: each load waits for the one before, from memory.
    let chase: Block = (0x1000, 2, &[0x48, 0x8b, 0x00, 0xe9, 0xf8, 0x0f, 0, 0]);
    // add rax,[rax]: the same fused with an operation.
    let fused: Block = (0x1000, 2, &[0x48, 0x03, 0x00, 0xe9, 0xf8, 0x0f, 0, 0]);
    for load in [chase, fused] {
        for cpu in ["skl", "glc", "zen5"] {
            let path: Vec<_> = (0..4_000)
                .flat_map(|n| {
                    let address = 0x10_0000_0000 + (random(n) & 0xf_ffff) * 4096;
                    [(0, Some(address)), (1, None)]
                })
                .collect();
            let report = run(cpu, &[load, NOPS], &path);
            let of_load = slots(&report, load.0);
            let memory = of_load.dram + of_load.translation + of_load.faults;
            assert!(share(memory, &of_load) > 0.9, "{cpu}: {of_load:?}");
            assert_eq!(of_load.stores, 0, "{cpu}: {of_load:?}");
            let of_nops = slots(&report, NOPS.0);
            assert!(
                share(of_nops.retiring, &of_nops) > 0.9,
                "{cpu}: {of_nops:?}"
            );
        }
    }
}

#[test]
fn a_chain_through_a_miss_is_booked_on_the_load_and_not_on_what_computes_its_address() {
    // add rax,[rbx]; imul rax,rax; add rax,rcx; mov rbx,rax; and ebx,63; shl rbx,6; jmp to itself
    let chain: Block = (
        0x1000,
        7,
        &[
            0x48, 0x03, 0x03, 0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x01, 0xc8, 0x48, 0x89, 0xc3, 0x83,
            0xe3, 0x3f, 0x48, 0xc1, 0xe3, 0x06, 0xeb, 0xea,
        ],
    );
    let path: Vec<_> = (0..4_000)
        .map(|n| (0, Some(0x10_0000_0000 + (random(n) & 0xf_ffff) * 4096)))
        .collect();
    for info in machine::cpus_of(Arch::X86_64) {
        // In-order cores have no data caches here.
        if machine::cpu(info.name).unwrap().core.in_order.is_some() {
            continue;
        }
        let s = run(info.name, &[chain], &path).slots.unwrap();
        let computed = s.dependencies + s.latency + s.l1;
        assert!(share(computed, &s) < 0.1, "{}: {s:?}", info.name);
    }
}

#[test]
fn a_wrong_prediction_is_booked_on_the_block_of_its_branch() {
    // test rax,rax; jne +0x10, towards one block or the other, each of which comes back.
    let branch: Block = (0x1000, 2, &[0x48, 0x85, 0xc0, 0x75, 0x10]);
    let left: Block = (0x1005, 3, &[0x90, 0x90, 0xeb, 0xf7]);
    let right: Block = (0x1015, 3, &[0x90, 0x90, 0xeb, 0xe7]);
    let path: Vec<_> = (0..20_000)
        .flat_map(|n| [(0, None), (1 + (random(n) & 1) as u32, None)])
        .collect();
    for cpu in ["skl", "glc", "zen5"] {
        let report = run(cpu, &[branch, left, right], &path);
        let of_branch = slots(&report, branch.0);
        let wrong = share(of_branch.bad_speculation, &of_branch);
        assert!(wrong > 0.6, "{cpu}: {of_branch:?}");
        for block in [left, right] {
            let of_block = slots(&report, block.0);
            assert_eq!(of_block.bad_speculation, 0, "{cpu}: {of_block:?}");
        }
    }
}

#[test]
fn the_back_end_is_told_apart() {
    // imul rax,rax six times; jmp to itself
    let chain: Block = (
        0x1000,
        7,
        &[
            0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x0f,
            0xaf, 0xc0, 0x48, 0x0f, 0xaf, 0xc0, 0x48, 0x0f, 0xaf, 0xc0, 0xeb, 0xe6,
        ],
    );
    // imul rax,rbx,1; imul rcx,rbx,1; imul rdx,rbx,1; imul rsi,rbx,1; jmp to itself
    let port: Block = (
        0x1000,
        5,
        &[
            0x48, 0x6b, 0xc3, 0x01, 0x48, 0x6b, 0xcb, 0x01, 0x48, 0x6b, 0xd3, 0x01, 0x48, 0x6b,
            0xf3, 0x01, 0xeb, 0xee,
        ],
    );
    let path = vec![(0, None); 5_000];
    type Cause = fn(&SlotStack) -> u64;
    let kinds: [(Block, Cause); 2] = [(chain, |s| s.dependencies), (port, |s| s.ports)];
    for (block, cause) in kinds {
        let report = run("skl", &[block], &path);
        let s = slots(&report, block.0);
        let lost = s.sum() - s.retiring;
        assert!(cause(&s) as f64 > 0.9 * lost as f64, "{s:?}");
    }
}

#[test]
fn blocks_add_up_to_the_program() {
    let blocks: [Block; 3] = [
        (0x1000, 2, &[0x48, 0x8b, 0x00, 0x75, 0x10]),
        (0x1005, 3, &[0x90, 0x90, 0xeb, 0xf7]),
        (0x1015, 3, &[0x48, 0xf7, 0xf1, 0x90, 0xeb, 0xe5]),
    ];
    let path: Vec<_> = (0..5_000)
        .flat_map(|n| {
            let address = 0x10_0000_0000 + (random(n) & 0xffff) * 64;
            [(0, Some(address)), (1 + (random(n) >> 40 & 1) as u32, None)]
        })
        .collect();
    for info in machine::cpus_of(Arch::X86_64) {
        let model = machine::cpu(info.name).unwrap();
        if model.core.in_order.is_some() {
            continue;
        }
        let report = run(&model.name, &blocks, &path);
        let (t, s) = (report.topdown, report.slots.unwrap());
        assert_eq!(s.bad_speculation, t.bad_speculation, "{}", model.name);
        assert_eq!(s.frontend, t.frontend, "{}", model.name);
        let memory = s.l1 + s.l2 + s.l3 + s.dram + s.translation + s.stores + s.faults;
        assert_eq!(memory, t.backend_memory, "{}", model.name);
        assert_eq!(s.dram, t.memory_levels.dram, "{}", model.name);
        let core = s.dependencies + s.latency + s.ports + s.divider;
        assert_eq!(core, t.backend_core, "{}", model.name);
        // The drain at the end is nobody's.
        assert!(s.other <= t.other, "{}", model.name);
    }
}

/// Of in-order cores, too, each slot is booked on the code for whose sake it was lost, and all blocks'
/// slots are the run's but for those before the first issue and after the last.
#[test]
fn blocks_of_in_order_cores_have_all_slots() {
    // ldr x0, [x0]; add x0, x0, #1; b: what waits for the load is the addition.
    let chase = [0xf940_0000, 0x9100_0400, 0x1400_03fe];
    // nop, nop, nop, b back
    let rest = [0xd503_201f, 0xd503_201f, 0xd503_201f, 0x17ff_fbfd];
    let mut words = Vec::new();
    for _ in 0..1000 {
        words.push(block_word(BlockId(0)));
        words.push(support::access(0, false, 0x8000));
        words.push(block_word(BlockId(1)));
    }
    for name in ["cortex-a53", "cortex-a510"] {
        let code = [support::code(&chase), support::code(&rest)];
        let [chase, rest] = &code;
        let blocks = [(0x1000, 3, chase.clone()), (0x2000, 4, rest.clone())];
        let report = support::run(name, Arch::AArch64, &blocks, &words);
        let cpu = &report.cpus[0];
        let all = cpu.slots.unwrap();
        let t = &cpu.topdown;
        assert_eq!(all.retiring, t.retiring, "{name}");
        assert_eq!(all.frontend + all.icache, t.frontend, "{name}");
        assert_eq!(all.bad_speculation, t.bad_speculation, "{name}");
        // Its own causes, and none of a core with buffers that fill.
        let beyond = all.l2 + all.l3 + all.dram + all.translation + all.stores;
        assert_eq!(all.load_use + beyond, t.backend_memory, "{name}");
        let core = [
            all.dependencies,
            all.ports,
            all.pairing,
            all.divider,
            all.serialization,
            all.write_back,
        ];
        assert_eq!(core.iter().sum::<u64>(), t.backend_core, "{name}");
        assert_eq!((all.l1, all.latency), (0, 0), "{name}");
        assert!(cpu.in_order, "{name}");
        let of_chase = slots(cpu, 0x1000);
        let load_use = share(of_chase.load_use, &of_chase);
        assert!(load_use > 0.3, "{name}: {of_chase:?}");
        assert_eq!(slots(cpu, 0x2000).load_use, 0, "{name}");
    }
    // The same of x86-64: add rax, [rbx]; jmp there and back.
    let load: Block = (0x1000, 2, &[0x48, 0x03, 0x03, 0xe9, 0xf8, 0x0f, 0, 0]);
    let path: Vec<_> = (0..1000)
        .flat_map(|_| [(0, Some(0x8000)), (1, None)])
        .collect();
    let cpu = run("atom", &[load, NOPS], &path);
    let all = cpu.slots.unwrap();
    assert_eq!(all.sum() + cpu.topdown.other, cpu.topdown.slots);
    assert_eq!(all.retiring, 12_000);
}
