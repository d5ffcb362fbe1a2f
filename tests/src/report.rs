//! Reading reports back.

use std::path::Path;

use mcad_report::Report;
use serde_json::Value;

/// A report's file.
#[must_use]
pub fn read(path: &Path) -> Report {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}\n{text}", path.display()))
}

/// A report as text without what differs from run to run.
#[must_use]
pub fn stable(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut value: Value = serde_json::from_str(&text).unwrap();
    assert!(value.as_object_mut().unwrap().remove("run").is_some());
    serde_json::to_string_pretty(&value).unwrap()
}
