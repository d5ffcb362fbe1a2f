//! Curves of probes: as text beside each other, and as a page with a plot each.
//!
//! The page is one file without scripts, links or fonts; colours follow the viewer's light or dark
//! scheme.

mod plot;

use std::io::{self, Write};

use mcad_report::probes::{Curve, Probes, SHARE, TOLERANCE};

use crate::escape::{escape, html};

/// Writes one curve as a table.
///
/// # Errors
/// What the output says.
pub fn text(curve: &Curve, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", escape(&curve.name), escape(&curve.what))?;
    let axis = match curve.axis_unit.as_str() {
        "" => curve.axis.clone(),
        unit => format!("{} ({unit})", curve.axis),
    };
    let labels = curve.points.iter().map(|p| label(p.x, p.label.as_deref()));
    let labels: Vec<String> = labels.collect();
    let longest = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let width = longest.max(axis.chars().count());
    writeln!(
        out,
        "  {axis:>width$}  {:>10}  {:>10}  {:>8}   {}",
        "measured", "simulated", "off", curve.unit
    )?;
    for (point, label) in curve.points.iter().zip(&labels) {
        let figure = |f: Option<f64>| f.map_or_else(|| "-".to_owned(), |f| format!("{f:.2}"));
        let off = match point.error() {
            Some(error) => format!("{:+.1} %", 100.0 * error),
            None => String::new(),
        };
        let mark = match point.error() {
            Some(error) if error.abs() > TOLERANCE => "  far",
            _ => "",
        };
        writeln!(
            out,
            "  {label:>width$}  {:>10}  {:>10}  {off:>8}{mark}",
            figure(point.native),
            figure(point.simulated),
        )?;
        for missing in &point.missing {
            writeln!(out, "  {:>width$}  {}", "", escape(missing))?;
        }
    }
    writeln!(out, "  {}\n", verdict(curve))
}

/// Writes a line for each curve, and how many agree.
///
/// # Errors
/// What the output says.
pub fn summary(probes: &Probes, out: &mut dyn Write) -> io::Result<()> {
    let verdicts = probes.curves.iter().filter_map(Curve::verdict);
    let verdicts: Vec<_> = verdicts.collect();
    if verdicts.is_empty() {
        return Ok(());
    }
    for curve in &probes.curves {
        writeln!(out, "{:<20} {}", escape(&curve.name), verdict(curve))?;
    }
    writeln!(
        out,
        "{} of {} curves agree",
        verdicts.iter().filter(|v| v.agrees()).count(),
        verdicts.len()
    )
}

fn verdict(curve: &Curve) -> String {
    let Some(v) = curve.verdict() else {
        return "not compared".to_owned();
    };
    format!(
        "{}: {} of {} points within {:.0} % ({:.0} % are wanted), {:.1} % off on average",
        if v.agrees() { "agrees" } else { "FAR" },
        v.near,
        v.compared,
        100.0 * TOLERANCE,
        100.0 * SHARE,
        100.0 * v.mean_error
    )
}

/// A point's place as people write it.
fn label(x: f64, label: Option<&str>) -> String {
    match label {
        Some(label) => escape(label).into_owned(),
        None => format!("{x}"),
    }
}

/// Writes the page.
///
/// # Errors
/// What the output says.
pub fn page(probes: &Probes, out: &mut dyn Write) -> io::Result<()> {
    let host = probes.host.as_deref().unwrap_or("not measured");
    let model = probes.model.as_deref().unwrap_or("not simulated");
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>Probes of {host}</title>\n<style>{}</style>\
         </head><body>\n<h1>Probes of a core</h1>\n<p>Measured on {host}, simulated as {model}. \
         A curve agrees when {:.0} % of its points are within {:.0} %.</p>\n<div class=\"all\">\n",
        STYLE,
        100.0 * SHARE,
        100.0 * TOLERANCE,
        host = html(host),
        model = html(model),
    )?;
    for curve in &probes.curves {
        let class = match curve.verdict() {
            Some(v) if v.agrees() => "agrees",
            Some(_) => "far",
            None => "",
        };
        writeln!(
            out,
            "<figure class=\"{class}\"><figcaption><b>{}</b> {}</figcaption>",
            html(&curve.name),
            html(&curve.what)
        )?;
        plot::write(curve, out)?;
        writeln!(
            out,
            "<p class=\"verdict\">{}</p></figure>",
            html(&verdict(curve))
        )?;
    }
    writeln!(out, "</div></body></html>")
}

const STYLE: &str = "body{font-family:sans-serif;margin:1.5em;background:#fff;color:#222}\
.all{display:grid;grid-template-columns:repeat(auto-fill,minmax(30em,1fr));gap:1em}\
figure{margin:0;padding:.7em;border:1px solid #ccc;border-left:.4em solid #999;border-radius:4px}\
.agrees{border-left-color:#009e73}.far{border-left-color:#d55e00}\
figcaption,.verdict{font-size:.85em}.verdict{margin:.3em 0 0}\
svg text{fill:#222}.g{stroke:#ddd}\
@media(prefers-color-scheme:dark){body{background:#1b1b1f;color:#ddd}svg text{fill:#ddd}\
.g{stroke:#444}figure{border-color:#444}}";

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_report::probes::{CurvePoint, SCHEMA_VERSION};

    fn sample() -> Probes {
        let point = |x: f64, native: f64, simulated: f64| CurvePoint {
            x,
            label: None,
            native: Some(native),
            native_median: Some(native),
            simulated: Some(simulated),
            missing: Vec::new(),
        };
        Probes {
            schema_version: SCHEMA_VERSION,
            host: Some("A <CPU>".into()),
            model: Some("skl".into()),
            curves: vec![Curve {
                name: "load-latency".into(),
                what: "latency".into(),
                axis: "working set".into(),
                axis_unit: "KiB".into(),
                logarithmic: true,
                unit: "cycles per load".into(),
                points: vec![point(16.0, 5.0, 5.0), point(64.0, 14.0, 20.0)],
            }],
        }
    }

    #[test]
    fn a_table_has_both_sides_and_a_verdict() {
        let mut out = Vec::new();
        text(&sample().curves[0], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("FAR: 1 of 2 points within 10 %"), "{text}");
        let line = text.lines().find(|l| l.contains("14.00")).unwrap();
        assert!(line.ends_with("20.00   +42.9 %  far"), "{line:?}");
    }

    #[test]
    fn the_page_has_a_plot_of_each_curve_and_escapes_names() {
        let mut out = Vec::new();
        page(&sample(), &mut out).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("A &lt;CPU&gt;") && !page.contains("<CPU>"));
        assert_eq!(page.matches("<svg").count(), 1);
        assert_eq!(page.matches("<polyline").count(), 2);
        assert!(!page.contains("NaN") && !page.contains("http://www.example"));
    }
}
