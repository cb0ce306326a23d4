//! Tensors lent to other libraries.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_runtime::scope::origin;
use millstream_types::{Access, Result};

use crate::handle::Tensor;

use super::{CPU, Described, Device, Managed, type_of};

/// What an exported tensor needs for as long as it is used.
struct Kept {
    _tensor: Tensor,
    /// The lengths, and the strides in elements.
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// A tensor lent to another library. It keeps the tensor's memory until it is dropped, or until
/// the library that got it calls its deleter.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let lent: DlPack = x.to_dlpack()?;
/// let raw = lent.into_raw(); // for a capsule called `dltensor`
/// # // SAFETY: the structure has just been made, and is used nowhere else.
/// # drop(unsafe { Tensor::from_dlpack(raw, &machine) }?);
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub struct DlPack(NonNull<Managed>);

// SAFETY: what the structure points to is only read, and its context, a `Kept`, is `Send`.
unsafe impl Send for DlPack {}

impl DlPack {
    /// Returns the address of the `DLManagedTensor`, whose deleter the caller has to call.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let raw = x.to_dlpack()?.into_raw(); // whoever gets it calls its deleter
    /// # // SAFETY: the structure has just been made, and is used nowhere else.
    /// # drop(unsafe { Tensor::from_dlpack(raw, &machine) }?);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn into_raw(self) -> *mut c_void {
        let raw = self.0.as_ptr().cast();
        std::mem::forget(self);
        raw
    }

    /// Takes back the structure of [`DlPack::into_raw`], or nothing if `raw` is null.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let raw = x.to_dlpack()?.into_raw();
    /// // SAFETY: nobody has taken the structure.
    /// drop(unsafe { DlPack::from_raw(raw) });
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Safety
    /// `raw` comes from [`DlPack::into_raw`], and its deleter is not called.
    pub unsafe fn from_raw(raw: *mut c_void) -> Option<DlPack> {
        NonNull::new(raw.cast()).map(DlPack)
    }
}

impl Drop for DlPack {
    fn drop(&mut self) {
        // SAFETY: the structure is that of `Tensor::to_dlpack`, and nothing uses it after this.
        unsafe { delete(self.0.as_ptr()) };
    }
}

impl fmt::Debug for DlPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DlPack")
    }
}

/// # Safety
/// `managed` comes from `Tensor::to_dlpack`, and is not used after this.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: both were made by `Box::into_raw`, and the caller gives them up.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

impl Tensor {
    /// Lends the tensor's memory to another library, without a copy. Blocks until the elements are
    /// computed. The machine does not know of the library's uses: make no calls that write the
    /// tensor while it has it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let lent = x.to_dlpack()?;
    /// drop(lent); // the memory is the machine's again
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor lies in no host memory, or the failure that poisoned it.
    #[track_caller]
    pub fn to_dlpack(&self) -> Result<DlPack> {
        let origin = origin::caller();
        let address: Arc<Mutex<usize>> = Arc::default();
        let found = address.clone();
        let accessed = self.access_at(Access::Read, origin.clone(), move |blob| {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = blob.address();
            Ok(())
        })?;
        accessed.wait_at(None, origin)?;
        let layout = &self.spec().layout;
        let ints = |list: &[usize]| list.iter().map(|&v| v as i64).collect::<Vec<i64>>();
        let (shape, strides) = (ints(layout.shape()), ints(layout.strides()));
        let mut kept = Box::new(Kept { _tensor: self.clone(), shape, strides });
        let address = *address.lock().unwrap_or_else(PoisonError::into_inner);
        let tensor = Described {
            data: address as *mut c_void,
            device: Device { kind: CPU, index: 0 },
            rank: self.rank() as i32,
            dtype: type_of(self.dtype()),
            shape: kept.shape.as_mut_ptr(),
            strides: kept.strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let context = Box::into_raw(kept).cast();
        let managed = Box::new(Managed { tensor, context, deleter: Some(delete) });
        Ok(DlPack(NonNull::from(Box::leak(managed))))
    }
}
