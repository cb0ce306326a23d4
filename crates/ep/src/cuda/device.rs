//! A CUDA device.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::driver::{
    Answer, Context, Counts, DriverError, Ends, Function, MemoryPool, Module, RawStream, can_reach,
    version,
};
use crate::cuda::event::CudaEvent;
use crate::cuda::memory::CudaMemory;
use crate::cuda::native::Native;
use crate::cuda::stream::CudaStream;
use crate::cuda::{CudaConfig, device_error};
use crate::device::{Capabilities, Device, Event, Memory, Notify, Stream};

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Its compute capability: major and minor.
    pub capability: (i32, i32),
    /// How many multiprocessors it has.
    pub multiprocessors: i32,
    /// How many copies it can make beside kernels.
    pub copy_engines: i32,
    /// The priorities of streams: the least and the most urgent, which is the lower number.
    pub priorities: (i32, i32),
    /// Its memory in bytes.
    pub memory: u64,
    /// Whether it has memory pools.
    pub memory_pools: bool,
    /// The version of the driver's interface: 13000 for CUDA 13.0.
    pub driver: i32,
}

/// Kernels by the key of their module and their name.
#[derive(Default)]
struct Modules {
    modules: HashMap<String, Arc<Module>>,
    functions: HashMap<(String, String), Arc<Function>>,
}

/// An open device, as its streams share it.
pub(super) struct Opened {
    pub(super) id: DeviceId,
    pub(super) properties: Properties,
    /// Whether products of f32 may be computed in TF32.
    pub(super) tf32: bool,
    // Before the context: what is loaded in it goes first.
    modules: Mutex<Modules>,
    /// Contexts of other devices, by their numbers, whose memory is copied from.
    peers: Mutex<HashMap<u32, Arc<Context>>>,
    pub(super) context: Arc<Context>,
    /// Why nothing runs on it any more, once a stream of its has found out.
    pub(super) lost: OnceLock<Error>,
}

/// A device of a [`CudaBackend`](crate::cuda::CudaBackend).
pub struct CudaDevice {
    opened: Arc<Opened>,
    /// Where arenas lie, if not on plain allocations.
    pool: Option<Arc<MemoryPool>>,
    config: CudaConfig,
    default_limit: u64,
}

fn properties(context: &Context) -> Answer<Properties> {
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
    pub(super) fn open(id: DeviceId, config: &CudaConfig, ends: &Arc<Ends>) -> Result<CudaDevice> {
        let open = || {
            let context = Context::retain(id.index(), ends.clone())?;
            // What others have now stays theirs, and a little is left for what kernels need.
            let limit = context.memory()?.0 / 10 * 9;
            let properties = properties(&context)?;
            let pooled = config.stream_ordered && properties.memory_pools;
            let pool = pooled.then(|| MemoryPool::new(context.clone(), id.index())).transpose()?;
            Ok((properties, context, pool, limit))
        };
        let opened: Answer<_> = open();
        let (properties, context, pool, default_limit) =
            opened.map_err(|e| device_error(&id, &e))?;
        let tf32 = config.tf32;
        let (modules, peers, lost) = Default::default();
        let opened = Opened { id, properties, tf32, modules, peers, context, lost };
        Ok(CudaDevice { opened: Arc::new(opened), pool, config: config.clone(), default_limit })
    }

    /// What it says of itself.
    pub fn properties(&self) -> &Properties {
        &self.opened.properties
    }

    /// Its memory now: free bytes, and all.
    ///
    /// # Errors
    /// The device is lost.
    pub fn memory_info(&self) -> Result<(u64, u64)> {
        self.context().memory().map_err(|e| self.error(&e))
    }

    /// What was made and destroyed on it so far.
    pub fn counts(&self) -> Counts {
        self.context().counts()
    }

    /// Whether it can use `other`'s memory by its addresses, and copies from there where it lies.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn can_reach(&self, other: &CudaDevice) -> Result<bool> {
        can_reach(self.id().index(), other.id().index()).map_err(|e| self.error(&e))
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.opened.context
    }

    fn error(&self, error: &DriverError) -> Error {
        device_error(&self.opened.id, error)
    }

    fn stream(&self, priority: i32, notify: Notify) -> Result<Box<dyn Stream>> {
        let raw = RawStream::new(self.context().clone(), priority);
        let stream = raw.and_then(|raw| {
            let native = Native::new(raw, self.opened.clone());
            CudaStream::new(native, self.config.completion, notify)
        });
        Ok(Box::new(stream.map_err(|e| self.error(&e))?))
    }
}

impl Opened {
    /// A kernel by its module's key and its name. `image` is asked for once per key.
    pub(super) fn function(
        &self,
        key: &str,
        name: &CStr,
        image: impl FnOnce() -> anyhow::Result<CString>,
    ) -> anyhow::Result<Arc<Function>> {
        let at = (key.to_owned(), name.to_string_lossy().into_owned());
        let mut known = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = known.functions.get(&at) {
            return Ok(function.clone());
        }
        let module = match known.modules.get(key) {
            Some(module) => module.clone(),
            None => {
                let module = Arc::new(Module::load(self.context.clone(), &image()?)?);
                known.modules.insert(key.to_owned(), module.clone());
                module
            }
        };
        let function = Arc::new(module.function(name)?);
        known.functions.insert(at, function.clone());
        Ok(function)
    }
}

impl Opened {
    /// The context of device `index`, whose memory this device may use from now on.
    pub(super) fn peer(&self, index: u32) -> Answer<Arc<Context>> {
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
        &self.opened.id
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
        match CudaMemory::new(self.context(), self.pool.as_ref(), bytes) {
            Ok(memory) => Ok(Box::new(memory)),
            Err(error) if error.is_out_of_memory() => {
                let (free, limit) = self.context().memory().unwrap_or_default();
                Err(Error::OutOfMemory {
                    device: self.opened.id.clone(),
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

    fn create_urgent_stream(&self, notify: Notify) -> Result<Box<dyn Stream>> {
        self.stream(self.properties().priorities.1, notify)
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        let event = CudaEvent::new(self.opened.clone());
        Ok(Arc::new(event.map_err(|e| self.error(&e))?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice")
            .field("id", &self.opened.id)
            .field("properties", self.properties())
            .finish_non_exhaustive()
    }
}
