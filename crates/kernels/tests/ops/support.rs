//! Fixtures: tensors that own their memory, calls of kernels as a machine makes them (schema,
//! signature, outputs, workspace, context), and plain conversions as the reference.

use std::cell::UnsafeCell;
use std::fmt;
use std::rc::Rc;

use half::{bf16, f16};
use millstream_kernels::{KernelCtx, KernelRegistry, RawTensor, Threads};
use millstream_ops::{CallSpec, OutputSpec, Signature};
use millstream_types::{Access, Attrs, DType, Layout, TensorSpec};

/// An element in the reference computation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Num {
    Int(i128),
    Float(f64),
}
pub(crate) use Num::{Float, Int};

impl PartialEq for Num {
    /// NaN equals NaN; zeros of either sign are equal.
    fn eq(&self, other: &Num) -> bool {
        match (*self, *other) {
            (Int(a), Int(b)) => a == b,
            (Float(a), Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => false,
        }
    }
}

/// Returns the value that storing a number in a dtype leaves.
pub(crate) fn rounded(v: Num, dtype: DType) -> Num {
    let to_int = |low: i128, high: i128, bits: u32| match v {
        Int(v) => {
            let low_bits = v.rem_euclid(1 << bits);
            Int(if low_bits > high { low_bits - (1 << bits) } else { low_bits })
        }
        Float(v) if v.is_nan() => Int(0),
        Float(v) if v <= low as f64 => Int(low),
        Float(v) if v >= high as f64 => Int(high),
        Float(v) => Int(v.trunc() as i128),
    };
    let to_f32 = match v {
        Int(v) => v as f32,
        Float(v) => v as f32,
    };
    match dtype {
        DType::F64 => match v {
            Int(v) => Float(v as f64),
            Float(v) => Float(v),
        },
        DType::F32 => Float(f64::from(to_f32)),
        DType::F16 => Float(f16::from_f32(to_f32).to_f64()),
        DType::BF16 => Float(bf16::from_f32(to_f32).to_f64()),
        DType::I64 => to_int(i64::MIN.into(), i64::MAX.into(), 64),
        DType::I32 => to_int(i32::MIN.into(), i32::MAX.into(), 32),
        DType::I16 => to_int(i16::MIN.into(), i16::MAX.into(), 16),
        DType::I8 => to_int(i8::MIN.into(), i8::MAX.into(), 8),
        DType::U8 => to_int(0, 255, 8),
        DType::Bool => match v {
            Int(v) => Int(i128::from(v != 0)),
            Float(v) => Int(i128::from(v != 0.0)),
        },
    }
}

/// The content of memory before the first write.
const UNWRITTEN: u8 = 0xA5;

struct Memory(UnsafeCell<Vec<u64>>);

/// A tensor. Its clones and views share its memory.
#[derive(Clone)]
pub(crate) struct Tensor {
    memory: Rc<Memory>,
    pub(crate) spec: TensorSpec,
}

impl Tensor {
    /// Returns a tensor of this layout whose memory, gaps included, is unwritten.
    pub(crate) fn unwritten(dtype: DType, layout: Layout) -> Tensor {
        let spec = TensorSpec::new(dtype, layout).unwrap();
        let words = spec.span_bytes().div_ceil(8) + 1;
        let memory = vec![u64::from_ne_bytes([UNWRITTEN; 8]); words];
        Tensor { memory: Rc::new(Memory(UnsafeCell::new(memory))), spec }
    }

    /// Returns a tensor in a storage with these bytes.
    pub(crate) fn of_bytes(spec: TensorSpec, bytes: &[u8]) -> Tensor {
        assert!(spec.span_bytes() <= bytes.len(), "{spec} in {} bytes", bytes.len());
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(8) + 8, UNWRITTEN);
        let word = |w: &[u8]| u64::from_ne_bytes(w.try_into().unwrap());
        let words = padded.chunks_exact(8).map(word).collect();
        Tensor { memory: Rc::new(Memory(UnsafeCell::new(words))), spec }
    }

    /// Returns the same memory as elements of another dtype.
    pub(crate) fn retyped(&self, spec: TensorSpec) -> Tensor {
        assert!(spec.span_bytes() <= self.bytes().len());
        Tensor { memory: self.memory.clone(), spec }
    }

    /// Returns a tensor of this layout with these elements in row-major order, repeated.
    pub(crate) fn laid(dtype: DType, layout: Layout, values: &[Num]) -> Tensor {
        let t = Tensor::unwritten(dtype, layout);
        for (k, index) in indices(t.shape()).into_iter().enumerate() {
            t.set(&index, values[k % values.len()]);
        }
        t
    }

    pub(crate) fn dense(dtype: DType, shape: &[usize], values: &[Num]) -> Tensor {
        Tensor::laid(dtype, Layout::contiguous(shape).unwrap(), values)
    }

    pub(crate) fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
        let values: Vec<Num> = values.iter().map(|&v| Int(v.into())).collect();
        Tensor::dense(dtype, shape, &values)
    }

    pub(crate) fn floats(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
        let values: Vec<Num> = values.iter().map(|&v| Float(v)).collect();
        Tensor::dense(dtype, shape, &values)
    }

    pub(crate) fn view(&self, shape: &[usize], strides: &[usize], offset: usize) -> Tensor {
        let layout = Layout::strided(shape, strides, offset).unwrap();
        self.viewed(layout)
    }

    pub(crate) fn viewed(&self, layout: Layout) -> Tensor {
        let spec = TensorSpec::new(self.spec.dtype, layout).unwrap();
        assert!(spec.span_bytes() <= self.bytes().len());
        Tensor { memory: self.memory.clone(), spec }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        self.spec.shape()
    }

    /// Returns the whole memory as bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        // SAFETY: on this thread, tests read memory only after kernels have finished.
        let words = unsafe { &*self.memory.0.get() };
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn at(&self, index: &[usize]) -> *mut u8 {
        let layout = &self.spec.layout;
        let place: usize = index.iter().zip(layout.strides()).map(|(i, s)| i * s).sum();
        // SAFETY: as in `bytes`.
        let base = unsafe { (*self.memory.0.get()).as_mut_ptr() }.cast::<u8>();
        base.wrapping_add((layout.offset() + place) * self.spec.dtype.size())
    }

    pub(crate) fn get(&self, index: &[usize]) -> Num {
        let at = self.at(index);
        // SAFETY: the element lies in the memory, which is aligned for the largest dtype.
        unsafe {
            match self.spec.dtype {
                DType::F32 => Float((*at.cast::<f32>()).into()),
                DType::F64 => Float(*at.cast::<f64>()),
                DType::F16 => Float((*at.cast::<f16>()).to_f64()),
                DType::BF16 => Float((*at.cast::<bf16>()).to_f64()),
                DType::I64 => Int((*at.cast::<i64>()).into()),
                DType::I32 => Int((*at.cast::<i32>()).into()),
                DType::I16 => Int((*at.cast::<i16>()).into()),
                DType::I8 => Int((*at.cast::<i8>()).into()),
                DType::U8 | DType::Bool => Int((*at).into()),
            }
        }
    }

    pub(crate) fn set(&self, index: &[usize], v: Num) {
        let at = self.at(index);
        let v = rounded(v, self.spec.dtype);
        // SAFETY: as in `get`.
        unsafe {
            match (self.spec.dtype, v) {
                (DType::F32, Float(v)) => *at.cast::<f32>() = v as f32,
                (DType::F64, Float(v)) => *at.cast::<f64>() = v,
                (DType::F16, Float(v)) => *at.cast::<f16>() = f16::from_f64(v),
                (DType::BF16, Float(v)) => *at.cast::<bf16>() = bf16::from_f64(v),
                (DType::I64, Int(v)) => *at.cast::<i64>() = v as i64,
                (DType::I32, Int(v)) => *at.cast::<i32>() = v as i32,
                (DType::I16, Int(v)) => *at.cast::<i16>() = v as i16,
                (DType::I8, Int(v)) => *at.cast::<i8>() = v as i8,
                (DType::U8 | DType::Bool, Int(v)) => *at = v as u8,
                other => panic!("{other:?} after rounding"),
            }
        }
    }

    /// Returns the elements in row-major order.
    pub(crate) fn values(&self) -> Vec<Num> {
        indices(self.shape()).iter().map(|i| self.get(i)).collect()
    }

    /// Returns the same elements in new memory with another layout of the same shape.
    pub(crate) fn relaid(&self, layout: Layout) -> Tensor {
        let t = Tensor::unwritten(self.spec.dtype, layout);
        indices(self.shape()).iter().for_each(|i| t.set(i, self.get(i)));
        t
    }

    /// Checks that no byte outside of the elements is written.
    pub(crate) fn check_gaps(&self) {
        let blank = Tensor::unwritten(self.spec.dtype, self.spec.layout.clone());
        let size = self.spec.dtype.size();
        let mut mine = self.bytes();
        for index in indices(self.shape()) {
            let start = self.at(&index).addr() - self.at_start();
            mine[start..start + size].fill(UNWRITTEN);
        }
        assert!(mine == blank.bytes(), "written outside of {}", self.spec);
    }

    fn at_start(&self) -> usize {
        // SAFETY: as in `bytes`.
        unsafe { (*self.memory.0.get()).as_ptr().addr() }
    }

    fn raw(&self) -> RawTensor<'_> {
        let data = self.at(&vec![0; self.shape().len()]);
        let layout = &self.spec.layout;
        RawTensor { data, dtype: self.spec.dtype, shape: layout.shape(), strides: layout.strides() }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.spec, self.values())
    }
}

/// Returns all indices of a shape in row-major order.
pub(crate) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |all, &length| {
        let longer = |index: Vec<usize>| {
            (0..length).map(move |i| index.iter().copied().chain([i]).collect::<Vec<_>>())
        };
        all.into_iter().flat_map(longer).collect()
    })
}

/// Returns the index into a tensor that an index of its broadcast shape refers to.
pub(crate) fn broadcast_index(shape: &[usize], index: &[usize]) -> Vec<usize> {
    let skipped = index.len() - shape.len();
    shape.iter().zip(&index[skipped..]).map(|(&d, &i)| if d == 1 { 0 } else { i }).collect()
}

/// Returns layouts that an operand may have: dense, column-major, and with gaps and an offset.
pub(crate) fn layouts(shape: &[usize]) -> Vec<Layout> {
    let dense = Layout::contiguous(shape).unwrap();
    let mut backwards = vec![1; shape.len()];
    for k in 1..shape.len() {
        backwards[k] = backwards[k - 1] * shape[k - 1].max(1);
    }
    let gaps: Vec<usize> = dense.strides().iter().map(|s| s * 2).collect();
    vec![
        Layout::strided(shape, &backwards, 0).unwrap(),
        Layout::strided(shape, &gaps, 3).unwrap(),
        dense,
    ]
}

pub(crate) fn signature(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Signature, String> {
    let ops = millstream_ops::standard();
    let op = ops.get(ops.id(op).unwrap()).unwrap();
    let specs: Vec<TensorSpec> = inputs.iter().map(|t| t.spec.clone()).collect();
    op.check(CallSpec { inputs: &specs, attrs }).map_err(|e| e.to_string())
}

/// Returns a pool of kernel threads; `None` for zero threads.
pub(crate) fn thread_pool(threads: usize) -> Option<Threads> {
    (threads > 0).then(|| Threads::new(threads, std::sync::Arc::new(|| ())))
}

/// Runs the op's kernel on these operands, outputs included, and expects success.
pub(crate) fn launch(
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) {
    try_launch(op, operands, attrs, workspace, threads).expect("a run without errors");
}

/// As [`launch`], for kernels that may fail on their data.
pub(crate) fn try_launch(
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Result<(), String> {
    launch_from(&millstream_kernels::standard(), op, operands, attrs, workspace, threads)
}

/// As [`try_launch`], with kernels of the caller.
pub(crate) fn launch_from(
    kernels: &KernelRegistry,
    op: &str,
    operands: &[&Tensor],
    attrs: &Attrs,
    workspace: usize,
    threads: usize,
) -> Result<(), String> {
    let raw: Vec<RawTensor<'_>> = operands.iter().map(|t| t.raw()).collect();
    // One byte further than aligned: the contract promises no alignment of the workspace.
    let mut scratch = vec![UNWRITTEN; workspace + 1];
    let pool = thread_pool(threads);
    let operands: &RawOperands<'_> = &RawOperands(&raw);
    // SAFETY: the tensors own their memory, and only this call uses it now.
    let ctx = unsafe {
        let workspace = (scratch.as_mut_ptr().add(1), workspace);
        KernelCtx::new(operands, attrs, workspace, pool.as_ref(), &())
    };
    crate::run(kernels, op, &ctx).map_err(|e| format!("{e:#}"))
}

struct RawOperands<'a>(&'a [RawTensor<'a>]);

impl millstream_kernels::Operands for RawOperands<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> RawTensor<'_> {
        self.0[index]
    }
}

/// Calls an op as a machine does, and returns its results.
pub(crate) fn call(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Result<Vec<Tensor>, String> {
    call_on(op, inputs, attrs, 0)
}

/// As [`call`], on a pool of this many threads.
pub(crate) fn call_on(
    op: &str,
    inputs: &[&Tensor],
    attrs: &Attrs,
    threads: usize,
) -> Result<Vec<Tensor>, String> {
    let signature = signature(op, inputs, attrs)?;
    let before: Vec<Vec<u8>> = inputs.iter().map(|t| t.bytes()).collect();
    let mut operands: Vec<Tensor> = inputs.iter().map(|&t| t.clone()).collect();
    let fresh = |spec: &TensorSpec| Tensor::unwritten(spec.dtype, spec.layout.clone());
    for output in &signature.outputs {
        match output {
            OutputSpec::Fresh(spec) => operands.push(fresh(spec)),
            OutputSpec::Bounded(spec) => {
                operands.push(fresh(spec));
                operands.push(fresh(&TensorSpec::contiguous(DType::I64, &[]).unwrap()));
            }
            OutputSpec::View { .. } | OutputSpec::Same(_) => {}
        }
    }
    if !signature.is_view() {
        let all: Vec<&Tensor> = operands.iter().collect();
        try_launch(op, &all, attrs, signature.workspace, threads)?;
    }
    if signature.accesses.iter().all(|a| *a == Access::Read) {
        for (input, before) in inputs.iter().zip(&before) {
            assert!(input.bytes() == *before, "{op} wrote its input {}", input.spec);
        }
    }
    let mut next = inputs.len();
    let mut results = Vec::new();
    for output in &signature.outputs {
        match output {
            OutputSpec::Fresh(_) => {
                operands[next].check_gaps();
                results.push(operands[next].clone());
                next += 1;
            }
            OutputSpec::Bounded(spec) => {
                let Int(count) = operands[next + 1].get(&[]) else { panic!("a count") };
                let mut shape = spec.shape().to_vec();
                shape[0] = count as usize;
                results.push(operands[next].viewed(Layout::contiguous(&shape).unwrap()));
                next += 2;
            }
            OutputSpec::View { of, layout } => results.push(operands[*of].viewed(layout.clone())),
            OutputSpec::Same(of) => results.push(operands[*of].clone()),
        }
    }
    Ok(results)
}

/// Returns the only result of a call that must succeed.
pub(crate) fn one(op: &str, inputs: &[&Tensor], attrs: &Attrs) -> Tensor {
    call(op, inputs, attrs).unwrap().remove(0)
}

/// Runs an op with one fresh result and stores it to an output of the given layout.
pub(crate) fn one_into(op: &str, inputs: &[&Tensor], attrs: &Attrs, layout: Layout) -> Tensor {
    let signature = signature(op, inputs, attrs).unwrap();
    let [OutputSpec::Fresh(spec)] = signature.outputs.as_slice() else { panic!("one output") };
    let output = Tensor::unwritten(spec.dtype, layout);
    let mut all = inputs.to_vec();
    all.push(&output);
    launch(op, &all, attrs, signature.workspace, 0);
    output.check_gaps();
    output
}

/// Returns values of a dtype, including all special ones.
pub(crate) fn samples(dtype: DType) -> Vec<Num> {
    let floats = [
        0.0,
        1.0,
        -1.5,
        f64::NAN,
        2.25,
        f64::INFINITY,
        -0.0,
        300.7,
        -70000.25,
        f64::NEG_INFINITY,
        1e-3,
        65504.0,
        1e30,
    ];
    let ints = [0, 1, -1, 7, i128::from(i64::MAX), i128::from(i64::MIN), 100, -100, 255, 1 << 24];
    match dtype {
        d if d.is_float() => floats.iter().map(|&v| rounded(Float(v), d)).collect(),
        d => ints.iter().map(|&v| rounded(Int(v), d)).collect(),
    }
}
