//! Writes to a tensor's memory in place, and views with another spec.

use millstream::{Access, DType, DeviceId, Layout, Machine, MachineConfig, Stream, TensorSpec};

fn machine() -> (Machine, Stream) {
    let machine = Machine::new(MachineConfig::default()).unwrap();
    let stream = machine.compute(&DeviceId::cpu(0), 0).unwrap();
    (machine, stream)
}

fn spec(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(dtype, shape).unwrap()
}

#[test]
fn filling_in_place_starts_from_zeroes() {
    let (machine, stream) = machine();
    let old = machine.upload(&stream, spec(DType::U8, &[6]), vec![9; 6]).unwrap();
    let fill = |bytes: &mut [u8]| {
        assert_eq!(bytes, [0; 6]);
        bytes[1..3].copy_from_slice(&[1, 2]);
        Ok(())
    };
    old.access(Access::Write, move |blob| blob.fill_with(fill)).unwrap().wait().unwrap();
    assert_eq!(old.read().unwrap(), [0, 1, 2, 0, 0, 0]);
    let empty = machine.empty(&stream, spec(DType::F32, &[0])).unwrap();
    let seen = |bytes: &mut [u8]| {
        assert!(bytes.is_empty());
        Ok(())
    };
    empty.access(Access::Write, move |blob| blob.fill_with(seen)).unwrap().wait().unwrap();
}

#[test]
fn filling_in_place_needs_write_access_and_no_gaps() {
    let (machine, stream) = machine();
    let whole = machine.upload(&stream, spec(DType::I32, &[4]), vec![7; 16]).unwrap();
    let gaps = TensorSpec::new(DType::I32, Layout::strided(&[2], &[2], 0).unwrap()).unwrap();
    let gaps = whole.view_storage(gaps).unwrap();
    for (tensor, access) in [(&whole, Access::Read), (&gaps, Access::ReadWrite)] {
        let done = tensor.access(access, |blob| blob.fill_with(|_| Ok(()))).unwrap();
        assert!(done.wait().is_err(), "{tensor:?} {access:?}");
        machine.clear_failures();
    }
}

#[test]
fn views_share_the_storage_and_stay_within_it() {
    let (machine, stream) = machine();
    let bytes = machine.upload(&stream, spec(DType::U8, &[8]), vec![1; 8]).unwrap();
    let words = bytes.view_storage(spec(DType::I32, &[2])).unwrap();
    machine.call("add_", &[&words, &words]).on(&stream).unwrap();
    assert_eq!(bytes.read().unwrap(), [2; 8]);
    assert!(bytes.view_storage(spec(DType::I32, &[3])).is_err());
    bytes.release().unwrap();
    assert_eq!(words.read().unwrap(), [2; 8], "the storage lives as long as its last tensor");
    assert!(bytes.view_storage(spec(DType::U8, &[1])).is_err());
}
