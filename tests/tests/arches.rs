//! Programs for AArch64 and RISC-V from capture to report, replay, views and comparison.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::PathBuf;
use std::process::Command;

use mcad_tests::daemon::Daemon;
use mcad_tests::inputs::cross_compile;
use mcad_tests::{arg, mcad, mcad_run, report};
use tempfile::TempDir;

/// Instruction set, its default model, and another one.
const ARCHES: [(&str, &str, &str); 2] = [
    ("aarch64", "neoverse-n1", "cortex-a72"),
    ("riscv64", "sifive-p670", "xiangshan-nanhu"),
];

const SOURCE: &str = r#"
#include <stdio.h>
__attribute__((noinline)) long work(const long *list, int count) {
    long sum = 0;
    __asm__ volatile ("");
    for (int i = 0; i < count; i++) sum = (sum ^ list[i]) * 7 + i;
    return sum;
}
int main(int argc, char **argv) {
    static long list[1000];
    long sum = 0;
    for (int i = 0; i < 1000; i++) list[i] = i * 7919;
    for (int i = 0; i < 50; i++) sum += work(list, 1000);
    printf("%ld\n", sum);
    return 7;
}"#;

/// A statically linked program by Debian's cross compiler.
fn compiled(directory: &TempDir, arch: &str, optimisation: &str) -> PathBuf {
    let source = directory.path().join("work.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = directory.path().join(format!("work-{arch}{optimisation}"));
    let compiler = format!("{arch}-linux-gnu-gcc");
    cross_compile(
        &compiler,
        &[optimisation, "-g", "-static"],
        &source,
        &program,
    );
    program
}

#[test]
fn a_run_is_reported_replayed_and_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (arch, usual, other) in ARCHES {
        let program = compiled(&directory, arch, "-O2");
        let (live, trace) = (at("live.json"), at("trace.mcad"));
        let run = mcad_run(["-q", "--region", "work", "--json", arg(&live)])
            .args(["--record", arg(&trace), "--html", arg(&at("page.html"))])
            .args(["--", arg(&program)])
            .run()
            .expect(7);
        let plain = Command::new(format!("qemu-{arch}")).arg(&program).output();
        let plain =
            plain.unwrap_or_else(|e| panic!("qemu-{arch}: {e} (apt-get install qemu-user)"));
        assert_eq!(run.stdout, plain.stdout, "{arch}");
        let found = report::read(&live);
        assert_eq!(found.program.arch, arch);
        let cpu = &found.cpus[0];
        assert_eq!(cpu.cpu, usual);
        assert_eq!(cpu.unknown_instructions.count, 0, "{arch}");
        assert!(cpu.unknown_instructions.approximated * 1_000 < found.trace.instructions);
        // 50 calls, each over 1 000 elements.
        let region = &cpu.regions[0];
        assert_eq!((region.name.as_str(), region.count), ("work", 50), "{arch}");
        let hottest = &cpu.functions[0];
        assert_eq!(hottest.name, "work", "{arch}");

        let again = at("again.json");
        mcad(["replay", "-q", "--region", "work", "--json", arg(&again)])
            .args([arg(&trace)])
            .run()
            .expect(0);
        assert_eq!(report::stable(&live), report::stable(&again), "{arch}");
        let other_json = at("other.json");
        mcad(["replay", "-q", "--cpu", other, "--json", arg(&other_json)])
            .args([arg(&trace)])
            .run()
            .expect(0);
        let slower = &report::read(&other_json).cpus[0];
        assert_eq!(slower.cpu, other);
        assert!(slower.cycles > 0);

        let chrome = at("chrome.json");
        mcad([
            "view",
            arg(&trace),
            "--format",
            "chrome",
            "-o",
            arg(&chrome),
        ])
        .run()
        .expect(0);
        let chrome = std::fs::read_to_string(&chrome).unwrap();
        let loads = if arch == "aarch64" { "ldr x" } else { "ld a" };
        assert!(chrome.contains(loads), "{arch}");
        let page = std::fs::read_to_string(at("page.html")).unwrap();
        assert!(page.len() > 100_000 && page.contains(usual), "{arch}");

        // A part that is perfect is one of the core that is meant when none is named, which has no caches.
        let full_name = &found.cpus[0].name;
        let refused = mcad(["replay", "-q", "--ideal", "l1d", arg(&trace)]).run();
        assert!(refused.stderr.contains(full_name), "{}", refused.stderr);
        mcad_run(["-q", "--ideal", "l1d", "--", arg(&program)])
            .run()
            .expect(125)
            .says(full_name);

        let refused = mcad(["replay", "-q", "--cpu", "skl", arg(&trace)]).run();
        assert_ne!(refused.code(), 0);
        assert!(refused.stderr.contains(&format!("{arch} code")), "{arch}");
    }
}

/// In-order CPUs with caches and predictors.
const IN_ORDER: [(&str, [&str; 3]); 2] = [
    ("aarch64", ["cortex-a8", "cortex-a53", "cortex-a55"]),
    ("riscv64", ["rocket", "sifive-u74", "spacemit-x60"]),
];

#[test]
fn in_order_cores_replay_as_they_run_with_any_number_of_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (arch, cpus) in IN_ORDER {
        let program = compiled(&directory, arch, "-O2");
        let cpus = cpus.map(|cpu| ["--cpu", cpu]).concat();
        let (live, trace, again) = (at("live.json"), at("trace.mcad"), at("again.json"));
        mcad_run(["-q", "--json", arg(&live), "--record", arg(&trace)])
            .args(&cpus)
            .args(["--", arg(&program)])
            .run()
            .expect(7);
        mcad(["replay", "-q", "--json", arg(&again)])
            .args(&cpus)
            .args([arg(&trace)])
            .run()
            .expect(0);
        assert_eq!(report::stable(&live), report::stable(&again), "{arch}");
        for cpu in &report::read(&live).cpus {
            assert!(cpu.branches.as_ref().unwrap().wrong() > 0, "{}", cpu.cpu);
            assert!(cpu.memory.is_some(), "{}", cpu.cpu);
        }
        let cut = ["2", "3"].map(|jobs| {
            let json = at(&format!("jobs{jobs}.json"));
            mcad(["replay", "-q", "--jobs", jobs, "--interval", "50000"])
                .args(&cpus)
                .args(["--json", arg(&json), arg(&trace)])
                .run()
                .expect(0);
            report::stable(&json)
        });
        assert_eq!(cut[0], cut[1], "{arch}");
    }
}

#[test]
fn two_builds_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    for (arch, ..) in ARCHES {
        let reports = ["-O0", "-O2"].map(|level| {
            let program = compiled(&directory, arch, level);
            let json = directory.path().join(format!("{arch}{level}.json"));
            mcad_run(["-q", "--json", arg(&json), "--", arg(&program)])
                .run()
                .expect(7);
            json
        });
        let run = mcad(["diff", arg(&reports[0]), arg(&reports[1])]).run();
        assert!(run.expect(0).text().contains("work"), "{arch}");
        let cycles = reports.map(|json| report::read(&json).cpus[0].cycles);
        assert!(cycles[1] < cycles[0], "{arch}: {cycles:?}");
    }
}

#[test]
fn the_mechanistic_model_takes_their_programs() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (trace, profile, live) = (at("trace.mcad"), at("work.profile"), at("live.json"));
    for (arch, ..) in ARCHES {
        let program = compiled(&directory, arch, "-O2");
        mcad_run(["-q", "--json", arg(&live), "--record", arg(&trace)])
            .args(["--", arg(&program)])
            .run()
            .expect(7);
        let executed = report::read(&live).trace.instructions;
        let said = mcad(["model", "profile", arg(&trace), "-o", arg(&profile)])
            .run()
            .expect(0);
        let begin = format!("{executed} instructions, ");
        assert!(said.stderr.starts_with(&begin), "{arch}: {}", said.stderr);
        // Its prediction is that of the core stepped through the same instructions.
        let run = mcad(["eval", "--in-order", arg(&trace)]).run().expect(0);
        let chain = run.stderr.lines().find(|line| line.starts_with("chain:"));
        let chain = chain.unwrap_or_else(|| panic!("{arch}: {}", run.stderr));
        let mean: f64 = chain.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(mean < 2.5, "{arch}: {chain}");
        // And it follows an in-order CPU's own model, whose rules are LLVM's.
        let cpu = if arch == "aarch64" {
            "cortex-a53"
        } else {
            "sifive-u74"
        };
        // Of the program's misses and mispredictions a machine of that name knows nothing.
        let (json, alone) = (at("stepped.json"), at("alone.toml"));
        let text = format!(
            "base = \"{cpu}\"\n[in_order.predictor]\nkind = \"perfect\"\n\
             [in_order.memory.cache]\nperfect_l1d = true\nperfect_l1i = true\n"
        );
        std::fs::write(&alone, text).unwrap();
        mcad(["replay", "-q", "--cpu", arg(&alone), "--json", arg(&json)])
            .args([arg(&trace)])
            .run()
            .expect(0);
        let stepped = report::read(&json).cpus[0].cycles as f64;
        let predicted = mcad(["model", "predict", "--json", "-", "--cpu", cpu])
            .args([arg(&profile)])
            .run()
            .expect(0);
        let predicted: serde_json::Value = serde_json::from_str(&predicted.text()).unwrap();
        let ratio = predicted["cycles"].as_f64().unwrap() / stepped;
        assert!((0.8..1.2).contains(&ratio), "{arch}: {ratio}");
    }
}

/// What the kernel tells a program of the CPU's extensions.
const EXTENSIONS: &str = r#"
#include <stdio.h>
#include <sys/auxv.h>
int main(void) {
    printf("%lx\n", getauxval(AT_HWCAP));
    return 0;
}"#;

#[test]
fn a_daemons_client_shows_the_program_the_cpu_that_a_local_run_does() {
    let directory = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(directory.path(), &[]);
    let source = directory.path().join("extensions.c");
    std::fs::write(&source, EXTENSIONS).unwrap();
    let program = directory.path().join("extensions");
    cross_compile("aarch64-linux-gnu-gcc", &["-static"], &source, &program);
    let shown = |options: &[&str]| {
        let run = mcad_run(["-q"])
            .args(options)
            .args(["-o", arg(&directory.path().join("report.txt"))])
            .args(["--", arg(&program)])
            .run();
        run.expect(0).text()
    };
    let address = daemon.address();
    for cpu in ["cortex-a53", "neoverse-n1"] {
        let local = shown(&["--cpu", cpu]);
        assert_eq!(shown(&["--cpu", cpu, "--daemon", &address]), local, "{cpu}");
    }
    assert_ne!(shown(&["--cpu", "cortex-a53"]), shown(&[]));
    mcad_run(["-q", "--cpu", "skl", "--daemon", &address])
        .args(["--", arg(&program)])
        .run()
        .expect(125)
        .says("which the CPU model 'skl' does not execute");
    drop(daemon.finish());
}
