//! Sidecars: safetensors files next to a trace that hold the elements of tensors.
//!
//! Format: <https://huggingface.co/docs/safetensors/index#format>. Loading a trace reads only the
//! header of a file; writing a tensor's elements reads only the bytes of that tensor.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use millstream_types::nearest::nearest;
use millstream_types::safetensors_dtype::{in_safetensors, of_safetensors};
use millstream_types::{DType, Dims, TensorSpec};
use safetensors::tensor::{Metadata, TensorView};

/// The maximum size of a header in bytes: larger than any real one, and little memory.
const MAX_HEADER: u64 = 16 << 20;

/// One tensor of a safetensors file.
#[derive(Clone, Debug)]
pub struct Sidecar {
    path: Arc<PathBuf>,
    start: u64,
    dtype: DType,
    shape: Dims,
}

/// An error in the path or the key of a sidecar.
pub(crate) struct SidecarError {
    pub(crate) message: String,
    pub(crate) nearest: Option<String>,
    /// Whether the key is invalid; else the file is.
    pub(crate) of_key: bool,
}

fn of_file(message: impl Into<String>) -> SidecarError {
    SidecarError { message: message.into(), nearest: None, of_key: false }
}

impl Sidecar {
    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the dtype of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the lengths of the dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the tensor with the dtype that its reader expects: pairs of f64, which the format
    /// has for c128, become c128.
    pub(crate) fn expected_as(mut self, dtype: DType) -> Sidecar {
        if dtype == DType::C128 && self.dtype == DType::F64 && self.shape.last() == Some(&2) {
            self.dtype = DType::C128;
            self.shape.pop();
        }
        self
    }

    /// Opens the file at the tensor's first byte.
    pub(crate) fn open(&self) -> io::Result<impl Read> {
        let mut file = File::open(&*self.path)?;
        file.seek(SeekFrom::Start(self.start))?;
        Ok(io::BufReader::with_capacity(1 << 16, file))
    }
}

/// The sidecars of one trace. The header of each file is read once.
#[derive(Default)]
pub(crate) struct Sidecars {
    folder: Option<PathBuf>,
    open: HashMap<String, (Arc<PathBuf>, u64, Metadata)>,
}

impl Sidecars {
    /// Returns the sidecars of a trace in this folder. Without a folder every sidecar is refused.
    pub(crate) fn new(folder: Option<&Path>) -> Sidecars {
        Sidecars { folder: folder.map(Path::to_owned), open: HashMap::new() }
    }

    /// Returns the tensor `key` of the file `name`, which lies below the trace's folder.
    pub(crate) fn find(&mut self, name: &str, key: &str) -> Result<Sidecar, SidecarError> {
        if !self.open.contains_key(name) {
            let path = self.locate(name)?;
            let (data, header) = read_header(&path)?;
            self.open.insert(name.to_owned(), (Arc::new(path), data, header));
        }
        let (path, data, header) = &self.open[name];
        let Some(info) = header.info(key) else {
            let keys = header.offset_keys();
            return Err(SidecarError {
                message: format!("'{name}' holds no tensor '{key}'"),
                nearest: nearest(key, keys.iter().map(String::as_str)),
                of_key: true,
            });
        };
        let dtype = of_safetensors(info.dtype).ok_or_else(|| SidecarError {
            message: format!("'{key}' in '{name}' is {:?}, which is not supported", info.dtype),
            nearest: None,
            of_key: true,
        })?;
        let spec =
            TensorSpec::contiguous(dtype, &info.shape).map_err(|e| of_file(e.to_string()))?;
        let (from, to) = info.data_offsets;
        if to.checked_sub(from) != Some(spec.span_bytes()) {
            return Err(of_file(format!(
                "'{name}' is broken: '{key}' is {} and takes {} bytes, \
                 but has those from {from} to {to}",
                spec.brief(),
                spec.span_bytes(),
            )));
        }
        let shape = Dims::from_slice(&info.shape);
        Ok(Sidecar { path: path.clone(), start: data + from as u64, dtype, shape })
    }

    /// Returns the canonical path of a file, which must lie below the folder.
    fn locate(&self, name: &str) -> Result<PathBuf, SidecarError> {
        let outside = || of_file(format!("'{name}' leaves the trace's folder"));
        let Some(folder) = &self.folder else {
            return Err(of_file("a trace without a folder cannot name files"));
        };
        let plain = |c: Component<'_>| matches!(c, Component::Normal(_) | Component::CurDir);
        if name.is_empty() || name.contains('\0') || !Path::new(name).components().all(plain) {
            return Err(outside());
        }
        let cannot = |e: io::Error| of_file(format!("cannot read '{name}': {}", reason(&e)));
        let folder = folder.canonicalize().map_err(cannot)?;
        let path = folder.join(name).canonicalize().map_err(cannot)?;
        if !path.starts_with(&folder) {
            return Err(outside());
        }
        if !path.metadata().map_err(cannot)?.is_file() {
            return Err(of_file(format!("'{name}' is not a file")));
        }
        Ok(path)
    }
}

/// Returns the offset of the data in the file, and the checked header.
fn read_header(path: &Path) -> Result<(u64, Metadata), SidecarError> {
    let broken = |why: &str| of_file(format!("not a safetensors file: {why}"));
    let cannot = |e: io::Error| broken(&reason(&e));
    let mut file = File::open(path).map_err(cannot)?;
    let total = file.metadata().map_err(cannot)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length)
        .map_err(|_| broken("shorter than the 8 bytes of the header's length"))?;
    let length = u64::from_le_bytes(length);
    if length > MAX_HEADER {
        return Err(broken(&format!("a header of {length} bytes; at most {MAX_HEADER} are read")));
    }
    let data = 8 + length;
    if data > total {
        return Err(broken(&format!("a header of {length} bytes in a file of {total}")));
    }
    let mut header = vec![0; length as usize];
    file.read_exact(&mut header).map_err(cannot)?;
    let header: Metadata = serde_json::from_slice(&header).map_err(|e| broken(&e.to_string()))?;
    let end = header.data_len() as u64;
    if end > total - data {
        return Err(broken(&format!("its data ends at byte {end} of {}", total - data)));
    }
    Ok((data, header))
}

/// Formats an error of the system without its number, which differs between systems.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns a safetensors file of these tensors, each with its dtype, shape and elements in
/// row-major order. The format has no c128: such a tensor is one of f64 with a last dimension of
/// 2.
///
/// # Errors
/// The elements are not as many as the shape says.
pub fn bytes(tensors: &BTreeMap<String, (DType, &[usize], &[u8])>) -> Result<Vec<u8>, String> {
    let mut views = BTreeMap::new();
    for (name, (dtype, shape, elements)) in tensors {
        let mut shape = shape.to_vec();
        shape.extend((*dtype == DType::C128).then_some(2));
        let view = TensorView::new(in_safetensors(*dtype), shape, elements);
        views.insert(name.clone(), view.map_err(|e| format!("'{name}': {e}"))?);
    }
    safetensors::serialize(views, None).map_err(|e| e.to_string())
}
