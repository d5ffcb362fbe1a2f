//! Code of whole programs that no op cache holds, or that lies in many pages, against what the
//! parameters say and probes find on Zen 5, Zen 4 and Redwood Cove (docs/BRANCHES.md,
//! docs/REDWOOD-COVE.md).

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

/// Cycles of a turn through these blocks on Zen 5, one after the other, once they are known.
fn turn(blocks: &[(u64, u16, Vec<u8>)]) -> f64 {
    turn_on("zen5", blocks)
}

/// The same on any CPU.
fn turn_on(cpu: &str, blocks: &[(u64, u16, Vec<u8>)]) -> f64 {
    let cycles = |turns: usize| {
        let all = (0..blocks.len()).map(|n| block_word(BlockId(n as u32)));
        let words: Vec<u64> = all.collect::<Vec<_>>().repeat(turns);
        let report = support::run(cpu, Arch::X86_64, blocks, &words);
        report.cpus[0].cycles
    };
    (cycles(8) - cycles(4)) as f64 / 4.0
}

/// Blocks of 160 KiB together, whose last one goes back to the first.
fn straight(instruction: &[u8]) -> Vec<(u64, u16, Vec<u8>)> {
    const EACH: usize = 240;
    let mut at = 0x40_0000;
    let mut blocks = Vec::new();
    while at < 0x40_0000 + (160 << 10) {
        let code = instruction.repeat(EACH);
        let next = at + code.len() as u64;
        blocks.push((at, EACH as u16, code));
        at = next;
    }
    let back = (0x40_0000i64 - at as i64 - 5) as i32;
    blocks.push((at, 1, [&[0xe9], &back.to_le_bytes()[..]].concat()));
    blocks
}

/// Four instructions or sixteen bytes a cycle, whichever is less. On the CPU 256 KiB of such
/// instructions take 0.25, 0.25, 0.31, 0.43 and 0.48 cycles each.
#[test]
fn decoders_alone_take_four_instructions_or_sixteen_bytes() {
    let nops: [&[u8]; 5] = [
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x40, 0x01],
        &[0x0f, 0x1f, 0x44, 0x00, 0x01],
        &[0x0f, 0x1f, 0x80, 0x00, 0x10, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x10, 0x00, 0x00],
    ];
    for nop in nops {
        let blocks = straight(nop);
        let count: f64 = blocks.iter().map(|b| f64::from(b.1)).sum();
        let found = turn(&blocks) / count;
        let expected = (nop.len() as f64 / 16.0).max(0.25);
        assert!(
            (found / expected - 1.0).abs() < 0.08,
            "{} bytes: {found}",
            nop.len()
        );
    }
}

/// Blocks of so many lines of eight-byte instructions, each with a jump to the next one: the line that a
/// jump goes to comes at four instructions a cycle, those behind it at sixteen bytes. On the CPU 48 KiB and
/// more of them take 2.1, 6.0, 14.0 and 30.0 cycles a block of one, two, four and eight lines.
#[test]
fn the_line_that_a_jump_goes_to_is_decoded_as_wide_as_others_are_long() {
    const NOP: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x00, 0x10, 0x00, 0x00];
    for lines in [1u64, 2, 4, 8] {
        let count = (96 << 10) / (64 * lines);
        let at = |n: u64| 0x40_0000 + 64 * lines * (n % count);
        let nops = 8 * lines as usize - 1;
        let blocks: Vec<_> = (0..count)
            .map(|n| {
                let behind = at(n) + 8 * nops as u64 + 5;
                let far = (at(n + 1) as i64 - behind as i64) as i32;
                let code = [&NOP.repeat(nops)[..], &[0xe9], &far.to_le_bytes()].concat();
                (at(n), nops as u16 + 1, code)
            })
            .collect();
        let found = turn(&blocks) / count as f64;
        let expected = (4 * lines - 2) as f64;
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{lines} lines: {found}"
        );
    }
}

/// Jumps from page to page, all of which the op cache holds: as fast as others up to the entries of
/// the first-level buffer, and beyond them four translations of seven cycles at once. On the CPU 60
/// take 0.61 cycles each, 128 1.73.
#[test]
fn what_is_kept_as_uops_needs_its_translation() {
    let jumps = |pages: u64| -> f64 {
        let step = 4096 + 64;
        let at = |n: u64| 0x40_0000 + n * step;
        let blocks: Vec<_> = (0..pages)
            .map(|n| {
                let to = at((n + 1) % pages);
                let far = (to as i64 - at(n) as i64 - 5) as i32;
                (at(n), 1, [&[0xe9], &far.to_le_bytes()[..]].concat())
            })
            .collect();
        turn(&blocks) / pages as f64
    };
    let (few, many) = (jumps(60), jumps(128));
    assert!(few < 0.7, "{few}");
    assert!((many / 1.75 - 1.0).abs() < 0.1, "{many}");
}

/// Cycles a call of so many functions 4 KiB apart of fifteen instructions of four bytes and a return, whose lines of the op
/// cache are all in one set: each called at its first instruction, or the one with that number, and then each at others, too.
/// Two calls in a line of 64 bytes, with no-operations between: a line's branches to other pages are not what is looked at.
fn calls(cpu: &str, instruction: [u8; 4], functions: u64, entries: &[usize]) -> f64 {
    const CALLS: u64 = 0x40_0000;
    const APART: [u8; 9] = [0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00];
    let mut blocks = Vec::new();
    let mut at = CALLS;
    for &entry in entries {
        for function in 0..functions {
            let to = 0x41_0800 + 4096 * function + 4 * entry as u64;
            let far = (to as i64 - at as i64 - 32) as i32;
            let call = [&APART.repeat(3)[..], &[0xe8], &far.to_le_bytes()].concat();
            blocks.push((at, 4, call));
            let left = 15 - entry;
            let code = [&instruction.repeat(left)[..], &[0xc3]].concat();
            blocks.push((to, left as u16 + 1, code));
            at += 32;
        }
    }
    let calls = blocks.len() as f64 / 2.0;
    let back = (CALLS as i64 - at as i64 - 5) as i32;
    blocks.push((at, 1, [&[0xe9], &back.to_le_bytes()[..]].concat()));
    turn_on(cpu, &blocks) / calls
}

/// A line is found by where it begins. Of no-operations on Zen 5, three lines of six in sixteen ways, five functions fit if
/// they are entered at one place, two if at the second instruction, too, and five again if at the thirteenth, where a line
/// begins; there 4.0 cycles a call where they fit, 8.4 where not. Of moves on Zen 4, two lines of nine in twelve ways, six
/// fit, three, and six again if entered at the tenth; there 4.2 cycles, and 7.8 to 11.
#[test]
fn ways_into_code_leave_lines_of_their_own_unless_they_come_to_where_one_begins() {
    const NOP: [u8; 4] = [0x0f, 0x1f, 0x40, 0x00];
    const MOVE: [u8; 4] = [0x3e, 0x48, 0x89, 0xd8];
    for (cpu, instruction, functions, entries, fit) in [
        ("zen5", NOP, 5, &[0][..], true),
        ("zen5", NOP, 6, &[0], false),
        ("zen5", NOP, 2, &[0, 1], true),
        ("zen5", NOP, 3, &[0, 1], false),
        ("zen5", NOP, 4, &[0, 6], true),
        ("zen5", NOP, 5, &[0, 12], true),
        ("zen5", NOP, 3, &[0, 7], true),
        ("zen5", NOP, 4, &[0, 5], false),
        ("zen5", NOP, 2, &[0, 1, 2, 3], false),
        ("zen4", MOVE, 6, &[0], true),
        ("zen4", MOVE, 3, &[0, 1], true),
        ("zen4", MOVE, 4, &[0, 1], false),
        ("zen4", MOVE, 6, &[0, 9], true),
        ("zen4", MOVE, 1, &[0, 1, 2, 3], true),
        ("zen4", MOVE, 2, &[0, 1, 2, 3], false),
    ] {
        let found = calls(cpu, instruction, functions, entries);
        let text = format!("{cpu}: {functions} functions at {entries:?}: {found} cycles a call");
        match fit {
            true => assert!(found < 5.6, "{text}"),
            false => assert!(found > 7.0, "{text}"),
        }
    }
}

/// A call of a function of so many jumps from line to line, and back. Measured on Zen 4: 5.0, 5.0, 6.0, 6.0 cycles with none to
/// three: the first is found together with the call, the third with the second.
#[test]
fn branches_in_a_page_are_found_in_pairs() {
    for (jumps, measured) in [(0u64, 5.0), (1, 5.0), (2, 6.0), (3, 6.0)] {
        let mut blocks = Vec::new();
        let (start, function) = (0x1000u64, 0x1400u64);
        let call = (function as i64 - start as i64 - 5) as i32;
        blocks.push((start, 1, [&[0xe8], &call.to_le_bytes()[..]].concat()));
        for n in 0..jumps {
            // To the next line.
            blocks.push((function + 64 * n, 1, vec![0xeb, 62]));
        }
        blocks.push((function + 64 * jumps, 1, vec![0xc3]));
        // jmp back
        blocks.push((start + 5, 1, vec![0xeb, 0xf9]));
        let found = turn_on("zen4", &blocks);
        assert!(
            (found / measured - 1.0).abs() < 0.05,
            "{jumps} jumps: {found} and {measured}"
        );
    }
}

/// Branches that are found in pairs come one a cycle where the predictor had lost nothing. Measured on Zen 4: a conditional branch
/// that is always taken and the loop's own, both in one line, 2.0 cycles a turn, with two such 3.0.
#[test]
fn fetch_takes_one_branch_a_cycle() {
    for (branches, measured) in [(1u64, 2.0), (2, 3.0)] {
        let mut blocks = Vec::new();
        for n in 0..branches {
            // test ebx, 0x1000000; je over a nop
            let code = vec![0xf7, 0xc3, 0, 0, 0, 1, 0x74, 0x01, 0x90];
            blocks.push((0x1000 + 9 * n, 2, code[..8].to_vec()));
        }
        let back = -(9 * branches as i64 + 5) as i8;
        blocks.push((
            0x1000 + 9 * branches,
            2,
            vec![0x48, 0xff, 0xcf, 0x75, back as u8],
        ));
        let found = turn_on("zen4", &blocks);
        assert!(
            (found / measured - 1.0).abs() < 0.05,
            "{branches} branches: {found} and {measured}"
        );
    }
}

/// Cycles a call of functions `(site) -> number`, one after the other from so many places 32 bytes apart: `mov eax, edi; and eax,
/// 15; ret`, as many as there are.
fn cycles_a_call(cpu: &str, sites: u64, function: impl Fn(u64) -> u64) -> f64 {
    const START: u64 = 0x40_0000;
    const FUNCTIONS: u64 = 0x50_0000;
    const NOP: [u8; 9] = [0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
    let mut blocks = Vec::new();
    for site in 0..sites {
        let at = START + 32 * site;
        // test eax, eax; two no-operations of nine bytes; mov r8, r11; mov r9, r11; call
        let mut code = vec![0x85, 0xc0];
        code.extend(NOP.repeat(2));
        code.extend([0x4d, 0x89, 0xd8, 0x4d, 0x89, 0xd9]);
        let to = FUNCTIONS + 64 * function(site);
        let distance = to as i64 - (at as i64 + 31);
        code.push(0xe8);
        code.extend((distance as i32).to_le_bytes());
        blocks.push((at, 6, code));
        // The byte that is left of the 32 is executed, too.
        blocks.push((to, 3, vec![0x89, 0xf8, 0x83, 0xe0, 0x0f, 0xc3]));
        blocks.push((at + 31, 1, vec![0x90]));
    }
    let at = START + 32 * sites;
    let back = (START as i64 - at as i64 - 5) as i32;
    blocks.push((at, 1, [&[0xe9], &back.to_le_bytes()[..]].concat()));
    turn_on(cpu, &blocks) / sites as f64
}

/// 512 calls, which the µop cache does not hold, of one function, which it does: on Redwood Cove 4.4 cycles a call, 4.0 of sixteen
/// functions. With the decoders waiting for the predecoder each time it would be three more.
#[test]
fn decoding_goes_on_at_once_where_the_uop_cache_ends() {
    for (functions, measured) in [(1, 4.4), (16, 4.0)] {
        let found = cycles_a_call("rwc", 512, |site| site % functions);
        assert!(
            (found / measured - 1.0).abs() < 0.2,
            "{functions} functions: {found} and {measured}"
        );
    }
}

/// Sixteen calls of a function each, and of one: on Redwood Cove 2.5 and 3.1 cycles a call, since the nearest branch target buffer
/// has where a return went last.
#[test]
fn a_return_that_goes_elsewhere_than_last_takes_a_cycle_more() {
    let own = cycles_a_call("rwc", 16, |site| site);
    let one = cycles_a_call("rwc", 16, |_| 0);
    assert!((own / 2.5 - 1.0).abs() < 0.1, "{own}");
    assert!((one - own - 1.0).abs() < 0.1, "{one} and {own}");
}
