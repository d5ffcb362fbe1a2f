//! Directions that a quick predictor has wrong and a slower one right, as measured on a Zen 4 (docs/BRANCHES.md, "The quick
//! predictor"): rows of branches that go both ways, whose directions are random and recur.

mod support;

use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor};
use mcad_isa::machine::params::branch::Branch;
use mcad_proto::event::Arch;
use mcad_proto::word::{BlockId, block_word};

fn zen4() -> Branch {
    let model = mcad_isa::machine::cpu("zen4").expect("a model");
    model.core.branch.clone().expect("its predictors")
}

/// So many directions, the same in every run.
fn random(count: usize) -> Vec<bool> {
    let mut random = fastrand::Rng::with_seed(7);
    (0..count).map(|_| random.bool()).collect()
}

/// Part of the executions of `judged` branches of a row, by number, that are overridden once all is learnt, and part that
/// are predicted wrongly; `rows` recur.
fn overridden(rows: &[Vec<bool>], judged: impl Fn(usize) -> bool) -> (f64, f64) {
    let mut predictor = Predictor::new(&zen4());
    let turns = rows.len() * (60_000 / (rows.len() * rows[0].len()) + 8);
    let (mut late, mut wrong, mut all) = (0u32, 0u32, 0u32);
    for turn in 0..turns {
        for (n, &taken) in rows[turn % rows.len()].iter().enumerate() {
            let pc = 0x40_0000 + 192 * n as u64;
            let steer = predictor.branch(&Executed {
                pc,
                next: pc + 6,
                target: pc + 64,
                taken,
                kind: Kind::Conditional,
            });
            if turn * 2 > turns && judged(n) {
                all += 1;
                late += u32::from(steer.is_overridden());
                wrong += u32::from(steer.is_wrong());
            }
        }
    }
    let part = |count: u32| f64::from(count) / f64::from(all);
    (part(late), part(wrong))
}

/// Measured: up to 1 024 branches and turns a branch takes what it takes without, at 2 048 a third of sixteen are late, and at 4 096
/// half.
#[test]
fn orders_that_recur_after_a_thousand_branches_are_foreseen_at_once() {
    for branches in [4, 16, 64, 256] {
        for (contexts, expected) in [
            (512, 0.0..0.03),
            (1024, 0.0..0.12),
            (4096, 0.4..0.55),
            (8192, 0.45..0.55),
        ] {
            let all = random(contexts);
            let rows: Vec<_> = all.chunks(branches).map(<[bool]>::to_vec).collect();
            let (late, wrong) = overridden(&rows, |_| true);
            assert!(
                expected.contains(&late) && wrong < 0.02,
                "{branches} in {contexts}: {late} late, {wrong} wrong"
            );
        }
    }
}

/// Of four branches in turn every second one goes where another went that was 1, 3, 5, 7, 9, or 11 branches before, in an
/// order of 8 192. Measured: 1.0, 1.0, 0.9, 0.4, 0, 0 of those that would be late come at once.
#[test]
fn what_a_branch_seven_before_tells_is_known_at_once_and_nine_before_is_not() {
    const BRANCHES: usize = 2;
    let first = random(8192);
    for (distance, expected) in [
        (0, 0.0..0.03),
        (1, 0.0..0.06),
        (2, 0.0..0.2),
        (3, 0.1..0.4),
        (4, 0.35..0.55),
        (5, 0.35..0.55),
    ] {
        let told = |n: usize| first[(n + first.len() - distance) % first.len()];
        let both: Vec<bool> = (0..first.len()).flat_map(|n| [first[n], told(n)]).collect();
        let rows: Vec<_> = both.chunks(2 * BRANCHES).map(<[bool]>::to_vec).collect();
        let (late, wrong) = overridden(&rows, |n| n % 2 == 1);
        assert!(
            expected.contains(&late) && wrong < 0.02,
            "{distance} apart: {late} late, {wrong} wrong"
        );
    }
}

/// Cycles of a branch that goes to the next line either way, itself or by a jump behind it, and two indirect jumps to the
/// next lines each, which leave the predictor nothing to catch up with.
fn cycles_a_branch(rows: &[Vec<bool>]) -> f64 {
    const LINE: u64 = 64;
    const BRANCHES: u64 = 16;
    let at = |n: u64| 0x40_0000 + LINE * n;
    let mut blocks = Vec::new();
    for n in 0..BRANCHES {
        let next = |from: u64| (at(3 * n + 1) as i64 - from as i64) as i32;
        let branch = [&[0x0f, 0x85][..], &next(at(3 * n) + 6).to_le_bytes()].concat();
        blocks.push((at(3 * n), 1, branch));
        let jump = [&[0xe9][..], &next(at(3 * n) + 11).to_le_bytes()].concat();
        blocks.push((at(3 * n) + 6, 1, jump));
        for k in 1..3 {
            // `jmp rax`
            blocks.push((at(3 * n + k), 1, vec![0xff, 0xe0]));
        }
    }
    // Behind the last one, back to the first.
    let last = at(3 * BRANCHES);
    let back = (0x40_0000i64 - last as i64 - 5) as i32;
    blocks.push((last, 1, [&[0xe9], &back.to_le_bytes()[..]].concat()));
    let turn = |row: &Vec<bool>| {
        let mut ids = Vec::new();
        for (n, &taken) in (0..).zip(row) {
            ids.push(4 * n);
            if !taken {
                ids.push(4 * n + 1);
            }
            ids.extend([4 * n + 2, 4 * n + 3]);
        }
        ids.push(4 * BRANCHES as u32);
        ids
    };
    let once: Vec<u64> = (rows.iter().flat_map(turn))
        .map(|id| block_word(BlockId(id)))
        .collect();
    let cycles = |times: usize| {
        let report = support::run("zen4", Arch::X86_64, &blocks, &once.repeat(times));
        report.cpus[0].cycles
    };
    let times = 60_000 / (BRANCHES as usize * rows.len()) + 2;
    let more = cycles(2 * times) - cycles(times);
    more as f64 / (times * rows.len()) as f64 / BRANCHES as f64
}

/// Measured: 3.07 cycles a branch where each always goes the same way, 3.3 in an order of 1 024 that recurs, 4.55 to 4.65 in one of
/// 16 384, where the quick predictor has half of them wrong.
#[test]
fn a_branch_that_is_overridden_takes_three_cycles_more() {
    let settled = vec![(0..16).map(|n| n % 2 == 0).collect::<Vec<bool>>()];
    let found = cycles_a_branch(&settled);
    assert!((found / 3.07 - 1.0).abs() < 0.07, "settled: {found}");
    for (contexts, measured) in [(1024, 3.3), (16_384, 4.6)] {
        let all = random(contexts);
        let rows: Vec<_> = all.chunks(16).map(<[bool]>::to_vec).collect();
        let found = cycles_a_branch(&rows);
        assert!((found / measured - 1.0).abs() < 0.1, "{contexts}: {found}");
    }
}
