//! Links the library under the names of the driver's libraries, in a folder that cargo adds to the
//! search path of tests, and of nothing else.

use std::path::Path;

/// The libraries that this one replaces: the driver, the compiler of kernels, cuBLAS, and NCCL.
const NAMES: &[&str] =
    &["libcuda.so", "libcuda.so.1", "libnvrtc.so.12", "libcublas.so.12", "libnccl.so.2"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(out) = std::env::var("OUT_DIR") else { return };
    // From `build/NAME-HASH/out` to the library that cargo builds; until then the link dangles.
    let library = Path::new("../../../deps/libmillstream_cuda_standin.so");
    #[cfg(unix)]
    for name in NAMES {
        let link = Path::new(&out).join(name);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(library, &link).expect("the build folder supports links");
        }
    }
    #[cfg(not(unix))]
    let _ = (library, NAMES);
    println!("cargo::rustc-link-search=native={out}");
}
