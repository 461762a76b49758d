//! Repairs a shard in the node's cache while it is being read.
//!
//! ```text
//! a reader finds wrong bytes ─▶ the blocks that hold them ─▶ still wrong: from the servers, in place
//! ```
//!
//! The file keeps its name and its inode: processes that have it open or mapped read the right bytes
//! from then on. This is the one place where a file with its final name is written to. A process that
//! is killed meanwhile leaves a block wrong that was wrong before.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_bundle::{BlockTree, Bundle, DATA_DIR, Index, Mend, NotBrought, ShardEntry, ShardIdx};
use gular_pelican::Client;

use super::streamed::TellWaiting;
use crate::{BundleUrl, Error, RemoteBundle};

/// How often a file is opened that another process makes read-only meanwhile.
const MOST_TRIES: u32 = 100;
/// After a failure, servers are not asked again for so long: all threads meet the same one.
const PAUSE: Duration = Duration::from_secs(60);

/// Fetches damaged blocks of a bundle's shards again.
#[derive(Debug)]
pub(crate) struct Mender {
    client: Client,
    remote: RemoteBundle,
    data: PathBuf,
    tell: TellWaiting,
    /// Is held while a block is replaced, since several threads may find it damaged; the last
    /// failure, and when it was.
    turn: Mutex<Option<(Instant, NotBrought)>>,
}

impl Mender {
    /// Makes `bundle`, the copy in the node's cache of the one at `url`, fetch its damaged blocks
    /// again; `tell` is told of them.
    pub(crate) fn attach(
        bundle: Bundle,
        client: &Client,
        url: &BundleUrl,
        tell: TellWaiting,
    ) -> Bundle {
        let url = BundleUrl { digest: Some(bundle.digest()), ..url.clone() };
        let Some(remote) = RemoteBundle::of_copy(&url, bundle.dir()) else { return bundle };
        let (client, data) = (client.clone(), bundle.dir().join(DATA_DIR));
        let mender = Self { client, remote, data, tell, turn: Mutex::default() };
        bundle.with_mender(Arc::new(mender))
    }

    fn blocks(
        &self,
        entry: &ShardEntry,
        tree: &BlockTree,
        range: &Range<u64>,
    ) -> Result<u64, Error> {
        let path = self.data.join(entry.file.name.as_str());
        let io = |action| {
            let path = &path;
            move |e| Error::io(action, path, e)
        };
        let file = File::open(&path).map_err(io("open"))?;
        let mut bad = Vec::new();
        for block in tree.blocks_of(range) {
            let range = tree.range(block);
            let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0);
            let mut bytes = vec![0; len];
            // What the disk cannot read is damaged, too.
            let read = file.read_exact_at(&mut bytes, range.start);
            if read.is_err() || !tree.accepts(block, &bytes) {
                bad.push((block, range));
            }
        }
        for (block, range) in &bad {
            let name = &entry.file.name;
            self.tell.say(Some(&format!("a damaged block of shard `{name}` to be fetched again")));
            let accepts = |bytes: &[u8]| match tree.accepts(*block, bytes) {
                true => Ok(()),
                false => Err("its bytes differ from the expected ones".to_owned()),
            };
            let never = AtomicBool::new(false);
            let bytes =
                self.remote.read_range(&self.client, &entry.file, range.clone(), &accepts, &never);
            self.tell.say(None);
            replace(&path, range.start, &bytes?).map_err(io("repair"))?;
        }
        Ok(bad.len() as u64)
    }
}

impl Mend for Mender {
    fn mend(&self, shard: ShardIdx, index: &Index, range: Range<u64>) -> Result<u64, NotBrought> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = self.remote.manifest().shards.get(shard.0) else { return Ok(0) };
        let name = entry.file.name.to_string();
        if let Some((_, failed)) = turn.as_ref().filter(|(at, _)| at.elapsed() < PAUSE) {
            return Err(NotBrought { shard: name, ..failed.clone() });
        }
        let mended = self.blocks(entry, &index.blocks(), &range).map_err(|error| NotBrought {
            shard: name,
            url: self.remote.url().to_string(),
            reason: format!("it is damaged in the node's cache, and {error}"),
            hint: error.hint(),
            is_passing: error.is_passing(),
        });
        *turn = mended.as_ref().err().map(|failed| (Instant::now(), failed.clone()));
        mended
    }
}

/// Writes `bytes` into the file at `path`, which is read-only before and after.
fn replace(path: &Path, position: u64, bytes: &[u8]) -> io::Result<()> {
    let file = open_to_write(path)?;
    file.write_all_at(bytes, position)?;
    file.sync_data()
}

/// Opens a file that is read-only. Another process that does the same may take the permission back
/// just before.
fn open_to_write(path: &Path) -> io::Result<File> {
    let mut tries = 0;
    loop {
        fs::set_permissions(path, Permissions::from_mode(0o644))?;
        let opened = OpenOptions::new().write(true).open(path);
        fs::set_permissions(path, Permissions::from_mode(0o444))?;
        let taken_back = |e: &io::Error| e.kind() == io::ErrorKind::PermissionDenied;
        if !opened.as_ref().is_err_and(taken_back) || tries == MOST_TRIES {
            return opened;
        }
        tries += 1;
    }
}
