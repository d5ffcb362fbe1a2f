//! Which of it changed: instructions, wrong predictions, misses by level; and what the change of
//! cycles went to.

use mcad_report::CpuReport;

use super::{CauseDelta, CpuDiff, Delta, SlotDelta};

/// Counts of what holds a program up; those that both versions know and that are not zero in both.
pub(super) fn deltas(before: &CpuReport, after: &CpuReport) -> Vec<CauseDelta> {
    let mut all = vec![(
        "instructions",
        Some(before.instructions),
        Some(after.instructions),
    )];
    let mut add = |kind, of: &dyn Fn(&CpuReport) -> Option<u64>| {
        all.push((kind, of(before), of(after)));
    };
    add("mispredictions", &|c| Some(c.branches.as_ref()?.wrong()));
    add("branches_found_late", &|c| {
        Some(c.branches.as_ref()?.decoded)
    });
    add("l1d_misses", &|c| Some(c.memory.as_ref()?.loads.misses()));
    add("l2_misses", &|c| {
        let loads = &c.memory.as_ref()?.loads;
        Some(loads.l3.saturating_add(loads.dram))
    });
    add("l3_misses", &|c| Some(c.memory.as_ref()?.loads.dram));
    add("store_misses", &|c| {
        Some(c.memory.as_ref()?.stores.misses())
    });
    add("l1i_misses", &|c| Some(c.memory.as_ref()?.fetches.misses()));
    add("page_walks", &|c| {
        let m = c.memory.as_ref()?;
        Some(m.walks.saturating_add(m.fetch_walks))
    });
    add("page_faults", &|c| Some(c.memory.as_ref()?.page_faults));
    let known = all.into_iter().filter_map(|(kind, before, after)| {
        let counts = Delta::new(before?, after?);
        (counts.before > 0 || counts.after > 0).then_some(CauseDelta { kind, counts })
    });
    known.collect()
}

impl CpuDiff {
    /// Issue slots as people are shown them: cause by cause where that is known.
    #[must_use]
    pub fn shown_slots(&self) -> &[SlotDelta] {
        match self.slots.is_empty() {
            true => &self.topdown,
            false => &self.slots,
        }
    }

    /// The kind of issue slots, or in order the cause, that changed most in the direction in which the
    /// cycles did, with that change in cycles; none when nothing did, or the analysis knows no slots.
    #[must_use]
    pub fn mostly(&self) -> Option<(&'static str, i128)> {
        let all = |n: usize| -> u64 {
            let count = |delta: &Delta| if n == 0 { delta.before } else { delta.after };
            let slots = self.topdown.iter().map(|s| count(&s.slots));
            slots.fold(0, u64::saturating_add)
        };
        // Slots in a cycle: the width of issue.
        let (slots, cycles) = match self.cycles.after {
            0 => (all(0), self.cycles.before),
            after => (all(1), after),
        };
        let width = (slots as f64 / cycles.max(1) as f64).round().max(1.0) as i128;
        let sign = self.cycles.delta.signum();
        let kinds = self.shown_slots().iter();
        let changes = kinds.map(|s| (s.kind, s.slots.delta / width));
        let same = changes.filter(|(_, cycles)| cycles.signum() == sign && sign != 0);
        same.max_by_key(|(_, cycles)| cycles.abs())
    }
}
