//! Splits an instruction into µops and groups them for issue and delivery.
//!
//! The tables give ports, latencies between operands and slot counts per instruction, not the
//! dependencies among its µops. They are inferred as uiCA does (Abel & Reineke, ICS 2022,
//! section 4.1.4): loads come first and feed the computing µops, which feed the store data; the
//! computing µops are split by latency class, so that a slow input enters through a µop of its
//! own. Micro-fusion pairs a load or store-address µop with its successor until the number of
//! slots fits the table's.

use std::collections::BTreeMap;

use super::operands::{Operands, Value};
use crate::machine::params::{Core, PortLayout, PortSet, Role};
use crate::machine::table::Perf;
use crate::regs::RegId;
use crate::uop::{FusedSpec, LaminatedSpec, UopKind, UopSpec};

impl UopSpec {
    fn compute(ports: PortSet, inputs: Vec<RegId>, outputs: Vec<(RegId, u16)>) -> Self {
        Self {
            ports,
            inputs,
            outputs,
            divider: 0,
            kind: UopKind::Compute,
        }
    }
}

fn ids(values: &[Value]) -> Vec<RegId> {
    values.iter().filter_map(|v| v.id).collect()
}

/// The port sets of an instruction's µops, by what these do.
#[derive(Default)]
struct Sorted {
    loads: Vec<PortSet>,
    addresses: Vec<PortSet>,
    datas: Vec<PortSet>,
    computes: Vec<PortSet>,
}

fn by_role(operands: &Operands, perf: &Perf, layout: &PortLayout) -> Sorted {
    let Sorted {
        mut loads,
        mut addresses,
        mut datas,
        mut computes,
    } = Sorted::default();
    for &(ports, count) in &perf.ports {
        let class = match layout.role(ports, !operands.out_mems.is_empty()) {
            Role::StoreAddress => &mut addresses,
            Role::Load => &mut loads,
            Role::StoreData => &mut datas,
            Role::Compute => &mut computes,
        };
        class.extend(std::iter::repeat_n(ports, usize::from(count)));
    }
    if !layout.store_address_starts.is_empty() {
        addresses.fill(layout.store_address_starts);
    }
    // An ALU takes the data of a store that no µop computes.
    if loads.is_empty() && layout.store_data.contains(layout.alu) {
        while datas.len() < addresses.len()
            && let Some(ports) = computes.pop_if(|ports| layout.alu.contains(*ports))
        {
            datas.push(ports);
        }
    }
    // Where there are no ports for store addresses alone, or they cannot be used, these go to the
    // load ports.
    while datas.len() > addresses.len() {
        match loads.pop() {
            Some(ports) => addresses.push(ports),
            None => {
                datas.pop();
            }
        }
    }
    Sorted {
        loads,
        addresses,
        datas,
        computes,
    }
}

/// The µops of an instruction in the order in which they are renamed.
#[must_use]
pub fn split(operands: &Operands, perf: &Perf, core: &Core) -> Vec<UopSpec> {
    let layout = &core.ports;
    let p = &core.execute;
    let wide = || operands.loaded_bytes() > 32;
    let extra = match operands.vector {
        true if p.vector_load_extra_64 > 0 && wide() => p.vector_load_extra_64,
        true => p.vector_load_extra,
        false => 0,
    };
    let address = match (operands.scaled, operands.displaced_index) {
        (true, _) => p.scaled_load_extra,
        (false, true) => p.displaced_index_load_extra,
        (false, false) => 0,
    };
    let load_latency = u16::try_from(core.execute.load_latency)
        .unwrap_or(u16::MAX)
        .saturating_add(extra)
        .saturating_add(address);
    let table_load_latency = core.execute.table_load_latency + extra;
    let Sorted {
        loads,
        addresses,
        datas,
        computes,
    } = by_role(operands, perf, layout);

    let mut pseudos = 0usize;
    let mut pseudo = || {
        pseudos += 1;
        RegId::pseudo(pseudos - 1)
    };
    let address_inputs = ids(&operands.addresses);

    let mut load_values = Vec::new();
    let mut load_uops = Vec::new();
    for (n, &ports) in loads.iter().enumerate() {
        let outputs = if computes.is_empty() {
            ids(&operands.out_regs)
        } else {
            let value = pseudo();
            load_values.extend(value);
            value.into_iter().collect()
        };
        load_uops.push(UopSpec {
            ports,
            inputs: address_inputs.clone(),
            outputs: outputs.into_iter().map(|o| (o, load_latency)).collect(),
            divider: 0,
            kind: if operands.in_mems.is_empty() {
                UopKind::Compute
            } else {
                UopKind::Load(n.min(255) as u8)
            },
        });
    }

    let mut store_values = Vec::new();
    let mut store_uops = Vec::new();
    for (n, (&address, &data)) in addresses.iter().zip(&datas).enumerate() {
        let which = n.min(255) as u8;
        store_uops.push(UopSpec {
            ports: address,
            inputs: address_inputs.clone(),
            outputs: Vec::new(),
            divider: 0,
            kind: UopKind::StoreAddress(which),
        });
        let inputs = if computes.is_empty() || operands.beside_data {
            let mut inputs = ids(&operands.in_regs);
            inputs.extend(ids(&operands.in_flags));
            inputs
        } else {
            let value = pseudo();
            store_values.extend(value);
            value.into_iter().collect()
        };
        store_uops.push(UopSpec {
            ports: data,
            inputs,
            outputs: Vec::new(),
            divider: 0,
            kind: UopKind::StoreData(which),
        });
    }

    let compute_uops = if computes.is_empty() {
        Vec::new()
    } else if let Some(uops) = shift_by_count(operands, &computes, &mut pseudo) {
        uops
    } else {
        by_latency_class(
            operands,
            (perf, table_load_latency, core.execute.input_delays),
            &computes,
            &load_values,
            &store_values,
            &mut pseudo,
        )
    };

    let mut uops = load_uops;
    uops.extend(compute_uops);
    uops.extend(store_uops);
    uops.extend(between_kinds(operands, &computes, layout));
    while uops.len() < usize::from(perf.retire_slots.max(1)) {
        uops.push(UopSpec::compute(PortSet::NONE, Vec::new(), Vec::new()));
    }
    uops
}

/// What an instruction between general-purpose and vector registers takes of the ALUs beside what it does
/// ([`PortLayout::results_of_vectors`]).
fn between_kinds(o: &Operands, computes: &[PortSet], layout: &PortLayout) -> Vec<UopSpec> {
    let ports: Vec<PortSet> = if layout.results_of_vectors.is_empty() {
        Vec::new()
    } else if o.writes_general_from_vector() {
        let each = layout.results_of_vectors.iter();
        each.map(|port| PortSet(1 << port)).collect()
    } else if o.writes_vector_from_general() && !computes.iter().any(|p| layout.alu.contains(*p)) {
        vec![layout.alu]
    } else {
        Vec::new()
    };
    let inputs = ids(&o.in_regs);
    (ports.into_iter())
        .map(|ports| UopSpec::compute(ports, inputs.clone(), Vec::new()))
        .collect()
}

/// `shl r, cl` and its like: one µop for the register and one that chooses between the old flags
/// and the new, with a third for the old flags before Golden Cove.
fn shift_by_count(
    operands: &Operands,
    computes: &[PortSet],
    pseudo: &mut impl FnMut() -> Option<RegId>,
) -> Option<Vec<UopSpec>> {
    let all = |from: &[Value], to: &[Value], cycles: u16| {
        from.iter()
            .all(|f| to.iter().all(|t| operands.latency(f, t) == Some(cycles)))
    };
    let o = operands;
    let shape = o.addresses.is_empty()
        && !o.in_regs.is_empty()
        && !o.out_regs.is_empty()
        && !o.in_flags.is_empty()
        && !o.out_flags.is_empty()
        && all(&o.in_regs, &o.out_regs, 1)
        && all(&o.in_regs, &o.out_flags, 2)
        && all(&o.in_flags, &o.out_regs, 0);
    if !shape {
        return None;
    }
    let mut outputs: Vec<_> = ids(&o.out_regs).into_iter().map(|r| (r, 1)).collect();
    let flags_out = ids(&o.out_flags).into_iter().map(|r| (r, 1)).collect();
    match *computes {
        [first, second, third] if all(&o.in_flags, &o.out_flags, 2) => {
            let (result, flags) = (pseudo()?, pseudo()?);
            outputs.push((result, 1));
            Some(vec![
                UopSpec::compute(first, ids(&o.in_regs), outputs),
                UopSpec::compute(second, ids(&o.in_flags), vec![(flags, 1)]),
                UopSpec::compute(third, vec![result, flags], flags_out),
            ])
        }
        [first, second] if all(&o.in_flags, &o.out_flags, 1) => {
            let result = pseudo()?;
            outputs.push((result, 1));
            let mut inputs = ids(&o.in_flags);
            inputs.push(result);
            Some(vec![
                UopSpec::compute(first, ids(&o.in_regs), outputs),
                UopSpec::compute(second, inputs, flags_out),
            ])
        }
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Input<'a> {
    Operand(&'a Value),
    Load(RegId),
}

#[derive(Clone, Copy)]
enum Output<'a> {
    Operand(&'a Value),
    Store(RegId),
}

/// Cycles of the computing µops from an input to an output. The tables' latencies are from the
/// instruction's inputs to its outputs; those of the load and of the store are taken off.
fn latency_of_compute(
    o: &Operands,
    load_latency: u16,
    input: Input<'_>,
    output: Output<'_>,
) -> u16 {
    match (input, output) {
        (Input::Operand(i), Output::Operand(t)) => o.latency(i, t).unwrap_or(1),
        (Input::Operand(i), Output::Store(_)) => o
            .out_mems
            .iter()
            .map(|m| o.latency(i, m).unwrap_or(1).saturating_sub(4).max(1))
            .max()
            .unwrap_or(1),
        // The last address operand decides, as in uiCA.
        (Input::Load(_), Output::Operand(t)) => {
            let address = o.addresses.last().or(o.fixed_address.as_ref());
            address.map_or(1, |a| {
                o.latency(a, t)
                    .unwrap_or(1)
                    .saturating_sub(load_latency)
                    .max(1)
            })
        }
        (Input::Load(_), Output::Store(_)) => {
            if o.in_mems.is_empty() {
                return 1;
            }
            o.out_mems
                .iter()
                .filter_map(|m| o.in_mems.last().map(|i| o.latency(i, m).unwrap_or(1)))
                .map(|l| l.saturating_sub(load_latency).max(1))
                .max()
                .unwrap_or(1)
        }
    }
}

fn by_latency_class(
    operands: &Operands,
    (perf, load_latency, input_delays): (&Perf, u16, bool),
    computes: &[PortSet],
    load_values: &[RegId],
    store_values: &[RegId],
    pseudo: &mut impl FnMut() -> Option<RegId>,
) -> Vec<UopSpec> {
    let o = operands;
    let inputs: Vec<Input<'_>> = o
        .in_regs
        .iter()
        .chain(&o.in_flags)
        .map(Input::Operand)
        .chain(load_values.iter().map(|v| Input::Load(*v)))
        .collect();
    let outputs: Vec<Output<'_>> = o
        .out_regs
        .iter()
        .chain(&o.out_flags)
        .map(Output::Operand)
        .chain(store_values.iter().map(|v| Output::Store(*v)))
        .collect();
    let latency = |input, output| latency_of_compute(o, load_latency, input, output);
    let input_id = |input: Input<'_>| match input {
        Input::Operand(v) => v.id,
        Input::Load(id) => Some(id),
    };
    let output_id = |output: Output<'_>| match output {
        Output::Operand(v) => v.id,
        Output::Store(id) => Some(id),
    };

    let mut classes: BTreeMap<u16, Vec<Input<'_>>> = BTreeMap::new();
    for &input in &inputs {
        let worst = outputs
            .iter()
            .map(|t| latency(input, *t))
            .max()
            .unwrap_or(1);
        classes.entry(worst).or_default().push(input);
    }
    if computes.len() == 1 && !input_delays {
        join_unmeasured(o, &mut classes);
    }
    let mut classes = classes.into_iter();
    let (base_level, base_class) = classes.next().unwrap_or((1, Vec::new()));
    let base_outputs = outputs
        .iter()
        .filter_map(|t| {
            let cycles = base_class
                .iter()
                .map(|i| latency(*i, *t))
                .max()
                .unwrap_or(1);
            Some((output_id(*t)?, cycles))
        })
        .collect();
    let mut base = UopSpec::compute(
        computes[0],
        base_class.iter().filter_map(|i| input_id(*i)).collect(),
        base_outputs,
    );
    base.divider = perf.div_cycles;

    let all_inputs: Vec<RegId> = inputs.iter().filter_map(|i| input_id(*i)).collect();
    let mut before = Vec::new();
    let mut after: Vec<UopSpec> = Vec::new();
    for &ports in &computes[1..] {
        let step = classes.next().and_then(|class| Some((class, pseudo()?)));
        match step {
            Some(((level, class), value)) => {
                base.inputs.push(value);
                let class = class.iter().filter_map(|i| input_id(*i)).collect();
                before.insert(
                    0,
                    UopSpec::compute(ports, class, vec![(value, level - base_level)]),
                );
            }
            None => after.push(UopSpec::compute(ports, all_inputs.clone(), Vec::new())),
        }
    }
    let mut delays = Vec::new();
    let mut uops = before;
    uops.push(base);
    uops.append(&mut after);
    // Classes for which no µop is left enter with the last one, or are late by what they take longer.
    if let Some(last) = uops.last_mut() {
        for (level, class) in classes {
            if input_delays && let Some(value) = pseudo() {
                last.inputs.push(value);
                let class = class.iter().filter_map(|i| input_id(*i)).collect();
                let outputs = vec![(value, level - base_level)];
                delays.push(UopSpec::compute(PortSet::NONE, class, outputs));
                continue;
            }
            last.inputs
                .extend(class.iter().filter_map(|i| input_id(*i)));
        }
    }
    delays.append(&mut uops);
    delays
}

/// What an only µop reads of which nobody measured when it is needed, such as what a scalar operation keeps of its
/// destination, is not what says how long the others take.
fn join_unmeasured<'a>(o: &Operands, classes: &mut BTreeMap<u16, Vec<Input<'a>>>) {
    let is_measured = |input: &Input<'_>| match input {
        Input::Operand(value) => o.is_measured(value),
        Input::Load(_) => true,
    };
    let Some(least) = classes.first_entry() else {
        return;
    };
    if least.get().iter().any(is_measured) {
        return;
    }
    let (level, unmeasured) = least.remove_entry();
    match classes.first_entry() {
        Some(mut next) => next.get_mut().extend(unmeasured),
        None => drop(classes.insert(level, unmeasured)),
    }
}

/// Groups µops into fused and laminated ones: one that computes an address can be the first of a
/// pair.
#[must_use]
pub fn group(uops: Vec<UopSpec>, perf: &Perf, layout: &PortLayout) -> Vec<LaminatedSpec> {
    let leading = layout.load.with(layout.store_address);
    let may_lead = |uop: &UopSpec| uop.ports.meets(leading);
    let slots = usize::from(perf.retire_slots.max(1));
    let mut rest: std::collections::VecDeque<UopSpec> = uops.into();
    let mut fused: std::collections::VecDeque<FusedSpec> = std::collections::VecDeque::new();
    for n in 0..slots - 1 {
        let Some(first) = rest.pop_front() else { break };
        let lead = may_lead(&first);
        let mut slot = vec![first];
        if lead && rest.len() >= slots - n {
            slot.extend(rest.pop_front());
        }
        fused.push_back(slot);
    }
    if !rest.is_empty() {
        fused.push_back(rest.into());
    }
    let delivered = usize::from(perf.uops_mite) + usize::from(perf.uops_ms);
    let delivered = delivered.clamp(1, fused.len().max(1));
    let mut laminated = Vec::with_capacity(delivered);
    for n in 0..delivered - 1 {
        let Some(first) = fused.pop_front() else {
            break;
        };
        let lead = matches!(first.as_slice(), [only] if may_lead(only));
        let mut group = vec![first];
        if lead && fused.len() >= delivered - n {
            group.extend(fused.pop_front());
        }
        laminated.push(group);
    }
    if !fused.is_empty() {
        laminated.push(fused.into());
    }
    laminated
}
