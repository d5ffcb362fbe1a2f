//! Where the table of a CPU and this machine disagree.

use std::io::{self, Write};
use std::sync::Arc;

use mcad_core::block::{Block, Mode, Options};
use mcad_isa::machine::CpuModel;
use mcad_isa::machine::measured::operand_text;

use super::{Outcome, source};

/// Difference that is none, in cycles.
const AGREEMENT: f64 = 0.1;
/// The same for latencies that half of a helper's way there and back is in.
const HALF_AGREEMENT: f64 = 1.0;
/// The same for throughputs, which the model computes for the very code that was measured,
/// relative.
const THROUGHPUT_AGREEMENT: f64 = 0.1;

/// Prints every disagreement and the shares that agree.
pub(super) fn write(
    model: &Arc<CpuModel>,
    results: &[Outcome<'_, '_>],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "\nDisagreements with the table of {}", model.full_name)?;
    // Exact ones, and the others.
    let (mut latencies, mut agree) = ([0_u32; 2], [0_u32; 2]);
    let (mut throughputs, mut as_simulated) = (0_u32, 0_u32);
    for (subject, figures) in results {
        let Ok(figures) = figures else { continue };
        let form = subject.form();
        for latency in &figures.latencies {
            let (pair, Ok(figure)) = (latency.pair, &latency.result) else {
                continue;
            };
            let mut known = form.perf.latencies.iter();
            let same = known.find(|l| (l.from, l.to, l.kind) == (pair.from, pair.to, pair.kind));
            let Some(entry) = same else { continue };
            let (place, agreement) = match latency.exact {
                true => (0, AGREEMENT),
                false => (1, HALF_AGREEMENT),
            };
            latencies[place] += 1;
            // A dependency that is none lets instances through as fast as they come.
            let floor = match &figures.throughput {
                Ok(throughput) if entry.cycles == 0 => throughput.cycles,
                _ => 0.0,
            };
            let difference = figure.cycles - f64::from(entry.cycles);
            if (-agreement..=floor + agreement).contains(&difference) {
                agree[place] += 1;
                continue;
            }
            writeln!(
                out,
                "  {:<44} {} to {}: {} in the table, {}{:.2} here",
                form.name,
                source(&operand_text(pair.from), pair.kind),
                operand_text(pair.to),
                entry.cycles,
                if latency.exact { "" } else { "~" },
                figure.cycles
            )?;
        }
        let simulated = subject.throughput_code().and_then(|(bytes, count)| {
            let block = Block::new(model, &bytes).ok()?;
            let options = Options {
                mode: Mode::Loop,
                ..Options::default()
            };
            Some(block.predict(options).cycles / f64::from(count))
        });
        if let (Some(simulated), Ok(figure)) = (simulated, &figures.throughput) {
            throughputs += 1;
            let difference = (figure.cycles - simulated).abs();
            if difference <= THROUGHPUT_AGREEMENT * simulated.max(figure.cycles) {
                as_simulated += 1;
            } else {
                writeln!(
                    out,
                    "  {:<44} throughput: {simulated:.2} simulated, {:.2} here",
                    form.name, figure.cycles
                )?;
            }
        }
    }
    let share = |part: u32, of: u32| 100.0 * f64::from(part) / f64::from(of.max(1));
    writeln!(
        out,
        "latencies within {AGREEMENT} cycles: {:.1} % of {} that are exact, \
         within {HALF_AGREEMENT}: {:.1} % of {} that are not; throughputs within {:.0} % of the simulation: {:.1} % of {throughputs}",
        share(agree[0], latencies[0]),
        latencies[0],
        share(agree[1], latencies[1]),
        latencies[1],
        100.0 * THROUGHPUT_AGREEMENT,
        share(as_simulated, throughputs)
    )
}
