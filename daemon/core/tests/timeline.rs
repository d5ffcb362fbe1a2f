//! The recorded timeline agrees with the report: cycles, retire order, port use, counts; and
//! recording changes nothing.

#![allow(clippy::unwrap_used)] // Helpers of tests fail tests.

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use mcad_core::pipeline::observer::UopStamps;
use mcad_core::simulation::NoSymbols;
use mcad_core::simulation::timeline::{Timed, TimelineSink, Window};
use mcad_proto::event::{Arch, EndReason, Event, RegionDef};
use mcad_proto::word::{BlockId, GuestAddr, StreamId, block_word};
use mcad_report::Report;

/// Address, instructions, bytes.
const BLOCKS: &[(u64, u16, &[u8])] = &[
    // add rax,rbx; imul rcx,rax; jne to itself
    (
        0x1000,
        3,
        &[0x48, 0x01, 0xd8, 0x48, 0x0f, 0xaf, 0xc8, 0x75, 0xf7],
    ),
    // push rbp; add rsp,8; sub rsp,8; pop rbp; call 0x1150
    (
        0x1009,
        5,
        &[
            0x55, 0x48, 0x83, 0xc4, 8, 0x48, 0x83, 0xec, 8, 0x5d, 0xe8, 0x38, 0x01, 0, 0,
        ],
    ),
    // xor eax,eax; mov ebx,eax; mov ah,bl; mov ecx,eax; cmp rax,rbx; jne
    (
        0x1150,
        6,
        &[
            0x31, 0xc0, 0x89, 0xc3, 0x88, 0xdc, 0x89, 0xc1, 0x48, 0x39, 0xd8, 0x75, 0x10,
        ],
    ),
];

#[derive(Default)]
struct Told {
    codes: Vec<(u64, String)>,
    instructions: Vec<(u64, bool, u64, Vec<UopStamps>)>,
    /// Code of each instruction.
    executed: Vec<u32>,
    end: Option<(u64, u64)>,
}

struct Sink(Rc<RefCell<Told>>);

impl TimelineSink for Sink {
    fn code(&mut self, code: u32, _: BlockId, address: u64, text: &str) {
        let codes = &mut self.0.borrow_mut().codes;
        assert_eq!(code as usize, codes.len());
        codes.push((address, text.to_owned()));
    }

    fn instruction(&mut self, t: &Timed<'_>) {
        let told = (t.number, t.pair, t.retired.last, t.uops.to_vec());
        let mut all = self.0.borrow_mut();
        all.instructions.push(told);
        all.executed.push(t.code);
    }

    fn end(&mut self, cycles: u64, left_out: u64) {
        self.0.borrow_mut().end = Some((cycles, left_out));
    }
}

fn run(cpu: &str, window: Option<(Window, u64)>) -> (Report, Told) {
    let told = Rc::new(RefCell::new(Told::default()));
    let mut simulation = support::simulation(cpu);
    if let Some((window, limit)) = window {
        let sink = Sink(Rc::clone(&told));
        simulation.record(window, limit, |_| Box::new(sink));
    }
    support::begin(&mut simulation, Arch::X86_64, BLOCKS);
    let mut take = |event: Event<'_>| simulation.event(&event).unwrap();
    take(Event::Region(RegionDef {
        name: "callee".into(),
        start: GuestAddr(0x1150),
        end: GuestAddr(0x1160),
    }));
    let stack = |index, store| support::access(index, store, 0x8000);
    let mut words = Vec::new();
    // So many that no window around the hottest block is cut by the end on any CPU.
    for _ in 0..400 {
        words.extend([
            block_word(BlockId(0)),
            block_word(BlockId(0)),
            block_word(BlockId(1)),
        ]);
        words.extend([stack(0, true), stack(3, false), stack(4, true)]);
        words.push(block_word(BlockId(2)));
    }
    let stream = StreamId(0);
    take(Event::StreamStart(stream));
    for words in words.chunks(701) {
        take(Event::Records { stream, words });
    }
    take(Event::StreamEnd(stream));
    take(Event::End(EndReason::Exited(0)));
    let report = simulation.finish(&NoSymbols);
    (report, Rc::into_inner(told).unwrap().into_inner())
}

const ALL: Window = Window::Instructions(0..u64::MAX);

#[test]
fn a_recording_of_everything_gives_the_reports_figures() {
    for cpu in ["snb", "skl", "glc"] {
        let (report, told) = run(cpu, Some((ALL, u64::MAX)));
        let result = &report.cpus[0];
        let instructions: u64 = told.instructions.iter().map(|i| 1 + u64::from(i.1)).sum();
        assert_eq!(instructions, result.instructions, "{cpu}");
        let last = told.instructions.iter().map(|i| i.2).max().unwrap();
        assert_eq!(
            (last, told.end),
            (result.cycles, Some((result.cycles, 0))),
            "{cpu}"
        );
        assert!(told.instructions.is_sorted_by_key(|i| i.2), "{cpu}");
        assert!(told.instructions.is_sorted_by_key(|i| i.0), "{cpu}");
        let mut ports = vec![0u64; result.ports.len()];
        let mut inserted = 0;
        for u in told.instructions.iter().flat_map(|i| &i.3) {
            inserted += u32::from(u.uop >= UopStamps::MERGE);
            if u.port != 0xff {
                ports[usize::from(u.port)] += 1;
                assert!(u.delivered < u.issued && u.issued <= u.ready, "{cpu} {u:?}");
                assert!(
                    u.ready <= u.dispatched && u.dispatched < u.executed,
                    "{cpu} {u:?}"
                );
            }
            assert!(
                u.executed < u.retired && u.issued < u.retired,
                "{cpu} {u:?}"
            );
        }
        let expected: Vec<u64> = result.ports.iter().map(|port| port.uops).collect();
        assert_eq!(ports, expected, "{cpu}");
        assert!(
            inserted > 0,
            "{cpu}: the stack engine synchronises in block 1"
        );
    }
}

#[test]
fn recording_changes_nothing_and_windows_are_parts_of_the_whole() {
    let (plain, none) = run("skl", None);
    let (report, all) = run("skl", Some((ALL, u64::MAX)));
    assert_eq!(report, plain);
    assert!(none.instructions.is_empty() && none.end.is_none());
    let (_, part) = run("skl", Some((Window::Instructions(1000..1100), u64::MAX)));
    let expected: Vec<_> = all
        .instructions
        .iter()
        .filter(|i| (1000..1100).contains(&i.0))
        .collect();
    assert!(part.instructions.iter().eq(expected));
    let (_, part) = run("skl", Some((Window::Cycles(500..600), u64::MAX)));
    let expected: Vec<_> = all
        .instructions
        .iter()
        .filter(|i| (500..600).contains(&i.2))
        .collect();
    assert!(!expected.is_empty() && part.instructions.iter().eq(expected));
    let (_, cut) = run("skl", Some((ALL, 10)));
    assert_eq!(cut.instructions[..], all.instructions[..10]);
    assert_eq!(cut.end.unwrap().1, all.instructions.len() as u64 - 10);
}

#[test]
fn a_stay_in_a_region_is_recorded_alone() {
    let window = Window::Region {
        name: "callee".into(),
        occurrence: 7,
    };
    let (_, told) = run("skl", Some((window, u64::MAX)));
    let count: u64 = told.instructions.iter().map(|i| 1 + u64::from(i.1)).sum();
    assert_eq!(count, 6);
    // 3 + 3 + 5 instructions lead to each stay of 6.
    assert_eq!(told.instructions[0].0, 7 * 17 + 11);
    let window = Window::Region {
        name: "nowhere".into(),
        occurrence: 0,
    };
    assert!(
        run("skl", Some((window, u64::MAX)))
            .1
            .instructions
            .is_empty()
    );
}

#[test]
fn cycles_of_instructions_are_those_between_retirements() {
    for cpu in ["ivb", "skl", "glc"] {
        let (report, told) = run(cpu, Some((ALL, u64::MAX)));
        let mut expected = vec![0; told.codes.len()];
        let mut last = 0;
        for (code, instruction) in told.executed.iter().zip(&told.instructions) {
            expected[*code as usize] += instruction.2 - last;
            last = instruction.2;
        }
        let result = &report.cpus[0];
        let mut sum = 0;
        for block in &result.blocks {
            let all = || block.listing.iter();
            assert_eq!(block.cycles, all().map(|i| i.cycles).sum::<u64>(), "{cpu}");
            assert_eq!(block.listing.len(), block.code.len());
            for instruction in all() {
                let address = u64::from_str_radix(&instruction.address[2..], 16).unwrap();
                let code = told.codes.iter().position(|code| code.0 == address);
                assert_eq!(instruction.cycles, expected[code.unwrap()], "{cpu}");
            }
            sum += block.cycles;
        }
        assert_eq!(sum, result.cycles, "{cpu}");
    }
}

#[test]
fn listings_say_where_instructions_execute() {
    let (report, _) = run("skl", None);
    let blocks = &report.cpus[0].blocks;
    let block = blocks.iter().find(|b| b.address == "0x1000").unwrap();
    let ports: Vec<&str> = block.listing.iter().map(|i| i.ports.as_str()).collect();
    assert_eq!(ports, ["1*p0156", "1*p1", "1*p6"]);
    let uops: Vec<u16> = block.listing.iter().map(|i| i.uops).collect();
    assert_eq!(uops, [1, 1, 1]);
    let imul = &block.listing[1].port_uops;
    assert!((imul[1] - 1.0).abs() < 1e-9, "{imul:?}");
    let call = blocks.iter().find(|b| b.address == "0x1009").unwrap();
    assert_eq!(call.listing[0].ports, "1*p237+1*p4");
}

#[test]
fn the_hottest_window_is_a_part_of_the_whole_around_the_hottest_block() {
    for cpu in ["snb", "skl", "glc"] {
        let (_, all) = run(cpu, Some((ALL, u64::MAX)));
        for length in [1, 20, 64, 1000] {
            let window = Window::Hottest(length);
            let (report, told) = run(cpu, Some((window, u64::MAX)));
            let first = told.instructions[0].0;
            let begin = all.instructions.iter().position(|i| i.0 == first).unwrap();
            let end = begin + told.instructions.len();
            assert_eq!(told.instructions[..], all.instructions[begin..end], "{cpu}");
            let expected = length.max(2);
            assert_eq!(told.instructions.len() as u64, expected, "{cpu}");
            // The block is the report's first, and its execution ends in the middle.
            let hottest = &report.cpus[0].blocks[0];
            let ending = told.executed[told.executed.len() / 2 - 1];
            let ends = hottest.listing.iter().rev();
            let mut ends = ends.filter(|i| i.uops > 0).map(|i| &i.address);
            let address = format!("{:#x}", told.codes[ending as usize].0);
            assert_eq!(ends.next(), Some(&address), "{cpu}, {length}");
            // Not the first round.
            assert!(first > 1000, "{cpu}: {first}");
            assert_eq!(told.end, all.end, "{cpu}");
        }
        let (_, cut) = run(cpu, Some((Window::Hottest(64), 10)));
        assert_eq!(cut.instructions.len(), 10);
    }
}
