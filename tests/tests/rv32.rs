//! Programs of RV32IMC, which stand on no library, on the core that executes nothing else: from capture
//! to report, replay, views, comparison and the mechanistic model.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use mcad_tests::inputs::cross_compile;
use mcad_tests::{arg, mcad, mcad_run, report};

const SOURCE: &str = r#"
static int list[1000];
__attribute__((noinline)) int work(const int *of, int count) {
    int sum = 0;
    __asm__ volatile ("");
    for (int i = 0; i < count; i++) sum = (sum ^ of[i]) * 7 + i;
    return sum;
}
static int call(int number, int a, const void *b, int c) {
    register int a7 __asm__("a7") = number, a0 __asm__("a0") = a;
    register const void *a1 __asm__("a1") = b;
    register int a2 __asm__("a2") = c;
    __asm__ volatile ("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}
void _start(void) {
    char text[12];
    unsigned sum = 0;
    int n = 11;
    for (int i = 0; i < 1000; i++) list[i] = i * 7919;
    for (int i = 0; i < 50; i++) sum += work(list, 1000);
    text[n] = '\n';
    do text[--n] = '0' + sum % 10; while (sum /= 10);
    call(64, 1, text + n, 12 - n);
    call(93, 7, 0, 0);
}"#;

/// A program by Debian's compiler for 64 bits, which makes code for 32 as well.
fn compiled(directory: &Path, optimisation: &str) -> PathBuf {
    let source = directory.join("work.c");
    std::fs::write(&source, SOURCE).unwrap();
    let program = directory.join(format!("work{optimisation}"));
    let options = [
        "-march=rv32imc",
        "-mabi=ilp32",
        "-nostdlib",
        "-static",
        "-g",
    ];
    let of_code = [optimisation, "-fno-pic", "-no-pie"];
    let options = [&options[..], &of_code].concat();
    cross_compile("riscv64-linux-gnu-gcc", &options, &source, &program);
    program
}

#[test]
fn a_program_is_followed_on_eh1() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let program = compiled(directory.path(), "-O2");
    let (live, trace, page) = (at("live.json"), at("trace.mcad"), at("page.html"));
    // Without --cpu: there is one that executes it.
    let run = mcad_run(["-q", "--region", "work", "--json", arg(&live)])
        .args(["--record", arg(&trace), "--html", arg(&page)])
        .args(["--", arg(&program)])
        .run()
        .expect(7);
    let plain = Command::new("qemu-riscv32").arg(&program).output();
    let plain = plain.unwrap_or_else(|e| panic!("qemu-riscv32: {e} (apt-get install qemu-user)"));
    assert_eq!(run.stdout, plain.stdout);
    let found = report::read(&live);
    assert_eq!(found.program.arch, "riscv32");
    let cpu = &found.cpus[0];
    assert_eq!(cpu.cpu, "eh1");
    assert_eq!(cpu.unknown_instructions.count, 0);
    assert_eq!(cpu.unknown_instructions.approximated, 0);
    let region = &cpu.regions[0];
    assert_eq!((region.name.as_str(), region.count), ("work", 50));
    // Nine instructions an element, of which two always wait for the one before.
    assert!((4_500..6_500).contains(&region.median), "{}", region.median);
    // Its front end and its predictor are those of the RTL: the loop's last turns are mispredicted.
    let slots = &cpu.topdown;
    assert!(slots.bad_speculation > 0 && slots.frontend > 0);

    let again = at("again.json");
    mcad(["replay", "-q", "--region", "work", "--json", arg(&again)])
        .args([arg(&trace)])
        .run()
        .expect(0);
    assert_eq!(report::stable(&live), report::stable(&again));
    let refused = mcad(["replay", "-q", "--cpu", "rocket", arg(&trace)]).run();
    assert_ne!(refused.code(), 0);
    assert!(
        refused.stderr.contains("riscv32 code"),
        "{}",
        refused.stderr
    );

    let chrome = mcad(["view", arg(&trace), "--format", "chrome"]).run();
    assert!(chrome.expect(0).text().contains("lw a"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("VeeR EH1"));

    let slow = at("slow.json");
    let program = compiled(directory.path(), "-O0");
    mcad_run(["-q", "--json", arg(&slow), "--", arg(&program)])
        .run()
        .expect(7);
    let changed = mcad(["diff", arg(&slow), arg(&live)]).run().expect(0);
    assert!(changed.text().contains("work"));
}

/// How long a division takes depends on its operands, which are in the file's data; a file that is another
/// one by now says nothing.
#[test]
fn values_start_with_the_data_of_the_file() {
    const DIVIDES: &str = r#"
static unsigned numbers[4] = {0xf0000001, 0xf0000003, 0xf0000005, 0xf0000007}, by[4] = {3, 5, 7, 9};
void _start(void) {
    unsigned sum = 0;
    for (int i = 0; i < 400; i++) {
        __asm__ volatile ("" ::: "memory");
        sum ^= numbers[i & 3] / by[i & 3];
    }
    register int a7 __asm__("a7") = 93, a0 __asm__("a0") = sum & 1;
    __asm__ volatile ("ecall" :: "r"(a0), "r"(a7));
}"#;
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (source, program, trace) = (at("divide.c"), at("divide"), at("trace.mcad"));
    std::fs::write(&source, DIVIDES).unwrap();
    let options = [
        "-O2",
        "-march=rv32imc",
        "-mabi=ilp32",
        "-nostdlib",
        "-static",
    ];
    let of_code = ["-fno-pic", "-no-pie"];
    let options = [&options[..], &of_code].concat();
    cross_compile("riscv64-linux-gnu-gcc", &options, &source, &program);
    let run = mcad(["record", "-o", arg(&trace), "--", arg(&program)]).run();
    assert!(run.code() <= 1, "{}", run.stderr);
    let divider = |name: &str| {
        let json = at(name);
        mcad(["replay", "-q", "--json", arg(&json), arg(&trace)])
            .run()
            .expect(0);
        let cpu = report::read(&json).cpus.remove(0);
        (cpu.slots.unwrap().divider, cpu.cycles)
    };
    let (waits, cycles) = divider("with.json");
    // Quotients of 30 bits, most of a division of 34 cycles long.
    assert!(waits > 2 * 25 * 400, "{waits} of {cycles}");
    std::fs::remove_file(&program).unwrap();
    let without = divider("without.json");
    assert!(without.0 < waits, "{without:?} without");
    // Another program by the same name, with short quotients.
    std::fs::write(
        &source,
        DIVIDES.replace("{3, 5, 7, 9}", "{~0u, ~0u, ~0u, ~0u}"),
    )
    .unwrap();
    let other = [&["-O0"], &options[1..]].concat();
    cross_compile("riscv64-linux-gnu-gcc", &other, &source, &program);
    assert_eq!(divider("other.json"), without);
}

#[test]
fn the_mechanistic_model_has_eh1() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let program = compiled(directory.path(), "-O2");
    let (live, trace, profile) = (at("live.json"), at("trace.mcad"), at("work.profile"));
    mcad_run(["-q", "--json", arg(&live), "--record", arg(&trace)])
        .args(["--", arg(&program)])
        .run()
        .expect(7);
    mcad(["model", "profile", arg(&trace), "-o", arg(&profile)])
        .run()
        .expect(0);
    let predicted = mcad(["model", "predict", "--json", "-", "--cpu", "eh1"])
        .args([arg(&profile)])
        .run()
        .expect(0);
    let predicted: serde_json::Value = serde_json::from_str(&predicted.text()).unwrap();
    let stepped = report::read(&live).cpus[0].cycles as f64;
    let ratio = predicted["cycles"].as_f64().unwrap() / stepped;
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn blocks_come_as_text_and_as_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("chain.s");
    // A chain of two products, three cycles each.
    std::fs::write(&file, "mul a0, a0, a1\nmul a0, a0, a1\n").unwrap();
    let cycles = |arguments: &[&str]| {
        let run = mcad(["block", "--json", "-"])
            .args(arguments)
            .run()
            .expect(0);
        let report: serde_json::Value = serde_json::from_str(&run.text()).unwrap();
        let block = &report["blocks"][0]["cpus"][0];
        assert_eq!(block["cpu"], "eh1", "{report}");
        block["cycles"].as_f64().unwrap()
    };
    let of_text = cycles(&["--arch", "riscv32", arg(&file)]);
    assert!((of_text - 6.0).abs() < 0.01, "{of_text}");
    let of_bytes = cycles(&["--cpu", "eh1", "--hex", "3305b5023305b502"]);
    assert!((of_bytes - 6.0).abs() < 0.01, "{of_bytes}");
    // fadd.s: no part of RV32IMC.
    let float = mcad(["block", "--cpu", "eh1", "--hex", "53751500"]).run();
    assert_ne!(float.code(), 0);
}
