//! The table of PyTorch's ops that are other calls here.
//!
//! A rule names ops, by name alone or with the overload, and the calls in their place. A name after
//! the op in brackets is an argument that the rule needs, or the text that it has. In a call, a
//! word is a parameter of PyTorch's schema, which `args::Binder` converts, and `..` stands for all
//! parameters that the rule does not name. A call without one of its operands, which PyTorch's op
//! may lack, stands for its first operand. Results are new tensors, but for ops in place.

/// The rules, one a line, which continues on lines that begin with a space. Of several rules that
/// fit, the first one counts.
pub(super) const RULES: &str = "
# Other names.
_conj, lift, lift_fresh = alias
_conj_physical, _pin_memory, conj_physical, lift_fresh_copy = clone
_convolution = convolution
_is_all_true = all
_is_any_true = any
_native_batch_norm_legit = native_batch_norm
_reshape_alias, as_strided_ = as_strided
_unsafe_index = index
_unsafe_view = view
bitwise_left_shift = __lshift__
bitwise_right_shift = __rshift__
bmm, dot, mm, mv, vdot = matmul
max(other) = maximum
min(other) = minimum
round(decimals) = round_decimals
sgn = sign
sgn_ = sign_
unsafe_split = split
unsafe_split_with_sizes = split_with_sizes
# Ops in place that change only the layout: they return a view.
squeeze_ = squeeze
t_ = t
transpose_ = transpose
unsqueeze_ = unsqueeze
# Arithmetic, casts, norms.
_to_copy(dtype) = cast(self, dtype, memory_format)
_to_copy = clone(self, memory_format)
clamp.Tensor = minimum(maximum(self, min), max)
clamp_max.Tensor = minimum(self, max)
clamp_min.Tensor = maximum(self, min)
floor_divide = div(.., rounding_mode='floor')
floor_divide_ = div_(.., rounding_mode='floor')
log_sigmoid_backward = log_sigmoid_backward(grad_output, self)
log_softmax = _log_softmax(as(self, dtype), dim, half_to_float=false)
norm = linalg_vector_norm(.., ord=p)
rsub = sub(other, self, alpha)
softmax = _softmax(as(self, dtype), dim, half_to_float=false)
# Products and convolutions.
_linalg_eigvals, linalg_eigvals = linalg_eig(.., compute_v=false).0
cudnn_convolution, miopen_convolution, miopen_depthwise_convolution, mkldnn_convolution
 = convolution(.., transposed=false)
cudnn_convolution_add_relu, miopen_convolution_add_relu
 = relu(add(convolution(.., transposed=false), z, alpha))
cudnn_convolution_relu, miopen_convolution_relu = relu(convolution(.., transposed=false))
cudnn_convolution_transpose, miopen_convolution_transpose = convolution(.., transposed=true)
linear = add(matmul(input, transpose(weight, dim0=0, dim1=1)), bias)
# Batch norms.
_batch_norm_no_update, _native_batch_norm_legit_no_training
 = native_batch_norm(.., training=false)
_batch_norm_with_update = native_batch_norm(.., training=true)
batch_norm_backward = native_batch_norm_backward(grad_out, input, weight, running_mean,
 running_var, save_mean, save_var, train=update, eps, output_mask)
cudnn_batch_norm, miopen_batch_norm
 = native_batch_norm(.., momentum=exponential_average_factor, eps=epsilon)
cudnn_batch_norm_backward, miopen_batch_norm_backward = native_batch_norm_backward(grad_output,
 input, weight, running_mean, running_var, save_mean, save_var, train=true, eps=epsilon,
 output_mask=[1, 1, 1])
# Indices and segments. The number of indices varies, so values come before them.
_index_put_impl_, index_put_ = index_put_(self, values, ..)
_unsafe_masked_index_put_accumulate = _unsafe_masked_index_put_accumulate(self, mask, values, ..)
_unsafe_index_put, index_put = index_put(self, values, ..)
bucketize = searchsorted(boundaries, self, out_int32, right)
scatter.value_reduce(reduce='add') = scatter_sum(self, index, full(shape=shape(index), value=value,
 dtype=dtype(self)), dim)
scatter.value_reduce(reduce='multiply') = scatter_reduce(self, index, full(shape=shape(index),
 value=value, dtype=dtype(self)), dim, reduce='prod')
scatter(reduce='add') = scatter_sum(self, index, src, dim)
scatter(reduce='multiply') = scatter_reduce(self, index, src, dim, reduce='prod')
scatter_reduce(reduce='mean') = scatter_mean(self, index, src, dim, include_self)
scatter_reduce(reduce='sum') = scatter_sum(self, index, src, dim, include_self)
scatter_reduce = scatter_reduce(self, index, src, dim, reduce, include_self)
searchsorted = searchsorted(gather(sorted_sequence, sorter, dim=-1), self, out_int32, right,
 right=side)
segment_reduce(lengths) = segment_reduce(data, lengths, reduce, axis, initial)
segment_reduce = segment_reduce(data, sub(slice(offsets, dim=-1, start=1),
 slice(offsets, dim=-1, end=-1)), reduce, axis, initial)
_segment_reduce_backward(lengths)
 = segment_reduce_backward(grad, output, data, lengths, reduce, axis, initial)
_segment_reduce_backward = segment_reduce_backward(grad, output, data,
 sub(slice(offsets, dim=-1, start=1), slice(offsets, dim=-1, end=-1)), reduce, axis, initial)
# Optimizers, for one parameter of the lists.
_amp_foreach_non_finite_check_and_unscale_ = unscale_(found_inf, inv_scale, self)
_fused_adagrad_ = adagrad_step_(self, grads, state_sums, state_steps, lr, grad_scale, found_inf,
 lr_decay, weight_decay, eps, maximize)
_fused_adam_ = adam_step_(self, grads, exp_avgs, exp_avg_sqs, state_steps, max_exp_avg_sqs, lr,
 grad_scale, found_inf, beta1, beta2, weight_decay, eps, amsgrad, maximize)
_fused_adamw_ = adamw_step_(self, grads, exp_avgs, exp_avg_sqs, state_steps, max_exp_avg_sqs, lr,
 grad_scale, found_inf, beta1, beta2, weight_decay, eps, amsgrad, maximize)
_fused_sgd_ = sgd_step_(self, grads, momentum_buffer_list, lr, grad_scale, found_inf, weight_decay,
 momentum, dampening, nesterov, maximize, is_first_step)
# Random numbers: calls of ops with a seed draw.
bernoulli.Tensor = bernoulli(expand(p, size=shape(self)))
bernoulli_.Tensor = copy_(self, bernoulli(expand(p, size=shape(self))))
cauchy_ = copy_(self, add(mul(tan(mul(sub(uniform(shape=shape(self), dtype=f64), other=0.5),
 other=pi)), other=sigma), other=median))
geometric_ = copy_(self, clamp_min(ceil(div(exponential(shape=shape(self), dtype=f64),
 other=rate(p))), min=1))
log_normal_ = exp_(normal_(self, mean, std))
native_dropout = native_dropout(input, p)
normal(size) = normal_(zeros(..), mean, std)
normal.Tensor_Tensor = add_(mul_(normal_(add(mean, std)), std), mean)
normal.Tensor_float = add_(mul_(normal_(clone(mean)), other=std), mean)
normal.float_Tensor = add_(mul_(normal_(clone(std)), std), other=mean)
rand = uniform_(zeros(..))
rand_like = uniform_(zeros_like(..))
randint(low) = randint_(zeros(..), low, high)
randint = randint_(zeros(..), high)
randint_like(low) = randint_(zeros_like(..), low, high)
randint_like = randint_(zeros_like(..), high)
randn = normal_(zeros(..))
randn_like = normal_(zeros_like(..))
randperm = as(argsort(uniform(shape=[n], dtype=f64)), dtype)
rrelu_with_noise = mul(self, copy_(noise, masked_fill(uniform_(clone(self), from=lower, to=upper),
 gt(self, other=0), value=1)))
rrelu_with_noise_ = mul_(self, copy_(noise, masked_fill(uniform_(clone(self), from=lower,
 to=upper), gt(self, other=0), value=1)))
";
