//! Gives the library the names under which the loader looks for the driver, in a folder that cargo
//! puts into the search path of tests, and of nothing else.

use std::path::Path;

/// The libraries that the one library stands in for: the driver, the compiler of kernels, and that of
/// matrix products.
const NAMES: &[&str] = &["libcuda.so", "libcuda.so.1", "libnvrtc.so.12", "libcublas.so.12"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let Ok(out) = std::env::var("OUT_DIR") else { return };
    // From `build/NAME-HASH/out` to where cargo puts the library; the link leads nowhere until then.
    let library = Path::new("../../../deps/libmillstream_cuda_standin.so");
    #[cfg(unix)]
    for name in NAMES {
        let link = Path::new(&out).join(name);
        if link.symlink_metadata().is_err() {
            std::os::unix::fs::symlink(library, &link).expect("the build folder takes a link");
        }
    }
    #[cfg(not(unix))]
    let _ = (library, NAMES);
    println!("cargo::rustc-link-search=native={out}");
}
