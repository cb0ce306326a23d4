//! docs/ranks.md shows what its commands print. Those of a launcher are compared with each one that
//! is found.

use std::process::Command;

use crate::{launchers, root};

#[test]
fn the_page_quotes_what_the_commands_print() {
    let (root, launchers) = (root(), launchers());
    let page = std::fs::read_to_string(root.join("docs/ranks.md")).unwrap();
    let (mut alone, mut launched) = (0, 0);
    for block in page.split("```\n$ ").skip(1) {
        let (block, _) = block.split_once("\n```").unwrap();
        let (command, quoted) = block.split_once('\n').unwrap_or((block, ""));
        let arguments: Vec<&str> = command.split(' ').collect();
        let printed = |command: &mut Command| {
            let output = command.current_dir(&root).env("COLUMNS", "100").output().unwrap();
            let all = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&all).into_owned();
            assert!(output.status.success(), "{command:?}: {text}");
            text
        };
        let compare = |printed: String| {
            // A line with an ellipsis stands for lines that the page leaves out.
            for part in quoted.split('…').map(str::trim) {
                assert!(printed.contains(part), "{command}\nthe page:\n{part}\nnot in:\n{printed}");
            }
            assert!(!quoted.is_empty(), "{command} prints:\n{printed}");
        };
        let binary = env!("CARGO_BIN_EXE_millstream");
        if arguments[0] == "millstream" {
            compare(printed(Command::new(binary).args(&arguments[1..])));
            alone += 1;
            continue;
        }
        assert_eq!((arguments[0], arguments[3]), ("mpirun", "millstream"));
        launched += 1;
        for (launcher, more) in &launchers {
            let mut command = Command::new(launcher);
            command.args(*more).args(&arguments[1..3]).arg(binary).args(&arguments[4..]);
            compare(printed(&mut command));
        }
    }
    assert_eq!((alone, launched), (5, 1));
}
