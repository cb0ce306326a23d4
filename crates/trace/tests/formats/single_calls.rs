//! Calls that are lowered by their schema, without a trace.

use millstream_trace::et::{Argument, EtOptions, LoweredCall, lower_call};
use millstream_trace::{Action, Results};
use millstream_types::{DType, TensorSpec};

fn tensor(dtype: DType, shape: &[usize], storage: u64) -> Argument {
    Argument::Tensor { spec: TensorSpec::contiguous(dtype, shape).unwrap(), storage }
}

fn floats(shape: &[usize], storage: u64) -> Argument {
    tensor(DType::F32, shape, storage)
}

fn lowered(schema: &str, arguments: &[Argument]) -> LoweredCall {
    lower_call(schema, arguments, &EtOptions::default()).unwrap()
}

/// Returns the calls as text: the op, its operands, its results and its arguments.
fn text(lowered: &LoweredCall) -> Vec<String> {
    let calls = lowered.actions.iter().map(|action| {
        let Action::Call(call) = action else { panic!("{action:?}") };
        let numbers = |values: &[millstream_trace::ValueRef]| {
            values.iter().map(|v| v.0.to_string()).collect::<Vec<_>>().join(",")
        };
        let results = match &call.results {
            Results::New(values) => numbers(values),
            Results::Into(values) => format!("into {}", numbers(values)),
        };
        let attrs = call.attrs.iter().map(|(name, value)| format!(" {name}={value}"));
        format!("{}({}) {results}{}", call.op, numbers(&call.inputs), attrs.collect::<String>())
    });
    calls.collect()
}

fn results(lowered: &LoweredCall) -> Vec<Option<u32>> {
    lowered.results.iter().map(|result| result.map(|value| value.0)).collect()
}

const ADDMM: &str = "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar \
                     alpha=1) -> Tensor";

#[test]
fn a_call_of_an_op() {
    let operands = [floats(&[3], 0), floats(&[2, 4], 1), floats(&[4, 3], 2)];
    let made = lowered(ADDMM, &operands);
    assert_eq!(text(&made), ["addmm(0,1,2) 3"]);
    assert_eq!(results(&made), [Some(3)]);
    assert_eq!(made.tensors[3].to_string(), "f32[2,3]");
    let made = lowered(ADDMM, &[&operands[..], &[Argument::Float(0.5)]].concat());
    assert_eq!(text(&made), ["addmm(0,1,2) 3 beta=0.5"]);
}

#[test]
fn a_call_of_a_composite() {
    let schema = "aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor";
    let made = lowered(schema, &[floats(&[2], 0), floats(&[2], 1), Argument::Int(2)]);
    assert_eq!(text(&made), ["mul(0,1) 2", "neg(2) 3", "exp(3) 4", "log1p(4) 5", "sum(5) 6"]);
    assert_eq!(results(&made), [Some(6)]);
}

#[test]
fn lists_and_absent_tensors() {
    let list = Argument::List(vec![floats(&[1, 2], 0), floats(&[3, 2], 1)]);
    let made = lowered("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", &[list]);
    assert_eq!(text(&made), ["cat(0,1) 2"]);
    let schema = "aten::linear_like(Tensor input, Tensor? weight) -> Tensor";
    assert!(lower_call(schema, &[floats(&[1], 0), Argument::None], &EtOptions::default()).is_err());
}

#[test]
fn results_are_written_directly_unless_memory_is_shared() {
    let schema = "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> \
                  Tensor(a!)";
    let x = || floats(&[2], 0);
    let made = lowered(schema, &[x(), floats(&[2], 1), Argument::Int(1), floats(&[2], 2)]);
    assert_eq!(text(&made), ["add(0,1) into 2 alpha=1"]);
    let made = lowered(schema, &[x(), floats(&[2], 1), Argument::Int(1), x()]);
    assert_eq!(text(&made), ["add(0,1) 3 alpha=1", "copy_(2,3) "]);
    assert_eq!(results(&made), [Some(2)]);
}

#[test]
fn a_result_of_unknown_length_has_its_greatest() {
    let schema = "aten::masked_select(Tensor self, Tensor mask) -> Tensor";
    let made = lowered(schema, &[floats(&[2, 3], 0), tensor(DType::Bool, &[3], 1)]);
    assert_eq!(made.tensors[2].to_string(), "f32[6]");
}

#[test]
fn constants_are_listed() {
    let schema = "aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor";
    let padding = Argument::List(vec![Argument::Int(1), Argument::Int(0)]);
    let made = lowered(schema, &[floats(&[1, 3], 0), padding]);
    assert_eq!(text(&made), ["index_select(0,1) 2 dim=1"]);
    assert_eq!(made.constants.len(), 1);
    assert_eq!(made.constants[0].0.0, 1);
}

#[test]
fn errors_name_the_op_and_the_argument() {
    let error = |schema: &str, arguments: &[Argument]| {
        lower_call(schema, arguments, &EtOptions::default()).unwrap_err().to_string()
    };
    let message = error("aten::relu(Tensor self) -> Tensor", &[Argument::Int(1)]);
    assert!(message.contains("aten::relu") && message.contains("'self'"), "{message}");
    let message = error("aten::frobnicate(Tensor self) -> Tensor", &[floats(&[1], 0)]);
    assert!(message.contains("there is no op that does what aten::frobnicate does"), "{message}");
    let message = error("no schema", &[]);
    assert!(message.contains("is not the schema of an op"), "{message}");
    let many = [floats(&[1], 0), floats(&[1], 1)];
    let message = error("aten::relu(Tensor self) -> Tensor", &many);
    assert!(message.contains("2 arguments"), "{message}");
}

#[test]
fn dimensions_out_of_range_are_refused() {
    let x = || floats(&[2, 2], 0);
    let list = |values: &[i64]| Argument::List(values.iter().map(|v| Argument::Int(*v)).collect());
    let ints = |values: [i64; 3]| values.map(Argument::Int);
    let unfold = "aten::unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, \
                  int step) -> Tensor";
    let pool = "aten::fractional_max_pool3d_backward(Tensor grad_output, Tensor self, int[3] \
                kernel_size, int[3] output_size, Tensor indices) -> Tensor";
    let chunks = "aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor";
    let attention = "aten::_scaled_dot_product_efficient_attention_backward(Tensor grad_out_, \
                     Tensor query, Tensor key, Tensor value, Tensor attn_bias, Tensor out, \
                     Tensor logsumexp, Tensor philox_seed, Tensor philox_offset, float dropout_p, \
                     bool[4] grad_input_mask) -> (Tensor, Tensor, Tensor, Tensor)";
    let tensors = || (0..9).map(|k| floats(&[2, 2], k)).collect::<Vec<_>>();
    for (schema, arguments) in [
        (unfold, [&[x(), list(&[3])][..], &ints([2, 1, 1])].concat()),
        (pool, vec![x(), x(), list(&[1]), list(&[1]), tensor(DType::I64, &[2, 2], 1)]),
        (chunks, vec![Argument::List(vec![floats(&[], 0)]), Argument::Int(0), Argument::Int(2)]),
        (chunks, vec![Argument::List(vec![x()]), Argument::Int(2), Argument::Int(2)]),
        (attention, [tensors(), vec![Argument::Float(0.0)]].concat()),
    ] {
        lower_call(schema, &arguments, &EtOptions::default()).unwrap_err();
    }
}

/// The recorder refuses all other ops while it records.
#[test]
fn the_ops_that_the_recorder_accepts_are_lowered() {
    let names = include_str!("../../../../python/millstream/recorder/ops.txt");
    let missing = names.lines().filter(|name| {
        let schema = format!("{name}(Tensor(a!) self) -> Tensor");
        let made = lower_call(&schema, &[floats(&[0, 2], 0)], &EtOptions::default());
        made.is_err_and(|e| format!("{e:?}").contains("opaque="))
    });
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}
