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

/// A tensor of this dtype on the device.
fn numbers(machine: &Machine, on: &Stream, dtype: DType, values: &[i64]) -> Tensor {
    let wide = indices(machine, on, values);
    machine.call("cast", &[&wide]).attr("dtype", dtype).on(on).unwrap().remove(0)
}

#[test]
fn an_integer_divided_by_zero_fails_in_the_hosts_words() {
    if !compiles() {
        return println!("skipped: no C++ compiler");
    }
    let machine = Machine::new(config(DriverKind::Threaded, SyncPolicy::Frontier)).unwrap();
    let on = machine.compute(&SIM, 0).unwrap();
    let fails = |result: &Tensor, op: &str, dtype: DType| {
        let reader = call(&machine, "neg", &[result], &on);
        let failed = failure(reader.read().unwrap_err());
        assert_eq!(failed.op.as_deref(), Some(op), "{failed:?}");
        assert!(failed.message.contains(&format!("{dtype} divided by zero")), "{failed:?}");
    };
    let home = machine.compute(&DeviceId::cpu(0), 0).unwrap();
    // As many as are moved 16 bytes at a time, and some more; the zero is among either.
    let x: Vec<i64> = (1..=75).collect();
    for (dtype, op, mode) in [
        (DType::I64, "div", Some("floor")),
        (DType::I32, "div", Some("trunc")),
        (DType::I16, "remainder", None),
        (DType::U8, "fmod", None),
    ] {
        for at in [0, 40, 74] {
            let mut y = x.clone();
            y[at] = 0;
            let [x, good, bad] = [&x, &x, &y].map(|v| numbers(&machine, &on, dtype, v));
            let of = |op: &str, x: &Tensor, y: &Tensor| {
                let call = machine.call(op, &[x, y]);
                match mode {
                    Some(mode) => call.attr("rounding_mode", mode).on(&on),
                    None => call.on(&on),
                }
                .unwrap()
            };
            fails(&of(op, &x, &bad).remove(0), op, dtype);
            // Each its own way: with gaps, and one divisor for all.
            let half = |x: &Tensor| {
                let call = machine.call("slice", &[x]).attr("dim", 0).attr("start", 0);
                call.attr("end", 75).attr("step", 2).on(&on).unwrap().remove(0)
            };
            fails(&of(op, &half(&x), &half(&bad)).remove(0), op, dtype);
            let one = machine.call("select", &[&bad]).attr("dim", 0).attr("index", at as i64);
            fails(&of(op, &x, &one.on(&on).unwrap()[0]).remove(0), op, dtype);
            // What is right stays so, and what is changed in place is spoiled.
            let quotient = of(op, &x, &good).remove(0);
            let expected = if op == "div" { 1 } else { 0 };
            let wide = machine.call("cast", &[&quotient]).attr("dtype", DType::I64);
            let bytes = wide.on(&on).unwrap()[0].copy_to(&home).unwrap().read().unwrap();
            assert!(bytes.chunks_exact(8).all(|c| c == i64::to_ne_bytes(expected)), "{op}");
            let in_place = format!("{op}_");
            of(&in_place, &x, &bad);
            fails(&x, &in_place, dtype);
        }
    }
    // 256 is zero in eight bits; zero itself the schema refuses.
    let x = numbers(&machine, &on, DType::U8, &[1, 2, 3]);
    let call = machine.call("remainder", &[&x]).attr("other", 256);
    fails(&call.on(&on).unwrap().remove(0), "remainder", DType::U8);
}

#[test]
fn floats_are_divided_by_zero() {
    let machine = Machine::new(config(DriverKind::Threaded, SyncPolicy::Frontier)).unwrap();
    let on = machine.compute(&SIM, 0).unwrap();
    let (x, zero) = (upload(&on, &machine, &[1.0, -2.0]), upload(&on, &machine, &[0.0, 0.0]));
    let (quotient, rest) =
        (call(&machine, "div", &[&x, &zero], &on), call(&machine, "remainder", &[&x, &zero], &on));
    assert_eq!(read(&quotient), [f32::INFINITY, f32::NEG_INFINITY]);
    assert!(read(&rest).iter().all(|v| v.is_nan()));
    // So are integers whose quotient is one of floats.
    let [one, none] = [[1], [0]].map(|v| numbers(&machine, &on, DType::I32, &v));
    assert_eq!(read(&call(&machine, "div", &[&one, &none], &on)), [f32::INFINITY]);
}
