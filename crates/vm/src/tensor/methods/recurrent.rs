//! Methods of the ops under "Recurrent layers".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::call;

/// Options of [`Tensor::lstm_layer`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1, 1), &machine)?;
/// let weight_ih = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 1.0], (4, 1), &machine)?;
/// let weight_hh = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], (4, 1), &machine)?;
/// let hidden = Tensor::from_slice(&[0.0f32], (1, 1), &machine)?;
/// let cell = Tensor::from_slice(&[2.0f32], (1, 1), &machine)?;
/// let options = options::LstmLayer::default().reverse(true);
/// let (output, hidden, cell) =
///     x.lstm_layer(&weight_ih, &weight_hh, &hidden, &cell, options)?;
/// assert_eq!(output.to_string(), "tensor([[[0.8331]],\n\n        [[0.8407]]])");
/// assert_eq!(hidden.to_string(), "tensor([[0.8331]])");
/// assert_eq!(cell.to_string(), "tensor([[2.0183]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LstmLayer<'a> {
    bias_ih: Option<&'a Tensor>,
    bias_hh: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> LstmLayer<'a> {
    /// Gives the tensor `bias_hh`: \[4 width\].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1, 1), &machine)?;
    /// let weight_ih = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 1.0], (4, 1), &machine)?;
    /// let weight_hh = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], (4, 1), &machine)?;
    /// let hidden = Tensor::from_slice(&[0.0f32], (1, 1), &machine)?;
    /// let cell = Tensor::from_slice(&[2.0f32], (1, 1), &machine)?;
    /// let bias_ih = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 0.0], 4, &machine)?;
    /// let bias_hh = Tensor::from_slice(&[0.0f32, 0.0, 1.0, 0.0], 4, &machine)?;
    /// let options = options::LstmLayer::default().bias_ih(&bias_ih).bias_hh(&bias_hh);
    /// let (output, hidden, cell) =
    ///     x.lstm_layer(&weight_ih, &weight_hh, &hidden, &cell, options)?;
    /// assert_eq!(output.to_string(), "tensor([[[0.7130]],\n\n        [[0.9299]]])");
    /// assert_eq!(hidden.to_string(), "tensor([[0.9299]])");
    /// assert_eq!(cell.to_string(), "tensor([[2.7358]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn bias_hh(mut self, bias_hh: &'a Tensor) -> LstmLayer<'a> {
        self.bias_hh = Some(bias_hh);
        self
    }

    /// Gives the tensor `bias_ih`: \[4 width\].
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1, 1), &machine)?;
    /// let weight_ih = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 1.0], (4, 1), &machine)?;
    /// let weight_hh = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], (4, 1), &machine)?;
    /// let hidden = Tensor::from_slice(&[0.0f32], (1, 1), &machine)?;
    /// let cell = Tensor::from_slice(&[2.0f32], (1, 1), &machine)?;
    /// let bias_ih = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 0.0], 4, &machine)?;
    /// let bias_hh = Tensor::from_slice(&[0.0f32, 0.0, 1.0, 0.0], 4, &machine)?;
    /// let options = options::LstmLayer::default().bias_ih(&bias_ih).bias_hh(&bias_hh);
    /// let (output, hidden, cell) =
    ///     x.lstm_layer(&weight_ih, &weight_hh, &hidden, &cell, options)?;
    /// assert_eq!(output.to_string(), "tensor([[[0.7130]],\n\n        [[0.9299]]])");
    /// assert_eq!(hidden.to_string(), "tensor([[0.9299]])");
    /// assert_eq!(cell.to_string(), "tensor([[2.7358]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn bias_ih(mut self, bias_ih: &'a Tensor) -> LstmLayer<'a> {
        self.bias_ih = Some(bias_ih);
        self
    }

    /// Sets `reverse`: whether the last step comes first; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1, 1), &machine)?;
    /// let weight_ih = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 1.0], (4, 1), &machine)?;
    /// let weight_hh = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], (4, 1), &machine)?;
    /// let hidden = Tensor::from_slice(&[0.0f32], (1, 1), &machine)?;
    /// let cell = Tensor::from_slice(&[2.0f32], (1, 1), &machine)?;
    /// let options = options::LstmLayer::default().reverse(true);
    /// let (output, hidden, cell) =
    ///     x.lstm_layer(&weight_ih, &weight_hh, &hidden, &cell, options)?;
    /// assert_eq!(output.to_string(), "tensor([[[0.8331]],\n\n        [[0.8407]]])");
    /// assert_eq!(hidden.to_string(), "tensor([[0.8331]])");
    /// assert_eq!(cell.to_string(), "tensor([[2.0183]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> LstmLayer<'a> {
        self.attrs.set("reverse", reverse);
        self
    }
}

impl Tensor {
    /// Returns the outputs of a layer of long short-term memory, its last output, and its last
    /// cell.
    ///
    /// - `x`, this tensor: \[time,n,features\]
    /// - `weight_ih`: \[4 width,features\]
    /// - `weight_hh`: \[4 width,width\]
    /// - `hidden`: the output before the first step, n * width elements
    /// - `cell`: the cell before the first step, n * width elements
    /// - `options`: [`struct@LstmLayer`], which has defaults
    ///
    /// The op `lstm_layer`, which PyTorch has under another name or not at all.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 2.0], (2, 1, 1), &machine)?;
    /// let weight_ih = Tensor::from_slice(&[1.0f32, 0.0, 2.0, 1.0], (4, 1), &machine)?;
    /// let weight_hh = Tensor::from_slice(&[0.0f32, 1.0, 0.0, 1.0], (4, 1), &machine)?;
    /// let hidden = Tensor::from_slice(&[0.0f32], (1, 1), &machine)?;
    /// let cell = Tensor::from_slice(&[2.0f32], (1, 1), &machine)?;
    /// let (output, hidden, cell) =
    ///     x.lstm_layer(&weight_ih, &weight_hh, &hidden, &cell, Default::default())?;
    /// assert_eq!(output.to_string(), "tensor([[[0.6843]],\n\n        [[0.9033]]])");
    /// assert_eq!(hidden.to_string(), "tensor([[0.9033]])");
    /// assert_eq!(cell.to_string(), "tensor([[2.0133]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn lstm_layer(
        &self,
        weight_ih: &Tensor,
        weight_hh: &Tensor,
        hidden: &Tensor,
        cell: &Tensor,
        options: LstmLayer<'_>,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(weight_ih);
        given.push(weight_hh);
        given.push(hidden);
        given.push(cell);
        call::optional(&[options.bias_ih, options.bias_hh], &mut given, &mut attrs);
        let [a, b, c] = call::first_of("lstm_layer", &given, attrs)?;
        Ok((a, b, c))
    }
}
