//! Rule 8: a list that the builder did not make runs only after the checker has accepted all of it.

use millstream::instructions::text::parse_list;
use millstream::*;
use millstream_testing::machine::*;
use millstream_verify::check;

/// Records y = relu(x) on one stream and x += y on another. Returns the list as text.
fn recorded(m: &Machine, x: &Tensor) -> String {
    m.start_recording(&[("x", x)]).unwrap();
    let y = call(m, "relu", &[x], &cpu(m, 0));
    m.call("add_", &[x, &y]).on(&cpu(m, 1)).unwrap();
    let list = m.finish_recording().unwrap();
    instructions::text::print_list(&list)
}

#[test]
fn a_list_read_from_text_runs_on_another_machine() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let other = threaded();
    let there = upload(&cpu(&other, 0), &other, &[1.0, -2.0]);
    let list = check(parse_list(&text).unwrap()).unwrap();
    let compiled = other.compile(&list).unwrap();
    compiled.launch().input("x", &there).run().unwrap();
    assert_eq!(read(&there), [2.0, -2.0]);
    compiled.launch().input("x", &there).run().unwrap();
    assert_eq!(read(&there), [4.0, -2.0]);
}

#[test]
fn a_list_without_its_wait_is_refused() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let cut: Vec<&str> = text.lines().filter(|l| !l.starts_with("StreamWaitEvent")).collect();
    assert!(cut.len() < text.lines().count());
    let found = check(parse_list(&cut.join("\n")).unwrap()).unwrap_err();
    assert!(!found.is_empty());
    let words = found.iter().map(ToString::to_string).collect::<String>();
    assert!(words.contains("add_") && words.contains("relu"), "{words}");
}

#[test]
fn a_list_is_checked_against_ops_and_tensors() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let other = threaded();
    let s = cpu(&other, 0);
    let good = upload(&s, &other, &[1.0, -2.0]);
    let store = |text: &str, given: Option<&Tensor>| -> String {
        let list = check(parse_list(text).unwrap()).unwrap();
        let compiled = match other.compile(&list) {
            Ok(compiled) => compiled,
            Err(refused) => return refused.to_string(),
        };
        let launch = compiled.launch();
        let launch = given.into_iter().fold(launch, |launch, x| launch.input("x", x));
        launch.run().unwrap_err().to_string()
    };
    let short = upload(&s, &other, &[1.0]);
    let view = slice(&other, &good, 0, 1, &s);
    for (case, error) in [
        ("no tensor", store(&text, None)),
        ("another shape", store(&text, Some(&short))),
        ("a view", store(&text, Some(&view))),
        ("another machine's", store(&text, Some(&x))),
        ("an unknown op", store(&text.replace(" relu ", " rely "), Some(&good))),
        (
            "an op with other accesses than in the list",
            store(&text.replace(" relu ", " add_ "), Some(&good)),
        ),
    ] {
        assert!(!error.contains("internal"), "{case}: {error}");
    }
    assert_eq!(read(&good), [1.0, -2.0], "nothing has run");
}

/// The checker accepts the machine's own lists, also after they are printed and parsed.
#[test]
fn its_own_lists_survive_printing_and_parsing() {
    let m = threaded();
    let x = upload(&cpu(&m, 0), &m, &[1.0, -2.0]);
    let text = recorded(&m, &x);
    let list = parse_list(&text).unwrap();
    checked(&list);
    assert_eq!(instructions::text::print_list(&list), text);
}
