//! `Display` writes what PyTorch writes; `Debug` says where a tensor is and whether it is ready.

use millstream::ep::sim::Completion::IssueOrder;
use millstream::*;
use millstream_testing::machine::*;
use serde_json::Value;

use super::floats;

#[test]
fn values_are_written_as_pytorch_does() {
    let m = inline();
    let cases: Value = serde_json::from_str(include_str!("display.json")).unwrap();
    let number = |v: &Value| v.as_str().unwrap().parse::<f64>().unwrap();
    for case in cases.as_array().unwrap() {
        let dtype: DType = case["dtype"].as_str().unwrap().parse().unwrap();
        let shape: Vec<i64> =
            case["shape"].as_array().unwrap().iter().map(|v| v.as_i64().unwrap()).collect();
        let count = shape.iter().product::<i64>();
        let values: Vec<f64> = match case.get("step") {
            Some(step) => (0..count).map(|k| (k - 1) as f64 * number(step)).collect(),
            None => case["values"].as_array().unwrap().iter().map(number).collect(),
        };
        let made = match dtype.is_complex() {
            true => {
                let pairs = Tensor::from_vec(values, [&shape[..], &[2]].concat(), &m).unwrap();
                pairs.view_as_complex().unwrap()
            }
            false => Tensor::from_vec(values, &shape, &m).unwrap(),
        };
        let made = made.cast(dtype).unwrap();
        assert_eq!(made.to_string(), case["text"].as_str().unwrap());
    }
}

#[test]
fn all_digits_of_integers_are_written() {
    let m = inline();
    let x = Tensor::from_slice(&[i64::MAX, -9_007_199_254_740_993], 2, &m).unwrap();
    let text = "tensor([9223372036854775807,   -9007199254740993])";
    assert_eq!(x.to_string(), text);
    let x = Tensor::from_slice(&[u64::MAX, 1], 2, &m).unwrap();
    let text = "tensor([18446744073709551615,                    1], dtype=torch.uint64)";
    assert_eq!(x.to_string(), text);
    let x = Tensor::from_slice(&[u16::MAX, 1], 2, &m).unwrap();
    assert_eq!(x.to_string(), "tensor([65535,     1], dtype=torch.uint16)");
}

#[test]
fn views_are_written_by_their_shape() {
    let m = inline();
    let x = Tensor::arange(0..6, &m).unwrap().reshape((2, 3)).unwrap();
    let turned = "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])";
    assert_eq!(x.t().unwrap().to_string(), turned);
}

#[test]
fn debug_says_place_and_state() {
    let (m, hand) = by_hand();
    let x = floats(&m, &[2], &[1.0, 2.0]);
    m.synchronize().unwrap();
    assert_eq!(format!("{x:?}"), "Tensor(f32[2] on cpu:0, ready)");
    let y = x.to(&SIM).unwrap();
    assert_eq!(format!("{y:?}"), "Tensor(f32[2] on sim:0, pending)");
    hand.switch(IssueOrder);
    y.synchronize().unwrap();
    assert_eq!(format!("{y:?}"), "Tensor(f32[2] on sim:0, ready)");
    x.release().unwrap();
    assert_eq!(format!("{x:?}"), "Tensor(f32[2] on cpu:0, released)");
}

#[test]
fn debug_and_display_name_the_failure_of_poison() {
    let m = inline();
    let table = floats(&m, &[2, 1], &[1.0, 2.0]);
    let wrong = Tensor::from_slice(&[7i64], 1, &m).unwrap();
    let row = table.embedding(&wrong).unwrap();
    m.synchronize().unwrap_err();
    let text = format!("{row:?}");
    assert!(text.contains("poisoned by embedding at ") && text.contains("display.rs"), "{text}");
    let text = row.to_string();
    assert!(text.starts_with("tensor(of f32[1,1]: ") && text.contains("display.rs"), "{text}");
}
