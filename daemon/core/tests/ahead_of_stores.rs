//! Loads that go ahead of stores whose addresses come late, on Zen 4: a chain of multiplications makes the address of a store,
//! and a load behind it begins another chain, without which the first cannot go on. Once in so many turns the store is to
//! the load's place. The figures are the host's (docs/ZEN4.md, "Loads ahead of stores").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

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

/// Cycles an update of memory, of which `run` one after the other are at one place; places are made anew each time.
fn updates(run: usize) -> f64 {
    let code = [
        0x4c, 0x01, 0xc2, // add rdx, r8
        0x83, 0x04, 0x96, 0x01, // add dword [rsi+rdx*4], 1
        0x48, 0xff, 0xcf, // dec rdi
        0x75, 0xf4, // jnz
    ];
    let cycles = |turns: usize| {
        let mut words = Vec::new();
        for n in 0..turns {
            let place = PLACE + 4 * (n / run % 64) as u64;
            words.push(block_word(BlockId(0)));
            for store in [false, true] {
                words.push(access_word(Access {
                    index: 1,
                    store,
                    size: 4,
                    address: GuestAddr(place),
                }));
            }
        }
        support::run("zen4", Arch::X86_64, &[(0x1000, 4, code)], &words).cpus[0].cycles
    };
    let turns = 64 * run.max(64);
    (cycles(2 * turns) - cycles(turns)) as f64 / turns as f64
}

/// Measured, with a table of the places, a run: nothing beyond its updates up to 13, 40 cycles more from 15 on, where the last
/// one is renamed and so the first at the next place, in vain.
#[test]
fn a_load_is_renamed_once_it_has_met_the_same_store_thirteen_times() {
    let beyond = |run: usize| (updates(run) - updates(1)) * run as f64;
    let (before, behind) = (beyond(13), beyond(15));
    assert!(behind > before + 12.0, "{before} and {behind}");
    // As dear however long a run is, since the others are renamed.
    for run in [24, 64, 256] {
        let longer = beyond(run);
        assert!((12.0..70.0).contains(&longer), "{run}: {longer}");
    }
}

/// Of 64 places in turn none waits for another: each store's address is that of its load, 1.0 cycles.
#[test]
fn updates_of_memory_know_their_address_when_they_load() {
    let each = updates(1);
    assert!(each < 1.3, "{each}");
}
