//! The dependency graph of a block as a picture: instructions below each other, an arrow for each
//! value from the one that makes it to the one that needs it. Arrows that share rows have lanes of
//! their own; dashed ones go to a later iteration, the longest chain is marked.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use mcad_report::block::{Detail, Edge};

use crate::escape::html as esc;

/// Height of a row, and widths of a lane and a letter, in pixels.
const ROW: usize = 24;
const LANE: usize = 12;
const LETTER: usize = 8;
/// Beyond these a picture is a thicket; the table has all edges.
const INSTRUCTIONS: usize = 200;
const LANES: usize = 40;

/// Writes the picture, with a heading; `id` is its own on the page.
pub(super) fn section(d: &Detail, id: &str, out: &mut dyn Write) -> io::Result<()> {
    if d.edges.is_empty() || d.instructions.len() > INSTRUCTIONS {
        return Ok(());
    }
    let (lanes, used) = lanes(&d.edges);
    writeln!(
        out,
        "<h3>Dependencies <small>dashed: of an earlier iteration; marked: the longest chain\
         </small></h3>"
    )?;
    if used > LANES {
        return writeln!(out, "<p class=\"dim\">Too many to draw.</p>");
    }
    let left = (used + 1) * LANE + 8;
    let letters = d.instructions.iter().map(|i| i.text.chars().count()).max();
    let needs: Vec<String> = (0u32..)
        .zip(&d.instructions)
        .map(|(n, _)| needs(d, n))
        .collect();
    let text = left + 28 + LETTER * letters.unwrap_or(0) + 24;
    let most = needs.iter().map(|text| text.chars().count()).max();
    let width = text + 7 * most.unwrap_or(0) + 8;
    let height = ROW * d.instructions.len();
    writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\"><svg class=\"graph\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Dependency graph\">\
         <defs><marker id=\"arrow-{id}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>"
    )?;
    for (n, (instruction, needs)) in d.instructions.iter().zip(&needs).enumerate() {
        let y = n * ROW + ROW / 2 + 4;
        let of_chain = d.chain.as_ref().is_some_and(|chain| {
            let mut steps = chain.steps.iter();
            steps.any(|step| step.instruction as usize == n)
        });
        let class = if of_chain { " class=\"critical\"" } else { "" };
        writeln!(
            out,
            "<text x=\"{left}\" y=\"{y}\" class=\"number\">{n}</text><text x=\"{}\" y=\"{y}\"{class}>{}\
             </text><text x=\"{text}\" y=\"{y}\" class=\"needs\">{}</text>",
            left + 28,
            esc(&instruction.text),
            esc(needs)
        )?;
    }
    // Those of the chain last, on top of the others.
    for critical in [false, true] {
        for (edge, lane) in d.edges.iter().zip(&lanes) {
            if edge.critical == critical {
                writeln!(out, "{}", arrow(edge, *lane, left, id))?;
            }
        }
    }
    writeln!(out, "</svg></div>")
}

/// What an instruction needs, in words.
fn needs(d: &Detail, n: u32) -> String {
    let mut text = String::new();
    for edge in d.edges.iter().filter(|edge| edge.to == n) {
        let gap = if text.is_empty() { "" } else { ", " };
        // Writing to a text does not fail.
        let _ = write!(text, "{gap}{} of {}", edge.through.join("+"), edge.from);
    }
    text
}

fn arrow(edge: &Edge, lane: usize, left: usize, id: &str) -> String {
    let middle = |row: u32| row as usize * ROW + ROW / 2;
    let x = left.saturating_sub((lane + 1) * LANE + 4);
    let (from, to) = (middle(edge.from) + 4, middle(edge.to).saturating_sub(4));
    let class = match (edge.critical, edge.carried > 0) {
        (true, true) => "critical carried",
        (true, false) => "critical",
        (false, true) => "carried",
        (false, false) => "",
    };
    let when = match edge.carried {
        0 => String::new(),
        1 => ", an iteration later".to_owned(),
        more => format!(", {more} iterations later"),
    };
    let title = format!(
        "{} of instruction {} for {}{when}",
        edge.through.join(", "),
        edge.from,
        edge.to
    );
    let (start, end) = (left - 4, left - 2);
    format!(
        "<g class=\"edge {class}\"><title>{}</title><path d=\"M{start} {from}H{x}V{to}H{end}\" \
         marker-end=\"url(#arrow-{id})\"/></g>",
        esc(&title)
    )
}

/// The lane of each edge, and how many there are: short arrows inside, long ones around them.
fn lanes(edges: &[Edge]) -> (Vec<usize>, usize) {
    let rows = |edge: &Edge| edge.from.min(edge.to)..=edge.from.max(edge.to);
    let mut order: Vec<usize> = (0..edges.len()).collect();
    order.sort_by_key(|n| {
        let rows = edges.get(*n).map_or(0..=0, rows);
        (rows.end() - rows.start(), *rows.start(), *n)
    });
    let mut taken: Vec<Vec<RangeInclusive<u32>>> = Vec::new();
    let mut lanes = vec![0; edges.len()];
    for n in order {
        let own = edges.get(n).map_or(0..=0, rows);
        let free = |lane: &Vec<RangeInclusive<u32>>| {
            let apart = |r: &RangeInclusive<u32>| r.end() < own.start() || own.end() < r.start();
            lane.iter().all(apart)
        };
        let lane = taken.iter().position(free).unwrap_or(taken.len());
        if lane == taken.len() {
            taken.push(Vec::new());
        }
        if let (Some(rows), Some(place)) = (taken.get_mut(lane), lanes.get_mut(n)) {
            rows.push(own);
            *place = lane;
        }
    }
    (lanes, taken.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: u32, to: u32) -> Edge {
        Edge {
            from,
            to,
            carried: u32::from(to <= from),
            through: vec!["rax".into()],
            critical: false,
        }
    }

    #[test]
    fn arrows_that_share_rows_have_lanes_of_their_own() {
        let edges = [edge(0, 1), edge(2, 3), edge(0, 3), edge(3, 3), edge(1, 2)];
        let (lanes, used) = lanes(&edges);
        assert_eq!(used, 4);
        for (n, a) in edges.iter().enumerate() {
            for (m, b) in edges.iter().enumerate().skip(n + 1) {
                let [a, b] = [a, b].map(|e| (e.from.min(e.to), e.from.max(e.to)));
                let share = a.0 <= b.1 && b.0 <= a.1;
                assert!(!share || lanes[n] != lanes[m], "{n} {m} {lanes:?}");
            }
        }
        // The longest is outside.
        assert!(lanes[2] >= lanes[0] && lanes[2] >= lanes[1]);
    }
}
