//! Creates the ring's memory and gives checked access to its parts.
//!
//! The memory is an anonymous file (`memfd_create`), which needs neither `/dev/shm` nor a clean-up
//! and is not bound by the small `/dev/shm` of containers. Where that is refused it is an unlinked
//! file in the directory for temporary files, its blocks reserved, so that a full disk is an error
//! here and not a SIGBUS in the guest. A ring with a name is for an emulator that someone else
//! starts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use memmap2::{MmapAsRawDesc, MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;

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
    /// The ring's file; it stays open as long as an emulator may attach.
    pub fd: OwnedFd,
    /// Why the memory is not where it should be.
    pub notice: Option<String>,
}

impl Memory {
    /// Creates an anonymous ring of about `mib` MiB (rounded to a power of two, at least 1).
    ///
    /// # Errors
    /// [`RingError::Create`].
    pub fn create(mib: u64, options: u32) -> Result<Created, RingError> {
        let fail = |source: io::Error| RingError::Create { mib, source };
        let count = chunk_count(mib);
        let (fd, notice) = anonymous_file(total_bytes(count)).map_err(fail)?;
        let memory = Self::map(&fd, count, options).map_err(fail)?;
        let again = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        memory.set_path(again.as_bytes());
        Ok(Created { memory, fd, notice })
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
        let count = chunk_count(mib);
        let file = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
        reserve(file.as_file().as_fd(), total_bytes(count)).map_err(fail)?;
        let memory = Self::map(&file, count, options).map_err(fail)?;
        file.persist_noclobber(path)
            .map_err(|error| match error.error.kind() {
                io::ErrorKind::AlreadyExists => RingError::Exists(path.to_owned()),
                _ => fail(error.error),
            })?;
        let again = std::path::absolute(path).map_err(fail)?;
        memory.set_path(again.as_os_str().as_bytes());
        Ok(memory)
    }

    /// Maps a zeroed file of `total_bytes(count)` and writes the constant part of the header.
    fn map(file: impl MmapAsRawDesc, count: usize, options: u32) -> io::Result<Self> {
        let (descs, ready, free, chunks) = offsets(count);
        let total = total_bytes(count);
        let length = usize::try_from(total).map_err(io::Error::other)?;
        let memory = Self {
            map: MmapOptions::new().len(length).map_raw(file)?,
            chunk_count: count,
            descs,
            ready,
            free,
            chunks,
        };
        let header = memory.header();
        header.version.store(VERSION, Relaxed);
        header.header_bytes.store(HEADER_BYTES as u32, Relaxed);
        header.total_bytes.store(total, Relaxed);
        header.chunk_count.store(count as u32, Relaxed);
        header.chunk_bytes.store(CHUNK_BYTES as u32, Relaxed);
        header.descs_offset.store(descs as u64, Relaxed);
        header.ready_offset.store(ready as u64, Relaxed);
        header.free_offset.store(free as u64, Relaxed);
        header.chunks_offset.store(chunks as u64, Relaxed);
        header.reader_pid.store(std::process::id(), Relaxed);
        header.options.store(options, Relaxed);
        for index in 0..count as u32 {
            memory.free_slot(index).store(index, Relaxed);
        }
        header.free_tail.store(count as u32, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok(memory)
    }

    /// Tells the plugin where the ring can be opened again; a path that is too long is not told,
    /// and the plugin does without.
    fn set_path(&self, path: &[u8]) {
        let field = &self.header().ring_path;
        if path.len() < field.len() {
            for (to, &byte) in field.iter().zip(path) {
                to.store(byte, Relaxed);
            }
        }
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

const fn total_bytes(count: usize) -> u64 {
    (offsets(count).3 + count * CHUNK_BYTES) as u64
}

/// A zeroed file of `bytes` without a name, that other processes can map.
fn anonymous_file(bytes: u64) -> io::Result<(OwnedFd, Option<String>)> {
    // The guest can open the ring again by way of /proc. Were it able to shrink the file, the
    // next look at the ring would be a SIGBUS here.
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let anonymous = rustix::fs::memfd_create("mcad-ring", flags).and_then(|fd| {
        rustix::fs::ftruncate(&fd, bytes)?;
        rustix::fs::fcntl_add_seals(&fd, seals)?;
        Ok(fd)
    });
    match anonymous {
        Ok(fd) => Ok((fd, None)),
        Err(error) => {
            let notice = format!(
                "no anonymous shared memory ({error}): the ring is a file in {}; it may cost speed",
                std::env::temp_dir().display()
            );
            Ok((temporary_file(bytes)?, Some(notice)))
        }
    }
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
            assert_eq!(total_bytes(count), (chunks + count * CHUNK_BYTES) as u64);
        }
        assert_eq!(chunk_count(u64::MAX), MAX_CHUNKS);
    }

    #[test]
    fn a_fresh_ring_has_every_chunk_free_and_zero() {
        let created = Memory::create(1, 0).unwrap();
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
    fn nobody_can_shrink_the_ring() {
        let created = Memory::create(1, 0).unwrap();
        let again = format!("/proc/self/fd/{}", created.fd.as_raw_fd());
        let file = std::fs::OpenOptions::new().write(true).open(again).unwrap();
        let error = file.set_len(0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(created.memory.header().magic.load(Relaxed), MAGIC);
    }

    #[test]
    fn the_fall_back_is_reserved_on_disk() {
        let bytes = total_bytes(MIN_CHUNKS);
        let file: std::fs::File = temporary_file(bytes).unwrap().into();
        let meta = file.metadata().unwrap();
        assert_eq!(meta.len(), bytes);
        assert!(meta.blocks() * 512 >= bytes);
        let memory = Memory::map(&file, MIN_CHUNKS, 0);
        drop(memory);
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
