//! Ways to divide calls among ranks: the calls on the parts give the parts of the results of the
//! whole call, for the calls with values of PyTorch.
//!
//! Splits give equal bits, except where a kernel blocks its sums by the shape of the call
//! ([`BY_SHAPE`]). Parts of a reduction give the values up to the dtype's tolerance, relative to
//! the magnitude of the parts.

mod parts;
mod ranks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use millstream_kernels::KernelRegistry;
use millstream_ops::sharding::{Parts, Way, Whole};
use millstream_ops::{CallSpec, OutputSpec, collective, standard};
use millstream_testing::cases;
use millstream_testing::kernels::reference::{Call, calls};
use millstream_testing::kernels::{Tensor, signature};
use millstream_types::{Attrs, DType, Mesh, Sharding, TensorSpec};

use parts::{dense, difference};
use ranks::{Divided, Outcome, run_whole};

/// Ops whose kernels add in blocks whose lengths depend on the shape of the call, so that parts
/// round otherwise.
const BY_SHAPE: &[&str] = &[
    "matmul",
    "addmm",
    "baddbmm",
    "convolution",
    "convolution_backward",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
];

/// Ops that add to an element one by one, each time rounded: long sums of f16 and bf16 stagnate,
/// and those of parts are nearer to the truth.
const ONE_BY_ONE: &[&str] = &["index_add", "index_add_"];

/// Returns whether a sum of a call is too long for its dtype, so that parts of it say nothing.
fn stagnates(call: &Call) -> bool {
    let is_half = |x: &Tensor| x.spec.dtype.is_float() && x.spec.dtype.size() == 2;
    ONE_BY_ONE.contains(&&*call.op)
        && is_half(&call.inputs[0])
        && call.inputs[1].spec.numel() > 1000
}

fn ways(call: &Call) -> Vec<Way> {
    let ops = standard();
    let op = ops.get(ops.id(&call.op).unwrap()).unwrap();
    let specs: Vec<TensorSpec> = call.inputs.iter().map(|t| t.spec.clone()).collect();
    let signature = op.signature(CallSpec { inputs: &specs, attrs: &call.attrs }).unwrap();
    let spec = CallSpec { inputs: &specs, attrs: &call.attrs };
    op.sharding(Whole { call: spec, signature: &signature })
}

/// Returns combinations of ways along the axes of a mesh: along two axes, of each way with itself
/// and with the next one.
fn combinations<'a>(ways: &'a [Way], mesh: &Mesh) -> Vec<Vec<&'a Way>> {
    let after = |k: usize, step: usize| &ways[(k + step) % ways.len()];
    let steps = if mesh.rank() == 1 { 0..1 } else { 0..2 };
    let of = |(k, step)| (0..mesh.rank()).map(|axis| after(k, axis * step)).collect();
    (0..ways.len()).flat_map(|k| steps.clone().map(move |step| (k, step))).map(of).collect()
}

/// Returns the shardings of operands or results, unless two reductions meet.
fn shardings(
    mesh: &Mesh,
    count: usize,
    of: impl Fn(usize, usize) -> millstream_types::Sbp,
) -> Option<Vec<Sharding>> {
    let one = |k| Sharding::new(mesh, (0..mesh.rank()).map(|axis| of(k, axis))).ok();
    (0..count).map(one).collect()
}

/// Returns whether all parts of a tensor are as the ways along the axes require.
fn fits(sharding: &Sharding, shape: &[usize], ways: &[&Way]) -> bool {
    let mesh = sharding.mesh();
    let places = (0..mesh.ranks().len()).map(|at| mesh.coordinates_at(at));
    let parts: Vec<_> = places.map(|at| sharding.local_shape(shape, &at)).collect();
    sharding.sbp().iter().zip(ways).all(|(sbp, way)| match (sbp.dim(), way.parts) {
        (None, _) | (_, Parts::Any) => true,
        (Some(dim), Parts::NotEmpty) => parts.iter().all(|part| part[dim] > 0),
        (Some(dim), Parts::Equal) => parts.iter().all(|part| part[dim] == parts[0][dim]),
        // As many parts as divide the groups; then all are of one length.
        (Some(dim), Parts::Groups(groups)) => {
            let of_part = parts[0][dim] * groups;
            parts.iter().all(|part| part[dim] == parts[0][dim])
                && of_part.is_multiple_of(shape[dim].max(1))
        }
    })
}

fn check(call: &Call, whole: &Outcome, ways: &[&Way], mesh: &Mesh) -> Result<bool, String> {
    let operands = shardings(mesh, call.inputs.len(), |k, axis| ways[axis].operands[k]);
    let results = shardings(mesh, ways[0].results.len(), |k, axis| ways[axis].results[k]);
    let (Some(operands), Some(results)) = (operands, results) else { return Ok(false) };
    let inputs = operands.iter().zip(call.inputs.iter().map(|t| t.shape()));
    let outputs = results.iter().zip(whole.results.iter().map(|t| t.shape()));
    if !inputs.chain(outputs).all(|(sharding, shape)| fits(sharding, shape, ways)) {
        return Ok(false);
    }
    let divided = Divided { call, mesh, ways, operands: &operands, results: &results };
    let got = divided.run(whole)?;
    compare(call, ways, whole, &got)?;
    Ok(true)
}

/// Compares assembled results and changed operands with those of the whole call.
fn compare(
    call: &Call,
    ways: &[&Way],
    whole: &Outcome,
    got: &ranks::Assembled,
) -> Result<(), String> {
    let rounds = got.is_rounded || BY_SHAPE.contains(&&*call.op);
    let results = whole.results.iter().zip(&got.results).map(|(e, g)| ("result", e, Some(g)));
    let operands = whole.operands.iter().zip(&got.operands);
    let operands = operands.map(|(e, g)| ("operand", e, g.as_ref()));
    for (name, expected, got) in results.chain(operands) {
        let Some(got) = got else { continue };
        if let Some(why) = difference(call, expected, got, rounds || got.is_reduced) {
            return Err(format!("{name}: {why} ({ways:?})"));
        }
    }
    Ok(())
}

/// Returns the calls with values of PyTorch, and calls of ops that have none there which divide.
fn all_calls() -> Vec<Call> {
    let floats = |shape: &[usize]| {
        let values = [0.5, -2.0, 3.0, 1.25, -0.5, 0.75, 4.0];
        Tensor::floats(DType::F64, shape, &values)
    };
    let shares = |shape: &[usize]| Tensor::floats(DType::F64, shape, &[0.5, 0.25, 0.75, 0.0, 0.9]);
    let indices = |shape: &[usize]| Tensor::ints(DType::I64, shape, &[4, 0, 2, 2, 1, 3]);
    let call = |op: &str, inputs, attrs| Call {
        op: op.to_owned(),
        attrs,
        inputs,
        tolerances: (None, None),
    };
    let of = Attrs::new;
    let program = "tanh(%0);mul(#0,%1);add(#1,%0|alpha=2)";
    let scattered = vec![floats(&[4, 5]), indices(&[4, 5]), floats(&[4, 5])];
    let strided = of().with("size", vec![4i64, 6]).with("stride", vec![6i64, 1]);
    let pool = of().with("kernel_size", vec![2i64, 2]).with("output_size", vec![3i64, 3]);
    let sets = |program, columns: i64| {
        of().with("program", program).with("columns", columns).with("sets", 2)
    };
    let step = "mul_(%0|other=0.9);mul(%1,%3);addcmul_(%0,#1,%2|value=-1)";
    let stepped = [&[5, 3][..], &[5, 3], &[], &[4], &[4], &[], &[]].map(floats).to_vec();
    let scaled = [&[4, 3][..], &[4, 3], &[6], &[6]].map(floats).to_vec();
    let more = [
        call("multi_tensor", stepped, sets(step, 3)),
        call("multi_tensor", scaled, sets("tanh(%0);add(#0,%1|alpha=2)", 2)),
        call("fused", vec![floats(&[5, 1, 4]), floats(&[3, 4])], of().with("program", program)),
        call("hash_tensor", vec![floats(&[4, 6, 3])], of().with("dim", vec![1i64])),
        call("as_strided", vec![floats(&[4, 6])], strided),
        call("linalg_eig", vec![floats(&[2, 3, 3])], of()),
        call("scatter_reduce", scattered, of().with("dim", 1).with("reduce", "sum")),
        call("fractional_max_pool", vec![floats(&[2, 3, 6, 6]), shares(&[2, 3, 2])], pool),
    ];
    calls().into_iter().chain(more).collect()
}

/// Checks every way of calls on a mesh: of each third one, from the `first` on, and of those of an
/// op until one divides. So each call is checked on a mesh of the four tests, and each op on all;
/// where all cases are tried, each call on all, which takes three times as long.
fn check_calls(mesh: &Mesh, first: usize) {
    let are_all = cases(false, true);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut checked, mut ops) = (0, BTreeSet::new());
    let calls = all_calls().into_iter().filter(|call| !stagnates(call));
    for (number, call) in calls.enumerate() {
        if !are_all && number % 3 != first && ops.contains(&call.op) {
            continue;
        }
        let call = Call { inputs: call.inputs.iter().map(dense).collect(), ..call };
        let ways = ways(&call);
        let whole = run_whole(&call).unwrap();
        for of in combinations(&ways, mesh) {
            match check(&call, &whole, &of, mesh) {
                Ok(false) => {}
                Ok(true) => {
                    checked += 1;
                    ops.insert(call.op.clone());
                }
                Err(why) => {
                    let specs: Vec<String> = call.inputs.iter().map(|t| t.spec.brief()).collect();
                    let text = format!("{}({}; {})", call.op, specs.join(", "), call.attrs);
                    wrong.entry(call.op.clone()).or_default().push(format!("{text}: {why}"));
                }
            }
        }
    }
    // The first differences of each op.
    let shown = wrong.values().flat_map(|all| {
        let first = all.iter().take(3).cloned();
        first.chain([format!("{} in all", all.len())])
    });
    assert!(
        wrong.is_empty(),
        "{checked} agree on {mesh}, not:\n{}",
        shown.collect::<Vec<_>>().join("\n")
    );
    assert!(checked > 4_000 && ops.len() > 300, "{checked} of {} ops", ops.len());
}

#[test]
fn two_parts() {
    check_calls(&Mesh::new([0, 1]).unwrap(), 0);
}

#[test]
fn three_parts_of_which_some_are_longer() {
    check_calls(&Mesh::new([0, 1, 2]).unwrap(), 1);
}

#[test]
fn four_parts_of_which_some_are_empty() {
    check_calls(&Mesh::new([0, 1, 2, 3]).unwrap(), 2);
}

#[test]
fn parts_of_parts_along_two_axes() {
    check_calls(&Mesh::new([[0, 1], [2, 3]]).unwrap(), 0);
}

/// Ops of which no call has a way.
const WITHOUT: &[&str] =
    &["scrub", "masked_select", "nonzero", "unique", "nonzero_static", "nms_mask", "closure"];

/// An operand that is changed keeps its sharding.
#[test]
fn changed_operands_keep_their_sharding_and_few_ops_have_no_way() {
    let mut found = BTreeSet::new();
    for call in all_calls() {
        let given: Vec<_> = call.inputs.iter().collect();
        let outputs = signature(&call.op, &given, &call.attrs).unwrap().outputs;
        for way in ways(&call) {
            found.insert(call.op.clone());
            for (output, result) in outputs.iter().zip(&way.results) {
                if let OutputSpec::Same(of) = output {
                    assert_eq!(way.operands[*of], *result, "{}: {way:?}", call.op);
                }
            }
        }
    }
    let ops = standard();
    let names = ops.iter().map(|op| op.name()).filter(|name| !collective::is(name));
    let without: Vec<&str> = names.filter(|name| !found.contains(*name)).collect();
    assert_eq!(without, WITHOUT);
}

#[test]
fn parts_of_random_tensors_have_the_bits_of_the_whole() {
    static KERNELS: OnceLock<KernelRegistry> = OnceLock::new();
    millstream_testing::kernels::check_random_parts(&|op, ctx| {
        let kernels = KERNELS.get_or_init(millstream_kernels::standard);
        kernels.get("cpu", op).expect("a kernel").run(ctx)
    });
}
