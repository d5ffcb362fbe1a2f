//! Collapsed stacks for flame-graph tools: `cpu;caller;…;function cycles`, one line for each path of
//! calls. Reports without calls give `cpu;module;function cycles`, one line per function.

use std::io::{self, Write};

use mcad_report::{CpuReport, Report};

use crate::escape::escape;
use crate::{Style, View, ViewError};

/// The `collapsed` view.
pub struct Collapsed;

impl View for Collapsed {
    fn name(&self) -> &'static str {
        "collapsed"
    }

    fn description(&self) -> &'static str {
        "stacks weighted with cycles for flame-graph tools"
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
        if !cpu.calls.is_empty() {
            calls(cpu, out)?;
            continue;
        }
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

fn calls(cpu: &CpuReport, out: &mut dyn Write) -> io::Result<()> {
    let root = frame(&format!("{}/{}", cpu.cpu, cpu.analysis));
    for (n, call) in cpu.calls.iter().enumerate() {
        if call.cycles == 0 {
            continue;
        }
        let mut frames = vec![frame(&call.function)];
        let mut at = n;
        // Callers come before what they call; a foreign report's that does not ends the path.
        while let Some(caller) = cpu.calls[at].caller.map(|c| c as usize).filter(|c| *c < at) {
            frames.push(frame(&cpu.calls[caller].function));
            at = caller;
        }
        frames.push(root.clone());
        frames.reverse();
        writeln!(out, "{} {}", frames.join(";"), call.cycles)?;
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

    #[test]
    fn paths_of_calls_are_stacks() {
        let mut report = report();
        report.cpus.truncate(1);
        let call = |caller, function: &str, cycles| mcad_report::CallReport {
            caller,
            function: function.into(),
            module: "m".into(),
            cycles,
        };
        report.cpus[0].calls = vec![
            call(None, "main", 0),
            call(Some(0), "a;b", 3),
            call(Some(1), "c", 4),
        ];
        let mut out = Vec::new();
        lines(&report, &mut out).unwrap();
        let root = format!("{}/{}", report.cpus[0].cpu, report.cpus[0].analysis);
        let expected = format!("{root};main;a:b 3\n{root};main;a:b;c 4\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
