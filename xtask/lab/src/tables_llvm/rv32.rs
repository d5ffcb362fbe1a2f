//! Every word of RV32IMC through the decoder that is written by hand and through LLVM's.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use mcad_isa::riscv::decode::{Arithmetic, Condition, Multiply, Op, decode};

use super::prove::{labels, names};
use super::{ARCHITECTURE_32, Source};

/// LLVM's name of the halfword 0, which the specification defines to be no instruction.
const ILLEGAL: &str = "C_UNIMP";

/// Compares operations and lengths, and prints differences by class.
///
/// # Errors
/// When a word that LLVM takes for an instruction is another one here, or none.
pub fn run(dump: &Path) -> Result<()> {
    let source: &Source = &ARCHITECTURE_32;
    let names = names(dump, source)?;
    let mut different: BTreeMap<(String, String), (u64, u32)> = BTreeMap::new();
    let (mut total, mut valid, mut wrong, mut undefined) = (0u64, 0u64, 0u64, 0u64);
    labels(dump, source, true, |word, number| {
        let theirs = names.get(&number).filter(|_| number != 0);
        let ours = decode(word).map(|inst| name(inst.op));
        total += 1;
        valid += u64::from(theirs.is_some());
        if ours == theirs.map(|name| plain(name)) {
            return;
        }
        match theirs.map(String::as_str) {
            None => undefined += 1,
            Some(theirs) if theirs == ILLEGAL && ours.is_none() => {}
            Some(_) => wrong += 1,
        }
        let theirs = theirs.map_or("undefined", String::as_str).to_owned();
        let ours = ours.unwrap_or("nothing").to_owned();
        different.entry((theirs, ours)).or_insert((0, word)).0 += 1;
    })?;
    for ((theirs, ours), (count, word)) in &different {
        eprintln!("{count:>12} x {theirs} taken for {ours}, for example {word:08x}");
    }
    eprintln!(
        "riscv32: {total} words, {valid} instructions by LLVM; {wrong} decoded differently without a reason; \
         {undefined} that LLVM has undefined taken for an instruction"
    );
    if wrong > 0 {
        bail!("riscv32: the decoder differs from LLVM's");
    }
    Ok(())
}

/// LLVM's name of the operation that an instruction is, without what two bytes or hints make of it,
/// and one name for what the core's model takes for the same.
fn plain(name: &str) -> &str {
    let name = name.strip_prefix("C_").unwrap_or(name);
    match name.split("_HINT").next().unwrap_or(name) {
        "NOP" | "LI" | "ADDI16SP" | "ADDI4SPN" | "ADDI_NOP" => "ADDI",
        "LWSP" => "LW",
        "SWSP" => "SW",
        "J" => "JAL",
        "JR" => "JALR",
        "BEQZ" => "BEQ",
        "BNEZ" => "BNE",
        "MV" => "ADD",
        "FENCE_I" | "FENCE_TSO" => "FENCE",
        "EBREAK" | "ECALL" | "MRET" | "SRET" | "MNRET" | "SCTRCLR" | "WFI" | "SFENCE_VMA"
        | "SFENCE_INVAL_IR" | "SFENCE_W_INVAL" | "SINVAL_VMA" | "DRET" | "WRS_NTO" | "WRS_STO" => {
            "SYSTEM"
        }
        "CSRRW" | "CSRRS" | "CSRRC" | "CSRRWI" | "CSRRSI" | "CSRRCI" | "UNIMP" => "CSR",
        other => other,
    }
}

/// The same name of ours.
fn name(op: Op) -> &'static str {
    match op {
        Op::Lui => "LUI",
        Op::Auipc => "AUIPC",
        Op::Jal => "JAL",
        Op::Jalr => "JALR",
        Op::Branch(condition) => match condition {
            Condition::Equal => "BEQ",
            Condition::NotEqual => "BNE",
            Condition::Less => "BLT",
            Condition::GreaterEqual => "BGE",
            Condition::LessUnsigned => "BLTU",
            Condition::GreaterEqualUnsigned => "BGEU",
        },
        Op::Load { size: 1, signed } => ["LBU", "LB"][usize::from(signed)],
        Op::Load { size: 2, signed } => ["LHU", "LH"][usize::from(signed)],
        Op::Load { .. } => "LW",
        Op::Store(1) => "SB",
        Op::Store(2) => "SH",
        Op::Store(_) => "SW",
        Op::ArithmeticImmediate(operation) => match operation {
            Arithmetic::Add | Arithmetic::Subtract => "ADDI",
            Arithmetic::ShiftLeft => "SLLI",
            Arithmetic::SetLess => "SLTI",
            Arithmetic::SetLessUnsigned => "SLTIU",
            Arithmetic::Xor => "XORI",
            Arithmetic::ShiftRight => "SRLI",
            Arithmetic::ShiftRightArithmetic => "SRAI",
            Arithmetic::Or => "ORI",
            Arithmetic::And => "ANDI",
        },
        Op::Arithmetic(operation) => match operation {
            Arithmetic::Add => "ADD",
            Arithmetic::Subtract => "SUB",
            Arithmetic::ShiftLeft => "SLL",
            Arithmetic::SetLess => "SLT",
            Arithmetic::SetLessUnsigned => "SLTU",
            Arithmetic::Xor => "XOR",
            Arithmetic::ShiftRight => "SRL",
            Arithmetic::ShiftRightArithmetic => "SRA",
            Arithmetic::Or => "OR",
            Arithmetic::And => "AND",
        },
        Op::Multiply(Multiply::Low) => "MUL",
        Op::Multiply(Multiply::High) => "MULH",
        Op::Multiply(Multiply::HighSignedUnsigned) => "MULHSU",
        Op::Multiply(Multiply::HighUnsigned) => "MULHU",
        Op::Divide { signed, remainder } => match (signed, remainder) {
            (true, false) => "DIV",
            (false, false) => "DIVU",
            (true, true) => "REM",
            (false, true) => "REMU",
        },
        Op::Fence => "FENCE",
        Op::System => "SYSTEM",
        Op::Csr => "CSR",
    }
}
