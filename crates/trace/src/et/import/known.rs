//! The elements of a storage that are known, because an input names them or an op wrote them. A
//! recording names views: of the rest of their storage it has no elements.

use std::collections::BTreeMap;

use millstream_types::{Access, Attrs, TensorSpec};

use super::{Import, Lowered, Refusal, Val, unsupported};
use crate::element_iter::ElementIter;

/// The maximum number of runs of a view that are tracked.
const MAX_RUNS: usize = 1 << 22;

/// The maximum number of elements of a copy that are tracked one by one.
const MAX_COPIED: usize = 1 << 20;

/// Runs of bytes of known elements, none of which touch: the end of each by its start. Views of a
/// storage may have elements of several sizes.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownElements(BTreeMap<usize, usize>);

impl KnownElements {
    /// Returns all of this many bytes.
    fn all(bytes: usize) -> KnownElements {
        KnownElements(BTreeMap::from([(0, bytes)]))
    }

    fn insert(&mut self, start: usize, end: usize) {
        let (mut start, mut end) = (start, end);
        // The runs that overlap or touch the new one become part of it.
        while let Some((&from, &to)) =
            self.0.range(..=end).next_back().filter(|(_, to)| **to >= start)
        {
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    fn contains(&self, start: usize, end: usize) -> bool {
        self.0.range(..=start).next_back().is_some_and(|(_, to)| *to >= end)
    }

    /// Adds the elements of a view; returns false if it has too many runs.
    fn add(&mut self, spec: &TensorSpec) -> bool {
        let Some(runs) = Runs::of(spec) else { return false };
        runs.for_each(&mut |start, end| {
            self.insert(start, end);
            true
        })
    }

    /// Removes the elements of a view; all, if it has too many runs.
    fn remove(&mut self, spec: &TensorSpec) {
        let Some(runs) = Runs::of(spec) else { return self.0.clear() };
        runs.for_each(&mut |start, end| {
            self.remove_run(start, end);
            true
        });
    }

    fn remove_run(&mut self, start: usize, end: usize) {
        while let Some((&from, &to)) =
            self.0.range(..end).next_back().filter(|(_, to)| **to > start)
        {
            self.0.remove(&from);
            if from < start {
                self.0.insert(from, start);
            }
            if to > end {
                self.0.insert(end, to);
            }
            if from < start {
                break;
            }
        }
    }

    /// Makes each element of a view known or unknown as the one that is copied to it is.
    fn copy(&mut self, to: &TensorSpec, (source, from): (&KnownElements, &TensorSpec)) {
        let sizes = [to, from].map(|spec| spec.dtype.size());
        let pairs = ElementIter::new(&to.layout).zip(ElementIter::new(&from.layout));
        for (to, from) in pairs {
            let (to, from) = (to * sizes[0], from * sizes[1]);
            match source.contains(from, from + sizes[1]) {
                true => self.insert(to, to + sizes[0]),
                false => self.remove_run(to, to + sizes[0]),
            }
        }
    }

    /// Returns whether all elements of a view are known.
    fn covers(&self, spec: &TensorSpec) -> bool {
        let start = spec.layout.offset() * spec.dtype.size();
        if spec.numel() == 0 || self.contains(start, spec.span_bytes()) {
            return true;
        }
        Runs::of(spec).is_some_and(|runs| runs.for_each(&mut |s, e| self.contains(s, e)))
    }
}

/// The runs of consecutive elements of a view, in bytes.
struct Runs {
    offset: usize,
    length: usize,
    /// The lengths and strides of the dimensions that step over gaps, outermost first.
    outer: Vec<(usize, usize)>,
}

impl Runs {
    /// Returns `None` if there are more than [`MAX_RUNS`].
    fn of(spec: &TensorSpec) -> Option<Runs> {
        let (layout, size) = (&spec.layout, spec.dtype.size());
        if layout.numel() == 0 {
            return Some(Runs { offset: 0, length: 0, outer: Vec::new() });
        }
        let mut dims: Vec<(usize, usize)> = layout
            .strides()
            .iter()
            .zip(layout.shape())
            .filter(|(stride, length)| **stride > 0 && **length > 1)
            .map(|(stride, length)| (*stride * size, *length))
            .collect();
        dims.sort_unstable();
        let (mut length, mut outer, mut count) = (size, Vec::new(), 1usize);
        for (stride, steps) in dims {
            if outer.is_empty() && stride <= length {
                length += (steps - 1) * stride;
            } else {
                count = count.checked_mul(steps).filter(|count| *count <= MAX_RUNS)?;
                outer.push((steps, stride));
            }
        }
        outer.reverse();
        Some(Runs { offset: layout.offset() * size, length, outer })
    }

    /// Calls `f` with the start and end of each run while it returns true; returns whether it did
    /// to the end.
    fn for_each(&self, f: &mut dyn FnMut(usize, usize) -> bool) -> bool {
        fn walk(
            at: usize,
            length: usize,
            outer: &[(usize, usize)],
            f: &mut dyn FnMut(usize, usize) -> bool,
        ) -> bool {
            match outer.split_first() {
                None => length == 0 || f(at, at + length),
                Some((&(steps, stride), inner)) => {
                    (0..steps).all(|k| walk(at + k * stride, length, inner, f))
                }
            }
        }
        walk(self.offset, self.length, &self.outer, f)
    }
}

impl Import<'_> {
    /// Makes the elements of a view the only known ones of its storage, which exists before the
    /// program.
    pub(super) fn know_only(&mut self, val: Val) -> Lowered<()> {
        let mut known = KnownElements::default();
        if !known.add(self.spec(val)) {
            return Err(unsupported(format!("it has more than {MAX_RUNS} runs of elements")));
        }
        self.storage_mut(val).known = Some(known);
        Ok(())
    }

    /// Makes all elements of a storage unknown until an op writes them.
    pub(super) fn know_nothing(&mut self, val: Val) {
        self.storage_mut(val).known = Some(KnownElements::default());
    }

    /// Makes the elements of a tensor that `empty` returned unknown until an op writes to them.
    pub(crate) fn leave_unknown(&mut self, val: Val) {
        self.know_nothing(val);
        let cause = format!("node {}, whose result no op wrote", self.node);
        self.note_cause(val, &cause);
    }

    fn note_cause(&mut self, val: Val, cause: &str) {
        self.storage_mut(val).cause = Some(cause.into());
    }

    /// Makes the elements of a view unknown, because they depend on unknown ones.
    pub(super) fn forget_elements(&mut self, val: Val, cause: &str) {
        let tensor = &self.tensors[val.0];
        let storage = &mut self.storages[tensor.storage.0];
        let known = storage.known.get_or_insert_with(|| KnownElements::all(storage.bytes));
        known.remove(&tensor.spec);
        self.note_cause(val, cause);
    }

    /// Tracks a copy of elements of which some are unknown: those that `empty` returned and no op
    /// has written yet, as the corners in circular padding. Returns whether it did.
    fn copy_known(&mut self, to: Val, from: Val) -> bool {
        let [target, source] = [to, from].map(|val| &self.tensors[val.0]);
        let of = &self.storages[source.storage.0];
        let (Some(known), Some(cause)) = (of.known.clone(), of.cause.clone()) else { return false };
        let is_alike = target.spec.shape() == source.spec.shape();
        if of.initial.is_some() || !is_alike || source.spec.numel() > MAX_COPIED {
            return false;
        }
        let storage = &mut self.storages[target.storage.0];
        let written = storage.known.get_or_insert_with(|| KnownElements::all(storage.bytes));
        written.copy(&target.spec, (&known, &source.spec));
        self.note_cause(to, &cause);
        true
    }

    /// Returns whether all elements of a tensor are known.
    pub(super) fn is_known(&self, val: Val) -> bool {
        let known = self.storage(val).known.as_ref();
        self.options.structural || known.is_none_or(|known| known.covers(self.spec(val)))
    }

    /// Refuses a use of elements that neither an input names nor an op wrote.
    pub(super) fn check_known(&self, val: Val, operand: usize) -> Lowered<()> {
        if self.is_known(val) {
            return Ok(());
        }
        let cause = match &self.storage(val).cause {
            Some(cause) => format!("unknown elements, since {cause}"),
            None => "elements that no input names and no op wrote".to_owned(),
        };
        Err(Refusal::Wrong(format!(
            "operand {operand}, {}, has {cause}: expected them in tensors.safetensors, or an \
             import for the structure only",
            self.spec(val).brief()
        )))
    }

    /// Checks and updates the known elements of the operands of a call; returns the reason why its
    /// results are unknown, if they are.
    ///
    /// A read of a tensor from before the program is refused at once. Tensors that `empty` returned
    /// may be written without an op (PyTorch's reducer does that), and then results that depend on
    /// them are unknown.
    pub(super) fn track_known(
        &mut self,
        op: &str,
        attrs: &Attrs,
        operands: &[(Val, Access)],
    ) -> Lowered<Option<String>> {
        if let ("copy_", [(to, _), (from, _)]) = (op, operands)
            && !self.is_known(*from)
            && self.copy_known(*to, *from)
        {
            return Ok(None);
        }
        let mut cause = None;
        let mask = if op == "convolution_backward" { attrs.ints("output_mask")? } else { None };
        for (k, (val, access)) in operands.iter().enumerate() {
            let partial = access.writes() && PARTIAL.contains(&op);
            // Without the gradient of one operand the other is not read: `vmap` passes an empty
            // one.
            let masked =
                matches!(k, 1 | 2) && mask.as_ref().is_some_and(|mask| mask.get(2 - k) == Some(&0));
            if !access.reads() || partial || masked || self.is_known(*val) {
                continue;
            }
            let storage = self.storage(*val);
            if storage.initial.is_some() {
                self.check_known(*val, k)?;
            }
            cause = cause.or_else(|| storage.cause.clone());
        }
        for (val, access) in operands.iter().filter(|(_, access)| access.writes()) {
            match (&cause, access) {
                (Some(cause), _) => self.forget_elements(*val, cause),
                (None, _) => self.know_written(*val),
            }
        }
        Ok(cause)
    }

    /// Adds the elements of a view that an op overwrites.
    fn know_written(&mut self, val: Val) {
        let tensor = &self.tensors[val.0];
        if let Some(known) = &mut self.storages[tensor.storage.0].known {
            // With too many runs the elements stay unknown, so that a read of them is refused.
            known.add(&tensor.spec);
        }
    }
}

/// Ops that write some elements of their first operand and leave the others as they are. They count
/// as writers of all: which elements they write depends on data.
const PARTIAL: &[&str] = &["index_put_", "masked_fill_", "scatter_"];

#[cfg(test)]
mod tests {
    use millstream_types::{DType, Layout};

    use super::*;

    /// Returns a view with elements of one byte.
    fn view(shape: &[usize], strides: &[usize], offset: usize) -> TensorSpec {
        TensorSpec::new(DType::U8, Layout::strided(shape, strides, offset).unwrap()).unwrap()
    }

    #[test]
    fn views_with_gaps() {
        let mut known = KnownElements::default();
        assert!(known.covers(&view(&[0, 3], &[3, 1], 5)));
        assert!(known.add(&view(&[3, 2], &[4, 1], 2)));
        assert_eq!(known.0, BTreeMap::from([(2, 4), (6, 8), (10, 12)]));
        assert!(known.covers(&view(&[2, 3], &[1, 4], 2)));
        assert!(known.covers(&view(&[5, 2], &[0, 1], 6)));
        assert!(!known.covers(&view(&[3], &[1], 2)));
        assert!(!known.covers(&view(&[4, 2], &[4, 1], 2)));
        assert!(known.add(&view(&[2, 2], &[4, 1], 4)));
        assert_eq!(known.0, BTreeMap::from([(2, 12)]));
        assert!(known.covers(&view(&[2, 4, 3], &[1, 2, 1], 2)));
        assert!(!known.covers(&view(&[11], &[1], 2)));
    }

    #[test]
    fn removed_views() {
        let mut known = KnownElements::default();
        assert!(known.add(&view(&[10], &[1], 0)) && known.add(&view(&[4], &[1], 12)));
        known.remove(&view(&[2, 2], &[5, 1], 1));
        assert_eq!(known.0, BTreeMap::from([(0, 1), (3, 6), (8, 10), (12, 16)]));
        known.remove(&view(&[9], &[1], 5));
        assert_eq!(known.0, BTreeMap::from([(0, 1), (3, 5), (14, 16)]));
        known.remove(&view(&[20], &[1], 0));
        assert_eq!(known.0, BTreeMap::new());
    }

    #[test]
    fn copies_of_known_and_unknown_elements() {
        let mut known = KnownElements::default();
        assert!(known.add(&view(&[3], &[1], 4)));
        let source = known.clone();
        known.copy(&view(&[2, 2], &[2, 1], 0), (&source, &view(&[2, 2], &[1, 2], 4)));
        assert_eq!(known.0, BTreeMap::from([(0, 3), (4, 7)]));
        known.copy(&view(&[2], &[1], 4), (&source, &view(&[2], &[1], 6)));
        assert_eq!(known.0, BTreeMap::from([(0, 3), (4, 5), (6, 7)]));
    }

    #[test]
    fn views_of_too_many_runs_stay_unknown() {
        let mut known = KnownElements::default();
        assert!(!known.add(&view(&[MAX_RUNS + 1], &[2], 0)));
        assert!(!known.covers(&view(&[MAX_RUNS + 1], &[2], 0)));
    }
}
