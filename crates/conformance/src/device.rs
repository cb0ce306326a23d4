//! Checks of devices and their memory.

use anyhow::{Context, ensure};
use millstream_ep::device::{MEMORY_ALIGN, Memory};

use millstream_types::Error;

use crate::{Check, Fixture, Outcome};

pub(super) const CHECKS: &[Check] = &[
    Check { name: "ids and counts agree", run: ids_and_counts },
    Check { name: "a device beyond the count is refused", run: beyond_the_count },
    Check { name: "memory is aligned, of its size, and disjoint", run: memory_layout },
    Check { name: "host memory keeps its content", run: memory_contents },
    Check { name: "a refused allocation has no side effect", run: refused_allocation },
];

fn ids_and_counts(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let (kind, count) = (fixture.backend.kind(), fixture.backend.count()?);
    for index in 0..count {
        let device = fixture.backend.open(index).with_context(|| format!("open({index})"))?;
        let id = device.id();
        ensure!(id.kind() == kind && id.index() == index, "device {index} of {kind} is {id}");
        ensure!(!device.kernel_kind().is_empty(), "{id} names no kernels");
        ensure!(device.default_memory_limit() > 0, "{id} has no memory");
    }
    Ok(Outcome::Passed)
}

fn beyond_the_count(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    for index in [fixture.backend.count()?, u32::MAX] {
        match fixture.backend.open(index) {
            Ok(device) => anyhow::bail!("open({index}) gave {}", device.id()),
            Err(Error::Device { .. }) => {}
            Err(other) => anyhow::bail!("open({index}) gave an error of another kind: {other}"),
        }
    }
    Ok(Outcome::Passed)
}

fn memory_layout(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    let sizes = [0, 1, MEMORY_ALIGN - 1, MEMORY_ALIGN, MEMORY_ALIGN + 1, 4096, 1 << 20];
    let mut blocks = Vec::new();
    for bytes in sizes {
        let memory =
            fixture.device.allocate(bytes).with_context(|| format!("allocate({bytes})"))?;
        let base = memory.base().as_ptr() as usize;
        ensure!(memory.bytes() == bytes, "{} bytes instead of {bytes}", memory.bytes());
        ensure!(base.is_multiple_of(MEMORY_ALIGN), "{bytes} bytes at {base:#x}: not aligned");
        blocks.push(memory);
    }
    let range = |m: &dyn Memory| {
        let base = m.base().as_ptr() as usize;
        base..base + m.bytes()
    };
    let mut ranges: Vec<_> = blocks.iter().map(|m| range(&**m)).filter(|r| !r.is_empty()).collect();
    ranges.sort_by_key(|r| r.start);
    for pair in ranges.windows(2) {
        ensure!(pair[0].end <= pair[1].start, "two blocks overlap: {pair:x?}");
    }
    Ok(Outcome::Passed)
}

fn memory_contents(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    if !fixture.device.capabilities().host_memory {
        return Ok(Outcome::LacksCapability("host memory"));
    }
    const BYTES: usize = 3000;
    let blocks = [fixture.device.allocate(BYTES)?, fixture.device.allocate(BYTES)?];
    for (block, value) in blocks.iter().zip([0xA5_u8, 0x5A]) {
        // SAFETY: the device has the capability `host_memory`; the block is BYTES long, and only
        // this check uses it.
        unsafe { block.base().as_ptr().write_bytes(value, BYTES) };
    }
    for (block, value) in blocks.iter().zip([0xA5_u8, 0x5A]) {
        // SAFETY: as above, and the loop above has initialised the block.
        let bytes = unsafe { std::slice::from_raw_parts(block.base().as_ptr(), BYTES) };
        ensure!(bytes.iter().all(|&b| b == value), "a block lost what was written to it");
    }
    Ok(Outcome::Passed)
}

fn refused_allocation(fixture: &Fixture<'_>) -> anyhow::Result<Outcome> {
    for bytes in [usize::MAX, isize::MAX as usize, 1 << (usize::BITS - 6)] {
        match fixture.device.allocate(bytes) {
            Ok(_) => anyhow::bail!("the device allocated {bytes} bytes"),
            Err(Error::OutOfMemory { device, wanted, .. }) => {
                ensure!(device == *fixture.device.id(), "the error names {device}");
                ensure!(wanted == bytes as u64, "the error names {wanted} bytes, not {bytes}");
            }
            Err(other) => anyhow::bail!("an error of another kind: {other}"),
        }
    }
    fixture.device.allocate(4096).context("a small block after a refusal")?;
    Ok(Outcome::Passed)
}
