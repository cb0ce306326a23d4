//! Sidecar files, compressed traces, and directories of traces.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_trace::{Entry, ErrorKind, LoadOptions, Program, Result, expand, load};

const TRACE: &str = r#"{"millstream": 1, "program": []}"#;

/// Writes a safetensors file with this header and this data.
fn sidecar(path: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(path, bytes).unwrap();
}

const HEADER: &str = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;

fn with_tensor(folder: &Path, tensor: &str) -> Result<Program> {
    let path = folder.join("t.json");
    let text =
        format!("{{\"millstream\": 1, \"program\": [], \"tensors\": {{\n\"x\": {tensor}}}}}");
    fs::write(&path, text).unwrap();
    load(&path, &LoadOptions::default())
}

#[track_caller]
fn refused(folder: &Path, tensor: &str, parts: &[&str]) {
    let error = with_tensor(folder, tensor).expect_err(tensor);
    assert_eq!((error.kind(), error.span().map(|p| p.line)), (ErrorKind::Input, Some(2)));
    for part in parts {
        assert!(error.to_string().contains(part), "{error} lacks {part:?}");
    }
}

#[test]
fn a_sidecar_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    let data = [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
    sidecar(&folder.path().join("below/w.st"), HEADER, &data);
    let text = r#"{"file": "below/w.st", "key": "w"}"#;
    let program = with_tensor(folder.path(), text).unwrap();
    let bytes = program.tensors[0].materialize().unwrap();
    let expected = [1.5f32.to_ne_bytes(), (-2.0f32).to_ne_bytes()].concat();
    assert_eq!(bytes, expected);
    fs::write(folder.path().join("below/w.st"), b"short").unwrap();
    let error = program.tensors[0].materialize().unwrap_err();
    assert!(error.to_string().contains("cannot read the data"), "{error}");
}

#[test]
fn sidecars_that_are_missing_or_broken() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let data = [0; 8];
    sidecar(&at.join("w.st"), HEADER, &data);
    refused(at, r#"{"file": "v.st", "key": "w"}"#, &["'v.st'", "no such file"]);
    refused(at, r#"{"file": "w.st", "key": "W"}"#, &["no tensor 'W'", "did you mean 'w'"]);
    refused(at, r#"{"file": "w.st"}"#, &["'file' needs 'key'"]);
    refused(at, r#"{"key": "w"}"#, &["'key' needs 'file'"]);
    refused(at, r#"{"file": "w.st", "key": "w", "dtype": "f64"}"#, &["f64", "it is f32"]);
    refused(at, r#"{"file": "w.st", "key": "w", "shape": [3]}"#, &["[3]", "it is [2]"]);
    refused(at, r#"{"file": "w.st", "key": "w", "fill": 0}"#, &["got two"]);
    fs::create_dir(at.join("folder")).unwrap();
    refused(at, r#"{"file": "folder", "key": "w"}"#, &["is not a file"]);

    let whole = fs::read(at.join("w.st")).unwrap();
    for length in [0, 3, 8, 20, whole.len() - 1] {
        fs::write(at.join("cut.st"), &whole[..length]).unwrap();
        refused(at, r#"{"file": "cut.st", "key": "w"}"#, &["not a safetensors file"]);
    }
    fs::write(at.join("huge.st"), u64::MAX.to_le_bytes()).unwrap();
    refused(at, r#"{"file": "huge.st", "key": "w"}"#, &["a header of 18446744073709551615 bytes"]);
    for header in [
        "garbage",
        r#"{"w":{"dtype":"F32","shape":[2]}}"#,
        r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}"#,
        r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}"#,
        r#"{"w":{"dtype":"F32","shape":[1152921504606846976,16],"data_offsets":[0,0]}}"#,
        r#"{"w":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}}"#,
    ] {
        sidecar(&at.join("bad.st"), header, &data);
        refused(at, r#"{"file": "bad.st", "key": "w"}"#, &[""]);
    }
    sidecar(
        &at.join("bool.st"),
        r#"{"w":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}"#,
        &[2],
    );
    let program = with_tensor(at, r#"{"file": "bool.st", "key": "w"}"#).unwrap();
    let error = program.tensors[0].materialize().unwrap_err();
    assert!(error.to_string().contains("a bool of value 2"), "{error}");
}

#[test]
fn sidecars_outside_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let secret = folder.path().join("w.st");
    sidecar(&secret, HEADER, &[0; 8]);
    let absolute = format!(r#"{{"file": {:?}, "key": "w"}}"#, secret.display().to_string());
    refused(&inside, &absolute, &["leaves the trace's folder"]);
    refused(&inside, r#"{"file": "../w.st", "key": "w"}"#, &["leaves the trace's folder"]);
    refused(&inside, r#"{"file": "../inside/t.json", "key": "w"}"#, &["leaves"]);
    refused(&inside, r#"{"file": "", "key": "w"}"#, &["leaves"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, inside.join("link.st")).unwrap();
        refused(&inside, r#"{"file": "link.st", "key": "w"}"#, &["leaves the trace's folder"]);
        std::os::unix::fs::symlink(folder.path(), inside.join("up")).unwrap();
        refused(&inside, r#"{"file": "up/w.st", "key": "w"}"#, &["leaves the trace's folder"]);
    }
    let bytes = br#"{"millstream": 1, "program": [], "tensors": {"x": {"file": "a", "key": "w"}}}"#;
    let options = LoadOptions::default();
    let error = millstream_trace::load_bytes("t", bytes, None, &options).unwrap_err();
    assert!(error.to_string().contains("without a folder"), "{error}");
}

/// The files that a command may read for a trace are found without loading it, also of one with
/// mistakes.
#[test]
fn files_beside_a_trace_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let found = |name: &str| {
        let found = millstream_trace::input_files(at(name)).into_iter();
        found
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect::<Vec<_>>()
    };
    let text = r#"{"millstream": 1, "tensors": {"x": {"key": "w", "file": "x.st"}}, "unknown": [
        {"y": [{"file": "sub/y.st"}]}], "file": 3, "notes": "file", "outputs": {"y": {"file": "z.st""#;
    fs::write(at("broken.json"), text).unwrap();
    fs::write(at("packed.json.gz"), gzip(text.as_bytes())).unwrap();
    assert_eq!(found("broken.json"), ["broken.json", "x.st", "y.st", "z.st"]);
    assert_eq!(found("packed.json.gz"), ["packed.json.gz", "x.st", "y.st", "z.st"]);
    fs::write(at("et.json"), r#"{"schema": "1.1.1", "nodes": [{"file": "n"}]}"#).unwrap();
    let notes = ["tensors.safetensors", "bindings.json", "consts.json", "meta.json"];
    assert_eq!(found("et.json")[1..5], notes);
    fs::write(at("list.txt"), "millstream-list 1").unwrap();
    assert_eq!(found("list.txt"), ["list.txt"]);
    assert_eq!(found("none.json"), ["none.json"]);
    assert_eq!(millstream_trace::input_files("-")[2], Path::new("bindings.json"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_traces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("named-as-it-likes");
    fs::write(&path, gzip(TRACE.as_bytes())).unwrap();
    load(&path, &LoadOptions::default()).unwrap();

    let small = LoadOptions { max_bytes: 1 << 20, ..LoadOptions::default() };
    fs::write(&path, gzip(&vec![b' '; 1 << 24])).unwrap();
    let error = load(&path, &small).unwrap_err();
    assert!(error.to_string().contains("expands to more than 1048576 bytes"), "{error}");
    let whole = gzip(TRACE.as_bytes());
    fs::write(&path, &whole[..whole.len() - 6]).unwrap();
    let error = load(&path, &small).unwrap_err();
    assert!(error.to_string().contains("broken gzip data"), "{error}");
    fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    let error = load(&path, &small).unwrap_err();
    assert!(error.to_string().contains("it has more than 1048576 bytes"), "{error}");
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let error = load(folder.path(), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("it is a directory"), "{error}");
    let error = load(folder.path().join("t.json"), &LoadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("there is no such file"), "{error}");
    assert!(expand([folder.path().join("none")]).is_err());
}

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
fn a_directory_stands_for_its_traces() {
    let (_keep, at) = tree(&[
        ("b.json", TRACE),
        ("a/one.json", TRACE),
        ("a/other.json", r#"{"nodes": []}"#),
        ("a/list.json", "[]"),
        ("a/text.json", "hello"),
        ("a/cut.json", r#"{"millstream": 1, "program": ["#),
        ("a/notes.txt", TRACE),
    ]);
    fs::write(at.join("c.json.gz"), gzip(TRACE.as_bytes())).unwrap();
    let mut skipped = Vec::new();
    let mut traces = Vec::new();
    for entry in expand([&at]).unwrap() {
        match entry {
            Entry::Trace(path) => traces.push(path.strip_prefix(&at).unwrap().to_owned()),
            Entry::Skipped { path, reason } => {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                skipped.push((name, reason));
            }
            Entry::Ranks { .. } => panic!("there are no ranks"),
        }
    }
    let expected = ["a/cut.json", "a/one.json", "b.json", "c.json.gz"];
    assert_eq!(traces, expected.map(PathBuf::from));
    let why = |name: &str| &skipped.iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!(skipped.len(), 3);
    assert!(why("other.json").contains("neither 'millstream'"));
    assert!(why("list.json").contains("not an object"));
    assert!(why("text.json").contains("not valid JSON"));
    assert_eq!(expand([at.join("a/notes.txt")]).unwrap(), [Entry::Trace(at.join("a/notes.txt"))]);
}

#[test]
fn ranks_are_one_program() {
    let (_keep, at) = tree(&[
        ("files/rank0.json", TRACE),
        ("files/rank1.json", TRACE),
        ("files/rank10.json", TRACE),
        ("folders/rank0/t.json", TRACE),
        ("folders/rank1/t.json", TRACE),
        ("twice/rank0/t.json", TRACE),
        ("twice/rank0/u.json", TRACE),
    ]);
    let entries = expand([at.join("folders"), at.join("files"), at.join("twice")]).unwrap();
    let ranks = ["rank0/t.json", "rank1/t.json"].map(|n| at.join("folders").join(n)).to_vec();
    assert_eq!(entries[0], Entry::Ranks { folder: at.join("folders"), ranks });
    let Entry::Skipped { reason, .. } = &entries[1] else { panic!("{entries:?}") };
    assert_eq!(reason, "there is rank10 and no rank2");
    let Entry::Skipped { reason, .. } = &entries[2] else { panic!("{entries:?}") };
    assert_eq!(reason, "rank0 has 2 traces; expected one");
    fs::remove_file(at.join("files/rank10.json")).unwrap();
    let entries = expand([at.join("files")]).unwrap();
    let ranks = ["rank0.json", "rank1.json"].map(|n| at.join("files").join(n)).to_vec();
    assert_eq!(entries, [Entry::Ranks { folder: at.join("files"), ranks }]);
}
