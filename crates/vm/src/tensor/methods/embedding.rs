//! Methods of the ops under "Embedding and attention".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
use crate::tensor::{Int, Real, call};

/// Options of [`Tensor::embedding_with`].
#[derive(Clone, Debug, Default)]
pub struct Embedding {
    attrs: Attrs,
}

impl Embedding {
    /// Sets `padding_idx`: the row that gets no gradient; -1 for none; default -1.
    #[must_use]
    pub fn padding_idx(mut self, padding_idx: impl Int) -> Embedding {
        self.attrs.set("padding_idx", padding_idx.to_int());
        self
    }

    /// Sets `scale_grad_by_freq`: divide the gradient of a row by the number of its uses; default
    /// false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let table = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?.with_grad()?;
    /// let indices = Tensor::from_slice(&[0i64, 0, 1], 3, &machine)?;
    /// let tape = machine.tape();
    /// let by_uses = options::Embedding::default().scale_grad_by_freq(true);
    /// tape.backward(&table.embedding_with(&indices, by_uses)?.sum(..)?)?;
    /// assert_eq!(table.grad().unwrap().to_vec::<f32>()?, [1.0, 1.0]); // not 2 of row 0
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scale_grad_by_freq(mut self, scale_grad_by_freq: bool) -> Embedding {
        self.attrs.set("scale_grad_by_freq", scale_grad_by_freq);
        self
    }
}

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
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> LstmLayer<'a> {
        self.attrs.set("reverse", reverse);
        self
    }
}

/// Options of [`Tensor::scaled_dot_product_attention`].
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// let q = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2, 1), &machine)?;
/// let k = Tensor::from_slice(&[0.0f32, 1.0], (1, 1, 2, 1), &machine)?;
/// let v = Tensor::from_slice(&[0.0f32, 10.0], (1, 1, 2, 1), &machine)?;
/// let attn_mask = Tensor::from_slice(&[0.0f32, -1.0], (1, 1, 1, 2), &machine)?;
/// let options = options::ScaledDotProductAttention::default().attn_mask(&attn_mask);
/// let y = q.scaled_dot_product_attention(&k, &v, options)?;
/// assert_eq!(y.to_string(), "tensor([[[[5.0000],\n          [7.3106]]]])");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScaledDotProductAttention<'a> {
    attn_mask: Option<&'a Tensor>,
    attrs: Attrs,
}

impl<'a> ScaledDotProductAttention<'a> {
    /// Gives the tensor `attn_mask`: added to the scores; a shape that broadcasts to \[b,h,s,l\].
    #[must_use]
    pub fn attn_mask(mut self, attn_mask: &'a Tensor) -> ScaledDotProductAttention<'a> {
        self.attn_mask = Some(attn_mask);
        self
    }

    /// Sets `is_causal`: whether query i attends only to keys 0 to i; default false.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let q = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2, 1), &machine)?;
    /// let k = Tensor::from_slice(&[0.0f32, 1.0], (1, 1, 2, 1), &machine)?;
    /// let v = Tensor::from_slice(&[0.0f32, 10.0], (1, 1, 2, 1), &machine)?;
    /// let options = options::ScaledDotProductAttention::default().causal(true);
    /// let y = q.scaled_dot_product_attention(&k, &v, options)?;
    /// assert_eq!(y.to_string(), "tensor([[[[0.0000],\n          [8.8080]]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn causal(mut self, causal: bool) -> ScaledDotProductAttention<'a> {
        self.attrs.set("is_causal", causal);
        self
    }

    /// Sets `scale`: factor of the scores; default 1 / sqrt(d).
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let q = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2, 1), &machine)?;
    /// let k = Tensor::from_slice(&[0.0f32, 1.0], (1, 1, 2, 1), &machine)?;
    /// let v = Tensor::from_slice(&[0.0f32, 10.0], (1, 1, 2, 1), &machine)?;
    /// let options = options::ScaledDotProductAttention::default().scale(0.5);
    /// let y = q.scaled_dot_product_attention(&k, &v, options)?;
    /// assert_eq!(y.to_string(), "tensor([[[[6.2246],\n          [7.3106]]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[must_use]
    pub fn scale(mut self, scale: impl Real) -> ScaledDotProductAttention<'a> {
        self.attrs.set("scale", scale.to_real());
        self
    }
}

impl Tensor {
    /// Returns the rows of a table selected by indices.
    ///
    /// - `weight`, this tensor: \[rows,columns\]
    /// - `indices`: any shape, of i64 or i32
    ///
    /// PyTorch: `aten::embedding`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let weight = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], (3, 2), &machine)?;
    /// let indices = Tensor::from_slice(&[2i64, 0], 2, &machine)?;
    /// let y = weight.embedding(&indices)?;
    /// assert_eq!(y.shape(), [2, 2]);
    /// assert_eq!(y.to_vec::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(indices);
        call::one("embedding", &given, Attrs::new())
    }

    /// Returns the rows of a table selected by indices.
    ///
    /// - `weight`, this tensor: \[rows,columns\]
    /// - `indices`: any shape, of i64 or i32
    /// - `options`: [`struct@Embedding`], which has defaults
    ///
    /// PyTorch: `aten::embedding`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let table = Tensor::from_slice(&[1.0f32, 2.0], (2, 1), &machine)?.with_grad()?;
    /// let indices = Tensor::from_slice(&[0i64, 1], 2, &machine)?;
    /// let tape = machine.tape();
    /// let rows = table.embedding_with(&indices, options::Embedding::default().padding_idx(1))?;
    /// tape.backward(&rows.sum(..)?)?;
    /// assert_eq!(table.grad().unwrap().to_vec::<f32>()?, [1.0, 0.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_with(&self, indices: &Tensor, options: Embedding) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(indices);
        call::one("embedding", &given, options.attrs)
    }

    /// Returns the values, weighted by the softmax of the scaled products of queries and keys.
    ///
    /// - `q`, this tensor: \[b,h,s,d\]
    /// - `k`: \[b,g,l,d\]: g divides h
    /// - `v`: \[b,g,l,d\]
    /// - `options`: [`struct@ScaledDotProductAttention`], which has defaults
    ///
    /// PyTorch: `aten::_scaled_dot_product_flash_attention_for_cpu`.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let q = Tensor::from_slice(&[1.0f32, 2.0], (1, 1, 2, 1), &machine)?;
    /// let k = Tensor::from_slice(&[0.0f32, 1.0], (1, 1, 2, 1), &machine)?;
    /// let v = Tensor::from_slice(&[0.0f32, 10.0], (1, 1, 2, 1), &machine)?;
    /// let y = q.scaled_dot_product_attention(&k, &v, Default::default())?;
    /// assert_eq!(y.to_string(), "tensor([[[[7.3106],\n          [8.8080]]]])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        options: ScaledDotProductAttention<'_>,
    ) -> Result<Tensor> {
        let mut given = call::given(self);
        let mut attrs = options.attrs;
        given.push(k);
        given.push(v);
        call::optional(&[options.attn_mask], &mut given, &mut attrs);
        call::one("_scaled_dot_product_flash_attention_for_cpu", &given, attrs)
    }

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
