//! The parameters of a CPU as far as LLVM's scheduling model has them, as the text of the file that
//! every model of such a CPU changes.
//!
//! LLVM knows the width of dispatch, the µops in flight and the units; it knows no front end, no
//! scheduler that is smaller, no store buffer. So these are without limits here unless the CPU's
//! own file says more: the front end is ideal and reports say so.

use super::cost::Units;
use super::table::CpuTable;
use super::wire::Cpu;
use crate::machine::params::PortSet;

/// Bounds that the parameters have.
const SCHEDULER: (i32, i32) = (16, 1024);
const REORDER_BUFFER: (i32, i32) = (16, 4096);

/// The text of the file below all others of a CPU.
///
/// # Errors
/// A text when the CPU cannot be modelled this way.
pub fn parameters(table: &CpuTable) -> Result<String, String> {
    let cpu = table.cpu;
    let core = out_of_order(table)?;
    // No buffer: it issues in order.
    Ok(match cpu.buffer {
        0 | 1 => format!("{core}{}", in_order(cpu)),
        _ => core,
    })
}

/// An in-order core that issues by the scheduling model, behind an ideal front end. The penalty of a
/// misprediction is LLVM's hint for compilers; nothing is mispredicted unless the CPU's file has a
/// predictor.
fn in_order(cpu: &Cpu) -> String {
    format!(
        "[in_order]
scheduled = true
width = {width}
retire = 0
[in_order.fetch]
ideal = true
bytes = 16
groups = 1
visible_groups = 1
to_align = 0
align_width = {width}
align_to_issue = 0
queue = {width}
taken_bubble = 0
[in_order.branch]
redirect = {redirect}
redirect_late = {redirect}
update = 0
distance_bits = 64
",
        width = cpu.issue_width.clamp(1, 8),
        redirect = cpu.mispredict.min(64),
    )
}

/// The core that is there if nothing takes its place.
fn out_of_order(table: &CpuTable) -> Result<String, String> {
    let cpu = table.cpu;
    let units = Units::new(cpu)?;
    let names = |set: PortSet| {
        let names = set
            .iter()
            .filter_map(|port| units.names.get(usize::from(port)));
        names.map(String::as_str).collect::<Vec<_>>().join(" ")
    };
    let roles = Roles::of(table, &units);
    let (reorder_buffer, retire) = match cpu.retire {
        Some((buffer, width)) if buffer > 0 && width > 0 => (i32::from(buffer), width),
        _ => (cpu.buffer, cpu.issue_width),
    };
    let within = |value: i32, (least, most): (i32, i32)| value.clamp(least, most);
    Ok(format!(
        "full_name = \"{name} (LLVM)\"
table = \"{name}\"
[frontend]
ideal = true
macro_fusion = false
predecode_block_bytes = 32
predecode_width = {width}
predecode_to_decode = 3
lcp_stall = 0
instruction_queue = 64
decoders = {width}
fusible_may_decode_last = true
pop_rsp_complex = false
pop_rsp_ends_group = false
uop_cache_width = {width}
uop_cache_block_bytes = 64
uop_cache_lines_per_block = 6
uop_cache_line_entries = 8
uop_cache_sets = 64
uop_cache_ways = 8
uop_cache_both_halves = false
jcc_erratum = false
microcode_width = {width}
uop_cache_to_microcode_stall = 0
decoder_to_microcode_stall = 0
idq = {idq}
loop_stream = false
[rename]
issue_width = {width}
high8_renamed = false
movzx_high8_alias_eliminated = false
move_elimination_gpr = 0
move_elimination_simd = 0
move_elimination_pipeline = 2
move_elimination_all_aliases = true
[ports]
names = \"{ports}\"
choice = \"ordered\"
alu = \"{alu}\"
load = \"{load}\"
store_address = \"{store_address}\"
store_data = \"{store_data}\"
divider = \"{divider}\"
[execute]
scheduler = {scheduler}
issue_to_dispatch = 1
fast_pointer_chasing = false
slow_256 = false
load_latency = {load_latency}
table_load_latency = {load_latency}
store_forward = {load_latency}
store_address_latency = 1
store_data_latency = 1
store_forward_blocked = 11
[retire]
reorder_buffer = {reorder_buffer}
width = {retire}
",
        name = cpu.name,
        width = cpu.issue_width.min(16),
        idq = (cpu.issue_width * 8).max(32),
        ports = units.names.join(" "),
        alu = names(roles.alu),
        load = names(roles.load),
        store_address = names(roles.store_address),
        store_data = names(roles.store_data),
        divider = names(PortSet(1 << roles.alu.0.trailing_zeros())),
        scheduler = within(cpu.buffer, SCHEDULER),
        load_latency = roles.load_latency,
        reorder_buffer = within(reorder_buffer, REORDER_BUFFER),
        retire = retire.min(32),
    ))
}

/// Which ports plain instructions take: an addition, a load, a store.
struct Roles {
    alu: PortSet,
    load: PortSet,
    store_address: PortSet,
    store_data: PortSet,
    load_latency: i16,
}

impl Roles {
    fn of(table: &CpuTable, units: &Units) -> Self {
        let class = |opcode: &str| {
            let opcode = table.table.file.opcodes.iter().find(|o| o.name == opcode)?;
            let form = opcode.forms.first()?.form;
            let class = *table.cpu.class_of.get(usize::from(form))?;
            table.cpu.classes.get(usize::from(class).checked_sub(1)?)
        };
        let (add, load, store) = match table.arch {
            mcad_proto::event::Arch::AArch64 => ("ADDXri", "LDRXui", "STRXui"),
            _ => ("ADD", "LD", "SD"),
        };
        let taken = |opcode: &str| class(opcode).map_or_else(Vec::new, |c| units.taken(c));
        let first = |opcode: &str| taken(opcode).first().map(|taken| taken.ports);
        let alu = first(add).unwrap_or(PortSet(1));
        let loads = first(load).unwrap_or(alu);
        let stores = taken(store);
        // Of two units of a store the one that loads have, too, is for the address.
        let address = stores
            .iter()
            .find(|taken| taken.ports.meets(loads))
            .or(stores.first());
        let address = address.map_or(loads, |taken| taken.ports);
        let data = stores.iter().find(|taken| taken.ports != address);
        let latency = class(load)
            .and_then(|c| c.latencies.first())
            .map(|(cycles, _)| *cycles);
        Self {
            alu,
            load: loads,
            store_address: address,
            store_data: data.map_or(address, |taken| taken.ports),
            load_latency: latency.unwrap_or(4).max(1),
        }
    }
}
