//! The first message of a client, and what follows from it: a session, a control conversation, or
//! a refusal. Everything here is bounded in time and bytes.

use std::io;
use std::sync::Arc;

use mcad_proto::event::{Arch, SessionInfo};
use mcad_proto::wire::{
    Accepted, FrameDecoder, Hello, Message, Problem, ProtocolError, Refusal, Refused, Role, encode,
    limits, negotiate, tokens_equal,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::registry::{Full, Registry};
use super::serve::{self, Session};
use super::{Shared, control, in_time};
use crate::cli::analysis::{Analysis, AnalysisArgs};
use crate::memory;
use crate::remote::Stream;
use crate::session::State;

/// Batches that a client may have under way.
pub(super) const WINDOW: u32 = 4;
/// Longest payload that a session reads: four of them bound what a socket may hold back.
pub(super) const MAX_FRAME: u32 = 4 << 20;
/// Most record words in one batch.
const MAX_WORDS: u32 = 1 << 16;

/// What is read and written while tokio has the socket.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Greets a client and runs what it wants.
pub(super) async fn greet(shared: Arc<Shared>, stream: Stream, peer: String) {
    let result = match stream {
        Stream::Unix(stream) => match to_async(stream.try_clone(), UnixStream::from_std) {
            Ok(wire) => converse(&shared, wire, Stream::Unix(stream), &peer).await,
            Err(error) => Err(error.to_string()),
        },
        Stream::Tcp(stream) => match to_async(stream.try_clone(), TcpStream::from_std) {
            Ok(wire) => converse(&shared, wire, Stream::Tcp(stream), &peer).await,
            Err(error) => Err(error.to_string()),
        },
    };
    if let Err(reason) = result {
        shared.complaints.tell(|since| {
            let reason = mcad_viewers::escape::escape(&reason);
            tracing::warn!(%peer, since, "connection ended: {reason}");
        });
    }
}

/// tokio gets a duplicate; the original moves to the session's thread later.
fn to_async<S, W>(duplicate: io::Result<S>, convert: fn(S) -> io::Result<W>) -> io::Result<W> {
    convert(duplicate?)
}

async fn converse(
    shared: &Arc<Shared>,
    mut wire: impl Wire,
    stream: Stream,
    peer: &str,
) -> Result<(), String> {
    let mut decoder = FrameDecoder::new(peer);
    let limit = shared.config.handshake_timeout;
    let hello = match in_time(limit, read_hello(&mut wire, &mut decoder)).await {
        Some(Ok(hello)) => hello,
        Some(Err(error)) => {
            // Told to whoever can read it; a foreign program ignores it.
            let _ = in_time(limit, send(&mut wire, Message::Failure(error.to_string()))).await;
            return Err(error.to_string());
        }
        None => return Err(format!("no greeting within {} s", limit.as_secs())),
    };
    match check(shared, &hello) {
        Ok(()) => {}
        Err(refused) => return refuse(shared, &mut wire, refused).await,
    }
    if hello.role == Role::Control {
        return control::converse(shared, wire, decoder).await;
    }
    let (session, accepted) = match admit(shared, &hello, peer) {
        Ok(admitted) => admitted,
        Err(refused) => return refuse(shared, &mut wire, refused).await,
    };
    in_time(limit, send(&mut wire, Message::Accepted(accepted)))
        .await
        .ok_or("the client does not read its answer")?
        .map_err(|error| error.to_string())?;
    drop(wire);
    serve::start(session, stream, decoder);
    Ok(())
}

async fn read_hello(
    wire: &mut impl Wire,
    decoder: &mut FrameDecoder,
) -> Result<Hello, ProtocolError> {
    loop {
        if let Some(frame) = decoder.next_frame()? {
            let opened = frame.open()?;
            return match opened.message()? {
                Message::Hello(hello) => Ok(hello),
                other => Err(opened.error(Problem::Unexpected {
                    found: other.name(),
                    expected: "Hello",
                })),
            };
        }
        let read = wire.read(decoder.space()).await;
        let at = |problem: Problem| problem.at(decoder.peer(), decoder.offset());
        match read {
            Ok(0) => {
                decoder.finish()?;
                return Err(at(Problem::Io(io::ErrorKind::UnexpectedEof.into())));
            }
            Ok(n) => decoder.filled(n),
            Err(error) => return Err(at(error.into())),
        }
    }
}

/// Sends a message. It is encoded here and now: messages do not move between threads.
pub(super) fn send<'w, W: Wire>(
    wire: &'w mut W,
    message: Message<'_>,
) -> impl Future<Output = io::Result<()>> + Send + use<'w, W> {
    let mut bytes = Vec::new();
    encode(&message, &mut bytes);
    drop(message);
    async move { wire.write_all(&bytes).await }
}

async fn refuse(shared: &Shared, wire: &mut impl Wire, refused: Refused) -> Result<(), String> {
    let reason = format!("refused: {}", refused.message);
    let answer = Message::Refused(refused);
    // Whether or not the client takes the answer, it was refused.
    let _ = in_time(shared.config.handshake_timeout, send(wire, answer)).await;
    Err(reason)
}

fn check(shared: &Shared, hello: &Hello) -> Result<(), Refused> {
    if negotiate(hello).is_none() {
        let own = Hello::new(Role::Control, None);
        return Err(Refused {
            reason: Refusal::Version,
            message: format!(
                "the client speaks protocol versions {} to {}, this daemon {} to {}; use the same \
                 release on both sides",
                hello.min_version, hello.max_version, own.min_version, own.max_version,
            ),
        });
    }
    if let Some(token) = &shared.config.token
        && !tokens_equal(token.as_bytes(), hello.token.as_bytes())
    {
        return Err(Refused {
            reason: Refusal::Token,
            message: "missing or wrong token; give the daemon's with MCAD_TOKEN or --token-file"
                .to_owned(),
        });
    }
    Ok(())
}

fn admit(shared: &Arc<Shared>, hello: &Hello, peer: &str) -> Result<(Session, Accepted), Refused> {
    let refuse = |reason, message: String| Refused { reason, message };
    let arch = match hello.arch {
        Some(arch) => arch,
        None => {
            let message = "the trace's instruction set is not one that this daemon knows";
            return Err(refuse(Refusal::Arch, message.to_owned()));
        }
    };
    let analysis =
        analysis(hello, arch).map_err(|error| refuse(Refusal::Options, format!("{error:#}")))?;
    let resident = memory::resident();
    if resident > shared.config.max_memory {
        let message = format!(
            "the daemon uses {} MiB of its {} MiB; try again later",
            resident >> 20,
            shared.config.max_memory >> 20
        );
        return Err(refuse(Refusal::Busy, message));
    }
    let state = Arc::new(State::default());
    let place = Registry::enter(shared, peer, &hello.command, &state).map_err(|full| match full {
        Full::Busy => refuse(
            Refusal::Busy,
            format!(
                "{} sessions run already; try again later, or raise the daemon's --max-sessions",
                shared.config.max_sessions
            ),
        ),
        Full::Closed => refuse(Refusal::ShuttingDown, "the daemon is ending".to_owned()),
    })?;
    let features = hello.features & (Hello::MEMORY | Hello::MODULES | Hello::REPORT);
    let accepted = Accepted {
        version: negotiate(hello).unwrap_or(mcad_proto::wire::VERSION),
        session: place.id,
        credit: WINDOW,
        max_frame: MAX_FRAME.min(limits::MAX_FRAME_BYTES as u32),
        max_words: MAX_WORDS,
        features,
    };
    let session = Session {
        place,
        shared: Arc::clone(shared),
        state,
        peer: peer.to_owned(),
        info: SessionInfo {
            arch,
            producer: hello.producer.clone(),
            command: hello.command.clone(),
            memory: features & Hello::MEMORY != 0,
        },
        wants_report: features & Hello::REPORT != 0,
        analysis,
    };
    Ok((session, accepted))
}

fn analysis(hello: &Hello, arch: Arch) -> anyhow::Result<Analysis> {
    let pairs = hello.options.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    AnalysisArgs::from_pairs(pairs)?.resolve_foreign(arch)
}
