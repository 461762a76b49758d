//! A director that fails while caches have every byte: bundles can still be read, in the same job
//! and in the next one.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gular_federation::{Federation, Options, TokenRequest, Trouble, mint};
use gular_pelican::{Client, ClientOptions, Env, Tell, Url};
use gular_transfer::{
    BundleUrl, Error, FetchOptions, PublishOptions, RemoteBundle, SoundBundle, Watch, fetch,
    publish,
};
use tempfile::TempDir;

use crate::fixtures;

struct Site {
    dir: TempDir,
    federation: Federation,
    url: BundleUrl,
    told: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// Starts a federation with a bundle.
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let federation = Federation::start(&Options::new(dir.path())).unwrap();
        let all = || vec!["/".to_owned()];
        let request = TokenRequest { read: all(), create: all(), ..TokenRequest::default() };
        let token = mint(dir.path(), &request).unwrap();
        fs::write(dir.path().join("token"), token.secret()).unwrap();
        let bundle = dir.path().join("bundle");
        let digest = fixtures::make(&bundle, &[100, 2 * fixtures::BLOCK, 5000]);
        let sound = SoundBundle::prove(&bundle, |_| Ok::<_, Error>(digest)).unwrap();
        let to = Url::parse(&format!("{}/set/v1", federation.url())).unwrap();
        let url = BundleUrl { url: to.clone(), digest: Some(digest) };
        let site = Self { dir, federation, url, told: Arc::default() };
        let watch = Watch::never();
        let options = PublishOptions::default();
        publish(&site.client(false), &sound, &to, &options, watch).unwrap();
        site
    }

    /// Makes the client of a new process. `has_folder` says whether it has the node's folder of
    /// routes, without which it fails.
    fn client(&self, has_folder: bool) -> Client {
        let token = self.dir.path().join("token");
        let env = Env::from_pairs(&[
            ("SSL_CERT_FILE", self.federation.ca_file().to_str().unwrap()),
            ("BEARER_TOKEN_FILE", token.to_str().unwrap()),
        ]);
        let mut options = ClientOptions::new(env);
        options.patience = Duration::from_secs(if has_folder { 8 } else { 3 });
        options.route_folder = has_folder.then(|| self.dir.path().join("node/routes"));
        let told = Arc::clone(&self.told);
        options.tell = Tell::new(move |text| told.lock().unwrap().push(text.to_owned()));
        Client::new(options).unwrap()
    }

    fn fetch(&self, client: &Client, url: &BundleUrl, watch: Watch<'_>) -> Result<(), Error> {
        let to = tempfile::tempdir().unwrap();
        let remote = RemoteBundle::open(client, url, watch)?;
        fetch(client, &remote, to.path(), &FetchOptions::default(), watch)?;
        Ok(())
    }
}

#[test]
fn a_job_goes_on_and_the_next_one_begins_without_a_director() {
    let site = Site::start();
    let watch = Watch::never();
    let silent = watch;
    site.fetch(&site.client(true), &site.url, silent).unwrap();
    assert!(site.told.lock().unwrap().is_empty());
    for trouble in [Trouble::NoOrigins, Trouble::Restarted] {
        site.federation.trouble(trouble);
        site.fetch(&site.client(true), &site.url, silent).unwrap();
        let told = std::mem::take(&mut *site.told.lock().unwrap());
        assert_eq!(told.len(), 1, "{trouble:?}: {told:?}");
        assert!(
            told[0].starts_with("using the servers that the director named earlier"),
            "{told:?}"
        );
        // For bytes that nothing checks, only the director may name the server.
        let unchecked = BundleUrl { digest: None, ..site.url.clone() };
        assert!(site.fetch(&site.client(true), &unchecked, silent).is_err(), "{trouble:?}");
        assert!(site.fetch(&site.client(false), &site.url, silent).is_err(), "{trouble:?}");
    }
    site.federation.trouble(Trouble::None);

    // The director fails during a job, and before the next one.
    let stopped = AtomicBool::new(false);
    let stop = |_: u64, _: u64| {
        if !stopped.swap(true, Ordering::Relaxed) {
            site.federation.trouble(Trouble::Down);
        }
    };
    let watch = Watch { progress: &stop, ..silent };
    site.fetch(&site.client(true), &site.url, watch).unwrap();
    assert!(stopped.into_inner());
    site.fetch(&site.client(true), &site.url, silent).unwrap();
    assert!(site.fetch(&site.client(false), &site.url, silent).is_err());
}
