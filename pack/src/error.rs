//! What can go wrong between a directory of images and a bundle.

use std::io;

/// Why a directory was not packed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Nothing to pack.
    #[error("no JPEG or PNG image below `{path}`{ignored}")]
    NoImages {
        /// The folder.
        path: String,
        /// Which other files there were, beginning with `; `, or nothing.
        ignored: String,
    },
    /// Images that lie in no class folder.
    #[error("`{path}` lies in no class folder, expected `{expected}`")]
    NoClass {
        /// The first such file.
        path: String,
        /// The layout looked for.
        expected: &'static str,
    },
    /// Some top-level folders are named like splits and some are not.
    #[error("top-level folder `{split}` is named like a split and `{other}` is not")]
    MixedLayout {
        /// One named like a split.
        split: String,
        /// One that is not.
        other: String,
    },
    /// A folder that leads back to one above it.
    #[error("directory loop: `{link}` leads back to `{target}`")]
    Loop {
        /// The link.
        link: String,
        /// The folder it leads to.
        target: String,
    },
    /// Two names that other file systems would take for one.
    #[error("`{first}` and `{second}` differ only in upper and lower case")]
    CaseCollision {
        /// One key.
        first: String,
        /// The other.
        second: String,
    },
    /// A class folder that the given list of classes does not have.
    #[error("`{path}` has label `{class}`, which is not one of the {n} classes in `{list}`")]
    UnknownClass {
        /// A file in it.
        path: String,
        /// The folder's name.
        class: String,
        /// The file with the list.
        list: String,
        /// Classes in it.
        n: usize,
    },
    /// A file that cannot be packed.
    #[error("{0}{more}", more = if *.1 == 0 { String::new() } else { format!(" (and {} more such files)", .1) })]
    BadInput(BadInput, u64),
    /// A setting that makes no sense.
    #[error("{0}")]
    Option(String),
    /// The file system is too small.
    #[error("`{path}` has {free} bytes free, the bundle needs about {needed}")]
    NoSpace {
        /// The folder.
        path: String,
        /// Bytes the bundle takes.
        needed: u64,
        /// Bytes there are.
        free: u64,
    },
    /// The file system filled up on the way.
    #[error("`{path}` is full: {source}")]
    Full {
        /// The folder.
        path: String,
        /// The writer's error.
        source: gular_bundle::Error,
    },
    /// The folder is not free for a bundle.
    #[error("`{path}` already holds bundle {digest}")]
    AlreadyBundle {
        /// The folder.
        path: String,
        /// The bundle in it.
        digest: String,
    },
    /// The folder holds something else.
    #[error("`{path}` is not empty and holds no interrupted pack; it has `{found}`")]
    NotEmpty {
        /// The folder.
        path: String,
        /// Something in it.
        found: String,
    },
    /// An interrupted pack of other images or with other options.
    #[error(
        "`{path}` holds an interrupted pack of other images or options (plan {found}, now {expected})"
    )]
    OtherPlan {
        /// The folder.
        path: String,
        /// Digest of the present plan.
        expected: String,
        /// Digest of the plan there.
        found: String,
    },
    /// Another process packs here.
    #[error("another process is packing into `{path}`")]
    Busy {
        /// The folder.
        path: String,
    },
    /// The caller asked to stop.
    #[error("stopped; {done} of {total} shards of `{path}` are finished and kept")]
    Cancelled {
        /// The output folder.
        path: String,
        /// Finished shards.
        done: usize,
        /// All shards.
        total: usize,
    },
    /// The writer's error.
    #[error(transparent)]
    Bundle(#[from] gular_bundle::Error),
}

/// A file that cannot be packed, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize, thiserror::Error)]
#[error("`{path}`: {reason}")]
pub struct BadInput {
    /// The file, below the source folder.
    pub path: String,
    /// What is wrong with it: expected and found.
    pub reason: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Error {
    /// What the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoImages { .. } => {
                "name the folder that holds `class/file` or `split/class/file`"
            }
            Self::NoClass { .. } => {
                "move it into a class folder, or pack without labels: `--labels none`"
            }
            Self::MixedLayout { .. } => {
                "say what top-level folders are: `--layout split` or `--layout class`"
            }
            Self::Loop { .. } => "remove the link",
            Self::CaseCollision { .. } => {
                "rename one: on file systems that ignore case they would be one file"
            }
            Self::UnknownClass { .. } => {
                "add it to the list given with `--classes`, or move the folder away"
            }
            Self::BadInput(bad, _) => {
                let skip = "or run again with `--on-error skip`, which packs the rest and lists what it left out in `skipped.jsonl`";
                return Some(match &bad.hint {
                    Some(hint) => format!("{hint}; {skip}"),
                    None => format!("repair or remove the file, {skip}"),
                });
            }
            Self::NoSpace { .. } => "free space, or pack to another file system",
            Self::Full { .. } => {
                "free space and run the same command again: finished shards are kept"
            }
            Self::AlreadyBundle { .. } => {
                "bundles are never overwritten: pack to a new folder, or remove this one"
            }
            Self::NotEmpty { .. } => "pack to a new or empty folder",
            Self::OtherPlan { .. } => {
                "run the command that was interrupted, or remove the folder and begin anew"
            }
            Self::Busy { .. } => "wait for it, or pack to another folder",
            Self::Cancelled { .. } => "run the same command again to go on",
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free space and run the same command again: finished shards are kept"
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check the permissions of the file and its folders"
            }
            Self::Io { .. } => "check the path",
            Self::Option(_) => "see `gular pack --help`",
            Self::Bundle(e) => return e.hint().map(str::to_owned),
        };
        Some(text.to_owned())
    }

    pub(crate) fn io(
        action: &'static str,
        path: impl AsRef<std::path::Path>,
        source: io::Error,
    ) -> Self {
        Self::Io { action, path: path.as_ref().display().to_string(), source }
    }
}
