//! Creates the ring's memory and gives checked access to its parts.
//!
//! The memory is an anonymous file (`memfd_create`), which needs neither `/dev/shm` nor a clean-up
//! and is not bound by the small `/dev/shm` of containers. Where that is refused it is an unlinked
//! file in the directory for temporary files, its blocks reserved, so that a full disk is an error
//! here and not a SIGBUS in the guest. A ring with a name is for an emulator that someone else
//! starts.
//!
//! Behind the first process's ring the anonymous file has smaller ones for the processes that it
//! makes. They take no memory until they are used, and give it back when they are [reset](Memory::reset).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use memmap2::{MmapAsRawDesc, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::RingError;
use super::layout::{Desc, HEADER_BYTES, Header, MAGIC, SLOT_FREE, VERSION};
use crate::plugin::FINGERPRINT;

/// Bytes of one chunk.
const CHUNK_BYTES: usize = 32 << 10;
/// Fewest chunks of a usable ring: 1 MiB.
const MIN_CHUNKS: usize = 32;
/// Most chunks: 4 GiB.
const MAX_CHUNKS: usize = 1 << 17;

/// Rings for other processes than the first: how many can be traced at the same time.
pub const SLOTS: usize = 64;

/// Threads of one process that are traced at once, unless there is less room: what the simulation
/// takes of all processes (4 096), and some left for others than the one with so many.
pub const MOST_THREADS: u32 = 4000;

/// A mapped ring.
#[derive(Debug)]
pub struct Memory {
    /// The file with all rings.
    map: Arc<MmapRaw>,
    /// Where this one begins in it.
    base: usize,
    chunk_count: usize,
    descs: usize,
    ready: usize,
    free: usize,
    chunks: usize,
    /// What its header says, which others can overwrite.
    slot: usize,
    shape: Shape,
    options: u32,
    path: Arc<[u8]>,
}

/// A new ring: the mapping, the descriptor that the emulator inherits, and what should be said.
#[derive(Debug)]
pub struct Created {
    /// The first process's ring.
    pub memory: Memory,
    /// Rings for other processes; the ring behind the first is ring 1.
    pub slots: Vec<Arc<Memory>>,
    /// The ring's file; it stays open as long as an emulator may attach.
    pub fd: OwnedFd,
    /// Why the memory is not where it should be.
    pub notice: Option<String>,
}

impl Memory {
    /// Creates an anonymous ring of about `mib` MiB (rounded to a power of two, at least 1), and up
    /// to `slots` rings of an eighth of that for other processes.
    ///
    /// # Errors
    /// [`RingError::Create`].
    pub fn create(mib: u64, options: u32, slots: usize) -> Result<Created, RingError> {
        let fail = |source: io::Error| RingError::Create { mib, source };
        let mut shape = Shape {
            chunks: chunk_count(mib),
            slots,
            slot_chunks: chunk_count(mib / 8),
        };
        let (fd, notice) = match anonymous_file(shape.total_bytes()) {
            Ok(fd) => (fd, None),
            Err(error) => {
                shape.slots = 0;
                let notice = format!(
                    "no anonymous shared memory ({error}): the ring is a file in {}; it may cost \
                     speed, and child processes are not traced",
                    std::env::temp_dir().display()
                );
                let file = temporary_file(shape.total_bytes()).map_err(fail)?;
                (file, Some(notice))
            }
        };
        let again = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        let (memory, slots) = Self::map(&fd, shape, options, again.as_bytes()).map_err(fail)?;
        Ok(Created {
            memory,
            slots,
            fd,
            notice,
        })
    }

    /// Creates a ring in a new file that an emulator started by someone else can open. It appears
    /// under its name complete, only for the own user.
    ///
    /// # Errors
    /// [`RingError::Create`]; [`RingError::Exists`] when the file is there.
    pub fn create_at(path: &Path, mib: u64, options: u32) -> Result<Self, RingError> {
        let fail = |source: io::Error| RingError::Create { mib, source };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let shape = Shape {
            chunks: chunk_count(mib),
            slots: 0,
            slot_chunks: 0,
        };
        let file = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
        reserve(file.as_file().as_fd(), shape.total_bytes()).map_err(fail)?;
        let again = std::path::absolute(path).map_err(fail)?;
        let again = again.as_os_str().as_bytes();
        let (memory, _) = Self::map(&file, shape, options, again).map_err(fail)?;
        file.persist_noclobber(path)
            .map_err(|error| match error.error.kind() {
                io::ErrorKind::AlreadyExists => RingError::Exists(path.to_owned()),
                _ => fail(error.error),
            })?;
        Ok(memory)
    }

    /// Maps a zeroed file of this shape and writes the constant parts of the headers.
    fn map(
        file: impl MmapAsRawDesc,
        shape: Shape,
        options: u32,
        path: &[u8],
    ) -> io::Result<(Self, Vec<Arc<Self>>)> {
        let length = usize::try_from(shape.total_bytes()).map_err(io::Error::other)?;
        let path: Arc<[u8]> = path.into();
        let map = Arc::new(MmapOptions::new().len(length).map_raw(file)?);
        let ring = |slot: usize| {
            let (base, count) = match slot {
                0 => (0, shape.chunks),
                _ => (shape.slot_at(slot), shape.slot_chunks),
            };
            let (descs, ready, free, chunks) = offsets(count);
            let memory = Self {
                map: Arc::clone(&map),
                base,
                chunk_count: count,
                descs,
                ready,
                free,
                chunks,
                slot,
                shape,
                options,
                path: Arc::clone(&path),
            };
            memory.prepare();
            memory
        };
        let slots = (1..=shape.slots).map(|slot| Arc::new(ring(slot)));
        let slots = slots.collect();
        Ok((ring(0), slots))
    }

    /// Writes the constant part of the header of a zeroed ring, and the free queue.
    fn prepare(&self) {
        let (header, shape) = (self.header(), self.shape);
        header.version.store(VERSION, Relaxed);
        header.plugin_sources.store(*FINGERPRINT, Relaxed);
        header.header_bytes.store(HEADER_BYTES as u32, Relaxed);
        header.total_bytes.store(shape.total_bytes(), Relaxed);
        header.most_threads.store(MOST_THREADS, Relaxed);
        header.chunk_count.store(self.chunk_count as u32, Relaxed);
        header.chunk_bytes.store(CHUNK_BYTES as u32, Relaxed);
        header.descs_offset.store(self.descs as u64, Relaxed);
        header.ready_offset.store(self.ready as u64, Relaxed);
        header.free_offset.store(self.free as u64, Relaxed);
        header.chunks_offset.store(self.chunks as u64, Relaxed);
        header.reader_pid.store(std::process::id(), Relaxed);
        header.options.store(self.options, Relaxed);
        header.slot.store(self.slot as u32, Relaxed);
        header.slot_count.store(shape.slots as u32, Relaxed);
        header.slots_offset.store(shape.slot_at(1) as u64, Relaxed);
        let bytes = ring_bytes(shape.slot_chunks) as u64;
        header.slot_bytes.store(bytes, Relaxed);
        for index in 0..self.chunk_count as u32 {
            self.free_slot(index).store(index, Relaxed);
        }
        header.free_tail.store(self.chunk_count as u32, Relaxed);
        self.set_path();
        header.magic.store(MAGIC, Release);
        header.claim.store(SLOT_FREE, Release);
    }

    /// Makes the ring of a process that is gone as good as new. Whoever else writes there is a
    /// guest that writes where it has no business: it damages what it or its like record.
    pub fn reset(&self) {
        self.clear();
        self.prepare();
    }

    /// Zeroes the ring and gives its memory back.
    fn clear(&self) {
        let length = ring_bytes(self.chunk_count);
        // SAFETY: page-aligned and inside the mapping, which is shared and of a file; every byte
        // of it is used through atomics only, so that they become zero under references is sound.
        let removed = unsafe {
            let at = self.at(0).cast_mut().cast();
            rustix::mm::madvise(at, length, rustix::mm::Advice::LinuxRemove)
        };
        if removed.is_err() {
            for word in 0..length / size_of::<u64>() {
                // SAFETY: in bounds and aligned.
                let word = unsafe { &*self.at(word * size_of::<u64>()).cast::<AtomicU64>() };
                word.store(0, Relaxed);
            }
        }
    }

    /// Tells the plugin where the ring can be opened again; a path that is too long is not told,
    /// and the plugin does without.
    fn set_path(&self) {
        let path = &self.path;
        let field = &self.header().ring_path;
        if path.len() < field.len() {
            for (to, &byte) in field.iter().zip(path.iter()) {
                to.store(byte, Relaxed);
            }
        }
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: page-aligned, at least HEADER_BYTES long, and lives as long as `self`; the struct
        // consists of atomics only, for which any bytes are valid.
        unsafe { &*self.at(0).cast::<Header>() }
    }

    /// Rings of the file behind the first.
    #[must_use]
    pub const fn slot_count(&self) -> usize {
        self.shape.slots
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
        let offset = self.base + offset;
        debug_assert!(offset < self.map.len());
        // SAFETY: every caller's offset lies inside the ring, which lies inside the mapping.
        unsafe { self.map.as_ptr().add(offset) }
    }
}

/// Chunks of a ring of about `mib` MiB.
fn chunk_count(mib: u64) -> usize {
    usize::try_from(mib)
        .unwrap_or(usize::MAX)
        .saturating_mul((1 << 20) / CHUNK_BYTES)
        .clamp(MIN_CHUNKS, MAX_CHUNKS)
        .next_power_of_two()
}

/// Where descriptors, ready queue, free queue and chunks begin.
const fn offsets(count: usize) -> (usize, usize, usize, usize) {
    let descs = HEADER_BYTES;
    let ready = descs + count * size_of::<Desc>();
    let free = ready + count * size_of::<u32>();
    let chunks = (free + count * size_of::<u32>()).next_multiple_of(HEADER_BYTES);
    (descs, ready, free, chunks)
}

/// Bytes of a ring: whole pages.
const fn ring_bytes(count: usize) -> usize {
    offsets(count).3 + count * CHUNK_BYTES
}

/// What a file consists of.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Chunks of the first ring.
    chunks: usize,
    /// Rings behind it.
    slots: usize,
    /// Chunks of each.
    slot_chunks: usize,
}

impl Shape {
    /// Where ring `slot` begins, from 1.
    const fn slot_at(self, slot: usize) -> usize {
        ring_bytes(self.chunks) + (slot - 1) * ring_bytes(self.slot_chunks)
    }

    const fn total_bytes(self) -> u64 {
        self.slot_at(self.slots + 1) as u64
    }
}

/// A zeroed file of `bytes` without a name, that other processes can map.
fn anonymous_file(bytes: u64) -> io::Result<OwnedFd> {
    // The guest can open the ring again by way of /proc. Were it able to shrink the file, the
    // next look at the ring would be a SIGBUS here.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("mcad-ring", flags)?;
    rustix::fs::ftruncate(&fd, bytes)?;
    rustix::fs::fcntl_add_seals(&fd, seals)?;
    Ok(fd)
}

/// The same in the directory for temporary files.
fn temporary_file(bytes: u64) -> io::Result<OwnedFd> {
    let fd: OwnedFd = tempfile::tempfile()?.into();
    reserve(fd.as_fd(), bytes)?;
    Ok(fd)
}

/// Gives a file its size with its blocks, so that writing to it cannot fail later.
fn reserve(fd: BorrowedFd<'_>, bytes: u64) -> io::Result<()> {
    match rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, bytes) {
        // Not every file system can; then zeroes do it.
        Err(Errno::OPNOTSUPP) => {
            let zeroes = [0; 1 << 16];
            let mut at = 0;
            while at < bytes {
                let part = zeroes.len().min((bytes - at) as usize);
                at += rustix::io::pwrite(fd, &zeroes[..part], at)? as u64;
            }
            Ok(())
        }
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn parts_do_not_overlap_and_fit() {
        for mib in [0, 1, 3, 32, 100] {
            let count = chunk_count(mib);
            assert!(count.is_power_of_two() && count >= MIN_CHUNKS);
            let (descs, ready, free, chunks) = offsets(count);
            assert_eq!(descs % 64, 0);
            assert_eq!(chunks % 4096, 0);
            assert!(ready >= descs + count * 64);
            assert!(free >= ready + count * 4);
            assert!(chunks >= free + count * 4);
            assert_eq!(ring_bytes(count), chunks + count * CHUNK_BYTES);
        }
        assert_eq!(chunk_count(u64::MAX), MAX_CHUNKS);
    }

    #[test]
    fn a_fresh_ring_has_every_chunk_free_and_zero() {
        let created = Memory::create(1, 0, 0).unwrap();
        let memory = created.memory;
        assert_eq!(created.notice, None);
        let count = memory.chunk_count() as u32;
        assert_eq!(memory.header().free_tail.load(Relaxed), count);
        for index in 0..count {
            assert_eq!(memory.free_slot(index).load(Relaxed), index);
            let words = memory.words(index).unwrap();
            assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        }
        assert!(memory.words(count).is_none() && memory.desc(count).is_none());
    }

    #[test]
    fn nobody_can_shrink_a_ring() {
        let fd = anonymous_file(1 << 16).unwrap();
        for bytes in [0, 4096, 1 << 17] {
            assert_eq!(
                rustix::fs::ftruncate(&fd, bytes),
                Err(rustix::io::Errno::PERM)
            );
        }
        let more = rustix::fs::fcntl_add_seals(&fd, SealFlags::WRITE);
        assert_eq!(more, Err(rustix::io::Errno::PERM));
    }

    #[test]
    fn a_ring_is_as_good_as_new_after_a_reset() {
        let created = Memory::create(8, 3, 3).unwrap();
        let bytes = |memory: &Memory| {
            let header: Vec<u8> = (0..HEADER_BYTES)
                // SAFETY: inside the header.
                .map(|at| unsafe { memory.at(at).read() })
                .collect();
            let words = memory.words(5).unwrap().iter();
            (header, words.map(|word| word.load(Relaxed)).sum::<u64>())
        };
        for (slot, memory) in (1..).zip(&created.slots) {
            assert_eq!(memory.header().slot.load(Relaxed), slot);
            let fresh = bytes(memory);
            memory.header().claim.store(2, Relaxed);
            memory.header().ready_tail.store(77, Relaxed);
            memory.words(5).unwrap()[9].store(1, Relaxed);
            assert_ne!(bytes(memory), fresh);
            memory.reset();
            assert_eq!(bytes(memory), fresh);
        }
    }

    #[test]
    fn nobody_can_shrink_the_ring() {
        let created = Memory::create(1, 0, 0).unwrap();
        let again = format!("/proc/self/fd/{}", created.fd.as_raw_fd());
        let file = std::fs::OpenOptions::new().write(true).open(again).unwrap();
        let error = file.set_len(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(created.memory.header().magic.load(Relaxed), MAGIC);
    }

    #[test]
    fn the_fall_back_is_reserved_on_disk() {
        let shape = Shape {
            chunks: MIN_CHUNKS,
            slots: 0,
            slot_chunks: 0,
        };
        let bytes = shape.total_bytes();
        let file: std::fs::File = temporary_file(bytes).unwrap().into();
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), bytes);
        assert!(meta.blocks() * 512 >= bytes);
        drop(Memory::map(&file, shape, 0, b"").unwrap());
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0).unwrap();
        assert_eq!(u64::from_le_bytes(magic), MAGIC);
    }

    #[test]
    fn an_existing_file_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ring");
        std::fs::write(&path, "precious").unwrap();
        let error = Memory::create_at(&path, 1, 0).unwrap_err();
        assert!(matches!(error, RingError::Exists(_)), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }
}
