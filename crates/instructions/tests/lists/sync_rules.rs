//! The frontier rule compared with OneFlow's on random programs: it imposes no order that OneFlow's
//! does not, and its critical path is never longer.

use std::sync::Arc;

use millstream_instructions::builder::{OfflineCatalog, OfflineSink, Output};
use millstream_instructions::{
    Body, BuilderConfig, Call, InstructionList, InstructionsBuilder, Outcome, Priority, SyncPolicy,
    TensorRef,
};
use millstream_types::{Attrs, DType, DeviceId, Origin, StreamId, StreamKey, TensorSpec};
use proptest::prelude::*;

/// A step of a program: its operands, its op, its stream.
type Step = (u8, u8, u8, u8);

fn steps() -> impl Strategy<Value = (u8, Vec<Step>)> {
    (1u8..=6, proptest::collection::vec(any::<Step>(), 1..60))
}

/// Builds the program under a rule. All waits are by host, which waits for exactly the point
/// needed.
fn list(sync: SyncPolicy, streams: u8, steps: &[Step]) -> (InstructionList, u64) {
    let ops = Arc::new(millstream_ops::standard());
    let mut builder = InstructionsBuilder::new(
        &BuilderConfig { sync, ..BuilderConfig::default() },
        ops,
        Box::new(OfflineCatalog),
    );
    let mut sink = OfflineSink::default();
    let streams: Vec<StreamId> = (0..streams)
        .map(|k| builder.stream(&StreamKey::compute(DeviceId::cpu(0), k.into())).unwrap())
        .collect();
    let spec = TensorSpec::contiguous(DType::I64, &[2]).unwrap();
    // Imported tensors, because releases and placements would order more than uses do.
    let mut live: Vec<TensorRef> = (0..4)
        .map(|_| builder.import(&sink, spec.clone(), 16, &DeviceId::cpu(0)).unwrap())
        .collect();
    let attrs = Arc::new(Attrs::new());
    for &(kind, a, b, s) in steps {
        let pick = |k: u8| live[usize::from(k) % live.len()];
        let (name, inputs) = match kind % 4 {
            0 => ("add", vec![pick(a), pick(b)]),
            1 => ("relu", vec![pick(a)]),
            _ => ("add_", vec![pick(a), pick(b)]),
        };
        let op = builder.ops().id(name).unwrap();
        let stream = streams[usize::from(s) % streams.len()];
        let call = Call {
            op,
            inputs: &inputs,
            into: None,
            attrs: &attrs,
            stream,
            priority: Priority::default(),
            section: None,
            origin: &Origin::Unknown,
        };
        let outputs = loop {
            match builder.call(&mut sink, &call).unwrap() {
                Outcome::Done(outputs) => break outputs,
                Outcome::Need(need) => builder.assume(&mut sink, need, &Origin::Unknown).unwrap(),
            }
        };
        if let Some(Output::Tensor(made)) = outputs.first() {
            live.push(*made);
        }
    }
    let waits = builder.stats().waits.emitted();
    (sink.recorder.finish(), waits)
}

/// Returns, for each call in program order, the set of calls ordered before it and the longest
/// chain up to it.
fn order(list: &InstructionList) -> (Vec<Vec<bool>>, usize) {
    // The calls known to a stream after each of its points.
    let mut after: std::collections::HashMap<(u16, u64), Vec<bool>> = Default::default();
    let mut now: std::collections::HashMap<u16, Vec<bool>> = Default::default();
    let calls = list.instructions.iter().filter(|i| matches!(i.body, Body::OpCall { .. })).count();
    let mut before = Vec::new();
    for instruction in &list.instructions {
        let Some(at) = instruction.body.at() else { continue };
        let known = now.entry(at.stream.0).or_insert_with(|| vec![false; calls]);
        match &instruction.body {
            Body::StreamWaitEvent { until, .. } => {
                for (k, bit) in after[&(until.stream.0, until.seq)].iter().enumerate() {
                    known[k] |= bit;
                }
            }
            Body::OpCall { .. } => {
                before.push(known.clone());
                known[before.len() - 1] = true;
            }
            other => panic!("{other:?} in a list of calls"),
        }
        after.insert((at.stream.0, at.seq), known.clone());
    }
    let mut depth = vec![0; calls];
    for k in 0..calls {
        depth[k] = 1 + (0..k).filter(|&j| before[k][j]).map(|j| depth[j]).max().unwrap_or(0);
    }
    (before, depth.into_iter().max().unwrap_or(0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn the_frontier_rule_orders_no_more_than_oneflows((streams, steps) in steps()) {
        let (frontier, _) = list(SyncPolicy::Frontier, streams, &steps);
        let (last_used, _) = list(SyncPolicy::LastUsedStream, streams, &steps);
        let ((ours, our_path), (theirs, their_path)) = (order(&frontier), order(&last_used));
        for (k, (a, b)) in ours.iter().zip(&theirs).enumerate() {
            for j in 0..k {
                prop_assert!(!a[j] || b[j], "call {k} comes after call {j} by the frontier rule alone");
            }
        }
        prop_assert!(our_path <= their_path, "{our_path} > {their_path}");
    }
}

/// The figures in docs/semantics.md are exact: a change of the rules shows here.
#[test]
fn waits_of_both_rules() {
    let mut state = 42u64;
    // The linear congruential generator of Knuth's MMIX. Any spread of steps would do.
    let mut byte = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    };
    let program: Vec<Step> = (0..1000).map(|_| (byte(), byte(), byte(), byte())).collect();
    let mut rows = String::new();
    for streams in [1, 2, 4, 8] {
        let (a, ours) = list(SyncPolicy::Frontier, streams, &program);
        let (b, theirs) = list(SyncPolicy::LastUsedStream, streams, &program);
        let (path, their_path) = (order(&a).1, order(&b).1);
        rows += &format!(
            "{streams} streams: {ours} waits, path {path}; last-used {theirs}, {their_path}\n"
        );
    }
    insta::assert_snapshot!(rows, @r"
    1 streams: 0 waits, path 1000; last-used 0, 1000
    2 streams: 127 waits, path 552; last-used 683, 566
    4 streams: 311 waits, path 314; last-used 1190, 348
    8 streams: 579 waits, path 194; last-used 1467, 223
    ");
}
