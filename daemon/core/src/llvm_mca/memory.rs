//! Order of loads and stores where nothing is known of addresses and they are taken to be different
//! (llvm-mca's default, `lib/MCA/HardwareUnits/LSUnit.cpp`): stores issue in order, and after the
//! loads before them; loads issue when they can.
//!
//! Loads between stores form groups; a store is a group of its own. A group that a store comes
//! behind is passed when all its members have issued.

use rustc_hash::FxHashMap;

/// Number of a group.
pub(super) type GroupId = u32;

#[derive(Debug, Default)]
struct Group {
    members: u32,
    executing: u32,
    executed: u32,
    /// Groups that have to issue first.
    before: u32,
    /// Groups that wait for this one.
    behind: Vec<GroupId>,
}

impl Group {
    /// All members have issued.
    fn has_issued(&self) -> bool {
        self.executing > 0 && self.executing == self.members - self.executed
    }
}

/// Loads and stores under way.
#[derive(Debug, Default)]
pub(super) struct Memory {
    groups: FxHashMap<GroupId, Group>,
    last: GroupId,
    /// The last groups of loads and of a store that are not done; 0 is none.
    loads: GroupId,
    store: GroupId,
}

impl Memory {
    fn create(&mut self) -> GroupId {
        self.last += 1;
        let group = Group {
            members: 1,
            ..Group::default()
        };
        self.groups.insert(self.last, group);
        self.last
    }

    /// `group` waits until `older` has issued.
    fn follow(&mut self, older: GroupId, group: GroupId) {
        let Some(before) = self.groups.get_mut(&older) else {
            return;
        };
        if before.has_issued() {
            return;
        }
        before.behind.push(group);
        if let Some(group) = self.groups.get_mut(&group) {
            group.before += 1;
        }
    }

    /// Takes the next load or store; its group.
    pub(super) fn dispatch(&mut self, load: bool, store: bool) -> GroupId {
        if store {
            let group = self.create();
            self.follow(self.loads, group);
            self.follow(self.store, group);
            self.store = group;
            if load {
                self.loads = group;
            }
            return group;
        }
        let open = self.groups.get(&self.loads).filter(|g| !g.has_issued());
        if open.is_none() || self.loads <= self.store {
            self.loads = self.create();
        } else if let Some(group) = self.groups.get_mut(&self.loads) {
            group.members += 1;
        }
        self.loads
    }

    /// Whether a group may issue.
    pub(super) fn ready(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_none_or(|g| g.before == 0)
    }

    /// Whether others wait for it.
    pub(super) fn holds_others(&self, group: GroupId) -> bool {
        let group = self.groups.get(&group);
        group.is_some_and(|g| g.executed < g.members && !g.behind.is_empty())
    }

    /// A member issues.
    pub(super) fn issued(&mut self, group: GroupId) {
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        state.executing += 1;
        if !state.has_issued() {
            return;
        }
        for behind in state.behind.clone() {
            if let Some(group) = self.groups.get_mut(&behind) {
                group.before = group.before.saturating_sub(1);
            }
        }
    }

    /// A member is done.
    pub(super) fn executed(&mut self, group: GroupId) {
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        state.executing = state.executing.saturating_sub(1);
        state.executed += 1;
        if state.executed < state.members {
            return;
        }
        self.groups.remove(&group);
        if self.loads == group {
            self.loads = 0;
        }
        if self.store == group {
            self.store = 0;
        }
    }
}
