//! `cargo xtask bench soak`: four processes publish and fetch through servers that fail in every way
//! we know, and are killed at random moments. At the end every byte must be right.
//!
//! ```text
//! chance      what the seed decides
//! wire        HTTP and TLS
//! faults      which request meets which fault
//! proxy       a server that does so
//! federation  the servers together
//! inputs      what is published
//! client      runs of `gular`, killed and started again
//! sound       what must be true at the end
//! ```
//!
//! The same seed gives the same files, the same faults for the same requests and the same moments of
//! kills. Which request of several clients comes first depends on the machine, so a seed that fails
//! may have to be run more than once.

mod chance;
mod client;
mod faults;
mod federation;
mod inputs;
mod proxy;
mod sound;
mod wire;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use self::chance::Chance;
use self::client::{Client, Surroundings, Tally};
use self::faults::Faults;
use self::federation::Faulty;
use self::inputs::Input;
use super::machine;

/// Processes that publish, and then fetch, at the same time.
const CLIENTS: usize = 4;

/// The arguments of `cargo xtask bench soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// What decides about faults and kills
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of objects that are published
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) objects: usize,
    /// After this time nothing fails and nobody is killed, so that the rest is soon done
    #[arg(long, value_name = "N", default_value_t = 40)]
    pub(crate) seconds: u64,
    /// The program [default: it is built first]
    #[arg(long, value_name = "FILE")]
    pub(crate) gular: Option<PathBuf>,
}

/// Runs the soak in the folder `work`, which stays if something was wrong.
pub(crate) fn run(gular: &Path, settings: &Settings, work: &Path) -> Result<()> {
    ensure!(settings.objects >= 4 * CLIENTS, "`--objects` is at least {}", 4 * CLIENTS);
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work)?;
    let chance = Chance::new(settings.seed);
    let inputs = inputs(gular, chance, settings.objects, work)?;
    let faults = Arc::new(Faults::new(chance));
    let servers = Faulty::start(&work.join("servers"), &faults)?;
    let logs = work.join("logs");
    fs::create_dir_all(&logs)?;
    let tally = Tally::default();
    let at = Surroundings {
        gular,
        servers: &servers,
        chance,
        faults: &faults,
        tally: &tally,
        logs: &logs,
    };
    let begun = Instant::now();
    calm_after(&faults, Duration::from_secs(settings.seconds));
    let soak = Soak { at: &at, inputs: &inputs, work };
    soak.all()?;
    let seconds = begun.elapsed().as_secs_f64();
    faults.calm();
    soak.check()?;
    report(settings, &inputs, &faults, &tally, seconds);
    let wrong = tally.faults();
    if wrong.is_empty() {
        fs::remove_dir_all(work)?;
        return Ok(());
    }
    bail!(
        "{} faults; what was made is in `{}`; run this again with `cargo xtask bench soak --seed {} --objects {} --seconds {}`:\n  {}",
        wrong.len(),
        work.display(),
        settings.seed,
        settings.objects,
        settings.seconds,
        wrong.join("\n  ")
    )
}

/// Makes what each client publishes.
fn inputs(gular: &Path, chance: Chance, objects: usize, work: &Path) -> Result<Vec<Input>> {
    let make = |number: usize| {
        let dir = work.join(format!("input-{number}"));
        Input::make(gular, chance, number, objects / CLIENTS, &dir)
    };
    (0..CLIENTS).map(make).collect()
}

fn calm_after(faults: &Arc<Faults>, time: Duration) {
    let faults = Arc::clone(faults);
    thread::spawn(move || {
        thread::sleep(time);
        faults.calm();
    });
}

/// What the clients do.
struct Soak<'a> {
    at: &'a Surroundings<'a>,
    inputs: &'a [Input],
    work: &'a Path,
}

/// One command of a client.
struct Job {
    name: &'static str,
    args: Vec<OsString>,
}

impl Job {
    fn new(name: &'static str, args: &[&OsString]) -> Self {
        Self { name, args: args.iter().map(|arg| (*arg).clone()).collect() }
    }
}

/// The files that a client fetches, and what they must be equal to.
struct Copy {
    copy: PathBuf,
    original: PathBuf,
}

impl Soak<'_> {
    /// Publishes all, then fetches all, then does both again without faults: this is the run after
    /// which no temporary file is left.
    fn all(&self) -> Result<()> {
        for pass in ["", "again-"] {
            self.each(|number| self.do_all(number, pass, &self.publish(number)))?;
            self.each(|number| self.do_all(number, pass, &self.fetch(number)?))?;
            self.at.faults.calm();
            self.let_time_pass()?;
        }
        Ok(())
    }

    /// Lets the temporary files of the clients' caches look old. Others may be writing there, so what
    /// a killed client left is removed some time later.
    fn let_time_pass(&self) -> Result<()> {
        for number in 0..CLIENTS {
            sound::make_old(&self.client(number).cache())?;
        }
        Ok(())
    }

    /// Lets every client do something at the same time.
    fn each(&self, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
        thread::scope(|scope| {
            let work = &work;
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || work(number))).collect();
            clients.into_iter().try_for_each(|client| {
                client.join().map_err(|_| anyhow!("a thread of a client failed (a panic)"))?
            })
        })
    }

    fn do_all(&self, number: usize, pass: &str, jobs: &[Job]) -> Result<()> {
        let client = self.client(number);
        fs::create_dir_all(client.temps())?;
        for job in jobs {
            client.run(&format!("{pass}{}", job.name), &job.args)?;
        }
        Ok(())
    }

    fn client(&self, number: usize) -> Client<'_> {
        Client { at: self.at, number, home: self.work.join(format!("client-{number}")) }
    }

    fn url(&self, number: usize, name: &str) -> OsString {
        format!("{}/{number}/{name}", self.at.servers.url).into()
    }

    fn publish(&self, number: usize) -> Vec<Job> {
        let input = &self.inputs[number];
        let [verb, recursive] = ["publish", "-r"].map(OsString::from);
        let url = |name| self.url(number, name);
        let [folder, bundle, large] =
            [&input.folder, &input.bundle, &input.large].map(|path| path.clone().into_os_string());
        vec![
            Job::new("publish-folder", &[&verb, &recursive, &folder, &url("folder")]),
            Job::new("publish-bundle", &[&verb, &bundle, &url("bundle/v1")]),
            Job::new("publish-large", &[&verb, &large, &url("large.bin")]),
        ]
    }

    /// Client `number` fetches what the next one published, and all fetch the first bundle into one
    /// folder.
    fn fetch(&self, number: usize) -> Result<Vec<Job>> {
        let from = (number + 1) % CLIENTS;
        let [verb, recursive] = ["fetch", "-r"].map(OsString::from);
        let with = |mut url: OsString, file: &Path| -> Result<OsString> {
            let bytes =
                fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?;
            url.push(format!("#blake3={}", blake3::hash(&bytes).to_hex()));
            Ok(url)
        };
        let bundle = |number: usize| {
            let manifest = self.inputs[number].bundle.join("manifest.json");
            with(self.url(number, "bundle/v1"), &manifest)
        };
        let large = with(self.url(from, "large.bin"), &self.inputs[from].large)?;
        let to = |name| self.copy(number, name).into_os_string();
        let shared = self.work.join("shared").into_os_string();
        Ok(vec![
            Job::new("fetch-shared", &[&verb, &bundle(0)?, &shared]),
            Job::new(
                "fetch-folder",
                &[&verb, &recursive, &self.url(from, "folder"), &to("folder")],
            ),
            Job::new("fetch-bundle", &[&verb, &bundle(from)?, &to("bundle")]),
            Job::new("fetch-large", &[&verb, &large, &to("large")]),
        ])
    }

    fn copy(&self, number: usize, name: &str) -> PathBuf {
        self.client(number).home.join("copies").join(name)
    }

    /// All folders of the clients and of the origin that have copies.
    fn copies(&self) -> Vec<Copy> {
        let shared =
            Copy { copy: self.work.join("shared"), original: self.inputs[0].bundle.clone() };
        let mut copies = vec![shared];
        for number in 0..CLIENTS {
            let stored = self.at.servers.stored.join(number.to_string());
            let from = &self.inputs[(number + 1) % CLIENTS];
            copies.extend([
                Copy { copy: stored.join("folder"), original: self.inputs[number].folder.clone() },
                Copy { copy: self.copy(number, "folder"), original: from.folder.clone() },
                Copy { copy: self.copy(number, "bundle"), original: from.bundle.clone() },
            ]);
        }
        copies
    }

    /// Notes all that is wrong at the end.
    fn check(&self) -> Result<()> {
        let mut wrong = Vec::new();
        for Copy { copy, original } in self.copies() {
            wrong.extend(sound::differences(&copy, &original)?);
        }
        for number in 0..CLIENTS {
            let stored = self.at.servers.stored.join(number.to_string()).join("large.bin");
            let fetched = self.copy((number + CLIENTS - 1) % CLIENTS, "large").join("large.bin");
            let original = fs::read(&self.inputs[number].large)?;
            for path in [stored, fetched] {
                if fs::read(&path).ok().as_ref() != Some(&original) {
                    wrong.push(format!("`{}` is missing or has other bytes", path.display()));
                }
            }
            let client = self.client(number);
            wrong.extend(sound::temporaries(&client.home)?);
            wrong.extend(sound::any(&client.temps())?);
            wrong.extend(sound::with_token(&client.home, &self.at.servers.token)?);
        }
        wrong.extend(sound::temporaries(&self.work.join("shared"))?);
        wrong.extend(sound::with_token(self.at.logs, &self.at.servers.token)?);
        for text in wrong {
            self.at.tally.fault(text);
        }
        Ok(())
    }
}

/// Prints a table and a record.
fn report(settings: &Settings, inputs: &[Input], faults: &Faults, tally: &Tally, seconds: f64) {
    let objects: usize = inputs.iter().map(|input| input.objects).sum();
    let (runs, kills) = (tally.runs.load(Relaxed), tally.kills.load(Relaxed));
    let later = tally.later.load(Relaxed);
    let counts = faults.counts();
    eprintln!("{:<32}{:>8}", "seed", settings.seed);
    eprintln!("{:<32}{objects:>8}", "objects");
    eprintln!("{:<32}{:>8}", "requests", faults.requests());
    for (name, n) in &counts {
        eprintln!("  {name:<30}{n:>8}");
    }
    eprintln!("{:<32}{runs:>8}", "runs of gular");
    eprintln!("  {:<30}{kills:>8}", "killed");
    eprintln!("  {:<30}{later:>8}", "try again (75)");
    eprintln!("{:<32}{seconds:>8.0}", "seconds");
    let dealt: serde_json::Map<String, Value> =
        counts.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
    let record = json!({
        "bench": "soak", "machine": machine(), "seed": settings.seed, "objects": objects,
        "requests": faults.requests(), "dealt": dealt, "runs": runs, "kills": kills,
        "later": later, "wrong": tally.faults().len(), "seconds": seconds,
    });
    println!("{record}");
}
