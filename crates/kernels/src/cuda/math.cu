// Functions of elements, for the three types that kernels compute in. Integers wrap.
__device__ inline i64 plus(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
__device__ inline i64 times(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
__device__ inline i64 negative(i64 x) { return (i64)(0 - (u64)x); }
__device__ inline i64 abs_of(i64 x) { return x < 0 ? negative(x) : x; }
__device__ inline bool is_nan(i64) { return false; }
// Division by zero gives 0 here; the kernel fails the call.
__device__ inline i64 fmod_of(i64 x, i64 y) { return y == 0 || y == -1 ? 0 : x % y; }
__device__ inline i64 quotient(i64 x, i64 y) { return y == 0 ? 0 : y == -1 ? negative(x) : x / y; }
__device__ inline i64 floor_quotient(i64 x, i64 y) {
    i64 remainder = fmod_of(x, y);
    return quotient(x, y) - (remainder != 0 && (remainder < 0) != (y < 0));
}
__device__ inline i64 power(i64 x, i64 exponent) {
    // A negative power of any number but 1 and -1 is a fraction, which truncates to 0.
    if (exponent < 0) return x == 1 ? 1 : x == -1 ? 1 - 2 * (exponent & 1) : 0;
    i64 result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = times(result, x);
        x = times(x, x);
    }
    return result;
}
__device__ inline i64 shifted_up(i64 x, i64 y, int width) {
    return y < 0 || y >= width ? 0 : (i64)((u64)x << y);
}
__device__ inline i64 shifted_down(i64 x, i64 y) { return x >> (y < 0 || y > 63 ? 63 : y); }
__device__ inline i64 round_of(i64 x) { return x; }
__device__ inline i64 trunc_of(i64 x) { return x; }
__device__ inline i64 floor_of(i64 x) { return x; }
__device__ inline i64 ceil_of(i64 x) { return x; }

template <class F> __device__ inline F plus(F x, F y) { return x + y; }
template <class F> __device__ inline F times(F x, F y) { return x * y; }
template <class F> __device__ inline F negative(F x) { return -x; }
template <class F> __device__ inline F abs_of(F x) { return fabs(x); }
template <class F> __device__ inline bool is_nan(F x) { return x != x; }
template <class F> __device__ inline F fmod_of(F x, F y) { return fmod(x, y); }
template <class F> __device__ inline F quotient(F x, F y) { return trunc(x / y); }
// Divides as Python does, from the exact remainder: rounding x / y could cross an integer.
template <class F> __device__ inline F floor_quotient(F x, F y) {
    if (y == 0) return x / y;
    F remainder = fmod(x, y), quotient = (x - remainder) / y;
    if (remainder != 0 && (y < 0) != (remainder < 0)) quotient -= 1;
    if (quotient == 0) return copysign((F)0, x / y);
    F down = floor(quotient);
    return quotient - down > (F)0.5 ? down + 1 : down;
}
template <class F> __device__ inline F power(F x, F y) { return pow(x, y); }
template <class F> __device__ inline F round_of(F x) { return rint(x); }
template <class F> __device__ inline F trunc_of(F x) { return trunc(x); }
template <class F> __device__ inline F floor_of(F x) { return floor(x); }
template <class F> __device__ inline F ceil_of(F x) { return ceil(x); }
template <class F> __device__ inline F sigmoid_of(F x) { return 1 / (1 + exp(-x)); }

// x - y · floor(x / y), with the sign of y.
template <class T> __device__ inline T remainder_of(T x, T y) {
    T remainder = fmod_of(x, y);
    return remainder != 0 && (remainder < 0) != (y < 0) ? plus(remainder, y) : remainder;
}
// The greater or the lesser. NaN if either is NaN.
template <class T> __device__ inline T greater(T x, T y) { return x > y || is_nan(x) ? x : y; }
template <class T> __device__ inline T lesser(T x, T y) { return x < y || is_nan(x) ? x : y; }
template <class T> __device__ inline T sign_of(T x) { return (T)(x > 0) - (T)(x < 0); }
// At least 0 and at most `most`; NaN for NaN.
template <class F> __device__ inline F clamped(F x, F most) {
    return x < 0 ? (F)0 : x > most ? most : x;
}
// x is clamped to eps and 1 - eps, if that is not negative.
template <class F> __device__ inline F logit_of(F x, F eps) {
    if (eps >= 0) x = x < eps ? eps : x > 1 - eps ? 1 - eps : x;
    return log(x / (1 - x));
}
template <class F> __device__ inline F logit_slope(F gradient, F x, F eps) {
    F slope = gradient / (x * (1 - x));
    if (eps < 0) return x >= 0 && x <= 1 ? slope : (F)(1e300 * 1e300 * 0);
    return x < eps || x > 1 - eps ? (F)0 : slope;
}
template <class F> __device__ inline F mish_slope(F gradient, F x, F tanh) {
    return gradient * (tanh + x * sigmoid_of(x) * (1 - tanh * tanh));
}
// The derivative of the tanh form of `gelu`, times the gradient.
template <class F> __device__ inline F gelu_slope(F gradient, F x, F tanh) {
    F inner = (F)0.79788456080286535588 * (1 + 3 * (F)0.044715 * x * x);
    return gradient * ((F)0.5 * (1 + tanh) + (F)0.5 * x * (1 - tanh * tanh) * inner);
}
// The same series as the host's `series.rs`.
__device__ inline double digamma_of(double x) {
    const double infinity = 1e300 * 1e300, pi = 3.14159265358979323846;
    if (x == 0) return copysign(infinity, -x);
    double sum = 0;
    if (x < 0) {
        if (x == trunc(x)) return infinity - infinity;
        sum = -pi / tan(pi * (x - trunc(x)));
        x = 1 - x;
    }
    for (; x < 10; x += 1) sum -= 1 / x;
    const double z = 1 / (x * x);
    double series = 1.0 / 12;
    series = series * z - 691.0 / 32760;
    series = series * z + 1.0 / 132;
    series = series * z - 1.0 / 240;
    series = series * z + 1.0 / 252;
    series = series * z - 1.0 / 120;
    series = series * z + 1.0 / 12;
    return sum + log(x) - 0.5 / x - z * series;
}
__device__ inline double erfinv_of(double y) {
    const double infinity = 1e300 * 1e300, size = fabs(y);
    if (size >= 1 || size != size) return size == 1 ? copysign(infinity, y) : infinity - infinity;
    double x;
    if (size <= 0.7) {
        const double z = y * y;
        x = y * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899)
            / ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
    } else {
        const double z = sqrt(-log((1 - size) / 2));
        const double top = ((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454;
        x = copysign(top, y) / ((1.637067800 * z + 3.543889200) * z + 1);
    }
    for (int step = 0; step < 2; ++step)
        x -= (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
    return x;
}
