//! Programs that replace themselves: the trace goes on with the new one.

mod support;

use std::process::Command;

use mcad_proto::event::EndReason;
use support::{Programs, Run};

const EXITED: Option<EndReason> = Some(EndReason::Exited(0));

/// Execs its arguments, after leaving a mark: a block that runs 5 000 times.
const EXECS: &str = r#"
#include <unistd.h>
volatile long sum;
int main(int argc, char **argv) {
    for (int i = 0; i < 5000; i++) sum += i;
    execvp(argv[1], argv + 1);
    return 9;
}"#;

#[test]
fn the_new_program_is_a_stream_of_its_own() {
    let programs = Programs::new();
    let execs = programs.c("execs", &[], EXECS);
    let new = programs.c(
        "new",
        &[],
        "volatile long n; int main(int c, char **v) { for (int i = 0; i < 7000; i++) n += i; return c; }",
    );
    let trace = Run::new().run(&[execs.as_str(), new.as_str(), "a", "b"]);
    // Ids stay dense and records follow definitions: the checker saw to it.
    assert_eq!(trace.end, Some(EndReason::Exited(3)));
    assert_eq!(trace.streams, 2);
    let command = [new.as_str(), "a", "b"].map(str::to_owned);
    assert_eq!(trace.processes[&0].commands, [command]);
    let times = |least: u64, most: u64| {
        let times = trace.executions.values();
        times.filter(|&&n| n >= least && n <= most).count()
    };
    assert!(times(4_990, 5_010) >= 1, "the old program's loop");
    assert!(times(6_990, 7_010) >= 1, "the new program's loop");
    for name in ["/execs", "/new"] {
        let found = trace.modules.iter().any(|m| m.path.ends_with(name));
        assert!(found, "{name} in {:?}", trace.modules);
    }
}

#[test]
fn a_chain_of_scripts_and_programs() {
    let programs = Programs::new();
    let execs = programs.c("execs", &[], EXECS);
    let out = programs.path("out");
    let last = programs.script(
        "last",
        &format!("#! /bin/sh -e\necho \"$0 $*\" > {out}\nexit 5\n"),
    );
    let middle = programs.script(
        "middle",
        &format!("#!/bin/sh\nexec {execs} {last} \"$@\"\n"),
    );
    let trace = Run::new().run(&["env", "A=b", &middle, "x y", "z"]);
    assert_eq!(trace.end, Some(EndReason::Exited(5)));
    let programs: Vec<&str> = (trace.processes[&0].commands.iter())
        .map(|command| &*command[0])
        .collect();
    assert_eq!(programs, ["/bin/sh", execs.as_str(), "/bin/sh"]);
    assert_eq!(trace.streams, 4);
    let text = std::fs::read_to_string(&out).unwrap();
    assert_eq!(text, format!("{last} x y z\n"));
}

#[test]
fn arguments_and_environment_arrive_as_given() {
    let programs = Programs::new();
    let out = programs.path("out");
    let show = programs.c(
        "show",
        &[],
        r#"
        #include <stdio.h>
        int main(int argc, char **argv, char **envp) {
            FILE *f = fopen(argv[1], "w");
            for (int i = 0; i < argc; i++) fprintf(f, "arg %s\n", argv[i]);
            for (; *envp; envp++) fprintf(f, "env %s\n", *envp);
            return 0;
        }"#,
    );
    let execs = programs.c(
        "execs",
        &[],
        r#"
        #include <unistd.h>
        int main(int argc, char **argv) {
            char *args[] = {"a name", argv[2], "", "-plugin", "with,comma", 0};
            char *env[] = {"ONE=1", "EMPTY=", "LD_BIND_NOW=1", 0};
            execve(argv[1], args, env);
            return 9;
        }"#,
    );
    let trace = Run::new().run(&[&execs, &show, &out]);
    assert_eq!(trace.end, EXITED);
    let traced = std::fs::read_to_string(&out).unwrap();
    Command::new(&execs).args([&show, &out]).status().unwrap();
    let native = std::fs::read_to_string(&out).unwrap();
    // The loader's variables go another way, so the environment's order may differ.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&traced), sorted(&native));
}

#[test]
fn threads_do_not_survive_and_nothing_is_lost() {
    let programs = Programs::new();
    let program = programs.c(
        "threads",
        &[],
        r#"
        #include <pthread.h>
        #include <unistd.h>
        static volatile long n[8];
        static void *spin(void *arg) { for (;;) n[(long)arg]++; }
        static void *replace(void *arg) {
            while (n[0] < 100000 || n[1] < 100000) usleep(1000);
            execl("/bin/sh", "sh", "-c", "exit 4", (char *)0);
            return 0;
        }
        int main(void) {
            pthread_t t;
            for (long i = 0; i < 2; i++) pthread_create(&t, 0, spin, (void *)i);
            pthread_create(&t, 0, replace, 0);
            pause();
        }"#,
    );
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, Some(EndReason::Exited(4)));
    assert_eq!(trace.streams, 5);
    assert!(trace.access_words > 300_000);
}

#[test]
fn a_failed_exec_goes_on() {
    let programs = Programs::new();
    let execs = programs.c("execs", &[], EXECS);
    let text = programs.path("text");
    std::fs::write(&text, "not a program").unwrap();
    for target in ["/no/such/program", text.as_str()] {
        let trace = Run::new().run(&[execs.as_str(), target]);
        assert_eq!(trace.end, Some(EndReason::Exited(9)), "{target}");
    }
}

/// What the emulator cannot run goes on without it.
#[test]
fn a_script_without_an_interpreter_line_runs_untraced_in_the_shell() {
    let programs = Programs::new();
    let execs = programs.c("execs", &[], EXECS);
    let bare = programs.script("bare", "exit 8\n");
    let trace = Run::new().run(&[&execs, &bare]);
    // execvp hands it to /bin/sh itself, which is a program again.
    assert_eq!(trace.end, Some(EndReason::Exited(8)));
}

#[test]
fn a_forks_child_that_execs_is_not_the_program() {
    let line = "(for i in 1 2 3; do /bin/true; done); sh -c 'exit 1' || exec sh -c 'exit 6'";
    let run = Run::new().with("follow_children", "0");
    let trace = run.run(&["sh", "-c", line]);
    assert_eq!(trace.end, Some(EndReason::Exited(6)));
    assert_eq!(trace.streams, 2);
    let trace = Run::new().run(&["sh", "-c", line]);
    assert_eq!(trace.end, Some(EndReason::Exited(6)));
    let command = ["sh", "-c", "exit 6"].map(str::to_owned);
    assert_eq!(trace.processes[&0].commands, [command]);
    assert_eq!(trace.processes.len(), 6);
}

#[test]
fn a_kill_after_the_exec_is_a_signal() {
    let programs = Programs::new();
    let execs = programs.c("execs", &[], EXECS);
    let trace = Run::new().run(&[execs.as_str(), "sh", "-c", "kill -KILL $$"]);
    assert_eq!(trace.end, Some(EndReason::Signaled(9)));
}
