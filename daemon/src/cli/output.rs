//! Where reports go: the summary to stderr or a file, JSON to a file or stdout.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use mcad_report::Report;
use mcad_viewers::html::{Excerpt, Html};
use mcad_viewers::timeline::read::Reader;
use mcad_viewers::{Style, View, json::Json, text::Text};

/// Output options, as parsed.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct OutputArgs {
    /// Write the JSON report to FILE; - is stdout
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page for the browser to FILE, with a timeline around the hottest block, for which
    /// the first CPU model runs twice, or of the --window that is recorded
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the summary to FILE instead of stderr
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show neither progress nor, unless -o is given, the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Fail if an instruction is unknown to a CPU model
    #[arg(long)]
    strict: bool,
}

impl OutputArgs {
    /// Whether a page is asked for.
    pub(super) fn page(&self) -> bool {
        self.html.is_some()
    }

    /// Writes the report to all places asked for; `timeline` is the page's.
    ///
    /// # Errors
    /// When a place cannot be written, or `--strict` is violated (after writing everything).
    pub(super) fn write(&self, report: &Report, timeline: Option<&File>) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            write_file(path, &Text, report)?;
        } else if !self.quiet {
            let mut stderr = BufWriter::new(io::stderr().lock());
            Text.write(report, style_of(&io::stderr()), &mut stderr)?;
            stderr
                .flush()
                .context("cannot write the summary to stderr")?;
        }
        match &self.json {
            Some(path) if path.as_os_str() == "-" => {
                let mut stdout = BufWriter::new(io::stdout().lock());
                Json.write(report, Style::plain(), &mut stdout)?;
                stdout
                    .flush()
                    .context("cannot write the JSON report to stdout")?;
            }
            Some(path) => write_file(path, &Json, report)?,
            None => {}
        }
        if let Some(path) = &self.html {
            let page = page(report, timeline)?;
            write_file(path, &page, report)?;
        }
        if self.strict {
            strict(report)?;
        }
        Ok(())
    }

    /// Refuses places that cannot be written before a long run starts.
    ///
    /// # Errors
    /// Names the place.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for path in self.json.iter().chain(&self.html).chain(&self.output) {
            if path.as_os_str() == "-" {
                continue;
            }
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            if path.is_dir() || !parent.is_dir() {
                anyhow::bail!("cannot write {}: not a file in a directory", path.display());
            }
        }
        Ok(())
    }
}

/// The page of a report with what a recorded file has.
///
/// # Errors
/// When the timeline cannot be read back.
pub(super) fn page(report: &Report, timeline: Option<&File>) -> anyhow::Result<Html> {
    let Some(mut file) = timeline else {
        return Ok(Html::default());
    };
    file.rewind().context("cannot read the timeline back")?;
    let mut reader = Reader::new(file).context("the timeline")?;
    let timeline = Excerpt::read(&mut reader, report).context("the timeline")?;
    Ok(Html::with(timeline))
}

fn strict(report: &Report) -> anyhow::Result<()> {
    let unknown = &report.unknown_instructions;
    if unknown.count > 0 {
        let worst = unknown.forms.first();
        anyhow::bail!(
            "--strict: {} executed instructions are unknown, most often {}",
            unknown.count,
            worst.map_or("(no form)", |form| form.form.as_str())
        );
    }
    Ok(())
}

fn write_file(path: &Path, view: &dyn View, report: &Report) -> anyhow::Result<()> {
    let name = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(name)?);
    view.write(report, Style::plain(), &mut file)
        .with_context(name)?;
    file.flush().with_context(name)
}

/// The layout for a stream: the terminal's, or plain.
pub fn style_of(stream: &impl IsTerminal) -> Style {
    if !stream.is_terminal() {
        return Style::plain();
    }
    let variable = |name| std::env::var(name).ok();
    let width = terminal_width().unwrap_or(mcad_viewers::style::DEFAULT_WIDTH);
    Style::terminal(
        width,
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
    )
}

fn terminal_width() -> Option<usize> {
    let streams = [
        rustix::termios::tcgetwinsize(io::stderr()),
        rustix::termios::tcgetwinsize(io::stdout()),
    ];
    let width = streams
        .into_iter()
        .flatten()
        .map(|size| size.ws_col)
        .find(|width| *width > 0)?;
    Some(width.into())
}
