//! Messages through frames and back, in pieces, and peers that do not keep the rules.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use mcad_proto::event::*;
use mcad_proto::wire::*;
use mcad_proto::word::*;

fn hello() -> Hello {
    Hello {
        features: Hello::MEMORY | Hello::REPORT,
        token: "sesame".into(),
        producer: "qemu 7.2.0".into(),
        command: vec!["/bin/ls".into(), "-l".into(), "µ".into(), String::new()],
        options: vec![("cpu".into(), "skl".into()), ("cpu".into(), "glc".into())],
        ..Hello::new(Role::Trace, Some(Arch::X86_64))
    }
}

fn accepted() -> Accepted {
    Accepted {
        version: VERSION,
        session: u64::MAX,
        credit: 8,
        max_frame: 16 << 20,
        max_words: 1 << 20,
        features: 3,
    }
}

fn status() -> Status {
    Status {
        version: "0.1.0".into(),
        uptime_seconds: 1,
        max_sessions: 2,
        finished_sessions: 3,
        failed_sessions: 4,
        resident_bytes: 5,
        sessions: vec![SessionStatus {
            id: 6,
            peer: "unix".into(),
            command: "ls".into(),
            state: "running".into(),
            seconds: 7,
            instructions: 8,
            records: 9,
            queued_bytes: 10,
        }],
    }
}

fn events() -> Vec<Event<'static>> {
    let process = |what| Event::Process {
        id: ProcessId(1),
        what,
    };
    vec![
        Event::Module(ModuleDef {
            path: "/bin/ls".into(),
            start: GuestAddr(0x1000),
            end: GuestAddr(0x2000),
            file_offset: 0x100,
        }),
        Event::Region(RegionDef {
            name: "main".into(),
            start: GuestAddr(0),
            end: GuestAddr(u64::MAX),
        }),
        Event::StreamStart(StreamId(3)),
        Event::Block(BlockDef {
            id: BlockId(u32::MAX),
            address: GuestAddr(0x1234),
            instructions: 2,
            bytes: &[0x90, 0x90],
        }),
        Event::Records {
            stream: StreamId(3),
            words: const { &[block_word(BlockId(u32::MAX)), 1, u64::MAX] },
        },
        Event::Lost {
            count: 5,
            reason: "ring full".into(),
        },
        Event::Notice("hm".into()),
        Event::StreamEnd(StreamId(3)),
        process(ProcessEvent::Forked {
            parent: ProcessId::FIRST,
        }),
        process(ProcessEvent::Entered),
        process(ProcessEvent::Replaced {
            command: vec!["sh".into(), String::new()],
        }),
        process(ProcessEvent::Ended(EndReason::Truncated("x".into()))),
    ]
}

/// One of each message, as frames.
fn conversation() -> Vec<Vec<u8>> {
    let mut builder = BatchBuilder::new();
    for event in events() {
        builder.push(&event, 1 << 20);
    }
    let mut frames: Vec<Vec<u8>> = [
        Message::Hello(hello()),
        Message::Accepted(accepted()),
        Message::Refused(Refused {
            reason: Refusal::Busy,
            message: "full".into(),
        }),
        Message::Credit(4),
        Message::Progress(Progress {
            instructions: 1,
            cycles: 2,
            records: 3,
        }),
        Message::ReportPart(ReportPart {
            total: 10,
            offset: 0,
            data: b"{}",
        }),
        Message::Failure("broken".into()),
        Message::Stop("shutting down".into()),
        Message::StatusRequest,
        Message::Status(status()),
        Message::Shutdown { now: true },
        Message::ShutdownReply { running: 2 },
    ]
    .iter()
    .map(|message| {
        let mut frame = Vec::new();
        encode(message, &mut frame);
        frame
    })
    .collect();
    for reason in [
        EndReason::Exited(-3),
        EndReason::Signaled(9),
        EndReason::Exec(137),
        EndReason::ProducerDied("a".into()),
        EndReason::Truncated("b".into()),
        EndReason::Complete,
    ] {
        let mut frame = Vec::new();
        encode(&Message::End { reason, batches: 7 }, &mut frame);
        frames.push(frame);
    }
    let mut frame = Vec::new();
    builder.encode(42, &mut frame);
    frames.push(frame);
    frames
}

fn describe(frame: Frame<'_>) -> String {
    let opened = frame.open().unwrap();
    match opened.message().unwrap() {
        Message::Batch(batch) => {
            let events: Vec<_> = batch.events().map(Result::unwrap).collect();
            format!("batch {} {events:?}", batch.sequence())
        }
        message => format!("{message:?}"),
    }
}

#[test]
fn every_message_survives_any_cut_of_the_stream() {
    let frames = conversation();
    let mut expected = vec![
        format!("{:?}", Message::Hello(hello())),
        format!("{:?}", Message::Accepted(accepted())),
        "Refused(Refused { reason: Busy, message: \"full\" })".into(),
        "Credit(4)".into(),
        "Progress(Progress { instructions: 1, cycles: 2, records: 3 })".into(),
        "ReportPart(ReportPart { total: 10, offset: 0, data: [123, 125] })".into(),
        "Failure(\"broken\")".into(),
        "Stop(\"shutting down\")".into(),
        "StatusRequest".into(),
        format!("{:?}", Message::Status(status())),
        "Shutdown { now: true }".into(),
        "ShutdownReply { running: 2 }".into(),
    ];
    for reason in [
        "Exited(-3)",
        "Signaled(9)",
        "Exec(137)",
        "ProducerDied(\"a\")",
        "Truncated(\"b\")",
        "Complete",
    ] {
        expected.push(format!("End {{ reason: {reason}, batches: 7 }}"));
    }
    expected.push(format!("batch 42 {:?}", events()));
    let stream: Vec<u8> = frames.concat();
    for piece in [1, 3, 8, 13, 100, stream.len()] {
        let mut decoder = FrameDecoder::new("test");
        let mut got = Vec::new();
        for bytes in stream.chunks(piece) {
            decoder.feed(bytes);
            while let Some(frame) = decoder.next_frame().unwrap() {
                got.push(describe(frame));
            }
        }
        decoder.finish().unwrap();
        assert_eq!(decoder.offset(), stream.len() as u64);
        assert_eq!(got, expected, "pieces of {piece} bytes");
    }
    let mut reader = FrameReader::new(&*stream, "test");
    for expected in &expected {
        assert_eq!(&describe(reader.next_frame().unwrap().unwrap()), expected);
    }
    assert!(reader.next_frame().unwrap().is_none());
}

#[test]
fn a_full_batch_is_told_and_stays_within_what_receivers_accept() {
    let words = vec![block_word(BlockId(0)); 3 << 20];
    let mut builder = BatchBuilder::new();
    let taken = builder.push(
        &Event::Records {
            stream: StreamId(0),
            words: &words,
        },
        usize::MAX,
    );
    assert_eq!(taken, limits::MAX_BATCH_WORDS);
    assert!(builder.is_full(usize::MAX));
    let mut frame = Vec::new();
    builder.encode(0, &mut frame);
    assert!(frame.len() <= 8 + builder.payload_bytes());
    let mut decoder = FrameDecoder::new("test");
    decoder.set_max_frame(usize::MAX);
    decoder.feed(&frame);
    let frame = decoder.next_frame().unwrap().unwrap().open().unwrap();
    let Message::Batch(batch) = frame.message().unwrap() else {
        panic!("no batch");
    };
    let events: Vec<_> = batch.events().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        events,
        [Event::Records {
            stream: StreamId(0),
            words: &words[..taken],
        }]
    );
    builder.clear();
    assert!(builder.is_empty() && builder.words() == 0);
}

#[test]
fn payload_estimates_are_never_too_small() {
    for count in [1, 7, 100] {
        let mut builder = BatchBuilder::new();
        for _ in 0..count {
            for event in events() {
                builder.push(&event, usize::MAX);
            }
        }
        let mut frame = Vec::new();
        builder.encode(0, &mut frame);
        assert!(frame.len() - 8 <= builder.payload_bytes(), "{count}");
    }
}

fn first_error(bytes: &[u8]) -> String {
    let mut decoder = FrameDecoder::new("10.0.0.1:99");
    decoder.feed(bytes);
    match decoder.next_frame() {
        Err(error) => error.to_string(),
        Ok(None) => decoder.finish().unwrap_err().to_string(),
        Ok(Some(frame)) => match frame.open().and_then(|m| m.message().map(|_| ())) {
            Err(error) => error.to_string(),
            Ok(()) => panic!("accepted"),
        },
    }
}

#[test]
fn foreign_and_oversized_frames_are_refused_at_once() {
    assert_eq!(
        first_error(b"GET / HTTP/1.1\r\n"),
        "10.0.0.1:99, byte 0: expected a frame that starts with \"MCAD\", found [47, 45, 54, 20]; \
         is this another program's port?"
    );
    assert!(first_error(b"X").contains("expected a frame"));
    assert!(first_error(b"MCAD\xff\xff\xff\x7f").contains("a frame of 2147483647 bytes"));
    assert!(first_error(b"MCAD\x04\0\0\0....").contains("multiples of 8"));
    assert!(first_error(b"MCAD\0\0\0\0").contains("a frame of 0 bytes"));
    assert!(first_error(b"MCAD\x08\0\0\0").contains("inside a frame: 8 of 16 bytes"));
    assert!(first_error(b"MC").contains("inside a frame: 2 of 8 bytes"));
    // A segment table that claims more segments and words than there are.
    assert!(first_error(b"MCAD\x08\0\0\0\xff\0\0\0\x01\0\0\0").contains("malformed"));
}

#[test]
fn memory_follows_the_bytes_that_came_not_the_claim() {
    let mut decoder = FrameDecoder::new("test");
    decoder.set_max_frame(usize::MAX);
    decoder.feed(b"MCAD\0\0\0\x01");
    assert!(decoder.next_frame().unwrap().is_none());
    assert!(decoder.space().len() <= 256 << 10);
}

#[test]
fn versions_are_negotiated() {
    let with = |min_version, max_version| {
        negotiate(&Hello {
            min_version,
            max_version,
            ..Hello::new(Role::Control, None)
        })
    };
    assert_eq!(with(VERSION, VERSION), Some(VERSION));
    assert_eq!(with(0, u16::MAX), Some(VERSION));
    assert_eq!(with(VERSION + 1, u16::MAX), None);
    assert_eq!(with(0, 0), None);
    assert_eq!(with(5, 1), None);
}
