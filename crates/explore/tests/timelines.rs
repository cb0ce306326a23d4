//! Predictions from timelines with threads: files whose right answers are known, and random ones.

use std::path::Path;

use millstream_explore::what_if::{Changes, numbered_waits, what_if};
use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Resolution, Role, Stream, Times, Wait};
use millstream_profile::summary::ops;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

fn bug(name: &str) -> Profile {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../timelines/tests/bugs");
    read(&tests.join(name).join("kineto.json"))
}

fn read(path: &Path) -> Profile {
    millstream_timelines::read(path, &Default::default()).unwrap().profile
}

fn without(wait: usize) -> Changes {
    Changes { without_waits: vec![wait], ..Changes::default() }
}

fn op(name: &str, factor: &str) -> Changes {
    let change = format!("{name}=x{factor}");
    Changes { ops: vec![change.parse().unwrap()], ..Changes::default() }
}

#[track_caller]
fn total(profile: &Profile, changes: &Changes) -> u64 {
    what_if(profile, changes).unwrap().total
}

#[test]
fn submissions_move_with_the_waits_of_their_threads() {
    let recorded = bug("whatif_host_wait");
    assert_eq!(total(&recorded, &Changes::default()), 211_000);
    assert_eq!(total(&recorded, &without(1)), 112_000);
    assert_eq!(total(&recorded, &op("long_kernel", "0.1")), 121_000);
    // What the thread does between its submissions and its waits stays.
    assert_eq!(total(&recorded, &op("long_kernel", "0")), 112_000);
    let made = what_if(&recorded, &op("long_kernel", "0.1")).unwrap();
    let submitted = |p: &Profile| -> Vec<Option<u64>> {
        let kernels = p.instructions.iter().filter(|i| p.name_of(i).ends_with("_kernel"));
        kernels.map(|i| i.issued).collect()
    };
    assert_eq!(submitted(&recorded), [Some(1_000), Some(107_000)]);
    assert_eq!(submitted(&made), [Some(1_000), Some(17_000)]);
}

#[test]
fn each_step_of_a_loop_waits_for_its_kernel() {
    let recorded = bug("whatif_item_loop");
    assert_eq!(total(&recorded, &Changes::default()), recorded.total);
    let made = total(&recorded, &op("gemm", "0.1"));
    assert!((1_150_000..1_250_000).contains(&made), "{made}");
}

/// A timeline under construction.
struct Random {
    rng: ChaCha8Rng,
    profile: Profile,
    /// The end of everything so far on each stream.
    ended: Vec<u64>,
    /// Kernels so far.
    kernels: Vec<u32>,
}

const THREADS: usize = 2;
const STREAMS: usize = 3;

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn push(&mut self, name: u32, role: Role, stream: usize, [start, end]: [u64; 2]) -> u32 {
        self.ended[stream] = self.ended[stream].max(end);
        let times = Some(Times { ready: start, start, end });
        let (stream, parent, place) = (stream as u32, NONE, NONE);
        let instruction =
            Instruction { name, role, stream, times, parent, place, ..Instruction::default() };
        self.profile.instructions.push(instruction);
        self.profile.instructions.len() as u32 - 1
    }

    fn end(&self, k: u32) -> u64 {
        self.profile.instructions[k as usize].times.unwrap().end
    }

    fn wait(&mut self, waiter: u32, until: u32) {
        let (user, resolution, covered_by) = (waiter, Resolution::Host, NONE);
        let wait = Wait { waiter, until, user, resolution, covered_by, tensors: Vec::new() };
        self.profile.waits.push(wait);
    }

    /// Adds what a thread does next: it works, submits a kernel or a wait of a stream, or waits.
    fn step(&mut self) {
        let thread = self.below(THREADS as u64) as usize;
        let start = self.ended[thread] + self.below(5);
        let on = THREADS + self.below(STREAMS as u64) as usize;
        let earlier = self.below(self.kernels.len().max(1) as u64) as usize;
        let until = self.kernels.get(earlier).copied();
        match (self.below(4), until) {
            (0, _) => {
                let end = start + self.below(20);
                self.push(0, Role::Work, thread, [start, end]);
            }
            (1, Some(until)) => {
                let (own, delay) = (1 + self.below(3), self.below(4));
                let end = (start + own).max(self.end(until) + delay);
                let waiter = self.push(1, Role::Wait, thread, [start, end]);
                self.wait(waiter, until);
            }
            (2, Some(until)) => {
                let call = self.push(2, Role::Work, thread, [start, start + 1]);
                let begin = self.ended[on].max(start);
                let times = [begin, begin.max(self.end(until))];
                let waiter = self.push(2, Role::Wait, on, times);
                self.submitted(waiter, call, start);
                self.wait(waiter, until);
            }
            _ => {
                let end = start + 1 + self.below(3);
                let call = self.push(3, Role::Work, thread, [start, end]);
                let [after_call, after_kernel] = [self.below(9), self.below(3)];
                let begin = (start + after_call).max(self.ended[on] + after_kernel);
                let (name, takes) = (4 + self.below(3) as u32, self.below(60));
                let kernel = self.push(name, Role::Work, on, [begin, begin + takes]);
                self.submitted(kernel, call, start);
                self.kernels.push(kernel);
            }
        }
    }

    fn submitted(&mut self, k: u32, call: u32, at: u64) {
        let own = &mut self.profile.instructions[k as usize];
        (own.submitter, own.issued) = (Some(call), Some(at));
    }
}

fn random(seed: u64) -> Profile {
    let stream = |k: usize| Stream {
        name: format!("stream {k}"),
        device: if k < THREADS { "host" } else { "cuda:0" }.to_owned(),
        thread: k < THREADS,
        ..Stream::default()
    };
    let names = ["works", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaLaunchKernel"];
    let profile = Profile {
        streams: (0..THREADS + STREAMS).map(stream).collect(),
        names: names.into_iter().chain(["a", "b", "c"]).map(String::from).collect(),
        ..Profile::default()
    };
    let ended = vec![0; THREADS + STREAMS];
    let mut made =
        Random { rng: ChaCha8Rng::seed_from_u64(seed), profile, ended, kernels: Vec::new() };
    for _ in 0..60 {
        made.step();
    }
    made.profile.total = made.ended.iter().copied().max().unwrap();
    made.profile
}

fn times(profile: &Profile) -> Vec<Option<Times>> {
    profile.instructions.iter().map(|i| i.times).collect()
}

#[test]
fn random_timelines_are_predicted_as_they_were_and_change_in_one_direction() {
    for seed in 0..50 {
        let recorded = random(seed);
        let again = what_if(&recorded, &Changes::default()).unwrap();
        assert_eq!((again.total, times(&again)), (recorded.total, times(&recorded)), "{seed}");
        for name in ops(&recorded).iter().map(|op| &op.name) {
            let mut before = 0;
            for factor in ["0", "0.3", "0.9", "1", "1.5", "4"] {
                let made = total(&recorded, &op(name, factor));
                assert!(made >= before, "{seed}: {name}=x{factor} takes {made}, less {before}");
                assert!(factor != "1" || made == recorded.total, "{seed}: {name}");
                before = made;
            }
        }
        for number in 1..=numbered_waits(&recorded).len() {
            let made = total(&recorded, &without(number));
            assert!(made <= recorded.total, "{seed}: without wait {number} takes {made}");
        }
    }
}

/// Recorded on an H200. A change of what threads do, of kernels or of launches changes the run.
#[test]
fn real_timelines_are_predicted_as_they_were_and_react() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../timelines/tests/cuda-recorded");
    for case in ["branches", "graph", "missing_wait", "prefetch", "train_adamw", "train_fused"] {
        let recorded = read(&cases.join(case).join("timeline.json.gz"));
        let again = what_if(&recorded, &Changes::default()).unwrap();
        assert_eq!(again.total, recorded.total, "{case}");
        for op in ops(&recorded).iter().take(8) {
            let made = total(&recorded, &self::op(&op.name, "0.5"));
            assert!(made <= recorded.total, "{case}: {}", op.name);
        }
    }
    let recorded = read(&cases.join("train_adamw/timeline.json.gz"));
    for op in ops(&recorded).iter().take(8) {
        // Each takes its time on the threads, which have no time to spare.
        let gain = recorded.total - total(&recorded, &self::op(&op.name, "0.5"));
        assert!(gain * 20 > op.total * 9, "{}: {gain} of {}", op.name, op.total);
    }
}
