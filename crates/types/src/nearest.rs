//! Suggestions for misspelt names.

/// Returns the candidate closest to `name`, if one is close enough for a suggestion.
///
/// The distance is Damerau-Levenshtein over bytes as `strsim` defines it. A candidate is close
/// enough within a third of the longer length, and within one edit in any case. Names longer than
/// 64 bytes get no suggestion.
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
    fn suggests_close_names_only() {
        let ops = ["relu", "matmul", "add"];
        assert_eq!(nearest("reul", ops).as_deref(), Some("relu"));
        assert_eq!(nearest("matmull", ops).as_deref(), Some("matmul"));
        assert_eq!(nearest("convolution", ops), None);
    }
}
