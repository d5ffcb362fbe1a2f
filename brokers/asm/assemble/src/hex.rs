//! Hexadecimal bytes: `4801c8`, `48 01 c8`, `0x48,0x01,0xc8`, on any number of lines, with `#`
//! comments.

/// Reads hexadecimal bytes.
///
/// # Errors
/// A text with line and column.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let code = line.split('#').next().unwrap_or("");
        for word in code.split([' ', '\t', ',', ';']) {
            let digits = word
                .strip_prefix("0x")
                .or(word.strip_prefix("0X"))
                .unwrap_or(word);
            let place = || format!("line {}, {word:.40?}", number + 1);
            if let Some(wrong) = digits.chars().find(|c| !c.is_ascii_hexdigit()) {
                return Err(format!("{}: {wrong:?} is no hexadecimal digit", place()));
            }
            if !digits.len().is_multiple_of(2) {
                return Err(format!("{}: an odd number of hexadecimal digits", place()));
            }
            for pair in digits.as_bytes().chunks_exact(2) {
                bytes.push(digit(pair[0]) << 4 | digit(pair[1]));
            }
        }
    }
    Ok(bytes)
}

fn digit(c: u8) -> u8 {
    match c {
        b'0'..=b'9' => c - b'0',
        _ => (c | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_mean_the_same() {
        for text in [
            "4801C8",
            "48 01 c8\n",
            "0x48,0x01,0xc8",
            "48 # add\r\n\n01c8 # rax",
            "0x4801c8",
        ] {
            assert_eq!(parse_hex(text), Ok(vec![0x48, 0x01, 0xc8]), "{text:?}");
        }
        assert_eq!(parse_hex(" \n# nothing"), Ok(vec![]));
    }

    #[test]
    fn mistakes_are_placed() {
        assert_eq!(
            parse_hex("48\n0x1g").unwrap_err(),
            "line 2, \"0x1g\": 'g' is no hexadecimal digit"
        );
        assert_eq!(
            parse_hex("480").unwrap_err(),
            "line 1, \"480\": an odd number of hexadecimal digits"
        );
    }
}
