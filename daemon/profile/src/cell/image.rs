//! The program that a cell is before it is given anything to run: an ELF file of one page with
//! `syscall; int3`, so that nothing of a C library, of the profiler's memory or of its handlers is
//! there.

use super::layout::{GADGET_PAGE, PAGE};

const HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
/// Offset of the gadget: behind the header and two program headers.
const GADGET_OFFSET: u64 = HEADER + 2 * PROGRAM_HEADER;

/// Address of `syscall; int3`.
pub(super) const GADGET: u64 = GADGET_PAGE + GADGET_OFFSET;
/// Address behind `syscall`: what seccomp sees.
pub(super) const BEHIND_SYSCALL: u64 = GADGET + 2;

/// The file.
pub(super) fn elf() -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0];
    let half = |file: &mut Vec<u8>, value: u16| file.extend(value.to_le_bytes());
    let word = |file: &mut Vec<u8>, value: u32| file.extend(value.to_le_bytes());
    let long = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    long(&mut file, 0);
    half(&mut file, 2); // ET_EXEC
    half(&mut file, 62); // EM_X86_64
    word(&mut file, 1);
    long(&mut file, GADGET);
    long(&mut file, HEADER);
    long(&mut file, 0);
    word(&mut file, 0);
    for value in [HEADER as u16, PROGRAM_HEADER as u16, 2, 0, 0, 0] {
        half(&mut file, value);
    }
    let mut segment = |kind: u32, flags: u32, address: u64, bytes: u64| {
        word(&mut file, kind);
        word(&mut file, flags);
        for value in [0, address, address, bytes, bytes, PAGE] {
            long(&mut file, value);
        }
    };
    segment(1, 4 | 1, GADGET_PAGE, PAGE); // PT_LOAD, read and execute
    segment(0x6474_e551, 4 | 2, 0, 0); // PT_GNU_STACK, not executable
    file.extend([0x0f, 0x05, 0xcc]);
    file.resize(PAGE as usize, 0xcc);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gadget_is_where_the_header_says() {
        let file = elf();
        let at = GADGET_OFFSET as usize;
        assert_eq!(file[at..at + 3], [0x0f, 0x05, 0xcc]);
        assert_eq!(file[24..32], GADGET.to_le_bytes());
    }
}
