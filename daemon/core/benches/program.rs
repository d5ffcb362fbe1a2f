//! How long a whole program takes: a recorded trace through the simulation alone, with neither
//! symbols nor report.
//!
//! `cargo bench -p mcad-core --bench program -- TRACE [CPU…]`, where `mcad-run --record TRACE` makes
//! the trace. Prints instructions a second for each CPU and a digest of its report, which is the same
//! for two builds that give the same result; under `valgrind --tool=callgrind` it counts what each
//! part takes.

#![allow(clippy::print_stdout)] // a program, whose output this is

mod support;

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::BufReader;
use std::time::Instant;

use mcad_core::simulation::{AnalysisKind, NoSymbols, Options, Simulation};
use mcad_isa::machine;
use mcad_proto::trace::TraceReader;
use support::{Failure, each_cpu};

fn run(trace: &str, cpu: &str) -> Result<(), Failure> {
    let mut simulation = Simulation::new(Options {
        cpus: vec![machine::cpu(cpu)?],
        analyses: vec![AnalysisKind::Pipeline],
        memory: true,
        one_core: false,
    });
    let mut reader = TraceReader::new(BufReader::new(File::open(trace)?), trace)?;
    let start = Instant::now();
    while let Some(event) = reader.next()? {
        simulation.event(&event)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let report = simulation.finish(&NoSymbols);
    let instructions = report.trace.instructions;
    let cycles = report.cpus.first().map_or(0, |cpu| cpu.cycles);
    let speed = instructions as f64 / seconds / 1e6;
    let mut digest = DefaultHasher::new();
    digest.write(&serde_json::to_vec(&report)?);
    let digest = digest.finish();
    println!(
        "{cpu}: {instructions} instructions, {cycles} cycles, {speed:.2} M instructions/s, {digest:016x}"
    );
    Ok(())
}

fn main() -> Result<(), Failure> {
    each_cpu("program", run)
}
