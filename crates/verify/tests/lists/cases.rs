//! One file per case under `cases/`: a list, a line `---`, and the expected result.
//!
//! `#! callbacks` in a list allows host callbacks. `#! verify` runs the verifier, which decides by
//! bytes, instead of the gate; the result then lists repairs and waits, too. `MILLSTREAM_BLESS=1`
//! rewrites the expected results.

use std::fmt::Write;
use std::path::Path;

use millstream_instructions::text::{Named, parse_list};
use millstream_instructions::{Body, InstructionList};
use millstream_verify::{CheckOptions, check_with, repair, verify, violations_with};

/// Returns the checker's result in the format of the files.
fn verdict(list: &InstructionList, options: CheckOptions) -> String {
    let found = violations_with(list, options);
    assert_eq!(
        check_with(list.clone(), options).map(|_| ()),
        match found.as_slice() {
            [] => Ok(()),
            _ => Err(found.clone()),
        }
    );
    if found.is_empty() {
        return "accepted\n".to_owned();
    }
    let mut said = String::from("refused\n");
    for violation in found {
        let _ = writeln!(said, "- {violation}");
    }
    said
}

/// Returns the verifier's result in the format of the files.
fn proof(list: &InstructionList) -> String {
    let verdict = verify(list);
    let mut said = match verdict.proven() {
        true => format!("proven, {} pairs\n", verdict.pairs),
        false => String::from("refused\n"),
    };
    for violation in &verdict.violations {
        let _ = writeln!(said, "- {violation}");
        if let Some(missing) = violation.missing() {
            let _ = writeln!(said, "  {}", missing.path());
        }
        if let Some(repair) = repair(list, violation) {
            let wait = Named(&repair.wait, &list.ops);
            let _ = writeln!(said, "  repair before [{}]: {wait}", repair.before);
        }
    }
    for wait in &verdict.waits {
        let needed = if wait.needed { "needed" } else { "not needed" };
        let _ = writeln!(said, "wait [{}] is {needed}: {}", wait.index, wait.reason);
    }
    said
}

fn is_annotation(body: &Body) -> bool {
    matches!(body, Body::SoftSyncStream { .. })
}

/// Annotations do not change the verdict.
fn ignores_annotations(list: &InstructionList, options: CheckOptions) -> bool {
    let mut bare = list.clone();
    bare.instructions.retain(|i| !is_annotation(&i.body));
    violations_with(&bare, options).len() == violations_with(list, options).len()
}

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("MILLSTREAM_BLESS").is_some_and(|v| v == "1");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 30, "the cases are gone");
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let Some((source, expected)) = text.split_once("\n---\n") else {
            panic!("{name}: a line '---' parts the list from what is said of it");
        };
        let list = parse_list(source).unwrap_or_else(|e| panic!("{name}:{e}"));
        let options = CheckOptions { callbacks: source.contains("\n#! callbacks\n") };
        let said = match source.contains("\n#! verify\n") {
            true => proof(&list),
            false => verdict(&list, options),
        };
        if !ignores_annotations(&list, options) {
            wrong.push(format!("{name}: annotations change the verdict"));
        }
        if bless {
            std::fs::write(&path, format!("{source}\n---\n{said}")).unwrap();
        } else if said != expected {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nMILLSTREAM_BLESS=1 rewrites", wrong.join("\n"));
}
