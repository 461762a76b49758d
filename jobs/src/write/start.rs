//! The commands that start the jobs: in the page beside the files, and in what `gular` prints.

use super::{Order, Stage, job_file, slurm};

/// What the jobs on Slurm need, made or fetched by one command each.
pub(super) fn once(order: &Order) -> Vec<String> {
    if !order.site.is_slurm() {
        return Vec::new();
    }
    let data = order.data.iter().filter(|data| data.local.is_none());
    let data = data.map(|data| format!("gular fetch '{}' data", data.url));
    slurm::made_image(order).map(|(_, command)| command).into_iter().chain(data).collect()
}

/// What checks and submits them.
pub(super) fn start(order: &Order) -> Vec<String> {
    let file = job_file(order);
    let lint = |files: &str| format!("gular job lint {files}");
    let in_dag = Stage::in_dag(order);
    match (order.site.is_slurm(), in_dag) {
        (true, true) if !order.shared => vec![lint("*.sbatch"), "sh submit.sh".to_owned()],
        (true, true) => vec![
            lint(&format!("{file} merge.sbatch")),
            format!("job=$(sbatch --parsable {file})"),
            "sbatch --dependency=afterok:\"$job\" merge.sbatch".to_owned(),
        ],
        (true, false) => vec![lint(&file), format!("sbatch {file}")],
        (false, true) => vec![lint(&file), format!("condor_submit_dag {file}")],
        (false, false) => vec![lint(&file), format!("condor_submit {file}")],
    }
}
