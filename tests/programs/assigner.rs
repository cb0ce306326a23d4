//! The streams that the assigner chooses for recorded programs, by the times that it expects:
//! beside one stream, the best of a thousand random assignments, and HEFT, which may run calls in
//! another order than the program.

use std::fmt::Write;
use std::path::Path;

use millstream_instructions::assigner::{
    Order, Platform, Target, assign_in_order, schedule, schedule_on,
};
use millstream_runner::RunOptions;
use millstream_runner::assigner::tasks;
use millstream_trace::{Entry, LoadOptions, expand, load};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const STREAMS: usize = 4;
const GUESSES: usize = 1_000;

#[test]
fn the_assigner_is_as_good_as_the_best_of_a_thousand_guesses() {
    let platform = Platform::eager(STREAMS);
    let mut table = String::from("program: one stream, assigned, best guess, HEFT, streams\n");
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/traces/pytorch", "examples/pytorch"].map(|folder| root.join(folder));
    for entry in expand(folders).unwrap() {
        let Entry::Trace(path) = entry else { continue };
        let program = load(&path, &LoadOptions::default()).unwrap();
        let options =
            RunOptions::default().compute_streams(STREAMS as u32).expected_cores(STREAMS as u32);
        let all = tasks(&program, &options).unwrap();
        let count = all.tasks.len();
        let one = schedule_on(&all.tasks, &vec![0; count], platform).time;
        let made = assign_in_order(&all.tasks, &all.most, platform);
        let guess = || {
            let streams: Vec<usize> =
                (0..count).map(|_| random.next_u32() as usize % STREAMS).collect();
            schedule_on(&all.tasks, &streams, platform).time
        };
        let best = std::iter::repeat_with(guess).take(GUESSES).min().unwrap();
        let heft = schedule(&all.tasks, &all.most, platform, Order::Rank).time;
        let name = path.file_name().unwrap().to_string_lossy();
        let used = made.tasks.iter().filter_map(|task| match task.target {
            Target::Group(_, stream) => Some(stream + 1),
            Target::Stream(_) | Target::Other => None,
        });
        let used = used.max().unwrap_or(0);
        let us = |ns: u64| ns as f64 / 1e3;
        let times = [one, made.time, best, heft].map(|ns| format!("{:.0}", us(ns)));
        writeln!(table, "{name}: {} us, {used}", times.join(", ")).unwrap();
        assert!(made.time <= one, "{name}");
        assert!(made.time <= best, "{name}: a guess is better");
    }
    insta::assert_snapshot!(table);
}
