//! Generated programs through the core's predictor and the reference.

use super::*;

/// Conditional branches of a small program with these parts, each a few thousand times.
fn generated(part: &str, mut each: impl FnMut(&Executed)) {
    let mut random = fastrand::Rng::with_seed(0x51ce_b00c);
    let mut branch = |pc: u64, target: u64, taken: bool| {
        each(&Executed {
            pc,
            next: pc + 2,
            target,
            taken,
            kind: Kind::Conditional,
        });
    };
    for round in 0..4000u64 {
        match part {
            // Loops whose turns follow from a decision before them.
            "loops" => {
                let long = random.u8(0..3) == 0;
                branch(0x40_1000, 0x40_1040, long);
                for turn in 0..if long { 17 } else { 5 } {
                    branch(0x40_1080, 0x40_1010, turn + 1 < if long { 17 } else { 5 });
                }
            }
            // Decisions, some of which follow from others.
            "decisions" => {
                let (a, b) = (random.u8(0..4) == 0, random.bool());
                branch(0x40_2000, 0x40_2020, a);
                branch(0x40_2024, 0x40_2060, b);
                for n in 0..12 {
                    branch(0x40_2100 + 9 * n, 0x40_2400, (round + n) % (3 + n) == 0);
                }
                branch(0x40_2200, 0x40_2300, a ^ b);
                branch(0x40_2208, 0x40_2300, a && !b);
            }
            // Many branches, each biased in its way.
            _ => {
                for n in 0..24 {
                    branch(0x40_3000 + 37 * n, 0x40_2f00, random.u64(0..32) < n / 4);
                }
            }
        }
    }
}

/// Wrong predictions of a generated program: with these parameters, and by references.
fn both(part: &str, parameters: &Branch) -> (f64, f64) {
    let mut core = Predictor::new(parameters);
    let mut references: Vec<_> = (0..REFERENCES).map(Reference::new).collect();
    let (mut ours, mut theirs) = (0u64, 0u64);
    generated(part, |b| {
        ours += u64::from(core.branch(b) == Steer::WrongDirection);
        theirs += references
            .iter_mut()
            .map(|r| u64::from(r.branch(b)))
            .sum::<u64>();
    });
    (ours as f64, theirs as f64 / REFERENCES as f64)
}

#[test]
fn generated_programs_are_predicted_as_the_reference_does() {
    let class = of_the_class().unwrap();
    for part in ["loops", "decisions", "biases"] {
        let (ours, theirs) = both(part, &class);
        assert!(theirs > 1000.0, "{part}: {theirs} wrong say little");
        let off = ours / theirs - 1.0;
        assert!(
            off.abs() <= AGREEMENT,
            "{part}: {ours} wrong, literally {theirs}"
        );
    }
}

#[test]
fn a_predictor_of_another_class_is_told() {
    let mut short = of_the_class().unwrap();
    short.direction.tables = 2;
    short.direction.longest_history = 3;
    (short.direction.loops, short.direction.corrector_entries) = (0, 0);
    let (ours, theirs) = both("loops", &short);
    assert!(
        ours > (1.0 + AGREEMENT) * theirs,
        "{ours} wrong, literally {theirs}"
    );
}
