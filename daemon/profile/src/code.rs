//! Generated code around the measured: sets the state, takes the time, writes it down, repeats.
//!
//! A program is a list of sections, each repeated, one result a run. All of it is in one piece, so
//! a calibration and what it calibrates are microseconds apart. Nothing of the measured code's
//! state is used afterwards: everything is read and written relative to the instruction pointer.

use crate::cell::layout::{
    CODE, CODE_BYTES, CONTROL, COUNTER, MAX_RESULTS, PAGE, PATTERN, PHYSICAL, control,
};

/// Multiplications in one round of the calibrating chain.
const CHAIN_UNROLLED: u64 = 48;
/// Rounds of the calibrating chain.
const CHAIN_ROUNDS: u32 = 64;
/// Core cycles that the calibrating chain takes: three a multiplication (`crate::clock`).
pub(crate) const CHAIN_CYCLES: f64 = (3 * CHAIN_UNROLLED * CHAIN_ROUNDS as u64) as f64;
/// Where measured code starts, within a cache line and a page's 4-KiB: the same for all copies.
const ALIGNMENT: u64 = 64;

/// Results of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    first: usize,
    runs: u32,
}

impl Section {
    /// Numbers of the results.
    pub(crate) fn results(self) -> std::ops::Range<usize> {
        self.first..self.first + self.runs as usize
    }
}

/// What takes the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// `rdtsc`.
    TimeStamp,
    /// `rdpmc` of the counter whose page is mapped.
    Counter,
}

/// Does not fit the code or the results of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// A loop around the measured code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// Number of the register that counts down, in the order of encoding.
    pub(crate) register: u8,
    /// Iterations.
    pub(crate) iterations: u32,
}

/// What a section runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// The measured code.
    pub(crate) block: &'a [u8],
    /// Copies, end to end.
    pub(crate) copies: u32,
    /// A loop around them.
    pub(crate) counted: Option<Loop>,
    /// Register values at the start, in the order of encoding.
    pub(crate) registers: &'a [u64; 16],
}

/// Code as it grows.
#[derive(Debug)]
pub(crate) struct CodeBuffer {
    bytes: Vec<u8>,
    timer: Timer,
    results: usize,
}

impl CodeBuffer {
    pub(crate) fn new(timer: Timer) -> Self {
        Self {
            bytes: Vec::with_capacity(1 << 15),
            timer,
            results: 0,
        }
    }

    /// Leaves bytes out before all else, so that code lies at another place.
    pub(crate) fn leave_out(&mut self, bytes: usize) {
        self.bytes.resize(self.bytes.len() + bytes, 0x90);
    }

    /// The calibrating chain, `times` as long, repeated.
    pub(crate) fn calibrate(&mut self, times: u32, runs: u32) -> Result<Section, TooLarge> {
        self.section(runs, |program| {
            program.start();
            program.emit(&[0xb9]); // mov ecx, rounds
            program.emit(&(CHAIN_ROUNDS * times).to_le_bytes());
            let top = program.bytes.len();
            for _ in 0..CHAIN_UNROLLED {
                program.emit(&[0x48, 0x0f, 0xaf, 0xc0]); // imul rax, rax
            }
            program.emit(&[0xff, 0xc9]); // dec ecx
            program.jump_not_zero(top);
        })
    }

    /// Measured code, repeated.
    pub(crate) fn measure(&mut self, body: Body<'_>, runs: u32) -> Result<Section, TooLarge> {
        let room = self.bytes.len() + body.block.len() * body.copies as usize + 2 * PAGE as usize;
        if room > CODE_BYTES as usize {
            return Err(TooLarge);
        }
        self.section(runs, |program| {
            program.set_state();
            program.start();
            program.set_registers(body.registers, body.counted);
            program.align();
            let top = program.bytes.len();
            for _ in 0..body.copies {
                program.emit(body.block);
            }
            if let Some(counted) = body.counted {
                let high = counted.register >> 3;
                program.emit(&[0x48 | high, 0xff, 0xc8 | counted.register & 7]); // dec
                program.jump_not_zero(top);
            }
        })
    }

    /// Code that sets the state for `body` and then stops twice: before its first instruction and
    /// behind its last. Returns the addresses of both.
    pub(crate) fn observe(&mut self, body: Body<'_>) -> Result<Observed, TooLarge> {
        let entry = self.here();
        self.set_state();
        self.breakpoint();
        let ready = self.here();
        self.align();
        let begin = self.here();
        for _ in 0..body.copies {
            self.emit(body.block);
        }
        let end = self.here();
        self.breakpoint();
        self.fits()?;
        Ok(Observed {
            entry,
            ready,
            begin,
            end,
        })
    }

    /// Ends the program; the address behind the breakpoint that ends it.
    pub(crate) fn finish(&mut self) -> Result<u64, TooLarge> {
        self.breakpoint();
        self.fits()?;
        Ok(self.here())
    }

    /// The address of what comes next.
    pub(crate) fn here(&self) -> u64 {
        CODE + self.bytes.len() as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn fits(&self) -> Result<(), TooLarge> {
        if self.bytes.len() > CODE_BYTES as usize || self.results > MAX_RESULTS {
            return Err(TooLarge);
        }
        Ok(())
    }

    fn section(&mut self, runs: u32, body: impl FnOnce(&mut Self)) -> Result<Section, TooLarge> {
        let section = Section {
            first: self.results,
            runs,
        };
        self.results += runs as usize;
        let results = CONTROL + control::RESULTS + 8 * section.first as u64;
        self.emit(&[0x48, 0xb8]); // mov rax, results
        self.emit(&results.to_le_bytes());
        self.relative(&[0x48, 0x89, 0x05], CONTROL + control::CURSOR, 0); // mov [cursor], rax
        self.relative(&[0xc7, 0x05], CONTROL + control::COUNT, 4); // mov dword [count], runs
        self.emit(&runs.to_le_bytes());
        let top = self.bytes.len();
        body(self);
        self.end();
        self.relative(&[0xff, 0x0d], CONTROL + control::COUNT, 0); // dec dword [count]
        self.jump_not_zero(top);
        self.fits()?;
        Ok(section)
    }

    /// Memory, stack page, flags, x87, MXCSR, vector and mask registers.
    fn set_state(&mut self) {
        self.emit(&[0xfc, 0x48, 0xbe]); // cld; mov rsi, pattern
        self.emit(&PATTERN.to_le_bytes());
        self.emit(&[0x48, 0xbf]); // mov rdi, pages
        self.emit(&PHYSICAL.to_le_bytes());
        self.emit(&[0xb9]); // mov ecx, words
        self.emit(&((2 * PAGE / 8) as u32).to_le_bytes());
        self.emit(&[0xf3, 0x48, 0xa5]); // rep movsq
        self.emit(&[0xdb, 0xe3]); // fninit
        self.relative(&[0x0f, 0xae, 0x15], CONTROL + control::MXCSR, 0); // ldmxcsr
        if is_x86_feature_detected!("avx") {
            self.emit(&[0xc5, 0xfc, 0x77]); // vzeroall
        } else {
            for n in 0..16_u8 {
                let (high, low) = (n >> 3, n & 7);
                self.emit(&[0x40 | high << 2 | high, 0x0f, 0x57, 0xc0 | low << 3 | low]); // xorps
            }
        }
        if is_x86_feature_detected!("avx512f") {
            for n in 0..16_u8 {
                // vpxord zmm16+n, zmm16+n, zmm16+n
                let (high, low) = (n >> 3, n & 7);
                let p0 = 0xf1 & !(high << 7) & !(high << 5) & !0x50;
                let p1 = 0x05 | (!n & 0xf) << 3;
                self.emit(&[0x62, p0, p1, 0x40, 0xef, 0xc0 | low << 3 | low]);
            }
            // Masks let everything through: with empty ones, loads never touch their page.
            let wide = is_x86_feature_detected!("avx512bw");
            for n in 0..8_u8 {
                // kxnorq kn, kn, kn; kxnorw where there are 16 bits only
                let operands = 0x84 | (!n & 0xf) << 3;
                if wide {
                    self.emit(&[0xc4, 0xe1, operands | 0x80, 0x46, 0xc0 | n << 3 | n]);
                } else {
                    self.emit(&[0xc5, operands, 0x46, 0xc0 | n << 3 | n]);
                }
            }
        }
    }

    fn set_registers(&mut self, values: &[u64; 16], counted: Option<Loop>) {
        for (n, value) in (0_u8..).zip(values) {
            let value = match counted {
                Some(Loop {
                    register,
                    iterations,
                }) if register == n => u64::from(iterations),
                _ => *value,
            };
            self.emit(&[0x48 | n >> 3, 0xb8 | n & 7]); // mov rn, value
            self.emit(&value.to_le_bytes());
        }
        self.emit(&[0x0f, 0xae, 0xe8]); // lfence
    }

    /// Takes the time and keeps it; flags are the same each time afterwards.
    fn start(&mut self) {
        self.time();
        self.relative(&[0x48, 0x89, 0x05], CONTROL + control::START, 0); // mov [start], rax
        self.emit(&[0x31, 0xc0]); // xor eax, eax
        self.emit(&[0x0f, 0xae, 0xe8]); // lfence
    }

    /// Takes the time and writes what has passed to the next result.
    fn end(&mut self) {
        self.time();
        self.relative(&[0x48, 0x2b, 0x05], CONTROL + control::START, 0); // sub rax, [start]
        self.relative(&[0x48, 0x8b, 0x0d], CONTROL + control::CURSOR, 0); // mov rcx, [cursor]
        self.emit(&[0x48, 0x89, 0x01]); // mov [rcx], rax
        self.relative(&[0x48, 0x83, 0x05], CONTROL + control::CURSOR, 1); // add qword [cursor], 8
        self.emit(&[8]);
    }

    /// rax = time, behind all that came before.
    fn time(&mut self) {
        self.emit(&[0x0f, 0xae, 0xe8]); // lfence
        match self.timer {
            Timer::TimeStamp => self.emit(&[0x0f, 0x31]), // rdtsc
            Timer::Counter => {
                self.relative(&[0x8b, 0x0d], COUNTER + 12, 0); // mov ecx, [index]
                self.emit(&[0xff, 0xc9, 0x0f, 0x33]); // dec ecx; rdpmc
            }
        }
        self.emit(&[0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0]); // shl rdx, 32; or rax, rdx
    }

    fn breakpoint(&mut self) {
        self.emit(&[0xcc]);
    }

    fn align(&mut self) {
        while !(self.bytes.len() as u64).is_multiple_of(ALIGNMENT) {
            self.emit(&[0x90]);
        }
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction that ends in a 32-bit displacement from its end, `behind` bytes further on.
    fn relative(&mut self, opcode: &[u8], target: u64, behind: u64) {
        self.emit(opcode);
        let next = self.here() + 4 + behind;
        // The harness is smaller than the reach of a displacement.
        let displacement = target.wrapping_sub(next) as u32;
        self.emit(&displacement.to_le_bytes());
    }

    /// A jump back: a short one where it reaches, as compilers make it, since two bytes less may spare a
    /// loop a second line of code.
    fn jump_not_zero(&mut self, to: usize) {
        let behind = self.bytes.len() + 2;
        if let Ok(displacement) = i8::try_from(to as i64 - behind as i64) {
            self.emit(&[0x75, displacement as u8]);
            return;
        }
        self.emit(&[0x0f, 0x85]);
        let next = self.bytes.len() + 4;
        let displacement = (to as u64).wrapping_sub(next as u64) as u32;
        self.emit(&displacement.to_le_bytes());
    }
}

/// Addresses of [`CodeBuffer::observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) entry: u64,
    /// Behind the first breakpoint.
    pub(crate) ready: u64,
    /// The first copy.
    pub(crate) begin: u64,
    /// Behind the last copy.
    pub(crate) end: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    /// All that is generated decodes to what the comments say, in order.
    #[test]
    fn generated_code_is_what_it_is_meant_to_be() {
        let mut program = CodeBuffer::new(Timer::TimeStamp);
        let body = Body {
            block: &[0x90],
            copies: 2,
            counted: Some(Loop {
                register: 15,
                iterations: 7,
            }),
            registers: &[1; 16],
        };
        assert_eq!(program.calibrate(1, 3).unwrap().results(), 0..3);
        assert_eq!(program.measure(body, 5).unwrap().results(), 3..8);
        program.finish().unwrap();
        let mut decoder = Decoder::with_ip(64, program.bytes(), CODE, DecoderOptions::NONE);
        let mut seen = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid());
            if instruction.is_ip_rel_memory_operand() {
                let target = instruction.ip_rel_memory_address();
                let control = CONTROL..CONTROL + control::RESULTS;
                assert!(control.contains(&target), "{instruction}");
            }
            if instruction.is_jcc_short_or_near() {
                assert!(instruction.near_branch_target() >= CODE);
                assert!(instruction.near_branch_target() < instruction.ip());
            }
            seen.push(instruction.mnemonic());
        }
        let count = |m| seen.iter().filter(|s| **s == m).count();
        assert_eq!(count(Mnemonic::Rdtsc), 4);
        assert_eq!(count(Mnemonic::Imul), CHAIN_UNROLLED as usize);
        assert_eq!(count(Mnemonic::Movsq), 1);
        assert_eq!(count(Mnemonic::Int3), 1);
        if is_x86_feature_detected!("avx512f") {
            let masks = count(Mnemonic::Kxnorq) + count(Mnemonic::Kxnorw);
            assert_eq!((count(Mnemonic::Vpxord), masks), (16, 8));
        }
    }

    #[test]
    fn what_does_not_fit_is_said() {
        let mut program = CodeBuffer::new(Timer::TimeStamp);
        let body = Body {
            block: &[0x90; 1000],
            copies: 10_000,
            counted: None,
            registers: &[1; 16],
        };
        assert_eq!(program.measure(body, 5), Err(TooLarge));
        assert!(program.calibrate(1, MAX_RESULTS as u32 + 1).is_err());
    }
}
