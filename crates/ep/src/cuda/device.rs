//! A CUDA device.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use once_cell::sync::OnceCell;

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::driver::{
    Context, DriverError, DriverResult, Function, MemoryPool, Module, RawStream, ResourceCounts,
    Teardown, can_access_peer, version,
};
use crate::cuda::event::CudaEvent;
use crate::cuda::graph::CudaGraph;
use crate::cuda::memory::CudaMemory;
use crate::cuda::native_stream::NativeStream;
use crate::cuda::precompile::Precompiler;
use crate::cuda::stream::CudaStream;
use crate::cuda::{CudaConfig, driver_error};
use crate::device::{Capabilities, Device, Event, Memory, Notify, Precompilation, Stream};
use crate::graph::Graph;

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The device's name.
    pub name: String,
    /// The compute capability: major and minor.
    pub capability: (i32, i32),
    /// The number of multiprocessors.
    pub multiprocessors: i32,
    /// The number of copies that can overlap with kernels.
    pub copy_engines: i32,
    /// The range of stream priorities: the least urgent, and the most urgent, the lower number.
    pub priorities: (i32, i32),
    /// The total memory in bytes.
    pub memory: u64,
    /// Whether the device supports memory pools.
    pub memory_pools: bool,
    /// The version of the driver's interface: 13000 for CUDA 13.0.
    pub driver: i32,
}

/// The modules by key, each empty until it is loaded, and their kernels by key and name.
#[derive(Default)]
struct Modules {
    modules: HashMap<String, Arc<OnceCell<Arc<Module>>>>,
    functions: HashMap<(String, String), Arc<Function>>,
    /// The code of modules that are not loaded yet, each empty until it is compiled.
    code: HashMap<String, Arc<OnceCell<Vec<u8>>>>,
}

/// The state of an open device, shared by its streams and events.
pub(super) struct DeviceState {
    pub(super) id: DeviceId,
    pub(super) properties: Properties,
    /// Whether matrix products of f32 may use TF32.
    pub(super) tf32: bool,
    /// Declared before the context, and so unloaded before it is released.
    modules: Mutex<Modules>,
    /// The contexts of other devices, by index, from whose memory this device copies.
    peers: Mutex<HashMap<u32, Arc<Context>>>,
    pub(super) context: Arc<Context>,
    /// The error of the first stream that found the device lost.
    pub(super) lost: OnceLock<Error>,
}

/// A device of a [`CudaBackend`](crate::cuda::CudaBackend).
pub struct CudaDevice {
    state: Arc<DeviceState>,
    /// The memory pool of arenas. None if they are plain allocations.
    memory_pool: Option<Arc<MemoryPool>>,
    config: CudaConfig,
    default_limit: u64,
    precompiler: Precompiler,
}

fn properties(context: &Context) -> DriverResult<Properties> {
    use Attribute::{
        CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT as COPY_ENGINES,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED as MEMORY_POOLS,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as MULTIPROCESSORS,
    };
    Ok(Properties {
        name: context.name()?,
        capability: (context.attribute(MAJOR)?, context.attribute(MINOR)?),
        multiprocessors: context.attribute(MULTIPROCESSORS)?,
        copy_engines: context.attribute(COPY_ENGINES)?,
        priorities: context.priorities()?,
        memory: context.memory()?.1,
        memory_pools: context.attribute(MEMORY_POOLS)? != 0,
        driver: version()?,
    })
}

impl CudaDevice {
    pub(super) fn open(
        id: DeviceId,
        config: &CudaConfig,
        teardown: &Arc<Teardown>,
    ) -> Result<CudaDevice> {
        let open = || {
            let context = Context::retain(id.index(), teardown.clone())?;
            // Of the memory that is free now, a tenth is left for the needs of kernels.
            let limit = context.memory()?.0 / 10 * 9;
            let properties = properties(&context)?;
            let pooled = config.stream_ordered && properties.memory_pools;
            let memory_pool =
                pooled.then(|| MemoryPool::new(context.clone(), id.index())).transpose()?;
            Ok((properties, context, memory_pool, limit))
        };
        let opened: DriverResult<_> = open();
        let (properties, context, memory_pool, default_limit) =
            opened.map_err(|e| driver_error(&id, &e))?;
        let tf32 = config.tf32;
        let (modules, peers, lost) = Default::default();
        let state = DeviceState { id, properties, tf32, modules, peers, context, lost };
        let (state, config) = (Arc::new(state), config.clone());
        let precompiler = Precompiler::new(state.clone(), config.compilers);
        Ok(CudaDevice { state, memory_pool, config, default_limit, precompiler })
    }

    /// Returns the device's properties.
    pub fn properties(&self) -> &Properties {
        &self.state.properties
    }

    /// Returns the device's free and total memory in bytes.
    ///
    /// # Errors
    /// The device is lost.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        self.context().memory().map_err(|e| self.error(&e))
    }

    /// Returns the resources that were created and destroyed on the device so far.
    pub fn counts(&self) -> ResourceCounts {
        self.context().counts()
    }

    /// Returns whether this device can access `other`'s memory through its addresses. Copies from
    /// there are then direct.
    ///
    /// # Errors
    /// The driver's error.
    pub fn can_access_peer(&self, other: &CudaDevice) -> Result<bool> {
        can_access_peer(self.id().index(), other.id().index()).map_err(|e| self.error(&e))
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.state.context
    }

    fn error(&self, error: &DriverError) -> Error {
        driver_error(&self.state.id, error)
    }

    fn stream(&self, priority: i32, notify: Notify) -> Result<Box<dyn Stream>> {
        let raw = RawStream::new(self.context().clone(), priority);
        let stream = raw.and_then(|raw| {
            let native = NativeStream::new(raw, self.state.clone());
            CudaStream::new(native, self.config.completion, notify)
        });
        Ok(Box::new(stream.map_err(|e| self.error(&e))?))
    }
}

impl DeviceState {
    fn modules(&self) -> MutexGuard<'_, Modules> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles the module `key` by `compile`, unless it is loaded, or another thread has begun to
    /// compile it: a precompilation needs no code, and waits for none.
    pub(super) fn compile_ahead(
        &self,
        key: &str,
        compile: impl FnOnce() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<()> {
        let code = {
            let mut modules = self.modules();
            let is_loaded = modules.modules.get(key).is_some_and(|module| module.get().is_some());
            if is_loaded || modules.code.contains_key(key) {
                return Ok(());
            }
            modules.code.entry(key.to_owned()).or_default().clone()
        };
        // Not under the lock: other kernels are compiled and launched meanwhile.
        code.get_or_try_init(compile)?;
        Ok(())
    }

    /// Returns the kernel `name` of the module `key`. Loads the module first if `may_load`, from
    /// the output of `compile`, which is called once per key.
    pub(super) fn function(
        &self,
        key: &str,
        name: &CStr,
        may_load: impl FnOnce() -> anyhow::Result<()>,
        compile: impl FnOnce() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<Arc<Function>> {
        let key_and_name = (key.to_owned(), name.to_string_lossy().into_owned());
        let module = {
            let mut loaded = self.modules();
            if let Some(function) = loaded.functions.get(&key_and_name) {
                return Ok(function.clone());
            }
            loaded.modules.entry(key.to_owned()).or_default().clone()
        };
        let load = || {
            may_load()?;
            let code = self.modules().code.entry(key.to_owned()).or_default().clone();
            // Not under the lock: other kernels are compiled and launched meanwhile.
            let code = code.get_or_try_init(compile)?;
            anyhow::Ok(Arc::new(Module::load(self.context.clone(), code)?))
        };
        let function = Arc::new(module.get_or_try_init(load)?.function(name)?);
        let mut modules = self.modules();
        modules.code.remove(key);
        Ok(modules.functions.entry(key_and_name).or_insert(function).clone())
    }

    /// Returns the context of device `index`. Enables access to its memory on first use.
    pub(super) fn peer(&self, index: u32) -> DriverResult<Arc<Context>> {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = peers.get(&index) {
            return Ok(peer.clone());
        }
        let peer = self.context.peer(index)?;
        peers.insert(index, peer.clone());
        Ok(peer)
    }
}

impl Device for CudaDevice {
    fn id(&self) -> &DeviceId {
        &self.state.id
    }

    fn capabilities(&self) -> Capabilities {
        super::capabilities(&self.config)
    }

    fn kernel_kind(&self) -> &str {
        super::KIND
    }

    fn default_memory_limit(&self) -> u64 {
        self.default_limit
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        match CudaMemory::new(self.context(), self.memory_pool.as_ref(), bytes) {
            Ok(memory) => Ok(Box::new(memory)),
            Err(error) if error.is_out_of_memory() => {
                let (free, limit) = self.context().memory().unwrap_or_default();
                Err(Error::OutOfMemory {
                    device: self.state.id.clone(),
                    purpose: "device memory".to_owned(),
                    wanted: bytes as u64,
                    in_use: limit.saturating_sub(free),
                    limit,
                    holders: Vec::new(),
                })
            }
            Err(error) => Err(self.error(&error)),
        }
    }

    fn create_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        self.stream(self.properties().priorities.0, notify)
    }

    fn create_stream_with_priority(
        &self,
        priority: i32,
        notify: Notify,
    ) -> Result<Box<dyn Stream>> {
        // To the driver, lower numbers are more urgent.
        let (least, most) = self.properties().priorities;
        self.stream(least.saturating_sub(priority.max(0)).max(most), notify)
    }

    fn async_error(&self) -> Option<Error> {
        self.state.lost.get().cloned()
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        let event = CudaEvent::new(self.state.clone(), false);
        Ok(Arc::new(event.map_err(|e| self.error(&e))?))
    }

    fn create_timed_event(&self) -> Result<Arc<dyn Event>> {
        let event = CudaEvent::new(self.state.clone(), true);
        Ok(Arc::new(event.map_err(|e| self.error(&e))?))
    }

    fn create_graph(&self, positions: usize, words: usize) -> Result<Box<dyn Graph>> {
        let graph = CudaGraph::new(self.state.clone(), positions, words);
        Ok(Box::new(graph.map_err(|e| self.error(&e))?))
    }

    fn precompile(&self, work: Precompilation) {
        self.precompiler.push(work);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice")
            .field("id", &self.state.id)
            .field("properties", self.properties())
            .finish_non_exhaustive()
    }
}
