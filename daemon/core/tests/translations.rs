//! Code in more pages than the nearest buffer of translations has, and branches that the decoders deliver, on Zen 5 (docs/ZEN5.md, "In
//! more pages than 64" and "Branches from the decoders"). The figures are the host's, the least of several copies of the program.

mod support;

const START: u64 = 0x40_0000;
const PAGE: u64 = 4096;
const LINE: u64 = 64;

/// Code that jumps from each of these places to the next one, behind the same instructions (their number and bytes), and back.
fn row(places: &[u64], (count, before): (u16, &[u8])) -> Vec<(u64, u16, Vec<u8>)> {
    let jump = |code: &[u8], to: u64, behind: u64| {
        let by = (to as i64 - behind as i64) as i32;
        [before, code, &by.to_le_bytes()[..]].concat()
    };
    let bytes = before.len() as u64;
    (places.iter().enumerate())
        .map(|(n, &at)| match places.get(n + 1) {
            Some(&to) => (at, count + 1, jump(&[0xe9], to, at + bytes + 5)),
            // dec r15; jnz
            None => {
                let code = [0x49, 0xff, 0xcf, 0x0f, 0x85];
                (at, count + 2, jump(&code, places[0], at + bytes + 9))
            }
        })
        .collect()
}

/// Cycles a page of jumps in so many pages, so many in a row in each.
fn page(pages: u64, jumps: u64) -> f64 {
    // Lines of all sets.
    let first = |page: u64| page * 7 % (LINE - jumps + 1);
    let places: Vec<u64> = (0..pages)
        .flat_map(|page| (0..jumps).map(move |n| START + page * PAGE + (first(page) + n) * LINE))
        .collect();
    support::cycles_a_turn("zen5", &row(&places, (0, &[]))) / pages as f64
}

#[test]
fn a_translation_that_is_not_at_hand_holds_up_what_is_behind() {
    for (pages, jumps, natively) in [
        // The nearest buffer has them.
        (32, 4, 2.51),
        (60, 3, 1.80),
        // From the op cache.
        (256, 1, 1.89),
        (256, 2, 6.01),
        // Three in each of 256: 4.84, 4.0 here.
        // From the decoders; lines come from the second level.
        (256, 6, 15.8),
        (256, 8, 22.1),
        (256, 12, 35.2),
        (256, 16, 46.0),
        (512, 4, 10.5),
        (512, 8, 22.2),
    ] {
        let found = page(pages, jumps);
        let off = (found / natively - 1.0).abs();
        assert!(
            off <= 0.13,
            "{jumps} jumps in each of {pages} pages: {found:.2}, natively {natively}"
        );
    }
}

#[test]
fn jumps_in_lines_that_missed_take_longer_from_the_decoders() {
    for (lines, jumps, natively) in [
        (256, 2, 1.02),
        (512, 4, 4.10),
        (1024, 2, 2.84),
        (1024, 4, 5.45),
        (2048, 4, 5.52),
    ] {
        let places: Vec<u64> = (0..lines * jumps)
            .map(|n| START + n * (LINE / jumps))
            .collect();
        let found = support::cycles_a_turn("zen5", &row(&places, (0, &[]))) / lines as f64;
        let off = (found / natively - 1.0).abs();
        assert!(
            off <= 0.06,
            "{jumps} jumps in each of {lines} lines: {found:.2}, natively {natively}"
        );
    }
}

#[test]
fn the_decoders_deliver_more_than_one_branch_a_cycle() {
    const JNZ: [u8; 2] = [0x75, 0x00];
    // test rbx, rbx; nop; jnz
    const TEST: [u8; 6] = [0x48, 0x85, 0xdb, 0x90, 0x75, 0x00];
    const NOP: [u8; 4] = [0x0f, 0x1f, 0x40, 0x00];
    for (name, count, before, natively) in [
        ("no-operations", 12, NOP.repeat(12), 4.1),
        ("jnz", 12, JNZ.repeat(12), 4.14),
        ("jnz", 14, JNZ.repeat(14), 4.66),
        ("test, nop, jnz", 18, TEST.repeat(6), 5.02),
    ] {
        // More of the op cache's lines than it has, and no more lines of code than the first level has.
        let places: Vec<u64> = (0..480).map(|n| START + n * LINE).collect();
        let found = support::cycles_a_turn("zen5", &row(&places, (count, &before))) / 480.0;
        let off = (found / natively - 1.0).abs();
        assert!(off <= 0.08, "{name}: {found:.2}, natively {natively}");
    }
}
