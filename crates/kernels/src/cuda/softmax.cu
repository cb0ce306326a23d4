// Softmax along rows and its gradient: the first operand is x or the gradient, the second the result
// that was given then, the third is written. Of an element v of the first, w of the second, a row's
// greatest element, and the sum of SUMMED along it, GIVEN is made.
extern "C" __global__ void BOUNDED NAME(const Rows<3> call) {
    __shared__ T shared[256];
    Seat s = seat(call);
    const E0* x = (const E0*)call.operand[0].data;
    const E1* y = (const E1*)call.operand[1].data;
    E2* out = (E2*)call.operand[2].data;
    (void)y;
    // A row is read but once if each thread's elements of it fit into registers.
    Pack<E0, AT_ONCE> xs[HELD ? HELD : 1];
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < call.rows ? call.length : 0, at[3];
        begin(call, row < call.rows ? row : 0, at);
        auto sum = [](T a, T b) { return a + b; };
        T most = Ends<T>::least(), total = 0;
#if FORWARD
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3], int turn) {
            xs[turn] = load_pack<AT_ONCE>(x + of[0]);
            for (int k = 0; k < AT_ONCE; ++k) most = greater((T)carry(xs[turn].at[k]), most);
        });
        most = together(most, s, shared, [](T a, T b) { return greater(a, b); });
#define BESIDE(of, turn) xs[turn]
#else
#define BESIDE(of, turn) beside<1>(call, y + of[1])
#endif
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3], int turn) {
            if (!HELD) xs[turn] = load_pack<AT_ONCE>(x + of[0]);
            auto ys = BESIDE(of, turn);
            for (int k = 0; k < AT_ONCE; ++k) {
                T v = (T)carry(xs[turn].at[k]), w = (T)carry(ys.at[k]);
                (void)v; (void)w;
                total += SUMMED;
            }
        });
        total = together(total, s, shared, sum);
        T logarithm = log(total);
        (void)logarithm; (void)most;
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3], int turn) {
            if (!HELD) xs[turn] = load_pack<AT_ONCE>(x + of[0]);
            auto ys = BESIDE(of, turn);
            Pack<E2, AT_ONCE> made;
            for (int k = 0; k < AT_ONCE; ++k) {
                T v = (T)carry(xs[turn].at[k]), w = (T)carry(ys.at[k]);
                (void)v; (void)w;
                made.at[k] = Cast<E2>::of((T)(GIVEN));
            }
            store_pack<E2, AT_ONCE>(out + of[2], made);
        });
    }
}
