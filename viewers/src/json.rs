//! The report as JSON: the project's machine-readable contract, indented, keys in a fixed order.

use std::io::Write;

use mcad_report::Report;

use crate::escape::json;
use crate::{Style, View, ViewError};

/// The `json` view.
pub struct Json;

impl View for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn description(&self) -> &'static str {
        "the complete report for scripts"
    }

    fn write(&self, report: &Report, _: Style, out: &mut dyn Write) -> Result<(), ViewError> {
        let view = self.name();
        json::pretty(out, report).map_err(|source| {
            if source.is_io() {
                ViewError::Write {
                    view,
                    source: source.into(),
                }
            } else {
                ViewError::Encode { view, source }
            }
        })?;
        out.write_all(b"\n")
            .map_err(|source| ViewError::Write { view, source })
    }
}
