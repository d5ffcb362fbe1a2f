//! Execution ports: their names, what each is for, and how one is chosen for a µop.
//!
//! In a file a port is named, never numbered, and a set of ports is a text of names with spaces
//! between them: `load = "2 3"`.

use serde::{Deserialize, Serialize};

use super::check::{Bounds, Checked};

/// Most ports that a core may have.
pub const MAX_PORTS: usize = 32;

/// Most ports of which each is given one µop in an issue cycle.
pub const MAX_DEALT: usize = 6;

/// Most schedulers that a core may have, with the common one.
pub const MAX_SCHEDULERS: usize = 8;

/// Longest time, in cycles, that a µop may keep its scheduler entry after it has started.
pub const MAX_HOLD: u32 = 63;

/// A set of execution ports; bit n is the n-th of [`PortLayout::names`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortSet(pub u32);

impl PortSet {
    /// No port.
    pub const NONE: Self = Self(0);

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a port is in it.
    #[inline]
    #[must_use]
    pub fn has(self, port: u8) -> bool {
        self.0.checked_shr(port.into()).unwrap_or(0) & 1 != 0
    }

    /// How many there are.
    #[inline]
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether some port is in both.
    #[inline]
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of `other` is in it.
    #[inline]
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is in it and not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// What is in one or the other.
    #[inline]
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Its ports, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let port = rest.trailing_zeros() as u8;
            (rest != 0).then(|| {
                rest &= rest - 1;
                port
            })
        })
    }
}

/// How a port is chosen among a µop's ports at issue. Abel & Reineke (ICS 2022, section 4.1.2)
/// found the rules of Intel's cores. They count the µops that are assigned to a port and not yet
/// dispatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortChoice {
    /// The least used port in even issue slots, the most used in odd ones (Sandy and Ivy Bridge).
    LeastOrMost,
    /// The least used port in even issue slots, the second least in odd ones (Haswell to Cascade
    /// Lake).
    LeastOrSecond,
    /// The ports in the order of their use in the cycle before, one after the other (Ice Lake on).
    Ordered,
    /// The same order, in which the issue slot alone says the place (Golden Cove,
    /// docs/GOLDEN-COVE.md).
    OrderedBySlot,
    /// The port with the fewest µops assigned and not yet dispatched, those of the same issue cycle
    /// counted; of equal ones the one after that which was chosen last.
    LeastUsed,
    /// Any port with equal chance, whatever its use.
    Scattered,
    /// Every port in turn (ablation: no knowledge of the real rule).
    InTurn,
}

/// What a µop does in memory accesses, told from its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Reads memory.
    Load,
    /// Computes the address of a store.
    StoreAddress,
    /// Delivers a store's data.
    StoreData,
    /// Has no part in them.
    Compute,
}

/// The ports of a core.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub struct PortLayout {
    /// Their names, by which tables and views call them.
    pub names: Vec<String>,
    /// How a port is chosen.
    pub choice: PortChoice,
    /// Integer ALUs: µops of the machine's own and instructions without figures go there.
    pub alu: PortSet,
    /// Loads.
    pub load: PortSet,
    /// Store addresses.
    pub store_address: PortSet,
    /// Where these start, if not there alone: tables have `store_address`, which tells them from loads. Empty: there.
    pub store_address_starts: PortSet,
    /// Store data. Where integer ALUs are among them, they take the data of an instruction in which
    /// no µop computes it.
    pub store_data: PortSet,
    /// Those ports do other work too: only in an instruction that writes memory is a µop on them
    /// store data.
    pub store_data_computes: bool,
    /// The µop that merges a high-8 register which was renamed apart; empty where there is none.
    pub merge: PortSet,
    /// A conditional jump that is not taken, in whole programs, where the instruction table has the port of those that are taken.
    pub not_taken: PortSet,
    /// Loads that start before the addresses of all older stores are made, in whole programs; empty: all of theirs.
    pub ahead_of_stores: PortSet,
    /// Where µops start that keep a divider, whichever port they were counted for.
    pub divider: PortSet,
    /// Ports whose vector units 512-bit operations take with others: closed to vector µops, but
    /// those that can go nowhere else, in a block that has such operations.
    pub taken_by_512: PortSet,
    /// Where an operation on an ALU executes that is fused with a jump which can go elsewhere than to
    /// ALUs. Empty: on any ALU.
    pub pairs: PortSet,
    /// The same of one that writes a register besides the flags. Empty: as the others.
    pub pairs_with_result: PortSet,
    /// Of [`PortLayout::alu`], those for what an instruction computes with memory that has a base, an
    /// index and another register to read, or a displacement and an immediate: its µops stay together in
    /// the scheduler of an address unit. A store of a register by an index takes any ALU, too, and so does one of an immediate by
    /// an index or of 32 bits and more. Empty: all, and such stores none.
    pub beside_addresses: PortSet,
    /// ALUs of which each is kept for a cycle by what writes a general-purpose register from vector registers, as if their results
    /// went the same way; what writes a vector register from a general-purpose one takes an ALU. Empty: none.
    pub results_of_vectors: PortSet,
    /// Ports of which each is given at most one µop in an issue cycle, in program order: what finds none for itself issues
    /// in the next cycle, with all that follows. Empty: none.
    pub one_a_cycle: PortSet,
    /// Sets whose ports µops take in turn, whatever their use.
    pub in_turn: Vec<PortSet>,
    /// Ports of one scheduler whose µops are bound to none when they issue: each starts on whichever of
    /// its ports is free.
    pub unbound: PortSet,
    /// Of so many µops that wait for unbound ports any may start first; 1: the oldest does.
    pub disorder: u32,
    /// Ports of another scheduler whose µops are bound to none either, where the oldest ready µop
    /// starts first and none in vain.
    pub oldest_first: PortSet,
    /// Address units that a µop has for itself in the first cycle in which it may start, if it waits for nothing and its address
    /// is anything but a register and a displacement: one whose address is, and that waited for the register, starts a cycle
    /// later there, though it is older.
    pub overtaken: PortSet,
    /// Schedulers that the µops of some ports have for themselves; the others wait in that of
    /// [`Execute`](super::Execute).
    pub schedulers: Vec<Scheduler>,
}

/// A scheduler of some ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The ports that it serves.
    pub ports: PortSet,
    /// µops that it holds, out of which it chooses.
    pub entries: u32,
    /// µops that wait in front of it in program order, until it has room.
    pub queue: u32,
    /// Cycles that a µop keeps its entry after it has started, as loads may until their result is
    /// certain.
    pub hold: u32,
    /// Entries without which nothing issues, into whichever scheduler; 0: as many as can issue in a cycle.
    pub room: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchedulerText {
    ports: String,
    entries: u32,
    #[serde(default)]
    queue: u32,
    #[serde(default)]
    hold: u32,
    #[serde(default, skip_serializing_if = "super::is_default")]
    room: u32,
}

/// The section as it is written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    names: String,
    choice: PortChoice,
    alu: String,
    load: String,
    store_address: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    store_address_starts: String,
    store_data: String,
    #[serde(default)]
    store_data_computes: bool,
    #[serde(default)]
    merge: String,
    #[serde(default)]
    not_taken: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    ahead_of_stores: String,
    divider: String,
    #[serde(default)]
    taken_by_512: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pairs: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pairs_with_result: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    beside_addresses: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    results_of_vectors: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    one_a_cycle: String,
    #[serde(default)]
    in_turn: Vec<String>,
    #[serde(default)]
    unbound: String,
    #[serde(default = "in_order")]
    disorder: u32,
    #[serde(default)]
    oldest_first: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    overtaken: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    schedulers: Vec<SchedulerText>,
}

const fn in_order() -> u32 {
    1
}

impl TryFrom<Text> for PortLayout {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        let names: Vec<String> = text.names.split_whitespace().map(str::to_owned).collect();
        let set = |key: &str, ports: &str| {
            set_of(&names, ports).map_err(|what| format!("ports.{key}: {what}"))
        };
        Ok(Self {
            choice: text.choice,
            alu: set("alu", &text.alu)?,
            load: set("load", &text.load)?,
            store_address: set("store_address", &text.store_address)?,
            store_address_starts: set("store_address_starts", &text.store_address_starts)?,
            store_data: set("store_data", &text.store_data)?,
            store_data_computes: text.store_data_computes,
            merge: set("merge", &text.merge)?,
            not_taken: set("not_taken", &text.not_taken)?,
            ahead_of_stores: set("ahead_of_stores", &text.ahead_of_stores)?,
            divider: set("divider", &text.divider)?,
            taken_by_512: set("taken_by_512", &text.taken_by_512)?,
            pairs: set("pairs", &text.pairs)?,
            pairs_with_result: set("pairs_with_result", &text.pairs_with_result)?,
            beside_addresses: set("beside_addresses", &text.beside_addresses)?,
            results_of_vectors: set("results_of_vectors", &text.results_of_vectors)?,
            one_a_cycle: set("one_a_cycle", &text.one_a_cycle)?,
            in_turn: text
                .in_turn
                .iter()
                .map(|ports| set("in_turn", ports))
                .collect::<Result<_, _>>()?,
            unbound: set("unbound", &text.unbound)?,
            disorder: text.disorder,
            oldest_first: set("oldest_first", &text.oldest_first)?,
            overtaken: set("overtaken", &text.overtaken)?,
            schedulers: text
                .schedulers
                .iter()
                .map(|scheduler| {
                    Ok::<_, String>(Scheduler {
                        ports: set("schedulers", &scheduler.ports)?,
                        entries: scheduler.entries,
                        queue: scheduler.queue,
                        hold: scheduler.hold,
                        room: scheduler.room,
                    })
                })
                .collect::<Result<_, _>>()?,
            names,
        })
    }
}

impl From<PortLayout> for Text {
    fn from(layout: PortLayout) -> Self {
        let text = |set: PortSet| {
            let names: Vec<&str> = set.iter().map(|port| layout.name(port)).collect();
            names.join(" ")
        };
        Self {
            choice: layout.choice,
            alu: text(layout.alu),
            load: text(layout.load),
            store_address: text(layout.store_address),
            store_address_starts: text(layout.store_address_starts),
            store_data: text(layout.store_data),
            store_data_computes: layout.store_data_computes,
            merge: text(layout.merge),
            not_taken: text(layout.not_taken),
            ahead_of_stores: text(layout.ahead_of_stores),
            divider: text(layout.divider),
            taken_by_512: text(layout.taken_by_512),
            pairs: text(layout.pairs),
            pairs_with_result: text(layout.pairs_with_result),
            beside_addresses: text(layout.beside_addresses),
            results_of_vectors: text(layout.results_of_vectors),
            one_a_cycle: text(layout.one_a_cycle),
            in_turn: layout.in_turn.iter().map(|set| text(*set)).collect(),
            unbound: text(layout.unbound),
            disorder: layout.disorder,
            oldest_first: text(layout.oldest_first),
            overtaken: text(layout.overtaken),
            schedulers: (layout.schedulers.iter())
                .map(|scheduler| SchedulerText {
                    ports: text(scheduler.ports),
                    entries: scheduler.entries,
                    queue: scheduler.queue,
                    hold: scheduler.hold,
                    room: scheduler.room,
                })
                .collect(),
            names: layout.names.join(" "),
        }
    }
}

fn set_of(names: &[String], ports: &str) -> Result<PortSet, String> {
    let mut set = 0;
    for name in ports.split_whitespace() {
        let place = names.iter().take(MAX_PORTS).position(|n| n == name);
        set |= 1 << place.ok_or_else(|| format!("'{name}' is none of: {}", names.join(" ")))?;
    }
    Ok(PortSet(set))
}

impl PortLayout {
    /// Number of ports.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// A port's name.
    #[must_use]
    pub fn name(&self, port: u8) -> &str {
        self.names.get(usize::from(port)).map_or("?", |n| n)
    }

    /// A set as views write it: `015`, or `alu0/alu1` where names have several characters.
    #[must_use]
    pub fn text(&self, set: PortSet) -> String {
        let names: Vec<&str> = set.iter().map(|port| self.name(port)).collect();
        let short = self.names.iter().all(|name| name.chars().count() == 1);
        names.join(if short { "" } else { "/" })
    }

    /// The ports with these names, which have spaces between them.
    ///
    /// # Errors
    /// Says which name is none and what there is.
    pub fn set(&self, ports: &str) -> Result<PortSet, String> {
        set_of(&self.names, ports)
    }

    /// What a µop with these ports does in memory accesses, in an instruction that writes memory
    /// if `stores`.
    #[must_use]
    pub fn role(&self, ports: PortSet, stores: bool) -> Role {
        let only_addresses = self.store_address.without(self.load);
        let addresses = ports == self.store_address && ports != self.load;
        if ports.meets(only_addresses) || (addresses && stores) {
            Role::StoreAddress
        } else if ports.meets(self.load) {
            Role::Load
        } else if ports.meets(self.store_data)
            && (stores || !self.store_data_computes)
            && !self.alu.contains(ports)
        {
            Role::StoreData
        } else {
            Role::Compute
        }
    }

    pub(super) fn check(&self) -> Checked {
        let b = Bounds("ports");
        let count = self.names.len();
        b.holds("names", (1..=MAX_PORTS).contains(&count), || {
            format!("{count} ports are not in 1..={MAX_PORTS}")
        })?;
        let unique = (1..count).all(|n| !self.names[..n].contains(&self.names[n]));
        b.holds("names", unique, || "a name occurs twice".into())?;
        let all = PortSet(u32::MAX >> (MAX_PORTS - count));
        for (key, set) in [
            ("alu", self.alu),
            ("load", self.load),
            ("store_address", self.store_address),
            ("store_data", self.store_data),
            ("divider", self.divider),
        ] {
            b.holds(key, !set.is_empty(), || "no port does this".into())?;
            b.holds(key, all.contains(set), || "a port is not there".into())?;
        }
        b.within("disorder", self.disorder, 1, 64)?;
        let few = self.one_a_cycle.len() as usize <= MAX_DEALT;
        b.holds("one_a_cycle", few, || {
            format!("there may be {MAX_DEALT} of them")
        })?;
        let most = self.schedulers.len() < MAX_SCHEDULERS;
        b.holds("schedulers", most, || {
            format!("there may be {} of them", MAX_SCHEDULERS - 1)
        })?;
        let apart = !self.oldest_first.meets(self.unbound);
        b.holds("oldest_first", apart, || "some are unbound".into())?;
        let bound = !self.overtaken.meets(self.unbound.with(self.oldest_first));
        b.holds("overtaken", bound, || {
            "some are given to µops only when these start".into()
        })?;
        let mut before = PortSet::NONE;
        for s in &self.schedulers {
            b.holds("schedulers", !s.ports.meets(before), || {
                "a port has two of them".into()
            })?;
            before = before.with(s.ports);
            for (key, set) in [
                ("unbound", self.unbound),
                ("oldest_first", self.oldest_first),
            ] {
                let one = !s.ports.meets(set) || s.ports.contains(set);
                b.holds(key, one, || {
                    "these ports have more than one scheduler".into()
                })?;
            }
            b.within("schedulers", s.entries, 16, 1024)?;
            b.within("schedulers", s.queue, 0, 512)?;
            b.within("schedulers", s.hold, 0, MAX_HOLD)?;
            b.within("schedulers", s.room, 0, s.entries)?;
        }
        Ok(())
    }
}
