//! Arrays of the `ndarray` crate.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use millstream_runtime::scope::origin;
use millstream_types::{Element, Error, Result};

use crate::handle::Tensor;

use super::Place;

impl Tensor {
    /// Returns a tensor with the elements of an array, of any layout.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_ndarray(&ndarray::array![[1.0f32, 2.0], [3.0, 4.0]], &machine)?;
    /// assert_eq!(x.shape(), [2, 2]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The memory is used up.
    #[track_caller]
    pub fn from_ndarray<T: Element, S: Data<Elem = T>, D: Dimension>(
        array: &ArrayBase<S, D>,
        place: impl Place,
    ) -> Result<Tensor> {
        let elements: Vec<T> = array.iter().copied().collect();
        Tensor::from_slice(&elements, array.shape(), place)
    }

    /// Returns the elements as an array. Blocks until they are computed.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// assert_eq!(x.to_ndarray::<f32>()?, ndarray::array![[1.0, 2.0], [3.0, 4.0]].into_dyn());
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let origin = origin::caller();
        let elements = self.to_vec::<T>()?;
        ArrayD::from_shape_vec(IxDyn(self.shape()), elements)
            .map_err(|error| Error::Internal { message: error.to_string() }.at(&origin))
    }
}
