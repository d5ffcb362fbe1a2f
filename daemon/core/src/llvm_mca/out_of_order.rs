//! llvm-mca's out-of-order pipeline, cycle by cycle: dispatch, one scheduler, retirement.
//!
//! In each cycle instructions retire, then execution ends and begins, then instructions are
//! dispatched (`lib/MCA/Stages`). An instruction is dispatched when the re-order buffer, the
//! buffers of its units and the width allow; it is ready when all it reads is there; of the ready
//! ones that find their units the one with the least place in the program, less the number of reads
//! that wait for it, comes first (`lib/MCA/HardwareUnits/Scheduler.cpp`). There are as many
//! registers as it takes.

use std::collections::VecDeque;

use mcad_isa::inorder::REGISTERS;
use mcad_isa::llvm::sched::{Code, Machine, Static};
use mcad_isa::llvm::wire::Cpu;

use super::Refused;
use super::memory::{GroupId, Memory};
use crate::pipeline::units::{Units, bits};

/// Cycles without any retirement after which there will be none.
const PATIENCE: u64 = 100_000;

/// Place in the program, over all iterations.
type Number = u64;

/// A read that waits for a write.
#[derive(Clone, Copy, Debug)]
struct User {
    reader: Number,
    advance: i32,
}

/// A result.
#[derive(Clone, Debug)]
struct Outcome {
    latency: u32,
    /// Reads that came before it was known when it would be there.
    users: Vec<User>,
}

/// An instruction between dispatch and retirement.
#[derive(Clone, Debug)]
struct Flight {
    instr: u32,
    slots: u32,
    group: GroupId,
    /// Writes whose time is not known yet, and the cycle of the last that is.
    unknown: u32,
    ready: u64,
    issued: Option<u64>,
    executed: bool,
    results: Vec<Outcome>,
}

impl Flight {
    /// Reads that wait for it.
    fn users(&self) -> usize {
        self.results.iter().map(|result| result.users.len()).sum()
    }
}

/// Who writes a register last.
#[derive(Clone, Copy, Debug, Default)]
struct Register {
    /// The instruction and which of its results.
    writer: Option<(Number, usize)>,
    /// Cycle in which that instruction was done.
    done: Option<u64>,
    kind: u16,
}

struct Core<'c> {
    code: &'c Code,
    width: u32,
    reorder_buffer: u32,
    retired_a_cycle: u32,
    now: u64,
    flights: VecDeque<Flight>,
    /// Number of the first of them.
    first: Number,
    free: u32,
    /// By where they are; not in order.
    waiting: Vec<Number>,
    pending: Vec<Number>,
    ready: Vec<Number>,
    executing: Vec<Number>,
    units: Units,
    memory: Memory,
    /// By resource: free entries of its buffer, and until when it holds up dispatch.
    buffers: Vec<i32>,
    entries: Vec<u32>,
    held: Vec<u64>,
    registers: Vec<Register>,
    entries_left: u32,
    carried: u32,
}

/// Cycles of all iterations.
///
/// # Errors
/// When the block does not end.
pub(super) fn cycles(
    machine: &Machine,
    cpu: &Cpu,
    code: &Code,
    iterations: u32,
) -> Result<u64, Refused> {
    let mut core = Core::new(machine, cpu, code);
    let all = code.instrs.len() as u64 * u64::from(iterations);
    let (mut next, mut last) = (0, (0, 0));
    loop {
        core.retire();
        core.execute();
        core.begin_dispatch();
        while next < all && core.dispatch(next) {
            next += 1;
        }
        core.now += 1;
        if core.first == all {
            return Ok(core.now);
        }
        if last.0 != core.first {
            last = (core.first, core.now);
        } else if core.now > last.1 + PATIENCE {
            return Err(Refused::Endless);
        }
    }
}

impl<'c> Core<'c> {
    fn new(machine: &Machine, cpu: &Cpu, code: &'c Code) -> Self {
        let size = u32::try_from(cpu.buffer).unwrap_or(1);
        let (reorder_buffer, retired_a_cycle) = match cpu.retire {
            Some((buffer, width)) => (
                if buffer > 0 { u32::from(buffer) } else { size },
                u32::from(width),
            ),
            None => (size, 0),
        };
        let buffers: Vec<i32> = machine.resources.iter().map(|r| r.buffer).collect();
        Self {
            code,
            width: u32::from(cpu.issue_width).max(1),
            reorder_buffer,
            retired_a_cycle,
            now: 0,
            flights: VecDeque::new(),
            first: 0,
            free: reorder_buffer,
            waiting: Vec::new(),
            pending: Vec::new(),
            ready: Vec::new(),
            executing: Vec::new(),
            units: Units::new(machine),
            memory: Memory::default(),
            entries: buffers.iter().map(|b| (*b).max(0) as u32).collect(),
            held: vec![0; buffers.len()],
            buffers,
            registers: vec![Register::default(); REGISTERS],
            entries_left: 0,
            carried: 0,
        }
    }

    fn flight(&self, number: Number) -> Option<&Flight> {
        let place = number.checked_sub(self.first)?;
        self.flights.get(place as usize)
    }

    fn flight_mut(&mut self, number: Number) -> Option<&mut Flight> {
        let place = number.checked_sub(self.first)?;
        self.flights.get_mut(place as usize)
    }

    /// The static instruction of one in flight.
    fn instr(&self, flight: &Flight) -> &'c Static {
        &self.code.instrs[flight.instr as usize]
    }

    fn retire(&mut self) {
        let mut retired = 0;
        while self.flights.front().is_some_and(|flight| flight.executed) {
            if self.retired_a_cycle != 0 && retired == self.retired_a_cycle {
                break;
            }
            if let Some(flight) = self.flights.pop_front() {
                self.free += flight.slots;
            }
            self.first += 1;
            retired += 1;
        }
    }

    /// Ends and begins execution.
    fn execute(&mut self) {
        let now = self.now;
        for number in std::mem::take(&mut self.executing) {
            let Some(flight) = self.flight(number) else {
                continue;
            };
            let latency = u64::from(self.instr(flight).latency);
            if flight.issued.is_some_and(|issued| issued + latency <= now) {
                self.executed(number);
            } else {
                self.executing.push(number);
            }
        }
        self.promote_waiting();
        self.promote_pending();
        while let Some(number) = self.select() {
            self.issue(number);
        }
    }

    /// An instruction is done.
    fn executed(&mut self, number: Number) {
        let now = self.now;
        let Some(flight) = self.flight_mut(number) else {
            return;
        };
        flight.executed = true;
        let group = flight.group;
        let instr = flight.instr as usize;
        self.memory.executed(group);
        let code = self.code;
        for write in code.writes(&code.instrs[instr]) {
            let register = &mut self.registers[usize::from(write.register.0)];
            if register.writer.is_some_and(|(writer, _)| writer == number) {
                register.done = Some(now);
            }
        }
    }

    /// Instructions for which it is known now when they can issue.
    fn promote_waiting(&mut self) -> bool {
        let before = self.pending.len();
        for number in std::mem::take(&mut self.waiting) {
            let known = |f: &Flight| f.unknown == 0 && self.memory.ready(f.group);
            if self.flight(number).is_some_and(known) {
                self.pending.push(number);
            } else {
                self.waiting.push(number);
            }
        }
        self.pending.len() > before
    }

    fn promote_pending(&mut self) {
        for number in std::mem::take(&mut self.pending) {
            let now = self.now;
            let ready = |f: &Flight| f.ready <= now && self.memory.ready(f.group);
            if self.flight(number).is_some_and(ready) {
                self.ready.push(number);
            } else {
                self.pending.push(number);
            }
        }
    }

    /// The next instruction to issue in this cycle.
    fn select(&mut self) -> Option<Number> {
        let mut best: Option<(i64, Number, usize)> = None;
        for (place, &number) in self.ready.iter().enumerate() {
            let Some(flight) = self.flight(number) else {
                continue;
            };
            let rank = number as i64 - flight.users() as i64;
            if best.is_some_and(|(r, n, _)| (r, n) < (rank, number)) {
                continue;
            }
            let cost = self.code.cost(self.instr(flight));
            if self.units.available(cost, self.now) {
                best = Some((rank, number, place));
            }
        }
        best.map(|(_, _, place)| self.ready.swap_remove(place))
    }

    fn issue(&mut self, number: Number) {
        let (now, code) = (self.now, self.code);
        let Some(flight) = self.flight_mut(number) else {
            return;
        };
        flight.issued = Some(now);
        let group = flight.group;
        let mut results = std::mem::take(&mut flight.results);
        let instr = code.instrs[flight.instr as usize];
        let cost = code.cost(&instr);
        let memory = instr.load || instr.store;
        let users = results.iter().any(|result| !result.users.is_empty());
        let users = users || memory && self.memory.holds_others(group);
        for place in bits(cost.buffers) {
            if self.buffers[place] > 0 {
                self.entries[place] += 1;
            }
        }
        let _ = self.units.take(cost, now);
        for taken in &cost.taken {
            let place = usize::from(taken.resource);
            if self.buffers[place] == 0 {
                self.held[place] = now + u64::from(taken.cycles);
            }
        }
        for result in &mut results {
            for user in std::mem::take(&mut result.users) {
                let cycles = i64::from(result.latency) - i64::from(user.advance);
                self.known(user.reader, now + cycles.max(0) as u64);
            }
        }
        if let Some(flight) = self.flight_mut(number) {
            flight.results = results;
        }
        if memory {
            self.memory.issued(group);
        }
        if instr.latency == 0 {
            self.executed(number);
        } else {
            self.executing.push(number);
        }
        if users && self.promote_waiting() {
            self.promote_pending();
        }
    }

    /// A read of an instruction has its value in a cycle.
    fn known(&mut self, reader: Number, at: u64) {
        if let Some(flight) = self.flight_mut(reader) {
            flight.unknown = flight.unknown.saturating_sub(1);
            flight.ready = flight.ready.max(at);
        }
    }

    fn begin_dispatch(&mut self) {
        let rest = self.carried.min(self.width);
        self.entries_left = self.width - rest;
        self.carried -= rest;
    }

    /// Dispatches the next instruction if that is possible in this cycle.
    fn dispatch(&mut self, number: Number) -> bool {
        let place = (number % self.code.instrs.len() as u64) as usize;
        let instr = self.code.instrs[place];
        let cost = self.code.cost(&instr);
        let required = cost.uops.min(self.width);
        if self.entries_left == 0 || required > self.entries_left {
            return false;
        }
        if cost.begins_group && self.entries_left != self.width {
            return false;
        }
        let slots = cost.uops.min(self.reorder_buffer).max(1);
        if slots > self.free || !self.has_buffers(cost.buffers) {
            return false;
        }
        self.entries_left -= required;
        self.carried = cost.uops.saturating_sub(self.width);
        if cost.ends_group {
            self.entries_left = 0;
        }
        self.free -= slots;
        self.read(number, &instr, place as u32, slots);
        self.write(number, &instr);
        for place in bits(cost.buffers) {
            match self.buffers[place] {
                0 => self.held[place] = u64::MAX,
                _ => self.entries[place] = self.entries[place].saturating_sub(1),
            }
        }
        let group = match instr.load || instr.store {
            true => self.memory.dispatch(instr.load, instr.store),
            false => 0,
        };
        let now = self.now;
        let Some(flight) = self.flight_mut(number) else {
            return true;
        };
        flight.group = group;
        let (unknown, ready) = (flight.unknown, flight.ready);
        if unknown > 0 || !self.memory.ready(group) {
            self.waiting.push(number);
        } else if ready > now {
            self.pending.push(number);
        } else if cost.immediate || instr.latency == 0 && cost.taken.is_empty() {
            self.issue(number);
        } else {
            self.ready.push(number);
        }
        true
    }

    /// Whether all these buffers have an entry left, and none holds up dispatch.
    fn has_buffers(&self, buffers: u64) -> bool {
        bits(buffers).all(|place| match self.buffers[place] {
            0 => self.held[place] <= self.now,
            _ => self.entries[place] > 0,
        })
    }

    /// Finds out what the instruction waits for.
    fn read(&mut self, number: Number, instr: &Static, place: u32, slots: u32) {
        let now = self.now;
        let mut flight = Flight {
            instr: place,
            slots,
            group: 0,
            unknown: 0,
            ready: 0,
            issued: None,
            executed: false,
            results: Vec::new(),
        };
        let mut seen: Vec<(u8, Number, usize)> = Vec::new();
        let code = self.code;
        for read in code.reads(instr) {
            let register = self.registers[usize::from(read.register.0)];
            let Some((writer, result)) = register.writer else {
                continue;
            };
            // Registers of one operand wait once for what writes several of them.
            if seen.contains(&(read.operand, writer, result)) {
                continue;
            }
            seen.push((read.operand, writer, result));
            let advance = code.advance(read, register.kind);
            let user = User {
                reader: number,
                advance,
            };
            let place = writer.checked_sub(self.first);
            let older = place.and_then(|place| self.flights.get_mut(place as usize));
            let Some(older) = older else {
                // It has retired; only a result that comes late to this operand matters.
                let late = register.done.filter(|_| advance < 0);
                if let Some(done) = late {
                    flight.ready = flight
                        .ready
                        .max(done.saturating_add_signed(-i64::from(advance)));
                }
                continue;
            };
            let latency = code.instrs[older.instr as usize].latency;
            let Some(issued) = older.issued else {
                if let Some(result) = older.results.get_mut(result) {
                    result.users.push(user);
                    flight.unknown += 1;
                }
                continue;
            };
            // What is left stands still once the whole instruction is done.
            let passed = (now - issued).min(u64::from(latency));
            let result = older.results.get(result).map_or(0, |r| r.latency);
            let left = i64::from(result) - passed as i64 - i64::from(advance);
            flight.ready = flight.ready.max(now + left.max(0) as u64);
        }
        self.flights.push_back(flight);
    }

    /// Says who writes the registers from now on.
    fn write(&mut self, number: Number, instr: &Static) {
        let code = self.code;
        let mut results: Vec<(u8, Outcome)> = Vec::new();
        for write in code.writes(instr) {
            let at = results
                .iter()
                .position(|(operand, _)| *operand == write.operand);
            let at = at.unwrap_or_else(|| {
                let result = Outcome {
                    latency: write.latency,
                    users: Vec::new(),
                };
                results.push((write.operand, result));
                results.len() - 1
            });
            let register = &mut self.registers[usize::from(write.register.0)];
            // Of several results of one instruction in one register the slowest counts.
            if let Some((writer, other)) = register.writer
                && writer == number
                && results
                    .get(other)
                    .is_some_and(|(_, r)| r.latency > write.latency)
            {
                continue;
            }
            *register = Register {
                writer: Some((number, at)),
                done: None,
                kind: write.kind,
            };
        }
        if let Some(flight) = self.flight_mut(number) {
            flight.results = results.into_iter().map(|(_, result)| result).collect();
        }
    }
}
