//! Tensors taken from other libraries.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_instructions::Outcome;
use millstream_runtime::engine::Engine;
use millstream_runtime::scope::origin;
use millstream_runtime::tables::loans::Loan;
use millstream_types::{
    DType, DeviceId, Layout, Origin, Result, StreamKey, StreamType, TensorSpec,
};

use crate::handle::request::{self, Request, Verb};
use crate::handle::{Stream, Tensor};
use crate::tensor::Place;

use super::{CPU, Described, Managed, Type, dtype_of, invalid};

/// The numbers of pinned host memory, CUDA's and ROCm's.
const PINNED: [i32; 2] = [3, 11];

/// The version that a consumer has to know: the major one.
const VERSION: u32 = 1;

/// The flag of memory that must not be written.
const READ_ONLY: u64 = 1;

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Described,
}

/// Returns the alignment in bytes that kernels expect of an element: that of its parts.
const fn alignment(dtype: DType) -> usize {
    if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() }
}

impl Tensor {
    /// Returns another library's tensor in host memory, without a copy: the machine computes in
    /// the library's memory, and its writes can be seen there. The deleter is called once, when the
    /// last tensor in that memory has been dropped and all its uses have completed; as host
    /// functions are, perhaps on another thread. It must not use the machine. If tensors are never
    /// dropped, or the machine is shut down before they are, it is called when the machine ends.
    ///
    /// The elements are copied, and the deleter called at once or as soon as they are, if the
    /// place has other memory than the host's, a stride is negative, or the address does not fit
    /// the dtype (as a multiple of 8 for i64).
    ///
    /// To the machine each call takes new memory. Take the same memory once, and make views of it:
    /// the order of uses of two tensors in the same memory is not kept.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let raw = x.to_dlpack()?.into_raw(); // as another library would
    /// // SAFETY: the structure is used nowhere else, and x is left alone.
    /// let y = unsafe { Tensor::from_dlpack(raw, &machine) }?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Safety
    /// `managed` is the address of a `DLManagedTensor` that nothing else uses after this. Until its
    /// deleter is called, its memory is valid and nothing else writes it; nor reads it, while calls
    /// of the machine that write the tensor are pending. The deleter may be called on any thread.
    ///
    /// # Errors
    /// The tensor lies in other memory, has a dtype that Millstream lacks, or memory is used up for
    /// a copy. The deleter is called in any case.
    #[track_caller]
    pub unsafe fn from_dlpack(managed: *mut c_void, place: impl Place) -> Result<Tensor> {
        let origin = origin::caller();
        let owner = Owner::Unversioned(managed.cast());
        // SAFETY: the caller's promise. The owner keeps the structure.
        let tensor = unsafe { &(*managed.cast::<Managed>()).tensor };
        // SAFETY: the caller's promise.
        unsafe { take(tensor, true, Box::new(owner), &place, &origin) }.map_err(|e| e.at(&origin))
    }

    /// Returns another library's tensor as [`Tensor::from_dlpack`] does. Memory that is marked as
    /// read-only is copied, since any tensor of a machine may be written.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # use std::ffi::c_void;
    /// /// Takes the content of a capsule called `dltensor_versioned`.
    /// ///
    /// /// # Safety
    /// /// As `Tensor::from_dlpack_versioned`.
    /// unsafe fn take(content: *mut c_void, m: &Machine) -> millstream_types::Result<Tensor> {
    ///     // SAFETY: the caller's promise.
    ///     unsafe { Tensor::from_dlpack_versioned(content, m) }
    /// }
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Safety
    /// As [`Tensor::from_dlpack`], for the address of a `DLManagedTensorVersioned`.
    ///
    /// # Errors
    /// The structure is of another major version than 1; or as [`Tensor::from_dlpack`].
    #[track_caller]
    pub unsafe fn from_dlpack_versioned(managed: *mut c_void, place: impl Place) -> Result<Tensor> {
        let origin = origin::caller();
        let managed = managed.cast::<Versioned>();
        let owner = Owner::Versioned(managed);
        // SAFETY: the caller's promise. Of all versions the fields up to the flags are the same.
        let (major, minor, flags) =
            unsafe { ((*managed).major, (*managed).minor, (*managed).flags) };
        if major != VERSION {
            let message = format!("it has version {major}.{minor} of DLPack; expected {VERSION}");
            return Err(invalid(message).at(&origin));
        }
        // SAFETY: the caller's promise. The owner keeps the structure.
        let tensor = unsafe { &(*managed).tensor };
        let writable = flags & READ_ONLY == 0;
        // SAFETY: the caller's promise.
        let taken = unsafe { take(tensor, writable, Box::new(owner), &place, &origin) };
        taken.map_err(|e| e.at(&origin))
    }
}

/// Another library's structure. Dropping it calls the deleter.
enum Owner {
    Unversioned(*mut Managed),
    Versioned(*mut Versioned),
}

// SAFETY: the promise of `Tensor::from_dlpack`: the deleter may be called on any thread.
unsafe impl Send for Owner {}
// SAFETY: a shared reference gives no access to anything.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the promise of `Tensor::from_dlpack`, for both: the structure is valid until its
        // deleter is called, and nothing uses it after this.
        unsafe {
            match *self {
                Owner::Unversioned(managed) => {
                    (*managed).deleter.into_iter().for_each(|delete| delete(managed));
                }
                Owner::Versioned(managed) => {
                    (*managed).deleter.into_iter().for_each(|delete| delete(managed));
                }
            }
        }
    }
}

/// The elements of another library's tensor.
struct Elements {
    /// The address of the first.
    first: *mut u8,
    dtype: DType,
    shape: Vec<usize>,
    /// In elements.
    strides: Vec<i64>,
}

impl Elements {
    /// # Safety
    /// The structure is valid.
    ///
    /// # Errors
    /// As [`Tensor::from_dlpack`].
    unsafe fn of(tensor: &Described) -> Result<Elements> {
        let Type { code, bits, lanes } = tensor.dtype;
        let dtype = dtype_of(tensor.dtype).ok_or_else(|| {
            invalid(format!("no dtype has code {code}, {bits} bits and {lanes} lanes"))
        })?;
        if tensor.device.kind != CPU && !PINNED.contains(&tensor.device.kind) {
            let kind = tensor.device.kind;
            return Err(invalid(format!(
                "it lies in memory of kind {kind}, not in host memory; copy it there first"
            )));
        }
        let rank = usize::try_from(tensor.rank).map_err(|_| invalid("a negative rank"))?;
        let read = |list: *const i64| -> Vec<i64> {
            // SAFETY: the caller's promise: the structure lists `rank` numbers.
            (0..rank).map(|k| unsafe { list.add(k).read() }).collect()
        };
        let lengths = read(tensor.shape).into_iter().map(usize::try_from);
        let shape: Vec<usize> = lengths
            .collect::<std::result::Result<_, _>>()
            .map_err(|_| invalid("a negative length"))?;
        let strides = match tensor.strides.is_null() {
            true => Layout::contiguous(&shape)?.strides().iter().map(|&s| s as i64).collect(),
            false => read(tensor.strides),
        };
        let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
        if first.is_null() && !shape.contains(&0) {
            return Err(invalid("its elements have no address"));
        }
        Ok(Elements { first, dtype, shape, strides })
    }

    /// Returns dtype and layout of the elements where they are; none if kernels cannot use them
    /// there, or there are none.
    fn in_place(&self) -> Result<Option<TensorSpec>> {
        let strides: std::result::Result<Vec<usize>, _> =
            self.strides.iter().map(|&stride| usize::try_from(stride)).collect();
        let fits = self.first.addr().is_multiple_of(alignment(self.dtype));
        match strides {
            Ok(strides) if fits && !self.shape.contains(&0) => {
                let layout = Layout::strided(&self.shape, &strides, 0)?;
                TensorSpec::new(self.dtype, layout).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns a copy of the elements, in row-major order.
    ///
    /// # Safety
    /// The memory holds the elements at their strides, and is not written meanwhile.
    unsafe fn copied(&self, dense: &TensorSpec) -> Result<Vec<u8>> {
        let size = self.dtype.size();
        let mut bytes = Vec::new();
        let wanted = dense.span_bytes();
        bytes
            .try_reserve_exact(wanted)
            .map_err(|_| invalid(format!("there is no memory to copy its {wanted} bytes to")))?;
        for number in 0..dense.numel() {
            let (mut at, mut rest) = (0, number);
            for (&length, &stride) in self.shape.iter().zip(&self.strides).rev() {
                at += (rest % length) as i64 * stride;
                rest /= length;
            }
            let element = self.first.wrapping_offset(at as isize * size as isize);
            // SAFETY: the caller's promise.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(element, size) });
        }
        Ok(bytes)
    }
}

/// Returns a tensor in another library's memory, or with a copy of its elements.
///
/// # Safety
/// As [`Tensor::from_dlpack`]. `owner` keeps the memory that `tensor` describes.
unsafe fn take(
    tensor: &Described,
    writable: bool,
    owner: Loan,
    place: &impl Place,
    origin: &Origin,
) -> Result<Tensor> {
    // SAFETY: the caller's promise.
    let elements = unsafe { Elements::of(tensor)? };
    let (machine, stream) = (place.machine(), place.stream()?);
    let Some(spec) = elements.in_place()?.filter(|_| writable) else {
        let dense = TensorSpec::contiguous(elements.dtype, &elements.shape)?;
        // SAFETY: the caller's promise.
        let bytes = unsafe { elements.copied(&dense)? };
        drop(owner);
        return machine.upload_at(&stream, dense, bytes, origin.clone());
    };
    request::submit(Request::new(Verb::Import { machine }, origin), |_| {
        let StreamKey { device, ty, .. } = stream.key();
        let is_here = device.kind() == "cpu" && *ty != StreamType::PINNED_COMPUTE;
        if is_here {
            return lend(&stream, spec, elements.first, owner, origin);
        }
        let host = machine.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
        let lent = lend(&host, spec, elements.first, owner, origin)?;
        crate::with_origin(origin, || lent.copy_to(&stream))
    })
}

/// Makes a tensor in host memory of another owner, which `loan` keeps.
fn lend(
    stream: &Stream,
    spec: TensorSpec,
    first: *mut u8,
    loan: Loan,
    origin: &Origin,
) -> Result<Tensor> {
    let machine = &stream.machine;
    let base = NonNull::new(first).ok_or_else(|| invalid("its elements have no address"))?;
    let mut loan = Some(loan);
    let made = machine.shared.emit(origin, |e| {
        e.open(stream.id)?;
        let Engine { builder, router, .. } = &mut *e;
        let bytes = spec.span_bytes() as u64;
        let tensor = builder.import(router, spec.clone(), bytes, &DeviceId::cpu(0))?;
        if let Some(loan) = loan.take() {
            router.publish_import(tensor.id, &Arc::new(spec.clone()), base, loan);
        }
        if router.recorder.is_some() {
            let external = builder.external("", tensor)?;
            router.record_import(external);
        }
        e.made(tensor).map(Outcome::Done)
    })?;
    Ok(machine.tensor(made, stream, origin))
}
