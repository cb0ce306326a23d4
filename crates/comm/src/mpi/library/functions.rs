//! The functions of an MPI library, as its binary interface has them.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library as Dynamic;

/// A handle: an address or an `int`.
pub(super) trait Handle: Copy + 'static {}

impl Handle for usize {}
impl Handle for c_int {}

/// The constants of a binary interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Abi<H> {
    pub(super) world: H,
    pub(super) byte: H,
    pub(super) errors_return: H,
    pub(super) any_source: c_int,
    pub(super) status_ignore: *mut c_void,
    pub(super) thread_multiple: c_int,
}

/// A communicator of `int` handles: MPICH's.
pub(super) const MPICH: Abi<c_int> = Abi {
    world: 0x4400_0000,
    byte: 0x4c00_010d,
    errors_return: 0x5400_0001,
    any_source: -2,
    status_ignore: std::ptr::without_provenance_mut(1),
    thread_multiple: 3,
};

/// The interface of the standard, since MPI 5.
pub(super) const STANDARD: Abi<usize> = Abi {
    world: 0x101,
    byte: 0x247,
    errors_return: 0x143,
    any_source: -1,
    status_ignore: std::ptr::null_mut(),
    thread_multiple: 4096,
};

/// Returns Open MPI's interface, whose constants are addresses of objects in the library.
pub(super) fn open_mpi(library: &Dynamic) -> Result<Abi<usize>, libloading::Error> {
    let object = |name: &[u8]| {
        // SAFETY: the symbol is that of an object, of which only the address is taken.
        let symbol = unsafe { library.get::<*const c_void>(name) }?;
        Ok::<usize, libloading::Error>((*symbol).addr())
    };
    Ok(Abi {
        world: object(b"ompi_mpi_comm_world\0")?,
        byte: object(b"ompi_mpi_byte\0")?,
        errors_return: object(b"ompi_mpi_errors_return\0")?,
        any_source: -1,
        status_ignore: std::ptr::null_mut(),
        thread_multiple: 3,
    })
}

type Bytes = *const c_void;
type BytesMut = *mut c_void;
type Counts = *const c_int;
type Status = *mut c_void;

macro_rules! functions {
    ($($field:ident = $symbol:literal ( $($argument:ty),* );)*) => {
        /// The functions, with the types of MPI's C interface. Each returns an error code.
        pub(super) struct Functions<H: Handle> {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<H: Handle> Functions<H> {
            /// Looks all functions up.
            ///
            /// # Safety
            /// The library is one of MPI, whose handles are of the type `H`. It is never unloaded.
            pub(super) unsafe fn of(library: &Dynamic) -> Result<Functions<H>, libloading::Error> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: the caller's promise; the types are those of the standard.
                        *unsafe { library.get(concat!($symbol, "\0").as_bytes()) }?
                    },)*
                })
            }
        }
    };
}

functions! {
    init_thread = "MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    finalize = "MPI_Finalize"();
    comm_rank = "MPI_Comm_rank"(H, *mut c_int);
    comm_size = "MPI_Comm_size"(H, *mut c_int);
    comm_dup = "MPI_Comm_dup"(H, *mut H);
    comm_group = "MPI_Comm_group"(H, *mut H);
    group_incl = "MPI_Group_incl"(H, c_int, Counts, *mut H);
    comm_create_group = "MPI_Comm_create_group"(H, H, c_int, *mut H);
    set_errhandler = "MPI_Comm_set_errhandler"(H, H);
    error_string = "MPI_Error_string"(c_int, *mut c_char, *mut c_int);
    version = "MPI_Get_library_version"(*mut c_char, *mut c_int);
    test = "MPI_Test"(*mut H, *mut c_int, Status);
    isend = "MPI_Isend"(Bytes, c_int, H, c_int, c_int, H, *mut H);
    irecv = "MPI_Irecv"(BytesMut, c_int, H, c_int, c_int, H, *mut H);
    ibcast = "MPI_Ibcast"(BytesMut, c_int, H, c_int, H, *mut H);
    iallgatherv = "MPI_Iallgatherv"(Bytes, c_int, H, BytesMut, Counts, Counts, H, H, *mut H);
    ialltoallv = "MPI_Ialltoallv"(
        Bytes, Counts, Counts, H, BytesMut, Counts, Counts, H, H, *mut H
    );
    igatherv = "MPI_Igatherv"(
        Bytes, c_int, H, BytesMut, Counts, Counts, H, c_int, H, *mut H
    );
    iscatterv = "MPI_Iscatterv"(
        Bytes, Counts, Counts, H, BytesMut, c_int, H, c_int, H, *mut H
    );
}
