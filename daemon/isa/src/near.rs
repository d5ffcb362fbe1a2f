//! Names that are near one that does not exist: what was meant, perhaps.

/// Most names that are proposed.
const PROPOSED: usize = 3;

/// Least likeness of a proposal (Jaro and Winkler's, 0 to 1): one wrong letter in four.
const ALIKE: f64 = 0.85;

/// The names that look most like `name`, the likest first.
pub fn nearest<S: AsRef<str>>(name: &str, names: impl IntoIterator<Item = S>) -> Vec<String> {
    let mut near: Vec<(f64, String)> = Vec::new();
    for other in names {
        let other = other.as_ref();
        let alike = strsim::jaro_winkler(name, other);
        if alike >= ALIKE && !near.iter().any(|(_, known)| known == other) {
            near.push((alike, other.to_owned()));
            // In the order of names where they are as near: the same every time.
            near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
            near.truncate(PROPOSED);
        }
    }
    near.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likest_names_come_first_and_others_not_at_all() {
        let names = ["compress", "compressBound", "inflate", "compres2", "main"];
        assert_eq!(
            nearest("compres", names),
            ["compres2", "compress", "compressBound"]
        );
        assert_eq!(nearest("deflat", names), Vec::<String>::new());
    }
}
