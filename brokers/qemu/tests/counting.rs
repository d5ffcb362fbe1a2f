//! The instruction count against an independent counting plugin in the same run, and the patterns
//! of docs/COUNTING.md.

mod support;

use std::path::Path;

use mcad_proto::event::{Arch, EndReason};
use support::{Programs, Run, Trace, read_count};

/// Runs a command with both plugins and compares.
fn counted<S: AsRef<str>>(programs: &Programs, command: &[S]) -> Trace {
    let (qemu, out) = programs.counting_qemu(Arch::X86_64);
    let trace = Run::new().with("qemu", qemu).run(command);
    let (instructions, executions) = read_count(&out);
    assert_eq!(trace.executed, executions, "executions");
    assert_eq!(trace.instructions, instructions, "instructions");
    trace
}

#[test]
fn small_programs_count_exactly() {
    let programs = Programs::new();
    let (lines, sorted) = (programs.path("lines"), programs.path("sorted"));
    let text: String = (0..400).map(|n| format!("{}\n", n * 7919 % 400)).collect();
    std::fs::write(&lines, text).unwrap();
    let sort = ["sort", "-o", &sorted, &lines];
    for command in [&["true"][..], &sort, &["sh", "-c", ":"]] {
        let trace = counted(&programs, command);
        assert!(matches!(trace.end, Some(EndReason::Exited(0))));
        assert!(trace.instructions > 50_000);
    }
}

#[test]
fn gzip_counts_exactly() {
    let programs = Programs::new();
    let file = programs.path("input");
    // Text that compresses somewhat: numbers.
    let text: String = (0..40_000u32)
        .map(|i| format!("{} ", i.wrapping_mul(2_654_435_761) >> 12))
        .collect();
    std::fs::write(&file, text).unwrap();
    let trace = counted(&programs, &["gzip", "-k", &file]);
    assert!(matches!(trace.end, Some(EndReason::Exited(0))));
    assert!(Path::new(&format!("{file}.gz")).exists());
    assert!(trace.instructions > 10_000_000);
}

#[test]
fn rep_strings_count_once_whatever_their_length() {
    let programs = Programs::new();
    let program = programs.c(
        "rep",
        &[],
        r#"
        #include <stdlib.h>
        static char from[4096], to[4096];
        int main(int argc, char **argv) {
            int times = atoi(argv[1]); long length = atol(argv[2]);
            for (int i = 0; i < times; i++) {
                void *s = from, *d = to; long n = length;
                __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(n) :: "memory");
                n = length; d = to;
                __asm__ volatile("xor %%eax, %%eax; repe scasb" : "+D"(d), "+c"(n) :: "rax", "memory", "cc");
            }
            return 0;
        }"#,
    );
    let count = |times: &str, length: &str| {
        let trace = counted(&programs, &[program.as_str(), times, length]);
        (trace.instructions as f64, trace.executed as f64)
    };
    // Start-up differs by a few instructions from run to run (addresses), so the turns show in the
    // rounded difference of two runs.
    let per_turn = |length: &str| {
        let ((few, few_raw), (many, many_raw)) = (count("100", length), count("900", length));
        let round = |difference: f64| (difference / 800.0).round() as i64;
        (round(many - few), round(many_raw - few_raw))
    };
    let (empty, empty_raw) = per_turn("0");
    assert!((8..=16).contains(&empty), "{empty} instructions a turn");
    assert_eq!(empty, empty_raw, "nothing to collapse");
    for (length, most) in [("1", 2), ("2", 4), ("1000", 2000)] {
        let (instructions, raw) = per_turn(length);
        assert_eq!(instructions, empty, "length {length}");
        // QEMU 7.2 enters the block once for every iteration and once to find the count at zero,
        // for each of the two instructions; 10.0 loops inside.
        let again = raw - instructions;
        assert!(
            again == most || again == 0,
            "{again} entries for length {length}"
        );
    }
}

/// Code whose `mov eax, imm32` crosses a page end after other instructions of its block.
#[test]
fn page_crossing_instructions_count_once() {
    let programs = Programs::new();
    let program = programs.c(
        "cross",
        &[],
        r#"
        #include <string.h>
        #include <sys/mman.h>
        int main(void) {
            unsigned char *p = mmap(0, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            /* add eax, 0x01010101 with 1 to 4 of its 5 bytes before the page end; xor eax, eax
             * and two nops before, ret after. */
            static const unsigned char code[] = {0x31, 0xc0, 0x90, 0x90, 0x05, 1, 1, 1, 1, 0xc3};
            long sum = 0;
            for (int before = 1; before <= 4; before++) {
                unsigned char *at = p + 4096 - before - 4;
                memcpy(at, code, sizeof code);
                for (int i = 0; i < 1000; i++)
                    sum += ((int (*)(void))at)();
                memset(p, 0xcc, 2 * 4096);
            }
            return sum == 4000L * 0x01010101 ? 0 : 1;
        }"#,
    );
    let trace = counted(&programs, &[program]);
    assert_eq!(trace.end, Some(EndReason::Exited(0)));
    // Each placement: the code before the crossing instruction in one block (without the phantom),
    // the crossing instruction first in the next.
    let lead: Vec<_> = trace
        .blocks
        .iter()
        .filter(|b| b.bytes.starts_with(&[0x31, 0xc0, 0x90, 0x90]) && b.instructions == 3)
        .collect();
    let crossing: Vec<_> = trace
        .blocks
        .iter()
        .filter(|b| b.bytes.starts_with(&[0x05, 1, 1, 1, 1]))
        .collect();
    assert_eq!(lead.len(), 4, "{lead:x?}");
    assert_eq!(crossing.len(), 4, "{crossing:x?}");
    for block in crossing {
        assert_eq!(trace.executions_at(block.address), 1000);
    }
}
