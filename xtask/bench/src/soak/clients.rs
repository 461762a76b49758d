//! What the clients do, one command after another, and what must be true of all they made.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result, anyhow};

use super::client::{Client, Surroundings};
use super::inputs::Input;
use super::sound;

/// Processes that publish, and then fetch, at the same time.
pub(super) const CLIENTS: usize = 4;

/// All clients.
pub(super) struct Clients<'a> {
    pub(super) at: &'a Surroundings<'a>,
    pub(super) inputs: &'a [Input],
    /// The folder with everything.
    pub(super) work: &'a Path,
}

/// One command of a client.
struct Job {
    name: &'static str,
    args: Vec<OsString>,
    /// What it makes, which is compared whenever it says that all is done.
    made: Option<Copy>,
}

impl Job {
    fn new(name: &'static str, args: &[&OsString]) -> Self {
        Self { name, args: args.iter().map(|arg| (*arg).clone()).collect(), made: None }
    }

    fn makes(self, copy: impl Into<PathBuf>, original: &Path) -> Self {
        let (copy, original) = (copy.into(), original.to_owned());
        Self { made: Some(Copy { copy, original }), ..self }
    }
}

/// The files that a client fetches, and what they must be equal to.
struct Copy {
    copy: PathBuf,
    original: PathBuf,
}

impl Clients<'_> {
    /// Publishes all, then fetches all, then does both again without faults: this is the run after
    /// which no temporary file is left.
    pub(super) fn all(&self) -> Result<()> {
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
            let name = format!("{pass}{}", job.name);
            let done = client.run(&name, &job.args)?;
            if let (Some(_), Some(made)) = (done, &job.made) {
                for wrong in sound::differences(&made.copy, &made.original)? {
                    self.at.tally.fault(format!("{name}-{number} ended with 0, and {wrong}"));
                }
            }
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
        let input = &self.inputs[from];
        let folder = [&verb, &recursive, &self.url(from, "folder"), &to("folder")];
        Ok(vec![
            Job::new("fetch-shared", &[&verb, &bundle(0)?, &shared])
                .makes(&shared, &self.inputs[0].bundle),
            Job::new("fetch-folder", &folder).makes(to("folder"), &input.folder),
            Job::new("fetch-bundle", &[&verb, &bundle(from)?, &to("bundle")])
                .makes(to("bundle"), &input.bundle),
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
    pub(super) fn check(&self) -> Result<()> {
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
