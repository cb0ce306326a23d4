//! Devices that reach one another's memory, and copies between them.

use std::ffi::c_int;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdevice, CUresult};

use super::context::address;
use super::{Answer, Context, RawStream, check};

fn device(index: u32) -> Answer<CUdevice> {
    let mut device = 0;
    // SAFETY: the driver is initialised, and writes a number.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index as c_int) })?;
    Ok(device)
}

/// Whether device `to` can use device `from`'s memory by its addresses.
pub(in crate::cuda) fn can_reach(to: u32, from: u32) -> Answer<bool> {
    let (to, from, mut can) = (device(to)?, device(from)?, 0);
    // SAFETY: the driver writes a number.
    let code = unsafe { sys::cuDeviceCanAccessPeer(&raw mut can, to, from) };
    check("cuDeviceCanAccessPeer", code).map(|()| can != 0)
}

impl Context {
    /// Device `index`'s context, whose memory this one may use from now on.
    pub(in crate::cuda) fn peer(&self, index: u32) -> Answer<Arc<Context>> {
        let peer = Context::retain(index, self.ends().clone())?;
        self.enter()?;
        // SAFETY: both contexts are held.
        match unsafe { sys::cuCtxEnablePeerAccess(peer.raw(), 0) } {
            // Somebody else in this process has done it, or the hardware serves no more peers: then
            // copies between the two go by way of the host, and the driver sees to that.
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
            | CUresult::CUDA_ERROR_TOO_MANY_PEERS => {}
            code => check("cuCtxEnablePeerAccess", code)?,
        }
        Ok(peer)
    }
}

impl RawStream {
    /// Copies from another device's memory to this one's, in the stream's order.
    ///
    /// # Safety
    /// `to` lies in the memory of the stream's device, `from` in that of `peer`'s. Both are valid for
    /// `bytes` bytes until the copy has run, and the copy is ordered against all other uses of them.
    pub(in crate::cuda) unsafe fn copy_from_peer(
        &self,
        to: *mut u8,
        from: *const u8,
        peer: &Context,
        bytes: usize,
    ) -> Answer<()> {
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
