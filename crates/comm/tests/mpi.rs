//! The MPI backend under `mpirun`: this program starts itself as 2 and as 4 processes, under each
//! MPI that it finds, and every process makes the same calls over MPI and in one process. The bits
//! have to be equal, also if each operation is cut into pieces. A process that is killed is an
//! error at the others.
//!
//! Without a launcher the test is skipped with a message; `MILLSTREAM_REQUIRE_MPI=1` makes that a
//! failure.

mod suite;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream_backoff::wait_until;
use millstream_comm::{
    Call, Channel, Collective, Communicator, LocalGroup, MpiCommunicator, ProcessGroup, ReduceOp,
    Slot,
};
use millstream_types::{DType, Origin};

use suite::{LONG, bytes, calls, values};

/// Set for the processes that the launcher starts.
const CHILD: &str = "MILLSTREAM_MPI_TEST";
/// Names the folder in which processes that outlive another one leave a file.
const FOLDER: &str = "MILLSTREAM_MPI_TEST_FOLDER";

/// A launcher, its library, the arguments that let it start more processes than there are cores, as
/// any user, and those with which it leaves the other processes alone if one is killed.
type Launcher = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const LAUNCHERS: &[Launcher] = &[
    (
        "mpirun.openmpi",
        "libmpi.so.40",
        &["--allow-run-as-root", "--oversubscribe"],
        &["--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0"],
    ),
    ("mpirun.mpich", "libmpich.so.12", &[], &["-disable-auto-cleanup"]),
];

fn main() {
    match env::var(CHILD).as_deref() {
        Ok("is killed") => return survivor(),
        Ok("aborts") => return aborted(),
        Ok(_) => return child(),
        Err(_) => {}
    }
    let mut found = 0;
    for (launcher, library, arguments, survives) in LAUNCHERS {
        if Command::new(launcher).arg("--version").output().is_err() {
            println!("skipped: there is no {launcher}");
            continue;
        }
        found += 1;
        for ranks in ["2", "4"] {
            let mut command = Command::new(launcher);
            command.args(*arguments).args(["-n", ranks]).arg(env::current_exe().unwrap());
            let output = command.env(CHILD, "1").env("MILLSTREAM_MPI", library).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{launcher} -n {ranks}: {text}{errors}");
            assert_eq!(text.matches("equal").count().to_string(), ranks, "{text}{errors}");
            println!("{launcher} -n {ranks}: {}", text.lines().next().unwrap_or_default());
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{library}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let run = |kind: &str, ranks: &str, more: &[&str], most: &str| {
            let mut command = Command::new(launcher);
            command.env(FOLDER, &folder);
            command.args(*arguments).args(more).args(["-n", ranks]);
            // The launchers end the other processes if one is killed. They watch the shells.
            if kind == "is killed" {
                command.args(["sh", "-c", "trap '' USR1; \"$0\"; true"]);
            }
            command.arg(env::current_exe().unwrap());
            command.env(CHILD, kind).env("MILLSTREAM_MPI", library);
            let output = command.env("MILLSTREAM_MPI_MOST_BYTES", most).output().unwrap();
            let both = [output.stdout, output.stderr].concat();
            (output.status, String::from_utf8_lossy(&both).into_owned())
        };
        let (status, text) = run("calls", "3", &[], "1000");
        assert!(status.success() && text.matches("equal").count() == 3, "in pieces: {text}");
        let (status, text) = run("aborts", "3", &[], "");
        assert!(status.success() && text.matches("knows it").count() == 3, "{text}");
        let (_, text) = run("is killed", "3", survives, "");
        // MPICH's launcher passes nothing on once a process was killed, and does not wait.
        let begun = Instant::now();
        wait_until(|| {
            assert!(begun.elapsed() < LONG, "{launcher}: {text}");
            fs::read_dir(&folder).unwrap().count() == 2
        });
        fs::remove_dir_all(&folder).unwrap();
    }
    let is_required = env::var_os("MILLSTREAM_REQUIRE_MPI").is_some();
    assert!(found > 0 || !is_required, "no launcher of MPI was found");
}

fn child() {
    let mpi = MpiCommunicator::connect().unwrap();
    let (rank, ranks) = (mpi.rank(), mpi.ranks());
    let local = LocalGroup::communicators(ranks);
    let own: Vec<Call> = calls(rank, ranks);
    let requests: Vec<_> = own.iter().map(|call| mpi.start(call.clone())).collect();
    let mut expected = Vec::new();
    for (other, communicator) in local.iter().enumerate() {
        let started = calls(other, ranks).into_iter().map(|call| communicator.start(call));
        let started: Vec<_> = started.collect();
        if other == rank {
            expected = started;
        }
    }
    let (sender, outcomes) = mpsc::channel();
    for (k, request) in requests.into_iter().enumerate() {
        let sender = sender.clone();
        request.then(move |outcome| drop(sender.send((k, outcome))));
    }
    for _ in &own {
        let (k, outcome) = outcomes.recv_timeout(LONG).expect("an outcome");
        let wanted = bytes(&expected[k].test().expect("all ranks have called")).unwrap();
        let call = &own[k];
        let bytes = bytes(&outcome).unwrap_or_else(|e| panic!("rank {rank}: {call}: {e}"));
        assert!(bytes == wanted, "rank {rank}: {call}: other bytes");
    }
    failures(&*mpi);
    mpi.finish();
    println!("equal: rank {rank} of {ranks}, {} calls, {}", own.len(), mpi.version());
}

/// Rank 1 ends the program; the others learn of it without a call.
fn aborted() {
    let mpi = MpiCommunicator::connect().unwrap();
    let rank = mpi.rank();
    if rank == 1 {
        mpi.abort("of its own accord");
    }
    let begun = Instant::now();
    wait_until(|| {
        assert!(begun.elapsed() < LONG, "rank {rank}: no error");
        mpi.error().is_some()
    });
    let error = mpi.error().unwrap().to_string();
    assert_eq!(error, "rank 1 has ended the program: of its own accord");
    mpi.finish();
    println!("rank {rank} knows it");
}

/// Rank 1 is killed amid the calls; the others get an error that names it, now and later.
fn survivor() {
    let mpi = MpiCommunicator::connect().unwrap();
    let rank = mpi.rank();
    let sum = |number| {
        let x = values(DType::F32, 100_000, rank);
        let started = mpi.start(Call {
            slot: Slot { channel: Channel::Collectives(ProcessGroup::all(mpi.ranks())), number },
            collective: Collective::AllReduce(ReduceOp::Sum),
            op: "allreduce_",
            expected: vec![x.elements()],
            given: vec![x],
            origin: Origin::Unknown,
        });
        let (sender, outcome) = mpsc::channel();
        started.then(move |outcome| drop(sender.send(outcome)));
        outcome.recv_timeout(LONG).expect("an outcome")
    };
    sum(0).expect("no rank is lost");
    if rank == 1 {
        let own = std::process::id().to_string();
        Command::new("kill").args(["-9", &own]).status().unwrap();
        unreachable!("it is killed");
    }
    for number in 1..3 {
        let error = sum(number).expect_err("rank 1 is lost").to_string();
        assert!(error.contains("rank 1 is lost: its process"), "rank {rank}: {error}");
    }
    assert!(mpi.error().is_some());
    mpi.finish();
    let folder = PathBuf::from(env::var_os(FOLDER).unwrap());
    fs::write(folder.join(rank.to_string()), "").unwrap();
    // A survivor that ended before the other has looked would be the lost rank to it.
    let begun = Instant::now();
    wait_until(|| {
        !fs::read_dir(&folder).is_ok_and(|seen| seen.count() < 2) || begun.elapsed() >= LONG
    });
    // Without the end of MPI's use, in which the killed process cannot take part.
    std::process::exit(1);
}

/// Mistakes are found before data moves, on every rank.
fn failures(mpi: &dyn Communicator) {
    let (rank, ranks) = (mpi.rank(), mpi.ranks());
    let group = ProcessGroup::new(&(0..ranks).collect::<Vec<_>>(), 7, ranks).unwrap();
    let all = Channel::Collectives(group);
    let slot = |number| Slot { channel: all.clone(), number };
    let x = values(DType::F32, 3, rank);
    let call = |number, collective| Call {
        slot: slot(number),
        collective,
        op: "allreduce_",
        given: vec![x.clone()],
        expected: vec![x.elements()],
        origin: Origin::Unknown,
    };
    let fails = |started: millstream_comm::Request, text: &str| {
        let (sender, outcome) = mpsc::channel();
        started.then(move |outcome| drop(sender.send(outcome)));
        let begun = Instant::now();
        let outcome = loop {
            // A machine reports this once nothing can run on it.
            mpi.report_stall(mpi.deliveries().expect("ranks that wait are found"));
            if let Ok(outcome) = outcome.recv_timeout(Duration::from_millis(5)) {
                break outcome;
            }
            assert!(begun.elapsed() < LONG, "rank {rank}: no outcome with {text}");
        };
        let error = outcome.expect_err(text).to_string();
        assert!(error.contains(text), "rank {rank}: {error}");
    };
    let reduction = if rank == 0 { ReduceOp::Max } else { ReduceOp::Sum };
    fails(mpi.start(call(0, Collective::AllReduce(reduction))), "rank 0 calls allreduce_");
    if rank == 1 {
        mpi.skip(slot(1), "allreduce_", "no operand");
    } else {
        let sum = mpi.start(call(1, Collective::AllReduce(ReduceOp::Sum)));
        fails(sum, "rank 1 has skipped allreduce_: no operand");
    }
    // Each rank waits for the next one.
    let from = (rank + 1) % ranks;
    let receive = Call {
        slot: Slot { channel: Channel::Receive { from, tag: 9 }, number: 0 },
        collective: Collective::Receive,
        op: "recv_",
        given: Vec::new(),
        expected: vec![x.elements()],
        origin: Origin::Unknown,
    };
    fails(mpi.start(receive), "the ranks wait for one another: rank 0 for rank 1 in recv_(f32[3])");
    // All but rank 0 end before the last call.
    if rank == 0 {
        let sum = mpi.start(call(2, Collective::AllReduce(ReduceOp::Sum)));
        fails(sum, "has ended before allreduce_");
    }
}
