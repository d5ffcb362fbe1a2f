//! The options that record a timeline, shared by the commands that analyse here.

use std::fs::File;
use std::path::PathBuf;

use anyhow::Context;
use mcad_core::simulation::AnalysisKind;
use mcad_core::simulation::timeline::Window;

use super::analysis::Analysis;
use crate::timeline::{TimelinePlan, WindowSpec};

/// Recording options, as parsed.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TimelineArgs {
    /// Record every µop's cycles on the first CPU model to FILE; `mcad view FILE` shows them. The
    /// model runs twice then
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Part of the run to record: all, instructions:FIRST-END, cycles:FIRST-END or
    /// region:SYMBOL[:OCCURRENCE], numbers from 0 in each thread
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
        default_value_t = 1_000_000,
        requires = "timeline"
    )]
    timeline_limit: u64,
}

impl TimelineArgs {
    /// Whether a timeline is asked for.
    pub(super) fn given(&self) -> bool {
        self.timeline.is_some()
    }

    /// Opens the file. A region that the window names is looked for as if it was asked for.
    ///
    /// # Errors
    /// Names the file, or what is missing.
    pub(super) fn open(&self, analysis: &mut Analysis) -> anyhow::Result<Option<TimelinePlan>> {
        let Some(path) = &self.timeline else {
            return Ok(None);
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
        let file = File::create(path)
            .with_context(|| format!("cannot record the timeline to {}", path.display()))?;
        Ok(Some(TimelinePlan {
            file,
            path: path.clone(),
            window: self.window.clone(),
            limit: self.timeline_limit,
        }))
    }
}
