//! What is found beside the optimum of all combinations.

use millstream_types::DType;
use millstream_types::sbp::{B, OPEN, S};

use super::graph::Search;
use super::*;
use crate::schema::{CallSpec, OutputSpec};
use crate::{OpRegistry, standard};

/// A program under construction.
struct Draft {
    ops: OpRegistry,
    mesh: Mesh,
    values: Vec<Value>,
    calls: Vec<(&'static str, Attrs, Vec<usize>, Vec<usize>)>,
    requests: Vec<(usize, Entries)>,
}

impl Draft {
    fn new(mesh: Mesh) -> Draft {
        let (values, calls, requests) = Default::default();
        Draft { ops: standard(), mesh, values, calls, requests }
    }

    fn value(&mut self, shape: &[usize], source: Source) -> usize {
        let spec = TensorSpec::contiguous(DType::F32, shape).unwrap();
        self.values.push(Value { spec, source });
        self.values.len() - 1
    }

    fn open(&mut self, shape: &[usize]) -> usize {
        let entries = self.mesh.shape().iter().map(|_| OPEN).collect();
        self.value(shape, Source::Input(entries))
    }

    fn held(&mut self, shape: &[usize], sbp: &[Sbp]) -> usize {
        let sharding = Sharding::new(&self.mesh, sbp.iter().copied()).unwrap();
        self.value(shape, Source::Held(sharding))
    }

    fn call(&mut self, op: &'static str, operands: &[usize]) -> usize {
        let specs: Vec<TensorSpec> =
            operands.iter().map(|k| self.values[*k].spec.clone()).collect();
        let (known, attrs) = (self.ops.get(self.ops.id(op).unwrap()).unwrap(), Attrs::new());
        let signature = known.check(CallSpec { inputs: &specs, attrs: &attrs }).unwrap();
        let result = match &signature.outputs[0] {
            OutputSpec::Fresh(spec) => {
                let shape = spec.shape().to_vec();
                self.value(&shape, Source::Call)
            }
            OutputSpec::Same(of) => operands[*of],
            other => panic!("{other:?}"),
        };
        self.calls.push((op, attrs, operands.to_vec(), vec![result]));
        result
    }

    fn with<T>(&self, work: impl FnOnce(&Program<'_>) -> T) -> T {
        let calls = self.calls.iter().map(|(op, attrs, operands, results)| Call {
            op: &**self.ops.get(self.ops.id(op).unwrap()).unwrap(),
            attrs,
            operands: operands.clone(),
            results: results.clone(),
        });
        work(&Program {
            mesh: &self.mesh,
            values: self.values.clone(),
            calls: calls.collect(),
            requests: self.requests.clone(),
        })
    }

    /// Returns the cost that is found, and the least of all combinations of divisions.
    fn costs(&self) -> (u64, u64) {
        self.with(|program| {
            let mut search = Search::of(program).unwrap();
            let mut least = u64::MAX;
            let counts: Vec<usize> = search.nodes.iter().map(|n| n.options.len()).collect();
            let all: usize = counts.iter().product();
            assert!(all < 3_000_000, "{counts:?}");
            for mut number in 0..all {
                for (node, count) in counts.iter().enumerate() {
                    search.nodes[node].taken = number % count;
                    number /= count;
                }
                least = least.min(search.total());
            }
            let mut search = Search::of(program).unwrap();
            search.run();
            (search.total(), least)
        })
    }
}

/// Chains are divided in the best way that there is.
#[test]
fn chains_are_at_the_optimum() {
    for mesh in [Mesh::new([0, 1]).unwrap(), Mesh::new([0, 1, 2]).unwrap()] {
        for (first, last) in [(S(0), S(0)), (S(0), B), (B, S(1)), (S(1), S(0)), (B, B)] {
            let mut draft = Draft::new(mesh.clone());
            let x = draft.held(&[6, 12], &[first]);
            let w = draft.open(&[12, 9]);
            let y = draft.call("matmul", &[x, w]);
            let y = draft.call("relu", &[y]);
            let v = draft.open(&[9, 6]);
            let y = draft.call("matmul", &[y, v]);
            let y = draft.call("neg", &[y]);
            draft.requests.push((y, [Some(last)].into_iter().collect()));
            let (found, least) = draft.costs();
            assert_eq!(found, least, "{mesh}: {first} to {last}");
        }
    }
}

/// A tensor that two branches use: what is found is near the optimum.
#[test]
fn branches_are_near_the_optimum() {
    let mesh = Mesh::new([[0, 1], [2, 3]]).unwrap();
    for (first, last) in [([S(0), B], [S(0), B]), ([B, B], [B, B]), ([S(1), S(0)], [B, S(1)])] {
        let mut draft = Draft::new(mesh.clone());
        let x = draft.held(&[8, 4], &first);
        let w = draft.held(&[4, 4], &[B, B]);
        let y = draft.call("matmul", &[x, w]);
        let z = draft.call("relu", &[x]);
        let sum = draft.call("add", &[y, z]);
        draft.requests.push((sum, last.into_iter().map(Some).collect()));
        let (found, least) = draft.costs();
        assert!(found * 10 <= least * 11, "{found} and {least}");
    }
}

/// What is requested of a result spreads to inputs that are open, over calls that move nothing.
#[test]
fn requests_spread_backward() {
    let mesh = Mesh::new([0, 1, 2, 3]).unwrap();
    let mut draft = Draft::new(mesh);
    let x = draft.open(&[8, 8]);
    let y = draft.call("relu", &[x]);
    let bias = draft.open(&[8]);
    let y = draft.call("add", &[y, bias]);
    draft.requests.push((y, [Some(S(1))].into_iter().collect()));
    let found = draft.with(|program| program.shardings()).unwrap();
    let held = |value: usize| found.values[value].sbp().to_vec();
    assert_eq!((held(x), held(bias), found.received), (vec![S(1)], vec![S(0)], 0));
}
