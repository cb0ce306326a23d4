//! Programs whose streams are pools: a graph, a queue and workers that share them.

use millstream_types::{Attrs, StreamKey, StreamMode};
use shuttle::thread;

use crate::rig::{CPU, cpu, explore, machine, read, upload};
use crate::{Machine, Stream};

fn pool(m: &Machine, index: u32) -> Stream {
    m.stream_with_mode(&StreamKey::compute(CPU, index), StreamMode::Pool).unwrap()
}

/// Two threads submit calls to a pool, some of which may overlap and some not, with an in-order
/// stream between.
#[test]
fn a_pool_and_a_stream() {
    explore(|| {
        let m = machine();
        let (p, s) = (pool(&m, 0), cpu(&m, 1));
        let (x, y) = (upload(&m, &p, 1), upload(&m, &p, 2));
        let other = {
            let (m, p, y) = (m.clone(), p.clone(), y.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    m.call("add_", &[&y, &y]).on(&p).unwrap();
                }
            })
        };
        let z = m.call("add", &[&x, &x]).on(&p).unwrap().remove(0);
        m.call("add_", &[&x, &z]).on(&s).unwrap();
        m.call("add_", &[&z, &x]).on(&p).unwrap();
        other.join().unwrap();
        assert_eq!((read(&x), read(&y), read(&z)), (3, 8, 5));
    });
}

/// More ready calls than one worker claims at once: the other gets those that are not begun.
#[test]
fn a_worker_with_nothing_to_run() {
    explore(|| {
        let m = machine();
        let p = pool(&m, 0);
        let tensors: Vec<_> = (1..=4).map(|value| upload(&m, &p, value)).collect();
        let add = m.prepare("add_", &[&tensors[0], &tensors[0]], Attrs::new()).unwrap();
        let mut batch = m.batch();
        for k in 0..8 {
            let x = tensors[k % 4].handle();
            batch.call_with(&add, &[x, x], &p).unwrap();
        }
        drop(batch);
        let values: Vec<i64> = tensors.iter().map(read).collect();
        assert_eq!(values, [4, 8, 12, 16]);
    });
}

/// Calls that wait for one another, and calls that do not, claimed by several workers; the machine
/// is dropped while they run.
#[test]
fn pools_that_stop() {
    explore(|| {
        let m = machine();
        let p = pool(&m, 0);
        let tensors = [upload(&m, &p, 1), upload(&m, &p, 1)];
        let add = m.prepare("add_", &[&tensors[0], &tensors[0]], Attrs::new()).unwrap();
        let mut batch = m.batch();
        for k in 0..6 {
            let x = tensors[k % 2].handle();
            batch.call_with(&add, &[x, x], &p).unwrap();
        }
        drop(batch);
        assert_eq!(read(&tensors[0]), 8);
        m.call("add_", &[&tensors[0], &tensors[1]]).on(&p).unwrap();
        drop((add, tensors, p, m));
    });
}
