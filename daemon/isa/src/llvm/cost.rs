//! From a scheduling class to the units that it takes: which ports there are, and which of them an
//! instruction uses for how long.
//!
//! LLVM books an instruction on a unit, on all groups that the unit is in, and on what the unit is
//! part of, so that each alone bounds the throughput. The µops are what is left when each group is
//! relieved of what its members were booked for, smallest first: `llvm::mca`'s
//! `initializeUsedResources` (lib/MCA/InstrBuilder.cpp) says the same.

use super::wire::{Class, Cpu};
use crate::machine::params::{MAX_PORTS, PortSet};

/// The units of a CPU, numbered as ports.
#[derive(Clone, Debug)]
pub struct Units {
    /// Names of the ports.
    pub names: Vec<String>,
    /// By resource: its ports.
    pub ports: Vec<PortSet>,
}

/// Units that an instruction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// One of these ports.
    pub ports: PortSet,
    /// Cycles for which it is taken.
    pub cycles: u16,
}

impl Units {
    /// The units of a CPU.
    ///
    /// # Errors
    /// A text when it has more than a core can have ports.
    pub fn new(cpu: &Cpu) -> Result<Self, String> {
        let own: Vec<&str> = cpu
            .resources
            .iter()
            .filter(|r| r.members.is_empty() && r.units > 0)
            .map(|r| r.name.as_str())
            .skip(1)
            .collect();
        let prefix = common_prefix(&own);
        let mut names: Vec<String> = Vec::new();
        let mut ports = vec![PortSet::NONE; cpu.resources.len()];
        // Resource 0 stands for none. What is part of another is not a unit of its own.
        for (n, resource) in cpu.resources.iter().enumerate().skip(1) {
            if !resource.members.is_empty() || resource.part_of != 0 {
                continue;
            }
            let short = resource.name.get(prefix..).unwrap_or(&resource.name);
            for unit in 0..resource.units {
                if names.len() == MAX_PORTS {
                    return Err(format!("{} has more than {MAX_PORTS} units", cpu.name));
                }
                ports[n].0 |= 1 << names.len();
                names.push(match resource.units {
                    1 => short.to_owned(),
                    _ => format!("{short}{unit}"),
                });
            }
        }
        for (n, resource) in cpu.resources.iter().enumerate() {
            let members = resource.members.iter();
            let whole = ports.get(usize::from(resource.part_of)).copied();
            if !resource.members.is_empty() {
                let all = members.filter_map(|m| ports.get(usize::from(*m)));
                ports[n] = all.fold(PortSet::NONE, |all, set| all.with(*set));
            } else if resource.part_of != 0 {
                ports[n] = whole.unwrap_or_default();
            }
        }
        Ok(Self { names, ports })
    }

    /// What an instruction of a class takes, smallest sets first.
    #[must_use]
    pub fn taken(&self, class: &Class) -> Vec<Taken> {
        let set = |resource: u16| self.ports.get(usize::from(resource)).copied();
        let mut left: Vec<(PortSet, u16)> = Vec::new();
        for &(resource, release, acquire) in &class.resources {
            let cycles = release.saturating_sub(acquire);
            let Some(ports) = set(resource).filter(|ports| !ports.is_empty()) else {
                continue;
            };
            match left.iter_mut().find(|(other, _)| *other == ports) {
                // Booked on what it is part of, too.
                Some((_, booked)) => *booked = (*booked).max(cycles),
                None => left.push((ports, cycles)),
            }
        }
        left.sort_by_key(|(ports, _)| (ports.len(), ports.0));
        let mut taken = Vec::new();
        for n in 0..left.len() {
            let (ports, cycles) = left[n];
            if cycles == 0 {
                continue;
            }
            taken.push(Taken { ports, cycles });
            for (group, booked) in &mut left[n + 1..] {
                if group.contains(ports) {
                    *booked = booked.saturating_sub(cycles);
                }
            }
        }
        taken
    }
}

/// Characters that all names begin with, as far as something is left of each.
fn common_prefix(names: &[&str]) -> usize {
    let Some((first, rest)) = names.split_first() else {
        return 0;
    };
    let shared = |other: &&str| {
        let pairs = first.bytes().zip(other.bytes());
        pairs.take_while(|(a, b)| a == b).count()
    };
    let most = rest.iter().map(shared).min().unwrap_or(0);
    let shortest = names.iter().map(|name| name.len()).min().unwrap_or(0);
    let mut prefix = most.min(shortest.saturating_sub(1));
    // Not in the middle of a number or word.
    while prefix > 0 && !first.as_bytes()[prefix].is_ascii_uppercase() {
        prefix -= 1;
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::super::wire::Resource;
    use super::*;

    fn cpu() -> Cpu {
        let resource = |name: &str, units, members: &[u16]| Resource {
            name: name.into(),
            units,
            members: members.into(),
            ..Resource::default()
        };
        Cpu {
            resources: vec![
                resource("Invalid", 0, &[]),
                resource("XUnitB", 1, &[]),
                resource("XUnitS", 2, &[]),
                resource("XUnitM", 1, &[]),
                resource("XUnitI", 3, &[2, 3]),
            ],
            ..Cpu::default()
        }
    }

    #[test]
    fn units_are_ports_and_groups_sets_of_them() {
        let units = Units::new(&cpu()).unwrap();
        assert_eq!(units.names, ["B", "S0", "S1", "M"]);
        let sets: Vec<u32> = units.ports.iter().map(|set| set.0).collect();
        assert_eq!(sets, [0, 0b1, 0b110, 0b1000, 0b1110]);
    }

    #[test]
    fn groups_are_relieved_of_what_their_members_take() {
        let units = Units::new(&cpu()).unwrap();
        let class = |resources: &[(u16, u16, u16)]| Class {
            resources: resources.into(),
            ..Class::default()
        };
        let taken = |resources: &[(u16, u16, u16)]| -> Vec<(u32, u16)> {
            let taken = units.taken(&class(resources));
            taken.iter().map(|t| (t.ports.0, t.cycles)).collect()
        };
        // A multiplication is booked on the group of its unit, too.
        assert_eq!(taken(&[(3, 1, 0), (4, 1, 0)]), [(0b1000, 1)]);
        // One µop of each.
        assert_eq!(taken(&[(3, 1, 0), (4, 2, 0)]), [(0b1000, 1), (0b1110, 1)]);
        assert_eq!(taken(&[(4, 1, 0)]), [(0b1110, 1)]);
        assert_eq!(taken(&[(1, 12, 0)]), [(0b1, 12)]);
        assert_eq!(taken(&[]), []);
    }
}
