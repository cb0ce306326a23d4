//! The notes of a tape: nodes, the values that tensors have, storages and their versions.
//!
//! # Rules
//! - A node is a call whose results depend on a leaf. A *value* is a result of a node. Each tensor
//!   has at most one value; a call in place gives its tensor a new one.
//! - All views of a memory are of one *group*. A write to any of them adds 1 to its version. A
//!   tensor that a formula will need is kept with the version that it had.
//! - The first tensor of a group is its base. A write to a view gives the base the value of a node
//!   that joins the old base and the new part; other views get their values from the base when
//!   they are next used.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_ops::derivative::Save;
use millstream_types::{Attrs, Error, Origin, Result, TensorSpec};

use crate::handle::{Tensor, WeakTensor};

use super::node::{Kept, Node, Source, Value};

/// The views of one memory.
#[derive(Default)]
struct Group {
    version: u64,
    /// The op and the place of the last write.
    writer: Option<(String, Origin)>,
    /// The layout of the base, and its value.
    base: Option<(TensorSpec, Option<Value>)>,
    /// How often the base has got a new value since views of it got theirs.
    generation: u64,
}

/// What is known of a tensor.
struct Known {
    /// Keeps the handle's address from being used again.
    _tensor: WeakTensor,
    value: Option<Value>,
    group: usize,
    generation: u64,
    is_base: bool,
    /// Whether it is a view that was made without gradients, which a later write gives none.
    is_detached: bool,
}

/// The notes of a tape.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) nodes: Vec<Node>,
    known: HashMap<usize, Known>,
    groups: Vec<Group>,
    /// Groups of tensors that were made before, by the number of their storage.
    storages: HashMap<u64, usize>,
}

/// How a call uses and makes tensors.
pub(super) struct Effects {
    /// The positions of the inputs that it writes.
    pub(super) written: Vec<usize>,
    /// For each result, the input that it is a view of.
    pub(super) views: Vec<Option<usize>>,
}

impl Notes {
    /// Returns what is known of a tensor; that it exists, if nothing was.
    fn look(&mut self, tensor: &Tensor) -> &mut Known {
        let key = tensor.address();
        if !self.known.contains_key(&key) {
            let group = match tensor.storage_number() {
                Some(storage) => match self.storages.get(&storage) {
                    Some(&group) => group,
                    None => {
                        let group = self.new_group();
                        self.storages.insert(storage, group);
                        group
                    }
                },
                None => self.new_group(),
            };
            self.add(tensor, group, None);
        }
        self.known.get_mut(&key).unwrap_or_else(|| unreachable!("it was added"))
    }

    fn new_group(&mut self) -> usize {
        self.groups.push(Group::default());
        self.groups.len() - 1
    }

    fn add(&mut self, tensor: &Tensor, group: usize, value: Option<Value>) {
        let of = &mut self.groups[group];
        let is_base = of.base.is_none();
        if is_base {
            of.base = Some((tensor.spec().clone(), value));
        }
        let generation = of.generation;
        let of_base = of.base.as_ref().is_some_and(|(_, value)| value.is_some());
        let is_detached = value.is_none() && of_base;
        let _tensor = tensor.weak();
        let known = Known { _tensor, value, group, generation, is_base, is_detached };
        self.known.insert(tensor.address(), known);
    }

    /// Returns the value of a tensor, if it depends on a leaf.
    pub(super) fn value(&mut self, tensor: &Tensor) -> Option<Value> {
        let known = self.look(tensor);
        let (value, group, generation) = (known.value, known.group, known.generation);
        let is_base = known.is_base;
        if known.is_detached {
            return value;
        }
        let of = &self.groups[group];
        if generation != of.generation {
            let base = of.base.clone();
            let current = of.generation;
            let fresh = base.and_then(|(spec, value)| {
                let value = value?;
                if is_base {
                    return Some(value);
                }
                let layouts = (spec.layout.clone(), tensor.spec().layout.clone());
                let source = match spec.dtype == tensor.dtype() {
                    true => Source::Part(layouts.0, layouts.1),
                    // A view of the parts of complex numbers, or the other way round.
                    false => Source::Unknown,
                };
                Some(self.push_derived(
                    source,
                    vec![Some(value)],
                    vec![Some(spec)],
                    tensor.spec().clone(),
                    "a part of a tensor that was changed",
                ))
            });
            let known = self.look(tensor);
            known.value = fresh;
            known.generation = current;
            return fresh;
        }
        if value.is_none()
            && let Some(leaf) = tensor.leaf_slot().get()
        {
            let leaf = leaf.clone();
            let spec = tensor.spec().clone();
            let value =
                self.push_derived(Source::Leaf(leaf), Vec::new(), Vec::new(), spec, "a leaf");
            self.set_value(tensor, Some(value));
            return Some(value);
        }
        value
    }

    /// Returns whether a tensor is a leaf, or a view of one.
    pub(super) fn is_of_leaf(&mut self, tensor: &Tensor) -> bool {
        if tensor.requires_grad() {
            return true;
        }
        let group = self.look(tensor).group;
        let base = self.groups[group].base.as_ref().and_then(|(_, value)| *value);
        base.is_some_and(|value| matches!(self.nodes[value.node].source, Source::Leaf(_)))
    }

    fn set_value(&mut self, tensor: &Tensor, value: Option<Value>) {
        let known = self.look(tensor);
        known.value = value;
        let (group, is_base) = (known.group, known.is_base);
        if is_base && let Some((_, base)) = &mut self.groups[group].base {
            *base = value;
        }
    }

    fn push_derived(
        &mut self,
        source: Source,
        inputs: Vec<Option<Value>>,
        input_specs: Vec<Option<TensorSpec>>,
        output: TensorSpec,
        op: &str,
    ) -> Value {
        let output_specs = vec![output];
        let node = Node::new(source, op, Origin::Unknown);
        self.nodes.push(Node { inputs, input_specs, output_specs, ..node });
        Value { node: self.nodes.len() - 1, output: 0 }
    }

    /// Keeps a tensor with its present version.
    pub(super) fn keep(&mut self, tensor: &Tensor) -> Kept {
        let group = self.look(tensor).group;
        Kept { tensor: tensor.clone(), group, version: self.groups[group].version }
    }

    /// Keeps a copy that was made of a tensor before a call changes it. It has the value that the
    /// tensor had, so that a formula which uses it can be differentiated.
    pub(super) fn keep_copy(&mut self, copy: &Tensor, value: Option<Value>) -> Kept {
        let kept = self.keep(copy);
        self.set_value(copy, value);
        kept
    }

    /// Returns a tensor that was kept.
    ///
    /// # Errors
    /// It was changed since; the error names both places.
    pub(super) fn kept(&self, kept: &Kept, node: &Node) -> Result<Tensor> {
        let group = &self.groups[kept.group];
        if group.version == kept.version {
            return Ok(kept.tensor.clone());
        }
        let (writer, place) = match &group.writer {
            Some((op, origin)) => (op.as_str(), origin.clone()),
            None => ("a host function", Origin::Unknown),
        };
        let message = format!(
            "the gradient of {} at {} needs {}, which {writer} at {place} has changed since; use \
             the form of {writer} that makes a new tensor, or pass a `copy` of one of both",
            node.op,
            node.origin,
            kept.tensor.spec().brief(),
        );
        Err(Error::Invalid { what: "gradient", message })
    }

    /// Notes a write that no formula describes.
    pub(super) fn write(&mut self, tensor: &Tensor, op: &str, origin: &Origin) {
        self.look(tensor);
        self.write_at(tensor.address(), None, op, origin);
    }

    /// Notes such a write to a tensor of which only the address and the storage are known.
    pub(super) fn write_at(&mut self, at: usize, storage: Option<u64>, op: &str, origin: &Origin) {
        let known = self.known.get(&at).map(|known| known.group);
        let of_storage = || self.storages.get(&storage?).copied();
        if let Some(group) = known.or_else(of_storage) {
            let group = &mut self.groups[group];
            group.version += 1;
            group.writer = Some((op.to_owned(), origin.clone()));
        }
    }

    /// Returns whether a tensor depends on a leaf, without a note that it exists.
    pub(super) fn depends(&self, tensor: &Tensor) -> bool {
        let of_base = |known: &Known| {
            let base = self.groups[known.group].base.as_ref();
            !known.is_detached && base.is_some_and(|(_, value)| value.is_some())
        };
        let known = self.known.get(&tensor.address());
        tensor.requires_grad() || known.is_some_and(|known| known.value.is_some() || of_base(known))
    }

    /// Notes a result that is a view, without a value of its own.
    pub(super) fn alias(&mut self, of: &Tensor, view: &Tensor, value: Option<Value>) {
        let group = self.look(of).group;
        self.add(view, group, value);
    }

    /// Notes a call, before it is made: what of its inputs is kept.
    pub(super) fn begin(
        &mut self,
        source: Source,
        op: &str,
        attrs: &Arc<Attrs>,
        inputs: &[Option<&Tensor>],
        origin: &Origin,
    ) -> Node {
        let values: Vec<Option<Value>> =
            inputs.iter().map(|input| input.and_then(|tensor| self.value(tensor))).collect();
        let mut kept: Vec<Option<Kept>> = inputs.iter().map(|_| None).collect();
        if let Source::Rule(rule) = &source {
            for save in rule.kept(|input| values.get(input).is_some_and(Option::is_some)) {
                if let Save::Input(k) = save
                    && let Some(Some(tensor)) = inputs.get(k)
                {
                    kept[k] = Some(self.keep(tensor));
                }
            }
        }
        if matches!(source, Source::Checkpoint(_)) {
            kept = inputs.iter().map(|input| input.map(|tensor| self.keep(tensor))).collect();
        }
        let input_specs = inputs.iter().map(|input| input.map(|t| t.spec().clone())).collect();
        let (attrs, node) = (attrs.clone(), Node::new(source, op, origin.clone()));
        Node { attrs, inputs: values, input_specs, kept_inputs: kept, ..node }
    }

    /// Notes a call that was made. `given` are its tensors as they were given.
    pub(super) fn end(
        &mut self,
        node: Option<Node>,
        given: &[&Tensor],
        results: &[Tensor],
        effects: &Effects,
        op: &str,
        origin: &Origin,
    ) {
        for &k in &effects.written {
            self.write(given[k], op, origin);
        }
        let Some(mut node) = node else {
            for (result, of) in results.iter().zip(&effects.views) {
                match of {
                    Some(of) => self.alias(given[*of], result, None),
                    // Changed in place by what depends on no leaf.
                    None if effects.written.iter().any(|&k| given[k].is_same(result)) => {
                        self.replace(result, None);
                    }
                    None => {}
                }
            }
            return;
        };
        let number = self.nodes.len();
        node.output_specs = results.iter().map(|result| result.spec().clone()).collect();
        for (k, (result, of)) in results.iter().zip(&effects.views).enumerate() {
            let value = result.dtype().is_inexact().then_some(Value { node: number, output: k });
            let in_place = effects.written.iter().any(|&k| given[k].is_same(result));
            match of {
                Some(of) => self.alias(given[*of], result, value),
                None if in_place => {}
                None => {
                    let group = self.new_group();
                    self.add(result, group, value);
                }
            }
        }
        if let Source::Rule(rule) = &node.source {
            let mut kept: Vec<Option<Kept>> = results.iter().map(|_| None).collect();
            for save in rule.kept(|input| node.inputs.get(input).is_some_and(Option::is_some)) {
                if let Save::Output(k) = save
                    && let Some(tensor) = results.get(k)
                {
                    kept[k] = Some(self.keep(tensor));
                }
            }
            node.kept_outputs = kept;
        }
        self.nodes.push(node);
        // The values of tensors changed in place, now that the node exists.
        for (k, result) in results.iter().enumerate() {
            if effects.written.iter().any(|&k| given[k].is_same(result)) {
                self.replace(result, Some(Value { node: number, output: k }));
            }
        }
    }

    /// Gives a tensor that was changed in place its new value, and its base.
    fn replace(&mut self, tensor: &Tensor, value: Option<Value>) {
        let known = self.look(tensor);
        let (group, is_base) = (known.group, known.is_base);
        if value.is_none() && self.groups[group].base.as_ref().is_none_or(|b| b.1.is_none()) {
            return;
        }
        if is_base {
            self.set_value(tensor, value);
        } else if let Some((spec, base)) = self.groups[group].base.clone() {
            let layouts = (spec.layout.clone(), tensor.spec().layout.clone());
            let source = match spec.dtype == tensor.dtype() {
                true => Source::Joined(layouts.0, layouts.1),
                false => Source::Unknown,
            };
            let joined = self.push_derived(
                source,
                vec![base, value],
                vec![Some(spec.clone()), Some(tensor.spec().clone())],
                spec.clone(),
                "a part written in place",
            );
            self.groups[group].base = Some((spec, Some(joined)));
            self.look(tensor).value = value;
        }
        let of = &mut self.groups[group];
        of.generation += 1;
        let generation = of.generation;
        let known = self.look(tensor);
        known.generation = generation;
        known.is_detached &= value.is_none();
    }
}
