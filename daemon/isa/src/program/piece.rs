//! Pieces of a program: what a block added to it, for others that are the same program so far.
//!
//! Everything in a program says by number where its parts are, and forms are numbered as they come.
//! So a piece fits only behind lists that are as long as those it was taken from; that these also
//! have the same blocks in the same order is up to who hands it on.

use super::{Advance, Instr, Laminated, Output, Program, Uop};
use crate::regs::RegId;

/// How long each list of a program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    instrs: usize,
    laminated: usize,
    uops: usize,
    inputs: usize,
    outputs: usize,
    zeroed: usize,
    advances: usize,
    forms: usize,
}

/// What a program got beyond an extent, without the code of in-order cores.
#[derive(Clone, Debug)]
pub struct Piece {
    from: Extent,
    instrs: Vec<Instr>,
    laminated: Vec<Laminated>,
    uops: Vec<Uop>,
    inputs: Vec<RegId>,
    outputs: Vec<Output>,
    zeroed: Vec<RegId>,
    advances: Vec<Advance>,
    forms: Vec<usize>,
}

fn rest<T: Clone>(list: &[T], from: usize) -> Vec<T> {
    list.get(from..).unwrap_or(&[]).to_vec()
}

impl Program {
    /// How long its lists are.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent {
            instrs: self.instrs.len(),
            laminated: self.laminated.len(),
            uops: self.uops.len(),
            inputs: self.inputs.len(),
            outputs: self.outputs.len(),
            zeroed: self.zeroed.len(),
            advances: self.advances.len(),
            forms: self.identities.len(),
        }
    }

    /// What it got since it was that long.
    #[must_use]
    pub fn since(&self, from: Extent) -> Piece {
        Piece {
            from,
            instrs: rest(&self.instrs, from.instrs),
            laminated: rest(&self.laminated, from.laminated),
            uops: rest(&self.uops, from.uops),
            inputs: rest(&self.inputs, from.inputs),
            outputs: rest(&self.outputs, from.outputs),
            zeroed: rest(&self.zeroed, from.zeroed),
            advances: rest(&self.advances, from.advances),
            forms: rest(&self.identities, from.forms),
        }
    }

    /// Appends what another program got when it was as long as this one; whether it was, else
    /// nothing happens.
    pub fn append(&mut self, piece: &Piece) -> bool {
        if self.extent() != piece.from {
            return false;
        }
        self.instrs.extend_from_slice(&piece.instrs);
        self.laminated.extend_from_slice(&piece.laminated);
        self.uops.extend_from_slice(&piece.uops);
        self.inputs.extend_from_slice(&piece.inputs);
        self.outputs.extend_from_slice(&piece.outputs);
        self.zeroed.extend_from_slice(&piece.zeroed);
        self.advances.extend_from_slice(&piece.advances);
        for identity in &piece.forms {
            self.number_of_form(*identity);
        }
        true
    }
}

impl Program {
    /// Appends a piece that was the whole of another program: its numbers become those of this one.
    pub fn append_moved(&mut self, piece: &Piece) {
        debug_assert_eq!(piece.from, Extent::default());
        let (uops, laminated) = (self.uops.len() as u32, self.laminated.len() as u32);
        let (inputs, outputs) = (self.inputs.len() as u32, self.outputs.len() as u32);
        let (zeroed, advances) = (self.zeroed.len() as u32, self.advances.len() as u32);
        for instr in &piece.instrs {
            let form = match piece.forms.get(instr.form as usize) {
                Some(identity) => self.number_of_form(*identity),
                None => instr.form,
            };
            self.instrs.push(Instr {
                uops: instr.uops + uops,
                laminated: instr.laminated + laminated,
                zeroed: instr.zeroed.start + zeroed..instr.zeroed.end + zeroed,
                advances: instr.advances.start + advances..instr.advances.end + advances,
                form,
                ..instr.clone()
            });
        }
        let moved = |l: &Laminated| Laminated {
            uops: l.uops + uops,
            ..*l
        };
        self.laminated.extend(piece.laminated.iter().map(moved));
        let moved = |uop: &Uop| Uop {
            inputs: uop.inputs + inputs,
            outputs: uop.outputs + outputs,
            ..*uop
        };
        self.uops.extend(piece.uops.iter().map(moved));
        self.inputs.extend_from_slice(&piece.inputs);
        self.outputs.extend_from_slice(&piece.outputs);
        self.zeroed.extend_from_slice(&piece.zeroed);
        self.advances.extend_from_slice(&piece.advances);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86::build::{Builder, decode};

    /// add rax,rbx; div rcx; vaddps ymm0,ymm1,[rsi]; xor eax,eax; jne
    const CODE: [u8; 16] = [
        0x48, 0x01, 0xd8, 0x48, 0xf7, 0xf1, 0xc5, 0xf4, 0x58, 0x06, 0x31, 0xc0, 0x75, 0x00, 0x90,
        0x90,
    ];

    #[test]
    fn a_program_of_pieces_is_the_program_they_were_taken_from() {
        for cpu in ["skl", "glc", "zen5"] {
            let model = crate::machine::cpu(cpu).unwrap();
            let (mut whole, mut pieced) = (Program::default(), Program::default());
            let mut pieces = Vec::new();
            for (from, to) in [(0, 6), (3, 10), (0, 16), (10, 14)] {
                let before = whole.extent();
                Builder::new(&model).append(&mut whole, &decode(&CODE[from..to], 0).0);
                pieces.push(whole.since(before));
            }
            // One that is not next is not taken.
            assert!(!pieced.append(&pieces[1]));
            assert!(pieced.instrs.is_empty());
            for piece in &pieces {
                assert!(pieced.append(piece));
            }
            assert!(whole.instrs.len() >= 10);
            assert_eq!(format!("{whole:?}"), format!("{pieced:?}"), "{cpu}");
        }
    }
}
