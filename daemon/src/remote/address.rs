//! Where a daemon listens: `unix:PATH` or `tcp:HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// A daemon's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket file.
    Unix(PathBuf),
    /// Host and port.
    Tcp {
        /// Name or number; IPv6 numbers without brackets.
        host: String,
        /// Port; 0 lets the system choose one when listening.
        port: u16,
    },
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no address: write unix:PATH or tcp:HOST:PORT, for example tcp:127.0.0.1:7070")]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = || AddressError(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let rest = text.strip_prefix("tcp:").ok_or_else(wrong)?;
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self::Tcp {
            host: host.to_owned(),
            port: port.parse().map_err(|_| wrong())?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

impl Address {
    /// The numbers behind a TCP address.
    ///
    /// # Errors
    /// What the resolver says; a Unix address has none.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Unix(_) => Ok(Vec::new()),
            Self::Tcp { host, port } => Ok((host.as_str(), *port).to_socket_addrs()?.collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_they_are_written() {
        for text in ["unix:/run/mcad.sock", "tcp:localhost:7070", "tcp:[::1]:0"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "unix:",
            "/run/x",
            "tcp:7070",
            "tcp::1",
            "tcp:host:70707",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
