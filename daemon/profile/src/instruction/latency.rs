//! Chains that show the latency from one operand of a form to another.

use mcad_isa::machine::table::{LatencyKind, OperandName};

use super::forward::Carrier;
use super::link::{CARRY, Helper, Link};
use super::shape::{Address, BASE, Class, INDEX, Place, Shape, encode};
use crate::init::{FILL, REGISTERS};

/// A pair of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Source.
    pub from: OperandName,
    /// Destination.
    pub to: OperandName,
    /// Part of the source.
    pub kind: LatencyKind,
}

/// A chain: its code, the latencies of the pair in it, and the helpers'.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    pub(crate) bytes: Vec<u8>,
    pub(crate) links: f64,
    pub(crate) helpers: Vec<(Helper, f64)>,
    /// What is in the register that the address has as index.
    pub(crate) index: u64,
}

impl Chain {
    /// Whether every helper is in it with the whole of its latency.
    pub(crate) fn exact(&self) -> bool {
        self.helpers.iter().all(|(_, ways)| ways.fract() == 0.0)
    }
}

/// Pairs whose latency a chain can show: from what is read, and from the base and the index of the
/// address, to what is written.
pub(crate) fn pairs(shape: &Shape<'_>) -> Vec<Pair> {
    let operands = &shape.form.operands;
    let mut pairs = Vec::new();
    for to in operands.iter().filter(|o| o.written) {
        if shape.place(to.name).is_none() {
            continue;
        }
        for from in operands {
            let kinds: &[LatencyKind] = match shape.place(from.name) {
                Some(Place::Memory) if from.name != OperandName::Agen && from.read => {
                    &[LatencyKind::Addr, LatencyKind::Index, LatencyKind::Mem]
                }
                Some(Place::Memory) => &[LatencyKind::Addr, LatencyKind::Index],
                Some(_) if from.read => &[LatencyKind::Reg],
                Some(_) | None => &[],
            };
            pairs.extend(kinds.iter().map(|kind| Pair {
                from: from.name,
                to: to.name,
                kind: *kind,
            }));
        }
    }
    pairs
}

/// Numbers of the registers that a chain goes through, in two versions: some forms demand the
/// upper half of the low registers.
const NUMBERS: [(u8, u8); 2] = [(8, 9), (13, 14)];
/// The same where there are only eight registers.
const FEW: (u8, u8) = (2, 3);

fn numbers(class: Class, version: (u8, u8)) -> (u8, u8) {
    match class {
        Class::Mmx | Class::Mask => FEW,
        _ => version,
    }
}

/// The chain for a pair; none where no helper leads back.
pub(crate) fn chain(shape: &Shape<'_>, pair: Pair) -> Option<Chain> {
    NUMBERS
        .into_iter()
        .find_map(|version| chain_with(shape, pair, version))
}

fn chain_with(shape: &Shape<'_>, pair: Pair, version: (u8, u8)) -> Option<Chain> {
    let (from, to) = (shape.place(pair.from)?, shape.place(pair.to)?);
    let address = match pair.kind {
        LatencyKind::Addr => Address::Base,
        LatencyKind::Index => Address::Indexed,
        LatencyKind::Mem => Address::Absolute,
        LatencyKind::Reg if to == Place::Memory => Address::Absolute,
        LatencyKind::Reg => Address::Base,
    };
    if from == to && matches!(pair.kind, LatencyKind::Reg | LatencyKind::Mem) {
        let chosen: Vec<_> = match to {
            Place::Free(n, class) => vec![(n, numbers(class, version).0)],
            _ => Vec::new(),
        };
        return Some(Chain {
            bytes: encode(&shape.at(&shape.instance(&chosen)?, address)?)?,
            links: 1.0,
            helpers: Vec::new(),
            index: FILL,
        });
    }
    if let (Place::Free(s, a), Place::Free(d, b)) = (from, to)
        && a == b
    {
        // To and fro between two registers.
        let (x, y) = numbers(a, version);
        let mut bytes = encode(&shape.instance(&[(d, x), (s, y)])?)?;
        bytes.extend(encode(&shape.instance(&[(d, y), (s, x)])?)?);
        return Some(Chain {
            bytes,
            links: 2.0,
            helpers: Vec::new(),
            index: FILL,
        });
    }
    let mut chosen = Vec::new();
    let mut number = |place: Place, second: bool| {
        let class = place.class()?;
        let number = match place {
            Place::Free(n, class) => {
                let (x, y) = numbers(class, version);
                let number = if second { y } else { x };
                chosen.push((n, number));
                number
            }
            Place::Fixed(register) => match class {
                Class::General => position(register)?,
                _ => register.number() as u8,
            },
            // The example's.
            Place::OpMask => 1,
            // What multiplications and rotations write is the carry, and no zero flag.
            Place::Flags if shape.form.flags_written.c => CARRY,
            Place::Flags => 0,
            Place::Memory => return None,
        };
        Some((class, number))
    };
    let mut back = Link::default();
    let result = match to {
        Place::Memory => {
            let mut carrier =
                Carrier::of(shape.memory_bytes(), number(from, true).map(|(c, _)| c))?;
            if address != Address::Absolute {
                carrier = carrier.narrow();
            }
            back.append(carrier.load()?);
            carrier.register()
        }
        _ => number(to, false)?,
    };
    back.append(match pair.kind {
        LatencyKind::Addr => Link::to_address(result, BASE)?,
        LatencyKind::Index => Link::to_address(result, INDEX)?,
        LatencyKind::Mem => {
            let carrier = Carrier::of(shape.memory_bytes(), Some(result.0))?;
            carrier.store(result)?
        }
        LatencyKind::Reg => Link::between(result, number(from, true)?)?,
    });
    let mut bytes = encode(&shape.at(&shape.instance(&chosen)?, address)?)?;
    bytes.extend(back.bytes);
    Some(Chain {
        bytes,
        links: 1.0,
        helpers: back.taken,
        index: match address {
            Address::Indexed => 0,
            Address::Base | Address::Absolute => FILL,
        },
    })
}

fn position(register: iced_x86::Register) -> Option<u8> {
    let full = register.full_register();
    let place = REGISTERS.iter().position(|r| *r == full)?;
    u8::try_from(place).ok()
}
