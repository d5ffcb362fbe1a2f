//! Loads and stores of a form: what its operands say, as µops on the pipes of the memory pipeline.

use mcad_isa::machine::table::{Binding, Form, LatencyKind, OperandName, Perf, PortSet};

use super::Pipes;
use crate::tables::cpus::Layout;

/// How a form accesses memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Loads.
    pub loads: u16,
    /// Stores.
    pub stores: u16,
    /// Through vector registers.
    pub vector: bool,
    /// A gather or scatter, whose loads and stores microcode makes.
    pub many: bool,
}

/// Forms that name memory without accessing it.
const NO_ACCESS: [&str; 6] = [
    "NOP",
    "LEA",
    "CLDEMOTE",
    "RESERVEDNOP",
    "PREFETCHIT",
    "BNDMK",
];

/// Elements of a gather or scatter, when its vector of indices is of this kind.
fn elements(name: &str) -> Option<u16> {
    let gathers = name.contains("GATHER") || name.contains("SCATTER");
    let wide = ["ZMM", "YMM", "XMM"]
        .iter()
        .position(|r| name.contains(r))?;
    let narrow = ["DPS", "DD"].iter().any(|s| name.contains(s));
    gathers.then(|| (8 >> wide) * if narrow { 2 } else { 1 })
}

impl Shape {
    /// That of a form.
    pub fn of(form: &Form) -> Self {
        let name = &*form.name;
        let mut shape = Self {
            vector: name.contains("MM") && !name.contains("IMM"),
            ..Self::default()
        };
        if NO_ACCESS.iter().any(|start| name.starts_with(start)) {
            return shape;
        }
        let accesses = form.operands.iter().filter(|o| {
            matches!(o.name, OperandName::Mem(_))
                && matches!(o.binding, Binding::Explicit(_) | Binding::ImplicitMemory(_))
        });
        for operand in accesses {
            shape.loads += u16::from(operand.read);
            shape.stores += u16::from(operand.written);
        }
        if name.starts_with("PREFETCH") {
            shape.loads = 1;
            shape.stores = 0;
        }
        if let Some(elements) = elements(name) {
            shape.many = true;
            shape.loads *= elements;
            shape.stores *= elements;
        }
        shape
    }

    /// Whether what is loaded is put among elements that a mask keeps.
    pub fn merges(self, name: &str) -> bool {
        self.loads > 0 && self.stores == 0 && !self.many && name.contains("MM, K, ")
    }

    /// Loads and stores.
    pub fn updates(self) -> bool {
        self.loads > 0 && self.stores > 0
    }

    /// Neither loads nor stores.
    pub fn is_none(self) -> bool {
        self.loads + self.stores == 0
    }

    /// Loads or stores.
    pub fn any(self) -> bool {
        !self.is_none()
    }

    /// Whether the first macro-op is a load or a store and nothing else.
    pub fn is_plain_move(self, name: &str, perf: &Perf, generation: Layout) -> bool {
        let mnemonic = name.split([' ', '_']).next().unwrap_or("");
        let moves = [
            "MOV", "VMOV", "PUSH", "POP", "CALL", "RET", "PREFETCH", "LDDQU", "VLDDQU",
        ];
        let broadcasts = ["VBROADCAST", "VPBROADCAST"];
        let named = |list: &[&str]| list.iter().any(|start| mnemonic.starts_with(start));
        // Loads that extend a sign have an ALU do it: a cycle more, and a slot of it (docs/ZEN5.md).
        let computes = ["MOVMSK", "MOVBE", "VMOVMSK", "MOVSX"];
        // A part of a register is put into the rest.
        let parts = ["(R8l, M", "(R8h, M", "(AL, M", "(R16, M", "(AX, M"];
        let merges = mnemonic == "MOV" && parts.iter().any(|part| name.contains(part));
        let from_memory = perf.latencies.iter();
        let quick = from_memory
            .filter(|l| matches!(l.kind, LatencyKind::Addr))
            .all(|l| l.cycles <= MOVE);
        // What a store's address delays on those that were measured is the load by which that is measured.
        let measured = generation != Layout::Zen2;
        let quick = quick || measured && self.loads == 0;
        (named(&moves) || named(&broadcasts) || mnemonic.starts_with("VPMOV") && self.stores == 0)
            && !named(&computes)
            && !merges
            && quick
            || mnemonic.starts_with("PREFETCH")
    }

    /// Adds the µops, loads before stores.
    pub fn append(self, ports: &mut Vec<(PortSet, u16)>, pipes: &Pipes) {
        let load = if self.vector {
            pipes.vector_load
        } else {
            pipes.load
        };
        if self.loads > 0 {
            ports.push((load, self.loads));
        }
        if self.stores > 0 {
            let computed = self.vector || self.loads > 0 || !ports.is_empty();
            ports.push((pipes.store_address, self.stores));
            let data = if computed {
                pipes.store_data
            } else {
                pipes.plain_store_data
            };
            ports.push((data, self.stores));
        }
    }
}

/// Longest published latency from an address through a load or store alone.
const MOVE: u16 = 10;
