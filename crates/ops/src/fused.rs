//! `fused`: a program of elementwise calls as one call, which reads each input once and writes only
//! the last result.
//!
//! | part | text |
//! |---|---|
//! | program | steps, separated by `;` |
//! | step | `op(value,...)`, or `op(value,...\|name=value,...)` with named arguments |
//! | value | `%k`, input k; or `#k`, the result of step k, which is an earlier one |
//! | argument | as in instruction lists ([`millstream_types::text`]) |
//!
//! `tanh(%0);mul(#0,%1);add(#1,%2|alpha=2)` is tanh(x) · y + 2 · z.
//!
//! Each step has the dtype, shape and layout that the schema of its op infers, so a program returns
//! the bits of its steps called one by one. A step is a call of an elementwise op, or of `cast`,
//! that returns a new tensor and cannot fail: dividing integers may, and is refused. Every input
//! and every result but the last is used.
//!
//! Programs of [`multi_tensor`](crate::multi_tensor) have steps in place, too, such as
//! `mul_(%0,%1)` or `copy_(%0,#2)`. They change the value of their first operand, so later steps
//! read the new one; their results have no names of their own.
//!
//! Long because the rules of programs, their text and their schema are one contract.

use std::fmt;

use millstream_types::text::{Cursor, TextError, parse_attrs, print_attrs};
use millstream_types::{Attrs, DType, Error, Result, TensorSpec};
use smallvec::SmallVec;

use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{CallSpec, Op, OutputSpec, Signature};
use crate::{arith, compare, copy, pointwise, ternary};

/// The name of the op.
pub const FUSED: &str = "fused";

/// The argument that holds the program.
pub const PROGRAM: &str = "program";

/// The maximal number of inputs of a program.
pub const MAX_INPUTS: usize = 8;

/// The maximal number of steps of a program.
pub const MAX_STEPS: usize = 64;

pub(crate) const OPS: &[Def] = &[Def::new(
    FUSED,
    "the last result of a program of elementwise calls, as if they were made one by one",
    &[arg("inputs", "the tensors that the program reads, at most 8")],
    &[arg(PROGRAM, "the steps, as in \"tanh(%0);mul(#0,%1);add(#1,%2|alpha=2)\"").text()],
    |call| {
        let program = Program::of(call.attrs)?;
        if let Some(step) = program.steps.iter().find(|step| step.is_in_place()) {
            return refuse(PROGRAM, format!("{step}: expected an op that returns a new tensor"));
        }
        let mut results = program.infer(call.inputs)?;
        match results.pop() {
            Some(last) => Ok(Signature::reads(call.inputs.len(), last)),
            None => refuse(PROGRAM, "expected at least one step"),
        }
    },
)
.many(1)];

/// The tables of the ops whose calls may be steps.
const STEPS: &[&[Def]] = &[
    arith::OPS,
    arith::EXTREMES,
    pointwise::OPS,
    pointwise::NEW,
    pointwise::BY_LAST,
    compare::OPS,
    compare::LOGIC,
    ternary::OPS,
    ternary::CHOICES,
    &[copy::CAST],
];

/// The tables of the ops whose calls may be steps in place.
const STEPS_IN_PLACE: &[&[Def]] = &[
    arith::IN_PLACE,
    pointwise::IN_PLACE,
    compare::LOGIC_IN_PLACE,
    ternary::IN_PLACE,
    ternary::CHOICES,
    &[copy::COPY_],
];

/// The ops that fail on a divisor of zero if their result is not a float.
const DIVISIONS: &[&str] = &["div", "remainder", "fmod"];

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The input at this position.
    Input(usize),
    /// The result of the step at this position.
    Step(usize),
}

/// A call within a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name of the op.
    pub op: String,
    /// The operands.
    pub operands: Vec<Value>,
    /// The named arguments.
    pub attrs: Attrs,
}

/// A program of elementwise calls. [`Program::parse`] reads the text that [`fmt::Display`] writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    steps: Vec<Step>,
}

impl Program {
    /// Creates a program of these steps.
    ///
    /// # Errors
    /// There is no step, or there are more than [`MAX_STEPS`]; a step uses the result of itself or
    /// of a later one; or a result but the last, or an input, is not used.
    pub fn new(steps: Vec<Step>) -> Result<Program> {
        if !(1..=MAX_STEPS).contains(&steps.len()) {
            return refuse(
                PROGRAM,
                format!("expected 1 to {MAX_STEPS} steps, got {}", steps.len()),
            );
        }
        let mut used = vec![false; steps.len()];
        let mut inputs: SmallVec<[bool; MAX_INPUTS]> = SmallVec::new();
        for (k, step) in steps.iter().enumerate() {
            used[k] = step.is_in_place();
            for &operand in &step.operands {
                match operand {
                    Value::Step(of) if of >= k => {
                        let message = format!("step {k}: expected an earlier result, got #{of}");
                        return refuse(PROGRAM, message);
                    }
                    Value::Step(of) if steps[of].is_in_place() => {
                        let message = format!("step {k}: #{of} changes a value; name that value");
                        return refuse(PROGRAM, message);
                    }
                    Value::Step(of) => used[of] = true,
                    Value::Input(of) if of >= MAX_INPUTS => {
                        let message = format!(
                            "step {k}: expected inputs %0 to %{}, got %{of}",
                            MAX_INPUTS - 1
                        );
                        return refuse(PROGRAM, message);
                    }
                    Value::Input(of) => {
                        inputs.resize(inputs.len().max(of + 1), false);
                        inputs[of] = true;
                    }
                }
            }
        }
        used.pop();
        let results = used.iter().position(|used| !used).map(|k| format!("#{k}"));
        let unused = inputs.iter().position(|used| !used).map(|k| format!("%{k}"));
        if let Some(value) = results.or(unused) {
            return refuse(PROGRAM, format!("{value} is not used; remove it"));
        }
        Ok(Program { steps })
    }

    /// Reads a program.
    ///
    /// # Errors
    /// The text is something else, at the given column; or as [`Program::new`] fails.
    pub fn parse(text: &str) -> Result<Program> {
        let steps = parse_steps(text).map_err(|e| Error::Invalid {
            what: PROGRAM,
            message: format!("column {}: {}", e.column, e.message),
        })?;
        Program::new(steps)
    }

    /// Reads the program of a call of `fused`.
    ///
    /// # Errors
    /// The argument is missing or not a text; or as [`Program::parse`] fails.
    pub fn of(attrs: &Attrs) -> Result<Program> {
        match attrs.get(PROGRAM) {
            Some(millstream_types::AttrValue::Str(text)) => Program::parse(text),
            Some(other) => refuse(PROGRAM, format!("expected a text, got {other}")),
            None => refuse(PROGRAM, "missing; this argument is required"),
        }
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the number of inputs.
    pub fn inputs(&self) -> usize {
        let operands = self.steps.iter().flat_map(|step| &step.operands);
        let number = |value: &Value| if let Value::Input(k) = value { k + 1 } else { 0 };
        operands.map(number).max().unwrap_or(0)
    }

    /// Returns the inputs that steps in place change, without repetition, in order.
    pub fn written(&self) -> SmallVec<[usize; MAX_INPUTS]> {
        let targets = self.steps.iter().filter_map(Step::target);
        let mut written: SmallVec<[usize; MAX_INPUTS]> = targets
            .filter_map(|target| if let Value::Input(k) = target { Some(k) } else { None })
            .collect();
        written.sort_unstable();
        written.dedup();
        written
    }

    /// Returns whether the last step makes a new tensor: the result of the program.
    pub fn makes_result(&self) -> bool {
        self.steps.last().is_some_and(|step| !step.is_in_place())
    }

    /// Returns the results of all steps; that of a step in place is the value that it changes.
    ///
    /// # Errors
    /// The number of inputs is another, or a call may not be a step ([`step_result`]).
    pub fn infer(&self, inputs: &[TensorSpec]) -> Result<Vec<TensorSpec>> {
        let expected = self.inputs();
        if inputs.len() != expected {
            let message = format!("the program reads {expected} input(s), got {}", inputs.len());
            return refuse("inputs", message);
        }
        let mut results: Vec<TensorSpec> = Vec::with_capacity(self.steps.len());
        for (k, step) in self.steps.iter().enumerate() {
            let operands = step.operand_specs(inputs, &results);
            let call = CallSpec { inputs: &operands, attrs: &step.attrs };
            let result = match step.is_in_place() {
                true => step_in_place(&step.op, call),
                false => step_result(&step.op, call),
            };
            results.push(result.map_err(|e| Error::Invalid {
                what: PROGRAM,
                message: format!("step {k}: {e}"),
            })?);
        }
        Ok(results)
    }
}

impl Step {
    /// Returns whether the step changes the value of its first operand.
    pub fn is_in_place(&self) -> bool {
        in_place(&self.op).is_some()
    }

    /// Returns the value that the step changes in place.
    pub fn target(&self) -> Option<Value> {
        self.operands.first().copied().filter(|_| self.is_in_place())
    }

    /// Returns the step as one that returns what it would write: without the `_` of its op, and a
    /// conversion in place of a copy to a tensor of this dtype.
    #[must_use]
    pub fn out_of_place(&self, dtype: DType) -> Step {
        match self.op.as_str() {
            "copy_" => Step {
                op: copy::CAST.name.to_owned(),
                operands: self.operands[1..].to_vec(),
                attrs: Attrs::new().with("dtype", dtype),
            },
            op => {
                let end = op.len() - usize::from(self.is_in_place());
                Step { op: op[..end].to_owned(), ..self.clone() }
            }
        }
    }

    /// Returns the operands' specs, from those of the program's inputs and earlier results.
    ///
    /// # Panics
    /// If the step uses an input or a result that is not there.
    pub fn operand_specs(&self, inputs: &[TensorSpec], results: &[TensorSpec]) -> Vec<TensorSpec> {
        let spec = |value: &Value| match *value {
            Value::Input(k) => inputs[k].clone(),
            Value::Step(k) => results[k].clone(),
        };
        self.operands.iter().map(spec).collect()
    }
}

/// Returns the op of this name that makes a new tensor, if its calls may be steps.
fn step(op: &str) -> Option<&'static Def> {
    STEPS.iter().copied().flatten().find(|def| def.name == op)
}

/// Returns whether this is an elementwise op that makes a new tensor.
pub(crate) fn is_elementwise(op: &str) -> bool {
    op == FUSED || step(op).is_some()
}

/// Returns the op in place of this name, if its calls may be steps.
fn in_place(op: &str) -> Option<&'static Def> {
    if !op.ends_with('_') {
        return None;
    }
    let mut all = STEPS_IN_PLACE.iter().copied().flatten();
    all.find(|def| def.name == op)
}

/// Refuses dtypes that steps do not compute.
fn check_dtype(op: &str, dtype: DType) -> Result<()> {
    match dtype.is_complex() || dtype.is_wide_unsigned() {
        true => refuse("step", format!("{op}: expected real numbers with arithmetic, got {dtype}")),
        false => Ok(()),
    }
}

/// Returns the value that a step in place leaves: of the dtype and layout of its first operand.
///
/// # Errors
/// The schema refuses the call, or it may fail on data.
fn step_in_place(op: &str, call: CallSpec<'_>) -> Result<TensorSpec> {
    let (Some(def), Some(target)) = (in_place(op), call.inputs.first()) else {
        return refuse("step", format!("{op}: expected an elementwise op in place"));
    };
    call.inputs.iter().try_for_each(|x| check_dtype(op, x.dtype))?;
    def.check(call)?;
    if DIVISIONS.contains(&op.trim_end_matches('_')) && !target.dtype.is_float() {
        return refuse("step", format!("{op}: expected floats, as dividing integers may fail"));
    }
    Ok(target.clone())
}

/// Returns the result of a call that may be a step of a program.
///
/// # Errors
/// The call may not be a step: its op is not elementwise or works in place, it may fail on data, or
/// its schema refuses it.
pub fn step_result(op: &str, call: CallSpec<'_>) -> Result<TensorSpec> {
    let Some(def) = step(op) else {
        let message = format!("{op}: expected an elementwise op that returns a new tensor");
        return refuse("step", message);
    };
    call.inputs.iter().try_for_each(|x| check_dtype(op, x.dtype))?;
    let mut signature = def.check(call)?;
    let result = match (signature.outputs.pop(), signature.outputs.is_empty()) {
        (Some(OutputSpec::Fresh(result)), true) => result,
        _ => return refuse("step", format!("{op}: expected a call with one new result")),
    };
    check_dtype(op, result.dtype)?;
    if DIVISIONS.contains(&op) && !result.dtype.is_float() {
        let message = format!("{op}: expected floats, as dividing {} may fail", result.dtype);
        return refuse("step", message);
    }
    Ok(result)
}

fn parse_steps(text: &str) -> std::result::Result<Vec<Step>, TextError> {
    let mut cursor = Cursor::new(text, 1);
    let mut steps = Vec::new();
    loop {
        steps.push(parse_step(&mut cursor)?);
        if cursor.peek().is_none() {
            return Ok(steps);
        }
        cursor.expect(";")?;
    }
}

fn parse_step(cursor: &mut Cursor<'_>) -> std::result::Result<Step, TextError> {
    let op = cursor.word("an op's name")?.to_owned();
    cursor.expect("(")?;
    let mut operands = Vec::new();
    let mut attrs = Attrs::new();
    while !cursor.eat(")") {
        if cursor.eat("|") {
            attrs = parse_attrs(cursor, ")")?;
            break;
        }
        if !operands.is_empty() {
            cursor.expect(",")?;
        }
        operands.push(match cursor.peek() {
            Some('#') => Value::Step(cursor.id("#", "a result, as in #0")?),
            _ => Value::Input(cursor.id("%", "an input, as in %0, or a result, as in #0")?),
        });
    }
    Ok(Step { op, operands, attrs })
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Input(k) => write!(f, "%{k}"),
            Value::Step(k) => write!(f, "#{k}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op)?;
        for (k, operand) in self.operands.iter().enumerate() {
            write!(f, "{}{operand}", if k == 0 { "" } else { "," })?;
        }
        if !self.attrs.is_empty() {
            let mut attrs = String::from("|");
            print_attrs(&self.attrs, ",", &mut attrs);
            f.write_str(&attrs)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, step) in self.steps.iter().enumerate() {
            write!(f, "{}{step}", if k == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}
