//! Writes timeline files as the instructions come.

use std::io::{self, Write};

use super::{Code, End, Header, Instruction, Kind, Late, MAGIC, Source, VERSION};

/// zstd's level: fast, and far below the raw size already.
const LEVEL: i32 = 1;

/// A timeline file being written.
pub struct Writer<W: Write> {
    out: zstd::stream::write::Encoder<'static, W>,
    buffer: Vec<u8>,
    last: u64,
    records: u64,
}

/// Bytes gathered before they are compressed.
const BUFFER: usize = 1 << 16;

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// What the output says.
    pub fn new(mut out: W, header: &Header) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut out = zstd::stream::write::Encoder::new(out, LEVEL)?;
        out.include_checksum(true)?;
        let mut writer = Self {
            out,
            buffer: Vec::with_capacity(2 * BUFFER),
            last: 0,
            records: 0,
        };
        let json = serde_json::to_string(header)?;
        writer.buffer.push(1);
        writer.text(&json);
        Ok(writer)
    }

    /// Names the instruction `number` of the codes.
    ///
    /// # Errors
    /// What the output says.
    pub fn code(&mut self, number: u32, code: &Code) -> io::Result<()> {
        self.buffer.push(2);
        self.number(number.into());
        self.number(code.address);
        for text in [&code.text, &code.function, &code.module] {
            self.text(text);
        }
        self.flush_full()
    }

    /// Adds an instruction.
    ///
    /// # Errors
    /// What the output says.
    pub fn instruction(&mut self, i: &Instruction) -> io::Result<()> {
        self.records += 1;
        self.buffer.push(3);
        for number in [
            u64::from(i.thread),
            i.number,
            u64::from(i.code),
            u64::from(i.pair),
        ] {
            self.number(number);
        }
        self.cycle(i.retired[0]);
        self.cycle(i.retired[1]);
        self.number(i.uops.len() as u64);
        for uop in &i.uops {
            let kind = match uop.kind {
                Kind::Own => 0,
                Kind::StackSync => 1,
                Kind::Merge => 2,
            };
            let source = match uop.source {
                Source::Decoders => 0,
                Source::UopCache => 1,
                Source::LoopStream => 2,
                Source::Microcode => 3,
                Source::Inserted => 4,
            };
            let late = Late::ALL.iter().position(|late| *late == uop.late);
            let late = late.unwrap_or(0) as u8;
            self.buffer.extend([kind | source << 2, late, uop.port]);
            for cycle in [
                uop.delivered,
                uop.issued,
                uop.ready,
                uop.dispatched,
                uop.executed,
                uop.retired,
            ] {
                self.cycle(cycle);
            }
        }
        self.flush_full()
    }

    /// Completes the file and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(mut self, cycles: u64, left_out: u64) -> io::Result<W> {
        let end = End {
            records: self.records,
            cycles,
            left_out,
        };
        let json = serde_json::to_string(&end)?;
        self.buffer.push(4);
        self.text(&json);
        self.out.write_all(&self.buffer)?;
        self.out.finish()
    }

    fn flush_full(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER {
            self.out.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn number(&mut self, number: u64) {
        if number < 0x80 {
            self.buffer.push(number as u8);
        } else {
            // Memory takes it.
            let _ = leb128::write::unsigned(&mut self.buffer, number);
        }
    }

    fn cycle(&mut self, cycle: u64) {
        let difference = cycle.wrapping_sub(self.last) as i64;
        self.last = cycle;
        self.number((difference << 1 ^ difference >> 63) as u64);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.buffer.extend(text.as_bytes());
    }
}
