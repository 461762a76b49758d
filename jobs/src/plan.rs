//! `gular job plan`: how much work there is, and how it is divided into jobs.

use serde::Serialize;

use crate::units::words;

/// The needs of one item, and the limits of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// How many items there are.
    pub items: u64,
    /// Bytes that an item reads.
    pub in_bytes: u64,
    /// Bytes that an item writes.
    pub out_bytes: u64,
    /// Seconds of a GPU for each item.
    pub gpu_seconds: f64,
    /// Seconds of one core for each item.
    pub cpu_seconds: f64,
    /// Bytes that each job needs once, such as a model's weights.
    pub model_bytes: u64,
    /// How long a job should run.
    pub job_hours: f64,
    /// Most cores of a job.
    pub cores: u64,
    /// Most disk of a job, for its items.
    pub disk_bytes: u64,
    /// Bytes per second that one job gets from a cache.
    pub bytes_per_second: f64,
}

/// One kind of job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobKind {
    /// Processors that the jobs use: `gpu`, `cpu` or `both`.
    pub kind: &'static str,
    /// Number of items per job.
    pub items_per_job: u64,
    /// Number of jobs.
    pub jobs: u64,
    /// Number of cores that each job asks for.
    pub cores: u64,
    /// Number of GPUs that each job asks for.
    pub gpus: u64,
    /// Hours that each job computes.
    pub hours: f64,
    /// Bytes of disk for items and model, with a quarter to spare.
    pub disk_bytes: u64,
    /// Share of a job's time that transfers take, 0 to 1.
    pub transfer_share: f64,
}

/// The whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobPlan {
    /// Hours of GPU time that all jobs take.
    pub gpu_hours: f64,
    /// Hours of core time that all jobs take.
    pub cpu_hours: f64,
    /// Bytes that all jobs read, including models.
    pub in_bytes: f64,
    /// Bytes that all jobs write.
    pub out_bytes: f64,
    /// Bytes of models only, which each job reads once, from caches.
    pub model_bytes: f64,
    /// One kind of job that does everything, or one kind for GPUs and one for cores.
    pub jobs: Vec<JobKind>,
    /// Whether many independent jobs are the right way.
    pub throughput: bool,
    /// The reasons for the plan, and what to watch for.
    pub notes: Vec<String>,
}

/// Hours of work above which one machine is not enough.
const SMALL_HOURS: f64 = 4.0;
/// OSPool puts jobs on hold after 20 hours, unless they checkpoint.
const LONG_HOURS: f64 = 20.0;
/// More jobs than this should not be submitted at a time to an access point.
const MANY_JOBS: u64 = 10_000;
/// Disk to request, as a multiple of the size of items and model.
const SPARE_FACTOR: f64 = 1.25;

/// Cuts the work into jobs.
#[must_use]
pub fn plan(work: &Work) -> JobPlan {
    let n = work.items as f64;
    let gpu_hours = n * work.gpu_seconds / 3600.0;
    let cpu_hours = n * work.cpu_seconds / 3600.0;
    // A job with a GPU has cores enough that the GPU does not wait for them, where there are.
    let cores_wanted = if work.gpu_seconds > 0.0 {
        (work.cpu_seconds / work.gpu_seconds).ceil().max(1.0)
    } else {
        1.0
    };
    let apart = work.gpu_seconds > 0.0 && cores_wanted > work.cores as f64;
    let jobs = match (apart, work.gpu_seconds > 0.0) {
        (true, _) => vec![
            kind(work, "cpu", 1, 0, work.cpu_seconds, 0),
            kind(work, "gpu", 1, 1, work.gpu_seconds, work.model_bytes),
        ],
        (false, true) => {
            let cores = cores_wanted as u64;
            let seconds = work.gpu_seconds.max(work.cpu_seconds / cores as f64);
            vec![kind(
                work,
                if work.cpu_seconds > 0.0 { "both" } else { "gpu" },
                cores,
                1,
                seconds,
                work.model_bytes,
            )]
        }
        (false, false) => vec![kind(work, "cpu", 1, 0, work.cpu_seconds, work.model_bytes)],
    };
    let models: f64 = jobs
        .iter()
        .map(|job| {
            if job.gpus > 0 || jobs.len() == 1 {
                job.jobs as f64 * work.model_bytes as f64
            } else {
                0.0
            }
        })
        .sum();
    let mut plan = JobPlan {
        gpu_hours,
        cpu_hours,
        in_bytes: n * work.in_bytes as f64 + models,
        out_bytes: n * work.out_bytes as f64,
        model_bytes: models,
        throughput: true,
        notes: Vec::new(),
        jobs,
    };
    judge(work, apart, cores_wanted, &mut plan);
    plan
}

fn kind(
    work: &Work,
    kind: &'static str,
    cores: u64,
    gpus: u64,
    seconds: f64,
    model_bytes: u64,
) -> JobKind {
    let per_item = work.in_bytes.saturating_add(work.out_bytes);
    let by_time = (work.job_hours * 3600.0 / seconds.max(1e-9)).floor().clamp(1.0, 9e15) as u64;
    let holds = (work.disk_bytes as f64 / SPARE_FACTOR) as u64;
    let by_disk = holds.saturating_sub(model_bytes).checked_div(per_item).unwrap_or(u64::MAX);
    let items_per_job = by_time.min(by_disk).min(work.items).max(1);
    let moved = per_item as f64 * items_per_job as f64 + model_bytes as f64;
    let transfer = moved / work.bytes_per_second.max(1.0);
    let computes = seconds * items_per_job as f64;
    JobKind {
        kind,
        items_per_job,
        jobs: work.items.div_ceil(items_per_job),
        cores,
        gpus,
        hours: computes / 3600.0,
        disk_bytes: (moved * SPARE_FACTOR) as u64,
        transfer_share: transfer / (transfer + computes).max(1e-9),
    }
}

fn judge(work: &Work, apart: bool, cores_wanted: f64, plan: &mut JobPlan) {
    let mut notes = Vec::new();
    let mut not = |why: String, notes: &mut Vec<String>| {
        notes.push(why);
        plan.throughput = false;
    };
    let longest = work.gpu_seconds.max(work.cpu_seconds) / 3600.0;
    let total = plan.gpu_hours.max(plan.cpu_hours / work.cores.max(1) as f64);
    if longest > LONG_HOURS {
        not(
            format!(
                "one item takes {longest:.0} h, but pools stop jobs after about {LONG_HOURS:.0} h: let the program save and resume (exit code 85), or use a machine of your own"
            ),
            &mut notes,
        );
    } else if total < SMALL_HOURS {
        not(
            format!(
                "all items together take only {total:.1} h on one machine: run them there, since waiting for jobs would take longer"
            ),
            &mut notes,
        );
    }
    if let Some(job) = plan.jobs.iter().find(|job| job.transfer_share > 0.5) {
        let share = job.transfer_share * 100.0;
        not(
            format!(
                "{} jobs spend {share:.0} % of their time on moving data: run the work where the data is, or send less data",
                job.kind
            ),
            &mut notes,
        );
    }
    // A byte more may be due to rounding alone.
    let most = work.disk_bytes.saturating_add(1 << 20);
    let largest = plan.jobs.iter().map(|job| job.disk_bytes).max().unwrap_or(0);
    if largest > most {
        let needed = words(largest);
        not(
            format!(
                "one item with its model needs {needed} of disk, more than the limit for a job: allow a job more disk, or make the items smaller"
            ),
            &mut notes,
        );
    }
    for job in &plan.jobs {
        if job.items_per_job > 1 && job.jobs > 1 && job.hours < 1.0 / 6.0 && plan.jobs.len() == 1 {
            notes.push("the jobs run for less than ten minutes each, and wait longer than that: give each job more items by asking for more disk".to_owned());
        }
        if job.jobs > MANY_JOBS {
            notes.push(format!(
                "{} {} jobs are many: let HTCondor submit them step by step, with `max_materialize = {MANY_JOBS}`",
                job.jobs, job.kind
            ));
        }
    }
    if apart {
        notes.push(format!("each GPU would need {cores_wanted:.0} cores to keep it busy: do the CPU work in separate jobs, before or after, and pass on the results"));
    }
    if work.model_bytes > 0 && plan.jobs.iter().any(|job| job.jobs > 1) {
        notes.push("publish the model under a name with a version, and let jobs read it with `osdf:///`: caches near the jobs keep a copy".to_owned());
    }
    plan.notes = notes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> Work {
        Work {
            items: 18_000_000,
            in_bytes: 1_000_000,
            out_bytes: 4_000_000,
            gpu_seconds: 5.0,
            cpu_seconds: 300.0,
            model_bytes: 8_000_000_000,
            job_hours: 4.0,
            cores: 8,
            disk_bytes: 30_000_000_000,
            bytes_per_second: 50e6,
        }
    }

    #[test]
    fn eighteen_million_items_are_two_kinds_of_jobs() {
        let plan = plan(&work());
        assert_eq!((plan.gpu_hours, plan.cpu_hours), (25_000.0, 1_500_000.0));
        let jobs: Vec<_> = plan
            .jobs
            .iter()
            .map(|job| (job.kind, job.items_per_job, job.jobs, job.cores, job.gpus))
            .collect();
        assert_eq!(jobs, [("cpu", 48, 375_000, 1, 0), ("gpu", 2880, 6250, 1, 1)]);
        assert_eq!(plan.model_bytes, 50e12);
        assert_eq!((plan.in_bytes, plan.out_bytes), (68e12, 72e12));
        assert!(
            plan.throughput && plan.notes.iter().any(|note| note.contains("60 cores")),
            "{:?}",
            plan.notes
        );
    }

    #[test]
    fn what_is_no_throughput_work_is_said() {
        let check = |work: Work, word: &str| {
            let plan = plan(&work);
            assert!(
                !plan.throughput && plan.notes.iter().any(|note| note.contains(word)),
                "{:?}",
                plan.notes
            );
        };
        check(Work { items: 100, ..work() }, "on one machine");
        // With one job, no limit makes it smaller.
        let one = plan(&Work { items: 100, cpu_seconds: 0.0, ..work() });
        assert!(
            one.notes.iter().all(|note| !note.contains("by asking for more disk")),
            "{:?}",
            one.notes
        );
        check(Work { gpu_seconds: 100_000.0, ..work() }, "exit code 85");
        check(Work { in_bytes: 10_000_000_000, ..work() }, "moving data");
        check(Work { disk_bytes: 1_000_000, ..work() }, "needs 9.3 GB of disk");
    }

    #[test]
    fn the_disk_bounds_a_job_and_extremes_do_not_panic() {
        let small = plan(&Work { disk_bytes: 11_250_000_000, cpu_seconds: 5.0, ..work() });
        assert_eq!((small.jobs[0].kind, small.jobs[0].items_per_job), ("both", 200));
        for disk_bytes in [11_250_000_001, 11_253_000_000, 30_000_000_000] {
            let plan = plan(&Work { disk_bytes, ..work() });
            assert!(plan.jobs.iter().all(|job| job.disk_bytes <= disk_bytes), "{:?}", plan.jobs);
        }
        for items in [0, 1, u64::MAX] {
            for bytes in [0, u64::MAX] {
                for seconds in [0.0, f64::MAX] {
                    let _ = plan(&Work {
                        items,
                        in_bytes: bytes,
                        out_bytes: bytes,
                        model_bytes: bytes,
                        gpu_seconds: seconds,
                        cpu_seconds: seconds,
                        ..work()
                    });
                }
            }
        }
    }
}
