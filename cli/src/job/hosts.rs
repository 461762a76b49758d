//! `gular job hosts`.

use clap::Args;
use gular_jobs::nodes::unfold;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Expand a Slurm node list, such as `n[1-3]`, into host names, without scontrol
///
/// For containers, which have no scontrol. This sets the address of rank 0:
///
/// MASTER_ADDR=$(gular job hosts --first "$SLURM_JOB_NODELIST")
///
/// At JSC, a node's name in the InfiniBand network is its name with an `i` at the end: add
/// `--suffix i`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular job hosts 'jwb[0021-0023,0045]'")]
pub(super) struct HostsArgs {
    /// As in SLURM_JOB_NODELIST
    list: String,
    /// Only the first node
    #[arg(long)]
    first: bool,
    /// Text to append to each name
    #[arg(long, value_name = "TEXT", default_value = "")]
    suffix: String,
}

pub(super) fn run(args: &HostsArgs, output: &Output) -> Result<Exit, Failure> {
    let Some(nodes) = unfold(&args.list) else {
        let hint = "write the list as Slurm does, such as `n[1-3,7]`, in quotes";
        return Err(Failure::new(
            format!("`{}` is not a list of nodes", args.list),
            Some(hint.to_owned()),
        ));
    };
    let n = if args.first { 1 } else { nodes.len() };
    let names: Vec<String> =
        nodes.into_iter().take(n).map(|node| format!("{node}{}", args.suffix)).collect();
    show::value(&json!({ "nodes": names }), &format!("{}\n", names.join("\n")), output)?;
    Ok(Exit::Done)
}
