//! What stands within executables: host work, barriers, sections, launches of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::*;
use millstream_testing::machine::*;

use crate::executable::{machine, relu_plus, stream};

/// Barriers, critical sections, host reads and callbacks stand in executables.
#[test]
fn host_work_within() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let mut read_of_t = None;
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&[2]))?;
            let (a, b) = (stream(r, 0), stream(r, 1));
            let t = r.call("add", &[x, x]).on(a)?[0];
            read_of_t = Some(r.read(&t, b)?);
            r.barrier(false)?;
            r.begin_section(&[t])?;
            r.access(&t, Access::ReadWrite, a, move |blob| {
                counted.fetch_add(1, Ordering::SeqCst);
                let doubled = floats(&blob.to_bytes()?).iter().map(|v| v * 2.0).collect::<Vec<_>>();
                blob.write_bytes(&bytes(&doubled))
            })?;
            r.end_section()?;
            r.barrier(true)?;
            let y = r.call("add", &[t, x]).on(b)?[0];
            r.output("y", &y)
        });
        let step = recorded.unwrap().compile().unwrap();
        for k in 1..4 {
            let x = upload(&s, &m, &[k as f32, 1.0]);
            let launched = step.launch().input("x", &x).run().unwrap();
            assert_eq!(read(launched.output("y").unwrap()), [5.0 * k as f32, 5.0]);
            launched.wait().unwrap();
            let bytes = launched.take_read(read_of_t.unwrap()).unwrap().unwrap();
            assert_eq!(floats(&bytes), [2.0 * k as f32, 2.0]);
            assert!(launched.take_read(read_of_t.unwrap()).unwrap().is_none());
            assert_eq!(calls.load(Ordering::SeqCst), k);
        }
    }
}

/// An executable launched within another one, on its own streams, with inputs that the list made
/// and views of them; twice, so that private memory is used again. The list is printed and parsed.
#[test]
fn launches_within() {
    for driver in ALL_DRIVERS {
        let m = machine(driver);
        let s = cpu(&m, 0);
        let w = upload(&s, &m, &[10.0, 20.0]);
        let inner = m.record(|r| {
            let (x, w) = (r.input("x", f32_spec(&[2]))?, r.bind(&w)?);
            let (a, b) = (stream(r, 0), stream(r, 1));
            let t = r.call("relu", &[x]).on(a)?[0];
            let y = r.call("add", &[t, w]).on(b)?[0];
            r.call("add_", &[w, t]).on(a)?;
            r.access(&y, Access::Read, a, |_| Ok(()))?;
            r.output("y", &y)
        });
        let inner = inner.unwrap().compile().unwrap();
        let recorded = m.record(|r| {
            let x = r.input("x", f32_spec(&[4]))?;
            let first = r.call("slice", &[x]).attr("start", 0).attr("end", 2).run()?[0];
            let second = r.call("slice", &[x]).attr("start", 2).attr("end", 4).run()?[0];
            let y = r.launch(&inner).input("x", &first).run()?[0];
            let z = r.launch(&inner).input("x", &second).run()?[0];
            let sum = r.call("add", &[y, z]).run()?[0];
            r.output("sum", &sum)
        });
        let recorded = recorded.unwrap();
        let text = instructions::text::print_list(recorded.list());
        assert_eq!(&instructions::text::parse_list(&text).unwrap(), recorded.list());
        assert_eq!(recorded.list().executables.len(), 2);
        let outer = recorded.compile().unwrap();
        let x = upload(&s, &m, &[1.0, -1.0, 2.0, 3.0]);
        let launched = outer.launch().input("x", &x).run().unwrap();
        // y = [1, 0] + [10, 20], w = [11, 20], z = [2, 3] + [11, 20].
        assert_eq!(read(launched.output("sum").unwrap()), [24.0, 43.0], "{driver:?}");
        assert_eq!(read(&w), [13.0, 23.0]);
        drop(inner);
        let again = outer.launch().input("x", &x).run().unwrap();
        assert_eq!(read(again.output("sum").unwrap()), [30.0, 49.0], "{driver:?}");
    }
}

/// What a launch within a list needs is checked when it is recorded.
#[test]
fn launches_within_are_checked() {
    let m = machine(DriverKind::Inline);
    let inner = relu_plus(&m, &[2]);
    let refused = |name: &str, shape: &[usize], message: &str| {
        let refused = m.record(|r| {
            let x = r.input("x", f32_spec(shape))?;
            r.launch(&inner).input(name, &x).run().map(drop)
        });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(message) && refused.contains("executable_within.rs"), "{refused}");
    };
    refused("X", &[2], "unknown input 'X'; did you mean 'x'?");
    refused("x", &[3], "was recorded as f32[2]");
    let missing = m.record(|r| r.launch(&inner).run().map(drop)).unwrap_err().to_string();
    assert!(missing.contains("input \"x\" is not given"), "{missing}");
}

/// A launch within a list writes outputs into tensors of the list, on the stream that it names. It
/// is refused where two formals share memory, and a list with launches cannot stand in another one.
#[test]
fn launches_within_write_given_outputs() {
    let m = machine(DriverKind::Inline);
    let s = cpu(&m, 0);
    let changing = m.record(|r| {
        let (x, y) = (r.input("x", f32_spec(&[2]))?, r.input("y", f32_spec(&[2]))?);
        r.call("add_", &[x, y]).run()?;
        let sum = r.call("add", &[x, y]).run()?[0];
        r.output("sum", &sum)
    });
    let changing = changing.unwrap().compile().unwrap();
    let recorded = m.record(|r| {
        let x = r.input("x", f32_spec(&[4]))?;
        let head = r.call("slice", &[x]).attr("end", 2).run()?[0];
        let tail = r.call("slice", &[x]).attr("start", 2).run()?[0];
        let into = r.call("neg", &[head]).run()?[0];
        let lazy = StreamKey::new(DeviceId::cpu(0), StreamType::LAZY_JOB_LAUNCHER, 1);
        let lazy = r.stream(&lazy)?;
        let shared = r.launch(&changing).input("x", &head).input("y", &x).run().unwrap_err();
        assert!(shared.to_string().contains("was recorded as f32[2]"), "{shared}");
        let shared = r.launch(&changing).input("x", &head).input("y", &head).run().unwrap_err();
        assert!(shared.to_string().contains("share memory"), "{shared}");
        let launch = r.launch(&changing).input("x", &head).input("y", &tail);
        let made = launch.output("sum", &into).on(lazy).run()?;
        assert_eq!(made, [into]);
        r.output("into", &into)
    });
    let outer = recorded.unwrap().compile().unwrap();
    let x = upload(&s, &m, &[1.0, 2.0, 3.0, 4.0]);
    let launched = outer.launch().input("x", &x).run().unwrap();
    assert_eq!(read(launched.output("into").unwrap()), [7.0, 10.0]);
    assert_eq!(read(&x), [4.0, 6.0, 3.0, 4.0]);

    let nested = m.record(|r| {
        let x = r.input("x", f32_spec(&[4]))?;
        r.launch(&outer).input("x", &x).run().map(drop)
    });
    let nested = nested.unwrap_err().to_string();
    assert!(nested.contains("launches other executables itself"), "{nested}");
}
