//! The options that record a timeline, shared by the commands that analyse here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use mcad_core::simulation::AnalysisKind;
use mcad_core::simulation::timeline::Window;

use super::analysis::Analysis;
use crate::timeline::{TimelinePlan, WindowSpec};

/// Most instructions that are recorded unless an option says otherwise.
const DEFAULT_LIMIT: u64 = 1_000_000;

/// Recording options, as parsed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TimelineArgs {
    /// Record every µop's cycles on the first CPU model to FILE (- is stdout); `mcad view FILE` shows
    /// them. The model runs twice then
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Part of the run to record: all, instructions:FIRST-END, cycles:FIRST-END,
    /// region:SYMBOL[:OCCURRENCE], numbers from 0 in each thread, or hottest[:INSTRUCTIONS] around
    /// the block with the most cycles
    #[arg(
        long,
        value_name = "WINDOW",
        default_value = "all",
        requires = "timeline"
    )]
    window: WindowSpec,
    /// Most instructions to record, some 5 to 20 bytes each
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_LIMIT,
        requires = "timeline"
    )]
    timeline_limit: u64,
}

impl TimelineArgs {
    /// Whether a timeline is asked for.
    pub(super) fn given(&self) -> bool {
        self.timeline.is_some()
    }

    /// Where it is to go.
    pub(super) fn path(&self) -> Option<&Path> {
        self.timeline.as_deref()
    }

    /// Opens the file. A region that the window names is looked for as if it was asked for. A
    /// `page` has the hottest block's timeline, unless the options name another.
    ///
    /// # Errors
    /// Names the file, or what is missing.
    pub(super) fn open(
        &self,
        analysis: &mut Analysis,
        page: bool,
    ) -> anyhow::Result<Option<TimelinePlan>> {
        let Some(path) = &self.timeline else {
            return if page { for_page(analysis) } else { Ok(None) };
        };
        if !analysis.options.analyses.contains(&AnalysisKind::Pipeline) {
            anyhow::bail!("--timeline needs --analysis pipeline");
        }
        if let Window::Region { name, .. } = &self.window.window {
            let spec = name
                .parse()
                .with_context(|| format!("--window region:{name}"))?;
            if !analysis
                .regions
                .iter()
                .any(|region| region.to_string() == *name)
            {
                analysis.regions.push(spec);
            }
        }
        let file = opened(path, page)
            .with_context(|| format!("cannot record the timeline to {}", path.display()))?;
        Ok(Some(TimelinePlan {
            file,
            path: path.clone(),
            window: self.window.clone(),
            limit: self.timeline_limit,
        }))
    }
}

/// The file, or stdout for `-`. A page reads it back.
fn opened(path: &Path, page: bool) -> io::Result<File> {
    if path.as_os_str() != "-" {
        let mut options = OpenOptions::new();
        options.read(page).write(true).create(true).truncate(true);
        return options.open(path);
    }
    if page {
        let why = "a page needs it too, and cannot read stdout back; give it a file";
        return Err(io::Error::other(why));
    }
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Records the hottest block's timeline for a page, if the analysis follows instructions.
///
/// # Errors
/// When there is no place for a temporary file.
pub(super) fn for_page(analysis: &Analysis) -> anyhow::Result<Option<TimelinePlan>> {
    if !analysis.options.analyses.contains(&AnalysisKind::Pipeline) {
        return Ok(None);
    }
    temporary(WindowSpec::hottest()).map(Some)
}

/// Records a window to a file that goes with the process.
///
/// # Errors
/// When there is no place for a temporary file.
pub(super) fn temporary(window: WindowSpec) -> anyhow::Result<TimelinePlan> {
    let file = tempfile::tempfile().context("cannot make a temporary file for the timeline")?;
    Ok(TimelinePlan {
        file,
        path: "temporary file".into(),
        window,
        limit: DEFAULT_LIMIT,
    })
}
