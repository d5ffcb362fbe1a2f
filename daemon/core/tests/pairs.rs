//! What Zen 4's and Zen 5's predictors find together in a cycle, by rows of branches whose calls and returns leave them behind fetch
//! (docs/BRANCHES.md, "Pairs" and "Windows"). The figures are the host's.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

/// How often a row is repeated in a turn of the loop.
const ROWS: usize = 6;
const LINE: u64 = 64;
const START: u64 = 0x40_0000;
/// Where functions are.
const FUNCTIONS: u64 = START + 0x600;

/// Code by blocks, with the order in which they are executed.
#[derive(Default)]
struct Code {
    blocks: Vec<(u64, u16, Vec<u8>)>,
    /// Numbers of blocks; whether they are left out in the first turn.
    order: Vec<(u32, bool)>,
    functions: u64,
}

impl Code {
    fn block(&mut self, at: u64, instructions: u16, bytes: Vec<u8>, later: bool) -> u64 {
        let end = at + bytes.len() as u64;
        self.order.push((self.blocks.len() as u32, later));
        self.blocks.push((at, instructions, bytes));
        end
    }

    fn near(opcode: &[u8], from: u64, to: u64) -> Vec<u8> {
        let distance = to as i64 - (from as i64 + opcode.len() as i64 + 4);
        [opcode, &(distance as i32).to_le_bytes()].concat()
    }

    /// Executes a row from there: `J` a jump to the next line, `I` an indirect one, `L` no-operations up to it, `M` a branch that was
    /// taken in the first turn alone, `Z` one to the next line but one with a jump there behind it, `j` a jump over two no-operations, `X` a jump
    /// to the next line but one whose last byte is in the next line, `(` a call and `)` a return.
    /// Gives where it ends.
    fn row(&mut self, mut at: u64, row: &mut std::str::Chars<'_>) -> u64 {
        let next_line = |at: u64| (at / LINE + 1) * LINE;
        while let Some(letter) = row.next() {
            at = match letter {
                'J' => {
                    self.block(at, 1, Self::near(&[0xe9], at, next_line(at)), false);
                    next_line(at)
                }
                // jmp rax
                'I' => {
                    self.block(at, 1, vec![0xff, 0xe0], false);
                    next_line(at)
                }
                'L' => self.fill(at, next_line(at)),
                'M' => {
                    let end = self.block(at, 1, vec![0x75, 2], false);
                    self.block(end, 2, vec![0x90, 0x90], true)
                }
                'Z' => {
                    let to = next_line(at) + LINE;
                    let end = self.block(at, 1, Self::near(&[0x0f, 0x85], at, to), false);
                    self.block(end, 1, Self::near(&[0xe9], end, to), true);
                    to
                }
                'j' => {
                    let end = self.block(at, 1, vec![0xeb, 2], false);
                    end + 2
                }
                'X' => {
                    let jump = next_line(at) - 2;
                    let from = self.fill(at, jump);
                    let to = next_line(at) + LINE;
                    self.block(from, 1, Self::near(&[0xe9], from, to), false);
                    to
                }
                '(' => {
                    let function = FUNCTIONS + 4 * LINE * self.functions;
                    self.functions += 1;
                    let end = self.block(at, 1, Self::near(&[0xe8], at, function), false);
                    self.row(function, row);
                    end
                }
                ')' => return self.block(at, 1, vec![0xc3], false),
                other => unreachable!("no letter: {other}"),
            };
        }
        at
    }

    /// No-operations of up to eight bytes.
    fn fill(&mut self, from: u64, to: u64) -> u64 {
        const NOP: [u8; 8] = [0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        let bytes = (to - from) as usize;
        let mut code = NOP.repeat(bytes / 8);
        code.extend([0x90].repeat(bytes % 8));
        self.block(from, (bytes / 8 + bytes % 8) as u16, code, false)
    }
}

/// Cycles of a row.
fn cycles(cpu: &str, row: &str) -> f64 {
    let mut code = Code::default();
    let mut at = START;
    for _ in 0..ROWS {
        at = code.row(at, &mut row.chars());
    }
    // dec rdi; jnz
    let back = Code::near(&[0x48, 0xff, 0xcf, 0x0f, 0x85], at, START);
    code.block(at, 2, back, false);
    let turn = |first: bool| {
        let ids = code
            .order
            .iter()
            .filter(move |(_, later)| !(first && *later));
        ids.map(|(id, _)| block_word(BlockId(*id)))
    };
    let run = |turns: usize| {
        let later: Vec<u64> = turn(false).collect();
        let words: Vec<u64> = turn(true).chain(later.repeat(turns)).collect();
        support::run(cpu, Arch::X86_64, &code.blocks, &words).cpus[0].cycles
    };
    (run(240) - run(120)) as f64 / 120.0 / ROWS as f64
}

fn holds(cpu: &str, row: &str, measured: f64) {
    let found = cycles(cpu, row);
    assert!(
        (found / measured - 1.0).abs() < 0.05,
        "{cpu}, {row}: {found}, {measured} natively"
    );
}

#[test]
fn rows_of_branches_take_what_they_take_natively() {
    for (row, measured) in [
        ("()", 4.17),
        // The second of two may be a call, a return, an indirect branch, or the next line.
        ("J()", 4.17),
        ("(J)", 4.17),
        ("J(J)", 4.17),
        ("(JI)", 5.18),
        ("JL()", 5.18),
        ("(JL)", 5.18),
        // The first of two is a direct branch that is no second one.
        ("JJ()", 5.03),
        ("(JJ)", 5.18),
        ("(JJJ)", 5.18),
        ("J(JJJ)", 6.18),
        ("J((J)J)", 8.18),
        ("J(J(J)J)J", 9.18),
        ("I()", 5.02),
        ("(IJ)", 5.18),
        ("(JIJ)", 5.18),
        ("L()", 5.02),
        ("LJ()", 5.02),
        ("JLJ()", 5.18),
        // A branch that is passed goes with what is behind it.
        ("M()", 4.18),
        ("(M)", 4.17),
        ("MJ()", 5.01),
        ("JM()", 5.01),
        ("(JM)", 5.03),
        ("JMJM()", 5.06),
        ("MJJJ()", 6.01),
        ("LMJ()", 5.86),
        // A branch needs the line of its last byte.
        ("X", 2.17),
    ] {
        holds("zen4", row, measured);
    }
}

#[test]
fn rows_of_branches_take_what_they_take_on_zen_5() {
    for (row, measured) in [
        // Two windows a cycle, the second one where a direct branch goes.
        ("J", 0.59),
        ("I", 1.0),
        ("()", 4.0),
        ("J()", 4.16),
        ("(J)", 3.99),
        ("J(J)", 4.16),
        ("JJ()", 5.0),
        ("(JJ)", 5.0),
        ("(JJJ)", 4.99),
        ("J((J)J)", 8.16),
        ("J(J(J)J)J", 8.99),
        ("I()", 4.99),
        ("(JI)", 5.0),
        ("(IJ)", 5.0),
        ("(JIJ)", 5.0),
        // A line that is left in order is read alone.
        ("LJ", 2.0),
        ("LJJ", 2.16),
        ("LJJJ", 3.0),
        ("LLJ", 3.0),
        ("JLJLJ", 4.16),
        // The first one goes on into a second line.
        ("(L)", 3.99),
        ("(LL)", 5.0),
        ("(LLL)", 5.0),
        ("(LLLL)", 5.99),
        ("(LJ)", 4.0),
        ("(JL)", 4.99),
        ("(JLL)", 5.0),
        // A window ends at a branch that is passed as at one that is taken; here with the figures of branches that are taken at
        // random once in 1 024 turns.
        ("(M)", 4.02),
        ("(MM)", 5.04),
        ("(MMM)", 5.06),
        ("(MMMMMM)", 7.14),
        ("MM()", 5.04),
        ("JM()", 5.01),
        ("(JM)", 5.01),
        ("(MJ)", 5.01),
        ("(MJJ)", 5.02),
        ("(MMJ)", 5.04),
        ("(MJM)", 5.04),
        ("(MJMJ)", 6.04),
        ("(JMMMM)", 6.1),
        ("(LM)", 4.02),
        ("(ML)", 5.02),
        ("(MLM)", 5.04),
        ("(Z)", 5.01),
        ("(ZZ)", 6.04),
        ("(ZZZ)", 7.07),
        ("(ZJ)", 5.02),
        ("(JZ)", 5.02),
        ("(JZJ)", 6.02),
        ("(ZJJ)", 6.02),
        ("(JZZJ)", 7.04),
        ("(ZJZ)", 6.05),
    ] {
        holds("zen5", row, measured);
    }
}
