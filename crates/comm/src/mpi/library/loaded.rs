//! A loaded library: the search for it, and its calls.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use libloading::Library as Dynamic;

use crate::buffer::{Buffer, Spare};
use crate::error::CommError;

use super::functions::{Abi, Functions, Handle, MPICH, STANDARD, open_mpi};
use super::{Comm, Library, Operation, Started};

/// The variable that names the library.
const VARIABLE: &str = "MILLSTREAM_MPI";

const OPEN_MPI: &[&str] = &["libmpi.so.40", "libmpi.so.80"];
const MPICH_NAMES: &[&str] = &["libmpich.so.12", "libmpi.so.12"];
const STANDARD_NAMES: &[&str] = &["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];

/// Returns the names to look for, those of the launcher's own library first.
fn names() -> Vec<String> {
    if let Ok(named) = env::var(VARIABLE) {
        return vec![named];
    }
    let is_open_mpi = env::var_os("OMPI_COMM_WORLD_SIZE").is_some();
    let (first, then) = match is_open_mpi {
        true => (OPEN_MPI, [MPICH_NAMES, STANDARD_NAMES]),
        false if env::var_os("PMI_SIZE").is_some() => (MPICH_NAMES, [STANDARD_NAMES, OPEN_MPI]),
        false => (OPEN_MPI, [MPICH_NAMES, STANDARD_NAMES]),
    };
    let all = first.iter().chain(then.into_iter().flatten());
    all.chain(&["libmpi.so"]).map(|name| (*name).to_owned()).collect()
}

/// The most bytes of an operation: counts are `int`, and sums of those of several ranks as well.
const MOST_BYTES: usize = 1 << 30;

/// The variable that lowers [`MOST_BYTES`], for libraries with smaller limits, and for tests.
const MOST_BYTES_VARIABLE: &str = "MILLSTREAM_MPI_MOST_BYTES";

fn most_bytes() -> usize {
    let given = env::var(MOST_BYTES_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.filter(|bytes| (1..MOST_BYTES).contains(bytes)).unwrap_or(MOST_BYTES)
}

/// Loads and initialises a library. The calling thread makes all calls from now on.
///
/// # Errors
/// There is none, or it is unusable; the error names what was looked for.
pub(in super::super) fn load() -> Result<Box<dyn Library>, CommError> {
    let (names, mut reasons) = (names(), Vec::new());
    for name in &names {
        // SAFETY: loading a library of MPI runs no code but its own constructors.
        match unsafe { Dynamic::new(name) } {
            // It has threads and handlers of its own, and is never unloaded.
            Ok(library) => return initialise(name, &ManuallyDrop::new(library)),
            Err(error) => {
                let source = std::error::Error::source(&error);
                reasons.push(source.map_or_else(|| error.to_string(), ToString::to_string));
            }
        }
    }
    let reason = reasons.first().map_or_else(String::new, |reason| format!(" ({reason})"));
    Err(CommError::new(format!(
        "no MPI library: looked for {}{reason}; install Open MPI or MPICH, or name the library of \
         your launcher by {VARIABLE}",
        names.join(", ")
    )))
}

fn initialise(name: &str, library: &Dynamic) -> Result<Box<dyn Library>, CommError> {
    let unusable = |e: libloading::Error| CommError::new(format!("{name} is no MPI library: {e}"));
    if let Ok(abi) = open_mpi(library) {
        // SAFETY: Open MPI's handles are addresses.
        let functions = unsafe { Functions::of(library) }.map_err(unusable)?;
        return Ok(Box::new(Loaded::new(functions, abi)?));
    }
    if is_standard(library) {
        // SAFETY: the standard's handles have the size of addresses.
        let functions = unsafe { Functions::of(library) }.map_err(unusable)?;
        return Ok(Box::new(Loaded::new(functions, STANDARD)?));
    }
    // SAFETY: all other libraries have MPICH's interface.
    let functions = unsafe { Functions::of(library) }.map_err(unusable)?;
    Ok(Box::new(Loaded::new(functions, MPICH)?))
}

/// Returns whether a library has the standard's interface. One of another interface may have the
/// function, and then says so.
fn is_standard(library: &Dynamic) -> bool {
    type AbiVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
    // SAFETY: the type is that of the standard.
    let Ok(version) = (unsafe { library.get::<AbiVersion>(b"MPI_Abi_get_version\0") }) else {
        return false;
    };
    let (mut major, mut minor) = (-1, -1);
    // SAFETY: the function writes two numbers, and may be called before the initialisation.
    let code = unsafe { version(&raw mut major, &raw mut minor) };
    code == 0 && major > 0
}

pub(super) struct Loaded<H: Handle> {
    pub(super) functions: Rc<Functions<H>>,
    pub(super) abi: Abi<H>,
    pub(super) comms: Vec<H>,
    pub(super) rank: usize,
    pub(super) ranks: usize,
    version: String,
    most_bytes: usize,
    spare: Spare,
}

/// Returns the error of a code, if it is one.
pub(super) fn check<H: Handle>(
    functions: &Functions<H>,
    what: &str,
    code: c_int,
) -> Result<(), CommError> {
    if code == 0 {
        return Ok(());
    }
    // The longest text that any library writes.
    let (mut text, mut length) = ([0 as c_char; 8192], 0);
    // SAFETY: the text has the length that the standard asks for, and more.
    let _ = unsafe { (functions.error_string)(code, text.as_mut_ptr(), &raw mut length) };
    Err(CommError::new(format!("{what}: {}", text_of(&text))))
}

fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| c.cast_unsigned()).collect();
    CStr::from_bytes_until_nul(&bytes)
        .map_or_else(|_| String::new(), |t| t.to_string_lossy().trim().to_owned())
}

pub(super) fn count(bytes: usize) -> Result<c_int, CommError> {
    c_int::try_from(bytes).map_err(|_| {
        CommError::new(format!("{bytes} bytes in one collective: MPI takes less than 2 GiB"))
    })
}

/// Returns counts and displacements as the interface has them.
fn layout(counts: &[usize]) -> Result<(Vec<c_int>, Vec<c_int>), CommError> {
    let mut end = 0;
    let mut places = Vec::with_capacity(counts.len());
    for bytes in counts {
        places.push(count(end)?);
        end += bytes;
    }
    Ok((counts.iter().map(|bytes| count(*bytes)).collect::<Result<_, _>>()?, places))
}

impl<H: Handle> Loaded<H> {
    fn new(functions: Functions<H>, abi: Abi<H>) -> Result<Loaded<H>, CommError> {
        let (mut provided, mut rank, mut ranks, mut own) = (0, 0, 0, abi.world);
        let none = std::ptr::null_mut();
        // SAFETY: the standard allows no arguments; the level is written.
        let code = unsafe {
            let argv = std::ptr::null_mut();
            (functions.init_thread)(none, argv, abi.thread_multiple, &raw mut provided)
        };
        // One thread makes all calls, so that every level that the library provides suffices.
        check(&functions, "MPI_Init_thread", code)?;
        // SAFETY: handles of the library's own constants; results are written to live variables.
        let codes = unsafe {
            [
                ("MPI_Comm_dup", (functions.comm_dup)(abi.world, &raw mut own)),
                ("MPI_Comm_rank", (functions.comm_rank)(abi.world, &raw mut rank)),
                ("MPI_Comm_size", (functions.comm_size)(abi.world, &raw mut ranks)),
            ]
        };
        codes.into_iter().try_for_each(|(what, code)| check(&functions, what, code))?;
        let (mut text, mut length) = ([0 as c_char; 8192], 0);
        // SAFETY: the communicator is this process's own; the text has the standard's length.
        unsafe {
            check(
                &functions,
                "MPI_Comm_set_errhandler",
                (functions.set_errhandler)(own, abi.errors_return),
            )?;
            let _ = (functions.version)(text.as_mut_ptr(), &raw mut length);
        }
        let version = text_of(&text).lines().next().unwrap_or_default().to_owned();
        Ok(Loaded {
            functions: Rc::new(functions),
            abi,
            comms: vec![own],
            rank: rank.unsigned_abs() as usize,
            ranks: ranks.unsigned_abs() as usize,
            version,
            most_bytes: most_bytes(),
            spare: Spare::default(),
        })
    }
}

/// A started operation with everything that the library may access until it has completed.
struct Pending<H: Handle> {
    functions: Rc<Functions<H>>,
    status_ignore: *mut c_void,
    request: H,
    held: ManuallyDrop<Held>,
    is_done: bool,
}

struct Held {
    _given: Buffer,
    received: Buffer,
    _counts: [Vec<c_int>; 4],
}

impl<H: Handle> Started for Pending<H> {
    fn test(&mut self) -> Result<Option<Buffer>, CommError> {
        let mut flag = 0;
        // SAFETY: the request is that of a started operation, which this owns. Once it has
        // completed, it is not tested again.
        let code = unsafe {
            (self.functions.test)(&raw mut self.request, &raw mut flag, self.status_ignore)
        };
        check(&self.functions, "MPI_Test", code)?;
        if flag == 0 {
            return Ok(None);
        }
        self.is_done = true;
        Ok(Some(self.held.received.clone()))
    }
}

impl<H: Handle> Drop for Pending<H> {
    fn drop(&mut self) {
        if self.is_done {
            // SAFETY: dropped once, and the library uses the buffers no more.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}

impl<H: Handle> Library for Loaded<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn spare(&self) -> &Spare {
        &self.spare
    }

    fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    fn create(&mut self, ranks: &[usize]) -> Result<Comm, CommError> {
        let (functions, world) = (&self.functions, self.abi.world);
        let members: Vec<c_int> =
            ranks.iter().map(|rank| count(*rank)).collect::<Result<_, _>>()?;
        let (mut all, mut group, mut created) = (world, world, world);
        // SAFETY: handles of this library; the ranks exist; results are written to live variables.
        unsafe {
            let code = (functions.comm_group)(world, &raw mut all);
            check(functions, "MPI_Comm_group", code)?;
            let size = count(members.len())?;
            let code = (functions.group_incl)(all, size, members.as_ptr(), &raw mut group);
            check(functions, "MPI_Group_incl", code)?;
            let code = (functions.comm_create_group)(world, group, 0, &raw mut created);
            check(functions, "MPI_Comm_create_group", code)?;
            let code = (functions.set_errhandler)(created, self.abi.errors_return);
            check(functions, "MPI_Comm_set_errhandler", code)?;
        }
        self.comms.push(created);
        Ok(Comm(self.comms.len() - 1))
    }

    fn start(
        &mut self,
        comm: Comm,
        operation: &Operation,
        given: Buffer,
        mut received: Buffer,
    ) -> Result<Box<dyn Started>, CommError> {
        let Loaded { functions: f, abi, comms, .. } = self;
        let (comm, byte) = (comms[comm.0], abi.byte);
        let sent_bytes = count(given.bytes().len())?;
        let received_bytes = count(received.bytes().len())?;
        let mut counts: [Vec<c_int>; 4] = Default::default();
        match operation {
            Operation::AllGather { counts: all } | Operation::Gather { counts: all, .. } => {
                (counts[2], counts[3]) = layout(all)?;
            }
            Operation::Scatter { counts: all, .. } => (counts[0], counts[1]) = layout(all)?,
            Operation::AllToAll { sent, received } => {
                (counts[0], counts[1]) = layout(sent)?;
                (counts[2], counts[3]) = layout(received)?;
            }
            Operation::Send { .. } | Operation::Receive { .. } | Operation::Broadcast { .. } => {}
        }
        let from: *const c_void = given.bytes().as_ptr().cast();
        let to = received.bytes_mut().as_mut_ptr().cast();
        let [sent, sent_at, taken, taken_at] = counts.each_ref().map(|counts| counts.as_ptr());
        let mut request = comm;
        let r = &raw mut request;
        // SAFETY: handles of this library. The buffers and counts, which lie on the heap, are held
        // until the operation has completed. The counts of each operation sum up to at most the
        // bytes of its buffers, which `exchange` computes from them.
        let (what, code) = unsafe {
            match *operation {
                Operation::Send { to } => {
                    let to = count(to)?;
                    ("MPI_Isend", (f.isend)(from, sent_bytes, byte, to, 0, comm, r))
                }
                Operation::Receive { from } => {
                    let from = from.map_or(Ok(abi.any_source), count)?;
                    ("MPI_Irecv", (f.irecv)(to, received_bytes, byte, from, 0, comm, r))
                }
                Operation::Broadcast { root } => {
                    let root = count(root)?;
                    // The root has nothing to receive, and the library only reads what it gives.
                    let (data, bytes) = match received_bytes {
                        0 => (from.cast_mut(), sent_bytes),
                        _ => (to, received_bytes),
                    };
                    ("MPI_Ibcast", (f.ibcast)(data, bytes, byte, root, comm, r))
                }
                Operation::AllGather { .. } => (
                    "MPI_Iallgatherv",
                    (f.iallgatherv)(from, sent_bytes, byte, to, taken, taken_at, byte, comm, r),
                ),
                Operation::AllToAll { .. } => (
                    "MPI_Ialltoallv",
                    (f.ialltoallv)(from, sent, sent_at, byte, to, taken, taken_at, byte, comm, r),
                ),
                Operation::Gather { root, .. } => {
                    let root = count(root)?;
                    (
                        "MPI_Igatherv",
                        (f.igatherv)(
                            from, sent_bytes, byte, to, taken, taken_at, byte, root, comm, r,
                        ),
                    )
                }
                Operation::Scatter { root, .. } => {
                    let root = count(root)?;
                    (
                        "MPI_Iscatterv",
                        (f.iscatterv)(
                            from,
                            sent,
                            sent_at,
                            byte,
                            to,
                            received_bytes,
                            byte,
                            root,
                            comm,
                            r,
                        ),
                    )
                }
            }
        };
        check(f, what, code)?;
        let held = ManuallyDrop::new(Held { _given: given, received, _counts: counts });
        Ok(Box::new(Pending {
            functions: f.clone(),
            status_ignore: abi.status_ignore,
            request,
            held,
            is_done: false,
        }))
    }

    fn finalize(&mut self) {
        // SAFETY: all operations have completed, and no call follows. Nobody is left for an error.
        let _ = unsafe { (self.functions.finalize)() };
    }
}
