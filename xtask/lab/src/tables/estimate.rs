//! Forms that uops.info does not publish: x87, and entries into the kernel.
//!
//! The figures are estimates after the published instruction tables of Agner Fog for Skylake,
//! rounded where those give ranges, and every form made here is marked `approximated_from`
//! "estimate". The register stack is modelled as if its top did not move: `st(0)` is the implicit
//! register ST0, `st(i)` the explicit operand, and what an instruction that pops leaves on top is
//! a write of ST0.

use iced_x86::{Code, OpCodeOperandKind as Kind, Register};
use mcad_isa::machine::table::{
    Binding, Form, Latency, LatencyKind, Operand, OperandName, Perf, Selector, Traits,
};

use super::cpus::{Cpu, Layout};
use super::draft::Draft;
use super::explicit;
use super::figures::port_set;
use super::fill::translate;
use super::mapping::{Catalogue, Fit, Target};

/// Access to the top of the register stack, and to the explicit `st(i)`.
type Stack = (&'static str, &'static str);

/// Mnemonics (iced's), µops from decoders, µops in all (microcode if more than 4), ports in
/// Skylake's layout, latency, cycles between two (0: ports explain it), stack access.
type Entry = (
    &'static [&'static str],
    u16,
    &'static [(&'static str, u16)],
    u16,
    u16,
    Stack,
);

/// Register and stack forms.
#[rustfmt::skip]
const REGISTER: &[Entry] = &[
    (&["FLD"], 1, &[("05", 1)], 1, 0, ("w", "r")),
    (&["FST", "FSTP", "FSTPNCE"], 1, &[("05", 1)], 1, 0, ("r", "w")),
    (&["FXCH"], 2, &[], 2, 0, ("rw", "rw")),
    (&["FLDZ"], 1, &[("05", 1)], 1, 0, ("w", "")),
    (&["FLD1", "FLDPI", "FLDL2E", "FLDL2T", "FLDLG2", "FLDLN2"], 2, &[("05", 2)], 1, 0, ("w", "")),
    (&["FCMOVB", "FCMOVE", "FCMOVBE", "FCMOVU", "FCMOVNB", "FCMOVNE", "FCMOVNBE", "FCMOVNU"], 4, &[("0", 1), ("5", 3)], 3, 0, ("rw", "r")),
    (&["FINCSTP", "FDECSTP", "FFREE", "FNOP"], 1, &[("05", 1)], 1, 0, ("", "")),
    (&["FFREEP"], 2, &[("05", 2)], 1, 0, ("", "")),
    (&["FADD", "FSUB", "FSUBR"], 1, &[("5", 1)], 3, 0, ("rw", "rw")),
    (&["FADDP", "FSUBP", "FSUBRP"], 1, &[("5", 1)], 3, 0, ("rw", "r")),
    (&["FMUL"], 1, &[("0", 1)], 5, 0, ("rw", "rw")),
    (&["FMULP"], 1, &[("0", 1)], 5, 0, ("rw", "r")),
    (&["FDIV", "FDIVR"], 1, &[("0", 1)], 15, 5, ("rw", "rw")),
    (&["FDIVP", "FDIVRP"], 1, &[("0", 1)], 15, 5, ("rw", "r")),
    (&["FABS", "FCHS"], 1, &[("0", 1)], 1, 0, ("rw", "")),
    (&["FCOM", "FCOMP", "FUCOM", "FUCOMP", "FTST"], 1, &[("5", 1)], 3, 0, ("r", "r")),
    (&["FCOMPP", "FUCOMPP"], 2, &[("5", 1), ("0", 1)], 3, 0, ("r", "")),
    (&["FCOMI", "FCOMIP", "FUCOMI", "FUCOMIP"], 3, &[("0", 1), ("5", 1), ("0156", 1)], 5, 0, ("r", "r")),
    (&["FXAM"], 2, &[("5", 2)], 3, 0, ("r", "")),
    (&["FSQRT"], 1, &[("0", 1)], 19, 6, ("rw", "")),
    (&["FNSTSW"], 2, &[("0", 1), ("0156", 1)], 6, 0, ("", "")),
    (&["WAIT"], 2, &[("05", 2)], 1, 0, ("", "")),
    (&["FNCLEX"], 5, &[("05", 5)], 22, 22, ("", "")),
    (&["FNINIT"], 18, &[("0156", 18)], 78, 78, ("w", "")),
    (&["FRNDINT"], 17, &[("0", 6), ("5", 11)], 21, 11, ("rw", "")),
    (&["FXTRACT"], 17, &[("0", 6), ("5", 11)], 11, 11, ("rw", "")),
    (&["FSCALE"], 27, &[("0", 10), ("5", 17)], 130, 130, ("rw", "")),
    (&["FPREM", "FPREM1"], 28, &[("0", 10), ("5", 18)], 27, 17, ("rw", "")),
    (&["F2XM1"], 68, &[("0", 28), ("5", 40)], 65, 60, ("rw", "")),
    (&["FYL2X", "FYL2XP1"], 80, &[("0", 35), ("5", 45)], 90, 80, ("rw", "")),
    (&["FSIN", "FCOS", "FSINCOS", "FPTAN"], 85, &[("0", 35), ("5", 50)], 100, 90, ("rw", "")),
    (&["FPATAN"], 75, &[("0", 30), ("5", 45)], 105, 95, ("rw", "")),
    (&["SYSCALL", "SYSENTER"], 30, &[("0156", 30)], 1, 70, ("", "")),
    (&["INT3", "INT1", "INT", "UD0", "UD1", "UD2"], 30, &[("0156", 30)], 1, 100, ("", "")),
];

/// Memory forms. The latency is that from the data in memory (for stores: of the data to it).
#[rustfmt::skip]
const MEMORY: &[Entry] = &[
    (&["FLD"], 1, &[("23", 1)], 2, 0, ("w", "")),
    (&["FILD"], 2, &[("5", 1), ("23", 1)], 5, 0, ("w", "")),
    (&["FBLD"], 43, &[("0156", 41), ("23", 2)], 44, 22, ("w", "")),
    (&["FST", "FSTP"], 1, &[("237", 1), ("4", 1)], 4, 0, ("r", "")),
    (&["FIST", "FISTP", "FISTTP"], 2, &[("1", 1), ("237", 1), ("4", 1)], 7, 0, ("r", "")),
    (&["FBSTP"], 244, &[("0156", 240), ("237", 2), ("4", 2)], 260, 260, ("r", "")),
    (&["FADD", "FSUB", "FSUBR"], 1, &[("5", 1), ("23", 1)], 5, 0, ("rw", "")),
    (&["FMUL"], 1, &[("0", 1), ("23", 1)], 7, 0, ("rw", "")),
    (&["FDIV", "FDIVR"], 1, &[("0", 1), ("23", 1)], 17, 5, ("rw", "")),
    (&["FCOM", "FCOMP"], 1, &[("5", 1), ("23", 1)], 5, 0, ("r", "")),
    (&["FIADD", "FISUB", "FISUBR"], 2, &[("5", 2), ("23", 1)], 8, 0, ("rw", "")),
    (&["FIMUL"], 2, &[("0", 1), ("5", 1), ("23", 1)], 10, 0, ("rw", "")),
    (&["FIDIV", "FIDIVR"], 2, &[("0", 1), ("5", 1), ("23", 1)], 20, 5, ("rw", "")),
    (&["FICOM", "FICOMP"], 2, &[("5", 2), ("23", 1)], 8, 0, ("r", "")),
    (&["FLDCW"], 3, &[("01", 1), ("6", 1), ("23", 1)], 7, 0, ("", "")),
    (&["FNSTCW"], 3, &[("6", 1), ("237", 1), ("4", 1)], 6, 0, ("", "")),
    (&["FNSTSW"], 3, &[("0", 1), ("237", 1), ("4", 1)], 6, 0, ("", "")),
    (&["FLDENV"], 64, &[("0156", 50), ("23", 14)], 62, 62, ("w", "")),
    (&["FNSTENV"], 100, &[("0156", 80), ("237", 10), ("4", 10)], 78, 78, ("r", "")),
    (&["FNSAVE"], 133, &[("0156", 93), ("237", 20), ("4", 20)], 151, 151, ("rw", "")),
    (&["FRSTOR"], 89, &[("0156", 59), ("23", 30)], 175, 175, ("w", "")),
];

/// 80-bit loads and stores differ from the narrower ones.
#[rustfmt::skip]
const EXTENDED: &[Entry] = &[
    (&["FLD"], 4, &[("01", 2), ("23", 2)], 5, 0, ("w", "")),
    (&["FSTP"], 7, &[("0156", 3), ("237", 2), ("4", 2)], 5, 5, ("r", "")),
];

/// Offers all estimated forms to a draft.
pub fn offer(draft: &mut Draft, catalogue: &Catalogue) {
    for (entries, memory) in [(REGISTER, false), (EXTENDED, true), (MEMORY, true)] {
        for entry in entries {
            for mnemonic in entry.0 {
                for code in catalogue.codes(mnemonic) {
                    let extended = code.op_code().memory_size().size() == 10;
                    let wanted = std::ptr::eq(entries, EXTENDED)
                        == (extended && memory && !mnemonic.starts_with("FB"));
                    let in_memory = code.op_code().op_kinds().contains(&Kind::mem);
                    if in_memory == memory && wanted {
                        let form = form(draft.cpu, mnemonic, code, entry, memory);
                        let mut selector = Selector::default();
                        if memory {
                            selector.require(Traits::MEMORY, true);
                        }
                        let target = Target {
                            code,
                            selector,
                            fit: Fit::OtherEncoding,
                        };
                        let added = draft.offer(target, &form, Some("estimate"));
                        draft.report.estimated += usize::from(added);
                    }
                }
            }
        }
    }
}

fn form(cpu: &Cpu, mnemonic: &str, code: Code, entry: &Entry, memory: bool) -> Form {
    let (_, fused, ports, cycles, tp, (top, other)) = *entry;
    // Of two register operands the first is the result.
    let (top, other) = match (mnemonic, code.op_code().op0_kind()) {
        ("FADD" | "FSUB" | "FSUBR" | "FMUL" | "FDIV" | "FDIVR", Kind::st0) => (top, "r"),
        ("FADD" | "FSUB" | "FSUBR" | "FMUL" | "FDIV" | "FDIVR", Kind::sti_opcode) => ("r", other),
        _ => (top, other),
    };
    let mut list = stack_operands(code, top, other);
    let (flags_read, flags_written) = explicit::flags(code);
    list.extend(explicit::flags_operand(code, &list));
    // The adder moved from port 1 to port 5 with Skylake.
    let adder = |names: &str| {
        match names {
            "5" if cpu.layout == Layout::SandyBridge || matches!(cpu.name, "hsw" | "bdw") => "1",
            _ => names,
        }
        .to_owned()
    };
    let microcoded = fused > 4;
    let total: u16 = ports.iter().map(|p| p.1).sum();
    let size = code.op_code().memory_size().size() * 8;
    let name = match (memory, list.first().map(|o| o.binding)) {
        (true, _) => format!("{mnemonic} (M{size})"),
        (false, Some(Binding::Explicit(_))) => format!("{mnemonic} (ST)"),
        (false, _) => mnemonic.to_owned(),
    };
    Form {
        name: name.into(),
        flags_read,
        flags_written,
        macro_fusible: 0,
        locked: false,
        perf: Perf {
            uops: total,
            retire_slots: fused,
            uops_mite: if microcoded { 4 } else { fused },
            uops_ms: if microcoded { fused - 4 } else { 0 },
            ports: ports
                .iter()
                .filter_map(|(names, n)| Some((port_set(&adder(names)).ok()?, *n)))
                .map(|(p, n)| (translate(p, Layout::Haswell, cpu.layout), n))
                .collect(),
            div_cycles: match mnemonic {
                "FDIV" | "FDIVR" | "FDIVP" | "FDIVRP" | "FIDIV" | "FIDIVR" | "FSQRT" => tp,
                _ => 0,
            },
            tp: (tp != 0).then_some(100 * u32::from(tp)),
            complex_decoder: fused > 1,
            simple_decoders: (fused > 1).then_some(if microcoded { 0 } else { 1 }),
            latencies: latencies(&list, cycles),
        },
        operands: list,
        indexed: None,
        same_reg: None,
        approximated_from: Some("estimate".into()),
        source: "estimate".into(),
    }
}

fn stack_operands(code: Code, top: &str, other: &str) -> Vec<Operand> {
    let mut list = Vec::new();
    let mut registers = 0;
    let mut register = |binding, access: &str, list: &mut Vec<Operand>| {
        list.push(Operand {
            name: OperandName::Reg(registers),
            binding,
            read: access.contains('r'),
            written: access.contains('w'),
        });
        registers += 1;
    };
    for operand in explicit::of_code(code) {
        let Binding::Explicit(i) = operand.binding else {
            continue;
        };
        match code.op_code().op_kind(i.into()) {
            Kind::st0 => {}
            Kind::sti_opcode => register(operand.binding, other, &mut list),
            Kind::ax => register(operand.binding, "w", &mut list),
            _ => list.push(operand),
        }
    }
    if !top.is_empty() {
        register(Binding::Implicit(Register::ST0), top, &mut list);
    }
    list
}

fn latencies(list: &[Operand], cycles: u16) -> Vec<Latency> {
    let mut latencies = Vec::new();
    for from in list.iter().filter(|o| o.read) {
        for to in list.iter().filter(|o| o.written) {
            let mut add = |kind, cycles| {
                latencies.push(Latency {
                    from: from.name,
                    to: to.name,
                    kind,
                    cycles,
                });
            };
            if matches!(from.name, OperandName::Mem(_)) {
                add(LatencyKind::Addr, cycles + 5);
                add(LatencyKind::Index, cycles + 5);
                add(LatencyKind::Mem, cycles);
            } else {
                add(LatencyKind::Reg, cycles);
            }
        }
    }
    latencies
}
