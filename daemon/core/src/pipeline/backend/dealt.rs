//! Ports of which each is given one µop in an issue cycle, in program order
//! ([`PortLayout::one_a_cycle`](mcad_isa::machine::params::PortLayout::one_a_cycle)): which of them the cycle's µops
//! can have between them.

use mcad_isa::machine::params::MAX_DEALT;
use mcad_isa::program::Dealt;

/// Number of sets of such ports.
const SETS: u32 = 1 << MAX_DEALT;

/// For each port, the sets that are without it.
const WITHOUT: [u64; MAX_DEALT] = {
    let mut without = [0; MAX_DEALT];
    let mut port = 0;
    while port < MAX_DEALT {
        let mut set = 0;
        while set < SETS {
            if set >> port & 1 == 0 {
                without[port] |= 1 << set;
            }
            set += 1;
        }
        port += 1;
    }
    without
};

/// Sets of ports, one of which the µops of an issue cycle take, whichever way they are dealt out: bit s of it is the set
/// of the ports that are bits of s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken(u64);

impl Taken {
    /// Before any µop: no port is.
    pub const NONE: Self = Self(1);

    /// With these µops besides; `None` where one of them finds no port in any of the ways.
    #[inline(always)]
    #[must_use]
    pub fn with(self, dealt: Dealt) -> Option<Self> {
        let mut sets = self.0;
        for ports in dealt.uops() {
            let mut next = 0;
            for (port, without) in WITHOUT.iter().enumerate() {
                if ports >> port & 1 != 0 {
                    next |= (sets & without) << (1 << port);
                }
            }
            sets = next;
        }
        (sets != 0).then_some(Self(sets))
    }

    /// All its bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{Dealt, MAX_DEALT, Taken};

    fn dealt(ports: &[u8]) -> Dealt {
        ports
            .iter()
            .fold(Dealt::NONE, |all, ports| all.with(*ports))
    }

    /// Whether each of `uops` can have a port of its own.
    fn each_has_one(uops: &[u8], taken: u8) -> bool {
        let Some((first, rest)) = uops.split_first() else {
            return true;
        };
        (0..MAX_DEALT).any(|port| {
            let bit = 1 << port;
            first & bit != 0 && taken & bit == 0 && each_has_one(rest, taken | bit)
        })
    }

    #[test]
    fn a_way_is_found_wherever_there_is_one() {
        let kinds = [0b0_1111, 0b0_0010, 0b0_0110, 0b1_0001, 0b0_0001, 0b0_1001];
        for n in 0..kinds.len().pow(5) {
            let mut rest = n;
            let uops: Vec<u8> = (0..5)
                .map(|_| {
                    let kind = kinds[rest % kinds.len()];
                    rest /= kinds.len();
                    kind
                })
                .collect();
            let mut taken = Some(Taken::NONE);
            for (n, uop) in uops.iter().enumerate() {
                taken = taken.and_then(|taken| taken.with(dealt(&[*uop])));
                assert_eq!(
                    taken.is_some(),
                    each_has_one(&uops[..=n], 0),
                    "{uops:?} {n}"
                );
            }
        }
    }

    #[test]
    fn what_goes_to_none_of_them_always_issues() {
        let four = dealt(&[0b1111; 4]);
        let full = Taken::NONE.with(four);
        assert_eq!(full.and_then(|taken| taken.with(Dealt::NONE)), full);
        assert_eq!(full.and_then(|taken| taken.with(dealt(&[0b1111]))), None);
    }
}
