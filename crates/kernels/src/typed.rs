//! Kernels without unsafe code: the operands of a call as elements of a Rust type.
//!
//! A kernel of this kind knows its op. Which operands it may write follows from the op's signature,
//! so that it cannot write what others read. Elements are read and written one by one, by value:
//! operands may share memory, and a reference to it could not be given out.

use std::marker::PhantomData;

use anyhow::{Result, ensure};
use smallvec::SmallVec;

use millstream_ops::{CallSpec, Op, OutputSpec};
use millstream_types::{Access, Attrs, Element, Layout, TensorSpec};

use crate::context::{KernelCtx, RawTensor};
use crate::registry::Kernel;

/// Returns a kernel of an op on devices whose memory the host can use.
///
/// ```
/// # use std::sync::Arc;
/// # use millstream_ops::{ArgDoc, CallSpec, Op, Signature};
/// # struct Square;
/// # impl Op for Square {
/// #     fn name(&self) -> &str { "square" }
/// #     fn summary(&self) -> &str { "x * x" }
/// #     fn inputs(&self) -> &[ArgDoc] { const { &[ArgDoc::new("x", "f32")] } }
/// #     fn signature(&self, call: CallSpec<'_>) -> millstream_types::Result<Signature> {
/// #         Ok(Signature::reads(1, call.inputs[0].clone()))
/// #     }
/// # }
/// use millstream_kernels::{KernelRegistry, typed};
///
/// let mut kernels = KernelRegistry::new();
/// let square = typed(Square, |call| {
///     let (x, y) = (call.read::<f32>(0)?, call.write::<f32>(1)?);
///     for k in 0..x.len() {
///         y.set(k, x.get(k) * x.get(k));
///     }
///     Ok(())
/// });
/// kernels.register("cpu", "square", Arc::new(square));
/// ```
pub fn typed<F>(op: impl Op, function: F) -> impl Kernel
where
    F: Fn(&TypedCall<'_>) -> Result<()> + Send + Sync,
{
    Typed { op, function }
}

struct Typed<O, F> {
    op: O,
    function: F,
}

impl<O: Op, F: Fn(&TypedCall<'_>) -> Result<()> + Send + Sync> Kernel for Typed<O, F> {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        (self.function)(&TypedCall { ctx, accesses: accesses(&self.op, ctx)? })
    }
}

/// Returns the access of each operand: those of the inputs by the op's signature; new results are
/// written.
fn accesses(op: &dyn Op, ctx: &KernelCtx<'_>) -> Result<SmallVec<[Access; 8]>> {
    let operands: Vec<RawTensor<'_>> =
        (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<_>>()?;
    let specs: Vec<TensorSpec> = operands
        .iter()
        .map(|t| TensorSpec::new(t.dtype, Layout::strided(t.shape, t.strides, 0)?))
        .collect::<millstream_types::Result<_>>()?;
    // The number of inputs is that at which inputs and new results are the operands.
    for inputs in (0..=operands.len()).rev().filter(|&n| op.takes(n)) {
        let call = CallSpec { inputs: &specs[..inputs], attrs: ctx.attrs() };
        let Ok(signature) = op.check(call) else { continue };
        let mut accesses: SmallVec<[Access; 8]> = signature.accesses.into_iter().collect();
        let mut agree = accesses.len() == inputs;
        for output in &signature.outputs {
            let (spec, count) = match output {
                OutputSpec::Fresh(spec) => (spec, 1),
                OutputSpec::Bounded(spec) => (spec, 2),
                OutputSpec::View { .. } | OutputSpec::Same(_) => continue,
            };
            let given = specs.get(accesses.len());
            agree &= given.is_some_and(|g| g.dtype == spec.dtype && g.shape() == spec.shape());
            accesses.extend(std::iter::repeat_n(Access::Write, count));
        }
        if agree && accesses.len() == operands.len() {
            return Ok(accesses);
        }
    }
    anyhow::bail!("the schema of {} does not describe the {} operands", op.name(), operands.len())
}

/// A call of a kernel without unsafe code. Operands are the inputs, then the new results.
pub struct TypedCall<'a> {
    ctx: &'a KernelCtx<'a>,
    accesses: SmallVec<[Access; 8]>,
}

impl<'a> TypedCall<'a> {
    /// Returns the named arguments.
    pub fn attrs(&self) -> &'a Attrs {
        self.ctx.attrs()
    }

    /// Returns the number of operands.
    pub fn operands(&self) -> usize {
        self.accesses.len()
    }

    /// Returns an operand to read it.
    ///
    /// # Errors
    /// There is no such operand, or its elements are of another type.
    pub fn read<T: Element>(&self, index: usize) -> Result<Elements<'_, T>> {
        let tensor = self.ctx.operand(index)?;
        ensure!(
            tensor.dtype == T::DTYPE,
            "operand {index}: the elements are {}, not {}",
            tensor.dtype,
            T::DTYPE
        );
        Ok(Elements { tensor, elements: PhantomData })
    }

    /// Returns an operand to write it, and to read what it then holds.
    ///
    /// # Errors
    /// There is no such operand, the op's signature does not let the kernel write it, or its
    /// elements are of another type.
    pub fn write<T: Element>(&self, index: usize) -> Result<ElementsMut<'_, T>> {
        let elements = self.read(index)?;
        ensure!(self.accesses[index].writes(), "operand {index}: the op only reads this operand");
        Ok(ElementsMut(elements))
    }
}

/// The elements of an operand, numbered in row-major order of their indices.
pub struct Elements<'a, T> {
    tensor: RawTensor<'a>,
    elements: PhantomData<T>,
}

impl<'a, T: Element> Elements<'a, T> {
    /// Returns the lengths of the dimensions.
    pub fn shape(&self) -> &'a [usize] {
        self.tensor.shape
    }

    /// Returns the strides of the dimensions, in elements.
    pub fn strides(&self) -> &'a [usize] {
        self.tensor.strides
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.tensor.numel()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns element number `index`.
    ///
    /// # Panics
    /// If there is none: the call then fails.
    pub fn get(&self, index: usize) -> T {
        let at = self.offset(index);
        let size = T::DTYPE.size();
        // SAFETY: the operands of a kernel are valid for reads of all their elements, and the
        // element exists, as `offset` has checked. Nothing writes it during the borrow: the
        // kernel's own writes are made by `set` on this thread, as neither type is `Sync`.
        let bytes = unsafe { std::slice::from_raw_parts(self.tensor.data.add(at * size), size) };
        T::read(bytes)
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the offset of an element in elements.
    fn offset(&self, index: usize) -> usize {
        assert!(index < self.len(), "element {index} of {}", self.len());
        let (mut at, mut rest) = (0, index);
        for (&length, &stride) in self.tensor.shape.iter().zip(self.tensor.strides).rev() {
            at += rest % length * stride;
            rest /= length;
        }
        at
    }
}

/// The elements of an operand that the kernel may write. As [`Elements`] otherwise.
pub struct ElementsMut<'a, T>(Elements<'a, T>);

impl<'a, T: Element> ElementsMut<'a, T> {
    /// Sets element number `index`.
    ///
    /// # Panics
    /// If there is none: the call then fails.
    pub fn set(&self, index: usize, value: T) {
        let at = self.0.offset(index);
        let size = T::DTYPE.size();
        let data = self.0.tensor.data;
        // SAFETY: the operands of a kernel are valid for writes of all their elements, the element
        // exists, and the op's signature says that the kernel writes this operand, so nothing
        // outside of it reads or writes it. Within it no reference to it exists: `get` ends its
        // own.
        let bytes = unsafe { std::slice::from_raw_parts_mut(data.add(at * size), size) };
        value.write(bytes);
    }
}

impl<'a, T> std::ops::Deref for ElementsMut<'a, T> {
    type Target = Elements<'a, T>;

    fn deref(&self) -> &Elements<'a, T> {
        &self.0
    }
}
