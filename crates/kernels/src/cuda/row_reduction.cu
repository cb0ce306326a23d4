// The common part of the kernels over rows: some dimensions number the rows, the others number the
// elements of a row. `row_reduction.rs` declares the same types in Rust.
// Defined before: VECTOR_WIDTH, the number of adjacent elements of a row that a thread loads at
// once; REGISTER_LOADS, the loads of a thread if each has registers of its own, else 0.
struct RowOperand { u64 data; u64 bytes; u64 kept[8]; u64 reduced[8]; };
template <int N> struct RowArgs {
    ArgsHeader header; u64 rows, length, part, parts;
    unsigned kept, reduced, block_rows, adjacent_rows, flags, vector_width;
    u64 kept_shape[8], reduced_shape[8];
    RowOperand operand[N]; double scalars[4];
};

// A kernel that keeps elements in registers has few others: two blocks fit into a multiprocessor.
#if REGISTER_LOADS
#define BOUNDED __launch_bounds__(256, 2)
#else
#define BOUNDED
#endif

// The row of the block that a thread works on, its number among the threads of the row, and whether
// these threads follow one another.
struct RowThread { unsigned row, rows, thread, threads; bool consecutive; };
template <int N> __device__ inline RowThread row_thread(const RowArgs<N>& args) {
    unsigned rows = args.block_rows, threads = 256 / rows, t = threadIdx.x;
    RowThread s = {t / threads, rows, t % threads, threads, !args.adjacent_rows};
    if (args.adjacent_rows) { s.row = t % rows; s.thread = t / rows; }
    return s;
}

// A division in 32 bits needs far fewer instructions.
__device__ inline u64 divided(u64 x, u64 y) {
    return (x | y) >> 32 ? x / y : (u64)((unsigned)x / (unsigned)y);
}

// The offset of a row in each operand.
template <int N> __device__ inline void row_offsets(const RowArgs<N>& args, u64 row, u64 (&at)[N]) {
    for (int k = 0; k < N; ++k) at[k] = 0;
    for (int dim = (int)args.kept - 1; dim >= 0; --dim) {
        u64 length = args.kept_shape[dim], rest = divided(row, length);
        u64 within = row - rest * length;
        row = rest;
        for (int k = 0; k < N; ++k) at[k] += within * args.operand[k].kept[dim];
    }
}

// Calls `f` for the elements of `first..end` that belong to this thread, VECTOR_WIDTH at a time.
// Passes the index, the offsets and, if REGISTER_LOADS, the number of earlier calls for this row.
template <int N, class F>
__device__ inline void for_each(
    const RowArgs<N>& args, const u64 (&from)[N], u64 first, u64 end, RowThread s, F f
) {
    const u64 start = first + (u64)s.thread * VECTOR_WIDTH, step = (u64)s.threads * VECTOR_WIDTH;
#if REGISTER_LOADS
    // Unrolled completely, so that each load has registers of its own.
#pragma unroll
    for (int turn = 0; turn < REGISTER_LOADS; ++turn) {
        u64 at[N], index = start + turn * step;
        for (int k = 0; k < N; ++k) at[k] = from[k] + index * args.operand[k].reduced[0];
        if (index < end) f(index, at, turn);
    }
#else
    if (args.reduced <= 1) {
#pragma unroll 4
        for (u64 index = start; index < end; index += step) {
            u64 at[N];
            for (int k = 0; k < N; ++k) at[k] = from[k] + index * args.operand[k].reduced[0];
            f(index, at, 0);
        }
        return;
    }
    for (u64 index = start; index < end; index += step) {
        u64 at[N], left = index;
        for (int k = 0; k < N; ++k) at[k] = from[k];
        for (int dim = (int)args.reduced - 1; dim >= 0; --dim) {
            u64 length = args.reduced_shape[dim], rest = divided(left, length);
            u64 within = left - rest * length;
            left = rest;
            for (int k = 0; k < N; ++k) at[k] += within * args.operand[k].reduced[dim];
        }
        f(index, at, 0);
    }
#endif
}

// Calls `f` for the vectors of operand K, which is `x`, that belong to this thread, in their order.
// Passes the index of the first element. Four loads are under way at once.
template <int K, int N, class E, class F>
__device__ inline void for_each_vector(
    const RowArgs<N>& args, const u64 (&from)[N], u64 first, u64 end, RowThread s, const E* x, F f
) {
#if VECTOR_WIDTH > 1
    // The elements of a vector follow one another.
    if (args.reduced <= 1) {
        const u64 step = (u64)s.threads * VECTOR_WIDTH;
        u64 index = first + (u64)s.thread * VECTOR_WIDTH;
        x += from[K];
        for (; index + 3 * step < end; index += 4 * step) {
            Vector<E, VECTOR_WIDTH> xs[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) xs[k] = load_vector<VECTOR_WIDTH>(x + index + k * step);
#pragma unroll
            for (int k = 0; k < 4; ++k) f(index + k * step, xs[k]);
        }
        for (; index < end; index += step) f(index, load_vector<VECTOR_WIDTH>(x + index));
        return;
    }
#endif
    for_each(args, from, first, end, s, [&](u64 index, const u64 (&of)[N], int) {
        f(index, load_vector<VECTOR_WIDTH>(x + of[K]));
    });
}

// Loads the elements of operand K that belong to a vector. If the operand does not vary along a
// row, repeats its one element.
template <int K, int N, class E>
__device__ inline Vector<E, VECTOR_WIDTH> load_operand(const RowArgs<N>& args, const E* at) {
    const bool varies = VECTOR_WIDTH == 1 || args.operand[K].reduced[args.reduced - 1] != 0;
    if (varies) return load_vector<VECTOR_WIDTH>(at);
    Vector<E, 1> one = load_vector<1>(at);
    Vector<E, VECTOR_WIDTH> all;
    for (int k = 0; k < VECTOR_WIDTH; ++k) all.at[k] = one.at[0];
    return all;
}

// Combines the values of a row's threads, always in the same order, and returns the result to all.
template <class P, class C>
__device__ inline P reduce_row(P mine, RowThread s, P* shared, C combine) {
    if (s.threads == 1) return mine;
    P* own = shared + s.row * s.threads;
    own[s.thread] = mine;
    // Threads of one warp only wait for each other.
    auto wait = [&](unsigned threads) {
        if (s.consecutive && threads <= 32) __syncwarp(); else __syncthreads();
    };
    for (unsigned half = s.threads / 2; half > 0; half /= 2) {
        wait(2 * half);
        if (s.thread < half) own[s.thread] = combine(own[s.thread], own[s.thread + half]);
    }
    wait(s.threads);
    P all = own[0];
    wait(s.threads);
    return all;
}

// Combines the partial results of each row, which are adjacent in operand K, and passes them to
// `f`.
template <int K, class P, int N, class C, class F>
__device__ inline void combine_parts(
    const RowArgs<N>& args, P* shared, P identity, C combine, F f
) {
    RowThread s = {0, 1, threadIdx.x, 256, true};
    for (u64 row = blockIdx.x; row < args.rows; row += gridDim.x) {
        const P* parts = (const P*)args.operand[K].data + row * args.parts;
        u64 at[N];
        row_offsets(args, row, at);
        P total = identity;
        for (u64 part = s.thread; part < args.parts; part += s.threads) {
            total = combine(total, parts[part]);
        }
        total = reduce_row(total, s, shared, combine);
        if (s.thread == 0) f(at, total);
    }
}

template <class T> struct Limits;
template <> struct Limits<float> {
    __device__ static float greatest() { return __uint_as_float(0x7f800000u); }
    __device__ static float least() { return -greatest(); }
};
template <> struct Limits<double> {
    __device__ static double greatest() { return __longlong_as_double(0x7ff0000000000000ll); }
    __device__ static double least() { return -greatest(); }
};
template <> struct Limits<i64> {
    __device__ static i64 greatest() { return 0x7fffffffffffffffll; }
    __device__ static i64 least() { return -greatest() - 1; }
};
template <class T> __device__ inline T element(const T* at) { MS_TOUCH(at, sizeof(T)); return *at; }
