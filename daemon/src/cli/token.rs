//! The secret between a daemon and its clients: from a file, from the environment, or new.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Environment variable with the secret.
const VARIABLE: &str = "MCAD_TOKEN";
/// Most bytes read of a file.
const MAX_BYTES: u64 = 4096;
/// Bytes of a new secret; it is written in hexadecimal.
const BYTES: usize = 24;

/// Where the secret comes from.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TokenArgs {
    /// File with the daemon's token; otherwise $MCAD_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The secret, if one is given.
    pub(super) fn get(&self) -> anyhow::Result<Option<String>> {
        let token = match &self.token_file {
            Some(path) => read(path)
                .with_context(|| format!("cannot read the token file {}", path.display()))?,
            None => match std::env::var(VARIABLE) {
                Ok(token) => token,
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => bail!("${VARIABLE}: {error}"),
            },
        };
        let token = token.trim();
        if token.is_empty() {
            bail!("the token is empty");
        }
        Ok(Some(token.to_owned()))
    }
}

/// Reads a file or pipe, of which more than a secret has is not looked at.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?
        .take(MAX_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// A new secret from the system's random numbers.
pub(super) fn generate() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom for a token; give one with --token-file")?;
    Ok(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_secrets_differ_and_files_are_trimmed() {
        let (a, b) = (generate().unwrap(), generate().unwrap());
        assert_eq!(a.len(), 2 * BYTES);
        assert_ne!(a, b);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), " secret\n").unwrap();
        let args = TokenArgs {
            token_file: Some(file.path().to_owned()),
        };
        assert_eq!(args.get().unwrap().as_deref(), Some("secret"));
        fs::write(file.path(), "\n").unwrap();
        assert!(args.get().is_err());
    }
}
