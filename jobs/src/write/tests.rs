//! Tests the generated submit files, scripts and advice, for each site.

use super::*;
use crate::disk::tests::Files;
use crate::lint::lint;

fn spec(site: Site) -> JobSpec {
    JobSpec {
        name: "pets".to_owned(),
        site,
        command: ["python3", "train.py", "--data", "{data}", "--out", "output"]
            .map(str::to_owned)
            .to_vec(),
        image: Some(JobImage {
            source: "osdf:///lab/images/train-v3.sif".to_owned(),
            bytes: Some(6 << 30),
        }),
        data: Some(Data {
            url: "osdf:///lab/pets/v1#blake3=00".to_owned(),
            digest: "blake3:00".to_owned(),
            files: vec![
                "osdf:///lab/pets/v1/manifest.json".to_owned(),
                "osdf:///lab/pets/data/train-0123456789abcdef.safetensors".to_owned(),
            ],
            bytes: 3 << 30,
            fetch: Fetch::Batch,
            shares: None,
            local: None,
            with_token: false,
        }),
        inputs: vec![("train.py".to_owned(), 1000)],
        checkpoint: Some("ckpt".to_owned()),
        checkpoint_hours: 1.0,
        parameters: None,
        stages: Stages::default(),
        cpus: 4,
        memory_bytes: Some(16 << 30),
        retry_memory_bytes: None,
        cpu_level: None,
        lines: Vec::new(),
        before: Vec::new(),
        master_suffix: None,
        shm_bytes: 2 << 30,
        scratch_bytes: 1 << 30,
        gpus: 1,
        evaluate_gpus: 0,
        gpu_memory_bytes: Some(10 << 30),
        capability: Some("7.5".to_owned()),
        cuda: Some("12.4".to_owned()),
        hours: 10.0,
        nodes: 1,
        tasks: 1,
        account: None,
        partition: None,
        stay: false,
        credentials: None,
        imports_gular: false,
        not_in_image: Vec::new(),
        left_here: Vec::new(),
        binds: Vec::new(),
        input_urls: Vec::new(),
        absent: Vec::new(),
        shared: false,
    }
}

fn sweep() -> Parameters {
    let row = |lr: &str, seed: &str| vec![lr.to_owned(), seed.to_owned()];
    Parameters {
        names: vec!["lr".to_owned(), "seed".to_owned()],
        rows: vec![row("0.1", "1"), row("0.01", "2")],
    }
}

/// Returns the findings in a written folder, with the user's program beside it.
fn findings(spec: &JobSpec) -> Vec<String> {
    let folder = write(spec).unwrap_or_else(|refusal| unreachable!("{refusal}"));
    let mut files = Files::of(&[
        ("train.py", "CODE = 85\nprint('output')\n"),
        ("logs/x", ""),
        ("results/x", ""),
        ("train.sif", ""),
        ("a", ""),
        ("gular-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl", ""),
    ]);
    for file in &folder.files {
        files.0.insert(file.name.clone(), file.text.clone());
    }
    // A DAG names the others; no batch script does.
    let scripts = folder.files.iter().map(|file| file.name.clone());
    let mut names: Vec<String> = scripts.filter(|name| name.ends_with("sbatch")).collect();
    if names.is_empty() {
        names.push(job_file(spec));
    }
    let found = names.iter().flat_map(|name| lint(name, &files).unwrap_or_default());
    let text = |file: &str| files.0.get(file).cloned().unwrap_or_default();
    found
        .map(|f| format!("{} {}:{} {}\n{}", f.rule, f.file, f.line, f.what, text(&f.file)))
        .collect()
}

#[test]
fn what_is_written_has_no_trap() {
    for (_, site) in Site::ALL {
        for gpus in [0, 1] {
            for checkpoint in [None, Some("ckpt".to_owned())] {
                for parameters in [None, Some(sweep())] {
                    for fetch in [Fetch::Batch, Fetch::Runtime] {
                        let mut spec =
                            JobSpec { gpus, checkpoint: checkpoint.clone(), ..spec(site) };
                        if parameters.is_some() {
                            spec.command.extend(["--lr={lr}", "{seed}"].map(str::to_owned));
                        }
                        spec.parameters.clone_from(&parameters);
                        spec.data.iter_mut().for_each(|data| data.fetch = fetch);
                        assert_eq!(findings(&spec), [""; 0], "{spec:?}");
                    }
                }
            }
        }
    }
    let ranks = JobSpec { nodes: 2, tasks: 4, gpus: 4, ..spec(Site::Jsc) };
    assert_eq!(findings(&ranks), [""; 0]);
    // A missing file would be found.
    let mut missing = spec(Site::Chtc);
    missing.inputs.push(("gone.py".to_owned(), 1));
    assert!(findings(&missing).iter().any(|finding| finding.starts_with("missing-file pets.sub")));
    let bare = JobSpec {
        image: None,
        data: None,
        inputs: vec![("a".to_owned(), 1)],
        command: vec!["./a".to_owned()],
        checkpoint: None,
        ..spec(Site::Generic)
    };
    assert_eq!(findings(&bare), [""; 0]);
    // A shell would not find a program by its name alone.
    let named = JobSpec { command: vec!["a".to_owned()], ..bare };
    assert!(text_of(&named, "run.sh").contains("\n./a\ncode=$?\n"));
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn ensemble(site: Site) -> JobSpec {
    let mut spec = JobSpec { parameters: Some(sweep()), ..spec(site) };
    spec.command.extend(["--lr={lr}", "{seed}"].map(str::to_owned));
    spec.stages = Stages {
        evaluate: Some(words("python3 train.py --weights {trained}/w --seed {seed}")),
        select: Some(Select { metric: "accuracy".to_owned(), lowest: false }),
        merge: Some(words("python3 train.py --merge {each}/w")),
    };
    spec
}

fn text_of(spec: &JobSpec, name: &str) -> String {
    let folder = write(spec).unwrap_or_else(|refusal| unreachable!("{refusal}"));
    let file = folder.files.into_iter().find(|file| file.name == name);
    file.map(|file| file.text).unwrap_or_default()
}

#[test]
fn an_ensemble_is_a_graph_without_a_trap() {
    let whole = ensemble(Site::Chtc);
    assert_eq!(findings(&whole), [""; 0]);
    let one = JobSpec {
        parameters: Some(Parameters { names: vec!["lr".to_owned()], rows: vec![words("1e-3")] }),
        command: words("python3 train.py {lr}"),
        stages: Stages {
            evaluate: Some(words("python3 train.py {trained}")),
            ..whole.stages.clone()
        },
        ..whole.clone()
    };
    assert_eq!(findings(&one), [""; 0]);
    let graph = text_of(&whole, "pets.dag");
    for line in [
        "JOB job1 pets.sub",
        "VARS job1 lr=\"0.01\" seed=\"2\"",
        "VARS evaluate1 of=\"job1\" lr=\"0.01\" seed=\"2\"",
        "PARENT job1 CHILD evaluate1",
        "PARENT evaluate0 evaluate1 CHILD select",
        "PARENT job0 job1 CHILD merge",
        "RETRY ALL_NODES 2",
    ] {
        assert!(graph.lines().any(|found| found == line), "{line}\n{graph}");
    }
    assert!(text_of(&whole, "pets.sub").contains("\"results.tar = results/$(JOB).tar\""));
    // A node is run three times, and not three times four times.
    for name in ["pets.sub", "evaluate.sub", "merge.sub"] {
        assert!(!text_of(&whole, name).contains("max_retries"), "{name}");
    }
    assert!(text_of(&spec(Site::Chtc), "pets.sub").contains("max_retries = 3"));
    let merge = text_of(&whole, "merge.sh");
    assert!(merge.contains(" --merge all/job0/output/w all/job1/output/w\n"), "{merge}");
    // A stage gets the bundle if its command uses it.
    let bundle = |file: &str| text_of(&whole, file).contains("/v1/manifest.json");
    assert_eq!([bundle("pets.sub"), bundle("evaluate.sub")], [true, false]);
    let evaluate = text_of(&whole, "evaluate.sh");
    assert!(evaluate.contains(" trained/output/w --seed \"${seed}\""), "{evaluate}");
}

#[test]
fn an_ensemble_on_slurm_is_scripts_that_wait_for_each_other() {
    let mut spec = JobSpec { gpus: 0, image: None, data: None, ..ensemble(Site::Slurm) };
    spec.command = words("python3 train.py --lr={lr} {seed}");
    assert_eq!(findings(&spec), [""; 0]);
    let submit = text_of(&spec, "submit.sh");
    for line in [
        "evaluations=$(sbatch --parsable $only --dependency=aftercorr:\"$jobs\" evaluate.sbatch)",
        "select=$(sbatch --parsable --dependency=afterok:\"$evaluations\" select.sbatch)",
        "merge=$(sbatch --parsable --dependency=afterok:\"$jobs\" merge.sbatch)",
    ] {
        assert!(submit.lines().any(|found| found == line), "{line}\n{submit}");
    }
    // Run again, a job works where it did: its checkpoint is there, and its results are found.
    let job = "output/job$((SLURM_ARRAY_TASK_ID - 1))";
    assert!(text_of(&spec, "pets.sbatch").contains(&format!("cd \"{job}\" ")));
    let evaluate = text_of(&spec, "evaluate.sbatch");
    assert!(evaluate.contains(&format!("--weights \"$submitted/{job}/output/w\" ")), "{evaluate}");
    assert!(!evaluate.contains("requeue") && evaluate.contains("--array=1-2\n"), "{evaluate}");
    // A job that failed has no result, nor one of an earlier run; the script ends with the code of
    // its step.
    let at = |text: &str| evaluate.find(text).unwrap_or_else(|| unreachable!("{text}: {evaluate}"));
    let kept = "\n[ \"$code\" -eq 0 ] && tail -n 1 output/evaluation.txt > \"$result.part\" && mv ";
    let steps = [at("\nrm -f \"$result\"\n"), at("\nsrun "), at("\ncode=$?\n"), at(kept)];
    assert!(steps.is_sorted() && evaluate.ends_with("\nexit \"$code\"\n"), "{evaluate}");
    let merge = text_of(&spec, "merge.sbatch");
    let both = "\"$submitted/output/job0/output/w\" \"$submitted/output/job1/output/w\"\n";
    assert!(merge.contains(both) && !merge.contains("--array"), "{merge}");
    assert!(text_of(&spec, "select.py").contains("copytree(\"output/job%d/output\""));
    // Without stages, none of these files are written.
    let alone = JobSpec { stages: Stages::default(), ..spec };
    assert_eq!(text_of(&alone, "submit.sh"), "");
    assert!(text_of(&alone, "pets.sbatch").contains("output/$SLURM_ARRAY_JOB_ID-"));
}

#[test]
fn a_job_gets_the_shards_of_its_part() {
    let url = |name: &str| format!("osdf:///lab/pets/v1/data/{name}.safetensors");
    let parts = |stages| {
        let mut spec = JobSpec {
            parameters: Some(Parameters {
                names: vec!["part".to_owned()],
                rows: vec![words("1"), words("2")],
            }),
            command: words("python3 train.py {data} --part {part}/2"),
            stages,
            ..spec(Site::Ospool)
        };
        spec.data.iter_mut().for_each(|data| {
            data.shares = Some(Shares {
                common: vec![url("index")],
                each: vec![vec![url("a"), url("b")], vec![url("b"), url("c")]],
                bytes: 2 << 30,
            });
        });
        spec
    };
    let spec = parts(Stages::default());
    assert_eq!(findings(&spec), [""; 0]);
    let submit = text_of(&spec, "pets.sub");
    let inputs = format!("transfer_input_files = train.py, {}, $(shards)\n", url("index"));
    assert!(submit.contains(&inputs), "{submit}");
    assert!(submit.ends_with("queue part, shards from parameters.txt\n"), "{submit}");
    // The request is (6 + 2 + 2 * 1 + 1) GB and a tenth.
    assert!(submit.contains("request_disk = 13 GB\n"), "{submit}");
    let rows = format!("1, {0}, {1}\n2, {1}, {2}\n", url("a"), url("b"), url("c"));
    assert_eq!(text_of(&spec, "parameters.txt"), rows);
    let merge = words("python3 train.py --merge {each}/w");
    let graph = parts(Stages { merge: Some(merge), ..Stages::default() });
    assert_eq!(findings(&graph), [""; 0]);
    assert_eq!(text_of(&graph, "parameters.txt"), "1\n2\n");
    let line = format!("VARS job1 part=\"2\" shards=\"{}, {}\"\n", url("b"), url("c"));
    assert!(text_of(&graph, "pets.dag").contains(&line), "{}", text_of(&graph, "pets.dag"));
    // Only HTCondor brings the shards of each job.
    let mut fetched = parts(Stages::default());
    fetched.data.iter_mut().for_each(|data| data.fetch = Fetch::Runtime);
    // Unasked for when a part is too large for one machine.
    assert!(write(&fetched).is_err_and(|refusal| refusal.fix.contains("make more parts")));
    assert!(write(&JobSpec { site: Site::Slurm, ..spec }).is_err());
}

#[test]
fn parts_of_a_pack_are_jobs_and_their_merge_follows() {
    let pack = |site| JobSpec {
        name: "pack".to_owned(),
        image: None,
        data: None,
        checkpoint: None,
        inputs: Vec::new(),
        gpus: 0,
        command: words("gular pack /data/photos /data/out/part-{part} --part {part}/2"),
        parameters: Some(Parameters {
            names: vec!["part".to_owned()],
            rows: vec![words("1"), words("2")],
        }),
        stages: Stages {
            merge: Some(words("gular pack --merge /data/out/part-1 /data/out/part-2 /data/out/b")),
            ..Stages::default()
        },
        shared: true,
        ..spec(site)
    };
    for site in [Site::Chtc, Site::Generic, Site::Slurm, Site::Jsc] {
        assert_eq!(findings(&pack(site)), [""; 0]);
    }
    assert!(text_of(&pack(Site::Slurm), "pack.sbatch").contains("--array=1-2\n"));
    // A part is started again by its own number: job 2 of the array reads line 2.
    assert!(
        text_of(&pack(Site::Slurm), "pack.sbatch").contains("sed -n \"${SLURM_ARRAY_TASK_ID}p\" ")
    );
    let page = text_of(&pack(Site::Slurm), "README.md");
    assert!(page.contains("scancel MERGE\njob=$(sbatch --parsable --array=PART pack.sbatch)\n"));
    let start = write(&pack(Site::Slurm)).map(|folder| folder.start).unwrap_or_default();
    assert!(start.iter().any(|command| command.ends_with(":\"$job\" merge.sbatch")), "{start:?}");
    let merge = text_of(&pack(Site::Slurm), "merge.sbatch");
    assert!(merge.contains("gular pack --merge /data/out/part-1 ") && !merge.contains("--array"));
    assert!(text_of(&pack(Site::Chtc), "merge.sub").contains("HasCHTCStaging"));
    assert!(!text_of(&pack(Site::Chtc), "merge.sub").contains("transfer_input_files"));
    assert!(write(&pack(Site::Ospool)).is_err());
}

#[test]
fn quotas_of_a_site_are_compared_with_data_and_results() {
    let notes = |spec: &JobSpec| write(spec).map(|folder| folder.notes.join("\n"));
    let has = |spec: &JobSpec, word: &str| notes(spec).is_ok_and(|notes| notes.contains(word));
    let mut many = spec(Site::Chtc);
    assert!(!has(&many, "usually"));
    many.data.iter_mut().for_each(|data| data.files = vec![data.files[0].clone(); 1001]);
    assert!(has(
        &many,
        "the data has 1001 files, but /staging usually holds at most 1000 (chtc.cs.wisc.edu) unless"
    ));
    let mut large = spec(Site::Chtc);
    large.data.iter_mut().for_each(|data| data.bytes = 101_000_000_000);
    assert!(has(&large, "the data has 101.0 GB, but "));
    large.data.iter_mut().for_each(|data| data.bytes = 100_000_000_000);
    assert!(!has(&large, "the data has"));
    large.data.iter_mut().for_each(|data| data.bytes = 101_000_000_000);
    let elsewhere = JobSpec { site: Site::Ospool, ..large };
    assert!(has(&elsewhere, "usually holds at most 100.0 GB (portal.osg-htc.org) unless"));
    let results = JobSpec { scratch_bytes: 41_000_000_000, ..spec(Site::Chtc) };
    assert!(has(&results, "the results of all 1 jobs"));
    let jsc = JobSpec { scratch_bytes: 16_001_000_000_000, ..spec(Site::Jsc) };
    assert!(has(&jsc, "usually holds at most 16000.0 GB (fz-juelich.de) unless"));
}

#[test]
fn a_request_that_few_machines_can_fill_is_said() {
    let merge = Some(words("cat {each}/part"));
    let rows = (0..300).map(|i| vec![i.to_string()]).collect();
    let many = JobSpec {
        command: words("./train --part {part}"),
        inputs: vec![("train".to_owned(), 1)],
        parameters: Some(Parameters { names: vec!["part".to_owned()], rows }),
        stages: Stages { merge, ..Stages::default() },
        ..spec(Site::Generic)
    };
    let page = text_of(&many, "README.md");
    assert!(page.contains("`merge.sub` asks for "), "{page}");
    let page = text_of(&JobSpec { scratch_bytes: 1 << 20, ..many }, "README.md");
    assert!(!page.contains("of disk, which few"), "{page}");
}

#[test]
fn wheels_travel_with_the_job() {
    let says = |spec: &JobSpec| {
        write(spec).is_ok_and(|folder| folder.notes.iter().any(|note| note.contains("gular-….whl")))
    };
    let without = JobSpec { imports_gular: true, ..spec(Site::Chtc) };
    assert!(says(&without) && !says(&spec(Site::Chtc)));
    let wheel = "gular-0.1.0-cp39-abi3-manylinux_2_28_x86_64.whl";
    for (site, script) in [(Site::Chtc, "run.sh"), (Site::Jsc, "pets.sbatch")] {
        let mut with = JobSpec { imports_gular: true, site, ..without.clone() };
        with.inputs.push((wheel.to_owned(), 20 << 20));
        assert_eq!(findings(&with), [""; 0]);
        let text = text_of(&with, script);
        assert!(text.contains(&format!("python3 -m zipfile -e {wheel} wheels.part")), "{text}");
        assert!(!says(&with) && !text_of(&without, "run.sh").contains("zipfile"));
        // A wheel that cannot be unpacked does not end the job before its results are packed.
        assert!(text.contains(" wheels.part &&\n  mv wheels.part wheels\nfi\n"), "{text}");
        // Apptainer replaces PATH, so it needs a variable of its own.
        assert!(text.contains("\nexport PATH APPTAINERENV_PREPEND_PATH PYTHONPATH="), "{text}");
    }
}

#[test]
fn requests_follow_from_image_data_and_program() {
    let text =
        write(&spec(Site::Chtc)).map(|folder| folder.files[0].text.clone()).unwrap_or_default();
    // (6 + 3 + 2 * 1 + 1) GB and a tenth; 16 + 2 GB.
    for line in [
        "request_disk = 14 GB",
        "request_memory = 18 GB",
        "gpus_minimum_capability = 7.5",
        "+GPUJobLength = \"short\"",
        "+is_resumable = true",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_checkpoint_is_due_every_hour_on_htcondor_and_at_the_end_on_slurm() {
    let run = |spec: &JobSpec| text_of(spec, "run.sh");
    assert!(run(&spec(Site::Chtc)).contains(" --kill-after=300 3600 python3 "));
    let quarter = JobSpec { checkpoint_hours: 0.25, ..spec(Site::Chtc) };
    assert!(run(&quarter).contains(" --kill-after=300 900 python3 "));
    // Before the end of a short job: a tenth of it is left.
    let short = JobSpec { hours: 0.5, ..spec(Site::Chtc) };
    assert!(run(&short).contains(" --kill-after=300 1620 python3 "), "{}", run(&short));
    // `timeout` would take 0 for no limit.
    let none = JobSpec { hours: 0.0, ..spec(Site::Chtc) };
    assert!(run(&none).contains(" --kill-after=300 1 python3 "));
    let page = text_of(&quarter, "README.md");
    assert!(page.contains("It gets SIGTERM 15 min after each start."), "{page}");
    assert!(page.contains("what it did since is lost"), "{page}");
    let page = text_of(&spec(Site::Slurm), "README.md");
    assert!(page.contains("before the limit of 10 h; the job is then queued again"), "{page}");
}

/// A process that ends with 85 must not end the others, which still save.
#[test]
fn ranks_that_save_wait_for_each_other() {
    let ranks = text_of(&JobSpec { tasks: 4, ..spec(Site::Slurm) }, "pets.sbatch");
    let step = "srun --kill-on-bad-exit=1 sh -c 'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID; trap : TERM; \"$@\"; code=$?; if [ \"$code\" -eq 85 ]; then : > saved; code=0; fi; exit \"$code\"' rank apptainer exec ";
    assert!(ranks.contains(step), "{ranks}");
    assert!(ranks.contains("\n[ \"$code\" -eq 0 ] && [ -e saved ] && code=85\n"), "{ranks}");
    let one = text_of(&spec(Site::Slurm), "pets.sbatch");
    assert!(one.contains("srun --kill-on-bad-exit=1 apptainer exec "), "{one}");
    let ends = text_of(&JobSpec { tasks: 4, checkpoint: None, ..spec(Site::Slurm) }, "pets.sbatch");
    assert!(
        ends.contains("LOCAL_RANK=$SLURM_LOCALID; exec \"$@\"' rank apptainer exec "),
        "{ends}"
    );
}

#[test]
fn paths_of_the_machine_are_bound_into_the_image() {
    let binds = vec!["/p/scratch/me/images".to_owned()];
    let text = text_of(&JobSpec { binds, ..spec(Site::Slurm) }, "pets.sbatch");
    assert!(text.contains(" --bind '/p/scratch/me/images' "), "{text}");
}

#[test]
fn what_slurm_cannot_start_is_made_once_before() {
    let steps = |source: &str| {
        let image = JobImage { source: source.to_owned(), bytes: None };
        let spec = JobSpec {
            image: Some(image),
            data: None,
            command: words("python3 train.py"),
            ..spec(Site::Slurm)
        };
        assert_eq!(findings(&spec), [""; 0]);
        let folder = write(&spec).unwrap_or_else(|refusal| unreachable!("{refusal}"));
        let page = text_of(&spec, "README.md");
        assert!(folder.once.iter().all(|command| page.contains(command.as_str())), "{page}");
        (folder.once, text_of(&spec, "pets.sbatch"))
    };
    let check = |source: &str, command: &str, path: &str| {
        let (once, script) = steps(source);
        assert_eq!(once, [command], "{source}");
        assert!(script.contains(&format!("for needed in {path}; do\n")), "{script}");
        assert!(script.contains(&format!(" \"$submitted/{path}\" python3 ")), "{script}");
    };
    check("docker://a/b:1", "apptainer pull image.sif 'docker://a/b:1'", "image.sif");
    check("oci:/lab/b", "apptainer build image.sif 'oci:/lab/b'", "image.sif");
    check("osdf:///lab/b-v1.sif", "gular fetch 'osdf:///lab/b-v1.sif' image", "image/b-v1.sif");
    let (once, script) = steps("/lab/b.sif");
    assert!(
        once.is_empty() && !script.contains("needed") && script.contains(" /lab/b.sif python3 ")
    );
}

#[test]
fn a_folder_here_is_sent_or_read_where_it_is() {
    let local = |site, folder: &str, files: &[&str], largest_bytes| {
        let mut spec = spec(site);
        spec.data.iter_mut().for_each(|data| {
            data.files = files.iter().map(|&file| file.to_owned()).collect();
            data.local = Some(Local { folder: folder.to_owned(), largest_bytes });
        });
        spec
    };
    let files = ["/home/me/b/manifest.json", "/home/me/b/data/train-0123.safetensors"];
    let sent = local(Site::Generic, "/home/me/b", &files, 1);
    let submit = text_of(&sent, "pets.sub");
    let inputs = format!("transfer_input_files = train.py, {}\n", files.join(", "));
    assert!(submit.contains(&inputs), "{submit}");
    assert!(write(&sent).is_ok_and(|folder| {
        folder.notes.iter().any(|note| note.contains("is sent from this machine"))
    }));
    let large = local(Site::Ospool, "/home/me/b", &files, 2 << 30);
    assert!(write(&large).is_err_and(|refusal| refusal.what.contains("too large to be sent")));
    let urls = ["file:///staging/me/manifest.json"];
    let staging = text_of(&local(Site::Chtc, "/staging/me", &urls, 2 << 30), "pets.sub");
    assert!(staging.contains("HasCHTCStaging") && staging.contains(urls[0]), "{staging}");
    let mut fetched = sent;
    fetched.data.iter_mut().for_each(|data| data.fetch = Fetch::Runtime);
    assert!(write(&fetched).is_err_and(|refusal| refusal.what.contains("cannot fetch")));
    let slurm = local(Site::Slurm, "/home/me/b", &files, 2 << 30);
    let script = text_of(&slurm, "pets.sbatch");
    assert!(
        script.contains(" --bind '/home/me/b' ") && script.contains(" --data /home/me/b "),
        "{script}"
    );
    assert!(!text_of(&slurm, "README.md").contains("gular fetch 'osdf:///lab/pets/"));
    let odd = local(Site::Generic, "/home/me/a b", &["/home/me/a b/manifest.json"], 1);
    assert!(write(&odd).is_err_and(|refusal| refusal.what.contains("contains a comma or a space")));
}

#[test]
fn what_follows_the_jobs_asks_for_its_own_needs() {
    let gpus = |spec: &JobSpec, name: &str| text_of(spec, name).contains("request_gpus = 1\n");
    let none = ensemble(Site::Chtc);
    let each = ["pets.sub", "evaluate.sub", "merge.sub"];
    assert_eq!(each.map(|name| gpus(&none, name)), [true, false, false]);
    assert!(!text_of(&none, "evaluate.sub").contains("gpus_minimum"));
    assert!(!text_of(&none, "evaluate.sub").contains("WantGPULab"));
    let one = JobSpec { evaluate_gpus: 1, ..none };
    assert_eq!(each.map(|name| gpus(&one, name)), [true, true, false]);
    assert_eq!(findings(&one), [""; 0]);
    // Memory is that of a node: one process gets the share of one.
    let slurm = JobSpec { tasks: 4, memory_bytes: Some(30 << 30), ..ensemble(Site::Slurm) };
    assert!(text_of(&slurm, "pets.sbatch").contains("#SBATCH --mem=32G\n"));
    assert!(text_of(&slurm, "evaluate.sbatch").contains("#SBATCH --mem=8G\n"));
    assert!(!text_of(&slurm, "evaluate.sbatch").contains("gres"));
    let whole = text_of(&JobSpec { memory_bytes: None, ..spec(Site::Jsc) }, "pets.sbatch");
    assert!(!whole.contains("--mem") && whole.contains("#SBATCH --gres=gpu:1\n"), "{whole}");
    let notes =
        |cpus| write(&JobSpec { cpus, ..spec(Site::Chtc) }).map(|folder| folder.notes.join(" "));
    let says = |cpus| notes(cpus).is_ok_and(|notes| notes.contains("one core"));
    assert_eq!((says(1), says(2)), (true, false));
}

#[test]
fn what_the_jobs_will_lack_is_said() {
    let said = |change: fn(&mut JobSpec)| {
        let mut spec = spec(Site::Ospool);
        change(&mut spec);
        write(&spec).map(|folder| folder.notes.join("\n")).unwrap_or_default()
    };
    let token = |spec: &mut JobSpec| spec.data.iter_mut().for_each(|data| data.with_token = true);
    assert!(said(token).contains("`--credentials SERVICE`"));
    let with = said(|spec| {
        spec.credentials = Some("igwn".to_owned());
        spec.data.iter_mut().for_each(|data| data.with_token = true);
    });
    assert!(!with.contains("--credentials") && !said(|_| ()).contains("--credentials"));
    let lacks = said(|spec| spec.not_in_image.push(("train.py".to_owned(), "timm".to_owned())));
    assert!(lacks.contains("`train.py` imports `timm`, which is neither in the image nor sent"));
}

#[test]
fn ranks_meet_on_the_first_node() {
    let ranks = JobSpec { nodes: 2, tasks: 4, ..spec(Site::Jsc) };
    let text = write(&ranks).map(|folder| folder.files[0].text.clone()).unwrap_or_default();
    assert!(
        text.contains(
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)i\n"
        ),
        "{text}"
    );
}

#[test]
fn what_a_site_or_a_shell_cannot_do_is_refused() {
    let check = |spec: JobSpec, word: &str| match write(&spec) {
        Err(refusal) => assert!(refusal.what.contains(word), "{refusal}"),
        Ok(folder) => unreachable!("{word}: {folder:?}"),
    };
    let base = || spec(Site::Ospool);
    check(JobSpec { hours: 50.0, ..base() }, "hours");
    check(JobSpec { hours: 73.0, gpus: 0, ..spec(Site::Chtc) }, "the site allows at most 72");
    assert!(write(&JobSpec { hours: 73.0, ..spec(Site::Chtc) }).is_ok());
    check(JobSpec { hours: f64::NAN, ..base() }, "hours");
    check(JobSpec { stay: true, ..base() }, "campus");
    check(JobSpec { nodes: 2, ..base() }, "one process");
    check(JobSpec { name: "a b".to_owned(), ..base() }, "name");
    check(JobSpec { command: vec!["it's".to_owned()], ..base() }, "quote");
    check(JobSpec { command: Vec::new(), ..base() }, "no command");
    check(JobSpec { data: None, ..base() }, "{data}");
    check(JobSpec { account: Some("a".to_owned()), ..base() }, "`--account` has no effect");
    let account = |name: &str| JobSpec { account: Some(name.to_owned()), ..spec(Site::Slurm) };
    for name in ["p x", "p#1", "", "a,", "-A\n"] {
        check(account(name), "`--account` cannot be");
    }
    let partition = JobSpec { partition: Some("gpu,gpu-long".to_owned()), ..account("p_1.x") };
    assert!(text_of(&partition, "pets.sbatch").contains("--partition=gpu,gpu-long\n"));
    check(JobSpec { inputs: Vec::new(), ..base() }, "the file `train.py` does not exist here");
    check(
        JobSpec { command: vec!["bin/tool".to_owned()], ..base() },
        "the file `bin/tool` does not exist here",
    );
    let on_path = JobSpec { command: words("tool.py x"), ..base() };
    assert!(write(&on_path).is_ok());
    check(JobSpec { image: None, ..on_path }, "the file `tool.py` does not exist here");
    let image = ["python3", "/opt/x.py", "{data}/x.py"].map(str::to_owned).to_vec();
    assert!(write(&JobSpec { command: image, ..base() }).is_ok());
    let token =
        |site, service: &str| JobSpec { credentials: Some(service.to_owned()), ..spec(site) };
    check(token(Site::Slurm, "igwn"), "tokens");
    check(token(Site::Chtc, "a, b"), "tokens");
    assert!(text_of(&token(Site::Chtc, "igwn"), "pets.sub").contains("use_oauth_services = igwn"));
    check(JobSpec { inputs: vec![("a b".to_owned(), 1)], ..base() }, "a comma or a space");
    let mut large = base();
    large.inputs.push(("x.bin".to_owned(), 2 << 30));
    check(large, "access point");
    check(JobSpec { parameters: Some(sweep()), ..base() }, "does not use");
    let stages = |change: fn(&mut JobSpec)| {
        let mut spec = ensemble(Site::Generic);
        change(&mut spec);
        spec
    };
    check(
        stages(|spec| spec.stages.merge = Some(words("merge {each}/w --seed {seed}"))),
        "differs between the jobs",
    );
    check(stages(|spec| spec.stages.evaluate = None), "select by");
    check(stages(|spec| spec.stages.evaluate = Some(words("eval x"))), "{trained}");
    check(stages(|spec| spec.stages.merge = Some(words("merge x"))), "{each}");
    check(stages(|spec| spec.stages.merge = Some(words("merge '{each}'"))), "quote");
    check(
        stages(|spec| spec.stages.select.iter_mut().for_each(|s| s.metric = "a\"b".to_owned())),
        "metric",
    );
    check(
        stages(|spec| {
            spec.command.push("{of}".to_owned());
            spec.parameters.iter_mut().for_each(|sweep| sweep.names[0] = "of".to_owned());
        }),
        "in a DAG",
    );
    // A word in double quotes, because of its parameter, must not be expanded by the shell.
    for word in ["$HOME/{lr}", "`id`{lr}", "\"{lr}", "{lr}\\"] {
        let command = ["a", word, "{seed}"].map(str::to_owned).to_vec();
        check(JobSpec { command, parameters: Some(sweep()), ..base() }, "backtick");
    }
    let command = vec!["a".to_owned(), "--in={data}/$x".to_owned()];
    check(JobSpec { command: command.clone(), ..spec(Site::Slurm) }, "backtick");
    assert!(text_of(&JobSpec { command, ..base() }, "run.sh").contains("'--in=./$x'"));
    let command = vec!["a".to_owned(), "--in={data}/x".to_owned()];
    let slurm = text_of(&JobSpec { command, ..spec(Site::Slurm) }, "pets.sbatch");
    assert!(slurm.contains(" \"--in=$submitted/data/x\"\n"), "{slurm}");
    for name in ["output", "env", "Hold", "request_cpus"] {
        let mut odd = sweep();
        odd.names[0] = name.to_owned();
        check(JobSpec { parameters: Some(odd), ..base() }, "command of HTCondor");
    }
    for launcher in ["torchrun --nnodes 4 ddp.py", "accelerate launch --num_machines 4 ddp.py"] {
        let spec = JobSpec {
            nodes: 4,
            command: words(launcher),
            inputs: vec![("ddp.py".to_owned(), 1)],
            data: None,
            ..spec(Site::Slurm)
        };
        check(spec.clone(), "where the nodes meet");
        assert!(write(&JobSpec { nodes: 1, ..spec }).is_ok());
    }
    let url = |url: &str, site| JobSpec { input_urls: vec![url.to_owned()], ..spec(site) };
    check(url("https://a.org/w.pt", Site::Slurm), "does not fetch");
    check(url("osdf:///a/b, c", Site::Ospool), "cannot be an input");
    let text = text_of(&url("osdf:///lab/w-v1.pt", Site::Ospool), "pets.sub");
    assert!(text.contains(", osdf:///lab/w-v1.pt, "), "{text}");
    let mut odd = sweep();
    odd.rows[0][0] = "$(rm)".to_owned();
    check(JobSpec { parameters: Some(odd), ..base() }, "parameter");
}

#[test]
fn memory_cpu_and_more_lines_stand_in_the_submit_file() {
    let line = |text: &str| JobLine { text: text.to_owned(), source: String::new() };
    let mut spec = JobSpec {
        retry_memory_bytes: Some(32 << 30),
        cpu_level: Some(3),
        lines: vec![line("accounting_group = lab"), line("+ProjectName = \"x\"")],
        ..spec(Site::Chtc)
    };
    let text = |spec: &JobSpec| {
        let folder = write(spec).unwrap_or_else(|refusal| unreachable!("{refusal}"));
        folder
            .files
            .iter()
            .find(|file| file.name.starts_with("pets.s"))
            .expect("it is there")
            .text
            .clone()
    };
    let sub = text(&spec);
    for line in [
        "retry_request_memory = 34 GB",
        "requirements = (TARGET.Microarch >= \"x86_64-v3\")",
        "accounting_group = lab",
        "+ProjectName = \"x\"",
    ] {
        assert!(sub.lines().any(|l| l == line), "{line}\n{sub}");
    }
    assert_eq!(findings(&spec), [""; 0]);
    let refused = |text: &str, what: &str| {
        let spec = JobSpec { lines: vec![line(text)], ..spec.clone() };
        let refusal = write(&spec).expect_err(text);
        assert!(refusal.what.contains(what), "{}", refusal.what);
    };
    refused("request_CPUs = 3", "is set already");
    refused("requirements = true", "is set already");
    refused("queue 3", "is not one line");
    refused("a = 1\nqueue", "is not one line");
    refused("RequestCpus = 3", "is set already");
    refused("a = 1 \\", "backslash");
    for odd in ["if true", "include : x", "a @=end", "# a = 1", "a b", ""] {
        refused(odd, "is not one line");
    }
    spec.retry_memory_bytes = Some(16 << 30);
    assert!(write(&spec).is_err());
    let spec =
        JobSpec { lines: vec![line("--qos=normal")], image: None, ..self::spec(Site::Slurm) };
    assert!(text(&spec).contains("\n#SBATCH --qos=normal\n"));
    for wrong in [
        "--time=1",
        "--cpus-per-task 3",
        "qos=normal",
        "--",
        "--qos=a --nice=1",
        "-c 3",
        "--cpus-per-t=3",
        "--qos=a \\",
        "--qos=a x",
        "# a",
        "--tmie=1",
    ] {
        assert!(write(&JobSpec { lines: vec![line(wrong)], ..spec.clone() }).is_err(), "{wrong}");
    }
    // A line of a site has its source above it.
    let of_site =
        |text: &str| JobLine { text: text.to_owned(), source: "a page, 2026-08".to_owned() };
    let spec = JobSpec {
        lines: vec![of_site("--threads-per-core=1")],
        before: vec![of_site("export NCCL_SOCKET_IFNAME=ib0")],
        master_suffix: Some(String::new()),
        tasks: 2,
        image: None,
        ..self::spec(Site::Jsc)
    };
    let batch = text(&spec);
    assert!(batch.contains("\n# a page, 2026-08\n#SBATCH --threads-per-core=1\n"), "{batch}");
    assert!(batch.contains("\n# a page, 2026-08\nexport NCCL_SOCKET_IFNAME=ib0\n"), "{batch}");
    assert!(batch.contains("| head -n 1)\n"), "{batch}");
    for odd in ["a\nb", "echo 'a", "if true", "cat <<E", "fi", "a \\"] {
        let odd = JobSpec { before: vec![of_site(odd)], ..spec.clone() };
        assert!(write(&odd).is_err(), "{odd:?}");
    }
    let lines = ["if true; then", "echo a", "fi"].map(of_site).to_vec();
    assert!(write(&JobSpec { before: lines, ..spec }).is_ok());
}
