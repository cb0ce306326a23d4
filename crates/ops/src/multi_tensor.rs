//! `multi_tensor`: one program of elementwise calls for each set of a list of sets of tensors, in
//! one call. Optimisers step all their parameters by it.
//!
//! The program is that of [`fused`](crate::fused), with steps in place. Its inputs `%0` to `%c-1`
//! are the tensors of a set, and those from `%c` on tensors that all sets share. So with
//! `columns=2`, the program `mul_(%0|other=0.9);add_(%0,%1)` on `a`, `x`, `b`, `y` is
//! 0.9 · a + x, stored in a, and 0.9 · b + y, stored in b. Each set has dtypes and shapes of its
//! own. Results have the bits of the steps called one by one, set by set.
//!
//! A tensor that is written shares no byte with any other tensor of the call; a kernel refuses it.
//!
//! Source: `multi_tensor_apply` of PyTorch and Apex.

use millstream_types::{Access, Attrs, DType, Result, TensorSpec};
use smallvec::SmallVec;

use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::fused::{PROGRAM, Program};
use crate::schema::{OutputSpec, Signature};

/// The name of the op.
pub const MULTI_TENSOR: &str = "multi_tensor";

/// The argument that holds the number of tensors of a set.
pub const COLUMNS: &str = "columns";

/// The argument that holds the number of sets.
pub const SETS: &str = "sets";

/// The argument that names the number that keeps all tensors as they are.
pub const UNLESS: &str = "unless";

/// The argument that names the number that an element which is not finite sets.
pub const FOUND: &str = "found";

pub(crate) const OPS: &[Def] = &[Def::new(
    MULTI_TENSOR,
    "a program of elementwise calls, new or in place, for each set of a list of sets of \
              tensors; returns for each set the last result, or the first tensor that is changed",
    &[arg("tensors", "the tensors of all sets, and then those that all sets share")],
    &[
        arg(PROGRAM, "the steps, as in \"mul_(%0|other=0.9);add_(%0,%1)\"").text(),
        arg(COLUMNS, "the number of tensors of a set").int(),
        arg(SETS, "the number of sets").int().or("1"),
        arg(UNLESS, "the %-number of a shared element; if it is not 0, nothing is changed")
            .int()
            .optional(),
        arg(FOUND, "the %-number of a shared f32, set to 1 if an element of a %0 is not finite")
            .int()
            .optional(),
    ],
    |call| {
        let sets = Sets::of(call.attrs, call.inputs.len())?;
        sets.signature(call.inputs)
    },
)
.many(1)];

/// A call's program and the numbers of its tensors.
#[derive(Clone, Debug)]
pub struct Sets {
    /// The program of each set.
    pub program: Program,
    /// The number of tensors of a set.
    pub columns: usize,
    /// The number of sets.
    pub count: usize,
    /// The number of tensors that all sets share.
    pub shared: usize,
    /// The place among the operands of the number that keeps all tensors as they are.
    pub unless: Option<usize>,
    /// The place among the operands of the number that an element which is not finite sets.
    pub found: Option<usize>,
}

impl Sets {
    /// Reads the arguments of a call on this number of tensors.
    ///
    /// # Errors
    /// An argument is missing or wrong, or the number of tensors does not fit.
    pub fn of(attrs: &Attrs, tensors: usize) -> Result<Sets> {
        let program = Program::of(attrs)?;
        let number = |name: &'static str| match attrs.int(name)? {
            Some(number) => match usize::try_from(number) {
                Ok(number) => Ok(Some(number)),
                Err(_) => refuse(name, format!("expected a number from 0 on, got {number}")),
            },
            None => Ok(None),
        };
        let (columns, count) = (number(COLUMNS)?.unwrap_or(0), number(SETS)?.unwrap_or(1));
        if columns == 0 || count == 0 {
            return refuse(COLUMNS, "expected sets of at least one tensor, and at least one set");
        }
        let of_sets = columns.checked_mul(count).filter(|of_sets| *of_sets <= tensors);
        let Some(of_sets) = of_sets else {
            let message = format!("expected {count} sets of {columns} tensors, got {tensors}");
            return refuse("tensors", message);
        };
        let shared = tensors - of_sets;
        if program.inputs() > columns + shared {
            let (read, given) = (program.inputs(), columns + shared);
            let message = format!("the program reads %{}, and a set has {given}", read - 1);
            return refuse("tensors", message);
        }
        let place = |name: &'static str| match number(name)? {
            Some(k) if k < columns || k >= columns + shared => {
                refuse(name, format!("expected a tensor that all sets share, got %{k}"))
            }
            place => Ok(place.map(|k| of_sets + k - columns)),
        };
        let (unless, found) = (place(UNLESS)?, place(FOUND)?);
        Ok(Sets { program, columns, count, shared, unless, found })
    }

    /// Returns the place among the operands of input `%k` of a set.
    pub fn operand(&self, set: usize, k: usize) -> usize {
        match k.checked_sub(self.columns) {
            None => set * self.columns + k,
            Some(shared) => self.count * self.columns + shared,
        }
    }

    /// Returns the inputs of the program for a set, from all operands.
    pub fn inputs<T: Clone>(&self, set: usize, operands: &[T]) -> Vec<T> {
        (0..self.program.inputs()).map(|k| operands[self.operand(set, k)].clone()).collect()
    }

    fn signature(&self, tensors: &[TensorSpec]) -> Result<Signature> {
        let written = self.program.written();
        if let Some(shared) = written.iter().find(|k| **k >= self.columns) {
            return refuse(PROGRAM, format!("%{shared} is shared by all sets, and is changed"));
        }
        let makes_result = self.program.makes_result();
        if makes_result != written.is_empty() {
            return refuse(
                PROGRAM,
                "expected steps that change tensors, or a last one with a result",
            );
        }
        for (name, place) in [(UNLESS, self.unless), (FOUND, self.found)] {
            let Some(x) = place.map(|place| &tensors[place]) else { continue };
            if x.numel() != 1 || name == FOUND && x.dtype != DType::F32 || !x.dtype.is_float() {
                let expected = if name == FOUND { "an f32" } else { "a float" };
                return refuse(name, format!("expected {expected}, got {}", x.brief()));
            }
            if makes_result {
                return refuse(name, "expected a program in place");
            }
        }
        let mut accesses = SmallVec::from_elem(Access::Read, tensors.len());
        let mut outputs = SmallVec::new();
        let mut last: Option<(Vec<TensorSpec>, TensorSpec)> = None;
        for set in 0..self.count {
            let inputs = self.inputs(set, tensors);
            for &k in &written {
                accesses[self.operand(set, k)] = Access::ReadWrite;
            }
            // Equal sets, such as the moments of equal layers, have equal results.
            let made = match last.take() {
                Some((before, made)) if before == inputs => made,
                _ => self.result(&inputs).map_err(|e| of_set(set, e))?,
            };
            outputs.push(match written.first() {
                Some(&k) => OutputSpec::Same(self.operand(set, k)),
                None => OutputSpec::Fresh(made.clone()),
            });
            last = Some((inputs, made));
        }
        if let Some(found) = self.found {
            accesses[found] = Access::ReadWrite;
        }
        Ok(Signature { accesses, outputs, workspace: 0 })
    }

    /// Returns the last value of a set's program.
    fn result(&self, inputs: &[TensorSpec]) -> Result<TensorSpec> {
        let results = self.program.infer(inputs)?;
        let Some(last) = results.last() else { return refuse(PROGRAM, "expected a step") };
        let shape = match self.program.written().first() {
            Some(&k) => inputs[k].shape(),
            None => last.shape(),
        };
        for (step, result) in self.program.steps().iter().zip(&results) {
            if step.is_in_place() && result.shape() != shape {
                let message = format!("{step}: expected the shape {shape:?}, got {result}");
                return refuse(PROGRAM, message);
            }
        }
        Ok(last.clone())
    }
}

/// Adds the number of a set to an error.
fn of_set(set: usize, error: millstream_types::Error) -> millstream_types::Error {
    millstream_types::Error::Invalid { what: "argument", message: format!("set {set}: {error}") }
}
