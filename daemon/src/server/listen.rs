//! Listening on a socket file or a TCP port, on this machine only unless told otherwise.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use tokio::net::{TcpListener, UnixListener};

use super::Config;
use crate::remote::Address;
use crate::remote::Stream;

/// Why a daemon cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The system refuses.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Another daemon is there.
    #[error("another daemon listens on unix:{}; stop it or choose another path", .0.display())]
    InUse(PathBuf),
    /// Something that is not a socket is there.
    #[error("{} exists and is not a socket; it is left alone, choose another path", .0.display())]
    NotASocket(PathBuf),
    /// Other machines would reach it.
    #[error(
        "{0} can be reached from other machines, and the connection is not encrypted; listen on \
         127.0.0.1 and forward the port with ssh, or add --allow-remote"
    )]
    Remote(String),
}

/// A socket that accepts connections; a socket file is removed when it is dropped.
pub(super) struct Listener {
    address: Address,
    socket: Socket,
}

enum Socket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) async fn bind(config: &Config) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind {
            address: config.listen.to_string(),
            source,
        };
        let (host, numbers) = match &config.listen {
            Address::Unix(path) => return Self::unix(path),
            Address::Tcp { host, .. } => (host, config.listen.resolve().map_err(failed)?),
        };
        let loopback = numbers.iter().all(|number| number.ip().is_loopback());
        if !loopback && !config.allow_remote {
            return Err(ListenError::Remote(config.listen.to_string()));
        }
        let listener = TcpListener::bind(numbers.as_slice())
            .await
            .map_err(failed)?;
        let port = listener.local_addr().as_ref().map_or(0, SocketAddr::port);
        Ok(Self {
            address: Address::Tcp {
                host: host.clone(),
                port,
            },
            socket: Socket::Tcp(listener),
        })
    }

    fn unix(path: &Path) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind {
            address: format!("unix:{}", path.display()),
            source,
        };
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                return Err(ListenError::NotASocket(path.to_owned()));
            }
            if StdUnixStream::connect(path).is_ok() {
                return Err(ListenError::InUse(path.to_owned()));
            }
            // Left behind by a daemon that was killed.
            fs::remove_file(path).map_err(failed)?;
        }
        // Connecting needs the right to write to the socket file: the owner alone, from the
        // first moment on.
        let before = rustix::process::umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let listener = UnixListener::bind(path);
        rustix::process::umask(before);
        let listener = listener.map_err(failed)?;
        Ok(Self {
            address: Address::Unix(path.to_owned()),
            socket: Socket::Unix(listener, path.to_owned()),
        })
    }

    /// What clients connect to.
    pub(super) const fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a client; its name is for messages.
    pub(super) async fn accept(&self) -> io::Result<(Stream, String)> {
        match &self.socket {
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let pid = stream.peer_cred().ok().and_then(|cred| cred.pid());
                let peer = pid.map_or("local client".to_owned(), |pid| format!("process {pid}"));
                Ok((Stream::Unix(stream.into_std()?), peer))
            }
            Socket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream.into_std()?), peer.to_string()))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // A file that somebody else removed needs no removing.
            let _ = fs::remove_file(path);
        }
    }
}
