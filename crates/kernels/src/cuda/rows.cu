// Kernels that go over rows: the elements of a row are those of some dimensions, and the rows are numbered
// by the others. The same as in `rows.rs`. Before this stand AT_ONCE, how many elements of a row that lie
// side by side a thread takes at once, and HELD, how often it does so if that is known and not often, else 0.
struct RowOperand { u64 data; u64 bytes; u64 kept[8]; u64 along[8]; };
template <int N> struct Rows {
    Head head; u64 rows, length, part, parts;
    unsigned kept, along, width, across, flags, at_once;
    u64 kept_shape[8], along_shape[8];
    RowOperand operand[N]; double numbers[4];
};

// A kernel that holds elements has so few other registers that three blocks fit into a multiprocessor.
#if HELD
#define BOUNDED __launch_bounds__(256, 3)
#else
#define BOUNDED
#endif

// Which row of its block's a thread works on, as which of so many, and whether these are of one warp.
struct Seat { unsigned row, rows, place, places; bool warp; };
template <int N> __device__ inline Seat seat(const Rows<N>& call) {
    unsigned width = call.width, places = 256 / width, t = threadIdx.x;
    Seat s = {t / places, width, t % places, places, !call.across && places <= 32};
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

// Calls `f` for the elements from `first` to `end` that are this thread's, AT_ONCE at a time, with where
// they lie and, if HELD, how often it was called for this row before.
template <int N, class F>
__device__ inline void each(const Rows<N>& call, const u64 (&from)[N], u64 first, u64 end, Seat s, F f) {
    const u64 start = first + (u64)s.place * AT_ONCE, step = (u64)s.places * AT_ONCE;
#if HELD
    // Without a loop, so that what is kept of each time has registers of its own.
#pragma unroll
    for (int turn = 0; turn < HELD; ++turn) {
        u64 at[N], index = start + turn * step;
        for (int k = 0; k < N; ++k) at[k] = from[k] + index * call.operand[k].along[0];
        if (index < end) f(index, at, turn);
    }
#else
    if (call.along <= 1) {
#pragma unroll 4
        for (u64 index = start; index < end; index += step) {
            u64 at[N];
            for (int k = 0; k < N; ++k) at[k] = from[k] + index * call.operand[k].along[0];
            f(index, at, 0);
        }
        return;
    }
    for (u64 index = start; index < end; index += step) {
        u64 at[N], left = index;
        for (int k = 0; k < N; ++k) at[k] = from[k];
        for (int dim = (int)call.along - 1; dim >= 0; --dim) {
            u64 length = call.along_shape[dim], rest = divided(left, length), within = left - rest * length;
            left = rest;
            for (int k = 0; k < N; ++k) at[k] += within * call.operand[k].along[dim];
        }
        f(index, at, 0);
    }
#endif
}

// What operand K has for the elements that are taken at once: as many, or one for all of them where it does
// not move along a row.
template <int K, int N, class E>
__device__ inline Pack<E, AT_ONCE> beside(const Rows<N>& call, const E* at) {
    if (AT_ONCE == 1 || call.operand[K].along[call.along - 1] != 0) return load_pack<AT_ONCE>(at);
    Pack<E, 1> one = load_pack<1>(at);
    Pack<E, AT_ONCE> all;
    for (int k = 0; k < AT_ONCE; ++k) all.at[k] = one.at[0];
    return all;
}

// Joins what the threads of a row have, always in the same order, and gives it to all of them.
template <class P, class J> __device__ inline P together(P mine, Seat s, P* shared, J join) {
    if (s.places == 1) return mine;
    P* own = shared + s.row * s.places;
    own[s.place] = mine;
    // Rows of one warp wait for none but their own.
    auto wait = [&] { if (s.warp) __syncwarp(); else __syncthreads(); };
    for (unsigned half = s.places / 2; half > 0; half /= 2) {
        wait();
        if (s.place < half) own[s.place] = join(own[s.place], own[s.place + half]);
    }
    wait();
    P all = own[0];
    wait();
    return all;
}

// Joins the parts of each row, which lie in operand K one behind the other; `f` is given what they make.
template <int K, class P, int N, class J, class F>
__device__ inline void each_joined(const Rows<N>& call, P* shared, P nothing, J join, F f) {
    Seat s = {0, 1, threadIdx.x, 256, false};
    for (u64 row = blockIdx.x; row < call.rows; row += gridDim.x) {
        const P* parts = (const P*)call.operand[K].data + row * call.parts;
        u64 at[N];
        begin(call, row, at);
        P total = nothing;
        for (u64 part = s.place; part < call.parts; part += s.places) total = join(total, parts[part]);
        total = together(total, s, shared, join);
        if (s.place == 0) f(at, total);
    }
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
