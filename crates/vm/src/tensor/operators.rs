//! Operators. All return a `Result`, and take tensors, references to them, results and numbers:
//! `(&a + &b)? * 2.0`, `&a * (&b - 1.0)`.
//!
//! The numbers are f64 and i64 alone. With more types, `(&a * 1.5)?.exp()` would not compile, as
//! the type of the literal would not be known.

use std::ops::{Add, Div, Mul, Neg, Sub};

use millstream_types::Result;

use crate::handle::Tensor;

/// Implements an operator for all operands on its left and right.
macro_rules! operator {
    ($trait:ident, $method:ident, $reversed:ident) => {
        operator! { @tensors $trait, $method, &Tensor, &Tensor, |a, b| Tensor::$method(a, b) }
        operator! { @tensors $trait, $method, &Tensor, Tensor, |a, b| Tensor::$method(a, &b) }
        operator! { @tensors $trait, $method, Tensor, &Tensor, |a, b| Tensor::$method(&a, b) }
        operator! { @tensors $trait, $method, Tensor, Tensor, |a, b| Tensor::$method(&a, &b) }
        operator! {
            @tensors $trait, $method, &Tensor, Result<Tensor>, |a, b| Tensor::$method(a, &b?)
        }
        operator! {
            @tensors $trait, $method, Tensor, Result<Tensor>, |a, b| Tensor::$method(&a, &b?)
        }
        operator! { @numbers $trait, $method, $reversed, f64 i64 }
    };
    (
        @tensors $trait:ident, $method:ident, $left:ty, $right:ty, |$a:ident, $b:ident| $body:expr
    ) => {
        impl $trait<$right> for $left {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $right) -> Result<Tensor> {
                let ($a, $b) = (self, other);
                $body
            }
        }
    };
    (@numbers $trait:ident, $method:ident, $reversed:ident, $($number:ty)*) => {$(
        impl $trait<$number> for &Tensor {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $number) -> Result<Tensor> {
                Tensor::$method(self, other)
            }
        }

        impl $trait<$number> for Tensor {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: $number) -> Result<Tensor> {
                Tensor::$method(&self, other)
            }
        }

        impl $trait<&Tensor> for $number {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: &Tensor) -> Result<Tensor> {
                let number = self;
                reversed! { $reversed, number, other }
            }
        }

        impl $trait<Tensor> for $number {
            type Output = Result<Tensor>;

            #[track_caller]
            fn $method(self, other: Tensor) -> Result<Tensor> {
                $trait::$method(self, &other)
            }
        }
    )*};
}

/// The operators with a number on the left, as PyTorch computes them.
macro_rules! reversed {
    (sum, $number:expr, $tensor:expr) => {
        Tensor::add($tensor, $number)
    };
    (difference, $number:expr, $tensor:expr) => {
        Tensor::add(&Tensor::neg($tensor)?, $number)
    };
    (product, $number:expr, $tensor:expr) => {
        Tensor::mul($tensor, $number)
    };
    (quotient, $number:expr, $tensor:expr) => {
        Tensor::mul(&Tensor::reciprocal($tensor)?, $number)
    };
}

operator! { Add, add, sum }
operator! { Sub, sub, difference }
operator! { Mul, mul, product }
operator! { Div, div, quotient }

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    #[track_caller]
    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}
