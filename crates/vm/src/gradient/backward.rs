//! From results to gradients: the nodes of a tape, from the last to the first.
//!
//! Long because its items have examples.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use millstream_runtime::scope::origin::{self, with_origin};
use millstream_types::{Attrs, Error, Layout, Origin, Result, Sharding};

use crate::handle::request::{self, Rank};
use crate::handle::{Tensor, global, stream_of};

use super::buckets::Buckets;
use super::formulas;
use super::node::{Node, Source, Value};
use super::tape::{Tape, no_grad, with_grad};
use crate::handle::leaf::Leaf;

/// The gradients of a node's inputs, in order.
type Gradients = Vec<Option<Tensor>>;

/// What a backward pass is asked for.
struct Pass<'a> {
    /// The results that it begins with, and their gradients.
    from: &'a [(&'a Tensor, Tensor)],
    /// The tensors whose gradients are returned; none gives leaves theirs.
    to: Option<&'a [&'a Tensor]>,
    /// Whether the formulas are noted, to be differentiated again.
    is_noted: bool,
    /// Whether what was kept stays, for another pass.
    is_kept: bool,
    origin: &'a Origin,
}

fn invalid(message: String) -> Error {
    Error::Invalid { what: "gradient", message }
}

impl Tape {
    /// Adds the gradients of a loss to those of the tensors
    /// [with a gradient](Tensor::with_grad) that it depends on. What was kept for the formulas is
    /// dropped, so that a second pass over the same calls is an error.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// tape.backward(&(&w * &w)?.sum(..)?)?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [4.0, 6.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The loss has more than one element, or depends on no such tensor; an op has no derivative; a
    /// tensor that a formula needs was changed in place.
    #[track_caller]
    pub fn backward(&self, loss: &Tensor) -> Result<()> {
        let origin = origin::caller();
        let seed = with_origin(&origin, || seed(loss)).map_err(|e| e.at(&origin))?;
        let from = &[(loss, seed)];
        let pass = Pass { from, to: None, is_noted: false, is_kept: false, origin: &origin };
        self.run(&pass).map(drop).map_err(|e| e.at(&origin))
    }

    /// Adds gradients as [`Tape::backward`] does, for results with given gradients. `keep` leaves
    /// what was kept for another pass.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// let y = (&w * &w)?;
    /// let gradient = Tensor::from_slice(&[1.0f32, 10.0], 2, &machine)?;
    /// tape.backward_from(&[(&y, &gradient)], false)?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [4.0, 60.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tape::backward`], or a gradient has another shape than its result.
    #[track_caller]
    pub fn backward_from(&self, results: &[(&Tensor, &Tensor)], keep: bool) -> Result<()> {
        let origin = origin::caller();
        let from: Vec<(&Tensor, Tensor)> =
            results.iter().map(|(result, gradient)| (*result, (*gradient).clone())).collect();
        let pass = Pass { from: &from, to: None, is_noted: false, is_kept: keep, origin: &origin };
        self.run(&pass).map(drop).map_err(|e| e.at(&origin))
    }

    /// Returns the gradients of a result for some tensors, none for one that it does not depend on.
    /// The formulas are noted: a gradient can be differentiated again, where its formulas have
    /// derivatives. PyTorch's `autograd.grad` with `create_graph`.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32], 1, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// let y = x.pow(3)?.sum(..)?;
    /// let first = tape.gradients(&y, &[&x])?.remove(0).unwrap();
    /// let second = tape.gradients(&first.sum(..)?, &[&x])?.remove(0).unwrap();
    /// assert_eq!(first.to_vec::<f32>()?, [12.0]); // 3 x²
    /// assert_eq!(second.to_vec::<f32>()?, [12.0]); // 6 x
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tape::backward`]; also if a checkpoint lies on the way.
    #[track_caller]
    pub fn gradients(&self, of: &Tensor, to: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
        let origin = origin::caller();
        let seed = with_origin(&origin, || seed(of)).map_err(|e| e.at(&origin))?;
        let (from, to) = (&[(of, seed)], Some(to));
        let pass = Pass { from, to, is_noted: true, is_kept: true, origin: &origin };
        self.run(&pass).map_err(|e| e.at(&origin))
    }

    /// Calls `hook` with the gradient of a tensor in each backward pass, once it is complete and
    /// before it is used. A tensor that the hook returns replaces it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let w = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?.with_grad()?;
    /// let tape = machine.tape();
    /// let y = (&w * &w)?;
    /// tape.hook(&y, |gradient| Ok(Some(gradient.clamp(-0.5, 0.5)?)))?;
    /// tape.backward(&y.sum(..)?)?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor depends on no tensor with a gradient.
    #[track_caller]
    pub fn hook(
        &self,
        tensor: &Tensor,
        hook: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + 'static,
    ) -> Result<()> {
        let origin = origin::caller();
        let mut notes = self.notes.borrow_mut();
        let value = notes.value(tensor).ok_or_else(|| unknown(tensor).at(&origin))?;
        notes.nodes[value.node].hooks.push((value.output, Box::new(hook)));
        Ok(())
    }

    fn run(&self, pass: &Pass<'_>) -> Result<Vec<Option<Tensor>>> {
        // Gradients have the dtypes of the values that they belong to.
        let _plain = request::suspend(&[Rank::Autocast]);
        match pass.is_noted {
            true => with_grad(|| self.go_back(pass)),
            false => no_grad(|| self.go_back(pass)),
        }
    }

    fn go_back(&self, pass: &Pass<'_>) -> Result<Vec<Option<Tensor>>> {
        let mut pending: BTreeMap<usize, HashMap<usize, Tensor>> = BTreeMap::new();
        let wanted: HashMap<usize, Value> = {
            let mut notes = self.notes.borrow_mut();
            let tensors = pass.to.unwrap_or_default().iter().enumerate();
            tensors.filter_map(|(k, tensor)| Some((k, notes.value(tensor)?))).collect()
        };
        for (result, gradient) in pass.from {
            let value = self.notes.borrow_mut().value(result).ok_or_else(|| unknown(result))?;
            if gradient.shape() != result.shape() || gradient.dtype() != result.dtype() {
                let (own, given) = (result.spec().brief(), gradient.spec().brief());
                return Err(invalid(format!("expected the gradient of {own}, got {given}")));
            }
            with_origin(pass.origin, || add(&mut pending, value, gradient.clone()))?;
        }
        let mut found: HashMap<Value, Tensor> = HashMap::new();
        let mut leaves = Buckets::new(self.bucket_bytes.get());
        let stops: HashSet<Value> = wanted.values().copied().collect();
        while let Some((number, gradients)) = pending.pop_last() {
            let mut gradients = self.in_order(number, gradients)?;
            self.call_hooks(number, &mut gradients)?;
            for (output, gradient) in gradients.iter().enumerate() {
                let value = Value { node: number, output };
                if let Some(gradient) = gradient.as_ref().filter(|_| stops.contains(&value)) {
                    found.insert(value, gradient.clone());
                }
            }
            let inputs = self.node_inputs(number);
            let computed = match self.leaf(number) {
                Some(leaf) => {
                    if let Some(gradient) = gradients.into_iter().flatten().next()
                        && pass.to.is_none()
                    {
                        with_origin(pass.origin, || leaves.push(leaf, gradient))?;
                    }
                    continue;
                }
                None => self.formulas(number, &gradients, pass)?,
            };
            for (value, gradient) in inputs.into_iter().zip(computed) {
                if let (Some(value), Some(gradient)) = (value, gradient) {
                    with_origin(pass.origin, || add(&mut pending, value, gradient))?;
                }
            }
            if !pass.is_kept {
                self.spend(number);
            }
        }
        if pass.to.is_none() {
            let add_up = |(leaf, gradient): (Arc<Leaf>, Tensor)| {
                let sum = match leaf.get() {
                    Some(former) => former.add(&gradient)?,
                    None => gradient,
                };
                leaf.set(Some(sum));
                Ok(())
            };
            with_origin(pass.origin, || leaves.finish()?.into_iter().try_for_each(add_up))?;
        }
        let asked = pass.to.map_or(0, <[_]>::len);
        Ok((0..asked).map(|k| found.get(wanted.get(&k)?).cloned()).collect())
    }

    fn leaf(&self, number: usize) -> Option<Arc<Leaf>> {
        match &self.notes.borrow().nodes[number].source {
            Source::Leaf(leaf) => Some(leaf.clone()),
            _ => None,
        }
    }

    fn node_inputs(&self, number: usize) -> Vec<Option<Value>> {
        self.notes.borrow().nodes[number].inputs.clone()
    }

    /// Returns the gradients by the number of the result.
    fn in_order(&self, number: usize, mut gradients: HashMap<usize, Tensor>) -> Result<Gradients> {
        let count = self.notes.borrow().nodes[number].output_specs.len();
        Ok((0..count).map(|output| gradients.remove(&output)).collect())
    }

    fn call_hooks(&self, number: usize, gradients: &mut Gradients) -> Result<()> {
        // Taken out, as a hook may make calls, which are noted.
        let hooks = std::mem::take(&mut self.notes.borrow_mut().nodes[number].hooks);
        let mut called = Ok(());
        for (output, hook) in &hooks {
            let Some(Some(gradient)) = gradients.get_mut(*output) else { continue };
            match hook(gradient) {
                Ok(None) => {}
                Ok(Some(other)) => *gradient = other,
                Err(error) => called = Err(error),
            }
        }
        self.notes.borrow_mut().nodes[number].hooks = hooks;
        called
    }

    /// Drops what a node has kept.
    fn spend(&self, number: usize) {
        let mut notes = self.notes.borrow_mut();
        let node = &mut notes.nodes[number];
        let kept = (std::mem::take(&mut node.kept_inputs), std::mem::take(&mut node.kept_outputs));
        node.is_spent = true;
        drop(notes);
        drop(kept);
    }

    /// Computes the gradients of a node's inputs.
    fn formulas(
        &self,
        number: usize,
        gradients: &[Option<Tensor>],
        pass: &Pass<'_>,
    ) -> Result<Gradients> {
        // A formula's calls are noted, so the node leaves the notes while its formulas run.
        let node = std::mem::replace(&mut self.notes.borrow_mut().nodes[number], spent());
        // The calls of a formula come from the place of the call that it is the derivative of.
        let origin = if node.origin.is_unknown() { pass.origin } else { &node.origin };
        let computed = with_origin(origin, || self.formulas_of(&node, gradients, pass));
        let computed = computed.map_err(|error| error.at(&node.origin));
        self.notes.borrow_mut().nodes[number] = node;
        computed
    }

    fn formulas_of(
        &self,
        node: &Node,
        gradients: &[Option<Tensor>],
        pass: &Pass<'_>,
    ) -> Result<Gradients> {
        if node.is_spent {
            return Err(invalid(format!(
                "the gradient of {} was computed before, and what it needs was dropped; keep it \
                 with `backward_from(…, true)`",
                node.op
            )));
        }
        let Some(beside) = gradients.iter().flatten().next() else {
            return Ok(node.inputs.iter().map(|_| None).collect());
        };
        match &node.source {
            Source::Leaf(_) => Ok(Vec::new()),
            Source::Unknown => {
                let message = format!("{} has no derivative; use `detach`, or other ops", node.op);
                Err(invalid(message))
            }
            Source::Copy(device) => Ok(vec![Some(beside.to(device)?)]),
            Source::Redistribution(held) => Ok(vec![Some(redistributed(beside, held)?)]),
            Source::Part(base, part_of) => {
                let flat = embedded(beside, part_of, base)?;
                Ok(vec![Some(part(&flat, base)?)])
            }
            Source::Joined(base, part_of) => {
                let flat = embedded(beside, base, part_of)?;
                let of_part = part(&flat, part_of)?.copy()?;
                let hole = part(&flat, part_of)?;
                hole.fill_(0)?;
                Ok(vec![Some(part(&flat, base)?), Some(of_part)])
            }
            Source::Checkpoint(region) => {
                if pass.to.is_some() {
                    let message = "a checkpoint computes gradients of leaves alone, by `backward`";
                    return Err(invalid(message.to_owned()));
                }
                self.recompute(region, node, gradients)
            }
            Source::Rule(rule) => formulas::gradients(rule, node, &self.notes, gradients, beside),
        }
    }
}

/// Returns a gradient as it is held beside the operand of a redistribution.
fn redistributed(gradient: &Tensor, held: &Arc<Sharding>) -> Result<Tensor> {
    match gradient.global() {
        Some(global) if global.sharding != *held => {
            let stream = stream_of(gradient)?;
            global::redistributed(gradient, held, &stream, &origin::caller())
        }
        _ => Ok(gradient.clone()),
    }
}

/// Returns a node in place of one whose formulas run.
fn spent() -> Node {
    Node { is_spent: true, ..Node::new(Source::Unknown, "", Origin::Unknown) }
}

fn unknown(tensor: &Tensor) -> Error {
    invalid(format!(
        "{} depends on no tensor with a gradient, as far as this tape has noted; make a parameter \
         one with `with_grad`, and begin the tape before the calls",
        tensor.spec().brief()
    ))
}

/// Returns the gradient of a result for itself.
fn seed(result: &Tensor) -> Result<Tensor> {
    if result.numel() != 1 {
        return Err(invalid(format!(
            "expected a loss of one element, got {}; reduce it, or give its gradient to \
             `backward_from`",
            result.spec().brief()
        )));
    }
    if result.dtype().is_complex() {
        return Err(invalid(format!(
            "expected a real loss, got {}; take its absolute value or a part of it, or give its \
             gradient to `backward_from`",
            result.spec().brief()
        )));
    }
    no_grad(|| result.ones_like())
}

/// Adds a gradient to that of a value.
fn add(
    pending: &mut BTreeMap<usize, HashMap<usize, Tensor>>,
    value: Value,
    gradient: Tensor,
) -> Result<()> {
    let of_node = pending.entry(value.node).or_default();
    let sum = match of_node.remove(&value.output) {
        Some(former) => former.add(&gradient)?,
        None => gradient,
    };
    of_node.insert(value.output, sum);
    Ok(())
}

/// Returns a memory of zeros, as long as two layouts need, with a tensor's elements at the places
/// of the first.
pub(super) fn embedded(tensor: &Tensor, at: &Layout, other: &Layout) -> Result<Tensor> {
    let length = at.span().max(other.span());
    let flat = Tensor::zeros(length, tensor.dtype(), tensor)?;
    if at.may_overlap_itself() {
        // Elements that lie at one place add up.
        let places = Tensor::arange(0..length as i64, tensor)?;
        let places = part(&places, at)?.contiguous()?.reshape(-1)?;
        let elements = tensor.contiguous()?.reshape(-1)?;
        return flat.index_add(&places, &elements, 0);
    }
    part(&flat, at)?.copy_(tensor)?;
    Ok(flat)
}

/// Returns the view of a flat memory with a layout.
pub(super) fn part(flat: &Tensor, at: &Layout) -> Result<Tensor> {
    let ints = |list: &[usize]| list.iter().map(|&v| v as i64).collect::<Vec<i64>>();
    let attrs = Attrs::new()
        .with("size", ints(at.shape()))
        .with("stride", ints(at.strides()))
        .with("storage_offset", at.offset() as i64);
    let mut made = crate::tensor::call_op("as_strided", &[flat], attrs)?;
    Ok(made.swap_remove(0))
}
