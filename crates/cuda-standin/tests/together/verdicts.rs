//! What a kernel finds wrong with its data while it runs is its instruction's failure, known when that
//! completes.

use millstream::*;
use millstream_cuda_standin::{StandIn, compiles};

use crate::common::*;

/// Indices of i64 in a tensor on the device.
fn indices(machine: &Machine, on: &Stream, values: &[i64]) -> Tensor {
    let spec = TensorSpec::contiguous(DType::I64, &[values.len()]).unwrap();
    let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    machine.upload(on, spec, bytes).unwrap()
}

#[test]
fn an_index_out_of_range_fails_and_spoils_what_reads_it() {
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let machine = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let on = machine.compute(&SIM, 0).unwrap();
        let x = upload(&on, &machine, &[1.0, 2.0, 3.0]);
        let select = |index: &Tensor| {
            let call = machine.call("index_select", &[&x, index]).attr("dim", 0);
            call.on(&on).unwrap().remove(0)
        };
        // A word that has been set comes back, and is zero again.
        for _ in 0..5 {
            let good = select(&indices(&machine, &on, &[2, 0]));
            let bad = select(&indices(&machine, &on, &[0, 3]));
            let reader = call(&machine, "neg", &[&bad], &on);
            let failed = failure(reader.read().unwrap_err());
            assert_eq!(failed.op.as_deref(), Some("index_select"), "{failed:?}");
            assert!(failed.message.contains("expected 0 to 2"), "{failed:?}");
            assert_eq!(read(&good), [3.0, 1.0]);
        }
        if compiles() {
            // The words of a stream are pinned memory that it keeps.
            assert!(StandIn::load().unwrap().open("pinned bytes") >= 4096);
        }
    }
}
