// Softmax along rows, and its gradient. The first operand is x or the gradient, the second the
// result of the forward op, the third is written.
// Defined before: TERM, an expression that is summed along a row, and RESULT, the expression of the
// result. Both use the elements v and w of the first two operands and the `greatest` element of the
// row; RESULT also uses the `term`, if USES_TERM, the `total` of the terms, its inverse `by_total`
// and its `logarithm`.
extern "C" __global__ void BOUNDED NAME(const RowArgs<3> args) {
    __shared__ T shared[256];
    RowThread s = row_thread(args);
    const E0* x = (const E0*)args.operand[0].data;
    const E1* y = (const E1*)args.operand[1].data;
    E2* out = (E2*)args.operand[2].data;
    (void)y;
    // A row is read only once if each thread's elements fit into registers.
    Vector<E0, VECTOR_WIDTH> xs[REGISTER_LOADS ? REGISTER_LOADS : 1];
    // Each term is computed only once in the same case.
    constexpr bool keeps = USES_TERM && REGISTER_LOADS && VECTOR_WIDTH * REGISTER_LOADS <= 32;
    T terms[keeps ? REGISTER_LOADS : 1][VECTOR_WIDTH];
    (void)terms;
    u64 groups = (args.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < args.rows ? args.length : 0, at[3];
        row_offsets(args, row < args.rows ? row : 0, at);
        auto sum = [](T a, T b) { return a + b; };
        T greatest = Limits<T>::least(), total = 0;
#if FORWARD && REGISTER_LOADS
        // All loads are under way before the first is used.
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[3], int step) {
            xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
        });
#endif
#if FORWARD
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[3], int step) {
            if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
            for (int k = 0; k < VECTOR_WIDTH; ++k)
                greatest = greater((T)carry(xs[step].at[k]), greatest);
        });
        greatest = reduce_row(greatest, s, shared, [](T a, T b) { return greater(a, b); });
#define SECOND(of, step) xs[step]
#else
#define SECOND(of, step) load_operand<1>(args, y + of[1])
#endif
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[3], int step) {
            if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
            auto ys = SECOND(of, step);
            for (int k = 0; k < VECTOR_WIDTH; ++k) {
                T v = (T)carry(xs[step].at[k]), w = (T)carry(ys.at[k]);
                (void)v; (void)w;
                T term = (T)(TERM);
                if (keeps) terms[step][k] = term;
                total += term;
            }
        });
        total = reduce_row(total, s, shared, sum);
        T logarithm = log(total), by_total = 1 / total;
        (void)logarithm; (void)by_total; (void)greatest;
        for_each(args, at, 0, end, s, [&](u64, const u64 (&of)[3], int step) {
            if (!REGISTER_LOADS) xs[step] = load_vector<VECTOR_WIDTH>(x + of[0]);
            auto ys = SECOND(of, step);
            Vector<E2, VECTOR_WIDTH> results;
            for (int k = 0; k < VECTOR_WIDTH; ++k) {
                T v = (T)carry(xs[step].at[k]), w = (T)carry(ys.at[k]);
                T term = keeps ? terms[step][k] : (T)(TERM);
                (void)v; (void)w; (void)term;
                results.at[k] = Cast<E2>::of((T)(RESULT));
            }
            store_vector<E2, VECTOR_WIDTH>(out + of[2], results);
        });
    }
}
