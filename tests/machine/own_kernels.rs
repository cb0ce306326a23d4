//! A call that was seen before runs the kernel of its own machine, whatever kernels other machines
//! of the thread have for its op. The kernels of a machine never change, so a kept call needs no
//! version of the registry.

use millstream::*;
use millstream_testing::machine::*;

/// Kernels that the first op of their group can have, and what they give for -1, 2, -3, 4, repeated
/// [`TIMES`] times. Those of the second group need scratch memory.
const KERNELS: [&[(&str, [f32; 4])]; 2] = [
    &[
        ("relu", [0.0, 2.0, 0.0, 4.0]),
        ("neg", [1.0, -2.0, 3.0, -4.0]),
        ("abs", [1.0, 2.0, 3.0, 4.0]),
    ],
    &[("sum", [2.0 * TIMES as f32; 4]), ("mean", [0.5; 4])],
];

/// So often that a sum has parts.
const TIMES: usize = 5000;

/// Returns a machine whose kernel of `op` is that of `kernel`.
fn replaced(driver: DriverKind, op: &str, kernel: &str) -> Machine {
    let mut config = config(driver, SyncPolicy::Frontier);
    let kernel = config.kernels.get("cpu", kernel).unwrap().clone();
    config.kernels.register("cpu", op, kernel);
    Machine::new(config).unwrap()
}

/// Makes the call on equal operands a few times, of which all but the first find it kept.
fn check(m: &Machine, op: &str, expected: &[f32]) {
    let s = cpu(m, 0);
    let x = upload(&s, m, &[-1.0, 2.0, -3.0, 4.0].repeat(TIMES));
    let before = m.inference_stats().unwrap().hits;
    for _ in 0..3 {
        let y = call(m, op, &[&x], &s);
        let y = read(&y);
        assert_eq!(y[..], expected.repeat(TIMES)[..y.len()], "{op}");
    }
    assert!(m.inference_stats().unwrap().hits >= before + 2, "{op}");
}

#[test]
fn machines_beside_each_other_run_their_own_kernels() {
    for driver in ALL_DRIVERS {
        for group in KERNELS {
            let op = group[0].0;
            let all = group.iter().map(|(kernel, gives)| (replaced(driver, op, kernel), gives));
            let all: Vec<(Machine, &[f32; 4])> = all.collect();
            for _ in 0..3 {
                all.iter().for_each(|(m, gives)| check(m, op, *gives));
            }
        }
    }
}

/// The memory of a dropped machine, its tables and its kernels may be that of the next one.
#[test]
fn a_later_machine_runs_its_own_kernels() {
    for driver in ALL_DRIVERS {
        for group in KERNELS {
            for (kernel, gives) in group.iter().cycle().take(12) {
                check(&replaced(driver, group[0].0, kernel), group[0].0, gives);
            }
        }
    }
}
