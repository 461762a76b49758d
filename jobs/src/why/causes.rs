//! Why jobs are idle, held or fail: the hold codes of HTCondor, the messages of Pelican's plug-in,
//! the reasons and states of Slurm, and exit codes, each with its remedy and source.

use serde::Serialize;

/// By what a cause is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// HTCondor's HoldReasonCode, and HoldReasonSubCode where it matters.
    Hold(u32, Option<u32>),
    /// Words that a message has, in lower case.
    Text(&'static [&'static str]),
    /// An attribute in a condition that no machine meets.
    Needs(&'static str),
    /// A line of the summary of `condor_q -better-analyze`.
    Match(Match),
    /// Slurm's reason; `*` at the end stands for any text.
    Reason(&'static str),
    /// Slurm's state of a job.
    State(&'static str),
    /// An exit code; for a signal 128 and its number.
    Exit(u32),
    /// Any other signal.
    Signal,
}

/// How the machines of a pool look at a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Match {
    /// Some are free and match.
    Willing,
    /// All that match are in use.
    Busy,
    /// Those that the job accepts do not accept the job.
    Own,
    /// The job accepts none.
    Refuse,
    /// The job accepts none, but its conditions one by one are met.
    Together,
    /// It is not known.
    Unasked,
    /// One stopped the job.
    Evicted,
}

/// One cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// By what it is known.
    pub sign: Sign,
    /// Why, as a part of a sentence.
    pub why: &'static str,
    /// What to do. `JOB` stands for the job's number, `ARRAY` for that of its array.
    pub remedy: &'static str,
    /// The manual that says so.
    pub source: &'static str,
}

const HOLD: &str = "HTCondor manual, Job ClassAd Attributes, HoldReasonCode";
const POLICY: &str = "HTCondor manual, Configuration Templates, policies";
const ANALYZE: &str = "HTCondor manual, condor_q -better-analyze";
const LOG: &str = "HTCondor manual, Job Event Log Codes";
const PELICAN: &str = "Pelican, docs/error_codes.yaml and Troubleshooting";
const REASONS: &str = "Slurm manual, Job Reason Codes";
const SOURCES: &str = "Slurm's sources; seen with 22.05";
const STATES: &str = "Slurm manual, Job State Codes";
const SHELL: &str = "POSIX, Shell Command Language, Exit Status";
const SIGNALS: &str = "Linux manual, signal(7)";

const RELEASE: &str =
    "look at HTCondor's message, mend what it names, then `condor_release` the job";
const TRY_AGAIN: &str = "`condor_release` the job: another machine may work; if it happens again, report it to your site";
const MEMORY: &str = "ask for more memory, by what `gular job measure` says, then `condor_qedit JOB RequestMemory MB` and `condor_release JOB`";
const DISK: &str = "ask for more disk: image, inputs, what is unpacked and outputs together, then `condor_qedit JOB RequestDisk KB` and `condor_release JOB`";
const WAIT: &str = "wait; a job that asks for less, or for less time, starts earlier";
const LIMIT: &str = "wait until other jobs of yours or your group end; `sacctmgr show assoc user=$USER` shows the limit";
const QOS_LIMIT: &str =
    "wait until other jobs of yours or your group end; `sacctmgr show qos` shows the limit";
const QOS_TOO_BIG: &str =
    "ask for less than the limit, which `sacctmgr show qos` shows: as it is, the job never starts";
const NODES_DOWN: &str = "wait, or choose another partition: `sinfo -R` says which nodes are down or drained and why, `sinfo` which are idle";
const TOO_BIG: &str = "ask for less than the limit, which `sacctmgr show qos` and `sacctmgr show assoc user=$USER` show: as it is, the job never starts";
const NEVER: &str =
    "cancel the job, correct the request and submit it again: as it is, it never starts";
const ASK_LESS: &str =
    "ask for less, or for another kind of machine; `condor_status` shows what the machines have";

macro_rules! causes {
    ($($sign:expr => $why:literal, $remedy:expr, $source:ident;)*) => {
        /// All causes. Messages say more than codes, so they come first.
        pub static CAUSES: &[Cause] = &[
            $(Cause { sign: $sign, why: $why, remedy: $remedy, source: $source },)*
        ];
    };
}

use Match::{Busy, Evicted, Own, Refuse, Together, Unasked, Willing};
use Sign::{Exit, Hold, Needs, Reason, Signal, State, Text};

causes! {
    Text(&["pelican client error", "remote object already exists"]) =>
        "the name of an output is already taken, and published names are written once",
        "write to a new name, such as one with the job's number", PELICAN;
    Text(&["credential is required"]) =>
        "the data needs a token, and the job has none",
        "let the submit file ask for it (`use_oauth_services`, as `gular job new --credentials` does), and submit it again", PELICAN;
    Text(&["specification.filenotfound"]) =>
        "an object at this URL does not exist",
        "compare the URL with what `gular ls` or `pelican object ls` shows, and submit it again with the right one", PELICAN;
    Text(&["pelican client error", "http status 404"]) =>
        "an object at this URL does not exist",
        "compare the URL with what `gular ls` or `pelican object ls` shows, and submit it again with the right one", PELICAN;
    Text(&["pelican client error", "authorization"]) =>
        "the data server did not accept the job's token",
        "look whether the token is for this path and for reading or writing, and get a new one; then `condor_release` the job", PELICAN;
    Text(&["pelican client error", "http status 403"]) =>
        "the data server did not accept the job's token",
        "look whether the token is for this path and for reading or writing, and get a new one; then `condor_release` the job", PELICAN;
    Text(&["pelican client error", "director"]) =>
        "the federation's director did not answer, or knows nobody who serves this path",
        "compare the first parts of the URL with the namespaces of the federation, then `condor_release` the job", PELICAN;
    Text(&["pelican client error", "contact"]) =>
        "a data server could not be reached from the machine of the job",
        TRY_AGAIN, PELICAN;
    Text(&["pelican client error", "dial tcp"]) =>
        "a data server could not be reached from the machine of the job",
        TRY_AGAIN, PELICAN;
    Text(&["pelican client error", "timed out"]) =>
        "a transfer was too slow",
        TRY_AGAIN, PELICAN;
    Text(&["pelican client error", "transfer error"]) =>
        "a transfer broke off, or ended with an error of the data server",
        TRY_AGAIN, PELICAN;
    Text(&["pelican client error", "http status 50"]) =>
        "a transfer broke off, or ended with an error of the data server",
        TRY_AGAIN, PELICAN;
    Text(&["pelican client error"]) =>
        "Pelican's plug-in could not transfer a file",
        RELEASE, PELICAN;
    Text(&["memory usage exceeded"]) =>
        "it used more memory than it asked for", MEMORY, POLICY;
    Text(&["cgroup memory limit"]) =>
        "it used more memory than it asked for", MEMORY, POLICY;
    Text(&["disk usage exceeded"]) =>
        "it used more disk than it asked for", DISK, POLICY;
    Text(&["disk quota exceeded"]) =>
        "your quota on the access point is used up, so that its files could not be written",
        "remove or move files (`quota` shows the limit), then `condor_release` the job", HOLD;
    Text(&["no space left on device"]) =>
        "a disk was full",
        DISK, HOLD;
    Text(&["via condor_hold"]) =>
        "somebody put it on hold with `condor_hold`",
        "`condor_release` it", HOLD;
    Text(&["exec format error"]) =>
        "the program cannot be started: it has no `#!` line, or is built for another kind of processor",
        "begin a script with `#!/bin/bash`, or build the program for the machines' processors, and submit it again", HOLD;
    Text(&["allowed execute duration"]) =>
        "it ran longer in one piece than it may",
        "let it save and exit with its checkpoint's exit code more often, split the work, or choose a longer `+JobDurationCategory`", HOLD;
    Text(&["allowed job duration"]) =>
        "it took longer than it may",
        "split the work, or choose a longer `+JobDurationCategory`, and submit it again", HOLD;
    Hold(1, None) => "somebody put it on hold with `condor_hold`",
        "`condor_release` it", HOLD;
    Hold(3, None) => "its own `periodic_hold` or `on_exit_hold` became true",
        "look at what this expression of the submit file asks, and at the program's exit code, then `condor_release` the job", HOLD;
    Hold(4, None) => "its credentials are not valid",
        "get new ones, then `condor_release` the job", HOLD;
    Hold(5, None) => "an expression of its policy uses an attribute that does not exist",
        "correct `periodic_hold`, `on_exit_hold`, `periodic_remove` or `on_exit_remove`, and submit it again", HOLD;
    Hold(6, Some(2)) => "the program cannot be started: it, or what its `#!` line names, does not exist on the machine",
        "give a program that the machine or the image has; a `#!` line must not end in CR", HOLD;
    Hold(6, Some(13)) => "the program cannot be started: it is not executable",
        "run `chmod +x` on it, and submit it again", HOLD;
    Hold(6, None) => "the program cannot be started", RELEASE, HOLD;
    Hold(7, None) => "the file for its standard output cannot be opened",
        "make the folder that `output` and `error` name, then `condor_release` the job", HOLD;
    Hold(8, None) => "the file for its standard input cannot be opened",
        "give an `input` that exists, then `condor_release` the job", HOLD;
    Hold(11, None) => "a transfer of files broke off", TRY_AGAIN, HOLD;
    Hold(12, Some(2)) => "a file of `transfer_output_files`, or of the checkpoint, was not there when it ended",
        "look into its standard error for why the program did not write it; then correct the program or the list, and submit it again", HOLD;
    Hold(12, Some(13)) => "its outputs may not be written where they should go",
        "make the folder writable, then `condor_release` the job", HOLD;
    Hold(12, Some(62)) => "a transfer of its outputs took too long", TRY_AGAIN, HOLD;
    Hold(12, None) => "its outputs or checkpoints could not be transferred", RELEASE, HOLD;
    Hold(13, Some(2)) => "an input does not exist",
        "correct the path in `transfer_input_files`, and submit it again; `gular job lint` finds such paths before", HOLD;
    Hold(13, Some(13)) => "an input may not be read",
        "make it readable, then `condor_release` the job", HOLD;
    Hold(13, Some(62)) => "a transfer of its inputs took too long", TRY_AGAIN, HOLD;
    Hold(13, None) => "its inputs could not be transferred", RELEASE, HOLD;
    Hold(14, None) => "the folder from which it was submitted, or its `initialdir`, cannot be entered",
        "make the folder, then `condor_release` the job", HOLD;
    Hold(15, None) => "it was submitted on hold (`hold = true`)", "`condor_release` it", HOLD;
    Hold(16, None) => "its inputs are still being sent to the access point", "wait", HOLD;
    Hold(18, None) => "a transfer of files broke off", TRY_AGAIN, HOLD;
    Hold(19, None) => "a hook of the machine, which prepares the job, failed", TRY_AGAIN, HOLD;
    Hold(20, None) => "it missed the time at which it should start",
        "give a later `deferral_time` or a longer `deferral_window`, and submit it again", HOLD;
    Hold(21, Some(101)) => "it used more cores than it asked for",
        "ask for more `request_cpus`, or let the program start fewer threads (OMP_NUM_THREADS)", POLICY;
    Hold(21, Some(102)) => "it used more memory than it asked for", MEMORY, POLICY;
    Hold(21, Some(104)) => "it used more disk than it asked for", DISK, POLICY;
    Hold(21, None) => "the machine's policy put it on hold", RELEASE, HOLD;
    Hold(22, None) => "its log cannot be opened",
        "give a `log` in a folder that exists and that you may write, and submit it again", HOLD;
    Hold(23, None) => "the access point cannot use your account", "report it to your site", HOLD;
    Hold(26, None) => "a rule of the access point put it on hold",
        "HTCondor's message says which: often the job ran too long or started too often", HOLD;
    Hold(27, None) => "a rule of the access point could not be computed", "report it to your site", HOLD;
    Hold(32, None) => "its inputs are larger than the access point transfers",
        "publish large inputs, and give them by URL (`osdf://`)", HOLD;
    Hold(33, None) => "its outputs are larger than the access point transfers",
        "send large outputs to a URL with `output_destination` or `transfer_output_remaps`", HOLD;
    Hold(34, Some(104)) => "it used more disk than it asked for", DISK, POLICY;
    Hold(34, None) => "it used more memory than it asked for", MEMORY, HOLD;
    Hold(35, None) => "its Docker image cannot be used",
        "check the image's name and tag, and that it can be pulled without a password", HOLD;
    Hold(36, None) => "it ended with an error when it was told to save", "see what the program does at this signal", HOLD;
    Hold(43, None) => "the program that runs before it failed", RELEASE, HOLD;
    Hold(44, None) => "the program that runs after it failed", RELEASE, HOLD;
    Hold(45, None) => "the machine could not start a container from its image", TRY_AGAIN, HOLD;
    Hold(46, None) => "it took longer than it may",
        "raise `allowed_job_duration` or split the work, and submit it again", HOLD;
    Hold(47, None) => "it ran longer in one piece than it may",
        "let it save and exit with its checkpoint's exit code more often, or raise `allowed_execute_duration`", HOLD;
    Hold(48, None) => "a hook of the access point, which prepares the job, failed", TRY_AGAIN, HOLD;

    Needs("Memory") => "no machine has as much memory as it asks for", ASK_LESS, ANALYZE;
    Needs("Disk") => "no machine has as much free disk as it asks for", ASK_LESS, ANALYZE;
    Needs("Cpus") => "no machine has as many cores as it asks for", ASK_LESS, ANALYZE;
    Needs("GPUs") => "no machine has such GPUs, or as many of them, free",
        "ask for fewer or smaller GPUs (`request_gpus`, `gpus_minimum_memory`, `gpus_minimum_capability`); `condor_status -gpus` shows them", ANALYZE;
    Needs("Arch") => "no machine has the processor that it asks for", ASK_LESS, ANALYZE;
    Needs("OpSys") => "no machine has the operating system that it asks for",
        "bring it in a container image instead", ANALYZE;
    Needs("HasFileTransferPluginMethods") => "no machine can fetch the kind of URL among its inputs",
        "give the inputs by a URL that the machines know (`condor_status -af HasFileTransferPluginMethods`)", ANALYZE;
    Needs("FileSystemDomain") => "no machine shares the file system of the access point",
        "write `should_transfer_files = YES`, and list its inputs", ANALYZE;
    Needs("Singularity") => "no machine can start its kind of container", ASK_LESS, ANALYZE;
    Needs("Container") => "no machine can start its kind of container", ASK_LESS, ANALYZE;
    Needs("Docker") => "no machine has Docker",
        "use `container_image` with a `.sif` file or `docker://` instead of `universe = docker`", ANALYZE;
    Needs("Microarch") => "no machine has as new a processor as it asks for", ASK_LESS, ANALYZE;
    Sign::Match(Refuse) => "no machine meets its requirements",
        "take out, or soften, the condition in `requirements`", ANALYZE;
    Sign::Match(Together) => "each of its conditions is met by some machine, but no machine meets all",
        "ask for less of one of them", ANALYZE;
    Sign::Match(Own) => "the machines that fit it take only other jobs",
        "see what their `START` asks: often an attribute such as `+WantGPULab`, a project's name, or a shorter job (`condor_status -af Machine Start`)", ANALYZE;
    Sign::Match(Busy) => "all machines that fit it are in use",
        "wait, or ask for less: smaller jobs fit more machines", ANALYZE;
    Sign::Match(Willing) => "machines that fit it are free, and it was not its turn yet",
        "wait some minutes; if it stays idle, `condor_userprio` shows who comes before you", ANALYZE;
    Sign::Match(Unasked) => "no machine has started it yet",
        "run `condor_q -better-analyze JOB`, and give what it prints to `gular job why`", ANALYZE;
    Sign::Match(Evicted) => "the machine stopped it before its end, and it waits for another one",
        "wait; a job that saves checkpoints continues where it was", LOG;

    Reason("Priority") => "jobs with a higher priority come first", WAIT, REASONS;
    Reason("Resources") => "what it asks for is in use by other jobs", WAIT, REASONS;
    Reason("None") => "the scheduler has not looked at it yet", "wait some minutes", REASONS;
    Reason("DependencyNeverSatisfied") => "a job that it waits for failed, so that it can never start",
        "cancel it, mend the other job, and submit both again", REASONS;
    Reason("Dependency") => "it waits for another job to end",
        "wait; `scontrol show job JOB` names the other job after `Dependency=`", REASONS;
    Reason("BeginTime") => "the time at which it may start has not come (`--begin`, or a requeue)", "wait", REASONS;
    Reason("JobHeldUser") => "you put it on hold", "`scontrol release JOB`", REASONS;
    Reason("JobHeldAdmin") => "an administrator put it on hold", "ask your site", REASONS;
    Reason("JobHoldMaxRequeue") => "it was queued again too often",
        "see in its log why each start failed, mend that, then `scontrol release JOB`", REASONS;
    Reason("launch_failed_requeued_held") => "its start failed on a node",
        "`scontrol release JOB`; if it happens again, report the node to your site", REASONS;
    Reason("job_requeued_in_held_state") => "it was queued again and put on hold", "`scontrol release JOB`", REASONS;
    Reason("JobArrayTaskLimit") => "its array runs as many jobs as its `%` allows",
        "wait, or raise the limit: `scontrol update JobId=ARRAY ArrayTaskThrottle=N`", REASONS;
    Reason("ReqNodeNotAvail") => "a node that it needs is down, drained or reserved, often since a maintenance comes before its end",
        "ask for less time, so that it ends before the maintenance, or do not name nodes; `scontrol show reservation` shows when", REASONS;
    Reason("Nodes_required*") => "the nodes that it could run on are down, drained, or reserved for jobs in partitions with a higher priority",
        NODES_DOWN, SOURCES;
    Reason("Reservation") => "its reservation has not begun", "wait", REASONS;
    Reason("ReservationDeleted") => "its reservation does not exist any more",
        "cancel it, and submit it without `--reservation`", REASONS;
    Reason("PartitionTimeLimit") => "it asks for more time than its partition allows",
        "`scontrol update JobId=JOB TimeLimit=…`, or submit it to another partition; `sinfo -o '%P %l'` shows the limits", REASONS;
    Reason("PartitionNodeLimit") => "it asks for more or fewer nodes than its partition allows", NEVER, REASONS;
    Reason("PartitionConfig") => "its partition cannot give what it asks for", NEVER, REASONS;
    Reason("PartitionDown") => "its partition takes no jobs at present", "wait, or choose another partition (`sinfo`)", REASONS;
    Reason("PartitionInactive") => "its partition starts no jobs at present", "wait, or choose another partition (`sinfo`)", REASONS;
    Reason("NodeDown") => "a node that it needs is down", "wait, or do not name nodes", REASONS;
    Reason("BadConstraints") => "no node has what it asks for together",
        NEVER, REASONS;
    Reason("Licenses") => "it waits for a licence", "wait", REASONS;
    Reason("InvalidAccount") => "its account does not exist",
        "submit it with an `--account` that `sacctmgr show assoc user=$USER` lists", REASONS;
    Reason("InvalidQOS") => "its QOS does not exist, or is not yours",
        "submit it with a `--qos` that `sacctmgr show assoc user=$USER` lists", REASONS;
    Reason("AccountNotAllowed") => "its account may not use this partition",
        "submit it with another `--account` or `--partition`", REASONS;
    Reason("Job's_account_not_permitted*") => "its account may not use this partition",
        "submit it with another `--account` or `--partition`", REASONS;
    Reason("Job's_QOS_not_permitted*") => "its QOS may not be used in this partition",
        "submit it with another `--qos` or `--partition`", REASONS;
    Reason("QOSNotAllowed") => "its QOS may not be used in this partition",
        "submit it with another `--qos` or `--partition`", REASONS;
    Reason("AssocGrp*Minutes*") => "the compute time of your project is used up, or would be",
        "ask for less time, or for more budget; `sshare` and your site's tools show what is left", REASONS;
    Reason("AssocGrp*") => "your project already uses as much as it may at once", LIMIT, REASONS;
    Reason("AssocMaxJobsLimit") => "you already run as many jobs as you may", LIMIT, REASONS;
    Reason("AssocMax*") => "it asks for more than a job of your account may have", TOO_BIG, REASONS;
    Reason("QOSMaxJobs*") => "you already run as many jobs as its QOS allows", QOS_LIMIT, REASONS;
    Reason("QOSMax*PerUser*") => "you already use as much as its QOS allows, or it asks for more than that", QOS_LIMIT, REASONS;
    Reason("QOSGrp*") => "all jobs of its QOS together already use as much as they may", QOS_LIMIT, REASONS;
    Reason("QOSMax*") => "it asks for more than its QOS allows", QOS_TOO_BIG, REASONS;
    Reason("QOSMin*") => "it asks for less than its QOS wants",
        "ask for as much as `sacctmgr show qos` shows, or choose another QOS", REASONS;
    Reason("MaxMemPerLimit") => "it asks for more memory per node or per core than its partition allows",
        "ask for less `--mem`, or for more cores or nodes; `scontrol show partition` shows MaxMemPerNode and MaxMemPerCPU: as it is, the job never starts", REASONS;
    Reason("Max*PerAccount") => "your account already uses as much as it may at once", QOS_LIMIT, REASONS;

    Reason("RaisedSignal:53") => "the file for its output or errors cannot be opened (exit code 0:53)",
        "make the folder that `--output` and `--error` name before you submit the job again, where the nodes see it and you may write; they are relative to the folder where `sbatch` is called", SOURCES;

    State("SUSPENDED") => "it was stopped for a time, for other jobs or by an administrator",
        "wait; it continues where it was", STATES;
    State("STOPPED") => "it was stopped by a signal, and keeps its cores",
        "`scancel --signal=CONT JOB` lets it continue", STATES;
    State("COMPLETING") => "its program ended, and its nodes are being cleaned up",
        "wait some minutes; if it stays so, report its nodes to your site", STATES;
    State("SPECIAL_EXIT") => "it was queued again and put on hold",
        "see in its log why, then `scontrol release JOB`", STATES;
    State("REQUEUE_HOLD") => "it was queued again and put on hold", "`scontrol release JOB`", STATES;
    State("RESV_DEL_HOLD") => "it was put on hold, since its reservation does not exist any more",
        "cancel it, and submit it without `--reservation`", STATES;
    State("LAUNCH_FAILED") => "its start failed on a node",
        "submit it again; if it happens again, report the node to your site", STATES;
    State("REVOKED") => "another cluster of the federation runs it", "look for it there", STATES;
    State("TIMEOUT") => "it was still running at its time limit",
        "ask for more `--time`, or save checkpoints and let it be queued again (`gular job new --checkpoint`)", STATES;
    State("OUT_OF_MEMORY") => "it used more memory than it asked for, and was killed",
        "ask for more `--mem`, by what `gular job measure` says", STATES;
    State("NODE_FAIL") => "a node failed", "submit it again, or use `--requeue`", STATES;
    State("BOOT_FAIL") => "a node did not start", "submit it again", STATES;
    State("PREEMPTED") => "it was stopped for a job with a higher priority",
        "submit it again with `--requeue` and checkpoints", STATES;
    State("DEADLINE") => "it could not end before its `--deadline`", "give a later one", STATES;
    State("CANCELLED") => "somebody cancelled it with `scancel`, or a job that it waited for failed",
        "submit it again", STATES;

    Exit(1) => "the program ended with an error",
        "read the last lines of its standard error", SHELL;
    Exit(2) => "the program ended with exit code 2, by which many programs say that an option is wrong",
        "read its standard error; `gular job lint` knows the options of Python programs", SHELL;
    Exit(85) => "it saved a checkpoint and exited with 85, and nothing started it again",
        "write `checkpoint_exit_code = 85` (HTCondor), or queue it again: `scontrol requeue`", SHELL;
    Exit(126) => "a program is there, but cannot be executed",
        "run `chmod +x` on it, and look at its `#!` line", SHELL;
    Exit(127) => "a program was not found",
        "bring it with the job, or load the module or image that has it; its name is in the standard error", SHELL;
    Exit(132) => "it was stopped by an illegal instruction: the program is built for a newer processor",
        "ask for newer ones (HTCondor: `requirements = Microarch >= \"x86_64-v3\"`), or build it for older ones", SIGNALS;
    Exit(134) => "it aborted: a library found an error in itself or in its input", "read the last lines of its standard error", SIGNALS;
    Exit(135) => "it read a file through memory that was cut short or whose disk failed", "look whether another job changes the file", SIGNALS;
    Exit(137) => "it was killed (signal 9), most often since it used more memory than it may",
        "look at its memory with `gular job measure`, and ask for more", SIGNALS;
    Exit(139) => "it crashed in native code (signal 11)", "read the last lines of its standard error; often a library and its driver do not fit", SIGNALS;
    Exit(143) => "it was told to end (signal 15), by a time limit, an eviction or a person",
        "let it save at SIGTERM, and continue from there", SIGNALS;
    Signal => "it was stopped by a signal", "read the last lines of its standard error", SIGNALS;
}

/// Whether a pattern with `*` fits a whole text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    if !pattern.contains('*') {
        return rest.is_empty();
    }
    for part in parts {
        match rest.split_once(part).filter(|_| !part.is_empty()) {
            Some((_, behind)) => rest = behind,
            None if part.is_empty() => return true,
            None => return false,
        }
    }
    rest.is_empty()
}
