//! Suggestions for misspelt names.

/// Returns the candidate closest to `name`, if one is close enough for a suggestion.
///
/// The distance is Damerau-Levenshtein over bytes as `strsim` defines it. A candidate is close
/// enough within a third of the longer length, and within one edit in any case, unless nothing is
/// left of the name. Capitals do not count. Names longer than 64 bytes get no suggestion.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    if name.len() > 64 {
        return None;
    }
    let folded = name.to_ascii_lowercase();
    let close = |c: &'a str| {
        let length = name.len().max(c.len());
        let limit = (length / 3).max(1).min(length.saturating_sub(1));
        // Each edit changes the length by one at most.
        if name.len().abs_diff(c.len()) > limit {
            return None;
        }
        let distance = strsim::damerau_levenshtein(&folded, &c.to_ascii_lowercase());
        (distance <= limit).then_some((distance, c))
    };
    candidates.into_iter().filter_map(close).min().map(|(_, c)| c.to_owned())
}

/// Returns the question whether the nearest name was meant, if one is near enough.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(name, candidates).map(|close| format!("did you mean '{close}'?"))
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
        assert_eq!(nearest("q", ["w"]), None);
        assert_eq!(nearest("ReLU", ops).as_deref(), Some("relu"));
    }
}
