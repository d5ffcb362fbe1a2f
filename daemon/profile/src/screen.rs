//! What code may be measured: decided by decoding it, before any of it runs.
//!
//! Only straight-line code that stays in user mode passes, with at most a counted loop's branch at
//! its end. What is refused here would enter the kernel or the hypervisor, leave the block, wait,
//! or change state of the process that no later run sets again.

use std::fmt;

use iced_x86::{
    Code, CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpAccess, Register,
};
use mcad_isa::x86::counted::free_register;

/// Longest block in bytes; longer ones leave no room for copies in a first-level cache.
pub const MAX_BYTES: usize = 4096;

/// Why a block is not measured at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No bytes.
    Empty,
    /// More than [`MAX_BYTES`].
    TooLong(usize),
    /// No 64-bit instruction at this offset.
    Undecodable(usize),
    /// An instruction that is not measured.
    Instruction {
        /// Which, in Intel syntax.
        text: String,
        /// Why.
        why: Why,
    },
}

/// What is wrong with an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Only the kernel may.
    Privileged,
    /// Enters the kernel or a hypervisor.
    Kernel,
    /// Input and output.
    Ports,
    /// Leaves the block, or goes elsewhere than on.
    Flow,
    /// Reads time or counters, which the measurement uses.
    Time,
    /// Waits for something.
    Waits,
    /// Changes segments, protection keys or the flags that trap.
    State,
    /// Empties caches.
    Caches,
    /// This CPU has no such instruction.
    Missing(CpuidFeature),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privileged => "is privileged",
            Self::Kernel => "enters the kernel or a hypervisor",
            Self::Ports => "is input or output",
            Self::Flow => "leaves the block",
            Self::Time => "reads time or counters",
            Self::Waits => "waits",
            Self::State => "changes segments, protection or trapping flags",
            Self::Caches => "empties caches",
            Self::Missing(feature) => {
                return write!(f, "needs {feature:?}, which this CPU lacks");
            }
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the block is empty"),
            Self::TooLong(bytes) => {
                write!(
                    f,
                    "the block has {bytes} bytes; at most {MAX_BYTES} are measured"
                )
            }
            Self::Undecodable(offset) => write!(f, "no 64-bit instruction at byte {offset}"),
            Self::Instruction { text, why } => write!(f, "'{text}' {why}"),
        }
    }
}

/// A block that may be measured.
#[derive(Clone, Debug)]
pub struct Screened {
    /// Its instructions, decoded at address 0, without the loop's own two.
    pub instructions: Vec<Instruction>,
    /// Its bytes, without those of the loop.
    pub bytes: Vec<u8>,
    /// The register that its own loop counts down (`dec r; jnz` to its start).
    pub counter: Option<Register>,
}

impl Screened {
    /// Decodes and judges `bytes`.
    ///
    /// # Errors
    /// Says why the block is not measured.
    pub fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.is_empty() {
            return Err(Refusal::Empty);
        }
        if bytes.len() > MAX_BYTES {
            return Err(Refusal::TooLong(bytes.len()));
        }
        let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.can_decode() {
            let at = decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                return Err(Refusal::Undecodable(at));
            }
            instructions.push(instruction);
        }
        let counter = loop_counter(&instructions);
        if counter.is_some() {
            instructions.truncate(instructions.len() - 2);
        }
        let mut factory = InstructionInfoFactory::new();
        for instruction in &instructions {
            if let Some(why) = objection(instruction, counter, &mut factory) {
                let text = instruction.to_string();
                return Err(Refusal::Instruction { text, why });
            }
        }
        let end = instructions
            .last()
            .map_or(0, |last| last.next_ip() as usize);
        let bytes = bytes.get(..end).unwrap_or(bytes).to_vec();
        if bytes.is_empty() {
            return Err(Refusal::Empty);
        }
        Ok(Self {
            instructions,
            bytes,
            counter,
        })
    }

    /// A register that no instruction names, for counting a loop.
    #[must_use]
    pub fn free_register(&self) -> Option<Register> {
        free_register(&self.instructions)
    }
}

/// The register of a `dec r64; jnz start` at the end.
fn loop_counter(instructions: &[Instruction]) -> Option<Register> {
    let [first, .., dec, jump] = instructions else {
        return None;
    };
    let counts = matches!(dec.code(), Code::Dec_rm64)
        && jump.mnemonic() == Mnemonic::Jne
        && jump.near_branch_target() == first.ip();
    (counts && dec.op0_register().is_gpr64() && dec.op0_register() != Register::RSP)
        .then(|| dec.op0_register())
}

fn objection(
    instruction: &Instruction,
    counter: Option<Register>,
    factory: &mut InstructionInfoFactory,
) -> Option<Why> {
    use Mnemonic as M;
    match instruction.flow_control() {
        FlowControl::Next => {}
        FlowControl::Interrupt => return Some(Why::Kernel),
        FlowControl::Call | FlowControl::IndirectCall
            if matches!(instruction.mnemonic(), M::Syscall | M::Sysenter) =>
        {
            return Some(Why::Kernel);
        }
        FlowControl::Return if matches!(instruction.mnemonic(), M::Sysexit | M::Sysret) => {
            return Some(Why::Privileged);
        }
        _ => return Some(hypervisor(instruction).unwrap_or(Why::Flow)),
    }
    if let Some(why) = hypervisor(instruction) {
        return Some(why);
    }
    let why = match instruction.mnemonic() {
        M::In | M::Out | M::Insb | M::Insw | M::Insd | M::Outsb | M::Outsw | M::Outsd => Why::Ports,
        // In a guest it always leaves to the hypervisor, and no more than that could be measured.
        M::Cpuid => Why::Kernel,
        M::Cli | M::Sti => Why::Privileged,
        M::Rdtsc | M::Rdtscp | M::Rdpmc | M::Rdpru => Why::Time,
        M::Monitor | M::Monitorx | M::Mwait | M::Mwaitx | M::Umonitor | M::Umwait | M::Tpause => {
            Why::Waits
        }
        M::Popf
        | M::Popfd
        | M::Popfq
        | M::Wrpkru
        | M::Wrfsbase
        | M::Wrgsbase
        | M::Lss
        | M::Lfs
        | M::Lgs
        | M::Clui
        | M::Stui
        | M::Uiret
        | M::Xrstor
        | M::Xrstor64 => Why::State,
        M::Clflush | M::Clflushopt | M::Clwb | M::Cldemote | M::Clzero => Why::Caches,
        _ => {
            if instruction.is_privileged() {
                return Some(Why::Privileged);
            }
            let info = factory.info(instruction);
            let written = |access: OpAccess| {
                matches!(
                    access,
                    OpAccess::Write
                        | OpAccess::CondWrite
                        | OpAccess::ReadWrite
                        | OpAccess::ReadCondWrite
                )
            };
            for used in info.used_registers() {
                let register = used.register();
                if written(used.access()) && register.is_segment_register() {
                    return Some(Why::State);
                }
                if written(used.access()) && Some(register.full_register()) == counter {
                    return Some(Why::Flow);
                }
            }
            return missing(instruction).map(Why::Missing);
        }
    };
    Some(why)
}

/// Instructions that ask a hypervisor or an enclave for something.
fn hypervisor(instruction: &Instruction) -> Option<Why> {
    use Mnemonic as M;
    matches!(
        instruction.mnemonic(),
        M::Vmcall
            | M::Vmmcall
            | M::Vmfunc
            | M::Enclu
            | M::Encls
            | M::Enclv
            | M::Getsec
            | M::Senduipi
            | M::Vmgexit
            | M::Tdcall
            | M::Seamcall
    )
    .then_some(Why::Kernel)
}

/// An extension that the instruction needs and this CPU, or its system, has not.
fn missing(instruction: &Instruction) -> Option<CpuidFeature> {
    use CpuidFeature as F;
    instruction
        .cpuid_features()
        .iter()
        .copied()
        .find(|feature| {
            let present = match feature {
                F::AVX => is_x86_feature_detected!("avx"),
                F::AVX2 => is_x86_feature_detected!("avx2"),
                F::AVX512F => is_x86_feature_detected!("avx512f"),
                F::AVX512BW => is_x86_feature_detected!("avx512bw"),
                F::AVX512DQ => is_x86_feature_detected!("avx512dq"),
                F::AVX512VL => is_x86_feature_detected!("avx512vl"),
                F::AVX512CD => is_x86_feature_detected!("avx512cd"),
                F::AVX512_VNNI => is_x86_feature_detected!("avx512vnni"),
                F::AVX512_VBMI => is_x86_feature_detected!("avx512vbmi"),
                F::AVX512_VBMI2 => is_x86_feature_detected!("avx512vbmi2"),
                F::AVX512_BITALG => is_x86_feature_detected!("avx512bitalg"),
                F::AVX512_VPOPCNTDQ => is_x86_feature_detected!("avx512vpopcntdq"),
                F::AVX512_IFMA => is_x86_feature_detected!("avx512ifma"),
                F::FMA => is_x86_feature_detected!("fma"),
                F::BMI1 => is_x86_feature_detected!("bmi1"),
                F::BMI2 => is_x86_feature_detected!("bmi2"),
                F::F16C => is_x86_feature_detected!("f16c"),
                F::ADX => is_x86_feature_detected!("adx"),
                // The rest shows as an illegal instruction when it runs.
                _ => true,
            };
            !present
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(bytes: &[u8]) -> Why {
        match Screened::new(bytes).unwrap_err() {
            Refusal::Instruction { why, .. } => why,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn what_would_leave_user_mode_or_the_block_is_refused() {
        for (bytes, expected) in [
            (&[0xcd, 0x80][..], Why::Kernel),
            (&[0x0f, 0x05], Why::Kernel),
            (&[0x0f, 0x34], Why::Kernel),
            (&[0xcc], Why::Kernel),
            (&[0xf1], Why::Kernel),
            (&[0x0f, 0x01, 0xd9], Why::Kernel),
            (&[0x0f, 0x01, 0xc1], Why::Kernel),
            (&[0x0f, 0xa2], Why::Kernel),
            (&[0xf4], Why::Privileged),
            (&[0xfa], Why::Privileged),
            (&[0x0f, 0x22, 0xd8], Why::Privileged),
            (&[0x0f, 0x30], Why::Privileged),
            (&[0xec], Why::Ports),
            (&[0xe7, 0x10], Why::Ports),
            (&[0x6c], Why::Ports),
            (&[0x0f, 0x31], Why::Time),
            (&[0x0f, 0x01, 0xf9], Why::Time),
            (&[0x9d], Why::State),
            (&[0x8e, 0xd8], Why::State),
            (&[0x0f, 0xa1], Why::State),
            (&[0xf3, 0x48, 0x0f, 0xae, 0xd0], Why::State),
            (&[0xeb, 0xfe], Why::Flow),
            (&[0xc3], Why::Flow),
            (&[0xff, 0xe0], Why::Flow),
            (&[0xff, 0xd0], Why::Flow),
            (&[0xe8, 0, 0, 0, 0], Why::Flow),
            (&[0x0f, 0x0b], Why::Flow),
            (&[0x0f, 0xae, 0x38], Why::Caches),
            (&[0x0f, 0x01, 0xfb], Why::Waits),
        ] {
            assert_eq!(why(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn bytes_that_are_no_block_are_refused() {
        assert_eq!(Screened::new(&[]).unwrap_err(), Refusal::Empty);
        assert_eq!(
            Screened::new(&[0x90, 0x06]).unwrap_err(),
            Refusal::Undecodable(1)
        );
        let long = vec![0x90; MAX_BYTES + 1];
        assert_eq!(
            Screened::new(&long).unwrap_err(),
            Refusal::TooLong(MAX_BYTES + 1)
        );
    }

    #[test]
    fn a_counted_loop_is_taken_apart() {
        // add rax, rbx; dec r14; jnz
        let counted = [0x48, 0x01, 0xd8, 0x49, 0xff, 0xce, 0x75, 0xf8];
        let block = Screened::new(&counted).unwrap();
        assert_eq!(block.counter, Some(Register::R14));
        assert_eq!(block.bytes, [0x48, 0x01, 0xd8]);
        assert_eq!(block.free_register(), Some(Register::R15));
        // The same with another target, and with a block that writes the counter.
        assert_eq!(
            why(&[0x48, 0x01, 0xd8, 0x49, 0xff, 0xce, 0x75, 0xfb]),
            Why::Flow
        );
        assert_eq!(
            why(&[0x49, 0xff, 0xc6, 0x49, 0xff, 0xce, 0x75, 0xf8]),
            Why::Flow
        );
    }
}
