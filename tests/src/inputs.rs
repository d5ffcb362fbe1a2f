//! Programs and inputs that the tests run and make.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The file of a tool, or a failed test with the way out.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found
        .into_iter()
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is missing: run `cargo xtask setup --tests` first"))
}

/// Bytes that compress somewhat: words in no order, the same every time.
#[must_use]
pub fn text(bytes: usize) -> Vec<u8> {
    let words = [
        "cycle", "port", "retire", "queue", "fetch", "decode", "the", "of",
    ];
    let mut text = Vec::with_capacity(bytes + 16);
    // The generator of Numerical Recipes; only its upper bits are used.
    let mut state = 1_u32;
    while text.len() < bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        text.push(if state & 0x70_0000 == 0 { b'\n' } else { b' ' });
    }
    text.truncate(bytes);
    text
}

/// A short clip of a test picture.
#[must_use]
pub fn clip(directory: &Path) -> PathBuf {
    let clip = directory.join("clip.mp4");
    let made = Command::new(tool("ffmpeg"))
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc=duration=0.4:size=160x120:rate=10",
        ])
        .args(["-c:v", "mpeg4", "-threads", "1", "-y"])
        .arg(&clip)
        .status()
        .unwrap();
    assert!(made.success(), "ffmpeg makes no clip");
    clip
}

/// Compiles a C program with debug information.
#[must_use]
pub fn compile(directory: &Path, name: &str, source: &str) -> PathBuf {
    let file = directory.join(format!("{name}.c"));
    std::fs::write(&file, source).unwrap();
    let program = directory.join(name);
    let built = Command::new("cc")
        .args(["-g", "-O1", "-o"])
        .arg(&program)
        .arg(&file)
        .status();
    assert!(
        built.is_ok_and(|status| status.success()),
        "{name}.c does not build: is there a C compiler (apt-get install gcc)?"
    );
    program
}

/// Compiles a C program for another instruction set, by a cross compiler with these options.
pub fn cross_compile(compiler: &str, options: &[&str], source: &Path, program: &Path) {
    let built = Command::new(compiler)
        .args(options)
        .args([Path::new("-o"), program, source])
        .status()
        .unwrap_or_else(|e| panic!("{compiler}: {e} (`cargo xtask setup --tests` installs it)"));
    assert!(built.success(), "{} does not build", source.display());
}

/// A command that works until `directory` has no file `go` any more, which this makes: it ends
/// when the test removes the file, or the directory.
#[must_use]
pub fn busy(directory: &Path) -> [String; 3] {
    let go = directory.join("go");
    std::fs::write(&go, "").unwrap();
    let work = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";
    let script = format!(
        "echo started; while [ -e {} ]; do {work}; done; exit 6",
        go.display()
    );
    ["sh".to_owned(), "-c".to_owned(), script]
}

/// The Python interpreter itself: what `PATH` has may be a version manager's script.
#[must_use]
pub fn python() -> String {
    let asked = Command::new(tool("python3"))
        .args(["-c", "import sys; print(sys.executable)"])
        .output()
        .unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

/// Writes a script that can be executed. Another process does it: a descriptor open for writing
/// here would be inherited by whatever other tests fork at that moment, and the file could not be
/// executed as long as they have it.
pub fn script(path: &Path, text: &str) {
    let written = Command::new("sh")
        .args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text)
        .status();
    assert!(written.is_ok_and(|status| status.success()), "{path:?}");
}
