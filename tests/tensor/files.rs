//! Tensors in files, and as arrays of another crate.

use millstream::*;
use millstream_testing::machine::*;

use super::floats;

#[test]
fn tensors_go_to_a_file_and_back() {
    let m = inline();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.safetensors");
    let x = floats(&m, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let turned = x.t().unwrap();
    let mut given = vec![("turned".to_owned(), turned)];
    for dtype in DType::ALL {
        given.push((dtype.name().to_owned(), x.cast(dtype).unwrap()));
    }
    given.push(("none".to_owned(), Tensor::zeros((0, 2), DType::I64, &m).unwrap()));
    Tensor::save(given.iter().map(|(name, tensor)| (name.as_str(), tensor)), &path).unwrap();
    let loaded = Tensor::load(&path, (&m, &SIM)).unwrap();
    assert_eq!(loaded.len(), given.len());
    for (name, tensor) in &given {
        let loaded = &loaded[name];
        // The format has no complex numbers of 128 bits: they are pairs there.
        let tensor = &match tensor.dtype() {
            DType::C128 => tensor.view_as_real().unwrap(),
            _ => tensor.clone(),
        };
        assert_eq!((loaded.dtype(), loaded.shape()), (tensor.dtype(), tensor.shape()), "{name}");
        assert_eq!(loaded.read().unwrap(), tensor.read().unwrap(), "{name}");
        assert_eq!(loaded.device(), &SIM);
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let m = inline();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.safetensors");
    for content in [None, Some(&b"\xff\xff\xff\xff\xff\xff\xff\xff{}"[..])] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let error = Tensor::load(&path, &m).unwrap_err().to_string();
        assert!(error.contains("damaged.safetensors") && error.contains("files.rs"), "{error}");
    }
    let nowhere = path.join("x");
    let error = Tensor::save([("x", &floats(&m, &[1], &[1.0]))], nowhere).unwrap_err().to_string();
    assert!(error.contains("damaged.safetensors") && error.contains("files.rs"), "{error}");
}

#[test]
fn arrays_of_any_layout_become_tensors_and_back() {
    let m = inline();
    let array = ndarray::arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let x = Tensor::from_ndarray(&array.t(), &m).unwrap();
    assert_eq!(x.shape(), [3, 2]);
    assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(x.t().unwrap().to_ndarray::<f32>().unwrap(), array.into_dyn());
    assert!(x.to_ndarray::<i64>().unwrap_err().to_string().contains("files.rs"));
}
