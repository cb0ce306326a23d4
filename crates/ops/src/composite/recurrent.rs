//! Recurrent layers as the ops of their steps, and the packing of sequences.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, several, table, wrong};

table! {
    several("lstm_layer",
        "the outputs of a layer of long short-term memory, its last output, and its last cell",
        LAYER, REVERSE, 3, layer).optional_from(5);
    several("lstm_layer_backward",
        "the gradients of `lstm_layer`: for x, both weights and biases, the output and the cell \
         before", LAYER_GRAD, REVERSE, 7, layer_backward).optional_from(5);
    several("_pack_padded_sequence",
        "the rows of each time, of the sequences that reach it, and how many these are", SEQUENCES,
        PACK, 2, packed);
}

const PARTS: [ArgDoc; 7] = [
    arg("x", "[time,n,features]"),
    arg("weight_ih", "[4 width,features]"),
    arg("weight_hh", "[4 width,width]"),
    arg("hidden", "the output before the first step, n * width elements"),
    arg("cell", "the cell before the first step, n * width elements"),
    arg("bias_ih", "[4 width]"),
    arg("bias_hh", "[4 width]"),
];
const LAYER: &[ArgDoc] = &PARTS;
const LAYER_GRAD: &[ArgDoc] = &[
    PARTS[0],
    PARTS[1],
    PARTS[2],
    PARTS[3],
    PARTS[4],
    PARTS[5],
    PARTS[6],
    arg("grad_output", "[time,n,width]"),
    arg("grad_hidden", "n * width elements"),
    arg("grad_cell", "n * width elements"),
];
const REVERSE: &[ArgDoc] =
    &[arg("reverse", "whether the last step comes first").flag().or("false")];
const SEQUENCES: &[ArgDoc] = &[arg("x", "[time,n,...]"), arg("lengths", "[n], not ascending")];
const PACK: &[ArgDoc] = &[
    arg("batch_first", "whether x is [n,time,...]").flag().or("false"),
    arg("rows", "the sum of the lengths").int(),
    arg("times", "the greatest length").int(),
];

/// The values of one step that its gradient reads.
struct Step {
    /// The gates of input and forgetting, the candidate, and the gate of the output.
    gates: [Symbol; 4],
    /// The cell before the step.
    before: Symbol,
    /// The hyperbolic tangent of the cell after it.
    tangent: Symbol,
    /// The output before the step.
    hidden: Symbol,
    /// The step's number in the input.
    at: i64,
}

/// A layer's operands, and the steps of its run.
struct Run {
    x: Symbol,
    weights: [Symbol; 2],
    steps: Vec<Step>,
    outputs: Vec<Symbol>,
    hidden: Symbol,
    cell: Symbol,
}

fn transposed(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    calls.transpose(x, -2, -1)
}

fn part(calls: &mut Calls<'_>, x: Symbol, at: i64, length: i64) -> Result<Symbol> {
    calls.narrow(x, -1, at * length, length)
}

fn at_time(calls: &mut Calls<'_>, x: Symbol, at: i64) -> Result<Symbol> {
    calls.one("select", &[x], along(0).with("index", at))
}

fn stacked(calls: &mut Calls<'_>, each: &[Symbol]) -> Result<Symbol> {
    calls.one("stack", each, along(0))
}

/// Runs the steps of one layer in one direction.
fn run(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Run> {
    let x = given.tensor("x")?;
    let weights = [given.tensor("weight_ih")?, given.tensor("weight_hh")?];
    let &[time, batch, _] = calls.spec(x).shape() else {
        return Err(wrong("input: expected [time,n,features]"));
    };
    let width = calls.shape(weights[1]).last().copied().unwrap_or(0);
    let (hidden, cell) = (given.tensor("hidden")?, given.tensor("cell")?);
    let mut hidden = calls.reshape(hidden, &[batch as i64, width])?;
    let mut cell = calls.reshape(cell, &[batch as i64, width])?;
    let of_input = transposed(calls, weights[0])?;
    let of_hidden = transposed(calls, weights[1])?;
    let mut from_input = calls.apply("matmul", &[x, of_input])?;
    if let Some(bias) = given.optional("bias_ih") {
        let bias = calls.apply("add", &[bias, given.tensor("bias_hh")?])?;
        from_input = calls.apply("add", &[from_input, bias])?;
    }
    let mut order: Vec<i64> = (0..time as i64).collect();
    if given.flag("reverse", false)? {
        order.reverse();
    }
    let (mut steps, mut outputs) = (Vec::new(), vec![hidden; time]);
    for at in order {
        let own = at_time(calls, from_input, at)?;
        let again = calls.apply("matmul", &[hidden, of_hidden])?;
        let all = calls.apply("add", &[own, again])?;
        let mut gates = Vec::new();
        for (k, op) in ["sigmoid", "sigmoid", "tanh", "sigmoid"].into_iter().enumerate() {
            let gate = part(calls, all, k as i64, width)?;
            gates.push(calls.apply(op, &[gate])?);
        }
        let kept = calls.apply("mul", &[gates[1], cell])?;
        let new = calls.apply("mul", &[gates[0], gates[2]])?;
        let after = calls.apply("add", &[kept, new])?;
        let tangent = calls.apply("tanh", &[after])?;
        let next = calls.apply("mul", &[gates[3], tangent])?;
        let gates = [gates[0], gates[1], gates[2], gates[3]];
        steps.push(Step { gates, before: cell, tangent, hidden, at });
        outputs[at as usize] = next;
        (hidden, cell) = (next, after);
    }
    Ok(Run { x, weights, steps, outputs, hidden, cell })
}

fn layer(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let run = run(calls, given)?;
    Ok(vec![stacked(calls, &run.outputs)?, run.hidden, run.cell])
}

/// Returns the gradient of a layer: runs the layer again, and then its steps in reverse order.
fn layer_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let run = run(calls, given)?;
    let [batch, width] = [0, 1].map(|k| calls.shape(run.hidden)[k]);
    let of_output = given.optional("grad_output");
    let state = |calls: &mut Calls<'_>, name: &str| -> Result<Symbol> {
        match given.optional(name) {
            Some(val) => calls.reshape(val, &[batch, width]),
            None => calls.by("mul", run.hidden, 0.0),
        }
    };
    let (mut of_hidden, mut of_cell) = (state(calls, "grad_hidden")?, state(calls, "grad_cell")?);
    let mut of_gates = vec![run.hidden; run.steps.len()];
    for step in run.steps.iter().rev() {
        if let Some(grads) = of_output {
            let own = at_time(calls, grads, step.at)?;
            of_hidden = calls.apply("add", &[of_hidden, own])?;
        }
        let [input, forget, candidate, output] = step.gates;
        let through = calls.apply("mul", &[of_hidden, output])?;
        let through = calls.apply("tanh_backward", &[through, step.tangent])?;
        of_cell = calls.apply("add", &[of_cell, through])?;
        let pairs = [
            (of_cell, candidate, "sigmoid_backward", input),
            (of_cell, step.before, "sigmoid_backward", forget),
            (of_cell, input, "tanh_backward", candidate),
            (of_hidden, step.tangent, "sigmoid_backward", output),
        ];
        let mut each = Vec::new();
        for (grad, other, op, result) in pairs {
            let product = calls.apply("mul", &[grad, other])?;
            each.push(calls.apply(op, &[product, result])?);
        }
        let gates = calls.one("cat", &each, along(-1))?;
        of_gates[step.at as usize] = gates;
        of_hidden = calls.apply("matmul", &[gates, run.weights[1]])?;
        of_cell = calls.apply("mul", &[of_cell, forget])?;
    }
    let all = stacked(calls, &of_gates)?;
    let of_x = calls.apply("matmul", &[all, run.weights[0]])?;
    let features = calls.shape(run.x)[2];
    let flat = calls.reshape(all, &[-1, 4 * width])?;
    let turned = transposed(calls, flat)?;
    let inputs = calls.reshape(run.x, &[-1, features])?;
    let of_input_weights = calls.apply("matmul", &[turned, inputs])?;
    let mut hiddens = vec![run.hidden; run.steps.len()];
    for step in &run.steps {
        hiddens[step.at as usize] = step.hidden;
    }
    let hiddens = stacked(calls, &hiddens)?;
    let hiddens = calls.reshape(hiddens, &[-1, width])?;
    let of_hidden_weights = calls.apply("matmul", &[turned, hiddens])?;
    let of_bias = calls.one("sum", &[flat], Attrs::new().with("dim", vec![0i64]))?;
    let of_hidden = calls.reshape(of_hidden, &calls.shape(given.tensor("hidden")?))?;
    let of_cell = calls.reshape(of_cell, &calls.shape(given.tensor("cell")?))?;
    let copy = calls.apply("clone", &[of_bias])?;
    Ok(vec![of_x, of_input_weights, of_hidden_weights, of_bias, copy, of_hidden, of_cell])
}

/// Returns the packing of padded sequences: the rows of each time, of the sequences that reach it.
fn packed(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let (mut x, lengths) = (given.tensor("x")?, given.tensor("lengths")?);
    if given.flag("batch_first", false)? {
        x = calls.transpose(x, 0, 1)?;
    }
    let shape = calls.shape(x);
    let rows = given.int("rows")?.unwrap_or(0);
    let times = given.int("times")?.unwrap_or(0);
    let x = calls.narrow(x, 0, 0, times)?;
    let numbers = calls.range(times, DType::I64)?;
    let numbers = calls.unsqueeze(numbers, 1)?;
    let reached = calls.apply("gt", &[lengths, numbers])?;
    let counts = calls.one("sum", &[reached], Attrs::new().with("dim", vec![1i64]))?;
    // A stable sort puts the rows that count first, in their order.
    let flat = calls.reshape(reached, &[-1])?;
    let flat = calls.cast(flat, DType::I64)?;
    let order = along(0).with("descending", true);
    let order = calls.one("argsort", &[flat], order)?;
    let order = calls.narrow(order, 0, 0, rows)?;
    let mut merged = vec![times * shape[1]];
    merged.extend(&shape[2..]);
    let merged = calls.reshape(x, &merged)?;
    let made = calls.one("index_select", &[merged, order], along(0))?;
    Ok(vec![made, counts])
}
