// Functions of elements, for the three types that they are computed in. Integers wrap.
__device__ inline i64 plus(i64 x, i64 y) { return (i64)((u64)x + (u64)y); }
__device__ inline i64 times(i64 x, i64 y) { return (i64)((u64)x * (u64)y); }
__device__ inline i64 negative(i64 x) { return (i64)(0 - (u64)x); }
__device__ inline i64 magnitude(i64 x) { return x < 0 ? negative(x) : x; }
__device__ inline bool unordered(i64) { return false; }
// No integer is divided by zero: that gives 0, and the kernel says that the call has failed.
__device__ inline i64 rest_of(i64 x, i64 y) { return y == 0 || y == -1 ? 0 : x % y; }
__device__ inline i64 quotient(i64 x, i64 y) { return y == 0 ? 0 : y == -1 ? negative(x) : x / y; }
__device__ inline i64 floor_quotient(i64 x, i64 y) {
    i64 rest = rest_of(x, y);
    return quotient(x, y) - (rest != 0 && (rest < 0) != (y < 0));
}
__device__ inline i64 power(i64 x, i64 exponent) {
    // A power below zero of anything but 1 and -1 is a fraction, of which nothing stays.
    if (exponent < 0) return x == 1 ? 1 : x == -1 ? 1 - 2 * (exponent & 1) : 0;
    i64 result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = times(result, x);
        x = times(x, x);
    }
    return result;
}
__device__ inline i64 shifted_up(i64 x, i64 y, int width) { return y < 0 || y >= width ? 0 : (i64)((u64)x << y); }
__device__ inline i64 shifted_down(i64 x, i64 y) { return x >> (y < 0 || y > 63 ? 63 : y); }
__device__ inline i64 nearest_even(i64 x) { return x; }
__device__ inline i64 cut(i64 x) { return x; }
__device__ inline i64 below(i64 x) { return x; }
__device__ inline i64 above(i64 x) { return x; }

template <class F> __device__ inline F plus(F x, F y) { return x + y; }
template <class F> __device__ inline F times(F x, F y) { return x * y; }
template <class F> __device__ inline F negative(F x) { return -x; }
template <class F> __device__ inline F magnitude(F x) { return fabs(x); }
template <class F> __device__ inline bool unordered(F x) { return x != x; }
template <class F> __device__ inline F rest_of(F x, F y) { return fmod(x, y); }
template <class F> __device__ inline F quotient(F x, F y) { return trunc(x / y); }
// As Python divides: from the exact rest, so that no rounding of x / y carries over a whole number.
template <class F> __device__ inline F floor_quotient(F x, F y) {
    if (y == 0) return x / y;
    F rest = fmod(x, y), quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign((F)0, x / y);
    F down = floor(quotient);
    return quotient - down > (F)0.5 ? down + 1 : down;
}
template <class F> __device__ inline F power(F x, F y) { return pow(x, y); }
template <class F> __device__ inline F nearest_even(F x) { return rint(x); }
template <class F> __device__ inline F cut(F x) { return trunc(x); }
template <class F> __device__ inline F below(F x) { return floor(x); }
template <class F> __device__ inline F above(F x) { return ceil(x); }
template <class F> __device__ inline F share(F x) { return 1 / (1 + exp(-x)); }

// x - y · floor(x / y), of the sign of y.
template <class T> __device__ inline T remainder_of(T x, T y) {
    T rest = rest_of(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? plus(rest, y) : rest;
}
// The greater or lesser; of what is no number, that.
template <class T> __device__ inline T greater(T x, T y) { return x > y || unordered(x) ? x : y; }
template <class T> __device__ inline T lesser(T x, T y) { return x < y || unordered(x) ? x : y; }
template <class T> __device__ inline T sign_of(T x) { return (T)(x > 0) - (T)(x < 0); }
// The slope of `gelu` by tanh, times the gradient.
template <class F> __device__ inline F gelu_slope(F gradient, F x, F tanh) {
    F inner = (F)0.79788456080286535588 * (1 + 3 * (F)0.044715 * x * x);
    return gradient * ((F)0.5 * (1 + tanh) + (F)0.5 * x * (1 - tanh * tanh) * inner);
}
