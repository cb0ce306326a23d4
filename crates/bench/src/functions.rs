//! The workloads as functions of the program, pushed to the machine's dependency engine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use millstream::{DependencyEngine, Machine, MachineConfig, Operator, Var};

use super::workload::{Node, Workload, step};
use super::{EngineArgs, Peer, quantile};

/// The most pushes that a bulk scope merges: MXNet's default.
const BULK: usize = 15;

fn machine(args: &EngineArgs) -> Result<Machine> {
    Ok(Machine::new(MachineConfig::default().host_workers(args.workers as usize))?)
}

fn variables(engine: &DependencyEngine, load: &Workload) -> Result<Vec<Var>> {
    Ok((0..load.variables).map(|_| engine.var()).collect::<Result<_, _>>()?)
}

/// Calls `with` with the variables that a node reads, and with those that it writes.
fn named<T>(vars: &[Var], node: &Node, with: impl FnOnce(&[&Var], &[&Var]) -> T) -> T {
    let mut reads = [&vars[0]; 3];
    for (read, at) in reads.iter_mut().zip(node.reads()) {
        *read = &vars[*at as usize];
    }
    let written = node.write.map(|at| &vars[at as usize]);
    with(&reads[..node.reads().len()], written.as_slice())
}

/// Returns the medians of the times per push: until all have completed, and of pushing.
pub(super) fn stream(args: &EngineArgs, load: &Workload) -> Result<(f64, f64)> {
    let engine = machine(args)?.dependency_engine()?;
    let vars = variables(&engine, load)?;
    let operators: Vec<Operator> = match args.peer {
        Peer::Operators => {
            let nodes = load.nodes.iter().enumerate();
            nodes.map(|(id, node)| operator(&engine, &vars, id, node)).collect()
        }
        _ => Vec::new(),
    };
    let (mut totals, mut pushes) = (Vec::new(), Vec::new());
    for round in 0..=args.rounds {
        let start = Instant::now();
        match args.peer {
            Peer::Operators => operators.iter().try_for_each(Operator::push)?,
            Peer::Bulk => {
                let mut bulk = engine.bulk(BULK);
                for (id, node) in load.nodes.iter().enumerate() {
                    named(&vars, node, |reads, writes| {
                        bulk.push(move || {
                            black_box(id);
                        })
                        .reads(reads)
                        .writes(writes)
                        .spawn()
                    })?;
                }
                bulk.flush()?;
            }
            _ => {
                for (id, node) in load.nodes.iter().enumerate() {
                    named(&vars, node, |reads, writes| {
                        engine
                            .push(move || {
                                black_box(id);
                            })
                            .reads(reads)
                            .writes(writes)
                            .spawn()
                    })?;
                }
            }
        }
        let pushed = start.elapsed();
        engine.wait_all()?;
        let total = start.elapsed();
        if round > 0 {
            let per = |time: std::time::Duration| time.as_nanos() as f64 / load.nodes.len() as f64;
            totals.push(per(total));
            pushes.push(per(pushed));
        }
    }
    Ok((quantile(&mut totals, 0.5), quantile(&mut pushes, 0.5)))
}

fn operator(engine: &DependencyEngine, vars: &[Var], id: usize, node: &Node) -> Operator {
    named(vars, node, |reads, writes| {
        engine
            .operator(move || {
                black_box(id);
            })
            .reads(reads)
            .writes(writes)
    })
}

/// Runs a workload whose functions compute, and returns how many variables are wrong.
pub(super) fn wrong(args: &EngineArgs, load: &Workload) -> Result<u32> {
    let engine = machine(args)?.dependency_engine()?;
    let vars = variables(&engine, load)?;
    let cells: Arc<[AtomicU64]> = (0..load.variables).map(|_| AtomicU64::new(1)).collect();
    for (id, node) in load.nodes.iter().enumerate() {
        let Some(write) = node.write else { continue };
        let (cells, node) = (cells.clone(), *node);
        // Relaxed: the engine orders the accesses of each variable.
        let at = move |cells: &[AtomicU64], k: u32| cells[k as usize].load(Ordering::Relaxed);
        let compute = move || {
            let reads = node.reads().iter().map(|k| at(&cells, *k));
            let value = step(id as u64, reads, at(&cells, write));
            cells[write as usize].store(value, Ordering::Relaxed);
        };
        named(&vars, &node, |reads, writes| {
            engine.push(compute).reads(reads).writes(writes).spawn()
        })?;
    }
    engine.wait_all()?;
    let pairs = cells.iter().zip(load.expected());
    Ok(pairs.filter(|(cell, expected)| cell.load(Ordering::Relaxed) != *expected).count() as u32)
}
