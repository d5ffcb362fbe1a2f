//! The speed beside llvm-mca's on the same straight-line code.
//!
//! A block of mixed integer, vector, load and store instructions without branches is run in a loop
//! under QEMU, recorded, and replayed. llvm-mca gets the same stream of instructions in two ways:
//! as a listing of its million instructions, which is what a trace is, and as the block with an
//! iteration count, which spares it reading. All simulate the same CPU instruction by instruction.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::program::{newest_llvm_mca, rate};
use super::{Figure, Limit};
use xtask::command::{command, cpu_seconds, execute};

/// Instructions of the block.
const LENGTH: usize = 500;
/// Times that llvm-mca simulates it: a million instructions.
const MCA_ITERATIONS: usize = 2000;
/// Times that the program executes it: ten million instructions.
const RUN_ITERATIONS: usize = 20_000;

/// Measures both.
pub fn measure(built: &Path, work: &Path) -> Result<Vec<Figure>> {
    let body = block();
    let (mca, version) = newest_llvm_mca()
        .context("no llvm-mca to compare with: run `cargo xtask setup --tests`")?;
    eprintln!("llvm-mca: {version}");
    let theirs = |name: &str, copies: usize| -> Result<f64> {
        let file = work.join(name);
        let listing = body.repeat(copies);
        std::fs::write(&file, format!(".intel_syntax noprefix\n{listing}"))?;
        let seconds = cpu_seconds(
            command(&mca)
                .args(["-mtriple=x86_64", "-mcpu=skylake", "-o", "/dev/null"])
                .arg(format!("-iterations={}", MCA_ITERATIONS / copies))
                .arg(&file),
        )?;
        Ok((LENGTH * MCA_ITERATIONS) as f64 / seconds / 1e6)
    };
    let listed = theirs("listed.s", MCA_ITERATIONS)?;
    let iterated = theirs("iterated.s", 1)?;

    let source = work.join("looped.s");
    let program = work.join("looped");
    std::fs::write(&source, looped(&body))?;
    execute(
        command("cc")
            .args(["-nostdlib", "-static", "-o"])
            .arg(&program)
            .arg(&source),
    )?;
    let trace = work.join("straight.mcad");
    execute(
        command(built.join("mcad"))
            .args(["record", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(&program),
    )?;
    let ours = rate(built, work, "skl", &trace)?;
    eprintln!("straight-line code, M/s: mcad {ours:.2}, llvm-mca {listed:.3} and {iterated:.3}");
    Ok(vec![
        Figure::new(
            "speed to llvm-mca's on a listed stream",
            ours / listed,
            "times",
            Limit::Least(50.0),
        ),
        Figure::new(
            "speed to llvm-mca's on an iterated block",
            ours / iterated,
            "times",
            Limit::None,
        ),
    ])
}

/// The block: the same every time. r8 is the base of its memory, r9 to r14 and rax to rdx are
/// free, rsi counts the loop.
fn block() -> String {
    let registers = ["rax", "rbx", "rcx", "rdx", "r9", "r10", "r11", "r12"];
    let mut random = fastrand::Rng::with_seed(7);
    let mut pick = |count: usize| random.usize(..count);
    let mut text = String::new();
    for _ in 0..LENGTH {
        let (a, b) = (registers[pick(8)], registers[pick(8)]);
        let (x, y) = (pick(8), pick(8));
        let offset = pick(64) * 8;
        let line = match pick(10) {
            0 | 1 => format!("add {a}, {b}"),
            2 => format!("xor {a}, {b}"),
            3 => format!("lea {a}, [{b} + 8]"),
            4 => format!("imul {a}, {b}"),
            5 | 6 => format!("mov {a}, qword ptr [r8 + {offset}]"),
            7 => format!("mov qword ptr [r8 + {offset}], {a}"),
            8 => format!("paddd xmm{x}, xmm{y}"),
            _ => format!("mulps xmm{x}, xmm{y}"),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line}");
    }
    text
}

/// A program without a C library that runs the block.
fn looped(body: &str) -> String {
    format!(
        ".intel_syntax noprefix\n.bss\n.align 64\nspace: .skip 1024\n.text\n.globl _start\n\
         _start:\nlea r8, [rip + space]\nmov esi, {RUN_ITERATIONS}\nagain:\n{body}\
         dec esi\njnz again\nmov eax, 60\nxor edi, edi\nsyscall\n\
         .section .note.GNU-stack,\"\",@progbits\n"
    )
}
