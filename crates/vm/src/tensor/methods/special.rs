//! Methods of the ops under "Special functions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::api::handle::Tensor;
use crate::tensor::{Int, call};

/// Options of [`Tensor::polygamma_with`].
#[derive(Clone, Debug, Default)]
pub struct Polygamma {
    attrs: Attrs,
}

impl Polygamma {
    /// Sets `n`: the order, 0 or more; default 0.
    #[must_use]
    pub fn n(mut self, n: impl Int) -> Polygamma {
        self.attrs.set("n", n.to_int());
        self
    }
}

impl Tensor {
    /// Returns the modified Bessel function of the first kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::i0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn i0(&self) -> Result<Tensor> {
        call::one("i0", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the first kind of order 0, times e^-|x|.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_i0e`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_i0e(&self) -> Result<Tensor> {
        call::one("special_i0e", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the first kind of order 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_i1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_i1(&self) -> Result<Tensor> {
        call::one("special_i1", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the first kind of order 1, times e^-|x|.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_i1e`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_i1e(&self) -> Result<Tensor> {
        call::one("special_i1e", &[self], Attrs::new())
    }

    /// Returns the Bessel function of the first kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_bessel_j0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_bessel_j0(&self) -> Result<Tensor> {
        call::one("special_bessel_j0", &[self], Attrs::new())
    }

    /// Returns the Bessel function of the first kind of order 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_bessel_j1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_bessel_j1(&self) -> Result<Tensor> {
        call::one("special_bessel_j1", &[self], Attrs::new())
    }

    /// Returns the Bessel function of the second kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_bessel_y0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_bessel_y0(&self) -> Result<Tensor> {
        call::one("special_bessel_y0", &[self], Attrs::new())
    }

    /// Returns the Bessel function of the second kind of order 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_bessel_y1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_bessel_y1(&self) -> Result<Tensor> {
        call::one("special_bessel_y1", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the first kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_modified_bessel_i0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_modified_bessel_i0(&self) -> Result<Tensor> {
        call::one("special_modified_bessel_i0", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the first kind of order 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_modified_bessel_i1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_modified_bessel_i1(&self) -> Result<Tensor> {
        call::one("special_modified_bessel_i1", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the second kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_modified_bessel_k0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_modified_bessel_k0(&self) -> Result<Tensor> {
        call::one("special_modified_bessel_k0", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the second kind of order 1.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_modified_bessel_k1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_modified_bessel_k1(&self) -> Result<Tensor> {
        call::one("special_modified_bessel_k1", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the second kind of order 0, times e^x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_scaled_modified_bessel_k0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_scaled_modified_bessel_k0(&self) -> Result<Tensor> {
        call::one("special_scaled_modified_bessel_k0", &[self], Attrs::new())
    }

    /// Returns the modified Bessel function of the second kind of order 1, times e^x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_scaled_modified_bessel_k1`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_scaled_modified_bessel_k1(&self) -> Result<Tensor> {
        call::one("special_scaled_modified_bessel_k1", &[self], Attrs::new())
    }

    /// Returns the spherical Bessel function of the first kind of order 0.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_spherical_bessel_j0`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_spherical_bessel_j0(&self) -> Result<Tensor> {
        call::one("special_spherical_bessel_j0", &[self], Attrs::new())
    }

    /// Returns the Airy function Ai.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_airy_ai`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_airy_ai(&self) -> Result<Tensor> {
        call::one("special_airy_ai", &[self], Attrs::new())
    }

    /// Returns e^(x^2) times 1 minus the error function of x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_erfcx`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_erfcx(&self) -> Result<Tensor> {
        call::one("special_erfcx", &[self], Attrs::new())
    }

    /// Returns the logarithm of the probability of the normal distribution up to x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_log_ndtr`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_log_ndtr(&self) -> Result<Tensor> {
        call::one("special_log_ndtr", &[self], Attrs::new())
    }

    /// Returns the number up to which the normal distribution has the probability x.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::special_ndtri`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_ndtri(&self) -> Result<Tensor> {
        call::one("special_ndtri", &[self], Attrs::new())
    }

    /// Returns the derivative of order n of the digamma function.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::polygamma`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn polygamma(&self) -> Result<Tensor> {
        call::one("polygamma", &[self], Attrs::new())
    }

    /// Returns the derivative of order n of the digamma function.
    ///
    /// - `x`, this tensor: any shape
    /// - `options`: [`struct@Polygamma`], which has defaults
    ///
    /// PyTorch: `aten::polygamma`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn polygamma_with(&self, options: Polygamma) -> Result<Tensor> {
        call::one("polygamma", &[self], options.attrs)
    }

    /// Returns the Hurwitz zeta function: the sum of (q + k)^-x for k from 0.
    ///
    /// - `x`, this tensor: any shape
    /// - `q`: a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_zeta`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_zeta(&self, q: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(q);
        call::one("special_zeta", &given, Attrs::new())
    }

    /// Returns the regularised lower incomplete gamma function.
    ///
    /// - `a`, this tensor: any shape
    /// - `x`: a shape that broadcasts with a
    ///
    /// PyTorch: `aten::igamma`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn igamma(&self, x: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::one("igamma", &given, Attrs::new())
    }

    /// Returns the regularised upper incomplete gamma function.
    ///
    /// - `a`, this tensor: any shape
    /// - `x`: a shape that broadcasts with a
    ///
    /// PyTorch: `aten::igammac`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn igammac(&self, x: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(x);
        call::one("igammac", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial of the first kind.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_chebyshev_polynomial_t`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_chebyshev_polynomial_t(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_chebyshev_polynomial_t", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial of the second kind.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_chebyshev_polynomial_u`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_chebyshev_polynomial_u(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_chebyshev_polynomial_u", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial of the third kind.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_chebyshev_polynomial_v`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_chebyshev_polynomial_v(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_chebyshev_polynomial_v", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial of the fourth kind.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_chebyshev_polynomial_w`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_chebyshev_polynomial_w(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_chebyshev_polynomial_w", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial T of 2x - 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_shifted_chebyshev_polynomial_t`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_shifted_chebyshev_polynomial_t(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_shifted_chebyshev_polynomial_t", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial U of 2x - 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_shifted_chebyshev_polynomial_u`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_shifted_chebyshev_polynomial_u(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_shifted_chebyshev_polynomial_u", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial V of 2x - 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_shifted_chebyshev_polynomial_v`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_shifted_chebyshev_polynomial_v(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_shifted_chebyshev_polynomial_v", &given, Attrs::new())
    }

    /// Returns the Chebyshev polynomial W of 2x - 1.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_shifted_chebyshev_polynomial_w`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_shifted_chebyshev_polynomial_w(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_shifted_chebyshev_polynomial_w", &given, Attrs::new())
    }

    /// Returns the Hermite polynomial of physics.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_hermite_polynomial_h`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_hermite_polynomial_h(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_hermite_polynomial_h", &given, Attrs::new())
    }

    /// Returns the Hermite polynomial of probability theory.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_hermite_polynomial_he`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_hermite_polynomial_he(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_hermite_polynomial_he", &given, Attrs::new())
    }

    /// Returns the Laguerre polynomial.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_laguerre_polynomial_l`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_laguerre_polynomial_l(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_laguerre_polynomial_l", &given, Attrs::new())
    }

    /// Returns the Legendre polynomial.
    ///
    /// - `x`, this tensor: any shape
    /// - `n`: the degree; a shape that broadcasts with x
    ///
    /// PyTorch: `aten::special_legendre_polynomial_p`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn special_legendre_polynomial_p(&self, n: &Tensor) -> Result<Tensor> {
        let mut given = call::given(self);
        given.push(n);
        call::one("special_legendre_polynomial_p", &given, Attrs::new())
    }

    /// Returns the mantissa of x, from 1/2 up to 1, and its exponent of 2.
    ///
    /// - `x`, this tensor: any shape
    ///
    /// PyTorch: `aten::frexp`.
    ///
    /// # Errors
    /// The op refuses its operands or arguments, or the memory is used up.
    #[track_caller]
    pub fn frexp(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("frexp", &[self], Attrs::new())?;
        Ok((a, b))
    }
}
