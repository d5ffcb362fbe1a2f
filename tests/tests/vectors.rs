//! A vector function that is called with four register groupings in one run costs what each of them
//! does: code is known by the type with which it is entered.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests fail tests.

use std::path::Path;

use mcad_tests::inputs::cross_compile;
use mcad_tests::{arg, mcad_run, report};

/// Turns of the function's loop in each call.
const TURNS: u64 = 1000;

#[test]
fn one_function_costs_what_its_callers_type_makes_it() {
    let directory = tempfile::tempdir().unwrap();
    let (program, json) = (
        directory.path().join("vectors"),
        directory.path().join("v.json"),
    );
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/vectors.c");
    let options = ["-O2", "-static", "-march=rv64gcv", "-mabi=lp64d"];
    cross_compile("riscv64-linux-gnu-gcc", &options, &source, &program);
    let groupings = [1, 2, 4, 8];
    let regions = groupings.map(|m| format!("run_m{m}"));
    mcad_run(["-q", "--cpu", "sifive-p670", "--cpu", "spacemit-x60"])
        .args(["--qemu-cpu", "rv64,v=true,vlen=128,vext_spec=v1.0"])
        .args(regions.iter().flat_map(|name| ["--region", name]))
        .args(["--json", arg(&json), "--", arg(&program)])
        .run()
        .expect(0);
    let found = report::read(&json);
    // Two additions a turn, of which a register takes P670's two vector pipes half a cycle each, and
    // X60's one pipe two cycles; at m1 other parts of the loop bound X60.
    for (cpu, of_register, least) in [("sifive-p670", 1, 1), ("spacemit-x60", 4, 2)] {
        let cpu = found.cpus.iter().find(|c| c.cpu == cpu).unwrap();
        for (m, name) in groupings.iter().zip(&regions).filter(|g| *g.0 >= least) {
            let region = cpu.regions.iter().find(|r| r.name == *name).unwrap();
            let expected = (TURNS * of_register * m) as f64;
            let error = region.cycles as f64 / expected - 1.0;
            assert!(
                error.abs() < 0.1,
                "{} {name}: {} cycles, {expected} expected",
                cpu.cpu,
                region.cycles
            );
            assert_eq!(region.instructions, 4 * TURNS + 8, "{name}");
        }
    }
}
