//! Entry point for fuzzers: any JSON that is a report, into every view. `fuzz/` runs it under
//! cargo-fuzz, the tests below with mutated reports in the normal test run.

use std::io::Write;

use mcad_report::Report;

use crate::diff::{self, Version};
use crate::{Style, views};

/// Whether the text is a report; then it has been through every view and a comparison.
pub fn report(text: &[u8]) -> bool {
    let Ok(report) = serde_json::from_slice::<Report>(text) else {
        return false;
    };
    let out: &mut dyn Write = &mut std::io::sink();
    for style in [
        Style::plain(),
        Style::terminal(40, None, Some("xterm-256color")),
    ] {
        for view in views() {
            // What a format cannot express is an error, which is an answer.
            let _ = view.write(&report, style, out);
        }
    }
    let version = |label: &str| Version {
        label: label.to_owned(),
        report: report.clone(),
    };
    if let Ok(diff) = diff::compare(&[version("a"), version("b")]) {
        let _ = diff::text::write(&diff, Style::plain(), out);
        let _ = diff::markdown::write(&diff, out);
        let _ = diff::json::write(&diff, out);
        let _ = diff::svg::write(&diff, out);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use serde_json::{Value, json};

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as usize % limit.max(1)
        }
    }

    /// Puts something of the same type, and unlikely, in some places.
    fn mutate(value: &mut Value, random: &mut Random) {
        let hit = random.below(25) == 0;
        match value {
            Value::Object(fields) => {
                for (_, field) in fields.iter_mut() {
                    mutate(field, random);
                }
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    mutate(item, random);
                }
                if hit {
                    match items.first().cloned() {
                        Some(first) if random.below(2) == 0 => items.push(first),
                        _ => items.clear(),
                    }
                }
            }
            Value::Number(number) if hit && number.is_f64() => {
                *value = [json!(0.0), json!(1e308), json!(-1.0)][random.below(3)].clone();
            }
            Value::Number(_) if hit => {
                let numbers = [0, 1, 255, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX];
                *value = json!(numbers[random.below(numbers.len())]);
            }
            Value::String(text) if hit => {
                *text = [
                    "",
                    "\u{1b}[31m<script>",
                    "+0x",
                    "é\u{202e}:0",
                    "a:99999999999",
                ][random.below(5)]
                .to_owned();
            }
            Value::Bool(flag) if hit => *flag = !*flag,
            _ => {}
        }
    }

    #[test]
    fn no_report_makes_a_view_panic() {
        let honest = serde_json::to_value(sample::report()).unwrap();
        assert!(report(honest.to_string().as_bytes()));
        let mut random = Random(11);
        let mut read = 0;
        for _ in 0..600 {
            let mut hostile = honest.clone();
            mutate(&mut hostile, &mut random);
            read += u32::from(report(hostile.to_string().as_bytes()));
        }
        assert!(read > 100, "{read}");
    }
}
