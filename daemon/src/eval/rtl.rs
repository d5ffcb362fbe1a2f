//! An in-order core held against recorded retirements of the real one's register-transfer level.
//!
//! A file has a line `cycle,pc,opcode,address` for each retired instruction, in program order:
//! cycle in decimal, the rest in hexadecimal, the address only for loads and stores. Nothing of a
//! file's cycles goes into the prediction.

mod addresses;

use std::io::Read;

use addresses::Addresses;
use anyhow::{Context, bail};
use mcad_core::pipeline::inorder::code::Code;
use mcad_core::pipeline::inorder::hart::Hart;
use mcad_core::pipeline::inorder::slots::Slots;
use mcad_core::pipeline::inorder::{Core, Executed, Stamps};
use mcad_isa::machine::inorder::InOrder;
use mcad_isa::riscv::inorder::Riscv;
use mcad_isa::riscv::{self, Op};
use rustc_hash::FxHashMap;

/// A retired instruction of a file.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Line<'a> {
    cycle: u64,
    pc: &'a str,
    opcode: &'a str,
    address: Option<&'a str>,
}

/// An instruction with the model's stamps and the recorded cycle.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Its address.
    pub pc: u64,
    /// Its bytes.
    pub opcode: u32,
    /// Cycle of retirement in the file.
    pub measured: u64,
    /// What the model has.
    pub stamps: Stamps,
}

/// A file's comparison.
#[derive(Debug)]
pub struct Comparison {
    /// All instructions.
    pub instructions: Vec<Compared>,
    /// Where the model's issue slots went.
    pub slots: Slots,
    /// Divisions whose operands could not be known.
    pub unknown_divisions: u64,
    /// Divisions whose operands rest on memory that was never written being zero.
    pub assumed_divisions: u64,
    /// Addresses that the file has wrong, and that were put right.
    pub wrong_addresses: u64,
}

impl Comparison {
    /// Cycles from the first to the last retirement: measured, predicted.
    #[must_use]
    pub fn cycles(&self) -> (u64, u64) {
        match (self.instructions.first(), self.instructions.last()) {
            (Some(first), Some(last)) => (
                last.measured - first.measured,
                last.stamps.retired - first.stamps.retired,
            ),
            _ => (0, 0),
        }
    }

    /// Instructions that retire within a cycle of the file's, when the model is aligned anew at
    /// the first instruction and behind each misprediction of its own.
    #[must_use]
    pub fn within_a_cycle(&self) -> u64 {
        let mut offset = None;
        let mut within = 0;
        for i in &self.instructions {
            let by = i.measured as i64 - i.stamps.retired as i64;
            let aligned = *offset.get_or_insert(by);
            within += u64::from((by - aligned).abs() <= 1);
            if i.stamps.mispredicted {
                offset = None;
            }
        }
        within
    }
}

/// Reads a file and predicts it.
///
/// # Errors
/// When the file is not of the form above, naming the line.
pub fn compare(core: &InOrder, name: &str, reader: impl Read) -> anyhow::Result<Comparison> {
    let riscv = Riscv::new(core).map_err(anyhow::Error::msg)?;
    let mut recorded = Recorded::default();
    recorded.read(&riscv, name, reader)?;
    let wrong_addresses = recorded.put_right();
    let Recorded { code, retired, .. } = recorded;
    let mut stamps: Vec<Stamps> = Vec::with_capacity(retired.len());
    let mut hart = Hart::new(core);
    let mut model = Core::new(core, |_: &Executed, s: &Stamps| stamps.push(*s));
    for line in &retired {
        let size = match code.computes(line.instr).map(|inst| inst.op) {
            Some(Op::Load { size, .. } | Op::Store(size)) => u32::from(size),
            _ => 0,
        };
        let executed = Executed {
            instr: line.instr,
            address: u64::from(line.pc),
            access: line.address.map(|a| (u64::from(a), size)),
            ..Executed::default()
        };
        hart.push(&mut model, &code, executed);
    }
    model.flush(&code);
    let slots = model.slots();
    drop(model);
    let compared = retired.iter().zip(stamps).map(|(line, stamps)| Compared {
        pc: u64::from(line.pc),
        opcode: line.opcode,
        measured: line.cycle,
        stamps,
    });
    Ok(Comparison {
        instructions: compared.collect(),
        slots,
        unknown_divisions: hart.unknown_divisions,
        assumed_divisions: hart.assumed_divisions,
        wrong_addresses,
    })
}

/// A retired instruction, read.
#[derive(Clone, Copy, Debug)]
struct Retired {
    cycle: u64,
    pc: u32,
    opcode: u32,
    address: Option<u32>,
    /// Its static instruction.
    instr: u32,
}

/// A file, and the code that it shows. That is read to its end first: what is fetched behind a
/// misprediction may be executed later only.
#[derive(Default)]
struct Recorded {
    code: Code,
    retired: Vec<Retired>,
    addresses: Addresses,
}

impl Recorded {
    fn read(&mut self, riscv: &Riscv, name: &str, reader: impl Read) -> anyhow::Result<()> {
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut reader = csv::Reader::from_reader(reader);
        let header = reader.headers().context("no header line")?.clone();
        let mut record = csv::StringRecord::new();
        while reader.read_record(&mut record)? {
            let place = || format!("{name}, line {}", record.position().map_or(0, |p| p.line()));
            let line: Line<'_> = record.deserialize(Some(&header)).with_context(place)?;
            let hex = |text: &str| u32::from_str_radix(text, 16);
            let pc = hex(line.pc).with_context(place)?;
            let opcode = hex(line.opcode).with_context(place)?;
            let address = line.address.map(hex).transpose().with_context(place)?;
            if self.retired.last().is_some_and(|l| l.cycle > line.cycle) {
                bail!(
                    "{}: cycle {} is before the one of the line above",
                    place(),
                    line.cycle
                );
            }
            let instr = match known.get(&(pc, opcode)) {
                Some(&known) => known,
                None => {
                    let inst = riscv::decode(opcode)
                        .with_context(|| format!("{}: {opcode:x} is not RV32IMC", place()))?;
                    let number = self.code.instrs.len() as u32;
                    riscv.append(&mut self.code, &inst);
                    self.code.lies_at(u64::from(pc));
                    known.insert((pc, opcode), number);
                    number
                }
            };
            if let Some(inst) = self.code.computes(instr) {
                self.addresses.look(opcode, inst, pc, address);
            }
            self.retired.push(Retired {
                cycle: line.cycle,
                pc,
                opcode,
                address,
                instr,
            });
        }
        Ok(())
    }

    /// Puts addresses right that the file has wrong; says how many.
    fn put_right(&mut self) -> u64 {
        let mut count = 0;
        if self.addresses.are_wrong() {
            for line in &mut self.retired {
                let inst = self.code.computes(line.instr);
                if inst.is_some_and(|inst| addresses::may_be_wrong(line.opcode, inst))
                    && let Some(address) = &mut line.address
                {
                    *address = address.wrapping_sub(addresses::TOO_HIGH);
                    count += 1;
                }
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcad_core::pipeline::Pipeline;
    use mcad_core::pipeline::access::Access;
    use mcad_core::pipeline::inst::Inst;
    use mcad_core::pipeline::observer::{Observer, Retired, UopStamps};
    use mcad_isa::build::Builder;
    use mcad_isa::program::Program;
    use mcad_isa::{code, machine};
    use mcad_proto::event::Arch;

    const TRACE: &str = "cycle,pc,opcode,address\n\
        10,1000,00100293,\n\
        11,1004,00728293,\n\
        12,1008,0002a303,8\n\
        12,100c,00130313,\n\
        14,1010,0253c3b3,\n\
        40,1014,8082,\n";

    #[test]
    fn a_file_is_predicted_from_its_instructions_and_not_from_its_cycles() {
        let model = machine::cpu("eh1").unwrap();
        let core = model.core.in_order.clone().unwrap();
        let first = compare(&core, "t", TRACE.as_bytes()).unwrap();
        let later = TRACE
            .replace("\n40,", "\n4000,")
            .replace("\n14,", "\n1000,");
        let second = compare(&core, "t", later.as_bytes()).unwrap();
        assert_eq!(first.cycles().0, 30);
        assert_eq!(second.cycles().0, 3990);
        assert_eq!(first.cycles().1, second.cycles().1);
        // t2 was never written: what is divided is not known.
        assert_eq!(first.unknown_divisions, 1);
        assert_eq!(first.slots.used, 6);
        assert!(first.within_a_cycle() >= 4);
    }

    struct Nobody;

    impl Observer for Nobody {
        const UOPS: bool = false;

        fn uop(&mut self, _: &Inst, _: UopStamps) {}

        fn retired(&mut self, _: &Inst, _: Retired) {}
    }

    /// A loop with a load, a division and a branch that goes either way.
    fn turns(of: usize) -> String {
        let mut trace = String::from("cycle,pc,opcode,address\n1,ffc,3e800393,\n");
        for n in 0..of {
            trace += "1,1000,00728293,\n1,1004,0002a303,";
            trace += &format!("{:x}\n1,1008,0253c3b3,\n1,100c,00030463,\n", 8 * n);
            if n * n % 7 < 3 {
                trace += "1,1010,00130313,\n";
            }
            trace += "1,1014,fedff06f,\n";
        }
        trace
    }

    #[test]
    fn whole_programs_take_as_long_as_their_retirements() {
        let model = machine::cpu("eh1").unwrap();
        let core = model.core.in_order.clone().unwrap();
        let text = turns(300);
        let compared = compare(&core, "t", text.as_bytes()).unwrap();
        let last = compared.instructions.last().unwrap().stamps.retired;

        let mut program = Program::default();
        let mut builder = Builder::new(&model);
        let mut instrs = FxHashMap::default();
        for i in &compared.instructions {
            instrs.entry(i.pc).or_insert_with(|| {
                let (decoded, _) = code::decode(Arch::RiscV32, &i.opcode.to_le_bytes(), i.pc);
                builder.append(&mut program, &decoded);
                program.instrs.len() as u32 - 1
            });
        }
        let mut pipeline = Pipeline::of_program(&model, Nobody);
        for (i, line) in compared.instructions.iter().zip(text.lines().skip(1)) {
            let address = line.rsplit(',').next().filter(|a| !a.is_empty());
            let access = address.map(|a| Access::known(u64::from_str_radix(a, 16).unwrap(), 4));
            let inst = Inst::new(instrs[&i.pc], i.pc);
            pipeline.push(&program, inst, access.as_slice());
        }
        pipeline.flush(&program);
        assert_eq!(pipeline.cycles(), last);
        assert_eq!(compared.unknown_divisions, 0);
    }

    #[test]
    fn broken_lines_are_named() {
        let model = machine::cpu("eh1").unwrap();
        let core = model.core.in_order.clone().unwrap();
        let error = |text: &str| {
            let result = compare(&core, "t.csv", text.as_bytes());
            format!("{:#}", result.expect_err(text))
        };
        for (wrong, place) in [
            (
                TRACE.replace("00728293", "0"),
                "t.csv, line 3: 0 is not RV32IMC",
            ),
            (TRACE.replace("\n12,1008", "\nx,1008"), "t.csv, line 4"),
            (
                TRACE.replace("\n12,1008", "\n9,1008"),
                "t.csv, line 4: cycle 9 is before",
            ),
            (TRACE.replace(",8\n", ",8g\n"), "t.csv, line 4"),
        ] {
            let error = error(&wrong);
            assert!(error.contains(place), "{error}");
        }
        assert!(compare(&core, "empty", &b""[..]).is_ok_and(|c| c.instructions.is_empty()));
    }
}
