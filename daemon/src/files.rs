//! Opening files whose names or content come from others, and finding files without names.
//!
//! A name may lead to a pipe that nobody writes, to a device that never ends, or to a file larger
//! than memory. Nothing here waits for a writer, and what is read has a bound.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Opens a regular file; anything else is refused, and nothing is waited for.
///
/// # Errors
/// What the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // The type is looked at behind the open, so that it cannot change in between; without
    // NONBLOCK the open of a pipe waits for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "not a regular file",
    ))
}

/// A path that leads to an open file as long as it is open, also to one without a name. Temporary files
/// have none, so that nothing is left of them whatever ends the process.
#[must_use]
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// Reads a regular text file of at most `most` bytes.
///
/// # Errors
/// As [`open_regular`]; [`io::ErrorKind::FileTooLarge`] for a longer one.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = open_regular(path)?
        .take(most.saturating_add(1))
        .read_to_string(&mut text)?;
    if read as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("more than {most} bytes"),
        ));
    }
    Ok(text)
}

/// A file of which only so many bytes are read, wherever they are.
pub struct Rationed {
    file: File,
    left: u64,
}

impl Rationed {
    /// Allows `bytes` of a file.
    #[must_use]
    pub const fn new(file: File, bytes: u64) -> Self {
        Self { file, left: bytes }
    }
}

impl Read for Rationed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "more of the file is asked for than is read of one",
            ));
        }
        let length = buffer.len().min(most);
        let read = self.file.read(&mut buffer[..length])?;
        self.left -= read as u64;
        Ok(read)
    }
}

impl Seek for Rationed {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_so_much_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        for path in [&*pipe, directory.path(), "/dev/zero".as_ref()] {
            let error = open_regular(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
        let file = directory.path().join("file");
        std::fs::write(&file, "four").unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "four");
        let error = read_text(&file, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);

        let mut rationed = Rationed::new(File::open(&file).unwrap(), 5);
        let mut buffer = [0; 4];
        rationed.read_exact(&mut buffer).unwrap();
        rationed.rewind().unwrap();
        assert!(rationed.read_exact(&mut buffer).is_err());
    }
}
