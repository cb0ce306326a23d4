//! A stream policy, an op and its kernel, defined outside of Millstream's own crates.
//!
//! The policy gives compute streams from number 7 on a worker of their own, separate from the
//! host's other streams, and notes the streams that it creates. The op squares its operand.

use std::sync::{Arc, Mutex};

use millstream::ep::{Device, EventPool, Notify, Registry};
use millstream::kernels::{KernelCtx, Operands, RawTensor};
use millstream::ops::{ArgDoc, CallSpec, Op, Signature};
use millstream::stream_policy::{StreamParts, StreamPolicy, WorkerGroup};
use millstream::{
    DType, DeviceId, Machine, MachineConfig, Result, StreamKey, StreamType, TensorSpec,
};

/// The op `square(x)`: x · x for every element.
struct Square;

impl Op for Square {
    fn name(&self) -> &str {
        "square"
    }

    fn summary(&self) -> &str {
        "x * x"
    }

    fn inputs(&self) -> &[ArgDoc] {
        const { &[ArgDoc::new("x", "any shape")] }
    }

    fn signature(&self, call: CallSpec<'_>) -> Result<Signature> {
        let x = &call.inputs[0];
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?))
    }
}

/// The operands of `mul`: x, x and the result.
struct SquareOperands<'a> {
    x: RawTensor<'a>,
    out: RawTensor<'a>,
}

impl Operands for SquareOperands<'_> {
    fn len(&self) -> usize {
        3
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        if index < 2 { self.x } else { self.out }
    }
}

/// Returns the kernel: the standard kernel of `mul`, with the operand given twice.
fn square_kernel() -> impl Fn(&KernelCtx<'_>) -> anyhow::Result<()> + Send + Sync {
    let standard = millstream::kernels::standard();
    let mul = standard.get("cpu", "mul").cloned();
    move |ctx| {
        let mul = mul.as_ref().ok_or_else(|| anyhow::anyhow!("no kernel of mul"))?;
        let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
        let operands = SquareOperands { x, out };
        // SAFETY: the three are the call's own operands, used within their accesses: x is
        // read, which is allowed twice, and out is written.
        let twice =
            unsafe { KernelCtx::new(&operands, ctx.attrs(), ctx.workspace(), None, ctx.native()) };
        mul.run(&twice)
    }
}

/// A policy that puts compute streams from number 7 on onto a worker of their own.
#[derive(Default)]
struct OwnWorker {
    created: Mutex<Vec<String>>,
}

impl StreamPolicy for OwnWorker {
    fn stream_type(&self) -> StreamType {
        StreamType::COMPUTE
    }

    fn serves(&self, device: &DeviceId) -> bool {
        device.kind() == "cpu"
    }

    fn worker_group(&self, key: &StreamKey) -> WorkerGroup {
        if key.index >= 7 { WorkerGroup::Dedicated(StreamType::COMPUTE) } else { WorkerGroup::Host }
    }

    fn create(
        &self,
        key: &StreamKey,
        priority: i32,
        devices: &Registry,
        _events: &dyn Fn(&Arc<dyn Device>) -> Arc<EventPool>,
        notify: Notify,
    ) -> Result<StreamParts> {
        if let (7.., Ok(mut created)) = (key.index, self.created.lock()) {
            created.push(key.to_string());
        }
        let device = devices.device(&key.device)?;
        let stream = device.create_stream_with_priority(priority, notify)?;
        // The host's commands complete at once, so the stream needs no events.
        Ok(StreamParts { device, stream, events: None })
    }
}

/// The results of the example.
pub(crate) struct Results {
    /// The squares.
    pub(crate) result: Vec<f32>,
    /// The streams that the policy created on the worker of its own.
    pub(crate) named: Vec<String>,
    /// The number of workers.
    pub(crate) workers: usize,
}

/// Registers policy, op and kernel, and uses them.
///
/// # Errors
/// None is expected.
pub(crate) fn run() -> Result<Results> {
    let policy = Arc::new(OwnWorker::default());
    let mut config = MachineConfig::default().policies(vec![policy.clone()]);
    config.ops.register(Arc::new(Square));
    config.kernels.register("cpu", "square", Arc::new(square_kernel()));
    let machine = Machine::new(config)?;
    let (host, separate) =
        (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cpu(0), 7)?);
    let data = [1.0f32, 2.0, 3.0].map(f32::to_ne_bytes).concat();
    let x = machine.upload(&host, TensorSpec::contiguous(DType::F32, &[3])?, data)?;
    let y = machine.call("square", &[&x]).on(&separate)?.remove(0);
    let bytes = y.read()?;
    let result =
        bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect();
    let named = policy.created.lock().map(|created| created.clone()).unwrap_or_default();
    Ok(Results { result, named, workers: machine.worker_threads()? })
}

fn main() -> Result<()> {
    let results = run()?;
    println!("squares: {:?}", results.result);
    println!("created by the policy: {:?}; workers: {}", results.named, results.workers);
    Ok(())
}
