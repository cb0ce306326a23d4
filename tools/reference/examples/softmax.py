KINDS = {"none": 0, "mean": 1, "sum": 2}
e("_softmax", lambda x, dim: torch.softmax(x, dim), x=f(1, 2, 3), dim=0)
e("_log_softmax", lambda x, dim: torch.log_softmax(x, dim), x=f(1, 2, 3), dim=0)


def loss(op, x, target, *tensors, reduction="mean", **k):
    return getattr(torch.nn.functional, op)(x, target, reduction=reduction, **k)


def of(op):
    return lambda **k: loss(op, **k)


x, target = f(1, 2, 5), f(1, 4, 2)
for op, extra in [("mse_loss", {}), ("smooth_l1_loss", dict(beta=2)),
                  ("huber_loss", dict(delta=2))]:
    e(op, of(op), x=x, target=target)
    e(op, of(op), x=x, target=target, reduction="none")
    if extra:
        e(op, of(op), x=x, target=target, **extra)
for op, x in [("binary_cross_entropy", f(0.25, 0.75)),
              ("binary_cross_entropy_with_logits", f(-1, 2))]:
    e(op, of(op), x=x, target=f(0, 1))
    e(op, of(op), x=x, target=f(0, 1), reduction="sum")
    e(op, of(op), x=x, target=f(0, 1), weight=f(1, 4))
e("binary_cross_entropy_with_logits", of("binary_cross_entropy_with_logits"), x=f(-1, 2),
  target=f(0, 1), pos_weight=f(4))


def nll(x, target, weight=None, reduction="mean", ignore_index=-100):
    op = A.nll_loss2d_forward if x.dim() == 4 else A.nll_loss_forward
    return op(x, target, weight, KINDS[reduction], ignore_index)


x = f([-0.5, -1], [-2, -0.25])
e("nll_loss_forward", nll, x=x, target=i(0, 1))
e("nll_loss_forward", nll, x=x, target=i(0, 1), reduction="none")
e("nll_loss_forward", nll, x=x, target=i(0, 1), weight=f(1, 3))
e("nll_loss_forward", nll, x=x, target=i(0, 1), ignore_index=1)
e("nll_loss2d_forward", nll, x=x.reshape(1, 2, 1, 2), target=i([[0, 1]]))
