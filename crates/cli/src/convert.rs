//! `convert`: writes a trace as a native one, to be read and edited.

use std::path::{Path, PathBuf};

use millstream_files::{OutputError, Outputs, eprintln};
use millstream_runner::RunOptions;
use millstream_trace::{
    EtOptions, LoadOptions, Number, TraceError, input_files, load, project, single_trace,
    write_with_sidecar,
};

use crate::SUCCESS;
use crate::run::number;
use crate::show::snippet;

/// The name of the second output in errors.
const SIDECAR: &str = "the file of its tensors";

/// The arguments of `millstream convert`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    millstream convert recorded/et.json edited/step.json && millstream run edited/step.json")]
pub(crate) struct Arguments {
    /// A trace: a recorded PyTorch program or its folder, or a native trace (`-` is standard input)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The native trace to write. Its long tensors go to a file beside it that ends in
    /// .safetensors
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Use VALUE for every number that an execution trace lost and consts.json lacks
    #[arg(long, value_name = "VALUE", value_parser = number, allow_hyphen_values = true)]
    missing_scalar: Option<Number>,
    /// Compute random ops of an execution trace whose results were not recorded with own numbers
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Leave out nodes that cannot be executed, and make up missing elements
    #[arg(long)]
    structural: bool,
    /// Write what one rank runs of a program for several, with the copies that it sends and
    /// receives
    #[arg(long, value_name = "K", requires = "ranks")]
    rank: Option<u32>,
    /// With --rank: the number of ranks
    #[arg(long, value_name = "N", requires = "rank", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
}

/// Converts the trace that the arguments name.
pub(crate) fn run(arguments: &Arguments) -> u8 {
    convert(arguments).map_or_else(snippet::bad_input, |()| SUCCESS)
}

fn convert(arguments: &Arguments) -> Result<(), TraceError> {
    let (trace, out) = (&single_trace(&arguments.trace)?, &arguments.out);
    let problem = |message: String| TraceError::of_file("convert", message);
    let sidecar = out.with_extension("safetensors");
    let wrong = |error: OutputError| problem(error.into());
    let names = [("OUT", Some(out.as_path())), (SIDECAR, Some(&*sidecar))];
    let outputs = Outputs::new(names).map_err(wrong)?;
    outputs.refuse(input_files(trace)).map_err(wrong)?;
    outputs.prepare().map_err(wrong)?;
    let et = EtOptions {
        missing_scalar: arguments.missing_scalar,
        random: arguments.random,
        structural: arguments.structural,
        ..EtOptions::default()
    };
    let mut program = load(trace, &LoadOptions { et, ..LoadOptions::default() })?;
    if let (Some(rank), Some(ranks)) = (arguments.rank, arguments.ranks) {
        if rank >= ranks {
            return Err(problem(format!("--rank is {rank}, and ranks are 0 to {}", ranks - 1)));
        }
        program = project(program, rank, ranks, &RunOptions::default().machine.ops)?;
    }
    outputs.refuse(program.files()).map_err(wrong)?;
    for remark in program.imported.iter().flat_map(|imported| imported.diagnostics()) {
        eprintln!("NOTE: {remark}");
    }
    let unknown = program.outputs.iter().filter(|o| o.expected.is_none()).count();
    if unknown > 0 {
        eprintln!(
            "NOTE: of {} outputs, {unknown} are written without expected elements",
            program.outputs.len()
        );
    }
    let name = sidecar.file_name().map(Path::new).unwrap_or(&sidecar).display().to_string();
    let (text, tensors) = write_with_sidecar(&program, &name)?;
    outputs.write_together(&[(SIDECAR, &tensors), ("OUT", text.as_bytes())]);
    outputs.finish().map_err(wrong)
}
