//! The page of all ops, generated from their schemas.
//!
//! An op's schema lists its operands and arguments. The accesses of its operands depend on the
//! call, so each schema is evaluated for every call of the reference cases
//! (`crates/kernels/tests/reference`), and the page lists all accesses that occur.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use millstream_ops::fused::{FUSED, PROGRAM};
use millstream_ops::multi_tensor::{COLUMNS, MULTI_TENSOR};
use millstream_ops::{ArgDoc, CallSpec, Op, OutputSpec, Presence, composite};
use millstream_types::{Access, AttrValue, Attrs, DType, Layout, TensorSpec};
use safetensors::SafeTensors;
use serde_json::{Value, json};

use super::families;

/// The use of tensors by an op's calls.
#[derive(Default)]
struct Use {
    /// For each operand, the accesses that occur.
    accesses: Vec<BTreeSet<&'static str>>,
    /// The kinds of results.
    results: BTreeSet<String>,
    /// The numbers of results.
    counts: BTreeSet<usize>,
    /// A call as a statement.
    example: Option<(Rank, String)>,
}

/// The use of tensors by the calls of the reference cases, for each op.
pub(super) struct Uses(BTreeMap<String, Use>);

impl Uses {
    /// Evaluates the schemas for all reference cases.
    pub(super) fn read() -> Result<Uses> {
        uses().map(Uses)
    }

    /// Returns how many results calls of an op have.
    pub(super) fn results_of(&self, op: &dyn Op) -> Result<BTreeSet<usize>> {
        match self.0.get(op.name()) {
            Some(used) => Ok(used.counts.clone()),
            None => Ok(without_cases(op)?.counts),
        }
    }
}

const HEAD: &str = "<!-- Made by `cargo xtask docs` from the schemas in crates/ops. -->

# Ops

A call names an op and gives its tensors in order and its arguments by name:
`machine.call(\"add\", &[&x, &y]).attr(\"alpha\", 2.0).on(&stream)`, or as a statement of a
[trace](trace-format.md). Most ops are methods of tensors as well ([rust.md](rust.md)). Names and
arguments are those of PyTorch's operators where PyTorch has the
op. An op whose name ends in `_` changes its first tensor in place.

*R* marks a tensor that is read, *W* one that is overwritten, *RW* one that is read and written.
*new* is a new tensor, *view of x* another view of x's memory, *x* is x itself, changed. A number
may replace a tensor if an argument has that tensor's name. Tensors with a question mark may be left
out; the argument `absent` lists, by number from 0, those that are left out before others that are
given. A starred argument is required; a *patchable* one may be a [scalar](executables.md#scalars).

A *composite* stands for a short sequence of calls of other ops, which lists, tapes and captures
then hold.
";

const TAIL: &str = "
## CUDA tensors that the host computes

The host computes linear algebra, special functions, searches, counts and hashes, segments, grids,
and the loss of alignments for CUDA tensors: the operands are copied to pinned memory, the host's
kernel runs when the stream reaches the call, and the results are copied back. No worker waits. Such
a call cannot be part of a captured CUDA graph, and is refused there.

## What is refused

A call that PyTorch accepts is refused by name, and never computed otherwise, if it needs one of the
following.

| refused | reason |
|---|---|
| complex numbers in ops that have an order or are rarely used with them: `scatter_reduce`, `unique`, embeddings, samples of grids, collectives, steps of `fused` | they are not defined for c64 and c128 here; take the parts by `view_as_real` |
| complex numbers as arguments, but for those of `fill`, `full`, `index_fill`, `masked_fill`, `constant_pad_nd` and `_unsafe_masked_index`, operands of operators, `alpha` and `beta` of `add`, `sub`, `addmm`, `addmv`, `addr`, `addbmm` and `baddbmm`, `value` of `addcmul` and `addcdiv`; c32 | other arguments are real numbers; the dtypes are c64 and c128 |
| u16, u32 and u64 in ops other than special functions, products with a fraction, and those that store, move, convert, compare, sort, hash or combine them bit by bit; beside other integers of as many dimensions | as in PyTorch, these dtypes have no arithmetic and promote with floats alone |
| sparse, nested and quantised tensors | only dense tensors have a layout here |
| custom kernels, such as those of `torch_nn`, and of `torchvision` all but `nms` and `roi_align` | a trace does not hold them; a recording with `--opaque` has their results |
| results that PyTorch leaves open: `empty`, elements after a `resize_` to more | no element of an unknown writer is read |
| LU factors without pivots | PyTorch refuses them on the CPU |
| `avg_pool3d` of integers narrower than i64 | there is no such kernel |
| `linalg.matrix_rank` with `out`, recorded with tools/record.py | PyTorch writes no result below a dispatch mode |
| the gradient of `pdist` of one row | the recording lacks an operand |
";

/// Returns the whole page.
pub(super) fn page(uses: &Uses) -> Result<String> {
    let mut page = HEAD.to_owned();
    page.push_str(&index());
    for (title, ops) in families() {
        write!(page, "\n## {title}\n\n")?;
        let of_one_call = ops.first().map(|op| without_cases(*op)).transpose().ok().flatten();
        let of_cases = ops.iter().filter_map(|op| uses.0.get(op.name()));
        if let Some(example) = of_cases.chain(&of_one_call).find_map(of_use) {
            write!(page, "{example}\n\n")?;
        }
        write!(page, "| op | uses | gives | what it does |\n|---|---|---|---|\n")?;
        for op in ops {
            let of_one_call;
            let used = match uses.0.get(op.name()) {
                Some(used) => used,
                None => {
                    of_one_call = without_cases(op)?;
                    &of_one_call
                }
            };
            let of = |set: &BTreeSet<&str>| set.iter().copied().collect::<Vec<_>>().join("/");
            let accesses = used.accesses.iter().map(of).collect::<Vec<_>>().join(" ");
            let results = used.results.iter().map(String::as_str).collect::<Vec<_>>().join(" or ");
            let what = describe(op);
            writeln!(page, "| `{}` | {accesses} | {results} | {what} |", call(op))?;
        }
    }
    page.push_str(TAIL);
    Ok(page)
}

/// Returns the families, and all ops by their first letters.
fn index() -> String {
    let link = |title: &str| {
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-'].contains(c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let mut text = "\n## Index\n\n| | |\n|---|---|\n".to_owned();
    let mut all: BTreeMap<char, BTreeMap<&str, String>> = BTreeMap::new();
    for (title, ops) in families() {
        for op in ops {
            let letter = op.name().trim_start_matches('_').chars().next().unwrap_or('_');
            all.entry(letter).or_default().insert(op.name(), link(title));
        }
    }
    for (letter, ops) in all {
        let ops: Vec<String> =
            ops.into_iter().map(|(op, family)| format!("[`{op}`](#{family})")).collect();
        let _ = writeln!(text, "| {letter} | {} |", ops.join(" "));
    }
    text
}

fn of_use(used: &Use) -> Option<&str> {
    used.example.as_ref().map(|(_, text)| text.as_str())
}

/// How good an example is: the least is the best.
type Rank = (bool, bool, bool, usize);

/// Returns a call as a statement of a trace, with what it gives; none if a reader could not take it
/// in at a glance.
fn example(
    op: &dyn Op,
    inputs: &[TensorSpec],
    attrs: &Attrs,
    given: &Value,
) -> Option<(Rank, String)> {
    let is_plain = |spec: &TensorSpec| spec.numel() > 1 && spec.layout.is_contiguous();
    let names: Vec<&str> = op.inputs().iter().map(|input| input.name).collect();
    if inputs.len() > names.len() || !inputs.iter().all(is_plain) || attrs.get("absent").is_some() {
        return None;
    }
    let given = given.as_object()?;
    if given.values().any(Value::is_object) || given.contains_key("memory_format") {
        return None;
    }
    let signature = op.check(CallSpec { inputs, attrs }).ok()?;
    let mut results: Vec<(String, String)> = Vec::new();
    let mut changed: Vec<String> = Vec::new();
    for output in &signature.outputs {
        let spec = match output {
            OutputSpec::Fresh(spec) => spec.brief(),
            OutputSpec::View { of, layout, dtype } => {
                let dtype = dtype.unwrap_or(inputs[*of].dtype);
                TensorSpec::new(dtype, layout.clone()).ok()?.brief()
            }
            OutputSpec::Same(of) => {
                changed.push(format!("`{}`", names[*of]));
                continue;
            }
            OutputSpec::Bounded(_) => return None,
        };
        let number = if results.is_empty() { String::new() } else { results.len().to_string() };
        results.push((format!("out{number}"), spec));
    }
    let list = |names: &[&str]| match names {
        [one] => format!("\"{one}\""),
        several => format!("[\"{}\"]", several.join("\", \"")),
    };
    let mut text = format!("{{ \"op\": \"{}\"", op.name());
    if !inputs.is_empty() {
        let _ = write!(text, ", \"in\": {}", list(&names[..inputs.len()]));
    }
    if !results.is_empty() {
        let names: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
        let _ = write!(text, ", \"out\": {}", list(&names));
    }
    if !given.is_empty() {
        let pairs = given.iter().map(|(name, value)| format!("\"{name}\": {value}"));
        let _ = write!(text, ", \"attrs\": {{ {} }}", pairs.collect::<Vec<_>>().join(", "));
    }
    let with = names.iter().zip(inputs).map(|(name, spec)| format!("`{name}` {}", spec.brief()));
    let with = with.collect::<Vec<_>>().join(", ");
    let gives = results.iter().map(|(name, spec)| format!("`{name}` {spec}"));
    let gives = gives.collect::<Vec<_>>().join(", ");
    let says = match (with.is_empty(), results.is_empty()) {
        (true, _) => format!("gives {gives}"),
        (false, true) if inputs.len() == 1 => format!("changes {with}"),
        (false, true) => format!("changes {} of {with}", changed.join(", ")),
        (false, false) => format!("gives {gives} for {with}"),
    };
    let is_number =
        |a: &ArgDoc| matches!(a.presence, Presence::InsteadOf(_)) && given.contains_key(a.name);
    let rank = (
        !inputs.iter().all(|spec| spec.dtype == DType::F32),
        results.is_empty() || op.attrs().iter().any(is_number),
        given.is_empty(),
        text.len(),
    );
    Some((rank, format!("| example | |\n|---|---|\n| `{text} }}` | {says} |")))
}

/// Collectives and programs have no reference cases; each schema is evaluated for one call.
fn without_cases(op: &dyn Op) -> Result<Use> {
    let inputs = vec![TensorSpec::contiguous(DType::F32, &[2])?; op.inputs().len()];
    let given = match op.name() {
        FUSED => json!({ PROGRAM: "neg(%0)" }),
        MULTI_TENSOR => json!({ PROGRAM: "neg_(%0)", COLUMNS: 1 }),
        _ => json!({}),
    };
    let mut attrs = attrs(&given)?;
    for name in ["root", "to", "from"] {
        if op.attrs().iter().any(|a| a.name == name) {
            attrs.set(name, 0);
        }
    }
    let mut used = Use { example: example(op, &inputs, &attrs, &given), ..Use::default() };
    add_call(op, &inputs, &attrs, &mut used)?;
    Ok(used)
}

/// Returns the op with its operands and arguments.
fn call(op: &dyn Op) -> String {
    let least = op.optional().unwrap_or(usize::MAX);
    let many = op.takes(op.inputs().len() + 7);
    let last = op.inputs().len().saturating_sub(1);
    let tensor = |(k, input): (usize, &ArgDoc)| {
        let mark = if k >= least { "?" } else { "" };
        let more = if many && k == last { "..." } else { "" };
        format!("{}{mark}{more}", input.name)
    };
    let tensors: Vec<String> = op.inputs().iter().enumerate().map(tensor).collect();
    let mark = |a: &ArgDoc| match a.presence {
        Presence::Required => format!("{}*", a.name),
        _ => a.name.to_owned(),
    };
    let attrs: Vec<String> = op.attrs().iter().map(mark).collect();
    match attrs.is_empty() {
        true => format!("{}({})", op.name(), tensors.join(", ")),
        false => format!("{}({}; {})", op.name(), tensors.join(", "), attrs.join(", ")),
    }
}

fn describe(op: &dyn Op) -> String {
    let is_composite = composite::find(op.name()).is_some();
    let mut text = if is_composite { "composite: " } else { "" }.to_owned() + op.summary();
    for doc in op.inputs().iter().chain(op.attrs()) {
        let mark = if doc.is_patchable { ", patchable" } else { "" };
        let _ = write!(text, "; *{}*: {}{mark}", doc.name, doc.full_doc());
    }
    text.replace('|', "\\|")
}

/// Returns the use of tensors by the calls of the reference cases, for each op.
fn uses() -> Result<BTreeMap<String, Use>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kernels/tests/reference");
    let ops = millstream_ops::standard();
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = SafeTensors::deserialize(&content)?;
        let cases: Value = serde_json::from_slice(file.tensor("cases")?.data())?;
        for case in cases["cases"].as_array().context("no cases")? {
            if case["refused"].as_bool() == Some(true) {
                continue;
            }
            let name = case["op"].as_str().context("no op")?;
            let op = ops.find(name).and_then(|id| ops.get(id)).context("an unknown op")?;
            let used = uses.entry(name.to_owned()).or_default();
            add_case(&**op, case, used).with_context(|| format!("{name} in {}", path.display()))?;
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tensor/composites.json");
    for case in serde_json::from_slice::<Vec<Value>>(&fs::read(&path)?)? {
        let name = case["op"].as_str().context("no op")?;
        let op = composite::find(name).context("an unknown composite")?;
        add_case(op, &case, uses.entry(name.to_owned()).or_default()).context(name.to_owned())?;
    }
    Ok(uses)
}

fn add_case(op: &dyn Op, case: &Value, used: &mut Use) -> Result<()> {
    let lengths = |value: &Value| -> Vec<usize> {
        value.as_array().into_iter().flatten().map(|v| v.as_u64().unwrap_or(0) as usize).collect()
    };
    let mut inputs = Vec::new();
    for input in case["inputs"].as_array().context("no inputs")? {
        let dtype = input["dtype"].as_str().context("no dtype")?.parse()?;
        let offset = input["offset"].as_u64().unwrap_or(0) as usize;
        let shape = lengths(&input["shape"]);
        let layout = match &input["strides"] {
            Value::Null => Layout::contiguous(&shape)?,
            strides => Layout::strided(&shape, &lengths(strides), offset)?,
        };
        inputs.push(TensorSpec::new(dtype, layout)?);
    }
    let attrs = attrs(&case["attrs"])?;
    let own = example(op, &inputs, &attrs, &case["attrs"]);
    if used.example.as_ref().is_none_or(|best| own.as_ref().is_some_and(|own| own < best)) {
        used.example = own.or(used.example.take());
    }
    add_call(op, &inputs, &attrs, used)
}

/// Adds the schema's result for a call.
fn add_call(op: &dyn Op, inputs: &[TensorSpec], attrs: &Attrs, used: &mut Use) -> Result<()> {
    let signature = op.check(CallSpec { inputs, attrs })?;
    let places = match op.optional() {
        Some(_) => millstream_ops::args::input_positions(attrs, op.inputs().len(), inputs.len())?,
        None => (0..inputs.len()).map(Some).collect(),
    };
    let listed = op.inputs().len().max(1);
    for (k, place) in places.iter().enumerate() {
        let Some(access) = place.and_then(|at| signature.accesses.get(at)) else { continue };
        let k = k.min(listed - 1);
        while used.accesses.len() <= k {
            used.accesses.push(BTreeSet::new());
        }
        used.accesses[k].insert(match access {
            Access::Read => "R",
            Access::Write => "W",
            Access::ReadWrite => "RW",
        });
    }
    let name = |given: usize| {
        let listed = places.iter().position(|p| *p == Some(given)).unwrap_or(given);
        op.inputs().get(listed).map_or("x", |i| i.name)
    };
    let result = |output: &OutputSpec| match output {
        OutputSpec::Fresh(_) => "new".to_owned(),
        OutputSpec::View { of, .. } => format!("view of {}", name(*of)),
        OutputSpec::Same(of) => name(*of).to_owned(),
        OutputSpec::Bounded(_) => "new, as long as the data says".to_owned(),
    };
    used.counts.insert(signature.outputs.len());
    let mut results: Vec<String> = signature.outputs.iter().map(result).collect();
    results.dedup_by(|a, b| a == b && a.starts_with("view"));
    used.results.insert(results.join(", "));
    Ok(())
}

fn attrs(given: &Value) -> Result<Attrs> {
    let mut attrs = Attrs::new();
    let number = |v: &Value| v.as_str().and_then(|t| t.parse::<f64>().ok()).context("no number");
    for (name, value) in given.as_object().context("no arguments")? {
        let value = match value {
            Value::Bool(v) => AttrValue::Bool(*v),
            Value::Number(v) => AttrValue::Int(v.as_i64().context("no whole number")?),
            Value::String(v) => AttrValue::Str(v.clone()),
            Value::Array(list) => {
                let ints: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
                AttrValue::Ints(ints.context("no whole numbers")?)
            }
            Value::Object(object) => match (object.get("dtype"), object.get("float")) {
                (Some(dtype), _) => AttrValue::DType(dtype.as_str().context("no dtype")?.parse()?),
                (None, Some(float)) => AttrValue::Float(number(float)?),
                (None, None) => {
                    let floats = value["floats"].as_array().context("no numbers")?;
                    AttrValue::Floats(floats.iter().map(number).collect::<Result<_>>()?)
                }
            },
            Value::Null => continue,
        };
        attrs.set(name.clone(), value);
    }
    Ok(attrs)
}
