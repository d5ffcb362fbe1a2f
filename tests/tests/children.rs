//! Programs that make processes, end to end: output and status are the program's own, and every
//! process is in the report.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::collections::BTreeMap;
use std::path::Path;

use mcad_report::Report;
use mcad_tests::{FAST, inputs, mcad, mcad_run, report};

/// Natively and traced the same, with a tree of processes that adds up.
fn same(directory: &Path, command: &[&str], input: &[u8]) -> Report {
    let report = mcad_tests::same(directory, command, input);
    adds_up(&report);
    report
}

/// Processes are the sum, and their tree is one.
fn adds_up(report: &Report) {
    let instructions = |sum: u64, n: u64| sum + n;
    let of_processes = report.processes.iter().map(|p| p.instructions);
    assert_eq!(
        of_processes.fold(0, instructions),
        report.trace.instructions
    );
    for (n, process) in report.processes.iter().enumerate() {
        assert_eq!(process.process as usize, n);
        assert_eq!(process.parent.is_none(), n == 0);
        assert!(process.parent.is_none_or(|parent| (parent as usize) < n));
    }
    for cpu in &report.cpus {
        assert_eq!(cpu.processes.len(), report.processes.len());
        let cycles = cpu.processes.iter().map(|p| p.cycles);
        assert_eq!(cycles.fold(0, instructions), cpu.cycles);
        for (process, cycles) in report.processes.iter().zip(&cpu.processes) {
            assert_eq!(process.instructions, cycles.instructions);
        }
    }
}

/// The programs that ran, by file name, with how each process ended.
fn programs(report: &Report) -> BTreeMap<String, Vec<String>> {
    let mut programs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for process in &report.processes {
        let program = Path::new(&process.command[0]).file_name().unwrap();
        let ends = programs.entry(program.to_string_lossy().into_owned());
        ends.or_default().push(process.end.clone());
    }
    programs
}

#[test]
fn a_pipeline() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x"), inputs::text(40_000)).unwrap();
    let line = "cat x | gzip -9 | wc -c; exit 3";
    let report = same(directory.path(), &["sh", "-c", line], b"");
    let commands: Vec<&str> = report.processes.iter().map(|p| &*p.command[0]).collect();
    assert_eq!(commands, ["sh", "cat", "gzip", "wc"]);
    let ends: Vec<&str> = report.processes.iter().map(|p| &*p.end).collect();
    assert_eq!(ends, ["exited 3", "exited 0", "exited 0", "exited 0"]);
    // What a function did is found under its file, whoever ran it.
    let gzip = &report.cpus[0].functions[0];
    assert_eq!(gzip.module, "gzip");
    // The terminal shows the processes, too.
    let json = directory.path().join("report.json");
    let text = mcad(["view", json.to_str().unwrap()])
        .run()
        .expect(0)
        .text();
    assert!(text.contains("4 threads of 4 processes"), "{text}");
    assert!(text.contains("exited 0    gzip -9"), "{text}");
}

#[test]
fn a_shell_script_with_background_jobs_and_traps() {
    let directory = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\n\
        exec 2>/dev/null # whether a shell tells of a job's end depends on when it looks\n\
        trap 'echo bye' EXIT\n\
        (exit 7) & first=$!\n\
        sh -c 'kill -TERM $$' & second=$!\n\
        wait $first; echo $?\n\
        wait $second; echo $?\n\
        here=$(printf '%s\\n' b a | sort | tr -d '\\n')\n\
        echo \"$here\"\n\
        exit 9\n";
    std::fs::write(directory.path().join("script"), script).unwrap();
    let report = same(directory.path(), &["sh", "script"], b"");
    let programs = programs(&report);
    assert_eq!(programs["sort"], ["exited 0"]);
    assert_eq!(programs["tr"], ["exited 0"]);
    let shells = &programs["sh"];
    for end in ["exited 9", "exited 7", "signal 15"] {
        assert!(shells.iter().any(|of| of == end), "{end} in {shells:?}");
    }
}

#[test]
fn pythons_subprocesses() {
    let directory = tempfile::tempdir().unwrap();
    let python = inputs::python();
    let code = "import subprocess, sys\n\
        out = subprocess.run(['sort'], input=b'b\\na\\n', stdout=subprocess.PIPE).stdout\n\
        print(out, subprocess.call(['sh', '-c', 'exit 5']), flush=True)\n\
        try:\n    subprocess.run(['/no/such/program'])\n\
        except FileNotFoundError:\n    print('none')\n\
        sys.exit(subprocess.run('kill -9 $$', shell=True).returncode + 20)\n";
    let json = directory.path().join("report.json");
    let traced = mcad_run(FAST)
        .args(["--json", json.to_str().unwrap(), "-q", "--"])
        .args([&*python, "-IS", "-c", code])
        .run()
        .expect(11);
    assert_eq!(traced.text(), "b'a\\nb\\n' 5\nnone\n");
    let report = report::read(&json);
    adds_up(&report);
    assert_eq!(programs(&report)["sort"], ["exited 0"]);
    let ends: Vec<&str> = report.processes.iter().map(|p| &*p.end).collect();
    for end in ["exited 11", "exited 5", "signal 9"] {
        assert!(ends.contains(&end), "{end} in {ends:?}");
    }
}

/// The compiler driver, compiler, assembler and linker; then what they made, by `make`.
#[test]
fn make_and_the_compiler() {
    let directory = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text).unwrap();
    };
    put("a.c", "int b(void); int main(void) { return b(); }\n");
    put("b.s", ".globl b\nb: mov $23, %eax\n ret\n");
    put(
        "Makefile",
        "run: p\n\t./p\np: a.c b.s\n\tgcc -O1 a.c b.s -o p\n",
    );
    let json = directory.path().join("report.json");
    let traced = mcad_run(FAST)
        .args(["--json", json.to_str().unwrap(), "-q", "--", "make"])
        .within(directory.path())
        .limit(std::time::Duration::from_secs(600))
        .run()
        .expect(2);
    assert!(traced.text().contains("gcc -O1 a.c b.s -o p"));
    assert!(traced.stderr.contains("Error 23"), "{}", traced.stderr);
    let report = report::read(&json);
    adds_up(&report);
    let programs = programs(&report);
    assert_eq!(programs["make"], ["exited 2"]);
    assert_eq!(programs["cc1"], ["exited 0"]);
    assert_eq!(programs["as"], ["exited 0", "exited 0"]);
    assert_eq!(programs["p"], ["exited 23"]);
}

/// A program takes the same instructions from a shell as alone, and about the same cycles: its
/// caches and predictors are its own.
#[test]
fn a_child_is_simulated_as_if_it_were_alone() {
    let directory = tempfile::tempdir().unwrap();
    let source = "volatile long n;\n\
        __attribute__((noinline)) void work(long *at) {\n\
            for (int i = 0; i < 20000; i++) { at[i * 7 % 4096] += i; n++; }\n\
        }\n\
        int main(void) { static long at[4096]; work(at); return 0; }\n";
    let _ = inputs::compile(directory.path(), "program", source);
    let json = directory.path().join("report.json");
    let of = |command: &[&str]| {
        mcad_run(["--json", json.to_str().unwrap(), "-q", "--"])
            .args(command)
            .within(directory.path())
            .run()
            .expect(0);
        let report = report::read(&json);
        let mut functions = report.cpus[0].functions.clone();
        functions.retain(|f| f.name == "work" && f.module == "program");
        assert_eq!(functions.len(), 1);
        (functions[0].instructions, functions[0].cycles)
    };
    let (instructions, cycles) = of(&["./program"]);
    let (twice, cycles_twice) = of(&["sh", "-c", "./program & ./program & wait"]);
    assert_eq!(twice, 2 * instructions);
    let difference = cycles_twice.abs_diff(2 * cycles);
    assert!(difference * 50 < cycles, "{cycles}, {cycles_twice}");
}

/// What was recorded of several processes gives the report again.
#[test]
fn a_recording_has_all_processes() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (trace, live, again) = (at("trace"), at("live.json"), at("again.json"));
    mcad_run(["--record", &trace, "--json", &live, "-q", "--"])
        .args(["sh", "-c", "echo b a | tr ' ' '\\n' | sort; exit 4"])
        .run()
        .expect(4);
    mcad(["replay", "-q", "--json", &again, &trace])
        .run()
        .expect(0);
    assert_eq!(
        report::stable(Path::new(&live)),
        report::stable(Path::new(&again))
    );
    assert_eq!(report::read(Path::new(&again)).processes.len(), 4);
}

#[test]
fn children_may_be_left_out() {
    let line = "/bin/true; /bin/true | /bin/true; exit 6";
    let traced = mcad_run(["--no-follow", "--", "sh", "-c", line])
        .run()
        .expect(6)
        .says("3 child processes were not traced");
    assert!(!traced.stderr.contains("Processes"));
}

#[test]
fn set_user_id_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <unistd.h>\n\
        int main(void) { return geteuid() == getuid() ? 3 : 4; }\n";
    let program = inputs::compile(directory.path(), "program", source);
    let mode = std::fs::Permissions::from_mode(0o4755);
    std::fs::set_permissions(&program, mode).unwrap();
    mcad_run(["--", "./program"])
        .within(directory.path())
        .run()
        .expect(3)
        .says("program is set-user-id or set-group-id: under the emulator it runs with");
    mcad_run(["--", "sh", "-c", "./program & wait $!"])
        .within(directory.path())
        .run()
        .expect(3)
        .says("replaced itself by ./program (set-user-id or set-group-id), which ran untraced");
}
