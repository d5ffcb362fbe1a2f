//! Re-order buffer and retirement.

use serde::{Deserialize, Serialize};

use super::check::{Bounds, Checked};

/// Re-order buffer and retirement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retire {
    /// Entries of the re-order buffer, fused µops.
    pub reorder_buffer: u32,
    /// Fused µops retired per cycle.
    pub width: u32,
}

impl Retire {
    pub(super) fn check(&self) -> Checked {
        let b = Bounds("retire");
        b.within("reorder_buffer", self.reorder_buffer, 16, 4096)?;
        b.within("width", self.width, 1, 32)
    }
}
