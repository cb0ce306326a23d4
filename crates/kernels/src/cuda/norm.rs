//! Layer, group and batch normalisation, and their gradients.
//!
//! One kernel serves all: the elements that are normalised together form a row. The kernel of the
//! gradients also computes the gradients of the parameters; its rows are then the elements that
//! share a parameter.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use millstream_types::DType;

use super::row_reduction::{self, RowAccess, RowArgs, RowDim};
use super::source::computed;
use super::{KIND, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{gradient_operands, operands, required};
use crate::registry::KernelRegistry;

/// The elements that are normalised together.
#[derive(Clone, Copy, PartialEq)]
enum NormKind {
    Layer,
    Group,
    Batch,
}

/// A dimension of x: its length and stride; if the statistics of rows, or the parameters, vary
/// along it, their dimension, and the elements between neighbours there.
#[derive(Clone, Copy)]
struct Axis {
    length: usize,
    stride: usize,
    row: Option<(usize, usize)>,
    parameter: Option<(usize, usize)>,
}

/// Returns the stride of a statistic or a parameter along a dimension of x.
fn stride(tensor: Option<RawTensor<'_>>, along: Option<(usize, usize)>) -> usize {
    let strides = tensor.map_or(&[][..], |tensor| tensor.strides);
    along.map_or(0, |(dim, step)| strides.get(dim).map_or(0, |stride| stride * step))
}

/// Returns the dimensions of x for a kind of normalisation. Group normalisation splits the
/// channels.
fn axes(ctx: &KernelCtx<'_>, kind: NormKind, x: &RawTensor<'_>) -> Result<Vec<Axis>> {
    let axis =
        |k: usize| Axis { length: x.shape[k], stride: x.strides[k], row: None, parameter: None };
    let rank = x.shape.len();
    let mut all: Vec<Axis> = (0..rank).map(axis).collect();
    match kind {
        NormKind::Layer => {
            let shape =
                ctx.attrs().ints("normalized_shape")?.context("normalized_shape: expected")?;
            let kept = rank.checked_sub(shape.len());
            let kept = kept.context("normalized_shape: schema and kernel disagree")?;
            for (dim, axis) in all.iter_mut().enumerate() {
                match dim.checked_sub(kept) {
                    None => axis.row = Some((dim, 1)),
                    Some(dim) => axis.parameter = Some((dim, 1)),
                }
            }
        }
        NormKind::Group => {
            let groups = ctx.attrs().int("group")?.context("group: expected")? as usize;
            ensure!(rank >= 2 && groups > 0, "{x:?}: schema and kernel disagree");
            let each = x.shape[1] / groups;
            all[0].row = Some((0, 1));
            let (length, stride) = (groups, x.strides[1] * each);
            all[1] = Axis { length: each, parameter: Some((0, 1)), ..all[1] };
            all.insert(1, Axis { length, stride, row: Some((1, 1)), parameter: Some((0, each)) });
        }
        NormKind::Batch => {
            ensure!(rank >= 2, "{x:?}: schema and kernel disagree");
            (all[1].row, all[1].parameter) = (Some((0, 1)), Some((0, 1)));
        }
    }
    Ok(all)
}

fn name(op: &str, dtypes: &[DType]) -> String {
    let dtypes: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    format!("ms_{op}__{}", dtypes.join("_"))
}

/// Returns the dtypes of operands; f32 for absent ones, which no kernel reads.
fn dtypes(operands: &[Option<RawTensor<'_>>]) -> Vec<DType> {
    operands.iter().map(|tensor| tensor.map_or(DType::F32, |tensor| tensor.dtype)).collect()
}

/// Launches the forward kernel or the kernel of the gradients.
fn launch(
    ctx: &KernelCtx<'_>,
    (op, body): (&str, &str),
    rows: RowArgs<8>,
    computed: DType,
    dtypes: &[DType],
) -> Result<()> {
    let access = rows.access(op == FORWARD.0);
    let name = access.name(&name(op, dtypes));
    let source = || row_reduction::source(&name, computed, dtypes, access, body);
    // SAFETY: the kernels access the operands, which `KernelCtx::new` promises to be valid, and
    // scratch memory of the call. One row writes each result. The stream orders the kernel that
    // combines the parts of rows after the kernel that computes them.
    unsafe {
        rows.launch(native(ctx)?, (&name, &name), source)?;
        if rows.parts > 1 {
            let combine = format!("{name}_combine");
            rows.one_row_per_block().launch(native(ctx)?, (&name, &combine), source)?;
        }
    }
    Ok(())
}

/// The elements of a row that each thread adds for the gradients of parameters. Few parameters may
/// have many elements each, so their rows are split into parts of this many elements per thread.
const ELEMENTS_PER_THREAD: u64 = 32;

const FORWARD: (&str, &str) = ("norm", include_str!("norm.cu"));
const BACKWARD: (&str, &str) = ("norm_backward", include_str!("norm_backward.cu"));

fn forward(ctx: &KernelCtx<'_>, kind: NormKind) -> Result<()> {
    let ([x, weight, bias, running_mean, running_variance], results) = match kind {
        NormKind::Batch => operands::<5>(ctx, 3)?,
        _ => {
            let ([x, weight, bias], results) = operands::<3>(ctx, 3)?;
            ([x, weight, bias, None, None], results)
        }
    };
    let x = required(x)?;
    let training =
        kind != NormKind::Batch || ctx.attrs().bool("training")?.context("training: expected")?;
    let [out, mean, rstd] = [0, 1, 2].map(|k| results[k]);
    let saved = training.then_some(());
    let all = [
        Some(x),
        weight,
        bias,
        Some(out),
        saved.map(|()| mean),
        saved.map(|()| rstd),
        running_mean,
        running_variance,
    ];
    // The result may have other strides than x.
    let outs = axes(ctx, kind, &out)?;
    let dims: Vec<RowDim<8>> = axes(ctx, kind, &x)?
        .iter()
        .zip(&outs)
        .map(|(axis, out)| {
            let of = |k: usize| {
                stride(all[k], if (4..=5).contains(&k) { axis.row } else { axis.parameter })
            };
            let strides = [axis.stride, of(1), of(2), out.stride, of(4), of(5), of(6), of(7)];
            RowDim { length: axis.length, kept: axis.row.is_some(), strides }
        })
        .collect();
    let mut rows = RowArgs::new(&dims, all.each_ref().map(Option::as_ref))?;
    let updates = training && kind == NormKind::Batch;
    let flags = [
        weight.is_some(),
        bias.is_some(),
        training,
        training,
        running_mean.is_some(),
        running_variance.is_some(),
        updates,
    ];
    rows.flags = (0..).zip(flags).map(|(k, on)| u32::from(on) << k).sum();
    rows.scalars[0] = ctx.attrs().float("eps")?.unwrap_or(1e-5);
    rows.scalars[1] = ctx.attrs().float("momentum")?.unwrap_or(0.1);
    launch(ctx, FORWARD, rows, computed(x.dtype), &dtypes(&all))
}

fn backward(ctx: &KernelCtx<'_>, kind: NormKind) -> Result<()> {
    let train = kind != NormKind::Batch || ctx.attrs().bool("train")?.context("train: expected")?;
    let (inputs, weight, outs) = match kind {
        NormKind::Layer => {
            let ([grad, x, mean, rstd, weight, _], outs) = gradient_operands::<6>(ctx)?;
            ([grad, x, mean, rstd], weight, outs)
        }
        NormKind::Group => {
            let ([grad, x, mean, rstd, weight], outs) = gradient_operands::<5>(ctx)?;
            ([grad, x, mean, rstd], weight, outs)
        }
        NormKind::Batch => {
            let ([grad, x, weight, running_mean, running_variance, mean, rstd], outs) =
                gradient_operands::<7>(ctx)?;
            let statistics = if train { [mean, rstd] } else { [running_mean, running_variance] };
            ([grad, x, statistics[0], statistics[1]], weight, outs)
        }
    };
    let [grad, x] = [required(inputs[0])?, required(inputs[1])?];
    let batch = kind == NormKind::Batch;
    // The gradient of x needs the rows of x; the gradients of the parameters need rows by
    // parameter. For batch normalisation both are the same rows.
    for by_parameter in [false, true] {
        let selected = match (batch, by_parameter) {
            (true, false) => outs,
            (true, true) => break,
            (false, false) => [outs[0], None, None],
            (false, true) => [None, outs[1], outs[2]],
        };
        if selected.iter().all(Option::is_none) {
            continue;
        }
        let all = [
            Some(grad),
            Some(x),
            inputs[2],
            inputs[3],
            weight,
            selected[0],
            selected[1],
            selected[2],
        ];
        let grads = axes(ctx, kind, &grad)?;
        let x_grads = selected[0].map(|out| axes(ctx, kind, &out)).transpose()?;
        let dims: Vec<RowDim<8>> = axes(ctx, kind, &x)?
            .iter()
            .enumerate()
            .map(|(k, axis)| {
                let of = |k: usize| stride(all[k], if k < 4 { axis.row } else { axis.parameter });
                let x_grad = x_grads.as_ref().map_or(0, |axes| axes[k].stride);
                let strides =
                    [grads[k].stride, axis.stride, of(2), of(3), of(4), x_grad, of(6), of(7)];
                let kept = if by_parameter { axis.parameter } else { axis.row };
                RowDim { length: axis.length, kept: kept.is_some(), strides }
            })
            .collect();
        let mut rows = RowArgs::new(&dims, all.each_ref().map(Option::as_ref))?;
        let flags = [
            weight.is_some(),
            batch,
            !train,
            selected[0].is_some(),
            selected[1].is_some(),
            selected[2].is_some(),
        ];
        rows.flags = (0..).zip(flags).map(|(k, on)| u32::from(on) << k).sum();
        rows.scalars[0] = ctx.attrs().float("eps")?.unwrap_or(1e-5);
        let computed = computed(x.dtype);
        let part = ELEMENTS_PER_THREAD * rows.threads_per_row();
        if !by_parameter || rows.length <= part {
            launch(ctx, BACKWARD, rows, computed, &dtypes(&all))?;
            continue;
        }
        // Two sums per part. They take the operand of x's gradient, which this launch does not
        // compute.
        let sums = [2 * (rows.rows * rows.length.div_ceil(part)) as usize];
        let mut scratch = native(ctx)?.scratch();
        let data = scratch.take(sums[0] * computed.size())?;
        let sums = RawTensor { data, dtype: computed, shape: &sums, strides: &[1] };
        launch(ctx, BACKWARD, rows.split_rows(part, 5, &sums), computed, &dtypes(&all))?;
    }
    Ok(())
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for (op, kind) in [
        ("native_layer_norm", NormKind::Layer),
        ("native_group_norm", NormKind::Group),
        ("native_batch_norm", NormKind::Batch),
    ] {
        kernels.register(KIND, op, Arc::new(move |ctx: &KernelCtx<'_>| forward(ctx, kind)));
        let gradient = move |ctx: &KernelCtx<'_>| backward(ctx, kind);
        kernels.register(KIND, &format!("{op}_backward"), Arc::new(gradient));
    }
}

/// Returns sources of both kernels for f64, for f16 with parameters in f32, and with vector loads.
pub(super) fn sources() -> Vec<(String, CString)> {
    let mut all = Vec::new();
    let (f64s, f32s) = ([DType::F64; 8], [DType::F32; 8]);
    let mut mixed = f32s;
    (mixed[0], mixed[3]) = (DType::F16, DType::F16);
    for (dtypes, vector_width) in [(f64s, 1), (mixed, 1), (f32s, 4)] {
        for (op, body) in [FORWARD, BACKWARD] {
            let register_loads = if op == FORWARD.0 && vector_width > 1 { 8 } else { 0 };
            let access = RowAccess { vector_width, register_loads };
            let name = access.name(&name(op, &dtypes));
            let computed = computed(dtypes[0]);
            if let Ok(source) = row_reduction::source(&name, computed, &dtypes, access, body) {
                all.push((name, source));
            }
        }
    }
    all
}
