//! Blocks in loops that were measured on Zen (docs/ZEN1.md), each the experiment that showed a mechanism.

use super::*;

#[track_caller]
fn as_measured(blocks: &[(&str, f64, &str)]) {
    in_loops("zen1", |measured| 0.01 + 0.01 * measured, blocks);
}

/// Instructions, slots and lines of the op cache, in loops with `dec r15; jnz`, which are not fused.
#[test]
fn issue_takes_five_instructions_or_six_slots() {
    as_measured(&[
        (
            "4889d84889d84889d84889d849ffcf75ef",
            1.20,
            "4 moves, six instructions",
        ),
        (
            "4889d84889d84889d84889d84889d84889d849ffcf75e9",
            1.60,
            "6 moves",
        ),
        (
            "4889d84889d84889d84889d84889d84889d84889d849ffcf75e6",
            2.00,
            "7 moves, two lines",
        ),
        (
            "4889d84889d84889d84889d84889d84889d84889d84889d84889d84889d84889d84889d84889d849ffcf75d4",
            3.00,
            "13 moves",
        ),
        (
            "909090909090909090909090909090909090909049ffcf75e7",
            4.40,
            "20 no-operations",
        ),
        (
            "c5fc28c14889d84889d1c5fc28c14889d84889d1c5fc28c14889d84889d1c5fc28c14889d84889d1c5fc28c14889d84889d1c5fc28c14889d84889d149ffcf75bf",
            4.33,
            "6 moves of two slots and 12 of one",
        ),
        (
            "31c031c031c031c031c031c049ffcf75ef",
            2.00,
            "six idioms on ALUs",
        ),
    ]);
}

/// Chains through memory, and loads and stores that share two address units.
#[test]
fn nothing_is_renamed_in_memory() {
    as_measured(&[
        ("488903488b0349ffcf75f5", 7.00, "store and load"),
        ("505849ffcf75f9", 7.00, "push and pop"),
        ("4883030149ffcf75f7", 7.00, "update"),
        ("488b03488b4b084889531049ffcf75f0", 1.50, "three addresses"),
    ]);
}

/// Chains of a load and two cycles: what takes a cycle more until an address is there.
#[test]
fn addresses_of_three_parts_take_a_cycle_more() {
    as_measured(&[
        ("488b400883e0004801d849ffcf75f1", 6.00, "[rax + 8]"),
        ("488b043883e0004801d849ffcf75f1", 6.00, "[rax + rdi]"),
        ("488b04f883e0004801d849ffcf75f1", 7.00, "[rax + 8*rdi]"),
        ("488b44380883e0004801d849ffcf75f0", 7.00, "[rax + rdi + 8]"),
        (
            "488b04050001000083e0004801d849ffcf75ed",
            7.00,
            "[1*rax + 256]",
        ),
    ]);
}

/// Stores, each written alone.
#[test]
fn a_part_of_a_word_is_read_again() {
    as_measured(&[
        (
            "c603014889434049ffcf75f4",
            5.00,
            "a byte and a store elsewhere",
        ),
        ("c603014889434048898b8000000049ffcf75ed", 6.00, "and two"),
        (
            "c6030148894b4048898b8000000048898bc000000049ffcf75e6",
            4.00,
            "and three: it is read behind its last writing",
        ),
        (
            "c60301c6430101c6430201c643030149ffcf75ec",
            4.00,
            "four bytes of a word",
        ),
        (
            "c60301c6430101c6430201c64303014889434049ffcf75e8",
            8.00,
            "and a store elsewhere",
        ),
        (
            "c603014889034889434049ffcf75f1",
            6.00,
            "eight bytes over it do not make up for it",
        ),
        ("0f11430849ffcf75f7", 2.00, "over the end of 16 bytes"),
        ("0f1143014889434049ffcf75f3", 6.00, "and of a word"),
        ("0f1143010f11434149ffcf75f3", 4.00, "two of these"),
    ]);
}

/// Scalar results that keep the elements above them.
#[test]
fn scalars_wait_for_nothing_above_them() {
    as_measured(&[
        (
            "f20f2ad0f20f59d549ffcf75f3",
            1.00,
            "converted anew each turn",
        ),
        ("f30f51d1f30f59d549ffcf75f3", 4.00, "rooted anew"),
    ]);
}

/// 256 bits, and what `lea` takes.
#[test]
fn halves_take_units_of_their_own() {
    as_measured(&[
        (
            "c5f5fec2c5ddfeddc4c145fef049ffcf75ee",
            2.00,
            "six halves on three units",
        ),
        ("488d44c50049ffcf75f6", 2.00, "lea of a scaled index"),
    ]);
}
