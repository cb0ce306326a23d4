//! Profiles of the repository's programs: the list is that of the run, and every instruction that
//! takes a point has times.

use millstream_runner::{RunOptions, prepare};

use super::files;

#[test]
fn the_lists_of_profiles_are_those_of_the_runs() {
    let mut compared = 0;
    for path in files::traces(["examples/traces", "examples/pytorch"]) {
        let program = files::read(&path);
        for streams in [1, 3] {
            let options = RunOptions::default().in_turn(streams).profile(true);
            let report = prepare(program.clone(), &options).unwrap().run().unwrap();
            let times = report.times.as_ref().expect("the options ask for times");
            let name = path.display();
            let timed: usize = times.streams.iter().map(|s| s.instructions.len()).sum();
            let points = times.list.instructions.iter().filter(|i| i.body.at().is_some()).count();
            let records = times.list.instructions.iter();
            let records = records.filter(|i| i.body.second_point().is_some()).count();
            assert_eq!(timed, points + records, "{name} on {streams} streams");
            // A list that is to be emitted is the same with and without times.
            let list = |options: RunOptions| {
                let report = prepare(program.clone(), &options.emit(true)).unwrap().run().unwrap();
                report.certificate().expect("the options ask for a list")
            };
            let with = list(options.clone());
            assert_eq!(with, list(options.profile(false)), "{name} on {streams} streams");
            compared += 1;
        }
    }
    assert!(compared >= 20, "only {compared} programs");
}
