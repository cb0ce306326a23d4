//! Outputs in host memory: gathered on their device, and copied to the host in one piece.

use millstream_ops::fused::PROGRAM;
use millstream_ops::multi_tensor::{COLUMNS, MULTI_TENSOR, SETS};
use millstream_runtime::scope::origin::at_caller;
use millstream_types::{
    DType, DeviceId, Layout, Result, StreamId, StreamKey, StreamType, TensorSpec,
};

use crate::handle::lowering;

use super::recorder::{RecordedTensor, Recorder};

impl Recorder {
    /// Names tensors as outputs in host memory, pinned where there is some. At its end each launch
    /// gathers those of a device in one block and copies the block: the outputs are then read
    /// without a copy each, and the one copy is a part of the launch's graph. An output of host
    /// memory is named as [`Recorder::output`] does. If one of a device's outputs is poisoned, all
    /// of them are.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # use millstream_types::{DType, TensorSpec};
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let f = machine.record(|r| {
    ///     let x = r.input("x", TensorSpec::contiguous(DType::F32, &[2])?)?;
    ///     let (y, z) = (r.call("relu", &[x]).run()?[0], r.call("sum", &[x]).run()?[0]);
    ///     r.outputs_on_host(&[("y", y), ("z", z)])
    /// })?.compile()?;
    /// let x = Tensor::from_slice(&[-1.0f32, 2.0], 2, &machine)?;
    /// let launched = f.launch().input("x", &x).run()?;
    /// assert_eq!(launched.output("z")?.item::<f32>()?, 1.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is another output of this name, or a tensor was released.
    #[track_caller]
    pub fn outputs_on_host(&mut self, outputs: &[(&str, RecordedTensor)]) -> Result<()> {
        let mut host = Vec::with_capacity(outputs.len());
        let mut devices: Vec<(DeviceId, Vec<usize>)> = Vec::new();
        for (k, (_, tensor)) in outputs.iter().enumerate() {
            let device = self.device(tensor)?.clone();
            host.push(*tensor);
            match devices.iter_mut().find(|(known, _)| *known == device) {
                _ if device.is_host() => {}
                Some((_, own)) => own.push(k),
                None => devices.push((device, vec![k])),
            }
        }
        for (device, own) in devices {
            let tensors: Vec<RecordedTensor> = own.iter().map(|k| outputs[*k].1).collect();
            let copies = at_caller(self.copied_to_host(&device, &tensors))?;
            own.into_iter().zip(copies).for_each(|(k, copy)| host[k] = copy);
        }
        outputs.iter().zip(&host).try_for_each(|((name, _), tensor)| self.output(name, tensor))
    }

    /// Returns dense tensors in host memory with the elements of these tensors of a device.
    fn copied_to_host(
        &mut self,
        device: &DeviceId,
        tensors: &[RecordedTensor],
    ) -> Result<Vec<RecordedTensor>> {
        let mut specs = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            specs.push(self.spec(tensor)?);
        }
        // In descending order of the elements' sizes all of them are aligned.
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|&k| std::cmp::Reverse(specs[k].dtype.size()));
        let mut starts = vec![0; specs.len()];
        let mut bytes = 0;
        for k in order {
            starts[k] = bytes;
            bytes += specs[k].numel() * specs[k].dtype.size();
        }
        let whole = TensorSpec::contiguous(DType::U8, &[bytes])?;
        let computes = self.stream(&StreamKey::compute(device.clone(), 0))?;
        let block = self.empty(&whole, computes)?;
        let mut operands = Vec::with_capacity(2 * tensors.len());
        for ((tensor, spec), start) in tensors.iter().zip(&specs).zip(&starts) {
            if spec.numel() == 0 {
                continue;
            }
            let to = self.view(&block, words(spec, *start)?)?;
            operands.extend([to, self.dense_words(tensor, spec, computes)?]);
        }
        let sets = (operands.len() / 2) as i64;
        if sets > 0 {
            let gather = self.call(MULTI_TENSOR, &operands).attr(PROGRAM, "copy_(%0,%1)");
            gather.attr(COLUMNS, 2).attr(SETS, sets).on(computes)?;
        }
        let staging = self.stream(&lowering::staging_key(self.machine.policies(), device))?;
        let host = self.empty(&whole, staging)?;
        let copies = StreamKey::new(device.clone(), StreamType::DEVICE2HOST, 0);
        let copies = self.stream(&copies)?;
        self.call("copy", &[block]).out(&[host]).on(copies)?;
        self.release(block)?;
        let mut views = Vec::with_capacity(tensors.len());
        for (spec, start) in specs.iter().zip(starts) {
            let dense = Layout::contiguous(spec.shape())?;
            let (strides, offset) = (dense.strides(), start / spec.dtype.size());
            let layout = Layout::strided(spec.shape(), strides, offset)?;
            views.push(self.view(&host, TensorSpec::new(spec.dtype, layout)?)?);
        }
        Ok(views)
    }

    /// Returns a tensor's elements in row-major order without gaps, as words.
    fn dense_words(
        &mut self,
        tensor: &RecordedTensor,
        spec: &TensorSpec,
        stream: StreamId,
    ) -> Result<RecordedTensor> {
        if spec.layout.is_contiguous() {
            return self.view(tensor, words(spec, spec.layout.offset() * spec.dtype.size())?);
        }
        let dense = self.empty(&TensorSpec::contiguous(spec.dtype, spec.shape())?, stream)?;
        self.call("copy", &[*tensor]).out(&[dense]).on(stream)?;
        self.view(&dense, words(spec, 0)?)
    }
}

/// Returns the elements of a dense tensor as words, from a byte on: as few dtypes as alignment
/// allows, since the gathering launches a kernel for each.
fn words(spec: &TensorSpec, start: usize) -> Result<TensorSpec> {
    let word = match spec.dtype.size() {
        1 => DType::U8,
        2 => DType::I16,
        _ => DType::I32,
    };
    let count = spec.numel() * spec.dtype.size() / word.size();
    TensorSpec::new(word, Layout::strided(&[count], &[1], start / word.size())?)
}
