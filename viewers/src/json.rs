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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// Whether `value` is as a schema says; else where not. Only what our schema uses is known.
    fn check(schema: &Value, root: &Value, value: &Value, at: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            let definition = root.pointer(name.trim_start_matches('#'));
            check(definition.expect(name), root, value, at);
            return;
        }
        if let Some(either) = schema["anyOf"].as_array() {
            if !value.is_null() {
                check(&either[0], root, value, at);
            }
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let known = schema["properties"].get(name);
                    let known = known.or_else(|| {
                        let patterns = schema["patternProperties"].as_object();
                        patterns.and_then(|patterns| patterns.values().next())
                    });
                    let known = known.or_else(|| schema.get("additionalProperties"));
                    let known = known.unwrap_or_else(|| panic!("{at}/{name} is in no schema"));
                    check(known, root, field, &format!("{at}/{name}"));
                }
                for name in schema["required"].as_array().into_iter().flatten() {
                    assert!(
                        fields.contains_key(name.as_str().unwrap()),
                        "{at}: no {name}"
                    );
                }
            }
            Value::Array(items) => {
                for item in items {
                    check(&schema["items"], root, item, at);
                }
            }
            other => {
                let kind = match other {
                    Value::String(_) => "string",
                    Value::Bool(_) => "boolean",
                    Value::Null => "null",
                    Value::Number(n) if n.is_f64() => "number",
                    _ => "integer",
                };
                let said = schema["type"].to_string();
                let number = kind == "integer" && said.contains("number");
                assert!(said.contains(kind) || number, "{at}: {said}, not {kind}");
            }
        }
    }

    #[test]
    fn reports_are_as_the_schema_says() {
        let schema = serde_json::to_value(mcad_report::schema::report()).unwrap();
        let report = serde_json::to_value(crate::sample::report()).unwrap();
        check(&schema, &schema, &report, "");
        assert!(schema["$defs"]["CpuReport"]["properties"]["cycles"]["description"].is_string());
    }
}
