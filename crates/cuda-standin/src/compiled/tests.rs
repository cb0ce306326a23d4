//! Tests with small kernels on the host. Without a C++ compiler, they print that they are skipped.

use millstream_kernels::cuda::args::{ArgsHeader, MemoryRange};

use super::{Argument, Grid, Library, compiler};
use crate::memory::Range;

/// The argument: an operand that the kernel reads, and one that it writes.
#[repr(C)]
struct Two {
    head: ArgsHeader,
    operands: [MemoryRange; 2],
}

const TWO: &str = "struct Two { unsigned head[4]; const float* x; unsigned long long x_bytes; \
                   float* y; unsigned long long y_bytes; };\n";

/// Runs `body` in three blocks of 64 threads, on the numbers from 0 to 255.
fn run(body: &str) -> Result<Vec<f32>, String> {
    let source = format!("{TWO}extern \"C\" __global__ void tried(const Two two) {{ {body} }}");
    let file = compiler::compile(&source).map_err(|e| format!("{e:#}"))?;
    let library = Library::load(&file, compiler::kernels(&source)).map_err(|e| format!("{e:#}"))?;
    let again = Library::load(&file, compiler::kernels(&source)).map_err(|e| format!("{e:#}"))?;
    assert!(std::sync::Arc::ptr_eq(&library, &again), "a file is loaded once");
    let kernel = library.kernel("tried").ok_or("the kernel is missing")?;
    assert!(library.kernel("other").is_none());
    let x: Vec<f32> = (0..256u16).map(f32::from).collect();
    let mut y = vec![0.0f32; 256];
    let place = |data: *const f32| MemoryRange { data: data.addr() as u64, bytes: 1024 };
    let (offset, stride) = (size_of::<ArgsHeader>() as u32, size_of::<MemoryRange>() as u32);
    let head = ArgsHeader { size: size_of::<Two>() as u32, operands: 2, offset, stride };
    let two = Two { head, operands: [place(x.as_ptr()), place(y.as_mut_ptr())] };
    // Host addresses are used as device addresses.
    let same = |place: MemoryRange| Ok(Range::unowned(place.data as usize));
    // SAFETY: the argument has the size that the kernel declares, and refers to both vectors.
    let argument = unsafe { Argument::read((&raw const two).cast(), kernel.size, same) };
    let (argument, ranges) = argument.map_err(|code| code.to_string())??;
    assert_eq!(ranges.len(), 2);
    let grid = Grid { blocks: [3, 1, 1], threads: [64, 1, 1] };
    // SAFETY: both vectors outlive the call, and no other code uses y.
    unsafe { library.run(kernel, &argument, grid) }.map_err(|e| format!("{e:#}"))?;
    Ok(y)
}

#[track_caller]
fn check(body: &str, expected: impl Fn(usize) -> f32) {
    if !compiler::is_available() {
        return println!("skipped: no C++ compiler");
    }
    let y = run(body).unwrap();
    let expected: Vec<f32> = (0..256).map(expected).collect();
    assert_eq!(y, expected);
}

#[track_caller]
fn fails(body: &str, why: &str) {
    if !compiler::is_available() {
        return println!("skipped: no C++ compiler");
    }
    let error = run(body).unwrap_err();
    assert!(error.contains(why), "{error}");
}

const INDEX: &str = "unsigned i = blockIdx.x * blockDim.x + threadIdx.x;";

#[test]
fn each_thread_has_its_index() {
    check(
        &format!("{INDEX} two.y[i] = two.x[i] * 2;"),
        |i| {
            if i < 192 { 2.0 * i as f32 } else { 0.0 }
        },
    );
}

/// Without the barrier, threads read elements before other threads have written them, in either
/// order.
#[test]
fn threads_wait_for_one_another() {
    let reversed = |barrier: &str| {
        format!(
            "{INDEX} __shared__ float all[64]; all[threadIdx.x] = two.x[i]; {barrier}; \
             two.y[i] = all[63 - threadIdx.x];"
        )
    };
    let expected = |i: usize| if i < 192 { (i / 64 * 64 + 63 - i % 64) as f32 } else { 0.0 };
    check(&reversed("__syncthreads()"), expected);
    if compiler::is_available() {
        let expected: Vec<f32> = (0..256).map(expected).collect();
        assert_ne!(run(&reversed("")).unwrap(), expected);
    }
}

#[test]
fn warps_exchange() {
    let sum = "float v = two.x[i]; \
               for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);";
    check(&format!("{INDEX} {sum} two.y[i] = v;"), |i| match i {
        0..192 => (0..32).map(|k| (i / 32 * 32 + k) as f32).sum(),
        _ => 0.0,
    });
    check(
        &format!("{INDEX} two.y[i] = __shfl_down_sync(0xffffffffu, two.x[i], 4);"),
        |i| match i {
            0..192 if i % 32 < 28 => i as f32 + 4.0,
            0..192 => i as f32,
            _ => 0.0,
        },
    );
}

#[test]
fn a_deadlock_is_an_error() {
    fails(&format!("{INDEX} if (i != 70) __syncthreads(); two.y[i] = 1;"), "63 of 64 threads wait");
    fails("if (threadIdx.x < 7) __syncwarp();", "7 of 64 threads wait");
    fails("__shfl_sync(0xffu, 1, 0);", "some threads of a warp");
}

#[test]
fn an_access_outside_the_operands_is_an_error() {
    fails("MS_TOUCH(two.x + 256, 4);", "thread [0, 0, 0]: an access outside");
    fails("if (threadIdx.x == 5) MS_TOUCH((const char*)two.x + 2, 4);", "thread [5, 0, 0]");
    check("MS_TOUCH(two.x + 252, 16); MS_TOUCH(two.y, 1);", |_| 0.0);
}

#[test]
fn a_compilation_error_names_the_line() {
    fails("two.z = 1;", "millstream.cu:2");
}
