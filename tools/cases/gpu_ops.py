"""The ops of GPUs' libraries, computed on the CPU by PyTorch's other ops."""

import warnings

import torch

A = torch.ops.aten
LIBRARY = torch.library.Library("aten", "IMPL")
INF = float("inf")


def kernel(*names):
    """Makes a function the CPU's kernel of these ops."""
    def register(fn):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                LIBRARY.impl(name, fn, "CPU")
        return fn
    return register


# Attention


def scores(q, k, bias, hidden, scale):
    found = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5)
    found = found if bias is None else found + bias
    return found if hidden is None else found.masked_fill(hidden, -INF)


def beyond(q, k, right=None, left=None, by_end=False):
    """Returns which keys are hidden from which queries."""
    at = torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2] if by_end else 0)
    keys = torch.arange(k.shape[2])
    hidden = torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool)
    hidden = hidden if right is None else hidden | (keys > at + right)
    return hidden if left is None else hidden | (keys < at - left)


def attended(q, k, v, bias=None, hidden=None, scale=None):
    found = scores(q, k, bias, hidden, scale)
    return found.softmax(-1) @ v, found.logsumexp(-1)


def gradients(g, q, k, v, bias=None, hidden=None, scale=None):
    weights = scores(q, k, bias, hidden, scale).softmax(-1)
    of_weights = g @ v.transpose(-1, -2)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdim=True))
    factor = scale or q.shape[-1] ** -0.5
    of_bias = None if bias is None else of_scores.sum_to_size(bias.shape)
    return (of_scores @ k * factor, of_scores.transpose(-1, -2) @ q * factor,
            weights.transpose(-1, -2) @ g, of_bias)


def turned(*tensors):
    return [t.transpose(1, 2) for t in tensors]


def inside(t):
    """Returns a tensor with heads inside of sequences in memory."""
    return t.transpose(1, 2).contiguous().transpose(1, 2)


def padded(sums):
    return torch.nn.functional.pad(sums, (0, -sums.shape[-1] % 32), value=INF)


def state():
    return torch.tensor(7), torch.tensor(8)


@kernel("_scaled_dot_product_efficient_attention")
def efficient(q, k, v, bias, compute, p=0.0, causal=False, scale=None):
    out, sums = attended(q, k, v, bias, beyond(q, k, 0) if causal else None, scale)
    return inside(out), padded(sums) if compute else sums[..., :0].clone(), *state()


@kernel("_scaled_dot_product_efficient_attention_backward")
def efficient_backward(g, q, k, v, bias, out, sums, a, b, p, mask, causal=False, scale=None):
    made = gradients(g, q, k, v, bias, beyond(q, k, 0) if causal else None, scale)
    return tuple(inside(t) if wanted and n < 3 else t if wanted else None
                 for n, (t, wanted) in enumerate(zip(made, mask)))


@kernel("_scaled_dot_product_flash_attention")
def flash(q, k, v, p=0.0, causal=False, debug=False, scale=None):
    out, sums = attended(q, k, v, None, beyond(q, k, 0) if causal else None, scale)
    lengths = (q.shape[2], k.shape[2])
    return out, sums, None, None, *lengths, *state(), torch.empty(0)


@kernel("_scaled_dot_product_flash_attention_backward")
def flash_backward(g, q, k, v, out, sums, cq, ck, mq, mk, p, causal, a, b, scale=None):
    return gradients(g, q, k, v, None, beyond(q, k, 0) if causal else None, scale)[:3]


@kernel("_scaled_dot_product_cudnn_attention")
def cudnn(q, k, v, bias, compute, p=0.0, causal=False, debug=False, scale=None):
    out, sums = attended(q, k, v, bias, beyond(q, k, 0) if causal else None, scale)
    return out, sums[..., None].contiguous(), None, None, 0, 0, *state(), None


@kernel("_scaled_dot_product_cudnn_attention_backward", "_cudnn_attention_backward")
def cudnn_backward(g, q, k, v, out, sums, a, b, bias, cq, ck, mq, mk, p, causal, scale=None):
    return gradients(g, q, k, v, bias, beyond(q, k, 0) if causal else None, scale)[:3]


@kernel("_cudnn_attention_forward")
def cudnn_forward(q, k, v, bias, cq, ck, mq, mk, compute, p=0.0, causal=False, debug=False,
                  scale=None, **others):
    return cudnn(q, k, v, bias, compute, p, causal, debug, scale)


@kernel("_scaled_dot_product_fused_attention_overrideable")
def overrideable(q, k, v, bias=None, p=0.0, causal=False, debug=False, scale=None):
    out, sums = attended(q, k, v, bias, beyond(q, k, 0) if causal else None, scale)
    return out, sums, None, None, 0, 0, *state(), None


@kernel("_scaled_dot_product_fused_attention_overrideable_backward")
def overrideable_backward(g, q, k, v, bias, mask, out, sums, cq, ck, mq, mk, p, causal, a, b,
                          scale=None):
    made = gradients(g, q, k, v, bias, beyond(q, k, 0) if causal else None, scale)
    return tuple(t if wanted else None for t, wanted in zip(made, mask))


@kernel("_efficient_attention_forward")
def efficient_forward(q, k, v, bias, cq, ck, mq, mk, p, kind, compute=False, scale=None,
                      **others):
    q, k, v = turned(q, k, v)
    hidden = beyond(q, k, 0, by_end=kind == 2) if kind else None
    out, sums = attended(q, k, v, bias, hidden, scale)
    return turned(out)[0].contiguous(), padded(sums), *state(), q.shape[2], k.shape[2]


@kernel("_efficient_attention_backward")
def efficient_backward_turned(g, q, k, v, bias, out, cq, ck, mq, mk, sums, p, a, b, kind, wants,
                              scale=None, **others):
    g, q, k, v = turned(g, q, k, v)
    hidden = beyond(q, k, 0, by_end=kind == 2) if kind else None
    *made, of_bias = gradients(g, q, k, v, bias, hidden, scale)
    return *(t.contiguous() for t in turned(*made)), of_bias if wants else None


@kernel("_flash_attention_forward")
def flash_forward(q, k, v, cq, ck, mq, mk, p, causal, debug, scale=None, window_size_left=None,
                  window_size_right=None, **others):
    q, k, v = turned(q, k, v)
    right = 0 if causal else window_size_right
    hidden = beyond(q, k, right, window_size_left, by_end=True)
    out, sums = attended(q, k, v, None, hidden, scale)
    return turned(out)[0].contiguous(), sums, *state(), torch.empty(0)


@kernel("_flash_attention_backward")
def flash_backward_turned(g, q, k, v, out, sums, cq, ck, mq, mk, p, causal, a, b, scale=None,
                          window_size_left=None, window_size_right=None):
    g, q, k, v = turned(g, q, k, v)
    right = 0 if causal else window_size_right
    hidden = beyond(q, k, right, window_size_left, by_end=True)
    made = gradients(g, q, k, v, None, hidden, scale)[:3]
    return tuple(t.contiguous() for t in turned(*made))


# Convolutions and norms


@kernel("cudnn_convolution")
def convolution(x, w, padding, stride, dilation, groups, *flags):
    return A.convolution(x, w, None, stride, padding, dilation, False, [0, 0], groups)


@kernel("cudnn_convolution_transpose")
def transposed(x, w, padding, more, stride, dilation, groups, *flags):
    return A.convolution(x, w, None, stride, padding, dilation, True, more, groups)


@kernel("miopen_convolution", "miopen_depthwise_convolution")
def biased(x, w, b, padding, stride, dilation, groups, *flags):
    return A.convolution(x, w, b, stride, padding, dilation, False, [0, 0], groups)


@kernel("miopen_convolution_transpose")
def biased_transposed(x, w, b, padding, more, stride, dilation, groups, *flags):
    return A.convolution(x, w, b, stride, padding, dilation, True, more, groups)


@kernel("cudnn_convolution_relu", "miopen_convolution_relu")
def rectified(x, w, b, stride, padding, dilation, groups):
    return biased(x, w, b, padding, stride, dilation, groups).relu()


@kernel("cudnn_convolution_add_relu", "miopen_convolution_add_relu")
def added(x, w, z, alpha, b, stride, padding, dilation, groups):
    made = biased(x, w, b, padding, stride, dilation, groups)
    return (made + z * (1 if alpha is None else alpha)).relu()


@kernel("cudnn_batch_norm")
def normed(x, w, b, mean, var, training, momentum, eps):
    return *A.native_batch_norm(x, w, b, mean, var, training, momentum, eps), torch.empty(0).byte()


@kernel("miopen_batch_norm")
def normed_by_miopen(x, w, b, mean, var, training, momentum, eps):
    return A.native_batch_norm(x, w, b, mean, var, training, momentum, eps)


@kernel("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
def normed_backward(x, g, w, mean, var, saved_mean, saved_var, eps, reserve=None):
    return A.native_batch_norm_backward(
        g, x, w, mean, var, saved_mean, saved_var, True, eps, [True] * 3)


@kernel("_batch_norm_no_update")
def normed_by_statistics(x, w, b, mean, var, momentum, eps):
    made = A.native_batch_norm(x, w, b, mean, var, False, momentum, eps)[0]
    return made, mean.clone(), (var + eps).rsqrt(), torch.empty(0).byte()


# Recurrent layers

NETWORKS = {0: A.rnn_relu, 1: A.rnn_tanh, 2: A.lstm, 3: A.gru}


def network(x, weights, h, c, mode, layers, batch_first, both, sizes):
    states = [h, c] if mode == 2 else h
    fixed = (len(weights) == 4 * layers * (1 + both), layers, 0.0, False, both)
    if sizes:
        made = NETWORKS[mode].data(x, torch.tensor(sizes), states, weights, *fixed)
    else:
        made = NETWORKS[mode].input(x, states, weights, *fixed, batch_first)
    return made if mode == 2 else (*made, x.new_empty(0))


@kernel("_cudnn_rnn")
def layers(x, weights, stride, buffer, h, c, mode, width, projected, count, batch_first, dropout,
           train, both, sizes, dropped):
    made = network(x, weights, h, c, mode, count, batch_first, both, sizes)
    return *made, torch.zeros(5).byte(), torch.zeros(3)


# The gradients of the networks' calls, which the kernel of the gradient cannot compute.
GRADIENTS = []


@kernel("_cudnn_rnn_backward")
def layers_backward(*given):
    x, h, c, *weights = (t.clone() for t in GRADIENTS.pop(0))
    return x, h, c, weights


@kernel("_cudnn_rnn_flatten_weight")
def flattened(weights, stride, features, mode, width, projected, count, batch_first, both):
    return torch.cat([w.flatten() for w in weights])


@kernel("_thnn_fused_lstm_cell")
def lstm_cell(own, again, c, b=None, d=None):
    sums = own + again if b is None else own + again + b + d
    i, f, g, o = sums.chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * c + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], -1)


@kernel("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(g, h, c, after, kept, has_bias):
    sums = kept.logit()
    width = c.shape[-1]
    sums[:, 2 * width:3 * width] = kept[:, 2 * width:3 * width].atanh()
    made = A._thnn_differentiable_lstm_cell_backward(
        g, h, sums, torch.zeros_like(sums), None, None, c, after)
    return made[0], made[2], made[0].sum(0) if has_bias else None


def prepare():
    torch.manual_seed(41)
    inputs = {}

    def r(name, *shape):
        inputs[name] = torch.randn(shape)
        return inputs[name]

    q, k, v = r("q", 2, 3, 4, 5), r("k", 2, 3, 4, 5), r("v", 2, 3, 4, 5)
    g, bias = r("g", 2, 3, 4, 5), r("bias", 2, 3, 4, 4)
    narrow = r("narrow", 2, 3, 4, 2)
    s, t, u = r("s", 2, 3, 2, 5), r("t", 2, 5, 2, 5), r("u", 2, 5, 2, 5)
    x, w, z = r("x", 2, 4, 5, 6), r("w", 4, 2, 3, 3), r("z", 2, 4, 5, 6)
    b, wide = r("b", 4), r("wide", 4, 3, 3, 3)
    mean, var = r("mean", 4), r("var", 4).abs_()
    means, variances = r("means", 4), r("variances", 4).abs_()
    states, networks = [], []
    for n, (mode, count, both, sizes) in enumerate(
            [(2, 2, True, []), (3, 1, False, [3, 2]), (1, 1, False, [])]):
        parts, directions = {1: 1, 2: 4, 3: 3}[mode], 1 + both
        rows = r(f"rows{n}", *([sum(sizes)] if sizes else [3, 2]), 4)
        batch = sizes[0] if sizes else 2
        states = [r(f"state{n}.{m}", count * directions, batch, 3) for m in range(2)]
        weights = []
        for m in range(count * directions):
            features = 4 if m < directions else 3 * directions
            for shape in [(parts * 3, features), (parts * 3, 3), (parts * 3,), (parts * 3,)]:
                weights.append(r(f"weight{n}.{len(weights)}", *shape))
        fixed = (mode, count, False, both, sizes)
        leaves = [t.clone().requires_grad_() for t in (rows, *states, *weights)]
        made = network(leaves[0], leaves[3:], *leaves[1:3], *fixed)
        made = [t for t in made if t.numel()]
        grads = [r(f"grad{n}.{m}", *t.shape) for m, t in enumerate(made)]
        found = torch.autograd.grad(made, leaves, grads, allow_unused=True)
        GRADIENTS.append([torch.empty(0) if t is None else t for t in found])
        networks.append((rows, states, weights, fixed, grads))
    own, again, c = r("own", 2, 12), r("again", 2, 12), r("c", 2, 3)
    b4, d4, g3, h3 = r("b4", 12), r("d4", 12), r("g3", 2, 3), r("h3", 2, 3)
    steps = []
    for n in range(2):
        steps.append([[r(f"{part}{n}", 3)] for part in ("p", "pg", "m", "sq", "most")])
        steps[-1][3][0].abs_()
        steps[-1].append([torch.tensor(3.0)])
        inputs[f"step{n}"] = steps[-1][-1][0]
    scale = inputs["scale"] = torch.tensor(2.0)
    finite, infinite = torch.tensor(0.0), torch.tensor(1.0)
    inputs.update(finite=finite, infinite=infinite)

    def run():
        out = {}

        def add(name, made, count=None):
            made = [made] if torch.is_tensor(made) else list(made)
            made = [t for t in made if torch.is_tensor(t)][:count]
            out.update((f"{name}.{n}", t) for n, t in enumerate(made))

        for causal, scaled in [(False, None), (True, 0.3)]:
            made = A._scaled_dot_product_efficient_attention(
                q, k, v, bias, True, 0.0, causal, scale=scaled)
            add(f"efficient{causal}", made, 2)
            add(f"efficient_backward{causal}", A._scaled_dot_product_efficient_attention_backward(
                g, q, k, v, bias, *made, 0.0, [True] * 4, causal, scale=scaled))
            made = A._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scaled)
            add(f"flash{causal}", made, 2)
            add(f"flash_backward{causal}", A._scaled_dot_product_flash_attention_backward(
                g, q, k, v, made[0], made[1], q.new_empty(0), q.new_empty(0), 4, 4, 0.0, causal,
                made[6], made[7], scale=scaled))
            made = A._scaled_dot_product_cudnn_attention(
                q, k, v, None, True, 0.0, causal, scale=scaled)
            add(f"cudnn{causal}", made, 2)
            ends = (None, None, None, 4, 4, 0.0, causal)
            add(f"cudnn_backward{causal}", A._scaled_dot_product_cudnn_attention_backward(
                g, q, k, v, made[0], made[1], made[6], made[7], *ends, scale=scaled))
        made = A._cudnn_attention_forward(q, k, v, bias, None, None, 4, 4, True)
        add("cudnn_forward", made, 2)
        add("cudnn_backward", A._cudnn_attention_backward(
            g, q, k, v, made[0], made[1], made[6], made[7], bias, None, None, 4, 4, 0.0, False))
        made = A._scaled_dot_product_fused_attention_overrideable(q, k, narrow, bias)
        add("overrideable", made, 2)
        add("overrideable_backward", A._scaled_dot_product_fused_attention_overrideable_backward(
            g[..., :2], q, k, narrow, bias, [True, False, True, True], made[0], made[1], None,
            None, 4, 4, 0.0, False, made[6], made[7]))
        for kind in range(3):
            made = A._efficient_attention_forward(
                s, t, u, None, None, None, None, None, 0.0, kind, True)
            add(f"memory{kind}", made, 2)
            add(f"memory_backward{kind}", A._efficient_attention_backward(
                s + 1, s, t, u, None, made[0], None, None, 3, 5, made[1], 0.0, made[2], made[3],
                kind, False))
        for n, (causal, left, right) in enumerate(
                [(False, None, None), (True, None, None), (True, 1, 0), (False, 1, 1)]):
            given = {"window_size_left": left, "window_size_right": right}
            made = A._flash_attention_forward(
                s, t, u, None, None, 3, 5, 0.0, causal, False, **given)
            add(f"tiled{n}", made, 2)
            add(f"tiled_backward{n}", A._flash_attention_backward(
                s + 1, s, t, u, made[0], made[1], None, None, 3, 5, 0.0, causal, made[2], made[3],
                **given))
        flags = (False, False)
        once, twice, pad = [1, 1], [2, 1], [1, 0]
        add("convolution", A.cudnn_convolution(x, w, pad, twice, once, 2, *flags, True))
        add("transposed", A.cudnn_convolution_transpose(
            x, w, pad, [1, 0], twice, once, 2, *flags, True))
        add("miopen", A.miopen_convolution(x, w, b, pad, twice, once, 2, *flags))
        add("depthwise", A.miopen_depthwise_convolution(
            x, w[:, :1], b, pad, once, once, 4, *flags))
        add("miopen_transposed", A.miopen_convolution_transpose(
            x, w, None, pad, [1, 0], twice, once, 2, *flags))
        for op in (A.cudnn_convolution_relu, A.miopen_convolution_relu):
            add(op.__name__, op(x, w, b, once, once, once, 2))
        add("added", A.cudnn_convolution_add_relu(x, w, z, 0.5, b, once, once, once, 2))
        add("added_by_miopen", A.miopen_convolution_add_relu(
            x, w, z, None, None, once, once, once, 2))
        for name in ("cudnn", "miopen"):
            norm = getattr(A, f"{name}_batch_norm")
            made = norm(x, b, mean, means, variances, True, 0.1, 1e-3)
            add(f"{name}_norm", made, 3)
            last = made[3:]
            add(f"{name}_norm_backward", getattr(A, f"{name}_batch_norm_backward")(
                x, z, b, means, variances, made[1], made[2], 1e-3, *last))
        add("untrained", A.cudnn_batch_norm(x, b, mean, means, variances, False, 0.1, 1e-3), 1)
        add("no_update", A._batch_norm_no_update(x, b, mean, means, variances, 0.1, 1e-3), 3)
        made = A._batch_norm_with_update(x, b, mean, means, variances, 0.1, 1e-3)
        add("update", made, 3)
        add("update_backward", A.batch_norm_backward(
            z, x, b, means, variances, made[1], made[2], True, 1e-3, [True] * 3, made[3]))
        for n, (rows, states, weights, fixed, grads) in enumerate(networks):
            mode, count, batch_first, both, sizes = fixed
            first, cell = states[0], states[1] if mode == 2 else None
            A._cudnn_rnn_flatten_weight(weights, 4, 4, mode, 3, 0, count, batch_first, both)
            made = A._cudnn_rnn(rows, weights, 4, None, first, cell, mode, 3, 0, count, batch_first, 0.0,
                                True, both, sizes, None)
            add(f"network{n}", made, 3 if mode == 2 else 2)
            x_grad, h_grad, c_grad, of_weights = A._cudnn_rnn_backward(
                rows, weights, 4, made[4], first, cell, made[0], *grads, *[None] * (3 - len(grads)),
                mode, 3, 0, count, batch_first, 0.0, True, both, sizes, None, made[3], [True] * 4)
            add(f"network_backward{n}", [x_grad, h_grad, *[c_grad] * (mode == 2), *of_weights])
        made = A._thnn_fused_lstm_cell(own, again, c, b4, d4)
        add("lstm_cell", made)
        add("lstm_cell_backward", A._thnn_fused_lstm_cell_backward_impl(
            g3, h3, c, made[1], made[2], True))
        for n, found in enumerate((finite, infinite)):
            A._fused_adamw_(*steps[n], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1, eps=1e-8,
                            amsgrad=True, maximize=False, grad_scale=scale, found_inf=found)
            add(f"stepped{n}", [part[0] for part in steps[n][:5]])
        return out

    return run, inputs
