//! Lists whose storages are computed again: random ones within random budgets, and calls made again
//! that would compute something else.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::{
    Effort, Outputs, Pass, PassOptions, arena_bytes, rematerialize,
};
use millstream_instructions::text::{parse_list, print_list};
use millstream_types::Error;
use millstream_verify::same_operations;

use crate::pass_programs::{emit, steps, streams};
use crate::passes::{Flat, accepted, pass_options, runner};

/// Any budget is kept or refused, on any number of streams, in-order or pools, of two devices; the
/// list computes the same. A list that fits is not changed.
#[test]
fn budgets_are_kept() {
    let (again, refused) = (Cell::new(0), Cell::new(0));
    let cases = (streams(), steps(80), 20..110u64, any::<bool>());
    runner(1500)
        .run(&cases, |(streams, steps, percent, placed)| {
            let list = emit(&streams, u64::MAX, &steps);
            let (costs, outputs) = (&Flat { wait: 50 }, Outputs::All);
            let options = pass_options(costs, 2, &outputs, Effort::Usual);
            let list = match placed {
                true => Pass::Memory.apply(&list, &options).unwrap(),
                false => list,
            };
            let bytes = arena_bytes(&list);
            let budgets: BTreeMap<_, _> = (list.arenas.iter().cloned())
                .zip(bytes.iter().map(|bytes| bytes * percent / 100))
                .collect();
            let options = PassOptions { budgets: &budgets, ..options };
            let (after, plans) = match rematerialize(&list, &options) {
                Ok(made) => made,
                Err(error) => {
                    let is_budget = matches!(
                        error.without_place(),
                        Error::Invalid { what: "memory budget", .. }
                    );
                    prop_assert!(is_budget && percent < 100, "{error}\n{}", print_list(&list));
                    refused.set(refused.get() + 1);
                    return Ok(());
                }
            };
            let context =
                || format!("{budgets:?}\n{}\nbecame\n{}", print_list(&list), print_list(&after));
            accepted(&after, &context)?;
            if let Err(difference) = same_operations(&list, &after, &outputs) {
                return Err(TestCaseError::fail(format!("{difference}\n{}", context())));
            }
            for plan in &plans {
                prop_assert!(plan.peak <= plan.budget && plan.floor <= plan.budget);
            }
            let peaks: Vec<u64> = plans.iter().map(|plan| plan.peak).collect();
            prop_assert_eq!(peaks, arena_bytes(&after));
            prop_assert!(percent < 100 || after == list);
            again.set(again.get() + plans.first().map_or(0, |plan| plan.again));
            Ok(())
        })
        .unwrap();
    assert!(again.get() > 50 && refused.get() > 100, "{again:?} {refused:?}");
}

const HEAD: &str = "millstream-list 1
stream s0 cpu:0 compute 0 in-order
arena a0 cpu:0
external %0 \"x\" f32[64] in 256 bytes of a0
external %1 \"y\" f32[64] in 256 bytes of a0
";

fn list(lines: &str) -> InstructionList {
    parse_list(&format!("{HEAD}{lines}")).unwrap()
}

const ONCE: &str = "AllocateTensor s0 %2 f32[64] as 256 bytes at a0+0 generation 1
OpCall s0:1 exp (%0 read, %2 write)
OpCall s0:2 relu_ (%0 readwrite)
OpCall s0:3 mul (%2 read, %0 read, %1 write)";

/// A call made again from the same values gives the same value.
#[test]
fn a_call_made_again_is_the_same() {
    let again = list(
        "AllocateTensor s0 %2 f32[64] as 256 bytes at a0+0 generation 1
        OpCall s0:1 exp (%0 read, %2 write)
        ReleaseTensor %2
        AllocateTensor s0 %3 f32[64] as 256 bytes at a0+0 generation 2
        OpCall s0:2 exp (%0 read, %3 write)
        OpCall s0:3 relu_ (%0 readwrite)
        OpCall s0:4 mul (%3 read, %0 read, %1 write)",
    );
    same_operations(&list(ONCE), &again, &Outputs::All).unwrap();
}

/// The input has changed between.
#[test]
fn a_call_made_again_from_other_values_is_refused() {
    let again = list(
        "AllocateTensor s0 %2 f32[64] as 256 bytes at a0+0 generation 1
        OpCall s0:1 exp (%0 read, %2 write)
        OpCall s0:2 relu_ (%0 readwrite)
        ReleaseTensor %2
        AllocateTensor s0 %3 f32[64] as 256 bytes at a0+0 generation 2
        OpCall s0:3 exp (%0 read, %3 write)
        OpCall s0:4 mul (%3 read, %0 read, %1 write)",
    );
    let difference = same_operations(&list(ONCE), &again, &Outputs::All).unwrap_err().to_string();
    assert!(difference.contains("external \"y\" ends with another content"), "{difference}");
}

/// Batch normalisation made again leaves the running statistics out. A second call that updates
/// them is refused.
#[test]
fn running_statistics_are_updated_once() {
    let list = |again: &str| {
        parse_list(&format!(
            "millstream-list 1
            stream s0 cpu:0 compute 0 in-order
            arena a0 cpu:0
            external %0 \"x\" f32[2,3] in 24 bytes of a0
            external %1 \"mean\" f32[3] in 12 bytes of a0
            external %2 \"var\" f32[3] in 12 bytes of a0
            external %3 \"y\" f32[2,3] in 24 bytes of a0
            AllocateTensor s0 %4 f32[2,3] as 24 bytes at a0+0 generation 1
            AllocateTensor s0 %5 f32[3] as 12 bytes at a0+512 generation 2
            AllocateTensor s0 %6 f32[3] as 12 bytes at a0+1024 generation 3
            OpCall s0:1 native_batch_norm (%0 read, %1 readwrite, %2 readwrite, %4 write, \
            %5 write, %6 write) {{absent=[1, 2], training=true}}
            {again}
            OpCall s0:3 exp (%4 read, %3 write)"
        ))
        .unwrap()
    };
    let once = list("OpCall s0:2 zero_ (%5 write)");
    let left_out = "OpCall s0:2 native_batch_norm (%0 read, %4 write, %5 write, %6 write) \
                    {absent=[1, 2, 3, 4], training=true}";
    same_operations(&once, &list(left_out), &Outputs::All).unwrap();
    let twice = "OpCall s0:2 native_batch_norm (%0 read, %1 readwrite, %2 readwrite, %4 write, \
                 %5 write, %6 write) {absent=[1, 2], training=true}";
    let difference = same_operations(&once, &list(twice), &Outputs::All).unwrap_err().to_string();
    assert!(difference.contains("external \"mean\" ends with another content"), "{difference}");
}
