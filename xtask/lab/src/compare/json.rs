//! Where two JSON texts differ.

use serde_json::Value;

/// Every place where two values differ, as a path with both values; nothing below an ignored place.
/// In an ignored place `*` stands for any one name or index.
pub fn differences(base: &Value, new: &Value, ignored: &[String]) -> Vec<String> {
    let ignored: Vec<Vec<&str>> = ignored
        .iter()
        .map(|place| place.trim_start_matches('/').split('/').collect())
        .collect();
    let mut found = Vec::new();
    compare(base, new, &mut Vec::new(), &ignored, &mut found);
    found
}

fn compare(
    base: &Value,
    new: &Value,
    path: &mut Vec<String>,
    ignored: &[Vec<&str>],
    found: &mut Vec<String>,
) {
    let is_here = |place: &Vec<&str>| {
        place.len() == path.len()
            && (place.iter().zip(&*path)).all(|(wanted, name)| *wanted == "*" || wanted == name)
    };
    if ignored.iter().any(is_here) {
        return;
    }
    match (base, new) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)))
            {
                let absent = Value::Null;
                path.push(name.clone());
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => compare(a, b, path, ignored, found),
                    (a, b) => compare(
                        a.unwrap_or(&absent),
                        b.unwrap_or(&absent),
                        path,
                        ignored,
                        found,
                    ),
                }
                path.pop();
            }
            // serde_json keeps the order of names, which is part of what must not change.
            if !a.keys().eq(b.keys()) && a.len() == b.len() && a.keys().all(|k| b.contains_key(k)) {
                found.push(format!("/{}: names in another order", path.join("/")));
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                let absent = Value::Null;
                path.push(at.to_string());
                let (a, b) = (a.get(at), b.get(at));
                compare(
                    a.unwrap_or(&absent),
                    b.unwrap_or(&absent),
                    path,
                    ignored,
                    found,
                );
                path.pop();
            }
        }
        _ if base != new => {
            let path = path.join("/");
            found.push(format!("/{path}: {} | {}", short(base), short(new)));
        }
        _ => {}
    }
}

/// A value on one line, cut where it is long.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::differences;
    use serde_json::json;

    #[test]
    fn differences_have_their_place() {
        let base = json!({"a": [1, {"b": 2}], "c": 3});
        assert_eq!(differences(&base, &base, &[]), Vec::<String>::new());
        let new = json!({"a": [1, {"b": 5}, 7], "c": 3});
        assert_eq!(
            differences(&base, &new, &[]),
            ["/a/1/b: 2 | 5", "/a/2: null | 7"]
        );
        assert_eq!(
            differences(&base, &new, &["/a/*/b".into(), "/a/2".into()]),
            Vec::<String>::new()
        );
        let turned = json!({"c": 3, "a": [1, {"b": 2}]});
        assert_eq!(
            differences(&base, &turned, &[]),
            ["/: names in another order"]
        );
    }
}
