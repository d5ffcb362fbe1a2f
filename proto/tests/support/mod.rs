//! A made-up program run for tests and benchmarks: nested loops over arrays with a stack, two
//! unpredictable branches and a string instruction, from a fixed seed.

use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

/// Blocks that [`words`] names, and some.
#[allow(dead_code)] // not every test that includes this file needs it
pub const BLOCKS: u32 = 64;

/// At least `count` record words.
pub fn words(count: usize) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut out = Vec::with_capacity(count + 100);
    let mut stack = 0x7fff_ffff_0000u64;
    let mut array = 0x5555_0000_0000u64;
    while out.len() < count {
        let function = random.u32(..8) * 8;
        stack -= 0x40;
        block(&mut out, function);
        access(&mut out, 0, true, 8, stack);
        for i in 0..random.u64(..40) {
            block(&mut out, function + 1);
            access(&mut out, 0, false, 8, array + 8 * i);
            access(&mut out, 2, false, 4, array + 0x10_0000 + 4 * i);
            access(&mut out, 3, true, 8, stack + 8);
            if random.u64(..10) == 0 {
                block(&mut out, function + 2);
                access(&mut out, 1, false, 1, array + random.u64(..1 << 20));
            }
        }
        if random.u64(..20) == 0 {
            block(&mut out, function + 3);
            for i in 0..random.u64(..700) {
                access(&mut out, 0, false, 32, array + 32 * i);
                access(&mut out, 0, true, 32, array + 0x20_0000 + 32 * i);
            }
        }
        block(&mut out, function + 4);
        access(&mut out, 5, false, 8, stack);
        stack += 0x40;
        array += 0x100;
    }
    out
}

fn block(out: &mut Vec<u64>, id: u32) {
    out.push(block_word(BlockId(id)));
}

fn access(out: &mut Vec<u64>, index: u16, store: bool, size: u8, address: u64) {
    out.push(access_word(Access {
        index,
        store,
        size,
        address: GuestAddr(address),
    }));
}
