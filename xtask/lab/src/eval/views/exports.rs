//! What recording and exporting the timeline of a million instructions takes: instructions per
//! second of processor time, and peak memory.

use anyhow::Result;

use super::{Figure, Place};
use crate::eval::Limit;
use xtask::command::{command, measured};

/// Instructions of the timeline.
const RECORDS: u64 = 1_000_000;

/// Formats of timelines, with the options that leave nothing out.
const FORMATS: [(&str, &[&str]); 3] = [
    ("text", &["--max-cycles", "1000000000"]),
    ("konata", &[]),
    ("chrome", &[]),
];

const MIB: f64 = (1 << 20) as f64;

/// Records and exports.
pub fn measure(place: &Place) -> Result<Vec<Figure>> {
    let trace = place.trace()?;
    let replay = |options: &[&str]| {
        measured(
            command(place.built.join("mcad"))
                .args(["replay", "-q", "--cpu", "skl", "--json", "/dev/null"])
                .args(options)
                .arg(&trace),
        )
    };
    let timeline = place.work.join("gzip.timeline");
    let (file, limit) = (timeline.display().to_string(), RECORDS.to_string());
    let without = replay(&[])?;
    let with = replay(&["--timeline", &file, "--timeline-limit", &limit])?;
    let mut figures = vec![
        Figure::new(
            "recording a timeline, beside the analysis",
            RECORDS as f64 / (with.seconds - without.seconds) / 1e6,
            "M instructions per CPU second",
            Limit::Least(1.0),
        ),
        Figure::new(
            "recording a timeline, all in all: peak",
            with.peak_bytes as f64 / MIB,
            "MiB",
            Limit::Most(200.0),
        ),
    ];
    for (format, options) in FORMATS {
        let export = measured(
            command(place.built.join("mcad"))
                .args(["view", "--format", format])
                .args(options)
                .arg("-o")
                .args([&place.work.join(format!("gzip.{format}")), &timeline]),
        )?;
        figures.push(Figure::new(
            format!("a timeline as {format}"),
            RECORDS as f64 / export.seconds / 1e6,
            "M instructions per CPU second",
            Limit::Least(1.0),
        ));
        figures.push(Figure::new(
            format!("a timeline as {format}: peak"),
            export.peak_bytes as f64 / MIB,
            "MiB",
            Limit::Most(200.0),
        ));
    }
    Ok(figures)
}
