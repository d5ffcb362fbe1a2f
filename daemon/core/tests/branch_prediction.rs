//! Branch prediction against what its structure promises: how far back it sees, how many targets
//! it holds, and that its short tags and small tables do what unbounded ones would.

mod support;

use std::collections::HashMap;

use mcad_core::pipeline::frontend::predict::history::{footprint, geometric};
use mcad_core::pipeline::frontend::predict::{Executed, Kind, Predictor, Steer};
use mcad_isa::machine::params::branch::{
    Branch, Btb, Chosen, Direction, History, Indirect, Replacement,
};
use support::predictors::{conditional, jump};

fn parameters() -> Branch {
    Branch {
        near_pages: None,
        page_turn: None,
        crowded_returns: None,
        redirect: 20,
        decoded_redirect: 0,
        decode_redirect: 8,
        decode_redirect_conditional: 0,
        history: History::Taken,
        starts_per_cycle: 1,
        ahead: 32,
        line_misses: 8,
        line_spacing: 0,
        straight_lines: 0,
        straight_misses: 1,
        translations: 1,
        translations_hold: 0,
        translations_together: 0,
        missed_starts: 0,
        line_delay: 0,
        ideal: false,
        unknown_not_taken: false,
        return_stack: 16,
        kernel_empties_returns: false,
        kernel_in_history: false,
        returns_fall_back: false,
        call_bubbles: 0,
        return_bubbles: 0,
        string_restarts: false,
        system_call_ahead: None,
        indirect_bubbles: 0,
        changed_return_bubbles: 0,
        chosen_bubbles: 0,
        chosen: Chosen::default(),
        streamed_loops: None,
        target_bits: 0,
        far_bubbles: 0,
        runs_on: false,
        wrong_path_loads: false,
        makes_up_behind_chosen: false,
        branches_alone: false,
        second_lines_alone: false,
        fetched_to_last_byte: false,
        branches_in_pairs: false,
        two_windows: false,
        address_path: None,
        direction: Direction {
            base_entries: 8192,
            tables: 15,
            table_entries: 2048,
            entries: Vec::new(),
            ways: 1,
            set_bit: None,
            path_register: false,
            hashed_tables: 0,
            believed_from: None,
            base_counter_bits: 2,
            replacement: Replacement::Useful,
            tag_bits: 12,
            weights: None,
            shortest_history: 1,
            longest_history: 194,
            histories: Vec::new(),
            loops: 32,
            corrector_entries: 512,
        },
        quick: None,
        indirect: Indirect {
            array: None,
            led_entries: 0,
            base_entries: 1024,
            base_ways: 1,
            tables: 8,
            table_entries: 512,
            ways: 1,
            tag_bits: 12,
            histories: Vec::new(),
            address_bits: 0,
            late: 0,
            new_is_believed: false,
        },
        btb: vec![Btb {
            entries: 4096,
            ways: 8,
            set_bytes: 16,
            bubbles: 0,
            ..Btb::default()
        }],
    }
}

/// Share of wrong predictions of a branch that does what one `distance` taken branches before it
/// did, which is random.
fn wrong_at(p: &Branch, distance: u64) -> f64 {
    let mut predictor = Predictor::new(p);
    let mut random = fastrand::Rng::with_seed(0x1234_5678_9abc_def1);
    let (rounds, mut wrong) = (4000, 0);
    for round in 0..rounds {
        let bit = random.bool();
        // Both ways leave one taken branch in the history.
        predictor.branch(&conditional(0x100, bit));
        if !bit {
            predictor.branch(&jump(0x102));
        }
        for n in 1..distance {
            predictor.branch(&jump(0x1000 + 16 * n));
        }
        let steer = predictor.branch(&conditional(0x8000, bit));
        if !bit {
            predictor.branch(&jump(0x8002));
        }
        wrong += u32::from(round >= rounds / 2 && steer.is_wrong());
    }
    f64::from(wrong) / f64::from(rounds / 2)
}

#[test]
fn a_branch_is_predicted_from_another_as_far_back_as_history_goes_and_no_farther() {
    for longest in [20u32, 64, 194] {
        let mut p = parameters();
        p.direction.longest_history = longest;
        // It has a shorter history of its own, of conditional branches.
        p.direction.corrector_entries = 0;
        for (distance, seen) in [
            (1, true),
            (longest - 1, true),
            (longest, true),
            (longest + 1, false),
        ] {
            let wrong = wrong_at(&p, u64::from(distance));
            assert_eq!(
                wrong < 0.03,
                seen,
                "history {longest}, distance {distance}: {wrong}"
            );
            assert!(
                seen || wrong > 0.4,
                "history {longest}, distance {distance}: {wrong}"
            );
        }
    }
}

/// Share of wrong predictions where a loop's branch goes `period` random ways again and again.
fn wrong_of_recurring(branch: &Branch, period: u64) -> f64 {
    let mut predictor = Predictor::new(branch);
    let (rounds, mut wrong) = (16, 0);
    for round in 0..rounds {
        let mut random = fastrand::Rng::with_seed(77);
        for _ in 0..period {
            let steer = predictor.branch(&conditional(0x100, random.bool()));
            wrong += u64::from(round == rounds - 1 && steer.is_wrong());
            // Back to the loop's begin.
            predictor.branch(&Executed {
                pc: 0x140,
                next: 0x142,
                target: 0x100,
                taken: true,
                kind: Kind::Conditional,
            });
        }
    }
    wrong as f64 / period as f64
}

/// Measured on both (D. Lemire, "How many branches can your CPU predict?", 2026): an Emerald Rapids
/// foresees 5 000 such branches, a Zen 5 30 000 (here with a tenth wrong).
#[test]
fn as_many_branches_that_recur_are_foreseen_as_on_the_cpu() {
    for (cpu, seen, not_seen) in [("glc", 5_000, 20_000), ("zen5", 16_000, 120_000)] {
        let model = mcad_isa::machine::cpu(cpu).expect("it is built in");
        let branch = model.core.branch.as_ref().expect("it predicts branches");
        let near = wrong_of_recurring(branch, seen);
        let far = wrong_of_recurring(branch, not_seen);
        println!("{cpu}: {near} wrong of {seen}, {far} of {not_seen}");
        assert!(near < 0.04, "{cpu}: {near} wrong of {seen}");
        assert!(far > 0.15, "{cpu}: {far} wrong of {not_seen}");
    }
}

/// Share of wrong predictions of the end of a loop of so many turns.
fn wrong_of_loops(branch: &Branch, turns: u64) -> f64 {
    let mut predictor = Predictor::new(branch);
    let (rounds, mut wrong) = (400, 0);
    for round in 0..rounds {
        for turn in 1..=turns {
            let back = Executed {
                pc: 0x140,
                next: 0x142,
                target: 0x100,
                taken: turn < turns,
                kind: Kind::Conditional,
            };
            wrong += u64::from(predictor.branch(&back).is_wrong() && round >= rounds / 2);
        }
        predictor.branch(&Executed {
            pc: 0x160,
            next: 0x162,
            target: 0x100,
            taken: true,
            kind: Kind::Conditional,
        });
    }
    wrong as f64 / (rounds / 2) as f64
}

/// Measured on a Zen 5: ends of loops are foreseen as far as the history of taken branches goes, those of
/// 192 turns cost 22 cycles each. `zen2` has a predictor of loops.
#[test]
fn zen5_foresees_ends_of_loops_by_history_alone() {
    let wrong = |cpu: &str, turns| {
        let model = mcad_isa::machine::cpu(cpu).expect("it is built in");
        wrong_of_loops(model.core.branch.as_ref().expect("it predicts"), turns)
    };
    assert!(wrong("zen5", 100) < 0.05);
    assert!(wrong("zen5", 192) > 0.9);
    assert!(wrong("zen2", 192) < 0.05);
}

/// Of 400 histories a table of 512 entries has room for all where each may take any of 16 places, and
/// not where each has one: e^(-400/512) of the places stay empty, so about 130 find theirs taken.
#[test]
fn histories_that_meet_in_a_set_share_its_ways() {
    let of = |ways| {
        let mut p = parameters();
        p.direction = Direction {
            tables: 1,
            table_entries: 512,
            ways,
            shortest_history: 40,
            longest_history: 40,
            loops: 0,
            corrector_entries: 0,
            ..p.direction
        };
        wrong_of_recurring(&p, 400)
    };
    let (one, four, sixteen) = (of(1), of(4), of(16));
    println!("{one} {four} {sixteen}");
    assert!(one > 0.1, "{one}");
    assert!(four < 0.5 * one, "{four}, {one} in one way");
    assert!(sixteen < 0.3 * one, "{sixteen}, {one} in one way");
}

#[test]
fn a_branch_that_goes_one_way_is_wrong_once_at_most() {
    for taken in [false, true] {
        let mut predictor = Predictor::new(&parameters());
        let wrong = (0..1000).filter(|_| predictor.branch(&conditional(0x40, taken)).is_wrong());
        assert_eq!(wrong.count(), usize::from(taken));
    }
}

#[test]
fn an_indirect_branch_is_predicted_when_its_targets_recur_in_order() {
    for (targets, right) in [(1u64, true), (2, true), (16, true), (100, true)] {
        let mut predictor = Predictor::new(&parameters());
        let mut wrong = 0;
        for n in 0..200 * targets {
            let steer = predictor.branch(&Executed {
                pc: 0x500,
                next: 0x502,
                target: 0x1_0000 + 64 * (n % targets),
                taken: true,
                kind: Kind::IndirectJump,
            });
            wrong += u64::from(n >= 100 * targets && steer.is_wrong());
        }
        assert_eq!(wrong == 0, right, "{targets} targets: {wrong} wrong");
    }
    // With random targets out of `n`, one in n is right by chance.
    let mut predictor = Predictor::new(&parameters());
    let mut random = fastrand::Rng::with_seed(99);
    let wrong = (0..20_000)
        .filter(|_| {
            let target = 0x1_0000 + 64 * random.u64(..8);
            let (pc, next, taken, kind) = (0x500, 0x502, true, Kind::IndirectJump);
            predictor
                .branch(&Executed {
                    pc,
                    next,
                    target,
                    taken,
                    kind,
                })
                .is_wrong()
        })
        .count();
    assert!((0.8..0.95).contains(&(wrong as f64 / 20_000.0)), "{wrong}");
}

/// A branch with a hundred targets in an order that recurs is wrong once for each where new entries are believed at once, as on
/// Redwood Cove, else twice.
#[test]
fn new_targets_are_believed_at_once_or_when_they_were_right_once() {
    for (believed, passes) in [(true, 1), (false, 2)] {
        let mut p = parameters();
        p.indirect.new_is_believed = believed;
        // Tables of short history alone, so that nothing is told by what was before the first pass.
        p.indirect.tables = 2;
        p.indirect.table_entries = 8192;
        p.indirect.histories = vec![1, 2];
        let mut predictor = Predictor::new(&p);
        for pass in 0..4 {
            let wrong = (0..100u64)
                .filter(|n| {
                    let steer = predictor.branch(&Executed {
                        kind: Kind::IndirectJump,
                        target: 0x1_0000 + 64 * n,
                        ..jump(0x500)
                    });
                    steer.is_wrong()
                })
                .count();
            // Some share an entry.
            let expected = if pass < passes { 90..=100 } else { 0..=12 };
            assert!(expected.contains(&wrong), "{believed}, {pass}: {wrong}");
        }
    }
}

/// Wrong predictions of jumps at so many places, each of which always goes to the next one, in the
/// last of some rounds.
fn wrong_of_one_target(p: &Branch, places: u64) -> f64 {
    let mut predictor = Predictor::new(p);
    let address = |place: u64| 0x40_0000 + 64 * (place % places);
    let mut wrong = 0;
    for round in 0..4 {
        for place in 0..places {
            let steer = predictor.branch(&Executed {
                target: address(place + 1),
                kind: Kind::IndirectJump,
                ..jump(address(place))
            });
            wrong += u64::from(round == 3 && steer == Steer::WrongTarget);
        }
    }
    wrong as f64 / places as f64
}

#[test]
fn as_many_jumps_with_one_target_are_foreseen_as_last_targets_have_entries() {
    // Nothing but last targets: histories of which no table has room.
    let mut p = parameters();
    p.btb[0].entries = 1 << 16;
    p.indirect.tables = 1;
    p.indirect.table_entries = 16;
    p.indirect.histories = vec![1];
    p.indirect.base_entries = 4096;
    p.indirect.base_ways = 8;
    // 512 sets: two in a hundred have more than eight of 2 048 by chance.
    for (places, least, most) in [(1, 0.0, 0.0), (2048, 0.0, 0.05), (16_384, 0.95, 1.0)] {
        let wrong = wrong_of_one_target(&p, places);
        assert!((least..=most).contains(&wrong), "{places}: {wrong}");
    }
    // Without tags they share places, and a fifth of 2 048 do in 4 096 by chance.
    p.indirect.base_ways = 1;
    let wrong = wrong_of_one_target(&p, 2048);
    assert!((0.15..0.5).contains(&wrong), "{wrong}");
}

#[test]
fn returns_are_predicted_as_deep_as_the_stack_is() {
    for depth in [4u64, 15, 16, 17, 40] {
        let mut predictor = Predictor::new(&parameters());
        let mut wrong = 0;
        for round in 0..10 {
            for n in 0..depth {
                predictor.branch(&Executed {
                    pc: 0x1000 + 32 * n,
                    next: 0x1005 + 32 * n,
                    target: 0x1020 + 32 * n,
                    taken: true,
                    kind: Kind::Call,
                });
            }
            for n in (0..depth).rev() {
                let steer = predictor.branch(&Executed {
                    pc: 0x9000,
                    next: 0x9001,
                    target: 0x1005 + 32 * n,
                    taken: true,
                    kind: Kind::Return,
                });
                wrong += u64::from(round > 0 && steer.is_wrong());
            }
        }
        assert_eq!(wrong, 9 * depth.saturating_sub(16), "depth {depth}");
    }
}

#[test]
fn branches_that_are_not_in_the_btb_are_found_at_decode_or_not_at_all() {
    let mut p = parameters();
    p.btb[0] = Btb {
        entries: 16,
        ways: 4,
        set_bytes: 16,
        bubbles: 0,
        ..Btb::default()
    };
    for unknown_not_taken in [false, true] {
        p.unknown_not_taken = unknown_not_taken;
        let mut predictor = Predictor::new(&p);
        let mut last = Vec::new();
        for _ in 0..4 {
            last = (0..64)
                .map(|n| predictor.branch(&conditional(16 * n, true)))
                .collect();
        }
        let expected = if unknown_not_taken {
            Steer::WrongDirection
        } else {
            Steer::DecodedConditional
        };
        assert!(last.iter().all(|s| *s == expected), "{last:?}");
    }
}

/// An address and the whole history.
type Key = (u64, Vec<u64>);

/// TAGE as its papers draw it, word by word: tables without bounds, whose tags are the address
/// and the whole history.
struct Literal {
    lengths: Vec<usize>,
    tables: Vec<HashMap<Key, i32>>,
    base: HashMap<u64, i32>,
    history: Vec<u64>,
    random: fastrand::Rng,
}

impl Literal {
    fn key(&self, table: usize, pc: u64) -> Key {
        let from = self.history.len().saturating_sub(self.lengths[table]);
        (pc, self.history[from..].to_vec())
    }

    /// Whether the prediction was wrong.
    fn branch(&mut self, pc: u64, taken: bool) -> bool {
        let way = |counter: i32| counter >= 0;
        let step = |c: i32| {
            if taken {
                (c + 1).min(3)
            } else {
                (c - 1).max(-4)
            }
        };
        let keys: Vec<_> = (0..self.tables.len()).map(|t| self.key(t, pc)).collect();
        let mut hits = (0..self.tables.len())
            .rev()
            .filter(|t| self.tables[*t].contains_key(&keys[*t]));
        let (hit, other) = (hits.next(), hits.next());
        let base = *self.base.get(&pc).unwrap_or(&-1);
        let alternate = other.map_or(base, |t| self.tables[t][&keys[t]]);
        let longest = hit.map_or(base, |t| self.tables[t][&keys[t]]);
        // A weak entry may be new: the next longer match is asked.
        let weak = longest == 0 || longest == -1;
        let predicted = way(if hit.is_some() && weak {
            alternate
        } else {
            longest
        });
        if predicted != taken && (hit.is_none() || way(longest) != taken) {
            let first = hit.map_or(0, |t| t + 1) + usize::from(self.random.u64(..4) == 0);
            for table in (first..self.tables.len()).step_by(2).take(2) {
                self.tables[table].insert(keys[table].clone(), if taken { 0 } else { -1 });
            }
        }
        match hit {
            Some(table) => {
                self.tables[table].insert(keys[table].clone(), step(longest));
            }
            None => {
                self.base.insert(pc, step(base));
            }
        }
        predicted != taken
    }
}

/// A program of nested decisions: branches that depend on each other, on counters, on a slowly
/// changing input, and some on nothing.
fn program(mut each: impl FnMut(&Executed)) -> u64 {
    let mut random = fastrand::Rng::with_seed(0xfeed_beef_1234_5677);
    let mut mode = 0u64;
    let mut branches = 0;
    let mut run = |pc: u64, taken: bool| {
        branches += 1;
        each(&conditional(pc, taken));
    };
    for round in 0..6000u64 {
        if random.u64(..50) == 0 {
            mode = random.u64(..4);
        }
        let first = random.u64(..8) < 2 * mode + 1;
        let second = mode & 1 == 1;
        run(0x1000, first);
        run(0x1100, second);
        run(0x1200, first ^ second);
        for n in 0..4 + mode {
            run(0x1300, n + 1 < 4 + mode);
            run(0x1400, first && n & 1 == 0);
        }
        for k in 0..20 {
            run(0x2000 + 0x100 * k, (round + k) % (2 + k % 5) == 0);
        }
        run(0x4000, random.u64(..10) == 0);
        run(0x4100, first && !second);
    }
    branches
}

#[test]
fn short_tags_and_small_tables_cost_less_than_a_twentieth() {
    let mut p = parameters();
    // What the literal model lacks.
    p.direction.loops = 0;
    p.direction.corrector_entries = 0;
    let mut predictor = Predictor::new(&p);
    let lengths = geometric(1, p.direction.longest_history, p.direction.tables);
    let mut literal = Literal {
        tables: vec![HashMap::new(); lengths.len()],
        lengths: lengths.iter().map(|l| *l as usize).collect(),
        base: HashMap::new(),
        history: Vec::new(),
        random: fastrand::Rng::with_seed(7),
    };
    let (mut ours, mut theirs) = (0u64, 0u64);
    let branches = program(|b| {
        ours += u64::from(predictor.branch(b).is_wrong());
        theirs += u64::from(literal.branch(b.pc, b.taken));
        if b.taken {
            literal.history.push(footprint(b.pc, b.target));
        }
    });
    let ratio = ours as f64 / theirs as f64;
    println!("{branches} branches: {ours} wrong, literally {theirs}");
    assert!(
        ratio < 1.05,
        "{ours} wrong of {branches}, literally {theirs}"
    );
    // The corrector and the loop predictor earn their place.
    let mut all = Predictor::new(&parameters());
    let mut with = 0u64;
    program(|b| with += u64::from(all.branch(b).is_wrong()));
    assert!(
        with <= ours,
        "{with} with corrector and loops, {ours} without"
    );
}
