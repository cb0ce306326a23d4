// The windows of images. Integers: for the rows and then the columns of an image the length, the number
// of windows, their length, stride, padding and dilation; then the strides of the image's rows and
// columns, and those of the map's; whether windows share out the image; whether padding counts; what
// sums are divided by, or zero.
struct Side { long long length, count, kernel, stride, padding, dilation; };
__device__ inline Side side(const Walk& walk, int k) {
    const long long* of = walk.integers + 6 * k;
    Side side = {of[0], of[1], of[2], of[3], of[4], of[5]};
    return side;
}
// Where a window lies inside the image, from and to before, and its length with the padding.
struct Part { long long from, to, length; };
__device__ inline Part part(const Side& side, long long number, bool shares) {
    Part part;
    if (shares) {
        part.from = number * side.length / side.count;
        part.to = ((number + 1) * side.length + side.count - 1) / side.count;
        part.length = part.to - part.from;
        return part;
    }
    long long from = number * side.stride, to = from + side.kernel;
    const long long end = side.length + 2 * side.padding;
    if (to > end) to = end;
    part.length = to - from;
    from -= side.padding;
    to -= side.padding;
    part.from = from < 0 ? 0 : from > side.length ? side.length : from;
    part.to = to < 0 ? 0 : to > side.length ? side.length : to;
    return part;
}
// The first place of a window with gaps that is inside, and where the window ends.
__device__ inline Part spread(const Side& side, long long number) {
    Part part;
    part.from = number * side.stride - side.padding;
    part.to = part.from + (side.kernel - 1) * side.dilation + 1;
    if (part.to > side.length) part.to = side.length;
    if (part.from < 0) part.from += (-part.from + side.dilation - 1) / side.dilation * side.dilation;
    part.length = side.kernel;
    return part;
}
// The windows that may have a place in them, from and to before.
__device__ inline Part around(const Side& side, long long place, bool shares) {
    Part part;
    if (shares) {
        part.from = place * side.count / side.length;
        part.to = ((place + 1) * side.count + side.length - 1) / side.length;
    } else {
        const long long reach = (side.kernel - 1) * side.dilation;
        const long long first = place + side.padding - reach;
        part.from = first <= 0 ? 0 : (first + side.stride - 1) / side.stride;
        part.to = (place + side.padding) / side.stride + 1;
    }
    if (part.to > side.count) part.to = side.count;
    part.length = 0;
    return part;
}
__device__ inline T divisor(const Walk& walk, const Part& down, const Part& across) {
    if (walk.integers[18]) return (T)walk.integers[18];
    if (walk.integers[17]) return (T)(double)(down.length * across.length);
    return (T)(double)((down.to - down.from) * (across.to - across.from));
}
