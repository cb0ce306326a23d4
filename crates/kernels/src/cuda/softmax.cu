// Softmax along rows and its gradient: the first operand is x or the gradient, the second the result
// that was given then, the third is written.
extern "C" __global__ void NAME(const Rows<3> call) {
    __shared__ T shared[256];
    Seat s = seat(call);
    const E0* x = (const E0*)call.operand[0].data;
    const E1* y = (const E1*)call.operand[1].data;
    E2* out = (E2*)call.operand[2].data;
    u64 groups = (call.rows + s.rows - 1) / s.rows;
    for (u64 group = blockIdx.x; group < groups; group += gridDim.x) {
        u64 row = group * s.rows + s.row, end = row < call.rows ? call.length : 0, at[3];
        begin(call, row < call.rows ? row : 0, at);
        auto of_x = [&](const u64 (&of)[3]) { return read<T, T>(element(x + of[0])); };
        auto of_y = [&](const u64 (&of)[3]) { return read<T, T>(element(y + of[1])); };
        (void)of_x; (void)of_y; (void)y;
        auto sum = [](T a, T b) { return a + b; };
        T most = Ends<T>::least(), total = 0;
#if FORWARD
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3]) { most = greater(of_x(of), most); });
        most = together(most, s, shared, [](T a, T b) { return greater(a, b); });
#endif
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3]) { total += SUMMED; });
        total = together(total, s, shared, sum);
        T logarithm = log(total);
        (void)logarithm; (void)most;
        each(call, at, 0, end, s, [&](u64, const u64 (&of)[3]) { store(out + of[2], (T)(GIVEN)); });
    }
}
