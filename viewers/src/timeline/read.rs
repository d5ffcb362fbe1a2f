//! Reads timeline files, one instruction at a time. Nothing in a file makes it take much memory
//! or panic: lengths and numbers have limits.

use std::io::{BufRead, BufReader, Read};

use rustc_hash::FxHashMap;

use super::{
    Code, End, Header, Instruction, Kind, Late, MAGIC, Source, TimelineError, Uop, VERSION,
};

/// Longest text.
const MAX_TEXT: u64 = 1 << 16;
/// Most codes.
const MAX_CODES: usize = 1 << 24;
/// Most µops of an instruction.
const MAX_UOPS: u64 = 1 << 16;
/// Cycles beyond this are damage: no run is that long.
const MAX_CYCLE: u64 = 1 << 56;

/// A timeline file being read.
pub struct Reader<R: Read> {
    input: BufReader<zstd::stream::read::Decoder<'static, BufReader<R>>>,
    version: u32,
    header: Header,
    codes: Vec<Code>,
    /// Place in `codes` by the file's number.
    places: FxHashMap<u64, u32>,
    end: Option<End>,
    last: u64,
    records: u64,
}

impl<R: Read> Reader<R> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`TimelineError`] when it is no timeline of this version.
    pub fn new(mut input: R) -> Result<Self, TimelineError> {
        let mut magic = [0; 8];
        let mut version = [0; 4];
        let begun = input
            .read_exact(&mut magic)
            .and_then(|()| input.read_exact(&mut version));
        if begun.is_err() || magic != *MAGIC {
            return Err(TimelineError::Foreign);
        }
        let version = u32::from_le_bytes(version);
        if !(1..=VERSION).contains(&version) {
            return Err(TimelineError::Version(version));
        }
        let input = zstd::stream::read::Decoder::new(input)?;
        let mut reader = Self {
            input: BufReader::with_capacity(1 << 16, input),
            version,
            header: Header::default(),
            codes: Vec::new(),
            places: FxHashMap::default(),
            end: None,
            last: 0,
            records: 0,
        };
        if reader.byte()? != 1 {
            return Err(reader.damaged("the header is missing"));
        }
        let json = reader.text()?;
        reader.header = serde_json::from_str(&json)
            .map_err(|_| reader.damaged("the header is not what it should be"))?;
        Ok(reader)
    }

    /// What was recorded.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The code of an instruction that was read. Codes count from 0 in the order of the file,
    /// whose own numbers may have gaps, and never change.
    #[must_use]
    pub fn code(&self, number: u32) -> Option<&Code> {
        self.codes.get(number as usize)
    }

    /// How the recording ended, once everything was read.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Reads the next instruction into `i`; `false` at the end.
    ///
    /// # Errors
    /// [`TimelineError::Damaged`] also for a file that is cut off.
    pub fn next(&mut self, i: &mut Instruction) -> Result<bool, TimelineError> {
        if self.end.is_some() {
            return Ok(false);
        }
        loop {
            match self.byte()? {
                2 => self.read_code()?,
                3 => {
                    self.read_instruction(i)?;
                    self.records += 1;
                    return Ok(true);
                }
                4 => {
                    let json = self.text()?;
                    let end: End = serde_json::from_str(&json)
                        .map_err(|_| self.damaged("its end is not what it should be"))?;
                    if end.records != self.records {
                        return Err(self.damaged("instructions are missing"));
                    }
                    // The checksum is looked at where the packed stream ends.
                    match self.input.fill_buf() {
                        Ok([]) => {}
                        Ok(_) => return Err(self.damaged("something follows its end")),
                        Err(_) => return Err(self.damaged("its checksum does not fit")),
                    }
                    self.end = Some(end);
                    return Ok(false);
                }
                _ => return Err(self.damaged("a record of an unknown kind")),
            }
        }
    }

    fn read_code(&mut self) -> Result<(), TimelineError> {
        let number = self.number()?;
        let place = self.codes.len();
        if place >= MAX_CODES {
            return Err(self.damaged("too many codes"));
        }
        if self.places.insert(number, place as u32).is_some() {
            return Err(self.damaged("a code is told twice"));
        }
        let code = Code {
            address: self.number()?,
            text: self.text()?,
            function: self.text()?,
            module: self.text()?,
        };
        self.codes.push(code);
        Ok(())
    }

    fn read_instruction(&mut self, i: &mut Instruction) -> Result<(), TimelineError> {
        i.thread = self.number()? as u32;
        i.number = self.number()?;
        let code = self.number()?;
        i.pair = self.number()? & 1 != 0;
        i.code = match self.places.get(&code) {
            Some(place) => *place,
            None => return Err(self.damaged("an instruction executes whose code was never told")),
        };
        i.retired = [self.cycle()?, self.cycle()?];
        let count = self.number()?;
        if count > MAX_UOPS {
            return Err(self.damaged("an instruction of too many µops"));
        }
        i.uops.clear();
        for _ in 0..count {
            let bits = self.byte()?;
            let kind = match bits & 3 {
                0 => Kind::Own,
                1 => Kind::StackSync,
                2 => Kind::Merge,
                _ => return Err(self.damaged("a µop of an unknown kind")),
            };
            let source = match bits >> 2 & 7 {
                0 => Source::Decoders,
                1 => Source::UopCache,
                2 => Source::LoopStream,
                3 => Source::Microcode,
                4 => Source::Inserted,
                _ => return Err(self.damaged("a µop from an unknown source")),
            };
            let late = match self.version {
                1 => bits >> 5,
                _ => self.byte()?,
            };
            let Some(&late) = Late::ALL.get(usize::from(late)) else {
                return Err(self.damaged("a µop that is late for an unknown reason"));
            };
            i.uops.push(Uop {
                kind,
                source,
                late,
                port: self.byte()?,
                delivered: self.cycle()?,
                issued: self.cycle()?,
                ready: self.cycle()?,
                dispatched: self.cycle()?,
                executed: self.cycle()?,
                retired: self.cycle()?,
            });
        }
        Ok(())
    }

    fn damaged(&self, what: &'static str) -> TimelineError {
        TimelineError::Damaged {
            records: self.records,
            what,
        }
    }

    fn byte(&mut self) -> Result<u8, TimelineError> {
        let byte = match self.input.fill_buf() {
            Ok(buffer) => buffer.first().copied(),
            Err(_) => return Err(self.damaged("it is cut off or not packed as it should be")),
        };
        match byte {
            Some(byte) => {
                self.input.consume(1);
                Ok(byte)
            }
            None => Err(self.damaged("it is cut off")),
        }
    }

    #[inline]
    fn number(&mut self) -> Result<u64, TimelineError> {
        // Nearly all are short and whole in the buffer.
        let (number, len) = match *self.input.buffer() {
            [a, ..] if a < 0x80 => (u64::from(a), 1),
            [a, b, ..] if b < 0x80 => (u64::from(a & 0x7f) | u64::from(b) << 7, 2),
            _ => return self.long_number(),
        };
        self.input.consume(len);
        Ok(number)
    }

    fn long_number(&mut self) -> Result<u64, TimelineError> {
        leb128::read::unsigned(&mut self.input).map_err(|error| match error {
            leb128::read::Error::IoError(_) => {
                self.damaged("it is cut off or not packed as it should be")
            }
            leb128::read::Error::Overflow => self.damaged("a number without end"),
        })
    }

    fn cycle(&mut self) -> Result<u64, TimelineError> {
        let coded = self.number()?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        let cycle = self.last.wrapping_add_signed(difference);
        if cycle > MAX_CYCLE {
            return Err(self.damaged("a cycle that no run reaches"));
        }
        self.last = cycle;
        Ok(cycle)
    }

    fn text(&mut self) -> Result<String, TimelineError> {
        let len = self.number()?;
        if len > MAX_TEXT {
            return Err(self.damaged("a text that is too long"));
        }
        let mut bytes = vec![0; len as usize];
        if self.input.read_exact(&mut bytes).is_err() {
            return Err(self.damaged("it is cut off"));
        }
        String::from_utf8(bytes).map_err(|_| self.damaged("a text that is not UTF-8"))
    }
}
