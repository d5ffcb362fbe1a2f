//! Branch predictors of built-in CPUs.

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
