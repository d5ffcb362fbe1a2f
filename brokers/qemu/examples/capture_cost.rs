//! Prints what capturing a program costs: the emulator's CPU time without and with the plugin, and
//! the bytes that go through the ring per guest instruction.
//!
//! `cargo run --release -p mcad-broker-qemu --example capture_cost -- CMD ARGS…`
//!
//! CPU time is user plus system time of the emulator and what it forked, from `wait4` (through the
//! difference of `RUSAGE_CHILDREN`); the reader's own time is not in it. Instructions are those of
//! the executed blocks, every iteration of a string instruction that re-enters its block included.
//! Exit status 1 when a limit is missed: ratio 4, bytes per instruction 6.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use mcad_broker_abi::Config;
use mcad_broker_qemu::{Session, executable, qemu};
use mcad_proto::event::{Arch, Event};
use mcad_proto::word::{Record, decode_word};

const MAX_RATIO: f64 = 4.0;
const MAX_BYTES: f64 = 6.0;

fn main() -> ExitCode {
    let command: Vec<String> = std::env::args().skip(1).collect();
    match measure(&command) {
        Ok(cost) => report(&cost),
        Err(error) => {
            eprintln!("capture_cost: {error}");
            ExitCode::from(2)
        }
    }
}

#[derive(Debug, Default)]
struct Cost {
    plain: f64,
    traced: f64,
    instructions: u64,
    blocks: u64,
    accesses: u64,
    definitions: u64,
    stalls: u64,
}

#[allow(clippy::print_stdout)] // Its output is what it is for.
fn report(cost: &Cost) -> ExitCode {
    let words = cost.blocks + cost.accesses;
    let bytes = words as f64 * 8.0 / cost.instructions.max(1) as f64;
    let ratio = cost.traced / cost.plain;
    println!("instructions {}", cost.instructions);
    println!("block executions {}", cost.blocks);
    println!("memory accesses {}", cost.accesses);
    println!("distinct blocks {}", cost.definitions);
    println!("waits for the reader {}", cost.stalls);
    println!("CPU seconds plain {:.3}", cost.plain);
    println!("CPU seconds traced {:.3}", cost.traced);
    println!("ratio {ratio:.2} (at most {MAX_RATIO})");
    println!("bytes per instruction {bytes:.2} (at most {MAX_BYTES})");
    ExitCode::from(u8::from(ratio > MAX_RATIO || bytes > MAX_BYTES))
}

fn measure(command: &[String]) -> Result<Cost, String> {
    let resolved = executable::resolve(command).map_err(|e| e.to_string())?;
    let qemu = qemu::find(None, Arch::X86_64).map_err(|e| e.to_string())?;
    let mut cost = Cost::default();

    let before = children_seconds();
    Command::new(&qemu.path)
        .arg("-0")
        .arg(&resolved.name)
        .arg(&resolved.file)
        .args(&resolved.arguments)
        .stdout(Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    cost.plain = children_seconds() - before;

    let mut config = Config::new();
    for word in command {
        config
            .push("arg", word.as_str())
            .map_err(|e| e.to_string())?;
    }
    let mut sizes: Vec<u64> = Vec::new();
    let mut session = Session::start(&config).map_err(|e| e.to_string())?;
    let before = children_seconds();
    loop {
        match session
            .next_event(Duration::from_secs(1))
            .map_err(|e| e.to_string())?
        {
            Some(Event::Block(block)) => sizes.push(block.instructions.into()),
            Some(Event::Records { words, .. }) => {
                for &word in words {
                    match decode_word(word).map_err(|e| e.to_string())? {
                        Record::Block(id) => {
                            cost.blocks += 1;
                            cost.instructions += sizes.get(id.0 as usize).copied().unwrap_or(0);
                        }
                        Record::Access(_) => cost.accesses += 1,
                        Record::Kernel(_) => {}
                    }
                }
            }
            Some(Event::Lost { reason, .. }) => return Err(reason),
            Some(Event::End(reason)) => {
                eprintln!("ended: {reason:?}");
                break;
            }
            _ => {}
        }
    }
    cost.definitions = sizes.len() as u64;
    cost.stalls = session.stalls();
    cost.traced = children_seconds() - before;
    Ok(cost)
}

/// User and system seconds of all children that were waited for.
fn children_seconds() -> f64 {
    // SAFETY: plain data that the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
