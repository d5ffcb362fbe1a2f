//! Programs for AArch64 and RISC-V: captured whole, counted like an independent plugin counts.

mod support;

use mcad_proto::event::{Arch, EndReason};
use support::{Programs, Run, Trace, read_count};

const FOREIGN: [Arch; 2] = [Arch::AArch64, Arch::RiscV64];

/// Where Debian's cross packages put the C library of an instruction set.
fn sysroot(arch: Arch) -> String {
    format!("/usr/{arch}-linux-gnu")
}

/// Runs a command with both plugins and compares.
fn counted(programs: &Programs, arch: Arch, command: &[&str]) -> Trace {
    let (qemu, out) = programs.counting_qemu(arch);
    let run = Run::new().with("qemu", qemu);
    let trace = run.with("sysroot", sysroot(arch)).run(command);
    let (instructions, executions) = read_count(&out);
    assert_eq!(trace.executed, executions, "{arch}: executions");
    assert_eq!(trace.instructions, instructions, "{arch}: instructions");
    assert_eq!(trace.info.as_ref().map(|info| info.arch), Some(arch));
    trace
}

/// Loads, stores, calls, a signal handler and atomic operations.
const WORK: &str = r#"
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
static atomic_long count;
static volatile sig_atomic_t seen;
static void handler(int signal) { seen += signal; }
int main(int argc, char **argv) {
    long *list = malloc(1000 * sizeof *list), sum = 0;
    signal(SIGUSR1, handler);
    for (int i = 0; i < 1000; i++) list[i] = i * 7919 % 1000;
    for (int i = 0; i < 5000; i++) { sum += list[list[i % 1000]]; atomic_fetch_add(&count, i); }
    for (int i = 0; i < 3; i++) raise(SIGUSR1);
    printf("%ld %ld %d\n", sum, (long)count, (int)seen);
    return argc;
}"#;

#[test]
fn static_and_dynamic_programs_count_exactly() {
    let programs = Programs::new();
    for arch in FOREIGN {
        for flags in [&["-static"][..], &[]] {
            let program = programs.cross(arch, &format!("work-{arch}"), flags, WORK);
            let trace = counted(&programs, arch, &[&program, "a"]);
            assert_eq!(trace.end, Some(EndReason::Exited(2)), "{arch} {flags:?}");
            let own = trace.modules.iter().filter(|m| m.path == program).count();
            assert!(own >= 1, "{arch} {flags:?}: {:?}", trace.modules);
            let library = trace.modules.iter().any(|m| m.path.contains("/libc.so"));
            assert_eq!(library, flags.is_empty(), "{arch}: {:?}", trace.modules);
        }
    }
}

#[test]
fn threads_have_streams_of_their_own() {
    let programs = Programs::new();
    let source = r#"
        #include <pthread.h>
        static void *work(void *n) { volatile long s = 0; for (long i = 0; i < 3000; i++) s += i; return n; }
        int main(void) {
            pthread_t t[3];
            for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, 0);
            for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
            return 0;
        }"#;
    for arch in FOREIGN {
        let program = programs.cross(arch, &format!("threads-{arch}"), &["-static"], source);
        let trace = counted(&programs, arch, &[&program]);
        assert_eq!(trace.streams, 4, "{arch}");
    }
}

#[test]
fn a_program_that_replaces_itself_keeps_its_system_root() {
    let programs = Programs::new();
    let execs = r#"
        #include <unistd.h>
        volatile long sum;
        int main(int argc, char **argv) {
            for (int i = 0; i < 5000; i++) sum += i;
            execv(argv[1], argv + 1);
            return 9;
        }"#;
    for arch in FOREIGN {
        let first = programs.cross(arch, &format!("execs-{arch}"), &[], execs);
        let second = programs.cross(arch, &format!("work-{arch}"), &[], WORK);
        let run = Run::new().with("sysroot", sysroot(arch));
        let trace = run.run(&[first.as_str(), second.as_str(), "a", "b"]);
        assert_eq!(trace.end, Some(EndReason::Exited(3)), "{arch}");
        for program in [&first, &second] {
            let found = trace.modules.iter().any(|m| m.path == *program);
            assert!(found, "{program} in {:?}", trace.modules);
        }
    }
}
