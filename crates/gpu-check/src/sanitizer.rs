//! Runs a small part of the check once more under NVIDIA's compute-sanitizer, where it is
//! installed.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use millstream_files::write_log;

use super::Setting;
use super::section::Section;

const NAME: &str = "compute-sanitizer";

/// The sanitizer's exit status if it has found an error.
const FOUND: i32 = 99;

/// The parts that run under the sanitizer, which makes them many times slower.
const PARTS: &str = "conformance,ops,memory,soak,bandwidth";

/// Returns the paths where the sanitizer may be: the search path, and the toolkit's folders.
fn places() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os);
    let toolkits = homes.map(PathBuf::from).chain(["/usr/local/cuda".into()]);
    let bins = toolkits.map(|home| home.join("bin"));
    std::env::split_paths(&path).chain(bins).collect()
}

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    let places = places();
    let found = places.iter().map(|place| place.join(NAME)).find(|file| file.is_file());
    let Some(file) = found else {
        section.skipped.push(format!("{NAME} is not here: looked in {places:?}"));
        return Ok(());
    };
    let out = setting.out.join("sanitizer");
    let log = out.join("log.txt");
    let to = write_log(&log).with_context(|| log.display().to_string())?;
    let mut command = Command::new(&file);
    // Some memory cases request more memory than there is: errors that calls of the driver return
    // are theirs to check.
    command.args(["--tool", "memcheck", "--report-api-errors", "no"]);
    command.args(["--error-exitcode", &FOUND.to_string(), "--log-file"]);
    command.arg(out.join("memcheck.txt")).arg(std::env::current_exe()?);
    command.args(["gpu-check", "--quick", "--only", PARTS, "--out"]).arg(&out);
    command.arg("--reference").arg(&setting.reference);
    // The check ends by itself before it would be ended.
    command.args(["--seconds", &(section.left().as_secs() * 3 / 4).to_string()]);
    command.args(["--device", &setting.device.to_string(), "--seed", &setting.seed.to_string()]);
    if !setting.real {
        command.arg("--on-stand-in");
    }
    let child = command.stdin(Stdio::null()).stdout(to).stderr(Stdio::null()).spawn();
    let mut child = child.with_context(|| file.display().to_string())?;
    match wait(&mut child, section)? {
        None => section.cut = Some(format!("{} was ended", file.display())),
        Some(0) => section.passed += 1,
        Some(FOUND) => section.failed.push(format!("it found something, see {}", out.display())),
        Some(code) => section.failed.push(format!("ended with {code}, see {}", out.display())),
    }
    Ok(())
}

/// Waits for the process and returns its exit status; none if it ran out of time and was killed.
fn wait(child: &mut Child, section: &Section) -> Result<Option<i32>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if section.left().is_zero() {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(section.left().min(Duration::from_millis(50)));
    }
}
