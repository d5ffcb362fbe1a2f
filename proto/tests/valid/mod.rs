//! Valid input of every reader of foreign bytes: what tests damage and fuzzing begins with.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

use mcad_proto::event::*;
use mcad_proto::trace::TraceWriter;
use mcad_proto::wire::*;
use mcad_proto::word::*;

/// What a session begins with.
pub fn session() -> Vec<Event<'static>> {
    let mut events = vec![
        Event::StreamStart(StreamId(0)),
        Event::Module(ModuleDef {
            path: "/bin/x".into(),
            start: GuestAddr(1),
            end: GuestAddr(2),
            file_offset: 3,
        }),
        Event::Region(RegionDef {
            name: "r".into(),
            start: GuestAddr(1),
            end: GuestAddr(2),
        }),
    ];
    for id in 0..crate::support::BLOCKS {
        events.push(Event::Block(BlockDef {
            id: BlockId(id),
            address: GuestAddr(u64::from(id) * 16),
            instructions: 6,
            bytes: &[0x90; 6],
        }));
    }
    events
}

/// A client's stream and the answers, as frames.
pub fn conversation() -> Vec<u8> {
    let mut out = Vec::new();
    let hello = Hello {
        command: vec!["a".into(), "b".into()],
        options: vec![("cpu".into(), "skl".into())],
        ..Hello::new(Role::Trace, Some(Arch::X86_64))
    };
    encode(&Message::Hello(hello), &mut out);
    let mut builder = BatchBuilder::new();
    for event in session() {
        builder.push(&event, usize::MAX);
    }
    builder.push(
        &Event::Records {
            stream: StreamId(0),
            words: &crate::support::words(200),
        },
        usize::MAX,
    );
    builder.encode(0, &mut out);
    for part in report_parts(b"{\"schema_version\":1}") {
        encode(&Message::ReportPart(part), &mut out);
    }
    let status = Status {
        sessions: vec![SessionStatus::default(); 3],
        ..Status::default()
    };
    encode(&Message::Status(status), &mut out);
    let reason = EndReason::ProducerDied("x".into());
    encode(&Message::End { reason, batches: 1 }, &mut out);
    out
}

/// A trace file.
pub fn trace() -> Vec<u8> {
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: "p".into(),
        command: vec!["c".into()],
        memory: true,
    };
    let writer = TraceWriter::new(Vec::new(), "t", &info).unwrap();
    let mut writer = writer.chunk_words(700);
    for event in session() {
        writer.event(&event).unwrap();
    }
    let words = &crate::support::words(3000);
    let stream = StreamId(0);
    writer.event(&Event::Records { stream, words }).unwrap();
    writer.event(&Event::End(EndReason::Exited(0))).unwrap();
    writer.finish_into().unwrap().1
}
