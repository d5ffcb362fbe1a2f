//! Loads that go ahead of stores whose addresses come late, on Zen 4, Zen 5 and Redwood Cove: a chain of multiplications makes the address of a store,
//! and a load behind it begins another chain, without which the first cannot go on. Once in so many turns the store is to
//! the load's place. The figures are the hosts' (docs/ZEN4.md, docs/ZEN5.md, docs/REDWOOD-COVE.md, "Loads ahead of stores").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

const PLACE: u64 = 0x7000_0040;
const CHAIN: usize = 10;

/// A loop, as it is put together.
#[derive(Default)]
struct Loop {
    code: Vec<u8>,
    count: u16,
}

impl Loop {
    /// Adds an instruction so many times; the number of the last one.
    fn add(&mut self, bytes: &[u8], times: usize) -> u16 {
        self.code.extend(bytes.repeat(times));
        self.count += times as u16;
        self.count.wrapping_sub(1)
    }

    /// Cycles a turn on this CPU, where a turn's accesses are these.
    fn cycles_a_turn(
        mut self,
        cpu: &str,
        turns: usize,
        accesses: impl Fn(usize) -> Vec<u64>,
    ) -> f64 {
        self.add(&[0x48, 0xff, 0xcf], 1); // dec rdi
        self.add(&[0x0f, 0x85], 1); // jnz
        let back = -(self.code.len() as i32) - 4;
        self.code.extend(back.to_le_bytes());
        let cycles = |turns: usize| {
            let mut words = Vec::new();
            for n in 0..turns {
                words.push(block_word(BlockId(0)));
                words.extend(accesses(n));
            }
            let blocks = [(0x1000, self.count, self.code.clone())];
            support::run(cpu, Arch::X86_64, &blocks, &words).cpus[0].cycles
        };
        (cycles(2 * turns) - cycles(turns)) as f64 / turns as f64
    }
}

/// Cycles a turn on Zen 4, of which each `period`th stores to the load's place; 0: none does.
fn turn(period: usize) -> f64 {
    let mut turn = Loop::default();
    turn.add(&[0x48, 0x0f, 0xaf, 0xc0], CHAIN); // imul rax, rax
    turn.add(&[0x48, 0x89, 0xc2], 1); // mov rdx, rax
    turn.add(&[0x48, 0xff, 0xca], 1); // dec rdx
    turn.add(&[0x4c, 0x01, 0xca], 1); // add rdx, r9
    let store = turn.add(&[0x48, 0x89, 0x04, 0x16], 1); // mov [rsi+rdx], rax
    let load = turn.add(&[0x48, 0x8b, 0x1e], 1); // mov rbx, [rsi]
    turn.add(&[0x48, 0x0f, 0xaf, 0xdb], CHAIN); // imul rbx, rbx
    turn.add(&[0x48, 0x83, 0xe3, 0x00], 1); // and rbx, 0
    turn.add(&[0x48, 0x01, 0xd8], 1); // add rax, rbx
    turn.cycles_a_turn("zen4", 32 * period.max(8), |n| {
        let meets = period > 0 && n % period == 0;
        let place = PLACE + if meets { 0 } else { 512 };
        vec![
            support::access(store, true, place),
            support::access(load, false, PLACE),
        ]
    })
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

/// The same with nothing between the multiplications and the store's address.
#[test]
fn on_zen_5_it_waits_as_often_and_starts_sooner() {
    for (period, measured) in [
        (0, 30.9),
        (1, 31.0),
        (2, 68.8),
        (4, 68.8),
        (16, 68.9),
        (20, 63.2),
        (24, 57.8),
        (32, 51.1),
        (64, 41.0),
        (128, 36.0),
        (256, 33.5),
    ] {
        let mut turn = Loop::default();
        turn.add(&[0x48, 0x01, 0xc8], 1); // add rax, rcx
        turn.add(&[0x48, 0x0f, 0xaf, 0xc0], CHAIN); // imul rax, rax
        let store = turn.add(&[0x4c, 0x89, 0x04, 0x06], 1); // mov [rsi+rax], r8
        let load = turn.add(&[0x48, 0x8b, 0x0e], 1); // mov rcx, [rsi]
        turn.add(&[0x48, 0x0f, 0xaf, 0xc9], CHAIN); // imul rcx, rcx
        let found = turn.cycles_a_turn("zen5", 32 * period.max(8), |n| {
            let meets = period > 0 && n % period == 0;
            let place = PLACE + if meets { 0 } else { 512 };
            vec![
                support::access(store, true, place),
                support::access(load, false, PLACE),
            ]
        });
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
    assert!(behind > before + 9.0, "{before} and {behind}");
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

const MULTIPLY: [u8; 4] = [0x4d, 0x0f, 0xaf, 0xc0]; // imul r8, r8

/// Cycles a turn on Redwood Cove of a chain of loads, after each of which so many multiplications make a store's address: that of the next load
/// in these turns of a `period`.
fn chain(multiplications: usize, period: usize, meets: &[usize]) -> f64 {
    let mut turn = Loop::default();
    let load = turn.add(&[0x4f, 0x8b, 0x0c, 0x0b], 1); // mov r9, [r11+r9]
    turn.add(&[0x4d, 0x89, 0xc8], 1); // mov r8, r9
    turn.add(&MULTIPLY, multiplications);
    turn.add(&[0x4d, 0x8d, 0x04, 0xc8], 1); // lea r8, [r8+rcx*8]
    let store = turn.add(&[0x4b, 0x89, 0x14, 0x03], 1); // mov [r11+r8], rdx
    turn.cycles_a_turn("rwc", 16 * period, |n| {
        let meets = meets.contains(&(n % period));
        let place = PLACE + if meets { 0 } else { 64 };
        vec![
            support::access(load, false, PLACE),
            support::access(store, true, place),
        ]
    })
}

#[test]
fn on_redwood_cove_a_load_waits_for_the_next_sixteen_times() {
    for (multiplications, period, meets, measured) in [
        (4, 64, &[][..], 5.1),
        (4, 64, &[0], 10.15),
        (8, 64, &[0], 16.05),
        (2, 64, &[0], 8.35),
        (4, 256, &[0], 6.4),
        (4, 256, &[0, 10], 7.0),
        (4, 256, &[0, 20], 7.7),
        (4, 256, &[0, 10, 50, 90], 9.4),
        (4, 1, &[0], 20.9),
        (8, 1, &[0], 32.8),
        (4, 10, &[0], 20.9),
        (8, 10, &[0], 32.8),
    ] {
        let found = chain(multiplications, period, meets);
        assert!(
            (found / measured - 1.0).abs() < 0.06,
            "{multiplications} multiplications, {meets:?} of {period}: {found} and {measured}"
        );
    }
}

/// Cycles a turn of a chain that a store's and a load's addresses come from, the load's `after` cycles behind the store's, which is
/// to the load's place once in `period` turns.
fn apart(after: i32, period: usize) -> f64 {
    let mut turn = Loop::default();
    turn.add(&[0x4d, 0x89, 0xc8], 1); // mov r8, r9
    turn.add(&MULTIPLY, 2);
    turn.add(&[0x4d, 0x89, 0xc2], 1); // mov r10, r8
    // imul r10, r10
    turn.add(&[0x4d, 0x0f, 0xaf, 0xd2], usize::from(after < 0));
    turn.add(&[0x4d, 0x89, 0xc4], 1); // mov r12, r8
    // bswap r12d
    turn.add(&[0x41, 0x0f, 0xcc], after.max(0) as usize);
    let store = turn.add(&[0x4a, 0x89, 0x14, 0x11], 1); // mov [rcx+r10], rdx
    let load = turn.add(&[0x4f, 0x8b, 0x0c, 0x23], 1); // mov r9, [r11+r12]
    turn.cycles_a_turn("rwc", 64 * period, |n| {
        let place = PLACE + if n.is_multiple_of(period) { 0 } else { 64 };
        vec![
            support::access(store, true, place),
            support::access(load, false, PLACE),
        ]
    })
}

/// One that goes with the store or a cycle later asks for its data once more; nothing is learnt of it.
#[test]
fn on_redwood_cove_a_load_is_ahead_of_a_store_if_it_goes_sooner() {
    for (after, period, measured) in [
        (-3, 1, 17.9),
        (0, 1, 17.9),
        (1, 1, 18.9),
        (2, 1, 12.9),
        (4, 1, 14.9),
        (-3, 8, 17.9),
        (0, 8, 11.8),
        (1, 8, 12.8),
        (2, 8, 12.9),
        (-3, 64, 13.3),
        (0, 64, 11.0),
    ] {
        let found = apart(after, period);
        assert!(
            (found / measured - 1.0).abs() < 0.05,
            "{after} behind, one in {period}: {found} and {measured}"
        );
    }
}

/// Loads that begin so many bytes from one that always meets a store and that never do themselves.
#[test]
fn on_redwood_cove_loads_are_told_apart_by_nine_bits_of_their_address() {
    let beside = |distance: usize| {
        let mut turn = Loop::default();
        turn.add(&[0x4d, 0x89, 0xc8], 1); // mov r8, r9
        turn.add(&MULTIPLY, 2);
        let late = turn.add(&[0x4b, 0x89, 0x54, 0x05, 0x00], 1); // mov [r13+r8], rdx
        let first = turn.code.len();
        let meets = turn.add(&[0x4d, 0x8b, 0x65, 0x00], 1); // mov r12, [r13]
        let filler = distance - (turn.code.len() - first);
        turn.add(&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], filler / 8); // nop
        turn.add(&[0x90], filler % 8); // nop
        let load = turn.add(&[0x4f, 0x8b, 0x0c, 0x0b], 1); // mov r9, [r11+r9]
        turn.add(&[0x4d, 0x89, 0xc8], 1); // mov r8, r9
        turn.add(&MULTIPLY, 64);
        let store = turn.add(&[0x4b, 0x89, 0x54, 0x03, 0x40], 1); // mov [r11+r8+64], rdx
        turn.cycles_a_turn("rwc", 256, |_| {
            vec![
                support::access(late, true, PLACE + 256),
                support::access(meets, false, PLACE + 256),
                support::access(load, false, PLACE),
                support::access(store, true, PLACE + 64),
            ]
        })
    };
    let apart = beside(508);
    for distance in [256, 511, 513] {
        let alone = beside(distance);
        assert!(
            (alone / apart - 1.0).abs() < 0.02,
            "{distance}: {alone} and {apart}"
        );
    }
    let together = beside(512);
    assert!(together > apart + 20.0, "{together} and {apart}");
}

/// Cycles a turn on Zen 5 of a store whose address comes from so many multiplications, and so many loads behind it.
fn loads_behind(multiplications: usize, loads: u16) -> f64 {
    let mut turn = Loop::default();
    turn.add(&[0x45, 0x31, 0xc9], 1); // xor r9d, r9d
    turn.add(&[0x4d, 0x0f, 0xaf, 0xc9], multiplications); // imul r9, r9
    let store = turn.add(&[0x4a, 0x89, 0x94, 0x0e, 0x00, 0x04, 0x00, 0x00], 1); // mov [rsi+r9+1024], rdx
    turn.add(&[0x48, 0x8b, 0x4e, 0x08], loads.into()); // mov rcx, [rsi+8]
    turn.cycles_a_turn("zen5", 400, |_| {
        let load = |n| support::access(store + n, false, PLACE + 8);
        let store = support::access(store, true, PLACE + 1024);
        [store].into_iter().chain((1..=loads).map(load)).collect()
    })
}

/// Two of four address units take loads that go ahead of a store.
#[test]
fn on_zen_5_two_loads_a_cycle_go_ahead() {
    for (multiplications, loads, measured) in [
        (0, 32, 8.28),
        (4, 32, 10.03),
        (12, 16, 8.36),
        (12, 32, 15.69),
        (12, 48, 21.91),
    ] {
        let cycles = loads_behind(multiplications, loads);
        assert!(
            (cycles - measured).abs() <= 0.6,
            "{multiplications}, {loads}: {cycles} for {measured}"
        );
    }
}

/// Cycles a turn on Zen 5 of links of a chain through memory, one after the other, by an address that is loaded each time, and a store to another
/// place; where the load and the store of a link are says `place`, by turn and link.
fn links(links: u16, place: impl Fn(usize, u16) -> (u64, u64)) -> f64 {
    let mut turn = Loop::default();
    for _ in 0..links {
        turn.add(&[0x48, 0x8b, 0xbe, 0x00, 0x01, 0x00, 0x00], 1); // mov rdi, [rsi+256]
        turn.add(&[0x48, 0x8b, 0x47, 0x10], 1); // mov rax, [rdi+16]
        turn.add(&[0x48, 0x83, 0xc0, 0x01], 1); // add rax, 1
        turn.add(&[0x48, 0x89, 0x47, 0x10], 1); // mov [rdi+16], rax
    }
    let other = turn.add(&[0x48, 0x89, 0x96, 0x00, 0x03, 0x00, 0x00], 1); // mov [rsi+768], rdx
    turn.cycles_a_turn("zen5", 2048, |n| {
        let mut accesses = Vec::new();
        for link in 0..links {
            let (load, store) = place(n, link);
            accesses.push(support::access(4 * link, false, PLACE + 256));
            accesses.push(support::access(4 * link + 1, false, PLACE + 512 + load));
            accesses.push(support::access(4 * link + 3, true, PLACE + 512 + store));
        }
        accesses.push(support::access(other, true, PLACE + 768));
        accesses
    })
}

#[test]
fn on_zen_5_a_load_is_renamed_to_the_last_store_of_its_instructions() {
    // Another store comes in between every second time.
    let cycles = links(2, |_, _| (16, 16));
    assert!((2.0..2.6).contains(&cycles), "{cycles}");
    // Places in turn, of which the load's is the last or the last but one.
    let place = |n: usize| 64 * (n as u64 % 4);
    let cycles = links(1, |n, _| (place(n), place(n + 1)));
    assert!((1.0..2.2).contains(&cycles), "{cycles}");
    let two = |n: usize| 64 * (n as u64 % 2);
    let cycles = links(1, |n, _| (two(n), two(n)));
    assert!((cycles - 4.0).abs() < 0.3, "{cycles}");
    // Another place every eight turns is too often, every 256 is not.
    let cycles = links(1, |n, _| (two(n / 8), two(n / 8)));
    assert!((cycles - 4.0).abs() < 0.3, "{cycles}");
    let cycles = links(1, |n, _| (two(n / 256), two(n / 256)));
    assert!((1.0..1.8).contains(&cycles), "{cycles}");
}
