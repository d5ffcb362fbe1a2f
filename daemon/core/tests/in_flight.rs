//! How many instructions are in flight, by the distance method: a chain of square roots, instructions of one kind, and a
//! chain of multiplications, which begins before the first has ended if what is between them finds room. The
//! probes `integer-registers`, `vector-registers`, `flags` and `load-queue` do the same natively.

mod support;

use mcad_isa::machine;
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

const ROOTS: usize = 16;
const PRODUCTS: usize = 30;
const TURNS: usize = 12;
const PLACE: u64 = 0x7000_0040;

/// `lea r9d, [rdi+1]`, `vpaddd xmm2, xmm3, xmm3`, `cmp r9d, r10d`, `mov r9, [rdi+64]`.
const INTEGER: &[u8] = &[0x44, 0x8d, 0x4f, 0x01];
const VECTOR: &[u8] = &[0xc5, 0xe1, 0xfe, 0xd3];
const FLAGS: &[u8] = &[0x45, 0x39, 0xd1];
const LOAD: &[u8] = &[0x4c, 0x8b, 0x4f, 0x40];
/// `movq r8, xmm0; mov r8, [rdi+r8]`: a load that waits for the square roots.
const AWAITED_LOAD: &[&[u8]] = &[&[0x66, 0x49, 0x0f, 0x7e, 0xc0], &[0x4e, 0x8b, 0x04, 0x07]];

/// Cycles a turn with so many of `filler` between the chains, behind `first`, of which `loads` in a turn load.
fn turn(cpu: &str, first: &[&[u8]], filler: &[u8], number: usize, loads: usize) -> u64 {
    let instructions = [&[0x0f, 0xae, 0xe8][..]] // lfence
        .into_iter()
        .chain([&[0x66, 0x0f, 0x51, 0xc0][..]; ROOTS]) // sqrtpd xmm0, xmm0
        .chain(first.iter().copied())
        .chain(std::iter::repeat_n(filler, number))
        .chain([&[0x48, 0x0f, 0xaf, 0xc0][..]; PRODUCTS]); // imul rax, rax
    let mut code: Vec<u8> = Vec::new();
    let mut count = 0;
    for instruction in instructions {
        code.extend(instruction);
        count += 1;
    }
    code.extend([0x48, 0xff, 0xcf, 0x0f, 0x85]); // dec rdi; jnz
    let back = -(code.len() as i32) - 4;
    code.extend(back.to_le_bytes());
    let blocks = [(0x1000, count + 2, code)];
    let first_load = (1 + ROOTS + 1) as u16 - u16::from(first.is_empty());
    let cycles = |turns: usize| {
        let mut words = Vec::new();
        for _ in 0..turns {
            words.push(block_word(BlockId(0)));
            words.extend((0..loads).map(|n| support::access(first_load + n as u16, false, PLACE)));
        }
        support::run(cpu, Arch::X86_64, &blocks, &words).cpus[0].cycles
    };
    (cycles(2 * TURNS) - cycles(TURNS)) / TURNS as u64
}

/// The least number of instructions at which the second chain begins when the first has ended; all retire behind
/// that.
fn step(
    cpu: &str,
    turn: impl Fn(usize) -> u64,
    (mut fits, mut does_not): (usize, usize),
) -> Result<usize, Box<dyn std::error::Error>> {
    let width = u64::from(machine::cpu(cpu)?.core.retire.width);
    let empty = turn(0);
    let together = |number| turn(number) < empty + number as u64 / width + PRODUCTS as u64;
    assert!(together(fits), "{cpu}: {fits} instructions do not fit");
    assert!(!together(does_not), "{cpu}: {does_not} instructions fit");
    while does_not - fits > 1 {
        let middle = fits.midpoint(does_not);
        match together(middle) {
            true => fits = middle,
            false => does_not = middle,
        }
    }
    Ok(does_not)
}

/// Slots of a group, for which there has to be room at once, and what else a turn has.
const BESIDE: usize = 10;

/// Checks that the step is at `most`, less what the chains have of the same kind.
fn check(cpu: &str, what: &str, step: usize, most: u32, chains: usize) {
    let most = most as usize;
    assert!(
        (most - chains - BESIDE..=most + 2).contains(&step),
        "{cpu}: {step} instructions that take {what}, of which there are {most}",
    );
}

#[test]
fn registers_in_flight_are_as_many_as_the_file_says() -> Result<(), Box<dyn std::error::Error>> {
    for cpu in ["snb", "skl", "icl", "glc", "zen1", "zen3", "zen4"] {
        let p = machine::cpu(cpu)?.core.rename.clone();
        let at = |filler: &'static [u8], most: u32| {
            let most = most as usize;
            step(
                cpu,
                |number| turn(cpu, &[], filler, number, 0),
                (most / 2, most + 40),
            )
        };
        check(
            cpu,
            "integer registers",
            at(INTEGER, p.integer_registers)?,
            p.integer_registers,
            PRODUCTS,
        );
        check(
            cpu,
            "vector registers",
            at(VECTOR, p.vector_registers)?,
            p.vector_registers,
            ROOTS,
        );
        if p.flags_take_registers {
            check(
                cpu,
                "flags",
                at(FLAGS, p.integer_registers)?,
                p.integer_registers,
                PRODUCTS,
            );
        }
    }
    Ok(())
}

#[test]
fn loads_in_flight_are_as_many_as_the_file_says() -> Result<(), Box<dyn std::error::Error>> {
    for cpu in ["snb", "hsw", "skl", "icl", "glc"] {
        let most = machine::cpu(cpu)?.core.rename.load_queue;
        let at = step(
            cpu,
            |number| turn(cpu, &[], LOAD, number, number),
            (most as usize / 2, most as usize + 40),
        )?;
        check(cpu, "entries of the load queue", at, most, 0);
    }
    Ok(())
}

/// 88 start, and the others wait in the schedulers, which hold some more here than natively, where 144 do not fit and 128 do.
#[test]
fn zen_4s_loads_wait_in_their_schedulers_when_88_have_started()
-> Result<(), Box<dyn std::error::Error>> {
    let at = step(
        "zen4",
        |number| turn("zen4", AWAITED_LOAD, LOAD, number, number + 1),
        (88, 200),
    )?;
    assert!((129..=190).contains(&at), "{at} loads do not fit");
    // Behind square roots alone, which are no loads, they leave.
    let registers = step(
        "zen4",
        |number| turn("zen4", &[], LOAD, number, number),
        (88, 240),
    )?;
    assert!(
        (170..=202).contains(&registers),
        "{registers} loads do not fit"
    );
    Ok(())
}
