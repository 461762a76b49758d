//! Scripts and modules that a job needs and that are not transferred.

use super::check::Context;
use super::files::{folder, inputs};
use super::sandbox;
use crate::disk::{base_name, below, folder_of};
use crate::finding::{Edit, FileFindings};
use crate::rules;
use crate::script::python;

/// Whether inputs may contain files that are not named: in folders, or by macros.
fn brings_more(context: &Context<'_>) -> bool {
    let at = folder(context).unwrap_or_else(|| context.folder.clone());
    inputs(context).iter().any(|input| {
        let path = below(&at, &input.text);
        (!base_name(&input.text).contains('.') && context.disk.len(&path).is_none())
            || context.disk.is_folder(&path)
            || input.text.contains('$')
    })
}

/// Modules of the user's own that the Python program `path` imports, with its `text`, and files that
/// it reads: they are here, and the job does not have them.
pub(super) fn needed(
    context: &Context<'_>,
    path: &str,
    text: &str,
    names: &[String],
    own: &mut FileFindings,
) {
    // A program of the image has its modules there.
    if !names.iter().any(|name| name == base_name(path)) || brings_more(context) {
        return;
    }
    for (line, module) in python::imports(text) {
        let file = format!("{module}.py");
        let here = below(folder_of(path), &file);
        if context.disk.len(&here).is_none() || names.contains(&file) {
            continue;
        }
        let what = format!("`{file}` is not in `transfer_input_files`");
        own.add(&rules::NOT_BROUGHT, line, what);
    }
    for (line, name) in python::read_files(text) {
        let is_file = |folder: &str| context.disk.len(&below(folder, name)).is_some();
        let is_here = is_file(folder_of(path)) || is_file(&context.folder);
        let plain = name.strip_prefix("./").unwrap_or(name);
        let keeps_paths = || context.submit.get("preserve_relative_paths").is_some();
        if names.iter().any(|brought| brought == plain) || !is_here || keeps_paths() {
            continue;
        }
        let base = base_name(plain);
        if names.iter().any(|brought| brought == base) {
            sandbox::in_job(own, line, name, base);
        } else {
            let what = format!("`{name}` is not in `transfer_input_files`");
            own.add(&rules::NOT_BROUGHT, line, what);
        }
    }
}

/// Scripts that a program with this text runs, with their lines, and nobody brings.
pub(super) fn not_brought(
    context: &Context<'_>,
    scripts: &[(usize, &str)],
    text: &str,
    names: &[String],
    own: &mut FileFindings,
) {
    let program = context
        .value("executable")
        .map(|(_, value)| base_name(value.text.trim()).to_owned())
        .unwrap_or_default();
    if brings_more(context) || !sandbox::is_apart(context) {
        return;
    }
    for &(line, name) in scripts {
        let here = base_name(name);
        let relative = !name.starts_with('/') && !name.contains('$');
        if !relative
            || names.iter().any(|input| input == here)
            || here == program
            || text.contains(&format!("> {here}"))
        {
            continue;
        }
        let image = context.submit.any(&["container_image", "docker_image"]).is_some();
        let path = below(&context.folder, name);
        if image && context.disk.len(&path).is_none() {
            // The image may have it, but not where an input has almost this name.
            let Some(near) = names.iter().find(|input| is_near(input, here)) else { continue };
            let what = format!("`{name}` is not in `transfer_input_files`, but `{near}` is");
            // The name must be a word of its own, and be in the line only once.
            let is_certain = |written: &&str| {
                let is_word = |word: &str| word.trim_matches(['"', '\'']) == name;
                written.split_whitespace().any(is_word) && written.matches(here).count() == 1
            };
            let right = text.lines().nth(line - 1).filter(is_certain);
            own.add(&rules::NOT_BROUGHT, line, what).fix(format!("write `{near}`")).edit =
                right.map(|right| Edit { line, count: 1, lines: vec![right.replace(here, near)] });
            continue;
        }
        let what = format!("`{name}` is not in `transfer_input_files`");
        own.add(&rules::NOT_BROUGHT, line, what);
    }
}

/// Whether the names of two scripts of one kind differ by a typing error only.
fn is_near(one: &str, other: &str) -> bool {
    let end = |name: &str| name.rsplit_once('.').map(|(_, end)| end.to_owned());
    // `part1.py` and `part2.py` are different files.
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    end(one) == end(other)
        && digits(one) == digits(other)
        && crate::spelling::distance(one, other) == 1
}

#[cfg(test)]
mod tests {
    use crate::disk::tests::Files;
    use crate::lint::lint;

    #[test]
    fn a_script_with_a_slip_in_its_name_is_found_beside_an_image() {
        let said = |script: &str, inputs: &str| {
            let submit = format!(
                "universe = container\ncontainer_image = osdf:///lab/a-v1.sif\nexecutable = run.sh\ntransfer_input_files = {inputs}\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 9 GB\nqueue\n"
            );
            let run = format!("#!/bin/sh\npython3 {script}\n");
            let files =
                [("x.sub", submit.as_str()), ("run.sh", &run), ("train.py", "1\n"), ("tool", "")];
            let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
            found.into_iter().map(|finding| (finding.rule, finding.line)).collect::<Vec<_>>()
        };
        let repaired = |call: &str| {
            let submit = "universe = container\ncontainer_image = osdf:///lab/a-v1.sif\nexecutable = run.sh\ntransfer_input_files = train.py\nqueue\n";
            let run = format!("#!/bin/sh\n{call}\n");
            let files = [("x.sub", submit), ("run.sh", run.as_str()), ("train.py", "1\n")];
            let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
            let edits: Vec<_> = found.iter().filter(|f| f.file == "run.sh").collect();
            let edits: Vec<_> = edits.iter().filter_map(|f| f.edit.as_ref()).collect();
            crate::repair("run.sh", &run, &edits).lines().nth(1).map(str::to_owned)
        };
        let same = |call: &str| assert_eq!(repaired(call).as_deref(), Some(call));
        assert_eq!(repaired("python3 \"trian.py\" a").as_deref(), Some("python3 \"train.py\" a"));
        same("echo mytrian.py; python3 trian.py");
        assert_eq!(said("train.py", "train.py"), []);
        assert_eq!(said("trian.py", "train.py"), [("not-brought", 2)]);
        // A program among the inputs is not a folder, in which anything may be.
        assert_eq!(said("trian.py", "train.py, tool"), [("not-brought", 2)]);
        // These files may be in the image.
        assert_eq!((said("eval.py", "train.py"), said("train2.py", "train.py")), (vec![], vec![]));
    }

    #[test]
    fn files_that_a_python_program_reads_are_brought() {
        let said = |inputs: &str, train: &str, run: &str| {
            let submit = format!(
                "executable = run.sh\ntransfer_input_files = train.py{inputs}\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\nqueue\n"
            );
            let files = [
                ("x.sub", submit.as_str()),
                ("run.sh", run),
                ("train.py", train),
                ("a.json", "{}"),
                ("data/b.csv", "1"),
            ];
            let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
            found
                .into_iter()
                .map(|f| format!("{} {}:{}", f.rule, f.file, f.line))
                .collect::<Vec<_>>()
        };
        let run = "#!/bin/sh\npython3 train.py\n";
        let train = "import json\na = json.load(open('a.json'))\nb = open('data/b.csv')\n";
        assert_eq!(said("", train, run), ["not-brought train.py:2", "not-brought train.py:3"]);
        assert_eq!(said(", a.json, data/b.csv", train, run), ["input-path train.py:3"]);
        assert_eq!(said(", a.json, data", train, run), [""; 0]);
        assert_eq!(said("", "c = open('not-here.json')\n", run), [""; 0]);
        let writes = "#!/bin/sh\necho '{}' > a.json\npython3 train.py\n";
        assert_eq!(said(", data", train, writes), [""; 0]);
        assert_eq!(said("", "a = open('a.json')\n", writes), [""; 0]);
    }

    #[test]
    fn what_a_python_program_needs_is_brought() {
        let said = |lines: &str, run: &str| {
            let submit = format!(
                "{lines}request_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 9 GB\nqueue\n"
            );
            let train = "import os\nfrom nets import Net\nimport torch, losses\n";
            let files = [
                ("x.sub", submit.as_str()),
                ("run.sh", run),
                ("train.py", train),
                ("nets.py", ""),
                ("losses.py", ""),
            ];
            let found = lint("x.sub", &Files::of(&files)).unwrap_or_default();
            let text =
                |f: crate::JobFinding| format!("{} {}:{} {}", f.rule, f.file, f.line, f.what);
            found.into_iter().map(text).collect::<Vec<_>>()
        };
        let wants = |n: usize, name: &str| {
            format!("not-brought train.py:{n} `{name}` is not in `transfer_input_files`")
        };
        let run = "#!/bin/sh\npython3 train.py\n";
        let inputs = "executable = run.sh\ntransfer_input_files = train.py, nets.py\n";
        assert_eq!(said(inputs, run), [wants(3, "losses.py")]);
        let all = "executable = run.sh\ntransfer_input_files = train.py, nets.py, losses.py\n";
        assert_eq!(said(all, run), [""; 0]);
        let unpacks = "#!/bin/sh\ntar -xf code.tar\npython3 train.py\n";
        assert_eq!(said(inputs, unpacks), [""; 0]);
        for writes in ["tee new.py", "cat >new.py", "cat <<'F' > ./new.py\nF\ncat"] {
            let run = format!("#!/bin/sh\n{writes} <<E\nprint()\nE\npython3 new.py\n");
            assert_eq!(said("executable = run.sh\n", &run), [""; 0], "{run}");
        }
        assert_eq!(
            said("executable = train.py\n", run)[1..],
            [wants(2, "nets.py"), wants(3, "losses.py")]
        );
        // A script that is an argument of its interpreter is an input like any other.
        let argument = "executable = /bin/true\narguments = train.py\n";
        let python = argument.replace("/bin/true", "/usr/bin/python3");
        let python = format!("{python}transfer_executable = false\n");
        assert_eq!(
            said(&python, run),
            ["not-brought x.sub:2 `train.py` is not in `transfer_input_files`"]
        );
        let image = format!("universe = container\ncontainer_image = docker://a/b:1\n{python}");
        assert_eq!(said(&image, run).len(), 1);
        let none = image.replace("train.py", "/opt/train.py");
        assert_eq!(said(&none, run), [""; 0]);
    }
}
