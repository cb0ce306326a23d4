//! Tensors lent to other libraries, and taken from them.

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;

use super::floats;

/// Passes a tensor on as another library would.
fn pass(x: &Tensor, place: impl Place) -> Result<Tensor> {
    let raw = x.to_dlpack().unwrap().into_raw();
    // SAFETY: the structure has just been made, and is used nowhere else.
    unsafe { Tensor::from_dlpack(raw, place) }
}

#[test]
fn elements_and_layouts_are_passed_on() {
    let (m, n) = (inline(), threaded());
    let x = floats(&m, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    for dtype in DType::ALL {
        let part = x.cast(dtype).unwrap().t().unwrap().i((1.., ..)).unwrap();
        let passed = pass(&part, &n).unwrap();
        assert_eq!((passed.dtype(), passed.shape()), (dtype, &[2, 2][..]));
        assert_eq!(passed.read().unwrap(), part.read().unwrap(), "{dtype}");
    }
    let none = pass(&Tensor::zeros((0, 2), DType::F32, &m).unwrap(), &n).unwrap();
    assert_eq!(none.shape(), [0, 2]);
    assert_eq!(pass(&Tensor::scalar(3i64, &m).unwrap(), &n).unwrap().item::<i64>().unwrap(), 3);
}

/// The address and the lengths that another library sees.
#[repr(C)]
struct Seen {
    data: *const f32,
    device: [i32; 2],
    rank: i32,
    dtype: [u8; 4],
    shape: *const i64,
}

#[test]
fn memory_is_lent_without_a_copy_and_kept() {
    let m = inline();
    let x = floats(&m, &[2], &[1.0, 2.0]);
    let lent = x.to_dlpack().unwrap().into_raw();
    x.add_(10.0).unwrap();
    m.synchronize().unwrap();
    drop(x);
    let other = floats(&m, &[2], &[0.0, 0.0]);
    m.synchronize().unwrap();
    // SAFETY: the structure begins with these fields, and the memory is lent until the deleter is
    // called.
    let (seen, length) = unsafe {
        let seen = &*lent.cast::<Seen>();
        assert_eq!((seen.device, seen.rank, seen.dtype), ([1, 0], 1, [2, 32, 1, 0]));
        (std::slice::from_raw_parts(seen.data, 2).to_vec(), *seen.shape)
    };
    assert_eq!((seen, length), (vec![11.0, 12.0], 2), "the tensor's own memory, not reused");
    // SAFETY: the structure is given up.
    let back = unsafe { Tensor::from_dlpack(lent, &other) }.unwrap();
    assert_eq!(back.to_vec::<f32>().unwrap(), [11.0, 12.0]);
}

#[test]
fn what_cannot_be_lent_is_an_error() {
    let m = inline();
    let table = floats(&m, &[2, 1], &[1.0, 2.0]);
    let wrong = Tensor::from_slice(&[7i64], 1, &m).unwrap();
    let row = table.embedding(&wrong).unwrap();
    assert!(matches!(row.to_dlpack().unwrap_err(), Error::Failed(_)));
    let (m, hand) = by_hand();
    hand.switch(IssueOrder);
    drop(floats(&m, &[1], &[1.0]).to(&SIM).unwrap());
}
