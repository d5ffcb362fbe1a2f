//! What stays of a name from version to version.

/// A module's file name without its version: `libLLVM` of `libLLVM-14.so.1`.
pub(in crate::diff) fn family(module: &str) -> String {
    let name = module.split(".so").next().unwrap_or(module);
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-_".contains(c));
    if name.is_empty() { module } else { name }.to_owned()
}

/// The name without what compilers append to clones and parts of a function.
pub(super) fn without_clone_suffix(name: &str) -> &str {
    const SUFFIXES: &[&str] = &[
        ".constprop",
        ".isra",
        ".part",
        ".cold",
        ".lto_priv",
        ".llvm",
        ".localalias",
        ".warm",
        " [clone ",
    ];
    let cut = SUFFIXES.iter().filter_map(|suffix| name.find(suffix)).min();
    match cut {
        Some(cut) if cut > 0 => &name[..cut],
        _ => name,
    }
}

/// A C++ function's name without its parameters and what follows them: `a::f` of `a::f(int) const`.
/// Names that have no parameters stay as they are.
pub(super) fn without_parameters(name: &str) -> &str {
    let mut depth = 0_u32;
    let Some(end) = name.rfind(')') else {
        return name;
    };
    // From the end, since names may have parentheses before: `(anonymous namespace)::f(int)`.
    for (at, c) in name[..=end].char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { name } else { &name[..at] };
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_of_two_versions_are_one_family() {
        for (a, b) in [
            ("libLLVM-14.so.1", "libLLVM.so.19.1"),
            ("libstdc++.so.6.0.30", "libstdc++.so.6"),
            ("clang-14", "clang-19"),
        ] {
            assert_eq!(family(a), family(b));
        }
        assert_ne!(family("libc.so.6"), family("libm.so.6"));
        assert_eq!(family("7z"), "7z");
        assert_eq!(family("123"), "123");
    }

    #[test]
    fn clones_lose_their_suffix() {
        for name in [
            "f.constprop.0",
            "f.part.3.cold",
            "f [clone .isra.0]",
            "f.llvm.123",
        ] {
            assert_eq!(without_clone_suffix(name), "f");
        }
        assert_eq!(without_clone_suffix("a::b<c>"), "a::b<c>");
    }

    #[test]
    fn parameters_are_cut_off_and_other_parentheses_are_not() {
        for (name, bare) in [
            ("a::f(int, b<c>(*)(d)) const", "a::f"),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            ("main", "main"),
            ("(anonymous namespace)", "(anonymous namespace)"),
            ("operator()(int)", "operator()"),
            ("broken)", "broken)"),
            (")(", ")("),
        ] {
            assert_eq!(without_parameters(name), bare);
        }
    }
}
