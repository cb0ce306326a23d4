//! Derivatives of samples for a parameter of their distribution, -(dF/dα) / (dF/dx) with the
//! distribution function F.
//!
//! Source of the formulas and coefficients: PyTorch, `ATen/native/Distributions.h`. Short Taylor
//! series hold at the ends, saddle points by Rice for large parameters, and fitted rational
//! functions in between. The lengths of the series are PyTorch's, for equal results.

use super::super::series::digamma;

/// Returns the derivative of a sample x of the gamma distribution for its shape.
pub(super) fn gamma(shape: f64, x: f64) -> f64 {
    if x < 0.8 {
        gamma_near_zero(shape, x)
    } else if shape > 8.0 {
        gamma_of_large(shape, x)
    } else {
        // By powers of ln(shape), and then of ln(x / shape).
        const TOP: [[f64; 3]; 4] = [
            [0.16009398, 0.53487893, 0.040121004],
            [-0.094634809, 0.1298071, -0.0065914022],
            [0.025146376, 0.065735949, -0.0026286047],
            [-0.0030648343, -0.0015649758, -0.0013441777],
        ];
        const BOTTOM: [[f64; 3]; 4] = [
            [1.0, 0.16639465, 0.017050642],
            [0.32668115, 0.020070113, -0.0021309326],
            [0.10406089, -0.0035938915, 0.00085092367],
            [0.0014179084, -0.00058392623, -1.5247877e-07],
        ];
        let u = (x / shape).ln();
        let of = |table: [[f64; 3]; 4]| power_sum(table.map(|row| power_sum(row, u)), shape.ln());
        (of(TOP) / of(BOTTOM)).exp()
    }
}

fn gamma_near_zero(shape: f64, x: f64) -> f64 {
    let (mut term, mut first, mut second) = (1.0, 0.0, 0.0);
    for i in 0..=5 {
        let i = f64::from(i);
        if i > 0.0 {
            term *= -x / i;
        }
        first += term / (shape + i);
        second += term / (shape + i).powi(2);
    }
    or_zero(x * x.exp() * (second - (x.ln() - digamma(shape)) * first))
}

fn gamma_of_large(a: f64, x: f64) -> f64 {
    // The other formula is singular at x = a.
    if 0.9 * a <= x && x <= 1.1 * a {
        let factor = 1.0 + 24.0 * a * (1.0 + 12.0 * a);
        let sum = 1440.0 * a * a + 6.0 * x * (53.0 - 120.0 * x) - 65.0 * x * x / a
            + a * (107.0 + 3600.0 * x);
        return factor * sum / (1244160.0 * a.powi(4));
    }
    let (log, root) = ((x / a).ln(), (8.0 * a).sqrt());
    let power = (x - a - a * log).powf(-1.5).copysign(x - a);
    let sum = log * (root / (a - x) + power) - (2.0 / a).sqrt() * (a + x) / (a - x).powi(2);
    let stirling = 1.0 + (1.0 + 1.0 / (24.0 * a)) / (12.0 * a);
    -stirling * x * sum / root
}

/// Returns the derivative of an element x of a sample of Dirichlet's distribution for its
/// concentration, over 1 - x: that of the beta distribution with this concentration and the rest
/// of the total.
pub(super) fn dirichlet(x: f64, concentration: f64, total: f64) -> f64 {
    let (a, b) = (concentration, total - concentration);
    let spread = total * x * (1.0 - x);
    if x <= 0.5 && spread < 2.5 {
        return beta_near_zero(x, a, b);
    }
    if x >= 0.5 && spread < 0.75 {
        return beta_near_one(x, a, b);
    }
    if a > 6.0 && b > 6.0 {
        return beta_of_large(x, a, b);
    }
    // By powers of ln(x), then of ln(a / x), and then of the third variable.
    const TOP: [[[f64; 4]; 3]; 3] = [
        [
            [1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
            [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
            [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013],
        ],
        [
            [0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
            [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
            [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05],
        ],
        [
            [-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
            [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
            [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05],
        ],
    ];
    const BOTTOM: [[[f64; 4]; 3]; 3] = [
        [
            [1.0, -0.02924021934, -0.04438342661, 0.007285809825],
            [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
            [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149],
        ],
        [
            [0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
            [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
            [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05],
        ],
        [
            [0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
            [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
            [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06],
        ],
    ];
    let u = x.ln();
    let v = a.ln() - u;
    let w = total.ln() - v;
    let of = |table: [[[f64; 4]; 3]; 3]| {
        power_sum(table.map(|rows| power_sum(rows.map(|row| power_sum(row, w)), v)), u)
    };
    of(TOP) / of(BOTTOM) * x * (digamma(total) - digamma(a)) / b
}

fn beta_near_zero(x: f64, a: f64, b: f64) -> f64 {
    let factor = digamma(a) - digamma(a + b) - x.ln();
    let (mut term, mut sum) = (1.0, 0.0);
    for i in 0..=10 {
        let i = f64::from(i);
        if i > 0.0 {
            term *= (i - b) * x / i;
        }
        sum += term / (a + i) * (factor + 1.0 / (a + i));
    }
    or_zero(x * (1.0 - x).powf(-b) * sum)
}

/// The series for 1 - x, whose concentration is b.
fn beta_near_one(x: f64, a: f64, b: f64) -> f64 {
    let factor = digamma(a + b) - digamma(a);
    // The product of a - i, and its derivative for a.
    let (mut term, mut product, mut slope, mut sum) = (1.0, 1.0, 0.0, 0.0);
    for i in 0..=8 {
        let i = f64::from(i);
        if i > 0.0 {
            term *= (x - 1.0) / i;
            slope = slope * (a - i) + product;
            product *= a - i;
        }
        sum += term / (b + i) * (slope + factor * product);
    }
    or_zero(x.powf(1.0 - a) * sum)
}

fn beta_of_large(x: f64, a: f64, b: f64) -> f64 {
    let total = a + b;
    let (mean, deviation) = (a / total, (a * b / (total + 1.0)).sqrt() / total);
    // The other formula is singular at the mean.
    if (x - mean).abs() <= 0.1 * deviation {
        let of_a = [
            47.0 * x * b.powi(4),
            (43.0 + 20.0 * (16.0 + 27.0 * b) * x) * b.powi(3),
            3.0 * (59.0 + 180.0 * b - 90.0 * x) * b.powi(2),
            (453.0 + 1620.0 * b * (1.0 - x) - 455.0 * x) * b,
            8.0 * (1.0 - x) * (135.0 * b - 11.0),
        ];
        let top = (1.0 + 12.0 * a) * (1.0 + 12.0 * b) / (total * total);
        let bottom = 12960.0 * a.powi(3) * b.powi(2) * (1.0 + 12.0 * total);
        return top / (1.0 - x) * power_sum(of_a, a) / bottom;
    }
    let stirling = |a: f64| 1.0 + 1.0 / (12.0 * a) + 1.0 / (288.0 * a * a);
    let distance = b * x + a * (x - 1.0);
    let first = (2.0 * a * a * (x - 1.0) + a * b * (x - 1.0) - x * b * b)
        / ((2.0 * a / b).sqrt() * total.powf(1.5) * distance * distance);
    let exponent = b * (b / (total * (1.0 - x))).ln() + a * (a / (total * x)).ln();
    let power = exponent.powf(-1.5).copysign(mean - x);
    let second = 0.5 * (a / (total * x)).ln() * ((8.0 * a * b / total).sqrt() / distance + power);
    let scale = -x / (2.0 * a * b / total).sqrt();
    stirling(a) * stirling(b) / stirling(total) * scale * (first + second)
}

/// Returns the value of a polynomial, given from the lowest power on.
fn power_sum<const N: usize>(coefficients: [f64; N], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Returns the number, or 0 where the terms of a series have no limit.
fn or_zero(x: f64) -> f64 {
    if x.is_nan() { 0.0 } else { x }
}
