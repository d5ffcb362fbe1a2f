//! The stack pointer, jumps and schedulers of Zen 5 (docs/ZEN5.md).

use super::*;

/// rsp as an operand is synchronised where pushes or pops came before, also there and back; moves and `lea` of it take the offset over.
#[test]
fn the_stack_pointer_is_synchronised_for_operands() {
    in_loops(
        "zen5",
        |_| 0.06,
        &[
            (
                "504883ec184883c4185a49ffcf75f0",
                3.01,
                "push; sub rsp, 24; add rsp, 24; pop",
            ),
            (
                "50524883ec084883c4085a5849ffcf75ee",
                3.01,
                "push; push; sub rsp, 8; add rsp, 8; pop; pop",
            ),
            (
                "504839dc5a504839dc5a504839dc5a49ffcf75ec",
                3.01,
                "push; cmp rsp, rbx; pop, three times",
            ),
            (
                "504885e45a504885e45a504885e45a49ffcf75ec",
                3.01,
                "push; test rsp, rsp; pop, three times",
            ),
            (
                "504889e15a504889e15a504889e15a49ffcf75ec",
                1.53,
                "push; mov rcx, rsp; pop, three times",
            ),
            (
                "50488d4c24085a50488d4c24085a50488d4c24085a49ffcf75e6",
                1.53,
                "push; lea rcx, [rsp+8]; pop, three times",
            ),
            (
                "50488d64240850488d64240850488d64240850488d64240849ffcf75e3",
                4.01,
                "push; lea rsp, [rsp+8], four times",
            ),
            (
                "4889e14889e14889e14889e14889e14889e14889e14889e149ffcf75e3",
                1.54,
                "mov rcx, rsp, eight times",
            ),
        ],
    );
}

/// Loads that have started keep their room in the scheduler for three cycles, so that fewer can be found behind those that wait for
/// another load: without, 1.38, 1.75, 1.50 and 1.50.
#[test]
fn loads_keep_their_entries_for_some_cycles() {
    in_loops(
        "zen5",
        |_| 0.06,
        &[
            (
                "488b034c8b68084c8b68084c8b68084c8b680849ffcf75e8",
                1.49,
                "a load and four that depend on it",
            ),
            (
                "488b034c8b68084c8b68084c8b68084c8b68084c8b680849ffcf75e4",
                1.83,
                "a load and five",
            ),
            (
                "488b034c8b68084c8b6808488b0b4c8b69084c8b690849ffcf75e5",
                1.69,
                "a load and two, twice",
            ),
            (
                "488b034c8b6808488b0b4c8b6908488b134c8b6a0849ffcf75e6",
                1.55,
                "a load and one, three times",
            ),
        ],
    );
}

/// What ALUs, addresses and vectors have to wait in is apart from each other: cycles of a chain of 24 multiplications, so many
/// operations that wait for it, and another chain.
#[test]
fn loads_that_wait_have_a_scheduler_of_56_entries() {
    // mov r10, [rax + rbx]; vpaddd xmm2, xmm1, xmm3; lea r10, [rax + 8]
    let load = ("", "4c8b1418");
    let vector = ("c4e1f96ec8", "c5f1fed3");
    let add = ("", "4c8d5008");
    let cycles = |(before, waits): (&str, &str), n: usize| {
        // lfence; mov rax, r8; imul rax, rax 24 times; ...; mov rcx, r8; imul rcx, rcx 24 times
        let text = format!(
            "0faee84c89c0{}{before}{}4c89c1{}",
            "480fafc0".repeat(24),
            waits.repeat(n),
            "480fafc9".repeat(24),
        );
        let block = Block::new(&cpu("zen5").unwrap(), &bytes(&text)).unwrap();
        let filled = Options {
            init: Init::Filled,
            ..options(Mode::Unrolled)
        };
        block.predict(filled).cycles
    };
    for (what, fit, do_not) in [(load, 55, 64), (vector, 160, 180), (add, 56, 88)] {
        let (few, many) = (cycles(what, fit), cycles(what, do_not));
        assert!(many - few > 30.0, "{what:?}: {few} and {many}");
        let fewer = cycles(what, fit - 16);
        assert!(few - fewer < 12.0, "{what:?}: {fewer} and {few}");
    }
}

/// The start of a loop of several lines is read with its end if it takes two lines of the op cache, and not if it takes one.
#[test]
fn a_loop_of_several_lines_starts_with_its_end_if_it_takes_two_lines_of_the_op_cache() {
    in_loops(
        "zen5",
        |_| 0.03,
        &[
            (
                "666666666666660f1f840000000000666666666666660f1f840000000000666666666666660f1f840000000000666666666666660f1f8400000000000f1f40000f1f8400000200000f1f84000002000049ffcf75ab",
                2.00,
                "a line of five and two more",
            ),
            (
                "6666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f840000000000660f1f8400000000000f1f8400000200000f1f84000002000049ffcf75ab",
                2.00,
                "a line of six and two more",
            ),
            (
                "0f1f80000000000f1f80000000000f1f80000000000f1f8000000000660f1f440000660f1f440000660f1f440000660f1f440000660f1f440000660f1f4400000f1f8400000200000f1f84000002000049ffcf75ab",
                1.63,
                "a line of ten and two more",
            ),
            (
                "6666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f840000000000660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f8400000000006666660f1f840000000000660f1f8400000000000f1f8400000200000f1f84000002000049ffcf0f8567ffffff",
                3.00,
                "two lines of six and two more",
            ),
            (
                "0f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f84000002000049ffcf0f8567ffffff",
                2.38,
                "two lines of eight and two more",
            ),
            (
                "0f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f8400000200000f1f84000002000049ffcf75ab",
                2.00,
                "a line of eight and two more",
            ),
        ],
    );
}

/// A load behind stores by the same address, which has just been made, starts behind those: four addresses a cycle.
#[test]
fn addresses_of_stores_are_made_by_all_four_units() {
    in_loops(
        "zen5",
        |_| 0.6,
        &[
            (
                "4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb498909498949084989491049894918498949204989492849894930498949384d8b890002000049ffcf75b5",
                29.57,
                "eight stores",
            ),
            (
                "4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb4d0fafcb498909498949084989491049894918498949204989492849894930498949384989094989490849894910498949184989492049894928498949304989493849890949894908498949104989491849894920498949284989493049894938498909498949084989491049894918498949204989492849894930498949384d8b890002000049ffcf0f8554ffffff",
                35.79,
                "32 stores",
            ),
        ],
    );
}

/// More stores start than are written, two a cycle: their buffer fills, which takes hundreds of cycles.
#[test]
fn iterations_wait_for_stores_that_pile_up() {
    in_loops(
        "zen5",
        |_| 0.05,
        &[
            (
                "4883c608488d44dd0049892c244989742408498944241049ffcf75e4",
                1.54,
                "three stores",
            ),
            ("488906488946084889461048894618ffcf75ed", 2.0, "four stores"),
        ],
    );
}
