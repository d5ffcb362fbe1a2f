//! x86-64 instructions as an in-order core sees them: whole, by class, with what they read for
//! which purpose and what they write.
//!
//! Classes are by what Intel's Optimization Reference Manual groups in its tables for Bonnell
//! (chapter "Intel Atom"): which pipe, how long, in one piece or as microcode.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register};

use crate::inorder::{Code, Control, Source, Static, Target};
use crate::machine::inorder::{InOrder, USES, Use};
use crate::regs::RegId;

/// Classes that x86-64 asks an in-order core for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integer arithmetic and logic, moves between registers.
    Alu,
    /// The same with a memory operand that is read or changed.
    AluMemory,
    /// A plain load, `pop`.
    Load,
    /// A plain store, `push`.
    Store,
    /// Shifts and rotates by one register, bit tests.
    Shift,
    /// `lea`.
    Lea,
    /// Jumps.
    Branch,
    /// Calls and returns.
    Call,
    /// A multiplication of up to 32 bits to one register.
    Multiply,
    /// Any other integer multiplication.
    MultiplyWide,
    /// An integer division of up to 32 bits.
    Divide,
    /// One of 64 bits.
    DivideWide,
    /// Vector moves, logic and integer arithmetic.
    Vector,
    /// Vector shuffles.
    Shuffle,
    /// Integer vector multiplications.
    VectorMultiply,
    /// Floating-point additions and the like.
    FpAdd,
    /// Floating-point multiplications.
    FpMultiply,
    /// Floating-point divisions and square roots.
    FpDivide,
    /// Conversions, comparisons into flags, moves between register files.
    Convert,
    /// x87.
    X87,
    /// Microcode: string instructions, locked ones, system calls.
    Microcode,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 21] = [
        Self::Alu,
        Self::AluMemory,
        Self::Load,
        Self::Store,
        Self::Shift,
        Self::Lea,
        Self::Branch,
        Self::Call,
        Self::Multiply,
        Self::MultiplyWide,
        Self::Divide,
        Self::DivideWide,
        Self::Vector,
        Self::Shuffle,
        Self::VectorMultiply,
        Self::FpAdd,
        Self::FpMultiply,
        Self::FpDivide,
        Self::Convert,
        Self::X87,
        Self::Microcode,
    ];

    /// Its name in a core's parameters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alu => "alu",
            Self::AluMemory => "alu_memory",
            Self::Load => "load",
            Self::Store => "store",
            Self::Shift => "shift",
            Self::Lea => "lea",
            Self::Branch => "branch",
            Self::Call => "call",
            Self::Multiply => "multiply",
            Self::MultiplyWide => "multiply_wide",
            Self::Divide => "divide",
            Self::DivideWide => "divide_wide",
            Self::Vector => "vector",
            Self::Shuffle => "shuffle",
            Self::VectorMultiply => "vector_multiply",
            Self::FpAdd => "fp_add",
            Self::FpMultiply => "fp_multiply",
            Self::FpDivide => "fp_divide",
            Self::Convert => "convert",
            Self::X87 => "x87",
            Self::Microcode => "microcode",
        }
    }
}

/// Translates instructions for one core.
pub struct Translator {
    classes: [(u8, [u8; USES]); Class::ALL.len()],
    factory: InstructionInfoFactory,
}

impl Translator {
    /// Finds the classes that the instruction set needs.
    ///
    /// # Errors
    /// The name of one that the core lacks.
    pub fn new(core: &InOrder) -> Result<Self, String> {
        let mut classes = [(0, [0; USES]); Class::ALL.len()];
        for (place, class) in classes.iter_mut().zip(Class::ALL) {
            let found = core.classes.iter().position(|c| c.name == class.name());
            let found = found.ok_or_else(|| format!("there is no class \"{}\"", class.name()))?;
            let latency = core.classes.get(found).and_then(|c| c.latency);
            *place = (found as u8, latency.map_or([1; USES], |l| l.by_use()));
        }
        Ok(Self {
            classes,
            factory: InstructionInfoFactory::new(),
        })
    }

    /// Appends an instruction to the static code.
    pub fn append(&mut self, code: &mut Code, instruction: &Instruction) {
        let class = classify(instruction);
        let (number, latency) = self.classes[class as usize];
        let pointer = self.classes[Class::Lea as usize].1;
        let info = self.factory.info(instruction);
        let mut sources: Vec<Source> = Vec::new();
        let mut targets: Vec<Target> = Vec::new();
        let mut source = |register: RegId, needed: Use| {
            let register = register.0;
            if !sources
                .iter()
                .any(|s| s.register == register && s.needed == needed)
            {
                sources.push(Source { register, needed });
            }
        };
        for memory in info.used_memory() {
            for register in [memory.base(), memory.index()] {
                if let Some(register) = RegId::of(register) {
                    source(register, Use::Address);
                }
            }
        }
        let needed = match class {
            Class::Lea => Use::Address,
            Class::Store => Use::StoreData,
            _ => Use::Operand,
        };
        let addresses = [instruction.memory_base(), instruction.memory_index()];
        let operands = |register: Register| {
            (0..instruction.op_count()).any(|n| {
                instruction.op_kind(n) == OpKind::Register
                    && instruction.op_register(n).full_register() == register.full_register()
            })
        };
        for used in info.used_registers() {
            let register = used.register();
            let Some(id) = RegId::of(register) else {
                continue;
            };
            let access = used.access();
            let reads = matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            // What is only part of an address has been taken there, unless nothing is accessed.
            let addressing =
                class != Class::Lea && (addresses.contains(&register) || id == RegId::RSP);
            if reads && (!addressing || operands(register)) {
                source(id, needed);
            }
            let writes = matches!(
                access,
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            if writes && !targets.iter().any(|t| t.register == id.0) {
                let moved = id == RegId::RSP && instruction.is_stack_instruction();
                let latency = if moved { pointer } else { latency };
                targets.push(Target {
                    register: id.0,
                    latency,
                });
            }
        }
        if instruction.rflags_read() != 0 {
            source(RegId::SPAZO, Use::Operand);
        }
        if instruction.rflags_modified() != 0 {
            targets.push(Target {
                register: RegId::SPAZO.0,
                latency,
            });
        }
        let mut instr = Static::new(number, instruction.len() as u8, control(instruction));
        instr.indirect = matches!(
            instruction.flow_control(),
            FlowControl::IndirectBranch | FlowControl::IndirectCall
        );
        code.push(instr, sources, targets);
    }
}

fn control(instruction: &Instruction) -> Control {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => Control::Conditional,
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Control::Jump,
        FlowControl::Call | FlowControl::IndirectCall => Control::Call,
        FlowControl::Return => Control::Return,
        _ => Control::None,
    }
}

/// The class of an instruction.
#[must_use]
pub fn classify(instruction: &Instruction) -> Class {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch
        | FlowControl::UnconditionalBranch
        | FlowControl::IndirectBranch => return Class::Branch,
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return => return Class::Call,
        FlowControl::Next => {}
        _ => return Class::Microcode,
    }
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if instruction.has_lock_prefix() || repeated && instruction.is_string_instruction() {
        return Class::Microcode;
    }
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let memory = (0..instruction.op_count()).find(|&n| instruction.op_kind(n) == OpKind::Memory);
    let vector = (0..instruction.op_count()).any(|n| {
        let register = instruction.op_register(n);
        register.is_vector_register() || register.is_mm()
    });
    if vector {
        return vector_class(instruction, name.strip_prefix('v').unwrap_or(&name));
    }
    let wide = (0..instruction.op_count()).any(|n| match instruction.op_kind(n) {
        OpKind::Register => instruction.op_register(n).is_gpr64(),
        OpKind::Memory => instruction.memory_size().size() == 8,
        _ => false,
    });
    match name.as_str() {
        "lea" => Class::Lea,
        "push" => Class::Store,
        "pop" => Class::Load,
        "mov" | "movzx" | "movsx" | "movsxd" | "movbe" => match memory {
            Some(0) => Class::Store,
            Some(_) => Class::Load,
            None => Class::Alu,
        },
        "imul" if instruction.op_count() > 1 && !wide => Class::Multiply,
        "imul" | "mul" | "mulx" => Class::MultiplyWide,
        "div" | "idiv" if wide => Class::DivideWide,
        "div" | "idiv" => Class::Divide,
        "shl" | "shr" | "sar" | "sal" | "rol" | "ror" | "bt" | "shlx" | "shrx" | "sarx"
        | "rorx" => Class::Shift,
        "nop" | "endbr64" | "cdq" | "cqo" | "cwde" | "cdqe" => Class::Alu,
        "rcl" | "rcr" | "shld" | "shrd" | "bts" | "btr" | "btc" | "bsf" | "bsr" | "xchg"
        | "cpuid" | "rdtsc" | "rdtscp" | "xgetbv" | "leave" | "enter" | "cmpxchg" | "xadd"
        | "mfence" | "lfence" | "pause" | "fxsave" | "fxrstor" | "xsave" | "xrstor" | "xsavec" => {
            Class::Microcode
        }
        _ if name.starts_with('f') => Class::X87,
        _ if instruction.is_string_instruction() => Class::Microcode,
        _ if memory.is_some() => Class::AluMemory,
        _ => Class::Alu,
    }
}

fn vector_class(instruction: &Instruction, name: &str) -> Class {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
    let general = (0..instruction.op_count()).any(|n| instruction.op_register(n).is_gpr());
    if starts(&["cvt", "comis", "ucomis"]) || general {
        Class::Convert
    } else if starts(&["div", "sqrt", "rcp", "rsqrt"]) {
        Class::FpDivide
    } else if starts(&["mul", "fmadd", "fmsub", "fnmadd", "fnmsub"]) {
        Class::FpMultiply
    } else if starts(&["add", "sub", "min", "max", "cmp", "hadd", "hsub", "round"]) {
        Class::FpAdd
    } else if starts(&["pmul", "pmadd"]) {
        Class::VectorMultiply
    } else if starts(&[
        "shuf",
        "pshuf",
        "unpck",
        "punpck",
        "palign",
        "pack",
        "perm",
        "pslldq",
        "psrldq",
        "insert",
        "extract",
        "pinsr",
        "pextr",
        "broadcast",
        "pbroadcast",
        "pblend",
        "blend",
    ]) {
        Class::Shuffle
    } else if starts(&["mov", "lddqu"]) && instruction.op_kind(0) == OpKind::Memory {
        Class::Store
    } else if starts(&["mov", "lddqu"]) && instruction.op_kind(1) == OpKind::Memory {
        Class::Load
    } else {
        Class::Vector
    }
}
