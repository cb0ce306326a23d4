//! The table of derivatives: for each op the tensors kept for its gradient, and the formulas, which
//! are calls of ops.
//!
//! A formula gives the gradient of one input. It may have the shape and dtype that broadcasting and
//! promotion gave it: [`Rule::gradients`] reduces it to the input's. An op without a rule has no
//! derivative; one whose results are not floats needs none. An op in place has the rule of the op
//! that makes a new tensor. A composite has none: its calls have theirs.
//!
//! Sources: `derivatives.yaml` and `FunctionsManual.cpp` of PyTorch for ties, zeros
//! and other points without a derivative.

mod arith;
mod call;
mod complex;
mod conv;
mod fft;
mod grid;
mod higher;
mod index;
mod linalg;
mod loss;
mod matmul;
mod pointwise;
mod reduce;
mod rule;
mod special;
mod views;

use std::collections::HashMap;
use std::sync::OnceLock;

use call::Derivative;
use rule::{Formula, I0, I1, I2, O0, O1, O2, each, every, joint, joint_by, one};

pub use call::Differentiated;
pub use rule::{Gradients, Rule, Save};

/// Returns the rule of an op.
///
/// ```
/// use millstream_ops::derivative::{Save, rule};
///
/// // The gradient of x in x * y needs y.
/// let kept: Vec<Save> = rule("mul").unwrap().kept(|input| input == 0).collect();
/// assert_eq!(kept, [Save::Input(1)]);
/// ```
pub fn rule(op: &str) -> Option<&'static Rule> {
    static TABLE: OnceLock<HashMap<&str, &Rule>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let families: &[&'static [Rule]] = &[
            arith::RULES,
            complex::RULES,
            conv::RULES,
            fft::RULES,
            grid::RULES,
            higher::RULES,
            index::RULES,
            linalg::RULES,
            loss::RULES,
            matmul::RULES,
            pointwise::RULES,
            reduce::RULES,
            special::RULES,
            views::RULES,
        ];
        families.iter().copied().flatten().map(|rule| (rule.op, rule)).collect()
    });
    table.get(op).copied()
}
