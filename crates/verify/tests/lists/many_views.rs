//! Storages with many views get the verdicts of an all-pairs comparison, in near-linear time.

use std::collections::BTreeSet;

use proptest::prelude::*;

use millstream_instructions::text::{OpNames, print_list};
use millstream_instructions::{
    ArenaId, Body, External, Instruction, InstructionList, Operand, Priority, StreamDecl, Via,
};
use millstream_types::{
    Access, DType, DeviceId, Layout, OpId, Origin, Point, StreamId, StreamKey, StreamMode,
    TensorId, TensorSpec,
};
use millstream_verify::verify;

fn view(from: usize, count: usize, stride: usize) -> TensorSpec {
    let layout = Layout::strided(&[count], &[stride], from).unwrap();
    TensorSpec::new(DType::U8, layout).unwrap()
}

/// Returns a list of in-order streams over one storage with these views, from `%1` on.
fn list(streams: u16, bytes: usize, views: &[TensorSpec]) -> InstructionList {
    let device = DeviceId::cpu(0);
    let stream = |k: u16| {
        let key = StreamKey::compute(device.clone(), u32::from(k));
        StreamDecl::new(key, StreamMode::InOrder)
    };
    let all = External {
        tensor: TensorId(0),
        name: "x".to_owned(),
        spec: view(0, bytes, 1),
        bytes: bytes as u64,
        arena: ArenaId(0),
    };
    let ops: OpNames = ["op"].into_iter().collect();
    let made = (1..).zip(views).map(|(k, spec)| {
        let body =
            Body::ViewTensor { tensor: TensorId(k), of: TensorId(0), spec: Box::new(spec.clone()) };
        Instruction { body, origin: Origin::Unknown }
    });
    InstructionList {
        streams: (0..streams).map(stream).collect(),
        instructions: made.collect(),
        arenas: vec![device],
        externals: vec![all],
        ops,
        ..InstructionList::default()
    }
}

fn op(at: Point, tensor: u32, access: Access) -> Instruction {
    let operands = [Operand { tensor: TensorId(tensor), access }].into_iter().collect();
    let (attrs, workspace, priority) = (None, None, Priority::default());
    let body = Body::OpCall { at, op: OpId(0), operands, attrs, workspace, priority };
    Instruction { body, origin: Origin::Unknown }
}

const STREAMS: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    Use { stream: u16, view: prop::sample::Index, access: Access },
    Wait { stream: u16, source: u16 },
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop::sample::select(vec![Access::Read, Access::Write, Access::ReadWrite]);
    prop_oneof![
        3 => (0..STREAMS, any::<prop::sample::Index>(), access)
            .prop_map(|(stream, view, access)| Step::Use { stream, view, access }),
        2 => (0..STREAMS, 0..STREAMS)
            .prop_map(|(stream, source)| Step::Wait { stream, source }),
    ]
}

fn bytes(spec: &TensorSpec) -> BTreeSet<usize> {
    let (from, stride) = (spec.layout.offset(), spec.layout.strides()[0]);
    (0..spec.shape()[0]).map(|k| from + k * stride).collect()
}

/// Returns whether all conflicting uses are ordered, with each stream's knowledge as a set.
fn is_sound(list: &InstructionList, views: &[TensorSpec]) -> bool {
    let mut knows = vec![BTreeSet::<usize>::new(); usize::from(STREAMS)];
    let mut at_place: Vec<Vec<BTreeSet<usize>>> = vec![vec![BTreeSet::new()]; STREAMS.into()];
    let mut uses: Vec<(usize, u32, Access)> = Vec::new();
    for (index, instruction) in list.instructions.iter().enumerate() {
        let (at, known) = match &instruction.body {
            Body::StreamWaitEvent { at, until, .. } => {
                (at, at_place[until.stream.index()][until.seq as usize].clone())
            }
            Body::OpCall { at, operands, .. } => {
                let new = operands[0];
                let mine = bytes(&views[new.tensor.0 as usize - 1]);
                for &(earlier, tensor, access) in &uses {
                    let conflict = (access.writes() || new.access.writes())
                        && !mine.is_disjoint(&bytes(&views[tensor as usize - 1]));
                    if conflict && !knows[at.stream.index()].contains(&earlier) {
                        return false;
                    }
                }
                uses.push((index, new.tensor.0, new.access));
                (at, BTreeSet::from([index]))
            }
            _ => continue,
        };
        let stream = at.stream.index();
        knows[stream].extend(known);
        at_place[stream].push(knows[stream].clone());
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn many_views_are_judged_as_pair_by_pair(
        views in proptest::collection::vec((0usize..60, 0usize..9, 1usize..5), 12..40),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let views: Vec<TensorSpec> = views.into_iter().map(|(f, c, s)| view(f, c, s)).collect();
        let mut list = list(STREAMS, 100, &views);
        let mut last = [0; STREAMS as usize];
        for step in &steps {
            match *step {
                Step::Use { stream, ref view, access } => {
                    last[usize::from(stream)] += 1;
                    let at = Point::new(StreamId(stream), last[usize::from(stream)]);
                    list.instructions.push(op(at, 1 + view.index(views.len()) as u32, access));
                    // A list with one race is rejected: nothing after it changes the verdict.
                    if !is_sound(&list, &views) {
                        prop_assert!(!verify(&list).proven(), "{}", print_list(&list));
                        list.instructions.pop();
                        last[usize::from(stream)] -= 1;
                    }
                }
                Step::Wait { stream, source } => {
                    let until = Point::new(StreamId(source), last[usize::from(source)]);
                    last[usize::from(stream)] += 1;
                    let at = Point::new(StreamId(stream), last[usize::from(stream)]);
                    let body = Body::StreamWaitEvent { at, until, via: Via::Host };
                    list.instructions.push(Instruction { body, origin: Origin::Unknown });
                }
            }
        }
        let verdict = verify(&list);
        prop_assert!(verdict.proven(), "{}{:?}", print_list(&list), verdict.violations.first());
        for wait in verdict.waits {
            let mut fewer = list.clone();
            fewer.instructions.remove(wait.index);
            prop_assert_eq!(verify(&fewer).proven(), !wait.needed, "{}", print_list(&list));
        }
    }
}

/// Sixteen streams write fifty thousand slices of one storage, and sometimes read all of it.
#[test]
fn slices_by_the_thousand() {
    const SLICES: u32 = 50_000;
    let views: Vec<TensorSpec> = (0..SLICES as usize).map(|k| view(8 * k, 8, 1)).collect();
    let mut list = list(16, 8 * SLICES as usize, &views);
    let mut last = [0; 16];
    let mut next = |s: u16| {
        last[usize::from(s)] += 1;
        Point::new(StreamId(s), last[usize::from(s)])
    };
    for round in 0..4 {
        let mut ends = Vec::new();
        for slice in 0..SLICES {
            let s = (slice + round) as u16 % 16;
            let at = next(s);
            list.instructions.push(op(at, 1 + slice, Access::Write));
            if slice + 16 >= SLICES {
                ends.push(at);
            }
        }
        let body = Body::HostObserved { points: ends.into_iter().collect() };
        list.instructions.push(Instruction { body, origin: Origin::Unknown });
        let mut ends = Vec::new();
        for s in 0..16 {
            for _ in 0..50 {
                list.instructions.push(op(next(s), 0, Access::Read));
            }
            ends.push(next(s));
            let body =
                Body::TouchTensors { at: ends[usize::from(s)], operands: Default::default() };
            list.instructions.push(Instruction { body, origin: Origin::Unknown });
        }
        let body = Body::HostObserved { points: ends.into_iter().collect() };
        list.instructions.push(Instruction { body, origin: Origin::Unknown });
    }
    let verdict = verify(&list);
    assert!(verdict.proven(), "{}", verdict.violations[0]);
    // There is nothing to wait for before the first round and after the last.
    assert_eq!(verdict.not_needed(), 1, "{:?}", verdict.waits);
}
