//! Which instruction of a block depends on which: a table, and a graph for Graphviz.

use std::io::{self, Write};

use mcad_report::block::{Detail, Edge};

use crate::layout::{Align, Table};
use crate::style::Style;

/// A row for each instruction that needs something of another.
///
/// # Errors
/// What the output says.
pub fn dependencies(d: &Detail, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("Dependencies on {}", d.cpu_full_name);
    super::heading(&title, style, out)?;
    if d.edges.is_empty() {
        return writeln!(out, "  none, or the block is too large to draw them up");
    }
    writeln!(out, "  ! is on the longest chain")?;
    let mut table = Table::new([
        ("#", Align::Right),
        ("instruction", Align::Left),
        ("needs", Align::Left),
    ])
    .wrapping();
    for (n, instruction) in (0u32..).zip(&d.instructions) {
        let needs: Vec<String> = of(d, n).map(need).collect();
        if !needs.is_empty() {
            table.row(vec![
                n.to_string(),
                instruction.text.clone(),
                needs.join(", "),
            ]);
        }
    }
    table.write(style, out)
}

/// What an instruction needs.
fn of(d: &Detail, n: u32) -> impl Iterator<Item = &Edge> {
    d.edges.iter().filter(move |edge| edge.to == n)
}

/// `rax of 3!`, `flags of 2 (1 before)`.
fn need(edge: &Edge) -> String {
    let through = edge.through.join("+");
    let mark = if edge.critical { "!" } else { "" };
    match edge.carried {
        0 => format!("{through} of {}{mark}", edge.from),
        back => format!("{through} of {}{mark} ({back} before)", edge.from),
    }
}

/// The graph in Graphviz's language (<https://graphviz.org/doc/info/lang.html>): a node an
/// instruction, dashed edges from one iteration to a later one, the longest chain in red.
///
/// # Errors
/// What the output says.
pub fn dot(name: &str, details: &[&Detail], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "digraph {} {{", quoted(name))?;
    writeln!(out, "  node [shape=box fontname=monospace];")?;
    for (number, d) in details.iter().enumerate() {
        writeln!(out, "  subgraph cluster{number} {{")?;
        let label = format!("{}: {:.2} cycles, {}", d.cpu, d.cycles, d.mode);
        writeln!(out, "    label={};", quoted(&label))?;
        for (n, instruction) in d.instructions.iter().enumerate() {
            let text = format!("{n}: {}", instruction.text);
            writeln!(out, "    c{number}i{n} [label={}];", quoted(&text))?;
        }
        for edge in &d.edges {
            let carried = match edge.carried {
                0 => String::new(),
                back => format!(" style=dashed constraint=false taillabel=\"{back}\""),
            };
            let critical = if edge.critical {
                " color=red penwidth=2"
            } else {
                ""
            };
            writeln!(
                out,
                "    c{number}i{} -> c{number}i{} [label={}{carried}{critical}];",
                edge.from,
                edge.to,
                quoted(&edge.through.join(" "))
            )?;
        }
        writeln!(out, "  }}")?;
    }
    writeln!(out, "}}")
}

/// A quoted identifier: quotes and backslashes escaped, control characters gone.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes() {
        assert_eq!(quoted("a\"]; b\\\n"), r#""a\"]; b\\""#);
    }

    #[test]
    fn needs_say_how_many_iterations_before() {
        let mut edge = Edge {
            from: 3,
            to: 1,
            carried: 0,
            through: vec!["rax".into(), "flags".into()],
            critical: true,
        };
        assert_eq!(need(&edge), "rax+flags of 3!");
        edge.carried = 2;
        assert_eq!(need(&edge), "rax+flags of 3! (2 before)");
    }
}
