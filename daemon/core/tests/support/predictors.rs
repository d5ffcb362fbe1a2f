//! Branch predictors of built-in CPUs.

use mcad_core::pipeline::frontend::predict::{Executed, Kind};
use mcad_isa::machine;
use mcad_isa::machine::params::branch::Branch;

pub fn predictors_of(cpu: &str) -> Branch {
    let model = machine::cpu(cpu).expect("it is built in");
    let branch = model.core.branch.as_ref();
    branch.expect("it predicts branches").clone()
}

/// Those without the two tables of short histories.
pub fn without_short(branch: &Branch) -> Branch {
    let mut without = branch.clone();
    let d = &mut without.direction;
    d.histories.drain(..2);
    d.entries.drain(..2);
    d.tables -= 2;
    d.shortest_history = d.histories[0];
    d.hashed_tables = 0;
    without
}

/// A conditional branch over the next 64 bytes.
pub fn conditional(pc: u64, taken: bool) -> Executed {
    Executed {
        pc,
        next: pc + 2,
        target: pc + 64,
        taken,
        kind: Kind::Conditional,
    }
}

/// A jump to the next 16 bytes.
pub fn jump(pc: u64) -> Executed {
    Executed {
        pc,
        next: pc + 2,
        target: pc + 16,
        taken: true,
        kind: Kind::Jump,
    }
}
