//! Where cycles were spent, by who called whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A function as one path of calls came to it. Paths make a forest: each names the one that called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallReport {
    /// Place in the list of the path of calls to its caller, which comes before it; none for where
    /// a thread began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<u32>,
    /// The function.
    pub function: String,
    /// File name of its module.
    pub module: String,
    /// Cycles in it, what it called left out.
    pub cycles: u64,
}

/// Cycles of each path with all that it called, in the order of the list.
#[must_use]
pub fn with_callees(calls: &[CallReport]) -> Vec<u64> {
    let mut totals: Vec<u64> = calls.iter().map(|call| call.cycles).collect();
    for (n, call) in calls.iter().enumerate().rev() {
        let total = totals[n];
        // A caller that does not come before would be a foreign report's.
        if let Some(caller) = call.caller.map(|c| c as usize).filter(|caller| *caller < n) {
            totals[caller] = totals[caller].saturating_add(total);
        }
    }
    totals
}
