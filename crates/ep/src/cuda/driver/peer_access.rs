//! Peer access: devices that access one another's memory, and copies between them.

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice, CUresult};

use super::context::address;
use super::{Context, DriverResult, RawStream, check};

fn device(index: u32) -> DriverResult<CUdevice> {
    let mut device = 0;
    // SAFETY: the driver is initialised, and writes a number.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index as c_int) })?;
    Ok(device)
}

/// Returns whether device `to` can access the memory of device `from` through its addresses.
pub(in crate::cuda) fn can_access_peer(to: u32, from: u32) -> DriverResult<bool> {
    let (to, from, mut can) = (device(to)?, device(from)?, 0);
    // SAFETY: the driver writes a number.
    let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, to, from) };
    check("cuDeviceCanAccessPeer", code).map(|()| can != 0)
}

impl Context {
    /// Returns the context of device `index` after enabling this context's access to its memory.
    pub(in crate::cuda) fn peer(&self, index: u32) -> DriverResult<Arc<Context>> {
        let peer = Context::retain(index, self.teardown().clone())?;
        self.enter()?;
        // SAFETY: both contexts are held.
        match unsafe { sys::cuCtxEnablePeerAccess(peer.raw(), 0) } {
            // Other code of this process has enabled it, or the hardware supports no more peers.
            // In the second case the driver copies between the two through the host.
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
            | CUresult::CUDA_ERROR_TOO_MANY_PEERS => {}
            code => check("cuCtxEnablePeerAccess", code)?,
        }
        Ok(peer)
    }
}

impl RawStream {
    /// Copies from another device's memory to this device's, in the stream's order.
    ///
    /// # Safety
    /// `to` is in the memory of the stream's device, `from` in the memory of `peer`'s device. Both
    /// are valid for `bytes` bytes until the copy has run, and the copy is ordered against all
    /// other uses of them.
    pub(in crate::cuda) unsafe fn copy_from_peer(
        &self,
        to: *mut u8,
        from: *const u8,
        peer: &Context,
        bytes: usize,
    ) -> DriverResult<()> {
        let context = self.context();
        context.enter()?;
        let (to, from) = (address(to), address(from));
        // SAFETY: the caller's promise; both contexts are held.
        let code = unsafe {
            sys::cuMemcpyPeerAsync(to, context.raw(), from, peer.raw(), bytes, self.raw())
        };
        check("cuMemcpyPeerAsync", code)
    }
}
