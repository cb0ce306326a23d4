//! Kernels of boxes in images: means of samples within them, in f64, and those that no better one
//! covers. One thread computes all gradients of an image, so that they are added in a fixed order.

use anyhow::{Context, Result, ensure};
use millstream_types::DType;

use super::element::Bool;
use super::strided::{Sequence, load_all, store_all};
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("roi_align", means), Written::Last(1)),
    (("_roi_align_backward", mean_gradients), Written::Last(1)),
    (("nms_mask", uncovered), Written::Last(1)),
];

/// Returns the rounding of a dtype: torchvision computes positions and areas of f32 in f32, and
/// compares them with bounds.
fn rounding(dtype: DType) -> fn(f64) -> f64 {
    match dtype {
        DType::F32 => |v| f64::from(v as f32),
        _ => |v| v,
    }
}

/// The most samples along a side of a cell.
const MOST_SAMPLES: f64 = 65536.0;

/// The elements that each cell's samples read along a dimension, with their weights.
type Side = Vec<Vec<(usize, f64)>>;

/// The geometry of means within boxes.
struct Boxes {
    /// For each box the number of its image.
    images: Vec<usize>,
    /// For each box and each dimension of an image.
    sides: Vec<[Side; 2]>,
    width: usize,
}

impl Boxes {
    /// Returns the geometry for images of this shape.
    fn of(ctx: &KernelCtx<'_>, rois: RawTensor<'_>, images: &[usize]) -> Result<Boxes> {
        let (attrs, r) = (ctx.attrs(), rounding(rois.dtype));
        let scale = attrs.float("spatial_scale")?.unwrap_or(1.0);
        let ratio = attrs.int("sampling_ratio")?.unwrap_or(0);
        let aligned = attrs.bool("aligned")?.unwrap_or(false);
        let cells = ["pooled_height", "pooled_width"].map(|of| attrs.int(of));
        let (mut numbers, mut sides) = (Vec::new(), Vec::new());
        for (number, roi) in load_all::<f64>(rois).chunks_exact(5).enumerate() {
            let image = roi[0] as usize;
            let exists = roi[0] >= 0.0 && image < images[0];
            ensure!(
                exists,
                "rois[{number}, 0]: expected one of {} images, got {}",
                images[0],
                roi[0]
            );
            numbers.push(image);
            let side = |dim: usize| {
                let shift = if aligned { 0.5 } else { 0.0 };
                let [start, end] = [2 - dim, 4 - dim].map(|k| r(r(roi[k] * r(scale)) - shift));
                let length = if aligned { r(end - start) } else { r(end - start).max(1.0) };
                let cells = cells[dim].clone()?.unwrap_or(0);
                let step = r(length / cells as f64);
                let count = if ratio > 0 { ratio as f64 } else { step.ceil().max(0.0) };
                ensure!(
                    count <= MOST_SAMPLES,
                    "rois[{number}]: expected at most {MOST_SAMPLES} samples of a cell, got {count}"
                );
                let of_cell = |cell: i64| {
                    let sample = |k: i64| {
                        let within = r(r((k as f64 + 0.5) * step) / count);
                        r(r(start + r(cell as f64 * step)) + within)
                    };
                    let samples = (0..count as i64).map(sample);
                    let taps = samples.flat_map(|at| near(at, images[2 + dim]));
                    taps.map(|(at, weight)| (at, weight / count)).collect()
                };
                Ok((0..cells).map(of_cell).collect())
            };
            sides.push([side(0)?, side(1)?]);
        }
        Ok(Boxes { images: numbers, sides, width: images[3] })
    }

    /// Calls `f` for the elements that the cells of a box read: the number of the cell, that of the
    /// element in its image, and the weight.
    fn visit(&self, number: usize, mut f: impl FnMut(usize, usize, f64)) {
        let [rows, columns] = &self.sides[number];
        for (row, of_row) in rows.iter().enumerate() {
            for (column, of_column) in columns.iter().enumerate() {
                for &(y, share) in of_row {
                    for &(x, weight) in of_column {
                        let cell = row * columns.len() + column;
                        f(cell, y * self.width + x, share * weight);
                    }
                }
            }
        }
    }
}

/// Returns the elements beside a position, with their weights; none if it is outside.
fn near(at: f64, length: usize) -> [(usize, f64); 2] {
    if !(-1.0..=length as f64).contains(&at) || length == 0 {
        return [(0, 0.0); 2];
    }
    let low = (at.max(0.0) as usize).min(length - 1);
    let share = if low == length - 1 { 0.0 } else { at.max(0.0) - low as f64 };
    [(low, 1.0 - share), ((low + 1).min(length - 1), share)]
}

/// `roi_align(x, rois; …)`.
fn means(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, rois, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let boxes = Boxes::of(ctx, rois, x.shape)?;
    let (channels, elements): (_, usize) = (x.shape[1], x.shape[2..].iter().product());
    let cells: usize = out.shape[2..].iter().product();
    let images: Vec<f64> = load_all(x);
    // SAFETY: the output of the call; each box is stored by one thread.
    let to = unsafe { Sequence::new(out) };
    ctx.for_each(boxes.images.len(), |number| {
        let image = &images[boxes.images[number] * channels * elements..];
        let mut made = vec![0f64; channels * cells];
        boxes.visit(number, |cell, at, weight| {
            for channel in 0..channels {
                made[channel * cells + cell] += weight * image[channel * elements + at];
            }
        });
        to.store(number * channels * cells, &made);
    });
    Ok(())
}

/// `_roi_align_backward(grad, rois; …)`.
fn mean_gradients(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, rois, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let boxes = Boxes::of(ctx, rois, out.shape)?;
    let (channels, elements): (_, usize) = (out.shape[1], out.shape[2..].iter().product());
    let cells: usize = grad.shape[2..].iter().product();
    let grads: Vec<f64> = load_all(grad);
    // SAFETY: the output of the call; each image is stored by one thread.
    let to = unsafe { Sequence::new(out) };
    ctx.for_each(out.shape[0], |image| {
        let mut made = vec![0f64; channels * elements];
        for number in (0..boxes.images.len()).filter(|number| boxes.images[*number] == image) {
            let grads = &grads[number * channels * cells..];
            boxes.visit(number, |cell, at, weight| {
                for channel in 0..channels {
                    made[channel * elements + at] += weight * grads[channel * cells + cell];
                }
            });
        }
        to.store(image * channels * elements, &made);
    });
    Ok(())
}

/// `nms_mask(boxes; iou_threshold)`.
fn uncovered(ctx: &KernelCtx<'_>) -> Result<()> {
    let (boxes, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let threshold = ctx.attrs().float("iou_threshold")?;
    let (threshold, r) = (threshold.context("iou_threshold: missing")?, rounding(boxes.dtype));
    let corners: Vec<f64> = load_all(boxes);
    let boxes: Vec<&[f64]> = corners.chunks_exact(4).collect();
    let area = |of: &[f64]| r(r(of[2] - of[0]) * r(of[3] - of[1]));
    let side = |a: &[f64], b: &[f64], k: usize| r(a[k + 2].min(b[k + 2]) - a[k].max(b[k])).max(0.0);
    let mut kept = vec![Bool::new(true); boxes.len()];
    for (at, best) in boxes.iter().enumerate() {
        for other in at + 1..boxes.len() {
            if kept[at].get() && kept[other].get() {
                let common = r(side(best, boxes[other], 0) * side(best, boxes[other], 1));
                let union = r(r(area(best) + area(boxes[other])) - common);
                // Boxes of no area, whose share is NaN, stay.
                let is_covered = r(common / union) > threshold;
                kept[other] = Bool::new(!is_covered);
            }
        }
    }
    store_all(out, &kept)
}
