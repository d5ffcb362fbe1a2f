//! A plot over versions: cycles of each CPU model relative to the first version, in percent.
//!
//! Plain SVG without scripts, links or fonts; colours follow the viewer's light or dark scheme.

use std::io::{self, Write};

use super::{Diff, Series};
use crate::escape::html;

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 70.0;

/// Colours that are told apart in both schemes and with the common colour blindnesses
/// (Okabe and Ito's set without black and yellow).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00",
];

/// Most characters of a label below the axis.
const LABEL: usize = 18;

/// Writes the plot.
///
/// # Errors
/// What the output says.
pub fn write(diff: &Diff, out: &mut dyn Write) -> io::Result<()> {
    let lines: Vec<Vec<f64>> = diff.series.iter().map(percents).collect();
    let scale = Scale::of(lines.iter().flatten().copied());
    let count = diff.versions.len();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>Predicted cycles relative to {}</title>\n\
         <style>.b{{fill:#fff}}text{{fill:#222}}.g{{stroke:#ccc}}\
         @media(prefers-color-scheme:dark){{.b{{fill:#1b1b1f}}text{{fill:#ddd}}.g{{stroke:#444}}}}\
         </style>\n<rect class=\"b\" width=\"100%\" height=\"100%\"/>",
        html(diff.versions.first().map_or("", |v| &v.label)),
    )?;
    writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"20\">predicted cycles, first version = 100 %</text>"
    )?;
    for tick in scale.ticks() {
        let y = scale.y(tick);
        writeln!(
            out,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick:.*} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            scale.decimals(),
        )?;
    }
    for (n, version) in diff.versions.iter().enumerate() {
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x(n, count),
            HEIGHT - BOTTOM + 22.0,
            html(&crate::layout::cut(&version.label, LABEL)),
        )?;
    }
    for (n, (series, line)) in diff.series.iter().zip(&lines).enumerate() {
        plot(n, series, line, &scale, count, out)?;
    }
    writeln!(out, "</svg>")
}

fn plot(
    n: usize,
    series: &Series,
    line: &[f64],
    scale: &Scale,
    count: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let colour = COLOURS[n % COLOURS.len()];
    let points: Vec<String> = line
        .iter()
        .enumerate()
        .map(|(n, value)| format!("{:.1},{:.1}", x(n, count), scale.y(*value)))
        .collect();
    writeln!(
        out,
        "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
        points.join(" ")
    )?;
    for (n, (value, figures)) in line.iter().zip(&series.totals).enumerate() {
        writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{colour}\"><title>{} cycles, \
             {value:.2} %</title></circle>",
            x(n, count),
            scale.y(*value),
            figures.cycles,
        )?;
    }
    let y = TOP + 18.0 * n as f64;
    writeln!(
        out,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}/{}</text>",
        WIDTH - RIGHT + 16.0,
        y - 10.0,
        WIDTH - RIGHT + 34.0,
        y,
        html(&series.cpu),
        html(&series.analysis),
    )
}

fn percents(series: &Series) -> Vec<f64> {
    let first = series.totals.first().map_or(0, |f| f.cycles).max(1) as f64;
    let of = |cycles: u64| cycles as f64 * 100.0 / first;
    series.totals.iter().map(|f| of(f.cycles)).collect()
}

fn x(n: usize, count: usize) -> f64 {
    let step = (WIDTH - LEFT - RIGHT) / count.max(1) as f64;
    LEFT + step * (n as f64 + 0.5)
}

/// The vertical axis: round ticks around the values.
struct Scale {
    low: f64,
    high: f64,
    step: f64,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let low = values.clone().fold(100.0, f64::min);
        let high = values.fold(100.0, f64::max);
        let span = (high - low).max(0.01);
        let magnitude = 10f64.powf((span / 5.0).log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * magnitude)
            .find(|step| span / step <= 6.0)
            .unwrap_or(10.0 * magnitude);
        Self {
            low: ((low / step).floor() - 1.0).max(0.0) * step,
            high: ((high / step).ceil() + 1.0) * step,
            step,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let span = HEIGHT - TOP - BOTTOM;
        HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * span
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let count = ((self.high - self.low) / self.step).round() as u32;
        (0..=count).map(|n| self.low + self.step * f64::from(n))
    }

    fn decimals(&self) -> usize {
        (-self.step.log10().floor()).max(0.0) as usize
    }
}
