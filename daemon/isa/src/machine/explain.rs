//! What a parser says of a CPU's file, in words of the file: which key, in which section, what would
//! be right, and which name was meant, perhaps.

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::CpuModel;
use crate::near::nearest;

/// The keys that lead to what stands at a byte of a file's text: `retire.width`.
pub(super) fn key_at(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        if key.span().contains(&at) {
            return Some(key.get_ref().to_string());
        }
        let inner = match value.get_ref() {
            DeValue::Table(inner) => key_at(inner, at),
            _ => None,
        };
        match inner {
            Some(inner) => Some(format!("{}.{inner}", key.get_ref())),
            None => value
                .span()
                .contains(&at)
                .then(|| key.get_ref().to_string()),
        }
    })
}

/// A message about what stands at `key`, where it is known. `more`: names that are known at the file's
/// beginning beside the sections; `base` is the model that the file changes.
pub(super) fn explained(
    message: &str,
    key: Option<&str>,
    more: &[&str],
    base: Option<&CpuModel>,
) -> String {
    let of = |what: &str| message.strip_prefix(what);
    if let Some((name, known)) = of("unknown field ").and_then(name_and_known) {
        return unknown_field(&name, key, &known, more, base);
    }
    if let Some((name, known)) = of("unknown variant ").and_then(name_and_known) {
        let key = key.map_or(String::new(), |key| format!("{key}: "));
        return format!("{key}there is no `{name}`; {}", meant(&name, &known));
    }
    if let Some(name) = of("missing field ").map(|name| name.trim_matches('`')) {
        let section = key.map_or(String::new(), |key| format!(" in [{key}]"));
        let remedy = match base {
            Some(_) => "and the base has none either",
            None => {
                "and a file without a `base` has to have all parameters; base = \"skl\", say, \
                 takes those that it leaves out from that CPU"
            }
        };
        return format!("`{name}` is missing{section}, {remedy}");
    }
    let wrong = of("invalid type: ").or_else(|| of("invalid value: "));
    if let (Some(key), Some((found, expected))) =
        (key, wrong.and_then(|w| w.split_once(", expected ")))
    {
        let (found, expected) = (found_text(found), expected_text(expected));
        return format!("{key}: expected {expected}, found {found}");
    }
    message.to_owned()
}

/// "`a`, expected one of `b`, `c`", taken apart.
fn name_and_known(text: &str) -> Option<(String, Vec<&str>)> {
    let mut names = text.split('`').skip(1).step_by(2);
    let name = names.next()?.to_owned();
    Some((name, names.collect()))
}

fn unknown_field(
    name: &str,
    key: Option<&str>,
    known: &[&str],
    more: &[&str],
    base: Option<&CpuModel>,
) -> String {
    let sections = base.and_then(|base| serde_json::to_value(&base.core).ok());
    if let Some(Value::Object(sections)) = sections
        && let Some((section, _)) = sections.iter().find(|(_, keys)| keys.get(name).is_some())
    {
        return format!("unknown field `{name}`, which belongs to [{section}]");
    }
    // The key is the field's own.
    let section = key.and_then(|key| Some(key.rsplit_once('.')?.0));
    match section {
        Some(section) if more.contains(&name) => {
            format!("unknown field `{name}` in [{section}]; it stands before the first section")
        }
        Some(section) => format!(
            "unknown field `{name}` in [{section}]; {}",
            meant(name, known)
        ),
        None => {
            let known = [more, known].concat();
            format!("unknown field `{name}`; {}", meant(name, &known))
        }
    }
}

/// The names that may have been meant, or all.
fn meant(name: &str, known: &[&str]) -> String {
    let near = nearest(&name.to_lowercase().replace('-', "_"), known);
    match near.first() {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// What stands there: `integer `3`` and the like are the parser's.
fn found_text(found: &str) -> String {
    let value = found.find('`').map(|at| &found[at..]);
    match (value, found) {
        (Some(value), _) => value.trim_end_matches(" as i128").replace('`', ""),
        (None, "map") => "a section".to_owned(),
        (None, "sequence") => "a list".to_owned(),
        (None, found) => found.trim_start_matches("string ").to_owned(),
    }
}

/// What would be right: types are Rust's.
fn expected_text(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => {
            "a whole number of 0 or more, in its bounds".to_owned()
        }
        "i8" | "i16" | "i32" | "i64" => "a whole number in its bounds".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" => "a text in quotes".to_owned(),
        "a sequence" => "a list".to_owned(),
        section if section.starts_with("struct ") => "a section".to_owned(),
        other => other.to_owned(),
    }
}
