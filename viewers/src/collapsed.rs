//! Collapsed stacks for flame-graph tools: `cpu;module;function cycles`, one line per function.
//!
//! The simulation knows what a function takes itself and no callers, so the stacks are flat: the
//! graph's widths are right, its depth is CPU, module, function.

use std::io::{self, Write};

use mcad_report::Report;

use crate::escape::escape;
use crate::{Style, View, ViewError};

/// The `collapsed` view.
pub struct Collapsed;

impl View for Collapsed {
    fn name(&self) -> &'static str {
        "collapsed"
    }

    fn description(&self) -> &'static str {
        "stacks weighted with cycles for flame-graph tools (functions without callers)"
    }

    fn write(&self, report: &Report, _: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        lines(report, out).map_err(|source| ViewError::Write {
            view: self.name(),
            source,
        })
    }
}

fn lines(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for cpu in &report.cpus {
        for f in cpu.functions.iter().filter(|f| f.cycles > 0) {
            let root = format!("{}/{}", cpu.cpu, cpu.analysis);
            let module = if f.module.is_empty() {
                "[unknown]"
            } else {
                &f.module
            };
            let (root, module, name) = (frame(&root), frame(module), frame(&f.name));
            writeln!(out, "{root};{module};{name} {}", f.cycles)?;
        }
    }
    Ok(())
}

/// A frame's name: a semicolon would begin another frame, a control character another line.
fn frame(name: &str) -> String {
    escape(name).replace(';', ":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::report;

    #[test]
    fn every_line_is_three_frames_and_the_functions_cycles() {
        let mut report = report();
        report.cpus[0].functions[0].name = "operator;\n(int)".into();
        let mut out = Vec::new();
        lines(&report, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let mut sum = 0;
        for line in text.lines() {
            let (stack, cycles) = line.rsplit_once(' ').unwrap();
            assert_eq!(stack.split(';').count(), 3, "{line}");
            sum += cycles.parse::<u64>().unwrap();
        }
        let functions = report.cpus.iter().flat_map(|cpu| &cpu.functions);
        assert_eq!(sum, functions.map(|f| f.cycles).sum::<u64>());
    }
}
