//! Eager calls whose kernels need scratch memory, made again: each has the place of its own.

use millstream::*;
use millstream_testing::machine::*;

/// So many elements that a sum has two parts, whose results lie in scratch memory.
const LENGTH: usize = 20_000;

fn full(m: &Machine, s: &Stream, value: usize) -> Tensor {
    upload(s, m, &vec![value as f32; LENGTH])
}

/// Sums on several streams, with others' tensors between them, also on a pool.
#[test]
fn sums_on_streams_and_pools() {
    for driver in ALL_DRIVERS {
        for mode in [StreamMode::InOrder, StreamMode::Pool] {
            let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
            let streams =
                [0, 1, 2].map(|k| m.stream_with_mode(&StreamKey::compute(CPU, k), mode).unwrap());
            let inputs = [1, 2, 3].map(|value| full(&m, &cpu(&m, 7), value));
            let mut sums = Vec::new();
            for round in 0..8 {
                for (k, s) in streams.iter().enumerate() {
                    let at = (round + k) % 3;
                    let sum = call(&m, "sum", &[&inputs[at]], s);
                    // What is placed next must not be the memory of a sum that has not run.
                    let other = call(&m, "neg", &[&inputs[at]], s);
                    let less = call(&m, "sum", &[&other], s);
                    sums.push((at, sum, less));
                }
            }
            for (at, sum, less) in &sums {
                let expected = ((at + 1) * LENGTH) as f32;
                assert_eq!(
                    (read(sum), read(less)),
                    (vec![expected], vec![-expected]),
                    "{driver:?}"
                );
            }
            let stats = m.inference_stats_of_ops().unwrap()["sum"];
            assert!(stats.hits > 30, "{stats:?}");
        }
    }
}

/// Calls that are skipped, cancelled or recorded take the path of all instructions.
#[test]
fn calls_that_are_no_plain_ones() {
    for driver in ALL_DRIVERS {
        let m = failing(driver);
        let s = cpu(&m, 0);
        let x = full(&m, &s, 1);
        let sum = |x: &Tensor| call(&m, "sum", &[x], &s);
        for _ in 0..3 {
            assert_eq!(read(&sum(&x)), [LENGTH as f32]);
        }
        let broken = call(&m, "fail", &[&x], &s);
        assert!(failure(sum(&broken).read().unwrap_err()).message.contains("on purpose"));
        m.clear_failures();
        let cancellation = Cancellation::new();
        cancellation.cancel();
        assert!(cancellation.scope(|| sum(&x)).read().is_err());
        m.clear_failures();
        m.start_recording(&[("x", &x)]).unwrap();
        let recorded = sum(&x);
        let list = m.finish_recording().unwrap();
        assert!(listing(&list).contains("workspace"), "{}", listing(&list));
        assert_eq!(read(&recorded), [LENGTH as f32]);
        assert_eq!(read(&sum(&x)), [LENGTH as f32]);
    }
}
