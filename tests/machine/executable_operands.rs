//! The operands of a launch, as OneFlow's input and output sections of a lazy job: who writes an
//! input waits until the launch has read it, and who reads an output until the launch has made it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use millstream::*;
use millstream_testing::machine::*;

/// Compiles y = relu(x), of which a function of the host holds up the begin.
fn held(m: &Machine) -> (Executable, Receiver<()>, Sender<()>) {
    let (enter, entered) = channel();
    let (open, opened) = channel::<()>();
    let opened = Mutex::new(opened);
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[2]))?;
        let s = r.stream(&StreamKey::compute(CPU, 0))?;
        r.access(&x, Access::Read, s, move |_| {
            enter.send(())?;
            opened.lock().unwrap().recv()?;
            Ok(())
        })?;
        let y = r.call("relu", &[x]).on(s)?;
        r.output("y", &y[0])
    });
    (recorded.unwrap().compile().unwrap(), entered, open)
}

/// The launch has a worker of its own, so that a call can run beside it if nothing orders both.
fn machine() -> Machine {
    Machine::new(MachineConfig::default().host_workers(4)).unwrap()
}

/// Whether a stream that runs beside the launch goes on, which shows that only operands wait.
fn goes_on(m: &Machine) {
    let beside = cpu(m, 3);
    let x = upload(&beside, m, &[1.0]);
    assert_eq!(read(&call(m, "neg", &[&x], &beside)), [-1.0]);
}

#[test]
fn a_write_to_an_input_waits_for_the_launch() {
    let m = machine();
    let (step, entered, open) = held(&m);
    let x = upload(&cpu(&m, 1), &m, &[1.0, -2.0]);
    let launched = step.launch().input("x", &x).run().unwrap();
    entered.recv_timeout(LONG).unwrap();
    let writer = cpu(&m, 2);
    m.call("neg_", &[&x]).on(&writer).unwrap();
    let written = m.event();
    written.record_on(&writer).unwrap();
    goes_on(&m);
    assert!(!written.query(), "the write came before the launch had read");
    // Readers of the input do not wait for the launch, which reads it as well.
    open.send(()).unwrap();
    assert_eq!(read(launched.output("y").unwrap()), [1.0, 0.0]);
    assert_eq!(read(&x), [-1.0, 2.0]);
    assert!(written.query());
}

#[test]
fn a_read_of_an_output_waits_for_the_launch() {
    let m = machine();
    let (step, entered, open) = held(&m);
    let x = upload(&cpu(&m, 1), &m, &[3.0, -2.0]);
    let y = upload(&cpu(&m, 1), &m, &[7.0, 7.0]);
    step.launch().input("x", &x).output("y", &y).run().unwrap();
    entered.recv_timeout(LONG).unwrap();
    // A call on another stream, and the host.
    let reader = cpu(&m, 2);
    let negated = call(&m, "neg", &[&y], &reader);
    let called = m.event();
    called.record_on(&reader).unwrap();
    let (send, values) = channel();
    let of = y.clone();
    let host = std::thread::spawn(move || send.send(read(&of)).unwrap());
    goes_on(&m);
    assert!(!called.query(), "the call came before the launch had made its output");
    assert_eq!(values.try_recv(), Err(TryRecvError::Empty));
    // What reads the input does not wait: the launch only reads it.
    assert_eq!(read(&call(&m, "neg", &[&x], &cpu(&m, 3))), [-3.0, 2.0]);
    open.send(()).unwrap();
    assert_eq!(values.recv_timeout(LONG).unwrap(), [3.0, 0.0]);
    assert_eq!(read(&negated), [-3.0, 0.0]);
    host.join().unwrap();
}

/// The list states both waits.
#[test]
fn the_list_states_the_waits() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let s = cpu(m, 0);
        let x = upload(&s, m, &[1.0, -2.0]);
        let y = upload(&s, m, &[0.0, 0.0]);
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let y = r.call("relu", &[x]).run()?;
            r.output("y", &y[0])
        });
        let step = recorded.unwrap().compile().unwrap();
        m.start_recording(&[("x", &x), ("y", &y)]).unwrap();
        step.launch().input("x", &x).output("y", &y).run().unwrap();
        m.call("neg_", &[&x]).on(&cpu(m, 1)).unwrap();
        m.call("neg", &[&y]).on(&cpu(m, 2)).unwrap();
        m.finish_recording().unwrap()
    });
    let waits = list.lines().filter(|line| !line.starts_with("list0") && line.contains(" until "));
    let waits: Vec<&str> = waits.collect();
    // s1 is the stream of the launch.
    insta::assert_snapshot!(waits.join("\n"), @r"
    StreamWaitEvent s2:1 until s1:1 by-host
    StreamWaitEvent s3:1 until s1:1 by-host
    ");
}
