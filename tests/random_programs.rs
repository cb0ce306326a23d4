//! Random programs: threads give what the inline driver gives, the checker accepts every list, and
//! lists do not depend on the driver.

use millstream::{DType, DeviceId, DriverKind, Machine, MachineConfig, Stream, SyncPolicy, Tensor};
use millstream::{TensorSpec, instructions::text::print_list, verify};
use proptest::prelude::*;

type Step = (u8, u8, u8, u8);

struct Outcome {
    values: Vec<Vec<u8>>,
    list: String,
}

fn run(driver: DriverKind, sync: SyncPolicy, streams: u8, steps: &[Step]) -> Outcome {
    let config = MachineConfig { driver, sync, host_workers: 3, threads: 1, ..Default::default() };
    let machine = Machine::new(config).unwrap();
    let cpu = DeviceId::cpu(0);
    let streams: Vec<Stream> =
        (0..streams).map(|k| machine.compute(&cpu, k.into()).unwrap()).collect();
    let spec = TensorSpec::contiguous(DType::I64, &[4]).unwrap();
    let upload = |k: i64| {
        let bytes = [k, k + 1, -k, 7].map(i64::to_ne_bytes).concat();
        machine.upload(&streams[0], spec.clone(), bytes).unwrap()
    };
    let mut live: Vec<Tensor> = (0..3).map(upload).collect();
    let named: Vec<(&str, &Tensor)> = ["x", "y", "z"].into_iter().zip(&live).collect();
    machine.start_recording(&named).unwrap();
    let mut events = Vec::new();
    for &(kind, a, b, s) in steps {
        let stream = &streams[usize::from(s) % streams.len()];
        let x = live[usize::from(a) % live.len()].clone();
        // The operands of one call are of one shape.
        let y = live[usize::from(b) % live.len()].clone();
        let y = if y.spec().shape() == x.spec().shape() { y } else { x.clone() };
        let made = match kind % 16 {
            0 | 1 => machine.call("add", &[&x, &y]).attr("alpha", 3).on(stream).unwrap(),
            2 => machine.call("mul", &[&x, &y]).on(stream).unwrap(),
            3 => machine.call("relu", &[&x]).on(stream).unwrap(),
            4 | 5 => {
                machine.call("add_", &[&x, &y]).on(stream).unwrap();
                vec![]
            }
            6 => machine.call("slice", &[&x]).attr("start", 1).attr("end", 3).on(stream).unwrap(),
            7 => machine.call("copy", &[&x]).on(stream).unwrap(),
            8 => {
                machine.call("fill", &[&x]).attr("value", i64::from(b)).on(stream).unwrap();
                vec![]
            }
            9 | 10 if live.len() > 1 => {
                live.swap_remove(usize::from(a) % live.len());
                vec![]
            }
            11 => {
                events.push(machine.record(stream).unwrap());
                vec![]
            }
            12 if !events.is_empty() => {
                stream.wait_event(&events[usize::from(b) % events.len()]).unwrap();
                vec![]
            }
            13 => {
                stream.wait_stream(&streams[usize::from(b) % streams.len()]).unwrap();
                vec![]
            }
            14 if b < 32 => {
                machine.barrier().unwrap();
                vec![]
            }
            14 if b < 64 => {
                x.read().unwrap();
                vec![]
            }
            14 => {
                let section = machine.critical_section(&[&x]).unwrap();
                machine.call("add_", &[&x, &x]).within(&section).on(stream).unwrap();
                section.end().unwrap();
                vec![]
            }
            15 => {
                stream.touch(&[&x, &y]).unwrap();
                vec![]
            }
            _ => vec![],
        };
        live.extend(made);
    }
    let values = live.iter().map(|t| t.read().unwrap()).collect();
    let list = machine.finish_recording().unwrap();
    let text = print_list(&list);
    if let Err(violations) = verify::check(list) {
        let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
        panic!("refused: {}\n{text}", reasons.join("\n"));
    }
    Outcome { values, list: text }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn threads_give_what_the_inline_driver_gives(
        streams in 1u8..=8,
        last_used: bool,
        steps in proptest::collection::vec(any::<Step>(), 1..40),
    ) {
        let sync = if last_used { SyncPolicy::LastUsedStream } else { SyncPolicy::Frontier };
        let inline = run(DriverKind::Inline, sync, streams, &steps);
        let threaded = run(DriverKind::Threaded, sync, streams, &steps);
        prop_assert_eq!(inline.values, threaded.values);
        prop_assert_eq!(inline.list, threaded.list);
    }
}
