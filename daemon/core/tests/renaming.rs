//! Loads that rename gives the register of an older store, on Zen 5, by what their addresses are made of: chains
//! through one place, in cycles a link. The figures are the host's (docs/ZEN5.md, "Memory renaming").

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{Access, BlockId, GuestAddr, access_word, block_word};

const PLACE: u64 = 0x7000_0040;

/// An instruction of a link and what it accesses, if it does: a store, or a load.
type Line = (&'static [u8], Option<bool>);

const LOAD: Line = (&[0x48, 0x8b, 0x47, 0x10], Some(false)); // mov rax, [rdi + 16]
const ADD: Line = (&[0x48, 0x83, 0xc0, 0x10], None); // add rax, 16
const STORE: Line = (&[0x48, 0x89, 0x47, 0x10], Some(true)); // mov [rdi + 16], rax
const STORE_BY_RBX: Line = (&[0x48, 0x89, 0x43, 0x10], Some(true)); // mov [rbx + 16], rax
const MOVE: Line = (&[0x48, 0x89, 0xdf], None); // mov rdi, rbx
const OTHER: Line = (&[0x4d, 0x89, 0xee], None); // mov r14, r13
const PUSH: Line = (&[0x50], Some(true)); // push rax
const POP: Line = (&[0x58], Some(false)); // pop rax

/// Cycles a link, of so many in a loop.
fn link(cpu: &str, lines: &[Line], links: usize) -> f64 {
    let cycles = |turns: u64| {
        let all = || (0..links).flat_map(|_| lines);
        let mut code: Vec<u8> = all().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
        let back = -(code.len() as i32) - 5;
        code.push(0xe9); // jmp
        code.extend(back.to_le_bytes());
        let accesses: Vec<(u16, bool)> = all()
            .enumerate()
            .filter_map(|(index, (_, store))| Some((index as u16, (*store)?)))
            .collect();
        let mut words = Vec::new();
        for _ in 0..turns {
            words.push(block_word(BlockId(0)));
            for &(index, store) in &accesses {
                words.push(access_word(Access {
                    index,
                    store,
                    size: 8,
                    address: GuestAddr(PLACE),
                }));
            }
        }
        let blocks = [(0x1000, (all().count() + 1) as u16, code)];
        support::run(cpu, Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    let (turns, before) = (100, 50);
    (cycles(before + turns) - cycles(before)) as f64 / (turns as usize * links) as f64
}

fn assert_near(measured: f64, lines: &[Line], links: usize) {
    let cycles = link("zen5", lines, links);
    let off = (cycles / measured - 1.0).abs();
    assert!(off < 0.04, "{links} links: {cycles} and {measured}");
}

/// 600 of them as well on the host.
#[test]
fn addresses_of_one_register_that_is_not_written_are_known() {
    assert_near(1.0, &[LOAD, ADD, STORE], 64);
    assert_near(1.0, &[PUSH, POP, ADD], 64);
}

#[test]
fn some_other_loads_are_learnt() {
    assert_near(1.0, &[MOVE, LOAD, ADD, STORE], 16);
    assert_near(7.94, &[MOVE, LOAD, ADD, STORE], 64);
    assert_near(1.0, &[LOAD, ADD, STORE_BY_RBX], 16);
    assert_near(7.94, &[LOAD, ADD, STORE_BY_RBX], 64);
}

/// The register's next writer must not be near.
#[test]
fn a_register_that_is_written_soon_is_not_known() {
    let mut lines = vec![MOVE, STORE, LOAD, ADD];
    assert_near(7.95, &lines, 50);
    lines.extend([OTHER; 6]);
    let cycles = link("zen5", &lines, 50);
    assert!(cycles < 1.8, "{cycles}");
}
