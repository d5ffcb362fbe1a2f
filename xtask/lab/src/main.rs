//! `cargo xtask eval-* | compare | tables*`: measuring what is promised, comparing builds, making
//! tables. Apart from `xtask`, which a new user waits for: this one builds decoders and tables.

mod compare;
mod eval;
mod everyday;
mod parallel;
mod tables;
mod tables_llvm;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Developer commands of mcad that measure, compare and make tables.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
enum Command {
    /// Compare two builds over programs and blocks: the same results, byte for byte?
    Compare(compare::Args),
    /// Measure what is promised for whole programs and print it beside the limits
    EvalMain(eval::Args),
    /// Measure what comparisons of versions tell and print it beside the limits
    EvalDiff(eval::diff::Args),
    /// Measure what is promised of timelines, exports and pages and print it beside the limits
    EvalViews(eval::views::Args),
    /// Measure what is promised of `mcad profile block` and print it beside the limits
    EvalProfile(eval::profile::Args),
    /// Measure latencies twice and print how far they agree with each other and with a table
    EvalInstructions(eval::instructions::Args),
    /// Measure what is promised of AArch64 and RISC-V programs and print it beside the limits
    EvalIsa(eval::isa::Args),
    /// Measure what is promised of measured programs and print it beside the limits
    EvalPrograms(eval::programs::Args),
    /// Compare what small everyday programs take on this CPU and simulated, beside the limits
    EvalKernels(eval::kernels::Args),
    /// Compare where a program's cycles are on this CPU and simulated, function by function
    EvalFunctions(eval::functions::Args),
    /// Write the inputs of the lists of a distribution's programs, docs/programs/debian-*.csv
    ProgramsInputs(everyday::Args),
    /// Make the embedded instruction tables from published rows
    Tables(tables::Args),
    /// Make the embedded tables of AArch64 and RISC-V from an installed LLVM, or prove them
    TablesLlvm(tables_llvm::Args),
    /// Say which instructions of blocks and programs the tables lack
    TablesCoverage(tables::coverage::Args),
    /// Print the forms of instructions given as bytes
    TablesFind(tables::lookup::Args),
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Compare(args) => return compare::run(&args),
        Command::EvalMain(args) => return eval::run(&args),
        Command::EvalDiff(args) => return eval::diff::run(&args),
        Command::EvalViews(args) => return eval::views::run(&args),
        Command::EvalProfile(args) => return eval::profile::run(&args),
        Command::EvalInstructions(args) => return eval::instructions::run(&args),
        Command::EvalIsa(args) => return eval::isa::run(&args),
        Command::EvalPrograms(args) => return eval::programs::run(&args),
        Command::EvalKernels(args) => return eval::kernels::run(&args),
        Command::EvalFunctions(args) => return eval::functions::run(&args),
        Command::ProgramsInputs(args) => everyday::run(&args)?,
        Command::Tables(args) => tables::run(&args)?,
        Command::TablesLlvm(args) => tables_llvm::run(&args)?,
        Command::TablesCoverage(args) => tables::coverage::run(&args)?,
        Command::TablesFind(args) => tables::lookup::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
