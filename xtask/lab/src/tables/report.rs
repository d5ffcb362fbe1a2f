//! What the generator says about a table: counts on one line, and everything in full.

use std::fmt::Write as _;

use mcad_isa::machine::table::FormTable;

use super::draft::Draft;
use mcad_isa::machine::table::example;

/// Looks an example of every own candidate up in the finished table.
pub fn find_again(draft: &mut Draft, table: &FormTable) {
    for candidate in &draft.candidates {
        let built = example::build(candidate.code, candidate.selector);
        let form = &draft.forms[candidate.form];
        let Some(example) = example::round_trip(&built) else {
            let what = format!("{:?}: no example for {}", candidate.code, form.name);
            draft.report.not_found_again.push(what);
            continue;
        };
        if table.find(&example) != Some(form) {
            let found = table.find(&example).map_or("nothing", |f| &*f.name);
            let what = format!("{:?}: {} gives {found}", candidate.code, form.name);
            draft.report.not_found_again.push(what);
        }
    }
}

/// One line of counts.
pub fn summary(draft: &Draft, bytes: usize) -> String {
    let r = &draft.report;
    format!(
        "{}: {} rows, {} unmapped, {} shadowed, {} borrowed, {} by analogy, {} estimated, \
         {} disagreements, {} not found again; uops set from ports in {}, ports unknown in {}, \
         ports taken from the base in {}, from a relative in {}, {} numbers clamped; {} forms, {} candidates, {} bytes",
        draft.cpu.name,
        r.rows,
        r.unmapped.len(),
        r.shadowed.len(),
        r.borrowed,
        r.analogous,
        r.estimated,
        r.disagreements.len(),
        r.not_found_again.len(),
        r.settled.uops_from_ports,
        r.settled.no_ports,
        r.settled.ports_from_base,
        r.ports_from_relative,
        r.settled.clamped,
        draft.forms.len(),
        draft.candidates.len(),
        bytes
    )
}

/// Everything.
pub fn full(draft: &Draft) -> String {
    let mut text = String::new();
    let cpu = draft.cpu.name;
    let r = &draft.report;
    for (row, reason) in &r.unmapped {
        let _ = writeln!(text, "{cpu}\tunmapped\t{row}\t{reason}");
    }
    for (kind, list) in [
        ("shadowed", &r.shadowed),
        ("disagreement", &r.disagreements),
        ("not found again", &r.not_found_again),
    ] {
        for line in list {
            let _ = writeln!(text, "{cpu}\t{kind}\t{line}");
        }
    }
    for form in &draft.forms {
        let _ = writeln!(text, "{cpu}\tsource\t{}\t{}", form.name, form.source);
    }
    text
}
