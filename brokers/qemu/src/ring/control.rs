//! Parses control messages: block definitions, modules, notices, and what becomes of processes.

use super::RingError;
use super::layout::{
    MESSAGE_BLOCK, MESSAGE_COMMAND, MESSAGE_FORK, MESSAGE_MODULE, MESSAGE_NOTICE, MESSAGE_WAITED,
    message,
};

/// One control message; borrowed parts lie in the log's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A block of the dictionary.
    Block {
        /// Address of the first instruction.
        address: u64,
        /// Id.
        id: u32,
        /// Number of instructions.
        instructions: u32,
        /// Size of the last instruction.
        last_bytes: u32,
        /// All instructions' bytes.
        code: &'a [u8],
    },
    /// A mapped file.
    Module {
        /// First address.
        start: u64,
        /// One past the last address.
        end: u64,
        /// Offset in the file of `start`.
        file_offset: u64,
        /// Path, not necessarily UTF-8.
        path: &'a [u8],
    },
    /// Text for people.
    Notice(&'a [u8]),
    /// The process runs a new program: its command line, each word with a zero at its end.
    Command(&'a [u8]),
    /// The process is about to fork.
    Fork {
        /// The child's ring.
        slot: u32,
        /// Block ids that it has in common with its parent.
        blocks: u32,
    },
    /// The process learnt how a child of its ended.
    Waited {
        /// The child.
        pid: u32,
        /// As `wait` gives it.
        status: u32,
    },
}

/// Takes the first message off `log` and returns it with the rest.
///
/// # Errors
/// [`RingError::Damaged`] when lengths do not fit or the kind is unknown.
pub fn take(log: &[u8]) -> Result<(Message<'_>, &[u8]), RingError> {
    let damaged = |what: &str| RingError::Damaged(format!("control message: {what}"));
    let (kind, bytes) = match (u32_at(log, 0), u32_at(log, 4)) {
        (Some(kind), Some(bytes)) => (kind, bytes as usize),
        _ => return Err(damaged("its head is cut off")),
    };
    if bytes < message::HEAD || bytes % 8 != 0 || bytes > log.len() {
        return Err(damaged("impossible length"));
    }
    let (body, rest) = log.split_at(bytes);
    let tail = |fixed: usize, length_at: usize| {
        let length = u32_at(body, length_at)? as usize;
        body.get(fixed..fixed.checked_add(length)?)
    };
    let parsed = match kind {
        MESSAGE_BLOCK => (|| {
            Some(Message::Block {
                address: u64_at(body, 8)?,
                id: u32_at(body, 16)?,
                instructions: u32_at(body, 20)?,
                last_bytes: u32_at(body, 28)?,
                code: tail(message::BLOCK, 24)?,
            })
        })(),
        MESSAGE_MODULE => (|| {
            Some(Message::Module {
                start: u64_at(body, 8)?,
                end: u64_at(body, 16)?,
                file_offset: u64_at(body, 24)?,
                path: tail(message::MODULE, 32)?,
            })
        })(),
        MESSAGE_NOTICE => tail(message::NOTICE, 8).map(Message::Notice),
        MESSAGE_COMMAND => tail(message::COMMAND, 8).map(Message::Command),
        MESSAGE_FORK => (|| {
            Some(Message::Fork {
                slot: u32_at(body, 8)?,
                blocks: u32_at(body, 12)?,
            })
        })(),
        MESSAGE_WAITED => (|| {
            Some(Message::Waited {
                pid: u32_at(body, 8)?,
                status: u32_at(body, 12)?,
            })
        })(),
        _ => return Err(damaged("unknown kind")),
    };
    parsed
        .map(|message| (message, rest))
        .ok_or_else(|| damaged("its body is too short"))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(length: u32, text: &[u8]) -> Vec<u8> {
        let mut log = Vec::new();
        let bytes = (message::NOTICE + text.len()).next_multiple_of(8);
        log.extend(MESSAGE_NOTICE.to_le_bytes());
        log.extend((bytes as u32).to_le_bytes());
        log.extend(length.to_le_bytes());
        log.extend([0; 4]);
        log.extend(text);
        log.resize(bytes, 0);
        log
    }

    #[test]
    fn messages_follow_each_other() {
        let mut log = notice(5, b"hello");
        log.extend(notice(2, b"!!"));
        let (first, rest) = take(&log).unwrap();
        assert_eq!(first, Message::Notice(b"hello"));
        let (second, rest) = take(rest).unwrap();
        assert_eq!(second, Message::Notice(b"!!"));
        assert!(rest.is_empty());
    }

    #[test]
    fn damaged_messages_are_errors() {
        let good = notice(5, b"hello");
        for cut in 0..good.len() {
            assert!(take(&good[..cut]).is_err(), "cut at {cut}");
        }
        assert!(take(&notice(99, b"hello")).is_err());
        assert!(take(&notice(u32::MAX, b"")).is_err());
        let mut unknown = good.clone();
        unknown[0] = 77;
        assert!(take(&unknown).is_err());
        let mut unaligned = good;
        unaligned[4] = 17;
        assert!(take(&unaligned).is_err());
    }
}
