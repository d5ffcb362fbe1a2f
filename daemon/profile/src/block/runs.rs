//! What the runs of one section say: the quickest, the mean of those that nothing disturbed, and core
//! cycles a tick of calibrating chains.

use crate::cell::Cell;
use crate::clock::Quartiles;
use crate::code::{CHAIN_CYCLES, CodeBuffer, Section, TooLarge};

/// Runs of a calibrating chain, before and after.
const CHAINS: u32 = 3;
/// How many times as long the longer calibrating chain is.
const LONGER: u32 = 3;

pub(super) fn chains(program: &mut CodeBuffer) -> Result<[Section; 2], TooLarge> {
    Ok([
        program.calibrate(1, CHAINS)?,
        program.calibrate(LONGER, CHAINS)?,
    ])
}

/// Core cycles per tick as two chains give it.
pub(super) fn rate(cell: &Cell, [short, long]: [Section; 2]) -> f64 {
    let ticks = steady(cell, long) - steady(cell, short);
    CHAIN_CYCLES * f64::from(LONGER - 1) / ticks.max(1.0)
}

/// Ticks around the median of which runs count: the grain of a time-stamp counter, both ways, and
/// a share.
const GRAIN: f64 = 60.0;
const SHARE: f64 = 0.01;

/// The quickest run.
pub(super) fn least(cell: &Cell, section: Section) -> f64 {
    let ticks = section.results().map(|n| cell.result(n));
    ticks.min().unwrap_or(0) as f64
}

/// The mean of the runs that were not disturbed: those near the median. A time-stamp counter
/// moves in steps of some ten ticks, so the median alone would be one of them.
pub(crate) fn steady(cell: &Cell, section: Section) -> f64 {
    let mut ticks: Vec<f64> = section.results().map(|n| cell.result(n) as f64).collect();
    undisturbed(&mut ticks)
}

fn undisturbed(ticks: &mut [f64]) -> f64 {
    let median = Quartiles::of(ticks).median;
    let near = |t: &&f64| (**t - median).abs() <= GRAIN + SHARE * median;
    let (count, sum) = ticks
        .iter()
        .filter(near)
        .fold((0.0, 0.0), |(count, sum), t| (count + 1.0, sum + t));
    if count == 0.0 { median } else { sum / count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_runs_do_not_count_and_steps_of_the_counter_average_out() {
        let mut ticks = vec![1000.0, 1026.0, 1026.0, 1026.0];
        assert_eq!(undisturbed(&mut ticks.clone()), 1019.5);
        ticks.extend([9000.0, 50_000.0]);
        assert_eq!(undisturbed(&mut ticks), 1019.5);
        assert_eq!(undisturbed(&mut []), 0.0);
    }
}
