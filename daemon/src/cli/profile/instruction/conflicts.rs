//! What forms take from each other, in pairs: (TP(A and B) − max) / min, as asmbench has it.
//!
//! 0: one hides completely behind the other; 1: they take turns; more: together they are slower
//! than one after the other.

use std::fmt::Write as _;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use iced_x86::{Decoder, DecoderOptions};
use mcad_isa::machine::table::FormTable;
use mcad_profile::instruction::{Bench, Subject, Subjects};
use mcad_viewers::escape::html;

use crate::cli::destination::Destination;

/// Forms at most: pairs grow with the square.
const MAX_FORMS: usize = 100;

/// 24 common instructions, one of each kind of unit: integer, multiplication, shift, address,
/// load, store, conversions, and vector arithmetic of both precisions.
const COMMON: [&[u8]; 24] = [
    &[0x48, 0x01, 0xcb],             // add r64, r64
    &[0x48, 0x83, 0xc3, 0x02],       // add r64, i8
    &[0x48, 0x29, 0xcb],             // sub r64, r64
    &[0x48, 0xff, 0xc3],             // inc r64
    &[0x48, 0x21, 0xcb],             // and r64, r64
    &[0x48, 0x39, 0xcb],             // cmp r64, r64
    &[0x48, 0x0f, 0xaf, 0xd9],       // imul r64, r64
    &[0x48, 0xc1, 0xe3, 0x02],       // shl r64, i8
    &[0x48, 0x8d, 0x5c, 0xbe, 0x10], // lea r64, [b+i*4+d8]
    &[0x48, 0x8b, 0x1e],             // mov r64, m64
    &[0x48, 0x89, 0x1e],             // mov m64, r64
    &[0x48, 0x0f, 0x44, 0xd9],       // cmove r64, r64
    &[0xf3, 0x48, 0x0f, 0xb8, 0xd9], // popcnt r64, r64
    &[0xc5, 0xf5, 0x58, 0xca],       // vaddpd ymm
    &[0xc5, 0xf4, 0x58, 0xca],       // vaddps ymm
    &[0xc5, 0xf5, 0x59, 0xca],       // vmulpd ymm
    &[0xc5, 0xf5, 0x5e, 0xca],       // vdivpd ymm
    &[0xc5, 0xf3, 0x58, 0xca],       // vaddsd xmm
    &[0xc5, 0xf3, 0x59, 0xca],       // vmulsd xmm
    &[0xc4, 0xe2, 0xed, 0xb8, 0xcb], // vfmadd231pd ymm
    &[0xc5, 0xed, 0xfe, 0xcb],       // vpaddd ymm
    &[0xc5, 0xed, 0xef, 0xcb],       // vpxor ymm
    &[0xc5, 0xfd, 0x70, 0xca, 0x02], // vpshufd ymm
    &[0xc5, 0xfb, 0x2a, 0xcb],       // vcvtsi2sd xmm, r32
];

/// The common ones that a table has.
pub(super) fn common<'s, 't>(
    table: &'t FormTable,
    subjects: &'s Subjects<'t>,
) -> Vec<Subject<'s, 't>> {
    COMMON
        .iter()
        .filter_map(|bytes| {
            let instruction = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).decode();
            let form = table.find(&instruction)?;
            subjects.iter().find(|s| std::ptr::eq(s.form(), form))
        })
        .collect()
}

/// Where the pairs go, beside the text.
pub(super) struct To {
    /// A row a pair.
    pub(super) csv: Option<Destination>,
    /// A drawing.
    pub(super) heatmap: Option<Destination>,
}

/// Measures and writes.
pub(super) fn run(
    to: To,
    bench: &mut Bench,
    forms: &[Subject<'_, '_>],
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    if forms.len() > MAX_FORMS {
        bail!(
            "{} forms are too many for pairs; at most {MAX_FORMS}",
            forms.len()
        );
    }
    let mut alone = Vec::new();
    for subject in forms {
        alone.push(match subject.objection() {
            Some(why) => Err(why),
            None => bench.throughput(*subject)?.map(|figure| figure.cycles),
        });
    }
    let known: Vec<_> = forms.iter().zip(&alone).collect();
    let mut rows = Vec::new();
    for (i, (a, alone_a)) in known.iter().enumerate() {
        for (j, (b, alone_b)) in known.iter().enumerate().skip(i + 1) {
            let conflict = match (alone_a, alone_b) {
                (Ok(x), Ok(y)) => bench.conflict((**a, *x), (**b, *y))?,
                (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            };
            rows.push((i, j, conflict));
        }
    }
    let names: Vec<_> = known
        .iter()
        .map(|(s, _)| s.form().name.to_string())
        .collect();
    for (name, cycles) in names.iter().zip(&alone) {
        match cycles {
            Ok(cycles) => writeln!(out, "{name:<44} {cycles:.2}")?,
            Err(why) => writeln!(out, "{name:<44} not measured: {why}")?,
        }
    }
    let measured = rows.iter().filter(|(_, _, c)| c.is_ok()).count();
    writeln!(out, "{measured} of {} pairs measured", rows.len())?;
    let name = |n: usize| names.get(n).map_or("", String::as_str);
    if let Some(to) = to.csv {
        to.write(|out| -> anyhow::Result<()> {
            let mut csv = csv::Writer::from_writer(out);
            csv.write_record(["a", "b", "conflict", "reason"])?;
            for (i, j, conflict) in &rows {
                let (value, reason) = match conflict {
                    Ok(value) => (format!("{value:.4}"), ""),
                    Err(why) => (String::new(), why.as_str()),
                };
                csv.write_record([name(*i), name(*j), &value, reason])?;
            }
            Ok(csv.flush()?)
        })?;
    } else {
        for (i, j, conflict) in &rows {
            match conflict {
                Ok(value) => writeln!(out, "{:6.2}  {} | {}", value, name(*i), name(*j))?,
                Err(why) => writeln!(out, "     -  {} | {}: {why}", name(*i), name(*j))?,
            }
        }
    }
    if let Some(to) = to.heatmap {
        to.write(|out| out.write_all(svg(&names, &rows).as_bytes()))?;
    }
    out.flush().context("cannot write to stdout")?;
    Ok(ExitCode::SUCCESS)
}

/// A pair by the numbers of its forms.
type Row = (usize, usize, Result<f64, String>);

const CELL: usize = 26;
const LABEL: usize = 260;

/// A square of all pairs: white is none, red is a whole turn.
fn svg(names: &[String], rows: &[Row]) -> String {
    let side = LABEL + names.len() * CELL + 20;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
         width=\"{side}\" height=\"{side}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{side}\" height=\"{side}\" fill=\"#fff\"/>\n"
    );
    // Writing to a string does not fail.
    for (n, name) in names.iter().enumerate() {
        let name = html(name);
        let along = LABEL + n * CELL + CELL / 2 + 4;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{along}\" text-anchor=\"end\">{name}</text>\
             <text transform=\"translate({along} {x}) rotate(-90)\">{name}</text>",
            x = LABEL - 6
        );
    }
    for (i, j, conflict) in rows {
        let (fill, text) = match conflict {
            Ok(value) => {
                let paler = (255.0 * (1.0 - value.clamp(0.0, 1.0))) as u8;
                (format!("rgb(255,{paler},{paler})"), format!("{value:.1}"))
            }
            Err(_) => ("#ddd".to_owned(), "-".to_owned()),
        };
        for (column, row) in [(*i, *j), (*j, *i)] {
            let (x, y) = (LABEL + column * CELL, LABEL + row * CELL);
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{CELL}\" fill=\"{fill}\" \
                 stroke=\"#ccc\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                x + CELL / 2,
                y + CELL / 2 + 4
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_common_forms_are_in_the_tables_that_have_their_extensions() {
        for cpu in ["hsw", "skl", "glc"] {
            let table = FormTable::for_cpu(cpu).unwrap();
            let subjects = Subjects::of(table);
            let mut names: Vec<_> = common(table, &subjects)
                .iter()
                .map(|s| s.form().name.to_string())
                .collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), COMMON.len(), "{cpu}: {names:?}");
        }
    }

    #[test]
    fn a_drawing_has_both_halves_of_the_square() {
        let names = ["A <x>".to_owned(), "B".to_owned()];
        let drawing = svg(&names, &[(0, 1, Ok(0.5))]);
        assert_eq!(drawing.matches("rgb(255,127,127)").count(), 2);
        assert!(drawing.contains("A &lt;x&gt;"));
    }
}
