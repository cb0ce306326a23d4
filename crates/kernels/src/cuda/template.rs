//! Templates of kernels over an iteration space, for elements of several dtypes or sizes.

use std::ffi::CString;

use anyhow::Result;

use millstream_ep::cuda::NativeStream;
use millstream_ops::reduce::SUM_PART;
use millstream_types::DType;

use super::args::MAX_RANK;
use super::strided::{MAX_INTEGERS, MAX_OPERANDS, MAX_SCALARS, StridedArgs};
use super::{launch, source};

/// The source of a kernel in CUDA C. In it, `KERNEL` stands for the kernel's name, `E` is the type
/// of the elements and `T` the type that they are computed in.
#[derive(Clone, Copy)]
pub(super) struct KernelTemplate {
    /// The kernel's name, before the dtype.
    pub(super) name: &'static str,
    pub(super) body: &'static str,
}

/// Returns the template whose name is that of its file, after the texts of other files.
macro_rules! template {
    ($name:literal $(, $before:literal)*) => {
        $crate::cuda::template::KernelTemplate {
            name: $name,
            body: concat!($(include_str!($before),)* include_str!(concat!($name, ".cu"))),
        }
    };
}
pub(super) use template;

impl KernelTemplate {
    fn kernel_name(&self, element: &str) -> String {
        format!("ms_{}__{element}", self.name)
    }

    fn source(&self, element: &str, (e, t): (&str, &str)) -> Result<CString> {
        let types = format!("typedef {e} E;\ntypedef {t} T;\n");
        let own = self.body.replace("KERNEL", &self.kernel_name(element));
        let all = [&*argument_block(), &*types, &*own];
        Ok(CString::new(all.concat())?)
    }

    /// Returns the kernels' names and sources for elements of these dtypes.
    pub(super) fn typed_sources(&self, dtypes: &[DType]) -> Vec<(String, CString)> {
        let of = |dtype: &DType| {
            let source = self.source(dtype.name(), types(*dtype)).ok()?;
            Some((self.kernel_name(dtype.name()), source))
        };
        dtypes.iter().filter_map(of).collect()
    }

    /// Returns the kernels' names and sources for elements of each size.
    pub(super) fn sized_sources(&self) -> Vec<(String, CString)> {
        let of = |bytes: usize| {
            let element = bytes.to_string();
            Some((self.kernel_name(&element), self.source(&element, bit_types(bytes)).ok()?))
        };
        [1, 2, 4, 8].into_iter().filter_map(of).collect()
    }

    /// Launches the kernel for elements of a dtype, with a thread for each work item.
    ///
    /// # Errors
    /// An error of the compiler or the driver.
    ///
    /// # Safety
    /// As for [`launch::launch_blocks`].
    pub(super) unsafe fn launch_typed(
        &self,
        native: &NativeStream,
        dtype: DType,
        args: StridedArgs,
    ) -> Result<()> {
        let element = dtype.name();
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, element, types(dtype), blocks_for(native, args.count), args) }
    }

    /// Launches the kernel for elements of a dtype's size. It moves them without conversion.
    ///
    /// # Errors
    /// An error of the compiler or the driver.
    ///
    /// # Safety
    /// As for [`launch::launch_blocks`].
    pub(super) unsafe fn launch_sized(
        &self,
        native: &NativeStream,
        dtype: DType,
        args: StridedArgs,
    ) -> Result<()> {
        let bytes = dtype.size();
        let blocks = blocks_for(native, args.count);
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, &bytes.to_string(), bit_types(bytes), blocks, args) }
    }

    /// Launches the kernel for elements of a dtype, in `blocks` blocks.
    ///
    /// # Errors
    /// An error of the compiler or the driver.
    ///
    /// # Safety
    /// As for [`launch::launch_blocks`].
    pub(super) unsafe fn launch_blocks(
        &self,
        native: &NativeStream,
        dtype: DType,
        blocks: u64,
        args: StridedArgs,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, dtype.name(), types(dtype), grid(native, blocks), args) }
    }

    /// Launches the kernel for elements of a dtype's size in one block.
    ///
    /// # Errors
    /// An error of the compiler or the driver.
    ///
    /// # Safety
    /// As for [`launch::launch_blocks`].
    pub(super) unsafe fn launch_block_sized(
        &self,
        native: &NativeStream,
        dtype: DType,
        args: StridedArgs,
    ) -> Result<()> {
        let bytes = dtype.size();
        // SAFETY: the caller's promise.
        unsafe { self.launch(native, &bytes.to_string(), bit_types(bytes), 1, args) }
    }

    /// # Safety
    /// As for [`launch::launch_blocks`].
    unsafe fn launch(
        &self,
        native: &NativeStream,
        element: &str,
        types: (&str, &str),
        blocks: u32,
        args: StridedArgs,
    ) -> Result<()> {
        let name = self.kernel_name(element);
        // SAFETY: the caller's promise.
        unsafe {
            launch::launch_blocks(native, &name, || self.source(element, types), blocks, args)
        }
    }
}

/// Returns the start of the sources of kernels that take a [`StridedArgs`].
pub(super) fn argument_block() -> String {
    let sizes = format!(
        "#define MAX_OPERANDS {MAX_OPERANDS}\n#define MAX_SCALARS {MAX_SCALARS}\n\
         #define MAX_INTEGERS {MAX_INTEGERS}\n#define MAX_RANK {MAX_RANK}\n\
         #define BLOCK {}\n#define PART {SUM_PART}\n",
        launch::THREADS
    );
    [source::prelude(), &*sizes, include_str!("strided.cu")].concat()
}

/// Returns the type of a dtype's elements, and the type that they are computed in.
fn types(dtype: DType) -> (&'static str, &'static str) {
    let element = match dtype {
        DType::F32 => return ("float", "float"),
        DType::F64 => return ("double", "double"),
        DType::F16 => return ("f16", "float"),
        DType::BF16 => return ("bf16", "float"),
        DType::I64 => "long long",
        DType::I32 => "int",
        DType::I16 => "short",
        DType::I8 => "signed char",
        DType::U8 => "unsigned char",
        DType::U16 => "unsigned short",
        DType::U32 => "unsigned",
        DType::U64 => return ("u64", "u64"),
        DType::Bool => "boolean",
        // The host computes complex numbers: these are only moved.
        DType::C64 => return ("float2", "float2"),
        DType::C128 => return ("double2", "double2"),
    };
    (element, "long long")
}

/// Returns the types of elements of this size that are moved without conversion.
fn bit_types(bytes: usize) -> (&'static str, &'static str) {
    let element = match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "u64",
    };
    (element, element)
}

/// Returns the number of blocks for `count` work items. A thread may process several of them.
fn blocks_for(native: &NativeStream, count: u64) -> u32 {
    grid(native, count.div_ceil(launch::THREADS))
}

/// Limits the number of blocks to the number that keeps the device busy. Kernels loop over their
/// work with a stride of the grid's size, so any number of blocks is correct.
fn grid(native: &NativeStream, blocks: u64) -> u32 {
    blocks.min(launch::most_blocks(native)) as u32
}
