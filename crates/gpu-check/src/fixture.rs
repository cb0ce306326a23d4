//! A machine on the device, which the measurements share, and checks that panic.

use std::panic::{set_hook, take_hook};
use std::sync::Arc;

use anyhow::{Context, Result};

use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CompletionMode, CudaBackend, CudaConfig, CudaDevice, ResourceCounts};
use millstream::ep::{Device, Registry};
use millstream::types::{Panicked, catch_panic};
use millstream::{
    DType, DeviceId, Machine, MachineConfig, Stream, StreamKey, StreamType, Tensor, TensorSpec,
};

pub(super) struct Fixture {
    pub(super) machine: Machine,
    pub(super) device: Arc<dyn Device>,
    id: DeviceId,
}

impl Fixture {
    /// Returns a machine whose configuration `change` has adapted.
    pub(super) fn new(
        index: u32,
        completion: CompletionMode,
        change: impl FnOnce(&mut MachineConfig),
    ) -> Result<Fixture> {
        Fixture::with(index, CudaConfig { completion, ..CudaConfig::default() }, change)
    }

    /// Does as [`Fixture::new`], with this configuration of the device.
    pub(super) fn with(
        index: u32,
        cuda: CudaConfig,
        change: impl FnOnce(&mut MachineConfig),
    ) -> Result<Fixture> {
        let devices = Arc::new(Registry::new());
        devices.register(Arc::new(CpuBackend::new()));
        CudaBackend::new(cuda).register(&devices);
        let id = DeviceId::cuda(index);
        let device = devices.device(&id)?;
        let mut config = MachineConfig::default().devices(devices);
        change(&mut config);
        Ok(Fixture { machine: Machine::new(config)?, device, id })
    }

    pub(super) fn compute(&self, index: u32) -> Result<Stream> {
        Ok(self.machine.compute(&self.id, index)?)
    }

    pub(super) fn stream(&self, ty: StreamType) -> Result<Stream> {
        Ok(self.machine.stream(&StreamKey::new(self.id.clone(), ty, 0))?)
    }

    /// Makes a tensor of these floats in the device's memory.
    pub(super) fn tensor(&self, values: &[f32]) -> Result<Tensor> {
        let spec = TensorSpec::contiguous(DType::F32, &[values.len()])?;
        let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        Ok(self.machine.upload(&self.compute(0)?, spec, bytes)?)
    }

    /// Returns the numbers of resources that were created and destroyed on the device.
    pub(super) fn counts(&self) -> Result<ResourceCounts> {
        let device = self.device.as_any().downcast_ref::<CudaDevice>();
        Ok(device.context("another device")?.counts())
    }
}

/// Runs checks that panic if they fail. The report has their messages, so nothing is printed.
pub(super) fn quietly<R>(checks: impl FnOnce() -> R) -> R {
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let outcome = checks();
    set_hook(hook);
    outcome
}

/// Runs a check, and returns the message of its panic as the error.
pub(super) fn caught<R>(check: impl FnOnce() -> R) -> Result<R, String> {
    catch_panic(|| Ok(check())).map_err(|panicked: Panicked| panicked.message)
}
