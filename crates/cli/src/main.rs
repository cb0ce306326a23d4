//! The binary `millstream`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(millstream_cli::run(std::env::args_os()))
}
