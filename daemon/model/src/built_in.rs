//! The machine that a CPU's own model is, as far as a [`Machine`] can say it: what each kind of
//! instruction costs is measured on that model, by blocks of one instruction, as latencies and
//! throughputs are on hardware (uops.info; Abel and Reineke, ASPLOS 2019).
//!
//! Not measured but read off the model's static code is when a kind of instructions can use results of
//! another, and, where the CPU goes by LLVM's scheduling model, when results are written: llvm-mca
//! does that in program order, a tenth of a program's cycles on cortex-a53.
//!
//! What a [`Machine`] has no word for is left out: who waits for the result of what executed late, units that kinds share, instructions that issue
//! alone, differences among instructions of a kind. Caches and branch prediction are left to whoever asks, since
//! the models of in-order CPUs know little of them.

use std::sync::Arc;

use mcad_core::block::{Block, Mode, Options};
use mcad_isa::build::Builder;
use mcad_isa::code;
use mcad_isa::inorder::Code;
use mcad_isa::machine::inorder::{InOrder, Use};
use mcad_isa::machine::params::Core;
use mcad_isa::machine::{self, CpuModel};
use mcad_isa::program::Program;
use mcad_proto::event::Arch;

use crate::kind::Kind;
use crate::machine::{Forward, MAX_WIDTH, Machine, Units};

/// Instructions of a measured block.
const COPIES: u8 = 5;

/// Names of the CPUs that there are machines of.
pub fn names() -> impl Iterator<Item = &'static str> {
    let in_order = |name: &&str| {
        machine::cpu(name).is_ok_and(|model: Arc<CpuModel>| model.core.in_order.is_some())
    };
    machine::cpus()
        .iter()
        .map(|info| info.name)
        .filter(in_order)
}

impl Machine {
    /// The machine of an in-order CPU.
    ///
    /// # Errors
    /// Why there is none: the CPU is out of order, or its model does not execute one of the
    /// measured instructions.
    pub fn of(model: &Arc<CpuModel>) -> Result<Self, String> {
        let Some(core) = &model.core.in_order else {
            return Err(format!("{} is not an in-order core", model.name));
        };
        let mut machine = Self {
            width: core.width.clamp(1, MAX_WIDTH as u32) as u8,
            depth: core.mispredicted().min(u32::from(u8::MAX)) as u8,
            ..Self::default()
        };
        let alone = behind_ideal_front_end(model, core);
        for kind in Kind::ALL {
            let units = units(&alone, kind)?;
            match kind {
                Kind::Alu => machine.alu = units,
                Kind::Load => machine.load = units,
                Kind::Store => machine.store = units,
                Kind::Branch => machine.branch = units,
                Kind::Multiply => machine.multiply = units,
                Kind::Divide => machine.divide = units,
                Kind::FpAdd => machine.fp_add = units,
                Kind::FpMultiply => machine.fp_multiply = units,
                Kind::FpDivide => machine.fp_divide = units,
            }
        }
        machine.forward = forward(model, &machine);
        machine.check()?;
        Ok(machine)
    }
}

/// The same CPU with a front end that holds nothing up: what instructions cost is asked.
fn behind_ideal_front_end(model: &CpuModel, in_order: &InOrder) -> Arc<CpuModel> {
    let mut in_order = in_order.clone();
    in_order.fetch.ideal = true;
    in_order.program_fetch = None;
    in_order.icache = None;
    in_order.predictor = None;
    Arc::new(CpuModel {
        name: model.name.clone(),
        full_name: model.full_name.clone(),
        core: Core {
            in_order: Some(in_order),
            ..model.core.clone()
        },
        instructions: model.instructions.clone(),
        qemu_cpu: model.qemu_cpu.clone(),
    })
}

/// Results that kinds use at another time than the machine's latencies say.
fn forward(model: &Arc<CpuModel>, machine: &Machine) -> Vec<Forward> {
    let mut forward = Vec::new();
    for from in Kind::ALL {
        let usual = machine.units(from).latency;
        for to in Kind::ALL {
            let latency = latency(model, from, to).map(|cycles| cycles.clamp(1, 255) as u8);
            if let Some(latency) = latency.filter(|latency| *latency != usual) {
                forward.push(Forward { from, to, latency });
            }
        }
    }
    forward
}

/// Cycles from the issue of a kind to that of another that uses its result, by the model's static
/// code; none when the other uses no such result.
fn latency(model: &Arc<CpuModel>, from: Kind, to: Kind) -> Option<i64> {
    let arch = model.arch();
    let mut bytes = instruction(arch, from, 0, 0)?;
    bytes.extend(user(arch, to)?);
    let code = built(model, &bytes);
    if model.scheduled().is_some() {
        let code = &code.scheduled;
        let [from, to] = code.instrs.first_chunk()?;
        let reads = code.reads(to).iter().flat_map(|read| {
            let writes = code.writes(from).iter();
            let of_it = writes.filter(|write| write.register == read.register);
            of_it.map(|write| {
                let advance = code.advance(read, write.kind);
                i64::from(write.latency) - i64::from(advance)
            })
        });
        return reads.max();
    }
    let [from, to] = code.instrs.first_chunk()?;
    // What may execute late waits no longer than a late one does.
    let classes = model.core.in_order.as_ref().map(|core| &core.classes);
    let class = classes.and_then(|classes| classes.get(usize::from(to.class)));
    let late = class.is_some_and(|class| class.late);
    let reads = code.sources(to).iter().flat_map(|source| {
        let targets = code.targets(from).iter();
        let of_it = targets.filter(|target| target.register == source.register);
        of_it.map(|target| {
            let early = target.latency[source.needed as usize];
            let at_end = target.latency[Use::Late as usize];
            i64::from(if late { early.min(at_end) } else { early })
        })
    });
    reads.max()
}

/// Bytes of one or two instructions as the model's static code.
fn built(model: &Arc<CpuModel>, bytes: &[u8]) -> Code {
    let (decoded, _) = code::decode(model.arch(), bytes, 0);
    let mut program = Program::default();
    Builder::new(model).append(&mut program, &decoded);
    program.in_order
}

/// What a kind of instructions costs.
fn units(model: &Arc<CpuModel>, kind: Kind) -> Result<Units, String> {
    let one = Units {
        latency: 1,
        count: 1,
        pipelined: true,
        write_back: write_back(model, kind),
    };
    let arch = model.arch();
    // Blocks end at branches; embedded cores have no floating point.
    let Some(example) = instruction(arch, kind, 0, 0) else {
        return Ok(one);
    };
    let floating = matches!(kind, Kind::FpAdd | Kind::FpMultiply | Kind::FpDivide);
    if floating && Block::new(model, &example).is_err() {
        return Ok(one);
    }
    let cycles = |chain: bool| -> Result<f64, String> {
        let mut code = Vec::new();
        for n in 0..COPIES {
            // A value that the next one needs, or values of their own from the same operand.
            let (target, source) = if chain { (0, 0) } else { (n + 1, 0) };
            code.extend(instruction(arch, kind, target, source).unwrap_or_default());
        }
        let block = Block::new(model, &code)
            .map_err(|e| format!("{}: {}: {e}", model.name, kind.name()))?;
        let options = Options {
            mode: Mode::Unrolled,
            ..Options::default()
        };
        Ok(block.predict(options).cycles / f64::from(COPIES))
    };
    let interval = cycles(false)?;
    let latency = match kind {
        Kind::Store => 1.0,
        _ => cycles(true)?.round().clamp(1.0, 255.0),
    };
    Ok(Units {
        latency: latency as u8,
        count: (1.0 / interval).round().clamp(1.0, 8.0) as u8,
        // Half-way pipelined units are taken for what they are nearer to.
        pipelined: interval <= latency / 2.0 || interval <= 1.0,
        ..one
    })
}

/// Cycles until the result of a kind is written in order; 0: not in order.
fn write_back(model: &Arc<CpuModel>, kind: Kind) -> u8 {
    let arch = model.arch();
    let example = instruction(arch, kind, 0, 0).or_else(|| user(arch, kind));
    let (Some(example), true) = (example, model.scheduled().is_some()) else {
        return 0;
    };
    let code = built(model, &example).scheduled;
    let instr = code.instrs.first().filter(|i| !code.cost(i).out_of_order);
    instr.map_or(0, |i| i.latency.min(u32::from(u8::MAX)) as u8)
}

/// An instruction of a kind that uses register 0: stores as their data, branches to decide.
fn user(arch: Arch, kind: Kind) -> Option<Vec<u8>> {
    Some(match (kind, arch) {
        // cbz x0; str x0, [x9]
        (Kind::Branch, Arch::AArch64) => word(0xb400_0000),
        (Kind::Store, Arch::AArch64) => word(0xf900_0120),
        // beq a0, a7; sd (or sw) a0, 0(a7)
        (Kind::Branch, Arch::RiscV64 | Arch::RiscV32) => word(0x0115_0063),
        (Kind::Store, Arch::RiscV64) => word(0x00a8_b023),
        (Kind::Store, Arch::RiscV32) => word(0x00a8_a023),
        // mov [rbp], eax
        (Kind::Store, Arch::X86_64) => vec![0x89, 0x45, 0],
        _ => return instruction(arch, kind, 0, 0),
    })
}

/// An instruction of a kind that computes register `target` from register `source` (and, where it
/// has two operands, from another one that nothing writes). Registers are numbers below 8 that mean
/// general or floating-point registers of the instruction set.
fn instruction(arch: Arch, kind: Kind, target: u8, source: u8) -> Option<Vec<u8>> {
    match arch {
        Arch::X86_64 => x86(kind, target),
        Arch::AArch64 => a64(kind, target.into(), source.into()).map(word),
        _ => riscv(arch, kind, target.into(), source.into()).map(word),
    }
}

fn word(word: u32) -> Vec<u8> {
    word.to_le_bytes().into()
}

/// Instructions of two operands: without a chain between registers there still is one from copy to
/// copy of the block, which is as long as the block has registers.
fn x86(kind: Kind, target: u8) -> Option<Vec<u8>> {
    // rax, rcx, rdx, rbx, rsi, rdi; the other operand is rbp or xmm7.
    let general = *[0, 1, 2, 3, 6, 7].get(usize::from(target))?;
    let double = |opcode: u8| vec![0xf2, 0x0f, opcode, 0xc0 | target << 3 | 7];
    Some(match kind {
        // add r32, ebp; mov r64, [rax]; mov [rax + disp8], ebp
        Kind::Alu => vec![0x01, 0xc0 | 5 << 3 | general],
        Kind::Load => vec![0x48, 0x8b, general << 3],
        Kind::Store => vec![0x89, 0x40 | 5 << 3, 8 * target],
        // imul r32, ebp; div ebp
        Kind::Multiply => vec![0x0f, 0xaf, 0xc0 | general << 3 | 5],
        Kind::Divide => vec![0xf7, 0xf5],
        // addsd, mulsd, divsd
        Kind::FpAdd => double(0x58),
        Kind::FpMultiply => double(0x59),
        Kind::FpDivide => double(0x5e),
        Kind::Branch => return None,
    })
}

fn a64(kind: Kind, d: u32, n: u32) -> Option<u32> {
    let other = 9;
    let three = |base: u32| base | other << 16 | n << 5 | d;
    Some(match kind {
        Kind::Alu => three(0x8b00_0000),
        Kind::Load => 0xf940_0000 | n << 5 | d,
        Kind::Store => 0xf900_0000 | d << 10 | n << 5 | other,
        Kind::Multiply => three(0x9b00_7c00),
        Kind::Divide => three(0x9ac0_0800),
        Kind::FpAdd => three(0x1e60_2800),
        Kind::FpMultiply => three(0x1e60_0800),
        Kind::FpDivide => three(0x1e60_1800),
        Kind::Branch => return None,
    })
}

fn riscv(arch: Arch, kind: Kind, rd: u32, rs1: u32) -> Option<u32> {
    // From a0 on, so that no register is zero; and a7.
    let (rd, rs1, other) = (rd + 10, rs1 + 10, 17);
    let three = |base: u32| base | other << 20 | rs1 << 15 | rd << 7;
    // ld and sd, or lw and sw.
    let width = if arch == Arch::RiscV32 { 2 } else { 3 } << 12;
    let double = matches!(kind, Kind::FpAdd | Kind::FpMultiply | Kind::FpDivide);
    if double && arch == Arch::RiscV32 {
        return None;
    }
    Some(match kind {
        Kind::Alu => three(0x33),
        Kind::Load => 0x03 | width | rs1 << 15 | rd << 7,
        Kind::Store => 0x23 | width | other << 20 | rs1 << 15 | ((8 * (rd - 10)) & 0x1f) << 7,
        Kind::Multiply => three(0x0200_0033),
        Kind::Divide => three(0x0200_5033),
        // The rounding mode is that of fcsr.
        Kind::FpAdd => three(0x0200_7053),
        Kind::FpMultiply => three(0x1200_7053),
        Kind::FpDivide => three(0x1a00_7053),
        Kind::Branch => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Machine {
        Machine::of(&machine::cpu(name).unwrap()).unwrap()
    }

    fn cost(machine: &Machine, kind: Kind) -> (u8, u8, bool) {
        let units = machine.units(kind);
        (units.latency, units.count, units.pipelined)
    }

    #[test]
    fn every_in_order_cpu_has_a_machine() {
        let names: Vec<&str> = names().collect();
        assert!(names.len() > 10);
        for name in names {
            let machine = of(name);
            assert_eq!(cost(&machine, Kind::Alu).0, 1, "{name}");
        }
        let skl = Machine::of(&machine::cpu("skl").unwrap());
        assert_eq!(skl.unwrap_err(), "skl is not an in-order core");
    }

    /// What the models' files say, measured.
    #[test]
    fn machines_are_what_the_models_say() {
        // models/atom.toml: an address is made three stages before operands are needed; 13 cycles for a
        // misprediction.
        let atom = of("atom");
        assert_eq!((atom.width, atom.depth), (2, 13));
        assert_eq!(cost(&atom, Kind::Load), (3, 1, true));
        assert_eq!(cost(&atom, Kind::Multiply), (5, 1, true));
        assert_eq!(cost(&atom, Kind::Divide), (50, 1, false));
        // LLVM's RISCVSchedSiFive7.td, but for mispredictions (models/sifive-u74.toml).
        let u74 = of("sifive-u74");
        assert_eq!((u74.width, u74.depth), (2, 4));
        assert_eq!(cost(&u74, Kind::Alu), (1, 2, true));
        assert_eq!(cost(&u74, Kind::Load), (3, 1, true));
        assert_eq!(cost(&u74, Kind::Multiply), (3, 1, true));
        assert_eq!(cost(&u74, Kind::Divide), (66, 1, false));
        // AArch64SchedA55.td, with its forwarding.
        let a55 = of("cortex-a55");
        assert_eq!(cost(&a55, Kind::Load), (3, 1, true));
        assert_eq!(cost(&a55, Kind::FpAdd), (4, 2, true));
        assert_eq!(cost(&a55, Kind::FpDivide), (22, 1, false));
        // AArch64SchedA53.td: results after three stages, loads' after four; additions take them two
        // cycles sooner than addresses and branches.
        let a53 = of("cortex-a53");
        assert_eq!((a53.alu.write_back, a53.load.write_back), (3, 4));
        let latencies = a53.latencies();
        let of_sums = latencies[Kind::Alu as usize];
        assert_eq!(of_sums[Kind::Alu as usize], 1);
        assert_eq!(of_sums[Kind::Load as usize], 3);
        assert_eq!(of_sums[Kind::Branch as usize], 3);
        // models/eh1.toml: two of a cycle, loads and multiplications one of them; four cycles for a misprediction
        // that is found early.
        let eh1 = of("eh1");
        assert_eq!((eh1.width, eh1.depth), (2, 4));
        assert_eq!(cost(&eh1, Kind::Alu), (1, 2, true));
        assert_eq!(cost(&eh1, Kind::Multiply), (3, 1, true));
        // models/cortex-a8.toml says of the stepwise core what the published machine says.
        let (a8, published) = (of("cortex-a8"), Machine::built_in("cortex-a8").unwrap());
        assert_eq!((a8.width, a8.depth), (published.width, published.depth));
        for kind in Kind::ALL {
            let (of_a8, of_published) = (cost(&a8, kind), cost(&published, kind));
            assert_eq!(of_a8, of_published, "{}", kind.name());
        }
        // An address is needed three stages before operands.
        assert_eq!(atom.latencies()[Kind::Alu as usize][Kind::Load as usize], 4);
        assert_eq!(atom.load.write_back, 0);
    }
}
