//! Conversations with control clients: status and shutdown. They have one time limit for all of
//! it, which no request renews.

use std::sync::Arc;

use mcad_proto::wire::{Accepted, FrameDecoder, Message, Problem, VERSION};
use tokio::io::AsyncReadExt;

use super::handshake::{MAX_FRAME, Wire, send};
use super::{CONTROL_TIMES, Ending, Shared, in_time};

/// Answers until the client closes or is silent for too long.
pub(super) async fn converse(
    shared: &Arc<Shared>,
    mut wire: impl Wire,
    mut decoder: FrameDecoder,
) -> Result<(), String> {
    let limit = shared.config.handshake_timeout * CONTROL_TIMES;
    let accepted = Message::Accepted(Accepted {
        version: VERSION,
        session: 0,
        credit: 0,
        max_frame: MAX_FRAME,
        max_words: 0,
        features: 0,
    });
    let io = |error: std::io::Error| error.to_string();
    let greeting = send(&mut wire, accepted);
    greeting.await.map_err(io)?;
    let all = async {
        while one(shared, &mut wire, &mut decoder).await? {}
        Ok(())
    };
    match in_time(limit, all).await {
        Some(ended) => ended,
        None => Err(format!(
            "the conversation was over after {} s",
            limit.as_secs()
        )),
    }
}

/// Reads and answers one request; `false` when the client has closed.
async fn one(
    shared: &Arc<Shared>,
    wire: &mut impl Wire,
    decoder: &mut FrameDecoder,
) -> Result<bool, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|e| text(&e))? {
            let opened = frame.open().map_err(|e| text(&e))?;
            let (answer, ending) = match opened.message().map_err(|e| text(&e))? {
                Message::StatusRequest => (Message::Status(shared.registry.status()), Ending::No),
                Message::Shutdown { now } => {
                    let running = shared.registry.running();
                    let reply = Message::ShutdownReply {
                        running: u32::try_from(running).unwrap_or(u32::MAX),
                    };
                    (reply, if now { Ending::Now } else { Ending::Gently })
                }
                other => {
                    let problem = Problem::Unexpected {
                        found: other.name(),
                        expected: "StatusRequest or Shutdown",
                    };
                    return Err(opened.error(problem).to_string());
                }
            };
            let sent = send(wire, answer);
            drop(opened);
            // The answer goes first: an idle daemon ends as soon as it is asked to.
            let sent = sent.await;
            shared.end(ending);
            return sent.map(|()| true).map_err(|e| text(&e));
        }
        match wire.read(decoder.space()).await {
            Ok(0) => {
                decoder.finish().map_err(|e| text(&e))?;
                return Ok(false);
            }
            Ok(n) => decoder.filled(n),
            Err(error) => return Err(error.to_string()),
        }
    }
}
