//! Lines to stderr that end nothing when nobody can read them: a full disk behind `2>`, or a
//! terminal that was closed. The standard library's macros panic then.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to stderr, if that can be done.
pub fn line(text: Arguments<'_>) {
    let mut stderr = std::io::stderr().lock();
    // There is nowhere to tell that telling failed.
    let _ = writeln!(stderr, "{text}");
}

/// As `eprintln!`, without its panic.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::say::line(format_args!($($text)*))
    };
}
