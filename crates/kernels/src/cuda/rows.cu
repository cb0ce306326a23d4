// Kernels that go over rows: the elements of a row are those of some dimensions, and the rows are numbered
// by the others. The same as in `rows.rs`.
struct RowOperand { u64 data; u64 bytes; u64 kept[8]; u64 along[8]; };
template <int N> struct Rows {
    Head head; u64 rows, length, part, parts;
    unsigned kept, along, width, across, flags, spare;
    u64 kept_shape[8], along_shape[8];
    RowOperand operand[N]; double numbers[4];
};

// Which row of its block's a thread works on, and as which of so many.
struct Seat { unsigned row, rows, place, places; };
template <int N> __device__ inline Seat seat(const Rows<N>& call) {
    unsigned width = call.width, places = 256 / width, t = threadIdx.x;
    Seat s = {t / places, width, t % places, places};
    if (call.across) { s.row = t % width; s.place = t / width; }
    return s;
}

// Devices divide in 32 bits with far fewer instructions.
__device__ inline u64 divided(u64 x, u64 y) {
    return (x | y) >> 32 ? x / y : (u64)((unsigned)x / (unsigned)y);
}

// Where a row begins in each operand.
template <int N> __device__ inline void begin(const Rows<N>& call, u64 row, u64 (&at)[N]) {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int dim = (int)call.kept - 1; dim >= 0; --dim) {
        u64 length = call.kept_shape[dim], rest = divided(row, length), within = row - rest * length;
        row = rest;
        for (int k = 0; k < N; ++k) at[k] += within * call.operand[k].kept[dim];
    }
}

// Calls `f` for the elements from `first` to `end` that are this thread's, with where they lie.
template <int N, class F>
__device__ inline void each(const Rows<N>& call, const u64 (&from)[N], u64 first, u64 end, Seat s, F f) {
    if (call.along <= 1) {
#pragma unroll 4
        for (u64 index = first + s.place; index < end; index += s.places) {
            u64 at[N];
            for (int k = 0; k < N; ++k) at[k] = from[k] + index * call.operand[k].along[0];
            f(index, at);
        }
        return;
    }
    for (u64 index = first + s.place; index < end; index += s.places) {
        u64 at[N], left = index;
        for (int k = 0; k < N; ++k) at[k] = from[k];
        for (int dim = (int)call.along - 1; dim >= 0; --dim) {
            u64 length = call.along_shape[dim], rest = divided(left, length), within = left - rest * length;
            left = rest;
            for (int k = 0; k < N; ++k) at[k] += within * call.operand[k].along[dim];
        }
        f(index, at);
    }
}

// Joins what the threads of a row have, always in the same order, and gives it to all of them.
template <class P, class J> __device__ inline P together(P mine, Seat s, P* shared, J join) {
    if (s.places == 1) return mine;
    P* own = shared + s.row * s.places;
    own[s.place] = mine;
    for (unsigned half = s.places / 2; half > 0; half /= 2) {
        __syncthreads();
        if (s.place < half) own[s.place] = join(own[s.place], own[s.place + half]);
    }
    __syncthreads();
    P all = own[0];
    __syncthreads();
    return all;
}

template <class T> struct Ends;
template <> struct Ends<float> {
    __device__ static float most() { return __uint_as_float(0x7f800000u); }
    __device__ static float least() { return -most(); }
};
template <> struct Ends<double> {
    __device__ static double most() { return __longlong_as_double(0x7ff0000000000000ll); }
    __device__ static double least() { return -most(); }
};
template <> struct Ends<i64> {
    __device__ static i64 most() { return 0x7fffffffffffffffll; }
    __device__ static i64 least() { return -most() - 1; }
};
template <class T> __device__ inline T element(const T* at) { MS_TOUCH(at, sizeof(T)); return *at; }
