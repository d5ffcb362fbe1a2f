//! A page about a design space: cycles over cost with the Pareto front, and the stacks along it.
//!
//! One file without scripts or a network. A point is on the front when no other is at most as
//! expensive and faster, or cheaper and as fast.

use std::io::{self, Write};

use crate::escape::html as escape;

/// A machine of the space.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// What it is, for people.
    pub label: String,
    /// What it costs, in any unit.
    pub cost: f64,
    /// Cycles that it takes.
    pub cycles: f64,
    /// Where these go; may be empty.
    pub stack: Vec<(String, f64)>,
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const MARGIN: f64 = 60.0;

/// Colours of a stack's parts, in turn.
const COLOURS: [&str; 8] = [
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#9c755f",
];

/// The points of the front, cheapest first.
#[must_use]
pub fn front(points: &[Point]) -> Vec<&Point> {
    let mut sorted: Vec<&Point> = points.iter().collect();
    sorted.sort_by(|a, b| {
        let by_cost = a.cost.total_cmp(&b.cost);
        by_cost.then_with(|| a.cycles.total_cmp(&b.cycles))
    });
    let mut front: Vec<&Point> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|last| point.cycles < last.cycles) {
            front.push(point);
        }
    }
    front
}

/// Writes the page.
///
/// # Errors
/// When `out` refuses it.
pub fn write(title: &str, cost: &str, points: &[Point], out: &mut dyn Write) -> io::Result<()> {
    let title = escape(title);
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font:14px sans-serif;margin:2em;max-width:60em}}td,th{{padding:2px 8px;\
         text-align:right}}td:first-child{{text-align:left}}svg text{{font-size:12px}}</style>\n\
         <h1>{title}</h1>"
    )?;
    let front = front(points);
    writeln!(
        out,
        "<p>{} machines, {} on the Pareto front of cycles over {}.</p>",
        points.len(),
        front.len(),
        escape(cost)
    )?;
    scatter(cost, points, &front, out)?;
    stacks(&front, out)?;
    writeln!(out, "</html>")
}

/// Cycles over cost.
fn scatter(cost: &str, points: &[Point], front: &[&Point], out: &mut dyn Write) -> io::Result<()> {
    let range = |of: &dyn Fn(&Point) -> f64| {
        let low = points.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (low, if high > low { high } else { low + 1.0 })
    };
    let (costs, cycles) = (range(&|p| p.cost), range(&|p| p.cycles));
    let x = |p: &Point| MARGIN + (p.cost - costs.0) / (costs.1 - costs.0) * (WIDTH - 2.0 * MARGIN);
    let y = |p: &Point| {
        HEIGHT - MARGIN - (p.cycles - cycles.0) / (cycles.1 - cycles.0) * (HEIGHT - 2.0 * MARGIN)
    };
    writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">")?;
    for point in points {
        writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"#999\"><title>{}: {:.0} \
             cycles</title></circle>",
            x(point),
            y(point),
            escape(&point.label),
            point.cycles
        )?;
    }
    let line: Vec<String> = (front.iter())
        .map(|p| format!("{:.1},{:.1}", x(p), y(p)))
        .collect();
    writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#e15759\" stroke-width=\"2\"/>",
        line.join(" ")
    )?;
    let (bottom, middle) = (HEIGHT - 20.0, WIDTH / 2.0);
    writeln!(
        out,
        "<text x=\"{middle}\" y=\"{bottom}\" text-anchor=\"middle\">{} ({:.0} to {:.0})</text>\n\
         <text x=\"8\" y=\"24\">cycles ({:.0} to {:.0})</text>\n</svg>",
        escape(cost),
        costs.0,
        costs.1,
        cycles.0,
        cycles.1
    )
}

/// A bar for each point of the front.
fn stacks(front: &[&Point], out: &mut dyn Write) -> io::Result<()> {
    let most = front.iter().map(|p| p.cycles).fold(1.0, f64::max);
    writeln!(
        out,
        "<h2>Along the front</h2>\n<table><tr><th>machine<th>cost<th>cycles<th>stack"
    )?;
    for point in front {
        write!(
            out,
            "<tr><td>{}<td>{:.0}<td>{:.0}<td><svg width=\"400\" height=\"16\">",
            escape(&point.label),
            point.cost,
            point.cycles
        )?;
        let mut at = 0.0;
        for (n, (name, cycles)) in point.stack.iter().enumerate() {
            let width = cycles / most * 400.0;
            if width > 0.0 {
                let colour = COLOURS[n % COLOURS.len()];
                write!(
                    out,
                    "<rect x=\"{at:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\">\
                     <title>{}: {cycles:.0} cycles</title></rect>",
                    escape(name)
                )?;
                at += width;
            }
        }
        writeln!(out, "</svg>")?;
    }
    writeln!(out, "</table>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(label: &str, cost: f64, cycles: f64) -> Point {
        Point {
            label: label.to_owned(),
            cost,
            cycles,
            stack: vec![("base".to_owned(), cycles)],
        }
    }

    #[test]
    fn only_what_nothing_beats_is_on_the_front() {
        let points = [
            point("a", 1.0, 100.0),
            point("dear", 3.0, 90.0),
            point("b", 2.0, 80.0),
            point("same", 2.0, 80.0),
            point("c", 4.0, 70.0),
        ];
        let labels: Vec<&str> = front(&points).iter().map(|p| p.label.as_str()).collect();
        assert_eq!(labels, ["a", "b", "c"]);
    }

    #[test]
    fn the_page_shows_every_point_and_escapes_what_it_is_given() {
        let points = [point("<b>", 1.0, 10.0), point("x", 2.0, 5.0)];
        let mut page = Vec::new();
        write("a & b", "units", &points, &mut page).unwrap_or_default();
        let page = String::from_utf8_lossy(&page);
        assert_eq!(page.matches("<circle").count(), 2);
        assert!(page.contains("a &amp; b") && page.contains("&lt;b&gt;") && !page.contains("<b>"));
        let mut empty = Vec::new();
        assert!(write("none", "units", &[], &mut empty).is_ok());
    }
}
