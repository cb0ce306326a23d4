//! Short names of kernels.

use std::borrow::Cow;

/// The most characters of a short name.
const LONGEST: usize = 72;

/// Returns the name of a kernel without result type, namespaces and parameters, and without the end
/// of long template arguments:
/// `void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)` becomes
/// `vectorized_elementwise_kernel<4, FillFunctor<float>>`.
pub(crate) fn short(name: &str) -> Cow<'_, str> {
    if !name.contains("::") && name.len() <= LONGEST && !name.starts_with("void ") {
        return Cow::Borrowed(name);
    }
    let text = name.strip_prefix("void ").unwrap_or(name).replace("(anonymous namespace)::", "");
    let text = without_parameters(&text);
    let mut short = String::with_capacity(text.len());
    let mut word = 0;
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        if c == ':' && letters.peek() == Some(&':') {
            letters.next();
            short.truncate(word);
            continue;
        }
        short.push(c);
        if !c.is_alphanumeric() && c != '_' {
            word = short.len();
        }
    }
    let short = short.replace("> >", ">>");
    match short.char_indices().nth(LONGEST) {
        Some((at, _)) => Cow::Owned(format!("{}…", &short[..at])),
        None if short.is_empty() => Cow::Borrowed(name),
        None => Cow::Owned(short),
    }
}

/// Returns a name up to the parenthesis outside of template arguments.
fn without_parameters(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 && at > 0 && text.contains("::") => return &text[..at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn kernels_have_short_names() {
        let long = "void at::native::vectorized_elementwise_kernel<4, \
                    at::native::FillFunctor<c10::Half>, at::detail::Array<char*, 1> >(int, \
                    at::native::FillFunctor<c10::Half>, at::detail::Array<char*, 1>)";
        let expected = "vectorized_elementwise_kernel<4, FillFunctor<Half>, Array<char*, 1>>";
        assert_eq!(short(long), expected);
        assert_eq!(short("volta_sgemm_64x64_tn"), "volta_sgemm_64x64_tn");
        assert_eq!(short("Memcpy HtoD (Pageable -> Device)"), "Memcpy HtoD (Pageable -> Device)");
        let cut = short("void a::(anonymous namespace)::b<c::d, e>(int)").into_owned();
        assert_eq!(cut, "b<d, e>");
        assert_eq!(short(&"x".repeat(90)).chars().count(), 73);
    }
}
