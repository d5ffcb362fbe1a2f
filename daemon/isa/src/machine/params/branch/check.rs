//! What makes sense of branch prediction's parameters, and the errors where something does not.

use super::super::check::MAX_DELAY;
use super::{
    AddressPath, Branch, Btb, Contexts, Direction, Indirect, MAX_BTB_LEVELS, MAX_HISTORY,
    MAX_NEAR_PAGES, MAX_TABLES, Quick, TargetArray, WEIGHT_TABLES,
};

/// Sets of a table of directions whose numbers are of a path history register: it in turns of nine bits, and one bit of a branch's address.
const PATH_REGISTER_SETS: u32 = 1024;
/// Taken branches in that register.
const PATH_REGISTER_BRANCHES: u32 = 194;

impl Direction {
    /// Whether tables and histories are such as a path history register has, where sets are of one.
    fn check_path_register(&self) -> Result<(), String> {
        let sets = self.table_entries / self.ways;
        match self.path_register {
            true if self.set_bit.is_none() => Err("needs set_bit".into()),
            true if sets != PATH_REGISTER_SETS => {
                Err(format!("needs {PATH_REGISTER_SETS} sets, not {sets}"))
            }
            true if self.longest_history > PATH_REGISTER_BRANCHES => Err(format!(
                "needs longest_history of up to {PATH_REGISTER_BRANCHES}, not {}",
                self.longest_history
            )),
            _ => Ok(()),
        }
    }
}

/// Checks lengths of histories, if there are any, of so many tables.
fn check_histories(histories: &[u32], tables: u32, ends: Option<(u32, u32)>) -> Result<(), String> {
    let (Some(&first), Some(&last)) = (histories.first(), histories.last()) else {
        return Ok(());
    };
    if histories.len() != tables as usize {
        let count = histories.len();
        return Err(format!("has {count} lengths for {tables} tables"));
    }
    if first == 0 || last > MAX_HISTORY || !histories.is_sorted_by(|a, b| a < b) {
        return Err(format!(
            "{histories:?} does not go up from 1 to {MAX_HISTORY}"
        ));
    }
    match ends {
        Some((shortest, longest)) if (first, last) != (shortest, longest) => Err(format!(
            "{histories:?} does not go from shortest_history = {shortest} to longest_history = \
             {longest}"
        )),
        _ => Ok(()),
    }
}

/// Checks that a number of entries is a power of two.
fn check_power(name: &str, value: u32, least: u32) -> Result<(), String> {
    if value.is_power_of_two() && (least..=1 << 20).contains(&value) {
        return Ok(());
    }
    Err(format!(
        "branch.{name} = {value} is not a power of two from {least} to 2^20"
    ))
}

impl Direction {
    /// Whether sums of weights have plain tables.
    fn check_weights(&self) -> Result<(), String> {
        let Some(weights) = self.weights else {
            return Ok(());
        };
        let others = [
            ("path_register", self.path_register),
            ("histories", !self.histories.is_empty()),
            ("set_bit", self.set_bit.is_some()),
            ("ways", self.ways > 1),
            ("entries", !self.entries.is_empty()),
            ("believed_from", self.believed_from.is_some()),
            ("loops", self.loops > 0),
            ("corrector_entries", self.corrector_entries > 0),
        ];
        if let Some((field, _)) = others.into_iter().find(|(_, given)| *given) {
            return Err(format!(" are of tables that have no {field}"));
        }
        for (field, value, least, most) in [
            ("bits", weights.bits.into(), 2, 8),
            ("threshold", weights.threshold.into(), 0, 1024),
            ("near_bits", weights.near_bits, 1, 63),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!(".{field} = {value} is not in {least}..={most}"));
            }
        }
        if self.tables != WEIGHT_TABLES || self.longest_history > 63 {
            return Err(format!(
                " need {WEIGHT_TABLES} tables and a longest_history of up to 63"
            ));
        }
        Ok(())
    }

    /// Checks what the types cannot say; `name` is its own in a CPU's file.
    fn check(&self, name: &str) -> Result<(), String> {
        let longest = self.longest_history;
        for (field, value, least, most) in [
            ("tables", self.tables, 1, MAX_TABLES),
            ("tag_bits", self.tag_bits, 4, 12),
            ("shortest_history", self.shortest_history, 1, longest),
            ("longest_history", longest, 1, MAX_HISTORY),
            ("base_counter_bits", self.base_counter_bits, 2, 3),
            ("ways", self.ways, 1, 16),
            ("set_bit", self.set_bit.unwrap_or(0), 0, 63),
            ("hashed_tables", self.hashed_tables, 0, self.tables),
            (
                "believed_from",
                self.believed_from.unwrap_or(0),
                0,
                self.tables,
            ),
            ("loops", self.loops, 0, 4096),
            ("corrector_entries", self.corrector_entries, 0, 1 << 16),
        ] {
            if !(least..=most).contains(&value) {
                return Err(format!(
                    "branch.{name}.{field} = {value} is not in {least}..={most}"
                ));
            }
        }
        if self.hashed_tables > 0 && !self.path_register {
            return Err(format!("branch.{name}.hashed_tables needs path_register"));
        }
        self.check_weights()
            .map_err(|wrong| format!("branch.{name}.weights{wrong}"))?;
        self.check_path_register()
            .map_err(|wrong| format!("branch.{name}.path_register {wrong}"))?;
        let ends = Some((self.shortest_history, longest));
        check_histories(&self.histories, self.tables, ends)
            .map_err(|wrong| format!("branch.{name}.histories {wrong}"))?;
        if !self.entries.is_empty() && self.entries.len() != self.tables as usize {
            return Err(format!(
                "branch.{name}.entries has {} sizes for {} tables",
                self.entries.len(),
                self.tables
            ));
        }
        for &entries in &self.entries {
            check_power(&format!("{name}.entries"), entries, self.ways)?;
            if entries > self.table_entries {
                return Err(format!(
                    "branch.{name}.entries = {entries} is more than table_entries"
                ));
            }
        }
        let corrector = (self.corrector_entries > 0).then_some(self.corrector_entries);
        for (field, value, least) in [
            ("base_entries", Some(self.base_entries), 16),
            ("table_entries", Some(self.table_entries), 16),
            ("ways", Some(self.ways), 1),
            ("corrector_entries", corrector, 16),
        ] {
            if let Some(value) = value {
                check_power(&format!("{name}.{field}"), value, least)?;
            }
        }
        Ok(())
    }
}

/// Checks that values are not outside their bounds.
fn check_bounds(bounds: &[(&str, u32, u32, u32)]) -> Result<(), String> {
    match bounds
        .iter()
        .find(|(_, value, least, most)| !(least..=most).contains(&value))
    {
        Some((name, value, least, most)) => Err(format!(
            "branch.{name} = {value} is not in {least}..={most}"
        )),
        None => Ok(()),
    }
}

impl Indirect {
    /// Checks what the types cannot say; `d` predicts directions.
    fn check(&self, d: &Direction) -> Result<(), String> {
        if let Some(array) = &self.array {
            return array.check();
        }
        let most = match self.histories.is_empty() {
            true => d.tables.div_ceil(2),
            false => MAX_TABLES,
        };
        let longest = self.histories.last().copied().unwrap_or(d.longest_history);
        let most_late = match self.ways {
            1 => MAX_HISTORY.saturating_sub(longest),
            _ => 0,
        };
        let most_bits = match self.ways {
            1 if !self.histories.is_empty() => 64,
            _ => 0,
        };
        check_bounds(&[
            ("indirect.tables", self.tables, 1, most),
            ("indirect.tag_bits", self.tag_bits, 4, 16),
            ("indirect.ways", self.ways, 1, self.table_entries / 2),
            ("indirect.late", self.late, 0, most_late),
            ("indirect.address_bits", self.address_bits, 0, most_bits),
        ])?;
        check_power("indirect.table_entries", self.table_entries, 16)?;
        if self.led_entries > 0 {
            check_power("indirect.led_entries", self.led_entries, 16)?;
        }
        check_power("indirect.ways", self.ways, 1)?;
        if self.ways > 1 && (!d.path_register || self.histories.is_empty()) {
            return Err("branch.indirect.ways needs histories and direction.path_register".into());
        }
        check_histories(&self.histories, self.tables, None)
            .map_err(|wrong| format!("branch.indirect.histories {wrong}"))?;
        if d.path_register
            && self
                .histories
                .iter()
                .any(|&taken| taken > PATH_REGISTER_BRANCHES)
        {
            return Err(format!(
                "branch.indirect.histories {:?} go beyond the {PATH_REGISTER_BRANCHES} taken branches of direction.path_register",
                self.histories
            ));
        }
        Ok(())
    }
}

impl TargetArray {
    fn check(&self) -> Result<(), String> {
        check_power("indirect.array.entries", self.entries, 16)?;
        check_bounds(&[
            ("indirect.array.history_bits", self.history_bits, 1, 63),
            ("indirect.array.late", self.late, 0, 255),
        ])
    }
}

impl Quick {
    fn check(&self) -> Result<(), String> {
        match (&self.direction, &self.counters, &self.contexts) {
            (None, None, None) if self.base => Ok(()),
            (Some(direction), None, None) if !self.base => {
                direction.check("quick.direction")?;
                if direction.loops > 0 || direction.corrector_entries > 0 {
                    return Err(
                        "branch.quick.direction has loops or a corrector, which are not quick: \
                         both must be 0"
                            .into(),
                    );
                }
                match direction.weights {
                    Some(_) => {
                        Err("branch.quick.direction has weights, whose sum is not quick".into())
                    }
                    None => Ok(()),
                }
            }
            (None, Some(counters), None) if !self.base => {
                check_power("quick.counters.entries", counters.entries, 16)?;
                let bits = counters.history_bits;
                check_bounds(&[("quick.counters.history_bits", bits, 1, 63)])
            }
            (None, None, Some(contexts)) if !self.base => contexts.check(),
            _ => Err("branch.quick needs one of direction, counters, contexts and base".into()),
        }
    }
}

impl Contexts {
    fn check(&self) -> Result<(), String> {
        check_power("quick.contexts.base_entries", self.base_entries, 16)?;
        check_power("quick.contexts.entries", self.entries, 16)?;
        check_power("quick.contexts.ways", self.ways, 1)?;
        check_power("quick.contexts.sets_of_a_branch", self.sets_of_a_branch, 1)?;
        check_bounds(&[
            ("quick.contexts.ways", self.ways, 1, self.entries.min(64)),
            (
                "quick.contexts.sets_of_a_branch",
                self.sets_of_a_branch,
                1,
                self.entries / self.ways.max(1),
            ),
        ])?;
        let tables = self.histories.len() as u32;
        check_bounds(&[("quick.contexts.histories (how many)", tables, 1, 4)])?;
        check_histories(&self.histories, tables, None)
            .map_err(|what| format!("branch.quick.contexts.histories {what}"))
    }
}

impl AddressPath {
    fn check(&self) -> Result<(), String> {
        let [low, high] = self.address_bits;
        check_bounds(&[
            ("address_path.shift", self.shift, 1, 8),
            ("address_path.address_bits[0]", low, 0, high.min(47)),
            (
                "address_path.address_bits[1]",
                high,
                low,
                low.saturating_add(11),
            ),
        ])
    }
}

impl Branch {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// A text that names the parameter and its bound.
    pub fn check(&self) -> Result<(), String> {
        let (d, i) = (&self.direction, &self.indirect);
        let bounds = [
            ("starts_per_cycle", self.starts_per_cycle, 1, 8),
            ("ahead", self.ahead, 1, 255),
            ("line_misses", self.line_misses, 1, 64),
            ("straight_misses", self.straight_misses, 1, self.line_misses),
            ("translations", self.translations, 1, 64),
            ("return_stack", self.return_stack, 1, 1024),
            ("straight_lines", self.straight_lines, 0, 64),
            ("target_bits", self.target_bits, 0, 63),
            ("indirect.base_ways", i.base_ways, 1, 16),
            (
                "near_pages.entries",
                self.near_pages.map_or(1, |near| near.entries),
                1,
                MAX_NEAR_PAGES as u32,
            ),
            (
                "crowded_returns.entries",
                self.crowded_returns.map_or(0, |crowded| crowded.entries),
                0,
                self.return_stack,
            ),
            (
                "streamed_loops.taken_branches",
                self.streamed_loops.map_or(1, |loops| loops.taken_branches),
                1,
                4096,
            ),
        ];
        check_bounds(&bounds)?;
        if self.two_windows && (self.branches_in_pairs || self.starts_per_cycle > 1) {
            return Err(
                "branch.two_windows goes neither with branches_in_pairs nor with starts_per_cycle, \
                 which is what a cycle has instead: leave these two out"
                    .into(),
            );
        }
        d.check("direction")?;
        if let Some(quick) = &self.quick {
            quick.check()?;
            if quick.base && d.weights.is_some() {
                return Err(
                    "branch.quick.base is of tables, and branch.direction has weights".into(),
                );
            }
        }
        i.check(d)?;
        let by_addresses = d.weights.is_some()
            || i.array.is_some()
            || self
                .quick
                .as_ref()
                .is_some_and(|quick| quick.counters.is_some());
        match &self.address_path {
            Some(path) => path.check()?,
            None if by_addresses => {
                return Err(
                    "branch.direction.weights, branch.quick.counters and branch.indirect.array \
                     need branch.address_path"
                        .into(),
                );
            }
            None => {}
        }
        let powers = [
            ("indirect.base_entries", i.base_entries, 16),
            ("indirect.base_ways", i.base_ways, 1),
        ];
        let sets = self.btb.iter().map(|b| ("btb.set_bytes", b.set_bytes, 1));
        for (name, value, least) in powers.into_iter().chain(sets) {
            check_power(name, value, least)?;
        }
        if let Some(n) = (self.btb.iter().enumerate())
            .position(|(n, b)| b.passed_bubbles > 0 && (n > 0 || b.other_page_takes_two))
        {
            return Err(format!(
                "branch.btb[{n}].passed_bubbles is of the nearest one whose branches take one entry each"
            ));
        }
        for (name, delay) in [
            ("redirect", self.redirect),
            ("decoded_redirect", self.decoded_redirect),
            ("decode_redirect", self.decode_redirect),
            (
                "decode_redirect_conditional",
                self.decode_redirect_conditional,
            ),
            ("line_delay", self.line_delay),
            ("line_spacing", self.line_spacing),
            ("missed_starts", self.missed_starts),
            ("translations_hold", self.translations_hold),
            ("call_bubbles", self.call_bubbles),
            ("return_bubbles", self.return_bubbles),
            ("indirect_bubbles", self.indirect_bubbles),
            ("changed_return_bubbles", self.changed_return_bubbles),
            ("chosen_bubbles", self.chosen_bubbles),
            ("far_bubbles", self.far_bubbles),
            (
                "near_pages.bubbles",
                self.near_pages.map_or(0, |near| near.bubbles),
            ),
            (
                "crowded_returns.bubbles",
                self.crowded_returns.map_or(0, |crowded| crowded.bubbles),
            ),
            (
                "page_turn.cycles",
                self.page_turn.map_or(0, |turn| turn.cycles),
            ),
            (
                "quick.bubbles",
                self.quick.as_ref().map_or(0, |quick| quick.bubbles),
            ),
            (
                "btb.bubbles",
                self.btb
                    .iter()
                    .flat_map(|b| {
                        [
                            b.bubbles,
                            b.other_page_bubbles,
                            b.call_bubbles,
                            b.return_bubbles,
                            b.passed_bubbles,
                        ]
                    })
                    .max()
                    .unwrap_or(0),
            ),
        ] {
            if delay > MAX_DELAY {
                return Err(format!("branch.{name} = {delay} is not in 0..={MAX_DELAY}"));
            }
        }
        if let Some(loops) = &self.streamed_loops
            && !(1..=1 << 20).contains(&loops.bytes)
        {
            return Err(format!(
                "branch.streamed_loops.bytes = {} is not in 1..=2^20",
                loops.bytes
            ));
        }
        if self.btb.is_empty() || self.btb.len() > MAX_BTB_LEVELS {
            return Err(format!(
                "branch.btb has {} levels, not 1 to {MAX_BTB_LEVELS}",
                self.btb.len()
            ));
        }
        for (n, b) in self.btb.iter().enumerate() {
            let alike = |b: &Btb| !b.by_direction && !b.other_page_takes_two;
            if b.holds_victims && (n != 1 || self.btb.len() != 2 || !self.btb.iter().all(alike)) {
                return Err(
                    "branch.btb: holds_victims is of the second of two without by_direction and other_page_takes_two"
                        .into(),
                );
            }
            if b.near_bytes > 0 && n + 1 != self.btb.len() {
                return Err("branch.btb: near_bytes is of the last level".into());
            }
            if b.by_direction && Some(b.entries) != b.ways.checked_mul(2) {
                return Err("branch.btb: by_direction needs two sets".into());
            }
            let sets = b.entries.checked_div(b.ways).unwrap_or(0);
            if !sets.is_power_of_two()
                || sets > 1 << 20
                || b.ways > 64
                || sets * b.ways != b.entries
            {
                return Err(format!(
                    "branch.btb: {} entries in {} ways are not a power of two of sets of up to 64 ways",
                    b.entries, b.ways
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Weights;
    use super::*;

    #[test]
    fn two_windows_and_the_base_table_as_quick_predictor_go_with_nothing_else() {
        type Change = fn(&mut Branch);
        let model = crate::machine::cpu("zen5").unwrap();
        let branch = model.core.branch.as_ref().unwrap();
        assert_eq!(branch.check(), Ok(()));
        let wrong: [(Change, &str); 4] = [
            (
                |b| {
                    let zen1 = crate::machine::cpu("zen1").unwrap();
                    b.direction = zen1.core.branch.as_ref().unwrap().direction.clone();
                },
                "branch.quick.base is of tables",
            ),
            (|b| b.starts_per_cycle = 2, "branch.two_windows goes"),
            (|b| b.branches_in_pairs = true, "branch.two_windows goes"),
            (
                |b| {
                    let direction = Some(b.direction.clone());
                    b.quick
                        .iter_mut()
                        .for_each(|q| q.direction = direction.clone());
                },
                "branch.quick needs one of",
            ),
        ];
        for (change, message) in wrong {
            let mut changed = branch.clone();
            change(&mut changed);
            let refused = changed.check().unwrap_err();
            assert!(refused.starts_with(message), "{refused}");
        }
    }

    #[test]
    fn victims_are_in_the_second_of_two_levels() {
        let model = crate::machine::cpu("zen5").unwrap();
        let branch = model.core.branch.as_ref().unwrap();
        assert!(branch.btb[1].holds_victims);
        let changes: [fn(&mut Branch); 3] = [
            |b| b.btb[0].holds_victims = true,
            |b| b.btb.extend_from_within(..1),
            |b| b.btb[0].other_page_takes_two = true,
        ];
        for change in changes {
            let mut changed = branch.clone();
            change(&mut changed);
            let refused = changed.check().unwrap_err();
            assert!(refused.contains("holds_victims"), "{refused}");
        }
    }

    #[test]
    fn a_path_register_takes_tables_and_histories_that_it_has() {
        type Change = fn(&mut Direction);
        let wrong: [(Change, &str); 3] = [
            (|d| d.set_bit = None, "needs set_bit"),
            (|d| d.table_entries *= 2, "needs 1024 sets, not 2048"),
            (
                |d| {
                    d.longest_history = 300;
                    d.histories = vec![3, 9, 18, 34, 66, 300];
                },
                "needs longest_history of up to 194, not 300",
            ),
        ];
        let model = crate::machine::cpu("glc").unwrap();
        let branch = model.core.branch.as_ref().unwrap();
        assert_eq!(branch.check(), Ok(()));
        for (change, message) in wrong {
            let mut changed = branch.clone();
            change(&mut changed.direction);
            let expected = format!("branch.direction.path_register {message}");
            assert_eq!(changed.check(), Err(expected));
        }
        let mut changed = branch.clone();
        changed.direction.path_register = false;
        let refused = changed.check().unwrap_err();
        assert_eq!(
            refused,
            "branch.direction.hashed_tables needs path_register"
        );
        for (entries, message) in [
            (vec![1024; 5], "has 5 sizes for 6 tables"),
            (
                vec![3, 2, 2, 2, 2, 2],
                "= 3 is not a power of two from 2 to 2^20",
            ),
            (vec![4096; 6], "= 4096 is more than table_entries"),
        ] {
            let mut changed = branch.clone();
            changed.direction.entries = entries;
            let expected = format!("branch.direction.entries {message}");
            assert_eq!(changed.check(), Err(expected));
        }
        let mut changed = branch.clone();
        changed.indirect.histories.clear();
        changed.indirect.tables = 3;
        assert_eq!(
            changed.check().unwrap_err(),
            "branch.indirect.ways needs histories and direction.path_register"
        );
        let mut changed = branch.clone();
        changed.indirect.histories = vec![8, 34, 66, 195];
        let refused = changed.check().unwrap_err();
        assert!(
            refused.contains("beyond the 194 taken branches"),
            "{refused}"
        );
    }

    #[test]
    fn weights_are_of_few_bits_and_of_plain_tables() {
        let branch = &crate::machine::cpu("zen1").unwrap().core.branch;
        let branch = branch.clone().unwrap();
        assert_eq!(branch.check(), Ok(()));
        let mut wide = branch.clone();
        wide.direction.weights = Some(Weights {
            bits: 9,
            threshold: 6,
            near_bits: 42,
        });
        let refused = wide.check().unwrap_err();
        assert!(refused.contains("weights.bits = 9"), "{refused}");
        let mut lost = branch.clone();
        lost.address_path = None;
        let refused = lost.check().unwrap_err();
        assert!(refused.contains("need branch.address_path"), "{refused}");
        let mut counted = branch.clone();
        counted.direction.loops = 64;
        let refused = counted.check().unwrap_err();
        assert!(refused.contains("no loops"), "{refused}");
        let mut quick = branch;
        let direction = quick.direction.clone();
        let both = quick.quick.as_mut().unwrap();
        both.direction = Some(direction);
        let refused = both.check().unwrap_err();
        assert!(
            refused.contains("one of direction, counters, contexts and base"),
            "{refused}"
        );
        both.counters = None;
        let refused = quick.check().unwrap_err();
        assert!(refused.contains("not quick"), "{refused}");
    }
}
