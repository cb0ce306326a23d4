//! Functions on global tensors whose calls are planned together.
//!
//! A function that is planned runs twice. First its calls are *noted*: this rank takes itself for
//! one outside of the mesh, so nothing is emitted, and all specs are known. Then, with the
//! divisions that were chosen for all of them, they are *made*. A second run that makes other calls
//! than the first is refused, as the divisions are those of the first; only arguments may differ.

use std::cell::{Cell, RefCell};
use std::fmt::Write;

use millstream_ops::boxing::{
    Call, Entries, Operand, Pinned, Plan, Program, Shardings, Source, Value,
};
use millstream_runtime::sync::thread_local;
use millstream_types::text::print_attrs;
use millstream_types::{Attrs, Error, Mesh, Origin, Result, Sharding};
use rustc_hash::FxHashMap;

use crate::handle::Tensor;
use crate::handle::machine::Machine;

use super::CallLayout;

/// A call of the function, by the numbers of its tensors.
struct NotedCall {
    op: String,
    attrs: Attrs,
    operands: Vec<usize>,
    results: Vec<usize>,
    origin: Origin,
}

/// The calls of a function.
pub(crate) struct Noted {
    mesh: Mesh,
    /// All tensors, so that none of them ends and gives its address to another one.
    tensors: Vec<Tensor>,
    numbers: FxHashMap<usize, usize>,
    /// Which tensors calls have made.
    made: Vec<bool>,
    calls: Vec<NotedCall>,
    requests: Vec<(usize, Entries)>,
}

/// A call of the first run, and its division.
struct PlannedCall {
    /// The op and its operands.
    text: String,
    origin: Origin,
    pinned: Pinned,
}

/// The calls of the first run, and those that the second has made.
struct Making {
    mesh: Mesh,
    planned: Vec<PlannedCall>,
    made: Vec<CallLayout>,
}

enum State {
    Noting(Noted),
    Making(Making),
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
    /// Whether there is a state.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function in a state. Returns what it returns, and the state afterwards.
fn run<T>(state: State, function: impl FnOnce() -> T) -> (T, Option<State>) {
    struct Clear;
    impl Drop for Clear {
        fn drop(&mut self) {
            IS_ON.with(|is_on| is_on.set(false));
            // Dropped outside of the borrow, since tensors may end.
            drop(STATE.with(|state| state.borrow_mut().take()));
        }
    }
    STATE.with(|own| *own.borrow_mut() = Some(state));
    IS_ON.with(|is_on| is_on.set(true));
    let clear = Clear;
    let made = function();
    let state = STATE.with(|state| state.borrow_mut().take());
    drop(clear);
    (made, state)
}

/// Runs a function whose calls are noted. Returns its results, by their numbers, and the calls.
///
/// # Errors
/// That of the function.
pub(crate) fn note(
    mesh: &Mesh,
    inputs: &[Tensor],
    function: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(Vec<usize>, Noted)> {
    let (tensors, made, calls, requests) = Default::default();
    let numbers = FxHashMap::default();
    let mut noted = Noted { mesh: mesh.clone(), tensors, numbers, made, calls, requests };
    for input in inputs {
        noted.number(input);
    }
    let (results, state) = run(State::Noting(noted), || function(inputs));
    let (results, Some(State::Noting(mut noted))) = (results?, state) else {
        let message = "a planned function plans another one".to_owned();
        return Err(Error::Invalid { what: "function", message });
    };
    let results = results.iter().map(|result| noted.number(result)).collect();
    Ok((results, noted))
}

/// Runs a function whose calls are divided as planned. Returns its result, and the calls.
///
/// # Errors
/// That of the function; it makes other calls than those that were noted, or plans another
/// function.
pub(crate) fn make<T>(
    noted: &Noted,
    pinned: Vec<Pinned>,
    function: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<CallLayout>)> {
    let planned = noted.calls.iter().zip(pinned).map(|(call, pinned)| {
        let operands = call.operands.iter().map(|number| noted.tensors[*number].spec().brief());
        let text = called(&call.op, operands);
        PlannedCall { text, origin: call.origin.clone(), pinned }
    });
    let (mesh, planned, made) = (noted.mesh.clone(), planned.collect(), Vec::new());
    let (result, state) = run(State::Making(Making { mesh, planned, made }), function);
    let (result, Some(State::Making(making))) = (result?, state) else {
        let message = "a planned function plans another one".to_owned();
        return Err(Error::Invalid { what: "function", message });
    };
    match making.planned.get(making.made.len()) {
        None => Ok((result, making.made)),
        Some(missing) => {
            let (noted, made) = (making.planned.len(), making.made.len());
            let missing = missing.describe();
            Err(differs(format!(
                "it made {noted} call(s), and {made} when it ran again, without {missing}"
            )))
        }
    }
}

/// Refuses a function that returns another number of tensors when it runs again.
///
/// # Errors
/// It does.
pub(crate) fn check_results(noted: usize, made: usize) -> Result<()> {
    if noted == made {
        return Ok(());
    }
    Err(differs(format!("it returned {noted} tensor(s), and {made} when it ran again")))
}

/// Returns the error of a function whose second run differs from the first.
fn differs(how: String) -> Error {
    let message = format!(
        "{how}; a function that is compiled for a mesh runs twice, and may depend on nothing but \
         its inputs"
    );
    Error::Invalid { what: "function", message }
}

fn called(op: &str, operands: impl Iterator<Item = String>) -> String {
    format!("{op} of {}", operands.collect::<Vec<_>>().join(", "))
}

impl PlannedCall {
    fn describe(&self) -> String {
        format!("{} at {}", self.text, self.origin)
    }
}

impl Making {
    /// Returns how the next call is pinned.
    ///
    /// # Errors
    /// It is another call than the noted one.
    fn next(&self, call: &str) -> Result<Pinned> {
        let number = self.made.len();
        let again = match self.planned.get(number) {
            Some(noted) if noted.text == call => return Ok(noted.pinned.clone()),
            Some(noted) => format!("its call {number} was {}, and", noted.describe()),
            None => format!("it made {number} call(s), and also"),
        };
        Err(differs(format!("{again} {call} when it ran again")))
    }
}

impl Noted {
    fn number(&mut self, tensor: &Tensor) -> usize {
        let next = self.tensors.len();
        let number = *self.numbers.entry(tensor.address()).or_insert(next);
        if number == next {
            self.tensors.push(tensor.clone());
            self.made.push(false);
        }
        number
    }

    /// Describes the calls of a function of so many inputs, equally on all ranks: without their
    /// places. A tensor from elsewhere is named with the way in which it is held.
    pub(crate) fn lines(&self, inputs: usize) -> impl Iterator<Item = String> + '_ {
        let name = move |number: &usize| {
            let tensor = &self.tensors[*number];
            let held = tensor.global().filter(|_| *number >= inputs && !self.made[*number]);
            let held = held.map_or_else(String::new, |held| format!(" as {}", held.sharding));
            format!("{number}: {}{held}", tensor.spec().brief())
        };
        let calls = self.calls.iter().map(move |call| {
            let operands: Vec<String> = call.operands.iter().map(name).collect();
            let mut text = format!("`{}` of [{}]", call.op, operands.join(", "));
            if !call.attrs.is_empty() {
                text.push_str(" with ");
                print_attrs(&call.attrs, ", ", &mut text);
            }
            let _ = write!(text, " to {:?}", call.results);
            text
        });
        let requests = self.requests.iter();
        calls.chain(requests.map(|(number, to)| format!("a redistribution of {number} to {to:?}")))
    }

    /// Chooses the divisions of the calls. The first tensors are the inputs.
    ///
    /// # Errors
    /// As [`Program::shardings`].
    pub(crate) fn shardings(
        &self,
        machine: &Machine,
        inputs: &[Entries],
        requests: impl IntoIterator<Item = (usize, Entries)>,
    ) -> Result<Shardings> {
        let ops = &machine.shared.tables.ops;
        let value = |(number, tensor): (usize, &Tensor)| {
            let held = tensor.global().map(|global| Sharding::clone(&global.sharding));
            let source = match (inputs.get(number), self.made[number], held) {
                (Some(entries), ..) => Source::Input(entries.clone()),
                (None, false, Some(sharding)) => Source::Held(sharding),
                (None, ..) => Source::Call,
            };
            Value { spec: tensor.spec().clone(), source }
        };
        let call = |call: &'_ NotedCall| {
            let op = ops.get(ops.id(&call.op)?);
            op.ok_or_else(|| Error::Internal { message: format!("no op {}", call.op) })
        };
        let known = self.calls.iter().map(call).collect::<Result<Vec<_>>>()?;
        let calls = self.calls.iter().zip(&known).map(|(call, op)| Call {
            op: &***op,
            attrs: &call.attrs,
            operands: call.operands.clone(),
            results: call.results.clone(),
        });
        let program = Program {
            mesh: &self.mesh,
            values: self.tensors.iter().enumerate().map(value).collect(),
            calls: calls.collect(),
            requests: self.requests.iter().cloned().chain(requests).collect(),
        };
        program.shardings()
    }
}

/// Returns whether calls of this thread are noted, so that its rank has no part of any tensor.
pub(crate) fn is_noting() -> bool {
    is_on() && STATE.with(|state| matches!(&*state.borrow(), Some(State::Noting(_))))
}

/// Returns whether a function of this thread is planned.
pub(super) fn is_on() -> bool {
    IS_ON.with(Cell::get)
}

/// Returns how the next call of a planned function is divided; none if this thread makes no such.
///
/// # Errors
/// The call differs from that of the first run.
pub(super) fn next(op: &str, operands: &[Operand<'_>], mesh: &Mesh) -> Result<Option<Pinned>> {
    STATE.with(|state| match &*state.borrow() {
        Some(State::Making(making)) if making.mesh == *mesh => {
            making.next(&called(op, operands.iter().map(|of| of.spec.brief()))).map(Some)
        }
        _ => Ok(None),
    })
}

/// Notes a call that was made.
pub(super) fn made(
    op: &str,
    attrs: &Attrs,
    inputs: &[&Tensor],
    results: &[Tensor],
    plan: &Plan,
    origin: &Origin,
) {
    STATE.with(|state| match &mut *state.borrow_mut() {
        Some(State::Noting(noted)) if noted.mesh == plan.mesh => {
            let operands = inputs.iter().map(|input| noted.number(input)).collect();
            let known = noted.tensors.len();
            let results: Vec<usize> = results.iter().map(|made| noted.number(made)).collect();
            noted.made[known..].fill(true);
            let (op, attrs, origin) = (op.to_owned(), attrs.clone(), origin.clone());
            noted.calls.push(NotedCall { op, attrs, operands, results, origin });
        }
        Some(State::Making(making)) if making.mesh == plan.mesh => {
            let operands = inputs.iter().zip(&plan.operands).filter_map(|(input, taken)| {
                let own = Sharding::clone(&input.global()?.sharding);
                Some((input.spec().brief(), own, taken.sharding.clone()))
            });
            let results = plan.results.iter();
            let results = results.map(|made| (made.spec.brief(), made.sharding.clone()));
            making.made.push(CallLayout {
                op: op.to_owned(),
                operands: operands.collect(),
                results: results.collect(),
                received: plan.received,
                is_divided: plan.is_divided,
                origin: origin.clone(),
            });
        }
        Some(State::Noting(_) | State::Making(_)) | None => {}
    });
}

/// Notes that a function redistributes a tensor.
pub(super) fn redistributes(tensor: &Tensor, to: &Sharding) {
    STATE.with(|state| match &mut *state.borrow_mut() {
        Some(State::Noting(noted)) if noted.mesh == *to.mesh() => {
            let entries = to.sbp().iter().map(|sbp| Some(*sbp)).collect();
            let number = noted.number(tensor);
            noted.requests.push((number, entries));
        }
        _ => {}
    });
}
