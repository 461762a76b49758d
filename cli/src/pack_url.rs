//! `gular pack` of a URL: fetches the folder, then packs it like any other.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_files::TEMP_PREFIX;
use gular_transfer::{Error, FolderLock, FolderOptions, fetch_folder};

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{any_folder, network, show, units};

/// How a SRC that is a URL is fetched.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Archives and downloads")]
pub(crate) struct UrlArgs {
    /// Keep the fetched files in this folder, which must not hold other files
    ///
    /// Files that are already there are compared, and not fetched again. Without it they go to a
    /// temporary folder beside OUT, which is removed when OUT is packed; an interrupted run leaves
    /// it, and the same command resumes there.
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// Token file; repeatable: Gular sends the first that permits the request
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) token: Vec<PathBuf>,
    /// The most bytes per second, all threads together, such as `50MB/s`
    #[arg(long, value_name = "RATE", value_parser = units::rate, hide_short_help = true)]
    pub(crate) limit_rate: Option<u64>,
}

/// The folder with the fetched files.
pub(crate) struct Fetched {
    pub(crate) dir: PathBuf,
    is_temporary: bool,
    /// Prevents others from writing to the folder until it is packed.
    lock: Option<FolderLock>,
}

impl Fetched {
    /// Removes the folder if it is temporary.
    pub(crate) fn done_with(self) {
        let Self { dir, is_temporary, lock } = self;
        if !is_temporary {
            return;
        }
        // First another name, so that nobody resumes in half of it; then without the lock, since an
        // open file that is removed stays in its folder on NFS.
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let gone = dir.with_file_name(format!("{TEMP_PREFIX}done{name}"));
        let moved = match fs::remove_dir_all(&gone) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => fs::rename(&dir, &gone),
        };
        drop(lock);
        if let Err(error) = moved.and_then(|()| fs::remove_dir_all(&gone)) {
            let dir = dir.display();
            show::message("warning", &format!("cannot remove `{dir}`: {error}"));
        }
    }
}

/// Fetches `src` when it is a URL.
///
/// # Errors
/// When any object of it cannot be had: what is packed is all of it or nothing.
pub(crate) fn fetch(
    src: &Path,
    out: &Path,
    args: &UrlArgs,
    dry_run: bool,
    output: &Output,
    stop: &Stop,
) -> Result<Option<Fetched>, Failure> {
    let given = args.cache.is_some() || !args.token.is_empty() || args.limit_rate.is_some();
    let Some(text) = src.to_str().filter(|text| text.contains("://")) else {
        return match given {
            false => Ok(None),
            true => {
                let message = "`--cache`, `--token` and `--limit-rate` only work if SRC is a URL";
                Err(Failure::new(
                    message,
                    Some("leave out these options for a local folder".to_owned()),
                ))
            }
        };
    };
    let url = network::url(text)?;
    if dry_run {
        let message = format!(
            "`--dry-run` cannot be used with a URL: it writes nothing, but `{url}` must be fetched first"
        );
        let hint = format!("run `gular fetch -r {url} DIR`, then `gular pack --dry-run DIR`");
        return Err(Failure::new(message, Some(hint)));
    }
    let is_temporary = args.cache.is_none();
    let dir = args.cache.clone().unwrap_or_else(|| beside(out));
    let access = Access { token: args.token.clone(), limit_rate: args.limit_rate };
    let client = network::client(&access)?;
    let options = FolderOptions { alone: true, ..FolderOptions::default() };
    let fetched = watched("fetch", output, stop, |watch, _| {
        fetch_folder(&client, &url, &dir, &options, watch)
    });
    let fetched = fetched.map_err(|error| {
        let hint = hint(&error, &url.to_string(), out);
        let failure = network::ended(error, stop);
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    })?;
    any_folder::failures(&fetched.failed, fetched.not_tried);
    if fetched.failed.is_empty() {
        return Ok(Some(Fetched { dir, is_temporary, lock: fetched.lock }));
    }
    let n = show::count((fetched.failed.len() + fetched.not_tried) as u64, "object");
    let message = format!("{n} of `{url}` could not be fetched, so nothing was packed");
    let hint = format!(
        "run the same command again: it continues with the files already fetched to `{}`",
        dir.display()
    );
    let mut failure = Failure::new(message, Some(hint));
    failure.exit = match any_folder::exit(&fetched.failed) {
        Exit::Done => Exit::Failed,
        exit => exit,
    };
    Err(failure)
}

/// Says what `gular fetch` can do if `gular pack` cannot fetch the URL.
fn hint(error: &Error, url: &str, out: &Path) -> Option<String> {
    let out = out.display();
    match error {
        Error::NotCollection { .. } => {
            let name = url.rsplit('/').next().unwrap_or_default();
            Some(format!("run `gular fetch {url} DIR`, then `gular pack DIR/{name} {out}`"))
        }
        Error::TooMany { limit, .. } => Some(format!(
            "choose a smaller folder inside it, or run `gular fetch -r --max-objects N {url} DIR` with N above {limit}, then `gular pack DIR {out}`"
        )),
        _ => None,
    }
}

/// A folder beside `out` that the next run with the same OUT finds again.
fn beside(out: &Path) -> PathBuf {
    let name = out.file_name().map_or_else(|| "bundle".into(), |name| name.to_string_lossy());
    out.with_file_name(format!("{TEMP_PREFIX}pack-{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_commands_that_work() {
        let check = |error: Error, expected: &str| {
            assert_eq!(hint(&error, "pelican://h/photos.zip", Path::new("out")).unwrap(), expected);
        };
        check(
            Error::NotCollection { url: String::new() },
            "run `gular fetch pelican://h/photos.zip DIR`, then `gular pack DIR/photos.zip out`",
        );
        check(
            Error::TooMany { place: String::new(), limit: 7 },
            "choose a smaller folder inside it, or run `gular fetch -r --max-objects N pelican://h/photos.zip DIR` with N above 7, then `gular pack DIR out`",
        );
    }

    #[test]
    fn a_temporary_folder_is_removed_and_one_to_keep_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let check = |is_temporary: bool| {
            let dir = parent.path().join("fetched");
            fs::create_dir_all(dir.join("a")).unwrap();
            Fetched { dir, is_temporary, lock: None }.done_with();
            fs::read_dir(parent.path()).unwrap().count()
        };
        assert_eq!(check(true), 0);
        assert_eq!(check(false), 1);
    }

    #[test]
    fn fetched_files_go_beside_the_output() {
        let check =
            |out: &str, expected: &str| assert_eq!(beside(Path::new(out)), Path::new(expected));
        check("/a/bundle", "/a/.gular-tmp-pack-bundle");
        check("bundle/", ".gular-tmp-pack-bundle");
    }
}
