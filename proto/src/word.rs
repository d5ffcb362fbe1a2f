//! The 8-byte record: one executed block, one memory access, or what a system call did to memory.
//!
//! A stream of records is a sequence of little-endian 64-bit words. A word is never zero: a zero
//! in a shared buffer means "not written yet", which lets a reader take what a killed writer left.
//!
//! ```text
//!  63 62 61 | 60 .. 52 | 51   | 50 49 48    | 47 ................ 0
//!  tag = 1  | index    | store| log2(size)  | address                 memory access
//!  tag = 2  | 0        | 0    | 0           | block id (32 bits)      block execution
//!
//!  63 62 61 | 60 59 58 | 57 ................... 42 | 41 .......... 0
//!  tag = 3  | 0, 1     | lines - 1 (16 bits)       | address / 64     the kernel read, wrote
//!  tag = 3  | 2, 3, 4  | pages - 1 (22 bits, 57 .. 36) | address / 4096  mapped, ...
//! ```
//!
//! * A block record says that the block's first instruction is about to execute. The accesses of
//!   that execution follow it, in program order, before the next block record of the same stream.
//! * `index` is the instruction's place in its block (0..=511), `size` the access's size in bytes
//!   (1..=64, a power of two), `address` the low 48 bits of the guest virtual address
//!   (sign-extended when read).
//! * A wide access may come as several words with the same index (QEMU splits 16- and 32-byte
//!   accesses); readers merge them. A read-modify-write gives a load and a store.
//! * Words of tag 3 follow those of the block whose last instruction is the system call. What is
//!   longer than one word can say comes as several.

/// Identity of a translated block within one session. Ids are dense, starting at 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A guest virtual address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestAddr(pub u64);

/// Identity of one guest thread's record stream within one session; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Identity of one traced process within one session: 0 is the first one, the others count up in the
/// order in which they were made known; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl ProcessId {
    /// The program that the session was started for.
    pub const FIRST: Self = Self(0);
}

/// Most instructions that one block may have; QEMU ends a translation block at 512.
pub const MAX_BLOCK_INSTRUCTIONS: usize = 512;

/// Bits of a word below its tag.
pub const TAG_SHIFT: u32 = 61;
/// Tag of a memory access.
pub const TAG_ACCESS: u64 = 1;
/// Tag of a block's execution, whose low 32 bits are the block.
pub const TAG_BLOCK: u64 = 2;
const TAG_KERNEL: u64 = 3;
const WORK_SHIFT: u32 = 58;
const LINE_SHIFT: u32 = 6;
const LINE_BITS: u32 = 42;
const PAGE_SHIFT: u32 = 12;
const PAGE_BITS: u32 = 36;
const INDEX_SHIFT: u32 = 52;
const INDEX_MASK: u64 = 0x1ff;
const STORE_BIT: u64 = 1 << 51;
const SIZE_SHIFT: u32 = 48;
const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// One memory access of one executed instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Place of the instruction in its block, 0..=511.
    pub index: u16,
    /// Whether the access writes.
    pub store: bool,
    /// Size in bytes: 1, 2, 4, 8, 16, 32 or 64.
    pub size: u8,
    /// First byte accessed.
    pub address: GuestAddr,
}

/// What a system call did to a part of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// The kernel read it.
    Read,
    /// The kernel wrote it.
    Wrote,
    /// Its pages are mapped anew without a file, or no more: who touches them next is the first.
    Fresh,
    /// A file is mapped there.
    File,
    /// Its pages are others' that were touched: they have been moved there.
    Moved,
}

impl Work {
    const ALL: [Self; 5] = [
        Self::Read,
        Self::Wrote,
        Self::Fresh,
        Self::File,
        Self::Moved,
    ];

    /// Binary logarithm of the unit, and bits of its number in an address.
    const fn unit(self) -> (u32, u32) {
        match self {
            Self::Read | Self::Wrote => (LINE_SHIFT, LINE_BITS),
            Self::Fresh | Self::File | Self::Moved => (PAGE_SHIFT, PAGE_BITS),
        }
    }
}

/// Memory that a system call had to do with: whole lines of 64 bytes, or whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// What was done.
    pub work: Work,
    /// First byte.
    pub address: GuestAddr,
    /// Bytes; at most 2^48.
    pub bytes: u64,
}

/// A record, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block starts to execute.
    Block(BlockId),
    /// An instruction of the block that executes accesses memory.
    Access(Access),
    /// The system call at the end of the block that executes does something to memory.
    Kernel(Kernel),
}

/// A word that is no record of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:#018x} is not a trace record")]
pub struct BadWord(pub u64);

/// Its tag: what kind of record a word is.
#[inline]
#[must_use]
pub const fn tag_of(word: u64) -> u64 {
    word >> TAG_SHIFT
}

/// Encodes a block execution.
#[inline]
#[must_use]
pub const fn block_word(id: BlockId) -> u64 {
    (TAG_BLOCK << TAG_SHIFT) | id.0 as u64
}

/// Encodes a memory access. `size` is rounded up to a power of two of at most 64.
#[inline]
#[must_use]
pub const fn access_word(access: Access) -> u64 {
    let size = if access.size == 0 { 1 } else { access.size };
    let mut log2 = size.next_power_of_two().trailing_zeros() as u64;
    if size > 64 {
        log2 = 6;
    }
    (TAG_ACCESS << TAG_SHIFT)
        | ((access.index as u64 & INDEX_MASK) << INDEX_SHIFT)
        | (if access.store { STORE_BIT } else { 0 })
        | (log2 << SIZE_SHIFT)
        | (access.address.0 & ADDRESS_MASK)
}

/// Encodes what a system call did: as many lines or pages as its bytes touch, as far as one word can
/// say that.
#[inline]
#[must_use]
pub const fn kernel_word(kernel: Kernel) -> u64 {
    let (shift, bits) = kernel.work.unit();
    let start = kernel.address.0 & ADDRESS_MASK;
    let first = start >> shift;
    let last = match kernel.bytes {
        0 => first,
        bytes => (start + (bytes - 1)) >> shift,
    };
    let most = (1 << (WORK_SHIFT - bits)) - 1;
    let more = last - first;
    let more = if more > most { most } else { more };
    (TAG_KERNEL << TAG_SHIFT) | ((kernel.work as u64) << WORK_SHIFT) | (more << bits) | first
}

/// Decodes one word.
///
/// # Errors
/// [`BadWord`] when the tag is unknown or bits that must be zero are set.
#[inline]
pub const fn decode_word(word: u64) -> Result<Record, BadWord> {
    match tag_of(word) {
        TAG_BLOCK if word & !(7 << TAG_SHIFT) <= u32::MAX as u64 => {
            Ok(Record::Block(BlockId(word as u32)))
        }
        TAG_ACCESS => {
            let log2 = (word >> SIZE_SHIFT) & 7;
            if log2 > 6 {
                return Err(BadWord(word));
            }
            // Canonical x86-64 addresses are sign-extended from bit 47.
            let address = (((word & ADDRESS_MASK) << 16) as i64 >> 16) as u64;
            Ok(Record::Access(Access {
                index: ((word >> INDEX_SHIFT) & INDEX_MASK) as u16,
                store: word & STORE_BIT != 0,
                size: 1 << log2,
                address: GuestAddr(address),
            }))
        }
        TAG_KERNEL => {
            let work = ((word >> WORK_SHIFT) & 7) as usize;
            if work >= Work::ALL.len() {
                return Err(BadWord(word));
            }
            let work = Work::ALL[work];
            let (shift, bits) = work.unit();
            let address = (word & ((1 << bits) - 1)) << shift;
            let more = (word & ((1 << WORK_SHIFT) - 1)) >> bits;
            Ok(Record::Kernel(Kernel {
                work,
                address: GuestAddr(((address << 16) as i64 >> 16) as u64),
                bytes: (more + 1) << shift,
            }))
        }
        _ => Err(BadWord(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for id in [0, 1, 77, u32::MAX] {
            assert_eq!(
                decode_word(block_word(BlockId(id))),
                Ok(Record::Block(BlockId(id)))
            );
        }
        for (index, store, size, address) in [
            (0, false, 1, 0),
            (511, true, 64, 0x7fff_ffff_ffff),
            (3, true, 8, 0xffff_8000_0000_1234),
        ] {
            let access = Access {
                index,
                store,
                size,
                address: GuestAddr(address),
            };
            assert_eq!(decode_word(access_word(access)), Ok(Record::Access(access)));
        }
    }

    #[test]
    fn what_system_calls_do_is_told_in_lines_or_pages() {
        for (work, address, bytes, first, all) in [
            (Work::Read, 0x1000, 1, 0x1000, 64),
            (Work::Wrote, 0x103f, 2, 0x1000, 128),
            (Work::Wrote, 0x7fff_ffff_f000, 0, 0x7fff_ffff_f000, 64),
            (Work::Wrote, 0x10_0000, 1 << 40, 0x10_0000, 64 << 16),
            (Work::Fresh, 0x1234, 0x2000, 0x1000, 0x3000),
            (Work::File, 0x7000_0000_0000, 4096, 0x7000_0000_0000, 4096),
            (Work::Moved, 0x2000, u64::MAX >> 17, 0x2000, 4096 << 22),
        ] {
            let address = GuestAddr(address);
            let word = kernel_word(Kernel {
                work,
                address,
                bytes,
            });
            let told = Kernel {
                work,
                address: GuestAddr(first),
                bytes: all,
            };
            assert_eq!(decode_word(word), Ok(Record::Kernel(told)));
        }
    }

    #[test]
    fn foreign_words_are_refused() {
        for word in [
            0,
            1,
            3 << TAG_SHIFT | 5 << WORK_SHIFT,
            4 << TAG_SHIFT,
            7 << TAG_SHIFT,
            (TAG_BLOCK << TAG_SHIFT) | (1 << 40),
        ] {
            assert_eq!(decode_word(word), Err(BadWord(word)));
        }
    }
}
