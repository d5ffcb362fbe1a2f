//! The loop predictor: 32 branches, each in one of four places, that go one way a constant number of
//! times and then once the other.

use super::history::low;

const ENTRIES: usize = 32;
const WAYS: usize = 4;
const SETS_LOG: usize = 3;
const TAG: usize = 10;
const COUNT: usize = 10;
/// Equal loops in a row after which a count is believed, and iterations of them.
const SURE: u32 = 15;
const SURE_ITERATIONS: u32 = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Loop {
    tag: u64,
    count: u32,
    current: u32,
    sure: u32,
    age: u32,
    inside: bool,
}

impl Loop {
    fn forget(&mut self) {
        (self.count, self.current, self.sure, self.age) = (0, 0, 0, 0);
    }
}

/// The predictor.
pub struct Loops(Vec<Loop>);

/// What it says of a branch.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pc: u64,
    at: Option<usize>,
    /// The direction, if the count is believed.
    pub taken: Option<bool>,
}

fn place(pc: u64, way: usize) -> usize {
    let set = pc ^ pc >> 2 ^ (pc >> SETS_LOG & low(SETS_LOG)) >> way;
    (set & low(SETS_LOG)) as usize * WAYS + way
}

fn tag(pc: u64) -> u64 {
    let address = pc >> SETS_LOG;
    (address ^ address >> TAG) & low(TAG)
}

impl Loops {
    /// One that knows nothing.
    pub fn new() -> Self {
        Self(vec![Loop::default(); ENTRIES])
    }

    /// Looks the branch up.
    pub fn predict(&self, pc: u64) -> Counted {
        let mut places = (0..WAYS).map(|way| place(pc, way));
        let at = places.find(|&at| self.0[at].tag == tag(pc));
        let taken = at.map(|at| self.0[at]).and_then(|l| {
            let believed = l.sure == SURE || l.sure * l.count > SURE_ITERATIONS;
            believed.then_some(l.inside != (l.current + 1 == l.count))
        });
        Counted { pc, at, taken }
    }

    /// The branch went `taken`; `wrong`: all together said something else; `needed`: the tables did.
    pub fn update(
        &mut self,
        counted: Counted,
        taken: bool,
        (wrong, needed): (bool, bool),
        random: &mut fastrand::Rng,
    ) {
        let Some(at) = counted.at else {
            if wrong && random.u32(0..4) == 0 {
                self.allocate(counted.pc, taken, random.usize(0..WAYS));
            }
            return;
        };
        let l = &mut self.0[at];
        if let Some(said) = counted.taken {
            if said != taken {
                return l.forget();
            }
            if needed || random.u32(0..8) == 0 {
                l.age = (l.age + 1).min(SURE);
            }
        }
        l.current = (l.current + 1) & low(COUNT) as u32;
        if l.current > l.count {
            (l.sure, l.count) = (0, 0);
        }
        if taken == l.inside {
            return;
        }
        if l.current == l.count {
            l.sure = (l.sure + 1).min(SURE);
            if l.count < 3 {
                // A pattern that history tells better.
                l.forget();
                l.inside = taken;
            }
        } else {
            l.count = if l.count == 0 { l.current } else { 0 };
            l.sure = 0;
        }
        l.current = 0;
    }

    fn allocate(&mut self, pc: u64, taken: bool, way: usize) {
        let l = &mut self.0[place(pc, way)];
        if l.age > 0 {
            l.age -= 1;
            return;
        }
        *l = Loop {
            tag: tag(pc),
            age: 7,
            // Most branches are predicted wrongly at a loop's end.
            inside: !taken,
            ..Loop::default()
        };
    }
}
