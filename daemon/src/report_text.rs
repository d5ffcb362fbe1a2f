//! The text of a report that comes from a file or a daemon: what is made of it is bounded.

use std::io::{self, BufReader, Read};

use mcad_report::Report;

use crate::memory::account::Account;

/// Most memory that a report's values may take: those of an honest one take twice its text.
const MAX_HELD: u64 = 1 << 30;

/// Reads a report's JSON.
///
/// # Errors
/// Where the text is wrong, or that its values take too much memory.
pub fn parse(text: &[u8]) -> serde_json::Result<Report> {
    within(text, MAX_HELD)
}

fn within(text: &[u8], most: u64) -> serde_json::Result<Report> {
    let account = Account::default();
    let _charge = account.charge();
    let watched = Watched {
        text,
        account: account.clone(),
        most,
    };
    serde_json::from_reader(BufReader::with_capacity(1 << 16, watched))
}

/// A text that is read only as long as what is made of it is not too large: values may take many
/// times the bytes that their text has.
struct Watched<'a> {
    text: &'a [u8],
    account: Account,
    most: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.account.held() > self.most {
            let what = format!("its values take more than {} MiB", self.most >> 20);
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
        }
        self.text.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_blow_up_are_given_up() {
        let notes = "\"\",".repeat(2_000_000);
        let text = format!("{{\"notes\":[{notes}\"\"]}}");
        // Twenty-four bytes each, and twice that while the list grows.
        let error = within(text.as_bytes(), 100 << 20).unwrap_err();
        assert!(error.to_string().contains("missing field"), "{error}");
        let error = within(text.as_bytes(), 10 << 20).unwrap_err();
        assert!(error.to_string().contains("more than 10 MiB"), "{error}");
    }
}
