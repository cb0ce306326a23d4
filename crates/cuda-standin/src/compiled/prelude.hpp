// The language of CUDA C in C++, for kernels that run on the host. It includes no header, so that a
// source compiles quickly. The source follows, inside the namespace, and then its kernels' entries.
#define MS_HOST 1

struct ms_dim { unsigned x, y, z; };
struct ms_range { unsigned long long from, to; };

// The interface of a running thread. `LaunchState` in blocks.rs has the same layout.
struct ms_machine {
    ms_dim thread, block, block_dim, grid_dim;
    const ms_range* ranges;
    unsigned long long range_count;
    void (*barrier)(void);
    unsigned long long (*exchange)(unsigned long long value, unsigned from);
    void (*fail)(const char* what, unsigned long long address, unsigned long long bytes);
};
extern "C" __attribute__((visibility("default"))) ms_machine ms_host;
ms_machine ms_host;

// A kernel's argument is copied for each thread, as on a device.
template <class A> inline void ms_invoke(void (*kernel)(A), const void* argument) { kernel(*(const A*)argument); }
inline void ms_invoke(void (*kernel)(), const void*) { kernel(); }
template <class A> inline unsigned ms_size(void (*)(A)) { return sizeof(A); }
inline unsigned ms_size(void (*)()) { return 0; }
#define MS_ENTRY(name) \
    extern "C" __attribute__((visibility("default"))) void ms_run_##name(const void* argument) { ms_invoke(ms::name, argument); } \
    extern "C" __attribute__((visibility("default"))) unsigned ms_size_##name() { return ms_size(ms::name); }

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __constant__ static const
#define __forceinline__ inline
#define __noinline__
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define threadIdx ms_host.thread
#define blockIdx ms_host.block
#define blockDim ms_host.block_dim
#define gridDim ms_host.grid_dim
#define warpSize 32

// Checks device memory before an access: fails unless it is aligned and within an operand.
#define MS_TOUCH(at, size) ms_touch((unsigned long long)(at), (size))
inline __attribute__((noinline)) void ms_touch(unsigned long long at, unsigned long long size) {
    for (unsigned long long k = 0; k < ms_host.range_count; ++k)
        if (at >= ms_host.ranges[k].from && at + size <= ms_host.ranges[k].to && at % size == 0) return;
    ms_host.fail("an access outside the operands, or not aligned", at, size);
}

namespace ms {

struct alignas(2) ushort2 { unsigned char x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

inline void __syncthreads() { ms_host.barrier(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __trap() { ms_host.fail("a trap", 0, 0); }

// Returns the value of lane `from` of the warp. All threads of the warp must call it.
template <class T> inline T ms_exchange(T value, unsigned from) {
    static_assert(sizeof(T) <= 8, "exchanged by words");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    word = ms_host.exchange(word, from);
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
}
inline unsigned ms_lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}
inline void ms_whole(unsigned mask) {
    if (mask != 0xffffffffu) ms_host.fail("an exchange between some threads of a warp", 0, 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { ms_whole(mask); ms_exchange(0u, ms_lane()); }
template <class T> inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    ms_whole(mask);
    return ms_exchange(value, ms_lane() / width * width + (unsigned)from % width);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    ms_whole(mask);
    unsigned lane = ms_lane();
    return ms_exchange(value, lane % width + by < (unsigned)width ? lane + by : lane);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    ms_whole(mask);
    unsigned lane = ms_lane();
    return ms_exchange(value, lane % width >= by ? lane - by : lane);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
    ms_whole(mask);
    unsigned lane = ms_lane(), from = lane ^ (unsigned)by;
    return ms_exchange(value, from / width == lane / width ? from : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    ms_whole(mask);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        bits |= (unsigned)(ms_exchange(predicate != 0, lane)) << lane;
    return bits;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == 0xffffffffu; }

// Only one thread of a launch runs at a time.
template <class T, class V> inline T atomicAdd(T* at, V v) { T old = *at; *at = old + (T)v; return old; }
template <class T, class V> inline T atomicMax(T* at, V v) { T old = *at; if ((T)v > old) *at = (T)v; return old; }
template <class T, class V> inline T atomicMin(T* at, V v) { T old = *at; if ((T)v < old) *at = (T)v; return old; }
template <class T, class V> inline T atomicOr(T* at, V v) { T old = *at; *at = old | (T)v; return old; }
template <class T, class V> inline T atomicAnd(T* at, V v) { T old = *at; *at = old & (T)v; return old; }
template <class T, class V> inline T atomicExch(T* at, V v) { T old = *at; *at = (T)v; return old; }
template <class T, class C, class V> inline T atomicCAS(T* at, C expected, V v) {
    T old = *at;
    if (old == (T)expected) *at = (T)v;
    return old;
}

template <class To, class From> inline To ms_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}
inline unsigned __float_as_uint(float v) { return ms_bits<unsigned>(v); }
inline int __float_as_int(float v) { return ms_bits<int>(v); }
inline float __uint_as_float(unsigned v) { return ms_bits<float>(v); }
inline float __int_as_float(int v) { return ms_bits<float>(v); }
inline long long __double_as_longlong(double v) { return ms_bits<long long>(v); }
inline double __longlong_as_double(long long v) { return ms_bits<double>(v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
inline int __clzll(unsigned long long v) { return v ? __builtin_clzll(v) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
template <class T> inline T __ldg(const T* at) { return *at; }

#define MS_MATH(name) \
    inline float name(float x) { return __builtin_##name##f(x); } \
    inline double name(double x) { return __builtin_##name(x); }
#define MS_MATH2(name) \
    inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
    inline double name(double x, double y) { return __builtin_##name(x, y); }
#define MS_FLOAT(name) inline float name##f(float x) { return __builtin_##name##f(x); }
MS_MATH(exp) MS_MATH(exp2) MS_MATH(expm1) MS_MATH(log) MS_MATH(log2) MS_MATH(log10) MS_MATH(log1p)
MS_MATH(sqrt) MS_MATH(cbrt) MS_MATH(sin) MS_MATH(cos) MS_MATH(tan) MS_MATH(asin) MS_MATH(acos)
MS_MATH(atan) MS_MATH(sinh) MS_MATH(cosh) MS_MATH(tanh) MS_MATH(erf) MS_MATH(erfc) MS_MATH(floor)
MS_MATH(asinh) MS_MATH(acosh) MS_MATH(atanh) MS_MATH(lgamma)
MS_MATH(ceil) MS_MATH(trunc) MS_MATH(rint) MS_MATH(round) MS_MATH(fabs)
MS_MATH2(pow) MS_MATH2(fmod) MS_MATH2(copysign) MS_MATH2(fmin) MS_MATH2(fmax) MS_MATH2(atan2)
MS_FLOAT(exp) MS_FLOAT(log) MS_FLOAT(sqrt) MS_FLOAT(floor) MS_FLOAT(ceil) MS_FLOAT(fabs) MS_FLOAT(tanh)
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
inline float fminf(float x, float y) { return __builtin_fminf(x, y); }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
template <class T> inline bool isnan(T x) { return x != x; }
template <class T> inline bool isinf(T x) { return __builtin_isinf(x); }
template <class T> inline T min(T x, T y) { return y < x ? y : x; }
template <class T> inline T max(T x, T y) { return x < y ? y : x; }
