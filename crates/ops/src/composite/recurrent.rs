//! Recurrent layers as the ops of their steps, and the packing of sequences.
//!
//! A layer works on rows: those of the first time, of the second, and so on. With sequences of
//! several lengths, the later times have fewer rows, and the states of the others stay.
//!
//! Long because each of the three kinds of cells has a step and its gradient.

use millstream_types::{Attrs, DType, Result};

use crate::def::arg;
use crate::random::{OFFSET, OFFSET_NUMBER, SEED, SEED_DOC};
use crate::schema::ArgDoc;

use super::calls::along;
use super::{Calls, Composite, Given, Symbol, several, table, wrong};

table! {
    several("lstm_layer",
        "the outputs of a layer of long short-term memory, its last output, and its last cell",
        LAYER, REVERSE, 3, layer).optional_from(5);
    several("_thnn_fused_lstm_cell",
        "the output and the cell after a step of long short-term memory, and the gates",
        LSTM_CELL, &[], 3, lstm_cell).optional_from(3);
    several("_thnn_fused_lstm_cell_backward_impl",
        "the gradients of `_thnn_fused_lstm_cell`: for the gates, the cell before, and a bias",
        LSTM_CELL_GRAD, HAS_BIAS, 3, lstm_cell_backward).optional_from(0);
    several("_thnn_fused_gru_cell",
        "the output after a step of gated recurrent units, and the values that its gradient reads",
        GRU_CELL, &[], 2, gru_cell).optional_from(3);
    several("_thnn_fused_gru_cell_backward",
        "the gradients of `_thnn_fused_gru_cell`: for both gates, the output before, both biases",
        GRU_CELL_GRAD, HAS_BIAS, 5, gru_cell_backward);
    several("_cudnn_rnn",
        "the outputs of the last of several recurrent layers, the states of all after the last \
         step, and the masks of dropout between layers",
        NETWORK, NETWORK_ATTRS, 3, layers).of_list(2);
    several("_cudnn_rnn_backward",
        "the gradients of `_cudnn_rnn`: for the input, the states and the weights", NETWORK_GRAD,
        NETWORK_ATTRS, 3, layers_backward).of_list(2);
    several("_pack_padded_sequence",
        "the rows of each time, of the sequences that reach it, and how many these are", SEQUENCES,
        PACK, 2, packed);
}

const LAYER: &[ArgDoc] = &[
    arg("x", "[time,n,features]"),
    arg("weight_ih", "[4 width,features]"),
    arg("weight_hh", "[4 width,width]"),
    arg("hidden", "the output before the first step, n * width elements"),
    arg("cell", "the cell before the first step, n * width elements"),
    arg("bias_ih", "[4 width]"),
    arg("bias_hh", "[4 width]"),
];
const FROM_END: ArgDoc = arg("reverse", "whether the last step comes first").flag().or("false");
const REVERSE: &[ArgDoc] = &[FROM_END];
const INPUT_GATES: ArgDoc = arg("input_gates", "the input's part of the sums, [n,gates width]");
const HIDDEN_GATES: ArgDoc = arg("hidden_gates", "the hidden state's part of the sums");
const INPUT_BIAS: ArgDoc = arg("input_bias", "[gates width]");
const HIDDEN_BIAS: ArgDoc = arg("hidden_bias", "[gates width]");
const CELL: ArgDoc = arg("cx", "the cell before the step, [n,width]");
const LSTM_CELL: &[ArgDoc] = &[INPUT_GATES, HIDDEN_GATES, CELL, INPUT_BIAS, HIDDEN_BIAS];
const GRAD_OUTPUT: ArgDoc = arg("grad_hy", "the gradient of the output");
const WORKSPACE: ArgDoc = arg("workspace", "the last result");
const LSTM_CELL_GRAD: &[ArgDoc] = &[
    GRAD_OUTPUT,
    arg("grad_cy", "the gradient of the cell"),
    CELL,
    arg("cy", "the cell after the step"),
    WORKSPACE,
];
const GRU_CELL: &[ArgDoc] = &[
    INPUT_GATES,
    HIDDEN_GATES,
    arg("hx", "the output before the step, [n,width]"),
    INPUT_BIAS,
    HIDDEN_BIAS,
];
const GRU_CELL_GRAD: &[ArgDoc] = &[GRAD_OUTPUT, WORKSPACE];
const HAS_BIAS: &[ArgDoc] = &[arg("has_bias", "whether there are biases").flag().or("true")];
const INPUT: ArgDoc = arg("input", "[time,n,features], or with batch_sizes [rows,features]");
const STATE: ArgDoc = arg("hx", "the outputs before the first step, [layers directions,n,width]");
const NETWORK: &[ArgDoc] = &[
    INPUT,
    STATE,
    arg(
        "weights",
        "for an LSTM the cells, as hx; then for each layer and direction the weights of \
        input and hidden state, and the biases of both",
    ),
];
const NETWORK_GRAD: &[ArgDoc] = &[
    INPUT,
    STATE,
    arg(
        "weights",
        "as of the op; then the gradients of its results, those that `grads` names, and \
        the masks",
    ),
];
const MODE: ArgDoc = arg("mode", "relu (0), tanh (1), LSTM (2) or GRU (3)").int();
const LAYERS: ArgDoc = arg("num_layers", "the number of layers").int().or("1");
const HAS_BIASES: ArgDoc = arg("has_biases", "whether there are biases").flag().or("true");
const BATCH_FIRST: ArgDoc =
    arg("batch_first", "whether input and output are [n,time,...]").flag().or("false");
const DROPOUT: ArgDoc =
    arg("dropout", "the share of a layer's outputs that the next one does not get").float().or("0");
const TRAIN: ArgDoc = arg("train", "whether outputs are dropped").flag().or("false");
const BOTH: ArgDoc =
    arg("bidirectional", "whether a second direction runs from the end").flag().or("false");
const SIZES: ArgDoc =
    arg("batch_sizes", "the number of sequences that reach each time").ints().optional();
const NETWORK_ATTRS: &[ArgDoc] = &[
    MODE,
    LAYERS,
    HAS_BIASES,
    BATCH_FIRST,
    DROPOUT,
    TRAIN,
    BOTH,
    FROM_END,
    SIZES,
    SEED_DOC,
    OFFSET_NUMBER,
    arg(
        "grads",
        "for the gradient, flags, 0 or 1: which it is given, of output, outputs and cells",
    )
    .ints()
    .or("1, 1, 1"),
];
const SEQUENCES: &[ArgDoc] = &[arg("x", "[time,n,...]"), arg("lengths", "[n], not ascending")];
const PACK: &[ArgDoc] = &[
    arg("batch_first", "whether x is [n,time,...]").flag().or("false"),
    arg("rows", "the sum of the lengths").int(),
    arg("times", "the greatest length").int(),
];

/// The kind of a recurrent layer, with PyTorch's numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Relu,
    Tanh,
    Lstm,
    Gru,
}

impl Mode {
    fn of(given: &Given<'_>) -> Result<Mode> {
        match given.int("mode")? {
            Some(0) => Ok(Mode::Relu),
            Some(1) => Ok(Mode::Tanh),
            Some(2) => Ok(Mode::Lstm),
            Some(3) => Ok(Mode::Gru),
            other => Err(wrong(format!("mode: expected 0 to 3, got {other:?}"))),
        }
    }
}

/// One direction of one layer: its operands.
struct Layer {
    mode: Mode,
    /// The rows of the first time, of the second, and so on.
    x: Symbol,
    /// The weights of the input and of the hidden state.
    weights: [Symbol; 2],
    biases: Option<[Symbol; 2]>,
    /// The states before the first step, `[n,width]`: output and cell.
    states: [Symbol; 2],
    /// The number of rows of each time.
    sizes: Vec<i64>,
    is_reverse: bool,
}

/// The values of one step that its gradient reads.
struct Step {
    /// Of an LSTM the gates of input and forgetting, the candidate, the gate of the output; of a
    /// GRU the gates of reset and update, the candidate, and the hidden state's part of it.
    gates: Vec<Symbol>,
    /// The output and the cell before the step, of its rows.
    before: [Symbol; 2],
    /// The output after the step, and the cell, of an LSTM its hyperbolic tangent.
    after: [Symbol; 2],
    /// The first row of its time, and their number.
    rows: [i64; 2],
    /// The number of its time.
    at: usize,
}

/// A run of a layer.
struct Run {
    layer: Layer,
    steps: Vec<Step>,
    /// The outputs of all rows.
    outputs: Symbol,
    /// The states after the last step.
    states: [Symbol; 2],
}

fn transposed(calls: &mut Calls<'_>, x: Symbol) -> Result<Symbol> {
    calls.transpose(x, -2, -1)
}

/// Returns parts of the last dimension, of this width.
fn parts(calls: &mut Calls<'_>, x: Symbol, width: i64) -> Result<Vec<Symbol>> {
    let all = calls.shape(x).last().copied().unwrap_or(0);
    (0..all / width.max(1)).map(|at| calls.narrow(x, -1, at * width, width)).collect()
}

fn joined(calls: &mut Calls<'_>, each: &[Symbol], dim: i64) -> Result<Symbol> {
    match each {
        &[one] => Ok(one),
        _ => calls.one("cat", each, along(dim)),
    }
}

/// Returns the first rows of a state.
fn first_rows(calls: &mut Calls<'_>, state: Symbol, count: i64) -> Result<Symbol> {
    match calls.shape(state)[0] == count {
        true => Ok(state),
        false => calls.narrow(state, 0, 0, count),
    }
}

/// Returns a state with other first rows.
fn with_rows(calls: &mut Calls<'_>, state: Symbol, rows: Symbol) -> Result<Symbol> {
    let (all, count) = (calls.shape(state)[0], calls.shape(rows)[0]);
    if all == count {
        return Ok(rows);
    }
    let rest = calls.narrow(state, 0, count, all - count)?;
    joined(calls, &[rows, rest], 0)
}

/// Returns the gates of an LSTM, the cell after the step, its tangent, and the output.
fn lstm_step(
    calls: &mut Calls<'_>,
    sums: Symbol,
    cell: Symbol,
) -> Result<(Vec<Symbol>, [Symbol; 3])> {
    let width = calls.shape(cell).last().copied().unwrap_or(0);
    let mut gates = parts(calls, sums, width)?;
    if gates.len() != 4 {
        return Err(wrong("expected gates of four times the width of the cell"));
    }
    for (gate, op) in gates.iter_mut().zip(["sigmoid", "sigmoid", "tanh", "sigmoid"]) {
        *gate = calls.apply(op, &[*gate])?;
    }
    let kept = calls.apply("mul", &[gates[1], cell])?;
    let new = calls.apply("mul", &[gates[0], gates[2]])?;
    let after = calls.apply("add", &[kept, new])?;
    let tangent = calls.apply("tanh", &[after])?;
    let output = calls.apply("mul", &[gates[3], tangent])?;
    Ok((gates, [after, tangent, output]))
}

/// Returns the gradients of the gates of an LSTM, and of the cell before the step.
fn lstm_backward(
    calls: &mut Calls<'_>,
    [of_output, of_cell]: [Option<Symbol>; 2],
    gates: &[Symbol],
    [before, tangent]: [Symbol; 2],
) -> Result<[Symbol; 2]> {
    let &[input, forget, candidate, output] = gates else {
        return Err(wrong("expected four gates"));
    };
    let zeros = |calls: &mut Calls<'_>| calls.by("mul", tangent, 0.0);
    let of_output = of_output.map_or_else(|| zeros(calls), Ok)?;
    let through = calls.apply("mul", &[of_output, output])?;
    let mut cell = calls.apply("tanh_backward", &[through, tangent])?;
    if let Some(grad) = of_cell {
        cell = calls.apply("add", &[grad, cell])?;
    }
    let mut each = Vec::new();
    for (grad, other, op, result) in [
        (cell, candidate, "sigmoid_backward", input),
        (cell, before, "sigmoid_backward", forget),
        (cell, input, "tanh_backward", candidate),
        (of_output, tangent, "sigmoid_backward", output),
    ] {
        let product = calls.apply("mul", &[grad, other])?;
        each.push(calls.apply(op, &[product, result])?);
    }
    Ok([joined(calls, &each, -1)?, calls.apply("mul", &[cell, forget])?])
}

/// Returns the gates of a GRU and the output, of the sums of the input and of the hidden state.
fn gru_step(
    calls: &mut Calls<'_>,
    [own, again]: [Symbol; 2],
    hidden: Symbol,
) -> Result<(Vec<Symbol>, Symbol)> {
    let width = calls.shape(hidden).last().copied().unwrap_or(0);
    let (own, again) = (parts(calls, own, width)?, parts(calls, again, width)?);
    let ([own_reset, own_update, own_new], [reset, update, new]) = (&own[..], &again[..]) else {
        return Err(wrong("expected gates of three times the width of the hidden state"));
    };
    let mut gates = Vec::new();
    for [own, again] in [[own_reset, reset], [own_update, update]] {
        let sum = calls.apply("add", &[*own, *again])?;
        gates.push(calls.apply("sigmoid", &[sum])?);
    }
    let part = calls.apply("mul", &[gates[0], *new])?;
    let sum = calls.apply("add", &[*own_new, part])?;
    let candidate = calls.apply("tanh", &[sum])?;
    let difference = calls.apply("sub", &[hidden, candidate])?;
    let kept = calls.apply("mul", &[gates[1], difference])?;
    gates.extend([candidate, *new]);
    Ok((gates, calls.apply("add", &[candidate, kept])?))
}

/// Returns the gradients of the sums of a GRU, those of the input and of the hidden state, and of
/// the hidden state before the step.
fn gru_backward(
    calls: &mut Calls<'_>,
    grad: Symbol,
    gates: &[Symbol],
    before: Symbol,
) -> Result<[Symbol; 3]> {
    let &[reset, update, candidate, part] = gates else {
        return Err(wrong("expected four gates"));
    };
    let difference = calls.apply("sub", &[before, candidate])?;
    let of_update = calls.apply("mul", &[grad, difference])?;
    let of_update = calls.apply("sigmoid_backward", &[of_update, update])?;
    let of_before = calls.apply("mul", &[grad, update])?;
    let of_candidate = calls.apply("sub", &[grad, of_before])?;
    let of_candidate = calls.apply("tanh_backward", &[of_candidate, candidate])?;
    let of_reset = calls.apply("mul", &[of_candidate, part])?;
    let of_reset = calls.apply("sigmoid_backward", &[of_reset, reset])?;
    let of_part = calls.apply("mul", &[of_candidate, reset])?;
    let own = joined(calls, &[of_reset, of_update, of_candidate], -1)?;
    let again = joined(calls, &[of_reset, of_update, of_part], -1)?;
    Ok([own, again, of_before])
}

/// Runs the steps of a layer.
fn run(calls: &mut Calls<'_>, layer: Layer) -> Result<Run> {
    let of_input = transposed(calls, layer.weights[0])?;
    let of_hidden = transposed(calls, layer.weights[1])?;
    let mut from_input = calls.apply("matmul", &[layer.x, of_input])?;
    if let Some([bias, _]) = layer.biases {
        from_input = calls.apply("add", &[from_input, bias])?;
    }
    let mut first = 0;
    let mut times: Vec<(usize, [i64; 2])> = Vec::new();
    for (at, &count) in layer.sizes.iter().enumerate() {
        times.push((at, [first, count]));
        first += count;
    }
    if layer.is_reverse {
        times.reverse();
    }
    let [mut hidden, mut cell] = layer.states;
    let (mut steps, mut outputs) = (Vec::new(), vec![hidden; times.len()]);
    for (at, rows) in times {
        let own = calls.narrow(from_input, 0, rows[0], rows[1])?;
        let before = [first_rows(calls, hidden, rows[1])?, first_rows(calls, cell, rows[1])?];
        let mut again = calls.apply("matmul", &[before[0], of_hidden])?;
        if let Some([_, bias]) = layer.biases {
            again = calls.apply("add", &[again, bias])?;
        }
        let (gates, after, new) = match layer.mode {
            Mode::Lstm => {
                let sums = calls.apply("add", &[own, again])?;
                let (gates, [cell, tangent, output]) = lstm_step(calls, sums, before[1])?;
                (gates, [output, tangent], [output, cell])
            }
            Mode::Gru => {
                let (gates, output) = gru_step(calls, [own, again], before[0])?;
                (gates, [output; 2], [output, before[1]])
            }
            mode => {
                let sums = calls.apply("add", &[own, again])?;
                let op = if mode == Mode::Relu { "relu" } else { "tanh" };
                let output = calls.apply(op, &[sums])?;
                (Vec::new(), [output; 2], [output, before[1]])
            }
        };
        outputs[at] = new[0];
        hidden = with_rows(calls, hidden, new[0])?;
        if layer.mode == Mode::Lstm {
            cell = with_rows(calls, cell, new[1])?;
        }
        steps.push(Step { gates, before, after, rows, at });
    }
    let outputs = joined(calls, &outputs, 0)?;
    Ok(Run { layer, steps, outputs, states: [hidden, cell] })
}

/// The gradients of a layer.
struct Gradients {
    x: Symbol,
    weights: [Symbol; 2],
    biases: [Symbol; 2],
    states: [Symbol; 2],
}

/// Returns the gradients of a layer: its steps in reverse order.
fn run_backward(
    calls: &mut Calls<'_>,
    run: &Run,
    of_outputs: Option<Symbol>,
    of_states: [Option<Symbol>; 2],
) -> Result<Gradients> {
    let mut states = of_states;
    for (state, of) in states.iter_mut().zip(run.states) {
        *state = Some(state.map_or_else(|| calls.by("mul", of, 0.0), Ok)?);
    }
    let [Some(mut of_hidden), Some(mut of_cell)] = states else {
        return Err(wrong("expected the gradients of both states"));
    };
    let Run { layer, steps, .. } = run;
    let mut sums = vec![[of_hidden; 2]; steps.len()];
    for step in steps.iter().rev() {
        let [first, count] = step.rows;
        let mut grad = first_rows(calls, of_hidden, count)?;
        let of_own_cell = first_rows(calls, of_cell, count)?;
        if let Some(grads) = of_outputs {
            let own = calls.narrow(grads, 0, first, count)?;
            grad = calls.apply("add", &[grad, own])?;
        }
        let (own, again, mut before) = match layer.mode {
            Mode::Lstm => {
                let values = [step.before[1], step.after[1]];
                let grads = [Some(grad), Some(of_own_cell)];
                let [sums, cell] = lstm_backward(calls, grads, &step.gates, values)?;
                of_cell = with_rows(calls, of_cell, cell)?;
                (sums, sums, None)
            }
            Mode::Gru => {
                let made = gru_backward(calls, grad, &step.gates, step.before[0])?;
                (made[0], made[1], Some(made[2]))
            }
            Mode::Tanh => {
                let sums = calls.apply("tanh_backward", &[grad, step.after[0]])?;
                (sums, sums, None)
            }
            Mode::Relu => {
                let zero = Attrs::new().with("threshold", 0);
                let sums = calls.one("threshold_backward", &[grad, step.after[0]], zero)?;
                (sums, sums, None)
            }
        };
        let through = calls.apply("matmul", &[again, layer.weights[1]])?;
        before = Some(match before {
            Some(direct) => calls.apply("add", &[direct, through])?,
            None => through,
        });
        of_hidden = with_rows(calls, of_hidden, before.unwrap_or(through))?;
        sums[step.at] = [own, again];
    }
    let mut order: Vec<&Step> = steps.iter().collect();
    order.sort_by_key(|step| step.at);
    let hiddens: Vec<Symbol> = order.iter().map(|step| step.before[0]).collect();
    let hiddens = joined(calls, &hiddens, 0)?;
    let own: Vec<Symbol> = sums.iter().map(|sums| sums[0]).collect();
    let own = joined(calls, &own, 0)?;
    let again = match layer.mode {
        Mode::Gru => {
            let again: Vec<Symbol> = sums.iter().map(|sums| sums[1]).collect();
            joined(calls, &again, 0)?
        }
        _ => own,
    };
    let x = calls.apply("matmul", &[own, layer.weights[0]])?;
    let (mut weights, mut biases) = (Vec::new(), Vec::new());
    for (sums, values) in [(own, layer.x), (again, hiddens)] {
        let turned = transposed(calls, sums)?;
        weights.push(calls.apply("matmul", &[turned, values])?);
        biases.push(calls.one("sum", &[sums], Attrs::new().with("dim", vec![0i64]))?);
    }
    Ok(Gradients {
        x,
        weights: [weights[0], weights[1]],
        biases: [biases[0], biases[1]],
        states: [of_hidden, of_cell],
    })
}

fn layer(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let x = given.tensor("x")?;
    let &[time, batch, features] = &calls.shape(x)[..] else {
        return Err(wrong("input: expected [time,n,features]"));
    };
    let weights = [given.tensor("weight_ih")?, given.tensor("weight_hh")?];
    let width = calls.shape(weights[1]).last().copied().unwrap_or(0);
    let mut states = [given.tensor("hidden")?, given.tensor("cell")?];
    for state in &mut states {
        *state = calls.reshape(*state, &[batch, width])?;
    }
    let biases = match given.optional("bias_ih") {
        Some(bias) => Some([bias, given.tensor("bias_hh")?]),
        None => None,
    };
    let x = calls.reshape(x, &[time * batch, features])?;
    let (sizes, is_reverse) = (vec![batch; time as usize], given.flag("reverse", false)?);
    let layer = Layer { mode: Mode::Lstm, x, weights, biases, states, sizes, is_reverse };
    let run = run(calls, layer)?;
    let outputs = calls.reshape(run.outputs, &[time, batch, width])?;
    Ok(vec![outputs, run.states[0], run.states[1]])
}

/// Returns the sum of the gates and their biases.
fn biased(calls: &mut Calls<'_>, given: &Given<'_>, gates: &str, bias: &str) -> Result<Symbol> {
    let gates = given.tensor(gates)?;
    match given.optional(bias) {
        Some(bias) => calls.apply("add", &[gates, bias]),
        None => Ok(gates),
    }
}

fn lstm_cell(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let own = biased(calls, given, "input_gates", "input_bias")?;
    let again = biased(calls, given, "hidden_gates", "hidden_bias")?;
    let sums = calls.apply("add", &[own, again])?;
    let (gates, [cell, _, output]) = lstm_step(calls, sums, given.tensor("cx")?)?;
    Ok(vec![output, cell, joined(calls, &gates, -1)?])
}

fn lstm_cell_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let grads = [given.optional("grad_hy"), given.optional("grad_cy")];
    let (before, after) = (given.tensor("cx")?, given.tensor("cy")?);
    let width = calls.shape(before).last().copied().unwrap_or(0);
    let gates = parts(calls, given.tensor("workspace")?, width)?;
    let tangent = calls.apply("tanh", &[after])?;
    let made = lstm_backward(calls, grads, &gates, [before, tangent])?;
    bias_sums(calls, given, made.to_vec(), 1)
}

/// Adds the gradients of the biases to those of the first gates, if there are biases.
fn bias_sums(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    mut made: Vec<Symbol>,
    count: usize,
) -> Result<Vec<Symbol>> {
    if given.flag("has_bias", true)? {
        for k in 0..count {
            made.push(calls.one("sum", &[made[k]], Attrs::new().with("dim", vec![0i64]))?);
        }
    }
    Ok(made)
}

fn gru_cell(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let own = biased(calls, given, "input_gates", "input_bias")?;
    let again = biased(calls, given, "hidden_gates", "hidden_bias")?;
    let before = given.tensor("hx")?;
    let (mut gates, output) = gru_step(calls, [own, again], before)?;
    gates.insert(3, before);
    Ok(vec![output, joined(calls, &gates, -1)?])
}

fn gru_cell_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let grad = given.tensor("grad_hy")?;
    let width = calls.shape(grad).last().copied().unwrap_or(0);
    let mut gates = parts(calls, given.tensor("workspace")?, width)?;
    if gates.len() != 5 {
        return Err(wrong("workspace: expected five times the width of the hidden state"));
    }
    let before = gates.remove(3);
    let made = gru_backward(calls, grad, &gates, before)?;
    bias_sums(calls, given, made.to_vec(), 2)
}

/// A network of layers: their runs, and between them the masks of dropout.
struct Network {
    runs: Vec<Run>,
    /// The masks of the operands of all layers but the first, if these are dropped.
    masks: Vec<Symbol>,
    dropout: f64,
    directions: usize,
    /// The number of times and of sequences, if all are as long.
    dense: Option<[i64; 2]>,
    output: Symbol,
    /// The operands behind the weights.
    others: Vec<Symbol>,
}

/// Exchanges times and sequences, if the op has these first.
fn times_first(calls: &mut Calls<'_>, given: &Given<'_>, x: Symbol) -> Result<Symbol> {
    match given.flag("batch_first", false)? && calls.rank(x) == 3 {
        true => calls.transpose(x, 0, 1),
        false => Ok(x),
    }
}

/// Runs the layers of a network; for its gradient again, with the masks at the end of the operands.
fn network(calls: &mut Calls<'_>, given: &Given<'_>, is_again: bool) -> Result<Network> {
    let mode = Mode::of(given)?;
    let sizes = given.ints("batch_sizes")?.unwrap_or_default();
    let directions = if given.flag("bidirectional", false)? { 2 } else { 1 };
    let layers = usize::try_from(given.int("num_layers")?.unwrap_or(1)).unwrap_or(0);
    let per = if given.flag("has_biases", true)? { 4 } else { 2 };
    let mut operands = given.tensors().iter().copied();
    let mut next = || operands.next().ok_or_else(|| wrong("too few operands"));
    let (x, hidden) = (next()?, next()?);
    let cell = if mode == Mode::Lstm { next()? } else { hidden };
    let mut weights = Vec::new();
    for _ in 0..layers * directions * per {
        weights.push(next()?);
    }
    let mut others: Vec<Symbol> = operands.collect();
    let mut x = times_first(calls, given, x)?;
    let dense = match (&calls.shape(x)[..], &sizes[..]) {
        (&[times, batch, features], []) => {
            x = calls.reshape(x, &[times * batch, features])?;
            Some([times, batch])
        }
        (&[rows, _], sizes) if sizes.iter().sum::<i64>() == rows => None,
        (shape, sizes) => {
            return Err(wrong(format!("input: rows of {sizes:?} sequences, got {shape:?}")));
        }
    };
    let sizes = dense.map_or(sizes, |[times, batch]| vec![batch; times.max(0) as usize]);
    let is_reverse = given.flag("reverse", false)?;
    let dropout = match given.flag("train", false)? {
        true => given.number("dropout", 0.0)?,
        false => 0.0,
    };
    let mut masks = Vec::new();
    if is_again && dropout > 0.0 && layers > 1 {
        let first = others.len().checked_sub(layers - 1);
        masks = others.split_off(first.ok_or_else(|| wrong("weights: expected masks behind"))?);
    }
    let mut runs = Vec::new();
    for at in 0..layers {
        match at.checked_sub(1) {
            Some(before) if dropout > 0.0 && is_again => {
                x = calls.undropped(x, masks[before], dropout)?;
            }
            Some(_) if dropout > 0.0 => {
                // Each layer has an offset of its own.
                let offset = given.int(OFFSET)?.unwrap_or(0) + ((at as i64) << 32);
                let draw = given.passed(&[SEED]).with(OFFSET, offset).with("p", dropout);
                let [kept, mask] = calls.several("native_dropout", &[x], draw)?;
                x = kept;
                masks.push(mask);
            }
            _ => {}
        }
        let mut outputs = Vec::new();
        for direction in 0..directions {
            let number = at * directions + direction;
            let own = &weights[number * per..(number + 1) * per];
            let mut states = [hidden, cell];
            for state in &mut states {
                *state = calls.one("select", &[*state], along(0).with("index", number as i64))?;
            }
            let made = run(
                calls,
                Layer {
                    mode,
                    x,
                    weights: [own[0], own[1]],
                    biases: (per == 4).then(|| [own[2], own[3]]),
                    states,
                    sizes: sizes.clone(),
                    is_reverse: (direction == 1) != is_reverse,
                },
            )?;
            outputs.push(made.outputs);
            runs.push(made);
        }
        x = joined(calls, &outputs, -1)?;
    }
    Ok(Network { runs, masks, dropout, directions, dense, output: x, others })
}

/// Returns rows in the shape of the network's tensors.
fn unflattened(
    calls: &mut Calls<'_>,
    given: &Given<'_>,
    x: Symbol,
    dense: Option<[i64; 2]>,
) -> Result<Symbol> {
    let Some([times, batch]) = dense else { return Ok(x) };
    let x = calls.reshape(x, &[times, batch, -1])?;
    times_first(calls, given, x)
}

fn layers(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let network = network(calls, given, false)?;
    let mut made = vec![unflattened(calls, given, network.output, network.dense)?];
    for k in 0..if Mode::of(given)? == Mode::Lstm { 2 } else { 1 } {
        let states: Vec<Symbol> = network.runs.iter().map(|run| run.states[k]).collect();
        made.push(calls.one("stack", &states, along(0))?);
    }
    made.extend(network.masks);
    Ok(made)
}

fn layers_backward(calls: &mut Calls<'_>, given: &Given<'_>) -> Result<Vec<Symbol>> {
    let network = network(calls, given, true)?;
    let is_lstm = Mode::of(given)? == Mode::Lstm;
    let mut others = network.others.iter().copied();
    let mut grads = [None; 3];
    for (grad, &is_given) in grads.iter_mut().zip(&given.ints("grads")?.unwrap_or(vec![1; 3])) {
        *grad = if is_given != 0 { others.next() } else { None };
    }
    let mut of_outputs = match grads[0] {
        Some(grad) => {
            let grad = times_first(calls, given, grad)?;
            let width = calls.shape(grad).last().copied().unwrap_or(0);
            Some(calls.reshape(grad, &[-1, width])?)
        }
        None => None,
    };
    let (mut of_weights, mut of_states) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (at, runs) in network.runs.chunks(network.directions).enumerate().rev() {
        let mut of_x = Vec::new();
        let mut of_layer = Vec::new();
        for (direction, run) in runs.iter().enumerate() {
            let number = at * network.directions + direction;
            let width = calls.shape(run.outputs)[1];
            let own = match of_outputs {
                Some(grad) => Some(calls.narrow(grad, -1, direction as i64 * width, width)?),
                None => None,
            };
            let mut states = [grads[1], grads[2].filter(|_| is_lstm)];
            for state in states.iter_mut().flatten() {
                *state = calls.one("select", &[*state], along(0).with("index", number as i64))?;
            }
            let made = run_backward(calls, run, own, states)?;
            of_x.push(made.x);
            of_layer.extend(made.weights);
            if run.layer.biases.is_some() {
                of_layer.extend(made.biases);
            }
            for (all, state) in of_states.iter_mut().zip(made.states) {
                all.insert(direction, state);
            }
        }
        let mut grad = of_x[0];
        for other in &of_x[1..] {
            grad = calls.apply("add", &[grad, *other])?;
        }
        if let Some(mask) = at.checked_sub(1).and_then(|before| network.masks.get(before)) {
            grad = calls.undropped(grad, *mask, network.dropout)?;
        }
        of_outputs = Some(grad);
        of_weights.splice(0..0, of_layer);
    }
    let Some(of_x) = of_outputs else { return Err(wrong("num_layers: expected 1 or more")) };
    let mut made = vec![unflattened(calls, given, of_x, network.dense)?];
    for states in of_states.iter().take(1 + usize::from(is_lstm)) {
        made.push(calls.one("stack", states, along(0))?);
    }
    made.extend(of_weights);
    Ok(made)
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
