use super::*;
use crate::disk::tests::Files;
use crate::lint::lint;

fn order(site: Site) -> Order {
    Order {
        name: "pets".to_owned(),
        site,
        command: ["python3", "train.py", "--data", "{data}", "--out", "output"]
            .map(str::to_owned)
            .to_vec(),
        image: Some(Image {
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
        }),
        inputs: vec![("train.py".to_owned(), 1000)],
        checkpoint: Some("ckpt".to_owned()),
        parameters: None,
        stages: Stages::default(),
        cpus: 4,
        memory_bytes: 16 << 30,
        shm_bytes: 2 << 30,
        scratch_bytes: 1 << 30,
        gpus: 1,
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

/// What lint says of a written folder with the user's program beside.
fn findings(order: &Order) -> Vec<String> {
    let folder = write(order).unwrap_or_else(|refusal| unreachable!("{refusal}"));
    let mut files = Files::of(&[
        ("train.py", "CODE = 85\nprint('output')\n"),
        ("logs/x", ""),
        ("results/x", ""),
        ("train.sif", ""),
    ]);
    for file in &folder.files {
        files.0.insert(file.name.clone(), file.text.clone());
    }
    let found = lint(&job_file(order), &files).unwrap_or_else(|| unreachable!("it was written"));
    let text = |file: &str| files.0.get(file).cloned().unwrap_or_default();
    found
        .iter()
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
                        let mut order =
                            Order { gpus, checkpoint: checkpoint.clone(), ..order(site) };
                        if parameters.is_some() {
                            order.command.extend(["--lr={lr}", "{seed}"].map(str::to_owned));
                        }
                        order.parameters.clone_from(&parameters);
                        order.data.iter_mut().for_each(|data| data.fetch = fetch);
                        assert_eq!(findings(&order), [""; 0], "{order:?}");
                    }
                }
            }
        }
    }
    let ranks = Order { nodes: 2, tasks: 4, gpus: 4, ..order(Site::Jsc) };
    assert_eq!(findings(&ranks), [""; 0]);
    // It would be found.
    let missing = Order { inputs: vec![("gone.py".to_owned(), 1)], ..order(Site::Chtc) };
    assert!(findings(&missing).iter().any(|finding| finding.starts_with("missing-file pets.sub")));
    let bare = Order {
        image: None,
        data: None,
        inputs: Vec::new(),
        command: vec!["./a".to_owned()],
        checkpoint: None,
        ..order(Site::Generic)
    };
    assert_eq!(findings(&bare), [""; 0]);
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn ensemble(site: Site) -> Order {
    let mut order = Order { parameters: Some(sweep()), ..order(site) };
    order.command.extend(["--lr={lr}", "{seed}"].map(str::to_owned));
    order.stages = Stages {
        evaluate: Some(words("python3 train.py --weights {trained}/w --seed {seed}")),
        select: Some(Select { metric: "accuracy".to_owned(), lowest: false }),
        merge: Some(words("python3 train.py --merge {each}/w")),
    };
    order
}

fn text_of(order: &Order, name: &str) -> String {
    let folder = write(order).unwrap_or_else(|refusal| unreachable!("{refusal}"));
    let file = folder.files.into_iter().find(|file| file.name == name);
    file.map(|file| file.text).unwrap_or_default()
}

#[test]
fn an_ensemble_is_a_graph_without_a_trap() {
    let whole = ensemble(Site::Chtc);
    assert_eq!(findings(&whole), [""; 0]);
    let one = Order {
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
    assert!(text_of(&order(Site::Chtc), "pets.sub").contains("max_retries = 3"));
    let merge = text_of(&whole, "merge.sh");
    assert!(merge.contains(" --merge all/job0/output/w all/job1/output/w\n"), "{merge}");
    // A stage gets the bundle if its command uses it.
    let bundle = |file: &str| text_of(&whole, file).contains("/v1/manifest.json");
    assert_eq!([bundle("pets.sub"), bundle("evaluate.sub")], [true, false]);
    let evaluate = text_of(&whole, "evaluate.sh");
    assert!(evaluate.contains(" trained/output/w --seed \"${seed}\""), "{evaluate}");
}

#[test]
fn parts_of_a_pack_are_jobs_and_their_merge_follows() {
    let pack = |site| Order {
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
        ..order(site)
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
    let merge = text_of(&pack(Site::Slurm), "merge.sbatch");
    assert!(merge.contains("gular pack --merge /data/out/part-1 ") && !merge.contains("--array"));
    assert!(text_of(&pack(Site::Chtc), "merge.sub").contains("HasCHTCStaging"));
    assert!(!text_of(&pack(Site::Chtc), "merge.sub").contains("transfer_input_files"));
    assert!(write(&pack(Site::Ospool)).is_err());
}

#[test]
fn quotas_of_a_site_are_compared_with_data_and_results() {
    let notes = |order: &Order| write(order).map(|folder| folder.notes.join("\n"));
    let has = |order: &Order, word: &str| notes(order).is_ok_and(|notes| notes.contains(word));
    let mut many = order(Site::Chtc);
    assert!(!has(&many, "commonly"));
    many.data.iter_mut().for_each(|data| data.files = vec![data.files[0].clone(); 1001]);
    assert!(has(&many, "the data is 1001 files: /staging commonly holds 1000 unless"));
    let mut large = order(Site::Ospool);
    large.data.iter_mut().for_each(|data| data.bytes = 101_000_000_000);
    assert!(has(&large, "the data has 101.0 GB: "));
    large.data.iter_mut().for_each(|data| data.bytes = 100_000_000_000);
    assert!(!has(&large, "the data has"));
    let results = Order { scratch_bytes: 41_000_000_000, ..order(Site::Chtc) };
    assert!(has(&results, "the results of all 1 jobs"));
}

#[test]
fn requests_follow_from_image_data_and_program() {
    let text =
        write(&order(Site::Chtc)).map(|folder| folder.files[0].text.clone()).unwrap_or_default();
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
fn ranks_meet_on_the_first_node() {
    let ranks = Order { nodes: 2, tasks: 4, ..order(Site::Jsc) };
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
    let check = |order: Order, word: &str| match write(&order) {
        Err(refusal) => assert!(refusal.what.contains(word), "{refusal}"),
        Ok(folder) => unreachable!("{word}: {folder:?}"),
    };
    let base = || order(Site::Ospool);
    check(Order { hours: 50.0, ..base() }, "hours");
    check(Order { hours: f64::NAN, ..base() }, "hours");
    check(Order { stay: true, ..base() }, "campus");
    check(Order { nodes: 2, ..base() }, "one process");
    check(Order { name: "a b".to_owned(), ..base() }, "name");
    check(Order { command: vec!["it's".to_owned()], ..base() }, "quote");
    check(Order { command: Vec::new(), ..base() }, "no command");
    check(Order { data: None, ..base() }, "{data}");
    let token =
        |site, service: &str| Order { credentials: Some(service.to_owned()), ..order(site) };
    check(token(Site::Slurm, "igwn"), "tokens");
    check(token(Site::Chtc, "a, b"), "tokens");
    assert!(text_of(&token(Site::Chtc, "igwn"), "pets.sub").contains("use_oauth_services = igwn"));
    check(Order { inputs: vec![("a b".to_owned(), 1)], ..base() }, "listed");
    check(Order { inputs: vec![("x.bin".to_owned(), 2 << 30)], ..base() }, "access point");
    check(Order { parameters: Some(sweep()), ..base() }, "does not use");
    let stages = |change: fn(&mut Order)| {
        let mut order = ensemble(Site::Generic);
        change(&mut order);
        order
    };
    check(stages(|order| order.site = Site::Slurm), "HTCondor");
    check(stages(|order| order.stages.evaluate = None), "select by");
    check(stages(|order| order.stages.evaluate = Some(words("eval x"))), "{trained}");
    check(stages(|order| order.stages.merge = Some(words("merge x"))), "{each}");
    check(stages(|order| order.stages.merge = Some(words("merge '{each}'"))), "quote");
    check(
        stages(|order| order.stages.select.iter_mut().for_each(|s| s.metric = "a\"b".to_owned())),
        "metric",
    );
    check(
        stages(|order| {
            order.command.push("{of}".to_owned());
            order.parameters.iter_mut().for_each(|sweep| sweep.names[0] = "of".to_owned());
        }),
        "in a DAG",
    );
    // What is double-quoted for its parameter must not be read by the shell.
    for word in ["$HOME/{lr}", "`id`{lr}", "\"{lr}", "{lr}\\"] {
        let command = ["a", word, "{seed}"].map(str::to_owned).to_vec();
        check(Order { command, parameters: Some(sweep()), ..base() }, "backtick");
    }
    let command = vec!["a".to_owned(), "--in={data}/$x".to_owned()];
    check(Order { command: command.clone(), ..order(Site::Slurm) }, "backtick");
    assert!(text_of(&Order { command, ..base() }, "run.sh").contains("'--in=./$x'"));
    let command = vec!["a".to_owned(), "--in={data}/x".to_owned()];
    let slurm = text_of(&Order { command, ..order(Site::Slurm) }, "pets.sbatch");
    assert!(slurm.contains(" \"--in=$submitted/data/x\"\n"), "{slurm}");
    let mut odd = sweep();
    odd.rows[0][0] = "$(rm)".to_owned();
    check(Order { parameters: Some(odd), ..base() }, "parameter");
}
