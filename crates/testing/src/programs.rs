//! Programs of random steps: any sequence of numbers is a program.

use millstream::instructions::text::print_list;
use millstream::{
    DType, DeviceId, Machine, MachineConfig, Stream, StreamKey, StreamMode, Tensor, TensorSpec,
};

/// The kind of a step, two operands, and a stream.
pub type Step = (u8, u8, u8, u8);

/// The results of a program.
pub struct Outcome {
    /// The elements of the tensors that are live at its end.
    pub values: Vec<Vec<u8>>,
    /// The list of its instructions.
    pub list: String,
}

/// Runs the program of these steps on a machine with `streams` streams, of which the bits in
/// `pools` select the pools, and passes its list to the checker.
pub fn run(config: MachineConfig, streams: u8, pools: u8, steps: &[Step]) -> Outcome {
    let machine = Machine::new(config).unwrap();
    let stream = |k: u8| {
        let is_pool = pools >> (k % 8) & 1 == 1;
        let mode = if is_pool { StreamMode::Pool } else { StreamMode::InOrder };
        machine.stream_with_mode(&StreamKey::compute(DeviceId::cpu(0), k.into()), mode).unwrap()
    };
    let mut streams: Vec<Stream> = (0..streams).map(stream).collect();
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
        let at = usize::from(s) % streams.len();
        let stream = &streams[at];
        let x = live[usize::from(a) % live.len()].clone();
        // The operands of one call have one shape.
        let y = live[usize::from(b) % live.len()].clone();
        let y = if y.spec().shape() == x.spec().shape() { y } else { x.clone() };
        let made = match kind % 18 {
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
                events.push(stream.record_event().unwrap());
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
            // So many streams that some are closed when they are dropped.
            16 if b < 24 => {
                let create = |_| machine.create_stream(&DeviceId::cpu(0)).unwrap();
                for stream in (0..34).map(create).collect::<Vec<_>>() {
                    machine.call("add_", &[&x, &y]).on(&stream).unwrap();
                }
                vec![]
            }
            16 | 17 => {
                streams[at] = machine.create_stream(&DeviceId::cpu(0)).unwrap();
                vec![]
            }
            _ => vec![],
        };
        live.extend(made);
    }
    let values = live.iter().map(|t| t.read().unwrap()).collect();
    let list = machine.finish_recording().unwrap();
    let text = print_list(&list);
    if let Err(violations) = millstream_verify::check(list) {
        let reasons: Vec<String> = violations.iter().map(ToString::to_string).collect();
        panic!("refused: {}\n{text}", reasons.join("\n"));
    }
    Outcome { values, list: text }
}
