//! The Airy function Ai.

use super::polynomial;

/// The rational function of 1/ζ for x of 2.09 or more.
const AN: [f64; 8] = [
    0.346538101525629,
    12.007595273964581,
    76.27960536152345,
    168.08922493463058,
    159.75639135016442,
    70.53609068404442,
    14.026469116338967,
    1.0,
];
const AD: [f64; 8] = [
    0.5675945326387702,
    14.75625625848472,
    84.51389701414746,
    177.31808814540045,
    164.2346928715297,
    71.47784008255756,
    14.095913560783403,
    1.0,
];
/// The rational functions of 1/ζ² for x below -2.09.
const AFN: [f64; 9] = [
    -0.1316963234183318,
    -0.6264565444319123,
    -0.6931580360369335,
    -0.2797799815451191,
    -0.04919001326095003,
    -0.004062659235948854,
    -0.0001592764962392621,
    -2.776491081552329e-6,
    -1.6778769848911465e-8,
];
const AFD: [f64; 9] = [
    13.356042070655324,
    32.682503279522464,
    26.736704094149957,
    9.187074029072596,
    1.4752914677166642,
    0.11568717379518804,
    0.004402916416152112,
    7.547203482874142e-5,
    4.5185009297058035e-7,
];
const AGN: [f64; 11] = [
    0.01973399320916857,
    0.39110302961568827,
    1.0657989759959559,
    0.9391692298166502,
    0.35146565610554764,
    0.06338889196289255,
    0.005858041130483885,
    0.000282851600836737,
    6.98793669997261e-6,
    8.117892395543892e-8,
    3.415517847659236e-10,
];
const AGD: [f64; 10] = [
    9.30892908077442,
    19.835292871831214,
    15.564662893286462,
    5.476860694229755,
    0.9542936116189619,
    0.08645808263523921,
    0.004126565238242226,
    0.00010125908511650914,
    1.1716673321441352e-6,
    4.9183457006293e-9,
];

/// The square root of 1/π.
const ROOT: f64 = 0.5641895835477563;

/// Returns the Airy function Ai.
///
/// Source: S. Moshier, Cephes, `airy.c`.
pub(super) fn airy_ai(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    if x > 103.892 {
        return 0.0;
    }
    if x < -2.09 {
        let zeta = -2.0 * x * (-x).sqrt() / 3.0;
        let (z, t) = (1.0 / zeta, zeta + 0.25 * std::f64::consts::PI);
        let of = |top: &[f64], bottom: &[f64]| polynomial(top, z * z) / polynomial(bottom, z * z);
        let (sine, cosine) = (1.0 + z * z * of(&AFN, &AFD), z * of(&AGN, &AGD));
        return ROOT / (-x).sqrt().sqrt() * (t.sin() * sine - t.cos() * cosine);
    }
    if x >= 2.09 {
        let zeta = 2.0 * x * x.sqrt() / 3.0;
        let share = polynomial(&AN, 1.0 / zeta) / polynomial(&AD, 1.0 / zeta);
        return ROOT * share / (2.0 * x.sqrt().sqrt() * zeta.exp());
    }
    series(x)
}

/// Returns the sum of the power series around 0.
fn series(x: f64) -> f64 {
    let (mut even, mut odd, mut k) = (1.0, x, 1.0);
    let (mut m, mut n) = (1.0, x);
    let cube = x * x * x;
    let mut change: f64 = 1.0;
    while change > f64::EPSILON {
        m *= cube;
        n *= cube;
        k += 1.0;
        m /= k;
        k += 1.0;
        m /= k;
        n /= k;
        even += m;
        k += 1.0;
        n /= k;
        odd += n;
        change = (m / even).abs();
    }
    0.3550280538878172 * even - 0.2588194037928068 * odd
}
