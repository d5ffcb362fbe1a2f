//! What an analysis was asked for, as far as cycles depend on it and no CPU's section says it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Options of an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnalysisOptions {
    /// Whether addresses of loads and stores were looked at.
    pub memory: bool,
    /// Who has a core; none where no process has several threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<CoreUse>,
}

/// Who has a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CoreUse {
    /// Each thread.
    Each,
    /// Each process, its threads in turn.
    One,
}
