//! JSON whose texts a terminal does not obey: what [`super::escape`] replaces becomes `\u…` here,
//! which reads back as the same text. JSON itself asks for less than C1, DEL and reordering.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use super::is_unsafe;

/// Writes a value in lines with indentation.
///
/// # Errors
/// What the output says, or that the value cannot be expressed.
pub fn pretty(out: &mut dyn Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        out,
        Safe(PrettyFormatter::new()),
    ))
}

/// Writes a value in one line.
///
/// # Errors
/// As [`pretty`].
pub fn compact(out: &mut dyn Write, value: &impl Serialize) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Safe(CompactFormatter)))
}

/// A layout that escapes more.
struct Safe<F>(F);

/// Hands a method of the layout on.
macro_rules! same {
    ($($method:ident($($argument:ident: $type:ty)?))*) => {$(
        fn $method<W: ?Sized + Write>(&mut self, out: &mut W $(, $argument: $type)?) -> io::Result<()> {
            self.0.$method(out $(, $argument)?)
        }
    )*};
}

impl<F: Formatter> Formatter for Safe<F> {
    same! {
        begin_array()
        end_array()
        begin_array_value(first: bool)
        end_array_value()
        begin_object()
        end_object()
        begin_object_key(first: bool)
        end_object_key()
        begin_object_value()
        end_object_value()
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut written = 0;
        for (at, c) in fragment.char_indices().filter(|(_, c)| is_unsafe(*c)) {
            out.write_all(fragment.get(written..at).unwrap_or("").as_bytes())?;
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                write!(out, "\\u{unit:04x}")?;
            }
            written = at + c.len_utf8();
        }
        out.write_all(fragment.get(written..).unwrap_or("").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_read_back_and_nothing_unsafe_is_written(text in "(?s).*") {
            let value = (text, vec!["\u{9b}2J\u{202e}\x7f"]);
            let (mut lines, mut line) = (Vec::new(), Vec::new());
            pretty(&mut lines, &value).unwrap();
            compact(&mut line, &value).unwrap();
            for out in [lines, line] {
                let json = String::from_utf8(out).unwrap();
                prop_assert!(!json.chars().any(|c| is_unsafe(c) && c != '\n'), "{json:?}");
                let back: (String, Vec<String>) = serde_json::from_str(&json).unwrap();
                prop_assert_eq!(&back.0, &value.0);
                prop_assert_eq!(&back.1, &value.1);
            }
        }
    }
}
