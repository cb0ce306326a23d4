//! Fused programs leave the bits that their steps leave one by one.

use millstream_ops::fused::{PROGRAM, Program, Step, Value, step_result};
use millstream_ops::{CallSpec, families};
use millstream_types::{Attrs, DType, Layout};
use proptest::prelude::*;

use crate::prepared::{FAMILIES, argument_choices, check};
use millstream_testing::kernels::*;

/// Returns the results of a program's steps, each called by itself.
fn one_by_one(program: &Program, inputs: &[Tensor]) -> Tensor {
    let mut results: Vec<Tensor> = Vec::new();
    for step in program.steps() {
        let tensor = |operand: &Value| match *operand {
            Value::Input(k) => &inputs[k],
            Value::Step(k) => &results[k],
        };
        let operands: Vec<&Tensor> = step.operands.iter().map(tensor).collect();
        results.push(one(&step.op, &operands, &step.attrs));
    }
    results.pop().unwrap()
}

fn attrs(program: &Program) -> Attrs {
    Attrs::new().with(PROGRAM, program.to_string().as_str())
}

#[track_caller]
fn compare(program: &Program, inputs: &[Tensor]) {
    let expected = one_by_one(program, inputs);
    let all: Vec<&Tensor> = inputs.iter().collect();
    for threads in [0, 3] {
        let got = call_on("fused", &all, &attrs(program), threads).unwrap().remove(0);
        assert_eq!(got.spec, expected.spec, "{program}");
        assert!(got.bytes() == expected.bytes(), "{program}: {got:?}, expected {expected:?}");
    }
    // Anew each time, so that the prepared form does not find the results of the other.
    let again = || inputs.iter().map(|x| x.relaid(x.spec.layout.clone())).collect();
    assert!(check("fused", &attrs(program), again));
    // A result may have the memory of an operand.
    for k in (0..inputs.len()).filter(|k| inputs[*k].spec == expected.spec) {
        let inputs: Vec<Tensor> = again();
        let all: Vec<&Tensor> = inputs.iter().chain([&inputs[k]]).collect();
        launch("fused", &all, &attrs(program), 0, 0);
        assert!(inputs[k].bytes() == expected.bytes(), "{program}: in operand {k}");
    }
}

/// Chooses by numbers that a strategy made.
struct Choices<'a>(std::slice::Iter<'a, u32>);

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.0.next().map_or(0, |&v| v as usize % count)
    }
}

/// Returns the program without steps and inputs that the last step does not need, and the numbers
/// of its inputs among the given ones.
fn pruned(steps: &[Step]) -> (Program, Vec<usize>) {
    let mut needed = vec![false; steps.len()];
    let mut inputs = Vec::new();
    *needed.last_mut().unwrap() = true;
    for (k, step) in steps.iter().enumerate().rev() {
        if !needed[k] {
            continue;
        }
        for operand in &step.operands {
            match *operand {
                Value::Step(of) => needed[of] = true,
                Value::Input(of) if !inputs.contains(&of) => inputs.push(of),
                Value::Input(_) => {}
            }
        }
    }
    let number = |of: usize| needed[..of].iter().filter(|needed| **needed).count();
    let renumbered = |operand: &Value| match *operand {
        Value::Step(of) => Value::Step(number(of)),
        Value::Input(of) => Value::Input(inputs.iter().position(|&k| k == of).unwrap()),
    };
    let kept = steps.iter().zip(&needed).filter(|(_, needed)| **needed).map(|(step, _)| Step {
        operands: step.operands.iter().map(renumbered).collect(),
        ..step.clone()
    });
    (Program::new(kept.collect()).unwrap(), inputs)
}

/// Returns a random program on tensors of one shape, or of shapes that broadcast to it.
fn random(numbers: &[u32]) -> (Program, Vec<Tensor>) {
    let mut choices = Choices(numbers.iter());
    let shapes: [&[usize]; 6] = [&[], &[1], &[16], &[5, 7], &[3, 0], &[2, 700]];
    let shape = shapes[choices.below(shapes.len())];
    let inputs: Vec<Tensor> = (0..1 + choices.below(4))
        .map(|k| {
            let dtype = DType::REAL[choices.below(DType::REAL.len())];
            let shape = match choices.below(5) {
                0 => &shape[shape.len().min(1)..],
                1 => &[],
                _ => shape,
            };
            let layout = layouts(shape).swap_remove(choices.below(3));
            Tensor::laid(dtype, layout, &samples(dtype)[k % 4..])
        })
        .collect();
    let families = families().into_iter().filter(|(title, _)| FAMILIES.contains(title));
    let mut ops: Vec<&str> = families.flat_map(|f| f.1).map(|op| op.name()).collect();
    ops.push("cast");
    let specs: Vec<_> = inputs.iter().map(|t| t.spec.clone()).collect();
    let (mut steps, mut results): (Vec<Step>, Vec<_>) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let op = ops[choices.below(ops.len())];
        let count = 1 + choices.below(3);
        let operand = |_| match choices.below(3) {
            0 => Value::Input(choices.below(inputs.len())),
            _ if steps.is_empty() => Value::Input(choices.below(inputs.len())),
            // Mostly the latest results, so that chains are long.
            _ => Value::Step(steps.len() - 1 - choices.below(steps.len().min(2))),
        };
        let operands = (0..count).map(operand).collect();
        let arguments = argument_choices(op);
        let mut attrs = arguments[choices.below(arguments.len())].clone();
        if op == "cast" {
            attrs.set("dtype", DType::REAL[choices.below(DType::REAL.len())]);
        }
        let step = Step { op: op.to_owned(), operands, attrs };
        let operands = step.operand_specs(&specs, &results);
        let call = CallSpec { inputs: &operands, attrs: &step.attrs };
        if let Ok(result) = step_result(op, call) {
            results.push(result);
            steps.push(step);
        }
    }
    if steps.is_empty() {
        let attrs = Attrs::new().with("dtype", DType::F32);
        steps.push(Step { op: "cast".to_owned(), operands: vec![Value::Input(0)], attrs });
    }
    let (program, used) = pruned(&steps);
    (program, used.iter().map(|&k| inputs[k].clone()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_programs(numbers in prop::collection::vec(any::<u32>(), 120)) {
        let (program, inputs) = random(&numbers);
        prop_assert_eq!(Program::parse(&program.to_string()).unwrap(), program.clone());
        compare(&program, &inputs);
    }
}

/// Ops that the host computes for every device, so that no kernel of CUDA has them as a step.
const ON_HOST: &[&str] = &["gcd", "lcm", "nextafter"];

#[test]
fn every_elementwise_op_is_a_step() {
    let families = families().into_iter().filter(|(title, _)| FAMILIES.contains(title));
    let is_step = |name: &str| !name.ends_with('_') && !ON_HOST.contains(&name);
    for op in families.flat_map(|f| f.1).filter(|op| is_step(op.name())) {
        let mut accepted = 0;
        for attrs in argument_choices(op.name()) {
            for (count, dtype) in (1..=3).flat_map(|n| [DType::F16, DType::Bool].map(|d| (n, d))) {
                let mut inputs: Vec<Tensor> =
                    (0..count).map(|k| Tensor::dense(dtype, &[19], &samples(dtype)[k..])).collect();
                let mask = ["where", "masked_fill"].iter().position(|m| *m == op.name());
                if let Some(mask) = mask.and_then(|k| inputs.get_mut(k)) {
                    *mask = Tensor::dense(DType::Bool, &[19], &samples(DType::Bool));
                }
                let operands = (0..count).map(Value::Input).collect();
                let step = Step { op: op.name().to_owned(), operands, attrs: attrs.clone() };
                let specs: Vec<_> = inputs.iter().map(|t| t.spec.clone()).collect();
                if step_result(op.name(), CallSpec { inputs: &specs, attrs: &attrs }).is_ok() {
                    compare(&Program::new(vec![step]).unwrap(), &inputs);
                    accepted += 1;
                }
            }
        }
        assert!(accepted > 0, "{}", op.name());
    }
}

#[test]
fn large_programs_are_shared_by_threads() {
    let program = Program::parse("tanh(%0);mul(#0,%1);add(#1,%2|alpha=2);cast(#2|dtype=f16)");
    let values = samples(DType::F32);
    let dense = |shape: &[usize]| Tensor::dense(DType::F32, shape, &values);
    let wide = Layout::strided(&[300, 270], &[1, 300], 0).unwrap();
    let wide = Tensor::laid(DType::F32, wide, &values);
    let program = program.unwrap();
    compare(&program, &[dense(&[300, 270]), dense(&[270]), dense(&[])]);
    compare(&program, &[dense(&[300, 270]), wide, dense(&[300, 1])]);
}

#[test]
fn more_results_than_registers_are_kept() {
    let mut text: Vec<String> = (1..13).map(|k| format!("add(%0|other={k})")).collect();
    text.push("add(#0,#11)".to_owned());
    (1..11).for_each(|k| text.push(format!("sub(#{},#{k})", k + 11)));
    let program = Program::parse(&text.join(";")).unwrap();
    compare(&program, &[Tensor::dense(DType::F64, &[1100], &samples(DType::F64))]);
}

#[test]
fn the_result_may_be_where_an_input_is() {
    let program = Program::parse("neg(%0);mul(#0,%1);add(#1,%0)").unwrap();
    for (first, second, length) in [(0, 100, 70), (1, 0, 70), (30, 0, 70), (0, 2, 1)] {
        let memory = || Tensor::dense(DType::F32, &[200], &samples(DType::F32)[..2]);
        let parts =
            |memory: &Tensor| [first, second, 0].map(|offset| memory.view(&[length], &[1], offset));
        let plain = memory();
        let [x, y, out] = parts(&plain);
        let expected = one_by_one(&program, &[x.clone(), y.clone()]);
        launch("fused", &[&x, &y, &out], &attrs(&program), 0, 0);
        assert_eq!(out.values(), expected.values());
        let prepared = memory();
        let [x, y, out] = parts(&prepared);
        try_launch_prepared("fused", &[&x, &y, &out], &attrs(&program), 0, 0).unwrap().unwrap();
        assert!(prepared.bytes() == plain.bytes());
    }
}
