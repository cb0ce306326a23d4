//! docs/ranks.md shows what its commands print. Those of a launcher are compared with each one that
//! is found.

use std::path::Path;
use std::process::Command;

/// The launchers, each with the arguments that let it start more processes than there are cores, as
/// any user.
const LAUNCHERS: &[(&str, &[&str])] =
    &[("mpirun.openmpi", &["--allow-run-as-root", "--oversubscribe"]), ("mpirun.mpich", &[])];

fn is_there(launcher: &str) -> bool {
    Command::new(launcher).arg("--version").output().is_ok()
}

#[test]
fn the_page_quotes_what_the_commands_print() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
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
        for (launcher, more) in LAUNCHERS {
            if !is_there(launcher) {
                println!("skipped: there is no {launcher}");
                continue;
            }
            let mut command = Command::new(launcher);
            command.args(*more).args(&arguments[1..3]).arg(binary).args(&arguments[4..]);
            compare(printed(&mut command));
        }
    }
    let found = LAUNCHERS.iter().filter(|(name, _)| is_there(name)).count();
    assert!(found > 0 || std::env::var_os("MILLSTREAM_REQUIRE_MPI").is_none(), "no launcher");
    assert_eq!((alone, launched), (5, 1));
}
