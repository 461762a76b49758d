//! All rules of `gular job lint`, with what each rests on.
//!
//! A rule's name may stand here more than once: `unit` is one thing for HTCondor and another for
//! Slurm. The list in docs/jobs.md and `gular job lint --explain` are made from this table.

use serde::Serialize;

use crate::severity::Severity;
use Severity::{Error, Note, Warning};

/// The kind of file that a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// HTCondor's submit files.
    Submit,
    /// DAGMan's files.
    Dag,
    /// Slurm's batch scripts.
    Sbatch,
    /// Shell scripts.
    Script,
    /// Python programs.
    Python,
}
use RuleKind::{Dag, Python, Sbatch, Script, Submit};

/// One rule.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The name in findings, and for `--allow`.
    pub name: &'static str,
    /// How serious its findings are.
    pub severity: Severity,
    /// What kind of file it is about.
    pub kind: RuleKind,
    /// What it finds.
    pub finds: &'static str,
    /// What happens if it is not repaired.
    pub why: &'static str,
    /// What to write instead; a finding may say it more exactly.
    pub fix: &'static str,
    /// What the rule rests on.
    pub source: &'static str,
    /// The versions for which the rule holds; empty for all.
    pub versions: &'static str,
}

macro_rules! rules {
    ($($id:ident = $kind:ident $severity:ident $name:literal
        finds $finds:literal why $why:literal fix $fix:literal source $source:ident
        $(versions $versions:literal)?;)*) => {
        $(pub(crate) static $id: Rule = Rule {
            name: $name, severity: $severity, kind: $kind, finds: $finds, why: $why, fix: $fix,
            source: $source, versions: concat!($($versions)?),
        };)*
        /// All rules, in the order of their list in docs/jobs.md.
        pub static RULES: &[&Rule] = &[$(&$id),*];
    };
}

const SUBMIT: &str = "HTCondor manual, condor_submit";
const MACROS: &str = "HTCondor manual, Submit file macros";
const TRANSFER: &str = "HTCondor manual, Submitting Jobs Without a Shared File System";
const CHECKPOINTS: &str = "HTCondor manual, Self-Checkpointing Applications";
const EXPRESSIONS: &str = "HTCondor manual, ClassAd expressions";
const GPUS: &str = "HTCondor manual, Jobs That Require GPUs";
const DAGMAN: &str = "HTCondor manual, DAGMan file commands; seen with 25.14";
const POOL: &str = "seen on a pool of HTCondor 25.14";
const SITES: &str = "guides of CHTC and the OSPool";
const CACHES: &str = "OSPool guide, Overview: Data Staging and Transfer to Jobs";
const SBATCH: &str = "Slurm manual, sbatch; seen with 22.05";
const SRUN: &str = "Slurm manual, srun";
const SHELL: &str = "POSIX, Shell Command Language";
const KERNEL: &str = "Linux manual, execve(2)";
const ARGPARSE: &str = "Python documentation, argparse";
const TORCH: &str = "PyTorch documentation, torch.utils.data and distributed";
const TRAINING: &str = "what a resumed run needs: docs/training.md";

rules! {
    UNKNOWN_COMMAND = Submit Warning "unknown-command"
        finds "a misspelt command: `requests_cpus`, `cpu`, `transfer_input_file`"
        why "the job is submitted without this setting; condor_submit only warns that the line was unused"
        fix "write the command's name" source SUBMIT;
    UNUSED_NAME = Submit Note "unknown-command"
        finds "a name that is not a command, and that no macro reads"
        why "the line has no effect; condor_submit warns that it was unused"
        fix "remove the line, or write `+` before the name if it is an attribute of your site" source SUBMIT;
    UNKNOWN_ATTRIBUTE = Submit Warning "unknown-attribute"
        finds "a misspelt attribute, such as `+IsResumable` instead of `+is_resumable`"
        why "any name is accepted: this one is set, but nothing reads it"
        fix "write the attribute's name" source SITES;
    UNDEFINED_MACRO = Submit Warning "undefined-macro"
        finds "`$(name)` that nothing sets"
        why "`$(…)` then becomes an empty text"
        fix "set it in this file, in `queue … from`, or in VARS of the DAG, or give it a default: `$(name:default)`" source MACROS;
    VARIABLE_AS_COMMAND = Submit Warning "command-as-variable"
        finds "a variable of `queue` that is also a command which the file sets"
        why "the variable's value takes the place of the command's: outputs are written elsewhere, or jobs are held"
        fix "give the variable another name" source POOL;
    SET_TWICE = Submit Note "set-twice"
        finds "a command that is set again further down"
        why "the last line counts, so this one has no effect"
        fix "keep one of the two lines" source SUBMIT;
    AFTER_QUEUE = Submit Warning "after-queue"
        finds "lines after the last `queue`"
        why "the jobs are made at `queue`, so this line has no effect"
        fix "move the line above `queue`" source SUBMIT;
    NOT_A_STATEMENT = Submit Error "not-a-statement"
        finds "a line that is neither `name = value` nor a statement"
        why "condor_submit refuses the file"
        fix "write `name = value`, or `#` before a comment" source SUBMIT;
    BAD_CONDITION = Submit Error "bad-condition"
        finds "an `if` that compares something, such as `if $(n) > 1`"
        why "condor_submit refuses the file: it knows only `true`, numbers, `defined NAME` and `version >= 9.0`"
        fix "set a macro to `true` or `false`, and write `if $(NAME)`" source SUBMIT;
    NO_ENDIF = Submit Error "no-endif"
        finds "an `if` without `endif`"
        why "the rest of the file belongs to this `if`"
        fix "add `endif`" source MACROS;
    STRAY_BRANCH = Submit Error "no-endif"
        finds "an `elif`, `else` or `endif` without its `if`"
        why "condor_submit refuses the file"
        fix "remove the line, or add the `if`" source MACROS;
    ELSE_IF = Submit Warning "else-if"
        finds "`else if …`, where `elif …` is meant"
        why "HTCondor reads `else` and ignores the condition"
        fix "write `elif`" source MACROS;
    OPEN_QUEUE = Submit Error "open-queue"
        finds "a list of `queue` whose closing bracket is not on a line of its own"
        why "condor_submit looks for the bracket up to the end of the file, and refuses it"
        fix "put the `)` on a line of its own" source SUBMIT;
    NO_QUEUE = Submit Warning "no-queue"
        finds "a file without `queue`"
        why "older versions make no job; newer ones make one"
        fix "end the file with `queue`" source POOL versions "one job is made by HTCondor 25.14";
    NO_EXECUTABLE = Submit Error "no-executable"
        finds "neither a program nor an image"
        why "condor_submit refuses the file"
        fix "set `executable`" source SUBMIT;
    COMMENT_IN_VALUE = Submit Error "comment-in-value"
        finds "`request_gpus = 1 # one`: submit files have no comments after values"
        why "the text after `#` becomes part of a number, a word or a file name"
        fix "move the comment to a line of its own" source SUBMIT;
    SWALLOWED_COMMAND = Submit Warning "swallowed-command"
        finds "the line above ends with a backslash, so this command became part of its value"
        why "the line becomes part of the other command's value, so its own name is not set"
        fix "remove the backslash from the line above" source SUBMIT;
    UNIT_BARE = Submit Warning "unit"
        finds "`request_memory = 16` is 16 MB, `request_disk = 30` is 30 KB"
        why "a job that uses more than it asked for is put on hold or stopped by most pools"
        fix "write the unit: KB, MB, GB or TB" source SUBMIT;
    UNIT_UNKNOWN = Submit Error "unit"
        finds "`16GiB`, `16 gigs`: not a size"
        why "condor_submit refuses the value, or reads it as an attribute that no machine has, so that the job never runs"
        fix "write a number and KB, MB, GB or TB" source SUBMIT;
    NO_REQUEST = Submit Note "no-request"
        finds "no memory, disk or cores are asked for"
        why "the pool's default is small; a job that uses more is put on hold or stopped by most pools"
        fix "set it to what a short run needed, plus 25 %" source SITES;
    BAD_NUMBER = Submit Error "bad-value"
        finds "a text where a number must be"
        why "condor_submit refuses it, or the job matches no machine"
        fix "write a whole number" source SUBMIT;
    BAD_FORM = Submit Error "bad-value"
        finds "a value of another form than the command takes: true or false, one word, a signal, `NAME=value`"
        why "condor_submit refuses the file"
        fix "write it as the manual shows" source SUBMIT;
    BAD_WORD = Submit Error "bad-value"
        finds "a value that the command does not have, or two that exclude each other"
        why "condor_submit refuses the file"
        fix "choose one of the values in the manual" source SUBMIT;
    BAD_TRUTH = Submit Warning "bad-value"
        finds "`transfer_executable` with a text that is neither true nor false"
        why "HTCondor takes the default"
        fix "write `true` or `false`" source SUBMIT;
    BAD_CAPABILITY = Submit Warning "bad-value"
        finds "`gpus_minimum_capability = 80`"
        why "it is compared with a number that no GPU has: the job matches no machine"
        fix "write a number such as 7.5 (GPU) or 12.4 (CUDA)" source GPUS;
    BAD_SITE_VALUE = Submit Warning "bad-value"
        finds "a value of a site's attribute that the site does not know"
        why "the site does not know this value"
        fix "choose one of the site's values" source SITES;
    OPEN_QUOTE = Submit Error "open-quote"
        finds "quotes that are not closed, or stand inside of a list without quotes"
        why "condor_submit refuses the file, or the program gets other words"
        fix "put one pair of double quotes around the whole value; inside, `'a b'` is one word, and `\"\"` is a quote" source SUBMIT;
    ENVIRONMENT_BARE = Submit Warning "environment-quotes"
        finds "`A=1 B=2` without quotes"
        why "all variables after the first become part of its value"
        fix "put the whole list in double quotes" source SUBMIT;
    ENVIRONMENT_SEMICOLONS = Submit Warning "environment-quotes"
        finds "`\"A=1;B=2\"` sets one variable. `\"CFG=lr=1;wd=2\"` is one variable, and is not reported"
        why "in quotes, variables are separated by spaces: the `;` and the text after it become part of the value before"
        fix "write spaces between the variables; a value that has a `;` goes into single quotes: `'A=1;B=2'`" source SUBMIT;
    ATTRIBUTE_QUOTES = Submit Warning "attribute-quotes"
        finds "`+ProjectName = mine`: a text without quotes"
        why "without quotes the text is the name of another attribute, which does not exist"
        fix "put it in double quotes" source EXPRESSIONS;
    BAD_EXPRESSION = Submit Error "bad-expression"
        finds "`requirements = (A = 8)`, `and` instead of `&&`, `Memory > 16GB`, brackets and quotes that are not closed"
        why "condor_submit refuses the file"
        fix "write it as an expression of ClassAds" source EXPRESSIONS;
    BARE_TEXT = Submit Warning "bad-expression"
        finds "`OpSys == LINUX` without double quotes"
        why "without double quotes it is the name of an attribute, which no machine has: the job matches none"
        fix "put it in double quotes" source EXPRESSIONS;
    GPUS_WITHOUT_REQUEST = Submit Warning "gpus-without-request"
        finds "`gpus_*` without `request_gpus`"
        why "it is ignored: the job gets no GPU"
        fix "add `request_gpus = 1`" source GPUS;
    OLD_GPU_ATTRIBUTE = Submit Warning "old-gpu-attribute"
        finds "`CUDADriverVersion` and others that new pools do not have, or a driver's number as `DriverVersion`"
        why "machines do not have this attribute, or it is the CUDA version that the driver supports, such as 12.4: the job matches fewer machines, or none"
        fix "write `gpus_minimum_runtime = …` with a CUDA version" source GPUS;
    MISSING_FILE = Submit Error "missing-file"
        finds "inputs, programs, images and lists of items that are not there"
        why "condor_submit refuses the file, or the job is put on hold when it starts"
        fix "give a file that exists" source TRANSFER;
    ELSEWHERE = Submit Note "missing-file"
        finds "paths of another machine: below a folder that this one does not have, such as `/staging`, and programs in `/usr` or `/opt`. Holds for DAGs and batch scripts, too"
        why "whether the file exists is known only where the job is submitted"
        fix "run `gular job lint` where you submit the job" source TRANSFER;
    WILDCARD = Submit Error "wildcard"
        finds "`*.csv` in a list of files to transfer"
        why "HTCondor looks for a file of this very name, and puts the job on hold"
        fix "name each file, or the folder that has them" source TRANSFER;
    MISSING_FOLDER = Submit Note "missing-folder"
        finds "folders of logs and remapped results that are not there"
        why "older versions do not make this folder: condor_submit refuses the file, or the job is put on hold when it ends"
        fix "make it before you submit the job" source POOL versions "before HTCondor 24.12.4";
    MISSING_INITIALDIR = Submit Error "missing-folder"
        finds "an `initialdir` that is not there"
        why "condor_submit refuses the file"
        fix "make the folder before you submit the job" source POOL;
    DISK_TOO_SMALL = Submit Error "disk-too-small"
        finds "`request_disk` is smaller than image and inputs together"
        why "inputs and image count as disk: the job is put on hold while it starts"
        fix "ask for more" source TRANSFER;
    DISK_FORGETS_INPUTS = Submit Note "disk-forgets-inputs"
        finds "a small `request_disk`, and an image or data from a URL"
        why "images with PyTorch take 3 to 10 GB, and data that is unpacked takes twice its size: if it does not fit, the job is put on hold while it starts"
        fix "ask for the sizes of the image, the data, the unpacked data and the output together" source SITES;
    EVICT_WITH_OUTPUTS = Submit Note "evict-with-outputs"
        finds "`ON_EXIT_OR_EVICT` with listed outputs"
        why "if the job is evicted while it writes a listed file, the unfinished file replaces the good one"
        fix "write ON_EXIT, and list the files that a restart needs in `transfer_checkpoint_files`" source CHECKPOINTS;
    CHECKPOINT_FILES = Submit Note "checkpoint-files"
        finds "a `checkpoint_exit_code`, but no `transfer_checkpoint_files`"
        why "at each checkpoint HTCondor then transfers the output files: a listed one that does not exist yet puts the job on hold"
        fix "list the files of the checkpoint: `transfer_checkpoint_files = …`" source CHECKPOINTS;
    CHECKPOINT_NOT_SENT = Submit Warning "checkpoint-not-sent"
        finds "`+SuccessCheckpointExitCode` alone, which does not save checkpoints"
        why "the program starts again, but on another machine it starts from the beginning"
        fix "write `checkpoint_exit_code`" source CHECKPOINTS;
    NEVER_CHECKPOINTS = Submit Warning "never-checkpoints"
        finds "no program of the job exits with the checkpoint's exit code"
        why "no checkpoint is ever saved: a job that is evicted starts from the beginning"
        fix "let the program save regularly and exit with that code, or remove `checkpoint_exit_code`" source CHECKPOINTS;
    WRONG_SCRIPT = Submit Warning "wrong-script"
        finds "a wrapper that calls a script that never exits with the checkpoint's exit code, beside one that does"
        why "no checkpoint is ever saved: a job that is evicted starts from the beginning"
        fix "call the other script" source CHECKPOINTS;
    NOT_BROUGHT = Submit Warning "not-brought"
        finds "a script that the wrapper calls, a Python module beside the program, or a file here that the program reads, is not among the inputs. With an image, the script may be inside it: then it is reported only if a file of the same name is on this machine, or if the name looks like a misspelt input"
        why "the job runs in a folder that has only its inputs: the file is not there"
        fix "add it to `transfer_input_files`" source TRANSFER;
    INPUT_PATH = Submit Warning "input-path"
        finds "`data/train.csv` in the arguments, the wrapper or a Python program, although the input is `train.csv` in the job's folder"
        why "inputs are put into the job's own folder, side by side: the path from here is not there"
        fix "write the name without its folder" source TRANSFER;
    HOME_PATH = Submit Note "home-path"
        finds "`/home/me/…` or `~/…` in the arguments or the wrapper"
        why "the job runs on another machine, in a folder of its own, where your home may not be"
        fix "list what is needed in `transfer_input_files`, and name it without its folder" source TRANSFER;
    HEADER_AS_JOB = Submit Warning "header-as-job"
        finds "a list of items (`queue … from FILE`) that begins with a line of column names"
        why "HTCondor makes a job of every line: the first one gets the names for values"
        fix "remove the line" source SUBMIT;
    INPUTS_COLLIDE = Submit Warning "inputs-collide"
        finds "`a/labels.csv, b/labels.csv`: two inputs with one name in the job's folder"
        why "inputs are put side by side into the job's folder: one replaces the other"
        fix "rename one, bring the folders themselves, or set `preserve_relative_paths = true`" source TRANSFER;
    OUTPUT_NEVER_MADE = Submit Warning "output-never-made"
        finds "a listed output or checkpoint that no program names"
        why "a listed output that does not exist puts the job on hold when it is done, and a listed checkpoint when it saves"
        fix "list the files that the program writes, with their names in the job's folder" source TRANSFER;
    FOLDER_NOT_SENT = Submit Warning "folder-not-sent"
        finds "a folder of results, and no `transfer_output_files`"
        why "without `transfer_output_files` HTCondor brings back new files of the job's own folder, and no folders: what is in it is lost"
        fix "list the folder in `transfer_output_files`" source TRANSFER;
    UNQUOTED_REMAPS = Submit Warning "unquoted-remaps"
        finds "remaps without quotes around the list"
        why "the manual asks for one pair of quotes around the whole list; without them, older versions refuse or cut the list"
        fix "put the whole list in double quotes" source SUBMIT versions "HTCondor 24.12 accepts it";
    BAD_REMAP = Submit Warning "bad-remap"
        finds "remaps that are separated by commas instead of `;`, have no `=`, or name folders or files that are not listed as outputs"
        why "the remap has no effect: only files in the list of outputs are remapped, and `;` is between two remaps"
        fix "write `name = new name`, and `;` between two" source TRANSFER;
    OUTPUTS_COLLIDE = Submit Error "outputs-collide"
        finds "several jobs, or nodes of a DAG, that bring back a file of one name"
        why "the files have the same name: those of the last job replace all others"
        fix "give each job's file a name of its own" source TRANSFER;
    STDOUT_COLLIDES = Submit Error "stdout-collides"
        finds "several jobs, or nodes of a DAG, that print to one file"
        why "each job overwrites what the job before wrote"
        fix "put `$(Process)` into the name" source SUBMIT;
    PLACEHOLDER = Submit Warning "placeholder"
        finds "a place of a template that nobody filled in: `osdf:///chtc/staging/<NetID>/a.sif`"
        why "there is no such file: the job is put on hold when it starts"
        fix "write your own name there" source TRANSFER;
    STALE_IMAGE = Submit Note "stale-name"
        finds "an image without a tag, or with `latest`"
        why "machines keep the image that they once fetched under this name: after a change, some jobs run the old image and some the new one"
        fix "give the image a tag of its own, such as `:v3`, or use its digest" source SITES;
    STALE_NAME = Submit Note "stale-name"
        finds "a published name without a version"
        why "caches know a file only by its name, and do not notice changes: after an update, jobs get the old file, or parts of both"
        fix "put a version or a digest into the name, and never change a published file" source CACHES;
    PELICAN_SCHEME = Submit Note "pelican-scheme"
        finds "a URL that begins with `pelican://osg-htc.org/`"
        why "the job needs a machine with the `pelican` plug-in; `osdf` is another name for the same plug-in, which more machines have"
        fix "write `osdf:///` in its place" source CACHES;
    UNKNOWN_DAG_COMMAND = Dag Error "unknown-dag-command"
        finds "a line that does not begin with a command of DAGMan"
        why "condor_submit_dag refuses the file"
        fix "write one of JOB, PARENT, VARS, RETRY, SCRIPT …" source DAGMAN;
    BAD_DAG_LINE = Dag Error "bad-dag-line"
        finds "a command that lacks something, or has too much"
        why "condor_submit_dag may accept it; DAGMan then ends at once with exit code 1"
        fix "complete the line" source DAGMAN;
    NODE_TWICE = Dag Error "node-twice"
        finds "two nodes of one name"
        why "condor_submit_dag may accept it; DAGMan then ends at once with exit code 1"
        fix "give the node another name" source DAGMAN;
    BAD_NODE_NAME = Dag Error "bad-node-name"
        finds "a node's name with `+`, or the words PARENT, CHILD and ALL_NODES as names"
        why "DAGMan refuses it: `+` separates the names of splices, and the words are its own"
        fix "use letters, digits, `-` and `_`" source DAGMAN;
    UNKNOWN_NODE = Dag Error "unknown-node"
        finds "a name that no node has"
        why "condor_submit_dag accepts it, and DAGMan refuses the file when it runs"
        fix "write the name of a node from a JOB line" source DAGMAN;
    CYCLE = Dag Error "cycle"
        finds "nodes that wait for each other"
        why "none of these nodes can ever start; condor_submit_dag accepts the file, and DAGMan refuses it"
        fix "remove one of the PARENT lines" source DAGMAN;
    BAD_PARENT = Dag Error "bad-parent"
        finds "FINAL, SERVICE or PROVISIONER nodes in PARENT lines"
        why "such a node does not take part in the order: DAGMan ends at once with exit code 1"
        fix "remove the node from this line" source DAGMAN;
    UNKNOWN_CATEGORY = Dag Note "unknown-category"
        finds "MAXJOBS for a category that no node has"
        why "the limit has no effect"
        fix "add `CATEGORY node name` lines" source DAGMAN;
    NEW_DAG_COMMAND = Dag Note "new-dag-command"
        finds "commands that only new versions know"
        why "older access points refuse the file"
        fix "leave out this command" source DAGMAN versions "before HTCondor 25";
    REJECTED_DAG = Dag Error "rejected-dag"
        finds "REJECT, with which DAGMan marks a file that it wrote although it could not read all of the DAG"
        why "DAGMan exits before it runs a node"
        fix "correct the DAG that this file was written from, or remove the line if this file is whole" source DAGMAN;
    INCLUDE_DEPTH = Dag Error "include-depth"
        finds "files that include each other"
        why "condor_submit_dag refuses it"
        fix "include each file only once" source DAGMAN;
    MISSING_DAG_FILE = Dag Error "missing-file"
        finds "submit files, scripts and DAG files that are not there"
        why "DAGMan fails when it reaches this node, perhaps hours after the DAG was submitted"
        fix "give a file that exists" source DAGMAN;
    NOT_EXECUTABLE = Dag Error "not-executable"
        finds "a script that DAGMan is to start, and cannot"
        why "DAGMan starts it as it is, and the node fails"
        fix "`chmod +x` it; its first line says what runs it, such as `#!/usr/bin/env python3`" source DAGMAN;
    SBATCH_COMMENT = Sbatch Warning "sbatch-comment"
        finds "`# SBATCH` in place of `#SBATCH`"
        why "sbatch reads only lines that begin with `#SBATCH `: the option has no effect"
        fix "write `#SBATCH ` at the beginning of the line, or `##SBATCH` if it is meant as a comment" source SBATCH;
    SBATCH_LATE = Sbatch Warning "sbatch-late"
        finds "options after the first command"
        why "sbatch stops reading options at the first command, so this option has no effect"
        fix "move the line above all commands" source SBATCH;
    SBATCH_MISSPELT = Sbatch Error "sbatch-option"
        finds "options that are misspelt, or stand for several: `--cpu-per-task`, `--gpu`"
        why "sbatch refuses the script"
        fix "write the option's name" source SBATCH;
    SBATCH_OPTION = Sbatch Warning "sbatch-option"
        finds "options that sbatch does not have"
        why "sbatch refuses the script, unless a plug-in of the site adds this option"
        fix "see `man sbatch`" source SBATCH;
    SBATCH_WORD = Sbatch Error "sbatch-option"
        finds "a word that belongs to no option"
        why "sbatch refuses the script; old versions ignore this word and all after it"
        fix "write `--option=value`, and quotes around a value with spaces" source SBATCH;
    SBATCH_VARIABLE = Sbatch Warning "sbatch-variable"
        finds "a variable such as `$HOME` in an `#SBATCH` line"
        why "no shell expands `#SBATCH` lines: the text is taken literally, such as a folder named `$HOME`"
        fix "write the value itself; use %x (name), %j (job) or %a (array); or give the option to the command `sbatch`" source SBATCH;
    ARRAY_UNUSED = Sbatch Warning "array-unused"
        finds "an array whose script never looks at its number"
        why "all jobs of the array do the same work and write the same files, unless a program reads SLURM_ARRAY_TASK_ID itself"
        fix "choose the parameters and the names of outputs by `$SLURM_ARRAY_TASK_ID`" source SBATCH;
    ARRAY_STDOUT = Sbatch Error "stdout-collides"
        finds "an array whose jobs all print to one file"
        why "each overwrites what the others wrote"
        fix "put `%a` into the name" source SBATCH;
    SIGNAL_TO_SHELL = Sbatch Warning "signal-unheard"
        finds "the signal of `--signal` goes to a shell that has no trap"
        why "the signal ends the shell before the program can save"
        fix "leave out `B:` to send the signal to the srun step, or add a `trap`" source SBATCH;
    SIGNAL_TO_STEPS = Sbatch Warning "signal-unheard"
        finds "the signal of `--signal` goes to job steps, but the script starts none with `srun`"
        why "no process gets the signal: the program is killed at the time limit"
        fix "start the program with `srun`" source SBATCH;
    REQUEUE_TRUNCATES = Sbatch Note "requeue-truncates"
        finds "a job that is queued again and empties its log"
        why "the output of earlier runs is lost, including the reason of a failure, unless the site appends"
        fix "add `#SBATCH --open-mode=append`" source SBATCH;
    REQUEUE_FORBIDDEN = Sbatch Error "requeue-forbidden"
        finds "`--no-requeue`, and `scontrol requeue`"
        why "Slurm refuses to requeue the job"
        fix "remove `--no-requeue`" source SBATCH;
    SRUN_CPUS = Sbatch Note "srun-cpus"
        finds "`--cpus-per-task` that `srun` does not take over"
        why "each task gets one core: threads that decode images share it, and training is many times slower"
        fix "run `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK` before `srun`" source SRUN versions "Slurm 22.05 and 23.02";
    NO_MASTER_ADDR = Sbatch Warning "no-master-addr"
        finds "several processes without an address where they meet, or on several nodes with `localhost` or `--standalone`"
        why "each process waits for MASTER_ADDR and MASTER_PORT, or trains alone"
        fix "add `export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))`" source TORCH;
    RANK_TOO_EARLY = Sbatch Warning "rank-too-early"
        finds "a rank that the batch shell replaces: `srun … --node_rank $SLURM_NODEID`, or `$SLURM_PROCID`, `$SLURM_LOCALID`; `export RANK=$SLURM_PROCID`"
        why "the batch shell replaces the variable before srun starts the tasks: all of them get rank 0"
        fix "let each task's own shell replace it: `srun bash -c '… $SLURM_PROCID …'`" source SRUN;
    LAUNCHER_PER_TASK = Sbatch Warning "launcher-per-task"
        finds "`srun torchrun --nproc-per-node=4` with several tasks per node"
        why "srun starts the launcher once for each task, and each starts a process for every GPU: several processes share a GPU, or they wait for each other until they give up"
        fix "ask for one task per node: `--ntasks-per-node=1`; or leave out the launcher, so that each task is one process" source SRUN;
    IDLE_NODES = Sbatch Warning "idle-nodes"
        finds "several nodes, and a program that is not started with `srun`"
        why "only `srun` starts programs on the other nodes: they are idle, and their hours are charged"
        fix "write `srun` before it, or ask for one node" source SRUN;
    NO_WAIT = Sbatch Error "no-wait"
        finds "a program in the background (`&`) that the script does not wait for"
        why "the job ends with its script, and Slurm kills what still runs"
        fix "remove the `&`, or write `wait` at the end" source SBATCH;
    UNIT_SMALL = Sbatch Warning "unit"
        finds "`--mem=16` is 16 MB"
        why "the job is killed as soon as it uses more"
        fix "write the unit: G for GB" source SBATCH;
    UNIT_REFUSED = Sbatch Error "unit"
        finds "`--mem=16GiB`, `--time=1h`"
        why "sbatch refuses the script"
        fix "write a whole number and K, M, G or T for sizes; minutes, H:MM:SS or D-HH:MM:SS for times" source SBATCH;
    UNIT_SECONDS = Sbatch Warning "unit"
        finds "`--time=2:00` is two minutes"
        why "Slurm reads two numbers as minutes and seconds, not as hours and minutes"
        fix "write three numbers" source SBATCH;
    UNIT_MINUTES = Sbatch Note "unit"
        finds "`--time=24` is 24 minutes"
        why "Slurm stops the job after that time"
        fix "write hours, minutes and seconds" source SBATCH;
    BAD_OPTION_VALUE = Sbatch Error "bad-value"
        finds "`--gres=gpu=4`, `--array=1..16` and other values that sbatch refuses"
        why "sbatch refuses the script"
        fix "write a value that sbatch takes" source SBATCH;
    OPTION_NEEDS = Sbatch Warning "bad-value"
        finds "`--gpus-per-task` and other options that need another one"
        why "sbatch refuses the script, unless its command line has the other option"
        fix "add the other option" source SBATCH;
    OPTIONS_EXCLUDE = Sbatch Error "bad-value"
        finds "`--mem` with `--mem-per-cpu`, fewer GPUs than nodes, and other options that exclude each other"
        why "sbatch refuses the script"
        fix "remove one of them" source SBATCH;
    NO_TIME = Sbatch Note "no-request"
        finds "no `--time`"
        why "the partition's default applies: often an hour or less, or the maximum, which waits longest"
        fix "set `--time`, and let the program save before that time" source SBATCH;
    MISSING_PROGRAM = Sbatch Warning "missing-file"
        finds "programs and images that are not there"
        why "the job fails as soon as it starts"
        fix "give a file that exists; paths are relative to the folder where `sbatch` is called" source SBATCH;
    MISSING_LOG_FOLDER = Sbatch Warning "missing-folder"
        finds "a folder for the output that is not there"
        why "Slurm makes no folders: the job fails at once, with no output that says why"
        fix "make it before you submit the job" source SBATCH;
    NOT_SBATCH = Sbatch Error "no-shebang"
        finds "a batch script that does not begin with `#!`"
        why "sbatch refuses it: `This does not look like a batch script`"
        fix "begin it with `#!/bin/bash`" source SBATCH;
    BACKSLASH_SPACE = Script Error "backslash-space"
        finds "a space behind the backslash at the end of a line, and an option in the next"
        why "the shell ends the command here, and runs the options in the next line as a command of their own: they are lost"
        fix "remove the space, so that the backslash is the line's last character" source SHELL;
    NO_CONTINUATION = Script Error "no-continuation"
        finds "an option that became a command of its own"
        why "the program above runs without these options, and the exit code says that a command does not exist"
        fix "end the line above with ` \\`; neither a comment nor an empty line may be between the lines" source SHELL;
    SPACED_ASSIGNMENT = Script Warning "spaced-assignment"
        finds "`NAME = value`, with spaces around the `=`"
        why "the shell looks for a program of this name, and the variable stays as it was"
        fix "write `NAME=value`" source SHELL;
    EXIT_CODE_LOST = Script Note "exit-code-lost"
        finds "a command or a pipe after the program hides its exit code"
        why "the job counts as successful although the program failed"
        fix "write `set -e` at the top, or `code=$?` behind the program and `exit $code` at the end" source SHELL;
    CHECKPOINT_CODE_LOST = Script Error "exit-code-lost"
        finds "the same in a job with a `checkpoint_exit_code`"
        why "the job does not exit with the checkpoint's code, so a checkpoint counts as the end of the job"
        fix "write `set -e` at the top, or `code=$?` behind the program and `exit $code` at the end" source CHECKPOINTS;
    RESTART_MKDIR = Script Warning "restart-mkdir"
        finds "`mkdir` of a folder that a restart finds there, as after exit code 85"
        why "after a checkpoint the script runs again in the same folder, where the first run made this folder"
        fix "use `mkdir -p`" source CHECKPOINTS;
    RESTART_RM = Script Warning "restart-rm"
        finds "an input that the script removes, and that a restart misses"
        why "after a checkpoint the script runs again in the same folder, but inputs are not transferred again"
        fix "keep the input: HTCondor removes the job's folder in the end; or unpack it only if the result does not exist yet" source CHECKPOINTS;
    NO_SHEBANG = Script Error "no-shebang"
        finds "a program of a job that does not begin with `#!`"
        why "HTCondor starts it as it is, and nothing says what runs it: `Exec format error`"
        fix "begin it with `#!/bin/bash`, or with `#!/usr/bin/env python3`" source KERNEL;
    WINDOWS_LINES = Script Error "windows-lines"
        finds "Windows line ends in the first line"
        why "the kernel looks for a program whose name ends in CR: `bad interpreter`, and the job fails at once"
        fix "save it with Unix line ends, or run `dos2unix`" source KERNEL;
    NOT_UNDERSTOOD = Script Error "not-judged"
        finds "a script that Gular does not understand, with the line at which it stopped reading"
        why "the shell probably stops there too; no other rule was applied to this script"
        fix "run `bash -n` on it, which names what is missing; if it finds nothing, read the script yourself and give `--allow not-judged`" source SHELL;
    OTHER_LANGUAGE = Script Note "not-judged"
        finds "a program in a language that Gular does not read, such as Perl or R"
        why "no rule was applied to this program"
        fix "read it yourself" source KERNEL;
    UNKNOWN_OPTION = Python Warning "unknown-option"
        finds "an option in the job that the program's argparse does not know"
        why "the program prints its usage and ends with exit code 2, in every job"
        fix "write an option that the program has" source ARGPARSE;
    OPTION_TWICE = Python Warning "option-twice"
        finds "a program that defines the same short option, such as `-b`, for two settings"
        why "only one of the two settings can be given with this option, or the program refuses to start"
        fix "give one of the two options another letter, or only its long name" source ARGPARSE;
    UNSEEDED_SPLIT = Python Warning "unseeded-split"
        finds "a split into training and test that is drawn again each time the program starts"
        why "each start makes a different split: a resumed run trains on images that it tested on before, so the accuracy looks too good"
        fix "draw it with a seed" source TRAINING;
    LABEL_IN_PATH = Python Warning "label-in-path"
        finds "a label taken from a word anywhere in the path, as by `if \"cat\" in path`: a folder's name may contain that word too"
        why "a folder above the images, such as a user's name or the job's scratch folder, changes every label"
        fix "use only the file's own name or its folder: `Path(path).name`, `Path(path).parent.name`" source TRAINING;
    NO_SHUFFLE = Python Note "no-shuffle"
        finds "training data in the order of its files"
        why "batches contain one class after another, always in the same order, and the training gets worse"
        fix "add `shuffle=True`" source TORCH;
    EXIT_BEFORE_TEST = Python Warning "exit-before-test"
        finds "a loop over epochs that saves and exits before it evaluates the epoch on the test data"
        why "epochs that save a checkpoint are never tested, and neither is the last epoch"
        fix "test first, then save and exit" source TRAINING;
    SAVE_NOT_ATOMIC = Python Warning "save-not-atomic"
        finds "a checkpoint that can be half-written"
        why "a job that is stopped while it writes leaves half a file, and both checkpoints are lost"
        fix "save to `path + \".tmp\"`, then `os.replace(path + \".tmp\", path)`" source TRAINING;
    STATE_INCOMPLETE = Python Note "state-incomplete"
        finds "a checkpoint that does not hold random state and position"
        why "a resumed run sees different samples than an uninterrupted one: some twice, some never"
        fix "save `torch.get_rng_state()`, `random.getstate()`, epoch and batch with the model, or the loader's `state_dict()`" source TRAINING;
}

/// The rules of one name.
pub fn explain(name: &str) -> impl Iterator<Item = &'static Rule> + use<'_> {
    RULES.iter().copied().filter(move |rule| rule.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;
    use std::{env, fs, path};

    use super::*;

    /// The lists of docs/jobs.md.
    fn page() -> String {
        let headings = [
            (Submit, "Submit files"),
            (Dag, "DAGs"),
            (Sbatch, "sbatch scripts"),
            (Script, "Wrapper scripts"),
            (Python, "Python programs"),
        ];
        let mut text = String::new();
        for (kind, heading) in headings {
            let _ = write!(
                text,
                "### {heading}\n\n| rule | severity | what it finds |\n|---|---|---|\n"
            );
            for rule in RULES.iter().filter(|rule| rule.kind == kind) {
                let versions = match rule.versions {
                    "" => String::new(),
                    versions => format!(" ({versions})"),
                };
                let severity = format!("{:?}", rule.severity).to_lowercase();
                let _ =
                    writeln!(text, "| `{}` | {severity} | {}{versions} |", rule.name, rule.finds);
            }
            text.push('\n');
        }
        text
    }

    #[test]
    fn the_list_in_the_docs_is_this_table() {
        let path = path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/jobs.md");
        let docs = fs::read_to_string(&path).expect("the page is there");
        let (head, rest) = docs.split_once("### Submit files\n").expect("the lists begin");
        let (_, tail) = rest.split_once("Scripts are read").expect("the lists end");
        let right = format!("{head}{}Scripts are read{tail}", page());
        if env::var_os("GULAR_BLESS").is_some() {
            fs::write(&path, &right).expect("the page can be written");
        } else {
            assert!(docs == right, "GULAR_BLESS=1 cargo test -p gular-jobs rules writes the lists");
        }
    }

    #[test]
    fn each_rule_is_whole() {
        let mut seen = BTreeMap::new();
        for rule in RULES {
            for text in [rule.finds, rule.why, rule.fix, rule.source] {
                assert!(text.len() > 5 && !text.ends_with('.'), "{rule:?}");
            }
            assert_eq!(seen.insert((rule.kind, rule.name, rule.finds), ()), None, "{rule:?}");
        }
        assert_eq!(explain("unit").count(), 6);
        assert_eq!(explain("none").count(), 0);
    }
}
