// The common part of im2col and col2im.
// The iteration space has the dimensions image, group, channel, and those of an image's positions.
// Operands: the images, the columns. Integers: the first position of the map, the number of
// positions, the strides of the columns by row and by image, and the geometry of the convolution.
#define INTEGER(k) ((u64)args.integers[k])
#define FIRST INTEGER(0)
#define POSITIONS INTEGER(1)
#define ROW INTEGER(2)
#define STEP INTEGER(3)
#define MAP(k) INTEGER(4 + k)
#define WINDOW(k) INTEGER(7 + k)
#define STRIDE(k) INTEGER(10 + k)
#define PADDING(k) INTEGER(13 + k)
#define DILATION(k) INTEGER(16 + k)
#define IMAGE(k) args.shape[3 + k]
#define IMAGE_STRIDE(k) args.operand[0].strides[3 + k]
#define CHANNELS (args.shape[1] * args.shape[2])
#define WINDOW_SIZE (WINDOW(0) * WINDOW(1) * WINDOW(2))
