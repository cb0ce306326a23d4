//! Compares every kernel's own code, compiled for the host, with the host's kernel of the same op,
//! in the cases of `millstream gpu-check` with fewer dtypes.

mod planted_defects;

use std::thread;

use millstream_cuda_standin::StandIn;
use millstream_gpu_check::ops;
use millstream_testing::cases;

/// Long because each kernel is compiled, unless an earlier run has done so.
#[test]
fn compiled_kernels_agree_with_the_host() {
    if !millstream_cuda_standin::compiles() {
        return println!("skipped: no C++ compiler");
    }
    let stand_in = StandIn::load().unwrap_or_else(|error| panic!("{error:#}"));
    let _turn = stand_in.turn();
    // Each third op, or all.
    let families = millstream_ops::families();
    let names = families.iter().flat_map(|(_, ops)| ops).map(|op| op.name());
    let only: Vec<&str> = names.step_by(cases(3, 1)).collect();
    // In two threads, as one compiles or computes at a time.
    let (some, others) = only.split_at(only.len() / 2);
    let check = |only: &[&str]| ops::check(0, 7, &ops::Which { thorough: false, only }).unwrap();
    let sections = thread::scope(|scope| {
        let others = scope.spawn(|| check(others));
        [check(some), others.join().unwrap()]
    });
    for section in sections {
        println!("{} passed\n{}", section.passed, section.notes.join("\n"));
        let (failed, skipped) = (section.failed, section.skipped);
        assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
        assert!(skipped.is_empty(), "{}", skipped.join("\n"));
    }
    let violations = stand_in.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}
