//! Rows of code that are entered in the middle of a block and left behind its end, which jump to each other, on Zen 5: what its op cache
//! gives in a cycle (docs/ZEN5.md, "Front end"). The figures are the host's, the least of 120 runs of 4 000 turns.

mod support;

const BLOCK: u64 = 64;
const START: u64 = 0x40_0000;
const ROWS: u64 = 8;

/// Moves between registers that together have so many bytes.
fn moves(count: u64, bytes: u64) -> Vec<u8> {
    let mut code = Vec::new();
    for n in 0..count {
        let len = bytes / count + u64::from(n < bytes % count);
        code.extend(std::iter::repeat_n(0x3e, len as usize - 3));
        code.extend([0x4d, 0x89, [0xe0, 0xe9, 0xf2, 0xe3][n as usize % 4]]);
    }
    code
}

/// Cycles of a turn of eight rows, each entered so many bytes before a block's end, with so many instructions up to there, in each block
/// that follows and, the jump among them, in the last.
fn turn(bytes: u64, instructions: &[u64]) -> f64 {
    let (first, rest) = instructions.split_first().expect("a block");
    let (last, between) = rest.split_last().expect("another");
    let stride = BLOCK * (instructions.len() as u64 + 2);
    let mut blocks = Vec::new();
    for row in 0..ROWS {
        let at = START + row * stride + BLOCK - bytes;
        let mut code = moves(*first, bytes);
        between
            .iter()
            .for_each(|count| code.extend(moves(*count, BLOCK)));
        code.extend(moves(last - 1, (last - 1) * 4));
        let (from, to) = (at + code.len() as u64, at + stride);
        let to = if row + 1 == ROWS {
            START + ROWS * stride
        } else {
            to
        };
        code.extend([&[0xe9], &((to - from - 5) as i32).to_le_bytes()[..]].concat());
        blocks.push((at, instructions.iter().sum::<u64>() as u16, code));
    }
    // dec r15; jnz; and in the line behind a jump to the first row
    let end = START + ROWS * stride;
    blocks.push((end, 2, vec![0x49, 0xff, 0xcf, 0x75, 0x3b]));
    let back = (START + BLOCK - bytes) as i64 - (end as i64 + 64 + 5);
    blocks.push((
        end + 64,
        1,
        [&[0xe9], &(back as i32).to_le_bytes()[..]].concat(),
    ));
    support::cycles_a_turn("zen5", &blocks)
}

#[test]
fn what_is_entered_in_a_block_and_left_in_another_takes_what_it_takes_natively() {
    for (bytes, instructions, natively) in [
        // Up to six up to the block's end: one line, which is found with the jump that leads there.
        (60, &[5, 2][..], 9.0),
        (60, &[5, 6], 12.0),
        (60, &[6, 2], 9.0),
        (60, &[6, 8], 15.0),
        (60, &[6, 12], 19.0),
        // Three lines of the second block.
        (60, &[6, 14], 25.0),
        // Two lines, of which the second one has all of the next block; it has one of its own.
        (60, &[7, 2], 17.0),
        (60, &[7, 4], 17.0),
        (60, &[7, 6], 14.0),
        (60, &[12, 4], 17.0),
        (60, &[12, 12], 25.0),
        // Three lines, which need two look-ups.
        (60, &[13, 2], 33.0),
        (60, &[18, 14], 49.0),
        // Six that are entered where their block begins are two lines.
        (64, &[6, 2], 17.0),
        (63, &[6, 2], 9.0),
        (64, &[6, 6], 13.0),
        (64, &[6, 14], 21.0),
        // Three and four blocks.
        (10, &[1, 6, 1], 17.0),
        (50, &[5, 7, 1], 17.0),
        (60, &[6, 6, 1], 17.0),
        (10, &[1, 12, 1], 17.0),
        (50, &[5, 12, 1], 19.0),
        (20, &[2, 6, 6, 1], 25.0),
    ] {
        let found = turn(bytes, instructions);
        assert!(
            (found / natively - 1.0).abs() < 0.08,
            "{bytes} {instructions:?}: {found}, {natively} natively"
        );
    }
}
