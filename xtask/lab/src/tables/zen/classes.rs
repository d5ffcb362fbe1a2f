//! Integer instructions by the pipes that they need.

use mcad_isa::machine::table::{FlagGroups, Form, LatencyKind, OperandName, PortSet};

use super::Pipes;
use crate::tables::cpus::Layout;

/// An instruction's mnemonic: its name up to the encoding or operands.
fn mnemonic(name: &str) -> &str {
    name.split([' ', '_']).next().unwrap_or("")
}

/// The pipes of an instruction's integer µops.
pub fn pipes_of(name: &str, pipes: &Pipes) -> PortSet {
    let mnemonic = mnemonic(name);
    let is = |list: &[&str]| list.contains(&mnemonic);
    let found_on_any = ["BSF", "BSR", "TZCNT", "BLSR", "BLSI", "BLSMSK"];
    if pipes.generation == Layout::Zen4 && is(&found_on_any) {
        // Four a cycle, as measured.
        pipes.alu
    } else if is(&["IMUL", "MUL", "MULX", "CRC32"]) {
        pipes.multiply
    } else if is(&["DIV", "IDIV"]) {
        pipes.divide
    } else if is(&[
        "SHL", "SHR", "SAR", "ROL", "ROR", "RCL", "RCR", "SHLX", "SHRX", "SARX", "RORX", "SHLD",
        "SHRD", "BT", "BTS", "BTR", "BTC", "BSF", "BSR", "TZCNT", "BEXTR", "BZHI", "PDEP", "PEXT",
        "BLSR", "BLSI", "BLSMSK", "CDQ", "CQO", "CWD", "CBW", "CWDE", "CDQE",
    ]) {
        pipes.shift
    } else if name.starts_with("LEA_B_I") && name.contains("_D") {
        pipes.long_address
    } else if name.starts_with("LEA_R") {
        pipes.own_address
    } else if name == "MOV (R64, I64)" {
        pipes.wide_immediate
    } else if mnemonic.starts_with('J') || is(&["CALL", "RET", "LOOP", "LOOPE", "LOOPNE", "XBEGIN"])
    {
        pipes.branch
    } else if mnemonic.starts_with("CMOV") || mnemonic.starts_with("SET") {
        pipes.conditional
    } else if ["MOVD", "MOVQ", "VMOVD", "VMOVQ"].contains(&mnemonic)
        || [
            "CVTSI2",
            "CVTPI2",
            "VCVTSI2",
            "VCVTUSI2",
            "PINSR",
            "VPINSR",
            "VPBROADCAST",
            "KMOV",
        ]
        .iter()
        .any(|start| mnemonic.starts_with(start))
    {
        pipes.to_vector
    } else {
        pipes.alu
    }
}

/// Cycles from one division or square root of vectors to the next, which the published rows leave out:
/// those of LLVM's models.
pub fn vector_division(name: &str, layout: Layout) -> Option<u16> {
    let mnemonic = mnemonic(name);
    let operation = mnemonic.strip_prefix('V').unwrap_or(mnemonic);
    let older = layout.is_first_zen();
    Some(match operation {
        "DIVPS" | "DIVSS" => [3, 5][usize::from(older)],
        "DIVPD" | "DIVSD" => [5, 6][usize::from(older)],
        "SQRTPS" | "SQRTSS" => [5, 7][usize::from(older)],
        "SQRTPD" | "SQRTSD" => [9, 10][usize::from(older)],
        _ => return None,
    })
}

/// The operand that a scalar conversion, root or the like has only the elements above its result from.
pub fn gives_upper(name: &str) -> Option<OperandName> {
    let operation = mnemonic(name);
    let (vex, operation) = match operation.strip_prefix('V') {
        Some(rest) => (true, rest),
        None => (false, operation),
    };
    let scalar = [
        "CVTSI2SS",
        "CVTSI2SD",
        "CVTUSI2SS",
        "CVTUSI2SD",
        "CVTSS2SD",
        "CVTSD2SS",
        "SQRTSS",
        "SQRTSD",
        "ROUNDSS",
        "ROUNDSD",
        "RCPSS",
        "RSQRTSS",
    ];
    (scalar.contains(&operation) && !name.contains(", K,"))
        .then_some(OperandName::Reg(u8::from(vex)))
}

/// Whether nothing is executed.
pub fn is_free(name: &str) -> bool {
    ["NOP", "ENDBR64", "ENDBR32", "RESERVEDNOP"].contains(&mnemonic(name))
}

/// Moves between registers, which rename may do.
pub fn is_register_move(name: &str) -> bool {
    let mnemonic = mnemonic(name);
    let constant = name.contains(", I") || name.contains(", 0)");
    !constant && (mnemonic.starts_with("MOV") || mnemonic.starts_with("VMOV") || mnemonic == "XCHG")
}

/// Whether an instruction has general-purpose registers, immediates and memory only.
pub fn is_integer(name: &str) -> bool {
    let others = ["MM", "(K", ", K", "(ST"];
    !name.starts_with('F') && !others.iter().any(|part| name.contains(part))
}

/// All condition codes.
const ANY: u16 = 0xffff;

/// Conditional jumps that fuse with an instruction: `cmp` and `test` on all of the family; from Zen 3
/// on also other operations of one cycle with registers or immediates (AMD's guides; measured on
/// Zen 5).
pub fn fusible(name: &str, layout: Layout) -> u16 {
    let (head, operands) = name.split_once(" (").unwrap_or((name, ""));
    let mnemonic = mnemonic(head);
    let immediate = operands.contains(", I") || operands.contains(", 0)");
    let memory = operands.contains('M');
    let writes_memory = operands.starts_with('M');
    let locked = name.contains("LOCK");
    if locked || memory && immediate {
        return 0;
    }
    match mnemonic {
        "CMP" | "TEST" => ANY,
        "ADD" | "SUB" | "AND" | "OR" | "XOR" | "INC" | "DEC"
            if !layout.is_first_zen() && !writes_memory =>
        {
            ANY
        }
        _ => 0,
    }
}

/// Dependencies that the tables of operands have and AMD's cores do not: a shift by `cl` does not
/// wait for the flags that it may leave as they are, `sbb r, r` not for the register (measured on
/// Zen 5: `mov eax, 1; shl rax, cl; test eax, imm` twice in 1.6 cycles).
pub fn cut_dependencies(form: &mut Form) {
    // A masked store leaves the other elements as they are without reading them.
    let masked_store = form.name.contains(" (M") && form.name.contains(", K,");
    if masked_store {
        for operand in &mut form.operands {
            if operand.written && matches!(operand.name, OperandName::Mem(_)) {
                operand.read = false;
                let memory = operand.name;
                (form.perf.latencies).retain(|l| l.from != memory || l.kind != LatencyKind::Mem);
            }
        }
    }
    let mnemonic = mnemonic(&form.name).to_owned();
    let shifts = ["SHL", "SHR", "SAR", "ROL", "ROR"].contains(&mnemonic.as_str());
    if shifts && form.name.contains(", CL)") {
        form.flags_read = FlagGroups::default();
        for operand in &mut form.operands {
            if operand.binding == mcad_isa::machine::table::Binding::Flags {
                operand.read = false;
                let flags = operand.name;
                form.perf.latencies.retain(|l| l.from != flags);
            }
        }
    }
    let registers = form.name.ends_with("(R64, R64)") || form.name.ends_with("(R32, R32)");
    if mnemonic == "SBB" && registers && form.same_reg.is_none() {
        let mut perf = form.perf.clone();
        for latency in &mut perf.latencies {
            let explicit = matches!(latency.from, OperandName::Reg(0 | 1));
            if explicit && latency.kind == LatencyKind::Reg {
                latency.cycles = 0;
            }
        }
        form.same_reg = Some(perf);
    }
}
