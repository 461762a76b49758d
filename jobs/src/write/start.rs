//! The commands that start the jobs, for the page next to the files and for the output of `gular`.

use super::{JobSpec, JobStage, job_file, slurm};

/// The commands that make or fetch, once, what the jobs on Slurm need.
pub(super) fn once(spec: &JobSpec) -> Vec<String> {
    if !spec.site.is_slurm() {
        return Vec::new();
    }
    let data = spec.data.iter().filter(|data| data.local.is_none());
    let data = data.map(|data| format!("gular fetch '{}' data", data.url));
    slurm::made_image(spec).map(|(_, command)| command).into_iter().chain(data).collect()
}

/// The commands that check and submit the jobs.
pub(super) fn start(spec: &JobSpec) -> Vec<String> {
    let file = job_file(spec);
    let lint = |files: &str| format!("gular job lint {files}");
    let in_dag = JobStage::in_dag(spec);
    match (spec.site.is_slurm(), in_dag) {
        (true, true) if !spec.shared => vec![lint("*.sbatch"), "sh submit.sh".to_owned()],
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
