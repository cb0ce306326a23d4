//! Files of tensors in the safetensors format.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;

use millstream_runtime::scope::origin;
use millstream_types::safetensors_dtype::{in_safetensors, of_safetensors};
use millstream_types::{DType, Error, Result, TensorSpec};

use crate::handle::Tensor;

use super::Place;

fn failed(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Invalid { what: "file", message: format!("{}: {why}", path.display()) }
}

impl Tensor {
    /// Returns the tensors of a safetensors file, by name.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let path = std::env::temp_dir().join(format!("millstream-load-{}", std::process::id()));
    /// Tensor::save([("x", &x)], &path)?;
    /// assert_eq!(Tensor::load(&path, &machine)?["x"].shape(), [2, 2]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be read or is not in the format, a tensor has a dtype that Millstream lacks,
    /// or the memory is used up.
    #[track_caller]
    pub fn load(path: impl AsRef<Path>, place: impl Place) -> Result<BTreeMap<String, Tensor>> {
        let origin = origin::caller();
        let path = path.as_ref();
        let read = || {
            let content = std::fs::read(path).map_err(|e| failed(path, e))?;
            let file = SafeTensors::deserialize(&content).map_err(|e| failed(path, e))?;
            let stream = place.stream()?;
            let mut tensors = BTreeMap::new();
            for (name, view) in file.tensors() {
                let dtype = of_safetensors(view.dtype()).ok_or_else(|| {
                    failed(path, format!("{name} has the dtype {:?}", view.dtype()))
                })?;
                let spec = TensorSpec::contiguous(dtype, view.shape())?;
                let bytes = view.data().to_vec();
                let made = place.machine().upload_at(&stream, spec, bytes, origin.clone())?;
                tensors.insert(name, made);
            }
            Ok(tensors)
        };
        read().map_err(|e: Error| e.at(&origin))
    }

    /// Writes tensors to a safetensors file. Blocks until they are computed. The format has no
    /// c128: such a tensor is written as its parts, f64 with a last dimension of 2. An old file is
    /// replaced whole, or unchanged after an error.
    ///
    /// ```
    /// # use millstream_vm::*;
    /// # let machine = Machine::new(MachineConfig::default())?;
    /// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
    /// let path = std::env::temp_dir().join(format!("millstream-save-{}", std::process::id()));
    /// Tensor::save([("x", &x)], &path)?;
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), millstream_types::Error>(())
    /// ```
    ///
    /// # Errors
    /// The failure that poisoned a tensor, or the file cannot be written.
    #[track_caller]
    pub fn save<'a>(
        tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
        path: impl AsRef<Path>,
    ) -> Result<()> {
        let origin = origin::caller();
        let path = path.as_ref();
        let write = || {
            let read: Vec<(&str, &Tensor, Vec<u8>)> = tensors
                .into_iter()
                .map(|(name, tensor)| Ok((name, tensor, tensor.read_at(None, origin.clone())?)))
                .collect::<Result<_>>()?;
            let views = read.iter().map(|(name, tensor, bytes)| {
                let dtype = in_safetensors(tensor.dtype());
                let mut shape = tensor.shape().to_vec();
                shape.extend((tensor.dtype() == DType::C128).then_some(2));
                let view = TensorView::new(dtype, shape, bytes);
                view.map(|view| (*name, view)).map_err(|e| failed(path, e))
            });
            let views = views.collect::<Result<Vec<_>>>()?;
            let content = safetensors::serialize(views, None).map_err(|e| failed(path, e))?;
            millstream_files::write(path, content).map_err(|e| failed(path, e))
        };
        write().map_err(|e: Error| e.at(&origin))
    }
}
