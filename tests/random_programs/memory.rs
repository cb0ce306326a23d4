//! Random operations on memory, a million in CI: tensors made, viewed, used and released on one to
//! eight streams, within limits that make the machine wait, merge and release memory. The contents
//! are those under the inline driver. An owner map that is independent of the planner checks that
//! no byte has two owners. The checker verifies that each owner comes after the last. All memory is
//! released at the end.

use std::collections::{BTreeMap, HashMap};

use millstream::ep::{Registry, cpu::CpuBackend, sim::SimBackend};
use millstream::instructions::{ArenaId, Body, InstructionList, Placement};
use millstream::types::TensorId;
use millstream::{
    DType, DeviceId, DriverKind, Error, Machine, MachineConfig, Stream, StreamKey, StreamMode,
    Tensor, TensorSpec,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const STEPS: usize = 4000;

/// The owner of every byte, according to a list.
#[derive(Default)]
struct Owners {
    /// By arena and first byte: the end, and the storage.
    bytes: BTreeMap<(ArenaId, u64), u64>,
    storages: HashMap<TensorId, (TensorId, Option<Placement>)>,
    tensors: HashMap<TensorId, usize>,
}

impl Owners {
    fn take(&mut self, place: &Placement) {
        if place.size == 0 {
            return;
        }
        let (arena, start, end) = (place.arena, place.offset, place.offset + place.size);
        let before = self.bytes.range(..(arena, end)).next_back();
        if let Some((&(other, from), &to)) = before {
            assert!(other != arena || to <= start, "{place:?} overlaps {from}..{to}");
        }
        self.bytes.insert((arena, start), end);
    }

    fn release(&mut self, place: &Placement) {
        if place.size > 0 {
            self.bytes.remove(&(place.arena, place.offset)).unwrap();
        }
    }

    fn walk(list: &InstructionList) -> Owners {
        let mut owners = Owners::default();
        for instruction in &list.instructions {
            match &instruction.body {
                Body::AllocateTensor { tensor, placement, .. } => {
                    owners.take(placement);
                    owners.storages.insert(*tensor, (*tensor, Some(**placement)));
                    owners.tensors.insert(*tensor, 1);
                }
                Body::ViewTensor { tensor, of, .. } => {
                    let root = owners.storages[of];
                    owners.storages.insert(*tensor, root);
                    *owners.tensors.get_mut(&root.0).unwrap() += 1;
                }
                Body::ReleaseTensor { tensor } => {
                    let (root, place) = owners.storages.remove(tensor).unwrap();
                    let left = owners.tensors.get_mut(&root).unwrap();
                    *left -= 1;
                    if *left == 0 {
                        owners.tensors.remove(&root);
                        owners.release(&place.unwrap());
                    }
                }
                Body::OpCall { workspace: Some(place), .. } => {
                    owners.take(place);
                    owners.release(place);
                }
                _ => {}
            }
        }
        owners
    }
}

/// The results of a program that can be compared.
#[derive(PartialEq)]
struct Outcome {
    reads: Vec<Vec<u8>>,
    refused: u32,
}

fn run(driver: DriverKind, seed: u64) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut below = move |n: usize| random.next_u32() as usize % n;
    let device = if below(4) == 0 { DeviceId::sim(0) } else { DeviceId::cpu(0) };
    let limits = [None, Some(24 << 10), Some(100 << 10), Some(6 << 20)][below(4)];
    // Some programs use sizes that have chunks of their own.
    let sizes: &[usize] = if below(3) == 0 { &[1 << 18, 3 << 17, 1 << 12] } else { &[1, 100, 500] };
    let devices = Registry::new();
    devices.register(std::sync::Arc::new(CpuBackend::new()));
    devices.register(std::sync::Arc::new(SimBackend::new(Default::default())));
    let machine = Machine::new(
        MachineConfig::default()
            .driver(driver)
            .devices(std::sync::Arc::new(devices))
            .host_workers(2)
            .threads(1)
            .memory_limits(limits.map(|bytes| (device.clone(), bytes)).into_iter().collect()),
    )
    .unwrap();
    let streams: Vec<Stream> = (0..1 + below(8) as u32)
        .map(|k| {
            let mode = if below(6) == 0 { StreamMode::Pool } else { StreamMode::InOrder };
            machine.stream_with_mode(&StreamKey::compute(device.clone(), k), mode).unwrap()
        })
        .collect();
    machine.start_recording(&[]).unwrap();
    let mut live: Vec<Tensor> = Vec::new();
    let mut outcome = Outcome { reads: Vec::new(), refused: 0 };
    // Large tensors take long and test no more, so these programs are short.
    let steps = if sizes[0] > 1 { STEPS / 40 } else { STEPS };
    let mut done = 0;
    while done < steps {
        done += 1;
        let stream = &streams[below(streams.len())];
        let action = below(32);
        let made = if action < 8 || live.is_empty() {
            let elements = sizes[below(sizes.len())] + below(30);
            let spec = TensorSpec::contiguous(DType::I32, &[elements]).unwrap();
            machine.empty(stream, spec).and_then(|x| {
                machine.call("fill", &[&x]).attr("value", below(1000) as i64).on(stream)?;
                Ok(vec![x])
            })
        } else {
            let x = live[below(live.len())].clone();
            match action {
                8..12 => machine.call("copy", &[&x]).on(stream),
                12..16 => machine.call("add_", &[&x, &x]).on(stream),
                16..19 if !x.spec().shape().is_empty() => {
                    let length = x.spec().shape()[0] as i64;
                    let cut = machine.call("slice", &[&x]).attr("dim", 0);
                    cut.attr("start", length / 3).attr("end", length).on(stream)
                }
                19 => machine.call("sum", &[&x]).on(stream),
                20..28 => {
                    live.swap_remove(below(live.len()));
                    Ok(vec![])
                }
                28 => stream.wait_stream(&streams[below(streams.len())]).map(|()| vec![]),
                29 => stream.touch(&[&x]).map(|_| vec![]),
                30 if below(8) == 0 => machine.barrier().map(|_| vec![]),
                31 if below(8) == 0 => {
                    outcome.reads.push(x.read().unwrap());
                    Ok(vec![])
                }
                _ => Ok(vec![]),
            }
        };
        match made {
            Ok(made) => live.extend(made),
            Err(error) => {
                assert!(matches!(error.without_place(), Error::OutOfMemory { .. }), "{error}");
                outcome.refused += 1;
            }
        }
        if live.len() > 40 {
            live.swap_remove(below(live.len()));
        }
    }
    outcome.reads.extend(live.iter().map(|x| x.read().unwrap()));
    drop(live);
    let list = machine.finish_recording().unwrap();
    machine.synchronize().unwrap();
    for usage in machine.memory().unwrap() {
        assert_eq!((usage.in_use, usage.pending), (0, 0), "seed {seed}: {usage}");
        assert_eq!(usage.cached, usage.reserved, "seed {seed}: {usage}");
        assert!(usage.reserved <= limits.unwrap_or(u64::MAX) || usage.device != device);
    }
    let owners = Owners::walk(&list);
    assert!(owners.bytes.is_empty() && owners.storages.is_empty(), "seed {seed}: not released");
    let options = millstream_verify::CheckOptions { callbacks: true };
    let found = millstream_verify::check_with(list, options).err();
    assert!(found.is_none(), "seed {seed}: {:#?}", found.map(|mut v| v.swap_remove(0)));
    outcome
}

#[test]
fn random_operations() {
    let programs = millstream_testing::cases(80, 380);
    let next = std::sync::atomic::AtomicU64::new(0);
    let refused = std::sync::atomic::AtomicU64::new(0);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, relaxed);
                    if seed >= programs {
                        return;
                    }
                    let (inline, threads) =
                        (run(DriverKind::Inline, seed), run(DriverKind::Threaded, seed));
                    assert!(inline == threads, "seed {seed}: the drivers differ");
                    refused.fetch_add(inline.refused.into(), relaxed);
                }
            });
        }
    });
    assert!(refused.into_inner() > 0, "no program has run out of memory");
}
