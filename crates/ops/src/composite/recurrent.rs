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

use super::{Args, Composite, several, table};
use crate::formula::{Expr, along, wrong};

table! {
    several("lstm_layer",
        "the outputs of a layer of long short-term memory, its last output, and its last cell",
        LAYER, REVERSE, 3, layer).optional_from(5);
    several("_thnn_fused_lstm_cell",
        "the output and the cell after a step of long short-term memory, and the gates",
        LSTM_CELL, &[], 3, |args| {
        let [own, again] = biased(args);
        let (gates, [cell, _, output]) = lstm_step(own + again, args.tensor("cx"))?;
        Ok(vec![output, cell, args.calls.cat(&gates, -1)])
    })
        .optional_from(3);
    several("_thnn_fused_lstm_cell_backward_impl",
        "the gradients of `_thnn_fused_lstm_cell`: for the gates, the cell before, and a bias",
        LSTM_CELL_GRAD, HAS_BIAS, 3, |args| {
        let grads = ["grad_hy", "grad_cy"].map(|name| args.optional(name));
        let [before, after, gates] = args.tensors(["cx", "cy", "workspace"]);
        let gates = parts(gates, before)?;
        bias_sums(args, lstm_backward(grads, gates, [before, after.tanh()]).to_vec(), 1)
    })
        .optional_from(0);
    several("_thnn_fused_gru_cell",
        "the output after a step of gated recurrent units, and the values that its gradient reads",
        GRU_CELL, &[], 2, |args| {
        let (sums, before) = (biased(args), args.tensor("hx"));
        let ([reset, update, candidate, part], output) = gru_step(sums, before)?;
        Ok(vec![output, args.calls.cat(&[reset, update, candidate, before, part], -1)])
    })
        .optional_from(3);
    several("_thnn_fused_gru_cell_backward",
        "the gradients of `_thnn_fused_gru_cell`: for both gates, the output before, both biases",
        GRU_CELL_GRAD, HAS_BIAS, 5, |args| {
        let [grad, workspace] = args.tensors(["grad_hy", "workspace"]);
        let [reset, update, candidate, before, part] = parts(workspace, grad)?;
        let grads = gru_backward(grad, [reset, update, candidate, part], before);
        bias_sums(args, grads.to_vec(), 2)
    });
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
    fn of(args: Args<'_>) -> Result<Mode> {
        match args.int("mode")? {
            Some(0) => Ok(Mode::Relu),
            Some(1) => Ok(Mode::Tanh),
            Some(2) => Ok(Mode::Lstm),
            Some(3) => Ok(Mode::Gru),
            other => Err(wrong(format!("mode: expected 0 to 3, got {other:?}"))),
        }
    }
}

/// One direction of one layer: its operands.
struct Layer<'a> {
    mode: Mode,
    /// The rows of the first time, of the second, and so on.
    x: Expr<'a>,
    /// The weights of the input and of the hidden state.
    weights: [Expr<'a>; 2],
    biases: Option<[Expr<'a>; 2]>,
    /// The states before the first step, `[n,width]`: output and cell.
    states: [Expr<'a>; 2],
    /// The number of rows of each time.
    sizes: Vec<i64>,
    is_reverse: bool,
}

/// Of an LSTM the gates of input and forgetting, the candidate, the gate of the output; of a GRU
/// the gates of reset and update, the candidate, and the hidden state's part of it.
type Gates<'a> = [Expr<'a>; 4];

/// The values of one step that its gradient reads.
struct Step<'a> {
    /// The gates of an LSTM or a GRU.
    gates: Gates<'a>,
    /// The output and the cell before the step, of its rows.
    before: [Expr<'a>; 2],
    /// The output after the step, and of an LSTM the hyperbolic tangent of the cell.
    after: [Expr<'a>; 2],
    /// The first row of its time, and their number.
    rows: [i64; 2],
    /// The number of its time.
    at: usize,
}

/// A run of a layer.
struct Run<'a> {
    layer: Layer<'a>,
    steps: Vec<Step<'a>>,
    /// The outputs of all rows.
    outputs: Expr<'a>,
    /// The states after the last step.
    states: [Expr<'a>; 2],
}

/// Returns the length of the last dimension.
fn width(x: Expr<'_>) -> Result<i64> {
    Ok(x.shape()?.last().copied().unwrap_or(0))
}

/// Returns the parts of the last dimension, each as wide as a state.
fn parts<'a, const N: usize>(x: Expr<'a>, state: Expr<'a>) -> Result<[Expr<'a>; N]> {
    let (all, width) = (width(x)?, width(state)?);
    if all / width.max(1) != N as i64 {
        return Err(wrong(format!("expected {N} times the width {width} of the state, got {all}")));
    }
    Ok(std::array::from_fn(|at| x.narrow(-1, at as i64 * width, width)))
}

/// Returns the first rows of a state.
fn first_rows(state: Expr<'_>, count: i64) -> Result<Expr<'_>> {
    Ok(if state.shape()?[0] == count { state } else { state.narrow(0, 0, count) })
}

/// Returns a state with other first rows.
fn with_rows<'a>(state: Expr<'a>, rows: Expr<'a>) -> Result<Expr<'a>> {
    let (all, count) = (state.shape()?[0], rows.shape()?[0]);
    Ok(match all == count {
        true => rows,
        false => state.calls.cat(&[rows, state.narrow(0, count, all - count)], 0),
    })
}

/// Adds a bias or a gradient, if there is one.
fn plus<'a>(x: Expr<'a>, other: Option<Expr<'a>>) -> Expr<'a> {
    other.map_or(x, |other| x + other)
}

/// Returns the gates of an LSTM, the cell after the step, its tangent, and the output.
fn lstm_step<'a>(sums: Expr<'a>, cell: Expr<'a>) -> Result<(Gates<'a>, [Expr<'a>; 3])> {
    let [input, forget, candidate, output] = parts(sums, cell)?;
    let (input, forget) = (input.sigmoid(), forget.sigmoid());
    let (candidate, output) = (candidate.tanh(), output.sigmoid());
    let after = forget * cell + input * candidate;
    let tangent = after.tanh();
    Ok(([input, forget, candidate, output], [after, tangent, output * tangent]))
}

/// Returns the gradients of the gates of an LSTM, and of the cell before the step.
fn lstm_backward<'a>(
    [of_output, of_cell]: [Option<Expr<'a>>; 2],
    [input, forget, candidate, output]: Gates<'a>,
    [before, tangent]: [Expr<'a>; 2],
) -> [Expr<'a>; 2] {
    let of_output = of_output.unwrap_or_else(|| tangent * 0.0);
    let cell = (of_output * output).tanh_backward(tangent);
    let cell = of_cell.map_or(cell, |grad| grad + cell);
    let each = [
        (cell * candidate).sigmoid_backward(input),
        (cell * before).sigmoid_backward(forget),
        (cell * input).tanh_backward(candidate),
        (of_output * tangent).sigmoid_backward(output),
    ];
    [cell.calls.cat(&each, -1), cell * forget]
}

/// Returns the gates of a GRU and the output, of the sums of the input and of the hidden state.
fn gru_step<'a>([own, again]: [Expr<'a>; 2], hidden: Expr<'a>) -> Result<(Gates<'a>, Expr<'a>)> {
    let [own_reset, own_update, own_new] = parts(own, hidden)?;
    let [reset, update, new] = parts(again, hidden)?;
    let (reset, update) = ((own_reset + reset).sigmoid(), (own_update + update).sigmoid());
    let candidate = (own_new + reset * new).tanh();
    Ok(([reset, update, candidate, new], candidate + update * (hidden - candidate)))
}

/// Returns the gradients of the sums of a GRU, those of the input and of the hidden state, and of
/// the hidden state before the step.
fn gru_backward<'a>(
    grad: Expr<'a>,
    [reset, update, candidate, part]: Gates<'a>,
    before: Expr<'a>,
) -> [Expr<'a>; 3] {
    let of_update = (grad * (before - candidate)).sigmoid_backward(update);
    let of_before = grad * update;
    let of_candidate = (grad - of_before).tanh_backward(candidate);
    let of_reset = (of_candidate * part).sigmoid_backward(reset);
    let of_part = of_candidate * reset;
    let [own, again] =
        [of_candidate, of_part].map(|last| grad.calls.cat(&[of_reset, of_update, last], -1));
    [own, again, of_before]
}

/// Runs the steps of a layer.
fn run(layer: Layer<'_>) -> Result<Run<'_>> {
    let [of_input, of_hidden] = layer.weights.map(|weight| weight.transpose(-2, -1));
    let [own_bias, bias] = [0, 1].map(|k| layer.biases.map(|biases| biases[k]));
    let from_input = plus(layer.x.matmul(of_input), own_bias);
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
        let own = from_input.narrow(0, rows[0], rows[1]);
        let before = [first_rows(hidden, rows[1])?, first_rows(cell, rows[1])?];
        let again = plus(before[0].matmul(of_hidden), bias);
        let (gates, [new, tangent, output]) = match layer.mode {
            Mode::Lstm => lstm_step(own + again, before[1])?,
            Mode::Gru => {
                let (gates, output) = gru_step([own, again], before[0])?;
                (gates, [output; 3])
            }
            mode => {
                let op = if mode == Mode::Relu { "relu" } else { "tanh" };
                let output = (own + again).apply(op, []);
                ([output; 4], [output; 3])
            }
        };
        outputs[at] = output;
        hidden = with_rows(hidden, output)?;
        if layer.mode == Mode::Lstm {
            cell = with_rows(cell, new)?;
        }
        steps.push(Step { gates, before, after: [output, tangent], rows, at });
    }
    let outputs = layer.x.calls.cat(&outputs, 0);
    Ok(Run { layer, steps, outputs, states: [hidden, cell] })
}

/// The gradients of a layer.
struct Gradients<'a> {
    x: Expr<'a>,
    /// Of both weights, then of both biases, also if the layer has none.
    weights: [Expr<'a>; 4],
    states: [Expr<'a>; 2],
}

/// Returns the gradients of a layer: its steps in reverse order.
fn run_backward<'a>(
    Run { layer, steps, outputs, states }: &Run<'a>,
    of_outputs: Option<Expr<'a>>,
    of_states: [Option<Expr<'a>>; 2],
) -> Result<Gradients<'a>> {
    let [mut of_hidden, mut of_cell] =
        [0, 1].map(|k| of_states[k].unwrap_or_else(|| states[k] * 0.0));
    // By time: the output before, and the gradients of the sums of input and hidden state.
    let mut by_time = vec![[of_hidden; 3]; steps.len()];
    for step in steps.iter().rev() {
        let [first, count] = step.rows;
        let grad = first_rows(of_hidden, count)?;
        let of_own_cell = first_rows(of_cell, count)?;
        let grad = plus(grad, of_outputs.map(|grads| grads.narrow(0, first, count)));
        let ([own, again], direct) = match layer.mode {
            Mode::Lstm => {
                let (grads, values) = ([grad, of_own_cell], [step.before[1], step.after[1]]);
                let [sums, cell] = lstm_backward(grads.map(Some), step.gates, values);
                of_cell = with_rows(of_cell, cell)?;
                ([sums; 2], None)
            }
            Mode::Gru => {
                let [own, again, before] = gru_backward(grad, step.gates, step.before[0]);
                ([own, again], Some(before))
            }
            Mode::Tanh => ([grad.tanh_backward(step.after[0]); 2], None),
            Mode::Relu => {
                let zero = Attrs::new().with("threshold", 0);
                ([grad.with("threshold_backward", step.after[0], zero); 2], None)
            }
        };
        let through = again.matmul(layer.weights[1]);
        let before = direct.map_or(through, |direct| direct + through);
        of_hidden = with_rows(of_hidden, before)?;
        by_time[step.at] = [step.before[0], own, again];
    }
    let all = |k: usize| {
        let each: Vec<Expr<'a>> = by_time.iter().map(|values| values[k]).collect();
        outputs.calls.cat(&each, 0)
    };
    let (hiddens, own) = (all(0), all(1));
    let again = if layer.mode == Mode::Gru { all(2) } else { own };
    let x = own.matmul(layer.weights[0]);
    let [(of_input, own_bias), (of_again, bias)] = [(own, layer.x), (again, hiddens)]
        .map(|(sums, values)| (sums.transpose(-2, -1).matmul(values), sums.sum(&[0], false)));
    let weights = [of_input, of_again, own_bias, bias];
    Ok(Gradients { x, weights, states: [of_hidden, of_cell] })
}

fn layer(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let x = args.tensor("x");
    let [time, batch, features] = x.shape()?[..] else {
        return Err(wrong("input: expected [time,n,features]"));
    };
    let weights = args.tensors(["weight_ih", "weight_hh"]);
    let width = width(weights[1])?;
    let states = args.tensors(["hidden", "cell"]).map(|state| state.reshape(&[batch, width]));
    let biases = args.optional("bias_ih").map(|bias| [bias, args.tensor("bias_hh")]);
    let x = x.reshape(&[time * batch, features]);
    let (sizes, is_reverse) = (vec![batch; time as usize], args.flag("reverse", false)?);
    let run = run(Layer { mode: Mode::Lstm, x, weights, biases, states, sizes, is_reverse })?;
    Ok(vec![run.outputs.reshape(&[time, batch, width]), run.states[0], run.states[1]])
}

/// Returns the sums of the gates and their biases, of the input and of the hidden state.
fn biased(args: Args<'_>) -> [Expr<'_>; 2] {
    [("input_gates", "input_bias"), ("hidden_gates", "hidden_bias")]
        .map(|(gates, bias)| plus(args.tensor(gates), args.optional(bias)))
}

/// Adds the gradients of the biases to those of the first gates, if there are biases.
fn bias_sums<'a>(args: Args<'a>, mut made: Vec<Expr<'a>>, count: usize) -> Result<Vec<Expr<'a>>> {
    if args.flag("has_bias", true)? {
        for k in 0..count {
            made.push(made[k].sum(&[0], false));
        }
    }
    Ok(made)
}

/// A network of layers: their runs, and between them the masks of dropout.
struct Network<'a> {
    runs: Vec<Run<'a>>,
    /// The masks of the operands of all layers but the first, if these are dropped.
    masks: Vec<Expr<'a>>,
    dropout: f64,
    directions: usize,
    /// The number of times and of sequences, if all are as long.
    dense: Option<[i64; 2]>,
    output: Expr<'a>,
    /// The operands behind the weights.
    others: Vec<Expr<'a>>,
}

/// Exchanges times and sequences, if the op has these first.
fn times_first<'a>(args: Args<'a>, x: Expr<'a>) -> Result<Expr<'a>> {
    let exchanges = args.flag("batch_first", false)? && x.rank()? == 3;
    Ok(if exchanges { x.transpose(0, 1) } else { x })
}

/// Runs the layers of a network; for its gradient again, with the masks at the end of the operands.
fn network(args: Args<'_>, is_again: bool) -> Result<Network<'_>> {
    let mode = Mode::of(args)?;
    let sizes = args.ints("batch_sizes")?.unwrap_or_default();
    let directions = if args.flag("bidirectional", false)? { 2 } else { 1 };
    let layers = usize::try_from(args.int("num_layers")?.unwrap_or(1)).unwrap_or(0);
    let per = if args.flag("has_biases", true)? { 4 } else { 2 };
    let mut operands = args.all().into_iter();
    let mut next = || operands.next().ok_or_else(|| wrong("too few operands"));
    let (x, hidden) = (next()?, next()?);
    let cell = if mode == Mode::Lstm { next()? } else { hidden };
    let mut weights = Vec::new();
    for _ in 0..layers * directions * per {
        weights.push(next()?);
    }
    let mut others: Vec<Expr<'_>> = operands.collect();
    let mut x = times_first(args, x)?;
    let dense = match (&x.shape()?[..], &sizes[..]) {
        (&[times, batch, features], []) => {
            x = x.reshape(&[times * batch, features]);
            Some([times, batch])
        }
        (&[rows, _], sizes) if sizes.iter().sum::<i64>() == rows => None,
        (shape, sizes) => {
            return Err(wrong(format!("input: rows of {sizes:?} sequences, got {shape:?}")));
        }
    };
    let sizes = dense.map_or(sizes, |[times, batch]| vec![batch; times.max(0) as usize]);
    let is_reverse = args.flag("reverse", false)?;
    let dropout = match args.flag("train", false)? {
        true => args.number("dropout", 0.0)?,
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
            Some(before) if dropout > 0.0 && is_again => x = x.undropped(masks[before], dropout),
            Some(_) if dropout > 0.0 => {
                // Each layer has an offset of its own.
                let offset = args.int(OFFSET)?.unwrap_or(0) + ((at as i64) << 32);
                let draw = args.passed(&[SEED]).with(OFFSET, offset).with("p", dropout);
                let [kept, mask] = args.calls.several("native_dropout", &[x], draw);
                x = kept;
                masks.push(mask);
            }
            _ => {}
        }
        let mut outputs = Vec::new();
        for direction in 0..directions {
            let number = at * directions + direction;
            let own = &weights[number * per..(number + 1) * per];
            let made = run(Layer {
                mode,
                x,
                weights: [own[0], own[1]],
                biases: (per == 4).then(|| [own[2], own[3]]),
                states: [hidden, cell].map(|state| state.select(0, number as i64)),
                sizes: sizes.clone(),
                is_reverse: (direction == 1) != is_reverse,
            })?;
            outputs.push(made.outputs);
            runs.push(made);
        }
        x = args.calls.cat(&outputs, -1);
    }
    Ok(Network { runs, masks, dropout, directions, dense, output: x, others })
}

/// Returns rows in the shape of the network's tensors.
fn unflattened<'a>(args: Args<'a>, x: Expr<'a>, dense: Option<[i64; 2]>) -> Result<Expr<'a>> {
    match dense {
        Some([times, batch]) => times_first(args, x.reshape(&[times, batch, -1])),
        None => Ok(x),
    }
}

fn layers(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let network = network(args, false)?;
    let mut made = vec![unflattened(args, network.output, network.dense)?];
    for k in 0..if Mode::of(args)? == Mode::Lstm { 2 } else { 1 } {
        let states: Vec<Expr<'_>> = network.runs.iter().map(|run| run.states[k]).collect();
        made.push(args.calls.one("stack", &states, along(0)));
    }
    made.extend(network.masks);
    Ok(made)
}

fn layers_backward(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let network = network(args, true)?;
    let is_lstm = Mode::of(args)? == Mode::Lstm;
    let mut others = network.others.iter().copied();
    let mut grads = [None; 3];
    for (grad, &is_given) in grads.iter_mut().zip(&args.ints("grads")?.unwrap_or(vec![1; 3])) {
        *grad = if is_given != 0 { others.next() } else { None };
    }
    let mut of_outputs = match grads[0] {
        Some(grad) => {
            let grad = times_first(args, grad)?;
            Some(grad.reshape(&[-1, width(grad)?]))
        }
        None => None,
    };
    let (mut of_weights, mut of_states) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (at, runs) in network.runs.chunks(network.directions).enumerate().rev() {
        let mut of_x = Vec::new();
        let mut of_layer = Vec::new();
        for (direction, run) in runs.iter().enumerate() {
            let number = at * network.directions + direction;
            let width = run.outputs.shape()?[1];
            let own = of_outputs.map(|grad| grad.narrow(-1, direction as i64 * width, width));
            let states = [grads[1], grads[2].filter(|_| is_lstm)]
                .map(|state| state.map(|state| state.select(0, number as i64)));
            let made = run_backward(run, own, states)?;
            of_x.push(made.x);
            let per = if run.layer.biases.is_some() { 4 } else { 2 };
            of_layer.extend_from_slice(&made.weights[..per]);
            for (all, state) in of_states.iter_mut().zip(made.states) {
                all.insert(direction, state);
            }
        }
        of_outputs = of_x.into_iter().reduce(|sum, grad| sum + grad);
        if let Some(mask) = at.checked_sub(1).and_then(|before| network.masks.get(before)) {
            of_outputs = of_outputs.map(|grad| grad.undropped(*mask, network.dropout));
        }
        of_weights.splice(0..0, of_layer);
    }
    let Some(of_x) = of_outputs else { return Err(wrong("num_layers: expected 1 or more")) };
    let mut made = vec![unflattened(args, of_x, network.dense)?];
    for states in of_states.iter().take(1 + usize::from(is_lstm)) {
        made.push(args.calls.one("stack", states, along(0)));
    }
    made.extend(of_weights);
    Ok(made)
}

/// Returns the packing of padded sequences: the rows of each time, of the sequences that reach it.
fn packed(args: Args<'_>) -> Result<Vec<Expr<'_>>> {
    let [x, lengths] = args.tensors(["x", "lengths"]);
    let x = if args.flag("batch_first", false)? { x.transpose(0, 1) } else { x };
    let shape = x.shape()?;
    let [_, batch, rest @ ..] = &shape[..] else {
        return Err(wrong("x: expected two dimensions or more"));
    };
    let rows = args.int("rows")?.unwrap_or(0);
    let times = args.int("times")?.unwrap_or(0);
    let x = x.narrow(0, 0, times);
    let reached = lengths.gt(args.calls.range(times, DType::I64).unsqueeze(1));
    let counts = reached.sum(&[1], false);
    // A stable sort puts the rows that count first, in their order.
    let order = reached.reshape(&[-1]).cast(DType::I64);
    let order = order.op("argsort", along(0).with("descending", true)).narrow(0, 0, rows);
    let merged = [&[times * batch], rest].concat();
    Ok(vec![x.reshape(&merged).index_select(0, order), counts])
}
