//! Bytes written in hexadecimal.

/// Why a text is no sequence of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HexError {
    /// Nothing there.
    #[error("no bytes")]
    Empty,
    /// Half a byte is left over.
    #[error("odd number of hexadecimal digits ({0})")]
    Odd(usize),
    /// Something else than a digit.
    #[error("no hexadecimal digit at character {0}")]
    Digit(usize),
}

/// Bytes of a text of hexadecimal digits; spaces between them are skipped.
///
/// # Errors
/// Says where the text is wrong.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    let mut digits = 0;
    for (at, c) in text.iter().enumerate() {
        if c.is_ascii_whitespace() {
            continue;
        }
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            b'A'..=b'F' => c - b'A' + 10,
            _ => return Err(HexError::Digit(at + 1)),
        };
        digits += 1;
        high = match high {
            None => Some(digit),
            Some(high) => {
                bytes.push(high << 4 | digit);
                None
            }
        };
    }
    if digits == 0 {
        return Err(HexError::Empty);
    }
    if high.is_some() {
        return Err(HexError::Odd(digits));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_pairs() {
        assert_eq!(decode(b"48 01 D8"), Ok(vec![0x48, 0x01, 0xd8]));
        assert_eq!(decode(b""), Err(HexError::Empty));
        assert_eq!(decode(b"480"), Err(HexError::Odd(3)));
        assert_eq!(decode(b"48x0"), Err(HexError::Digit(3)));
        assert_eq!(decode("4é".as_bytes()), Err(HexError::Digit(2)));
    }
}
