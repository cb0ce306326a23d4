//! Every sequence of passes gives lists that the checker accepts, that compute the same operations
//! on the same data, and that are no worse; and the proof finds planted mistakes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRng, TestRunner};

use millstream_instructions::passes::{
    CostModel, Effort, Outputs, Pass, PassOptions, arena_bytes, arena_plans, sync_points,
};
use millstream_instructions::text::{parse_list, print_list};
use millstream_instructions::{Body, InstructionList};
use millstream_types::{Access, DeviceId, StreamMode, TensorId, TensorSpec};
use millstream_verify::{CheckOptions, check_with, same_operations};

use crate::common::{generate, modes, steps as careful_steps};
use crate::pass_programs::{Action, OPS, emit, steps, streams};

const OPTIONS: CheckOptions = CheckOptions { callbacks: true };

/// Returns a runner that draws the same cases in every run.
pub(crate) fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(Default::default()))
}

/// Asserts that the checker accepts a list, and so the verifier.
pub(crate) fn accepted(
    list: &InstructionList,
    context: &dyn Fn() -> String,
) -> Result<(), TestCaseError> {
    if let Err(found) = check_with(list.clone(), OPTIONS) {
        let found: Vec<String> = found.iter().map(|v| v.to_string()).collect();
        let context = context();
        return Err(TestCaseError::fail(format!("{context}\n{}", found.join("\n"))));
    }
    Ok(())
}

fn outputs() -> impl Strategy<Value = Outputs> {
    let named = proptest::sample::subsequence(vec!["x", "y", "z"], 0..=3)
        .prop_map(|names| Outputs::Named(names.into_iter().map(str::to_owned).collect()));
    prop_oneof![Just(Outputs::All), named]
}

/// Every call takes as long as it has operands, and a wait takes less or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat {
    pub(crate) wait: u64,
}

impl CostModel for Flat {
    fn hand_over(&self) -> u64 {
        self.wait
    }

    fn call(&self, _: &str, reads: &[&TensorSpec], writes: &[&TensorSpec]) -> u64 {
        100 * (reads.len() + writes.len()) as u64
    }

    fn wait(&self) -> u64 {
        self.wait
    }
}

static NO_BUDGET: BTreeMap<DeviceId, u64> = BTreeMap::new();

/// Returns the options of passes on lists of these ops, with one thread for each kernel.
pub(crate) fn pass_options<'a>(
    costs: &'a Flat,
    streams: usize,
    outputs: &'a Outputs,
    effort: Effort,
) -> PassOptions<'a> {
    PassOptions {
        ops: &OPS,
        standard_kernels: &|_| true,
        costs,
        streams,
        threads: 1,
        outputs,
        effort,
        budgets: &NO_BUDGET,
    }
}

/// Applies a pass and checks the result.
fn applied(
    pass: Pass,
    before: &InstructionList,
    options: &PassOptions<'_>,
) -> Result<InstructionList, TestCaseError> {
    let refused = |e| TestCaseError::fail(format!("{pass}: {e}\n{}", print_list(before)));
    let after = pass.apply(before, options).map_err(refused)?;
    let context = || format!("{pass}\n{}\nbecame\n{}", print_list(before), print_list(&after));
    accepted(&after, &context)?;
    if let Err(difference) = same_operations(before, &after, options.outputs) {
        return Err(TestCaseError::fail(format!("{difference}\n{}", context())));
    }
    // More streams need more waits and more memory.
    if pass != Pass::Assign {
        // On a pool, a dead call may have ordered effects by its operands.
        let pools = before.streams.iter().any(|s| s.mode == StreamMode::Pool);
        let fewer = sync_points(&after) <= sync_points(before);
        prop_assert!(fewer || (pools && pass == Pass::Dead), "{}", context());
        let (now, old) = (arena_bytes(&after), arena_bytes(before));
        prop_assert!(now.iter().zip(&old).all(|(a, b)| a <= b), "{}", context());
    }
    let again = pass.apply(before, options).map_err(refused)?;
    prop_assert_eq!(&again, &after, "a pass is deterministic");
    Ok(after)
}

#[test]
fn passes_give_lists_that_compute_the_same() {
    let changed: RefCell<BTreeMap<Pass, usize>> = RefCell::default();
    let passes = proptest::collection::vec(select(Pass::ALL.to_vec()), 1..5);
    let programs = (streams(), 4u64..40, steps(40));
    let options = (1usize..5, outputs(), select(vec![1, 50, 1000]));
    runner(1200)
        .run(&(programs, passes, options), |((streams, limit, steps), passes, options)| {
            let (streams_of_each, outputs, wait) = options;
            let mut list = emit(&streams, limit * 1024, &steps);
            accepted(&list, &|| print_list(&list))?;
            let costs = &Flat { wait };
            let streams = streams_of_each;
            let options = pass_options(costs, streams, &outputs, Effort::Usual);
            for pass in passes {
                let after = applied(pass, &list, &options)?;
                *changed.borrow_mut().entry(pass).or_default() += usize::from(after != list);
                list = after;
            }
            Ok(())
        })
        .unwrap();
    let mut changed = changed.into_inner();
    changed.remove(&Pass::Remat); // It has no budget here.
    assert!(changed.values().all(|times| *times > 80), "{changed:?}");
}

/// Returns the most bytes of storages that live at once, and the largest workspace, in the
/// planner's unit.
fn most_live(list: &InstructionList) -> (u64, u64) {
    let mut storage_of = BTreeMap::new();
    let mut live: BTreeMap<TensorId, (u64, usize)> = BTreeMap::new();
    let (mut most, mut scratch) = (0, 0);
    for body in list.instructions.iter().map(|i| &i.body) {
        let bytes = body.placement().map_or(0, |p| p.size.next_multiple_of(512));
        match body {
            Body::AllocateTensor { tensor, .. } => {
                storage_of.insert(*tensor, *tensor);
                live.insert(*tensor, (bytes, 1));
            }
            Body::ViewTensor { tensor, of, .. } => {
                if let Some(&storage) = storage_of.get(of) {
                    storage_of.insert(*tensor, storage);
                    live.entry(storage).and_modify(|(_, tensors)| *tensors += 1);
                }
            }
            Body::ReleaseTensor { tensor } => {
                let storage = storage_of.remove(tensor);
                if let Some((bytes, tensors)) = storage.and_then(|s| live.get_mut(&s)) {
                    *tensors -= 1;
                    *bytes *= u64::from(*tensors > 0);
                }
            }
            _ => scratch = scratch.max(bytes),
        }
        most = most.max(live.values().map(|(bytes, _)| bytes).sum());
    }
    (most, scratch)
}

/// On one stream a list needs no more than the most live bytes and the largest scratch.
#[test]
fn one_stream_needs_what_lives_at_once() {
    let is_on_stream = |action: &Action| {
        use Action::{Allocate, Call, Chain, Release, View};
        matches!(action, Allocate { .. } | Call { .. } | Chain { .. } | Release(_) | View { .. })
    };
    let (fewer, reused) = (Cell::new(0), Cell::new(0));
    let views = |list: &InstructionList| {
        let bodies = list.instructions.iter().map(|i| &i.body);
        bodies.filter(|body| matches!(body, Body::ViewTensor { .. })).count()
    };
    runner(400)
        .run(&(steps(200), any::<bool>()), |(mut steps, on_host)| {
            steps.retain(|(_, action)| is_on_stream(action));
            let list = emit(&(on_host, vec![StreamMode::InOrder]), u64::MAX, &steps);
            let (costs, outputs) = (&Flat { wait: 50 }, Outputs::All);
            let options = pass_options(costs, 1, &outputs, Effort::Usual);
            let after = applied(Pass::Memory, &list, &options)?;
            let (live, scratch) = most_live(&after);
            let planned: u64 = arena_bytes(&after).iter().sum();
            prop_assert!(planned <= live + scratch, "{planned}: {live} and {scratch}");
            for plan in arena_plans(&after, Effort::Usual).unwrap().unwrap() {
                prop_assert!(plan.offsets.bound <= live + scratch);
                prop_assert_eq!(plan.offsets.bytes, planned);
            }
            fewer.set(fewer.get() + usize::from(after != list));
            reused.set(reused.get() + usize::from(views(&after) > views(&list)));
            Ok(())
        })
        .unwrap();
    assert!(fewer.get() > 100 && reused.get() > 50, "{fewer:?} {reused:?}");
}

/// Storages that fill a square of bytes and time, which no order of placing finds.
#[test]
fn effort_says_whether_offsets_are_searched() {
    let square = [
        (0, 4, 3),
        (0, 4, 8),
        (0, 14, 3),
        (0, 16, 2),
        (4, 7, 8),
        (4, 13, 3),
        (7, 14, 8),
        (13, 16, 3),
        (14, 16, 11),
    ];
    let mut text = "millstream-list 1\nstream s0 cpu:0 compute 0 in-order\narena a0 cpu:0\n\
                    external %0 \"x\" f32[4] in 16 bytes of a0\n"
        .to_owned();
    let (mut next, mut generation) = (0, 1);
    for time in 0..16 {
        let mut operands = String::new();
        for (k, (begin, end, size)) in (1..).zip(square) {
            let bytes = size * 512;
            if begin == time {
                text += &format!(
                    "AllocateTensor s0 %{k} f32[{}] as {bytes} bytes at a0+{next} \
                     generation {generation}\n",
                    bytes / 4,
                );
                (next, generation) = (next + bytes, generation + 1);
            }
            if (begin..end).contains(&time) {
                operands += &format!(", %{k} readwrite");
            }
        }
        text += &format!("OpCall s0:{} f (%0 readwrite{operands})\n", time + 1);
    }
    let list = parse_list(&text).unwrap();
    let (costs, outputs) = (&Flat { wait: 50 }, Outputs::All);
    let planned = Effort::ALL.map(|effort| {
        let options = pass_options(costs, 1, &outputs, effort);
        arena_bytes(&applied(Pass::Memory, &list, &options).unwrap())
    });
    assert_eq!(planned, [[19 * 512], [16 * 512], [16 * 512]]);
}

/// A mistake in a list, for the instruction at an index.
type Mistake = fn(&mut InstructionList, usize) -> bool;

/// Drops a call.
fn dropped(list: &mut InstructionList, at: usize) -> bool {
    let is_call = matches!(list.instructions[at].body, Body::OpCall { .. });
    if is_call {
        list.instructions.remove(at);
    }
    is_call
}

/// Has a call read another tensor.
fn other_operand(list: &mut InstructionList, at: usize) -> bool {
    let names: Vec<_> = list.externals.iter().map(|e| e.tensor).collect();
    let Body::OpCall { operands, .. } = &mut list.instructions[at].body else { return false };
    let Some(read) = operands.iter_mut().find(|o| o.access.reads()) else { return false };
    read.tensor = if read.tensor == names[0] { names[1] } else { names[0] };
    true
}

/// Has a call overwrite what it changed.
fn other_access(list: &mut InstructionList, at: usize) -> bool {
    let Body::OpCall { operands, .. } = &mut list.instructions[at].body else { return false };
    let changed = operands.iter_mut().find(|o| o.access == Access::ReadWrite);
    changed.map(|o| o.access = Access::Write).is_some()
}

/// Moves a tensor to the memory of the one before it.
fn overlapping(list: &mut InstructionList, at: usize) -> bool {
    let earlier = list.instructions[..at].iter().rev().find_map(|i| i.body.placement().copied());
    let (Body::AllocateTensor { placement, .. }, Some(earlier)) =
        (&mut list.instructions[at].body, earlier)
    else {
        return false;
    };
    let moved = placement.offset != earlier.offset;
    placement.offset = earlier.offset;
    moved
}

/// Drops a wait.
fn without_wait(list: &mut InstructionList, at: usize) -> bool {
    let is_wait = matches!(list.instructions[at].body, Body::StreamWaitEvent { .. });
    if is_wait {
        list.instructions.remove(at);
    }
    is_wait
}

#[test]
fn planted_mistakes_are_found() {
    let mistakes: [(&str, Mistake); 5] = [
        ("a dropped call", dropped),
        ("another operand", other_operand),
        ("another access", other_access),
        ("overlapping memory", overlapping),
        ("a dropped wait", without_wait),
    ];
    let found: RefCell<BTreeMap<&str, [usize; 2]>> = RefCell::default();
    let programs = (streams(), 4u64..40, steps(30));
    runner(300)
        .run(&(programs, any::<usize>()), |((streams, limit, steps), seed)| {
            let outputs = Outputs::All;
            let costs = &Flat { wait: 50 };
            let options = pass_options(costs, 3, &outputs, Effort::Usual);
            let before = emit(&streams, limit * 1024, &steps);
            // After `dead` every call is needed, after `waits` nearly every wait, and after
            // `memory` nearly every byte is shared.
            let mut after = before.clone();
            for pass in [Pass::Dead, Pass::Waits, Pass::Memory] {
                after = applied(pass, &after, &options)?;
            }
            for (name, mistake) in mistakes {
                let mut wrong = after.clone();
                if wrong.instructions.is_empty()
                    || !mistake(&mut wrong, seed % after.instructions.len())
                {
                    continue;
                }
                let found_one = check_with(wrong.clone(), OPTIONS).is_err()
                    || same_operations(&before, &wrong, &outputs).is_err();
                found.borrow_mut().entry(name).or_default()[usize::from(found_one)] += 1;
                // A pool that orders effects keeps its dead calls.
                let pools = after.streams.iter().any(|s| s.mode == StreamMode::Pool);
                let must = !pools && ["a dropped call", "another access"].contains(&name);
                let shown =
                    || format!("{name}\n{}\nbecame\n{}", print_list(&after), print_list(&wrong));
                prop_assert!(found_one || !must, "{}", shown());
            }
            Ok(())
        })
        .unwrap();
    let found = found.into_inner();
    assert_eq!(found.len(), mistakes.len(), "{found:?}");
    // Another operand may be a view of the same tensor; some waits are there twice.
    assert!(found.values().all(|[missed, found]| *found > 3 && *found > 8 * missed), "{found:?}");
}

/// Lists that no builder made, with waits for everything, gaps between points and unused records.
#[test]
fn passes_accept_foreign_lists() {
    let passes = proptest::collection::vec(select(Pass::ALL.to_vec()), 1..4);
    let lists = (modes(), careful_steps(1.0, 25));
    runner(400)
        .run(&(lists, passes, outputs()), |((modes, steps), passes, outputs)| {
            let mut list = generate(&modes, &steps);
            if check_with(list.clone(), OPTIONS).is_err() {
                return Ok(());
            }
            let costs = &Flat { wait: 50 };
            let options = pass_options(costs, 2, &outputs, Effort::Usual);
            for pass in passes {
                let context = |after| format!("{pass}\n{}\nbecame\n{after}", print_list(&list));
                let after = pass.apply(&list, &options);
                let after = after.map_err(|e| TestCaseError::fail(context(e.to_string())))?;
                let text = || context(print_list(&after));
                accepted(&after, &text)?;
                let same = same_operations(&list, &after, options.outputs);
                prop_assert!(same.is_ok(), "{}\n{}", same.unwrap_err(), text());
                list = after;
            }
            Ok(())
        })
        .unwrap();
}
