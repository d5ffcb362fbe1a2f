//! Linker names to source names: Rust and the Itanium C++ ABI; anything else stays as it is.

/// The name for people.
pub(super) fn demangle(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash, which changes from build to build.
        return format!("{rust:#}");
    }
    if name.starts_with("_Z") {
        let demangled = cpp_demangle::Symbol::new(name)
            .ok()
            .and_then(|symbol| symbol.demangle().ok());
        if let Some(demangled) = demangled {
            return demangled;
        }
    }
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::demangle;

    #[test]
    fn each_language_by_its_own_rules() {
        assert_eq!(demangle("main"), "main");
        assert_eq!(demangle("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(
            demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangle("_Zbroken"), "_Zbroken");
    }
}
