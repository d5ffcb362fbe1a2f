//! How often the pipeline's state recurs in a recorded program: what reuse of states could save.
//!
//! `cargo bench -p mcad-core --bench recurrence -- TRACE [CPU…]`. At the end of each executed block
//! the whole state (`pipeline::state`: all that timing depends on, without what caches and
//! predictors hold) is looked for among those before. *State* is how many instructions begin from a
//! state that was seen before; *way* how many lie between two states of which the second came behind
//! the first before, which is what a memory of states and their successors could replay. Either is
//! told for a table of 65 536 places and for one without end.

#![allow(clippy::print_stdout)] // a program, whose output this is

mod support;

use std::fs::File;
use std::io::BufReader;

use mcad_core::pipeline::inst::Inst;
use mcad_core::pipeline::observer::{Retired, UopStamps};
use mcad_core::pipeline::state::{Fingerprint, State};
use mcad_core::simulation::core::{Core, Watch};
use mcad_core::simulation::dictionary::{Dictionary, TranslatedBlock};
use mcad_core::simulation::execution::{Assembler, Execution};
use mcad_isa::machine;
use mcad_proto::event::Event;
use mcad_proto::trace::TraceReader;
use mcad_proto::word::StreamId;
use rustc_hash::FxHashSet;
use support::{Failure, each_cpu};

/// Places of the bounded tables.
const PLACES: usize = 1 << 16;

/// Keys that were seen before, and how many instructions that was so for.
struct Seen {
    places: Vec<u64>,
    all: FxHashSet<u64>,
    /// Whether the last key was in either.
    found: [bool; 2],
    instructions: [u64; 2],
}

impl Seen {
    fn new() -> Self {
        Self {
            places: vec![0; PLACES],
            all: FxHashSet::default(),
            found: [false; 2],
            instructions: [0; 2],
        }
    }

    fn look_up(&mut self, key: u64) {
        let place = (key >> 40) as usize % PLACES;
        let kept = std::mem::replace(&mut self.places[place], key);
        self.found = [kept == key, !self.all.insert(key)];
    }

    /// So many instructions are told by the last key.
    fn count(&mut self, instructions: u64) {
        for (sum, found) in self.instructions.iter_mut().zip(self.found) {
            *sum += if found { instructions } else { 0 };
        }
    }
}

/// Watches one thread.
struct Recurrence {
    block_ended: bool,
    instructions: u64,
    all: u64,
    last: Fingerprint,
    states: Seen,
    ways: Seen,
}

impl Default for Recurrence {
    fn default() -> Self {
        Self {
            block_ended: true,
            instructions: 0,
            all: 0,
            last: Fingerprint::default(),
            states: Seen::new(),
            ways: Seen::new(),
        }
    }
}

impl Watch for Recurrence {
    const UOPS: bool = false;
    const STATES: bool = true;

    fn uop(&mut self, _: UopStamps) {}

    fn retired(&mut self, inst: &Inst, _: Retired) {
        self.instructions += 1;
        self.block_ended |= inst.tag != 0;
    }

    fn wants_state(&self) -> bool {
        self.block_ended
    }

    fn state(&mut self, state: State) {
        self.block_ended = false;
        let count = std::mem::take(&mut self.instructions);
        self.all += count;
        self.states.count(count);
        self.states.look_up(state.fingerprint.value());
        let mut way = self.last;
        way.add(state.fingerprint.value());
        self.ways.look_up(way.value());
        self.ways.count(count);
        self.last = state.fingerprint;
    }
}

fn run(trace: &str, cpu: &str) -> Result<(), Failure> {
    let mut core: Core<Recurrence> = Core::new(machine::cpu(cpu)?);
    let mut reader = TraceReader::new(BufReader::new(File::open(trace)?), trace)?;
    let (mut dictionary, mut assembler) = (Dictionary::default(), None);
    // Threads after the first are left out.
    let mut thread = None;
    while let Some(event) = reader.next()? {
        match event {
            Event::Session(info) => {
                dictionary = Dictionary::new(info.arch);
                assembler = Some(Assembler::new(info.memory));
            }
            Event::Block(def) => {
                if let Some(decoded) = dictionary.define(&def)? {
                    core.define(def.id, &decoded);
                }
            }
            Event::Records { stream, words } if *thread.get_or_insert(stream) == stream => {
                let mut execute = |block: &TranslatedBlock, execution: &Execution<'_>| {
                    core.execute(stream.into(), block, execution, true, &[], &dictionary);
                };
                let Some(assembler) = &mut assembler else {
                    continue;
                };
                for word in words {
                    let taken = assembler.word(*word, &dictionary, &mut execute);
                    taken.map_err(|bad| format!("{trace} has a bad record: {bad:?}"))?;
                }
            }
            _ => {}
        }
    }
    let stream: StreamId = thread.ok_or("nothing was executed")?;
    let watched = core.end_thread(stream.into(), &[], &dictionary);
    let found = watched.ok_or("the thread is gone")?;
    let of_all = |part: u64| 100.0 * part as f64 / found.all.max(1) as f64;
    let print = |what: &str, seen: &Seen| {
        let [kept, all] = seen.instructions.map(of_all);
        let different = seen.all.len();
        println!("{cpu}: {what} {kept:5.1} % in {PLACES} places, {all:5.1} % in {different}");
    };
    print("state", &found.states);
    print("way  ", &found.ways);
    Ok(())
}

fn main() -> Result<(), Failure> {
    each_cpu("recurrence", run)
}
