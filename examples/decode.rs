//! A decoder that writes text token by token, with a cache of keys that grows: a traced function,
//! in which the read that ends a text is a guard. docs/traced-functions.md quotes it.

use millstream::{
    Attrs, DType, DeviceId, Machine, MachineConfig, Result, Tensor, TensorSpec, TracedReport,
};

const WORDS: usize = 32;
const WIDTH: usize = 16;
const END: i64 = 27;
const LONGEST: usize = 48;

/// The parameters of a model of one layer of attention, with arbitrary values.
struct Model {
    machine: Machine,
    embedding: Tensor,
    keys: Tensor,
    queries: Tensor,
    words: Tensor,
}

fn upload<const BYTES: usize, T: Copy>(
    machine: &Machine,
    spec: TensorSpec,
    values: &[T],
    bytes: impl Fn(T) -> [u8; BYTES],
) -> Result<Tensor> {
    let stream = machine.compute(&DeviceId::cpu(0), 0)?;
    machine.upload(&stream, spec, values.iter().flat_map(|v| bytes(*v)).collect())
}

fn integers(machine: &Machine, shape: &[usize], value: i64) -> Result<Tensor> {
    let spec = TensorSpec::contiguous(DType::I64, shape)?;
    upload(machine, spec.clone(), &vec![value; spec.numel()], i64::to_ne_bytes)
}

impl Model {
    fn new(machine: &Machine) -> Result<Model> {
        let parameter = |seed: usize, rows: usize, columns: usize| {
            let value = |k: usize| ((k * 37 + seed * 101) % 64) as f32 / 32.0 - 1.0;
            let values: Vec<f32> = (0..rows * columns).map(value).collect();
            let spec = TensorSpec::contiguous(DType::F32, &[rows, columns])?;
            upload(machine, spec, &values, f32::to_ne_bytes)
        };
        Ok(Model {
            machine: machine.clone(),
            embedding: parameter(1, WORDS, WIDTH)?,
            keys: parameter(2, WIDTH, WIDTH)?,
            queries: parameter(3, WIDTH, WIDTH)?,
            words: parameter(5, WIDTH, WORDS)?,
        })
    }

    fn call(&self, op: &str, inputs: &[&Tensor], attrs: Attrs) -> Result<Tensor> {
        Ok(self.machine.call(op, inputs).attrs(attrs).run()?.remove(0))
    }

    /// Computes the next token from the last one, the cache of keys, and the position, which it
    /// moves on. Returns nothing if the text has ended.
    fn step(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let [token, cache, position] = inputs else { return Ok(Vec::new()) };
        let none = Attrs::new;
        let capacity = cache.spec().shape()[0] as i64;
        let x = self.call("embedding", &[&self.embedding, token], none())?;
        let key = self.call("matmul", &[&x, &self.keys], none())?;
        self.call("scatter_", &[cache, position, &key], none().with("dim", 0))?;
        let query = self.call("matmul", &[&x, &self.queries], none())?;
        let keys = self.call("transpose", &[cache], none().with("dim0", 0).with("dim1", 1))?;
        let scores = self.call("matmul", &[&query, &keys], none())?;
        let all = self.call("arange", &[], none().with("end", capacity))?;
        let range = none().with("dim", 1).with("start", 0).with("length", 1);
        let last = self.call("narrow", &[position], range)?;
        let ahead = self.call("gt", &[&all, &last], none())?;
        let least = none().with("value", f64::NEG_INFINITY);
        let scores = self.call("masked_fill", &[&scores, &ahead], least)?;
        let weights = self.call("_softmax", &[&scores], none().with("dim", 1))?;
        let context = self.call("matmul", &[&weights, cache], none())?;
        let sum = self.call("add", &[&x, &context], none())?;
        let hidden = self.call("tanh", &[&sum], none())?;
        let scores = self.call("matmul", &[&hidden, &self.words], none())?;
        let next = self.call("argmax", &[&scores], none().with("dim", 1))?;
        self.call("add_", &[position], none().with("other", 1))?;
        let is_end = self.call("eq", &[&next], none().with("other", END))?;
        // What happens next depends on this value: a replay goes on only if it has seen it before.
        if is_end.read()? == [1] { Ok(Vec::new()) } else { Ok(vec![next]) }
    }

    /// Writes a text from its first token on. `step` computes one token.
    fn write(
        &self,
        first: i64,
        step: impl Fn(&[&Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<i64>> {
        let mut token = integers(&self.machine, &[1], first)?;
        let position = integers(&self.machine, &[1, WIDTH], 0)?;
        let zeros = Attrs::new().with("shape", vec![4, WIDTH as i64]).with("value", 0.0);
        let mut cache = self.call("full", &[], zeros)?;
        let mut text = vec![first];
        while text.len() < LONGEST {
            if text.len() > cache.spec().shape()[0] {
                // Another shape is another key: the next step is captured anew.
                cache = self.call("cat", &[&cache, &cache], Attrs::new().with("dim", 0))?;
            }
            let Some(next) = step(&[&token, &cache, &position])?.pop() else { break };
            text.push(next.read()?.try_into().map_or(-1, i64::from_ne_bytes));
            token = next;
        }
        Ok(text)
    }
}

type Texts = Vec<Vec<i64>>;

/// Writes texts call by call, and with a traced step. Returns both, and what became of the calls.
pub(crate) fn decode(texts: i64) -> Result<(Texts, Texts, TracedReport)> {
    let machine = Machine::new(MachineConfig::default())?;
    let model = Model::new(&machine)?;
    let own = |inputs: &[&Tensor]| -> Vec<Tensor> { inputs.iter().map(|&t| t.clone()).collect() };
    let plain = |inputs: &[&Tensor]| model.step(&own(inputs));
    let plain = (0..texts).map(|first| model.write(first, plain)).collect::<Result<_>>()?;
    let inner = Model::new(&machine)?;
    let traced = machine.traced(move |inputs, _| inner.step(inputs));
    let step = |inputs: &[&Tensor]| traced.call(inputs).run();
    let replayed = (0..texts).map(|first| model.write(first, step)).collect::<Result<_>>()?;
    Ok((plain, replayed, traced.report()))
}

#[allow(dead_code, reason = "a test runs the rest of this file as a module")]
fn main() -> Result<()> {
    let (_, texts, report) = decode(8)?;
    for text in texts {
        println!("{text:?}");
    }
    println!("{report}");
    Ok(())
}
