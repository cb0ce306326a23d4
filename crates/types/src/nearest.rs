//! The nearest name to a misspelt one.

/// The candidate closest to `name`, if one is close enough to be what was meant.
///
/// Distance: Damerau-Levenshtein over bytes as `strsim` defines it, at most a third of the
/// longer length and at least one edit allowed. Names past 64 bytes are never misspellings.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if name.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .filter(|(distance, c)| *distance <= (name.len().max(c.len()) / 3).max(1))
        .min()
        .map(|(_, c)| c.to_owned())
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_a_misspelling_and_nothing_else() {
        let ops = ["relu", "matmul", "add"];
        assert_eq!(nearest("reul", ops).as_deref(), Some("relu"));
        assert_eq!(nearest("matmull", ops).as_deref(), Some("matmul"));
        assert_eq!(nearest("convolution", ops), None);
    }
}
