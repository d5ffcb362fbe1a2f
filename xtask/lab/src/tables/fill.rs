//! Forms that a CPU's own rows lack, borrowed from its relatives.
//!
//! A borrowed form is marked `approximated_from` and its port sets are translated between the
//! layouts. It stands behind all of the CPU's own forms, so it is selected only when they are not.

use std::collections::HashMap;

use mcad_isa::machine::table::{Form, PortSet};

use super::cpus::Layout;
use super::draft::{Candidate, Draft};
use super::evex;
use super::mapping::Target;
use super::operands::needs_avx512;
use super::zen::{self, Pipes};

/// Lets every CPU borrow from its relatives.
pub fn borrow(drafts: &mut [Draft]) {
    // What each has of its own, before anybody borrows.
    let own: Vec<(&str, Layout, Vec<Candidate>, Vec<Form>)> = drafts
        .iter()
        .map(|d| {
            (
                d.cpu.name,
                d.cpu.layout,
                d.candidates.clone(),
                d.forms.clone(),
            )
        })
        .collect();
    let named = |name: &str| own.iter().find(|o| o.0 == name).map_or(&[][..], |o| &o.3);
    let server = evex::by_name(named("clx"));
    for draft in drafts {
        complete_ports(draft, &own);
        let itself = evex::by_name(named(draft.cpu.name));
        let family: HashMap<String, Form> = match draft.cpu.layout.is_zen() {
            true => draft
                .forms
                .iter()
                .map(|f| (f.name.to_string(), f.clone()))
                .collect(),
            false => HashMap::new(),
        };
        for relative in draft.cpu.relatives {
            let Some((name, layout, candidates, forms)) = own.iter().find(|o| o.0 == *relative)
            else {
                continue;
            };
            let to = draft.cpu.layout;
            let lender = evex::by_name(forms);
            for c in candidates {
                if needs_avx512(c.code) && !draft.cpu.avx512 {
                    continue;
                }
                let target = Target {
                    code: c.code,
                    selector: c.selector,
                    fit: c.fit,
                };
                let mut form = forms[c.form].clone();
                if to.is_zen() {
                    zen::adopt(&mut form, draft.cpu, &family);
                } else {
                    move_ports(&mut form, *layout, to);
                }
                if to == Layout::GoldenCove && needs_avx512(c.code) {
                    evex::correct(&mut form, &itself, &lender, &server);
                }
                let added = draft.offer(target, &form, Some(name));
                draft.report.borrowed += usize::from(added);
            }
        }
    }
}

/// Gives µops whose ports are unknown (those of moves that are mostly eliminated, on the newest
/// CPUs) the ports of the same form on a relative.
fn complete_ports(draft: &mut Draft, own: &[(&str, Layout, Vec<Candidate>, Vec<Form>)]) {
    let to = draft.cpu.layout;
    for form in &mut draft.forms {
        let name = form.name.clone();
        let variants = [
            (Some(&mut form.perf), 0),
            (form.indexed.as_mut(), 1),
            (form.same_reg.as_mut(), 2),
        ];
        for (perf, which) in variants {
            let Some(perf) = perf.filter(|p| p.uops > 0 && p.ports.is_empty()) else {
                continue;
            };
            for relative in draft.cpu.relatives {
                let Some((_, from, _, forms)) = own.iter().find(|o| o.0 == *relative) else {
                    continue;
                };
                let Some(similar) = forms.iter().find(|f| f.name == name) else {
                    continue;
                };
                let variant = match which {
                    1 => similar.indexed.as_ref(),
                    2 => similar.same_reg.as_ref(),
                    _ => None,
                };
                let similar = variant.unwrap_or(&similar.perf);
                let total: u16 = similar.ports.iter().map(|p| p.1).sum();
                if total == perf.uops {
                    perf.ports = similar
                        .ports
                        .iter()
                        .map(|(p, n)| (translate(*p, *from, to), *n))
                        .collect();
                    draft.report.ports_from_relative += 1;
                    break;
                }
            }
        }
    }
}

/// Translates all port sets of a form.
fn move_ports(form: &mut Form, from: Layout, to: Layout) {
    let perfs = [
        Some(&mut form.perf),
        form.indexed.as_mut(),
        form.same_reg.as_mut(),
    ];
    for perf in perfs.into_iter().flatten() {
        for (ports, _) in &mut perf.ports {
            *ports = translate(*ports, from, to);
        }
    }
}

const fn ports(list: &[u16]) -> u32 {
    let mut set = 0;
    let mut i = 0;
    while i < list.len() {
        set |= 1 << list[i];
        i += 1;
    }
    set
}

/// Translates a port set. Units are moved to where the other layout has them; sets that mean the
/// same in both (`0`, `1`, `5`, vector `015`) stay.
pub fn translate(set: PortSet, from: Layout, to: Layout) -> PortSet {
    use Layout::{GoldenCove, Haswell, IceLake, SandyBridge};
    if from == to {
        return set;
    }
    // To the smallest common vocabulary: what the set is for.
    let whole = |list: &[u16]| set.0 == ports(list);
    if from.is_zen() {
        return set;
    }
    let loads = match from {
        GoldenCove => whole(&[2, 3, 10]),
        _ => whole(&[2, 3]),
    };
    let store_address = match from {
        Haswell => whole(&[2, 3, 7]) || whole(&[7]),
        IceLake | GoldenCove => whole(&[7, 8]),
        _ => false,
    };
    let store_data = match from {
        IceLake | GoldenCove => whole(&[4, 9]),
        _ => whole(&[4]),
    };
    let any_integer = match from {
        Haswell | IceLake => whole(&[0, 1, 5, 6]),
        GoldenCove => whole(&[0, 1, 5, 6, 11]),
        _ => false,
    };
    let new = if let Some(pipes) = Pipes::of(to) {
        let integer = set.0 & ports(&[6, 11]) != 0;
        return match (loads, store_address, store_data) {
            (true, ..) => pipes.load,
            (_, true, _) => pipes.store_address,
            (.., true) => pipes.store_data,
            _ if integer => pipes.alu,
            _ => pipes.vector,
        };
    } else if loads {
        match to {
            GoldenCove => ports(&[2, 3, 10]),
            _ => ports(&[2, 3]),
        }
    } else if store_address {
        match to {
            SandyBridge => ports(&[2, 3]),
            Haswell => ports(&[2, 3, 7]),
            _ => ports(&[7, 8]),
        }
    } else if store_data {
        match to {
            SandyBridge | Haswell => ports(&[4]),
            _ => ports(&[4, 9]),
        }
    } else if any_integer {
        match to {
            SandyBridge => ports(&[0, 1, 5]),
            Haswell | IceLake => ports(&[0, 1, 5, 6]),
            _ => ports(&[0, 1, 5, 6, 11]),
        }
    } else {
        clamp(set.0, to)
    };
    PortSet(new)
}

/// Moves ports that the layout does not have to those that do the same work there.
fn clamp(set: u32, to: Layout) -> u32 {
    let moves: &[(u16, &[u16])] = match to {
        Layout::SandyBridge => &[
            (6, &[5]),
            (7, &[2, 3]),
            (8, &[2, 3]),
            (9, &[4]),
            (10, &[2, 3]),
            (11, &[1]),
        ],
        Layout::Haswell => &[(8, &[7]), (9, &[4]), (10, &[2, 3]), (11, &[1])],
        Layout::IceLake => &[(10, &[2, 3]), (11, &[1])],
        _ => &[],
    };
    moves.iter().fold(set, |set, (port, others)| {
        if set & 1 << port == 0 {
            set
        } else {
            set & !(1 << port) | ports(others)
        }
    })
}
