//! Where an output goes: opened before a long run, and put in place when it is whole.
//!
//! A file is written beside its place under a name of its own and takes the place at the end, so a
//! full disk or a crash leaves what was there before. That name is there while the output is written,
//! and not while it is waited for: whoever is killed then leaves nothing. What is no regular file (a pipe, a device, a
//! descriptor's name) is written as it is; `-` is stdout.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::NamedTempFile;

/// Mode of a new file, before the umask.
const MODE: u32 = 0o666;

/// Whether a path means stdout.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An opened output.
#[derive(Debug)]
pub(super) struct Destination {
    /// As the user named it.
    name: String,
    to: To,
}

#[derive(Debug)]
enum To {
    Stdout,
    /// Written in place.
    Direct(File),
    /// Written to a new file that is moved to the path when it is whole.
    Beside(PathBuf),
}

impl Destination {
    /// Opens an output; what is there stays as it is until [`Destination::write`].
    ///
    /// # Errors
    /// Names the output and what the system says.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        if is_stdout(path) {
            return Ok(Self {
                name: "stdout".to_owned(),
                to: To::Stdout,
            });
        }
        let to = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            name: path.display().to_string(),
            to,
        })
    }

    /// Whether it is a terminal of which the layout may make use.
    pub(super) const fn is_stdout(&self) -> bool {
        matches!(self.to, To::Stdout)
    }

    /// Writes all of the output, once.
    ///
    /// # Errors
    /// What went wrong, and that the old content is still there.
    pub(super) fn write<E: Into<anyhow::Error>>(
        self,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> anyhow::Result<()> {
        let cannot = format!("cannot write {}", self.name);
        match self.to {
            To::Stdout => into(&mut io::stdout().lock(), write).context(cannot),
            To::Direct(mut file) => {
                // What is no regular file has no length to cut.
                let _ = file.set_len(0);
                into(&mut file, write).context(cannot)
            }
            To::Beside(path) => {
                let before = fs::metadata(&path).ok();
                beside(&path)
                    .map_err(anyhow::Error::from)
                    .and_then(|mut file| {
                        if let Some(before) = &before {
                            file.as_file().set_permissions(before.permissions())?;
                        }
                        into(file.as_file_mut(), write)?;
                        file.persist(&path).map_err(|e| e.error)?;
                        Ok(())
                    })
                    .with_context(|| match before {
                        Some(_) => format!("{cannot}, which is as it was before"),
                        None => cannot,
                    })
            }
        }
    }
}

fn into<E: Into<anyhow::Error>>(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    write(&mut out).map_err(Into::into)?;
    Ok(out.flush()?)
}

fn open(path: &Path) -> io::Result<To> {
    // A link stays one: what it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let before = match fs::metadata(&path) {
        Ok(about) if !about.is_file() => {
            return OpenOptions::new().write(true).open(&path).map(To::Direct);
        }
        Ok(about) => {
            // Whether it may be written is its own permission, not its directory's.
            OpenOptions::new().write(true).open(&path)?;
            Some(about)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // Whether there can be one later.
    match (beside(&path), before) {
        // Of someone else's file only the content is ours to change, and a name that is one of
        // several stays one of them.
        (Ok(file), Some(about)) if about.nlink() > 1 || !is_own(&about, file.as_file()) => {
            in_place(&path)
        }
        (Ok(_), _) => Ok(To::Beside(path)),
        // No new name may be made here.
        (Err(_), Some(_)) => in_place(&path),
        (Err(error), None) => Err(error),
    }
}

/// A new file in the same directory.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Told of the directory itself, not of a name of ours in it.
    fs::metadata(directory)?;
    let mut options = tempfile::Builder::new();
    options
        .prefix(".mcad-")
        .permissions(fs::Permissions::from_mode(MODE));
    options.tempfile_in(directory).map_err(|error| {
        // What the system says, without the name of our own that follows it.
        let text = error.to_string();
        let system = text.split(" at path ").next().unwrap_or(&text).to_owned();
        io::Error::new(error.kind(), system)
    })
}

fn in_place(path: &Path) -> io::Result<To> {
    let mut options = OpenOptions::new();
    options.write(true).open(path).map(To::Direct)
}

fn is_own(about: &fs::Metadata, file: &File) -> bool {
    file.metadata()
        .is_ok_and(|own| own.uid() == about.uid() && own.gid() == about.gid())
}

/// Refuses outputs that would be written over each other.
///
/// # Errors
/// Names the output that occurs twice.
pub(super) fn all_different<'a>(paths: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        let same = identity(path);
        // Whatever is written to a device goes nowhere else.
        let device = fs::metadata(path).is_ok_and(|about| !about.is_file());
        if seen.contains(&same) && !device {
            let name = match is_stdout(path) {
                true => "stdout".to_owned(),
                false => path.display().to_string(),
            };
            bail!("{name} is given for two outputs; give each a file of its own");
        }
        seen.push(same);
    }
    Ok(())
}

/// A name for what a path leads to.
fn identity(path: &Path) -> PathBuf {
    if is_stdout(path) {
        return path.to_owned();
    }
    fs::canonicalize(path).unwrap_or_else(|_| {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).unwrap_or_default();
        parent.join(path.file_name().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report");
        let link = directory.path().join("link");
        let names = || fs::read_dir(directory.path()).unwrap().count();
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("report", &link).unwrap();
        let failed = Destination::open(&link).unwrap().write(|out| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        let message = format!("{:#}", failed.unwrap_err());
        assert!(message.contains("as it was before"), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let whole = Destination::open(&link).unwrap();
        assert_eq!(names(), 2, "waiting");
        whole.write(|out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(link.is_symlink());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(names(), 2);
    }

    #[test]
    fn devices_are_written_as_they_are_and_missing_directories_told() {
        let full = Destination::open(Path::new("/dev/full")).unwrap();
        let error = full.write(|out| out.write_all(b"x")).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        let error = Destination::open(Path::new("/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }

    #[test]
    fn one_place_for_two_outputs_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (directory.path().join("a"), directory.path().join("b"));
        let around = directory.path().join(".").join("a");
        assert!(all_different([a.as_path(), &b]).is_ok());
        assert!(all_different([a.as_path(), &b, &around]).is_err());
        let twice = |name: &'static str| all_different([Path::new(name), Path::new(name)]);
        assert!(twice("-").is_err());
        assert!(twice("/dev/null").is_ok());
    }
}
