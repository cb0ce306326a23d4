//! What a program learns of a tensor: its shape, its place, its elements.

use std::borrow::Cow;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_runtime::scope::origin;
use millstream_types::{Access, DType, Element, Error, Result};

use crate::handle::{Stream, Tensor, stream_of};

impl Tensor {
    /// Returns the lengths of the dimensions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.spec().shape()
    }

    /// Returns the type of the elements.
    ///
    /// ```
    /// # use millstream_types::DType;
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.dtype(), DType::F32);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        self.spec().dtype
    }

    /// Returns the number of dimensions.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.rank(), 2);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.shape().len()
    }

    /// Returns the number of elements.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.numel(), 4);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    pub fn numel(&self) -> usize {
        self.spec().numel()
    }

    /// Returns the stream of calls whose first operand is this tensor: that of the innermost
    /// [`with_stream`](crate::with_stream) scope on its device, or else the stream that made it.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.stream()?.key().to_string(), "cpu:0 compute 0");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor was released.
    pub fn stream(&self) -> Result<Stream> {
        stream_of(self).map(Cow::into_owned)
    }

    /// Returns an error unless the elements are of type `T`.
    fn check_element<T: Element>(&self) -> Result<()> {
        if self.dtype() == T::DTYPE {
            return Ok(());
        }
        let (own, wanted) = (self.dtype(), T::DTYPE);
        let message = format!(
            "the elements of {} are {own}, not {wanted}; read them as {own}, or convert them first \
             with `cast(DType::{wanted:?})`",
            self.spec().brief()
        );
        Err(Error::Invalid { what: "dtype", message })
    }

    /// Returns the elements, in row-major order. Blocks until they are computed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    /// assert!(x.to_vec::<f64>().is_err()); // the elements are f32
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The elements are of another type, the failure that poisoned the tensor, or it was released.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let origin = origin::caller();
        self.check_element::<T>().map_err(|e| e.at(&origin))?;
        Ok(T::from_bytes(&self.read_at(None, origin)?))
    }

    /// Returns the only element. Blocks until it is computed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.sum(..)?.item::<f32>()?, 10.0);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is not exactly one element; or as [`Tensor::to_vec`].
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let origin = origin::caller();
        let elements = if self.numel() == 1 {
            self.check_element::<T>().map_err(|e| e.at(&origin))?;
            T::from_bytes(&self.read_at(None, origin.clone())?)
        } else {
            Vec::new()
        };
        elements.first().copied().ok_or_else(|| {
            let message = format!("expected one element, got {}", self.spec().brief());
            Error::Invalid { what: "item", message }.at(&origin)
        })
    }

    /// Returns the elements, in row-major order, as a future. They are those of the moment of this
    /// call, whatever is written to the tensor later.
    ///
    /// ```
    /// # fn main() -> millstream_types::Result<()> {
    /// # use std::future::Future;
    /// # use std::task::{Context, Poll, Waker};
    /// use millstream_vm::{Machine, MachineConfig, Tensor};
    ///
    /// let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::arange(0..3, &machine)?;
    /// let elements = x.to_vec_async::<i64>(); // `.await` it
    /// # let mut elements = std::pin::pin!(elements);
    /// # let elements = loop {
    /// #     let context = &mut Context::from_waker(Waker::noop());
    /// #     if let Poll::Ready(done) = elements.as_mut().poll(context) {
    /// #         break done?;
    /// #     }
    /// #     std::thread::yield_now();
    /// # };
    /// assert_eq!(elements, [0, 1, 2]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_vec_async<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + Send + use<T> {
        let origin = origin::caller();
        let bytes: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
        let written = bytes.clone();
        let begin = || {
            self.check_element::<T>()?;
            let submitter = self.machine().submitter(origin.clone());
            let near = match self.device().is_host() {
                true => self.clone(),
                false => {
                    let host = submitter.staging(self.device())?;
                    submitter.copy_to(self, &host)?
                }
            };
            near.access_at(Access::Read, origin.clone(), move |blob| {
                let read = blob.to_bytes()?;
                *written.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
                Ok(())
            })
        };
        let begun = begin().map_err(|e| e.at(&origin));
        async move {
            begun?.await?;
            let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
            let unread = || Error::Internal { message: "a read gave no elements".to_owned() };
            Ok(T::from_bytes(&bytes.ok_or_else(unread)?))
        }
    }
}
