//! Tensors that own their memory, for calls of kernels without a machine.

use std::cell::UnsafeCell;
use std::fmt;
use std::rc::Rc;

use half::{bf16, f16};
use millstream_kernels::RawTensor;
use millstream_types::{DType, Layout, TensorSpec};
use smallvec::SmallVec;

use super::num::Num::{self, Float, Int};
use super::num::rounded;

/// The content of memory before the first write.
pub(super) const UNWRITTEN: u8 = 0xA5;

struct Memory(UnsafeCell<Vec<u64>>);

/// A tensor. Its clones and views share its memory.
#[derive(Clone)]
pub struct Tensor {
    memory: Rc<Memory>,
    /// Its dtype, shape, strides and offset.
    pub spec: TensorSpec,
}

impl Tensor {
    /// Returns a tensor of this layout whose memory, gaps included, is unwritten.
    pub fn unwritten(dtype: DType, layout: Layout) -> Tensor {
        let spec = TensorSpec::new(dtype, layout).unwrap();
        let words = spec.span_bytes().div_ceil(8) + 1;
        let memory = vec![u64::from_ne_bytes([UNWRITTEN; 8]); words];
        Tensor { memory: Rc::new(Memory(UnsafeCell::new(memory))), spec }
    }

    /// Returns a tensor in a storage with these bytes.
    pub fn of_bytes(spec: TensorSpec, bytes: &[u8]) -> Tensor {
        assert!(spec.span_bytes() <= bytes.len(), "{spec} in {} bytes", bytes.len());
        let mut words = vec![u64::from_ne_bytes([UNWRITTEN; 8]); bytes.len().div_ceil(8) + 1];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Tensor { memory: Rc::new(Memory(UnsafeCell::new(words))), spec }
    }

    /// Returns the same memory as elements of another dtype.
    pub fn retyped(&self, spec: TensorSpec) -> Tensor {
        assert!(spec.span_bytes() <= self.bytes().len());
        Tensor { memory: self.memory.clone(), spec }
    }

    /// Returns a tensor of this layout with these elements in row-major order, repeated.
    pub fn laid(dtype: DType, layout: Layout, values: &[Num]) -> Tensor {
        let t = Tensor::unwritten(dtype, layout);
        let all = indices(t.shape()).enumerate();
        all.for_each(|(k, index)| t.set(&index, values[k % values.len()]));
        t
    }

    /// Returns a contiguous tensor with these elements in row-major order, repeated.
    pub fn dense(dtype: DType, shape: &[usize], values: &[Num]) -> Tensor {
        Tensor::laid(dtype, Layout::contiguous(shape).unwrap(), values)
    }

    /// As [`dense`](Tensor::dense), with integers.
    pub fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
        let values: Vec<Num> = values.iter().map(|&v| Int(v.into())).collect();
        Tensor::dense(dtype, shape, &values)
    }

    /// As [`dense`](Tensor::dense), with floating-point numbers.
    pub fn floats(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
        let values: Vec<Num> = values.iter().map(|&v| Float(v)).collect();
        Tensor::dense(dtype, shape, &values)
    }

    /// Returns a view with this shape, and with strides and an offset in elements of the storage.
    pub fn view(&self, shape: &[usize], strides: &[usize], offset: usize) -> Tensor {
        let layout = Layout::strided(shape, strides, offset).unwrap();
        self.viewed(layout)
    }

    /// Returns a view of this layout.
    pub fn viewed(&self, layout: Layout) -> Tensor {
        self.viewed_as(layout, self.spec.dtype)
    }

    /// Returns a view of this layout, as elements of a dtype.
    pub fn viewed_as(&self, layout: Layout, dtype: DType) -> Tensor {
        let spec = TensorSpec::new(dtype, layout).unwrap();
        assert!(spec.span_bytes() <= self.bytes().len());
        Tensor { memory: self.memory.clone(), spec }
    }

    /// Returns the shape.
    pub fn shape(&self) -> &[usize] {
        self.spec.shape()
    }

    /// Returns the whole memory as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: on this thread, tests read memory only after kernels have finished.
        let words = unsafe { &*self.memory.0.get() };
        bytemuck::cast_slice(words).to_vec()
    }

    fn at(&self, index: &[usize]) -> *mut u8 {
        let layout = &self.spec.layout;
        let place: usize = index.iter().zip(layout.strides()).map(|(i, s)| i * s).sum();
        // SAFETY: as in `bytes`.
        let base = unsafe { (*self.memory.0.get()).as_mut_ptr() }.cast::<u8>();
        base.wrapping_add((layout.offset() + place) * self.spec.dtype.size())
    }

    /// Returns the element at an index.
    pub fn get(&self, index: &[usize]) -> Num {
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
                DType::U16 => Int((*at.cast::<u16>()).into()),
                DType::U32 => Int((*at.cast::<u32>()).into()),
                DType::U64 => Int((*at.cast::<u64>()).into()),
                DType::U8 | DType::Bool => Int((*at).into()),
                // The real part.
                DType::C64 => Float((*at.cast::<f32>()).into()),
                DType::C128 => Float(*at.cast::<f64>()),
            }
        }
    }

    /// Stores a number, rounded to the dtype, at an index.
    pub fn set(&self, index: &[usize], v: Num) {
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
                (DType::U16, Int(v)) => *at.cast::<u16>() = v as u16,
                (DType::U32, Int(v)) => *at.cast::<u32>() = v as u32,
                (DType::U64, Int(v)) => *at.cast::<u64>() = v as u64,
                (DType::U8 | DType::Bool, Int(v)) => *at = v as u8,
                (DType::C64, Float(v)) => *at.cast::<[f32; 2]>() = [v as f32, 0.0],
                (DType::C128, Float(v)) => *at.cast::<[f64; 2]>() = [v, 0.0],
                other => panic!("{other:?} after rounding"),
            }
        }
    }

    /// Returns the elements in row-major order.
    pub fn values(&self) -> Vec<Num> {
        indices(self.shape()).map(|i| self.get(&i)).collect()
    }

    /// Returns the same elements in new memory with another layout of the same shape.
    pub fn relaid(&self, layout: Layout) -> Tensor {
        let t = Tensor::unwritten(self.spec.dtype, layout);
        indices(self.shape()).for_each(|i| t.set(&i, self.get(&i)));
        t
    }

    /// Checks that no byte outside of the elements is written.
    pub fn check_gaps(&self) {
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

    /// Returns the tensor as kernels get it.
    pub(super) fn raw(&self) -> RawTensor<'_> {
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

/// The index of an element.
pub type Index = SmallVec<[usize; 6]>;

/// Returns all indices of a shape in row-major order.
pub fn indices(shape: &[usize]) -> impl Iterator<Item = Index> {
    let first = Index::from_elem(0, shape.len());
    let next = move |last: &Index| {
        let mut index = Index::from_slice(last);
        // The last dimension that does not end here goes on; those after it begin again.
        let at = (0..shape.len()).rev().find(|&k| last[k] + 1 < shape[k])?;
        index[at] += 1;
        index[at + 1..].fill(0);
        Some(index)
    };
    std::iter::successors((!shape.contains(&0)).then_some(first), next)
}

/// Returns the index into a tensor that an index of its broadcast shape refers to.
pub fn broadcast_index(shape: &[usize], index: &[usize]) -> Index {
    let skipped = index.len() - shape.len();
    shape.iter().zip(&index[skipped..]).map(|(&d, &i)| if d == 1 { 0 } else { i }).collect()
}

/// Returns layouts that an operand may have: dense, column-major, and with gaps and an offset.
pub fn layouts(shape: &[usize]) -> Vec<Layout> {
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
