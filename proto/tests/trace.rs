//! Trace files: what goes in comes out, also behind damage, and damage is told with its place.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail loudly

use std::io::{self, Write};

use mcad_proto::event::*;
use mcad_proto::trace::*;
use mcad_proto::word::*;
use proptest::prelude::*;

mod support;

fn info_() -> SessionInfo {
    SessionInfo {
        arch: Arch::X86_64,
        producer: "test µ".into(),
        command: vec!["/bin/true".into(), String::new(), "a b".into()],
        memory: true,
    }
}

/// Events with neighbouring records of one stream joined, which is all that a file may change.
#[derive(Debug, Default, PartialEq)]
struct Log {
    events: Vec<String>,
    open: Option<(StreamId, Vec<u64>)>,
}

impl Log {
    fn push(&mut self, event: &Event<'_>) {
        if let Event::Records { stream, words } = event {
            if words.is_empty() {
                return;
            }
            match &mut self.open {
                Some((open, all)) if open == stream => return all.extend_from_slice(words),
                _ => self.close(),
            }
            self.open = Some((*stream, words.to_vec()));
            return;
        }
        self.close();
        self.events.push(format!("{event:?}"));
    }

    fn close(&mut self) {
        if let Some((stream, words)) = self.open.take() {
            self.events.push(format!("{stream:?} {words:x?}"));
        }
    }
}

fn log<'a>(events: impl IntoIterator<Item = &'a Event<'a>>) -> Vec<String> {
    let mut log = Log::default();
    for event in events {
        log.push(event);
    }
    log.close();
    log.events
}

fn write(events: &[Event<'_>], chunk_words: usize) -> Vec<u8> {
    let writer = TraceWriter::new(Vec::new(), "test", &info_()).unwrap();
    let mut writer = writer.chunk_words(chunk_words);
    for event in events {
        writer.event(event).unwrap();
    }
    writer.finish_into().unwrap().1
}

fn read(file: &[u8]) -> Vec<String> {
    let mut reader = TraceReader::new(file, "test").unwrap();
    let mut log = Log::default();
    while let Some(event) = reader.next().unwrap() {
        log.push(&event);
    }
    log.close();
    log.events
}

/// A session with definitions before first use in every chunk and two threads.
fn session(words: &[u64]) -> Vec<Event<'_>> {
    let mut events = vec![
        Event::Session(info_()),
        Event::Module(ModuleDef {
            path: "/bin/true".into(),
            start: GuestAddr(0x1000),
            end: GuestAddr(u64::MAX),
            file_offset: 77,
        }),
        Event::Region(RegionDef {
            name: "main".into(),
            start: GuestAddr(1),
            end: GuestAddr(2),
        }),
        Event::StreamStart(StreamId(0)),
    ];
    let mut defined = 0;
    for (i, part) in words.chunks(97).enumerate() {
        let stream = StreamId((i % 5 == 4).into());
        if i == 4 {
            let process = |what| Event::Process {
                id: ProcessId(1),
                what,
            };
            let parent = ProcessId::FIRST;
            events.push(process(ProcessEvent::Forked { parent }));
            events.push(process(ProcessEvent::Entered));
            events.push(Event::StreamStart(stream));
            let command = vec!["cat".into(), String::new()];
            events.push(process(ProcessEvent::Replaced { command }));
        }
        for word in part {
            while word >> 61 == 2 && *word as u32 >= defined {
                events.push(Event::Block(BlockDef {
                    id: BlockId(defined),
                    address: GuestAddr(0x40_0000 - 13 * u64::from(defined)),
                    instructions: 6,
                    bytes: &[0x90; 6],
                }));
                defined += 1;
            }
        }
        events.push(Event::Records {
            stream,
            words: part,
        });
    }
    events.extend([
        Event::Lost {
            count: 3,
            reason: "ring".into(),
        },
        Event::Notice("n\n".into()),
        Event::StreamEnd(StreamId(0)),
        Event::StreamEnd(StreamId(1)),
        Event::Process {
            id: ProcessId(1),
            what: ProcessEvent::Ended(EndReason::Signaled(9)),
        },
        Event::Process {
            id: ProcessId::FIRST,
            what: ProcessEvent::Entered,
        },
        Event::End(EndReason::Exited(-1)),
    ]);
    events
}

#[test]
fn a_session_comes_back_whatever_the_chunks() {
    let words = support::words(20_000);
    let events = session(&words);
    let expected = log(&events);
    for chunk_words in [1, 100, 4097, 1 << 20] {
        let file = write(&events, chunk_words);
        assert_eq!(read(&file), expected, "chunks of {chunk_words} words");
    }
}

#[test]
fn predictable_runs_take_little() {
    let words = support::words(1_500_000);
    let mut events = session(&words);
    events.retain(|e| !matches!(e, Event::Records { .. } | Event::End(_)));
    events.push(Event::Records {
        stream: StreamId(0),
        words: &words,
    });
    events.push(Event::End(EndReason::Complete));
    let file = write(&events, 1 << 20);
    assert_eq!(read(&file), log(&events));
    let bytes = file.len() as f64 / words.len() as f64;
    assert!(bytes < 0.5, "{bytes} bytes per word, of 8");
}

fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (0u32..12).prop_map(|id| block_word(BlockId(id))),
        6 => (0u16..4, any::<bool>(), 0u8..7, 0u64..1 << 12).prop_map(|(index, store, log2, a)| {
            access_word(Access { index, store, size: 1 << log2, address: GuestAddr(a * 8) })
        }),
        1 => any::<u64>(),
        1 => (any::<u64>(), 1u64..3).prop_map(|(word, tag)| word >> 3 | tag << 61),
    ]
}

proptest! {
    /// Words of any value, of which some blocks are never defined, in any grouping.
    #[test]
    fn any_words_come_back(
        parts in prop::collection::vec((0u32..3, prop::collection::vec(any_word(), 0..80)), 0..20),
        chunk_words in 1usize..200,
        defined in 0u32..12,
    ) {
        let mut events = vec![Event::Session(info_())];
        for id in 0..defined {
            events.push(Event::Block(BlockDef {
                id: BlockId(id),
                address: GuestAddr(u64::MAX - u64::from(id)),
                instructions: 1,
                bytes: &[0xc3],
            }));
        }
        for (stream, words) in &parts {
            events.push(Event::Records { stream: StreamId(*stream), words });
        }
        events.push(Event::End(EndReason::Complete));
        prop_assert_eq!(read(&write(&events, chunk_words)), log(&events));
    }
}

#[test]
fn every_end_and_event_value_comes_back() {
    for end in [
        EndReason::Exited(i32::MIN),
        EndReason::Signaled(11),
        EndReason::Exec(3),
        EndReason::ProducerDied("gone".into()),
        EndReason::Truncated("cut".into()),
        EndReason::Complete,
    ] {
        let events = [
            Event::Session(info_()),
            Event::Lost {
                count: u64::MAX,
                reason: String::new(),
            },
            Event::StreamStart(StreamId(u32::MAX)),
            Event::End(end),
        ];
        assert_eq!(read(&write(&events, 10)), log(&events));
    }
}

/// A file of many chunks, the places of the chunks in it, and its events.
fn damaged_base(words: &[u64]) -> (Vec<u8>, Vec<ChunkInfo>, Vec<String>) {
    let events = session(words);
    let file = write(&events, 500);
    let mut reader = TraceReader::new(&*file, "test").unwrap();
    while reader.next().unwrap().is_some() {}
    let chunks = reader.chunks().to_vec();
    assert!(chunks.len() > 8);
    (file, chunks, log(&events))
}

fn count_words(log: &[String]) -> usize {
    log.iter()
        .filter_map(|e| e.strip_prefix("StreamId("))
        .map(|e| e.split(' ').count() - 1)
        .sum()
}

fn lost(log: &[String]) -> u64 {
    log.iter()
        .filter_map(|e| e.strip_prefix("Lost { count: "))
        .map(|e| e.split(',').next().unwrap().parse::<u64>().unwrap())
        .sum::<u64>()
        - 3 // the session's own
}

#[test]
fn a_cut_file_gives_every_whole_chunk_and_says_what_is_missing() {
    let words = support::words(6_000);
    let (file, chunks, _) = damaged_base(&words);
    let start = chunks[0].offset as usize;
    for cut in (start..file.len()).step_by(7) {
        let got = read(&file[..cut]);
        let whole: usize = chunks
            .iter()
            .filter(|c| (c.offset + u64::from(c.length)) as usize <= cut)
            .map(|c| c.words as usize)
            .sum();
        assert_eq!(count_words(&got), whole, "cut at {cut}");
        let last = got.last().unwrap();
        let all = chunks.last().unwrap();
        if cut as u64 >= all.offset + u64::from(all.length) {
            assert_eq!(last, "End(Exited(-1))");
        } else {
            assert!(
                last.starts_with("End(Truncated(\"test ends at byte "),
                "{last}"
            );
            assert!(last.contains(&format!("byte {cut}")), "{last}");
        }
    }
    // The exact words for one cut.
    let cut = (chunks[3].offset + 100) as usize;
    let got = read(&file[..cut]);
    assert_eq!(
        got.last().unwrap(),
        &format!(
            "End(Truncated(\"test ends at byte {cut} inside chunk 4: {} of its {} bytes and with \
             them {} records are missing, and whatever came after\"))",
            chunks[3].length - 100,
            chunks[3].length,
            chunks[3].words
        )
    );
    for cut in 0..start {
        assert!(TraceReader::new(&file[..cut], "test").is_err(), "{cut}");
    }
}

#[test]
fn what_stands_behind_the_end_is_told_and_left_out() {
    let words = support::words(6_000);
    let (file, chunks, expected) = damaged_base(&words);
    let told = |bytes: &[u8]| -> Vec<String> {
        let mut got = read(bytes);
        assert_eq!(got.last(), expected.last());
        // What was recorded is there, all that is told stands before the end.
        let told = got.split_off(expected.len() - 1);
        assert_eq!(got, expected[..got.len()]);
        told[..told.len() - 1].to_vec()
    };
    assert_eq!(told(&file), Vec::<String>::new());
    let end = file.len();
    let from = |from: usize, to: usize, what: &str| {
        let reason =
            format!("test: bytes {from} to {to}, behind the session's end, are left out{what}");
        vec![format!("Lost {{ count: 1, reason: {reason:?} }}")]
    };
    let bytes = [&file[..], b"\n"].concat();
    assert_eq!(told(&bytes), from(end, end + 1, ""));
    let bytes = [&file[..], &file].concat();
    let another = ": another recording begins there; give each a file of its own";
    assert_eq!(told(&bytes), from(end, 2 * end, another));
    // An old and longer file's rest, which has an index of its own.
    let rest = &file[chunks[7].offset as usize + 9..];
    let bytes = [&file[..], rest].concat();
    assert_eq!(told(&bytes), from(end, end + rest.len(), ""));
}

#[test]
fn records_behind_the_end_are_missed_once() {
    let words = support::words(6_000);
    let (file, chunks, _) = damaged_base(&words);
    let [.., before, last] = &chunks[..] else {
        unreachable!("it has chunks")
    };
    let [before_at, at, behind] = [
        before.offset,
        last.offset,
        last.offset + u64::from(last.length),
    ]
    .map(|byte| byte as usize);
    let swapped = [
        &file[..before_at],
        &file[at..behind],
        &file[before_at..at],
        &file[behind..],
    ];
    let got = read(&swapped.concat());
    assert_eq!(got.last().unwrap(), "End(Exited(-1))");
    let from = behind - (at - before_at);
    let told = format!("bytes {from} to {}, behind the session's end", file.len());
    assert!(got[got.len() - 2].contains(&told), "{got:?}");
    let have = count_words(&got) as u64;
    assert!(have + u64::from(before.words) <= words.len() as u64);
    assert!(lost(&got) >= u64::from(before.words));
}

#[test]
fn a_flipped_bit_loses_one_chunk_and_is_told() {
    let words = support::words(6_000);
    let (file, chunks, expected) = damaged_base(&words);
    let total = count_words(&expected) as u64;
    for (number, chunk) in chunks.iter().enumerate() {
        for at in [
            0,
            5,
            30,
            45,
            chunk.length as usize / 2,
            chunk.length as usize - 1,
        ] {
            let mut bad = file.clone();
            bad[chunk.offset as usize + at] ^= 0x10;
            let got = read(&bad);
            let damage: Vec<&String> = got.iter().filter(|e| e.contains("test: ")).collect();
            assert!(!damage.is_empty(), "chunk {number} byte {at}");
            let place = if at < 44 {
                format!("bytes {} to ", chunk.offset)
            } else {
                format!("chunk {} (bytes {} to", number + 1, chunk.offset)
            };
            assert!(damage[0].contains(&place), "{place}: {}", damage[0]);
            let have = count_words(&got) as u64;
            if number + 1 < chunks.len() {
                assert_eq!(got.last().unwrap(), "End(Exited(-1))");
                assert!(lost(&got) >= u64::from(chunk.words));
                assert_eq!(have + lost(&got), total, "chunk {number} byte {at}");
            } else {
                assert!(got.last().unwrap().starts_with("End(Truncated("));
            }
            // Chunks before the damage are untouched.
            assert!(have >= chunk.first_word, "chunk {number} byte {at}");
        }
    }
}

#[test]
fn behind_damage_ids_are_dense_and_streams_are_started() {
    let mut words = support::words(6_000);
    // Later records use other blocks, so that definitions lie in all chunks.
    for (i, word) in words.iter_mut().enumerate() {
        if let Ok(Record::Block(id)) = decode_word(*word) {
            *word = block_word(BlockId(id.0 % 8 + 8 * (i as u32 / 400)));
        }
    }
    let (mut file, chunks, _) = damaged_base(&words);
    // The first chunk holds the start of the first stream.
    file[chunks[0].offset as usize + 60] ^= 1;
    let mut reader = TraceReader::new(&*file, "test").unwrap();
    let mut defined = 0;
    let mut started = Vec::new();
    let mut seen = 0;
    let mut lost = 0;
    while let Some(event) = reader.next().unwrap() {
        match event {
            Event::Block(block) => {
                assert_eq!(block.id.0, defined);
                defined += 1;
            }
            Event::StreamStart(stream) => started.push(stream),
            Event::Records { stream, words } => {
                assert!(started.contains(&stream));
                for word in words {
                    seen += 1;
                    match decode_word(*word).unwrap() {
                        Record::Block(id) => assert!(id.0 < defined),
                        Record::Access(_) | Record::Kernel(_) => {}
                    }
                }
            }
            Event::Lost { count, .. } => lost += count,
            _ => {}
        }
    }
    // The chunk itself, and the rest of an execution of each thread at most.
    let whole = u64::from(chunks[0].words);
    assert!(
        (whole..whole + 2 * 1400).contains(&(lost - 3)),
        "{lost} lost"
    );
    assert_eq!(seen + lost - 3, words.len() as u64);
}

#[test]
fn a_missing_chunk_is_noticed() {
    let words = support::words(6_000);
    let (file, chunks, _) = damaged_base(&words);
    let mut cut = file[..chunks[4].offset as usize].to_vec();
    cut.extend_from_slice(&file[chunks[5].offset as usize..]);
    let got = read(&cut);
    let told = format!("test: chunks are missing before byte {}", chunks[4].offset);
    assert!(got.iter().any(|e| e.contains(&told)), "{got:?}");
}

#[test]
fn copies_of_chunks_and_chunks_out_of_order_are_not_counted_twice() {
    let words = support::words(6_000);
    let (file, chunks, _) = damaged_base(&words);
    let part =
        |from: usize, to: usize| &file[chunks[from].offset as usize..chunks[to].offset as usize];
    let begin = &file[..chunks[0].offset as usize];
    let rest = &file[chunks[5].offset as usize..];
    let twice = [begin, part(0, 4), part(3, 5), rest].concat();
    let got = read(&twice);
    let left_out = format!("chunk 5 (bytes {} to", chunks[4].offset);
    assert!(got.iter().any(|e| e.contains(&left_out)), "{got:?}");
    assert!(count_words(&got) <= words.len());

    let swapped = [begin, part(0, 3), part(4, 5), part(3, 4), rest].concat();
    let got = read(&swapped);
    assert!(got.iter().any(|e| e.contains("is left out")), "{got:?}");
    let have = count_words(&got) as u64;
    assert!(have + u64::from(chunks[3].words) <= words.len() as u64);
    assert!(lost(&got) >= u64::from(chunks[3].words));
}

#[test]
fn foreign_newer_and_damaged_headers_are_told_apart() {
    let message = |bytes: &[u8]| TraceReader::new(bytes, "f").err().unwrap().to_string();
    assert!(message(b"").starts_with("f is no mcad trace: it is empty; record one"));
    assert!(message(b"\x7fELF\x02\x01\x01").contains("is no mcad trace"));
    assert!(message(b"MCADTRC\0").contains("header is damaged: the file ends after 8 bytes"));
    let file = write(&[], 1);
    let mut newer = file.clone();
    newer[8] = 4;
    assert!(message(&newer).contains("trace format 4, this program reads up to 3"));
    for version in 1..=3 {
        let mut older = file.clone();
        older[8] = version;
        assert!(TraceReader::new(&*older, "f").is_ok());
    }
    let mut flipped = file.clone();
    flipped[30] ^= 1;
    assert!(message(&flipped).contains("checksum"));
    let mut huge = file;
    huge[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(message(&huge).contains("it claims 4294967295 bytes"));
}

/// A disk with room for so many bytes.
struct Disk(usize);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_once() {
    let words = support::words(5_000);
    let events = session(&words);
    let writer = TraceWriter::new(Disk(2_000), "full.mcad", &info_()).unwrap();
    let mut writer = writer.chunk_words(100);
    let errors: Vec<TraceError> = events
        .iter()
        .filter_map(|event| writer.event(event).err())
        .collect();
    let message = errors[0].to_string();
    assert!(
        message.starts_with("cannot write the trace full.mcad: "),
        "{message}"
    );
    assert!(message.contains("recording stops"));
    assert!(errors.len() > 1);
    assert!(
        errors[1..]
            .iter()
            .all(|e| matches!(e, TraceError::Over { .. }))
    );
    assert!(matches!(writer.finish(), Err(TraceError::Over { .. })));
}

#[test]
fn info_comes_from_the_index_or_from_reading_everything() {
    let words = support::words(6_000);
    let events = session(&words);
    let file = write(&events, 500);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace");
    std::fs::write(&path, &file).unwrap();
    let indexed = info(&path).unwrap();
    assert!(indexed.indexed);
    assert_eq!(indexed.session, info_());
    assert_eq!(indexed.words, words.len() as u64);
    assert_eq!(indexed.words, indexed.accesses + indexed.block_executions);
    assert_eq!(indexed.instructions, 6 * indexed.block_executions);
    assert_eq!((indexed.streams, indexed.lost), (2, 3));
    assert_eq!(indexed.end, EndReason::Exited(-1));
    assert!(indexed.bytes_per_instruction().unwrap() > 0.0);

    // Without the trailer everything is the same but for where it came from.
    std::fs::write(&path, &file[..file.len() - 1]).unwrap();
    let scanned = info(&path).unwrap();
    assert!(!scanned.indexed);
    assert_eq!(
        scanned,
        TraceInfo {
            indexed: false,
            file_bytes: indexed.file_bytes - 1,
            problems: vec!["ring".into()],
            ..indexed
        }
    );

    let error = info(dir.path().join("none")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the trace "), "{error}");
}

#[test]
fn recording_without_an_end_is_told() {
    let events = [Event::Session(info_()), Event::Notice("x".into())];
    let got = read(&write(&events, 10));
    assert!(
        got[2].contains("the recording stopped before the session ended"),
        "{got:?}"
    );
}
