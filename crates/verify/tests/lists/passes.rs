//! Every sequence of passes gives a list that the checker and the verifier accept, that computes
//! the same operations on the same data, and that is no worse; and the proof finds mistakes.

use proptest::prelude::*;
use proptest::sample::select;

use millstream_instructions::InstructionList;
use millstream_instructions::passes::{
    CoreCosts, Outputs, Pass, PassOptions, arena_bytes, sync_points,
};
use millstream_instructions::text::print_list;
use millstream_types::StreamMode;
use millstream_verify::{CheckOptions, check_with, same_operations, verify};

use crate::pass_programs::{emit, ops, steps, streams};

const OPTIONS: CheckOptions = CheckOptions { callbacks: true };

/// Asserts that a list is accepted.
fn accepted(list: &InstructionList, context: &dyn Fn() -> String) -> Result<(), TestCaseError> {
    if let Err(found) = check_with(list.clone(), OPTIONS) {
        let found: Vec<String> = found.iter().map(|v| v.to_string()).collect();
        let context = context();
        return Err(TestCaseError::fail(format!("{context}\n{}", found.join("\n"))));
    }
    prop_assert!(verify(list).proven(), "{}", context());
    Ok(())
}

fn outputs() -> impl Strategy<Value = Outputs> {
    let named = proptest::sample::subsequence(vec!["x", "y", "z"], 0..=3)
        .prop_map(|names| Outputs::Named(names.into_iter().map(str::to_owned).collect()));
    prop_oneof![Just(Outputs::All), named]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]
    #[test]
    fn passes_give_lists_that_compute_the_same(
        streams in streams(),
        limit in 4u64..40,
        steps in steps(40),
        passes in proptest::collection::vec(select(Pass::ALL.to_vec()), 1..5),
        spread in 1usize..5,
        outputs in outputs(),
    ) {
        let list = emit(&streams, limit * 1024, &steps);
        accepted(&list, &|| print_list(&list))?;
        let ops = &ops();
        let costs = CoreCosts::default();
        let options = PassOptions { ops, costs: &costs, streams: spread, outputs: &outputs };
        let mut before = list;
        for pass in passes {
            let after = match pass.apply(&before, &options) {
                Ok(after) => after,
                Err(e) => {
                    let text = print_list(&before);
                    return Err(TestCaseError::fail(format!("{pass}: {e}\n{text}")));
                }
            };
            let context =
                || format!("{pass}\n{}\nbecame\n{}", print_list(&before), print_list(&after));
            accepted(&after, &context)?;
            if let Err(difference) = same_operations(&before, &after, ops, &outputs) {
                return Err(TestCaseError::fail(format!("{difference}\n{}", context())));
            }
            // More streams need more waits and more memory.
            if pass != Pass::Assign {
                // On a pool, a dead call may have ordered effects by its operands.
                let pools = before.streams.iter().any(|s| s.mode == StreamMode::Pool);
                let fewer = sync_points(&after) <= sync_points(&before);
                prop_assert!(fewer || (pools && pass == Pass::Dead), "{}", context());
                let (now, old) = (arena_bytes(&after), arena_bytes(&before));
                prop_assert!(now.iter().zip(&old).all(|(a, b)| a <= b), "{}", context());
            }
            prop_assert_eq!(&pass.apply(&before, &options).unwrap(), &after);
            before = after;
        }
    }
}
