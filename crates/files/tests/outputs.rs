//! Outputs are checked against each other and against inputs, whatever the spelling.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use millstream_files::{OutputError, Outputs};

fn pair(a: &Path, b: &Path) -> Result<Outputs, OutputError> {
    Outputs::new([("--one", Some(a)), ("--two", Some(b)), ("--three", None)])
}

/// Every spelling of one file, existing or not, is found to be the same file.
#[test]
fn spellings_of_one_file_are_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir(at("below")).unwrap();
    fs::write(at("file"), "old").unwrap();
    symlink("file", at("link")).unwrap();
    symlink("../below", at("below/up")).unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    symlink("absent", at("dangling")).unwrap();
    let of_file = ["file", "./file", "below/../file", "below/up/../file", "link", "hard"];
    let of_absent = ["absent", "below/up/../absent", "dangling", "new/../absent"];
    for spellings in [&of_file[..], &of_absent] {
        for one in spellings {
            for two in spellings {
                let error = pair(&at(one), &at(two)).unwrap_err().to_string();
                assert!(
                    error.contains("--one and --two cannot both write to"),
                    "{one} {two}: {error}"
                );
            }
            let outputs = Outputs::new([("--one", Some(&*at(one)))]).unwrap();
            for read in spellings {
                let error = outputs.refuse([at("below"), at(read)]).unwrap_err().to_string();
                assert!(error.contains("would overwrite a file that is read"), "{error}");
                assert!(error.starts_with("--one "), "{error}");
            }
        }
    }
    for (one, two) in of_file.iter().zip(of_absent) {
        pair(&at(one), &at(two)).unwrap().refuse([at("other")]).unwrap();
    }
}

#[test]
fn outputs_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::write(at("file"), "old").unwrap();
    symlink("loop", at("loop")).unwrap();
    let refused = |path: &Path| {
        let outputs = Outputs::new([("--one", Some(path))]);
        outputs.and_then(|outputs| outputs.prepare()).unwrap_err().to_string()
    };
    assert!(refused(folder.path()).contains("it is a folder; name a file in it"));
    assert!(refused(&at("new/")).contains("it is a folder; name a file in it"));
    assert!(refused(&at("file/below")).contains("a part of its path is a file"));
    assert!(refused(&at("loop")).contains("too many symbolic links"));
    // Nobody can make a file there, not even root.
    assert!(refused(Path::new("/proc/report.json")).contains("cannot write /proc/report.json"));
    let own = std::env::current_exe().unwrap();
    assert!(refused(&own).contains("would overwrite this program"));
    let error = pair(&at("out"), &at("out/page")).unwrap_err().to_string();
    assert!(error.contains("writes") && error.contains("as a file"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing was made");
}

/// Devices may be shared; standard output may not.
#[test]
fn devices_are_written_as_they_are() {
    let null = Path::new("/dev/null");
    let outputs = pair(null, null).unwrap();
    outputs.refuse([null]).unwrap();
    outputs.prepare().unwrap();
    outputs.write("--one", || Ok("text"));
    outputs.finish().unwrap();
    assert!(!fs::metadata(null).unwrap().is_file());
    for standard in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let error = pair(Path::new("-"), Path::new(standard)).unwrap_err().to_string();
        assert!(error.contains("cannot both write to standard output"), "{error}");
    }
}

/// A failure stops no other output, and leaves its file as it was.
#[test]
fn failures_are_kept_until_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    let read = |path: &str| fs::read_to_string(at(path)).unwrap();
    fs::write(at("one"), "old").unwrap();
    let outputs = pair(&at("one"), &at("new/folder/two")).unwrap();
    outputs.prepare().unwrap();
    outputs.write("--one", || Err::<String, _>("a part is missing".to_owned()));
    outputs.write("--two", || Ok("two"));
    outputs.write("--three", || -> Result<&str, String> { panic!("the option is not given") });
    let error = outputs.finish().unwrap_err().to_string();
    assert!(error.starts_with("--one ") && error.ends_with("a part is missing"), "{error}");
    assert_eq!((read("one"), read("new/folder/two")), ("old".to_owned(), "two".to_owned()));
    outputs.finish().unwrap();

    // Of files that belong together none is written if one fails.
    fs::remove_file(at("new/folder/two")).unwrap();
    fs::create_dir(at("new/folder/two")).unwrap();
    outputs.write_together(&[("--one", b"changed"), ("--two", b"changed")]);
    assert!(outputs.finish().unwrap_err().to_string().contains("it is a folder"));
    assert_eq!(read("one"), "old");
    fs::remove_dir(at("new/folder/two")).unwrap();
    outputs.write_together(&[("--one", b"first"), ("--two", b"second")]);
    outputs.finish().unwrap();
    assert_eq!((read("one"), read("new/folder/two")), ("first".to_owned(), "second".to_owned()));
}

#[test]
fn folders_hold_files_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let lists = folder.path().join("lists");
    let outputs = Outputs::default().folder("--emit", &lists, ["rank0.txt", "rank1.txt"]).unwrap();
    let error = outputs.refuse([lists.join("rank1.txt")]).unwrap_err().to_string();
    assert!(error.contains("rank1.txt would overwrite a file that is read"), "{error}");
    outputs.prepare().unwrap();
    outputs.write_in("--emit", "rank1.txt", "list");
    outputs.write_in("--other", "rank0.txt", "list");
    outputs.finish().unwrap();
    assert_eq!(fs::read_to_string(lists.join("rank1.txt")).unwrap(), "list");
    assert_eq!(fs::read_dir(&lists).unwrap().count(), 1);
}
