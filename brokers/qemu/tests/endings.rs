//! However a program ends, everything up to its end arrives, and the end says how.

#![allow(clippy::unwrap_used)] // As in the tests themselves.

mod support;

use std::time::Duration;

use mcad_broker_abi::Config;
use mcad_broker_qemu::Session;
use mcad_proto::event::EndReason;
use support::{Programs, Run};

fn end_of(run: &Run, command: &[&str]) -> EndReason {
    run.run(command).end.unwrap()
}

#[test]
fn exit_statuses() {
    let run = Run::new();
    assert_eq!(end_of(&run, &["true"]), EndReason::Exited(0));
    assert_eq!(end_of(&run, &["false"]), EndReason::Exited(1));
    assert_eq!(
        end_of(&run, &["sh", "-c", "exit 77"]),
        EndReason::Exited(77)
    );
}

#[test]
fn _exit_needs_no_handlers() {
    let programs = Programs::new();
    let program = programs.c(
        "quick",
        &[],
        "#include <unistd.h>\nint main() { _exit(5); }",
    );
    assert_eq!(end_of(&Run::new(), &[&program]), EndReason::Exited(5));
}

#[test]
fn signals_end_with_their_number() {
    let programs = Programs::new();
    let program = programs.c(
        "crash",
        &[],
        r#"
        #include <signal.h>
        #include <stdlib.h>
        #include <unistd.h>
        #include <sys/mman.h>
        #include <fcntl.h>
        #include <sys/resource.h>
        int main(int argc, char **argv) {
            struct rlimit none = {0, 0};
            setrlimit(RLIMIT_CORE, &none);
            volatile long *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            for (int i = 0; i < 1000; i++) at[7] = i;  /* seen below */
            switch (argv[1][0]) {
            case 's': *(volatile int *)8 = 1; break;
            case 'a': abort();
            case 'i': __builtin_trap();
            case 'k': kill(getpid(), SIGKILL); pause();
            case 't': raise(SIGTERM);
            }
            return 0;
        }"#,
    );
    for (letter, signal) in [("s", 11), ("a", 6), ("i", 4), ("k", 9), ("t", 15)] {
        let trace = Run::new().keep_words().run(&[&program, letter]);
        assert_eq!(trace.end, Some(EndReason::Signaled(signal)), "{letter}");
        let stores = trace
            .accesses()
            .filter(|a| a.store && a.size == 8 && a.address.0 & 0xfff == 56)
            .count();
        assert!(stores >= 1000, "{stores} stores before the end by {letter}");
    }
}

/// A program that counts in shared memory: what it did is known after it is gone.
fn counter(programs: &Programs) -> (String, String) {
    let program = programs.c(
        "counter",
        &[],
        r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            int fd = open(argv[1], O_RDWR);
            volatile unsigned long *at = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            at[1] = (unsigned long)at;
            for (;;) at[0]++;
        }"#,
    );
    let file = programs.path("shared");
    std::fs::write(&file, vec![0; 4096]).unwrap();
    (program, file)
}

fn shared_word(file: &str, index: usize) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    u64::from_le_bytes(bytes[index * 8..index * 8 + 8].try_into().unwrap())
}

#[test]
fn kill_9_loses_nothing() {
    let programs = Programs::new();
    let (program, file) = counter(&programs);
    let run = Run::new().keep_words();
    let mut session = run.start(&[&program, &file]);
    let mut killed = false;
    let trace = run.collect(&mut session, |session, _| {
        if !killed && shared_word(&file, 0) > 300_000 {
            killed = true;
            let pid = session.emulator_id() as i32;
            // SAFETY: a plain system call on a child that was not waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    });
    assert_eq!(trace.end, Some(EndReason::Signaled(9)));
    let (done, address) = (shared_word(&file, 0), shared_word(&file, 1));
    let recorded = trace
        .accesses()
        .filter(|a| a.store && a.address.0 == address)
        .count() as u64;
    // The kill may fall between a store and its record, or the other way round.
    assert!(
        recorded.abs_diff(done) <= 1,
        "{done} stores done, {recorded} recorded"
    );
}

#[test]
fn stop_kills_and_delivers_the_rest() {
    let programs = Programs::new();
    let (program, file) = counter(&programs);
    let run = Run::new();
    let mut session = run.start(&[&program, &file]);
    let stop = session.killer();
    let mut stopped = false;
    let trace = run.collect(&mut session, |_, trace| {
        if !stopped && trace.access_words > 100_000 {
            stopped = true;
            std::thread::scope(|scope| {
                scope.spawn(&stop);
            });
        }
    });
    assert_eq!(
        trace.end,
        Some(EndReason::ProducerDied("stopped on request".into()))
    );
    assert!(trace.access_words > 100_000);
    // Too late to harm anyone who got the process id since.
    stop();
}

#[test]
fn dropping_a_session_ends_the_program() {
    let programs = Programs::new();
    let (program, file) = counter(&programs);
    let session = Run::new().start(&[&program, &file]);
    let pid = session.emulator_id() as i32;
    drop(session);
    // SAFETY: a plain system call; signal 0 only asks.
    assert_eq!(unsafe { libc::kill(pid, 0) }, -1, "{pid} still runs");
}

#[test]
fn exec_is_an_end_only_if_it_succeeds() {
    let programs = Programs::new();
    let program = programs.c(
        "execs",
        &[],
        r#"
        #include <unistd.h>
        #include <stdlib.h>
        volatile long sum;
        int main(int argc, char **argv) {
            execl("/no/such/program", "x", (char *)0);
            execv((char *)8, argv);               /* a wild pointer */
            for (int i = 0; i < 5000; i++) sum += i;
            if (argc > 1) execvp(argv[1], argv + 1);
            return 9;
        }"#,
    );
    let run = Run::new().with("follow_exec", "0");
    let stayed = run.run(&[&program]);
    assert_eq!(stayed.end, Some(EndReason::Exited(9)));
    let replaced = run.run(&[program.as_str(), "sh", "-c", "exit 6"]);
    assert_eq!(replaced.end, Some(EndReason::Exec(6)));
    let told = replaced.notices.iter().any(|n| n.contains("/sh"));
    assert!(told, "{:?}", replaced.notices);
    assert!(replaced.block_words > 5000 && stayed.block_words > 5000);
    let killed = run.run(&[program.as_str(), "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.end, Some(EndReason::Exec(143)));
}

#[test]
fn exec_in_a_shell_pipeline_member_is_not_the_programs() {
    let trace = Run::new().run(&[
        "sh",
        "-c",
        "echo a b | tr a-z A-Z | grep -q 'A B' && exit 3",
    ]);
    assert_eq!(trace.end, Some(EndReason::Exited(3)));
}

#[test]
fn what_cannot_start_is_said() {
    let open = |entries: &[(&str, &str)]| {
        let mut config = Config::new();
        for (key, value) in entries {
            config.push(*key, *value).unwrap();
        }
        Session::start(&config).unwrap_err().to_string()
    };
    assert_eq!(open(&[]), "no command given");
    assert_eq!(
        open(&[("arg", "/no/such/program")]),
        "/no/such/program: command not found"
    );
    let error = open(&[("arg", "true"), ("qemu", "/no/such/qemu")]);
    assert!(error.contains("/no/such/qemu: cannot be run"), "{error}");
    assert!(error.contains("apt-get install qemu-user"), "{error}");
    let error = open(&[("arg", "true"), ("plugin", "/no/such/plugin")]);
    assert!(error.contains("/no/such/plugin"), "{error}");
    let error = open(&[("arg", "true"), ("colour", "red")]);
    assert!(
        error.contains("unknown configuration key \"colour\""),
        "{error}"
    );
}

#[test]
fn a_plugin_that_does_not_load_is_said() {
    let programs = Programs::new();
    let plugin = programs.script("broken.so", "no library");
    let mut config = Config::new();
    config.push("plugin", plugin.as_str()).unwrap();
    config.push("arg", "true").unwrap();
    let mut session = Session::start(&config).unwrap();
    let error = session
        .next_event(Duration::from_secs(20))
        .expect_err("there is no plugin");
    assert!(
        error.to_string().contains("before it loaded the plugin"),
        "{error}"
    );
    assert!(error.to_string().contains("broken.so"), "{error}");
}
