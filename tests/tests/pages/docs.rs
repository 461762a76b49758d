//! The shell blocks of `docs`. Each page has its own folder, below that of README.md's session,
//! with its federation, and photographs and a bundle of them.

use std::fs;
use std::path::Path;

use crate::blocks::{Block, blocks};
use crate::root;
use crate::shell::Shell;

/// The contents of a page's folder before its first block. `$S/photos` and `$S/birds` are those of
/// the session.
const PREPARED: [(&str, &str); 8] = [
    ("compatibility.md", "cp -r $S/birds bundle"),
    ("derive.md", "cp -r $S/photos .; cp -r $S/birds birds-v1; cp -r $S/birds birds"),
    (
        "envelopes.md",
        "cp -r $S/photos .; gular pack -q photos t --envelope tar; cp t/data/train-*.tar birds-0.tar",
    ),
    (
        "federations.md",
        "cp -r $S/birds .; mkdir results; echo 1 > results/loss.txt
         gular publish -q -r $S/photos $MYLAB/photos",
    ),
    (
        "jobs.md",
        "cp -r $S/photos .; echo 'print(1)' > train.py; cp train.py eval.py
         gular job new -q sub --site chtc --input train.py -- python3 train.py
         gular job new -q dag --site chtc --input train.py --input eval.py --checkpoint out \\
           --sweep a=1,2 --evaluate 'python3 eval.py {trained}' -- python3 train.py {a}
         cp -r sub/. dag/. .; mv sub.sub train.sub; mv dag.dag sweep.dag
         printf '#!/bin/bash\\n#SBATCH -c 2 --mem=1G\\nsrun python3 train.py\\n' > slurm.sbatch
         mkdir -p logs; printf '000 (1.000.000) 2026-05-01 10:00:00 Job submitted\\n...\\n' > logs/train.log",
    ),
    (
        "packing.md",
        "cp -r $S/photos .
         for part in train test; do
           { printf label; printf ',pixel%d' $(seq 784); echo
             for n in $(seq 0 19); do
               printf $((n % 3)); for i in $(seq 0 783); do printf ,$((n * i % 256)); done; echo
             done; } > fashion-mnist_$part.csv
         done",
    ),
    (
        "python.md",
        "cp -r $S/photos images; echo file_name,tags > tags.csv
         (cd images; find . -name '*.jpg' | sed 's,^./,,; s/$/,haze primary/') >> tags.csv",
    ),
    ("stage.md", "cp -r $S/birds bundle; cp -r $S/photos .; echo 'print(1)' > train.py"),
];

/// Runs every block of `docs` that does not say why it cannot be run.
pub(crate) fn run(shell: &mut Shell, session: &Path, port: u16, digest: &str) {
    let lab = format!("pelican://localhost:{port}/gular");
    // `python` is the system's; the trainer needs libtorch, and has separate tests.
    let made = "mkdir bin && ln -s \"$(command -v python3)\" bin/python && PATH=$PWD/bin:$PATH";
    shell.run(made).unwrap_or_else(|fault| panic!("{fault}"));
    shell.run("gular-train() { :; }").unwrap_or_else(|fault| panic!("{fault}"));
    let (mut n_run, mut faults) = (0, Vec::new());
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.extension().is_none_or(|extension| extension != "md") || name == "cli.md" {
            continue;
        }
        let folder = session.join("pages").join(name);
        fs::create_dir_all(&folder).unwrap();
        let before = format!(
            "set -e; cd '{}'; export HOME=$PWD S='{}' MYLAB={lab}/mylab",
            folder.display(),
            session.display()
        );
        let mut prepared = PREPARED.iter().find(|(page, _)| *page == name).map(|(_, text)| *text);
        for block in blocks(&fs::read_to_string(&path).unwrap()) {
            let Block::Shell(text, None) = block else { continue };
            let text = text
                .replace("pelican://osg-htc.org/", &format!("{lab}/"))
                .replace("pelican://federation/", &format!("{lab}/"))
                .replace("pelican://…", &format!("{lab}/{name}/v1"))
                .replace("blake3=4d40…", &format!("blake3={digest}"));
            for text in prepared.take().into_iter().chain([text.as_str()]) {
                let said = shell.run(&format!("( {before}\n{text}\n)"));
                faults.extend(said.err().map(|fault| format!("docs/{name}: {fault}")));
            }
            n_run += 1;
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    assert!(n_run > 10, "only {n_run} blocks of docs are run");
}
