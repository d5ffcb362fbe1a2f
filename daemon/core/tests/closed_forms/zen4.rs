//! Blocks in loops that were measured on Zen 4 (docs/ZEN4.md), each the experiment that showed a mechanism.

use super::*;

#[track_caller]
fn as_measured(tolerance: f64, blocks: &[(&str, f64, &str)]) {
    in_loops("zen4", |_| tolerance, blocks);
}

/// Lines of the op cache in loops with `dec r15; jnz`: moves that are eliminated, and no-operations with 32 bits of
/// displacement.
#[test]
fn nine_entries_eight_constants_and_a_line_a_cycle() {
    as_measured(
        0.01,
        &[
            (
                "89c889c889c889c889c889c889c889c849ffcf75eb",
                1.50,
                "8 moves",
            ),
            (
                "89c889c889c889c889c889c889c889c889c849ffcf75e9",
                2.00,
                "9 moves",
            ),
            (
                "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75d7",
                3.16,
                "18 moves",
            ),
            (
                "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75c7",
                4.50,
                "26 moves",
            ),
            (
                "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75c5",
                5.00,
                "27 moves",
            ),
            (
                "0f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f84000000000049ffcf75c3",
                1.33,
                "7 constants",
            ),
            (
                "0f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f84000000000049ffcf75bb",
                2.00,
                "8 constants",
            ),
            (
                "0f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f84000000000049ffcf7583",
                2.66,
                "15 constants",
            ),
            (
                "0f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f8400000000000f1f84000000000049ffcf0f8577ffffff",
                3.00,
                "16 constants",
            ),
        ],
    );
}

/// No-operations in loops of six macro-ops a cycle.
#[test]
fn a_no_operation_goes_with_what_is_before_it() {
    as_measured(
        0.01,
        &[
            (
                "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75dd",
                1.00,
                "10 no-operations of four bytes",
            ),
            (
                "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75d7",
                1.17,
                "12 no-operations of four bytes",
            ),
            (
                "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75cb",
                1.50,
                "16 no-operations of four bytes",
            ),
            (
                "89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca8b3b0f1f80000000008b3b0f1f800000000049ffcf75cb",
                3.00,
                "behind loads",
            ),
            (
                "89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca8bbb45230100662e0f1f8400000000008bbb45230100662e0f1f84000000000049ffcf75bd",
                3.33,
                "more than 15 bytes",
            ),
            (
                "89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89ca89cac5f058c290c5f058c29049ffcf75d3",
                3.33,
                "behind vectors",
            ),
        ],
    );
}

/// Which of the four ALUs.
#[test]
fn what_has_many_inputs_stays_with_its_address_unit() {
    as_measured(
        0.01,
        &[
            (
                "40383340383340383340383340383349ffcf75ec",
                1.67,
                "cmp [rbx], sil",
            ),
            (
                "807b0807807b0807807b0807807b0807807b080749ffcf75e7",
                2.00,
                "cmp byte [rbx+8], 7",
            ),
            (
                "4038340b4038340b4038340b4038340b4038340b49ffcf75e7",
                2.00,
                "cmp [rbx+rcx], sil",
            ),
            (
                "8d3c118d3c118d3c118d3c114889430849ffcf75eb",
                1.25,
                "four lea, mov [rbx+8], rax",
            ),
            (
                "8d3c118d3c118d3c118d3c114889040b49ffcf75eb",
                1.50,
                "four lea, mov [rbx+rcx], rax",
            ),
            (
                "8d3c118d3c118d3c118d3c11c743080700000049ffcf75e8",
                1.50,
                "four lea, mov dword [rbx+8], 7",
            ),
            (
                "8d3c118d3c118d3c118d3c11c643080749ffcf75eb",
                1.25,
                "four lea, mov byte [rbx+8], 7",
            ),
            (
                "4d8d53054d8d53054d8d53054d8d530542c60403054d8d53054d8d53054d8d53054d8d530542c60403054d8d53054d8d53054d8d53054d8d530542c60403054d8d53054d8d53054d8d53054d8d530542c604030549ffcf75a7",
                5.27,
                "four lea, mov byte [rbx+r8], 5, four times",
            ),
            (
                "4d8d53054d8d53054d8d53054d8d530566c7430805004d8d53054d8d53054d8d53054d8d530566c7430805004d8d53054d8d53054d8d53054d8d530566c7430805004d8d53054d8d53054d8d53054d8d530566c74308050049ffcf75a3",
                4.28,
                "mov word [rbx+8], 5 in its place",
            ),
            ("84c084c084c084c084c084c084c049ffcf75ed", 2.00, "seven test"),
            (
                "4889e04889e04889e04889e04889e04889e04889e04889e049ffcf75e3",
                2.25,
                "mov rax, rsp",
            ),
            (
                "4889e84889e84889e84889e84889e84889e84889e84889e849ffcf75e3",
                1.50,
                "mov rax, rbp",
            ),
        ],
    );
}

/// Stores of immediates of 32 bits and more take an ALU without a displacement, too.
#[test]
fn a_store_of_a_wide_immediate_takes_an_alu() {
    as_measured(
        0.02,
        &[(
            "4d8d53054d8d53054d8d53054d8d5305c703050000004d8d53054d8d53054d8d53054d8d5305c703050000004d8d53054d8d53054d8d53054d8d5305c703050000004d8d53054d8d53054d8d53054d8d5305c7030500000049ffcf75a3",
            5.34,
            "four lea, mov dword [rbx], 5, four times",
        )],
    );
}

/// Whoever has the stack pointer as an operand takes a slot more for it, one of these a cycle, and two ALUs where something has moved
/// it before; moves, addresses and `lea` of it alone do not (docs/ZEN4.md, "The stack pointer").
#[test]
fn the_stack_pointer_as_an_operand_takes_a_slot() {
    as_measured(
        0.02,
        &[
            (
                "4983c5009090909090909090909049ffcf75ed",
                1.17,
                "add r13, 0, ten nop",
            ),
            (
                "4883c4009090909090909090909049ffcf75ed",
                1.35,
                "add rsp, 0, ten nop",
            ),
            (
                "4883c4009090909090909090909090909090909090909090909049ffcf75e1",
                2.35,
                "add rsp, 0, 22 nop",
            ),
            (
                "4883c4004d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530549ffcf75d7",
                2.51,
                "add rsp, 0, eight lea",
            ),
            (
                "4885e44885e44885e44885e44885e44885e44885e44885e449ffcf75e3",
                8.02,
                "eight test rsp, rsp",
            ),
            (
                "48892348892348892348892348892348892348892348892349ffcf75e3",
                8.02,
                "eight mov [rbx], rsp",
            ),
            (
                "4889e09090909090909090909049ffcf75ee",
                1.17,
                "mov rax, rsp, ten nop",
            ),
            (
                "488d4424089090909090909090909049ffcf75ec",
                1.17,
                "lea rax, [rsp+8], ten nop",
            ),
            (
                "488d04349090909090909090909049ffcf75ed",
                1.34,
                "lea rax, [rsp+rsi], ten nop",
            ),
            (
                "554885e45d9090909090909090909049ffcf75ec",
                1.68,
                "push, test rsp, rsp, pop, ten nop",
            ),
            (
                "55488b4424085d9090909090909090909049ffcf75ea",
                1.51,
                "push, mov rax, [rsp+8], pop, ten nop",
            ),
            (
                "554883ec184d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054883c4185d49ffcf759d",
                6.51,
                "push, sub, 21 lea, add, pop",
            ),
            (
                "554883ec184d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054883c4185d49ffcf7595",
                7.02,
                "with 23 lea",
            ),
            (
                "554883ec184d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054883c4185d49ffcf758d",
                7.51,
                "with 25 lea",
            ),
            (
                "554d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53055d49ffcf75a1",
                5.77,
                "push, 22 lea, pop",
            ),
        ],
    );
    // One ALU here, for which the last `push` is directly before.
    as_measured(
        0.03,
        &[(
            "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53056a054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53056a054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53056a054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53056a054883c42049ffcf758f",
            7.78,
            "six lea, push 5, four times, add rsp, 32",
        )],
    );
}

/// Stores at these displacements, which are written one after the other.
#[test]
fn stores_to_the_same_32_bytes_are_written_together() {
    as_measured(
        0.01,
        &[
            ("890389530449ffcf75f6", 1.00, "0, 4"),
            ("89431c891349ffcf75f6", 1.00, "28, 0"),
            ("890389532049ffcf75f6", 2.00, "0, 32"),
            ("890389534049ffcf75f6", 2.00, "0, 64"),
            ("8943208913897324897b0449ffcf75f0", 4.00, "32, 0, 36, 4"),
            ("8903895304897320897b2449ffcf75f0", 2.00, "0, 4, 32, 36"),
            ("890389530889730449ffcf75f3", 1.50, "0, 8, 4"),
        ],
    );
}

/// Through memory.
#[test]
fn loads_alone_and_updates_are_renamed_and_others_wait() {
    as_measured(
        0.12,
        &[
            ("488b034883c00148890349ffcf75f1", 1.00, "a load alone"),
            ("83030149ffcf75f8", 1.00, "an update"),
            ("0303890349ffcf75f7", 7.91, "a load that computes"),
            ("0f11030f100349ffcf75f5", 9.05, "vectors"),
            ("4889038b430449ffcf75f5", 6.20, "another place"),
            ("884301488b0349ffcf75f5", 18.99, "in part"),
            (
                "884301488b03884341488b434049ffcf75ee",
                37.98,
                "in part, twice",
            ),
            ("f00fb10b870a49ffcf75f5", 16.85, "locked"),
        ],
    );
}

/// Code that goes straight on comes from the decoders: 16 bytes or four instructions a cycle, on average.
#[test]
fn a_load_with_a_scaled_index_takes_a_cycle_longer() {
    as_measured(
        0.02,
        &[
            (
                "81e1f8000000418b0c0a49ffcf75f1",
                5.06,
                "and; mov ecx, [r10+rcx]",
            ),
            (
                "81e1f8000000418b0c8a49ffcf75f1",
                6.01,
                "and; mov ecx, [r10+rcx*4]",
            ),
            (
                "81e1f0000000410f28048a660f7ec149ffcf75ec",
                11.0,
                "a vector, and back",
            ),
            (
                "0fb60a31c1c1e8080fb6c94133048a49ffcf75ec",
                8.07,
                "a table of a checksum",
            ),
        ],
    );
}

#[test]
fn straight_code_is_decoded_by_16_bytes_or_four_instructions() {
    let zen4 = cpu("zen4").unwrap();
    for (hex, measured) in [
        ("488b742428488b7c24204839fe", 0.82), // 13 bytes, three instructions
        ("0f1f840000000000", 0.50),
        ("89c8", 0.25),
        ("8b5a20488d7a1883fb40", 0.75), // 10 bytes, three instructions
    ] {
        near(cycles(&zen4, Mode::Unrolled, hex), measured, 0.01, hex);
    }
}

/// Two pairs a cycle: comparisons with their jumps on one ALU or beside the ALUs, whether they are taken or not; operations
/// that write a register on an ALU.
#[test]
fn comparisons_with_jumps_go_beside_the_alus() {
    as_measured(
        0.05,
        &[
            (
                "4885c074004885db4885db49ffcf75f0",
                1.00,
                "a pair that is not taken and two tests",
            ),
            (
                "4885c074004885c074004885c074004885c074004885db4885db4885db4885db49ffcf75db",
                2.50,
                "four and four tests",
            ),
            (
                "4885c074004885c074004885c074004885c074004885c074004885c074004885c074004885c0740049ffcf75d3",
                4.50,
                "eight",
            ),
            (
                "4885db4885db4885db49ffcf4d85ff75ef",
                1.00,
                "the pair that is taken beside four ALUs",
            ),
            (
                "4885db4885db4885db4885db4885db4885db49ffcf4d85ff75e6",
                1.75,
                "six tests, one more with the count",
            ),
            (
                "807e08077400807e08077400807e08077400807e0807740049ffcf75e3",
                2.50,
                "four comparisons with memory",
            ),
            (
                "4801d874004885db4885db4885db4885db4885db4885db4801d974004885db4885db4885db4885db4885db4885db4801da74004885db4885db4885db4885db4885db4885db4801dd74004885db4885db4885db4885db4885db4885db49ffcf759f",
                7.25,
                "four that write a register, apart",
            ),
        ],
    );
}

/// A store and a load of the same bytes, with what brings the value back to the store.
#[test]
fn stores_reach_loads_by_width_and_kind() {
    as_measured(
        0.02,
        &[
            (
                "488903c57a7e3bc461f97ef849ffcf75ef",
                11.00,
                "general to vector, and back by `vmovq`",
            ),
            (
                "c579d63b488b03c461f96ef849ffcf75ef",
                10.00,
                "vector to general",
            ),
            (
                "c57c113b488b03c461f96ef849ffcf75ef",
                11.00,
                "32 bytes to general",
            ),
            ("c578113bc57a7e3b49ffcf75f3", 9.00, "16 bytes to 8"),
            ("c57c113bc578107b1049ffcf75f2", 10.00, "32 to 16"),
            ("62717c48113bc57c103b49ffcf75f1", 10.00, "64 to 32"),
            ("62717c48113b62717c48103b49ffcf75ef", 12.10, "64 to 64"),
            (
                "62717c48113b62717448583b49ffcf75ef",
                15.00,
                "64 to an addition",
            ),
            ("c57c113bc574583b49ffcf75f3", 13.00, "32 to an addition"),
            (
                "62717c48113b62717548ef3b49ffcf75ef",
                13.07,
                "64 to an exclusive or",
            ),
        ],
    );
}

/// What is loaded is put among the elements that stay, a cycle, with the mask as an input.
#[test]
fn loads_under_a_mask_take_an_operation() {
    as_measured(
        0.02,
        &[
            ("c578113b62717c09283b49ffcf75f1", 10.00, "16 bytes"),
            ("c57c113b62717ca9283b49ffcf75f1", 11.00, "32 bytes"),
            ("62717c48113b62717c49283b49ffcf75ef", 13.07, "64 bytes"),
            (
                "6271ff4a6f03c441f97ec5c4c17b92d549ffcf75eb",
                10.00,
                "the mask is waited for",
            ),
        ],
    );
}

/// No load takes its bytes from the store.
#[test]
fn what_is_stored_under_a_mask_is_loaded_once_it_is_written() {
    as_measured(
        0.02,
        &[
            ("62717c09113bc578283b49ffcf75f1", 21.00, "16 bytes"),
            ("62717c49113b62717c48283b49ffcf75ef", 23.00, "64 bytes"),
            (
                "62717c09113b488b03c461f96ef849ffcf75ed",
                22.00,
                "to general",
            ),
            (
                "62717c49113bc5f8101bc5f810631049ffcf75ec",
                19.00,
                "needed by nothing",
            ),
        ],
    );
}

/// A load and a store that both have their address in the instruction, beside those by a register.
#[test]
fn constant_addresses_are_not_renamed() {
    as_measured(
        0.02,
        &[
            (
                "48891c2508563412488b1c250856341249ffcf75eb",
                6.00,
                "by a constant",
            ),
            ("48894308488b430849ffcf75f3", 1.00, "by a register"),
            ("ff0649ffcf75f9", 1.00, "32 bits"),
        ],
    );
}

/// Two chains of sixteen multiplications each, and what waits for them: `instruction` of register 8 + n, and of rax or rbx (bit 0).
fn chains_and_waiting(count: u8, instruction: impl Fn(u8, bool) -> String) -> String {
    let chain = |multiplication: &str, to_integer: &str, second: bool| {
        let waiting: String = (0..count).map(|n| instruction(n % 4, second)).collect();
        multiplication.repeat(16) + to_integer + &waiting
    };
    // vmulpd xmm0, xmm0, xmm0; vmovq rax, xmm0; the same of xmm1 and rbx
    chain("c5f959c0", "c4e1f97ec0", false) + &chain("c5f159c9", "c4e1f97ecb", true)
}

/// While what waits fits into the schedulers the chains overlap, 48 cycles; else they come one after the other. Measured where
/// each is well within or beyond: one scheduler of 24 entries takes multiplications, two take shifts, four additions.
#[test]
fn each_alu_has_a_scheduler_of_24_entries() {
    let zen4 = cpu("zen4").unwrap();
    let imul = |r: u8, b: bool| format!("4c0faf{:02x}", 0xc0 | r << 3 | if b { 3 } else { 0 });
    let shlx = |r: u8, b: bool| {
        let vvvv = if b { "e1" } else { "f9" };
        format!("c462{vvvv}f7{:02x}", 0xc6 | r << 3)
    };
    let add = |r: u8, b: bool| format!("4901{:02x}", 0xc0 | r | if b { 3 << 3 } else { 0 });
    let blocks = [
        (8, 48.0, chains_and_waiting(8, imul)),
        (20, 75.0, chains_and_waiting(20, imul)),
        (28, 125.9, chains_and_waiting(28, imul)),
        (44, 81.0, chains_and_waiting(44, shlx)),
        (48, 119.9, chains_and_waiting(48, shlx)),
        (72, 74.1, chains_and_waiting(72, add)),
        (100, 124.9, chains_and_waiting(100, add)),
    ];
    for (count, measured, block) in blocks {
        let got = cycles(&zen4, Mode::Unrolled, &block);
        near(got, measured, 0.08, &format!("{count} wait"));
    }
}

#[test]
fn divisions_and_roots_of_floats_share_a_divider() {
    as_measured(
        0.04,
        &[
            ("c5e25ed4c5e35ed449ffcf75f3", 7.99, "of two widths"),
            ("c5f251c1c5e25ed449ffcf75f3", 7.99, "a root and a division"),
            ("c5e05ed4c5e25ed449ffcf75f3", 6.00, "a vector and one"),
            ("c5f55ed4c5e25ed449ffcf75f3", 8.00, "a wide vector and one"),
        ],
    );
}

#[test]
fn what_a_store_with_an_index_takes_an_alu_for_is_not_its_data() {
    as_measured(
        0.02,
        &[
            ("8b0c9783c101890c9749ffcf75f2", 1.00, "renamed, indexed"),
            ("8b0f83c101890f49ffcf75f4", 1.00, "renamed"),
        ],
    );
}

/// Of operations on ALUs that issue together each has an ALU of its own; what finds none takes the next cycle, with all that
/// follows.
#[test]
fn four_operations_on_alus_issue_in_a_cycle() {
    as_measured(
        0.05,
        &[
            (
                "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee74d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee74d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee74d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee749ffcf0f8513ffffff",
                10.03,
                "four times eight `lea` and five vector additions",
            ),
            (
                "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee766410ffeef4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee766410ffeef4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee766410ffeef4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d530566410ffec766410ffecf66410ffed766410ffedf66410ffee766410ffeef49ffcf0f85dffeffff",
                12.36,
                "four times ten and six",
            ),
            (
                "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305498b0424498b442408498b442410498b442418498b4424204d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305498b0424498b442408498b442410498b442418498b4424204d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305498b0424498b442408498b442410498b442418498b4424204d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305498b0424498b442408498b442410498b442418498b44242049ffcf0f8517ffffff",
                10.03,
                "four times eight `lea` and five loads",
            ),
            (
                "4d8d53054d8d53054d8d5305c442f1f7c3c442f1f7cbc442f1f7c34d8d53054d8d53054d8d5305c442f1f7c3c442f1f7cbc442f1f7c34d8d53054d8d53054d8d5305c442f1f7c3c442f1f7cbc442f1f7c34d8d53054d8d53054d8d5305c442f1f7c3c442f1f7cbc442f1f7c349ffcf758f",
                8.02,
                "four times three `lea` and three shifts, which two ALUs have",
            ),
        ],
    );
}

/// Displacements, jumps' targets and immediates of the operations that issue in a cycle.
#[test]
fn six_constants_issue_in_a_cycle() {
    as_measured(
        0.01,
        &[
            (
                "837b0805837b08054c8d65054c8d6d054d89f24d89f3837b0805837b08054c8d55054c8d5d054d89f44d89f5837b0805837b08054c8d65054c8d6d054d89f24d89f3837b0805837b08054c8d55054c8d5d054d89f44d89f549ffcf75a3",
                4.28,
                "six: four times two `cmp dword [rbx+8], 5`, two `lea r, [rbp+5]` and two eliminated moves",
            ),
            (
                "837b0805837b08054c8d65054c8d6d058b4b084d89f3837b0805837b08054c8d55054c8d5d058b4b084d89f5837b0805837b08054c8d65054c8d6d058b4b084d89f3837b0805837b08054c8d55054c8d5d058b4b084d89f549ffcf75a3",
                5.01,
                "seven: a load of `[rbx+8]` in the place of one move",
            ),
            (
                "837b0805837b08054c8d65054c8d6d05c5f970dc07c5d9fedd837b0805837b08054c8d55054c8d5d05c5f970dc07c5d9fedd837b0805837b08054c8d65054c8d6d05c5f970dc07c5d9fedd837b0805837b08054c8d55054c8d5d05c5f970dc07c5d9fedd49ffcf7597",
                5.01,
                "seven: a shuffle by an immediate",
            ),
            (
                "837b0805837b08054c8d65054c8d6d05c5f970dc07c5f970dc07837b0805837b08054c8d55054c8d5d05c5f970dc07c5f970dc07837b0805837b08054c8d65054c8d6d05c5f970dc07c5f970dc07837b0805837b08054c8d55054c8d5d05c5f970dc07c5f970dc0749ffcf7593",
                5.69,
                "eight: two of these",
            ),
        ],
    );
}

/// What writes a general-purpose register from a vector unit keeps all ALUs for a cycle, the way back one.
#[test]
fn results_of_vectors_keep_the_alus() {
    as_measured(
        0.02,
        &[
            (
                "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f84d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f9d7f849ffcf0f8517ffffff",
                20.03,
                "eight times six lea, vpmovmskb edi, xmm0",
            ),
            (
                "c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f8c442c9f7d3c442c9f7d3c5f9d7f849ffcf758b",
                16.02,
                "eight times two shlx, which two ALUs have, vpmovmskb",
            ),
            (
                "4d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec64d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d53054d8d5305c5f96ec649ffcf0f85d7feffff",
                18.29,
                "eight times eight lea, vmovd xmm0, esi",
            ),
        ],
    );
}

/// Twelve multiplications, a store of the product and a load of it, with other stores between.
#[test]
fn loads_are_renamed_among_the_last_sixteen_stores() {
    as_measured(
        0.01,
        &[
            (
                "480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0488943084c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b40488b430849ffcf7587",
                36.07,
                "fifteen stores between",
            ),
            (
                "480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0480fafc0488943084c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b404c894b40488b430849ffcf7583",
                42.09,
                "sixteen stores between",
            ),
        ],
    );
}
