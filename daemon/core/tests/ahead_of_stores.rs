//! Loads that go ahead of stores whose addresses come late, on Zen 4: a chain of multiplications makes the address of a store,
//! and a load behind it begins another chain, without which the first cannot go on. Once in so many turns the store is to
//! the load's place. The figures are the host's (docs/ZEN4.md, "Loads ahead of stores").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

const PLACE: u64 = 0x7000_0040;
const CHAIN: usize = 10;

/// Cycles a turn, of which each `period`th stores to the load's place; 0: none does.
fn turn(period: usize) -> f64 {
    let mut code = Vec::new();
    let mut count = 0u16;
    let mut add = |bytes: &[u8], times: usize| {
        code.extend(bytes.repeat(times));
        count += times as u16;
        count - 1
    };
    add(&[0x48, 0x0f, 0xaf, 0xc0], CHAIN); // imul rax, rax
    add(&[0x48, 0x89, 0xc2], 1); // mov rdx, rax
    add(&[0x48, 0xff, 0xca], 1); // dec rdx
    add(&[0x4c, 0x01, 0xca], 1); // add rdx, r9
    let store = add(&[0x48, 0x89, 0x04, 0x16], 1); // mov [rsi+rdx], rax
    let load = add(&[0x48, 0x8b, 0x1e], 1); // mov rbx, [rsi]
    add(&[0x48, 0x0f, 0xaf, 0xdb], CHAIN); // imul rbx, rbx
    add(&[0x48, 0x83, 0xe3, 0x00], 1); // and rbx, 0
    add(&[0x48, 0x01, 0xd8], 1); // add rax, rbx
    add(&[0x48, 0xff, 0xcf], 1); // dec rdi
    add(&[0x0f, 0x85], 1); // jnz
    let back = -(code.len() as i32) - 4;
    code.extend(back.to_le_bytes());
    let cycles = |turns: usize| {
        let mut words = Vec::new();
        for n in 0..turns {
            let meets = period > 0 && n % period == 0;
            words.push(block_word(BlockId(0)));
            words.push(support::access(
                store,
                true,
                PLACE + if meets { 0 } else { 512 },
            ));
            words.push(support::access(load, false, PLACE));
        }
        let blocks = [(0x1000, count, code.clone())];
        support::run("zen4", Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    let turns = 32 * period.max(8);
    (cycles(2 * turns) - cycles(turns)) as f64 / turns as f64
}

#[test]
fn a_load_that_met_a_store_waits_for_all_addresses_sixteen_times() {
    for (period, measured) in [
        (0, 31.6),
        (2, 74.2),
        (8, 74.0),
        (16, 74.6),
        (24, 62.0),
        (32, 54.8),
        (64, 43.1),
        (128, 37.1),
    ] {
        let found = turn(period);
        assert!(
            (found / measured - 1.0).abs() < 0.03,
            "one in {period}: {found} and {measured}"
        );
    }
}
