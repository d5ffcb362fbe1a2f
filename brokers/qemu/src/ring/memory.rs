//! Creates the ring's memory and gives checked access to its parts.
//!
//! The memory is an anonymous file (`memfd_create`), which needs neither `/dev/shm` nor a clean-up
//! and is not bound by the small `/dev/shm` of containers. Where that is refused it is an unlinked
//! file in the directory for temporary files, its blocks reserved, so that a full disk is an error
//! here and not a SIGBUS in the guest.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, MemfdFlags};

use super::RingError;
use super::layout::{Desc, HEADER_BYTES, Header, MAGIC, VERSION};

/// Bytes of one chunk.
const CHUNK_BYTES: usize = 32 << 10;
/// Fewest chunks of a usable ring: 1 MiB.
const MIN_CHUNKS: usize = 32;
/// Most chunks: 4 GiB.
const MAX_CHUNKS: usize = 1 << 17;

/// The mapped ring.
#[derive(Debug)]
pub struct Memory {
    map: MmapRaw,
    chunk_count: usize,
    descs: usize,
    ready: usize,
    free: usize,
    chunks: usize,
}

/// A new ring: the mapping, the descriptor that the emulator inherits, and what should be said.
#[derive(Debug)]
pub struct Created {
    /// The mapping.
    pub memory: Memory,
    /// The ring's file.
    pub fd: OwnedFd,
    /// Why the memory is not where it should be.
    pub notice: Option<String>,
}

impl Memory {
    /// Creates a ring of about `mib` MiB (rounded to a power of two, at least 1).
    ///
    /// # Errors
    /// [`RingError::Create`].
    pub fn create(mib: u64, options: u32) -> Result<Created, RingError> {
        let fail = |source: io::Error| RingError::Create { mib, source };
        let wanted = usize::try_from(mib)
            .unwrap_or(usize::MAX)
            .saturating_mul((1 << 20) / CHUNK_BYTES);
        let count = wanted.clamp(MIN_CHUNKS, MAX_CHUNKS).next_power_of_two();
        let descs = HEADER_BYTES;
        let ready = descs + count * size_of::<Desc>();
        let free = ready + count * size_of::<u32>();
        let chunks = (free + count * size_of::<u32>()).next_multiple_of(HEADER_BYTES);
        let total = chunks + count * CHUNK_BYTES;

        let (fd, notice) = shared_file(total as u64).map_err(fail)?;
        let map = MmapOptions::new().len(total).map_raw(&fd).map_err(fail)?;
        let memory = Self {
            map,
            chunk_count: count,
            descs,
            ready,
            free,
            chunks,
        };
        let header = memory.header();
        header.version.store(VERSION, Relaxed);
        header.header_bytes.store(HEADER_BYTES as u32, Relaxed);
        header.total_bytes.store(total as u64, Relaxed);
        header.chunk_count.store(count as u32, Relaxed);
        header.chunk_bytes.store(CHUNK_BYTES as u32, Relaxed);
        header.descs_offset.store(descs as u64, Relaxed);
        header.ready_offset.store(ready as u64, Relaxed);
        header.free_offset.store(free as u64, Relaxed);
        header.chunks_offset.store(chunks as u64, Relaxed);
        header.reader_pid.store(std::process::id(), Relaxed);
        header.options.store(options, Relaxed);
        for index in 0..count {
            memory.free_slot(index as u32).store(index as u32, Relaxed);
        }
        header.free_tail.store(count as u32, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(Created { memory, fd, notice })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is page-aligned, at least HEADER_BYTES long and lives as long as
        // `self`; the struct consists of atomics only, for which any bytes are valid.
        unsafe { &*self.map.as_ptr().cast::<Header>() }
    }

    /// Number of chunks, a power of two.
    #[must_use]
    pub const fn chunk_count(&self) -> usize {
        self.chunk_count
    }

    /// Descriptor of a chunk, `None` when there is no such chunk.
    #[must_use]
    pub fn desc(&self, index: u32) -> Option<&Desc> {
        let index = self.index(index)?;
        // SAFETY: in bounds (`create` sized the mapping for it) and aligned to 64 bytes.
        Some(unsafe {
            &*self
                .at(self.descs + index * size_of::<Desc>())
                .cast::<Desc>()
        })
    }

    /// Words of a chunk, `None` when there is no such chunk.
    #[must_use]
    pub fn words(&self, index: u32) -> Option<&[AtomicU64]> {
        let index = self.index(index)?;
        let first = self.at(self.chunks + index * CHUNK_BYTES).cast();
        // SAFETY: in bounds and page-aligned.
        Some(unsafe { std::slice::from_raw_parts(first, CHUNK_BYTES / size_of::<u64>()) })
    }

    /// Slot of the ready queue for a running counter.
    #[must_use]
    pub fn ready_slot(&self, counter: u32) -> &AtomicU32 {
        self.slot(self.ready, counter)
    }

    /// Slot of the free queue for a running counter.
    #[must_use]
    pub fn free_slot(&self, counter: u32) -> &AtomicU32 {
        self.slot(self.free, counter)
    }

    fn slot(&self, queue: usize, counter: u32) -> &AtomicU32 {
        let slot = counter as usize & (self.chunk_count - 1);
        // SAFETY: the mask keeps it inside the queue; aligned to 4 bytes.
        unsafe { &*self.at(queue + slot * size_of::<u32>()).cast::<AtomicU32>() }
    }

    fn index(&self, index: u32) -> Option<usize> {
        let index = index as usize;
        (index < self.chunk_count).then_some(index)
    }

    fn at(&self, offset: usize) -> *const u8 {
        debug_assert!(offset < self.map.len());
        // SAFETY: every caller's offset lies inside the mapping.
        unsafe { self.map.as_ptr().add(offset) }
    }
}

/// A zeroed file of `bytes` that other processes can map.
fn shared_file(bytes: u64) -> io::Result<(OwnedFd, Option<String>)> {
    let anonymous = rustix::fs::memfd_create("mcad-ring", MemfdFlags::CLOEXEC)
        .and_then(|fd| rustix::fs::ftruncate(&fd, bytes).map(|()| fd));
    match anonymous {
        Ok(fd) => Ok((fd, None)),
        Err(error) => {
            let fd: OwnedFd = tempfile::tempfile()?.into();
            rustix::fs::fallocate(fd.as_fd(), FallocateFlags::empty(), 0, bytes)?;
            let notice = format!(
                "no anonymous shared memory ({error}): the ring is a file in {}; it may cost speed",
                std::env::temp_dir().display()
            );
            Ok((fd, Some(notice)))
        }
    }
}
