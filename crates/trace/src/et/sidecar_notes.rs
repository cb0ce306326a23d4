//! Reads the sidecar notes of an execution trace, the optional files next to it: the tensors that
//! are inputs and outputs (`bindings.json`), lost numbers (`consts.json`), the tolerance of results
//! and the hints and probes in place of elements (`meta.json`), and the elements of tensors
//! (`tensors.safetensors`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use millstream_types::DType;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::compare::Tolerance;
use crate::data::Data;
use crate::error::{Result, TraceError};
use crate::et::groups::Noted;
use crate::et::import::Lazy;
use crate::et::report::Eager;
use crate::hint::{Hint, Probe};
use crate::number::Number;
use crate::random::Distribution;
use crate::sidecar::{Sidecar, SidecarError, Sidecars, reason};

/// The file with the elements of tensors.
const TENSORS: &str = "tensors.safetensors";
const BINDINGS: &str = "bindings.json";
const CONSTS: &str = "consts.json";
const META: &str = "meta.json";

/// The names of all files that belong to a trace.
pub(crate) const FILES: &[&str] =
    &[TENSORS, BINDINGS, CONSTS, META, TIMELINE, TIMELINE_TRACE, STREAMS];

/// The timeline of a later run, the execution trace of that run, and what the program does with the
/// streams of its devices, as the recorder writes them.
const TIMELINE: &str = "timeline.json.gz";
const TIMELINE_TRACE: &str = "timeline-et.json.gz";
const STREAMS: &str = "streams.json";

/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct BindingForm {
    et: (u64, u64, u64, u64, u64, String),
    shape: Vec<usize>,
    node: u64,
}

#[derive(Deserialize)]
struct ConstForm {
    node: u64,
    arg: Option<usize>,
    result: Option<usize>,
    written: Option<usize>,
    scalar: Option<serde_json::Value>,
    list: Option<Vec<serde_json::Value>>,
    tensor: Option<String>,
    /// The id of an operand that is a lazy view.
    view: Option<u64>,
    #[serde(flatten)]
    lazy: Lazy,
}

/// The notes of `meta.json` on a trace.
#[derive(Default, Deserialize)]
pub(crate) struct Meta {
    /// The program's name.
    #[serde(rename = "case")]
    pub(crate) name: Option<String>,
    pub(crate) tolerance: Option<Tolerance>,
    /// How the elements of inputs are made, by name without `in/`.
    #[serde(default)]
    init: HashMap<String, HintForm>,
    /// What is known of outputs, by name without `out/`.
    #[serde(default)]
    probe: HashMap<String, ProbeForm>,
    /// What is known of collectives, by node.
    #[serde(default)]
    pub(crate) collectives: HashMap<u64, Noted>,
    /// The time of PyTorch's own calls.
    pub(crate) eager: Option<Eager>,
    /// The nodes of each module and line of the program.
    #[serde(default)]
    pub(crate) places: BTreeMap<String, Vec<u64>>,
}

/// How the elements of an input are made.
#[derive(Deserialize)]
#[serde(tag = "dist", rename_all = "lowercase")]
enum HintForm {
    Normal { mean: f64, std: f64 },
    Uniform { lo: f64, hi: f64 },
    Randint { lo: i64, hi: i64 },
    Const { value: serde_json::Value },
}

/// What is known of an output without its elements.
#[derive(Deserialize)]
struct ProbeForm {
    #[serde(flatten)]
    probe: Probe,
    atol: Option<f64>,
}

/// A value that the trace does not record.
#[derive(Clone, Debug)]
pub(crate) enum Const {
    Number(Number),
    /// A list of numbers, fractions among them.
    Numbers(Vec<Number>),
    /// A tensor of `tensors.safetensors`.
    Tensor(Sidecar),
}

/// The place of elements that a node returned or wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The result of this number.
    Result(usize),
    /// The argument of this number.
    Written(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Result(number) => write!(f, "result {number}"),
            Place::Written(number) => write!(f, "argument {number} as it was written"),
        }
    }
}

/// The sidecar notes of a trace.
#[derive(Default)]
pub(crate) struct SidecarNotes {
    sidecars: Sidecars,
    /// Whether `bindings.json` exists.
    pub(crate) bound: bool,
    /// For each node the name, and the id and shape of the tensor.
    bindings: BTreeMap<u64, (String, u64, Vec<usize>)>,
    pub(crate) consts: HashMap<(u64, usize), Const>,
    /// The operands, by node and id, that are views which PyTorch evaluates when it reads them.
    pub(crate) lazy: HashMap<(u64, u64), Lazy>,
    /// The recorded results of nodes, such as random ops.
    results: BTreeMap<(u64, Place), Sidecar>,
    /// Whether `consts.json` exists. It has all numbers that the trace lost.
    pub(crate) has_consts: bool,
    pub(crate) meta: Meta,
}

/// Reads the file of this name; returns `None` if it does not exist.
fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Result<Option<T>> {
    let path = folder.join(name);
    let shown = path.display().to_string();
    let broken = |message: String| TraceError::of_file(shown.clone(), message);
    match fs::metadata(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(broken(format!("cannot read it: {}", reason(&e)))),
        Ok(found) if found.len() > MAX_BYTES => {
            return Err(broken(format!("it has more than {MAX_BYTES} bytes")));
        }
        Ok(_) => {}
    }
    let text = fs::read(&path).map_err(|e| broken(format!("cannot read it: {}", reason(&e))))?;
    match serde_json::from_slice(&text) {
        Ok(value) => Ok(Some(value)),
        Err(e) => Err(broken(format!("not the {name} of a trace: {e}"))),
    }
}

fn number(value: &serde_json::Value) -> Option<Number> {
    Some(match value {
        serde_json::Value::Bool(v) => Number::Bool(*v),
        serde_json::Value::Number(v) => match v.as_i64() {
            Some(v) => Number::Int(v.into()),
            None => Number::Float(v.as_f64()?),
        },
        serde_json::Value::String(text) => Number::Float(text.parse().ok()?),
        _ => return None,
    })
}

impl SidecarNotes {
    /// Reads the files that exist. Without a folder there are none.
    pub(crate) fn read(folder: Option<&Path>) -> Result<SidecarNotes> {
        let mut notes = SidecarNotes { sidecars: Sidecars::new(folder), ..SidecarNotes::default() };
        let Some(folder) = folder else { return Ok(notes) };
        if let Some(bindings) = read::<BTreeMap<String, BindingForm>>(folder, BINDINGS)? {
            notes.bound = true;
            for (name, binding) in bindings {
                let bound = (name.clone(), binding.et.0, binding.shape);
                if let Some(other) = notes.bindings.insert(binding.node, bound) {
                    let file = folder.join(BINDINGS).display().to_string();
                    let message =
                        format!("node {} has two names: '{}' and '{name}'", binding.node, other.0);
                    return Err(TraceError::of_file(file, message));
                }
            }
        }
        let consts = read::<Vec<ConstForm>>(folder, CONSTS)?;
        notes.has_consts = consts.is_some();
        for (index, lost) in consts.unwrap_or_default().into_iter().enumerate() {
            let argument = lost.arg.map_or(String::new(), |arg| format!(" argument {arg}"));
            let entry = format!("entry {index}, node {}{argument}", lost.node);
            notes.add(lost).map_err(|why| {
                let file = folder.join(CONSTS).display().to_string();
                TraceError::of_file(file, format!("{entry}: {why}"))
            })?;
        }
        notes.meta = read(folder, META)?.unwrap_or_default();
        Ok(notes)
    }

    /// Adds an entry of `consts.json`.
    fn add(&mut self, lost: ConstForm) -> Result<(), String> {
        let ConstForm { node, scalar, list, tensor, .. } = lost;
        if let Some(view) = lost.view {
            self.lazy.insert((node, view), lost.lazy);
            return Ok(());
        }
        let place = match (lost.arg, lost.result, lost.written) {
            (Some(_), None, None) => None,
            (None, Some(number), None) => Some(Place::Result(number)),
            (None, None, Some(number)) => Some(Place::Written(number)),
            _ => return Err("expected either 'arg', 'result' or 'written'".to_owned()),
        };
        let mut elements = |key: &str| self.tensor(key).map_err(|e| e.message);
        let is_new = if let Some(place) = place {
            let elements = elements(&tensor.ok_or("expected 'tensor' for a result")?)?;
            self.results.insert((node, place), elements).is_none()
        } else {
            let value = match (scalar, list, tensor) {
                (Some(value), None, None) => {
                    Const::Number(number(&value).ok_or("'scalar' is not a number")?)
                }
                (None, Some(list), None) => {
                    let numbers: Option<Vec<Number>> = list.iter().map(number).collect();
                    Const::Numbers(numbers.ok_or("'list' is not of numbers")?)
                }
                (None, None, Some(key)) => Const::Tensor(elements(&key)?),
                _ => return Err("expected either 'scalar', 'list' or 'tensor'".to_owned()),
            };
            self.consts.insert((node, lost.arg.unwrap_or_default()), value).is_none()
        };
        if is_new { Ok(()) } else { Err("duplicate entry".to_owned()) }
    }

    /// Returns whether the recording holds results of a node.
    pub(crate) fn has_results(&self, node: u64) -> bool {
        let places = (node, Place::Result(0))..(node + 1, Place::Result(0));
        self.results.range(places).next().is_some()
    }

    /// Returns the recorded elements of a result of a node.
    pub(crate) fn result(&self, node: u64, place: Place) -> Option<Sidecar> {
        self.results.get(&(node, place)).cloned()
    }

    /// Returns the elements of a tensor of `tensors.safetensors`.
    pub(crate) fn tensor(&mut self, key: &str) -> Result<Sidecar, SidecarError> {
        self.sidecars.find(TENSORS, key)
    }

    /// Returns the elements that a hint defines for an input, whose name begins with `in/`. A
    /// distribution that does not fit the dtype is no hint.
    pub(crate) fn hint(&self, name: &str, dtype: DType) -> Option<Data> {
        let name = name.strip_prefix("in/")?;
        let distribution = match *self.meta.init.get(name)? {
            HintForm::Normal { mean, std } => Distribution::Normal { mean, std },
            HintForm::Uniform { lo, hi } => Distribution::Uniform { low: lo, high: hi },
            HintForm::Randint { lo, hi } => Distribution::Integers { low: lo, high: hi },
            HintForm::Const { ref value } => return number(value).map(Data::Fill),
        };
        let hint = Hint::new(name, distribution);
        hint.fits(dtype).then_some(Data::Hint(hint))
    }

    /// Returns what is known of an output, whose name begins with `out/`, and its tolerance.
    pub(crate) fn probe(&self, name: &str) -> Option<(Probe, Tolerance)> {
        let form = self.meta.probe.get(name.strip_prefix("out/")?)?;
        let tolerance = Tolerance { rtol: None, atol: form.atol };
        Some((form.probe.clone(), tolerance.or(self.tolerance())))
    }

    /// Returns the tolerance of outputs without a tolerance of their own.
    pub(crate) fn tolerance(&self) -> Tolerance {
        self.meta.tolerance.unwrap_or_default()
    }

    /// Removes the binding of a node; returns the name, and the id and shape of the tensor.
    pub(crate) fn take_binding(&mut self, node: u64) -> Option<(String, u64, Vec<usize>)> {
        self.bindings.remove(&node)
    }

    /// Returns a binding whose node the import did not find.
    pub(crate) fn unused_binding(&self) -> Option<(&str, u64)> {
        self.bindings.iter().next().map(|(node, (name, ..))| (name.as_str(), *node))
    }
}
