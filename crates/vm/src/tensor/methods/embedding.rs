//! Methods of the ops under "Embedding and attention".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
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
    #[must_use]
    pub fn scale_grad_by_freq(mut self, scale_grad_by_freq: bool) -> Embedding {
        self.attrs.set("scale_grad_by_freq", scale_grad_by_freq);
        self
    }
}

/// Options of [`Tensor::scaled_dot_product_attention`].
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
    #[must_use]
    pub fn causal(mut self, causal: bool) -> ScaledDotProductAttention<'a> {
        self.attrs.set("is_causal", causal);
        self
    }

    /// Sets `scale`: factor of the scores; default 1 / sqrt(d).
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
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
}
