//! Every instruction word through the committed decoder and through LLVM's.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use mcad_isa::llvm::decode::Decoder;
use mcad_isa::llvm::wire::File;

use super::{Source, json};

/// Words that LLVM is asked for at a time.
const BATCH: usize = 1 << 16;

/// Instructions that are taken for a more general one, and why that is all the same to a model.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "MSR",
        "MSRpstateImm4",
        "writes to fields of PSTATE that no architecture version defines",
    ),
    (
        "MSR",
        "MSRpstatesvcrImm1",
        "writes to fields of PSTATE that no architecture version defines",
    ),
];

/// How often two decoders differ in one way: ours, LLVM's, and a word.
type Differences = BTreeMap<(Option<u16>, u16), (u64, u32)>;

/// Compares and prints the differences by class.
///
/// # Errors
/// When a word that LLVM takes for an instruction is not the same one here.
pub fn run(dump: &Path, source: &Source, file: &File) -> Result<()> {
    let names = names(dump, source)?;
    let compressed = source.arch == "riscv";
    let decoder = Decoder::new(file, compressed);
    let mut different = Differences::new();
    let (mut valid, mut total) = (0u64, 0u64);
    labels(dump, source, compressed, |word, theirs| {
        let ours = decoder.find(word);
        total += 1;
        valid += u64::from(theirs != 0);
        let same = match ours {
            None => theirs == 0,
            Some(ours) => {
                names.get(&theirs) == file.opcodes.get(usize::from(ours)).map(|o| &o.name)
            }
        };
        if !same {
            let seen = different.entry((ours, theirs)).or_insert((0, word));
            seen.0 += 1;
        }
    })?;
    report(source, file, &names, &different, valid, total)
}

/// LLVM's numbers and names of instructions; 0 is none.
pub(super) fn names(dump: &Path, source: &Source) -> Result<BTreeMap<u16, String>> {
    let output = Command::new(dump)
        .args([source.triple, source.features, "--names"])
        .output()?;
    let list: Vec<json::Name> = serde_json::from_slice(&output.stdout)?;
    Ok(list
        .into_iter()
        .map(|name| (name.opcode, name.name))
        .collect())
}

/// Calls `each` with every word and the number of the instruction that LLVM takes it for.
///
/// # Errors
/// When the dump program does not start, or ends before the last word.
pub(super) fn labels(
    dump: &Path,
    source: &Source,
    compressed: bool,
    mut each: impl FnMut(u32, u16),
) -> Result<()> {
    let mut child = Command::new(dump)
        .args([source.triple, source.features, "--labels"])
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the dump program")?;
    let mut labels = BufReader::new(child.stdout.take().context("it has an output")?);
    let mut words = words(compressed);
    let mut bytes = vec![0; BATCH * 2];
    loop {
        let got = read_full(&mut labels, &mut bytes)?;
        let (batch, _) = bytes.get(..got).unwrap_or(&[]).as_chunks::<2>();
        for (label, word) in batch.iter().zip(&mut words) {
            each(word, u16::from_le_bytes(*label));
        }
        if got < bytes.len() {
            break;
        }
    }
    let status = child.wait()?;
    if !status.success() || words.next().is_some() {
        bail!("the dump program ended early ({status})");
    }
    Ok(())
}

fn read_full(from: &mut impl Read, bytes: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match from.read(&mut bytes[got..])? {
            0 => break,
            n => got += n,
        }
    }
    Ok(got)
}

/// The words in the order in which the dump program takes them.
fn words(compressed: bool) -> Box<dyn Iterator<Item = u32>> {
    if compressed {
        let short = (0..1u32 << 16).filter(|word| word & 3 != 3);
        Box::new((0..1u32 << 30).map(|word| word << 2 | 3).chain(short))
    } else {
        Box::new(0..=u32::MAX)
    }
}

fn report(
    source: &Source,
    file: &File,
    names: &BTreeMap<u16, String>,
    different: &Differences,
    valid: u64,
    total: u64,
) -> Result<()> {
    let mut wrong = 0;
    let mut undefined: Vec<(u64, u32, &str)> = Vec::new();
    for ((ours, theirs), (count, word)) in different {
        let ours = ours.and_then(|n| file.opcodes.get(usize::from(n)));
        let ours = ours.map_or("nothing", |opcode| opcode.name.as_str());
        match names.get(theirs) {
            None => undefined.push((*count, *word, ours)),
            Some(theirs) => {
                let mut explained = EXPLAINED.iter();
                let why = explained.find(|(a, b, _)| a == theirs && *b == ours);
                let why = why.map(|(.., why)| *why);
                wrong += if why.is_none() { *count } else { 0 };
                let why = why.map_or_else(String::new, |why| format!(" ({why})"));
                eprintln!("{count:>12} x {theirs} taken for {ours}, for example {word:08x}{why}");
            }
        }
    }
    undefined.sort_unstable_by(|a, b| b.cmp(a));
    for (count, word, ours) in undefined.iter().take(20) {
        eprintln!("{count:>12} x undefined, taken for {ours}, for example {word:08x}");
    }
    let extra: u64 = undefined.iter().map(|(count, ..)| count).sum();
    eprintln!(
        "{}: {total} words, {valid} instructions by LLVM {}; {wrong} decoded differently without a reason; {extra} \
         that LLVM has undefined taken for one of {} instructions",
        source.arch,
        file.llvm,
        undefined.len()
    );
    if wrong > 0 {
        bail!("{}: the decoder differs from LLVM's", source.arch);
    }
    Ok(())
}
