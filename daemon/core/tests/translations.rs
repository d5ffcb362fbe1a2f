//! Code in more pages than the nearest buffer of translations has, and branches that the decoders deliver, on Zen 5 (docs/ZEN5.md, "In
//! more pages than 64" and "Branches from the decoders") and Zen 4 (docs/ZEN4.md, "Code that is not at hand"). The figures are the host's, the
//! least of several copies of the program.

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

/// Cycles a page of jumps in so many pages, so many in a row in each, which begin at one of so many lines.
fn page(cpu: &str, pages: u64, jumps: u64, begins: u64) -> f64 {
    // Lines of all sets.
    let first = |page: u64| page * 7 % begins;
    let places: Vec<u64> = (0..pages)
        .flat_map(|page| (0..jumps).map(move |n| START + page * PAGE + (first(page) + n) * LINE))
        .collect();
    support::cycles_a_turn(cpu, &row(&places, (0, &[]))) / pages as f64
}

#[test]
fn each_line_waits_for_its_translation_on_zen_4() {
    for (pages, jumps, natively) in [
        (56, 4, 4.02),
        (128, 2, 3.13),
        (128, 4, 5.76),
        (128, 6, 12.5),
        (128, 12, 26.9),
        (256, 2, 3.08),
        (256, 4, 8.73),
        (256, 5, 11.8),
        (256, 8, 20.9),
        (1024, 1, 11.75),
    ] {
        let found = page("zen4", pages, jumps, LINE - jumps + 2);
        let off = (found / natively - 1.0).abs();
        assert!(
            off <= 0.2,
            "{jumps} jumps in each of {pages} pages: {found:.2}, natively {natively}"
        );
    }
}

/// Functions that are called in a random order, each from one place, on Zen 4: calls and returns take two entries of the nearest buffer of
/// targets.
#[test]
fn calls_and_returns_leave_the_nearest_buffer_of_targets_sooner_than_jumps() {
    const FUNCTIONS: u64 = 0x80_0000;
    // Two no-operations and a return; what the return comes to, and the next call.
    const CODE: [u8; 9] = [0x0f, 0x1f, 0x40, 0x01, 0x0f, 0x1f, 0x40, 0x01, 0xc3];
    const NOP: [u8; 11] = [
        0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];
    for (count, natively) in [(512u64, 4.27), (1024, 7.85), (1536, 9.5), (2048, 10.2)] {
        let call = |at: u64, n: u64| {
            // An odd number times `n` comes to each function once.
            let to = FUNCTIONS + n * 683 % count * LINE;
            let by = (to as i64 - (at + 5) as i64) as i32;
            (to, [&[0xe8][..], &by.to_le_bytes()].concat())
        };
        let mut blocks = Vec::new();
        let (first, code) = call(START, 0);
        blocks.push((START, 1, code));
        blocks.push((first, 3, CODE.to_vec()));
        for n in 1..count {
            let at = START + n * 16;
            let (to, code) = call(at, n);
            blocks.push((at - 11, 2, [&NOP[..], &code].concat()));
            blocks.push((to, 3, CODE.to_vec()));
        }
        // dec r15; jnz
        let end = START + (count - 1) * 16 + 5;
        let by = (START as i64 - (end + 9) as i64) as i32;
        let code = [&[0x49, 0xff, 0xcf, 0x0f, 0x85][..], &by.to_le_bytes()].concat();
        blocks.push((end, 2, code));
        let found = support::cycles_a_turn("zen4", &blocks) / count as f64;
        let off = (found / natively - 1.0).abs();
        assert!(
            off <= 0.15,
            "{count} functions: {found:.2}, natively {natively}"
        );
    }
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
        let found = page("zen5", pages, jumps, LINE - jumps + 1);
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
