//! A small transformer that learns to continue a periodic text; its parameters go to a safetensors
//! file and come back.

use std::collections::BTreeMap;
use std::path::Path;

use millstream::optimisers::{Adam, State, adamw};
use millstream::options::{LayerNorm, NllLoss, ScaledDotProductAttention};
use millstream::{Generator, Machine, MachineConfig, Result, Tensor};

const LETTERS: usize = 8;
const LENGTH: usize = 12;
const WIDTH: usize = 16;
const HEADS: usize = 2;

/// The parameters, by name.
type Parameters = BTreeMap<String, Tensor>;

fn parameters(machine: &Machine) -> Result<Parameters> {
    let random = Generator::new(1);
    let shapes: [(&str, &[usize]); 9] = [
        ("letters", &[LETTERS, WIDTH]),
        ("positions", &[LENGTH, WIDTH]),
        ("norm1", &[WIDTH]),
        ("qkv", &[3 * WIDTH, WIDTH]),
        ("out", &[WIDTH, WIDTH]),
        ("norm2", &[WIDTH]),
        ("up", &[4 * WIDTH, WIDTH]),
        ("down", &[WIDTH, 4 * WIDTH]),
        ("head", &[LETTERS, WIDTH]),
    ];
    let make = |(name, shape): (&str, &[usize])| {
        let around = if name.starts_with("norm") { 1.0 } else { 0.0 };
        let made = Tensor::normal(around, 0.1, shape, &random, machine)?;
        Ok((name.to_owned(), made.with_grad()?))
    };
    shapes.into_iter().map(make).collect()
}

/// Returns the scores of the next letters, [texts, length, letters].
fn scores(p: &Parameters, texts: &Tensor) -> Result<Tensor> {
    let count = texts.shape()[0];
    let split = |x: &Tensor| x.reshape((count, LENGTH, HEADS, WIDTH / HEADS))?.transpose(1, 2);
    let norm = |x: &Tensor, scale| x.layer_norm(WIDTH, LayerNorm::default().weight(scale));
    let mut x = (p["letters"].embedding(texts)? + &p["positions"])?;
    let qkv = norm(&x, &p["norm1"])?.linear(&p["qkv"], None)?.chunk(3, -1)?;
    let causal = ScaledDotProductAttention::default().causal(true);
    let (q, k, v) = (split(&qkv[0])?, split(&qkv[1])?, split(&qkv[2])?);
    let heads = q.scaled_dot_product_attention(&k, &v, causal)?;
    let joined = heads.transpose(1, 2)?.reshape((count, LENGTH, WIDTH))?;
    x = (&x + joined.linear(&p["out"], None))?;
    let hidden = norm(&x, &p["norm2"])?.linear(&p["up"], None)?.gelu()?;
    x = (&x + hidden.linear(&p["down"], None))?;
    x.linear(&p["head"], None)
}

fn loss(p: &Parameters, texts: &Tensor) -> Result<Tensor> {
    let next = texts.i((.., 1..))?.reshape(-1)?;
    let guesses = scores(p, texts)?.i((.., ..-1))?.reshape((-1, LETTERS as i64))?;
    guesses.cross_entropy(&next, NllLoss::default())
}

/// Returns texts that count up in steps of 1 to 3, modulo the number of letters.
fn texts(machine: &Machine, count: usize, seed: u64) -> Result<Tensor> {
    let steps = Tensor::randint(1..4, (count, 1), seed, machine)?;
    let places = Tensor::arange(0..LENGTH as i64, machine)?;
    (&steps * &places)?.remainder(LETTERS)
}

/// Trains, saves the parameters, loads them, and returns the first loss, the last one, and that of
/// the loaded parameters on other texts.
///
/// # Errors
/// None is expected.
pub(crate) fn train(steps: usize, file: &Path) -> Result<[f32; 3]> {
    let machine = Machine::new(MachineConfig::default())?;
    let (p, mut state) = (parameters(&machine)?, State::default());
    let settings = Adam { lr: 0.01.into(), weight_decay: Some(0.01), ..Adam::default() };
    let mut losses = Vec::new();
    for step in 0..steps {
        let tape = machine.tape();
        p.values().for_each(Tensor::zero_grad);
        let loss = loss(&p, &texts(&machine, 16, step as u64)?)?;
        tape.backward(&loss)?;
        adamw(&p.values().collect::<Vec<_>>(), &mut state, &settings)?;
        losses.push(loss);
    }
    Tensor::save(p.iter().map(|(name, tensor)| (name.as_str(), tensor)), file)?;
    let loaded = Tensor::load(file, &machine)?;
    let test = loss(&loaded, &texts(&machine, 16, 1000)?)?;
    Ok([losses[0].item()?, losses[steps - 1].item()?, test.item()?])
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let file = std::env::temp_dir().join("millstream-transformer.safetensors");
    let [first, last, test] = train(150, &file)?;
    println!("loss: {first:.3} after the first step, {last:.3} after the last");
    println!("of the saved parameters, on other texts: {test:.3}");
    Ok(())
}
