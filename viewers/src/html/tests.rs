//! The page of a report made by hand: well-formed, self-contained, and deaf to what names say.

use crate::sample::report;
use crate::{Style, view};

fn page(report: &mcad_core::report::Report) -> String {
    let mut out = Vec::new();
    view("html")
        .unwrap()
        .write(report, Style::plain(), &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

/// Names of all tags in order; `/name` closes.
fn tags(page: &str) -> Vec<String> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start + 1..];
        let end = tag.find('>').expect("every tag ends");
        let name = tag[..end].split([' ', '\n']).next().unwrap_or("");
        tags.push(name.to_owned());
        if tag[..end].ends_with('/') {
            tags.push(format!("/{name}"));
        }
        rest = &tag[end + 1..];
        // What is in these is no markup.
        if name == "script" || name == "style" {
            rest = &rest[rest.find(&format!("</{name}")).expect("it ends")..];
        }
    }
    tags
}

#[test]
fn every_element_is_closed() {
    let void = ["meta", "link", "!doctype"];
    let mut open: Vec<String> = Vec::new();
    for tag in tags(&page(&report())) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop().as_deref(), Some(name)),
            None if void.contains(&tag.as_str()) => {}
            None => open.push(tag),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn names_are_text_and_nothing_else() {
    let plain = tags(&page(&report()));
    let mut hostile = report();
    let evil = "</script></td><img src=x onerror=alert(1)>\"'><script>alert(1)</script>\x1b";
    hostile.program.command = vec![evil.into()];
    hostile.program.end = evil.into();
    hostile.notes = vec![evil.into()];
    hostile.tool.version = evil.into();
    hostile.run.sources[0].path = evil.into();
    hostile.run.sources[0].lines = [(42, evil.into())].into();
    for cpu in &mut hostile.cpus {
        cpu.name = evil.into();
        cpu.functions[0].name = evil.into();
        cpu.functions[0].module = evil.into();
        cpu.blocks[0].symbol = evil.into();
        cpu.blocks[0].line = Some(evil.into());
        cpu.blocks[0].code = vec![evil.into(); 2];
        cpu.blocks[0].module = evil.into();
        cpu.blocks[0].listing[0].line = Some(format!("{evil}:42"));
        cpu.blocks[0].listing[0].address = evil.into();
        cpu.blocks[0].listing[0].ports = evil.into();
        cpu.lines[0].line = format!("{evil}:42");
        cpu.lines[0].function = evil.into();
        cpu.regions[0].name = evil.into();
        cpu.ports[0].port = evil.into();
    }
    hostile.unknown_instructions.forms[0].form = evil.into();
    hostile.unknown_instructions.forms[0].treatment = evil.into();
    let page = page(&hostile);
    assert_eq!(tags(&page), plain, "no name adds an element");
    assert!(!page.contains('\x1b'));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&report());
    for outside in ["http://", "https://", "src=", "url(", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    assert!(
        !page.contains(" style=\""),
        "the policy allows no styles of single elements"
    );
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("viewport"));
}

#[test]
fn every_figure_can_be_sorted() {
    let page = page(&report());
    assert!(page.matches("<td class=\"n\"").count() > 20);
    let figures = page.split("<td class=\"n").skip(1);
    for cell in figures.filter(|cell| !cell.starts_with("ame")) {
        let head = cell.split('>').next().unwrap();
        assert!(head.contains("\" data-v=\""), "{head}");
    }
    for part in page.split("data-v=\"").skip(1) {
        let value = part.split('"').next().unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{value}");
    }
}
