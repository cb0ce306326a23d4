//! Lowers collectives: ops in which several ranks take part. They run on the Ccl stream, in the
//! order of the trace.
//!
//! PyTorch's collectives of lists become those of one tensor: the list is joined before, and the
//! result copied into its tensors after. Roots and peers, which PyTorch counts within the group,
//! become ranks of the program.

use millstream_types::{AttrValue, Attrs, DType};

use crate::et::args::{self, NodeArgs};
use crate::et::groups::{Group, Noted};
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::lower::{Made, Node, ints};
use crate::et::value::Arg;
use crate::program::StreamRef;

/// The only stream of an imported program.
const CCL: StreamRef = StreamRef(0);

/// Waits for a collective. What uses its tensors waits by itself.
pub(crate) const WAIT: &str = "_c10d_functional::wait_tensor";

/// A collective on its way to calls.
struct Collective<'c, 'a, 'n> {
    import: &'c mut Import<'a>,
    given: &'c NodeArgs<'n>,
    noted: Noted,
    group: Option<Group>,
}

/// Lowers an op of the namespace `c10d`; returns the tensors that the op changes as its results.
pub(crate) fn lower(node: &mut Node<'_, '_>) -> Lowered<Made> {
    let (import, given) = (&mut *node.import, node.given);
    if given.signature.name == WAIT {
        return Ok(vec![Some(given.tensor(import, "tensor")?)]);
    }
    let mut noted = import.groups.noted(import.node());
    if let Some(own) = import.notes.meta.collectives.get(&import.node()).cloned() {
        noted.group = own.group.or(noted.group);
        noted.reduction = own.reduction.or(noted.reduction);
    }
    let size = size_of(import, given)?;
    let found = import.groups.of(noted.group.as_deref(), size).map(|group| group.cloned());
    let group = match found {
        Ok(group) => group,
        // For the structure, all collectives count as one group's.
        Err(_) if import.options.structural => None,
        Err(refusal) => return Err(refusal),
    };
    let changed = Collective { import, given, noted, group }.lower()?;
    Ok(changed.into_iter().map(Some).collect())
}

/// Returns the number of ranks that the operands of a collective show.
fn size_of(import: &mut Import<'_>, given: &NodeArgs<'_>) -> Lowered<Option<usize>> {
    let elements = |import: &mut Import<'_>, name: &str| -> Lowered<usize> {
        let val = given.tensor(import, name)?;
        Ok(import.spec(val).numel().max(1))
    };
    let inner = |name: &str| match given.get(name) {
        Some((_, Arg::List(lists))) => match lists.first() {
            Some(Arg::List(list)) => Some(list.len()),
            _ => None,
        },
        _ => None,
    };
    Ok(match given.signature.base() {
        "allgather_" | "gather_" => inner("output_tensors"),
        "reduce_scatter_" | "scatter_" => inner("input_tensors"),
        "alltoall_" => match given.get("output_tensors") {
            Some((_, Arg::List(list))) => Some(list.len()),
            _ => None,
        },
        "alltoall_base_" => {
            given.ints("output_split_sizes")?.map(|sizes| sizes.len()).filter(|count| *count > 0)
        }
        "_allgather_base_" => {
            Some(elements(import, "output_tensor")? / elements(import, "input_tensor")?)
        }
        "_reduce_scatter_base_" => {
            Some(elements(import, "input_tensor")? / elements(import, "output_tensor")?)
        }
        _ => None,
    })
}

impl Collective<'_, '_, '_> {
    /// Appends the calls, and returns the tensors that the node lists as its results.
    fn lower(&mut self) -> Lowered<Vec<Val>> {
        let base = self.given.signature.base();
        let attrs = match base {
            "reduce_" => self.reduced()?.with("root", self.root("root_rank")?),
            "broadcast_" => self.attrs().with("root", self.root("root_rank")?),
            "send" => Attrs::new().with("to", self.root("dst")?).with("tag", self.tag()?),
            "recv_" => Attrs::new().with("from", self.root("src")?).with("tag", self.tag()?),
            _ if base.contains("reduce") => self.reduced()?,
            _ => self.attrs(),
        };
        match base {
            "allreduce_" | "broadcast_" => {
                let list = self.list("tensors")?;
                self.call(base, &list, attrs)?;
                Ok(list)
            }
            "allreduce_coalesced_" | "reduce_" | "send" | "recv_" => {
                let list = self.list("tensors")?;
                let op = if base == "allreduce_coalesced_" { "allreduce_" } else { base };
                self.call(op, &list, attrs)?;
                Ok(Vec::new())
            }
            "_allgather_base_" | "_reduce_scatter_base_" => {
                let (out, x) = (self.tensor("output_tensor")?, self.tensor("input_tensor")?);
                let is_reduced = base == "_reduce_scatter_base_";
                let op = if is_reduced { "reduce_scatter_" } else { "allgather_" };
                self.call(op, &[out, x], attrs)?;
                Ok(vec![out])
            }
            "allgather_into_tensor_coalesced_" | "reduce_scatter_tensor_coalesced_" => {
                let is_reduced = base == "reduce_scatter_tensor_coalesced_";
                let op = if is_reduced { "reduce_scatter_" } else { "allgather_" };
                let (outs, xs) = (self.list("outputs")?, self.list("inputs")?);
                for (out, x) in outs.into_iter().zip(xs) {
                    self.call(op, &[out, x], attrs.clone())?;
                }
                Ok(Vec::new())
            }
            "alltoall_base_" => {
                let mut attrs = attrs;
                for (name, ours) in
                    [("output_split_sizes", "output_splits"), ("input_split_sizes", "input_splits")]
                {
                    if let Some(sizes) = self.given.ints(name)?.filter(|sizes| !sizes.is_empty()) {
                        attrs.set(ours, AttrValue::Ints(sizes));
                    }
                }
                let (out, x) = (self.tensor("output")?, self.tensor("input")?);
                self.call("alltoall_", &[out, x], attrs)?;
                Ok(Vec::new())
            }
            "barrier" => {
                let x = self.tensor("tensor")?;
                self.call("barrier_", &[x], attrs)?;
                Ok(Vec::new())
            }
            "allgather_" => self.allgather_list(),
            "reduce_scatter_" => self.reduce_scatter_list(),
            "alltoall_" => self.alltoall_list(),
            "gather_" => self.gather_list(),
            "scatter_" => self.scatter_list(),
            other => Err(unsupported(format!("there is no collective '{other}'"))),
        }
    }

    fn call(&mut self, op: &str, inputs: &[Val], attrs: Attrs) -> Lowered<()> {
        self.import.call_on(CCL, op, inputs, attrs).map(drop)
    }

    fn tensor(&mut self, name: &str) -> Lowered<Val> {
        self.given.tensor(self.import, name)
    }

    /// Returns the arguments that name the group.
    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        let Some(group) = &self.group else { return attrs };
        if let Some(ranks) = &group.ranks {
            attrs.set("group", AttrValue::Ints(ranks.clone()));
        }
        if group.index > 0 {
            attrs.set("group_index", group.index);
        }
        attrs
    }

    /// Returns the arguments that name group and reduction: a sum unless another one is recorded.
    fn reduced(&self) -> Lowered<Attrs> {
        let attrs = self.attrs();
        let Some(reduction) = &self.noted.reduction else { return Ok(attrs) };
        let name = match reduction.to_ascii_lowercase().as_str() {
            "sum" => return Ok(attrs),
            "avg" | "mean" => "mean",
            "product" | "prod" => "product",
            "min" => "min",
            "max" => "max",
            other => return Err(unsupported(format!("the reduction '{other}'"))),
        };
        Ok(attrs.with("op", name))
    }

    /// Returns the rank of the program that the argument names by its position in the group.
    fn root(&self, name: &str) -> Lowered<i64> {
        let position = self.given.int(name)?;
        let position =
            position.ok_or_else(|| Refusal::Wrong(format!("'{name}': expected a rank")))?;
        self.group.as_ref().map_or(Ok(position), |group| group.rank(position))
    }

    fn tag(&self) -> Lowered<i64> {
        self.given.int("tag")?.ok_or_else(|| Refusal::Wrong("'tag': expected a tag".to_owned()))
    }

    /// Returns the tensors of a list.
    fn list(&mut self, name: &str) -> Lowered<Vec<Val>> {
        self.given.tensors(self.import, name)
    }

    /// Returns the tensors of the only list in a list; none of an empty one.
    fn list_of_list(&mut self, name: &str) -> Lowered<Option<Vec<Val>>> {
        let wrong = || Refusal::Wrong(format!("'{name}': expected one list of tensors"));
        let Some((at, Arg::List(lists))) = self.given.get(name) else { return Err(wrong()) };
        match &lists[..] {
            [] => Ok(None),
            [Arg::List(list)] => args::tensors(self.import, name, at, list).map(Some),
            _ => Err(wrong()),
        }
    }

    /// Returns the only tensor of a list.
    fn single(&mut self, name: &str) -> Lowered<Val> {
        match self.list(name)?[..] {
            [one] => Ok(one),
            _ => Err(unsupported(format!("'{name}' with several tensors"))),
        }
    }

    fn allgather_list(&mut self) -> Lowered<Vec<Val>> {
        let outs = self.list_of_list("output_tensors")?.unwrap_or_default();
        let x = self.single("input_tensors")?;
        let (counts, x) = (self.counts(&outs), self.flat(x)?);
        let whole = self.new_like(&outs, counts.iter().sum())?;
        let attrs = self.attrs().with("splits", counts);
        self.call("allgather_", &[whole, x], attrs)?;
        self.copy_parts(whole, &outs)?;
        Ok(outs)
    }

    fn reduce_scatter_list(&mut self) -> Lowered<Vec<Val>> {
        let xs = self.list_of_list("input_tensors")?.unwrap_or_default();
        let out = self.single("output_tensors")?;
        let attrs = self.reduced()?.with("splits", self.counts(&xs));
        let whole = self.joined(&xs)?;
        let own = self.new_like(&[out], self.counts(&[out]).iter().sum())?;
        self.call("reduce_scatter_", &[own, whole], attrs)?;
        self.copy_parts(own, &[out])?;
        Ok(vec![out])
    }

    fn alltoall_list(&mut self) -> Lowered<Vec<Val>> {
        let (outs, xs) = (self.list("output_tensors")?, self.list("input_tensors")?);
        let (taken, given) = (self.counts(&outs), self.counts(&xs));
        let x = self.joined(&xs)?;
        let whole = self.new_like(&outs, taken.iter().sum())?;
        let attrs = self.attrs().with("output_splits", taken).with("input_splits", given);
        self.call("alltoall_", &[whole, x], attrs)?;
        self.copy_parts(whole, &outs)?;
        Ok(outs)
    }

    fn gather_list(&mut self) -> Lowered<Vec<Val>> {
        let x = self.single("input_tensors")?;
        let x = self.flat(x)?;
        let attrs = self.attrs().with("root", self.root("root_rank")?);
        let Some(outs) = self.list_of_list("output_tensors")? else {
            self.call("gather_to_", &[x], attrs)?;
            return Ok(Vec::new());
        };
        let counts = self.counts(&outs);
        let whole = self.new_like(&outs, counts.iter().sum())?;
        self.call("gather_to_", &[x, whole], attrs)?;
        self.copy_parts(whole, &outs)?;
        Ok(Vec::new())
    }

    fn scatter_list(&mut self) -> Lowered<Vec<Val>> {
        let out = self.single("output_tensors")?;
        let own = self.new_like(&[out], self.counts(&[out]).iter().sum())?;
        let attrs = self.attrs().with("root", self.root("root_rank")?);
        match self.list_of_list("input_tensors")? {
            Some(xs) => {
                let whole = self.joined(&xs)?;
                self.call("scatter_from_", &[own, whole], attrs)?;
            }
            None => self.call("scatter_from_", &[own], attrs)?,
        }
        self.copy_parts(own, &[out])?;
        Ok(vec![out])
    }

    /// Returns the numbers of elements.
    fn counts(&self, of: &[Val]) -> Vec<i64> {
        of.iter().map(|&val| self.import.spec(val).numel() as i64).collect()
    }

    /// Returns a tensor's elements in one dimension.
    fn flat(&mut self, x: Val) -> Lowered<Val> {
        self.import.reshaped(x, vec![-1])
    }

    /// Returns the elements of tensors, one after the other.
    fn joined(&mut self, xs: &[Val]) -> Lowered<Val> {
        let flat: Vec<Val> = xs.iter().map(|&x| self.flat(x)).collect::<Lowered<_>>()?;
        self.import.one("cat", &flat, Attrs::new().with("dim", 0i64))
    }

    /// Returns a new tensor of so many elements.
    fn new_like(&mut self, of: &[Val], numel: i64) -> Lowered<Val> {
        let dtype = of.first().map_or(DType::F32, |&val| self.import.spec(val).dtype);
        self.import.full(vec![numel], 0i64, dtype)
    }

    /// Copies the elements of a tensor into others, one after the other.
    fn copy_parts(&mut self, whole: Val, into: &[Val]) -> Lowered<()> {
        let mut start = 0;
        for &target in into {
            let spec = self.import.spec(target).clone();
            let length = spec.numel() as i64;
            let part = self.import.narrow(whole, 0, start, length)?;
            let part = self.import.reshaped(part, ints(spec.shape()))?;
            self.import.apply("copy_", &[target, part])?;
            start += length;
        }
        Ok(())
    }
}
