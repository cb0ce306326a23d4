//! Parses PyTorch's schemas of ops, such as `aten::add.Tensor(Tensor self, Tensor other, *, Scalar
//! alpha=1) -> Tensor`.
//!
//! Source: <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md>.

/// An op's name and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    /// With namespace and overload, as in `aten::add.Tensor`.
    pub(crate) name: String,
    pub(crate) params: Vec<Param>,
    /// Whether the op writes one of its operands, as in `Tensor(a!) self`.
    pub(crate) writes: bool,
}

/// A parameter of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) ty: Ty,
    /// The text of the default.
    pub(crate) default: Option<String>,
    /// Whether results are written to the argument: a tensor that the op changes and that is given
    /// by name only, such as `out`.
    pub(crate) out: bool,
}

/// The type of a parameter, as far as it determines the conversion of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ty {
    Tensor,
    Tensors,
    Int,
    Ints,
    Float,
    Floats,
    Bool,
    Bools,
    /// A number of any kind.
    Scalar,
    Scalars,
    Str,
    DType,
    MemoryFormat,
    /// A device, a layout, or an object whose value the trace does not record.
    Other,
}

impl Signature {
    /// Returns the name without namespace and overload.
    pub(crate) fn base(&self) -> &str {
        let name = self.name.split_once("::").map_or(&*self.name, |(_, name)| name);
        name.split_once('.').map_or(name, |(base, _)| base)
    }

    pub(crate) fn parse(text: &str) -> Option<Signature> {
        let (name, rest) = text.split_once('(')?;
        let params = &rest[..closing(rest)?];
        let (mut list, mut by_name) = (Vec::new(), false);
        for part in split(params) {
            let part = part.trim();
            by_name |= part == "*";
            if part != "*" && !part.is_empty() {
                let param = param(part)?;
                list.push(Param { out: by_name && part.contains("!)"), ..param });
            }
        }
        let writes = params.contains("!)");
        Some(Signature { name: name.trim().to_owned(), params: list, writes })
    }
}

/// Returns whether each argument is written, as in `Tensor(a!) self`, by the text of a schema.
pub(crate) fn written(text: &str) -> Vec<bool> {
    let params = text.split_once('(').and_then(|(_, rest)| rest.get(..closing(rest)?));
    let parts = split(params.unwrap_or_default()).into_iter().map(str::trim);
    parts.filter(|part| *part != "*" && !part.is_empty()).map(|part| part.contains("!)")).collect()
}

/// Returns the number of results, by the text of a schema; a list counts as one.
pub(crate) fn results(text: &str) -> usize {
    let Some((_, results)) = text.rsplit_once("->") else { return 0 };
    let results = results.trim();
    let inner = results.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(results);
    split(inner).iter().filter(|part| !part.trim().is_empty()).count()
}

/// Returns the characters of a text outside of brackets and strings, each with whether it closes a
/// bracket before the text, which is the last one.
fn outside(text: &str) -> impl Iterator<Item = (usize, char, bool)> {
    let (mut depth, mut quoted) = (0, false);
    text.char_indices().filter_map(move |(at, c)| {
        match c {
            _ if depth < 0 => return None,
            '"' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        (depth <= 0 && !quoted).then_some((at, c, depth < 0))
    })
}

/// Returns the offset of the bracket that closes the one before the text.
fn closing(text: &str) -> Option<usize> {
    outside(text).find(|(.., closes)| *closes).map(|(at, ..)| at)
}

/// Splits a text at the commas outside of brackets and strings.
pub(super) fn split(text: &str) -> Vec<&str> {
    let commas = outside(text).filter(|(_, c, _)| *c == ',').map(|(at, ..)| at);
    let mut from = 0;
    let part = |end: usize| &text[std::mem::replace(&mut from, end + 1)..end];
    commas.chain([text.len()]).map(part).collect()
}

fn param(text: &str) -> Option<Param> {
    let default_from = outside(text).find(|(_, c, _)| *c == '=').map(|(at, ..)| at);
    let declared = &text[..default_from.unwrap_or(text.len())];
    // The name begins after the last space outside of brackets.
    let name_from = outside(declared).filter(|(_, c, _)| *c == ' ').last()?.0 + 1;
    let name = declared[name_from..].trim().to_owned();
    let default = default_from.map(|at| text[at + 1..].trim().to_owned());
    Some(Param { name, ty: ty(text[..name_from].trim()), default, out: false })
}

fn ty(text: &str) -> Ty {
    let text = text.strip_suffix('?').unwrap_or(text);
    // `Tensor(a!)`, `Tensor(a!)[]`, `Tensor?[]`, `int[2]`.
    let word = text.split(['(', '[', '?']).next().unwrap_or_default();
    let list = text.ends_with(']');
    match (word, list) {
        ("Tensor", false) => Ty::Tensor,
        ("Tensor", true) => Ty::Tensors,
        ("int" | "SymInt", false) => Ty::Int,
        ("int" | "SymInt", true) => Ty::Ints,
        ("float", false) => Ty::Float,
        ("float", true) => Ty::Floats,
        ("bool", false) => Ty::Bool,
        ("bool", true) => Ty::Bools,
        ("Scalar", false) => Ty::Scalar,
        ("Scalar", true) => Ty::Scalars,
        ("str", false) => Ty::Str,
        ("ScalarType", false) => Ty::DType,
        ("MemoryFormat", false) => Ty::MemoryFormat,
        _ => Ty::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas() {
        let read = |text: &str| Signature::parse(text).unwrap();
        let add = read("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
        assert_eq!((add.name.as_str(), add.base()), ("aten::add.Tensor", "add"));
        let names = |s: &Signature| -> Vec<(String, Ty, Option<String>)> {
            s.params.iter().map(|p| (p.name.clone(), p.ty, p.default.clone())).collect()
        };
        assert_eq!(names(&add)[2], ("alpha".to_owned(), Ty::Scalar, Some("1".to_owned())));
        let split = read(
            "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        );
        assert_eq!(names(&split)[0], ("self".to_owned(), Ty::Tensor, None));
        let pool = read(
            "aten::p(Tensor self, int[2] k, int[2] stride=[], int[2] d=[1, 1], \
             str a=\"x, y\") -> (Tensor, Tensor)",
        );
        assert_eq!(names(&pool)[2], ("stride".to_owned(), Ty::Ints, Some("[]".to_owned())));
        assert_eq!(names(&pool)[4], ("a".to_owned(), Ty::Str, Some("\"x, y\"".to_owned())));
        let index = read(
            "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, \
             bool[3]? m=None) -> Tensor(a!)",
        );
        let types: Vec<Ty> = index.params.iter().map(|p| p.ty).collect();
        assert_eq!(types, [Ty::Tensor, Ty::Tensors, Ty::Tensor, Ty::Bools]);
        assert!(index.writes && !add.writes && index.params.iter().all(|p| !p.out));
        let sort = read(
            "aten::sort.values(Tensor self, int dim=-1, *, Tensor(a!) values, Tensor(b!) \
             indices) -> (Tensor(a!) values, Tensor(b!) indices)",
        );
        let outs: Vec<bool> = sort.params.iter().map(|p| p.out).collect();
        assert_eq!(outs, [false, false, true, true]);
        assert_eq!(Signature::parse("aten::add"), None);
        assert_eq!(Signature::parse("aten::add(Tensor self"), None);
        assert!(read("aten::empty() -> Tensor").params.is_empty());
    }
}
