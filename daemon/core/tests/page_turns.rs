//! Rows of jumps that go from page to page on Zen 5: what a line of another page than the one before waits for (docs/ZEN5.md, "In several
//! pages"). The figures are the host's, the least of 90 runs of 6 000 turns.

mod support;

const START: u64 = 0x40_0000;
const PAGE: u64 = 4096;

/// Cycles of a turn of jumps, so many in each page before they go on in the next of `runs`, so many bytes apart.
fn turn(runs: &[(u64, u64)], apart: u64) -> f64 {
    let mut taken = std::collections::HashMap::new();
    let mut places = Vec::new();
    for &(page, jumps) in runs {
        for _ in 0..jumps {
            let place = taken.entry(page).or_insert(0);
            places.push(START + page * PAGE + *place * apart);
            *place += 1;
        }
    }
    let blocks: Vec<_> = places
        .iter()
        .enumerate()
        .map(|(n, &at)| {
            let jump = |code: &[u8], to: u64, from: u64| {
                let by = (to as i64 - from as i64) as i32;
                [code, &by.to_le_bytes()[..]].concat()
            };
            match places.get(n + 1) {
                Some(&to) => (at, 1, jump(&[0xe9], to, at + 5)),
                // dec r15; jnz
                None => (at, 2, jump(&[0x49, 0xff, 0xcf, 0x0f, 0x85], START, at + 9)),
            }
        })
        .collect();
    support::cycles_a_turn("zen5", &blocks)
}

#[test]
fn a_change_of_page_takes_three_cycles_but_soon_behind_another_nothing() {
    for (runs, apart, natively) in [
        (&[(0, 32)][..], 64, 16.0),
        (&[(0, 96)], 16, 48.0),
        (&[(0, 2), (1, 2)], 64, 2.38),
        (&[(0, 8), (1, 8)], 64, 9.3),
        (&[(0, 8), (1, 2)], 64, 5.9),
        // No nearer than 34 lines, three cycles for each.
        (&[(0, 48), (1, 48)], 64, 54.0),
        (&[(0, 48), (1, 48)], 16, 54.0),
        (&[(0, 48), (1, 48), (2, 48), (3, 48)], 64, 108.0),
        // Right behind another.
        (&[(0, 48), (1, 8)], 64, 31.0),
        (&[(0, 24), (1, 24)], 16, 27.0),
        (&[(0, 16), (1, 16), (2, 16), (3, 16)], 64, 36.5),
        (&[(0, 4), (1, 4), (2, 4), (3, 4)], 16, 9.4),
    ] {
        let found = turn(runs, apart);
        let off = (found - natively).abs();
        assert!(
            off <= natively * 0.04,
            "{runs:?}, {apart} bytes apart: {found:.2}, natively {natively}"
        );
    }
}
