table = f([1, 2], [3, 4], [5, 6])


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False):
    return A.embedding(weight, indices, padding_idx, scale_grad_by_freq)


e("embedding", embedding, weight=table, indices=i(2, 0))


def attention(q, k, v, attn_mask=None, is_causal=False, scale=None):
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale), None


OP = "_scaled_dot_product_flash_attention_for_cpu"
q, k, v = f([[[1], [2]]]), f([[[0], [1]]]), f([[[0], [10]]])
one = dict(fn=lambda **k: attention(**k)[:1])
e(OP, **one, q=q, k=k, v=v)
e(OP, **one, q=q, k=k, v=v, attn_mask=f([[[0, -1]]]))
e(OP, **one, q=q, k=k, v=v, is_causal=True)
e(OP, **one, q=q, k=k, v=v, scale=0.5)
