//! The measured calls, each with the same call in PyTorch.
//!
//! Long because it is a list.

use millstream_types::DType::{self, BF16, Bool, F16, F32, I64};
use millstream_types::{AttrValue, Attrs, Layout, TensorSpec};

/// What bounds the time of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The calling overhead: a small call.
    Overhead,
    /// The memory: all operands are read or written once.
    Memory,
    /// The arithmetic: this number of floating-point operations.
    Arithmetic(u64),
}

/// A call, and the same one in PyTorch.
pub(crate) struct Case {
    /// The name of the case.
    pub name: String,
    /// The op.
    pub op: &'static str,
    /// The inputs.
    pub inputs: Vec<TensorSpec>,
    /// The arguments.
    pub attrs: Attrs,
    /// The call in PyTorch, on inputs `x0`, `x1` and so on.
    pub torch: &'static str,
    /// What bounds its time.
    pub bound: Bound,
}

impl Case {
    fn new(name: &str, op: &'static str, inputs: Vec<TensorSpec>, torch: &'static str) -> Case {
        let small = inputs.iter().all(|spec| spec.layout.numel() < 1 << 13);
        let bound = if small { Bound::Overhead } else { Bound::Memory };
        Case { name: name.to_owned(), op, inputs, attrs: Attrs::new(), torch, bound }
    }

    fn with(mut self, name: &'static str, value: impl Into<AttrValue>) -> Case {
        self.attrs = self.attrs.with(name, value);
        self
    }

    fn operations(self, count: usize) -> Case {
        let bound = if count < 1 << 20 { Bound::Overhead } else { Bound::Arithmetic(count as u64) };
        Case { bound, ..self }
    }
}

fn dense(dtype: DType, shape: &[usize]) -> TensorSpec {
    TensorSpec::contiguous(dtype, shape).expect("a shape")
}

fn f32s(shape: &[usize]) -> TensorSpec {
    dense(F32, shape)
}

/// Returns a matrix with rows one after another in memory, seen as the transposed one.
fn transposed(dtype: DType, rows: usize, columns: usize) -> TensorSpec {
    let layout = Layout::strided(&[rows, columns], &[1, rows], 0).expect("a layout");
    TensorSpec::new(dtype, layout).expect("a layout")
}

/// Adds a case to `all`, with these arguments.
fn add(
    all: &mut Vec<Case>,
    name: &str,
    op: &'static str,
    inputs: Vec<TensorSpec>,
    torch: &'static str,
    attrs: Attrs,
) {
    all.push(Case { attrs, ..Case::new(name, op, inputs, torch) });
}

fn elementwise(all: &mut Vec<Case>) {
    for (size, n) in [("16", 16), ("4096", 4096), ("1M", 1 << 20)] {
        let x = |k: usize| vec![f32s(&[n]); k];
        let mut case = |name: &str, op, inputs, torch, attrs| {
            add(all, &format!("{name} {size}"), op, inputs, torch, attrs);
        };
        let no = Attrs::new;
        case("copy", "clone", x(1), "x0.clone()", no());
        case("add", "add", x(2), "x0 + x1", no());
        case("add_", "add_", x(2), "x0.add_(x1)", no());
        case("mul", "mul", x(2), "x0 * x1", no());
        case("sigmoid", "sigmoid", x(1), "torch.sigmoid(x0)", no());
        case("tanh", "tanh", x(1), "torch.tanh(x0)", no());
        case("exp", "exp", x(1), "torch.exp(x0)", no());
        case("sqrt", "sqrt", x(1), "torch.sqrt(x0)", no());
        case("relu", "relu", x(1), "torch.relu(x0)", no());
        case("gelu", "gelu", x(1), "F.gelu(x0)", no());
        case("gelu_backward", "gelu_backward", x(2), "a.gelu_backward(x0, x1)", no());
        case("maximum", "maximum", x(2), "torch.maximum(x0, x1)", no());
        case("gt", "gt", x(2), "x0 > x1", no());
        case("add bf16", "add", vec![dense(BF16, &[n]); 2], "x0 + x1", no());
        let masked = vec![f32s(&[n]), dense(Bool, &[n])];
        let attrs = no().with("value", 1.0);
        case("masked_fill", "masked_fill", masked, "x0.masked_fill(x1, 1.0)", attrs);
        let choice = vec![dense(Bool, &[n]), f32s(&[n]), f32s(&[n])];
        case("where", "where", choice, "torch.where(x0, x1, x2)", no());
        case("pow 2", "pow", x(1), "torch.pow(x0, 2.0)", no().with("exponent", 2.0));
        case("pow 3", "pow", x(1), "torch.pow(x0, 3.0)", no().with("exponent", 3.0));
        let attrs = no().with("min", -0.5).with("max", 0.5);
        case("clamp", "clamp", x(1), "torch.clamp(x0, -0.5, 0.5)", attrs);
        let (op, torch) = ("threshold_backward", "a.threshold_backward(x0, x1, 0)");
        case(op, op, x(2), torch, no().with("threshold", 0));
        case("lerp_", "lerp_", x(2), "x0.lerp_(x1, 0.1)", no().with("weight", 0.1));
        let torch = "x0.addcmul_(x1, x2, value=0.001)";
        case("addcmul_", "addcmul_", x(3), torch, no().with("value", 0.001));
        let torch = "x0.addcdiv_(x1, x2, value=1e-8)";
        case("addcdiv_", "addcdiv_", x(3), torch, no().with("value", 1e-8));
        for (name, from, to, torch) in [
            ("f32 to f16", F32, F16, "x0.to(torch.float16)"),
            ("f32 to bf16", F32, BF16, "x0.to(torch.bfloat16)"),
            ("f16 to f32", F16, F32, "x0.to(torch.float32)"),
            ("bf16 to f32", BF16, F32, "x0.to(torch.float32)"),
            ("i64 to f32", I64, F32, "x0.to(torch.float32)"),
            ("f32 to i64", F32, I64, "x0.to(torch.int64)"),
        ] {
            case(name, "cast", vec![dense(from, &[n])], torch, no().with("dtype", to));
        }
    }
    let (rows, columns) = (1024, 1024);
    let x = f32s(&[rows, columns]);
    let mut case = |name, op, inputs, torch| all.push(Case::new(name, op, inputs, torch));
    case("add row", "add", vec![x.clone(), f32s(&[columns])], "x0 + x1");
    case("add column", "add", vec![x.clone(), f32s(&[rows, 1])], "x0 + x1");
    case("add transposed", "add", vec![x, transposed(F32, rows, columns)], "x0 + x1");
    all.push(
        Case::new(
            "transpose 1024",
            "clone",
            vec![transposed(F32, rows, columns)],
            "x0.clone(memory_format=torch.contiguous_format)",
        )
        .with("memory_format", "contiguous"),
    );
    let heads = Layout::strided(&[8, 12, 128, 64], &[98304, 64, 768, 1], 0).expect("a layout");
    let heads = TensorSpec::new(F32, heads).expect("a layout");
    all.push(
        Case::new(
            "heads apart",
            "clone",
            vec![heads],
            "x0.clone(memory_format=torch.contiguous_format)",
        )
        .with("memory_format", "contiguous"),
    );
    all.push(
        Case::new(
            "cat 4 x 256k",
            "cat",
            vec![f32s(&[256, 1024]); 4],
            "torch.cat([x0, x1, x2, x3], 1)",
        )
        .with("dim", 1),
    );
}

fn rows(all: &mut Vec<Case>) {
    for (size, m, n) in [("4x64", 4, 64), ("1024x1024", 1024, 1024), ("16x50257", 16, 50257)] {
        let x = |k: usize| vec![f32s(&[m, n]); k];
        let case = |name: &str, op, inputs, torch| {
            let mut case = Case::new(&format!("{name} {size}"), op, inputs, torch);
            if m * n < 1 << 13 {
                case.bound = Bound::Overhead;
            }
            case
        };
        let softmax = case("softmax", "_softmax", x(1), "torch.softmax(x0, -1)");
        let log = case("log_softmax", "_log_softmax", x(1), "torch.log_softmax(x0, -1)");
        for c in [softmax, log] {
            all.push(c.with("dim", -1).with("half_to_float", false));
        }
        for (name, op, torch) in [
            (
                "softmax backward",
                "_softmax_backward_data",
                "a._softmax_backward_data(x0, x1, -1, torch.float32)",
            ),
            (
                "log_softmax backward",
                "_log_softmax_backward_data",
                "a._log_softmax_backward_data(x0, x1, -1, torch.float32)",
            ),
        ] {
            all.push(case(name, op, x(2), torch).with("dim", -1).with("input_dtype", F32));
        }
        let shape = vec![n as i64];
        let inputs = vec![f32s(&[m, n]), f32s(&[n]), f32s(&[n])];
        all.push(
            case(
                "layer norm",
                "native_layer_norm",
                inputs,
                "torch.native_layer_norm(x0, x1.shape, x1, x2, 1e-5)",
            )
            .with("normalized_shape", shape.clone())
            .with("eps", 1e-5),
        );
        let mut inputs = x(2);
        inputs.extend([f32s(&[m, 1]), f32s(&[m, 1]), f32s(&[n]), f32s(&[n])]);
        all.push(
            case(
                "layer norm backward",
                "native_layer_norm_backward",
                inputs,
                "a.native_layer_norm_backward(x0, x1, x4.shape, x2, x3, x4, x5, [True]*3)",
            )
            .with("normalized_shape", shape)
            .with("output_mask", vec![1, 1, 1]),
        );
        all.push(case("sum rows", "sum", x(1), "x0.sum(1)").with("dim", vec![1]));
        all.push(case("sum columns", "sum", x(1), "x0.sum(0)").with("dim", vec![0]));
        all.push(case("sum all", "sum", x(1), "x0.sum()"));
        all.push(case("mean rows", "mean", x(1), "x0.mean(1)").with("dim", vec![1]));
        all.push(case("amax rows", "amax", x(1), "x0.amax(1)").with("dim", vec![1]));
        all.push(case("amax columns", "amax", x(1), "x0.amax(0)").with("dim", vec![0]));
        all.push(case("argmax rows", "argmax", x(1), "x0.argmax(1)").with("dim", 1));
        all.push(case("max rows", "max", x(1), "x0.max(1)").with("dim", 1));
        all.push(case("var rows", "var", x(1), "x0.var(1)").with("dim", vec![1]));
        all.push(
            case("norm all", "linalg_vector_norm", x(1), "torch.linalg.vector_norm(x0)")
                .with("ord", 2.0),
        );
        all.push(case("cumsum rows", "cumsum", x(1), "x0.cumsum(1)").with("dim", 1));
        let inputs = vec![f32s(&[m, n]), dense(I64, &[m])];
        all.push(
            case(
                "nll loss",
                "nll_loss_forward",
                inputs,
                "a.nll_loss_forward(x0, x1, None, 1, -100)",
            )
            .with("reduction", "mean")
            .with("ignore_index", -100),
        );
        let inputs = vec![f32s(&[n, 64]), dense(I64, &[m * 64])];
        all.push(case("embedding", "embedding", inputs, "a.embedding(x0, x1)"));
    }
    let image = f32s(&[8, 64, 56, 56]);
    let channel = f32s(&[64]);
    let norm = |training: bool, torch| {
        let mut inputs = vec![image.clone()];
        inputs.extend(vec![channel.clone(); 4]);
        let name = if training { "batch norm training" } else { "batch norm" };
        Case::new(name, "native_batch_norm", inputs, torch)
            .with("training", training)
            .with("momentum", 0.1)
            .with("eps", 1e-5)
    };
    let inference = "a.native_batch_norm(x0, x1, x2, x3.abs_(), x4.abs_(), False, 0.1, 1e-5)";
    all.push(norm(false, inference));
    all.push(norm(true, "a.native_batch_norm(x0, x1, x2, x3, x4, True, 0.1, 1e-5)"));
    let mut inputs = vec![image.clone(); 2];
    inputs.extend(vec![channel.clone(); 5]);
    all.push(
        Case::new(
            "batch norm backward",
            "native_batch_norm_backward",
            inputs,
            "a.native_batch_norm_backward(x0, x1, x2, x3, x4, x5, x6, True, 1e-5, [True]*3)",
        )
        .with("train", true)
        .with("eps", 1e-5)
        .with("output_mask", vec![1, 1, 1]),
    );
    all.push(
        Case::new(
            "group norm",
            "native_group_norm",
            vec![image.clone(), channel.clone(), channel.clone()],
            "a.native_group_norm(x0, x1, x2, 8, 64, 3136, 8, 1e-5)",
        )
        .with("N", 8)
        .with("C", 64)
        .with("HxW", 3136)
        .with("group", 8)
        .with("eps", 1e-5),
    );
    let mut inputs = vec![image.clone(); 2];
    inputs.extend([f32s(&[8, 8]), f32s(&[8, 8]), channel]);
    all.push(
        Case::new(
            "group norm backward",
            "native_group_norm_backward",
            inputs,
            "a.native_group_norm_backward(x0, x1, x2, x3, x4, 8, 64, 3136, 8, [True]*3)",
        )
        .with("N", 8)
        .with("C", 64)
        .with("HxW", 3136)
        .with("group", 8)
        .with("output_mask", vec![1, 1, 1]),
    );
    all.push(
        Case::new(
            "max pool",
            "max_pool2d_with_indices",
            vec![image.clone()],
            "a.max_pool2d_with_indices(x0, [3, 3], [2, 2], [1, 1])",
        )
        .with("kernel_size", vec![3, 3])
        .with("stride", vec![2, 2])
        .with("padding", vec![1, 1]),
    );
    all.push(
        Case::new("mean of pixels", "mean", vec![image], "x0.mean([2, 3])").with("dim", vec![2, 3]),
    );
}

fn products(all: &mut Vec<Case>) {
    let mut product = |name: &str, x: TensorSpec, y: TensorSpec| {
        let (m, rank) = (x.layout.numel(), y.layout.shape().len());
        let n = y.layout.shape()[rank - 1];
        let case = Case::new(&format!("matmul {name}"), "matmul", vec![x, y], "x0 @ x1");
        all.push(case.operations(2 * m * n));
    };
    product("1x64x64", f32s(&[1, 64]), f32s(&[64, 64]));
    product("4x32x32", f32s(&[4, 32]), f32s(&[32, 32]));
    product("4x32x128t", f32s(&[4, 32]), transposed(F32, 32, 128));
    product("8x16x10t", f32s(&[8, 16]), transposed(F32, 16, 10));
    product("4 of 1x16x8", f32s(&[4, 1, 16]), f32s(&[4, 16, 8]));
    product("32x128x512t", f32s(&[32, 128]), transposed(F32, 128, 512));
    product("1024", f32s(&[1024, 1024]), f32s(&[1024, 1024]));
    product("1024t", f32s(&[1024, 1024]), transposed(F32, 1024, 1024));
    product("512x768x3072t", f32s(&[512, 768]), transposed(F32, 768, 3072));
    product("512x3072x768t", f32s(&[512, 3072]), transposed(F32, 3072, 768));
    product("64x4096x4096t", f32s(&[64, 4096]), transposed(F32, 4096, 4096));
    product("1x4096x4096t", f32s(&[1, 4096]), transposed(F32, 4096, 4096));
    product("96 of 128x64x128", f32s(&[96, 128, 64]), f32s(&[96, 64, 128]));
    product("f16 512", dense(F16, &[512, 512]), dense(F16, &[512, 512]));
    product("bf16 512", dense(BF16, &[512, 512]), dense(BF16, &[512, 512]));
    for (name, dtype) in [("f16", F16), ("bf16", BF16)] {
        let of = |shape: &[usize]| dense(dtype, shape);
        product(&format!("{name} 1024"), of(&[1024, 1024]), of(&[1024, 1024]));
        let shape = "512x768x3072t";
        product(&format!("{name} {shape}"), of(&[512, 768]), transposed(dtype, 768, 3072));
        let shape = "1x4096x4096t";
        product(&format!("{name} {shape}"), of(&[1, 4096]), transposed(dtype, 4096, 4096));
        product(&format!("{name} 4x32x32"), of(&[4, 32]), of(&[32, 32]));
    }
    product("bf16 768tx512x3072", transposed(BF16, 768, 512), dense(BF16, &[512, 3072]));
    for (name, m, k, n) in
        [("4x64x64t", 4, 64, 64), ("8x32x96t", 8, 32, 96), ("512x768x768t", 512, 768, 768)]
    {
        let inputs = vec![f32s(&[n]), f32s(&[m, k]), transposed(F32, k, n)];
        let case = Case::new(&format!("addmm {name}"), "addmm", inputs, "torch.addmm(x0, x1, x2)");
        all.push(case.operations(2 * m * n * k));
    }
}

fn attention(all: &mut Vec<Case>) {
    for (name, batch, heads, length, width) in [
        ("2x2x8x8", 2, 2, 8, 8),
        ("4x12x128x64", 4, 12, 128, 64),
        ("1x12x1024x64", 1, 12, 1024, 64),
        ("1x2x4096x64", 1, 2, 4096, 64),
    ] {
        let q = f32s(&[batch, heads, length, width]);
        let sums = f32s(&[batch, heads, length]);
        let count = 4 * batch * heads * length * length * width;
        for (causal, torch) in [
            (false, "a._scaled_dot_product_flash_attention_for_cpu(x0, x1, x2, 0.0, False)"),
            (true, "a._scaled_dot_product_flash_attention_for_cpu(x0, x1, x2, 0.0, True)"),
        ] {
            let kind = if causal { "causal " } else { "" };
            all.push(
                Case::new(
                    &format!("attention {kind}{name}"),
                    "_scaled_dot_product_flash_attention_for_cpu",
                    vec![q.clone(); 3],
                    torch,
                )
                .with("is_causal", causal)
                .operations(count),
            );
        }
        let mut inputs = vec![q.clone(); 5];
        inputs.push(sums);
        all.push(
            Case::new(
                &format!("attention backward {name}"),
                "_scaled_dot_product_flash_attention_for_cpu_backward",
                inputs,
                "a._scaled_dot_product_flash_attention_for_cpu_backward(\
                 x0, x1, x2, x3, x4, x5.transpose(1, 2).contiguous().transpose(1, 2), 0.0, False)",
            )
            .with("is_causal", false)
            .operations(count * 5 / 2),
        );
    }
}

fn convolutions(all: &mut Vec<Case>) {
    // Images, channels, size, channels of the result, kernel, stride, groups.
    for (name, [n, c, size, to, kernel, stride, groups]) in [
        ("4x8x16 3x3", [4, 8, 16, 8, 3, 1, 1]),
        ("stem 7x7/2", [4, 3, 224, 64, 7, 2, 1]),
        ("56 64 1x1", [4, 64, 56, 64, 1, 1, 1]),
        ("56 64-256 1x1", [4, 64, 56, 256, 1, 1, 1]),
        ("56 64 3x3", [4, 64, 56, 64, 3, 1, 1]),
        ("28 128 3x3", [4, 128, 28, 128, 3, 1, 1]),
        ("14 256 3x3", [4, 256, 14, 256, 3, 1, 1]),
        ("7 512 3x3", [4, 512, 7, 512, 3, 1, 1]),
        ("7 2048-512 1x1", [4, 2048, 7, 512, 1, 1, 1]),
        ("56-28 256-512 1x1/2", [4, 256, 56, 512, 1, 2, 1]),
        ("28 116 3x3 depthwise", [4, 116, 28, 116, 3, 1, 116]),
        ("56 144 3x3/2 depthwise", [4, 144, 56, 144, 3, 2, 144]),
        ("14 512 3x3 in 32 groups", [4, 512, 14, 512, 3, 1, 32]),
    ] {
        let (pad, out) = (kernel / 2, size / stride);
        let pads: Vec<i64> = vec![pad as i64; 2];
        let strides: Vec<i64> = vec![stride as i64; 2];
        let x = f32s(&[n, c, size, size]);
        let weight = f32s(&[to, c / groups, kernel, kernel]);
        let grad = f32s(&[n, to, out, out]);
        let count = 2 * n * to * out * out * c / groups * kernel * kernel;
        let arguments = |case: Case| {
            case.with("stride", strides.clone())
                .with("padding", pads.clone())
                .with("dilation", vec![1, 1])
                .with("transposed", false)
                .with("output_padding", vec![0, 0])
                .with("groups", groups as i64)
        };
        let (forward, to_x, to_weight): (&str, &str, &str) = match (kernel, stride, groups) {
            (1, 1, _) => (
                "F.conv2d(x0, x1)",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [0,0], [1,1], False, [0,0], 1, [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [0,0], [1,1], False, [0,0], 1, [False, True, False])",
            ),
            (1, _, _) => (
                "F.conv2d(x0, x1, stride=2)",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [0,0], [1,1], False, [0,0], 1, [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [0,0], [1,1], False, [0,0], 1, [False, True, False])",
            ),
            (3, _, 1) => (
                "F.conv2d(x0, x1, padding=1)",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [1,1], [1,1], False, [0,0], 1, [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [1,1], [1,1], False, [0,0], 1, [False, True, False])",
            ),
            (3, 1, _) => (
                "F.conv2d(x0, x1, stride=[1,1], padding=1, groups=x0.shape[1]//x1.shape[1])",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [1,1], [1,1], False, [0,0], x1.shape[1]//x2.shape[1], [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [1,1], [1,1], [1,1], False, [0,0], x1.shape[1]//x2.shape[1], [False, True, False])",
            ),
            (3, _, _) => (
                "F.conv2d(x0, x1, stride=[2,2], padding=1, groups=x0.shape[1]//x1.shape[1])",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [1,1], [1,1], False, [0,0], x1.shape[1]//x2.shape[1], [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [1,1], [1,1], False, [0,0], x1.shape[1]//x2.shape[1], [False, True, False])",
            ),
            _ => (
                "F.conv2d(x0, x1, stride=2, padding=3)",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [3,3], [1,1], False, [0,0], 1, [True, False, False])",
                "a.convolution_backward(x0, x1, x2, None, [2,2], [3,3], [1,1], False, [0,0], 1, [False, True, False])",
            ),
        };
        let inputs = vec![x.clone(), weight.clone()];
        all.push(
            arguments(Case::new(&format!("conv {name}"), "convolution", inputs, forward))
                .operations(count),
        );
        for (part, mask, torch) in
            [("input", vec![1, 0, 0], to_x), ("weight", vec![0, 1, 0], to_weight)]
        {
            let inputs = vec![grad.clone(), x.clone(), weight.clone()];
            let name = format!("conv grad {part} {name}");
            all.push(
                arguments(Case::new(&name, "convolution_backward", inputs, torch))
                    .with("output_mask", mask)
                    .operations(count),
            );
        }
    }
}

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    let mut all = Vec::new();
    elementwise(&mut all);
    rows(&mut all);
    products(&mut all);
    attention(&mut all);
    convolutions(&mut all);
    all
}
