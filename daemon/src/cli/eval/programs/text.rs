//! What `mcad eval --programs` prints: a table for each package with several versions, and one for
//! all packages of which there is one.

use std::io::{self, Write};

use crate::eval::programs::{Errors, LabelNoise, Predicted, Series};

const CONSECUTIVE: &str = "from version to version";

pub(super) fn print(all: &[Series], out: &mut dyn Write) -> io::Result<()> {
    let (single, several): (Vec<_>, Vec<_>) = all.iter().partition(|s| s.programs.len() == 1);
    for s in several {
        writeln!(out, "{}", s.package)?;
        header("version", out)?;
        for program in &s.programs {
            row(&program.row.version, program, out)?;
        }
        for (name, errors) in [
            ("cycles", &s.absolute),
            (CONSECUTIVE, &s.consecutive),
            ("  counting instructions", &s.consecutive_by_instructions),
            ("against the first version", &s.against_first),
            ("  counting instructions", &s.against_first_by_instructions),
        ] {
            line(name, errors, out)?;
            if name == CONSECUTIVE {
                noise(s.consecutive_by_spread, out)?;
            }
        }
        writeln!(out)?;
    }
    if !single.is_empty() {
        header("program", out)?;
    }
    for s in &single {
        for program in &s.programs {
            row(&s.package, program, out)?;
        }
    }
    if all.len() > 1 {
        line("cycles of all programs", &Errors::of_all(all), out)?;
    }
    Ok(())
}

fn header(of: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "  {of:<12} {:>14} {:>8} {:>14} {:>8} {:>16}",
        "measured", "± %", "predicted", "off %", "instructions"
    )
}

fn row(name: &str, p: &Predicted, out: &mut dyn Write) -> io::Result<()> {
    let spread = p.row.interquartile_over_median;
    writeln!(
        out,
        "  {name:<12} {:>14.0} {:>8} {:>14.0} {:>+8.1} {:>16.0}",
        p.row.user_cycles,
        spread.map_or_else(String::new, |s| format!("{:.1}", 50.0 * s)),
        p.predicted_cycles,
        100.0 * p.error(),
        p.instructions
    )
}

fn line(name: &str, errors: &Errors, out: &mut dyn Write) -> io::Result<()> {
    if errors.count == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  {name:<34} mean {:>5.1} %, worst {:>5.1} % of {}",
        100.0 * errors.mean,
        100.0 * errors.worst,
        errors.count
    )
}

/// What labels that spread would make of a model that is right.
fn noise(noise: Option<LabelNoise>, out: &mut dyn Write) -> io::Result<()> {
    let Some(noise) = noise else { return Ok(()) };
    let name = "  labels' spread alone";
    let least = noise.independent_runs.map_or_else(String::new, |least| {
        format!(" ({:.1} % if runs are independent)", 100.0 * least)
    });
    let most = 100.0 * noise.as_one_run;
    writeln!(out, "  {name:<34} mean {most:>5.1} %{least}")
}
