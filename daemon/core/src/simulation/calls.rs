//! Call stacks: which cycles were spent on which path of calls.
//!
//! A shadow stack for each thread follows the blocks as they retire: a call pushes a frame with the
//! address that it comes back to, a return takes frames off up to the one that comes back to where
//! the thread is then. One that comes back to nowhere known (a coroutine, a signal's handler) takes
//! none. A jump to code that is also called, or to where only the running program knows (stubs of
//! dynamic linking), is a call in the place of the caller: its frame takes that one's place.
//!
//! Memory is bounded by [`MAX_PATHS`] and [`MAX_DEPTH`]: what lies beyond is counted for the caller.

use mcad_proto::word::{BlockId, GuestAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::dictionary::{Dictionary, Ending, TranslatedBlock};

/// Most paths that are told apart.
const MAX_PATHS: usize = 1 << 16;
/// Most frames of a thread.
const MAX_DEPTH: usize = 512;

/// A path of calls, and what was spent at its end.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// The path to its caller; the root is its own.
    pub caller: u32,
    /// The first block of the last function called.
    pub entry: BlockId,
    /// Cycles, callees' left out.
    pub cycles: u64,
}

/// The paths of all threads; the first is the root, where nothing is spent.
#[derive(Debug)]
pub struct Calls {
    paths: Vec<Path>,
    by_entry: FxHashMap<(u32, BlockId), u32>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            paths: vec![Path {
                caller: 0,
                entry: BlockId(0),
                cycles: 0,
            }],
            by_entry: FxHashMap::default(),
        }
    }
}

impl Calls {
    /// All paths, callers before what they call.
    #[must_use]
    pub fn paths(&self) -> &[Path] {
        &self.paths
    }

    fn path(&mut self, caller: u32, entry: BlockId) -> u32 {
        if let Some(path) = self.by_entry.get(&(caller, entry)) {
            return *path;
        }
        if self.paths.len() >= MAX_PATHS {
            return caller;
        }
        let path = self.paths.len() as u32;
        self.paths.push(Path {
            caller,
            entry,
            cycles: 0,
        });
        self.by_entry.insert((caller, entry), path);
        path
    }
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    path: u32,
    /// Where it comes back to.
    back: GuestAddr,
}

/// How the last block was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// There was none.
    Never,
    Plain,
    /// By a jump that nothing goes past.
    Jump {
        /// It is to where only the running program knows.
        anywhere: bool,
    },
    Call(GuestAddr),
    Return,
}

/// A thread's frames.
#[derive(Debug)]
pub struct Stack {
    frames: Vec<Frame>,
    /// First blocks of what this thread has called: what others have, depends on who was quicker.
    called: FxHashSet<BlockId>,
    /// Calls beyond the greatest depth.
    beyond: u64,
    left: Left,
}

impl Default for Stack {
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            called: FxHashSet::default(),
            beyond: 0,
            left: Left::Never,
        }
    }
}

impl Stack {
    /// A block retired and took so many cycles.
    pub fn retired(
        &mut self,
        calls: &mut Calls,
        dictionary: &Dictionary,
        id: BlockId,
        cycles: u64,
    ) {
        let Some(block) = dictionary.get(id) else {
            return;
        };
        match self.left {
            Left::Plain => {}
            Left::Never => self.push(calls, id, GuestAddr(0)),
            Left::Call(back) => {
                self.called.insert(id);
                self.push(calls, id, back);
            }
            Left::Jump { anywhere } => {
                if anywhere || self.called.contains(&id) {
                    self.replace(calls, id);
                }
            }
            Left::Return => self.take_off(block.address),
        }
        let path = self.frames.last().map_or(0, |frame| frame.path);
        if let Some(path) = calls.paths.get_mut(path as usize) {
            path.cycles += cycles;
        }
        self.left = left_by(block);
    }

    fn push(&mut self, calls: &mut Calls, entry: BlockId, back: GuestAddr) {
        if self.frames.len() >= MAX_DEPTH {
            self.beyond += 1;
            return;
        }
        let caller = self.frames.last().map_or(0, |frame| frame.path);
        let path = calls.path(caller, entry);
        self.frames.push(Frame { path, back });
    }

    fn replace(&mut self, calls: &mut Calls, entry: BlockId) {
        if self.beyond > 0 {
            return;
        }
        if let Some(frame) = self.frames.last_mut() {
            let caller = calls.paths.get(frame.path as usize).map_or(0, |p| p.caller);
            frame.path = calls.path(caller, entry);
        }
    }

    fn take_off(&mut self, to: GuestAddr) {
        if self.beyond > 0 {
            self.beyond -= 1;
            return;
        }
        // The outermost frame comes back to nowhere.
        let inner = self.frames.get(1..).unwrap_or(&[]);
        if let Some(at) = inner.iter().rposition(|frame| frame.back == to) {
            self.frames.truncate(at + 1);
        }
    }
}

fn left_by(block: &TranslatedBlock) -> Left {
    match block.ending {
        Ending::Call => Left::Call(block.end),
        Ending::Return => Left::Return,
        Ending::Plain if block.falls_through => Left::Plain,
        Ending::Plain => Left::Jump {
            anywhere: block.leaves_anywhere,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_proto::event::{Arch, BlockDef};

    /// Blocks of one instruction: at 0x10 a call, at 0x20 one that falls through, and so on.
    struct Code(Dictionary);

    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0];
    const RETURN: &[u8] = &[0xc3];
    const NOP: &[u8] = &[0x90];
    /// jmp rax.
    const ANYWHERE: &[u8] = &[0xff, 0xe0];
    const JUMP: &[u8] = &[0xeb, 0];

    impl Code {
        fn new(blocks: &[(u64, &[u8])]) -> Self {
            let mut dictionary = Dictionary::new(Arch::X86_64);
            for (id, (address, bytes)) in (0..).zip(blocks) {
                let def = BlockDef {
                    id: BlockId(id),
                    address: GuestAddr(*address),
                    instructions: 1,
                    bytes,
                };
                dictionary.define(&def).unwrap();
            }
            Self(dictionary)
        }

        /// Cycles by path of entries, of blocks that take a cycle each.
        fn run(&self, order: &[u32]) -> Vec<(Vec<u32>, u64)> {
            let mut calls = Calls::default();
            let mut stack = Stack::default();
            for id in order {
                stack.retired(&mut calls, &self.0, BlockId(*id), 1);
            }
            let entries = |mut path: u32| {
                let mut entries = Vec::new();
                while path != 0 {
                    let at = calls.paths[path as usize];
                    entries.insert(0, at.entry.0);
                    path = at.caller;
                }
                entries
            };
            let mut spent: Vec<_> = (0..calls.paths.len())
                .map(|n| (entries(n as u32), calls.paths[n].cycles))
                .filter(|(_, cycles)| *cycles > 0)
                .collect();
            spent.sort();
            spent
        }
    }

    #[test]
    fn calls_nest_and_come_back() {
        // 0 calls 2 and goes on at 1; 2 calls 4 and goes on at 3.
        let blocks: [(u64, &[u8]); 5] = [
            (0x10, CALL),
            (0x15, NOP),
            (0x20, CALL),
            (0x25, RETURN),
            (0x30, RETURN),
        ];
        let code = Code::new(&blocks);
        let spent = code.run(&[0, 2, 4, 3, 1, 0, 2, 4, 3, 1]);
        let expected = [(vec![0], 4), (vec![0, 2], 4), (vec![0, 2, 4], 2)];
        assert_eq!(spent, expected);
        // A long jump: 4 comes back to 1 at once, past 2.
        let spent = code.run(&[0, 2, 4, 1]);
        let expected = [(vec![0], 2), (vec![0, 2], 1), (vec![0, 2, 4], 1)];
        assert_eq!(spent, expected);
        // It comes back to nowhere known: the frame stays.
        let spent = code.run(&[0, 2, 4, 2]);
        let expected = [(vec![0], 1), (vec![0, 2], 1), (vec![0, 2, 4], 2)];
        assert_eq!(spent, expected);
    }

    #[test]
    fn tail_calls_take_the_callers_place() {
        // 0 calls the stub 2, which jumps to 3, which jumps to 4: called before, or a loop's body.
        let blocks: [(u64, &[u8]); 6] = [
            (0x10, CALL),
            (0x15, NOP),
            (0x20, ANYWHERE),
            (0x30, JUMP),
            (0x40, RETURN),
            (0x15, CALL),
        ];
        let code = Code::new(&blocks);
        let loops = code.run(&[0, 2, 3, 4, 1]);
        assert_eq!(loops, [(vec![0], 2), (vec![0, 2], 1), (vec![0, 3], 2)]);
        let tail = code.run(&[0, 4, 5, 2, 3, 4]);
        let expected = [
            (vec![0], 2),
            (vec![0, 2], 1),
            (vec![0, 3], 1),
            (vec![0, 4], 2),
        ];
        assert_eq!(tail, expected);
    }

    #[test]
    fn depth_is_bounded_and_comes_back() {
        let blocks: [(u64, &[u8]); 3] = [(0x10, CALL), (0x15, RETURN), (0x30, NOP)];
        let code = Code::new(&blocks);
        let deep = MAX_DEPTH * 3;
        let order: Vec<u32> = [vec![0; deep], vec![1; deep], vec![2]].concat();
        let spent = code.run(&order);
        assert_eq!(spent.len(), MAX_DEPTH);
        assert_eq!(
            spent.iter().map(|(_, cycles)| cycles).sum::<u64>(),
            2 * deep as u64 + 1
        );
    }
}
