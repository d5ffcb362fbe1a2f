//! Who called whom, as a graph: a bar for each path of calls, as wide as the cycles spent there and
//! in what it called, below the bar of its caller.

use std::fmt::Write as _;
use std::io::{self, Write};

use mcad_report::{CpuReport, with_callees};

use crate::escape::html as esc;
use crate::layout::{grouped, percent};

/// Width of the drawing, and height of a row, in its own units.
const WIDTH: f64 = 1000.0;
const ROW: usize = 17;
/// Most rows drawn; the report has all.
const ROWS: usize = 48;
/// Bars that are narrower are left out.
const NARROW: f64 = 0.4;
/// About how wide a letter is.
const LETTER: f64 = 6.2;

/// The graph of one CPU; nothing where calls are not known.
pub(super) fn section(number: usize, cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    let totals = with_callees(&cpu.calls);
    let mut all = 0u64;
    for (call, total) in cpu.calls.iter().zip(&totals) {
        if call.caller.is_none() {
            all = all.saturating_add(*total);
        }
    }
    if all == 0 {
        return Ok(());
    }
    // Where each bar begins, its row, and how much of it what it called has taken so far.
    let mut places: Vec<(f64, usize, f64)> = Vec::with_capacity(cpu.calls.len());
    let (mut end, mut rows) = (0.0, 0);
    let mut bars = String::new();
    for (n, (call, total)) in cpu.calls.iter().zip(&totals).enumerate() {
        let width = *total as f64 * WIDTH / all as f64;
        let (x, row) = match call.caller.map(|caller| caller as usize) {
            Some(caller) if caller < n => {
                let (x, row, taken) = &mut places[caller];
                let at = (*x + *taken, *row + 1);
                *taken += width;
                at
            }
            _ => {
                let at = (end, 0);
                end += width;
                at
            }
        };
        places.push((x, row, 0.0));
        if width < NARROW || row >= ROWS {
            continue;
        }
        rows = rows.max(row + 1);
        let title = format!(
            "{} ({}): {} cycles, {}; {} in itself",
            call.function,
            call.module,
            grouped(*total),
            percent(*total, all),
            grouped(call.cycles),
        );
        let y = row * ROW;
        // Writing to a text does not fail.
        let _ = write!(
            bars,
            "<g><title>{}</title><rect class=\"f{}\" x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" \
             height=\"{}\"/>",
            esc(&title),
            shade(&call.module),
            ROW - 1,
        );
        let letters = ((width - 6.0) / LETTER) as usize;
        if letters > 2 {
            let shown: String = call.function.chars().take(letters).collect();
            let _ = write!(
                bars,
                "<text x=\"{:.2}\" y=\"{}\">{}</text>",
                x + 3.0,
                y + 12,
                esc(&shown)
            );
        }
        bars.push_str("</g>\n");
    }
    writeln!(
        out,
        "<h3 id=\"cpu{number}-calls\">Calls <small>cycles with what was called, callers above; \
         colours are modules</small></h3>\n<div class=\"scroll\"><svg class=\"flame\" \
         viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Flame graph of calls\">\n{bars}</svg></div>",
        rows * ROW
    )
}

/// One of five colours, the same for a module wherever it is.
fn shade(module: &str) -> u32 {
    let sum = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
    module.bytes().fold(7, sum) % 5
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::report;
    use mcad_report::CallReport;

    fn call(caller: Option<u32>, function: &str, cycles: u64) -> CallReport {
        CallReport {
            caller,
            function: function.into(),
            module: "m".into(),
            cycles,
        }
    }

    #[test]
    fn bars_lie_below_their_callers_and_are_as_wide_as_their_cycles() {
        let mut cpu = report().cpus.remove(0);
        cpu.calls = vec![
            call(None, "main<int>", 100),
            call(Some(0), "a", 300),
            call(Some(0), "b", 500),
            call(Some(2), "c", 100),
        ];
        let mut out = Vec::new();
        section(0, &cpu, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for bar in [
            "x=\"0.00\" y=\"0\" width=\"1000.00\"",
            "x=\"0.00\" y=\"17\" width=\"300.00\"",
            "x=\"300.00\" y=\"17\" width=\"600.00\"",
            "x=\"300.00\" y=\"34\" width=\"100.00\"",
        ] {
            assert!(text.contains(bar), "{bar} in {text}");
        }
        assert!(text.contains("main&lt;int&gt; (m): 1,000 cycles, 100.0 %; 100 in itself"));
        // A foreign report's: nothing is drawn twice, nothing panics.
        cpu.calls = vec![call(Some(7), "x", u64::MAX), call(Some(1), "y", 9)];
        section(0, &cpu, &mut Vec::new()).unwrap();
        cpu.calls.clear();
        let mut out = Vec::new();
        section(0, &cpu, &mut out).unwrap();
        assert!(out.is_empty());
    }
}
