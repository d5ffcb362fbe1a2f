//! Finds the program to trace the way a shell and the kernel would: `PATH`, permissions, `#!`.
//!
//! The emulator takes an ELF file, so a script's interpreter is resolved here. Exit statuses are
//! the shell's: 127 for a program that does not exist, 126 for one that cannot be run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use mcad_proto::event::Arch;

/// Scripts whose interpreters are scripts: the kernel's own limit is 5.
const MAX_INTERPRETERS: usize = 5;
/// Bytes of a file that decide what it is; as many as the kernel reads.
const HEAD_BYTES: u64 = 256;

/// What the emulator is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// The ELF file.
    pub file: PathBuf,
    /// Its instruction set.
    pub arch: Arch,
    /// `argv[0]` for it.
    pub name: OsString,
    /// The arguments after `argv[0]`: an interpreter's own come before the script.
    pub arguments: Vec<OsString>,
}

/// A program that cannot be traced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutableError {
    /// No command at all.
    #[error("no command given")]
    Empty,
    /// Nothing of this name.
    #[error("{}: command not found", .0.display())]
    NotFound(PathBuf),
    /// It exists but the system refuses to run or read it.
    #[error("{}: {}", .0.display(), .1)]
    NotExecutable(PathBuf, String),
    /// It may run, but not under an emulator that can trace it.
    #[error(
        "{}: {}; 64-bit programs for x86-64, AArch64 and RISC-V, 32-bit ones for RISC-V, and scripts, can be traced",
        .0.display(), .1
    )]
    Foreign(PathBuf, String),
}

impl Executable {
    /// Whether the system would run it with other rights than the caller's.
    #[must_use]
    pub fn sets_id(&self) -> bool {
        const SET_ID: u32 = 0o6000;
        std::fs::metadata(&self.file).is_ok_and(|about| about.mode() & SET_ID != 0)
    }
}

impl ExecutableError {
    /// The exit status that a shell would give.
    #[must_use]
    pub const fn exit_status(&self) -> i32 {
        match self {
            Self::NotFound(..) => 127,
            Self::Empty | Self::NotExecutable(..) | Self::Foreign(..) => 126,
        }
    }
}

/// Where programs are looked for: `$PATH`, or where systems have them when it is not set.
#[must_use]
pub fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// Resolves a command, its program first, with `$PATH` as it is.
///
/// # Errors
/// [`ExecutableError`].
pub fn resolve<S: AsRef<OsStr>>(command: &[S]) -> Result<Executable, ExecutableError> {
    resolve_in(command, &search_path())
}

/// Resolves a command with the given search path.
///
/// # Errors
/// [`ExecutableError`].
pub fn resolve_in<S: AsRef<OsStr>>(
    command: &[S],
    search: &OsStr,
) -> Result<Executable, ExecutableError> {
    let (name, arguments) = command.split_first().ok_or(ExecutableError::Empty)?;
    let mut program = Executable {
        file: look_up(name.as_ref(), search)?,
        arch: Arch::X86_64,
        name: name.as_ref().to_owned(),
        arguments: arguments.iter().map(|a| a.as_ref().to_owned()).collect(),
    };
    for _ in 0..MAX_INTERPRETERS {
        let head = executable_head(&program.file)?;
        let Some(line) = head.strip_prefix(b"#!") else {
            program.arch = check_elf(&program.file, &head)?;
            return Ok(program);
        };
        let (interpreter, argument) = parse_shebang(line).ok_or_else(|| {
            ExecutableError::NotExecutable(
                program.file.clone(),
                "names no interpreter after #!".into(),
            )
        })?;
        let script = std::mem::replace(&mut program.file, PathBuf::from(&interpreter));
        program.name = interpreter;
        let before = argument.into_iter().chain([script.into_os_string()]);
        program.arguments.splice(0..0, before);
    }
    Err(ExecutableError::NotExecutable(
        program.file,
        "too many levels of interpreters".into(),
    ))
}

/// A name with a slash is a path; others are searched, the first that can be executed wins.
fn look_up(name: &OsStr, search: &OsStr) -> Result<PathBuf, ExecutableError> {
    if name.is_empty() {
        return Err(ExecutableError::NotFound(PathBuf::new()));
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let mut refused = None;
    for directory in std::env::split_paths(search) {
        // An empty entry is the current directory.
        let candidate = Path::new(".").join(directory).join(name);
        let candidate = candidate
            .strip_prefix("./")
            .ok()
            .filter(|rest| rest.as_os_str().as_bytes().contains(&b'/'))
            .map_or(candidate.clone(), Path::to_path_buf);
        match runnable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error @ ExecutableError::NotExecutable(..)) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| ExecutableError::NotFound(name.into())))
}

fn runnable(file: &Path) -> Result<(), ExecutableError> {
    let refuse = |why: String| ExecutableError::NotExecutable(file.to_owned(), why);
    let meta = std::fs::metadata(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ExecutableError::NotFound(file.to_owned()),
        _ => refuse(error.to_string()),
    })?;
    if meta.is_dir() {
        return Err(refuse("is a directory".into()));
    }
    if !meta.is_file() || meta.file_type().is_fifo() {
        return Err(refuse("is not a regular file".into()));
    }
    let executable = rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok();
    if !executable || meta.mode() & 0o111 == 0 {
        return Err(refuse("permission denied (not executable)".into()));
    }
    Ok(())
}

fn executable_head(file: &Path) -> Result<Vec<u8>, ExecutableError> {
    runnable(file)?;
    let mut head = Vec::new();
    File::open(file)
        .and_then(|f| f.take(HEAD_BYTES).read_to_end(&mut head))
        .map_err(|error| {
            ExecutableError::NotExecutable(
                file.to_owned(),
                format!("cannot be read, which the emulator must ({error})"),
            )
        })?;
    Ok(head)
}

/// The interpreter and its one optional argument, as the kernel splits them.
fn parse_shebang(line: &[u8]) -> Option<(OsString, Option<OsString>)> {
    let line = line.split(|&b| b == b'\n').next()?.trim_ascii();
    let end = line
        .iter()
        .position(|b| matches!(b, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, rest) = line.split_at(end);
    let rest = rest.trim_ascii();
    let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    (!interpreter.is_empty()).then(|| (os(interpreter), (!rest.is_empty()).then(|| os(rest))))
}

/// Offsets and values: System V ABI, ELF header.
fn check_elf(file: &Path, head: &[u8]) -> Result<Arch, ExecutableError> {
    const EM_X86_64: u16 = 62;
    const EM_AARCH64: u16 = 183;
    const EM_RISCV: u16 = 243;
    const ET_EXEC: u16 = 2;
    const ET_DYN: u16 = 3;
    let foreign = |what: String| Err(ExecutableError::Foreign(file.to_owned(), what));
    let half = |at: usize| {
        head.get(at..at + 2)
            .map_or(0, |b| u16::from_le_bytes([b[0], b[1]]))
    };
    if !head.starts_with(b"\x7fELF") {
        return foreign("neither an ELF file nor a script with a #! line".into());
    }
    if head.len() < 64 {
        return foreign("a truncated ELF file".into());
    }
    let class = match head[4] {
        1 => "32-bit",
        _ => "64-bit",
    };
    let big_endian = head[5] == 2;
    let arch = match half(18) {
        EM_X86_64 => Some(Arch::X86_64),
        EM_AARCH64 => Some(Arch::AArch64),
        EM_RISCV if head[4] == 1 => Some(Arch::RiscV32),
        EM_RISCV => Some(Arch::RiscV64),
        _ => None,
    };
    let usable = |arch: &Arch| (head[4] == 2 || *arch == Arch::RiscV32) && !big_endian;
    let Some(arch) = arch.filter(usable) else {
        let machine = match (big_endian, half(18)) {
            (false, 3) => "x86".to_owned(),
            (false, EM_X86_64) => "x86-64 with 32-bit pointers".to_owned(),
            (false, 40) => "ARM".to_owned(),
            (false, EM_AARCH64) => "AArch64".to_owned(),
            (false, EM_RISCV) => "RISC-V".to_owned(),
            (_, other) => format!(
                "machine {}",
                if big_endian {
                    other.swap_bytes()
                } else {
                    other
                }
            ),
        };
        return foreign(format!("a {class} program for {machine}"));
    };
    if !matches!(half(16), ET_EXEC | ET_DYN) {
        return foreign("an ELF file, but no program (an object file or core dump)".into());
    }
    Ok(arch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, content: &[u8], mode: u32) {
        std::fs::write(path, content).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn elf(class: u8, machine: u16, kind: u16) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        head[16..18].copy_from_slice(&kind.to_le_bytes());
        head[18..20].copy_from_slice(&machine.to_le_bytes());
        head
    }

    #[test]
    fn path_search_skips_what_cannot_run() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(&a.path().join("tool"), &elf(2, 62, 3), 0o644);
        write(&b.path().join("tool"), &elf(2, 62, 3), 0o755);
        let path = std::env::join_paths([a.path(), b.path()]).unwrap();
        let found = resolve_in(&["tool", "-x"], &path).unwrap();
        assert_eq!(found.file, b.path().join("tool"));
        assert_eq!(found.name, "tool");
        assert_eq!(found.arguments, ["-x"]);
        let error = resolve_in(&["tool"], a.path().as_os_str()).unwrap_err();
        assert_eq!(error.exit_status(), 126);
        let error = resolve_in(&["no-such-tool"], &path).unwrap_err();
        assert_eq!(error.exit_status(), 127);
        assert_eq!(error.to_string(), "no-such-tool: command not found");
    }

    #[test]
    fn scripts_run_their_interpreter() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write(&at("interp"), &elf(2, 62, 2), 0o755);
        let text = format!("#! {} -a b \nrest\n", at("interp").display());
        write(&at("script"), text.as_bytes(), 0o755);
        let text = format!("#!{}\n", at("script").display());
        write(&at("outer"), text.as_bytes(), 0o755);
        let found = resolve(&[at("outer").as_os_str(), OsStr::new("arg")]).unwrap();
        assert_eq!(found.file, at("interp"));
        assert_eq!(found.name, at("interp").as_os_str());
        let expected: Vec<OsString> = vec![
            "-a b".into(),
            at("script").into(),
            at("outer").into(),
            "arg".into(),
        ];
        assert_eq!(found.arguments, expected);
    }

    #[test]
    fn the_header_says_which_instruction_set() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let machines = [
            (2, 62, Arch::X86_64),
            (2, 183, Arch::AArch64),
            (2, 243, Arch::RiscV64),
            (1, 243, Arch::RiscV32),
        ];
        for (class, machine, arch) in machines {
            write(&file, &elf(class, machine, 3), 0o755);
            assert_eq!(resolve(&[&file]).unwrap().arch, arch);
        }
    }

    #[test]
    fn foreign_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        let cases: [(&[u8], &str); 6] = [
            (&elf(1, 3, 2), "a 32-bit program for x86;"),
            (&elf(1, 40, 3), "a 32-bit program for ARM;"),
            (&elf(1, 62, 2), "32-bit pointers"),
            (&elf(2, 62, 1), "no program"),
            (b"\x7fELF", "truncated"),
            (b"echo hi\n", "neither"),
        ];
        for (content, expected) in cases {
            write(&file, content, 0o755);
            let error = resolve(&[&file]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.exit_status(), 126);
        }
        write(&file, b"#!\n", 0o755);
        assert_eq!(resolve(&[&file]).unwrap_err().exit_status(), 126);
        let text = format!("#!{}\n", file.display());
        write(&file, text.as_bytes(), 0o755);
        let error = resolve(&[&file]).unwrap_err();
        assert!(error.to_string().contains("too many levels"), "{error}");
        write(&file, b"#!/no/such/interpreter\n", 0o755);
        let error = resolve(&[&file]).unwrap_err();
        assert!(
            error.to_string().contains("/no/such/interpreter"),
            "{error}"
        );
        let error = resolve(&[dir.path()]).unwrap_err();
        assert!(error.to_string().contains("is a directory"), "{error}");
    }
}
