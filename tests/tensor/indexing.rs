//! Indexing: views by integers and ranges, elements by tensors.

use millstream::*;
use millstream_testing::machine::*;

#[track_caller]
fn check<'a>(x: &Tensor, indices: impl Indices<'a>, shape: &[usize], elements: &[i64]) {
    let part = x.i(indices).unwrap();
    assert_eq!(part.shape(), shape);
    assert_eq!(part.to_vec::<i64>().unwrap(), elements);
}

#[test]
fn integers_and_ranges_select_views() {
    let m = inline();
    let x = Tensor::arange(0..24, &m).unwrap().reshape((2, 3, 4)).unwrap();
    check(&x, (1, 2, 3), &[], &[23]);
    check(&x, (-1, -3, 0), &[], &[12]);
    check(&x, (0, 0), &[4], &[0, 1, 2, 3]);
    check(&x, (.., 0, 1..3), &[2, 2], &[1, 2, 13, 14]);
    check(&x, (REST, -1), &[2, 3], &[3, 7, 11, 15, 19, 23]);
    check(&x, (1, REST, 0), &[3], &[12, 16, 20]);
    check(&x, (1, 1, ..=1), &[2], &[16, 17]);
    check(&x, (1, 1, -2..), &[2], &[18, 19]);
    check(&x, (1, 1, std::ops::RangeInclusive::new(1, -1)), &[3], &[17, 18, 19]);
    check(&x, (0, NEW, 0, NEW, ..2), &[1, 1, 2], &[0, 1]);
    assert_eq!(x.i(1usize).unwrap().shape(), [3, 4]);
    // A view: it shares the elements.
    x.i((0, 0, 0)).unwrap().fill_(100).unwrap();
    assert_eq!(x.i((0, 0, 0)).unwrap().item::<i64>().unwrap(), 100);
}

#[test]
fn tensors_select_elements() {
    let m = inline();
    let x = Tensor::arange(0..12, &m).unwrap().reshape((3, 4)).unwrap();
    let picks = Tensor::from_slice(&[2i64, 0], 2, &m).unwrap();
    check(&x, &picks, &[2, 4], &[8, 9, 10, 11, 0, 1, 2, 3]);
    check(&x, (.., &picks), &[3, 2], &[2, 0, 6, 4, 10, 8]);
    check(&x, (&picks, &picks), &[2], &[10, 0]);
    check(&x, (1.., &picks), &[2, 2], &[6, 4, 10, 8]);
    let big = x.gt(9).unwrap();
    check(&x, &big, &[2], &[10, 11]);
}

#[test]
fn wrong_indices_are_refused() {
    let m = inline();
    let x = Tensor::arange(0..6, &m).unwrap().reshape((2, 3)).unwrap();
    for refused in [x.i((0, 0, 0)), x.i((REST, 0, REST)), x.i(2), x.i((0, -4))] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("indexing.rs"), "{error}");
    }
}

/// A range past the end is a mistake, unless PyTorch's rule is asked for.
#[test]
fn ranges_past_the_end_are_refused() {
    let m = inline();
    let x = Tensor::arange(0..6, &m).unwrap().reshape((2, 3)).unwrap();
    let refused = |index: Index<'_>| x.i((.., index)).unwrap_err().to_string();
    for (index, range, outside) in [
        (Index::from(3000..), "3000..", 3000),
        (Index::from(..4), "..4", 4),
        (Index::from(..-4), "..-4", -4),
    ] {
        let message = refused(index);
        let expected = format!(
            "{range} of dimension 1: {outside} is outside of its 3 elements; Index::Clamped"
        );
        assert!(message.contains(&expected), "{message}");
        assert!(message.contains("indexing.rs:"), "{message}");
    }
    assert_eq!(x.i((.., 3..)).unwrap().shape(), [2, 0]);
    assert_eq!(x.i((.., -3..)).unwrap().shape(), [2, 3]);
    assert_eq!(x.i((.., Index::Clamped(Some(3000), None))).unwrap().shape(), [2, 0]);
    assert_eq!(x.i(Index::Clamped(Some(-9), Some(1))).unwrap().shape(), [1, 3]);
}
