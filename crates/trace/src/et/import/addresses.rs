//! Resolves addresses. An address stands for a known tensor, another view of a known storage, a
//! lost number, or a tensor that existed before the trace began.

use std::sync::Arc;

use millstream_types::layout::contiguous_strides;
use millstream_types::{Attrs, DType, Dims, Layout, TensorSpec};

use super::{Import, Initial, Lazy, Lowered, Refusal, StorageIndex, TensorState, Val};
use crate::data::Data;
use crate::et::lower::ints;
use crate::et::raw_form::NodeForm;
use crate::et::sidecar_notes::Const;
use crate::et::value::{self, Recorded};
use crate::number::Number;

/// What is known of the elements of a tensor that existed before the trace began.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Elements {
    /// A single call uses the tensor, and its elements are known.
    Constant,
    /// They are known.
    Known,
    /// They are unknown until an op writes them.
    Unknown,
}

impl Import<'_> {
    /// Returns the tensor that an argument stands for.
    pub(crate) fn resolve(&mut self, given: &Recorded, arg: usize) -> Lowered<Val> {
        if let Some(value) = self.notes.consts.get(&(self.node, arg)).cloned() {
            let data = match value {
                Const::Number(number) => Data::Fill(number),
                Const::Numbers(_) => return Err(self.not_the_list(arg)),
                Const::Tensor(sidecar) => Data::File(self.check_sidecar(sidecar, given)?),
            };
            return self.define_external(given, data, Elements::Constant);
        }
        if let Some(val) = self.bound_to(given) {
            return self.checked_lazy(given, val);
        }
        if self.is_lost_number(given) {
            let number = self.lost_number(arg)?;
            return self.define_external(given, Data::Fill(number), Elements::Constant);
        }
        if let Some(view) = self.other_view(given)? {
            self.by_tensor.insert(given.tensor, view);
            return self.checked_lazy(given, view);
        }
        // With bindings the rest is memory that the recorded program wrote without an op.
        if let Some(seed) = self.options.random_inputs.filter(|_| !self.notes.bound) {
            let data = self.random(seed, given.dtype);
            return self.define_external(given, data, Elements::Known);
        }
        let data = self.made_up(given.dtype);
        if given.numel() == 0 {
            return self.define_external(given, data, Elements::Known);
        }
        self.report.made_up += 1;
        self.define_external(given, data, Elements::Unknown)
    }

    /// Returns the tensor bound to this id, if dtype, shape, strides and storage are as recorded.
    pub(super) fn bound_to(&self, given: &Recorded) -> Option<Val> {
        let val = *self.by_tensor.get(&given.tensor)?;
        let known = self.by_storage.get(&given.storage).copied();
        let storage = known.or((given.numel() == 0).then(|| self.tensors[val.0].storage))?;
        let tensor = &self.tensors[val.0];
        let (spec, base) = (&tensor.spec, self.storages[storage.0].base_for(given.dtype));
        let strides = given.strides.as_ref();
        // PyTorch records the same null storage for all tensors without elements.
        let same = (tensor.storage == storage || spec.numel() == 0)
            && spec.dtype == given.dtype
            && spec.shape() == &*given.shape
            && (spec.layout.offset() + base == given.offset || spec.numel() == 0)
            && strides.is_none_or(|s| same_steps(&given.shape, s, spec.layout.strides()));
        same.then_some(val)
    }

    /// Returns whether this is a Python number that PyTorch wrapped as a tensor: a host tensor of
    /// no dimensions that no op returned. PyTorch wraps numbers as f64, i64 or bool.
    ///
    /// With `consts.json`, which has every such number, a tensor without an entry there is a view
    /// of its storage. Otherwise the storage may be that of an ended tensor.
    pub(crate) fn is_lost_number(&self, given: &Recorded) -> bool {
        given.on_host
            && given.shape.is_empty()
            && matches!(given.dtype, DType::F64 | DType::I64 | DType::Bool)
            && self.bound_to(given).is_none()
            && !(self.notes.has_consts && self.lies_in_known_storage(given))
    }

    /// Returns whether the address is that of a storage with room for the tensor.
    fn lies_in_known_storage(&self, given: &Recorded) -> bool {
        self.by_storage.get(&given.storage).is_some_and(|&StorageIndex(storage)| {
            let storage = &self.storages[storage];
            let end = (given.offset + 1).checked_sub(storage.base);
            storage.dtype == given.dtype
                && end.is_some_and(|end| end * given.dtype.size() <= storage.bytes)
        })
    }

    /// Returns the lost number of an argument of this node, from consts.json or from the options.
    pub(crate) fn lost_number(&mut self, arg: usize) -> Lowered<Number> {
        match self.notes.consts.get(&(self.node, arg)) {
            Some(Const::Number(number)) => Ok(*number),
            Some(Const::Tensor(_)) => Err(Refusal::Wrong(format!(
                "argument {arg} is a number, and consts.json has a tensor for it"
            ))),
            Some(Const::Numbers(_)) => Err(self.not_the_list(arg)),
            None => {
                let given = self.options.missing_scalar;
                let number = given.or(self.options.structural.then_some(Number::Int(1)));
                let number = number.ok_or_else(|| {
                    Refusal::Wrong(format!(
                        "argument {arg} is a number that the trace lost: expected it in \
                         consts.json, or a substitute for all lost numbers"
                    ))
                })?;
                self.report.missing_scalars += 1;
                Ok(number)
            }
        }
    }

    /// Returns the exact value of a fraction of consts.json. Traces record fractions with six
    /// decimals.
    pub(crate) fn exact_fraction(&self, arg: usize) -> Option<f64> {
        match self.notes.consts.get(&(self.node, arg))? {
            Const::Number(Number::Float(v)) => Some(*v),
            Const::Number(Number::Int(v)) => Some(*v as f64),
            _ => None,
        }
    }

    /// Returns the exact numbers of a list of `length` numbers, from consts.json.
    pub(crate) fn exact_list(&self, arg: usize, length: usize) -> Lowered<Option<Vec<Number>>> {
        match self.notes.consts.get(&(self.node, arg)) {
            Some(Const::Numbers(list)) if list.len() == length => Ok(Some(list.clone())),
            Some(Const::Numbers(list)) => Err(Refusal::Wrong(format!(
                "argument {arg} has {length} numbers, and consts.json has {} for it",
                list.len()
            ))),
            _ => Ok(None),
        }
    }

    fn not_the_list(&self, arg: usize) -> Refusal {
        Refusal::Wrong(format!("argument {arg} is no list, and consts.json has a list for it"))
    }

    pub(crate) fn has_const(&self, arg: usize) -> bool {
        matches!(self.notes.consts.get(&(self.node, arg)), Some(Const::Number(_)))
    }

    /// Returns the tensor bound to this id, or another view of its storage, if that is known.
    pub(crate) fn known(&mut self, given: &Recorded) -> Lowered<Option<Val>> {
        match self.bound_to(given) {
            Some(val) => Ok(Some(val)),
            None => self.other_view(given),
        }
    }

    /// Returns another view of a known storage. Tensors that autograd saved come back under new
    /// ids.
    pub(super) fn other_view(&mut self, given: &Recorded) -> Lowered<Option<Val>> {
        let known = self.by_storage.get(&given.storage).filter(|_| given.numel() > 0);
        let Some(&id) = known else { return Ok(None) };
        let storage = &self.storages[id.0];
        // Views of complex numbers have the dtype of their parts, and views of pairs a complex one.
        let (base, root) = (storage.base_for(given.dtype), storage.root);
        if storage.dtype.part() != given.dtype.part() || given.offset < base {
            return Ok(None);
        }
        let offset = given.offset - base;
        let seen = || {
            let alike = |t: &&TensorState| {
                t.storage == id
                    && t.spec.dtype == given.dtype
                    && t.spec.shape() == &*given.shape
                    && t.spec.layout.offset() == offset
            };
            let tensor = self.tensors.iter().rev().find(alike)?;
            Some(Dims::from_slice(tensor.spec.layout.strides()))
        };
        let strides = match given.strides.clone().or_else(seen) {
            Some(strides) => strides,
            None => contiguous_strides(&given.shape)?,
        };
        let spec = given.spec(&strides, base)?;
        let bytes = storage.bytes;
        if spec.span_bytes() > bytes && !self.grow(id, spec.span_bytes()) {
            // The address now belongs to another storage.
            return Ok(None);
        }
        self.view(root, &spec).map(Some)
    }

    /// Appends a call that returns a view of a tensor's storage.
    pub(crate) fn view(&mut self, of: Val, spec: &TensorSpec) -> Lowered<Val> {
        let of = match (self.spec(of).dtype.is_complex(), spec.dtype.is_complex()) {
            (true, false) => self.apply("view_as_real", &[of])?,
            (false, true) => self.pairs(of)?,
            _ => of,
        };
        let attrs = Attrs::new()
            .with("size", ints(spec.shape()))
            .with("stride", ints(spec.layout.strides()))
            .with("storage_offset", spec.layout.offset() as i64);
        self.one("as_strided", &[of], attrs)
    }

    /// Returns a view of the first pair of a storage as a complex number.
    fn pairs(&mut self, of: Val) -> Lowered<Val> {
        let layout = Layout::strided(&[2], &[1], 0)?;
        let spec = TensorSpec::new(self.spec(of).dtype, layout)?;
        let pair = self.view(of, &spec)?;
        self.apply("view_as_complex", &[pair])
    }

    /// Grows a storage to the given size; returns whether it exists before the program. Storages
    /// that ops of the program return have a fixed size.
    pub(super) fn grow(&mut self, storage: StorageIndex, bytes: usize) -> bool {
        let storage = &mut self.storages[storage.0];
        storage.bytes = storage.bytes.max(bytes);
        storage.initial.is_some()
    }

    /// Defines a tensor that existed before the trace began.
    pub(super) fn define_external(
        &mut self,
        given: &Recorded,
        data: Data,
        elements: Elements,
    ) -> Lowered<Val> {
        let strides = match &given.strides {
            Some(strides) => strides.clone(),
            None => contiguous_strides(&given.shape)?,
        };
        let spec = given.spec(&strides, 0)?;
        let name = self.next_name();
        let val = self.add_initial(name, spec, data, elements == Elements::Constant);
        if elements == Elements::Unknown {
            self.know_nothing(val);
        }
        self.bind(given, val);
        Ok(val)
    }

    pub(super) fn add_initial(
        &mut self,
        name: String,
        spec: TensorSpec,
        data: Data,
        constant: bool,
    ) -> Val {
        let val = self.define_storage(name, spec, Some(self.initial.len()));
        self.initial.push(Initial { val, data, constant });
        val
    }

    /// Defines a tensor that a single call uses.
    pub(super) fn constant(&mut self, spec: TensorSpec, data: Data) -> Val {
        self.add_initial(self.next_name(), spec, data, true)
    }

    /// Defines a tensor of no dimensions with this number.
    pub(crate) fn number(&mut self, number: Number, dtype: DType) -> Lowered<Val> {
        Ok(self.constant(TensorSpec::contiguous(dtype, &[])?, Data::Fill(number)))
    }

    /// Defines a tensor of one dimension with these numbers.
    pub(crate) fn numbers(
        &mut self,
        numbers: impl IntoIterator<Item = Number>,
        dtype: DType,
    ) -> Lowered<Val> {
        let numbers: Arc<[Number]> = numbers.into_iter().collect();
        let spec = TensorSpec::contiguous(dtype, &[numbers.len()])?;
        Ok(self.constant(spec, Data::Listed(numbers)))
    }

    pub(super) fn bind(&mut self, given: &Recorded, val: Val) {
        self.by_tensor.insert(given.tensor, val);
        self.by_storage.insert(given.storage, self.tensors[val.0].storage);
    }

    /// Removes the bindings of the addresses that a node below an executed op allocates: a tensor
    /// that was there has ended. A storage among the node's results that none of its operands has
    /// is new.
    pub(crate) fn forget_allocations(&mut self, node: &NodeForm<'_>) {
        let results = value::storages(node.outputs);
        if !results.iter().any(|(storage, _)| self.by_storage.contains_key(storage)) {
            return;
        }
        let operands = value::storages(node.inputs);
        for (storage, numel) in results {
            if numel > 0 && operands.iter().all(|(operand, _)| *operand != storage) {
                self.by_storage.remove(&storage);
            }
        }
    }

    /// Removes the bindings of the results of a skipped node.
    pub(crate) fn unbind(&mut self, results: &[Option<Recorded>]) {
        for given in results.iter().flatten() {
            self.by_tensor.remove(&given.tensor);
            self.by_storage.remove(&given.storage);
        }
    }

    /// Checks a result against the recorded one and binds it to its address.
    pub(crate) fn bind_result(&mut self, number: usize, given: &Recorded, val: Val) -> Lowered<()> {
        let tensor = &self.tensors[val.0];
        let spec = &tensor.spec;
        if (spec.dtype, spec.shape()) != (given.dtype, &*given.shape) {
            return Err(Refusal::Wrong(format!(
                "result {number} is {}, and the trace says {}",
                spec.brief(),
                given.brief()
            )));
        }
        let storage = tensor.storage;
        // A tensor that the node made, and no view of an operand.
        let fresh = self.storages[storage.0].initial.is_none() && storage.0 >= self.before;
        let differing = given
            .strides
            .clone()
            .filter(|strides| !same_steps(&given.shape, strides, tensor.spec.layout.strides()));
        let mut val = val;
        if let Some(strides) = differing {
            // Different strides of a view mean that its operand differs from PyTorch's.
            if !fresh {
                return Err(Refusal::Wrong(format!(
                    "result {number} is {}, and the trace says strides {strides:?}",
                    tensor.spec
                )));
            }
            val = self.relaid(val, &strides)?;
            self.report.relaid += 1;
        }
        let storage = self.tensors[val.0].storage;
        if fresh {
            let offset = self.tensors[val.0].spec.layout.offset();
            self.storages[storage.0].base = given.offset.saturating_sub(offset);
        }
        self.bind(given, val);
        Ok(())
    }
}

impl Import<'_> {
    /// Copies a tensor to other strides.
    fn relaid(&mut self, val: Val, strides: &[usize]) -> Lowered<Val> {
        let (spec, lazy) = (self.spec(val).clone(), self.lazy(val));
        if lazy != Lazy::NONE {
            let stored = self.as_lazy(val, Lazy::NONE)?;
            let relaid = self.relaid(stored, strides)?;
            return self.as_lazy(relaid, lazy);
        }
        let layout = Layout::strided(spec.shape(), strides, 0)?;
        if layout.covers(layout.numel()) {
            let attrs = Attrs::new().with("strides", ints(strides));
            return self.one("copy", &[val], attrs);
        }
        let whole = self.full(vec![layout.span() as i64], 0i64, spec.dtype)?;
        let target = TensorSpec::new(spec.dtype, layout)?;
        let view = self.view(whole, &target)?;
        self.apply("copy_", &[view, val])
    }
}

/// Returns whether two lists of strides are equivalent: those of dimensions of length 1 may differ.
pub(crate) fn same_steps(shape: &[usize], a: &[usize], b: &[usize]) -> bool {
    shape.contains(&0)
        || (a.len() == b.len()
            && shape.iter().zip(a.iter().zip(b)).all(|(&d, (a, b))| d == 1 || a == b))
}
