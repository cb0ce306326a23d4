//! Scopes in which matrix products and convolutions run in 16-bit floats, and what needs the range
//! or the precision of f32 runs in f32.
//!
//! A scope is a layer of its thread: it casts the operands of a call, and gives it to the layers
//! below. Tapes, recordings and captures see the casts as calls of the program.

mod lists;

use std::cell::RefCell;

use smallvec::SmallVec;

use millstream_runtime::scope::origin::with_origin;
use millstream_runtime::sync::thread_local;
use millstream_types::{DType, Error, Result};

use crate::handle::Tensor;
use crate::handle::request::{self, Layer, Next, OpCall, Rank, Reply, Request, Verb};

use super::tape::is_noted;
use lists::Class;

/// A scope of a thread.
struct Scope {
    dtype: DType,
    /// Whether a recording and a trace were under way when it began.
    begun_in: [bool; 2],
    /// Parameters and their casts.
    casts: Vec<(Tensor, Tensor)>,
}

thread_local! {
    /// The scopes of this thread, the innermost last.
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, whose matrix products and convolutions compute in `dtype`, which is `f16` or
/// `bf16`. Operands are cast as PyTorch's `autocast` casts them: calls that need the range or the
/// precision of f32, such as norms, exponentials, sums and losses, compute in f32, those of several
/// dtypes in the widest, and all others in the dtypes that they get. `f32` switches a scope around
/// it off.
///
/// Calls in place, with given results, of f64 or within critical sections stay as they are, and so
/// do prepared calls. A tensor with a gradient is cast once in a scope; step it outside of the
/// scope. A backward pass uses the dtypes of the calls that it follows.
///
/// ```
/// # use millstream_vm::*;
/// # use millstream_types::DType;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let (y, z) = autocast(DType::BF16, || {
///     let y = x.matmul(&x)?;
///     let z = y.exp()?;
///     Ok((y, z))
/// })?;
/// assert_eq!((y.dtype(), z.dtype()), (DType::BF16, DType::F32));
/// # Ok::<(), millstream_types::Error>(())
/// ```
///
/// # Errors
/// That of `work`; or the dtype is another.
#[track_caller]
pub fn autocast<T>(dtype: DType, work: impl FnOnce() -> Result<T>) -> Result<T> {
    if ![DType::F16, DType::BF16, DType::F32].contains(&dtype) {
        let message = format!("expected f16, bf16, or f32 to switch it off, got {dtype}");
        return Err(Error::Invalid { what: "autocast", message }
            .at(&millstream_runtime::scope::origin::caller()));
    }
    within(Some(dtype).filter(|dtype| *dtype != DType::F32), work)
}

/// Returns the dtype of the innermost scope of this thread; none outside of them.
pub(crate) fn current() -> Option<DType> {
    let of_scope = || SCOPES.with(|all| all.borrow().last().map(|scope| scope.dtype));
    if request::is_on(Rank::Autocast) { of_scope() } else { None }
}

/// Runs `work` in a scope of a dtype, or in none.
pub(super) fn within<T>(dtype: Option<DType>, work: impl FnOnce() -> T) -> T {
    struct Restore {
        was_on: bool,
        has_scope: bool,
    }
    impl Drop for Restore {
        fn drop(&mut self) {
            if self.has_scope {
                let ended = SCOPES.with(|all| all.borrow_mut().pop());
                // Its tensors may be the last handles: they end outside of the borrow.
                drop(ended);
            }
            switch(self.was_on);
        }
    }
    let _restore = Restore { was_on: request::is_on(Rank::Autocast), has_scope: dtype.is_some() };
    if let Some(dtype) = dtype {
        let scope = Scope { dtype, begun_in: recordings(), casts: Vec::new() };
        SCOPES.with(|all| all.borrow_mut().push(scope));
    }
    switch(dtype.is_some());
    work()
}

fn switch(on: bool) {
    request::install(Rank::Autocast, if on { Some(&Autocast) } else { None });
}

/// Returns whether a recording and a trace are under way.
fn recordings() -> [bool; 2] {
    [Rank::Record, Rank::Trace].map(request::is_on)
}

/// The scopes of a thread, as a layer.
struct Autocast;

impl Layer for Autocast {
    fn submit(&self, request: &Request<'_>, next: Next<'_, '_>) -> Result<Reply> {
        // The others compute nothing, or are made of calls that were prepared or recorded before.
        let (Verb::Op(call) | Verb::Composite(call)) = request.verb else {
            return next.submit(request);
        };
        let is_left = request.is_within || call.out.is_some() || call.name.ends_with('_');
        let dtype = if is_left { None } else { target(&call).map_err(|e| e.at(request.origin))? };
        let Some(dtype) = dtype else { return next.submit(request) };
        let casts = call.inputs.iter().map(|x| cast(x, dtype, &call, request));
        let casts = casts.collect::<Result<SmallVec<[Option<Tensor>; 4]>>>()?;
        let inputs = call.inputs.iter().zip(&casts);
        let inputs: SmallVec<[&Tensor; 4]> =
            inputs.map(|(given, cast)| cast.as_ref().unwrap_or(given)).collect();
        let call = OpCall { inputs: &inputs, ..call };
        let verb = match request.verb {
            Verb::Composite(_) => Verb::Composite(call),
            _ => Verb::Op(call),
        };
        // The calls of a composite are in the dtypes of its operands.
        let _own = request::suspend(&[Rank::Autocast]);
        next.submit(&Request { verb, ..*request })
    }
}

/// Returns whether autocast changes the dtype of a tensor.
fn is_eligible(dtype: DType) -> bool {
    dtype.is_float() && dtype != DType::F64
}

/// Returns the dtype that a call's floats are cast to; none if it stays as it is.
///
/// # Errors
/// The op is refused within a scope.
fn target(call: &OpCall<'_>) -> Result<Option<DType>> {
    let Some(dtype) = current() else { return Ok(None) };
    let is_16_bit = |x: &&Tensor| [DType::F16, DType::BF16].contains(&x.dtype());
    Ok(match lists::class(call.name) {
        None => None,
        Some(Class::Lower) => Some(dtype),
        Some(Class::Full) => Some(DType::F32),
        Some(Class::FullByDefault) => {
            Some(DType::F32).filter(|_| call.attrs.get("dtype").is_none())
        }
        Some(Class::Widest) => {
            let mut floats = call.inputs.iter().map(|x| x.dtype()).filter(|d| is_eligible(*d));
            let first = floats.next();
            // Two formats of 16 bits have f32 in common.
            first.map(|first| floats.fold(first, |a, b| if a == b { a } else { DType::F32 }))
        }
        Some(Class::Refused) if call.inputs.iter().any(is_16_bit) => {
            let message = "its results are wrong in 16-bit floats; use \
                           binary_cross_entropy_with_logits, or autocast(f32, ..) around it";
            return Err(Error::Op { op: call.name.to_owned(), message: message.to_owned() });
        }
        Some(Class::Refused) => None,
    })
}

/// Returns an operand in a dtype; none if it stays as it is.
fn cast(
    x: &Tensor,
    dtype: DType,
    call: &OpCall<'_>,
    request: &Request<'_>,
) -> Result<Option<Tensor>> {
    if x.dtype() == dtype || !is_eligible(x.dtype()) {
        return Ok(None);
    }
    let keeps = x.dtype() == DType::F32 && x.requires_grad();
    let known = || {
        SCOPES.with(|all| {
            let all = all.borrow();
            let scope = all.last().filter(|scope| scope.begun_in == recordings())?;
            let is_known = |(of, cast): &&(Tensor, Tensor)| {
                of.is_same(x) && cast.dtype() == dtype && is_noted(cast) == is_noted(x)
            };
            scope.casts.iter().find(is_known).map(|(_, cast)| cast.clone())
        })
    };
    if let Some(known) = keeps.then(known).flatten() {
        return Ok(Some(known));
    }
    let made = with_origin(request.origin, || {
        call.machine.call("cast", &[x]).attr("dtype", dtype).one(call.stream)
    })?;
    if keeps {
        SCOPES.with(|all| {
            if let Some(scope) =
                all.borrow_mut().last_mut().filter(|scope| scope.begun_in == recordings())
            {
                scope.casts.push((x.clone(), made.clone()));
            }
        });
    }
    Ok(Some(made))
}
