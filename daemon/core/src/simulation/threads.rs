//! What there is of each thread, or interval of a thread, that is simulated: of those that worked
//! lately as it is, of the others folded ([`crate::pipeline::fold`]).
//!
//! A core at work takes a megabyte and more, most of it tables that a short-lived thread hardly
//! writes to. Which threads are folded shows in no result.

use rustc_hash::FxHashMap;

use super::core::Part;
use crate::pipeline::fold::{Empty, Folded};

/// Threads that are kept as they are. With more at work in turns each turn costs a fold, some tenths
/// of a millisecond.
const AWAKE: usize = 16;

/// What can be folded.
pub trait Folds {
    /// Keeps only what its tables have, and gives the tables away.
    fn fold(&mut self) -> (Folded, Empty);

    /// Goes on from where it was folded, with these tables if there are any.
    fn unfold(&mut self, folded: Folded, empty: Empty);
}

struct Kept<T> {
    thread: Box<T>,
    folded: Option<Folded>,
}

/// A thread that begins, with the tables of one that was folded for it.
#[cold]
fn begin<T: Folds>(mut thread: T, spare: &mut Option<Empty>) -> Box<T> {
    if let Some(tables) = spare.take() {
        let (folded, _) = thread.fold();
        thread.unfold(folded, tables);
    }
    Box::new(thread)
}

/// All threads that live.
pub struct Threads<T> {
    /// The one that worked last, which works next more often than not.
    now: Option<(Part, Box<T>)>,
    /// The others.
    all: FxHashMap<Part, Kept<T>>,
    /// Those that are not folded, and may have ended; worked last, last.
    awake: Vec<Part>,
    most_awake: usize,
    /// Tables of a thread that was folded for one that is to begin.
    spare: Option<Empty>,
}

impl<T> Default for Threads<T> {
    fn default() -> Self {
        Self {
            now: None,
            all: FxHashMap::default(),
            awake: Vec::new(),
            most_awake: AWAKE,
            spare: None,
        }
    }
}

impl<T: Folds> Threads<T> {
    /// The thread works next, and is `now` if there is one.
    #[inline]
    fn wake(&mut self, part: Part) {
        if !matches!(&self.now, Some((now, _)) if *now == part) {
            self.turn_to(part);
        }
    }

    #[inline(never)]
    fn turn_to(&mut self, part: Part) {
        if let Some((before, thread)) = self.now.take() {
            let folded = None;
            self.all.insert(before, Kept { thread, folded });
        }
        self.awake.retain(|awake| *awake != part);
        let mut tables = None;
        while self.awake.len() >= self.most_awake.max(1) {
            let rests = self.awake.remove(0);
            if let Some(kept) = self.all.get_mut(&rests) {
                let (folded, empty) = kept.thread.fold();
                kept.folded = Some(folded);
                tables = Some(empty);
            }
        }
        self.awake.push(part);
        let Some(mut kept) = self.all.remove(&part) else {
            self.spare = tables.or_else(|| self.spare.take());
            return;
        };
        if let Some(folded) = kept.folded.take() {
            let tables = tables.or_else(|| self.spare.take()).unwrap_or_default();
            kept.thread.unfold(folded, tables);
        }
        self.now = Some((part, kept.thread));
    }

    /// A thread, to work with it.
    pub fn get_mut(&mut self, part: Part) -> Option<&mut T> {
        self.wake(part);
        self.now.as_mut().map(|(_, thread)| &mut **thread)
    }

    /// A thread, to work with it, which is `new` if there is none.
    #[inline]
    pub fn get_or_insert_with(&mut self, part: Part, new: impl FnOnce() -> T) -> &mut T {
        self.wake(part);
        let spare = &mut self.spare;
        let (_, thread) = (self.now).get_or_insert_with(|| (part, begin(new(), spare)));
        thread
    }

    /// A thread begins.
    pub fn insert(&mut self, part: Part, thread: T) {
        self.wake(part);
        self.now = Some((part, begin(thread, &mut self.spare)));
    }

    /// A thread ended; it can still work.
    pub fn remove(&mut self, part: Part) -> Option<T> {
        self.wake(part);
        self.awake.pop();
        self.now.take().map(|(_, thread)| *thread)
    }

    /// All of them, in no order, to ask what they have counted.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        let now = self.now.iter().map(|(_, thread)| &**thread);
        now.chain(self.all.values().map(|kept| &*kept.thread))
    }

    /// All of them, in no order, for what is not in their pipelines' tables.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let now = self.now.iter_mut().map(|(_, thread)| &mut **thread);
        now.chain(self.all.values_mut().map(|kept| &mut *kept.thread))
    }
}

#[cfg(test)]
mod tests {
    use mcad_isa::machine;
    use mcad_proto::event::{Arch, BlockDef, EndReason, Event, SessionInfo};
    use mcad_proto::word::{Access, BlockId, GuestAddr, StreamId, access_word, block_word};
    use mcad_report::Report;

    use crate::simulation::run::Cores;
    use crate::simulation::{AnalysisKind, NoSymbols, Options, Simulation};

    const THREADS: u32 = 6;

    /// A run of threads that take turns, with as many awake.
    fn run(cpu: &str, most_awake: usize) -> Report {
        let mut simulation = Simulation::new(Options {
            cpus: vec![machine::cpu(cpu).unwrap()],
            analyses: vec![AnalysisKind::Pipeline],
            memory: true,
            one_core: false,
        });
        take(
            &mut simulation,
            Event::Session(SessionInfo {
                arch: Arch::X86_64,
                producer: String::new(),
                command: vec![],
                memory: true,
            }),
        );
        // mov rax, [rdi]; mov [rsi], rax; test al, 1; je over the next block, which divides.
        let blocks: [&[u8]; 3] = [
            &[0x48, 0x8b, 0x07, 0x48, 0x89, 0x06, 0xa8, 0x01, 0x74, 0x05],
            &[0x31, 0xd2, 0x48, 0xf7, 0xf1],
            // add rax, rbx; imul rax, rcx; jmp *rdx
            &[0x48, 0x01, 0xd8, 0x48, 0x0f, 0xaf, 0xc1, 0xff, 0xe2],
        ];
        for (n, (bytes, instructions)) in (0..).zip(blocks.into_iter().zip([4, 2, 3])) {
            take(
                &mut simulation,
                Event::Block(BlockDef {
                    id: BlockId(n),
                    address: GuestAddr([0x1000, 0x100a, 0x100f][n as usize]),
                    instructions,
                    bytes,
                }),
            );
        }
        (0..THREADS).for_each(|stream| take(&mut simulation, Event::StreamStart(StreamId(stream))));
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..60 {
            let stream = StreamId(random.u32(0..THREADS));
            let mut words = Vec::new();
            for _ in 0..random.u32(1..400) {
                let mut access = |index, store| {
                    access_word(Access {
                        index,
                        store,
                        size: 8,
                        address: GuestAddr(0x10_0000 + u64::from(random.u16(..)) * 8),
                    })
                };
                words.extend([block_word(BlockId(0)), access(0, false), access(1, true)]);
                if random.bool() {
                    words.push(block_word(BlockId(1)));
                }
                words.push(block_word(BlockId(2)));
            }
            take(
                &mut simulation,
                Event::Records {
                    stream,
                    words: &words,
                },
            );
            // The cores are there when the session has begun.
            if let Cores::Here(cores) = &mut simulation.run.cores {
                cores
                    .iter_mut()
                    .for_each(|c| c.threads.most_awake = most_awake);
            }
        }
        (0..THREADS).for_each(|stream| take(&mut simulation, Event::StreamEnd(StreamId(stream))));
        take(&mut simulation, Event::End(EndReason::Exited(0)));
        simulation.finish(&NoSymbols)
    }

    fn take(simulation: &mut Simulation, event: Event<'_>) {
        simulation.event(&event).unwrap();
    }

    #[test]
    fn who_is_folded_does_not_show() {
        for cpu in ["skl", "glc", "zen5", "ivb", "atom"] {
            let all_awake = run(cpu, THREADS as usize);
            assert!(all_awake.cpus[0].cycles > 10_000);
            for most_awake in [1, 2, 4] {
                assert_eq!(run(cpu, most_awake), all_awake, "{cpu}, {most_awake} awake");
            }
        }
    }
}
