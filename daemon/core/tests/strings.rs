//! Repeated string instructions: what they wait for and how long they take, by their bytes.

mod support;

use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, GuestAddr, Kernel, Work, block_word, kernel_word};
use mcad_report::CpuReport;
use support::access;

const TIMES: u64 = 400;

/// Cycles of one turn of a loop: a chain of `late` dependent multiplications that the count needs,
/// and `rep stosq` of so many quadwords to the same place.
fn turn(cpu: &str, late: usize, quadwords: u64) -> f64 {
    run(cpu, late, quadwords).cycles as f64 / TIMES as f64
}

/// All turns of that loop.
fn run(cpu: &str, late: usize, quadwords: u64) -> CpuReport {
    // xor edx, edx with mov, so that the chain begins anew; imul rdx, rdx; add rcx, rdx
    let mut head = vec![0xba, 0, 0, 0, 0];
    for _ in 0..late {
        head.extend([0x48, 0x0f, 0xaf, 0xd2]);
    }
    // mov ecx, N; mov edi, ADDRESS
    head.extend([0xb9, quadwords as u8, 0, 0, 0]);
    head.extend([0xbf, 0, 0, 0, 0x70]);
    head.extend([0x48, 0x01, 0xd1]);
    let string = 0x1000 + head.len() as u64;
    let back = -(head.len() as i64) - 5;
    let blocks = [
        (0x1000, late as u16 + 4, head),
        (string, 1, vec![0xf3, 0x48, 0xab]),
        (string + 3, 1, vec![0xeb, back as u8]),
    ];
    let mut words = Vec::new();
    for _ in 0..TIMES {
        words.push(block_word(BlockId(0)));
        for n in 0..quadwords {
            words.push(block_word(BlockId(1)));
            words.push(access(0, true, 0x7000_0000 + 8 * n));
        }
        words.push(block_word(BlockId(2)));
    }
    support::run(cpu, Arch::X86_64, &blocks, &words)
        .cpus
        .remove(0)
}

/// Measured on Zen 5 (docs/MEMORY.md): 45 cycles a turn of 264 bytes, and 22 more behind a count that
/// is known 30 cycles later.
#[test]
fn zen5_goes_on_when_it_knows_how_far_a_string_goes() {
    let short = turn("zen5", 0, 33);
    assert!((38.0..52.0).contains(&short), "{short}");
    for late in [10, 20, 30] {
        let more = turn("zen5", late, 33) - short;
        let chain = 3.0 * late as f64;
        assert!(
            (chain - 12.0..chain + 4.0).contains(&more),
            "{late}: {more}"
        );
    }
    // Up to 127 bytes it is predicted.
    let predicted = turn("zen5", 10, 8) - turn("zen5", 0, 8);
    assert!(predicted < 12.0, "{predicted}");
}

/// Measured on Zen 5: 15.0 cycles a turn from 2 to 15 quadwords, and 41.9 for 16.
#[test]
fn zen5_predicts_the_count_of_short_strings() {
    for quadwords in [2, 8, 15] {
        let cycles = turn("zen5", 0, quadwords);
        assert!((14.0..17.0).contains(&cycles), "{quadwords}: {cycles}");
    }
    let known = turn("zen5", 0, 16);
    assert!((38.0..46.0).contains(&known), "{known}");
}

/// Measured on Zen 4: `rep stosq` takes 15.4 cycles up to 15 quadwords; 96, 128 and 255 take 7.1, 11.1 and 30.8 cycles
/// more than 32, since the first 1 536 bytes go at 64 a cycle and the rest at 32.
#[test]
fn zen4_predicts_short_strings_and_writes_long_ones_in_bursts() {
    for quadwords in [2, 15] {
        let cycles = turn("zen4", 0, quadwords);
        assert!((14.0..18.0).contains(&cycles), "{quadwords}: {cycles}");
    }
    let least = turn("zen4", 0, 32);
    for (quadwords, native) in [(96, 7.1), (128, 11.1), (255, 30.8)] {
        let more = turn("zen4", 0, quadwords) - least;
        assert!((more - native).abs() < 5.0, "{quadwords}: {more}");
    }
}

/// Cycles of one turn of a loop of `rep stosq` with so many `nop` of four bytes behind it.
fn turn_with_code_behind(quadwords: u64, nops: usize) -> f64 {
    // mov ecx, N; mov edi, ADDRESS
    let mut head = vec![0xb9, quadwords as u8, 0, 0, 0];
    head.extend([0xbf, 0, 0, 0, 0x70]);
    let string = 0x1000 + head.len() as u64;
    let mut behind = [0x0f, 0x1f, 0x40, 0].repeat(nops);
    let back = -((head.len() + 3 + behind.len()) as i32) - 5;
    behind.push(0xe9);
    behind.extend(back.to_le_bytes());
    let blocks = [
        (0x1000, 2, head),
        (string, 1, vec![0xf3, 0x48, 0xab]),
        (string + 3, nops as u16 + 1, behind),
    ];
    let mut words = Vec::new();
    for _ in 0..TIMES {
        words.push(block_word(BlockId(0)));
        for n in 0..quadwords {
            words.push(block_word(BlockId(1)));
            words.push(access(0, true, 0x7000_0000 + 8 * n));
        }
        words.push(block_word(BlockId(2)));
    }
    let report = support::run("zen4", Arch::X86_64, &blocks, &words);
    report.cpus.first().map_or(0, |cpu| cpu.cycles) as f64 / TIMES as f64
}

/// Measured on Zen 4: behind 256 bytes, whose count is not predicted, fetch starts anew and code comes from the decoders
/// at four instructions a cycle until control goes elsewhere; behind 64 bytes from the op cache.
#[test]
fn zen4_decodes_what_is_behind_a_string_that_it_did_not_predict() {
    for (nops, long, short) in [(80, 53.0, 22.0), (160, 73.0, 29.0), (320, 113.1, 42.0)] {
        let cycles = turn_with_code_behind(32, nops);
        assert!((cycles / long - 1.0).abs() < 0.05, "{nops}: {cycles}");
        let cycles = turn_with_code_behind(8, nops);
        assert!(cycles < short, "{nops}: {cycles}");
    }
}

/// What a short string reaches is no later one's, nor does it keep the kernel from what it does: a
/// system call behind strings maps the page anew that the program stores to, which faults each time.
#[test]
fn the_kernel_is_heard_behind_short_strings() {
    let page = 0x7100_0000u64;
    for cpu in ["zen5", "skl"] {
        let faults = |quadwords: u64| {
            let blocks = [
                (0x1000, 1, vec![0xf3, 0x48, 0xab]),             // rep stosq
                (0x1003, 2, vec![0x48, 0x89, 0x06, 0x0f, 0x05]), // mov [rsi], rax; syscall
                (0x1008, 1, vec![0xeb, 0xf6]),                   // jmp
            ];
            let mut words = Vec::new();
            for _ in 0..20 {
                for n in 0..quadwords {
                    words.push(block_word(BlockId(0)));
                    words.push(access(0, true, 0x7000_0000 + 8 * n));
                }
                words.push(block_word(BlockId(1)));
                words.push(access(0, true, page));
                words.push(kernel_word(Kernel {
                    work: Work::Fresh,
                    address: GuestAddr(page),
                    bytes: 4096,
                }));
                words.push(block_word(BlockId(2)));
            }
            let report = support::run(cpu, Arch::X86_64, &blocks, &words);
            let memory = report.cpus[0].memory.as_ref();
            memory.map_or(0, |memory| memory.page_faults)
        };
        // Code faults, too; the strings' page does once.
        let without = faults(0);
        assert!(without >= 20, "{cpu}: {without}");
        assert_eq!(faults(2), without + 1, "{cpu}");
    }
}

/// What a string keeps from issuing waits for its microcode, which has a name among lost slots.
#[test]
fn slots_behind_a_string_are_the_cores() {
    for cpu in ["zen5", "skl"] {
        let slots = run(cpu, 0, 33).topdown;
        let (core, other) = (slots.backend_core as f64, slots.other as f64);
        assert!(core > 0.2 * slots.slots as f64, "{cpu}: {slots:?}");
        assert!(other < 0.02 * slots.slots as f64, "{cpu}: {slots:?}");
    }
}

/// CPUs whose files do not say that they wait do not.
#[test]
fn others_hide_what_computes_the_count() {
    for cpu in ["skl", "icl", "zen3"] {
        let more = turn(cpu, 5, 33) - turn(cpu, 0, 33);
        assert!(more < 8.0, "{cpu}: {more}");
    }
}

/// Redwood Cove takes 35 cycles for 264 bytes of `rep stosq`, 33 for 8, and what computes the count is in their way.
#[test]
fn golden_cove_predicts_no_count_of_quadwords() {
    let (long, short) = (turn("glc", 0, 33), turn("glc", 0, 8));
    assert!((30.0..42.0).contains(&long), "{long}");
    assert!(short > 15.0, "{short}");
    let more = turn("glc", 5, 33) - long;
    assert!(more > 8.0, "{more}");
}

/// Zen's `rep stos` takes elements one by one up to 63 of them, then bytes (docs/ZEN1.md).
#[test]
fn zen_takes_few_elements_one_by_one() {
    let of = |quadwords| turn("zen1", 0, quadwords);
    for (from, to, more) in [
        (8, 40, 32.0),
        (40, 63, 23.0),
        (64, 96, 16.0),
        (96, 224, 64.0),
    ] {
        let got = of(to) - of(from);
        assert!((got - more).abs() < 0.5, "{from} to {to}: {got}");
    }
    // 58 cycles and 16 bytes a cycle in place of one for each but the first.
    let got = of(64) - of(63);
    assert!((got - (58.0 + 32.0 - 62.0)).abs() < 0.5, "{got}");
}
