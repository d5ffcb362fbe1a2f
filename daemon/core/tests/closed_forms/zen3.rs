//! Blocks in loops that were measured on Zen 3 (docs/ZEN3.md), each the experiment that showed a mechanism.

use super::*;

#[track_caller]
fn as_measured(blocks: &[(&str, f64, &str)]) {
    in_loops("zen3", |measured| 0.01 + 0.01 * measured, blocks);
}

/// Lines of the op cache in loops with `dec r15; jnz`: entries and constants, the jump's among them.
#[test]
fn eight_entries_a_line_of_which_the_last_two_take_room_of_constants() {
    as_measured(&[
        ("89c889c889c889c889c889c889c849ffcf75ed", 1.33, "7 moves"),
        (
            "89c889c889c889c889c889c889c889c849ffcf75eb",
            2.00,
            "8 moves",
        ),
        (
            "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75dd",
            2.66,
            "15 moves",
        ),
        (
            "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75db",
            3.00,
            "16 moves",
        ),
        (
            "89c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c889c849ffcf75cb",
            5.00,
            "24 moves",
        ),
        (
            "0f1f8400452301000f1f8400452301000f1f8400452301000f1f8400452301000f1f8400452301000f1f8400452301000f1f84004523010049ffcf75c3",
            1.33,
            "no constants of no-operations",
        ),
        (
            "be05000000be05000000be05000000be0500000089c889c889c849ffcf75e1",
            2.00,
            "eight entries, five constants",
        ),
        (
            "be05000000be05000000be050000000f1f40400f1f40400f1f40400f1f404049ffcf75dc",
            1.33,
            "eight, four",
        ),
        (
            "8b4c244083e13f8b4c244083e13f8b4c244089c849ffcf75e7",
            1.16,
            "seven, six",
        ),
        (
            "8b4c244083e13f8b4c244083e13f8b4c244083e13f49ffcf75e6",
            2.00,
            "seven, seven",
        ),
        (
            "837c244007837c244007837c244007be0500000089c849ffcf75e5",
            1.33,
            "six, eight",
        ),
        (
            "837c244007837c244007837c244007be05000000be0500000049ffcf75e2",
            2.00,
            "six, nine",
        ),
        (
            "837c244007837c244007837c244007837c24400749ffcf75e7",
            2.00,
            "five, nine",
        ),
    ]);
}

/// No-operations of four bytes in loops of six macro-ops a cycle.
#[test]
fn no_operations_take_slots() {
    as_measured(&[
        (
            "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75dd",
            2.00,
            "10",
        ),
        (
            "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75d7",
            2.16,
            "12",
        ),
        (
            "0f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f000f1f0049ffcf75cb",
            3.00,
            "16",
        ),
    ]);
}

/// Which of the four ALUs.
#[test]
fn what_has_many_inputs_stays_with_its_address_unit() {
    as_measured(&[
        (
            "807b0807807b0807807b0807807b0807807b0807807b080749ffcf75e3",
            2.33,
            "cmp byte [rbx+8], 7",
        ),
        ("84c084c084c084c084c084c084c049ffcf75ed", 2.00, "seven test"),
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
            "4889e04889e04889e04889e04889e04889e04889e04889e049ffcf75e3",
            2.25,
            "mov rax, rsp",
        ),
    ]);
}

/// Stores to places 64 bytes apart, some of which write less than a word of four bytes.
#[test]
fn words_that_are_written_in_part_are_read_again() {
    as_measured(&[
        ("c643080149ffcf75f7", 1.00, "one byte"),
        (
            "c643080148c743480100000049ffcf75ef",
            4.98,
            "a byte and a store elsewhere",
        ),
        (
            "c643080148c743480100000048c783880000000100000049ffcf75e4",
            5.99,
            "and two elsewhere",
        ),
        (
            "c643080148c743480100000048c783880000000100000048c783c80000000100000048c783080100000100000049ffcf75ce",
            5.00,
            "and four elsewhere",
        ),
        ("c6430801c643480149ffcf75f3", 5.00, "two bytes"),
        (
            "c6430801c6434801c6838800000001c683c800000001c6830801000001c683480100000149ffcf75d7",
            5.99,
            "six bytes",
        ),
        (
            "c7430c0100000048c743480100000049ffcf75ec",
            2.00,
            "a whole word",
        ),
        (
            "c7430a0100000048c743480100000049ffcf75ec",
            5.00,
            "two halves of words",
        ),
        (
            "0f11430948c743480100000049ffcf75ef",
            5.00,
            "a vector that is not aligned",
        ),
        (
            "c6430801c6430901c6430a01c6430b0148c743480100000049ffcf75e3",
            2.49,
            "four bytes of a word",
        ),
        (
            "c643080148c743080100000048c743480100000049ffcf75e7",
            1.99,
            "a byte that is written over",
        ),
        (
            "c643080148c7434801000000c643090148c783880000000100000049ffcf75e0",
            9.99,
            "two bytes of a word",
        ),
        (
            "c643080148c7434801000000c6430c0148c783880000000100000049ffcf75e0",
            6.99,
            "two bytes of two words",
        ),
    ]);
}

/// Through memory.
#[test]
fn loads_by_the_stack_pointer_are_renamed_and_24_others() {
    as_measured(&[
        (
            "834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080183442408018344240801834424080149ffcf0f852fffffff",
            39.94,
            "40 by the stack pointer",
        ),
        (
            "83430801834308018343080183430801834308018343080183430801834308018343080183430801834308018343080183430801834308018343080183430801834308018343080183430801834308018343080183430801834308018343080149ffcf759b",
            23.99,
            "24 by another register",
        ),
        (
            "48891c2508563412488b1c250856341249ffcf75eb",
            1.00,
            "by a constant",
        ),
        (
            "488b0b4883c1014883c10148890b49ffcf75ed",
            2.00,
            "a load alone",
        ),
        ("0f11030f100349ffcf75f5", 8.94, "vectors"),
    ]);
}

#[test]
fn a_load_with_a_scaled_index_takes_a_cycle_longer() {
    as_measured(&[
        (
            "81e1f8000000418b0c0a49ffcf75f1",
            4.99,
            "and; mov ecx, [r10+rcx]",
        ),
        (
            "81e1f8000000418b0c8a49ffcf75f1",
            6.00,
            "and; mov ecx, [r10+rcx*4]",
        ),
        (
            "81e1f0000000410f28048a660f7ec149ffcf75ec",
            10.98,
            "a vector, and back",
        ),
    ]);
}

/// A store and a load of the same bytes, with what brings the value back to the store.
#[test]
fn stores_reach_loads_by_width_and_kind() {
    as_measured(&[
        (
            "488903c57a7e3bc461f97ef849ffcf75ef",
            11.02,
            "general to vector",
        ),
        (
            "c579d63b488b03c461f96ef849ffcf75ef",
            9.99,
            "vector to general",
        ),
        (
            "c57c1113488b03c461f96ed049ffcf75ef",
            10.97,
            "32 bytes to general",
        ),
        ("c57c1113c57810531049ffcf75f2", 9.98, "32 to 16"),
        ("c57c113bc574583b49ffcf75f3", 12.91, "32 to an addition"),
    ]);
}
