//! New tensors: their elements, dtypes and places.

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn elements_come_from_slices_of_every_type() {
    #[track_caller]
    fn round_trip<T: Element + PartialEq + std::fmt::Debug>(m: &Machine, elements: &[T]) {
        let x = Tensor::from_slice(elements, (elements.len(), 1), m).unwrap();
        assert_eq!((x.dtype(), x.shape()), (T::DTYPE, &[elements.len(), 1][..]));
        assert_eq!(x.to_vec::<T>().unwrap(), elements);
    }
    let m = inline();
    round_trip(&m, &[1.5f32, f32::MIN]);
    round_trip(&m, &[1.5f64, f64::MAX]);
    round_trip(&m, &[i64::MIN, 1]);
    round_trip(&m, &[i32::MIN, 1]);
    round_trip(&m, &[i16::MIN, 1]);
    round_trip(&m, &[i8::MIN, 1]);
    round_trip(&m, &[u8::MAX, 1]);
    round_trip(&m, &[true, false, true]);
    round_trip::<f32>(&m, &[]);
}

#[test]
fn shapes_are_integers_tuples_arrays_and_slices() {
    let m = inline();
    let shape = |shape: Tensor| shape.shape().to_vec();
    let zeros = |x: Result<Tensor>| shape(x.unwrap());
    assert_eq!(zeros(Tensor::zeros((), DType::F32, &m)), [0; 0]);
    assert_eq!(zeros(Tensor::zeros(3, DType::F32, &m)), [3]);
    assert_eq!(zeros(Tensor::zeros((2usize, 3), DType::F32, &m)), [2, 3]);
    assert_eq!(zeros(Tensor::zeros([2, 3, 4], DType::F32, &m)), [2, 3, 4]);
    assert_eq!(zeros(Tensor::zeros(&[5usize][..], DType::F32, &m)), [5]);
    assert_eq!(zeros(Tensor::zeros(vec![1usize, 2], DType::F32, &m)), [1, 2]);
    let error = Tensor::zeros((2, -1), DType::F32, &m).unwrap_err().to_string();
    assert!(error.contains("making.rs") && error.contains("[2, -1]"), "{error}");
    let error = Tensor::from_slice(&[1.0f32], (2, 2), &m).unwrap_err().to_string();
    assert!(error.contains("making.rs") && error.contains("got 1"), "{error}");
}

#[test]
fn fills_and_ranges() {
    let m = inline();
    assert_eq!(Tensor::full(2, 7, &m).unwrap().to_vec::<i64>().unwrap(), [7, 7]);
    assert_eq!(Tensor::full(2, 0.5, &m).unwrap().to_vec::<f32>().unwrap(), [0.5, 0.5]);
    assert_eq!(Tensor::full(1, true, &m).unwrap().to_vec::<bool>().unwrap(), [true]);
    let ones = Tensor::ones(2, DType::U8, &m).unwrap();
    assert_eq!(ones.to_vec::<u8>().unwrap(), [1, 1]);
    assert_eq!(ones.zeros_like().unwrap().to_vec::<u8>().unwrap(), [0, 0]);
    assert_eq!(Tensor::arange(2..5, &m).unwrap().to_vec::<i64>().unwrap(), [2, 3, 4]);
    let steps = Tensor::arange_by(0.0..1.0, 0.25, &m).unwrap();
    assert_eq!(steps.to_vec::<f32>().unwrap(), [0.0, 0.25, 0.5, 0.75]);
    assert_eq!(Tensor::scalar(2.5f64, &m).unwrap().item::<f64>().unwrap(), 2.5);
}

#[test]
fn random_numbers_depend_on_the_seed_alone() {
    let draw = |m: &Machine, device: &DeviceId| {
        let random = Generator::new(3);
        let place = (m, device);
        let a = Tensor::randn(5, &random, place).unwrap();
        let b = Tensor::rand(5, &random, place).unwrap();
        let c = Tensor::randint(0..9, 5, &random, place).unwrap();
        let d = a.dropout(0.5, &random).unwrap();
        let floats = [a, b, d].map(|t| t.to_vec::<f32>().unwrap()).concat();
        (floats, c.to_vec::<i64>().unwrap())
    };
    let (m, hand) = by_hand();
    hand.switch(IssueOrder);
    let first = draw(&m, &CPU);
    assert_eq!(first, draw(&threaded(), &CPU));
    assert_ne!(first.0[..5], first.0[5..10]);
    let m = inline();
    let again = |seed: u64| Tensor::randn(5, seed, &m).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(again(1), again(1));
    assert_ne!(again(1), again(2));
}

#[test]
fn places_are_machines_streams_devices_and_tensors() {
    let m = inline();
    let side = cpu(&m, 3);
    let made = |x: Result<Tensor>| x.unwrap().stream().unwrap().key().to_string();
    assert_eq!(made(Tensor::zeros(1, DType::F32, &m)), "cpu:0 compute 0");
    assert_eq!(made(Tensor::zeros(1, DType::F32, &side)), "cpu:0 compute 3");
    assert_eq!(made(Tensor::zeros(1, DType::F32, (&m, &SIM))), "sim:0 compute 0");
    let beside = Tensor::zeros(1, DType::F32, &side).unwrap();
    assert_eq!(made(beside.ones_like()), "cpu:0 compute 3");
    let scoped = with_stream(&side, || Tensor::zeros(1, DType::F32, &m));
    assert_eq!(made(scoped), "cpu:0 compute 3");
    let nowhere = Tensor::zeros(1, DType::F32, (&m, &DeviceId::sim(7)));
    assert!(matches!(nowhere.unwrap_err().without_place(), Error::Device { .. }));
}
