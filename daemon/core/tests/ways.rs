//! The short ways through the core give what the general ones do, stamp for stamp.
//!
//! Random programs on every CPU, each simulated twice: one instruction after the other with every
//! µop told, which takes the general way everywhere; and by plans of whole blocks with only
//! retirement told, so that plain instructions take the short way behind rename. What must be the
//! same is when each instruction retires, where issue slots went, and what each port did.

use std::sync::Arc;

use fastrand::Rng;
use mcad_core::pipeline::Pipeline;
use mcad_core::pipeline::access::{Access, Span};
use mcad_core::pipeline::backend::memory::lines::SharedLines;
use mcad_core::pipeline::frontend::plan::{Plan, Run, last_with_uops};
use mcad_core::pipeline::inst::Inst;
use mcad_core::pipeline::observer::{Observer, Retired, UopStamps};
use mcad_isa::machine::{self, CpuModel};
use mcad_isa::program::Program;
use mcad_isa::x86::build::{Builder, decode};

/// Instructions, each with its loads and stores.
const INSTRUCTIONS: [(&[u8], u8, u8); 46] = [
    (&[0x48, 0x01, 0xd8], 0, 0),                   // add rax,rbx
    (&[0x48, 0x01, 0xc8], 0, 0),                   // add rax,rcx
    (&[0x48, 0x83, 0xc0, 0x08], 0, 0),             // add rax,8
    (&[0x48, 0x05, 0x00, 0x04, 0, 0], 0, 0),       // add rax,1024
    (&[0x48, 0xff, 0xc9], 0, 0),                   // dec rcx
    (&[0x48, 0x0f, 0xaf, 0xc1], 0, 0),             // imul rax,rcx
    (&[0x48, 0xf7, 0xf1], 0, 0),                   // div rcx
    (&[0x48, 0x89, 0xc3], 0, 0),                   // mov rbx,rax
    (&[0x89, 0xd9], 0, 0),                         // mov ecx,ebx
    (&[0x48, 0x31, 0xd2], 0, 0),                   // xor rdx,rdx
    (&[0x90], 0, 0),                               // nop
    (&[0x48, 0x8b, 0x00], 1, 0),                   // mov rax,[rax]
    (&[0x48, 0x8b, 0x5f, 0x08], 1, 0),             // mov rbx,[rdi+8]
    (&[0x48, 0x03, 0x04, 0x0f], 1, 0),             // add rax,[rdi+rcx]
    (&[0x48, 0x89, 0x07], 0, 1),                   // mov [rdi],rax
    (&[0x48, 0x89, 0x5f, 0x10], 0, 1),             // mov [rdi+16],rbx
    (&[0x48, 0x01, 0x47, 0x08], 1, 1),             // add [rdi+8],rax
    (&[0x89, 0x0c, 0x37], 0, 1),                   // mov [rdi+rsi],ecx
    (&[0x50], 0, 1),                               // push rax
    (&[0x58], 1, 0),                               // pop rax
    (&[0x5c], 1, 0),                               // pop rsp
    (&[0x48, 0x8d, 0x44, 0x24, 0x08], 0, 0),       // lea rax,[rsp+8]
    (&[0x48, 0x8d, 0x44, 0x8b, 0x08], 0, 0),       // lea rax,[rbx+rcx*4+8]
    (&[0x48, 0xd3, 0xe0], 0, 0),                   // shl rax,cl
    (&[0x48, 0xc1, 0xe0, 0x03], 0, 0),             // shl rax,3
    (&[0x48, 0x0f, 0x44, 0xc3], 0, 0),             // cmove rax,rbx
    (&[0x0f, 0x94, 0xc1], 0, 0),                   // sete cl
    (&[0x48, 0x39, 0xd8], 0, 0),                   // cmp rax,rbx
    (&[0x48, 0x85, 0xc0], 0, 0),                   // test rax,rax
    (&[0x88, 0xdc], 0, 0),                         // mov ah,bl
    (&[0x00, 0xe0], 0, 0),                         // add al,ah
    (&[0x66, 0xb8, 0x34, 0x12], 0, 0),             // mov ax,0x1234
    (&[0x66, 0x05, 0x34, 0x12], 0, 0),             // add ax,0x1234
    (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], 0, 0), // mov rax,imm64
    (&[0x48, 0x87, 0xd8], 0, 0),                   // xchg rax,rbx
    (&[0x0f, 0xa2], 0, 0),                         // cpuid
    (&[0xf3, 0x90], 0, 0),                         // pause
    (&[0x0f, 0xae, 0xe8], 0, 0),                   // lfence
    (&[0x0f, 0xae, 0xf0], 0, 0),                   // mfence
    (&[0xf2, 0x0f, 0x58, 0xc1], 0, 0),             // addsd xmm0,xmm1
    (&[0xf2, 0x0f, 0x5e, 0xc1], 0, 0),             // divsd xmm0,xmm1
    (&[0x0f, 0x28, 0xc8], 0, 0),                   // movaps xmm1,xmm0
    (&[0xc5, 0xfd, 0x6f, 0x07], 1, 0),             // vmovdqa ymm0,[rdi]
    (&[0xc5, 0xfd, 0x7f, 0x07], 0, 1),             // vmovdqa [rdi],ymm0
    (&[0xc4, 0xe2, 0x7d, 0xb8, 0x0c, 0x8f], 1, 0), // vfmadd231ps ymm1,ymm0,[rdi+rcx*4]
    (&[0x0f, 0x57, 0xc0], 0, 0),                   // xorps xmm0,xmm0
];

/// Ends of blocks: to the next instruction, whatever happens.
const ENDS: [&[u8]; 4] = [
    &[0xeb, 0x00],
    &[0x75, 0x00],
    &[0x72, 0x00],
    &[0x48, 0xff, 0xc9, 0x75, 0x00],
];

/// When instructions retired.
#[derive(Default)]
struct Log<const UOPS: bool> {
    retired: Vec<(u32, u32, Retired)>,
}

impl<const UOPS: bool> Observer for Log<UOPS> {
    const UOPS: bool = UOPS;

    fn retired(&mut self, inst: &Inst, retired: Retired) {
        self.retired.push((inst.instr, inst.tag, retired));
    }

    fn uop(&mut self, _: &Inst, stamps: UopStamps) {
        assert!(stamps.issued <= stamps.ready && stamps.dispatched < stamps.retired.max(1) + 1);
    }
}

struct Block {
    first: u32,
    addresses: Vec<u64>,
    /// Loads and stores of each instruction.
    accesses: Vec<(u8, u8)>,
    plan: Plan,
}

fn blocks(model: &Arc<CpuModel>, program: &mut Program, random: &mut Rng) -> Option<Vec<Block>> {
    let mut address = 0x40_0000 + u64::from(random.u32(..64));
    let mut blocks = Vec::new();
    for id in 0..2 + random.u32(..24) {
        let mut code = Vec::new();
        let mut accesses = Vec::new();
        for _ in 0..random.u32(..9) {
            let (bytes, loads, stores) = INSTRUCTIONS[random.usize(..46)];
            code.extend_from_slice(bytes);
            accesses.push((loads, stores));
        }
        code.extend_from_slice(ENDS[random.usize(..4)]);
        let decoded = decode(&code, address).0;
        accesses.resize(decoded.len(), (0, 0));
        let first = program.instrs.len() as u32;
        Builder::new(model).append(program, &decoded);
        let addresses: Vec<u64> = decoded.iter().map(|d| d.instruction.ip()).collect();
        let bytes = model.core.frontend.predecode_block_bytes;
        let plan = Plan::new(program, first, &addresses, id + 1, bytes)?;
        address += code.len() as u64;
        if random.u8(..4) == 0 {
            address += u64::from(random.u32(..5000));
        }
        blocks.push(Block {
            first,
            addresses,
            accesses,
            plan,
        });
    }
    Some(blocks)
}

fn same(model: &Arc<CpuModel>, blocks: &[Block], program: &Program, random: &mut Rng) {
    let mut general = Pipeline::of_program(model, Log::<true>::default());
    let mut planned = Pipeline::of_program(model, Log::<false>::default());
    let mut at = 0;
    for _ in 0..700 {
        let block = &blocks[at];
        let id = at as u32 + 1;
        let length = block.addresses.len();
        let (mut spans, mut all) = (Vec::new(), Vec::new());
        let tagged = last_with_uops(&program.instrs[block.first as usize..][..length], 0);
        for (n, &(loads, stores)) in block.accesses.iter().enumerate() {
            let start = all.len();
            for _ in 0..loads + stores {
                let place = 0x7000 + u64::from(random.u32(..96));
                all.push(Access::known(place, 1 << (random.u32(..6))));
            }
            if loads + stores > 0 {
                spans.push(Span {
                    index: n as u16,
                    start: start as u32,
                    loads,
                    stores,
                    bytes: 0,
                });
            }
            let inst = Inst {
                tag: if n == tagged { id } else { 0 },
                loads,
                stores,
                ..Inst::new(block.first + n as u32, block.addresses[n])
            };
            general.push(program, inst, &all[start..]);
        }
        let run = Run {
            plan: &block.plan,
            spans: &spans,
            accesses: &all,
        };
        planned.push_run(program, run);
        // Mostly on, often back to the same place, so that loops are found, and sometimes anywhere.
        at = match random.u32(..16) {
            0..=6 => (at + 1) % blocks.len(),
            7..=13 => at / 3 * 3,
            _ => random.usize(..blocks.len()),
        };
    }
    general.flush(program);
    planned.flush(program);
    let name = &model.name;
    let (a, b) = (&general.observer.retired, &planned.observer.retired);
    let differ = a.iter().zip(b).position(|(a, b)| a != b);
    assert_eq!(differ.map(|n| (n, a[n], b[n])), None, "{name}");
    assert_eq!(a.len(), b.len(), "{name}");
    assert_eq!(general.topdown(), planned.topdown(), "{name}");
    assert_eq!(general.port_uops(), planned.port_uops(), "{name}");
}

#[test]
fn short_ways_give_what_the_general_ones_do() {
    let mut random = Rng::with_seed(1);
    for cpu in machine::cpus_of(mcad_proto::event::Arch::X86_64) {
        let model = machine::cpu(cpu.name).unwrap();
        if model.core.in_order.is_some() {
            // It executes on another pipeline.
            continue;
        }
        for _ in 0..30 {
            let mut program = Program::default();
            let blocks = blocks(&model, &mut program, &mut random).unwrap();
            same(&model, &blocks, &program, &mut random);
        }
    }
}

/// Stores that are written serve no loads, also behind an instruction with more store µops than
/// recorded accesses.
#[test]
fn a_load_long_after_a_store_asks_the_cache() {
    // fxsave [rdi]; mov [rdi],rax; nop; mov rbx,[rdi+8]
    let code = [
        0x0f, 0xae, 0x07, 0x48, 0x89, 0x07, 0x90, 0x48, 0x8b, 0x5f, 0x08,
    ];
    for cpu in ["skl", "glc", "zen5"] {
        let model = machine::cpu(cpu).unwrap();
        let mut program = Program::default();
        let decoded = decode(&code, 0x40_0000).0;
        Builder::new(&model).append(&mut program, &decoded);
        let mut pipeline = Pipeline::of_program(&model, Log::<false>::default());
        pipeline.lend(&mut SharedLines::of_program(&model.core));
        let mut push = |n: usize, address: u64, loads, stores| {
            let inst = Inst {
                loads,
                stores,
                ..Inst::new(n as u32, decoded[n].instruction.ip())
            };
            let access = [Access::known(address, 8)];
            let accesses = &access[..usize::from(loads + stores)];
            pipeline.push(&program, inst, accesses);
        };
        for _ in 0..20 {
            push(0, 0x9000, 0, 1);
        }
        for n in 0..10 {
            push(1, 0xa000 + 8 * n, 0, 1);
        }
        (0..5000).for_each(|_| push(2, 0, 0, 0));
        for n in 0..10 {
            push(3, 0xa000 + 8 * n, 1, 0);
        }
        pipeline.flush(&program);
        assert_eq!(pipeline.found().loads.iter().sum::<u64>(), 10, "{cpu}");
    }
}
