//! Whether a cell fetches code as quickly as others do.
//!
//! On Zen 5 one cell in twelve runs straight-line code at a half to a third of its speed, for as
//! long as it lives, probably by the physical pages that its code got. Nothing else shows it, so every
//! cell runs a piece of code that is bound by fetching before it is used, and slow ones are thrown
//! away.

use std::io;

use crate::block::{MXCSR, steady};
use crate::cell::layout::{CODE, control};
use crate::cell::{Cell, RunError};
use crate::code::{Body, CodeBuffer, Timer, TooLarge};

/// `nop dword [rax]`, of four bytes.
const NOP: [u8; 4] = [0x0f, 0x1f, 0x40, 0x00];
/// As many bytes as blocks have: copies of the shorter and of the longer code.
const COPIES: [u32; 2] = [2500, 5000];
const RUNS: u32 = 24;
/// By how much a sound cell may be slower than the quickest.
pub(crate) const TOLERANCE: f64 = 1.05;

/// Ticks for [`COPIES`]' difference; infinite where it cannot be run.
///
/// # Errors
/// When the cell cannot be traced.
pub(crate) fn ticks(cell: &mut Cell) -> io::Result<f64> {
    cell.set_control(control::MXCSR, &MXCSR.to_le_bytes())?;
    let mut program = CodeBuffer::new(Timer::TimeStamp);
    let [short, long] = COPIES;
    let mut add = |copies| {
        let body = Body {
            block: &NOP,
            copies,
            counted: None,
            registers: &[0; 16],
        };
        program.measure(body, RUNS)
    };
    let sections = add(short).and_then(|s| Ok((s, add(long)?)));
    let built: Result<_, TooLarge> = sections.and_then(|s| Ok((s, program.finish()?)));
    let Ok(((short, long), end)) = built else {
        return Ok(f64::INFINITY);
    };
    cell.load(program.bytes())?;
    match cell.run(CODE, end) {
        Ok(()) => Ok(steady(cell, long) - steady(cell, short)),
        Err(RunError::Stop(_)) => Ok(f64::INFINITY),
        Err(RunError::System(error)) => Err(error),
    }
}
