//! Processes that the traced one makes: each is traced as a process of its own.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use mcad_proto::event::{EndReason, Event};
use support::{Programs, Run, Trace};

const EXITED: Option<EndReason> = Some(EndReason::Exited(0));

/// A function whose executions can be counted, in a program without anything else of its size.
const WORK: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
volatile long n;
__attribute__((noinline)) void work(void) { n++; }
static void often(int times) { for (int i = 0; i < times; i++) work(); }
static int status_of(int pid) {
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
"#;

fn program(programs: &Programs, name: &str, main: &str) -> String {
    let source = format!("{WORK}\n{main}");
    programs.c(name, &["-static", "-no-pie", "-pthread"], &source)
}

/// Command names of the processes, the last that each ran; empty where it ran its parent's program.
fn names(trace: &Trace) -> Vec<String> {
    let last = |commands: &Vec<Vec<String>>| {
        let word = commands.last().and_then(|command| command.first());
        word.map_or_else(String::new, Clone::clone)
    };
    let processes = trace.processes.values();
    processes.map(|process| last(&process.commands)).collect()
}

fn ends(trace: &Trace) -> BTreeMap<u32, EndReason> {
    let processes = trace.processes.iter();
    processes
        .filter_map(|(id, process)| Some((*id, process.end.clone()?)))
        .collect()
}

#[test]
fn a_child_is_traced_from_the_fork_on() {
    let programs = Programs::new();
    let forks = program(
        &programs,
        "forks",
        r#"
        int main(void) {
            often(100);
            int pid = fork();
            if (pid == 0) { often(1000); _exit(3); }
            int status = status_of(pid);
            often(10);
            return status + 4;
        }"#,
    );
    let work = programs.symbol(&forks, "work");
    let trace = Run::new().run(&[&forks]);
    assert_eq!(trace.end, Some(EndReason::Exited(7)));
    assert_eq!((trace.streams, trace.processes.len()), (2, 1));
    assert_eq!(trace.processes[&1].parent, Some(0));
    assert_eq!(trace.processes[&1].end, Some(EndReason::Exited(3)));
    assert_eq!(trace.executions_at(work), 1110);
    // Every block is the parent's or the child's, and those they share were defined once.
    let at: Vec<_> = trace.blocks.iter().map(|b| (b.address, &b.bytes)).collect();
    let mut once = at.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), at.len());
}

/// All the ways to make a process, and how each can end.
#[test]
fn however_it_is_made_and_ends() {
    let programs = Programs::new();
    let ways = program(
        &programs,
        "ways",
        r#"
        extern char **environ;
        static int spawned(char *const argv[]) {
            pid_t pid;
            return posix_spawn(&pid, argv[0], 0, 0, argv, environ) == 0 ? status_of(pid) : 99;
        }
        int main(int argc, char **argv) {
            if (argc == 2) { often(500); return atoi(argv[1]); }
            int pid = vfork();
            if (pid == 0) { execl(argv[0], argv[0], "11", (char *)0); _exit(1); }
            if (status_of(pid) != 11) return 1;
            if (spawned((char *[]){argv[0], "12", 0}) != 12) return 2;
            if (system("exit 13") != 13 << 8) return 3;
            FILE *pipe = popen("echo 14", "r");
            char line[8] = "";
            if (!pipe || !fgets(line, sizeof line, pipe) || strcmp(line, "14\n") || pclose(pipe)) return 4;
            if ((pid = fork()) == 0) { often(50); raise(SIGKILL); }
            if (status_of(pid) != 128 + SIGKILL) return 5;
            if ((pid = fork()) == 0) abort();
            if (status_of(pid) != 128 + SIGABRT) return 6;
            if ((pid = fork()) == 0) { if (fork() == 0) { often(7); _exit(21); } wait(0); _exit(20); }
            if (status_of(pid) != 20) return 7;
            return 30;
        }"#,
    );
    let work = programs.symbol(&ways, "work");
    let trace = Run::new().run(&[&ways]);
    assert_eq!(
        trace.end,
        Some(EndReason::Exited(30)),
        "{:?}",
        trace.notices
    );
    let exited = EndReason::Exited;
    let expected = [
        exited(11),
        exited(12),
        exited(13),
        exited(0),
        EndReason::Signaled(9),
        EndReason::Signaled(6),
        exited(20),
        exited(21),
    ];
    assert_eq!(ends(&trace), (1..).zip(expected).collect());
    assert_eq!(trace.processes[&8].parent, Some(7));
    assert_eq!(trace.executions_at(work), 500 + 500 + 50 + 7);
    let commands = &trace.processes[&2].commands;
    assert_eq!(commands[..], [[ways.clone(), "12".to_owned()]]);
}

#[test]
fn a_pipeline_has_its_processes_in_order() {
    let programs = Programs::new();
    let out = programs.path("out");
    let line = format!("for i in 3 1 2; do echo $i; done | sort | tr '\\n' ' ' > {out}; exit 5");
    let trace = Run::new().run(&["sh", "-c", &line]);
    assert_eq!(trace.end, Some(EndReason::Exited(5)));
    assert_eq!(std::fs::read_to_string(out).unwrap(), "1 2 3 ");
    assert_eq!(names(&trace), ["", "sort", "tr"]);
    assert!(
        ends(&trace)
            .values()
            .all(|end| *end == EndReason::Exited(0))
    );
    for name in ["/sort", "/tr"] {
        assert!(
            trace.modules.iter().any(|m| m.path.ends_with(name)),
            "{name}"
        );
    }
    assert_eq!(trace.notices, Vec::<String>::new());
}

/// The same program in many processes is one program's blocks, with executions that add up.
#[test]
fn counts_are_those_of_the_processes_alone() {
    let programs = Programs::new();
    let alone = program(
        &programs,
        "alone",
        "int main(int argc, char **argv) { often(atoi(argv[1])); return 0; }",
    );
    let work = programs.symbol(&alone, "work");
    let of = |trace: &Trace| -> BTreeMap<u64, u64> {
        let blocks = trace.executions.iter().map(|(id, times)| {
            let block = &trace.blocks[*id as usize];
            (block.address, u64::from(block.instructions) * times)
        });
        // The program is linked where nothing else is.
        let own = blocks.filter(|(address, _)| *address < 0x1000_0000);
        own.fold(BTreeMap::new(), |mut sums, (address, times)| {
            *sums.entry(address).or_default() += times;
            sums
        })
    };
    let times = ["300", "40", "5000"];
    let mut sums = BTreeMap::new();
    for time in times {
        for (address, executed) in of(&Run::new().run(&[alone.as_str(), time])) {
            *sums.entry(address).or_default() += executed;
        }
    }
    let line = times.map(|time| format!("{alone} {time}")).join(" & ") + " & wait";
    let together = Run::new().run(&["sh", "-c", &line]);
    assert_eq!(together.end, EXITED);
    assert_eq!(together.executions_at(work), 5340);
    // What start-up code does depends on environment and addresses: by a little.
    let (alone, together) = (sums, of(&together));
    let total = |counts: &BTreeMap<u64, u64>| counts.values().sum::<u64>();
    assert!(total(&together).abs_diff(total(&alone)) * 100 < total(&alone));
    for (address, executed) in &together {
        if *executed > 5000 {
            assert_eq!(alone.get(address), Some(executed), "{address:#x}");
        }
    }
}

#[test]
fn children_have_threads() {
    let programs = Programs::new();
    let threads = program(
        &programs,
        "threads",
        r#"
        static void *thread(void *arg) { often(100); return arg; }
        int main(void) {
            int pid = fork();
            if (pid == 0) {
                pthread_t t[3];
                for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, thread, 0);
                for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
                _exit(2);
            }
            return status_of(pid);
        }"#,
    );
    let work = programs.symbol(&threads, "work");
    let trace = Run::new().run(&[&threads]);
    assert_eq!(trace.end, Some(EndReason::Exited(2)));
    assert_eq!(trace.streams, 5);
    assert_eq!(trace.executions_at(work), 300);
}

/// More at a time than there are rings: the others run, and are counted.
#[test]
fn what_is_too_much_runs_untraced_and_is_counted() {
    let programs = Programs::new();
    let crowd = program(
        &programs,
        "crowd",
        r#"
        int main(void) {
            int hold[2], pids[80], good = 0;
            pipe(hold);
            for (int i = 0; i < 80; i++) {
                if ((pids[i] = fork()) == 0) {
                    char c;
                    close(hold[1]);
                    read(hold[0], &c, 1);
                    work();
                    _exit(i);
                }
            }
            close(hold[1]);
            for (int i = 0; i < 80; i++) good += status_of(pids[i]) == i;
            return good;
        }"#,
    );
    let work = programs.symbol(&crowd, "work");
    let trace = Run::new().run(&[&crowd]);
    assert_eq!(trace.end, Some(EndReason::Exited(80)));
    assert_eq!(trace.processes.len(), 64);
    assert_eq!(trace.executions_at(work), 64);
    let told = "16 child processes were not traced (at most 64 are at the same time)";
    assert_eq!(trace.notices, [told]);
}

/// Beyond the limit processes run as they do, their parents' code counts, and they do not.
#[test]
fn more_processes_than_are_told_of_run_and_are_counted() {
    let programs = Programs::new();
    let line = program(
        &programs,
        "line",
        r#"
        __attribute__((noinline)) void later(void) { work(); }
        int main(void) {
            for (int i = 0; i < 6; i++) {
                int pid = fork();
                if (pid == 0) {
                    /* The first one to execute this is not told of. */
                    if (i == 3) later();
                    int grandchild = fork();
                    if (grandchild == 0) { work(); _exit(1); }
                    _exit(10 * i + status_of(grandchild));
                }
                if (status_of(pid) != 10 * i + 1) return 1;
            }
            later();
            return 0;
        }"#,
    );
    let work = programs.symbol(&line, "work");
    let trace = Run::new().with("max_processes", "4").run(&[&line]);
    assert_eq!(trace.end, EXITED);
    // The first, a child and its child, and a child.
    assert_eq!(trace.processes.len(), 3);
    assert_eq!(trace.executions_at(work), 2);
    let told = "9 processes beyond the first 4 are not in the figures";
    assert_eq!(trace.notices, [told]);
}

/// More threads than are traced at once: all run, and the others are counted.
#[test]
fn more_threads_than_are_traced_run_and_are_counted() {
    let programs = Programs::new();
    let crowd = program(
        &programs,
        "crowd",
        r#"
        static pthread_barrier_t all;
        static void *alive(void *x) { pthread_barrier_wait(&all); work(); return x; }
        int main(void) {
            enum { MANY = 20 };
            pthread_t threads[MANY];
            pthread_barrier_init(&all, 0, MANY + 1);
            for (int i = 0; i < MANY; i++) {
                if (pthread_create(threads + i, 0, alive, 0)) return 1;
            }
            pthread_barrier_wait(&all);
            for (int i = 0; i < MANY; i++) pthread_join(threads[i], 0);
            return 0;
        }"#,
    );
    let work = programs.symbol(&crowd, "work");
    let trace = Run::new().with("max_threads", "12").run(&[&crowd]);
    assert_eq!(trace.end, EXITED);
    // The first thread is one of them.
    assert_eq!(trace.executions_at(work), 11);
    let told = "9 threads were not traced, or not to their end: more lived at once than a recording \
                has places for";
    assert_eq!(trace.notices, [told]);
}

/// Rings are used again: more processes than rings, one after the other.
#[test]
fn rings_are_used_again() {
    let programs = Programs::new();
    let row = program(
        &programs,
        "row",
        r#"
        int main(void) {
            for (int i = 0; i < 150; i++) {
                int pid = fork();
                if (pid == 0) { work(); _exit(i); }
                if (status_of(pid) != i) return 1;
                usleep(10000); /* so that the end of some is known before the next */
            }
            return 0;
        }"#,
    );
    let work = programs.symbol(&row, "work");
    let trace = Run::new().run(&[&row]);
    assert_eq!(trace.end, EXITED);
    // One that is gone is known to be so some time later, which its parent does not wait for: on a
    // busy machine one or another child may find no ring.
    let untraced = 150 - trace.processes.len() as u64;
    assert_eq!(trace.executions_at(work), 150 - untraced);
    assert!(
        trace.processes.len() > 64,
        "{} processes",
        trace.processes.len()
    );
    assert_eq!(trace.notices.len(), usize::from(untraced > 0));
}

#[test]
fn without_following_children_are_counted() {
    let run = Run::new().with("follow_children", "0");
    let trace = run.run(&["sh", "-c", "true | true; /bin/true; exit 6"]);
    assert_eq!(trace.end, Some(EndReason::Exited(6)));
    assert!(trace.processes.is_empty());
    assert_eq!(trace.notices, ["3 child processes were not traced"]);
}

/// Waits for a file that another process makes.
fn appears(path: &str) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(120) {
        if Path::new(path).exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A daemon does not hold up the session, and goes on when that is over.
#[test]
fn a_process_that_outlives_the_first_is_let_go() {
    let programs = Programs::new();
    let (go, done) = (programs.path("go"), programs.path("done"));
    let daemon = program(
        &programs,
        "daemon",
        r#"
        #include <fcntl.h>
        int main(int argc, char **argv) {
            if (fork() != 0) return 4;
            setsid();
            while (access(argv[1], F_OK) != 0) { often(100); usleep(1000); }
            often(300000); /* more than its ring holds */
            close(creat(argv[2], 0600));
            return 0;
        }"#,
    );
    let run = Run::new().with("linger_ms", "200");
    let mut session = run.start(&[&daemon, &go, &done]);
    let trace = run.collect(&mut session, |_, _| {});
    assert_eq!(trace.end, Some(EndReason::Exited(4)));
    let end = "it outlived the first process".to_owned();
    assert_eq!(trace.processes[&1].end, Some(EndReason::Truncated(end)));
    assert!(trace.notices[0].contains("1 process was still running 0.2 s after"));
    std::fs::write(&go, "").unwrap();
    assert!(appears(&done), "it does not go on");
}

#[test]
fn a_stop_kills_the_children_too() {
    let programs = Programs::new();
    let (file, unfinished) = (programs.path("pid"), programs.path("pid.new"));
    let family = program(
        &programs,
        "family",
        r#"
        int main(int argc, char **argv) {
            int pid = fork();
            if (pid == 0) for (;;) work();
            FILE *f = fopen(argv[2], "w");
            fprintf(f, "%d\n", pid);
            fclose(f);
            rename(argv[2], argv[1]);
            pause();
        }"#,
    );
    let run = Run::new().slow();
    let mut session = run.start(&[&family, &file, &unfinished]);
    let stop = session.killer();
    let mut stopped = false;
    let trace = run.collect(&mut session, |_, trace| {
        if !stopped && trace.access_words > 100_000 && Path::new(&file).exists() {
            stopped = true;
            stop();
        }
    });
    let reason = EndReason::ProducerDied("stopped on request".into());
    assert_eq!(trace.end, Some(reason));
    let pid: i32 = std::fs::read_to_string(&file)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(gone(pid), "the child lives on");
}

#[test]
fn a_child_that_never_rests_does_not_keep_the_session() {
    let programs = Programs::new();
    let family = program(
        &programs,
        "restless",
        r#"
        int main(void) {
            if (fork() != 0) return 4;
            alarm(50); /* should nobody let it go */
            for (;;) work();
        }"#,
    );
    let trace = Run::new().with("linger_ms", "200").slow().run(&[&family]);
    assert_eq!(trace.end, Some(EndReason::Exited(4)));
    let end = "it outlived the first process".to_owned();
    assert_eq!(trace.processes[&1].end, Some(EndReason::Truncated(end)));
}

/// Whether a process ends, or is one that nobody has waited for.
fn gone(pid: i32) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.chars().next());
        if matches!(state, None | Some('Z' | 'X')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A child overwrites all rings but the first, its own too, with nonsense. Whatever becomes of what
/// is recorded of it, the first process runs to its end, and the session ends.
#[test]
fn a_child_that_writes_over_the_rings_harms_itself() {
    let programs = Programs::new();
    let vandal = program(
        &programs,
        "vandal",
        r#"
        #include <dirent.h>
        #include <fcntl.h>
        #include <poll.h>
        #include <sys/mman.h>
        #include <sys/stat.h>
        int main(void) {
            int told[2];
            char fds[64], path[512], target[256], word = 0;
            /* Its own rings are mapped out of its reach; the reader has their file, and others. */
            unsigned long own = 0;
            FILE *maps = fopen("/proc/thread-self/maps", "r");
            while (maps && !own && fgets(path, sizeof path, maps))
                if (strstr(path, "mcad-ring"))
                    sscanf(path, "%*s %*s %*s %*s %lu", &own);
            snprintf(fds, sizeof fds, "/proc/%d/fd", getppid());
            pipe(told);
            if (fork() == 0) {
                DIR *dir = opendir(fds);
                for (struct dirent *e; dir && (e = readdir(dir));) {
                    snprintf(path, sizeof path, "%s/%s", fds, e->d_name);
                    memset(target, 0, sizeof target);
                    if (readlink(path, target, sizeof target - 1) < 0 || !strstr(target, "mcad-ring"))
                        continue;
                    int fd = open(path, O_RDWR);
                    struct stat about;
                    if (fd < 0 || fstat(fd, &about) || about.st_ino != own)
                        continue;
                    char *file = mmap(0, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                    if (file == MAP_FAILED)
                        continue;
                    write(told[1], "a", 1);
                    /* slots_offset of struct mcad_ring_header */
                    unsigned long rings = *(unsigned long *)(file + 80);
                    memset(file + rings, 0x5a, about.st_size - rings);
                }
                close(told[1]);
                often(1000);
                _exit(3);
            }
            /* It may hang: then nobody is told of the end. */
            close(told[1]);
            read(told[0], &word, 1);
            poll(&(struct pollfd){.fd = told[0], .events = POLLIN}, 1, 5000);
            often(100);
            return word == 'a' ? 9 : 8;
        }"#,
    );
    let run = Run::new().with("linger_ms", "200");
    let mut session = run.start(&[&vandal]);
    let begin = Instant::now();
    let mut end = None;
    while end.is_none() {
        assert!(begin.elapsed() < Duration::from_secs(120), "no end");
        match session.next_event(Duration::from_millis(50)) {
            Ok(Some(Event::End(reason))) => end = Some(reason),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(end, Some(EndReason::Exited(9)));
}
