//! What Zen 5's predictor takes for an indirect branch with several targets (docs/BRANCHES.md, "Chosen targets"). The figures are the
//! host's: the least of 160 runs of 3 000 turns.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

const LINE: u64 = 64;
/// A jump by register, alone in its line.
const DISPATCH: u64 = 0x40_0000;
/// Where its targets are, each with lines for jumps of its own.
const HANDLERS: u64 = DISPATCH + 0x100;
const ROOM: u64 = 16 * LINE;
/// Where turns end.
const END: u64 = DISPATCH + 0x40;
/// A jump there.
const LAST: u64 = DISPATCH + 0xc0;

/// Code by blocks, with the order in which they are executed.
#[derive(Default)]
struct Code {
    blocks: Vec<(u64, u16, Vec<u8>)>,
    order: Vec<u64>,
}

impl Code {
    /// Executes the block there, which is these instructions.
    fn execute(&mut self, at: u64, (instructions, bytes): (u16, Vec<u8>)) {
        if !self.blocks.iter().any(|block| block.0 == at) {
            self.blocks.push((at, instructions, bytes));
        }
        let known = self.blocks.iter().position(|block| block.0 == at);
        self.order
            .push(block_word(BlockId(known.unwrap_or(0) as u32)));
    }

    /// Ends a turn and goes to `first` by a jump in the line behind.
    fn end(&mut self, first: u64) {
        // dec r15; jnz
        let back = near(&[0x0f, 0x85], END + 3, END + LINE);
        self.execute(END, (2, [&[0x49, 0xff, 0xcf][..], &back].concat()));
        self.jumps(END + LINE, 1, first);
    }

    /// Jumps through lines from `at`, so many, to `to`.
    fn jumps(&mut self, at: u64, lines: u64, to: u64) {
        for n in 0..lines {
            let from = at + n * LINE;
            let next = if n + 1 == lines { to } else { from + LINE };
            self.execute(from, (1, near(&[0xe9], from, next)));
        }
    }
}

fn near(opcode: &[u8], from: u64, to: u64) -> Vec<u8> {
    let distance = to as i64 - (from as i64 + opcode.len() as i64 + 4);
    [opcode, &(distance as i32).to_le_bytes()].concat()
}

/// Cycles of a turn in which the jump goes to these handlers in order, and then ends the turn; each jumps back to it through so many lines.
fn turn(handlers: &[u64], lines: u64) -> f64 {
    let mut code = Code::default();
    let jump = (1, vec![0xff, 0xe0]);
    for n in handlers {
        code.execute(DISPATCH, jump.clone());
        code.jumps(HANDLERS + n * ROOM, lines, DISPATCH);
    }
    code.execute(DISPATCH, jump);
    code.end(DISPATCH);
    cycles(&code)
}

fn cycles(code: &Code) -> f64 {
    let run = |turns: usize| {
        let words = code.order.repeat(turns);
        support::run("zen5", Arch::X86_64, &code.blocks, &words).cpus[0].cycles
    };
    (run(400) - run(200)) as f64 / 200.0
}

/// It takes three cycles where the branch before does not tell where it goes, whatever the histories know.
#[test]
fn a_jump_that_goes_elsewhere_takes_two_cycles_more() {
    // Cycles for each of eight more times that it goes to the same handler, which comes back through so many lines.
    for (lines, natively) in [(1, 3.0), (2, 4.0), (3, 4.0), (4, 5.0), (5, 5.0)] {
        let found = (turn(&[0; 16], lines) - turn(&[0; 8], lines)) / 8.0;
        assert!((found - natively).abs() < 0.05, "{lines}: {found}");
    }
}

/// Where each handler has one that follows it always, the jump takes a cycle, if it is found together with the jump that leads to it,
/// which every second line prevents.
#[test]
fn a_jump_that_what_leads_to_it_tells_is_found_with_that_alone() {
    let each: Vec<u64> = (0..8).collect();
    for (lines, natively) in [
        (1, 11.0),
        (2, 37.0),
        (3, 19.0),
        (4, 43.0),
        (5, 31.0),
        (6, 52.9),
    ] {
        let found = turn(&each, lines);
        assert!(
            (found / natively - 1.0).abs() < 0.14,
            "{lines}: {found}, {natively} natively"
        );
    }
}

/// The same jump for eight places that each lead to one: whether it is the second one of a cycle is told by the lines between.
#[test]
fn a_jump_for_eight_places_takes_two_cycles_more_if_it_begins_a_cycle() {
    for (lines, natively) in [(1, 31.0), (2, 20.0), (3, 39.0), (4, 28.0)] {
        let mut code = Code::default();
        for n in 0..8 {
            let site = HANDLERS + n * ROOM;
            code.jumps(site, 1, DISPATCH);
            code.execute(DISPATCH, (1, vec![0xff, 0xe0]));
            let next = if n == 7 { LAST } else { site + ROOM };
            code.jumps(site + LINE, lines, next);
        }
        code.jumps(LAST, 1, END);
        code.end(HANDLERS);
        let found = cycles(&code);
        assert!(
            (found / natively - 1.0).abs() < 0.08,
            "{lines}: {found}, {natively} natively"
        );
    }
}
