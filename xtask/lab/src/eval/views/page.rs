//! The HTML page in a headless browser.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use mcad_browser::tables::press_all_heads;
use mcad_browser::{Browser, Look};

use super::Place;
use crate::eval::{Figure, Limit, program};
use xtask::command::{command, execute};

const LOOK: Look = Look {
    width: 1280,
    height: 900,
    dark: false,
};

/// How often the page is opened; the first time also reads the browser from disk.
const TIMES: usize = 5;

/// Makes the page of a run of ffmpeg and looks at it.
pub fn measure(place: &Place, clip: Option<&Path>) -> Result<Vec<Figure>> {
    let clip = match clip {
        Some(clip) => std::path::absolute(clip)?,
        None => program::make_clip(&place.work)?,
    };
    let page = place.work.join("page.html");
    let mut run = command(place.built.join("mcad-run"));
    run.args(["-q", "--cpu", "skl", "--html"]).arg(&page);
    run.arg("--").args(program::ffmpeg(&clip, 1));
    execute(run.stdin(Stdio::null()).stdout(Stdio::null()))?;
    let bytes = std::fs::metadata(&page)
        .with_context(|| format!("cannot read {}", page.display()))?
        .len();
    let mut browser = Browser::start()?;
    eprintln!("{}", browser.version()?);
    let mut paints = Vec::new();
    for _ in 0..TIMES {
        paints.push(browser.open(&page, LOOK)?.first_paint()?);
    }
    paints.sort_by(f64::total_cmp);
    let median = paints.get(TIMES / 2).copied().unwrap_or(f64::NAN);
    let slowest = paints.last().copied().unwrap_or(f64::NAN);
    let mut shown = browser.open(&page, LOOK)?;
    let sorting = press_all_heads(&mut shown)?;
    let overflow = shown.look(Look { width: 360, ..LOOK }).and_then(|()| {
        shown.drawn()?;
        shown.evaluate("document.documentElement.scrollWidth - 360")
    })?;
    let problems = shown.problems()?;
    for problem in problems.iter().chain(&sorting.failures) {
        eprintln!("{problem}");
    }
    let problems = problems.len() as f64;
    let foreign = |url: &&String| !url.starts_with("file://") && !url.starts_with("data:");
    let foreign = shown.requests()?.iter().filter(foreign).count();
    Ok(vec![
        Figure::new(
            "page",
            bytes as f64 / f64::from(1 << 20),
            "MiB",
            Limit::Most(5.0),
        ),
        Figure::new(
            "first content, median of five",
            median,
            "ms",
            Limit::Most(1000.0),
        ),
        Figure::new("first content, slowest", slowest, "ms", Limit::None),
        Figure::new(
            "console errors and warnings",
            problems,
            "",
            Limit::Most(0.0),
        ),
        Figure::new("requests elsewhere", foreign as f64, "", Limit::Most(0.0)),
        Figure::new("tables", sorting.tables as f64, "", Limit::Least(1.0)),
        Figure::new(
            "columns that do not sort by clicks",
            sorting.failures.len() as f64,
            "",
            Limit::Most(0.0),
        ),
        Figure::new(
            "overflow on a screen of 360 pixels",
            overflow.as_f64().unwrap_or(f64::NAN),
            "pixels",
            Limit::Most(0.0),
        ),
    ])
}
