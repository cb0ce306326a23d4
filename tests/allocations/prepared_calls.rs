//! Prepared calls allocate nothing on any thread, once a machine has run for a while.

use millstream::*;

use crate::{allocations, alone};

/// Makes 500 calls on the streams in turn, and waits for all of them.
fn round(machine: &Machine, add: &Prepared, x: &[TensorHandle], streams: &[Stream], single: bool) {
    let mut batch = machine.batch();
    for k in 0..500 {
        let (a, b) = (x[k % x.len()], x[(k * 7 + 3) % x.len()]);
        batch.call_with(add, &[a, b], &streams[k % streams.len()]).unwrap();
    }
    drop(batch);
    for stream in streams.iter().filter(|_| single) {
        add.on(stream).unwrap();
    }
    machine.synchronize().unwrap();
}

#[test]
fn a_prepared_call_allocates_nothing() {
    let _alone = alone();
    let workers = 2;
    let config = MachineConfig::default().host_workers(workers);
    let machine = Machine::new(config).unwrap();
    let spec = TensorSpec::contiguous(DType::F32, &[4]).unwrap();
    for count in [1, 4] {
        let stream = |k| machine.compute(&DeviceId::cpu(0), k).unwrap();
        let streams: Vec<Stream> = (0..count).map(stream).collect();
        let zeros = || machine.upload(&streams[0], spec.clone(), vec![0; 16]).unwrap();
        let tensors: Vec<Tensor> = (0..10).map(|_| zeros()).collect();
        let add = machine.prepare("add_", &[&tensors[0], &tensors[1]], Attrs::new()).unwrap();
        let handles: Vec<TensorHandle> = tensors.iter().map(Tensor::handle).collect();
        (0..20).for_each(|_| round(&machine, &add, &handles, &streams, true));
        let before = allocations();
        (0..20).for_each(|_| round(&machine, &add, &handles, &streams, true));
        let allocations = allocations() - before;
        // What the 40 waits allocate is allowed: the list of their points, frontiers of several
        // streams, entries of waiter lists. A call that allocates would count thousands.
        assert!(
            allocations < 200,
            "{allocations} allocations in 10,000 calls on {count} stream(s)"
        );
    }
}
