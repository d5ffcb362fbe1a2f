//! Makes foreign text safe to print: symbol names and paths come from files that anyone may have
//! written and must not drive the reader's terminal.

pub mod json;

use std::borrow::Cow;

/// Replaces what a terminal would obey: control characters (C0, DEL, C1) and the Unicode
/// characters that reorder or hide text. Everything else stays as it is.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Text for HTML, SVG and XML, in elements and in quoted attributes: what a browser would obey
/// becomes a reference, and control characters are shown as in [`escape`].
#[must_use]
pub fn html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in escape(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Text for a cell of a Markdown table: also what Markdown would obey becomes a reference, so that
/// names neither end the cell nor mention people.
#[must_use]
pub fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in escape(text).chars() {
        if c.is_ascii_punctuation() && !matches!(c, '.' | ',' | '%' | '/') {
            safe.push_str(&format!("&#{};", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_untouched() {
        for name in ["main", "core::fmt::Ü<'a>", "a b"] {
            assert!(matches!(escape(name), Cow::Borrowed(same) if same == name));
        }
    }

    #[test]
    fn nothing_that_a_terminal_obeys_survives() {
        let hostile = "a\x1b[2Jb\r\n\t\u{9b}31m\u{202e}x\u{7f}";
        let safe = escape(hostile);
        assert!(!safe.chars().any(is_unsafe), "{safe:?}");
        assert!(safe.contains("\\u{1b}[2J"));
    }

    #[test]
    fn markup_becomes_text() {
        let hostile = "<img src=x onerror='a(\"b\")'>&\x1b";
        let safe = html(hostile);
        assert!(!safe.contains(['<', '>', '"', '\'', '\x1b']), "{safe}");
        assert_eq!(html("a<b>&c"), "a&lt;b&gt;&amp;c");
    }

    #[test]
    fn markdown_cells_stay_cells() {
        let safe = markdown("a|b`c`\n@d <e> [f](g) *h* _i_ ~j~ $k$");
        assert!(
            !safe.contains(['|', '`', '\n', '@', '<', '[', '*', '_', '~', '$']),
            "{safe}"
        );
    }
}
