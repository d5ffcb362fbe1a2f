//! Timelines made by hand, through the file and out of every view.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde_json::Value;

use super::read::Reader;
use super::write::Writer;
use super::*;
use crate::Style;

/// Instructions in program order with the invariants of a core: delivery and retirement in order.
fn program(seeds: &[(u8, u8, u8, u8)], threads: u32) -> Vec<Instruction> {
    let mut clocks: HashMap<u32, (u64, u64, u64)> = HashMap::new();
    seeds
        .iter()
        .enumerate()
        .map(|(n, (fetch, wait, run, flags))| {
            let thread = n as u32 % threads;
            let (number, delivered, retired) = clocks.entry(thread).or_default();
            let mut uops = Vec::new();
            for u in 0..=(flags & 1) {
                *delivered += u64::from(fetch % 3);
                let issued = *delivered + 1 + u64::from(wait % 4);
                let ready = issued + u64::from(wait % 7);
                let dispatched = ready + u64::from(run % 3);
                let executed = dispatched + 1 + u64::from(run % 9);
                *retired = (*retired).max(executed + 1);
                uops.push(Uop {
                    kind: if u == 0 && flags & 2 != 0 {
                        Kind::StackSync
                    } else {
                        Kind::Own
                    },
                    source: Source::UopCache,
                    late: Late::ALL[usize::from(run % 6)],
                    port: if flags & 4 != 0 { NO_PORT } else { run % 10 },
                    delivered: *delivered,
                    issued,
                    ready,
                    dispatched,
                    executed,
                    retired: *retired,
                });
            }
            let pair = flags & 8 != 0;
            let number_now = *number;
            *number += 1 + u64::from(pair);
            Instruction {
                thread,
                number: number_now,
                code: u32::from(flags % 3),
                pair,
                retired: [uops[0].retired, *retired],
                uops,
            }
        })
        .collect()
}

fn header() -> Header {
    Header {
        tool: "1".into(),
        cpu: "skl".into(),
        name: "Skylake".into(),
        issue_width: 4,
        reorder_buffer: 224,
        ports: 8,
        port_names: ["alu", "1", "2", "3", "4", "5", "6", "7"]
            .map(str::to_owned)
            .into(),
        window: "all".into(),
        in_order: false,
    }
}

fn code(n: u32) -> Code {
    Code {
        address: 0x1000 + u64::from(n) * 4,
        text: format!("add r{n}, 1\x1b[2J\t\n"),
        function: format!("f{}\"<", n / 2),
        module: "prog".into(),
    }
}

fn file(instructions: &[Instruction]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    for n in 0..3 {
        writer.code(n, &code(n)).unwrap();
    }
    for i in instructions {
        writer.instruction(i).unwrap();
    }
    writer.finish(777, 5).unwrap()
}

fn seeds() -> impl Strategy<Value = Vec<(u8, u8, u8, u8)>> {
    prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_read_back_as_they_were_written(seeds in seeds()) {
        let program = program(&seeds, 3);
        let bytes = file(&program);
        let mut reader = Reader::new(&bytes[..]).unwrap();
        prop_assert_eq!(reader.header(), &header());
        let mut back = Vec::new();
        let mut i = Instruction::default();
        while reader.next(&mut i).unwrap() {
            prop_assert_eq!(reader.code(i.code), Some(&code(i.code)));
            back.push(i.clone());
        }
        prop_assert_eq!(back, program.clone());
        let end = End { records: program.len() as u64, cycles: 777, left_out: 5 };
        prop_assert_eq!(reader.end(), Some(end));
    }

    #[test]
    fn damage_is_told_and_never_a_panic(seeds in seeds(), at in any::<prop::sample::Index>(), bit in 0..8u8) {
        let mut bytes = file(&program(&seeds, 1));
        let cut = at.index(bytes.len());
        let mut i = Instruction::default();
        if let Ok(mut reader) = Reader::new(&bytes[..cut]) {
            let error = loop {
                match reader.next(&mut i) {
                    Ok(true) => {}
                    Ok(false) => prop_assert!(false, "a file cut at {cut} is not whole"),
                    Err(error) => break error,
                }
            };
            prop_assert!(error.to_string().contains("damaged"));
        }
        bytes[cut] ^= 1 << bit;
        if let Ok(mut reader) = Reader::new(&bytes[..]) {
            while let Ok(true) = reader.next(&mut i) {}
        }
    }

    #[test]
    fn konata_logs_parse_back_to_the_same_cycles(seeds in seeds()) {
        let program = program(&seeds, 3);
        let bytes = file(&program);
        let mut text = Vec::new();
        let mut log = konata::Log::new(&mut text).unwrap();
        let reader = || Reader::new(&bytes[..]).unwrap();
        let first = log.thread(&mut reader(), None).unwrap();
        prop_assert_eq!((first.thread, first.shift), (Some(0), 0));
        let mut threads = vec![first.clone()];
        for thread in first.others {
            threads.push(log.thread(&mut reader(), Some(thread)).unwrap());
        }
        let records: u64 = threads.iter().map(|thread| thread.records).sum();
        prop_assert_eq!(records, program.len() as u64);
        let rows = parse_konata(&String::from_utf8(text).unwrap());
        // Thread after thread, each from where the one before ended.
        let uops: Vec<(u64, &Instruction, &Uop)> = threads.iter().flat_map(|exported| {
            let own = program.iter().filter(|i| Some(i.thread) == exported.thread);
            own.flat_map(move |i| i.uops.iter().map(move |uop| (exported.shift, i, uop)))
        }).collect();
        prop_assert_eq!(rows.len(), uops.len());
        for (row, (shift, i, uop)) in rows.values().zip(uops) {
            prop_assert_eq!((row.thread, row.number), (i.thread.into(), i.number));
            prop_assert_eq!((row.begin, row.end), (uop.delivered + shift, uop.retired + shift));
            let mut expected = BTreeMap::new();
            let mut stage = |name: &str, from, to| {
                if from < to {
                    expected.insert(name.to_owned(), (from + shift, to + shift));
                }
            };
            stage("Q", uop.delivered, uop.issued);
            if uop.port == NO_PORT {
                stage("C", uop.issued, uop.retired);
            } else {
                stage("D", uop.issued, uop.ready);
                stage("P", uop.ready, uop.dispatched);
                stage("X", uop.dispatched, uop.executed);
                stage("C", uop.executed, uop.retired);
            }
            prop_assert_eq!(&row.stages, &expected);
        }
    }

    #[test]
    fn slices_of_a_lane_never_overlap_and_hold_the_cycles(seeds in seeds()) {
        let program = program(&seeds, 2);
        let bytes = file(&program);
        let mut json = Vec::new();
        let exported = chrome::write(&mut Reader::new(&bytes[..]).unwrap(), &mut json).unwrap();
        prop_assert_eq!(exported.instructions, program.len() as u64);
        let trace: Value = serde_json::from_slice(&json).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of = |event: &Value, key: &str| event[key].as_u64().unwrap();
        let mut lanes: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
        let mut cycles: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
        let mut slices = 0;
        for event in events {
            // The phases that are written, with what the importer wants of each.
            prop_assert!(event["pid"].is_u64());
            match event["ph"].as_str().unwrap() {
                "X" => prop_assert!(event["ts"].is_u64() && event["tid"].is_u64()),
                "C" => prop_assert!(event["ts"].is_u64() && event["args"]["value"].is_number()),
                "M" => prop_assert!(event["args"]["name"].is_string()),
                other => prop_assert!(false, "phase {other}"),
            }
        }
        for event in events.iter().filter(|event| event["ph"] == "X") {
            let (begin, length) = (of(event, "ts"), of(event, "dur"));
            prop_assert!(length > 0);
            let lane = (of(event, "pid"), of(event, "tid"));
            lanes.entry(lane).or_default().push((begin, begin + length));
            if event["cat"] == "instruction" {
                slices += 1;
                let flat = event["args"]["uops"].as_array().unwrap().iter();
                let flat = flat.flat_map(|u| u[1].as_array().unwrap()).map(|c| c.as_u64().unwrap());
                cycles.insert((of(event, "pid"), of(&event["args"], "number")), flat.collect());
            }
        }
        prop_assert_eq!(slices, exported.instructions);
        for lane in lanes.values_mut() {
            lane.sort_unstable();
            prop_assert!(lane.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{lane:?}");
        }
        for i in &program {
            let expected: Vec<u64> = i.uops.iter().flat_map(|u| {
                [u.delivered, u.issued, u.ready, u.dispatched, u.executed, u.retired]
            }).collect();
            prop_assert_eq!(&cycles[&(u64::from(i.thread), i.number)], &expected);
        }
        let last = events.iter().rfind(|event| event["name"] == "µops in flight" && event["pid"] == 0);
        prop_assert_eq!(last.unwrap()["args"]["value"].as_f64(), Some(0.0));
    }
}

#[derive(Default)]
struct Row {
    number: u64,
    thread: u64,
    begin: u64,
    end: u64,
    stages: BTreeMap<String, (u64, u64)>,
}

/// Reads a log as Konata does: `C` moves the clock, the rest happens now.
fn parse_konata(log: &str) -> BTreeMap<u64, Row> {
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("Kanata\t0004"));
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    let mut now = 0;
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let number = |n: usize| fields[n].parse::<u64>().unwrap();
        match fields[0] {
            "C=" => now = number(1),
            "C" => now += number(1),
            "I" => {
                let row = rows.entry(number(1)).or_default();
                (row.begin, row.number, row.thread) = (now, number(2), number(3));
            }
            "S" => {
                let stages = &mut rows.get_mut(&number(1)).unwrap().stages;
                assert!(stages.insert(fields[3].to_owned(), (now, 0)).is_none());
            }
            "E" => {
                rows.get_mut(&number(1))
                    .unwrap()
                    .stages
                    .get_mut(fields[3])
                    .unwrap()
                    .1 = now
            }
            "R" => rows.get_mut(&number(1)).unwrap().end = now,
            "L" => assert!(rows.contains_key(&number(1)) && !line.contains('\x1b')),
            other => panic!("unknown command {other}"),
        }
    }
    rows
}

#[test]
fn the_terminal_shows_what_each_uop_waits_for() {
    let seeds = [
        (1, 3, 5, 0),
        (2, 9, 4, 8),
        (0, 2, 7, 3),
        (1, 20, 2, 4),
        (2, 5, 255, 0),
    ];
    let bytes = file(&program(&seeds, 1));
    let mut out = Vec::new();
    let style = Style::plain();
    let mut reader = Reader::new(&bytes[..]).unwrap();
    let drawn = terminal::write(&mut reader, style, None, 100, &mut out).unwrap();
    assert_eq!((drawn.thread, drawn.records, drawn.beyond), (Some(0), 5, 0));
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains('\x1b'));
    insta::assert_snapshot!(text);
}

#[test]
fn no_flipped_bit_is_shown_as_truth() {
    let seeds: Vec<_> = (0..40u8).map(|n| (n % 3, n, n % 9, n / 7)).collect();
    let bytes = file(&program(&seeds, 2));
    let read = |bytes: &[u8]| -> Result<Vec<Instruction>, TimelineError> {
        let mut reader = Reader::new(bytes)?;
        let mut instruction = Instruction::default();
        let mut records = Vec::new();
        while reader.next(&mut instruction)? {
            records.push(instruction.clone());
        }
        Ok(records)
    };
    let whole = read(&bytes).unwrap();
    assert!(whole.len() >= 40);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok(read) = read(&bad) {
            // Such as the size of the window that zstd reserves.
            assert!(read == whole, "bit {bit}");
        }
    }
}

#[test]
fn other_files_are_told_apart() {
    assert!(matches!(
        Reader::new(&b"{}"[..]),
        Err(TimelineError::Foreign)
    ));
    let mut bytes = file(&[]);
    bytes[8] = 9;
    assert!(matches!(
        Reader::new(&bytes[..]),
        Err(TimelineError::Version(9))
    ));
    let mut reader = Reader::new(&file(&[])[..]).map(drop);
    assert!(reader.is_ok());
    reader = Reader::new(&MAGIC[..]).map(drop);
    assert!(matches!(reader, Err(TimelineError::Foreign)));
}

#[test]
fn misses_redirects_and_ports_have_their_names() {
    let mut instruction = program(&[(1, 1, 1, 0)], 1).remove(0);
    instruction.uops[0].port = 0;
    let export = |late: Late| {
        let mut i = instruction.clone();
        i.uops[0].late = late;
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        writer.code(i.code, &code(i.code)).unwrap();
        writer.instruction(&i).unwrap();
        let file = writer.finish(1000, 0).unwrap();
        let mut chrome = Vec::new();
        chrome::write(&mut Reader::new(&file[..]).unwrap(), &mut chrome).unwrap();
        let mut konata = Vec::new();
        konata::Log::new(&mut konata)
            .unwrap()
            .thread(&mut Reader::new(&file[..]).unwrap(), None)
            .unwrap();
        [chrome, konata].map(|text| String::from_utf8(text).unwrap())
    };
    let [chrome, konata] = export(Late::Dram);
    assert!(
        chrome.contains("\"late\":\"miss: line from memory\""),
        "{chrome}"
    );
    assert!(
        konata.contains(", miss: line from memory, port alu"),
        "{konata}"
    );
    assert!(export(Late::Redirect)[0].contains("redirect"));
    assert!(!export(Late::No)[0].contains("\"late\""));
}

/// What an in-order core shows: each instruction from the issue of the one before on, and waiting for
/// the front end only where that is what made it late.
#[test]
fn in_order_cores_show_what_keeps_the_oldest_instruction() {
    let uop = |port, delivered, issued, dispatched, executed, retired, late| Uop {
        port,
        delivered,
        issued,
        ready: dispatched,
        dispatched,
        executed,
        retired,
        late,
        ..Uop::default()
    };
    let uops = [
        uop(0, 10, 10, 10, 13, 14, Late::No),
        uop(ANY_PORT, 10, 10, 13, 14, 15, Late::Load),
        uop(1, 13, 13, 13, 14, 16, Late::No),
        uop(ANY_PORT, 17, 19, 19, 20, 21, Late::Fetch),
        uop(ANY_PORT, 22, 24, 24, 25, 26, Late::Redirect),
    ];
    let header = Header {
        in_order: true,
        port_names: ["memory", "multiplier"].map(str::to_owned).into(),
        ..header()
    };
    let mut writer = Writer::new(Vec::new(), &header).unwrap();
    for n in 0..3 {
        writer.code(n, &code(n)).unwrap();
    }
    for (n, uop) in uops.iter().enumerate() {
        let instruction = Instruction {
            number: n as u64,
            code: n as u32 % 3,
            retired: [uop.retired; 2],
            uops: vec![*uop],
            ..Instruction::default()
        };
        writer.instruction(&instruction).unwrap();
    }
    let file = writer.finish(27, 0).unwrap();
    let mut out = Vec::new();
    let mut reader = Reader::new(&file[..]).unwrap();
    terminal::write(&mut reader, Style::plain(), None, 100, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let row = |n: usize| {
        let at = format!("{n:>NUMBER$} ", NUMBER = 9);
        let line = text.lines().find(|line| line.starts_with(&at)).unwrap();
        line.rsplit("[2J")
            .next()
            .unwrap()
            .trim_start_matches(|c: char| c != ' ')
            .trim()
    };
    assert_eq!(row(0), "eeE-R", "{text}");
    assert_eq!(row(1), "lllE-R", "{text}");
    assert!(text.contains("l  waited for a loaded value"), "{text}");
    assert!(!text.contains("scheduler"), "{text}");
    // The front end is waited for from the issue of the one before on.
    assert_eq!(row(3), "...##E-R", "{text}");
    assert_eq!(row(4), "mm##E-R", "{text}");
    let mut chrome = Vec::new();
    chrome::write(&mut Reader::new(&file[..]).unwrap(), &mut chrome).unwrap();
    let chrome = String::from_utf8(chrome).unwrap();
    let trace: Value = serde_json::from_str(&chrome).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let waits = events.iter().filter(|event| event["cat"] == "wait");
    let waits: Vec<_> = waits
        .map(|e| {
            (
                e["name"].as_str(),
                e["ts"].as_u64(),
                e["dur"].as_u64(),
                e["tid"].as_u64(),
            )
        })
        .collect();
    let wait = |name, at, cycles| (Some(name), Some(at), Some(cycles), Some(1));
    assert_eq!(
        waits,
        [
            wait("waited for a loaded value", 10, 3),
            wait("waited for fetch", 14, 5),
            wait("redirect: fetched after a wrong path", 20, 4),
        ]
    );
    // No instruction is on the lane of these.
    let mut lanes = events.iter().filter(|event| event["cat"] == "instruction");
    assert!(
        lanes.all(|event| event["tid"].as_u64() > Some(1)),
        "{chrome}"
    );
    let mut log = Vec::new();
    let mut reader = Reader::new(&file[..]).unwrap();
    konata::Log::new(&mut log)
        .unwrap()
        .thread(&mut reader, None)
        .unwrap();
    let rows = parse_konata(&String::from_utf8(log).unwrap());
    assert_eq!(rows[&1].stages["l"], (10, 13));
    assert!(rows.values().all(|row| !row.stages.contains_key("D")));
}

/// A file of the format's first version, whose reasons are in the bits of the kind.
#[test]
fn files_of_the_first_version_are_read() {
    let mut content = vec![1];
    let text = |content: &mut Vec<u8>, text: &str| {
        leb128::write::unsigned(content, text.len() as u64).unwrap();
        content.extend(text.as_bytes());
    };
    text(&mut content, &serde_json::to_string(&header()).unwrap());
    content.extend([2, 0, 0]);
    for part in ["nop", "main", "prog"] {
        text(&mut content, part);
    }
    // Thread, number, code, flags; retired at 7 twice; one µop: kind 0, source 1, late 3; port 2.
    content.extend([
        3,
        0,
        5,
        0,
        0,
        14,
        0,
        1,
        1 << 2 | 3 << 5,
        2,
        13,
        2,
        2,
        2,
        2,
        2,
    ]);
    content.push(4);
    text(&mut content, r#"{"records":1,"cycles":9,"left_out":0}"#);
    let mut file = MAGIC.to_vec();
    file.extend(1u32.to_le_bytes());
    file.extend(zstd::encode_all(&content[..], 1).unwrap());
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut i = Instruction::default();
    assert!(reader.next(&mut i).unwrap());
    assert_eq!((i.number, i.retired), (5, [7, 7]));
    let uop = i.uops[0];
    assert_eq!(
        (uop.late, uop.source, uop.port),
        (Late::Dram, Source::UopCache, 2)
    );
    assert_eq!([uop.delivered, uop.issued, uop.retired], [0, 1, 5]);
    assert!(!reader.next(&mut i).unwrap());
}
