//! The kernel of `multi_tensor`: the program of `fused` over a table of tensors, which travels with
//! the launch.
//!
//! A table holds as many sets as the parameters of a kernel have room for, so a call needs no
//! memory for tables, and nothing to reuse while a launch reads it: a longer list takes more
//! launches. Sets whose tensors are all dense, with the same dtypes, share a launch; each other set
//! is a launch of its own.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::{Context, Result};

use millstream_ep::cuda::NativeStream;
use millstream_ops::multi_tensor::{MULTI_TENSOR, Sets};
use millstream_types::{Attrs, DType, TensorSpec};

use super::args::{ArgsHeader, KernelArgs, MemoryRange};
use super::fused::{FusedKernel, Guards, Operand, Parts, specs};
use super::source::{MATH, element};
use super::strided::MAX_INTEGERS;
use super::template::argument_block;
use super::{copy, launch, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::byte_count;
use crate::cpu::multi_tensor::{check_apart, places, tensors};

/// The number of elements that a block processes at once.
const CHUNK: u64 = 4096;

/// The sets and operands of a table that fits into 4,096 bytes, which every driver passes.
const FEW: (usize, usize) = (64, 208);

/// The sets and operands of a table that fits into 32,764 bytes.
const MANY: (usize, usize) = (512, 1680);

pub(super) const KERNELS: &[super::Kernel] = &[(MULTI_TENSOR, multi_tensor)];

/// The table of a launch, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct MultiArgs<const SETS: usize, const OPERANDS: usize> {
    header: ArgsHeader,
    sets: u32,
    columns: u32,
    /// The number of chunks of all sets.
    chunks: u64,
    integers: [i64; MAX_INTEGERS],
    /// The number of the first chunk of each set.
    first: [u64; SETS],
    /// The tensors of each set, and those that all sets share.
    operand: [MemoryRange; OPERANDS],
}

// SAFETY: `repr(C)`, and the sizes of the fields leave no padding, as a test checks.
unsafe impl<const SETS: usize, const OPERANDS: usize> KernelArgs for MultiArgs<SETS, OPERANDS> {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

/// The dtype of each operand of a set, and whether it has dimensions.
type Form = Vec<(DType, bool)>;

/// `multi_tensor(tensors...; program, columns, sets, unless, found)`.
fn multi_tensor(ctx: &KernelCtx<'_>) -> Result<()> {
    let (native, attrs) = (native(ctx)?, ctx.attrs());
    let operands = (0..ctx.operands()).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
    let (sets, tensors) = tensors(attrs, operands.len())?;
    let lead = sets.program.written().first().copied().unwrap_or(sets.program.inputs());
    let mut written: Vec<bool> = (0..operands.len()).map(|k| k >= tensors).collect();
    for set in 0..sets.count {
        for k in sets.program.written() {
            written[sets.operand(set, k)] = true;
        }
    }
    if let Some(found) = sets.found {
        written[found] = true;
    }
    let range = |(x, &written): (&RawTensor<'_>, &bool)| (x.data.addr(), byte_count(x), written);
    check_apart(operands.iter().zip(&written).map(range))?;
    let guards =
        Guards { unless: sets.unless.map(|k| operands[k].dtype), found: sets.found.is_some() };
    let guarding = [sets.unless, sets.found].into_iter().flatten();
    let guarding: Vec<RawTensor<'_>> = guarding.map(|k| operands[k]).collect();
    let mut forms: Vec<(Form, Vec<Vec<RawTensor<'_>>>)> = Vec::new();
    for set in 0..sets.count {
        let all: Vec<RawTensor<'_>> =
            places(&sets, tensors, set).into_iter().map(|k| operands[k]).collect();
        if all[lead].numel() == 0 {
            continue;
        }
        if !is_flat(&all, lead, sets.columns)? {
            let inputs = &all[..sets.program.inputs()];
            let kernel = FusedKernel::new(&sets.program, &specs(inputs)?, guards)?;
            let operands: Vec<RawTensor<'_>> = all.iter().chain(&guarding).copied().collect();
            // SAFETY: `KernelCtx::new` promises valid operands; those that are written are apart.
            unsafe { kernel.launch_over(native, &operands, all[lead]) }?;
            continue;
        }
        let form: Form = all.iter().map(|x| (x.dtype, !x.shape.is_empty())).collect();
        match forms.iter_mut().find(|(known, _)| *known == form) {
            Some((_, of_form)) => of_form.push(all),
            None => forms.push((form, vec![all])),
        }
    }
    for (_, all) in &forms {
        // SAFETY: as above.
        unsafe {
            if all.len() > capacity(FEW, &sets, guards) && launch::passes_long_arguments(native) {
                run::<{ MANY.0 }, { MANY.1 }>(native, &sets, guards, &guarding, all)?;
            } else {
                run::<{ FEW.0 }, { FEW.1 }>(native, &sets, guards, &guarding, all)?;
            }
        }
    }
    Ok(())
}

/// Returns whether the tensors of a set are dense alike, and the shared ones are numbers: then an
/// element has the same number in all of them.
fn is_flat(all: &[RawTensor<'_>], lead: usize, columns: usize) -> Result<bool> {
    let to = &all[lead];
    let long = |x: &RawTensor<'_>| -> Vec<usize> {
        let dims = x.shape.iter().zip(x.strides);
        dims.filter(|(length, _)| **length != 1).map(|(_, stride)| *stride).collect()
    };
    let strides = long(to);
    Ok(copy::is_dense(to)?
        && all.iter().enumerate().all(|(k, x)| match x.shape.is_empty() {
            true => true,
            false => (k < columns || k == lead) && x.shape == to.shape && long(x) == strides,
        }))
}

/// Returns the number of tensors that a launch passes for each set, and for all sets.
fn per_set(sets: &Sets, guards: Guards) -> (usize, usize) {
    let own = sets.columns + usize::from(sets.program.makes_result());
    let shared = sets.program.inputs().saturating_sub(sets.columns);
    (own, shared + usize::from(guards.unless.is_some()) + usize::from(guards.found))
}

/// Returns the number of sets of a table.
fn capacity((most_sets, operands): (usize, usize), sets: &Sets, guards: Guards) -> usize {
    let (own, shared) = per_set(sets, guards);
    most_sets.min((operands - shared) / own)
}

/// Launches the program on sets of one form, as many at once as a table holds.
///
/// # Errors
/// An error of the compiler or the driver.
///
/// # Safety
/// The tensors are valid until the kernels have run, which are ordered against all other uses of
/// them. Those that are written share no memory with others.
unsafe fn run<const SETS: usize, const OPERANDS: usize>(
    native: &NativeStream,
    sets: &Sets,
    guards: Guards,
    guarding: &[RawTensor<'_>],
    all: &[Vec<RawTensor<'_>>],
) -> Result<()> {
    let Some(first) = all.first() else { return Ok(()) };
    let inputs = specs(&first[..sets.program.inputs()])?;
    let kernel = MultiKernel::new(sets, &inputs, guards, (SETS, OPERANDS))?;
    let (columns, used) = (per_set(sets, guards).0, sets.program.inputs().min(sets.columns));
    for part in all.chunks(capacity((SETS, OPERANDS), sets, guards)) {
        let operands = part.len() * columns + per_set(sets, guards).1;
        let header = ArgsHeader {
            size: size_of::<MultiArgs<SETS, OPERANDS>>() as u32,
            operands: operands as u32,
            offset: offset_of!(MultiArgs<SETS, OPERANDS>, operand) as u32,
            stride: size_of::<MemoryRange>() as u32,
        };
        let mut args = MultiArgs::<SETS, OPERANDS> {
            header,
            sets: part.len() as u32,
            columns: columns as u32,
            chunks: 0,
            integers: [0; MAX_INTEGERS],
            first: [0; SETS],
            operand: [MemoryRange::default(); OPERANDS],
        };
        args.integers[..kernel.words.len()].copy_from_slice(&kernel.words);
        for (set, tensors) in part.iter().enumerate() {
            args.first[set] = args.chunks;
            let own = tensors[..used].iter().chain(&tensors[sets.program.inputs()..]);
            let to = &mut args.operand[set * columns..];
            to.iter_mut().zip(own).for_each(|(to, x)| *to = MemoryRange::of(x));
            args.chunks += (tensors[kernel.lead].numel() as u64).div_ceil(CHUNK);
        }
        let shared = first[used..sets.program.inputs()].iter().chain(guarding);
        let to = &mut args.operand[part.len() * columns..];
        to.iter_mut().zip(shared).for_each(|(to, x)| *to = MemoryRange::of(x));
        let blocks = launch::most_blocks(native).min(args.chunks) as u32;
        // SAFETY: the kernel accesses the elements of the tensors, as the caller promises.
        unsafe {
            launch::launch_blocks(native, &kernel.name, || kernel.source(), blocks, args)?;
        }
    }
    Ok(())
}

/// The source of a program for sets of one form.
struct MultiKernel {
    name: String,
    body: String,
    table: (usize, usize),
    /// The input that is changed first; or the result.
    lead: usize,
    words: Vec<i64>,
}

impl MultiKernel {
    /// # Errors
    /// The program does not fit these inputs: schema and kernel disagree.
    fn new(
        sets: &Sets,
        inputs: &[TensorSpec],
        guards: Guards,
        table: (usize, usize),
    ) -> Result<MultiKernel> {
        let program = &sets.program;
        let results = program.infer(inputs)?;
        let last = results.last().context("a program has a step")?;
        let written = program.written().first().copied();
        let lead = written.unwrap_or(inputs.len());
        // A set's tensors, and its result if there is one.
        let used = inputs.len().min(sets.columns);
        let own = |k: usize| format!("set * args.columns + {k}");
        let shared = |k: usize| format!("args.sets * args.columns + {k}");
        let guard = inputs.len() - used;
        let lead_spec = written.map_or(last, |k| &inputs[k]);
        let place = |operand: Operand| match operand {
            Operand::Input(k) => {
                let e = element(inputs[k].dtype);
                let is_single = lead_spec.layout.rank() > 0 && inputs[k].layout.rank() == 0;
                let at = if is_single { "0" } else { "at" };
                let from = if k < used { own(k) } else { shared(k - used) };
                format!("DATA({e}, {from})[{at}]")
            }
            Operand::Unless(dtype) => format!("DATA({}, {})[0]", element(dtype), shared(guard)),
            Operand::Found => {
                let behind = guard + usize::from(guards.unless.is_some());
                format!("DATA(float, {})[0]", shared(behind))
            }
        };
        let Parts { functions, once, each, words } =
            Parts::new(program, inputs, &results, guards, place)?;
        let e = element(lead_spec.dtype);
        let column = written.unwrap_or(used);
        let store = match written {
            Some(_) => String::new(),
            None => {
                format!("            DATA({e}, {})[at] = result{};\n", own(used), results.len() - 1)
            }
        };
        let body = format!(
            r#"{functions}extern "C" __global__ void KERNEL(const MultiArgs args) {{
    for (u64 chunk = blockIdx.x; chunk < args.chunks; chunk += gridDim.x) {{
        unsigned set = set_of(args, chunk);
        u64 from = (chunk - args.first[set]) * {CHUNK}, to = from + {CHUNK};
        u64 count = args.operand[{lead}].bytes / sizeof({e});
        if (to > count) to = count;
{once}        for (u64 at = from + threadIdx.x; at < to; at += blockDim.x) {{
{each}{store}        }}
    }}
}}
"#,
            lead = own(column)
        );
        let key = format!("{table:?}{body}");
        // The name stands for the source.
        let name = format!("ms_multi_tensor_{}", &blake3::hash(key.as_bytes()).to_hex()[..16]);
        Ok(MultiKernel { name, body, table, lead, words })
    }

    fn source(&self) -> Result<CString> {
        let (sets, operands) = self.table;
        let sizes = format!("#define TABLE_SETS {sets}\n#define TABLE_OPERANDS {operands}\n");
        let own = self.body.replace("KERNEL", &self.name);
        let parts = [
            &*argument_block(),
            MATH,
            include_str!("fused.cu"),
            &*sizes,
            include_str!("multi_tensor.cu"),
            &*own,
        ];
        Ok(CString::new(parts.concat())?)
    }
}

/// Returns sources of a few programs: in place, with numbers that all sets share, with guards, and
/// with new results.
pub(super) fn sources() -> Vec<(String, CString)> {
    use DType::{BF16, F32, F64};
    /// A program, the number of tensors of a set, and the dtypes of the program's inputs, with
    /// whether they have dimensions.
    type Sample = (&'static str, i64, &'static [(DType, bool)], Guards);
    let programs: [Sample; 3] = [
        (
            "mul(%2|other=-0.5);expm1(#0);mul_(%0|other=0.9);addcmul_(%0,%1,#1)",
            2,
            &[(F32, true), (F32, true), (F64, false)],
            Guards { unless: Some(F32), found: false },
        ),
        (
            "cast(%0|dtype=f32);mul(#0,%1);copy_(%0,#1)",
            1,
            &[(BF16, true), (F32, false)],
            Guards { unless: None, found: true },
        ),
        ("tanh(%0);add(#0,%1|alpha=2)", 2, &[(F32, true), (BF16, true)], Guards::default()),
    ];
    let source = |&(text, columns, given, guards): &Sample| {
        let attrs = Attrs::new().with("program", text).with("columns", columns);
        let sets = Sets::of(&attrs, given.len())?;
        let spec = |&(dtype, has_dims): &(DType, bool)| {
            TensorSpec::contiguous(dtype, if has_dims { &[9] } else { &[] })
        };
        let inputs = given.iter().map(spec).collect::<Result<Vec<_>, _>>()?;
        let kernel = MultiKernel::new(&sets, &inputs, guards, FEW)?;
        anyhow::Ok((kernel.name.clone(), kernel.source()?))
    };
    programs.iter().filter_map(|program| source(program).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_has_a_source() {
        assert_eq!(sources().len(), 3);
    }

    #[test]
    fn tables_fit_into_parameters_without_padding() {
        fn check<const SETS: usize, const OPERANDS: usize>(limit: usize) {
            let expected = 32 + 8 * MAX_INTEGERS + 8 * SETS + 16 * OPERANDS;
            assert_eq!(size_of::<MultiArgs<SETS, OPERANDS>>(), expected);
            assert!(expected <= limit, "{expected} bytes");
        }
        check::<{ FEW.0 }, { FEW.1 }>(4096);
        check::<{ MANY.0 }, { MANY.1 }>(32764);
    }
}
