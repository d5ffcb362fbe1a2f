//! Lines of files that may be anything: a packed one of a few bytes unpacks to a line without end.

use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, bail};

/// Longest line, in bytes: more than the longest block needs.
const MAX_LINE: usize = 1 << 16;

/// The lines of an input.
pub struct Lines<'n, R> {
    input: BufReader<R>,
    name: &'n str,
    number: u64,
    line: Vec<u8>,
}

impl<'n, R: Read> Lines<'n, R> {
    /// Lines of what is called `name` in messages.
    pub fn new(input: R, name: &'n str) -> Self {
        Self {
            input: BufReader::new(input),
            name,
            number: 0,
            line: Vec::new(),
        }
    }

    /// The next line without blanks at its ends, and its number from 1.
    ///
    /// # Errors
    /// Names the input and the line that cannot be read, is too long, or is no text.
    pub fn next_line(&mut self) -> anyhow::Result<Option<(u64, &str)>> {
        let name = self.name;
        self.line.clear();
        let mut limited = self.input.by_ref().take(MAX_LINE as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.line);
        let read =
            read.with_context(|| format!("cannot read {name} behind line {}", self.number))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        if read > MAX_LINE {
            bail!("{name}, line {number}: longer than {MAX_LINE} bytes");
        }
        match str::from_utf8(&self.line) {
            Ok(line) => Ok(Some((number, line.trim()))),
            Err(_) => bail!("{name}, line {number}: no text; is it a table of blocks?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_end_are_refused() {
        let zeros = std::io::repeat(0);
        let error = Lines::new(zeros, "f").next_line().unwrap_err();
        assert!(error.to_string().contains("f, line 1: longer"), "{error}");
        let mut lines = Lines::new(" a \n\nb".as_bytes(), "f");
        assert_eq!(lines.next_line().unwrap(), Some((1, "a")));
        assert_eq!(lines.next_line().unwrap(), Some((2, "")));
        assert_eq!(lines.next_line().unwrap(), Some((3, "b")));
        assert_eq!(lines.next_line().unwrap(), None);
        assert!(Lines::new(&b"\xff\n"[..], "f").next_line().is_err());
    }
}
