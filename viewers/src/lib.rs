//! Views of finished mcad reports: one file per view behind the trait [`View`].
//!
//! A view reads a [`Report`] and writes text; it knows neither sessions nor the simulation. To
//! add one, write its file and name it in [`views`].

pub mod block;
pub mod collapsed;
pub mod curves;
pub mod diff;
pub mod escape;
pub mod firefox;
pub mod fuzz;
mod gains;
pub mod html;
pub mod json;
pub mod layout;
#[cfg(test)]
mod sample;
pub mod style;
pub mod sweep;
pub mod text;
pub mod timeline;

use std::io::Write;

use mcad_report::Report;
pub use style::Style;

/// Why a view could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The output refused the text.
    #[error("cannot write the {view} view: {source}")]
    Write {
        /// Name of the view.
        view: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The report holds something that the format cannot express.
    #[error("cannot express the report as {view}: {source}")]
    Encode {
        /// Name of the view.
        view: &'static str,
        /// What is not expressible.
        source: serde_json::Error,
    },
}

/// One way to present a report.
pub trait View: Sync {
    /// Name on the command line.
    fn name(&self) -> &'static str;

    /// One line for the help text.
    fn description(&self) -> &'static str;

    /// Writes the report; ends with a newline.
    ///
    /// # Errors
    /// [`ViewError`] when the output fails or the format cannot hold the report.
    fn write(&self, report: &Report, style: Style, out: &mut dyn Write) -> Result<(), ViewError>;
}

/// All views, the default first.
#[must_use]
pub fn views() -> &'static [&'static dyn View] {
    static VIEWS: [&dyn View; 5] = [
        &text::Text,
        &json::Json,
        &html::PLAIN,
        &firefox::Firefox,
        &collapsed::Collapsed,
    ];
    &VIEWS
}

/// The view of a name.
#[must_use]
pub fn view(name: &str) -> Option<&'static dyn View> {
    views().iter().copied().find(|view| view.name() == name)
}
