//! The JSON Schema of reports, for who reads them in other languages: made from the types, so that it
//! says what they say.

use schemars::{Schema, schema_for};
use serde_json::json;

use crate::{Report, SCHEMA_VERSION};

/// The schema of reports of [`SCHEMA_VERSION`].
#[must_use]
pub fn report() -> Schema {
    let mut schema = schema_for!(Report);
    schema.insert(
        "title".into(),
        json!(format!("mcad report, version {SCHEMA_VERSION}")),
    );
    if let Some(version) = schema.pointer_mut("/properties/schema_version") {
        version["const"] = json!(SCHEMA_VERSION);
    }
    schema
}
