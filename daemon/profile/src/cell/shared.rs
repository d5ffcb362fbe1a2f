//! Memory that the profiler shares with a cell.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

use memmap2::{MmapMut, MmapOptions};

/// An anonymous file, mapped here for reading and writing.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) file: File,
    map: MmapMut,
}

/// `MFD_EXEC` of Linux 6.3, which systems may ask for.
const EXECUTABLE: libc::c_uint = 0x10;

impl Shared {
    pub(super) fn new(name: &CStr, bytes: u64) -> io::Result<Self> {
        let create = |flags| {
            // SAFETY: the name is a C string.
            let fd = unsafe { libc::memfd_create(name.as_ptr(), flags) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor is new and nobody else's.
            Ok(unsafe { File::from_raw_fd(fd) })
        };
        let file =
            create(libc::MFD_CLOEXEC | EXECUTABLE).or_else(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => create(libc::MFD_CLOEXEC),
                _ => Err(error),
            })?;
        file.set_len(bytes)?;
        // SAFETY: only the cell maps it too, and it stands still whenever this is read or written.
        let map = unsafe { MmapOptions::new().len(bytes as usize).map_mut(&file)? };
        Ok(Self { file, map })
    }

    /// Writes at an offset; what does not fit is an error.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = usize::try_from(offset)
            .ok()
            .and_then(|at| self.map.get_mut(at..at.checked_add(bytes.len())?))
            .ok_or_else(|| io::Error::other("shared memory is too small"))?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// The number at an offset; zero behind the end.
    pub(super) fn read(&self, offset: u64) -> u64 {
        let mut number = [0; 8];
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|at| self.map.get(at..at.checked_add(8)?));
        if let Some(bytes) = bytes {
            number.copy_from_slice(bytes);
        }
        u64::from_le_bytes(number)
    }
}
