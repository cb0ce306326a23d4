//! Methods of the ops under "Special functions".
//!
//! Made by `cargo xtask docs` from the schemas in `crates/ops`.
//!
//! Long because there is a method for each op.

use millstream_types::{Attrs, Result};

use crate::handle::Tensor;
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.i0()?.to_string(), "tensor([1.0635, 1.2661, 2.2796])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_i0e()?.to_string(), "tensor([0.6450, 0.4658, 0.3085])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_i1()?.to_string(), "tensor([0.2579, 0.5652, 1.5906])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_i1e()?.to_string(), "tensor([0.1564, 0.2079, 0.2153])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_bessel_j0()?.to_string(), "tensor([0.9385, 0.7652, 0.2239])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_bessel_j1()?.to_string(), "tensor([0.2423, 0.4401, 0.5767])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_bessel_y0()?.to_string(), "tensor([-0.4445,  0.0883,  0.5104])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_bessel_y1()?.to_string(), "tensor([-1.4715, -0.7812, -0.1070])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_modified_bessel_i0()?;
    /// assert_eq!(y.to_string(), "tensor([1.0635, 1.2661, 2.2796])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_modified_bessel_i1()?;
    /// assert_eq!(y.to_string(), "tensor([0.2579, 0.5652, 1.5906])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_modified_bessel_k0()?;
    /// assert_eq!(y.to_string(), "tensor([0.9244, 0.4210, 0.1139])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_modified_bessel_k1()?;
    /// assert_eq!(y.to_string(), "tensor([1.6564, 0.6019, 0.1399])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_scaled_modified_bessel_k0()?;
    /// assert_eq!(y.to_string(), "tensor([1.5241, 1.1445, 0.8416])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_scaled_modified_bessel_k1()?;
    /// assert_eq!(y.to_string(), "tensor([2.7310, 1.6362, 1.0335])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.special_spherical_bessel_j0()?;
    /// assert_eq!(y.to_string(), "tensor([0.9589, 0.8415, 0.4546])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_airy_ai()?.to_string(), "tensor([0.2317, 0.1353, 0.0349])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_erfcx()?.to_string(), "tensor([0.6157, 0.4276, 0.2554])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.special_log_ndtr()?.to_string(), "tensor([-0.3689, -0.1728, -0.0230])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.25f32, 0.5, 0.9], 3, &machine)?;
    /// assert_eq!(x.special_ndtri()?.to_string(), "tensor([-0.6745,  0.0000,  1.2816])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// assert_eq!(x.polygamma()?.to_string(), "tensor([-1.9635, -0.5772,  0.4228])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 1.0, 2.0], 3, &machine)?;
    /// let y = x.polygamma_with(options::Polygamma::default().n(1))?;
    /// assert_eq!(y.to_string(), "tensor([4.9348, 1.6449, 0.6449])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[2.0f32, 4.0], 2, &machine)?;
    /// let q = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// assert_eq!(x.special_zeta(&q)?.to_string(), "tensor([1.6449, 0.0823])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[0.5f32, 3.0], 2, &machine)?;
    /// assert_eq!(a.igamma(&x)?.to_string(), "tensor([0.3935, 0.8009])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let a = Tensor::from_slice(&[1.0f32, 2.0], 2, &machine)?;
    /// let x = Tensor::from_slice(&[0.5f32, 3.0], 2, &machine)?;
    /// assert_eq!(a.igammac(&x)?.to_string(), "tensor([0.6065, 0.1991])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_chebyshev_polynomial_t(&n)?.to_vec::<f32>()?, [-0.5, 26.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_chebyshev_polynomial_u(&n)?.to_vec::<f32>()?, [0.0, 56.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_chebyshev_polynomial_v(&n)?.to_vec::<f32>()?, [-1.0, 41.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_chebyshev_polynomial_w(&n)?.to_vec::<f32>()?, [1.0, 71.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_shifted_chebyshev_polynomial_t(&n)?.to_vec::<f32>()?, [-1.0, 99.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_shifted_chebyshev_polynomial_u(&n)?.to_vec::<f32>()?, [-1.0, 204.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_shifted_chebyshev_polynomial_v(&n)?.to_vec::<f32>()?, [-1.0, 169.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_shifted_chebyshev_polynomial_w(&n)?.to_vec::<f32>()?, [-1.0, 239.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_hermite_polynomial_h(&n)?.to_vec::<f32>()?, [-1.0, 40.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_hermite_polynomial_he(&n)?.to_vec::<f32>()?, [-0.75, 2.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_laguerre_polynomial_l(&n)?.to_string(), "tensor([ 0.1250, -0.3333])");
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[0.5f32, 2.0], 2, &machine)?;
    /// let n = Tensor::from_slice(&[2.0f32, 3.0], 2, &machine)?;
    /// assert_eq!(x.special_legendre_polynomial_p(&n)?.to_vec::<f32>()?, [-0.125, 17.0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
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
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// let x = Tensor::from_slice(&[1.0f32, 6.0, -0.75], 3, &machine)?;
    /// let (mantissa, exponent) = x.frexp()?;
    /// assert_eq!(mantissa.to_vec::<f32>()?, [0.5, 0.75, -0.75]);
    /// assert_eq!(exponent.to_vec::<i32>()?, [1, 3, 0]);
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    #[track_caller]
    pub fn frexp(&self) -> Result<(Tensor, Tensor)> {
        let [a, b] = call::first_of("frexp", &[self], Attrs::new())?;
        Ok((a, b))
    }
}
