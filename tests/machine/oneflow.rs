//! The cases of OneFlow's `python/oneflow/test/modules/test_stream.py`, and of the tests in its
//! `oneflow/core/vm`, for this API. The table in docs/correctness.md says which is where.

use millstream::*;
use millstream_testing::machine::*;

/// `test_stream`: a tensor that is made and read on a new stream.
#[test]
fn a_tensor_on_a_new_stream() {
    for m in [threaded(), inline()] {
        let stream = m.create_stream(&CPU).unwrap();
        with_stream(&stream, || {
            let x = Tensor::ones(1, DType::F32, &m).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap(), [1.0]);
        });
    }
}

/// `test_cpu_stream`: ten streams that share one worker.
#[test]
fn ten_streams_of_one_worker() {
    let m = Machine::new(MachineConfig::default().host_workers(3)).unwrap();
    let options = StreamOptions::default().worker(2);
    let streams: Vec<_> = (0..10).map(|_| m.create_stream_with(&CPU, options).unwrap()).collect();
    for stream in &streams {
        with_stream(stream, || {
            let x = Tensor::ones(2, DType::F32, &m).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap(), [1.0; 2]);
        });
    }
}

/// `test_cuda_stream`: 200 streams on four workers. Nothing is read before all are in use.
#[test]
fn two_hundred_streams_on_four_workers() {
    let m = Machine::new(MachineConfig::default().host_workers(4)).unwrap();
    let on = |k: usize| {
        let options = StreamOptions::default().worker(k % 4);
        let stream = m.create_stream_with(&CPU, options).unwrap();
        with_stream(&stream, || {
            let x = Tensor::ones(2 * (k + 1), DType::F32, &m).unwrap();
            let y = x.add(&x).unwrap();
            (stream.clone(), y)
        })
    };
    let tensors: Vec<_> = (0..200).map(on).collect();
    for (k, (_, y)) in tensors.iter().enumerate() {
        assert_eq!(y.to_vec::<f32>().unwrap(), vec![2.0; 2 * (k + 1)]);
    }
}

/// `ControlStreamType`, `DeviceHelperStreamType`: an object is made, used and deleted by
/// instructions, of which none is left.
#[test]
fn an_object_is_made_used_and_deleted() {
    for m in [threaded(), inline()] {
        for stream in [cpu(&m, 0), sim(&m, 0)] {
            let x = upload(&stream, &m, &[1.0; 256]);
            stream.touch(&[&x]).unwrap();
            x.release().unwrap();
            m.synchronize().unwrap();
        }
        assert!(m.memory().unwrap().iter().all(|memory| memory.in_use == 0));
    }
}

/// `HostStreamType`, `two_device`: the objects of two devices are made and deleted side by side, in
/// memory of their own.
#[test]
fn objects_of_two_devices() {
    let m = threaded();
    let streams = [cpu(&m, 0), sim(&m, 0), sim(&m, 1)];
    let objects: Vec<Tensor> = streams.iter().map(|s| upload(s, &m, &[1.0; 256])).collect();
    let held = || m.memory().unwrap().iter().map(|memory| memory.in_use).collect::<Vec<_>>();
    assert_eq!(held(), [1024, 2048]);
    drop(objects);
    m.synchronize().unwrap();
    assert_eq!(held(), [0, 0]);
}

/// `NopStreamType`, `no_argument`: an instruction without operands waits for nothing but its
/// stream, and leaves nothing behind.
#[test]
fn an_instruction_without_operands() {
    for m in [threaded(), inline()] {
        for stream in [cpu(&m, 0), sim(&m, 0)] {
            let before = m.stats().unwrap();
            stream.touch(&[]).unwrap().wait().unwrap();
            let kind = instructions::Kind::TouchTensors;
            assert_eq!(m.stats().unwrap().of(kind), before.of(kind) + 1);
        }
        m.synchronize().unwrap();
        assert!(m.memory().unwrap().iter().all(|memory| memory.reserved == 0));
    }
}

/// `NopStreamType`, `one_argument_dispatch`, `one_argument_triger_next_instruction` and
/// `one_argument_triger_all_instructions`: instructions on one object run one after the other,
/// whatever their streams are; the end of the first triggers the next, and so on.
#[test]
fn the_end_of_an_instruction_triggers_the_next() {
    let m = threaded();
    let streams = [cpu(&m, 0), cpu(&m, 1), cpu(&m, 2)];
    let x = upload(&streams[0], &m, &[1.0]);
    let gate = Gate::on(&x);
    let done: Vec<Completion> = (streams.iter().cycle().take(12))
        .map(|stream| {
            m.call("add_", &[&x, &x]).on(stream).unwrap();
            stream.completion().unwrap()
        })
        .collect();
    gate.entered();
    assert!(!done.iter().any(Completion::query), "the object is in use");
    gate.open();
    done.iter().for_each(|completion| completion.wait().unwrap());
    assert_eq!(read(&x), [4096.0]);
}
