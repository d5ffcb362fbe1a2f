//! Instructions measured one by one: latency between operands, reciprocal throughput, and what two
//! forms take from each other.
//!
//! Every benchmark is generated from a form of an instruction table: an example of it, with the
//! registers chosen so that instances hang together (`latency`, with helpers from `link`) or do not
//! (`throughput`), repeated in a loop. The method is that of Abel and Reineke (uops.info, ASPLOS
//! 2019, section 5); conflicts
//! are those of asmbench (Hammer, Hager and Wellein, PMBS 2018).

mod forward;
mod latency;
mod link;
mod shape;
mod throughput;
mod units;

use std::collections::HashMap;

use mcad_isa::machine::table::{Form, FormTable};

use crate::block::{Measured, Profiler};
use crate::cell::CellError;
use crate::init::FILL;
use crate::reject::Reject;
use latency::Chain;
pub use latency::Pair;
use link::{Helper, helpers};
use shape::{BASE, INDEX, Shape};
use units::{REFERENCES, Reference};

/// Instructions in the body of a generated loop, about.
const BODY: usize = 48;

/// By how many cycles a latency may come out below zero, for noise and for ways that are not half
/// of there and back.
const NOISE: f64 = 0.5;

/// A measured latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// From which operand to which.
    pub pair: Pair,
    /// Whether it is exact: else a helper's way there and back was taken to be half each way.
    pub exact: bool,
    /// Cycles and their spread, or why there are none.
    pub result: Result<Figure, String>,
}

/// Cycles with the interquartile range over rounds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Figure {
    /// Cycles.
    pub cycles: f64,
    /// Interquartile range.
    pub spread: f64,
}

/// What was measured of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct FormFigures {
    /// Latencies, in the order of operands.
    pub latencies: Vec<Latency>,
    /// Cycles from one independent instance to the next, or why that is not known.
    pub throughput: Result<Figure, String>,
    /// What it takes from each of the reference instructions, for vector forms whose throughput is
    /// known: 0 to 1 ([`Bench::conflict`]'s measure).
    pub conflicts: Vec<(&'static str, f64)>,
}

/// Forms of a table that can be measured one by one.
#[derive(Debug)]
pub struct Subjects<'t> {
    shapes: Vec<Shape<'t>>,
}

/// One of [`Subjects`].
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s, 't> {
    shape: &'s Shape<'t>,
}

impl<'t> Subjects<'t> {
    /// All forms of a table that have an example.
    #[must_use]
    pub fn of(table: &'t FormTable) -> Self {
        let mut seen = std::collections::HashSet::new();
        let shapes = table
            .candidates()
            .filter_map(|(code, selector, form)| {
                let new = !seen.contains(&std::ptr::from_ref(form));
                let shape = new.then(|| Shape::new(table, code, selector, form))??;
                seen.insert(std::ptr::from_ref(form));
                Some(shape)
            })
            .collect();
        Self { shapes }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = Subject<'_, 't>> {
        self.shapes.iter().map(|shape| Subject { shape })
    }
}

/// A loop that shows the latency from one operand to another.
#[derive(Clone, Debug)]
pub struct LatencyLoop {
    /// The operands.
    pub pair: Pair,
    /// Every helper is in it with the whole of its latency.
    pub exact: bool,
    /// The loop, complete with counter and branch.
    pub bytes: Vec<u8>,
    /// What is in the general-purpose registers before.
    pub registers: [u64; 16],
    /// How often the latency is in a turn.
    pub links: f64,
    /// Helpers by name, and how often the latency of each is in a turn.
    pub helpers: Vec<(String, f64)>,
}

/// A helper's own loop.
#[derive(Clone, Debug)]
pub struct HelperLoop {
    /// Its name, as in [`LatencyLoop::helpers`].
    pub name: String,
    /// The loop, complete with counter and branch.
    pub bytes: Vec<u8>,
    /// What is in the general-purpose registers before.
    pub registers: [u64; 16],
    /// How often its latency is in a turn.
    pub links: f64,
}

/// The loops that the helpers' latencies are measured with, of those that this CPU has.
#[must_use]
pub fn helper_loops() -> Vec<HelperLoop> {
    let one = |helper: Helper| {
        let (bytes, latencies) = helper.chain()?;
        let (bytes, copies) = looped(&bytes);
        Some(HelperLoop {
            name: helper.to_string(),
            bytes,
            registers: registers(FILL),
            links: latencies * f64::from(copies),
        })
    };
    helpers().filter_map(one).collect()
}

impl<'t> Subject<'_, 't> {
    /// The form.
    #[must_use]
    pub fn form(&self) -> &'t Form {
        self.shape.form
    }

    /// An example of it, in Intel syntax.
    #[must_use]
    pub fn example(&self) -> String {
        self.shape.example().to_string()
    }

    /// Why it is not measured: what screening says of its example.
    #[must_use]
    pub fn objection(&self) -> Option<String> {
        let bytes = shape::encode(self.shape.example())?;
        let refusal = crate::screen::Screened::new(&bytes).err()?;
        Some(refusal.to_string())
    }

    /// The code that its throughput is measured with, and the instances in it: the first of the
    /// ways.
    #[must_use]
    pub fn throughput_code(&self) -> Option<(Vec<u8>, u32)> {
        let way = throughput::ways(self.shape).into_iter().next()?;
        Some((way.bytes, way.count))
    }

    /// The loops that its throughput is measured with, complete with counter and branch, and the
    /// instances in each.
    #[must_use]
    pub fn throughput_loops(&self) -> Vec<(Vec<u8>, u32)> {
        let ways = throughput::ways(self.shape).into_iter();
        ways.map(|way| {
            let (bytes, copies) = looped(&way.bytes);
            (bytes, way.count * copies)
        })
        .collect()
    }

    /// The loops that its latencies are measured with, for those pairs of operands that have one.
    #[must_use]
    pub fn latency_loops(&self) -> Vec<LatencyLoop> {
        let one = |pair: Pair| {
            let chain = latency::chain(self.shape, pair)?;
            let (bytes, copies) = looped(&chain.bytes);
            let copies = f64::from(copies);
            let helpers = chain.helpers.iter();
            Some(LatencyLoop {
                pair,
                exact: chain.exact(),
                bytes,
                registers: registers(chain.index),
                links: chain.links * copies,
                helpers: helpers
                    .map(|(helper, ways)| (helper.to_string(), ways * copies))
                    .collect(),
            })
        };
        let pairs = latency::pairs(self.shape).into_iter();
        pairs.filter_map(one).collect()
    }
}

/// Measures forms; keeps what it found out about the helpers.
#[derive(Debug)]
pub struct Bench {
    profiler: Profiler,
    helpers: HashMap<Helper, f64>,
    /// Cycles of one reference instruction, by name and how many were in a row.
    references: Vec<((&'static str, u32), f64)>,
}

impl Bench {
    /// Measures the helpers.
    ///
    /// # Errors
    /// When nothing can be measured.
    pub fn new(profiler: Profiler) -> Result<Self, CellError> {
        let mut bench = Self {
            profiler,
            helpers: HashMap::new(),
            references: Vec::new(),
        };
        for helper in helpers() {
            let Some((bytes, latencies)) = helper.chain() else {
                continue;
            };
            if let Ok(figure) = bench.cycles(&bytes, FILL)? {
                bench.helpers.insert(helper, figure.cycles / latencies);
            }
        }
        Ok(bench)
    }

    /// The helpers' latencies, by name.
    #[must_use]
    pub fn helpers(&self) -> Vec<(String, f64)> {
        let known = |helper: &Helper| {
            let cycles = self.helpers.get(helper)?;
            Some((helper.to_string(), *cycles))
        };
        helpers().filter_map(|helper| known(&helper)).collect()
    }

    /// Measures a form.
    ///
    /// # Errors
    /// When the measuring process fails; what the form does is in the result.
    pub fn measure(&mut self, subject: Subject<'_, '_>) -> Result<FormFigures, CellError> {
        let mut latencies = Vec::new();
        for pair in latency::pairs(subject.shape) {
            let (exact, result) = match latency::chain(subject.shape, pair) {
                Some(chain) => (chain.exact(), self.latency(&chain)?),
                None => (
                    false,
                    Err("no helper leads from the result to the source".to_owned()),
                ),
            };
            latencies.push(Latency {
                pair,
                exact,
                result,
            });
        }
        let throughput = self.throughput(subject)?;
        let mut conflicts = Vec::new();
        if let Ok(figure) = &throughput
            && units::applies(subject.shape)
        {
            for reference in REFERENCES {
                if let Some(conflict) = self.beside(subject, figure.cycles, reference)? {
                    conflicts.push((reference.name, conflict));
                }
            }
        }
        Ok(FormFigures {
            latencies,
            throughput,
            conflicts,
        })
    }

    /// What a form with a known throughput takes from a reference.
    fn beside(
        &mut self,
        subject: Subject<'_, '_>,
        cycles: f64,
        reference: Reference,
    ) -> Result<Option<f64>, CellError> {
        let Some((mut bytes, count)) = subject.throughput_code() else {
            return Ok(None);
        };
        let Some(other) = reference.code(count) else {
            return Ok(None);
        };
        let alone = match self
            .references
            .iter()
            .find(|r| r.0 == (reference.name, count))
        {
            Some((_, cycles)) => *cycles,
            None => {
                let Ok(figure) = self.cycles(&other, FILL)? else {
                    return Ok(None);
                };
                let cycles = figure.cycles / f64::from(count);
                self.references.push(((reference.name, count), cycles));
                cycles
            }
        };
        bytes.extend(other);
        let (least, most) = (cycles.min(alone), cycles.max(alone));
        Ok(self
            .cycles(&bytes, FILL)?
            .ok()
            .map(|figure| (figure.cycles / f64::from(count) - most) / least.max(1e-9)))
    }

    fn latency(&mut self, chain: &Chain) -> Result<Result<Figure, String>, CellError> {
        let mut helped = 0.0;
        for (helper, ways) in &chain.helpers {
            let Some(cycles) = self.helpers.get(helper) else {
                return Ok(Err(format!("the helper '{helper}' has no figure here")));
            };
            helped += ways * cycles;
        }
        Ok(self.cycles(&chain.bytes, chain.index)?.and_then(|figure| {
            let cycles = (figure.cycles - helped) / chain.links;
            if cycles < -NOISE {
                return Err(format!(
                    "there and back takes {:.2} cycles, less than the helpers' {helped:.2}: it does \
                     not go through them",
                    figure.cycles
                ));
            }
            Ok(Figure {
                cycles: cycles.max(0.0),
                spread: figure.spread / chain.links,
            })
        }))
    }

    /// The reciprocal throughput.
    ///
    /// # Errors
    /// When the measuring process fails.
    pub fn throughput(
        &mut self,
        subject: Subject<'_, '_>,
    ) -> Result<Result<Figure, String>, CellError> {
        let mut best: Result<Figure, String> =
            Err("no encoding with registers to spare".to_owned());
        for way in throughput::ways(subject.shape) {
            let figure = self.cycles(&way.bytes, FILL)?.map(|figure| Figure {
                cycles: figure.cycles / f64::from(way.count),
                spread: figure.spread / f64::from(way.count),
            });
            best = match (best, figure) {
                (Ok(a), Ok(b)) if a.cycles <= b.cycles => Ok(a),
                (_, Ok(b)) => Ok(b),
                (Ok(a), Err(_)) => Ok(a),
                (Err(_), Err(why)) => Err(why),
            };
        }
        Ok(best)
    }

    /// What two forms take from each other: (TP(A and B) − max) / min, of their cycles alone and
    /// together; 0 when they overlap completely, 1 when neither does anything beside the other.
    ///
    /// # Errors
    /// When the measuring process fails.
    pub fn conflict(
        &mut self,
        a: (Subject<'_, '_>, f64),
        b: (Subject<'_, '_>, f64),
    ) -> Result<Result<f64, String>, CellError> {
        let ways = (a.0.throughput_code(), b.0.throughput_code());
        let (Some((first, count)), Some((second, other))) = ways else {
            return Ok(Err("no encoding with registers to spare".to_owned()));
        };
        if count != other {
            return Ok(Err("different numbers of instances".to_owned()));
        }
        let mut bytes = first;
        bytes.extend(second);
        let (least, most) = (a.1.min(b.1), a.1.max(b.1));
        Ok(self
            .cycles(&bytes, FILL)?
            .map(|figure| (figure.cycles / f64::from(count) - most) / least.max(1e-9)))
    }

    /// Cycles that a piece of code takes when it is repeated; `index` is in the register that
    /// addresses may have as index.
    fn cycles(&mut self, bytes: &[u8], index: u64) -> Result<Result<Figure, String>, CellError> {
        let copies = copies(bytes);
        let body = bytes.repeat(copies);
        let measured = self.profiler.measure_generated(&body, registers(index))?;
        Ok(match measured {
            Ok(Measured { cycles, spread, .. }) => Ok(Figure {
                cycles: cycles / copies as f64,
                spread: spread / copies as f64,
            }),
            Err(reject) => Err(reason(&reject)),
        })
    }
}

/// Copies of a piece of code that make a body.
fn copies(bytes: &[u8]) -> usize {
    let instructions = bytes.len().div_ceil(4).max(1);
    (BODY / instructions).clamp(1, BODY)
}

/// A piece of code in as many copies as make a body, with counter and branch; and how many these are.
fn looped(code: &[u8]) -> (Vec<u8>, u32) {
    let copies = copies(code);
    let mut bytes = code.repeat(copies);
    bytes.extend(COUNT_DOWN);
    let back = -(bytes.len() as i32 + JUMP_BACK.len() as i32 + 4);
    bytes.extend(JUMP_BACK);
    bytes.extend(back.to_le_bytes());
    (bytes, copies as u32)
}

/// `dec r15`, and `jnz` with four bytes of distance to come.
const COUNT_DOWN: [u8; 3] = [0x49, 0xff, 0xcf];
const JUMP_BACK: [u8; 2] = [0x0f, 0x85];

fn reason(reject: &Reject) -> String {
    reject.to_string()
}

/// Register values that most instructions take without a fault: addresses, which are equal; one in
/// `rcx` for shifts and repetitions, zero in `rdx` for divisions.
fn registers(index: u64) -> [u64; 16] {
    let mut values = [FILL; 16];
    let stack = crate::cell::layout::STACK;
    let constant = usize::from(link::CONSTANT);
    let index = (usize::from(INDEX), index);
    for (register, value) in [(1, 1), (2, 0), (4, stack), index, (constant, 1)] {
        if let Some(place) = values.get_mut(register) {
            *place = value;
        }
    }
    debug_assert!(values[usize::from(BASE)] == FILL);
    values
}
