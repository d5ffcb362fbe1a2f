//! Entry points for fuzzers: each takes any bytes as what a peer or a file may send. They must
//! neither panic, nor take memory or time out of proportion to the input. `fuzz/` runs them under
//! cargo-fuzz, `tests/hostile.rs` with damaged valid input in the normal test run.

use crate::event::{Arch, EndReason, Event, SessionInfo};
use crate::trace::{TraceReader, TraceWriter, forge};
use crate::wire::{CreditGrant, FrameDecoder, Message, ReportAssembler};
use crate::word::{StreamId, decode_word};

/// A whole conversation: frames, messages, batches, report parts. Returns the events that came.
pub fn conversation(bytes: &[u8]) -> usize {
    let mut events = 0;
    let mut decoder = FrameDecoder::new("fuzz");
    let mut credit = CreditGrant::new(4);
    let mut report = ReportAssembler::default();
    for piece in bytes.chunks(4096) {
        decoder.feed(piece);
        loop {
            let opened = match decoder.next_frame() {
                Ok(Some(frame)) => frame.open(),
                Ok(None) => break,
                Err(_) => return events,
            };
            // A message that cannot be read ends a conversation; reading on finds more to try.
            let Ok(opened) = opened else { continue };
            match opened.message() {
                Ok(Message::Batch(batch)) => {
                    let _ = credit.receive(batch.sequence());
                    credit.done();
                    events += batch.events().map_while(Result::ok).count();
                }
                Ok(Message::ReportPart(part)) => {
                    let _ = report.push(&part);
                }
                Ok(Message::Hello(hello)) => {
                    let _ = crate::wire::negotiate(&hello);
                }
                _ => {}
            }
        }
    }
    let _ = decoder.finish();
    events
}

/// The payload of one frame, without the header that a fuzzer would have to guess.
pub fn message(bytes: &[u8]) {
    let length = bytes.len() / 8 * 8;
    let mut frame = crate::wire::MAGIC.to_vec();
    frame.extend_from_slice(&(length as u32).to_le_bytes());
    frame.extend_from_slice(&bytes[..length]);
    conversation(&frame);
}

/// A trace file. Returns the record words that came.
///
/// Checks what the reader promises: the session first, exactly one end, which is last.
pub fn trace(bytes: &[u8]) -> usize {
    let Ok(mut reader) = TraceReader::new(bytes, "fuzz") else {
        return 0;
    };
    let mut words = 0;
    let mut ended = false;
    let mut first = true;
    while let Ok(Some(event)) = reader.next() {
        assert!(!ended, "an event after the end");
        assert_eq!(first, matches!(event, Event::Session(_)));
        first = false;
        match event {
            Event::Records { words: more, .. } => words += more.len(),
            Event::End(_) => ended = true,
            _ => {}
        }
    }
    assert!(ended, "no end");
    words
}

/// Any words through a trace file and back.
///
/// # Panics
/// When they come back changed, which no words may.
pub fn words(bytes: &[u8]) {
    let (chunk_words, bytes) = match bytes.split_first() {
        Some((first, rest)) => (usize::from(*first) + 1, rest),
        None => return,
    };
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .filter_map(|c| c.try_into().ok().map(u64::from_le_bytes))
        .collect();
    for word in &words {
        let _ = decode_word(*word);
    }
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: String::new(),
        command: Vec::new(),
        memory: true,
    };
    let stream = StreamId(0);
    let record = || {
        let writer = TraceWriter::new(Vec::new(), "fuzz", &info)?;
        let mut writer = writer.chunk_words(chunk_words);
        for id in 0..16 {
            writer.event(&Event::Block(crate::event::BlockDef {
                id: crate::word::BlockId(id),
                address: crate::word::GuestAddr(u64::from(id)),
                instructions: 1,
                bytes: &[0x90],
            }))?;
        }
        writer.event(&Event::Records {
            stream,
            words: &words,
        })?;
        writer.event(&Event::End(EndReason::Complete))?;
        let (_, file) = writer.finish_into()?;
        let mut back = Vec::new();
        let mut reader = TraceReader::new(&*file, "fuzz")?;
        while let Some(event) = reader.next()? {
            if let Event::Records { words, .. } = event {
                back.extend_from_slice(words);
            }
        }
        Ok::<_, crate::trace::TraceError>(back)
    };
    match record() {
        Ok(back) => assert_eq!(back, words),
        Err(error) => unreachable!("writing to memory does not fail: {error}"),
    }
}

/// Any bytes as the columns of a chunk whose lengths and checksums fit, in a trace file.
#[must_use]
pub fn columns(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes;
    let mut number = || match bytes.split_at_checked(2) {
        Some((first, rest)) => {
            bytes = rest;
            usize::from(u16::from_le_bytes([first[0], first[1]]))
        }
        None => 0,
    };
    let words = number() as u32;
    let lengths: [usize; forge::COLUMNS] = std::array::from_fn(|_| number());
    let columns = lengths.map(|length| {
        let (column, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        column.to_vec()
    });
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: String::new(),
        command: Vec::new(),
        memory: true,
    };
    forge::file(&info, &columns, words)
}

/// A trace file with the columns (recall, event, control, address, detail) and the number of words
/// of its chunks changed, and their lengths and checksums made to fit. `None` for no trace.
pub fn reseal(file: &[u8], change: &mut dyn FnMut(&mut [Vec<u8>; 5], &mut u32)) -> Option<Vec<u8>> {
    forge::resealed(file, change)
}
