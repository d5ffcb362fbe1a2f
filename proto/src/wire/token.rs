//! Tokens are compared in a time that does not tell how much of a guess was right.

/// Whether a client's token is the daemon's. The time depends on the lengths only.
#[must_use]
pub fn tokens_equal(expected: &[u8], given: &[u8]) -> bool {
    let mut difference = expected.len() ^ given.len();
    for (i, byte) in given.iter().enumerate() {
        // `get` with a substitute keeps the loop's length independent of the expected token.
        let wanted = expected.get(i).copied().unwrap_or(0);
        difference |= usize::from(std::hint::black_box(wanted ^ byte));
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::tokens_equal;

    #[test]
    fn only_the_same_token_is_equal() {
        assert!(tokens_equal(b"secret", b"secret"));
        assert!(tokens_equal(b"", b""));
        for wrong in ["", "s", "secres", "secret\0", "Secret", "secretsecret"] {
            assert!(!tokens_equal(b"secret", wrong.as_bytes()), "{wrong}");
        }
        assert!(!tokens_equal(b"", b"\0"));
    }
}
