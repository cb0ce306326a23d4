//! The methods of tensors, generated from the schemas of the ops. `examples` adds their examples.
//!
//! A method has the op's required tensors and arguments as parameters, and those called `dim`,
//! `dims` and `diagonal`. The others are options. An op with an optional tensor, or with more than
//! three options, takes them always; else they are parameters of a second method, `NAME_with`.
//!
//! Long because the source of a method has many small parts, one function each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use millstream_ops::random::{FIRST, OFFSET, SEED, WHOLE};
use millstream_ops::{ArgDoc, Kind, Op, Presence, composite};

use super::examples::Examples;
use super::families;
use super::ops::Uses;

/// Ops without a method, with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("full", "`Tensor::full` and its kin"),
    ("arange", "`Tensor::arange`"),
    ("scrub", "machines that check memory call it"),
    ("closure", "`DependencyEngine::push`"),
    ("uniform", "`Tensor::uniform`"),
    ("normal", "`Tensor::normal`"),
    ("randint", "`Tensor::randint`"),
    ("exponential", "`empty` and `exponential_`"),
    ("repeat_interleave", "recorded programs call it; in PyTorch, the method repeats x"),
    ("copy", "`Tensor::contiguous` and `Tensor::to`"),
    ("slice", "`Tensor::i`"),
    ("where", "`Tensor::where_cond`"),
    ("index", "`Tensor::i`"),
    ("clamp", "`Tensor::clamp`"),
    ("clamp_", "`Tensor::clamp_`"),
    ("native_group_norm", "`Tensor::group_norm`"),
    ("linspace", "it has no tensor"),
    ("logspace", "it has no tensor"),
    ("eye", "it has no tensor"),
    ("hann_window", "it has no tensor"),
    ("hamming_window", "it has no tensor"),
    ("blackman_window", "it has no tensor"),
    ("bartlett_window", "it has no tensor"),
    ("kaiser_window", "it has no tensor"),
    ("tril_indices", "it has no tensor"),
    ("triu_indices", "it has no tensor"),
    ("isin", "either of its operands may be a number"),
    ("log_sigmoid_forward", "`Tensor::log_sigmoid`"),
    ("embedding_renorm", "modules of recorded programs call it"),
    ("linalg_lu", "`Tensor::linalg_lu_factor_ex`"),
    ("linalg_polar", "its factors are rarely needed"),
    ("triangular_solve", "`Tensor::linalg_solve_triangular`"),
    ("multi_tensor", "`Machine::call`, and `optimisers`"),
    ("unscale_", "`optimisers::GradScaler`"),
    ("_amp_update_scale_", "`optimisers::GradScaler`"),
    ("found_inf", "`LaunchBuilder::check_overflow`"),
    ("adam_step_", "`optimisers`"),
    ("adamw_step_", "`optimisers`"),
    ("sgd_step_", "`optimisers`"),
    ("adagrad_step_", "`optimisers`"),
];

/// The files of families, named as in `crates/ops`.
const FILES: &[(&str, &str)] = &[
    ("Copies and conversions", "copy"),
    ("Views", "views"),
    ("Complex numbers", "complex"),
    ("Concatenation", "concat"),
    ("Arithmetic", "arith"),
    ("Pointwise functions", "pointwise"),
    ("Special functions", "special"),
    ("Comparison and logic", "compare"),
    ("Ternary functions", "ternary"),
    ("Fused elementwise programs", "fused"),
    ("Reductions", "reduce"),
    ("Matrix products", "matmul"),
    ("Fourier transforms", "fft"),
    ("Linear algebra", "linalg"),
    ("Convolution and pooling", "conv"),
    ("Normalisation", "norm"),
    ("Softmax and losses", "softmax"),
    ("Embedding and attention", "embedding"),
    ("Random numbers", "random"),
    ("Dropout", "dropout"),
    ("Indexing and selection", "index"),
    ("Sorting", "sort"),
    ("Counting and searching", "counting"),
    ("Grids, segments, alignments", "grid"),
    ("Flips, rolls, triangles, padding", "rearrange"),
    ("Collectives", "collective"),
];

/// A method: its name, and whether it returns the first result alone.
type Method = (&'static str, bool);

/// Ops whose methods have other names than the op, or return the first result alone.
const NAMED: &[(&str, &[Method])] = &[
    ("clone", &[("copy", false)]),
    ("fill", &[("fill_", false)]),
    ("_softmax", &[("softmax", false)]),
    ("_log_softmax", &[("log_softmax", false)]),
    ("__lshift__", &[("bitwise_left_shift", false)]),
    ("__rshift__", &[("bitwise_right_shift", false)]),
    ("native_layer_norm", &[("layer_norm", true), ("native_layer_norm", false)]),
    ("native_batch_norm", &[("batch_norm", true), ("native_batch_norm", false)]),
    ("native_dropout", &[("dropout", true), ("native_dropout", false)]),
    ("nll_loss_forward", &[("nll_loss", true)]),
    ("nll_loss2d_forward", &[("nll_loss2d", true)]),
    ("max_pool2d_with_indices", &[("max_pool2d", true), ("max_pool2d_with_indices", false)]),
    ("_adaptive_avg_pool2d", &[("adaptive_avg_pool2d", false)]),
    ("_cdist_forward", &[("cdist", false)]),
    ("_pdist_forward", &[("pdist", false)]),
    ("multilabel_margin_loss_forward", &[("multilabel_margin_loss", true)]),
    ("_linalg_svd", &[("linalg_svd", false)]),
    ("_linalg_eigh", &[("linalg_eigh", false)]),
    ("_scaled_dot_product_flash_attention_for_cpu", &[("scaled_dot_product_attention", true)]),
];

/// Ops whose names are not PyTorch's.
const OURS: &[&str] = &[
    "cast",
    "closure",
    "fused",
    "randint_",
    "allreduce_",
    "broadcast_",
    "allgather_",
    "reduce_scatter_",
    "alltoall_",
    "send",
    "recv_",
    "round_decimals",
    "scatter_sum",
    "scatter_mean",
    "lstm_layer",
];

/// Other names of options.
const ALIASES: &[(&str, &[&str])] = &[("Convolution", &["Conv1d", "Conv2d", "Conv3d"])];

/// Methods with the options of another one.
const SHARED: &[(&str, &str)] = &[("nll_loss2d", "NllLoss")];

/// Optional arguments that are parameters.
const PARAMETERS: &[&str] = &["dim", "dims", "diagonal"];

/// The greatest number of options of a method that can do without them.
const FEW: usize = 3;

/// The beginnings of summaries that say what the op does, not what it returns.
const VERBS: &[&str] =
    &["sets", "adds", "replaces", "normalises", "concatenates", "reduces", "sends", "waits"];

/// Returns the sources, by file name.
pub(super) fn sources(uses: &Uses, mut examples: Examples) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut modules = String::new();
    let mut exports = String::new();
    for (title, ops) in families() {
        let mut family = Family::default();
        for op in ops {
            let without = WITHOUT.iter().any(|(name, _)| *name == op.name());
            if without || is_gradient(op.name()) || is_of_recordings(op.name()) {
                continue;
            }
            family.add(op, uses, &mut examples)?;
        }
        if family.methods.is_empty() {
            continue;
        }
        let name = module_name(title)?;
        writeln!(modules, "mod {name};")?;
        if !family.options.is_empty() {
            let names: Vec<&str> = family.options.keys().map(String::as_str).collect();
            let aliases = ALIASES.iter().filter(|(of, _)| names.contains(of));
            let names: Vec<&str> =
                names.iter().copied().chain(aliases.flat_map(|(_, a)| a.iter().copied())).collect();
            writeln!(exports, "pub use {name}::{{{}}};", names.join(", "))?;
        }
        files.insert(format!("{name}.rs"), format(&family.source(title, &mut examples)?)?);
    }
    let head = "\
//! The methods of ops, and their options.
//!
//! A file for each family of ops, made by `cargo xtask docs` from the schemas in `crates/ops`.
//! The crate exports the options as `options`.
";
    examples.replaced(&mut files)?;
    files.insert("mod.rs".to_owned(), format(&format!("{head}\n{modules}\n{exports}"))?);
    Ok(files)
}

/// Gradients are called by name, by the table of derivatives.
fn is_gradient(op: &str) -> bool {
    ["_backward", "_backward_data", "_grad"].iter().any(|end| op.ends_with(end))
}

/// Returns whether an op is a composite that recorded programs call, and people by another name.
fn is_of_recordings(op: &str) -> bool {
    let is_named = NAMED.iter().any(|(name, _)| *name == op);
    op.starts_with('_') && composite::find(op).is_some() && !is_named
}

/// Returns the name of the file of a family's methods.
fn module_name(title: &str) -> Result<&'static str> {
    let known = FILES.iter().find(|(of, _)| *of == title).map(|(_, file)| *file);
    known.with_context(|| format!("the family \"{title}\" has no file: add it to `FILES`"))
}

/// Returns a source in the form of rustfmt, which has to be installed.
fn format(source: &str) -> Result<String> {
    format_with(source, None)
}

/// Returns a source in the form of rustfmt, with lines of another length.
pub(super) fn format_with(source: &str, max_width: Option<usize>) -> Result<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let width = max_width.map(|columns| format!("--config=max_width={columns}"));
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path", root])
        .args(width)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run rustfmt: rustup component add rustfmt")?;
    let mut input = rustfmt.stdin.take().context("rustfmt takes no input")?;
    input.write_all(source.as_bytes())?;
    drop(input);
    let output = rustfmt.wait_with_output()?;
    ensure!(output.status.success(), "rustfmt refuses the source:\n{source}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The methods and options of a family.
#[derive(Default)]
struct Family {
    methods: String,
    /// The options by the name of their type, each with the sources of its methods.
    options: BTreeMap<String, Options>,
}

#[derive(Default)]
struct Options {
    of: BTreeSet<String>,
    example: String,
    tensors: Vec<String>,
    setters: BTreeMap<String, String>,
}

/// A parameter of a method.
pub(super) struct Parameter<'a> {
    /// The name of the op's tensor or argument.
    pub(super) of: &'a str,
    name: String,
    pub(super) ty: String,
    doc: String,
}

/// What a method is made of.
pub(super) struct Parts<'a> {
    pub(super) op: &'a dyn Op,
    pub(super) parameters: Vec<Parameter<'a>>,
    /// The statements that add to `given` and `attrs`.
    body: String,
    pub(super) first_is_self: bool,
    pub(super) options: Vec<&'a ArgDoc>,
    pub(super) tensors: Vec<&'a ArgDoc>,
    /// The type of the result, and the call that gives it.
    pub(super) result: (String, String),
}

impl Family {
    fn add(&mut self, op: &'static dyn Op, uses: &Uses, examples: &mut Examples) -> Result<()> {
        let own: [Method; 1] = [(op.name(), false)];
        let methods = NAMED.iter().find(|(name, _)| *name == op.name()).map_or(&own[..], |m| m.1);
        for (k, &(method, first_alone)) in methods.iter().enumerate() {
            let parts = parts(op, first_alone, uses)?;
            let base = methods[0].0.trim_end_matches('_');
            let shared = SHARED.iter().find(|(method, _)| *method == base);
            let options = shared.map_or_else(|| camel_case(base), |(_, of)| (*of).to_owned());
            let takes_always = parts.takes_always();
            let any = takes_always || !parts.options.is_empty();
            let name = match (takes_always, method.strip_suffix('_')) {
                (true, _) => method.to_owned(),
                (false, Some(base)) => format!("{base}_with_"),
                (false, None) => format!("{method}_with"),
            };
            if any && k == 0 {
                self.add_options(&options, &name, &parts, examples)?;
            }
            if !takes_always {
                let example = examples.of_method(method, None, &parts)?;
                self.methods.push_str(&parts.source(method, None, &example)?);
            }
            if any {
                if let Some(options) = self.options.get_mut(&options) {
                    options.of.insert(name.clone());
                }
                let example = examples.of_method(&name, Some(&options), &parts)?;
                self.methods.push_str(&parts.source(&name, Some(&options), &example)?);
            }
        }
        Ok(())
    }

    fn add_options(
        &mut self,
        name: &str,
        method: &str,
        parts: &Parts<'_>,
        examples: &mut Examples,
    ) -> Result<()> {
        let options = self.options.entry(name.to_owned()).or_default();
        let lifetime = if parts.tensors.is_empty() { "" } else { "<'a>" };
        if options.example.is_empty() {
            options.example = examples.of_options(name, method, parts)?;
        }
        for doc in &parts.tensors {
            if !options.tensors.iter().any(|t| t == doc.name) {
                options.tensors.push(doc.name.to_owned());
            }
            let field = doc.name;
            if options.setters.contains_key(field) {
                continue;
            }
            let example = examples.of_option(name, doc.name, method, parts)?;
            let setter = format!(
                "{}\n///\n{example}#[must_use]\n\
                 pub fn {field}(mut self, {field}: &'a Tensor) -> {name}<'a> {{\n\
                 self.{field} = Some({field});\nself\n}}\n",
                doc_lines(&format!("Gives the tensor `{field}`: {}.", doc.doc))
            );
            options.setters.insert(field.to_owned(), setter);
        }
        for doc in &parts.options {
            let (ty, value) = argument(doc);
            let field = rust_name(doc.name);
            if options.setters.contains_key(&field) {
                continue;
            }
            let example = examples.of_option(name, doc.name, method, parts)?;
            let setter = format!(
                "{}\n///\n{example}#[must_use]\n\
                 pub fn {field}(mut self, {field}: {ty}) -> {name}{lifetime} {{\n\
                 self.attrs.set({:?}, {value});\nself\n}}\n",
                doc_lines(&format!("Sets `{}`: {}.", doc.name, doc.full_doc())),
                doc.name,
            );
            options.setters.insert(field, setter);
        }
        Ok(())
    }

    fn source(&self, title: &str, examples: &mut Examples) -> Result<String> {
        let mut text = format!(
            "//! Methods of the ops under \"{title}\".\n//!\n//! Made by `cargo xtask docs` from \
             the schemas in `crates/ops`.\n//!\n//! Long because there is a method for each op.\n\n"
        );
        let mut body = String::new();
        for (name, options) in &self.options {
            body.push_str(&options_source(name, options, examples)?);
        }
        write!(body, "impl Tensor {{\n{}\n}}\n", self.methods)?;
        let body = body.replace("\n\n}\n", "\n}\n");
        let used: Vec<&str> =
            ["Dims", "Int", "Ints", "Number", "OneDim", "Operand", "Real", "Seed"]
                .into_iter()
                .filter(|ty| has_word(&body, ty))
                .collect();
        let dtype = if has_word(&body, "DType") { ", DType" } else { "" };
        writeln!(text, "use millstream_types::{{Attrs{dtype}, Result}};\n")?;
        writeln!(text, "use crate::handle::Tensor;")?;
        match used.is_empty() {
            true => writeln!(text, "use crate::tensor::call;\n")?,
            false => writeln!(text, "use crate::tensor::{{{}, call}};\n", used.join(", "))?,
        }
        Ok(text + &body)
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

fn options_source(name: &str, options: &Options, examples: &mut Examples) -> Result<String> {
    let of: Vec<String> = options.of.iter().map(|m| format!("[`Tensor::{m}`]")).collect();
    let lifetime = if options.tensors.is_empty() { "" } else { "<'a>" };
    let mut text = doc_lines(&format!("Options of {}.", of.join(" and ")));
    let example = &options.example;
    write!(
        text,
        "\n///\n{example}#[derive(Clone, Debug, Default)]\npub struct {name}{lifetime} {{\n"
    )?;
    for tensor in &options.tensors {
        writeln!(text, "{tensor}: Option<&'a Tensor>,")?;
    }
    write!(text, "attrs: Attrs,\n}}\n\nimpl{lifetime} {name}{lifetime} {{\n")?;
    let setters: Vec<&str> = options.setters.values().map(String::as_str).collect();
    write!(text, "{}}}\n\n", setters.join("\n"))?;
    for alias in ALIASES.iter().filter(|(of, _)| *of == name).flat_map(|(_, names)| *names) {
        let doc = format!("Options of [`Tensor::{}`].", alias.to_lowercase());
        let example = examples.of_alias(alias)?;
        write!(
            text,
            "{}\n///\n{example}pub type {alias}{lifetime} = {name}{lifetime};\n\n",
            doc_lines(&doc)
        )?;
    }
    Ok(text)
}

/// Returns the type of an argument and the expression of its value.
fn argument(doc: &ArgDoc) -> (String, String) {
    let name = rust_name(doc.name);
    let (ty, value) = match doc.kind {
        Kind::Int => ("impl Int", format!("{name}.to_int()")),
        Kind::Float => ("impl Real", format!("{name}.to_real()")),
        Kind::Number => ("impl Into<Number>", format!("call::number({name})")),
        Kind::Flag => ("bool", name),
        Kind::Text => ("&str", name),
        Kind::Ints => ("impl Ints", format!("{name}.to_ints()")),
        Kind::Floats => ("impl Into<Vec<f64>>", format!("Into::<Vec<f64>>::into({name})")),
        Kind::DType | Kind::Tensor => ("DType", name),
    };
    (ty.to_owned(), value)
}

/// Returns an argument's name in snake case. What begins with `is_` would be a question in Rust.
pub(super) fn rust_name(name: &str) -> String {
    let lower = name.to_lowercase();
    lower.strip_prefix("is_").map_or(lower.clone(), str::to_owned)
}

fn camel_case(name: &str) -> String {
    let words = name.split('_').filter(|word| !word.is_empty());
    words.map(|w| w[..1].to_uppercase() + &w[1..]).collect()
}

/// Whether the front leaves an argument out.
fn is_hidden(doc: &ArgDoc) -> bool {
    doc.presence == Presence::Ignored || doc.name == "strides" || doc.name == "absent"
}

fn parts<'a>(op: &'a dyn Op, first_alone: bool, uses: &Uses) -> Result<Parts<'a>> {
    let listed = op.inputs();
    let is_list = op.takes(listed.len() + 7);
    let required = op.optional().unwrap_or(listed.len());
    let has_seed = op.attrs().iter().any(|a| a.name == SEED);
    let instead = |tensor: &str| {
        op.attrs().iter().find(|a| a.presence == Presence::InsteadOf(match_name(tensor)))
    };
    let mut parts = Parts {
        op,
        parameters: Vec::new(),
        body: String::new(),
        first_is_self: !(is_list && listed.len() == 1),
        options: Vec::new(),
        tensors: Vec::new(),
        result: Default::default(),
    };
    for (k, input) in listed.iter().enumerate() {
        let name = &rust_name(input.name);
        if k == 0 && parts.first_is_self {
            continue;
        }
        if is_list && k + 1 == listed.len() {
            parts.parameter(input.name, "&[&Tensor]", input.doc.to_owned());
            write!(parts.body, "given.extend({name}.iter().copied());")?;
            continue;
        }
        if has_seed && input.name == OFFSET {
            continue;
        }
        if let Some(number) = instead(input.name) {
            parts.parameter(
                input.name,
                "impl Into<Operand<'a>>",
                format!("{}; or a number", input.doc),
            );
            let attr = number.name;
            write!(parts.body, "call::operand({name}.into(), {attr:?}, &mut given, &mut attrs);")?;
            continue;
        }
        if k >= required {
            parts.tensors.push(input);
            continue;
        }
        parts.parameter(input.name, "&Tensor", input.doc.to_owned());
        write!(parts.body, "given.push({name});")?;
    }
    for attr in op.attrs() {
        // A part is that of a tensor which several ranks draw.
        let of_draw = has_seed && [SEED, OFFSET, WHOLE, FIRST].contains(&attr.name);
        if is_hidden(attr) || of_draw || matches!(attr.presence, Presence::InsteadOf(_)) {
            continue;
        }
        let is_required = attr.presence == Presence::Required;
        if !is_required && !PARAMETERS.contains(&attr.name) {
            parts.options.push(attr);
            continue;
        }
        let name = rust_name(attr.name);
        let by_two = matches!(op.name(), "max" | "min" | "median" | "nanmedian");
        let can_be_all = match attr.presence {
            Presence::Default("all" | "x as one row") => !by_two,
            _ => false,
        };
        if can_be_all {
            let (ty, method) = match attr.kind {
                Kind::Ints => ("impl Dims", "to_dims"),
                _ => ("impl OneDim", "to_dim"),
            };
            parts.parameter(attr.name, ty, format!("{}, or `..`", attr.doc));
            write!(
                parts.body,
                "if let Some({name}) = {name}.{method}() {{ attrs.set({:?}, {name}); }}",
                attr.name
            )?;
            continue;
        }
        let (ty, value) = argument(attr);
        parts.parameter(attr.name, &ty, attr.full_doc());
        write!(parts.body, "attrs.set({:?}, {value});", attr.name)?;
    }
    if has_seed {
        parts.parameter("seed", "impl Into<Seed>", "selects the numbers".to_owned());
        parts.body.push_str("seed.into().set(&mut attrs);");
    }
    parts.result = result(op, first_alone, uses)?;
    Ok(parts)
}

/// Returns a name with the lifetime of the comparison in [`Presence::InsteadOf`].
fn match_name(name: &str) -> &'static str {
    let known =
        ["y", "exponent", "src", "value", "weight", "x", "offset", "start", "end", "lr", "bins"];
    known.into_iter().find(|k| *k == name).unwrap_or("")
}

/// Returns the type of a method's result and the function that makes the call.
fn result(op: &dyn Op, first_alone: bool, uses: &Uses) -> Result<(String, String)> {
    let counts = uses.results_of(op)?;
    let of = |ty: &str, call: &str| Ok((ty.to_owned(), call.to_owned()));
    if first_alone {
        return of("Tensor", "one");
    }
    if matches!(op.name(), "split" | "chunk" | "split_with_sizes" | "unbind") {
        return of("Vec<Tensor>", "all");
    }
    let is_many = op.takes(op.inputs().len() + 7);
    // Two underscores are those of a special method of Python.
    let in_place = op.name().ends_with('_') && !op.name().ends_with("__");
    if in_place && is_many && op.inputs().len() == 1 || counts == [0].into() {
        return of("()", "changed");
    }
    if in_place || op.name() == "fill" {
        return of("&Tensor", "changed");
    }
    // `max` and `min` of a dimension have two results.
    match counts.last() {
        Some(1) => of("Tensor", "one"),
        Some(&n) => {
            let tuple = vec!["Tensor"; n].join(", ");
            of(&format!("({tuple})"), "first_of")
        }
        None => bail!("{} has no reference case", op.name()),
    }
}

impl<'a> Parts<'a> {
    fn parameter(&mut self, of: &'a str, ty: &str, doc: String) {
        self.parameters.push(Parameter { of, name: rust_name(of), ty: ty.to_owned(), doc });
    }

    /// Whether the method cannot be called without options.
    pub(super) fn takes_always(&self) -> bool {
        !self.tensors.is_empty() || self.options.len() > FEW
    }

    fn source(&self, name: &str, options: Option<&str>, example: &str) -> Result<String> {
        let mut text = self.docs(options, example)?;
        let receiver = if self.first_is_self { "&self, " } else { "" };
        let mut parameters = String::new();
        for Parameter { name, ty, .. } in &self.parameters {
            write!(parameters, "{name}: {ty}, ")?;
        }
        if let Some(options) = options {
            let of = if self.tensors.is_empty() { "" } else { "<'_>" };
            write!(parameters, "options: {options}{of}, ")?;
        }
        let lifetime = if parameters.contains("'a") { "<'a>" } else { "" };
        let (result, call) = &self.result;
        write!(
            text,
            "#[track_caller]\npub fn {name}{lifetime}({receiver}{parameters}) -> Result<{result}> {{\n"
        )?;
        let first = if self.first_is_self { "call::given(self)" } else { "call::Inputs::new()" };
        let grows = self.body.contains("given") || !self.tensors.is_empty();
        let mutable = if grows { "mut " } else { "" };
        let changes = self.body.contains("attrs") || !self.tensors.is_empty();
        let changes = if changes { "mut " } else { "" };
        let attrs = if options.is_some() { "options.attrs" } else { "Attrs::new()" };
        let is_plain = !grows && changes.is_empty();
        if !is_plain {
            if grows {
                writeln!(text, "let {mutable}given = {first};")?;
            }
            if !changes.is_empty() {
                writeln!(text, "let {changes}attrs = {attrs};")?;
            }
            text.push_str(&self.body);
            if !self.tensors.is_empty() {
                let fields: Vec<String> =
                    self.tensors.iter().map(|t| format!("options.{}", t.name)).collect();
                write!(text, "call::optional(&[{}], &mut given, &mut attrs);", fields.join(", "))?;
            }
        }
        let inputs = if grows { "&given" } else { "&[self]" };
        let attrs = if changes.is_empty() { attrs } else { "attrs" };
        let op = self.op.name();
        match call.as_str() {
            "first_of" => {
                let n = result.matches("Tensor").count();
                let names = ["a", "b", "c", "d", "e", "f"][..n].join(", ");
                write!(
                    text,
                    "let [{names}] = call::first_of({op:?}, {inputs}, {attrs})?;\nOk(({names}))"
                )?;
            }
            "changed" if result == "&Tensor" => {
                write!(text, "call::changed({op:?}, {inputs}, {attrs})?;\nOk(self)")?;
            }
            call => write!(text, "call::{call}({op:?}, {inputs}, {attrs})")?,
        }
        text.push_str("\n}\n\n");
        Ok(text)
    }

    fn docs(&self, options: Option<&str>, example: &str) -> Result<String> {
        let summary = self.op.summary();
        let first = summary.split([' ', ',']).next().unwrap_or_default();
        let sentence = match summary.strip_suffix(", in place") {
            _ if VERBS.contains(&first) => first[..1].to_uppercase() + &summary[1..],
            Some(value) => format!("Sets this tensor to {value}"),
            None => format!("Returns {summary}"),
        };
        let mut text = doc_lines(&format!("{sentence}."));
        let names: Vec<&str> = self.op.inputs().iter().map(|i| i.name).collect();
        if self.first_is_self && names.len() + self.parameters.len() > 0 {
            let own = &self.op.inputs()[0];
            text.push_str("\n///\n");
            text.push_str(&doc_item(&format!("`{}`, this tensor: {}", own.name, own.doc)));
        } else {
            text.push_str("\n///");
        }
        for Parameter { name, doc, .. } in &self.parameters {
            text.push('\n');
            text.push_str(&doc_item(&format!("`{name}`: {doc}")));
        }
        if let Some(options) = options {
            text.push('\n');
            text.push_str(&doc_item(&format!(
                "`options`: [`struct@{options}`], which has defaults"
            )));
        }
        text.push_str("\n///\n");
        let name = self.op.name();
        let note = match OURS.contains(&name) {
            true => format!("The op `{name}`, which PyTorch has under another name or not at all."),
            false if name == "fill" => "PyTorch: `aten::fill_`.".to_owned(),
            false => format!("PyTorch: `aten::{name}`."),
        };
        text.push_str(&doc_lines(&note));
        text.push_str("\n///\n");
        text.push_str(example);
        Ok(text)
    }
}

/// Returns a text as lines of documentation.
fn doc_lines(text: &str) -> String {
    wrapped(text, "/// ", "/// ")
}

/// Returns a text as an item of a list.
fn doc_item(text: &str) -> String {
    wrapped(text, "/// - ", "///   ")
}

fn wrapped(text: &str, first: &str, rest: &str) -> String {
    // Methods are indented by four.
    const WIDTH: usize = 96;
    let text = text.replace('[', "\\[").replace(']', "\\]");
    let text = text.replace("\\[`", "[`").replace("`\\]", "`]");
    let mut lines = vec![first.to_owned()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        let is_empty = line.len() == first.len().min(rest.len()) || line.ends_with("- ");
        if line.len() + 1 + word.len() > WIDTH {
            lines.push(format!("{rest}{word}"));
        } else if is_empty || line.ends_with(' ') {
            line.push_str(word);
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}
