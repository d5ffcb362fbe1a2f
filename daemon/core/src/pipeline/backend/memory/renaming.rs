//! Which loads are renamed to the registers of stores, of those that could be: of code from the decoders only such as
//! lie far apart; where addresses are not known at rename, only those that have been learnt; in programs, on some cores, only those
//! that met a store for long.

use super::learnt::{LastStores, Learning, Learnt, Met};
use super::older_stores;
use super::steady::Steady;
use crate::pipeline::backend::addresses::Made;
use crate::pipeline::fold::Folding;
use crate::pipeline::inst::{Inst, Source};
use crate::pipeline::state::{Fingerprint, Moment, Part};
use mcad_isa::machine::params::Execute;
use mcad_isa::program::Instr;

/// What rename knows of loads and stores.
pub struct Renaming {
    /// Addresses of the last two loads from the decoders that could be renamed.
    last: [u64; 2],
    /// What the addresses of the last stores are made of, by number; empty where it does not matter.
    stores: Box<[Made]>,
    learnt: Learnt,
    /// Where loads look for the last store of some instructions, and which these are, by the stores' numbers.
    last_stores: LastStores,
    stored_by: Box<[u64]>,
    steady: Steady,
}

impl Renaming {
    pub fn new(p: &Execute) -> Self {
        let stores = match p.memory_renaming_learnt {
            0 => Box::default(),
            _ => vec![Made::UNKNOWN; older_stores::RECENT].into(),
        };
        Self {
            last: [0; 2],
            stores,
            learnt: Learnt::new(p.memory_renaming_learnt, p.memory_renaming_learnt_sets),
            last_stores: LastStores::default(),
            stored_by: Box::default(),
            steady: Steady::new(0),
        }
    }

    /// Loads that are learnt are renamed after they met the store so many times in a row that they look for: the last one of those
    /// instructions that they had their data from, or the one as far back.
    pub fn learns_after(&mut self, times: u8, of_instructions: bool) {
        self.learnt.renames_after(times);
        if of_instructions {
            self.last_stores = LastStores::new(true);
            self.stored_by = vec![0; older_stores::RECENT].into();
        }
    }

    /// Loads are renamed after they met a store so many times on end; 0: at once.
    pub fn is_steady_after(&mut self, times: u8) {
        self.steady = Steady::new(times);
    }

    /// What the address of a store, by the instruction at `by`, is made of.
    #[inline]
    pub fn store(&mut self, number: u64, by: u64, made: Made) {
        if let Some(stored_by) = self
            .stored_by
            .get_mut(number as usize % older_stores::RECENT)
        {
            *stored_by = by;
            self.last_stores.store(by, number);
        }
        if let Some(store) = self.stores.get_mut(number as usize % older_stores::RECENT) {
            *store = made;
        }
    }

    /// Fetch has been sent elsewhere than it had gone so many times.
    #[inline]
    pub fn steered(&mut self, times: u64) {
        self.steady.steered(times);
    }

    /// Whether a load, which meets a store, has done so for long enough to be renamed.
    #[inline]
    pub fn is_steady(&mut self, inst: &Inst) -> bool {
        self.steady.meets(inst.address)
    }

    /// A load met no store; returns whether it had been renamed.
    pub fn forget(&mut self, inst: &Inst) -> bool {
        self.learnt.forget(inst.address)
    }

    /// By what a load that is learnt looks for this store, which is so many before it.
    fn met(&self, store: u64, back: u64) -> Met {
        match self.stored_by.get(store as usize % older_stores::RECENT) {
            Some(by) => Met::Store(store, *by),
            None => Met::Back(back),
        }
    }

    /// Whether a load is renamed, which could be to the register of this store.
    pub fn possible(
        &mut self,
        p: &Execute,
        inst: &Inst,
        instr: &Instr,
        store: u64,
        made: Made,
        back: u64,
    ) -> Learning {
        if let Some(of_store) = self.stores.get(store as usize % older_stores::RECENT) {
            if made.can_not_be_learnt(*of_store) && !p.memory_renaming_of_constants {
                return Learning::Unknown;
            }
            let followed = !p.memory_renaming_knows_stack || made.is_of_stack();
            let known = instr.address_kept && followed && made.is_known_as(*of_store);
            if !known {
                let met = self.met(store, back);
                let learning = self.learnt.meet(inst.address, met, &self.last_stores);
                if learning != Learning::Renamed {
                    return learning;
                }
            }
        }
        let spacing = p.memory_renaming_spacing;
        if spacing == 0 || inst.source != Source::Decoders {
            return Learning::Renamed;
        }
        let before = self.last[1];
        self.last = [inst.address, self.last[0]];
        match inst.address.wrapping_sub(before) >= 2 * spacing {
            true => Learning::Renamed,
            false => Learning::Unknown,
        }
    }
}

impl Part for Renaming {
    fn fold(&mut self, folding: &mut Folding) {
        folding.table(&mut self.stores, Made::UNKNOWN);
        self.learnt.fold(folding);
        self.last_stores.fold(folding);
        folding.table(&mut self.stored_by, 0);
        self.steady.fold(folding);
    }

    fn reset(&mut self, end: &Moment) {
        let Self {
            last,
            stores,
            learnt,
            last_stores,
            stored_by,
            steady,
        } = self;
        *last = [0; 2];
        stores.fill(Made::UNKNOWN);
        last_stores.clear();
        stored_by.fill(0);
        learnt.reset(end);
        steady.reset(end);
    }

    /// Two states are compared only where code lies alike; how far it has come is no difference.
    fn fingerprint(&self, at: &Moment, h: &mut Fingerprint) {
        let Self {
            last: _,
            stores: _,
            learnt,
            last_stores: _,
            stored_by: _,
            steady,
        } = self;
        learnt.fingerprint(at, h);
        steady.fingerprint(at, h);
    }
}
