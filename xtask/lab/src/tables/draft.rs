//! One CPU's table while it is made: its own rows mapped to codes.

use iced_x86::Code;
use mcad_isa::machine::table::{FlagGroups, Form, Selector, Traits};

use super::cpus::Cpu;
use super::figures::{self, Settled};
use super::mapping::{Catalogue, Fit, Target};
use super::operands::{self, Lists};
use super::source::Row;
use super::spec;

/// A form that a code may have.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub code: Code,
    pub selector: Selector,
    pub fit: Fit,
    pub form: usize,
}

/// What the generator could not do, or had to decide.
#[derive(Debug, Default)]
pub struct Report {
    pub rows: usize,
    pub unmapped: Vec<(String, &'static str)>,
    pub shadowed: Vec<String>,
    pub disagreements: Vec<String>,
    pub not_found_again: Vec<String>,
    pub settled: Settled,
    pub borrowed: usize,
    pub ports_from_relative: usize,
    pub analogous: usize,
    pub estimated: usize,
}

/// A table in the making.
pub struct Draft {
    pub cpu: &'static Cpu,
    pub forms: Vec<Form>,
    /// In order of preference within each code.
    pub candidates: Vec<Candidate>,
    pub report: Report,
}

impl Draft {
    /// Maps all rows of a CPU.
    pub fn new(cpu: &'static Cpu, rows: &[Row], catalogue: &Catalogue, lists: &Lists) -> Self {
        let mut draft = Self {
            cpu,
            forms: Vec::new(),
            candidates: Vec::new(),
            report: Report {
                rows: rows.len(),
                ..Report::default()
            },
        };
        for row in rows {
            draft.add(row, catalogue, lists);
        }
        // Stable: rows keep their order within a fit.
        draft.candidates.sort_by_key(|c| (c.code as usize, c.fit));
        draft.prune();
        draft
    }

    fn add(&mut self, row: &Row, catalogue: &Catalogue, lists: &Lists) {
        let title = format!("{} | {}", row.iform, row.string);
        let spec = spec::parse(row);
        let mut targets = catalogue.targets(row, &spec);
        targets.retain(|t| is_encodable_address(t.selector));
        if targets.is_empty() {
            let reason = reason_unmapped(row);
            self.report.unmapped.push((title, reason));
            return;
        }
        let perf = match figures::of_row(row, &mut self.report.settled) {
            Ok(perf) => perf,
            Err(what) => {
                self.report.disagreements.push(format!("{title}: {what}"));
                return;
            }
        };
        let (read, written) = row.flags();
        let first = self.forms.len();
        for target in targets {
            let bound = operands::bind(row, &spec, &target, lists);
            let known = self.forms[first..]
                .iter()
                .position(|f| f.operands == bound.operands);
            let form = known.map_or(self.forms.len(), |n| first + n);
            if known.is_none() {
                for what in bound.disagreements {
                    self.report.disagreements.push(format!("{title}: {what}"));
                }
                self.forms.push(Form {
                    name: row.string.as_str().into(),
                    operands: bound.operands,
                    flags_read: groups(&read),
                    flags_written: groups(&written),
                    macro_fusible: row
                        .macro_fusible
                        .iter()
                        .filter_map(|j| spec::condition_bit(j))
                        .fold(0, |bits, bit| bits | bit),
                    locked: row.is_locked(),
                    perf: perf.base.clone(),
                    indexed: perf.indexed.clone(),
                    same_reg: perf.same_reg.clone(),
                    approximated_from: None,
                    source: format!("row of {}", self.cpu.source).into(),
                });
            }
            self.candidates.push(Candidate {
                code: target.code,
                selector: target.selector,
                fit: target.fit,
                form,
            });
        }
    }

    /// Drops candidates that an earlier one of the same code always precedes.
    fn prune(&mut self) {
        let mut kept: Vec<Candidate> = Vec::with_capacity(self.candidates.len());
        for candidate in std::mem::take(&mut self.candidates) {
            let earlier = kept
                .iter()
                .rev()
                .take_while(|k| k.code == candidate.code)
                .find(|k| k.selector.covers(candidate.selector));
            match earlier {
                None => kept.push(candidate),
                Some(earlier) if candidate.fit == Fit::Exact => {
                    self.report.shadowed.push(format!(
                        "{:?}: {} by {}",
                        candidate.code,
                        self.forms[candidate.form].name,
                        self.forms[earlier.form].name
                    ));
                }
                Some(_) => {}
            }
        }
        self.candidates = kept;
    }

    /// Adds a borrowed or analogous candidate if no present one covers it; true if it was added.
    /// Without a source it is the same operation as a measured one, not an approximation.
    pub fn offer(&mut self, target: Target, form: &Form, source: Option<&str>) -> bool {
        let covered = self
            .candidates
            .iter()
            .any(|c| c.code == target.code && c.selector.covers(target.selector));
        if covered {
            return false;
        }
        let mut form = form.clone();
        if form.approximated_from.is_none() {
            form.approximated_from = source.map(Into::into);
        }
        let known = self.forms.iter().position(|f| *f == form);
        let index = known.unwrap_or(self.forms.len());
        if known.is_none() {
            self.forms.push(form);
        }
        self.candidates.push(Candidate {
            code: target.code,
            selector: target.selector,
            fit: Fit::OtherEncoding,
            form: index,
        });
        true
    }
}

/// Whether an address of this kind can be encoded: without a base register, and relative to
/// `rip`, a displacement has 32 bits.
fn is_encodable_address(selector: Selector) -> bool {
    selector.mask & Traits::ADDRESS == 0
        || selector.value & Traits::BASE != 0
        || selector.value & Traits::DISPLACEMENT32 != 0
}

fn groups(flags: &[String]) -> FlagGroups {
    FlagGroups {
        c: flags.iter().any(|f| f == "C"),
        spazo: flags.iter().any(|f| f != "C"),
    }
}

fn reason_unmapped(row: &Row) -> &'static str {
    if row.attrs.contains_key("agen") {
        return "no encoding has this kind of address";
    }
    if row.string.contains("REX64") {
        return "the same instruction as without REX.W";
    }
    "no code of iced-x86 fits"
}
