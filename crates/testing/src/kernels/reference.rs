//! Every op against values made with PyTorch. The scripts in `tools/reference` make the files and
//! document their content: shapes, dtypes, strides and aliases of results, their elements, and the
//! content of storages after in-place ops.
//!
//! Long because the form of the files and the checks of their cases belong together.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use millstream_kernels::KernelCtx;
use millstream_ops::{OutputSpec, Presence, families, standard};
use millstream_types::{AttrValue, Attrs, DType, Layout, TensorSpec};
use safetensors::SafeTensors;
use serde::Deserialize;

use super::calls::launch_with;
use super::num::Num::{self, Float};
use super::{Tensor, call_with, signature};

/// The folder of the files.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/tests/reference");

/// A function that runs the kernel of an op.
pub type Run<'a> = &'a dyn Fn(&str, &KernelCtx<'_>) -> Result<()>;

/// The cases of a file, and the bytes that they refer to.
pub struct File {
    /// Its name, without the extension.
    pub name: String,
    cases: Vec<Case>,
    data: Vec<u8>,
}

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Case>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is no file of cases.
    pub fn read(path: &Path) -> Result<File> {
        let read = || {
            let content = std::fs::read(path)?;
            let file = SafeTensors::deserialize(&content)?;
            let Cases { cases } = serde_json::from_slice(file.tensor("cases")?.data())?;
            ensure!(!cases.is_empty(), "it has no cases");
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Ok(File { name, cases, data: file.tensor("data")?.data().to_vec() })
        };
        read().with_context(|| format!("{}: expected cases of ops", path.display()))
    }

    /// Reads all files of a folder, in the order of their names.
    ///
    /// # Errors
    /// The folder cannot be read, or a file of it.
    pub fn read_all(folder: &Path) -> Result<Vec<File>> {
        let paths = || {
            let entries = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
            let mut paths = entries.collect::<std::io::Result<Vec<PathBuf>>>()?;
            paths.retain(|path| path.extension().is_some_and(|name| name == "safetensors"));
            paths.sort();
            Ok::<_, std::io::Error>(paths)
        };
        let paths = paths().with_context(|| folder.display().to_string())?;
        paths.iter().map(|path| File::read(path)).collect()
    }

    /// Returns the number and the op of each case that PyTorch does not refuse.
    pub fn calls(&self) -> impl Iterator<Item = (usize, &str)> {
        let calls = self.cases.iter().enumerate().filter(|(_, case)| !case.refused);
        calls.map(|(number, case)| (number, case.op.as_str()))
    }

    /// Checks the case of a number.
    ///
    /// # Errors
    /// The difference, with the call.
    ///
    /// # Panics
    /// If the kernel writes bytes that are not its own, or the file is damaged.
    pub fn check(&self, number: usize, run: Run<'_>) -> Result<(), String> {
        let case = &self.cases[number];
        check(case, &self.data, run).map_err(|why| {
            let spec = |i: &Input| format!("{}{:?} strides {:?}", i.dtype, i.shape, i.strides);
            let specs: Vec<String> = case.inputs.iter().map(spec).collect();
            format!("{number}: {}({}; {}): {why}", case.op, specs.join(", "), attrs(case))
        })
    }
}

#[derive(Deserialize)]
struct Case {
    op: String,
    attrs: HashMap<String, Argument>,
    storages: Vec<(usize, usize)>,
    inputs: Vec<Input>,
    #[serde(default)]
    outputs: Vec<Output>,
    /// The content of storages after the call, by number.
    #[serde(default)]
    changed: HashMap<usize, (usize, usize)>,
    #[serde(default)]
    refused: bool,
    rtol: Option<f64>,
    atol: Option<f64>,
    /// Whether to compare the strides of new results.
    layout: Option<bool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Bool(bool),
    Int(i64),
    Str(String),
    Ints(Vec<i64>),
    DType { dtype: String },
    Float { float: String },
    Floats { floats: Vec<String> },
}

#[derive(Deserialize)]
struct Input {
    storage: usize,
    dtype: String,
    shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
}

#[derive(Deserialize)]
struct Output {
    dtype: String,
    shape: Vec<usize>,
    strides: Vec<usize>,
    /// The input storage that this output is a view of.
    storage: Option<usize>,
    #[serde(default)]
    offset: usize,
    data: Option<(usize, usize)>,
}

fn attrs(case: &Case) -> Attrs {
    let mut attrs = Attrs::new();
    for (name, value) in &case.attrs {
        let number = |text: &String| text.parse::<f64>().unwrap();
        let value = match value {
            Argument::Bool(v) => AttrValue::Bool(*v),
            Argument::Int(v) => AttrValue::Int(*v),
            Argument::Str(v) => AttrValue::Str(v.clone()),
            Argument::Ints(v) => AttrValue::Ints(v.clone()),
            Argument::DType { dtype } => AttrValue::DType(dtype.parse().unwrap()),
            Argument::Float { float } => AttrValue::Float(number(float)),
            Argument::Floats { floats } => AttrValue::Floats(floats.iter().map(number).collect()),
        };
        attrs.set(name.clone(), value);
    }
    attrs
}

/// Returns the default relative and absolute tolerance.
pub fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-12, 1e-13),
        DType::F32 => (2e-6, 1e-6),
        DType::F16 => (2e-3, 1e-3),
        DType::BF16 => (1.6e-2, 1e-2),
        _ => (0.0, 0.0),
    }
}

/// Returns the parts of complex numbers, with a last dimension of 2.
fn parts(of: &Tensor) -> Tensor {
    let twice = |values: &[usize]| values.iter().map(|v| v * 2).collect::<Vec<_>>();
    let (shape, strides) = (of.shape(), of.spec.layout.strides());
    let (shape, strides) = ([shape, &[2]].concat(), [&*twice(strides), &[1]].concat());
    let layout = Layout::strided(&shape, &strides, of.spec.layout.offset() * 2).unwrap();
    of.retyped(TensorSpec::new(of.spec.dtype.part(), layout).unwrap())
}

/// Compares elements within a relative and an absolute tolerance, if they are given, or the default
/// ones.
///
/// # Errors
/// The first element that differs.
pub fn agree(
    got: &Tensor,
    expected: &Tensor,
    tolerances: (Option<f64>, Option<f64>),
) -> Result<(), String> {
    if got.spec.dtype.is_complex() {
        return agree(&parts(got), &parts(expected), tolerances);
    }
    let (rtol, atol) = tolerance(got.spec.dtype);
    let (rtol, atol) = (tolerances.0.unwrap_or(rtol), tolerances.1.unwrap_or(atol));
    let close = |g: Num, e: Num| match (g, e) {
        (Float(g), Float(e)) => g == e || (g - e).abs() <= atol + rtol * e.abs(),
        _ => false,
    };
    let both = got.values().into_iter().zip(expected.values());
    match both.enumerate().find(|(_, (g, e))| g != e && !close(*g, *e)) {
        None => Ok(()),
        Some((at, (g, e))) => Err(format!("element {at}: expected {e:?}, got {g:?}")),
    }
}

/// Returns the strides of dimensions longer than 1; other strides are arbitrary.
fn steps(shape: &[usize], strides: &[usize]) -> Vec<usize> {
    match shape.contains(&0) {
        true => Vec::new(),
        false => shape.iter().zip(strides).filter(|(d, _)| **d != 1).map(|(_, s)| *s).collect(),
    }
}

/// Checks that the op declares each argument's type, requires what it says that it requires, and
/// takes a default that is given as it takes one that is not.
fn declared(case: &Case, given: &[&Tensor], attrs: &Attrs) -> Result<(), String> {
    let ops = standard();
    let op = ops.get(ops.id(&case.op).map_err(|e| e.to_string())?).ok_or("no op")?;
    let expected = signature(&case.op, given, attrs)?;
    for doc in op.attrs() {
        let name = doc.name;
        let without = || {
            attrs
                .iter()
                .filter(|(n, _)| *n != name)
                .fold(Attrs::new(), |a, (n, v)| a.with(n.to_owned(), v.clone()))
        };
        match (attrs.get(name), doc.presence) {
            (Some(value), _) if !doc.admits(value) => {
                return Err(format!("{name} is declared as {:?}, and is {value}", doc.kind));
            }
            (Some(_), Presence::Required) => {
                if signature(&case.op, given, &without()).is_ok() {
                    return Err(format!("{name} is declared as required, and can be left out"));
                }
            }
            (None, Presence::Required) => {
                return Err(format!("{name} is declared as required, and is left out"));
            }
            (None, Presence::Default(_)) => {
                let Some(value) = doc.default_value() else { continue };
                let with = attrs.clone().with(name.to_owned(), value);
                if signature(&case.op, given, &with).as_ref() != Ok(&expected) {
                    return Err(format!("{name}: the declared default gives another result"));
                }
            }
            (None, Presence::Optional | Presence::InsteadOf(_) | Presence::Ignored)
            | (Some(_), _) => {}
        }
    }
    Ok(())
}

/// Returns the storages and the operands of a case.
fn operands(case: &Case, data: &[u8]) -> (Vec<Tensor>, Vec<Tensor>) {
    let storage = |&(at, count): &(usize, usize)| {
        let layout = Layout::contiguous(&[count]).unwrap();
        Tensor::of_bytes(TensorSpec::new(DType::U8, layout).unwrap(), &data[at..at + count])
    };
    let storages: Vec<Tensor> = case.storages.iter().map(storage).collect();
    let view = |input: &Input| {
        let layout = Layout::strided(&input.shape, &input.strides, input.offset).unwrap();
        let spec = TensorSpec::new(input.dtype.parse().unwrap(), layout).unwrap();
        storages[input.storage].retyped(spec)
    };
    let inputs = case.inputs.iter().map(view).collect();
    (storages, inputs)
}

/// Checks that an op whose result may have the memory of an operand has the same result there.
fn overwritten(
    case: &Case,
    data: &[u8],
    attrs: &Attrs,
    outputs: &[Tensor],
    run: Run<'_>,
) -> Result<(), String> {
    let ops = standard();
    let op = ops.get(ops.id(&case.op).map_err(|e| e.to_string())?).ok_or("no op")?;
    let [expected] = outputs else { return Ok(()) };
    for k in (0..case.inputs.len()).filter(|_| op.overwrites()) {
        let (_, inputs) = operands(case, data);
        let is_alone = |other: &Input| other.storage != case.inputs[k].storage;
        let others = case.inputs.iter().enumerate().filter(|(other, _)| *other != k);
        if inputs[k].spec != expected.spec || !others.map(|(_, other)| other).all(is_alone) {
            continue;
        }
        let all: Vec<&Tensor> = inputs.iter().chain([&inputs[k]]).collect();
        launch_with(run, &case.op, &all, attrs, 0, 0)?;
        if inputs[k].values() != expected.values() {
            return Err(format!("another result in the memory of operand {k}"));
        }
    }
    Ok(())
}

fn check(case: &Case, data: &[u8], run: Run<'_>) -> Result<(), String> {
    let (attrs, tolerances) = (attrs(case), (case.rtol, case.atol));
    let bytes = |(at, count): (usize, usize)| &data[at..at + count];
    let (storages, inputs) = operands(case, data);
    let given: Vec<&Tensor> = inputs.iter().collect();
    let outputs = match call_with(run, &case.op, &given, &attrs, 0) {
        Err(e) if case.refused && !e.contains("disagree") => return Ok(()),
        Ok(_) if case.refused => {
            return Err("the schema accepts the call, but PyTorch refuses it".to_owned());
        }
        done => done?,
    };
    if outputs.len() < case.outputs.len() {
        return Err(format!("expected {1} results, got {0}", outputs.len(), case.outputs.len()));
    }
    declared(case, &given, &attrs)?;
    overwritten(case, data, &attrs, &outputs, run)?;
    let specs = signature(&case.op, &given, &attrs)?.outputs;
    for (k, ((got, expected), output)) in outputs.iter().zip(&case.outputs).zip(&specs).enumerate()
    {
        let spec = &got.spec;
        let wanted = (expected.dtype.parse::<DType>().unwrap(), expected.shape.as_slice());
        if (spec.dtype, spec.shape()) != wanted {
            return Err(format!("result {k}: expected {wanted:?}, got {spec}"));
        }
        let alias = !matches!(output, OutputSpec::Fresh(_) | OutputSpec::Bounded(_));
        if alias != expected.storage.is_some() && spec.numel() > 0 {
            return Err(format!("result {k}: expected a view if and only if PyTorch returns one"));
        }
        let strides = steps(spec.shape(), spec.layout.strides());
        let counts = case.layout.unwrap_or(true) || alias;
        if counts && strides != steps(&expected.shape, &expected.strides) {
            return Err(format!("result {k}: expected strides {:?}, got {spec}", expected.strides));
        }
        match (expected.storage, expected.data) {
            (Some(_), _) if spec.numel() > 0 && spec.layout.offset() != expected.offset => {
                return Err(format!("result {k}: expected offset {}, got {spec}", expected.offset));
            }
            (None, Some(data)) => {
                let layout = Layout::contiguous(&expected.shape).unwrap();
                let wanted = TensorSpec::new(spec.dtype, layout).unwrap();
                agree(got, &Tensor::of_bytes(wanted, bytes(data)), tolerances)
                    .map_err(|e| format!("result {k}: {e}"))?;
            }
            _ => {}
        }
    }
    for (at, stored) in storages.iter().enumerate() {
        let after = case.changed.get(&at).copied().unwrap_or(case.storages[at]);
        // Storages are compared as elements of the dtype of the input that uses them.
        let seen = case.inputs.iter().find(|i| i.storage == at);
        let Some(dtype) = seen.map(|i| i.dtype.parse::<DType>().unwrap()) else { continue };
        let count = after.1 / dtype.size();
        let spec = TensorSpec::contiguous(dtype, &[count]).unwrap();
        let expected = Tensor::of_bytes(spec.clone(), bytes(after));
        agree(&stored.retyped(spec), &expected, tolerances)
            .map_err(|e| format!("storage {at} after the call: {e}"))?;
    }
    Ok(())
}

/// A call whose results are known.
pub struct Call {
    /// The op.
    pub op: String,
    /// The named arguments.
    pub attrs: Attrs,
    /// The operands.
    pub inputs: Vec<Tensor>,
    /// The relative and the absolute tolerance, where the case has its own.
    pub tolerances: (Option<f64>, Option<f64>),
}

/// Returns the calls of all files, with new memory for each.
pub fn calls() -> Vec<Call> {
    let mut calls = Vec::new();
    for file in File::read_all(Path::new(FOLDER)).unwrap_or_else(|e| panic!("{e:#}")) {
        for case in file.cases.into_iter().filter(|case| !case.refused) {
            let (_, inputs) = operands(&case, &file.data);
            let (attrs, tolerances) = (attrs(&case), (case.rtol, case.atol));
            calls.push(Call { attrs, inputs, tolerances, op: case.op });
        }
    }
    calls
}

/// Checks all cases in a file.
///
/// # Panics
///
/// If a case fails: the message lists the cases and their differences.
pub fn check_file(file_name: &str, run: Run<'_>) {
    let path = Path::new(FOLDER).join(file_name).with_extension("safetensors");
    let file = File::read(&path).unwrap_or_else(|e| panic!("{e:#}"));
    let numbers = 0..file.cases.len();
    let wrong: Vec<String> = numbers.filter_map(|k| file.check(k, run).err()).collect();
    let shown = wrong.len().min(40);
    assert!(
        wrong.is_empty(),
        "{} of {} cases of {file_name} failed:\n{}",
        wrong.len(),
        file.cases.len(),
        wrong[..shown].join("\n")
    );
}

/// Defines a test for each family of ops, with a function that runs a kernel.
#[macro_export]
macro_rules! reference_tests {
    ($run:path) => {
        $crate::reference_tests! { $run;
            arith
            attention
            compare
            complex
            concat
            conv
            copy
            counting
            create
            embedding
            extremum
            grid
            index
            linalg
            linear
            loss
            masked_select
            matmul
            norm
            pointwise
            pooling
            random
            rearrange
            reduce
            scan
            segments
            softmax
            sort
            special
            ternary
            views
        }
    };
    ($run:path; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::kernels::reference::check_file(stringify!($name), &$run);
            }
        )*

        #[test]
        fn every_file_has_a_test_and_every_op_a_case() {
            $crate::kernels::reference::check_coverage(&[$(stringify!($name)),*]);
        }
    };
}

/// Checks that these are all the files, and that they have a case for every op.
///
/// # Panics
///
/// If a file is not in the list, or an op has no case.
pub fn check_coverage(files: &[&str]) {
    let mut ops: Vec<String> = Vec::new();
    for file in File::read_all(Path::new(FOLDER)).unwrap_or_else(|e| panic!("{e:#}")) {
        assert!(files.contains(&file.name.as_str()), "{}: no test reads this file", file.name);
        ops.extend(file.cases.into_iter().filter(|c| !c.refused).map(|c| c.op));
    }
    let ops_known = standard();
    // Collectives have no counterpart among the values of PyTorch.
    let mut collectives = families().pop().unwrap().1.into_iter().map(|op| op.name());
    ops.extend(collectives.by_ref().map(str::to_owned));
    // These are compared with the ops of their steps.
    ops.extend(["fused", "multi_tensor"].map(str::to_owned));
    // `closure` runs a function of the program.
    ops.push("closure".to_owned());
    // `hash_tensor` is compared with its definition.
    ops.push("hash_tensor".to_owned());
    // `scrub` has no values; tests with machines check its effect on memory.
    ops.push("scrub".to_owned());
    let missing: Vec<&str> =
        ops_known.iter().map(|o| o.name()).filter(|n| !ops.iter().any(|o| o == n)).collect();
    assert!(missing.is_empty(), "no reference values for {missing:?}");
}
