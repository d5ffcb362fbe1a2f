//! Figures for an instruction that the CPU's table lacks: one µop of one cycle on the integer
//! ALUs beside its loads and stores. Every use is counted and reported.

use iced_x86::{Instruction, InstructionInfoFactory, OpAccess};

use crate::machine::params::Core;
use crate::machine::table::{
    Binding, FlagGroups, Form, Latency, LatencyKind, Operand, OperandName, Perf,
};

/// A form for `instruction` that assumes the least.
#[must_use]
pub fn generic(
    instruction: &Instruction,
    factory: &mut InstructionInfoFactory,
    core: &Core,
) -> Form {
    let mut form = Form {
        name: format!("{:?}", instruction.code()).into(),
        operands: Vec::new(),
        flags_read: FlagGroups::default(),
        flags_written: FlagGroups::default(),
        macro_fusible: 0,
        locked: instruction.has_lock_prefix(),
        perf: Perf::default(),
        indexed: None,
        same_reg: None,
        approximated_from: None,
        source: "assumed".into(),
    };
    let reads = |a: OpAccess| {
        matches!(
            a,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let writes = |a: OpAccess| {
        matches!(
            a,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let info = factory.info(instruction);
    let mut number = 0u8;
    for used in info.used_registers() {
        if used.register().is_ip() || number >= 12 {
            continue;
        }
        form.operands.push(Operand {
            name: OperandName::Reg(number),
            binding: Binding::Implicit(used.register()),
            read: reads(used.access()),
            written: writes(used.access()),
        });
        number += 1;
    }
    let (mut loads, mut stores) = (0u16, 0u16);
    let explicit = (0..instruction.op_count())
        .position(|n| instruction.op_kind(n) == iced_x86::OpKind::Memory);
    for (n, used) in info.used_memory().iter().enumerate().take(4) {
        let binding = match explicit {
            Some(place) if n == 0 => Binding::Explicit(place as u8),
            _ => Binding::ImplicitMemory(n as u8),
        };
        let (read, written) = (reads(used.access()), writes(used.access()));
        loads += u16::from(read);
        stores += u16::from(written);
        form.operands.push(Operand {
            name: OperandName::Mem(n as u8),
            binding,
            read,
            written,
        });
    }
    let flags = |bits: u32| FlagGroups {
        c: bits & iced_x86::RflagsBits::CF != 0,
        spazo: bits
            & (iced_x86::RflagsBits::SF
                | iced_x86::RflagsBits::PF
                | iced_x86::RflagsBits::AF
                | iced_x86::RflagsBits::ZF
                | iced_x86::RflagsBits::OF)
            != 0,
    };
    form.flags_read = flags(instruction.rflags_read());
    form.flags_written = flags(instruction.rflags_modified());
    let any = |f: FlagGroups| f.c || f.spazo;
    if any(form.flags_read) || any(form.flags_written) {
        form.operands.push(Operand {
            name: OperandName::Reg(number),
            binding: Binding::Flags,
            read: any(form.flags_read),
            written: any(form.flags_written),
        });
    }
    let ports = [
        (core.ports.alu, 1),
        (core.ports.load, loads),
        (core.ports.store_address, stores),
        (core.ports.store_data, stores),
    ];
    form.perf = Perf {
        uops: 1 + loads + 2 * stores,
        retire_slots: 1 + stores,
        uops_mite: 1 + stores,
        ports: ports.into_iter().filter(|p| p.1 > 0).collect(),
        latencies: Vec::<Latency>::new(),
        ..Perf::default()
    };
    if loads > 0 {
        through_loads(&mut form, core.execute.table_load_latency);
    }
    form
}

/// Latencies from addresses to outputs: the load and then the operation.
fn through_loads(form: &mut Form, load_latency: u16) {
    let outputs = form.operands.iter().filter(|o| o.written);
    let outputs: Vec<OperandName> = outputs.map(|o| o.name).collect();
    let memory = |o: &&Operand| matches!(o.name, OperandName::Mem(_));
    for from in form.operands.iter().filter(memory).map(|o| o.name) {
        for &to in &outputs {
            for kind in [LatencyKind::Addr, LatencyKind::Index] {
                form.perf.latencies.push(Latency {
                    from,
                    to,
                    kind,
                    cycles: load_latency + 1,
                });
            }
        }
    }
}
