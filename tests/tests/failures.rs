//! What goes wrong around a run: clear messages, the right status, nothing lost, no hang.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::Path;

use mcad_tests::run::{arg, eventually};
use mcad_tests::{Run, inputs, mcad, mcad_run, programs, report};

#[test]
fn missing_and_unusable_programs_have_the_shells_statuses() {
    mcad_run(["--", "no-such-program-here"])
        .run()
        .expect(127)
        .says("no-such-program-here");
    mcad_run(["--", "/no/such/file"])
        .run()
        .expect(127)
        .says("/no/such/file");
    mcad_run(["--", "/etc/hostname"])
        .run()
        .expect(126)
        .says("/etc/hostname");
    mcad_run(["--", "/tmp"]).run().expect(126).says("directory");
}

#[test]
fn wrong_command_lines_end_with_125_and_say_why() {
    mcad_run(["--no-such-option", "--", "true"])
        .run()
        .expect(125)
        .says("--no-such-option");
    mcad_run::<&str>([]).run().expect(125).says("CMD");
    mcad_run(["--cpu", "z80", "--", "true"])
        .run()
        .expect(125)
        .says("z80")
        .says("skl");
    mcad_run(["--region", "0x20-0x10", "--", "true"])
        .run()
        .expect(125)
        .says("behind the start");
    mcad(["no-such-command"])
        .run()
        .expect(2)
        .says("no-such-command");
    mcad(["replay", "/no/such/trace"])
        .run()
        .expect(2)
        .says("/no/such/trace");
}

#[test]
fn a_qemu_that_is_missing_or_takes_no_plugins_is_named_with_the_way_out() {
    mcad_run(["--qemu", "/no/such/qemu", "--", "true"])
        .run()
        .expect(125)
        .says("/no/such/qemu")
        .says("apt-get install qemu-user");
    let directory = tempfile::tempdir().unwrap();
    let fake = directory.path().join("qemu-x86_64");
    let script = "#!/bin/sh\ncase $1 in -version) echo 'qemu-x86_64 version 10.0.2';; \
                  *) echo \"qemu: unknown option 'plugin'\" >&2; exit 1;; esac\n";
    inputs::script(&fake, script);
    mcad_run(["--qemu", fake.to_str().unwrap(), "--", "true"])
        .run()
        .expect(125)
        .says("without plugins")
        .says("cargo xtask setup");
}

#[test]
fn missing_brokers_are_named_with_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    mcad_run(["--", "true"])
        .env("MCAD_BROKERS", directory.path())
        .run()
        .expect(125)
        .says("libmcad_broker_qemu.so")
        .says("cargo build");
}

#[test]
fn a_broker_of_another_build_is_refused() {
    let name = "libmcad_broker_qemu.so";
    let mut library = std::fs::read(programs().file(name)).unwrap();
    let sources = mcad_broker_abi::SOURCES.as_bytes();
    let places: Vec<usize> = (0..library.len() - sources.len())
        .filter(|&at| library[at..].starts_with(sources))
        .collect();
    assert!(!places.is_empty(), "{name} is of another build already");
    for at in places {
        library[at..at + sources.len()].fill(b'-');
    }
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(name), library).unwrap();
    mcad_run(["--", "true"])
        .env("MCAD_BROKERS", directory.path())
        .run()
        .expect(125)
        .says("built from other sources")
        .says("cargo build --release --workspace");
}

#[test]
fn outputs_that_cannot_be_written_are_told_before_the_run() {
    let missing = "/no/such/directory/report.json";
    let run = mcad_run(["--json", missing, "--", "echo", "ran"])
        .run()
        .expect(125)
        .says(missing);
    assert_eq!(run.text(), "");
    // Nobody asked for the name under which it would have been written.
    let kernels = mcad_run(["--json", "/proc/report.json", "--", "echo", "ran"]).run();
    let kernels = kernels.expect(125).says("cannot write /proc/report.json");
    assert!(!kernels.stderr.contains(".mcad-"), "{}", kernels.stderr);
}

#[test]
fn a_full_disk_stops_the_recording_and_the_status_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let arguments = [
        "-q",
        "--record",
        "/dev/full",
        "--json",
        json.to_str().unwrap(),
        "--",
    ];
    let run = mcad_run(arguments)
        .args(["sh", "-c", "echo ran"])
        .run()
        .expect(125)
        .says("/dev/full")
        .says("No space left");
    assert_eq!(run.text(), "ran\n");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    let report = report::read(&json);
    assert!(report.program.complete);
    assert!(report.trace.instructions > 10_000);
}

#[test]
fn a_full_disk_keeps_the_report_that_was_there_and_stderr_is_no_matter() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let path = json.to_str().unwrap();
    std::fs::write(&json, "old").unwrap();
    // The summary cannot be written, the report of some kilobytes can, and the status is the
    // program's.
    let shell = |script: &str| {
        let mcad_run = mcad_tests::programs().file("mcad-run");
        let run = mcad_tests::Run::of("/bin/sh".as_ref());
        run.args(["-c", script, mcad_run.to_str().unwrap(), path])
            .run()
    };
    let run = shell("\"$0\" --json \"$1\" -- sh -c 'exit 7' 2>/dev/full");
    drop(run.expect(7));
    assert!(report::read(&json).program.complete);
    drop(shell("\"$0\" --json /no/such/place -- true 2>/dev/full").expect(125));
    std::fs::write(&json, "old").unwrap();
    // As on a full disk: no file may be longer than a kilobyte.
    let trace = directory.path().join("trace.mcad");
    let trace = trace.to_str().unwrap();
    drop(
        mcad_run(["-q", "--record", trace, "--", "true"])
            .run()
            .expect(0),
    );
    let mcad = mcad_tests::programs().file("mcad");
    let script = "ulimit -f 1; \"$0\" replay -q --json \"$1\" \"$2\"";
    let run = mcad_tests::Run::of("/bin/sh".as_ref())
        .args(["-c", script, mcad.to_str().unwrap(), path, trace])
        .run();
    drop(run.expect(2).says("as it was before"));
    assert_eq!(std::fs::read_to_string(&json).unwrap(), "old");
}

#[test]
fn outputs_go_to_different_places_and_stdout_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("one");
    let path = file.to_str().unwrap();
    mcad_run(["--json", path, "--record", path, "--", "echo", "ran"])
        .run()
        .expect(125)
        .says("two outputs");
    assert!(!file.exists());
    mcad_run(["--json", "-", "-o", "-", "--", "true"])
        .run()
        .expect(125)
        .says("stdout is given for two outputs");
    for option in ["-o", "--html"] {
        let run = mcad_run(["-q", option, "-", "--", "true"]).run().expect(0);
        assert!(run.text().contains("exited 0"), "{}", run.text());
    }
    // Whatever goes to stdout has it to itself.
    let said = ["--", "echo", "ran"];
    let run = mcad_run(["-q", "--json", "-"]).args(said).run().expect(0);
    let report: mcad_report::Report = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(report.program.command, ["echo", "ran"]);
    assert_eq!(run.stderr, "ran\n");
    let run = mcad_run(["-q", "--json", path]).args(said).run().expect(0);
    assert_eq!((run.text().as_str(), run.stderr.as_str()), ("ran\n", ""));
    let run = mcad(["record", "-o", "-"]).args(said).run().expect(0);
    assert!(run.stdout.starts_with(b"MCADTRC\0") && run.stdout.ends_with(b"MCADEND\0"));
    let run = mcad(["diff", "-q", "--json", "-"]).args(said).args(said);
    let run = run.run().expect(0);
    let diff: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(diff["versions"].as_array().unwrap().len(), 2);
    assert_eq!(run.stderr, "ran\nran\n");
    // What `head` does not want is no error.
    let mcad = mcad_tests::programs().file("mcad");
    let script = "set -o pipefail; \"$0\" cpus | head -c 10";
    let run = mcad_tests::Run::of("/bin/bash".as_ref())
        .args(["-c", script, mcad.to_str().unwrap()])
        .run();
    assert!([0, 141].contains(&run.code()), "{}", run.code());
    assert_eq!(run.stderr, "");
}

#[test]
fn a_program_on_a_terminal_has_it_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let mcad_run = mcad_tests::programs().file("mcad-run");
    // Long enough for a progress line to be drawn.
    let command = format!(
        "{} -o {} -- sh -c 'printf prompt; sleep 1; printf done'",
        mcad_run.display(),
        out.display()
    );
    let run = mcad_tests::Run::of(&inputs::tool("script"))
        .args(["-qec", &command, "/dev/null"])
        .run()
        .expect(0);
    assert_eq!(run.text(), "promptdone");
    assert!(
        std::fs::read_to_string(out)
            .unwrap()
            .contains("2 processes")
    );
}

#[test]
fn wrong_uses_are_answered_with_the_right_ones() {
    mcad_run(["ls", "-la"])
        .run()
        .expect(125)
        .says("mcad-run -- ls");
    mcad(["run", "ls", "-la"])
        .run()
        .expect(2)
        .says("mcad run -- ls");
    // Told before QEMU starts, and once.
    let other = mcad_run(["--cpu", "neoverse-n1", "--", "echo", "ran"]).run();
    let other = other.expect(125).says("mcad cpus --arch x86_64");
    assert!(
        other.text().is_empty() && other.stderr.lines().count() == 1,
        "{}",
        other.stderr
    );
    // An option that does not exist is no program.
    let typo = mcad_run(["--htlm", "x", "--", "true"]).run().expect(125);
    assert!(typo.stderr.contains("'--html'") && !typo.stderr.contains("behind --"));
    let near = "--cpu sk: there is no model 'sk'; did you mean skl?";
    mcad_run(["--cpu", "sk", "--", "true"])
        .run()
        .expect(125)
        .says(near);
    mcad(["block", "--cpu", "sk", "--hex", "90"])
        .run()
        .expect(2)
        .says("did you mean skl?");
    // Code in the place of a file.
    let run = mcad(["block", "add rax, rbx"]).run().expect(2);
    assert!(
        run.stderr.contains("mcad block --syntax intel -"),
        "{}",
        run.stderr
    );
    let run = mcad(["block", "nowhere.s"]).run().expect(2);
    assert_eq!(
        run.stderr.matches("No such file").count(),
        1,
        "{}",
        run.stderr
    );
    // A shell without a search path has the system's.
    let bare = |program: &str| {
        let script = format!("unset PATH; exec \"$0\" -q --cpu skl -- {program}");
        let run = programs().file("mcad-run");
        Run::of(Path::new("/bin/sh")).args(["-c", &script, run.to_str().unwrap()])
    };
    drop(bare("true").run().expect(0));
    drop(bare("/bin/true").run().expect(0));
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t.mcad");
    let path = trace.to_str().unwrap();
    drop(
        mcad_run(["-q", "--record", path, "--", "true"])
            .run()
            .expect(0),
    );
    mcad(["diff", path, path])
        .run()
        .expect(2)
        .says("mcad replay");
    let pages = directory.path().join("man");
    drop(mcad(["man", pages.to_str().unwrap()]).run().expect(0));
    let names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.contains(&"mcad-profile-block.1".to_owned()),
        "{names:?}"
    );
    for name in &names {
        let text = std::fs::read_to_string(pages.join(name)).unwrap();
        for word in text.split(|c: char| c.is_whitespace()) {
            if let Some(page) = word.strip_suffix("(1)") {
                let page = page.replace("\\-", "-");
                assert!(
                    names.contains(&format!("{page}.1")),
                    "{name} refers to {page}(1)"
                );
            }
        }
    }
}

#[test]
fn a_full_disk_for_the_report_is_an_error() {
    mcad_run(["-q", "--json", "/dev/full", "--", "true"])
        .run()
        .expect(125)
        .says("/dev/full");
}

/// Starts the endless program and waits until it runs.
fn endless(directory: &Path) -> (mcad_tests::run::Running, std::path::PathBuf) {
    let json = directory.join("report.json");
    let trace = directory.join("trace.mcad");
    let running = mcad_run(["--json", json.to_str().unwrap()])
        .args(["-q", "--record", trace.to_str().unwrap(), "--"])
        .args(inputs::busy(directory))
        .start();
    let grown = || std::fs::metadata(&trace).is_ok_and(|file| file.len() > 100_000);
    eventually("recording", grown);
    (running, json)
}

#[test]
fn a_killed_emulator_ends_the_session_with_what_arrived() {
    let directory = tempfile::tempdir().unwrap();
    let (running, json) = endless(directory.path());
    let emulators = running.children();
    assert_eq!(emulators.len(), 1);
    // SAFETY: the emulator is a child of a child that lives; its pid is not reused.
    assert_eq!(unsafe { libc::kill(emulators[0], libc::SIGKILL) }, 0);
    let run = running.wait().expect(137);
    assert_eq!(run.text(), "started\n");
    let report = report::read(&json);
    assert!(
        report.trace.instructions > 1_000_000,
        "{}",
        report.trace.instructions
    );
    assert!(report.program.end.contains('9'), "{}", report.program.end);
}

#[test]
fn sigterm_ends_the_program_and_keeps_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let (running, json) = endless(directory.path());
    running.signal(libc::SIGTERM);
    let run = running.wait();
    assert_ne!(run.code(), 0);
    let report = report::read(&json);
    assert!(
        report.trace.instructions > 1_000_000,
        "{}",
        report.trace.instructions
    );
    // The recording of a run that was cut short replays to the same figures.
    let again = directory.path().join("again.json");
    let trace = directory.path().join("trace.mcad");
    let _ = mcad([
        "replay",
        "-q",
        "--json",
        again.to_str().unwrap(),
        trace.to_str().unwrap(),
    ])
    .run();
    assert!(
        report::stable(&again) == report::stable(&json),
        "the reports differ"
    );
}

#[test]
fn a_killed_mcad_run_leaves_no_emulator_and_a_readable_recording() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _) = endless(directory.path());
    let emulators = running.children();
    running.signal(libc::SIGKILL);
    let alive = |pid: &i32| Path::new(&format!("/proc/{pid}/cwd")).read_link().is_ok();
    assert_eq!(running.wait().code(), 137);
    eventually("the program's end", || !emulators.iter().any(alive));
    // The report's place was free until the report would have been written.
    let entries = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["go", "trace.mcad"]);
    let json = directory.path().join("again.json");
    let trace = directory.path().join("trace.mcad");
    mcad([
        "replay",
        "-q",
        "--json",
        json.to_str().unwrap(),
        trace.to_str().unwrap(),
    ])
    .run()
    .expect(1);
    let report = report::read(&json);
    assert!(!report.program.complete);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn interrupted_probes_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(directory.path()).unwrap().count();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let running = mcad(["profile", "core", "--simulated", "--cpu", "skl"])
            .env("TMPDIR", directory.path())
            .start();
        eventually("a probe", || entries() > 0);
        running.signal(signal);
        let _ = running.wait().expect(2);
        assert_eq!(entries(), 0, "signal {signal}");
    }
}

#[test]
fn regions_that_do_not_exist_fail_and_say_what_is_near() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("r.json");
    mcad_run([
        "-q",
        "--json",
        json.to_str().unwrap(),
        "--region",
        "mallok",
        "--",
        "true",
    ])
    .run()
    .expect(125)
    .says("region 'mallok' was never found")
    .says("did you mean malloc");
    mcad_run(["-q", "--region", "0x10-0x20", "--", "true"])
        .run()
        .expect(125)
        .says("region '0x10-0x20' was never found");
}

#[test]
fn regions_are_found_by_every_name_that_they_have() {
    let directory = tempfile::tempdir().unwrap();
    let source = "__attribute__((noinline)) int work(int n) { int s = 0; \
                  for (volatile int i = 0; i < n; i++) s += i; return s; } \
                  int main(void) { for (int i = 0; i < 7; i++) work(100); return 0; }";
    let program = inputs::compile(directory.path(), "prog", source);
    let listing = mcad_tests::Run::of(&inputs::tool("nm"))
        .args(["-S", program.to_str().unwrap()])
        .run()
        .expect(0)
        .text();
    let line = listing
        .lines()
        .find(|line| line.ends_with(" work"))
        .unwrap();
    let fields: Vec<u64> = line
        .split(' ')
        .take(2)
        .map(|hex| u64::from_str_radix(hex, 16).unwrap())
        .collect();
    let (start, end) = (fields[0], fields[0] + fields[1]);
    let json = directory.path().join("r.json");
    let names = [
        "work".to_owned(),
        format!("prog+{start:#x}"),
        format!("{start:#x}-{end:#x}"),
        format!("{:#x}-{:#x}", 0x40_0000_0000 + start, 0x40_0000_0000 + end),
    ];
    let options = names.iter().flat_map(|name| ["--region", name]);
    mcad_run(["-q", "--json", json.to_str().unwrap()])
        .args(options)
        .args(["--", program.to_str().unwrap()])
        .run()
        .expect(0);
    let report = report::read(&json);
    let regions = &report.cpus[0].regions;
    assert_eq!(regions.len(), names.len(), "{regions:?}");
    for region in regions {
        assert_eq!(region.count, 7, "{region:?}");
        assert_eq!(region.cycles, regions[0].cycles, "{region:?}");
    }
}

#[test]
fn a_program_that_faults_keeps_its_status_and_report() {
    let directory = tempfile::tempdir().unwrap();
    let source = "int main(void) { volatile int *p = 0; return *p; }";
    let program = inputs::compile(directory.path(), "fault", source);
    let json = directory.path().join("report.json");
    let arguments = [
        "-q",
        "--json",
        json.to_str().unwrap(),
        "--",
        program.to_str().unwrap(),
    ];
    assert_eq!(mcad_run(arguments).run().code(), 139);
    assert!(report::read(&json).trace.instructions > 10_000);
}

#[test]
fn the_first_interrupt_is_the_programs_and_the_second_ends_the_session() {
    let directory = tempfile::tempdir().unwrap();
    let (running, json) = endless(directory.path());
    // To mcad-run alone, so that the program goes on.
    running.signal(libc::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!json.exists());
    running.signal(libc::SIGINT);
    assert_ne!(running.wait().code(), 0);
    assert!(report::read(&json).trace.instructions > 1_000_000);
}

#[test]
fn an_interrupt_ends_a_replay_that_says_how_far_it_came() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _) = endless(directory.path());
    running.signal(libc::SIGTERM);
    assert_ne!(running.wait().code(), 0);
    let trace = directory.path().join("trace.mcad");
    let models = ["skl", "glc", "zen5", "rwc", "hsw", "icl", "zen4", "snb"];
    let json = directory.path().join("replayed.json");
    let replay = mcad(["replay", "-q", "-o", "/dev/null", "--json"]).args([&json, &trace]);
    let replay = replay.args(models.map(|name| format!("--cpu={name}")));
    let replaying = replay.start();
    std::thread::sleep(std::time::Duration::from_millis(500));
    replaying.signal(libc::SIGINT);
    assert_ne!(replaying.wait().code(), 0);
    let report = report::read(&json);
    assert!(
        report.program.end.contains("stopped"),
        "{}",
        report.program.end
    );
}

#[test]
fn an_interrupted_comparison_does_not_go_on_with_the_next_command() {
    let directory = tempfile::tempdir().unwrap();
    // Whoever runs the tests in the background may have them inherit that interrupts are ignored.
    let source = "#include <fcntl.h>\n#include <signal.h>\n\
                  int main(void) { signal(SIGINT, SIG_DFL); creat(\"started\", 0600); for (;;); }";
    let program = inputs::compile(directory.path(), "endless", source);
    let program = arg(&program);
    let compared = mcad(["diff", "-q", "--", program, "--", program]);
    let running = compared.within(directory.path()).start();
    let started = || directory.path().join("started").exists();
    eventually("the first command", started);
    // As the terminal does: to all of its group.
    let children = running.children();
    running.signal(libc::SIGINT);
    for child in children {
        // SAFETY: a child of a child that lives; its pid is not reused.
        assert_eq!(unsafe { libc::kill(child, libc::SIGINT) }, 0);
    }
    running.wait().expect(2).says("interrupted");
}

#[test]
fn an_emulator_that_does_not_start_is_no_end_of_the_program() {
    mcad_run(["-q", "--qemu-cpu", "no-such-cpu", "--", "true"])
        .run()
        .expect(125)
        .says("before the first instruction");
}

#[test]
fn a_daemon_that_is_not_there_is_told_before_the_program_runs() {
    let directory = tempfile::tempdir().unwrap();
    mcad_run(["-q", "--daemon", "unix:/no/such/socket", "--"])
        .args(["touch", "touched"])
        .within(directory.path())
        .run()
        .expect(125)
        .says("/no/such/socket");
    assert!(!directory.path().join("touched").exists());
}

#[test]
fn a_timeline_goes_to_stdout_too() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("timeline");
    let options = ["-q", "--cpu", "skl", "--window", "hottest:50", "--timeline"];
    let run = |to: &str| {
        let run = mcad_run(options).args([to, "--", "true"]);
        run.within(directory.path()).run().expect(0).stdout
    };
    let stdout = run("-");
    assert_eq!(run(file.to_str().unwrap()), b"");
    // Runs differ in addresses; both are whole timelines.
    std::fs::write(directory.path().join("other"), stdout).unwrap();
    for name in ["timeline", "other"] {
        let view = mcad(["view", "--format", "konata", name]).within(directory.path());
        assert!(view.run().expect(0).text().starts_with("Kanata"), "{name}");
    }
    assert!(!directory.path().join("-").exists());
    mcad_run(options)
        .args(["-", "--html", "page.html", "--", "touch", "mark"])
        .within(directory.path())
        .run()
        .expect(125)
        .says("cannot read stdout back");
    assert!(!directory.path().join("mark").exists());
}

#[test]
fn a_limit_of_files_sizes_is_named() {
    let program = programs().file("mcad-run");
    let script = "ulimit -f 1; \"$0\" -q --cpu skl -- true";
    Run::of(Path::new("/bin/sh"))
        .args(["-c", script, program.to_str().unwrap()])
        .run()
        .expect(125)
        .says("ulimit -f");
}

#[test]
fn a_block_fits_a_narrow_terminal() {
    let block = "488b0f480fafca4801c8488906488b164883c7084c39cf75e7";
    let program = mcad_tests::programs().file("mcad");
    let command = format!(
        "stty cols 60; {} block --cpu glc --cpu zen5 --align all --graph --timeline=3 --hex {block}",
        program.display()
    );
    let run = Run::of(&inputs::tool("script"))
        .args(["-qec", &command, "/dev/null"])
        .run()
        .expect(0);
    let text = run.text();
    let mut letters = false;
    // Without what sets colours.
    let plain: String = text
        .chars()
        .filter(|c| {
            let was = letters;
            letters = *c == '\u{1b}' || letters && *c != 'm';
            !letters && !was
        })
        .collect();
    assert!(
        plain.contains("Timeline") && plain.contains("Dependencies"),
        "{plain}"
    );
    let longest = plain
        .lines()
        .max_by_key(|line| line.trim_end().chars().count());
    let longest = longest.unwrap().trim_end();
    assert!(longest.chars().count() <= 60, "{longest:?} in\n{plain}");
}
