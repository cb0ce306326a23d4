//! Lowers recurrent layers to the ops of their steps, and the packing of sequences.

use millstream_types::{AttrValue, Attrs, DType};

use super::composed::reshaped;
use super::functions::{apply, by, cast};
use super::{Made, one_call};
use crate::et::args::NodeArgs;
use crate::et::import::{Import, Lowered, Refusal, Val, unsupported};
use crate::et::value::Recorded;

/// The number of PyTorch's mode of an LSTM.
const LSTM: i64 = 2;

/// Lowers an op; `None` if it is none of these.
pub(super) fn recurrent(
    import: &mut Import<'_>,
    name: &str,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Option<Made>> {
    Ok(Some(match name {
        "mkldnn_rnn_layer" => layer(import, given, results)?,
        "mkldnn_rnn_layer_backward" => layer_backward(import, given, results)?,
        "_pack_padded_sequence" => packed(import, given, results)?,
        _ => return Ok(None),
    }))
}

fn flag(given: &NodeArgs<'_>, name: &str) -> Lowered<bool> {
    Ok(given.scalar(name)? == Some(AttrValue::Bool(true)))
}

/// The values of one step that its gradient reads.
struct Step {
    /// The gates of input and forgetting, the candidate, and the gate of the output.
    gates: [Val; 4],
    /// The cell before the step.
    before: Val,
    /// The hyperbolic tangent of the cell after it.
    tangent: Val,
    /// The output before the step.
    hidden: Val,
    /// The step's number in the input.
    at: i64,
}

/// A layer's operands, and the steps of its run.
struct Run {
    x: Val,
    weights: [Val; 2],
    steps: Vec<Step>,
    outputs: Vec<Val>,
    hidden: Val,
    cell: Val,
}

fn transposed(import: &mut Import<'_>, x: Val) -> Lowered<Val> {
    one_call(import, "transpose", &[x], Attrs::new().with("dim0", -2i64).with("dim1", -1i64))
}

fn part(import: &mut Import<'_>, x: Val, at: i64, length: i64) -> Lowered<Val> {
    let attrs = Attrs::new().with("dim", -1i64).with("start", at * length).with("length", length);
    one_call(import, "narrow", &[x], attrs)
}

fn at_time(import: &mut Import<'_>, x: Val, at: i64) -> Lowered<Val> {
    one_call(import, "select", &[x], Attrs::new().with("dim", 0i64).with("index", at))
}

/// Runs the steps of one layer in one direction.
fn run(import: &mut Import<'_>, given: &NodeArgs<'_>, hx: &str, cx: &str) -> Lowered<Run> {
    if given.int("mode")? != Some(LSTM) {
        return Err(unsupported("a recurrent layer that is no LSTM"));
    }
    // The input has the times first, whatever `batch_first` says of the module's.
    if given.ints("batch_sizes")?.is_some_and(|sizes| !sizes.is_empty()) {
        return Err(unsupported("a recurrent layer of packed sequences"));
    }
    let x = given.tensor(import, "input")?;
    let names = match given.get("weight0") {
        Some(_) => ["weight0", "weight1", "weight2", "weight3"],
        None => ["weight1", "weight2", "weight3", "weight4"],
    };
    let mut weights = Vec::new();
    for name in names {
        weights.push(given.tensor(import, name)?);
    }
    let &[time, batch, _] = import.spec(x).shape() else {
        return Err(Refusal::Wrong("'input': expected [time,n,features]".to_owned()));
    };
    let width = given.int("hidden_size")?.unwrap_or(0);
    let state = |import: &mut Import<'_>, name: &str| {
        let val = given.tensor(import, name)?;
        reshaped(import, val, &[batch as i64, width])
    };
    let (mut hidden, mut cell) = (state(import, hx)?, state(import, cx)?);
    let of_input = transposed(import, weights[0])?;
    let of_hidden = transposed(import, weights[1])?;
    let mut from_input = apply(import, "matmul", &[x, of_input])?;
    if flag(given, "has_biases")? {
        let bias = apply(import, "add", &[weights[2], weights[3]])?;
        from_input = apply(import, "add", &[from_input, bias])?;
    }
    let mut order: Vec<i64> = (0..time as i64).collect();
    if flag(given, "reverse")? {
        order.reverse();
    }
    let (mut steps, mut outputs) = (Vec::new(), vec![hidden; time]);
    for at in order {
        let own = at_time(import, from_input, at)?;
        let again = apply(import, "matmul", &[hidden, of_hidden])?;
        let all = apply(import, "add", &[own, again])?;
        let mut gates = Vec::new();
        for (k, op) in ["sigmoid", "sigmoid", "tanh", "sigmoid"].into_iter().enumerate() {
            let gate = part(import, all, k as i64, width)?;
            gates.push(apply(import, op, &[gate])?);
        }
        let kept = apply(import, "mul", &[gates[1], cell])?;
        let new = apply(import, "mul", &[gates[0], gates[2]])?;
        let after = apply(import, "add", &[kept, new])?;
        let tangent = apply(import, "tanh", &[after])?;
        let next = apply(import, "mul", &[gates[3], tangent])?;
        let gates = [gates[0], gates[1], gates[2], gates[3]];
        steps.push(Step { gates, before: cell, tangent, hidden, at });
        outputs[at as usize] = next;
        (hidden, cell) = (next, after);
    }
    Ok(Run { x, weights: [weights[0], weights[1]], steps, outputs, hidden, cell })
}

fn stacked(import: &mut Import<'_>, each: &[Val]) -> Lowered<Val> {
    one_call(import, "stack", each, Attrs::new().with("dim", 0i64))
}

fn zeros(import: &mut Import<'_>, recorded: &Recorded) -> Lowered<Val> {
    let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
    let attrs = Attrs::new().with("shape", shape).with("value", 0i64);
    one_call(import, "full", &[], attrs.with("dtype", recorded.dtype))
}

/// Gives a result the recorded shape.
fn shaped(import: &mut Import<'_>, x: Val, recorded: Option<&Recorded>) -> Lowered<Val> {
    match recorded {
        Some(recorded) if import.spec(x).shape() != &*recorded.shape => {
            let shape: Vec<i64> = recorded.shape.iter().map(|&d| d as i64).collect();
            reshaped(import, x, &shape)
        }
        _ => Ok(x),
    }
}

/// Lowers a layer. Its workspace, which only the library's gradient reads, is zeros.
fn layer(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let run = run(import, given, "hx_", "cx_")?;
    let recorded = |k: usize| results.get(k).and_then(Option::as_ref);
    let output = stacked(import, &run.outputs)?;
    let mut made = vec![Some(output)];
    for (k, val) in [(1, run.hidden), (2, run.cell)] {
        made.push(Some(shaped(import, val, recorded(k))?));
    }
    if let Some(workspace) = recorded(3) {
        made.push(Some(zeros(import, workspace)?));
    } else if results.len() > 3 {
        made.push(None);
    }
    Ok(made)
}

/// Lowers the gradient of a layer: runs the layer again, and then its steps in reverse order.
fn layer_backward(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let run = run(import, given, "hx_", "cx_tmp")?;
    let width = given.int("hidden_size")?.unwrap_or(0);
    let batch = import.spec(run.hidden).shape()[0] as i64;
    let grad_of = |import: &mut Import<'_>, name: &str| -> Lowered<Option<Val>> {
        match given.get(name) {
            Some((_, crate::et::value::Arg::Tensor(_))) => Ok(Some(given.tensor(import, name)?)),
            _ => Ok(None),
        }
    };
    let of_output = grad_of(import, "grad_output")?;
    let state = |import: &mut Import<'_>, name: &str| -> Lowered<Val> {
        match grad_of(import, name)? {
            Some(val) => reshaped(import, val, &[batch, width]),
            None => by(import, "mul", run.hidden, 0.0),
        }
    };
    let (mut of_hidden, mut of_cell) = (state(import, "grad_hy")?, state(import, "grad_cy")?);
    let mut of_gates = vec![run.hidden; run.steps.len()];
    for step in run.steps.iter().rev() {
        if let Some(grads) = of_output {
            let own = at_time(import, grads, step.at)?;
            of_hidden = apply(import, "add", &[of_hidden, own])?;
        }
        let [input, forget, candidate, output] = step.gates;
        let through = apply(import, "mul", &[of_hidden, output])?;
        let through = apply(import, "tanh_backward", &[through, step.tangent])?;
        of_cell = apply(import, "add", &[of_cell, through])?;
        let pairs = [
            (of_cell, candidate, "sigmoid_backward", input),
            (of_cell, step.before, "sigmoid_backward", forget),
            (of_cell, input, "tanh_backward", candidate),
            (of_hidden, step.tangent, "sigmoid_backward", output),
        ];
        let mut each = Vec::new();
        for (grad, other, op, result) in pairs {
            let product = apply(import, "mul", &[grad, other])?;
            each.push(apply(import, op, &[product, result])?);
        }
        let gates = one_call(import, "cat", &each, Attrs::new().with("dim", -1i64))?;
        of_gates[step.at as usize] = gates;
        of_hidden = apply(import, "matmul", &[gates, run.weights[1]])?;
        of_cell = apply(import, "mul", &[of_cell, forget])?;
    }
    let all = stacked(import, &of_gates)?;
    let of_x = apply(import, "matmul", &[all, run.weights[0]])?;
    let features = import.spec(run.x).shape()[2] as i64;
    let flat = reshaped(import, all, &[-1, 4 * width])?;
    let turned = transposed(import, flat)?;
    let inputs = reshaped(import, run.x, &[-1, features])?;
    let of_input_weights = apply(import, "matmul", &[turned, inputs])?;
    let mut hiddens = vec![run.hidden; run.steps.len()];
    for step in &run.steps {
        hiddens[step.at as usize] = step.hidden;
    }
    let hiddens = stacked(import, &hiddens)?;
    let hiddens = reshaped(import, hiddens, &[-1, width])?;
    let of_hidden_weights = apply(import, "matmul", &[turned, hiddens])?;
    let of_bias = one_call(import, "sum", &[flat], Attrs::new().with("dim", vec![0i64]))?;
    let shape_of = |import: &mut Import<'_>, name: &str, val: Val| -> Lowered<Val> {
        let like = given.tensor(import, name)?;
        let shape: Vec<i64> = import.spec(like).shape().iter().map(|&d| d as i64).collect();
        reshaped(import, val, &shape)
    };
    let of_hidden = shape_of(import, "hx_", of_hidden)?;
    let of_cell = shape_of(import, "cx_tmp", of_cell)?;
    let copy = one_call(import, "clone", &[of_bias], Attrs::new())?;
    let made = [of_x, of_input_weights, of_hidden_weights, of_bias, copy, of_hidden, of_cell];
    // Under autocast, the library returns gradients in f32.
    let mut converted = Vec::new();
    for (k, val) in made.into_iter().enumerate() {
        converted.push(Some(match results.get(k) {
            Some(Some(recorded)) => cast(import, val, recorded.dtype)?,
            _ => val,
        }));
    }
    Ok(converted)
}

/// Lowers the packing of padded sequences: the rows of each time, of the sequences that reach it.
fn packed(
    import: &mut Import<'_>,
    given: &NodeArgs<'_>,
    results: &[Option<Recorded>],
) -> Lowered<Made> {
    let (mut x, lengths) = (given.tensor(import, "input")?, given.tensor(import, "lengths")?);
    let [Some(data), Some(sizes)] = results else {
        return Err(unsupported("a packing without results"));
    };
    if flag(given, "batch_first")? {
        let attrs = Attrs::new().with("dim0", 0i64).with("dim1", 1i64);
        x = one_call(import, "transpose", &[x], attrs)?;
    }
    let shape: Vec<i64> = import.spec(x).shape().iter().map(|&d| d as i64).collect();
    let (rows, times) = (data.shape.first().copied().unwrap_or(0) as i64, sizes.shape[0] as i64);
    let part = Attrs::new().with("dim", 0i64).with("start", 0i64).with("length", times);
    let x = one_call(import, "narrow", &[x], part)?;
    let numbers = Attrs::new().with("end", times).with("dtype", DType::I64);
    let numbers = one_call(import, "arange", &[], numbers)?;
    let numbers = one_call(import, "unsqueeze", &[numbers], Attrs::new().with("dim", 1i64))?;
    let reached = apply(import, "gt", &[lengths, numbers])?;
    let counts = one_call(import, "sum", &[reached], Attrs::new().with("dim", vec![1i64]))?;
    // A stable sort puts the rows that count first, in their order.
    let flat = reshaped(import, reached, &[-1])?;
    let flat = cast(import, flat, DType::I64)?;
    let order = Attrs::new().with("dim", 0i64).with("descending", true);
    let order = one_call(import, "argsort", &[flat], order)?;
    let kept = Attrs::new().with("dim", 0i64).with("start", 0i64).with("length", rows);
    let order = one_call(import, "narrow", &[order], kept)?;
    let mut merged = vec![times * shape[1]];
    merged.extend(&shape[2..]);
    let merged = reshaped(import, x, &merged)?;
    let made = one_call(import, "index_select", &[merged, order], Attrs::new().with("dim", 0i64))?;
    Ok(vec![Some(made), Some(counts)])
}
