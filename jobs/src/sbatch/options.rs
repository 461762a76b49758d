//! Options of sbatch: sbatch(1) of Slurm 25.05, and what sbatch 22.05 says of each.

use super::forms::Form::{
    self, All, Any, Array, Beginning, Count, Dependency, Distribution, Gpus, Gres, Moment, Nodes,
    One, Output, Range, Signal, Size, Text, Time,
};

/// An option.
#[derive(Debug)]
pub(super) struct SbatchOption {
    pub(super) name: &'static str,
    pub(super) letter: Option<char>,
    pub(super) takes: Takes,
    pub(super) form: Form,
}

/// Whether a value follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// Behind `=` alone.
    Maybe,
    /// Behind `=`, or the next word.
    Value,
}
use Takes::{Maybe, Nothing, Value};

const fn option(
    name: &'static str,
    letter: Option<char>,
    takes: Takes,
    form: Form,
) -> SbatchOption {
    SbatchOption { name, letter, takes, form }
}

/// Types of mail; sbatch takes a list in which one of them is.
const MAIL: [&str; 13] = [
    "none",
    "array_tasks",
    "begin",
    "end",
    "fail",
    "requeue",
    "all",
    "invalid_depend",
    "stage_out",
    "time_limit",
    "time_limit_90",
    "time_limit_80",
    "time_limit_50",
];
const PROFILES: [&str; 7] = ["none", "all", "energy", "task", "filesystem", "lustre", "network"];

/// All options, in the order of their names.
pub(super) const OPTIONS: [SbatchOption; 114] = [
    option("account", Some('A'), Value, Text),
    option("acctg-freq", None, Value, Text),
    option("array", Some('a'), Value, Array),
    option("batch", None, Value, Text),
    option("bb", None, Value, Text),
    option("bbf", None, Value, Text),
    option("begin", Some('b'), Value, Moment),
    option("chdir", Some('D'), Value, Text),
    option("cluster", None, Value, Text),
    option("cluster-constraint", None, Value, Text),
    option("clusters", Some('M'), Value, Text),
    option("comment", None, Value, Text),
    option("consolidate-segments", None, Nothing, Text),
    option("constraint", Some('C'), Value, Text),
    option("container", None, Value, Text),
    option("container-id", None, Value, Text),
    option("contiguous", None, Nothing, Text),
    option("core-spec", Some('S'), Value, Text),
    option("cores-per-socket", None, Value, Range),
    option("cpu-freq", None, Value, Text),
    option("cpus-per-gpu", None, Value, Count),
    option("cpus-per-task", Some('c'), Value, Count),
    option("deadline", None, Value, Moment),
    option("delay-boot", None, Value, Text),
    option("dependency", Some('d'), Value, Dependency),
    option("distribution", Some('m'), Value, Distribution),
    option("error", Some('e'), Value, Output),
    option("exclude", Some('x'), Value, Text),
    option("exclusive", None, Maybe, One(&["user", "mcs", "topo", "exclusive", "oversubscribe"])),
    option("export", None, Value, Text),
    option("export-file", None, Value, Text),
    option("extra", None, Value, Text),
    option("extra-node-info", Some('B'), Value, Text),
    option("get-user-env", None, Maybe, Text),
    option("gid", None, Value, Text),
    option("gpu-bind", None, Value, Text),
    option("gpu-freq", None, Value, Text),
    option("gpus", Some('G'), Value, Gpus),
    option("gpus-per-node", None, Value, Gpus),
    option("gpus-per-socket", None, Value, Gpus),
    option("gpus-per-task", None, Value, Gpus),
    option("gres", None, Value, Gres),
    option("gres-flags", None, Value, Text),
    option("help", Some('h'), Nothing, Text),
    option(
        "hint",
        None,
        Value,
        All(&["compute_bound", "memory_bound", "multithread", "nomultithread"]),
    ),
    option("hold", Some('H'), Nothing, Text),
    option("ignore-pbs", None, Nothing, Text),
    option("input", Some('i'), Value, Text),
    option("job-name", Some('J'), Value, Text),
    option("kill-on-invalid-dep", None, Value, One(&["yes", "no"])),
    option("licenses", Some('L'), Value, Text),
    option("mail-type", None, Value, Any(&MAIL)),
    option("mail-user", None, Value, Text),
    option("mcs-label", None, Value, Text),
    option("mem", None, Value, Size),
    option("mem-bind", None, Value, Text),
    option("mem-per-cpu", None, Value, Size),
    option("mem-per-gpu", None, Value, Size),
    option("mincpus", None, Value, Count),
    option("network", None, Value, Text),
    option("nice", None, Maybe, Text),
    option("no-kill", Some('k'), Maybe, One(&["off", "no", "set"])),
    option("no-requeue", None, Nothing, Text),
    option("nodefile", Some('F'), Value, Text),
    option("nodelist", Some('w'), Value, Text),
    option("nodes", Some('N'), Value, Nodes),
    option("ntasks", Some('n'), Value, Count),
    option("ntasks-per-core", None, Value, Count),
    option("ntasks-per-gpu", None, Value, Count),
    option("ntasks-per-node", None, Value, Count),
    option("ntasks-per-socket", None, Value, Count),
    option("oom-kill-step", None, Maybe, Text),
    option("open-mode", None, Value, Beginning(&["a", "t"])),
    option("output", Some('o'), Value, Output),
    option("overcommit", Some('O'), Nothing, Text),
    option("oversubscribe", Some('s'), Nothing, Text),
    option("parsable", None, Nothing, Text),
    option("partition", Some('p'), Value, Text),
    option("power", None, Value, Text),
    option("prefer", None, Value, Text),
    option("priority", None, Value, Text),
    option("profile", None, Value, Any(&PROFILES)),
    option("propagate", None, Maybe, Text),
    option("qos", Some('q'), Value, Text),
    option("quiet", Some('Q'), Nothing, Text),
    option("reboot", None, Nothing, Text),
    option("requeue", None, Nothing, Text),
    option("reservation", None, Value, Text),
    option("resv-ports", None, Maybe, Text),
    option("segment", None, Value, Text),
    option("signal", None, Value, Signal),
    option("sockets-per-node", None, Value, Range),
    option("spread-job", None, Nothing, Text),
    option("spread-segments", None, Nothing, Text),
    option("stepmgr", None, Nothing, Text),
    option("switches", None, Value, Text),
    option("tasks", None, Value, Count),
    option("tasks-per-node", None, Value, Count),
    option("test-only", None, Nothing, Text),
    option("thread-spec", None, Value, Text),
    option("threads-per-core", None, Value, Range),
    option("time", Some('t'), Value, Time),
    option("time-min", None, Value, Time),
    option("tmp", None, Value, Size),
    option("tres-bind", None, Value, Text),
    option("tres-per-task", None, Value, Text),
    option("uid", None, Value, Text),
    option("use-min-nodes", None, Nothing, Text),
    option("verbose", Some('v'), Nothing, Text),
    option("version", Some('V'), Nothing, Text),
    option("wait", Some('W'), Nothing, Text),
    option("wait-all-nodes", None, Value, One(&["0", "1"])),
    option("wckey", None, Value, Text),
    option("wrap", None, Value, Text),
];

/// Options of widespread plug-ins: Shifter (shifter(1), "Slurm integration"), Pyxis (its README,
/// "Usage") and uenv (`sbatch --uenv`, docs.cscs.ch, "uenv").
pub(super) const PLUGINS: [&str; 17] = [
    "image",
    "module",
    "volume",
    "container-entrypoint",
    "container-env",
    "container-image",
    "container-mount-home",
    "container-mounts",
    "container-name",
    "container-readonly",
    "container-remap-root",
    "container-save",
    "container-workdir",
    "container-writable",
    "no-container-entrypoint",
    "uenv",
    "view",
];

/// The option with this long name.
pub(super) fn by_name(name: &str) -> Option<&'static SbatchOption> {
    OPTIONS.iter().find(|option| option.name == name)
}
