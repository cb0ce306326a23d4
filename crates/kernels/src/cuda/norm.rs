//! Normalisation by layers, groups and batches, and its gradients.
//!
//! All are one kernel: what is normalised together is a row. The gradients of the parameters are that of
//! the gradient's kernel whose rows are what has one parameter.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use millstream_ops::checks;
use millstream_types::DType;

use super::rows::{self, Dim, Rows, Taking};
use super::source::computed;
use super::{KIND, Unsupported, copy, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};
use crate::registry::KernelRegistry;

/// How a tensor is cut.
#[derive(Clone, Copy, PartialEq)]
enum Cut {
    Layers,
    Groups,
    Batch,
}

/// A dimension of x: its length and stride; the strides of what there is one of per row, and of the
/// parameters, if they vary along it.
#[derive(Clone, Copy)]
struct Part {
    length: usize,
    stride: usize,
    row: Option<usize>,
    parameter: Option<usize>,
}

fn parts(ctx: &KernelCtx<'_>, cut: Cut, x: &RawTensor<'_>) -> Result<Vec<Part>> {
    let part =
        |k: usize| Part { length: x.shape[k], stride: x.strides[k], row: None, parameter: None };
    let rank = x.shape.len();
    let mut all: Vec<Part> = (0..rank).map(part).collect();
    match cut {
        Cut::Layers => {
            let shape =
                ctx.attrs().ints("normalized_shape")?.context("normalized_shape: expected")?;
            let kept = rank.checked_sub(shape.len());
            let kept = kept.context("normalized_shape: schema and kernel disagree")?;
            let mut step = 1;
            for part in all[..kept].iter_mut().rev() {
                part.row = Some(step);
                step *= part.length;
            }
            let mut step = 1;
            for part in all[kept..].iter_mut().rev() {
                part.parameter = Some(step);
                step *= part.length;
            }
        }
        Cut::Groups => {
            let groups = ctx.attrs().int("group")?.context("group: expected")? as usize;
            ensure!(rank >= 2 && groups > 0, "{x:?}: schema and kernel disagree");
            let each = x.shape[1] / groups;
            all[0].row = Some(groups);
            let (length, stride) = (groups, x.strides[1] * each);
            all[1] = Part { length: each, parameter: Some(1), ..all[1] };
            all.insert(1, Part { length, stride, row: Some(1), parameter: Some(each) });
        }
        Cut::Batch => {
            ensure!(rank >= 2, "{x:?}: schema and kernel disagree");
            (all[1].row, all[1].parameter) = (Some(1), Some(1));
        }
    }
    Ok(all)
}

/// Parameters and statistics, which count from the first on without gaps.
fn dense(tensor: Option<RawTensor<'_>>) -> Result<()> {
    match tensor {
        Some(tensor) if !copy::is_dense(&tensor)? => Err(Unsupported::of("a parameter with gaps")),
        _ => Ok(()),
    }
}

fn name(op: &str, dtypes: &[DType]) -> String {
    let dtypes: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    format!("ms_{op}__{}", dtypes.join("_"))
}

/// The dtypes of operands; what is left out is not read.
fn dtypes(operands: &[Option<RawTensor<'_>>]) -> Vec<DType> {
    operands.iter().map(|tensor| tensor.map_or(DType::F32, |tensor| tensor.dtype)).collect()
}

/// Launches one of the two kernels.
fn launch(
    ctx: &KernelCtx<'_>,
    (op, body): (&str, &str),
    rows: Rows<8>,
    computed: DType,
    dtypes: &[DType],
) -> Result<()> {
    let taking = rows.taking(op == FORWARD.0);
    let name = taking.name(&name(op, dtypes));
    let source = || rows::source(&name, computed, dtypes, taking, body);
    // SAFETY: the kernel touches the elements of the operands, for which the context's maker answers,
    // and scratch memory of the call's; each result is written by one row. What joins the parts of rows
    // is ordered after what makes them by the stream.
    unsafe {
        rows.launch(native(ctx)?, (&name, &name), source)?;
        if rows.parts > 1 {
            let join = format!("{name}_join");
            rows.whole_blocks().launch(native(ctx)?, (&name, &join), source)?;
        }
    }
    Ok(())
}

/// Elements of a row that each thread adds up for gradients of parameters, of which there may be few,
/// each of many elements: rows are cut into parts of so many for each thread.
const OF_PART: u64 = 32;

const FORWARD: (&str, &str) = ("norm", include_str!("norm.cu"));
const BACKWARD: (&str, &str) = ("norm_backward", include_str!("norm_backward.cu"));

fn forward(ctx: &KernelCtx<'_>, cut: Cut) -> Result<()> {
    let ([x, weight, bias, old_mean, old_variance], results) = match cut {
        Cut::Batch => operands::<5>(ctx, 3)?,
        _ => {
            let ([x, weight, bias], results) = operands::<3>(ctx, 3)?;
            ([x, weight, bias, None, None], results)
        }
    };
    let x = required(x)?;
    let training =
        cut != Cut::Batch || ctx.attrs().bool("training")?.context("training: expected")?;
    let [out, mean, rstd] = [0, 1, 2].map(|k| results[k]);
    let saved = training.then_some(());
    let all = [
        Some(x),
        weight,
        bias,
        Some(out),
        saved.map(|()| mean),
        saved.map(|()| rstd),
        old_mean,
        old_variance,
    ];
    [weight, bias, saved.map(|()| mean), saved.map(|()| rstd), old_mean, old_variance]
        .into_iter()
        .try_for_each(dense)?;
    // In which order the result lies is its own matter.
    let outs = parts(ctx, cut, &out)?;
    let dims: Vec<Dim<8>> = parts(ctx, cut, &x)?
        .iter()
        .zip(&outs)
        .map(|(part, out)| {
            let (row, parameter) = (part.row.unwrap_or(0), part.parameter.unwrap_or(0));
            let strides =
                [part.stride, parameter, parameter, out.stride, row, row, parameter, parameter];
            Dim { length: part.length, kept: part.row.is_some(), strides }
        })
        .collect();
    let mut rows = Rows::new(&dims, all.each_ref().map(Option::as_ref))?;
    let changes = training && cut == Cut::Batch;
    let flags = [
        weight.is_some(),
        bias.is_some(),
        training,
        training,
        old_mean.is_some(),
        old_variance.is_some(),
        changes,
    ];
    rows.flags = (0..).zip(flags).map(|(k, on)| u32::from(on) << k).sum();
    rows.numbers[0] = ctx.attrs().float("eps")?.unwrap_or(1e-5);
    rows.numbers[1] = ctx.attrs().float("momentum")?.unwrap_or(0.1);
    launch(ctx, FORWARD, rows, computed(x.dtype), &dtypes(&all))
}

fn backward(ctx: &KernelCtx<'_>, cut: Cut) -> Result<()> {
    let wanted = checks::mask(ctx.attrs(), 3)?;
    let count = wanted.iter().filter(|wanted| **wanted).count();
    let train = cut != Cut::Batch || ctx.attrs().bool("train")?.context("train: expected")?;
    let (given, weight, results) = match cut {
        Cut::Layers => {
            let ([grad, x, mean, rstd, weight, _], results) = operands::<6>(ctx, count)?;
            ([grad, x, mean, rstd], weight, results)
        }
        Cut::Groups => {
            let ([grad, x, mean, rstd, weight], results) = operands::<5>(ctx, count)?;
            ([grad, x, mean, rstd], weight, results)
        }
        Cut::Batch => {
            let ([grad, x, weight, old_mean, old_variance, mean, rstd], results) =
                operands::<7>(ctx, count)?;
            let known = if train { [mean, rstd] } else { [old_mean, old_variance] };
            ([grad, x, known[0], known[1]], weight, results)
        }
    };
    let [grad, x] = [required(given[0])?, required(given[1])?];
    [given[2], given[3], weight].into_iter().try_for_each(dense)?;
    let mut results = results.into_iter();
    let mut next = |wanted: bool| if wanted { results.next() } else { None };
    let outs = [next(wanted[0]), next(wanted[1]), next(wanted[2])];
    [outs[1], outs[2]].into_iter().try_for_each(dense)?;
    let batch = cut == Cut::Batch;
    // By rows for the gradient of x; by parameters, which of a batch are the rows, for theirs.
    for by_parameter in [false, true] {
        let now = match (batch, by_parameter) {
            (true, false) => outs,
            (true, true) => break,
            (false, false) => [outs[0], None, None],
            (false, true) => [None, outs[1], outs[2]],
        };
        if now.iter().all(Option::is_none) {
            continue;
        }
        let all = [Some(grad), Some(x), given[2], given[3], weight, now[0], now[1], now[2]];
        let grads = parts(ctx, cut, &grad)?;
        let x_grads = now[0].map(|out| parts(ctx, cut, &out)).transpose()?;
        let dims: Vec<Dim<8>> = parts(ctx, cut, &x)?
            .iter()
            .enumerate()
            .map(|(k, part)| {
                let (row, parameter) = (part.row.unwrap_or(0), part.parameter.unwrap_or(0));
                let x_grad = x_grads.as_ref().map_or(0, |parts| parts[k].stride);
                let strides = [
                    grads[k].stride,
                    part.stride,
                    row,
                    row,
                    parameter,
                    x_grad,
                    parameter,
                    parameter,
                ];
                let kept = if by_parameter { part.parameter } else { part.row };
                Dim { length: part.length, kept: kept.is_some(), strides }
            })
            .collect();
        let mut rows = Rows::new(&dims, all.each_ref().map(Option::as_ref))?;
        let flags =
            [weight.is_some(), batch, !train, now[0].is_some(), now[1].is_some(), now[2].is_some()];
        rows.flags = (0..).zip(flags).map(|(k, on)| u32::from(on) << k).sum();
        rows.numbers[0] = ctx.attrs().float("eps")?.unwrap_or(1e-5);
        let computed = computed(x.dtype);
        let part = OF_PART * rows.places();
        if !by_parameter || rows.length <= part {
            launch(ctx, BACKWARD, rows, computed, &dtypes(&all))?;
            continue;
        }
        // Two sums for each part; nothing of x's gradient, in whose place they lie, is wanted here.
        let sums = [2 * (rows.rows * rows.length.div_ceil(part)) as usize];
        let mut scratch = native(ctx)?.scratch();
        let data = scratch.take(sums[0] * computed.size())?;
        let sums = RawTensor { data, dtype: computed, shape: &sums, strides: &[1] };
        launch(ctx, BACKWARD, rows.cut(part, 5, &sums), computed, &dtypes(&all))?;
    }
    Ok(())
}

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for (op, cut) in [
        ("native_layer_norm", Cut::Layers),
        ("native_group_norm", Cut::Groups),
        ("native_batch_norm", Cut::Batch),
    ] {
        kernels.register(KIND, op, Arc::new(move |ctx: &KernelCtx<'_>| forward(ctx, cut)));
        let gradient = move |ctx: &KernelCtx<'_>| backward(ctx, cut);
        kernels.register(KIND, &format!("{op}_backward"), Arc::new(gradient));
    }
}

/// Both in f64, and in f16 with parameters in f32, one by one and several at once.
pub(super) fn sources() -> Vec<(String, CString)> {
    let mut all = Vec::new();
    let mixed = [
        DType::F16,
        DType::F32,
        DType::F32,
        DType::F16,
        DType::F32,
        DType::F32,
        DType::F32,
        DType::F32,
    ];
    let (f64s, f32s) = ([DType::F64; 8], [DType::F32; 8]);
    for (dtypes, at_once) in [(f64s, 1), (mixed, 1), (f32s, 4)] {
        for (op, body) in [FORWARD, BACKWARD] {
            let held = if op == FORWARD.0 && at_once > 1 { 8 } else { 0 };
            let taking = Taking { at_once, held };
            let name = taking.name(&name(op, &dtypes));
            let computed = computed(dtypes[0]);
            if let Ok(source) = rows::source(&name, computed, &dtypes, taking, body) {
                all.push((name, source));
            }
        }
    }
    all
}
