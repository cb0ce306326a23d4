//! Profiles on the CUDA backend: the device's own times, on the host's clock.

use std::path::Path;
use std::sync::Arc;

use millstream::instructions::Body;
use millstream_cuda_standin::StandIn;
use millstream_runner::{RunOptions, prepare};
use millstream_trace::{LoadOptions, load};

use crate::common::{SIM, kernels, must_be_there};

#[test]
fn the_device_measures_its_commands() {
    must_be_there();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("examples/traces/diamond.json");
    let program = Arc::new(load(&path, &LoadOptions::default()).unwrap());
    let options = RunOptions::default()
        .machine(|config| config.kernels(kernels()))
        .device(SIM)
        .in_turn(2)
        .profile(true);
    let report = prepare(program, &options).unwrap().run().unwrap();
    let times = report.times.expect("the options ask for times");
    let on_device = times.streams.iter().filter(|s| s.key.device == SIM);
    let measured: Vec<_> = on_device.filter(|s| s.by_device).collect();
    assert!(measured.len() >= 3, "the streams with calls are measured by the device");
    // The anchor is exact to half the time that it takes, which other programs may prolong.
    const ANCHOR: u64 = 1_000_000;
    for stream in measured {
        for pair in stream.instructions.windows(2) {
            assert!(pair[0].start <= pair[1].end, "{}: {pair:?}", stream.key);
        }
        for one in &stream.instructions {
            assert!(one.start <= one.end && one.end < times.total + ANCHOR, "{one:?}");
        }
    }
    let calls = times.list.instructions.iter().filter(|i| matches!(i.body, Body::OpCall { .. }));
    assert!(calls.count() >= 4);
    assert_eq!(StandIn::load().unwrap().violations(), Vec::<String>::new());
}
