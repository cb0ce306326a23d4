// The common start of all kernels: elements, conversions, loads and stores, the argument block.
typedef unsigned long long u64;
typedef long long i64;
struct boolean { unsigned char bits; };
struct f16 { unsigned short bits; };
struct bf16 { unsigned short bits; };

// `args.rs` declares the same types in Rust.
struct ArgsHeader { unsigned size, operands, offset, stride; };
struct OperandLayout { u64 data; u64 bytes; u64 strides[8]; };
struct ElementwiseArgs {
    ArgsHeader header; u64 count; unsigned rank, dense; u64 shape[8];
    OperandLayout operand[4]; double scalars[6]; i64 integers[6];
};

#ifdef MS_HOST
// The tests' stand-in converts half by integer arithmetic.
inline float widened(unsigned short bits) {
    unsigned sign = (unsigned)(bits & 0x8000u) << 16;
    unsigned exponent = bits >> 10 & 31u, part = bits & 1023u;
    if (exponent == 31u) return __uint_as_float(sign | 0x7f800000u | part << 13);
    if (exponent != 0) return __uint_as_float(sign | (exponent + 112u) << 23 | part << 13);
    float small = (float)part * 5.9604644775390625e-8f;
    return sign ? -small : small;
}
inline unsigned short narrowed(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
    if (size >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    // The last bit of the sum has the value of the least half, so the addition rounds to the
    // nearest half, ties to even.
    if (size < 0x38800000u) {
        float sum = __uint_as_float(size) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(sum) - 0x3f000000u));
    }
    size += 0xfffu + (size >> 13 & 1u);
    return (unsigned short)(sign | (size - 0x38000000u) >> 13);
}
#else
#define MS_TOUCH(at, size)
__device__ inline float widened(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ inline unsigned short narrowed(float value) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#endif

// Converts an element to one of four types, each of which holds all of its values.
__device__ inline float carry(float v) { return v; }
__device__ inline double carry(double v) { return v; }
__device__ inline i64 carry(i64 v) { return v; }
__device__ inline i64 carry(int v) { return v; }
__device__ inline i64 carry(short v) { return v; }
__device__ inline i64 carry(signed char v) { return v; }
__device__ inline i64 carry(unsigned char v) { return v; }
__device__ inline i64 carry(unsigned short v) { return v; }
__device__ inline i64 carry(unsigned v) { return v; }
__device__ inline u64 carry(u64 v) { return v; }
__device__ inline i64 carry(boolean v) { return v.bits != 0; }
__device__ inline float carry(f16 v) { return widened(v.bits); }
__device__ inline float carry(bf16 v) { return __uint_as_float((unsigned)v.bits << 16); }

// Truncates towards zero and clamps to the bounds; NaN becomes 0.
template <class F> __device__ inline i64 truncated(F v, i64 least, i64 greatest) {
    if (v != v) return 0;
    if (v >= (F)9223372036854775808.0) return greatest;
    if (v < (F)-9223372036854775808.0) return least;
    i64 result = (i64)v;
    return result < least ? least : result > greatest ? greatest : result;
}

// Converts one of those types to an element: the low bits of integers, the nearest float.
template <class E> struct Cast;
template <> struct Cast<float> {
    template <class V> __device__ static float of(V v) { return (float)v; }
};
template <> struct Cast<double> {
    template <class V> __device__ static double of(V v) { return (double)v; }
};
template <> struct Cast<boolean> {
    template <class V> __device__ static boolean of(V v) { return {(unsigned char)(v != 0)}; }
};
template <> struct Cast<f16> {
    template <class V> __device__ static f16 of(V v) { return {narrowed((float)v)}; }
};
template <> struct Cast<bf16> {
    template <class V> __device__ static bf16 of(V v) {
        float value = (float)v;
        unsigned bits = __float_as_uint(value);
        // Rounds to the nearest, ties to even. NaN stays NaN.
        unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        return {(unsigned short)(value != value ? (bits >> 16) | 0x40u : rounded)};
    }
};
template <class E> struct IntegerCast {
    template <class V> __device__ static E of(V v) { return (E)v; }
    __device__ static E of(float v) { return (E)truncated(v, least(), greatest()); }
    __device__ static E of(double v) { return (E)truncated(v, least(), greatest()); }
    __device__ static i64 greatest() {
        const i64 half = (i64)1 << (sizeof(E) * 8 - 2);
        return (E)-1 < (E)0 ? half - 1 + half : (i64)(E)-1;
    }
    __device__ static i64 least() { return (E)-1 < (E)0 ? -greatest() - 1 : 0; }
};
template <> struct Cast<i64> : IntegerCast<i64> {};
template <> struct Cast<int> : IntegerCast<int> {};
template <> struct Cast<short> : IntegerCast<short> {};
template <> struct Cast<signed char> : IntegerCast<signed char> {};
template <> struct Cast<unsigned char> : IntegerCast<unsigned char> {};
template <> struct Cast<unsigned short> : IntegerCast<unsigned short> {};
template <> struct Cast<unsigned> : IntegerCast<unsigned> {};
template <> struct Cast<u64> {
    template <class V> __device__ static u64 of(V v) { return (u64)v; }
    __device__ static u64 of(float v) { return of((double)v); }
    __device__ static u64 of(double v) {
        return v >= 18446744073709551616.0 ? ~(u64)0 : v > 0 ? (u64)v : 0;
    }
};

// Converts an element to `Via` and then to `T`.
template <class T, class Via, class E> __device__ inline T read(E element) {
    return Cast<T>::of(carry(Cast<Via>::of(carry(element))));
}

template <class E> __device__ inline auto load(const E* at) {
    MS_TOUCH(at, sizeof(E));
    return carry(*at);
}
template <class E, class V> __device__ inline void store(E* at, V value) {
    MS_TOUCH(at, sizeof(E));
    *at = Cast<E>::of(value);
}

// Elements that one instruction loads or stores.
template <class E, int N> struct alignas(sizeof(E) * N) Vector { E at[N]; };
template <int N, class E> __device__ inline Vector<E, N> load_vector(const E* at) {
    MS_TOUCH(at, sizeof(Vector<E, N>));
    return *(const Vector<E, N>*)at;
}
template <class E, int N> __device__ inline void store_vector(E* at, const Vector<E, N>& vector) {
    MS_TOUCH(at, sizeof(vector));
    *(Vector<E, N>*)at = vector;
}

// Computes the offset of element `index` in each operand, in elements.
template <class I, int N>
__device__ inline void offsets(const ElementwiseArgs& args, I index, I (&at)[N]) {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int dim = (int)args.rank - 1; dim >= 0; --dim) {
        I length = (I)args.shape[dim], rest = index / length, within = index - rest * length;
        index = rest;
        for (int k = 0; k < N; ++k) at[k] += within * (I)args.operand[k].strides[dim];
    }
}

// Reads scalar k in the type that the kernel computes in.
__device__ inline void scalar(const ElementwiseArgs& args, int k, float& v) {
    v = (float)args.scalars[k];
}
__device__ inline void scalar(const ElementwiseArgs& args, int k, double& v) {
    v = args.scalars[k];
}
__device__ inline void scalar(const ElementwiseArgs& args, int k, i64& v) {
    v = args.integers[k];
}
__device__ inline void scalar(const ElementwiseArgs& args, int k, u64& v) {
    v = (u64)args.integers[k];
}

// Fails the call.
__device__ inline void fail(const ElementwiseArgs& args, int k) {
    volatile u64* flag = (volatile u64*)args.operand[k].data;
    MS_TOUCH(flag, sizeof(u64));
    *flag = 1;
}
