//! Entry points for fuzzers: whatever comes, a simulation ends with a report or an error, and
//! neither panics nor takes memory out of proportion. `fuzz/` runs them under cargo-fuzz,
//! `tests/hostile.rs` with mutated input in the normal test run.

use mcad_isa::machine;
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, ProcessEvent, RegionDef, SessionInfo};
use mcad_proto::trace::TraceReader;
use mcad_proto::word::{Access, BlockId, GuestAddr, ProcessId, StreamId, access_word, block_word};
use mcad_report::Report;

use crate::simulation::{AnalysisKind, NoSymbols, Options, Simulation};

/// A simulation of the CPU that a byte chooses.
fn simulation(choice: u8) -> Option<Simulation> {
    let cpus: Vec<_> = machine::cpus_of(Arch::X86_64).collect();
    let info = cpus.get(usize::from(choice) % cpus.len().max(1))?;
    let options = Options {
        cpus: vec![machine::cpu(info.name).ok()?],
        analyses: vec![AnalysisKind::Pipeline, AnalysisKind::Block],
        memory: choice & 0x80 == 0,
        one_core: false,
    };
    Some(Simulation::new(options))
}

/// Any bytes as a trace file, into a simulation of the CPU that `choice` chooses.
pub fn trace(choice: u8, bytes: &[u8]) -> Option<Report> {
    let mut reader = TraceReader::new(bytes, "fuzz").ok()?;
    let mut simulation = simulation(choice)?;
    while let Ok(Some(event)) = reader.next() {
        if simulation.event(&event).is_err() {
            break;
        }
    }
    Some(simulation.finish(&NoSymbols))
}

/// Takes bytes off the front; zeroes behind the end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number that is often small or at an end of its range, where the mistakes are.
    fn edge(&mut self) -> u64 {
        match self.byte() {
            n @ 0..=199 => 0x1000 + u64::from(n),
            n @ 200..=219 => u64::MAX - u64::from(n - 200),
            n @ 220..=239 => (1 << 47) - u64::from(n - 220),
            _ => self.number(),
        }
    }

    fn bytes(&mut self, most: usize) -> &[u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Mostly one of a few processes, else one at the limit of how many there may be.
fn process(choice: u8) -> u32 {
    match choice {
        0..=250 => u32::from(choice % 7),
        _ => (1 << 16) - 253 + u32::from(choice),
    }
}

/// Any bytes as blocks, records of several threads and processes, and regions.
pub fn events(bytes: &[u8]) -> Option<Report> {
    let mut input = Input(bytes);
    let mut simulation = simulation(input.byte())?;
    let info = SessionInfo {
        arch: Arch::X86_64,
        producer: String::new(),
        command: Vec::new(),
        memory: input.byte() & 1 == 0,
    };
    let mut good = simulation.event(&Event::Session(info)).is_ok();
    let mut blocks = 0;
    while good && !input.0.is_empty() {
        let kind = input.byte();
        let stream = StreamId(u32::from(kind >> 5) % 3);
        good = match kind & 7 {
            0 | 1 => {
                let address = GuestAddr(input.edge());
                let length = usize::from(input.byte() % 64) + 1;
                let code = input.bytes(length).to_vec();
                let instructions = mcad_isa::x86::build::decode(&code, address.0).0.len();
                let block = BlockDef {
                    id: BlockId(blocks),
                    address,
                    instructions: instructions.max(1) as u16,
                    bytes: &code,
                };
                blocks += 1;
                simulation.event(&Event::Block(block)).is_ok()
            }
            2 => simulation.event(&Event::StreamEnd(stream)).is_ok(),
            3 if kind & 8 != 0 => {
                let id = ProcessId(process(input.byte()));
                let what = match input.byte() % 5 {
                    0 => ProcessEvent::Entered,
                    1 => ProcessEvent::Replaced {
                        command: vec![String::new(); usize::from(input.byte() % 3)],
                    },
                    2 => ProcessEvent::Ended(EndReason::Exited(0)),
                    _ => ProcessEvent::Forked {
                        parent: ProcessId(process(input.byte())),
                    },
                };
                simulation.event(&Event::Process { id, what }).is_ok()
            }
            3 if kind & 16 != 0 => simulation.event(&Event::StreamStart(stream)).is_ok(),
            3 => {
                let start = input.edge();
                let region = RegionDef {
                    name: String::new(),
                    start: GuestAddr(start),
                    end: GuestAddr(start.saturating_add(input.edge())),
                };
                simulation.event(&Event::Region(region)).is_ok()
            }
            4 => {
                let lost = Event::Lost {
                    count: input.edge(),
                    reason: String::new(),
                };
                simulation.event(&lost).is_ok()
            }
            _ => {
                let words: Vec<u64> = (0..input.byte() % 32)
                    .map(|_| match input.byte() {
                        n @ 0..=127 => block_word(BlockId(u32::from(n) % blocks.max(1))),
                        n @ 128..=250 => access_word(Access {
                            index: u16::from(n - 128) / 2,
                            store: n & 1 != 0,
                            size: 1 << (n % 7),
                            address: GuestAddr(input.edge()),
                        }),
                        _ => input.number(),
                    })
                    .collect();
                let words = &words;
                simulation.event(&Event::Records { stream, words }).is_ok()
            }
        };
    }
    if good {
        // Whether or not it takes the end, what it has is reported.
        let _ = simulation.event(&Event::End(EndReason::Complete));
    }
    Some(simulation.finish(&NoSymbols))
}
