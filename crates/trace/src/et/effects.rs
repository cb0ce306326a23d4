//! What PyTorch's ops do to memory: which arguments they write, and whether they touch elements at
//! all.
//!
//! Schemas of `aten` state what is written (`Tensor(a!)`), but not everywhere: those of `c10d` have
//! no annotations, and batch norm's running statistics have none either. The exceptions stand here.
//! Sources: PyTorch's `native_functions.yaml` and `torch/csrc/distributed/c10d/Ops.cpp`.

use crate::et::signature::{Signature, Ty, written};
use crate::et::tree;
use crate::et::value::Arg;

/// What an op does to the tensors that it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Effects {
    /// Whether each argument is written.
    pub(super) written: Vec<bool>,
    /// Whether that is known: an op outside of PyTorch may write without saying so.
    pub(super) is_known: bool,
    /// Whether the op reads or writes elements, rather than only sizes, strides and names.
    pub(super) touches: bool,
}

/// Namespaces whose schemas state what their ops write.
const ANNOTATED: &[&str] =
    &["aten", "prim", "prims", "_c10d_functional", "torchvision", "quantized", "mkldnn"];

/// Ops that change or make tensors without touching elements.
const METADATA: &[&str] = &[
    "record_stream",
    "set_",
    "resize_",
    "resize_as_",
    "_resize_output_",
    "requires_grad_",
    "detach_",
    "as_strided_",
    "transpose_",
    "t_",
    "squeeze_",
    "unsqueeze_",
    "swapaxes_",
    "swapdims_",
    "rename_",
    "is_pinned",
    "size",
    "stride",
    "sym_size",
    "sym_stride",
    "sym_numel",
    "result_type",
    "is_same_size",
    "new_empty",
    "new_empty_strided",
];

/// The collectives that write the tensors they are given; of the others, the arguments whose names
/// begin with `output` are written.
const IN_PLACE: &[&str] =
    &["allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_", "recv_", "recv_any_source_"];

/// Returns what an op does, by the text of its schema and its arguments.
pub(super) fn effects(schema: &str, args: &[Arg]) -> Effects {
    let mut written = written(schema);
    let Some(signature) = Signature::parse(schema) else {
        let is_known = written.contains(&true);
        return Effects { written, is_known, touches: true };
    };
    let space = signature.name.split_once("::").map_or("aten", |(space, _)| space);
    let base = signature.base();
    let is_view = !signature.writes && schema.rsplit("->").next().is_some_and(|r| r.contains("(a"));
    let touches = !is_view
        && !METADATA.contains(&base)
        && !base.starts_with("empty")
        && !tree::is_composite(signature.name.trim_start_matches("aten::"));
    let mut is_known = ANNOTATED.contains(&space) || schema.contains("!)") || is_view;
    if space == "c10d" {
        is_known = true;
        for (written, param) in written.iter_mut().zip(&signature.params) {
            let is_given = IN_PLACE.contains(&base) && matches!(param.ty, Ty::Tensor | Ty::Tensors);
            *written |= is_given || param.name.starts_with("output");
        }
    }
    if writes_statistics(&signature, base, args) {
        for (written, param) in written.iter_mut().zip(&signature.params) {
            *written |= ["running_mean", "running_var"].contains(&&*param.name);
        }
    }
    if base.starts_with("rrelu_with_noise") && !base.ends_with("backward") {
        for (written, param) in written.iter_mut().zip(&signature.params) {
            *written |= param.name == "noise";
        }
    }
    Effects { written, is_known, touches }
}

/// Returns whether an op updates the running statistics that it is given: batch norm does in
/// training.
fn writes_statistics(signature: &Signature, base: &str, args: &[Arg]) -> bool {
    if base.ends_with("backward") || base.ends_with("elemt") || base.ends_with("no_training") {
        return false;
    }
    let flag = |name: &str| ["training", "train", "use_input_stats"].contains(&name);
    let flag = signature.params.iter().position(|param| flag(&param.name));
    match flag.and_then(|at| args.get(at)) {
        Some(Arg::Bool(training)) => *training,
        Some(Arg::Int(training)) => *training != 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written_by(schema: &str, args: &[Arg]) -> Vec<bool> {
        effects(schema, args).written
    }

    #[test]
    fn collectives_write_what_their_schemas_do_not_say() {
        let reduce = "c10d::allreduce_(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup \
                      process_group, int op) -> (Tensor[], Work)";
        assert_eq!(written_by(reduce, &[]), [true, false, false]);
        let gather = "c10d::_allgather_base_(Tensor output_tensor, Tensor input_tensor, \
                      __torch__.torch.classes.c10d.ProcessGroup process_group) -> (Tensor, Work)";
        assert_eq!(written_by(gather, &[]), [true, false, false]);
        let send = "c10d::send(Tensor[] tensors, __torch__.torch.classes.c10d.ProcessGroup \
                    process_group, int dst, int tag) -> Work";
        assert_eq!(written_by(send, &[]), [false; 4]);
    }

    #[test]
    fn batch_norm_updates_its_statistics_in_training_alone() {
        let schema = "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? \
                      running_mean, Tensor? running_var, bool training, float momentum, float eps) \
                      -> (Tensor, Tensor, Tensor)";
        let args = |training| {
            let none = || Arg::None;
            [none(), none(), none(), none(), none(), Arg::Bool(training)]
        };
        let updated = [false, false, false, true, true, false, false, false];
        assert_eq!(written_by(schema, &args(true)), updated);
        assert_eq!(written_by(schema, &args(false)), [false; 8]);
        let backward = "aten::native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? \
                        running_mean, bool train) -> Tensor";
        assert_eq!(written_by(backward, &[]), [false; 4]);
    }

    #[test]
    fn ops_of_others_are_known_by_their_annotations_alone() {
        assert!(!effects("mine::step(Tensor x) -> Tensor", &[]).is_known);
        let annotated = effects("mine::step(Tensor(a!) x, Tensor y) -> ()", &[]);
        assert!(annotated.is_known);
        assert_eq!(annotated.written, [true, false]);
        let lists = "aten::_foreach_add_.List(Tensor(a!)[] self, Tensor[] other) -> ()";
        assert_eq!(written_by(lists, &[]), [true, false]);
    }

    #[test]
    fn views_and_sizes_touch_no_elements() {
        let touches = |schema: &str| effects(schema, &[]).touches;
        assert!(touches("aten::relu(Tensor self) -> Tensor"));
        assert!(touches("aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)"));
        assert!(!touches("aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)"));
        assert!(!touches("aten::record_stream(Tensor(a!) self, Stream s) -> ()"));
        assert!(!touches("aten::matmul(Tensor self, Tensor other) -> Tensor"), "a composite op");
    }
}
