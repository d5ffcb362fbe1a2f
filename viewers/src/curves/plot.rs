//! One curve as SVG: both sides over the axis.

use std::io::{self, Write};

use mcad_report::probes::{Curve, CurvePoint};

use crate::escape::html;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;
/// Okabe and Ito's colours for measured and simulated.
const COLOURS: [(&str, &str); 2] = [("#0072b2", "measured"), ("#d55e00", "simulated")];
/// Labels below the axis, at most.
const LABELS: usize = 9;

type Side = fn(&CurvePoint) -> Option<f64>;
const SIDES: [Side; 2] = [|p| p.native, |p| p.simulated];

/// Writes the plot.
pub(super) fn write(curve: &Curve, out: &mut dyn Write) -> io::Result<()> {
    let points = &curve.points;
    let highest = SIDES
        .iter()
        .flat_map(|side| points.iter().filter_map(side))
        .fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.05 } else { 1.0 };
    let place = |p: &CurvePoint| {
        if curve.logarithmic && p.x > 0.0 {
            p.x.log2()
        } else {
            p.x
        }
    };
    let first = points.iter().map(place).fold(f64::INFINITY, f64::min);
    let last = points.iter().map(place).fold(f64::NEG_INFINITY, f64::max);
    let span = if last > first { last - first } else { 1.0 };
    let x = |p: &CurvePoint| LEFT + (place(p) - first) / span * (WIDTH - LEFT - RIGHT);
    let y = |v: f64| HEIGHT - BOTTOM - v / top * (HEIGHT - TOP - BOTTOM);
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-size=\"11\" role=\"img\" width=\"100%\">\
         <title>{}</title>",
        html(&curve.what)
    )?;
    writeln!(out, "<text x=\"4\" y=\"12\">{}</text>", html(&curve.unit))?;
    for (n, (colour, name)) in COLOURS.iter().enumerate() {
        let at = WIDTH - 150.0 + 75.0 * n as f64;
        writeln!(
            out,
            "<text x=\"{at}\" y=\"12\" style=\"fill:{colour}\">{name}</text>"
        )?;
    }
    let step = step(top);
    let mut tick = 0.0;
    while tick <= top {
        let at = y(tick);
        writeln!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 5.0,
            at + 4.0,
            (tick * 1000.0).round() / 1000.0
        )?;
        tick += step;
    }
    let every = points.len().div_ceil(LABELS).max(1);
    for point in points.iter().step_by(every) {
        let text = super::label(point.x, point.label.as_deref());
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(point),
            HEIGHT - BOTTOM + 16.0,
            html(&crate::layout::cut(&text, 10))
        )?;
    }
    let axis = match curve.axis_unit.as_str() {
        "" => curve.axis.clone(),
        unit => format!("{} ({unit})", curve.axis),
    };
    writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 8.0,
        html(&axis)
    )?;
    for (side, (colour, _)) in SIDES.iter().zip(COLOURS) {
        let known: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|p| Some((x(p), y(side(p)?))))
            .collect();
        if known.is_empty() {
            continue;
        }
        let line: Vec<String> = known
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
            line.join(" ")
        )?;
        for (x, y) in known {
            writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\" fill=\"{colour}\"/>"
            )?;
        }
    }
    writeln!(out, "</svg>")
}

/// A round distance of lines that gives at most six of them.
fn step(top: f64) -> f64 {
    let mut step = 10f64.powf((top / 5.0).log10().floor());
    for factor in [2.0, 2.5, 2.0] {
        if top / step > 6.0 {
            step *= factor;
        }
    }
    step
}
