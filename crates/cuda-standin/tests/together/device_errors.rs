//! Tests of device errors: an error that a kernel detects in its data fails the kernel's
//! instruction, when the instruction completes.

use millstream::*;
use millstream_cuda_standin::{StandIn, compiles};

use crate::common::*;

/// Uploads indices of i64.
fn indices(machine: &Machine, on: &Stream, values: &[i64]) -> Tensor {
    let spec = TensorSpec::contiguous(DType::I64, &[values.len()]).unwrap();
    let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    machine.upload(on, spec, bytes).unwrap()
}

#[test]
fn an_index_out_of_range_fails_and_poisons_its_readers() {
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let machine = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let on = machine.compute(&SIM, 0).unwrap();
        let x = upload(&on, &machine, &[1.0, 2.0, 3.0]);
        let select = |index: &Tensor| {
            let call = machine.call("index_select", &[&x, index]).attr("dim", 0);
            call.on(&on).unwrap().remove(0)
        };
        // Error flags that were set are reset and reused.
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
            // A stream keeps its error flags in pinned memory.
            assert!(StandIn::load().unwrap().open("pinned bytes") >= 4096);
        }
    }
}

/// Uploads numbers as a tensor of this dtype.
fn numbers(machine: &Machine, on: &Stream, dtype: DType, values: &[i64]) -> Tensor {
    let wide = indices(machine, on, values);
    machine.call("cast", &[&wide]).attr("dtype", dtype).on(on).unwrap().remove(0)
}

#[test]
fn an_integer_division_by_zero_fails_with_the_hosts_message() {
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
    // Long enough for accesses of 16 bytes with a tail. The zero is in either part.
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
            // Other kernels: operands with gaps, and one broadcast divisor.
            let half = |x: &Tensor| {
                let call = machine.call("slice", &[x]).attr("dim", 0).attr("start", 0);
                call.attr("end", 75).attr("step", 2).on(&on).unwrap().remove(0)
            };
            fails(&of(op, &half(&x), &half(&bad)).remove(0), op, dtype);
            let one = machine.call("select", &[&bad]).attr("dim", 0).attr("index", at as i64);
            fails(&of(op, &x, &one.on(&on).unwrap()[0]).remove(0), op, dtype);
            // Other results stay right, and a tensor that is changed in place is poisoned.
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
    // 256 is zero in eight bits. The schema refuses zero itself.
    let x = numbers(&machine, &on, DType::U8, &[1, 2, 3]);
    let call = machine.call("remainder", &[&x]).attr("other", 256);
    fails(&call.on(&on).unwrap().remove(0), "remainder", DType::U8);
}

#[test]
fn a_float_division_by_zero_succeeds() {
    let machine = Machine::new(config(DriverKind::Threaded, SyncPolicy::Frontier)).unwrap();
    let on = machine.compute(&SIM, 0).unwrap();
    let (x, zero) = (upload(&on, &machine, &[1.0, -2.0]), upload(&on, &machine, &[0.0, 0.0]));
    let (quotient, rest) =
        (call(&machine, "div", &[&x, &zero], &on), call(&machine, "remainder", &[&x, &zero], &on));
    assert_eq!(read(&quotient), [f32::INFINITY, f32::NEG_INFINITY]);
    assert!(read(&rest).iter().all(|v| v.is_nan()));
    // So does an integer division with a result of floats.
    let [one, none] = [[1], [0]].map(|v| numbers(&machine, &on, DType::I32, &v));
    assert_eq!(read(&call(&machine, "div", &[&one, &none], &on)), [f32::INFINITY]);
}
