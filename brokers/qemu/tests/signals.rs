//! Signals: what the emulator does to deliver one is not the program's.

mod support;

use mcad_proto::event::EndReason;
use support::{Programs, Run};

/// QEMU 7.2 writes a signal frame's floating-point state through the functions that report
/// accesses to plugins; after an instruction that left through one of its helpers (`syscall`,
/// `pause`) it takes those writes for that instruction's. The checker of every test refuses an
/// access of an instruction that has none.
#[test]
fn signal_frames_are_no_accesses_of_the_program() {
    let programs = Programs::new();
    let program = programs.c(
        "signals",
        &[],
        r#"
        #include <signal.h>
        #include <sys/time.h>
        #include <unistd.h>
        static volatile int seen;
        static void handler(int s) { seen++; }
        int main(void) {
            signal(SIGUSR1, handler);
            signal(SIGALRM, handler);
            for (int i = 0; i < 500; i++) kill(getpid(), SIGUSR1);
            struct itimerval often = {{0, 500}, {0, 500}};
            setitimer(ITIMER_REAL, &often, 0);
            while (seen < 600) __asm__ volatile("pause");
            while (seen < 700) ;
            return 0;
        }"#,
    );
    let trace = Run::new().run(&[program]);
    assert_eq!(trace.end, Some(EndReason::Exited(0)));
}

/// What the program itself does through the emulator's functions is recorded, before, inside and
/// after handlers.
#[test]
fn accesses_by_helpers_are_recorded() {
    let programs = Programs::new();
    let program = programs.c(
        "helpers",
        &["-static", "-no-pie"],
        r#"
        #include <signal.h>
        #include <unistd.h>
        long double tens[4] __attribute__((aligned(64)));
        char area[512] __attribute__((aligned(64)));
        static void work(int turns) {
            for (int i = 0; i < turns; i++) {
                __asm__ volatile("fld1; fstpt %0" : "=m"(tens[1]));
                __asm__ volatile("fxsave %0" : "=m"(area));
            }
        }
        static void handler(int s) { work(10); }
        int main(void) {
            signal(SIGUSR1, handler);
            work(100);
            for (int i = 0; i < 20; i++) { kill(getpid(), SIGUSR1); work(5); }
            return 0;
        }"#,
    );
    let trace = Run::new().keep_words().run(&[&program]);
    assert_eq!(trace.end, Some(EndReason::Exited(0)));
    let stores = |address: u64, size: u8| {
        let stores = trace.accesses().filter(|a| a.store);
        stores
            .filter(|a| a.address.0 == address && a.size == size)
            .count()
    };
    // QEMU 10.0 reports neither 80-bit loads and stores nor what fxsave and xsave access.
    let producer = &trace.info.as_ref().unwrap().producer;
    let old = producer.contains("plugin API 1 ");
    let turns = if old { 100 + 20 * (10 + 5) } else { 0 };
    // Ten bytes are stored as 8 and 2; the saved state begins with the 2-byte control word.
    assert_eq!(stores(programs.symbol(&program, "tens") + 16, 8), turns);
    assert_eq!(stores(programs.symbol(&program, "tens") + 24, 2), turns);
    assert_eq!(stores(programs.symbol(&program, "area"), 2), turns);
}

/// Every handler run begins with its first block, whatever was interrupted.
#[test]
fn handlers_are_counted() {
    let programs = Programs::new();
    let program = programs.c(
        "handled",
        &["-static", "-no-pie"],
        r#"
        #include <signal.h>
        #include <unistd.h>
        volatile int seen;
        void handler(int s) { seen++; }
        int main(void) {
            signal(SIGUSR1, handler);
            for (int i = 0; i < 777; i++) kill(getpid(), SIGUSR1);
            return seen != 777;
        }"#,
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, Some(EndReason::Exited(0)));
    assert_eq!(
        trace.executions_at(programs.symbol(&program, "handler")),
        777
    );
}
