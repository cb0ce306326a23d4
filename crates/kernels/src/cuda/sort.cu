// Sorts the indices of each line by a bitonic network. All comparisons have the same direction, so
// that the padding behind the end of a line never moves. Of equal elements the one with the lower
// index comes first, which makes the order unique.
// Source: K. E. Batcher, "Sorting networks and their applications", AFIPS 1968; the variant whose
// merges start with mirrored indices.
// Operands: x, the indices; their strides exclude the sorted dimension.
// Integers: the length of a line; the strides of both operands along it; whether to sort in
// descending order. For a single step of the network also: the length of a merge; the distance of
// the compared elements, 0 for mirrored indices.
struct Line {
    const E* x;
    long long* indices;
    u64 length, x_step, step;
    bool descending;
};
__device__ inline Line line_of(const StridedArgs& args, u64 number) {
    Coordinates position = coordinates(args, number, 0, args.rank);
    Line line;
    line.x = DATA(const E, 0) + offset(args, 0, position, 0, args.rank);
    line.indices = DATA(long long, 1) + offset(args, 1, position, 0, args.rank);
    line.length = (u64)args.integers[0];
    line.x_step = (u64)args.integers[1];
    line.step = (u64)args.integers[2];
    line.descending = args.integers[3] != 0;
    return line;
}
// NaN is greater than all numbers.
__device__ inline bool less(T a, T b) { return a < b || (a == a && b != b); }
// Orders one pair of a step: pair `number` of the elements `distance` apart, or mirrored in a
// merge.
__device__ inline void compare(const Line& line, u64 merge, u64 distance, u64 number) {
    u64 low, high;
    if (distance == 0) {
        const u64 half = merge / 2, start = number / half * merge, within = number % half;
        low = start + within;
        high = start + merge - 1 - within;
    } else {
        low = number / distance * 2 * distance + number % distance;
        high = low + distance;
    }
    if (high >= line.length) return;
    const long long first = line.indices[low * line.step], second = line.indices[high * line.step];
    T a = load(line.x + (u64)first * line.x_step), b = load(line.x + (u64)second * line.x_step);
    const bool ordered = line.descending ? less(b, a) : less(a, b);
    const bool reversed = line.descending ? less(a, b) : less(b, a);
    if (reversed || (!ordered && second < first)) {
        line.indices[low * line.step] = second;
        line.indices[high * line.step] = first;
    }
}
