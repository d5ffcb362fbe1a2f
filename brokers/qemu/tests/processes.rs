//! Threads, forks, descriptors, back-pressure: what real programs do to a tracer.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use mcad_proto::event::EndReason;
use support::{Programs, Run};

const EXITED: Option<EndReason> = Some(EndReason::Exited(0));

#[test]
fn every_thread_is_a_stream_of_its_own() {
    let programs = Programs::new();
    let program = programs.c(
        "threads",
        &[],
        r#"
        #include <pthread.h>
        static void *work(void *arg) { volatile long n = 0; for (int i = 0; i < 20000; i++) n += i; return 0; }
        int main(void) {
            /* vCPU indexes are reused from round to round. */
            for (int round = 0; round < 5; round++) {
                pthread_t t[4];
                for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, 0);
                for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
            }
            return 0;
        }"#,
    );
    let trace = Run::new().keep_words().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    assert_eq!(trace.streams, 21);
    for (stream, words) in trace.words.iter().filter(|(stream, _)| **stream != 0) {
        assert!(
            words.len() > 20_000,
            "stream {stream}: {} words",
            words.len()
        );
    }
}

#[test]
fn real_threaded_programs() {
    let programs = Programs::new();
    let file = programs.path("input");
    std::fs::write(&file, "some text to compress\n".repeat(60_000)).unwrap();
    let trace = Run::new().run(&["xz", "-T2", "-0", "--block-size=300000", "-k", &file]);
    assert_eq!(trace.end, EXITED);
    assert!(trace.streams >= 2, "{} streams", trace.streams);
    let back = Command::new("xz")
        .args(["-dc", &format!("{file}.xz")])
        .output()
        .unwrap();
    assert_eq!(back.stdout, std::fs::read(&file).unwrap());
}

#[test]
fn a_forks_child_is_silent() {
    let programs = Programs::new();
    let program = programs.c(
        "forks",
        &["-static", "-no-pie"],
        r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile long n;
        __attribute__((noinline)) void work(long times) { for (long i = 0; i < times; i++) n += i; }
        static void *thread(void *arg) { work(1000); usleep(100000); return 0; }
        static int child(int with_thread) {
            work(300000);
            if (with_thread) { pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0); }
            int pid = fork();                       /* and a grandchild */
            if (pid == 0) { work(300000); exit(0); }
            int status; waitpid(pid, &status, 0);
            return status == 0 ? 4 : 5;
        }
        static int forked(int with_thread) {
            int pid = fork(), status;
            if (pid == 0) exit(child(with_thread)); /* with exit handlers */
            work(1000);
            waitpid(pid, &status, 0);
            return WEXITSTATUS(status);
        }
        int main(void) {
            work(1000);
            /* QEMU 7.2 aborts, plugin or not, when a child whose parent had two threads makes
             * one; so the child with a thread comes first. */
            int sum = forked(1);
            pthread_t t; pthread_create(&t, 0, thread, 0);
            sum += forked(0);
            int pid = vfork(), status;
            if (pid == 0) { execl("/bin/true", "true", (char *)0); _exit(1); }
            waitpid(pid, &status, 0);
            pthread_join(t, 0);
            work(1000);
            return sum + WEXITSTATUS(status);
        }"#,
    );
    let work = programs.symbol(&program, "work");
    let trace = Run::new().with("follow_children", "0").run(&[&program]);
    assert_eq!(trace.end, Some(EndReason::Exited(8)));
    assert_eq!(trace.streams, 2);
    assert_eq!(trace.executions_at(work), 5);
    let most = trace.executions.values().max().copied().unwrap();
    assert!(
        most < 100_000,
        "a block executed {most} times: the child's loop"
    );
}

#[test]
fn closing_all_descriptors_does_not_matter() {
    let programs = Programs::new();
    let program = programs.c(
        "closer",
        &[],
        r#"
        #include <fcntl.h>
        #include <unistd.h>
        volatile long n;
        int main(void) {
            /* The ring's descriptor is not the guest's: the first free one is 3. */
            int first = open("/dev/null", O_RDONLY);
            for (int fd = 3; fd < 1024; fd++) close(fd);
            for (int i = 0; i < 400000; i++) n += i;
            return first == 3 ? 0 : first;
        }"#,
    );
    let plain = Command::new(&program).status().unwrap();
    assert_eq!(plain.code(), Some(0), "natively");
    let trace = Run::new().run(&[&program]);
    assert_eq!(trace.end, EXITED);
    assert!(trace.access_words > 800_000);
}

#[test]
fn a_slow_reader_stops_the_program_and_loses_nothing() {
    let programs = Programs::new();
    let program = programs.c(
        "loop",
        &["-static"],
        "volatile long n; int main() { for (int i = 0; i < 500000; i++) n += i; return 0; }",
    );
    let mut slow = Run::new().with("ring_mib", "1");
    slow.lag = Some(Duration::from_millis(2));
    let mut session = slow.start(&[&program]);
    let trace = slow.collect(&mut session, |_, _| {});
    assert_eq!(trace.end, EXITED);
    assert!(session.stalls() > 0, "the ring was never full");
    let free = Run::new().run(&[&program]);
    let most = |trace: &support::Trace| trace.executions.values().max().copied();
    assert_eq!(most(&trace), most(&free));
    assert!(most(&trace) >= Some(499_999));
}

/// 200 threads that hold what they have and wait, 32 chunks.
#[test]
fn more_waiting_threads_than_chunks() {
    let programs = Programs::new();
    let program = programs.c(
        "crowd",
        &[],
        r#"
        #include <pthread.h>
        static pthread_barrier_t barrier;
        static volatile long sink[200];
        static void *work(void *arg) {
            long me = (long)arg;
            for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 200; i++) sink[me] += i;
                pthread_barrier_wait(&barrier);
            }
            return 0;
        }
        int main(void) {
            pthread_t t[200];
            pthread_barrier_init(&barrier, 0, 200);
            for (long i = 0; i < 200; i++) pthread_create(&t[i], 0, work, (void *)i);
            for (int i = 0; i < 200; i++) pthread_join(t[i], 0);
            return 0;
        }"#,
    );
    let begin = Instant::now();
    let trace = Run::new().with("ring_mib", "1").run(&[&program]);
    assert_eq!(trace.end, EXITED);
    assert_eq!(trace.streams, 201);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn scripts_and_pipelines() {
    let programs = Programs::new();
    let script = programs.script("script", "#!/bin/sh\nexit $(($1 + 1))\n");
    let trace = Run::new().run(&[script.as_str(), "40"]);
    assert_eq!(trace.end, Some(EndReason::Exited(41)));
    let out = programs.path("out");
    let line = format!("for i in 3 1 2; do echo $i; done | sort | tr '\\n' ' ' > {out}");
    let trace = Run::new()
        .with("follow_children", "0")
        .run(&["sh", "-c", &line]);
    assert_eq!(trace.end, EXITED);
    assert_eq!(std::fs::read_to_string(out).unwrap(), "1 2 3 ");
    assert_eq!(trace.streams, 1);
    let told = "3 child processes were not traced";
    assert!(
        trace.notices.iter().any(|notice| notice.contains(told)),
        "{:?}",
        trace.notices
    );
}

/// Names the directory that the helper process below works in; unset in a normal run.
const HELPER: &str = "MCAD_TEST_READER";

/// Waits for a file that another process makes.
fn appears(path: &Path, seconds: u64) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(seconds) {
        if path.exists() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn reader_to_be_killed() {
    if let Some(directory) = std::env::var_os(HELPER) {
        let directory = Path::new(&directory);
        let program = directory.join("long").to_str().unwrap().to_owned();
        let session = Run::new().with("ring_mib", "1").start(&[program]);
        // Never reads: the program fills the ring and waits.
        while session.stalls() == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let emulator = session.emulator_id().to_string();
        std::fs::write(directory.join("full.new"), emulator).unwrap();
        std::fs::rename(directory.join("full.new"), directory.join("full")).unwrap();
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn no_emulator_outlives_its_reader() {
    let programs = Programs::new();
    let done = programs.dir.path().join("done");
    let source = format!(
        "#include <fcntl.h>\nvolatile long n; int main() {{ \
         int child = fork() == 0; if (child) pause(); \
         for (int i = 0; i < 3000000; i++) n += i; creat(\"{}\", 0600); return 0; }}",
        done.display()
    );
    programs.c("long", &[], &source);
    let mut reader = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reader_to_be_killed"])
        .env(HELPER, programs.dir.path())
        .spawn()
        .unwrap();
    let full = appears(&programs.dir.path().join("full"), 60);
    let waited = !done.exists();
    let emulator = std::fs::read_to_string(programs.dir.path().join("full")).unwrap();
    let runs = || {
        let link = format!("/proc/{emulator}/cwd");
        std::fs::read_link(link).is_ok()
    };
    assert!(runs());
    reader.kill().unwrap();
    reader.wait().unwrap();
    assert!(full && waited, "the ring filled up and the program waited");
    let gone = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !runs()
    });
    assert!(gone, "the emulator lives on");
    assert!(!done.exists(), "and went on");
}
