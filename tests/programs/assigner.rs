//! The streams that the assigner chooses for recorded programs, by the times that it expects:
//! beside one stream, the best of a thousand random assignments, and HEFT, which may run calls in
//! another order than the program.

use std::fmt::Write;
use std::path::Path;

use millstream_instructions::assigner::{
    Assignment, Order, Platform, Target, assign_in_order, schedule, schedule_on,
};
use millstream_instructions::passes::{CoreCosts, CostModel};
use millstream_runner::RunOptions;
use millstream_runner::assigner::tasks;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::files;

const STREAMS: usize = 4;
const GUESSES: usize = 1_000;

/// Returns the number of streams that an assignment uses.
fn used(made: &Assignment) -> usize {
    let streams = made.tasks.iter().filter_map(|task| match task.target {
        Target::Group(_, stream) => Some(stream + 1),
        Target::Stream(_) | Target::Other => None,
    });
    streams.max().unwrap_or(0)
}

#[test]
fn no_guess_of_a_thousand_gains_a_tenth() {
    // Waits as they are, and waits so cheap that these small programs are spread.
    let usual = Platform::eager(STREAMS, CoreCosts::EAGER.hand_over());
    let cheap = Platform::compiled(STREAMS, 200);
    let mut table = String::new();
    let mut random = ChaCha8Rng::seed_from_u64(0);
    for path in files::traces(["tests/traces/pytorch", "examples/pytorch"]) {
        let name = path.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        let program = files::read(&path);
        let streams = STREAMS as u32;
        let options = RunOptions::default().compute_streams(streams).expected_cores(streams);
        let all = tasks(&program, &options).unwrap();
        let count = all.tasks.len();
        for (waits, platform) in [("usual", usual), ("cheap", cheap)] {
            let one = schedule_on(&all.tasks, &vec![0; count], platform).time;
            let made = assign_in_order(&all.tasks, &all.most, platform);
            let guess = || {
                let streams: Vec<usize> =
                    (0..count).map(|_| random.next_u32() as usize % STREAMS).collect();
                schedule_on(&all.tasks, &streams, platform).time
            };
            let best = std::iter::repeat_with(guess).take(GUESSES).min().unwrap();
            let heft = schedule(&all.tasks, &all.most, platform, Order::Rank).time;
            let times = [one, made.time, best, heft].map(|ns| format!("{:.1}", ns as f64 / 1e3));
            let [one_us, made_us, best_us, heft_us] = times;
            writeln!(
                table,
                "{name}, {waits} waits: one stream {one_us} us, assigned {made_us} on {}, \
                 best guess {best_us}, HEFT {heft_us}",
                used(&made)
            )
            .unwrap();
            assert!(made.time <= one, "{name}");
            // More streams are not used for less than a tenth.
            assert!(made.time * 9 <= best * 10, "{name}: {made_us} us, and a guess {best_us}");
        }
    }
    insta::assert_snapshot!(table);
}
