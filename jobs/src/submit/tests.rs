//! Whole submit files: right ones, of which nothing is said, and wrong ones.

use crate::disk::tests::Files;
use crate::lint::lint_text;
use crate::repair;
use crate::severity::Severity;
use proptest::prelude::*;

const REQUESTS: &str =
    "request_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nexecutable = a.sh\n";

fn disk() -> Files {
    Files::of(&[
        ("a.sh", "#!/bin/sh\ntrue\n"),
        ("d/a.sh", "#!/bin/sh\ntrue\n"),
        ("one/data/a", ""),
        ("two/data/b", ""),
        ("list.txt", "a\nb\n"),
    ])
}

/// `rule severity` of what is said of a file with these lines.
fn said(lines: &str) -> Vec<String> {
    let text = format!("{REQUESTS}{lines}");
    let found = lint_text("x.sub", &text, &disk());
    found.iter().map(|f| format!("{} {:?}", f.rule, f.severity).to_lowercase()).collect()
}

#[test]
fn nothing_is_said_of_right_files_and_nothing_is_repaired() {
    for lines in [
        "RequestMemory = 2GB\nWhenToTransferOutput = ON_EXIT\nOnExitRemove = true\nqueue",
        "box_oauth_permissions = read\nweb_container_port = 80\nremote_universe = vanilla\nqueue",
        "include ifexist : file\nqueue",
        "include : ./make.sh |\nqueue",
        "@include ifexist : base.inc\nqueue",
        "if $(gpu)\nrequest_gpus = 1\nrequire_gpus = Capability >= 8\nelse\nrequest_gpus = 0\nendif\ngpu = true\nqueue",
        "environment = FILTER=a|b\nqueue",
        "file = /data/a.txt\n+Input = $Fq(file)\nqueue",
        "if $CHOICE(0, true, false)\nendif\nqueue",
        "if defined use FEATURE:GPUs\nendif\nqueue",
        "if ! defined X\n  error : X is not set\nendif\nqueue",
        "should_transfer_files = ALWAYS\nqueue",
        "request_gpus = undefined\nqueue",
        "output = a.out\nqueue\noutput = b.out\nqueue",
        "universe = container\ncontainer_image = /cvmfs/a/b/c-1.2.sif\nqueue",
        "transfer_input_files = one/data, two/data\nqueue",
        "environment = \"A=1 \\\nLOG=x\"\nqueue",
        "environment = OPTIONS=--lr=1 --seed=2\nqueue",
        "arguments = --colour #fff\nqueue",
        "arguments = a \\ \n  b\nqueue",
        "queue arguments from list.txt",
        "queue x in (\na b\n)",
    ] {
        let text = format!("{REQUESTS}{lines}\n");
        let found: Vec<_> = said(lines).into_iter().filter(|f| f != "set-twice note").collect();
        assert_eq!(found, [""; 0], "{lines}");
        let all = lint_text("x.sub", &text, &disk());
        let edits: Vec<_> = all.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        assert_eq!(repair("x.sub", &text, &edits), text, "{lines}");
    }
}

#[test]
fn what_the_tools_refuse_is_an_error_and_the_rest_is_not() {
    let check = |lines: &str, expected: &str| assert_eq!(said(lines), [expected], "{lines}");
    check("initialdir = none\nqueue", "missing-folder error");
    check("output = none/a.out\nqueue", "missing-folder note");
    check("queue x in (a b\n c)", "open-queue error");
    check("queue x in (a b", "open-queue error");
    check("output = a\nqueue output in (b c)", "command-as-variable warning");
    check("transfer_input_files = osdf:///chtc/<NetID>/a-v1.csv\nqueue", "placeholder warning");
    check("requests_gpus = 1\nqueue", "unknown-command warning");
    check("colour = red\nqueue", "unknown-command note");
    check("arguments = $(lr)\nqueue", "undefined-macro warning");
    check("log = a.log", "no-queue warning");
    check("request_gpus = 1 # one\nqueue", "comment-in-value error");
    check("request_gpus = 2 cores\nqueue", "bad-expression error");
    check("hold = yes\nqueue", "bad-value error");
    check("priority = high\nqueue", "bad-value error");
    check("+Kind = a b\nqueue", "bad-expression error");
    check("universe = docker\nqueue", "bad-value error");
    check("queue = 1", "not-a-statement error");
    check("My-Attr = 1\nqueue", "not-a-statement error");
    check("environment = \"A\"\nqueue", "bad-value error");
    check("include : none.sub\nqueue", "missing-file error");
    check("output : o.txt\nqueue", "not-a-statement error");
    check("accounting_group = a b\nqueue", "bad-value error");
}

#[test]
fn one_finding_names_all_requests_that_are_missing() {
    let found = lint_text("x.sub", "executable = a.sh\nqueue\n", &disk());
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.rule, finding.severity), ("no-request", Severity::Note));
    assert!(finding.what.contains("request_memory") && finding.what.contains("request_cpus"));
}

#[test]
fn a_request_with_a_unit_is_compared_with_the_inputs_however_small_it_is() {
    let big = "x".repeat(3 << 20);
    let text = "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 2 MB\ntransfer_input_files = big\nqueue\n";
    let found =
        lint_text("x.sub", text, &Files::of(&[("a.sh", "#!/bin/sh\ntrue\n"), ("big", &big)]));
    assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), ["disk-too-small"]);
}

#[test]
fn options_of_the_users_program_are_looked_up_in_it() {
    let train = "#!/usr/bin/env python3\nimport argparse\np = argparse.ArgumentParser()\np.add_argument('--lr')\np.parse_args()\n";
    let said = |arguments: &str, run: &str| {
        let text = format!(
            "{}transfer_input_files = train.py\narguments = {arguments}\nqueue\n",
            REQUESTS.replace("a.sh", "run.sh")
        );
        let files = [("run.sh", run), ("train.py", train)];
        let found = lint_text("x.sub", &text, &Files::of(&files));
        found.into_iter().map(|f| format!("{} {}:{}", f.rule, f.file, f.line)).collect::<Vec<_>>()
    };
    let run = "#!/bin/sh\npython3 train.py --lr 1\n";
    assert_eq!(said("--learning-rate 1", run), [""; 0]);
    let passes = "#!/bin/sh\npython3 train.py \"$@\"\n";
    assert_eq!(said("--learning-rate 1", passes), ["unknown-option x.sub:6"]);
    assert_eq!(said("--lr 1", passes), [""; 0]);
    let shifts = passes.replace("python3", "shift\npython3");
    assert_eq!(said("--learning-rate 1", &shifts), [""; 0]);
    let wrong = run.replace("--lr", "--rate");
    assert_eq!(said("", &wrong), ["unknown-option run.sh:2"]);
}

#[test]
fn what_only_a_shell_expands_and_what_no_kernel_starts_is_found() {
    let check = |lines: &str, program: &str, expected: &[(&str, &str)]| {
        let text = format!("{REQUESTS}{lines}queue\n").replace("a.sh", "a.py");
        let files = Files::of(&[("a.py", program), ("a.csv", "")]);
        let found = lint_text("x.sub", &text, &files);
        let rules: Vec<_> = found.iter().map(|f| (f.rule, f.file.as_str())).collect();
        assert_eq!(rules, expected, "{text}");
    };
    let right = "#!/usr/bin/env python3\nopen('b.csv', 'w')\n";
    check("transfer_input_files = *.csv\n", right, &[("wildcard", "x.sub")]);
    check("transfer_output_files = b*\n", right, &[("wildcard", "x.sub")]);
    check("transfer_input_files = osdf:///a/v1/*\n", right, &[]);
    let windows = right.replace('\n', "\r\n");
    check("", &windows, &[("windows-lines", "a.py")]);
}

#[test]
fn branches_are_read_as_htcondor_reads_them() {
    let check = |lines: &str, expected: &[(&str, usize)], repaired: &str| {
        let head =
            "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n";
        let text = format!("{head}{lines}queue\n");
        let disk = Files::of(&[("a.sh", "#!/bin/sh\ntrue\n")]);
        let found = lint_text("x.sub", &text, &disk);
        let rules: Vec<_> = found.iter().map(|f| (f.rule, f.line - 4)).collect();
        assert_eq!(rules, expected, "{text}");
        let edits: Vec<_> = found.iter().filter_map(|f| f.edit.as_ref()).collect();
        assert!(repair("x.sub", &text, &edits).contains(repaired), "{text}");
    };
    let given = "if defined lr\n  arguments = --lr $(lr)\nelse\n  arguments = --lr 0.1\nendif\n";
    check(given, &[], given);
    check(&given.replace("if defined lr", "if ! defined LR"), &[], "LR");
    check(&given.replace("$(lr)", "$(rate)"), &[("undefined-macro", 2)], "rate");
    let either = given.replace("else\n", "  else if $(x:1)\n");
    check(&either, &[("else-if", 3)], "\n  elif $(x:1)\n");
    check("endif\n", &[("no-endif", 1)], "endif");
}

#[test]
fn a_line_that_adds_to_a_command_does_not_replace_it() {
    for more in ["arguments += b", "arguments +,= b", "arguments = $(arguments) b"] {
        assert_eq!(said(&format!("arguments = a\n{more}\nqueue")), [""; 0], "{more}");
    }
    let again = "arguments = a\narguments += b\narguments = c\nqueue";
    assert_eq!(said(again), ["set-twice note", "set-twice note"]);
    // Its own name in a value is not what reads it.
    assert_eq!(
        said("own = 1\nown = $(own) 2\nqueue"),
        ["unknown-command note", "unknown-command note"]
    );
}

/// The text after as many repairs as there are.
fn repaired(text: &str, disk: &Files) -> String {
    let mut text = text.to_owned();
    for _ in 0..20 {
        let found = lint_text("x.sub", &text, disk);
        let edits: Vec<_> = found.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        let better = repair("x.sub", &text, &edits);
        if better == text {
            break;
        }
        text = better;
    }
    text
}

const BEGINNINGS: [&str; 12] = [
    "arguments = ",
    "arguments += ",
    "arguments +,= ",
    "arguments = $(arguments) ",
    "arguments = $(Arguments:x) ",
    "arguments @=e\n",
    "environment = ",
    "environment +;= ",
    "output = ",
    "output += ",
    "request_disk += ",
    "transfer_input_files +,= ",
];

const VALUES: [&str; 12] = [
    "data/train.csv",
    "one/data --x=data/x.csv",
    "A=1 B=2",
    "\"A=1;B=2\"",
    "out.txt",
    "5 g",
    "1GB # much",
    "data/train.csv, data/x.csv",
    "$(Process)",
    "a \\\n  data/x.csv",
    "data/x.csv\n@e",
    "",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_file_whose_values_grow_is_repaired_once(
        lines in proptest::collection::vec((0..BEGINNINGS.len(), 0..VALUES.len()), 1..8)
    ) {
        let mut text =
            format!("{REQUESTS}transfer_input_files = data/train.csv, data/x.csv\n");
        for &(name, value) in &lines {
            text.extend([BEGINNINGS[name], VALUES[value], "\n"]);
        }
        text.push_str("queue 3\n");
        let mut disk = disk();
        disk.0.extend(["data/train.csv", "data/x.csv"].map(|path| (path.to_owned(), String::new())));
        let once = repaired(&text, &disk);
        prop_assert_eq!(&repaired(&once, &disk), &once);
        // Nothing is said twice: each path is in the file as often as before, or less.
        for path in ["train.csv", "x.csv"] {
            prop_assert!(once.matches(path).count() <= text.matches(path).count(), "{}", once);
        }
    }
}
