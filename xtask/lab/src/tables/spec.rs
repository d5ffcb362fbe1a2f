//! What a row's names say: mnemonic as iced spells it, operand types, encoding hints.
//!
//! uops.info's `string` (`ADD_01 (R64, M64)`) gives mnemonic and operand types, suffixes of it and
//! the tail of the XED iform (`ADD_GPRv_GPRv_01`) give the opcode.

use super::source::Row;

/// A row's names, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// Mnemonic in iced's spelling, upper case.
    pub mnemonic: String,
    /// Operand types in Intel order, the opmask left out.
    pub operands: Vec<String>,
    /// Last byte of the opcode and the digit in the ModRM byte.
    pub opcode: Option<(u8, Option<i32>)>,
    /// EVEX-encoded.
    pub evex: bool,
    /// String instruction: operands are implied by the mnemonic.
    pub string_instruction: bool,
    /// `lock` prefix.
    pub lock: bool,
    /// Immediates in the iform are of the operand size rather than bytes.
    pub wide_immediate: bool,
}

const CONDITIONS: [(&str, &str); 16] = [
    ("O", "O"),
    ("NO", "NO"),
    ("B", "B"),
    ("NB", "AE"),
    ("Z", "E"),
    ("NZ", "NE"),
    ("BE", "BE"),
    ("NBE", "A"),
    ("S", "S"),
    ("NS", "NS"),
    ("P", "P"),
    ("NP", "NP"),
    ("L", "L"),
    ("NL", "GE"),
    ("LE", "LE"),
    ("NLE", "G"),
];

/// Bit of a conditional jump (`JNBE (Rel8)`) in a mask over condition encodings.
pub fn condition_bit(jump: &str) -> Option<u16> {
    let name = jump.split(' ').next()?.strip_prefix('J')?;
    let position = CONDITIONS.iter().position(|(xed, _)| *xed == name)?;
    Some(1 << position)
}

fn iced_mnemonic(xed: &str) -> String {
    for prefix in ["J", "SET", "CMOV"] {
        if let Some(rest) = xed.strip_prefix(prefix)
            && let Some((_, iced)) = CONDITIONS.iter().find(|(name, _)| *name == rest)
        {
            return format!("{prefix}{iced}");
        }
    }
    match xed {
        "XLAT" => "XLATB",
        "VCVTNEEBF162PS" => "VCVTNEEBF162PS",
        other => other,
    }
    .to_owned()
}

/// Names of string instructions without operand size.
const STRING: [&str; 7] = ["MOVS", "CMPS", "STOS", "LODS", "SCAS", "INS", "OUTS"];

fn is_string_instruction(mnemonic: &str) -> bool {
    mnemonic
        .strip_suffix(['B', 'W', 'D', 'Q'])
        .is_some_and(|stem| STRING.contains(&stem))
}

/// `31`, `0F6F`, `C1r4`, `0F0Dr1`: the last opcode byte and the digit.
fn opcode(token: &str) -> Option<(u8, Option<i32>)> {
    let (code, digit) = match token.split_once('r') {
        Some((code, digit)) => (code, Some(digit.parse().ok()?)),
        None => (token, None),
    };
    let byte = code
        .strip_prefix("0F")
        .filter(|b| !b.is_empty())
        .unwrap_or(code);
    let upper_hex = |c: char| c.is_ascii_digit() || ('A'..='F').contains(&c);
    (byte.len() == 2 && byte.chars().all(upper_hex))
        .then(|| u8::from_str_radix(byte, 16).ok())
        .flatten()
        .map(|b| (b, digit))
}

/// A row's string with the mnemonic suffixes dropped that only one generation of the data has.
pub fn generation_neutral(string: &str) -> String {
    let (head, tail) = string.split_once(' ').unwrap_or((string, ""));
    let head = ["_IMMB", "_IMMZ", "_CL"]
        .iter()
        .fold(head, |h, suffix| h.strip_suffix(suffix).unwrap_or(h));
    match tail {
        "" => head.to_owned(),
        _ => format!("{head} {tail}"),
    }
}

/// Takes a row's names apart.
pub fn parse(row: &Row) -> Spec {
    let (head, operands) = match row.string.split_once(" (") {
        Some((head, list)) => (
            head,
            list.trim_end_matches(')')
                .split(", ")
                .map(str::to_owned)
                .collect(),
        ),
        None => (row.string.as_str(), Vec::new()),
    };
    let mut operands: Vec<String> = operands;
    let mut tokens = head.split('_');
    let mut name = tokens.next().unwrap_or_default().to_owned();
    let mut hint = None;
    let mut lock = false;
    let mut vector = false;
    for token in tokens {
        match token {
            "LOCK" => lock = true,
            "XMM" => vector = true,
            "EXCLUSIVE" => {}
            "SSE4" => hint = Some((0x15, None)),
            _ if name == "LEA" || name.starts_with("BND") => {}
            _ => hint = opcode(token).or(hint),
        }
    }
    let evex = row.iform.contains("AVX512") && !name.starts_with('K');
    let string_instruction = !vector && operands.is_empty() && is_string_instruction(&name);
    let iform_hint = row
        .iform
        .split('_')
        .skip(1)
        .filter(|t| !matches!(*t, "AVX512" | "ONE"))
        .filter_map(opcode)
        .last();
    if row.iform.contains("AGEN") {
        operands.push("AGEN".to_owned());
    }
    if row.attrs.get("mask").is_some_and(|m| m == "1") && operands.get(1).is_some_and(|o| o == "K")
    {
        operands.remove(1);
    }
    name = iced_mnemonic(&name);
    Spec {
        mnemonic: name,
        operands,
        opcode: hint.or(iform_hint),
        evex,
        string_instruction,
        lock,
        wide_immediate: row.iform.contains("IMMz") || row.iform.contains("IMMv"),
    }
}
