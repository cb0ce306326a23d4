//! The gradients that recorded functions find and leave: state that launches read and set.
//!
//! A gradient that is there when a function is recorded becomes an input, which each launch takes
//! from its leaf; a gradient that the functions leave becomes an output, which each launch gives to
//! its leaf. A list is made for one case, so a launch that finds a gradient where the recording
//! found none, or the other way round, is refused.

use std::sync::{Arc, Weak};

use millstream_types::{Error, Origin, Result};

use crate::handle::Tensor;
use crate::handle::global::{self, Class};
use crate::handle::leaf::Leaf;

use super::recorder::{RecordedTensor, Recorder};

/// The content of a leaf once functions have set it.
enum Content<T> {
    Nothing,
    /// A tensor of the list, or its number among the outputs; the part of a global one.
    OfList(T, Option<Class>),
    /// A tensor that no launch makes.
    Outside(Tensor),
}

/// A leaf that recorded functions use.
struct UsedLeaf {
    leaf: Arc<Leaf>,
    /// What the first function found: a formal and its number, or nothing; none if it set the
    /// gradient first.
    found: Option<Option<usize>>,
    /// The gradient that functions left; none if they only read.
    left: Option<Content<RecordedTensor>>,
    is_set: bool,
    /// The place of the last use.
    origin: Origin,
    /// What the leaf holds outside of the function that runs; none if that does not use it.
    before: Option<Option<Tensor>>,
}

/// The leaves that the functions of a recording use.
#[derive(Default)]
pub(super) struct RecordedGradients {
    used: Vec<UsedLeaf>,
    /// The leaves of tensors of the list, which end with these.
    own: Vec<Weak<Leaf>>,
}

/// A leaf, as launches read and set it.
pub(super) struct LaunchedLeaf {
    leaf: Arc<Leaf>,
    found: Option<Option<usize>>,
    left: Option<Content<usize>>,
}

/// How a function uses a leaf.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Use {
    Read,
    Set,
}

impl Recorder {
    /// Notes the leaf of a tensor of the list.
    pub(super) fn note_own_leaf(&mut self, leaf: &Arc<Leaf>) {
        self.gradients.own.push(Arc::downgrade(leaf));
    }

    /// Notes that a function uses a leaf. Returns the tensor of the list that stands for the
    /// gradient, if the leaf has to hold one from now on.
    pub(super) fn use_leaf(
        &mut self,
        leaf: &Arc<Leaf>,
        how: Use,
        origin: &Origin,
    ) -> Option<RecordedTensor> {
        let is_same = |other: &Arc<Leaf>| Arc::ptr_eq(other, leaf);
        let address = Arc::as_ptr(leaf);
        if self.gradients.own.iter().any(|own| std::ptr::eq(own.as_ptr(), address)) {
            return None;
        }
        let known = self.gradients.used.iter().position(|used| is_same(&used.leaf));
        let held = leaf.held();
        if let Some(known) = known {
            let used = &mut self.gradients.used[known];
            used.is_set |= how == Use::Set;
            used.origin.clone_from(origin);
            if used.before.is_some() {
                return None;
            }
            used.before = Some(held);
            return match &used.left {
                Some(Content::OfList(left, _)) => Some(*left),
                Some(Content::Nothing | Content::Outside(_)) | None => None,
            };
        }
        let number = self.gradients.used.len();
        let found = match (how, &held) {
            (Use::Set, _) => Ok(None),
            (Use::Read, None) => Ok(Some(None)),
            (Use::Read, Some(gradient)) => self.found(number, gradient).map(|f| Some(Some(f))),
        };
        let found = found.unwrap_or_else(|error| {
            self.mistake.get_or_insert(error.at(origin));
            None
        });
        let stand_in = found.flatten().map(|(_, tensor)| tensor);
        self.gradients.used.push(UsedLeaf {
            leaf: leaf.clone(),
            found: found.map(|found| found.map(|(formal, _)| formal)),
            left: None,
            is_set: how == Use::Set,
            origin: origin.clone(),
            before: Some(held),
        });
        stand_in
    }

    /// Declares the formal of a gradient that a function finds.
    fn found(&mut self, number: usize, gradient: &Tensor) -> Result<(usize, RecordedTensor)> {
        let (machine, gradient) = (self.machine.clone(), global::part(gradient)?);
        let made = machine.owns(gradient)?;
        let bytes = machine.shared.lock()?.builder.storage_bytes(made)?;
        let (name, spec) = (format!("gradient {number}"), gradient.spec().clone());
        let tensor = self.input_in(&name, spec, bytes, gradient.device())?;
        Ok((self.formal_count() - 1, tensor))
    }

    /// Ends the use of leaves by a function, and gives them back what they held before.
    pub(super) fn end_gradients(&mut self, function: u64) {
        for used in &mut self.gradients.used {
            let Some(before) = used.before.take() else { continue };
            let content = used.leaf.held();
            used.leaf.hold(before);
            if !used.is_set {
                continue;
            }
            let recorded = |tensor: &Tensor| global::part(tensor).ok()?.recorded();
            used.left = Some(match content.as_ref().map(|t| (t, recorded(t))) {
                None => Content::Nothing,
                Some((tensor, None)) => Content::Outside(tensor.clone()),
                Some((gradient, Some((tensor, of)))) => {
                    if of != function {
                        let message = "it is of another recording".to_owned();
                        let mistake = Error::Invalid { what: "gradient", message };
                        self.mistake.get_or_insert(mistake.at(&used.origin));
                    }
                    Content::OfList(RecordedTensor(tensor), global::class(gradient))
                }
            });
        }
    }

    /// Declares the gradients that functions leave as outputs. Returns what launches do.
    ///
    /// # Errors
    /// An output is named as one of them.
    pub(super) fn finish_gradients(&mut self) -> Result<Vec<LaunchedLeaf>> {
        let used = std::mem::take(&mut self.gradients.used);
        let launched = used.into_iter().enumerate().map(|(number, used)| {
            let left = match used.left {
                Some(Content::OfList(tensor, class)) => {
                    let output = self.gradient(&format!("gradient {number}"), &tensor)?;
                    Some(Content::OfList(output, class))
                }
                Some(Content::Nothing) => Some(Content::Nothing),
                Some(Content::Outside(tensor)) => Some(Content::Outside(tensor)),
                None => None,
            };
            Ok(LaunchedLeaf { leaf: used.leaf, found: used.found, left })
        });
        launched.collect()
    }
}

impl LaunchedLeaf {
    /// Returns the gradient that a launch takes, and the number of its formal.
    ///
    /// # Errors
    /// The recording found a gradient, and the launch none, or the other way round.
    pub(super) fn find(&self) -> Result<Option<(usize, Tensor)>> {
        let differs = |recorded: &str, now: &str, help: &str| {
            let message = format!(
                "the list was recorded with {recorded} where there is {now} at the launch; {help}"
            );
            Err(Error::Invalid { what: "launch", message })
        };
        match (self.found, self.found.and_then(|_| self.leaf.held())) {
            (Some(Some(formal)), Some(tensor)) => {
                Ok(Some((formal, global::part(&tensor)?.clone())))
            }
            (Some(None), Some(_)) => {
                let help = "drop it with `zero_grad`, or within the function before it is computed";
                differs("no gradient", "one", help)
            }
            (Some(Some(_)), None) => differs("a gradient", "none", "record another list for that"),
            (Some(None) | None, None) | (None, Some(_)) => Ok(None),
        }
    }

    /// Returns the leaf and the number of the output that it is given, if a launch sets its
    /// gradient and takes none from it.
    pub(super) fn replaced(&self) -> Option<(usize, Arc<Leaf>)> {
        match (self.found, &self.left) {
            (None, Some(Content::OfList(number, _))) => Some((*number, self.leaf.clone())),
            _ => None,
        }
    }

    /// Gives the leaf the gradient that a launch leaves.
    pub(super) fn leave(&self, outputs: &[Tensor]) {
        match &self.left {
            None => {}
            Some(Content::Nothing) => self.leaf.hold(None),
            Some(Content::OfList(number, class)) => {
                let gradient = outputs.get(*number).cloned();
                self.leaf.hold(gradient.map(|part| global::of_class(part, class.as_ref())));
            }
            Some(Content::Outside(tensor)) => self.leaf.hold(Some(tensor.clone())),
        }
    }
}
