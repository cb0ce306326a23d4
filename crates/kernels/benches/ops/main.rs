//! The time of ops, beside copies of the same bytes and PyTorch:
//! `cargo bench -p millstream-kernels --bench ops -- [NAME…] [--pytorch PYTHON]`.
//!
//! Every case runs in short alternating rounds: by the kernel as the machine calls it, by its
//! prepared form, as a copy of as many bytes by the C library, in PyTorch, and by another build of
//! this program. On a busy machine the lowest sample is the one that other programs disturbed
//! least; a table shows it with the median.
#![allow(missing_docs, reason = "a benchmark has no readers of its items")]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod serve;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use cases::{Bound, Case};
use serve::Kernels;

const HELP: &str = "usage: ops [NAME...] [--pytorch PYTHON] [--against BINARY] [--rounds N]
NAME: measure the cases whose names contain it (default: all)
--pytorch PYTHON: also in PyTorch, by this Python
--against BINARY: also by another build of this program
--rounds N: alternating rounds (default 7)";

/// The samples of one way in one round.
const SAMPLES: usize = 9;

struct Options {
    names: Vec<String>,
    python: Option<String>,
    against: Option<String>,
    rounds: usize,
}

impl Options {
    fn read() -> Result<Options, String> {
        let mut all = std::env::args().skip(1).filter(|a| a != "--bench");
        let mut options = Options { names: Vec::new(), python: None, against: None, rounds: 7 };
        while let Some(argument) = all.next() {
            let mut value = || all.next().ok_or_else(|| format!("{argument}: a value is missing"));
            match argument.as_str() {
                "--pytorch" => options.python = Some(value()?),
                "--against" => options.against = Some(value()?),
                "--rounds" => {
                    let rounds = value()?;
                    options.rounds = rounds.parse().map_err(|_| format!("{rounds}: no number"))?;
                }
                option if option.starts_with('-') => return Err(format!("{option}: unknown")),
                _ => options.names.push(argument),
            }
        }
        Ok(options)
    }
}

/// Another process that answers each request with one line.
struct Peer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &mut Command) -> Peer {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a peer");
        let requests = child.stdin.take().expect("its input");
        let answers = BufReader::new(child.stdout.take().expect("its output"));
        Peer { child, requests, answers }
    }

    fn ask(&mut self, request: &str) -> Vec<f64> {
        writeln!(self.requests, "{request}").expect("a running peer");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("a running peer");
        let number = |text: &str| match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{request}: {line}"),
        };
        line.split_whitespace().map(number).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is measured of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Run,
    Prepared,
    Copy,
    Torch,
    Against,
    AgainstPrepared,
}

const WAYS: [Way; 6] =
    [Way::Run, Way::Prepared, Way::Copy, Way::Torch, Way::Against, Way::AgainstPrepared];

/// The lowest and the median of some seconds.
#[derive(Clone, Copy)]
struct Times {
    lowest: f64,
    median: f64,
}

fn times(mut all: Vec<f64>) -> Option<Times> {
    all.sort_by(f64::total_cmp);
    Some(Times { lowest: *all.first()?, median: all[all.len() / 2] })
}

fn shown(times: Option<Times>) -> String {
    let Some(Times { lowest, median }) = times else { return "-".to_owned() };
    let (factor, unit) = match lowest {
        s if s < 1e-6 => (1e9, "ns"),
        s if s < 1e-3 => (1e6, "µs"),
        _ => (1e3, "ms"),
    };
    let digits = if lowest * factor < 10.0 { 2 } else { usize::from(lowest * factor < 100.0) };
    format!("{:.digits$} ({:.digits$}) {unit}", lowest * factor, median * factor)
}

fn ratio(of: Option<Times>, to: Option<Times>) -> String {
    match (of, to) {
        (Some(of), Some(to)) => {
            format!("{:.2} ({:.2})", to.lowest / of.lowest, to.median / of.median)
        }
        _ => "-".to_owned(),
    }
}

/// Returns the request that makes PyTorch measure a case.
fn in_torch(case: &Case) -> String {
    let input = |spec: &millstream_types::TensorSpec| {
        let (shape, strides) = (spec.layout.shape(), spec.layout.strides());
        format!("{:?}:{shape:?}:{strides:?}", spec.dtype)
    };
    let inputs: Vec<String> = case.inputs.iter().map(input).collect();
    format!("{}\t{}\t{SAMPLES}", case.torch, inputs.join(";"))
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return serve::serve();
    }
    let options = match Options::read() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{HELP}");
            std::process::exit(2);
        }
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/ops.py");
    let mut torch = options.python.as_ref().map(|p| Peer::start(Command::new(p).arg(script)));
    let mut against = options.against.as_ref().map(|b| Peer::start(Command::new(b).arg("--serve")));
    let mut own = Kernels::new();
    println!(
        "| case | run | prepared | PyTorch | PyTorch / run | PyTorch / prepared | bound \
         | other build | other / run | other / prepared |\n|---|{}",
        "---:|".repeat(9)
    );
    let wanted = |case: &Case| {
        options.names.is_empty() || options.names.iter().any(|n| case.name.contains(n))
    };
    for case in cases::all().iter().filter(|c| wanted(c)) {
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); WAYS.len()];
        for round in 0..options.rounds {
            for k in 0..WAYS.len() {
                // Each round begins with another way.
                let k = (k + round) % WAYS.len();
                let peer = |peer: &mut Option<Peer>, request: &dyn Fn() -> String| {
                    peer.as_mut().map_or_else(Vec::new, |peer| peer.ask(&request()))
                };
                let of = |way: &str| format!("{}\t{way}\t{SAMPLES}", case.name);
                found[k].extend(match WAYS[k] {
                    Way::Run => own.measure(&case.name, "run", SAMPLES),
                    Way::Prepared => own.measure(&case.name, "prepared", SAMPLES),
                    Way::Copy if case.bound == Bound::Memory => {
                        own.measure(&case.name, "copy", SAMPLES)
                    }
                    Way::Copy => Vec::new(),
                    Way::Torch => peer(&mut torch, &|| in_torch(case)),
                    Way::Against => peer(&mut against, &|| of("run")),
                    Way::AgainstPrepared => peer(&mut against, &|| of("prepared")),
                });
            }
        }
        let found: Vec<Option<Times>> = found.into_iter().map(times).collect();
        let of = |way: Way| found[WAYS.iter().position(|w| *w == way).expect("a way")];
        let (run, prepared) = (of(Way::Run), of(Way::Prepared));
        let bound = match case.bound {
            Bound::Overhead => "-".to_owned(),
            Bound::Memory => format!("{} of a copy", ratio(run, of(Way::Copy))),
            Bound::Arithmetic(count) => {
                let rate = |seconds: f64| count as f64 / seconds * 1e-9;
                run.map_or("-".to_owned(), |t| {
                    format!("{:.0} ({:.0}) GFLOP/s", rate(t.lowest), rate(t.median))
                })
            }
        };
        println!(
            "| {} | {} | {} | {} | {} | {} | {bound} | {} | {} | {} |",
            case.name,
            shown(run),
            shown(prepared),
            shown(of(Way::Torch)),
            ratio(run, of(Way::Torch)),
            ratio(prepared, of(Way::Torch)),
            shown(of(Way::Against)),
            ratio(run, of(Way::Against)),
            ratio(prepared, of(Way::AgainstPrepared)),
        );
    }
}
