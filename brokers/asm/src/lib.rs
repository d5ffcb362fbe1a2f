//! Broker that feeds assembly text, ELF code or hex bytes: each region's basic blocks, straight
//! through, a number of times.
//!
//! Nothing is executed. Branches are taken as if each led to the next instruction and the last
//! one back to the region's begin; there are no memory addresses, so records carry no accesses.

mod config;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcad_assemble::{BasicBlock, Region, basic_blocks};
use mcad_broker_abi::{Broker, Config, Features, StopFn};
use mcad_proto::event::{Arch, BlockDef, EndReason, Event, RegionDef, SessionInfo};
use mcad_proto::word::{BlockId, GuestAddr, StreamId, block_word};

use config::Settings;

mcad_broker_abi::export_broker!(Asm);

/// Record words handed out at once.
const WORDS: usize = 1 << 15;

/// Regions of code without a base address are placed in steps of this, so that each keeps its
/// offset in cache lines and decode windows.
const PLACE_STEP: u64 = 4096;

/// Input that is being delivered.
pub struct Asm {
    name: String,
    regions: Vec<Placed>,
    repeat: u64,
    state: State,
    words: Vec<u64>,
    stopped: Arc<AtomicBool>,
}

struct Placed {
    region: Region,
    address: u64,
    blocks: Vec<BasicBlock>,
    /// Id of the first block.
    first: u32,
}

/// What is delivered next; indices are of regions and blocks.
#[derive(Clone, Copy)]
enum State {
    Session,
    Stream,
    Region(usize),
    Block(usize, usize),
    /// Block `.1` of repetition `.2` of region `.0`.
    Records(usize, usize, u64),
    StreamEnd,
    End,
    Done,
}

const STREAM: StreamId = StreamId(0);

impl Broker for Asm {
    const NAME: &'static str = "asm";
    const HELP: &'static str = config::HELP;
    const FEATURES: Features = Features::NONE;

    fn open(config: &Config) -> Result<Self, String> {
        let settings = Settings::read(config)?;
        let regions = settings.regions().map_err(|e| e.to_string())?;
        let mut placed = Vec::with_capacity(regions.len());
        let mut next_address = settings.base.unwrap_or(config::BASE);
        let mut first = 0u32;
        for region in regions {
            let blocks = basic_blocks(&region).map_err(|e| format!("{}: {e}", settings.name))?;
            let address = if region.linked && settings.base.is_none() {
                region.address
            } else {
                let address = next_address.wrapping_add(region.address % PLACE_STEP);
                let end = address.wrapping_add(region.bytes.len() as u64);
                next_address = end.wrapping_add(PLACE_STEP - 1) / PLACE_STEP * PLACE_STEP;
                address
            };
            let count = blocks.len() as u32;
            placed.push(Placed {
                region,
                address,
                blocks,
                first,
            });
            first += count;
        }
        Ok(Self {
            name: settings.name,
            regions: placed,
            repeat: settings.repeat,
            state: State::Session,
            words: Vec::new(),
            stopped: Arc::default(),
        })
    }

    fn next(&mut self, _: Duration) -> Result<Option<Event<'_>>, String> {
        let event = match self.state {
            State::Session => {
                self.state = State::Stream;
                Event::Session(SessionInfo {
                    arch: Arch::X86_64,
                    producer: format!("asm {}: {}", env!("CARGO_PKG_VERSION"), self.name),
                    command: Vec::new(),
                    memory: false,
                })
            }
            State::Stream => {
                self.state = State::Region(0);
                Event::StreamStart(STREAM)
            }
            State::Region(index) => {
                let placed = &self.regions[index];
                self.state = match index + 1 < self.regions.len() {
                    true => State::Region(index + 1),
                    false => State::Block(0, 0),
                };
                Event::Region(RegionDef {
                    name: match &*placed.region.name {
                        "" => format!("code {}", index + 1),
                        name => name.to_owned(),
                    },
                    start: GuestAddr(placed.address),
                    end: GuestAddr(
                        placed
                            .address
                            .wrapping_add(placed.region.bytes.len() as u64),
                    ),
                })
            }
            State::Block(index, number) => {
                self.state = match self.regions[index].blocks.len() {
                    count if number + 1 < count => State::Block(index, number + 1),
                    _ if index + 1 < self.regions.len() => State::Block(index + 1, 0),
                    _ => State::Records(0, 0, 0),
                };
                let placed = &self.regions[index];
                let block = &placed.blocks[number];
                Event::Block(BlockDef {
                    id: BlockId(placed.first + number as u32),
                    address: GuestAddr(placed.address.wrapping_add(block.offset as u64)),
                    instructions: block.instructions,
                    bytes: &placed.region.bytes[block.offset..block.offset + block.length],
                })
            }
            State::Records(index, number, repetition) => {
                if self.stopped.load(Ordering::Relaxed) {
                    self.state = State::Done;
                    let what = format!("stopped on request in repetition {}", repetition + 1);
                    return Ok(Some(Event::End(EndReason::Truncated(what))));
                }
                self.records(index, number, repetition);
                Event::Records {
                    stream: STREAM,
                    words: &self.words,
                }
            }
            State::StreamEnd => {
                self.state = State::End;
                Event::StreamEnd(STREAM)
            }
            State::End => {
                self.state = State::Done;
                Event::End(EndReason::Complete)
            }
            State::Done => return Err("nothing follows the end".into()),
        };
        Ok(Some(event))
    }

    fn stopper(&self) -> Option<StopFn> {
        let stopped = Arc::clone(&self.stopped);
        Some(Arc::new(move || stopped.store(true, Ordering::Relaxed)))
    }
}

impl Asm {
    /// Fills `words` from this place on and moves the state behind them.
    fn records(&mut self, mut index: usize, mut number: usize, mut repetition: u64) {
        self.words.clear();
        while self.words.len() < WORDS {
            let placed = &self.regions[index];
            self.words
                .push(block_word(BlockId(placed.first + number as u32)));
            number += 1;
            if number < placed.blocks.len() {
                continue;
            }
            number = 0;
            repetition += 1;
            if repetition < self.repeat {
                continue;
            }
            repetition = 0;
            index += 1;
            if index == self.regions.len() {
                self.state = State::StreamEnd;
                return;
            }
        }
        self.state = State::Records(index, number, repetition);
    }
}
