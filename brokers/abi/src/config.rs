//! A session's configuration: an ordered list of `key=value` lines.
//!
//! Keys may repeat (command arguments do). In values, a newline is written as `\n` and a backslash
//! as `\\`; there is no other escape. Keys are made of `a-z 0-9 _ - .` and begin with a letter.

use std::fmt::Write as _;

/// Longest encoded configuration that is read, in bytes: above Linux's limit for a command line.
pub const MAX_CONFIG_BYTES: usize = 8 << 20;

/// A configuration text that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A line without `=`.
    #[error("configuration line {line}: expected key=value, found {text:?}")]
    NoValue {
        /// Line number from 1.
        line: usize,
        /// The line, shortened.
        text: String,
    },
    /// A key with characters that keys may not have.
    #[error("configuration line {line}: {key:?} is no key (a letter, then a-z 0-9 _ - .)")]
    BadKey {
        /// Line number from 1; 0 when it was not read from a text.
        line: usize,
        /// The key, shortened.
        key: String,
    },
    /// A backslash that is followed by neither `n` nor a backslash.
    #[error("configuration line {line}: a backslash is written as \\\\, a newline as \\n")]
    BadEscape {
        /// Line number from 1.
        line: usize,
    },
    /// The text is too long.
    #[error("the configuration has {0} bytes; at most {MAX_CONFIG_BYTES} are read")]
    TooLong(usize),
    /// A key that the broker does not know.
    #[error("unknown configuration key {key:?}; known: {known}")]
    Unknown {
        /// The key.
        key: String,
        /// What is known, separated by commas.
        known: String,
    },
    /// A value that the key does not take.
    #[error("configuration {key}={value}: {what}")]
    BadValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What is expected.
        what: String,
    },
}

impl From<ConfigError> for String {
    fn from(error: ConfigError) -> Self {
        error.to_string()
    }
}

/// An ordered list of keys and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    entries: Vec<(String, String)>,
}

impl Config {
    /// An empty configuration.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`ConfigError::BadKey`].
    pub fn push(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), ConfigError> {
        let key = key.into();
        if !is_key(&key) {
            return Err(ConfigError::BadKey {
                line: 0,
                key: shorten(&key),
            });
        }
        self.entries.push((key, value.into()));
        Ok(())
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// The last value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().filter(|(k, _)| *k == key).last().map(|e| e.1)
    }

    /// All values of a key, in order.
    pub fn get_all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(k, _)| *k == key).map(|e| e.1)
    }

    /// The last value of a key as an unsigned number, decimal or `0x…`.
    ///
    /// # Errors
    /// [`ConfigError::BadValue`].
    pub fn number(&self, key: &str) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let parsed = match value.strip_prefix("0x").or(value.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        parsed
            .map(Some)
            .map_err(|_| Self::bad(key, value, "expected a number, decimal or 0x…"))
    }

    /// The last value of a key as a switch: `1`/`true`/`yes`/`on` or `0`/`false`/`no`/`off`.
    ///
    /// # Errors
    /// [`ConfigError::BadValue`].
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        match self.get(key) {
            None => Ok(None),
            Some("1" | "true" | "yes" | "on") => Ok(Some(true)),
            Some("0" | "false" | "no" | "off") => Ok(Some(false)),
            Some(value) => Err(Self::bad(key, value, "expected 1 or 0")),
        }
    }

    /// An error about a value.
    #[must_use]
    pub fn bad(key: &str, value: &str, what: &str) -> ConfigError {
        ConfigError::BadValue {
            key: key.to_owned(),
            value: shorten(value),
            what: what.to_owned(),
        }
    }

    /// Refuses keys that are not in `known`: an option works or does not exist.
    ///
    /// # Errors
    /// [`ConfigError::Unknown`].
    pub fn expect_keys(&self, known: &[&str]) -> Result<(), ConfigError> {
        match self.iter().find(|(key, _)| !known.contains(key)) {
            None => Ok(()),
            Some((key, _)) => Err(ConfigError::Unknown {
                key: shorten(key),
                known: known.join(", "),
            }),
        }
    }

    /// The text that `open` of the ABI takes.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.entries {
            text.push_str(key);
            text.push('=');
            for c in value.chars() {
                match c {
                    '\n' => text.push_str("\\n"),
                    '\\' => text.push_str("\\\\"),
                    c => text.push(c),
                }
            }
            text.push('\n');
        }
        text
    }

    /// Reads [`Config::encode`]'s text. Empty lines are skipped.
    ///
    /// # Errors
    /// [`ConfigError`] with the line.
    pub fn decode(text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLong(text.len()));
        }
        let mut entries = Vec::new();
        for (index, line) in text.split('\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            let number = index + 1;
            let Some((key, value)) = line.split_once('=') else {
                return Err(ConfigError::NoValue {
                    line: number,
                    text: shorten(line),
                });
            };
            if !is_key(key) {
                return Err(ConfigError::BadKey {
                    line: number,
                    key: shorten(key),
                });
            }
            let value = unescape(value).ok_or(ConfigError::BadEscape { line: number })?;
            entries.push((key.to_owned(), value));
        }
        Ok(Self { entries })
    }
}

fn is_key(key: &str) -> bool {
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.'))
}

fn unescape(value: &str) -> Option<String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('\\') => out.push('\\'),
            _ => return None,
        }
    }
    Some(out)
}

/// Keeps foreign text in messages short.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut out: String = text.chars().take(SHOWN).collect();
    let rest = text.chars().count().saturating_sub(SHOWN);
    if rest > 0 {
        let _ = write!(out, "… ({rest} more characters)");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(entries: &[(&str, &str)]) -> Config {
        let mut config = Config::new();
        for (key, value) in entries {
            config.push(*key, *value).unwrap();
        }
        config
    }

    #[test]
    fn every_value_survives_the_text() {
        let config = config(&[
            ("file", "/tmp/a=b"),
            ("arg", "line\nbreak \\n \\ and µ"),
            ("arg", ""),
            ("x-y.z_1", "\\\\\n"),
        ]);
        assert_eq!(Config::decode(&config.encode()), Ok(config.clone()));
        assert_eq!(config.get_all("arg").count(), 2);
        assert_eq!(config.get("arg"), Some(""));
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(
            Config::decode("a=1\nno value").unwrap_err().to_string(),
            "configuration line 2: expected key=value, found \"no value\""
        );
        assert_eq!(
            Config::decode("A=1"),
            Err(ConfigError::BadKey {
                line: 1,
                key: "A".into()
            })
        );
        assert_eq!(
            Config::decode("a=\\t"),
            Err(ConfigError::BadEscape { line: 1 })
        );
        assert!(Config::new().push("", "x").is_err());
    }

    /// Every text of up to six of the characters that matter: read or refused, and what was read
    /// is written and read again as the same.
    #[test]
    fn any_text_is_read_or_refused() {
        const LETTERS: [char; 6] = ['a', '=', '\\', 'n', '\n', 'µ'];
        let mut read = 0;
        for number in 0..LETTERS.len().pow(6) {
            let text: String = (0..6)
                .map(|i| LETTERS[number / LETTERS.len().pow(i) % LETTERS.len()])
                .collect();
            if let Ok(config) = Config::decode(&text) {
                read += 1;
                assert_eq!(Config::decode(&config.encode()), Ok(config), "{text:?}");
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn typed_values() {
        let config = config(&[("n", "0x10"), ("m", "12"), ("f", "yes"), ("bad", "-1")]);
        assert_eq!(config.number("n"), Ok(Some(16)));
        assert_eq!(config.number("m"), Ok(Some(12)));
        assert_eq!(config.number("none"), Ok(None));
        assert_eq!(config.flag("f"), Ok(Some(true)));
        assert!(config.flag("bad").is_err());
        assert_eq!(
            config.number("bad").unwrap_err().to_string(),
            "configuration bad=-1: expected a number, decimal or 0x…"
        );
        assert_eq!(
            config
                .expect_keys(&["n", "m", "f"])
                .unwrap_err()
                .to_string(),
            "unknown configuration key \"bad\"; known: n, m, f"
        );
    }
}
