//! Finds samples among an image's files: with the list of samples, or as in a folder of images.

use std::collections::{BTreeMap, HashMap};
use std::io;

use gular_squashfs::read::{self as image, Content, EntryKind, ReadBytes, Walk};

use crate::envelope::foreign::arrays;
use crate::envelope::foreign::squashfs::list::{List, is_list};
use crate::envelope::{Column, Run, SAMPLES_NAME, Survey, Values, media};
use crate::{Error, MAX_INDEX_BYTES, ReadAt};

/// How to rewrite an image so that it can be read in place.
const REPACK: &str =
    "`mksquashfs FOLDER NEW.squashfs -noD -noF -no-sparse -no-fragments` makes one that can";
/// The column of files that belong to no sample.
const OTHERS: &str = "other files";

/// Finds a column for each column of the list of samples; without a list, the images.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let files = Files::find(file)?;
    match files.list()? {
        Some(list) => files.by_list(&list),
        None => files.by_extension(),
    }
}

impl ReadBytes for ReadAt {
    fn len_bytes(&self) -> u64 {
        Self::len_bytes(self)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Self::read_at(self, offset, out).map_err(io::Error::other)
    }
}

/// All regular files of an image, in the order of their paths.
struct Files<'a> {
    image: &'a ReadAt,
    files: Vec<(String, u64, Content)>,
    compressor: String,
    /// Links and devices of the image.
    others: Others,
}

/// The number of such files, and the first one's path.
#[derive(Default)]
struct Others {
    n: u64,
    first: String,
}

impl Others {
    fn add(&mut self, path: &str) {
        if self.n == 0 {
            path.clone_into(&mut self.first);
        }
        self.n = self.n.saturating_add(1);
    }
}

impl<'a> Files<'a> {
    fn find(image: &'a ReadAt) -> Result<Self, Error> {
        let mut walk = Walk::new(image).map_err(|e| failed(image, e))?;
        let compressor = walk.compressor();
        let mut found = Self { image, files: Vec::new(), compressor, others: Others::default() };
        while let Some(entry) = walk.next().map_err(|e| failed(image, e))? {
            let path = String::from_utf8_lossy(entry.path);
            match entry.kind {
                EntryKind::Folder => {}
                EntryKind::File { size, content } => {
                    if std::str::from_utf8(entry.path).is_err() && is_image(&path) {
                        let reason = format!("the name of `{path}` is not UTF-8");
                        return Err(found.refused(reason));
                    }
                    found.files.push((path.into_owned(), size, content));
                }
                EntryKind::Symlink | EntryKind::Other => found.others.add(&path),
            }
        }
        Ok(found)
    }

    /// Reads the list of samples; `None` if there is none.
    fn list(&self) -> Result<Option<String>, Error> {
        let Some((_, size, content)) = self.files.iter().find(|(p, ..)| p == SAMPLES_NAME) else {
            return Ok(None);
        };
        let Content::Run { offset } = *content else {
            let reason = format!("`{SAMPLES_NAME}` {}; {REPACK}", self.fault(*content));
            return Err(self.refused(reason));
        };
        let mut head = [0; 4];
        if *size < head.len() as u64 {
            return Ok(None);
        }
        self.image.read_at(offset, &mut head)?;
        if !is_list(&head) {
            return Ok(None);
        }
        let len = usize::try_from(*size).ok().filter(|_| *size <= MAX_INDEX_BYTES);
        let mut bytes = vec![0; len.ok_or_else(|| self.malformed("it is too long"))?];
        self.image.read_at(offset, &mut bytes)?;
        String::from_utf8(bytes).map(Some).map_err(|_| self.malformed("it is not UTF-8"))
    }

    fn by_list(&self, text: &str) -> Result<Survey, Error> {
        let List { keys, columns } = List::parse(text).map_err(|e| self.malformed(&e))?;
        let places: HashMap<&str, (u64, Content)> = self
            .files
            .iter()
            .map(|(path, size, content)| (path.as_str(), (*size, *content)))
            .collect();
        let mut found = Vec::with_capacity(columns.len().saturating_add(1));
        for (name, paths) in columns {
            let values = if name == "label" {
                labels(&paths)
            } else {
                self.values(&paths, |path| places.get(path).copied())?
            };
            found.push(Column { name: name.to_owned(), values });
        }
        let rows = keys.len();
        let keys = keys.into_iter().map(|key| Some(key.to_owned())).collect();
        found.push(Column { name: "key".into(), values: Values::Texts(keys) });
        Ok(Survey { rows, columns: found, classes: BTreeMap::new() })
    }

    /// Returns the values of a column of paths; `None` for rows without a path.
    fn values(
        &self,
        paths: &[&str],
        place: impl Fn(&str) -> Option<(u64, Content)>,
    ) -> Result<Values, Error> {
        let mut runs = Vec::with_capacity(paths.len());
        for path in paths {
            if path.is_empty() {
                runs.push(None);
                continue;
            }
            let (len, content) =
                place(path).ok_or_else(|| self.malformed(&format!("there is no file `{path}`")))?;
            let Content::Run { offset } = content else {
                return Ok(Values::NotStored(format!(
                    "`{path}` {}; {REPACK}",
                    self.fault(content)
                )));
            };
            runs.push(Some(Run { offset, len }));
        }
        let arrays = !paths.is_empty() && paths.iter().all(|path| path.ends_with(".npy"));
        let arrays = if arrays { arrays::arrays(self.image, &runs)? } else { None };
        Ok(arrays.unwrap_or(Values::Bytes(runs)))
    }

    /// Makes a sample of every image, or of every array if the file system has no images.
    fn by_extension(mut self) -> Result<Survey, Error> {
        let shown = |path: &str| !path.split('/').any(|name| name.starts_with('.'));
        let has_images = self.files.iter().any(|(path, ..)| shown(path) && is_image(path));
        let kind = |path: &str| if has_images { is_image(path) } else { path.ends_with(".npy") };
        let mut others = std::mem::take(&mut self.others);
        self.files.retain(|(path, ..)| {
            let wanted = shown(path) && kind(path);
            if !wanted {
                others.add(path);
            }
            wanted
        });
        if self.files.is_empty() {
            return Err(self.refused("it has no images".into()));
        }
        let stored = |content: &Content| matches!(content, Content::Run { .. });
        let mut not = self.files.iter().filter(|(.., content)| !stored(content));
        if let Some((path, _, content)) = not.next() {
            let reason = format!(
                "{} of its {} images are not stored in one piece: `{path}` {}; {REPACK}",
                not.count().saturating_add(1),
                self.files.len(),
                self.fault(*content)
            );
            return Err(self.refused(reason));
        }
        let run = |(_, len, content): &(String, u64, Content)| match content {
            // An empty file is not an image.
            Content::Run { offset } if *len > 0 => Some(Run { offset: *offset, len: *len }),
            _ => None,
        };
        let runs: Vec<Option<Run>> = self.files.iter().map(run).collect();
        let arrays = if has_images { None } else { arrays::arrays(self.image, &runs)? };
        let values = arrays.unwrap_or(Values::Bytes(runs));
        let rows = self.files.len();
        let keys = self.files.into_iter().map(|(path, ..)| Some(path)).collect();
        let mut columns = vec![
            Column { name: "image".into(), values },
            Column { name: "key".into(), values: Values::Texts(keys) },
        ];
        if others.n > 0 {
            let reason = format!("{} are not images, such as `{}`", others.n, others.first);
            columns.push(Column { name: OTHERS.into(), values: Values::NotStored(reason) });
        }
        Ok(Survey { rows, columns, classes: BTreeMap::new() })
    }

    /// Says why a file's bytes are not one range.
    fn fault(&self, content: Content) -> String {
        match content {
            Content::Compressed => format!("is compressed with {}", self.compressor),
            Content::Divided => "has its end in a fragment".into(),
            Content::Sparse => "has blocks of zeros that are not stored".into(),
            Content::Run { .. } => "is stored".into(),
        }
    }

    fn refused(&self, reason: String) -> Error {
        Error::NotInPlace { path: self.image.path(), reason }
    }

    fn malformed(&self, reason: &str) -> Error {
        Error::malformed(self.image.path(), format!("`{SAMPLES_NAME}`: {reason}"))
    }
}

fn is_image(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    media::of_extension(extension).is_some_and(|media_type| media_type.starts_with("image/"))
}

/// Returns numbers if all texts are numbers, else texts; `None` for empty ones.
fn labels(texts: &[&str]) -> Values {
    let number = |text: &&str| match *text {
        "" => Some(None),
        text => text.parse::<i64>().ok().map(Some),
    };
    let text = |text: &&str| Some((*text).to_owned()).filter(|t| !t.is_empty());
    let numbers: Option<Vec<Option<i64>>> = texts.iter().map(number).collect();
    numbers.map_or_else(|| Values::Texts(texts.iter().map(text).collect()), Values::Integers)
}

fn failed(file: &ReadAt, error: image::Error) -> Error {
    match error {
        image::Error::Read(source) => match source.downcast::<Error>() {
            Ok(error) => error,
            Err(source) => Error::io("read", file.path(), source),
        },
        image::Error::Damaged { reason } => Error::malformed(file.path(), reason),
        image::Error::Unsupported { .. } => {
            Error::NotInPlace { path: file.path(), reason: format!("{error}; {REPACK}") }
        }
        other => Error::malformed(file.path(), other.to_string()),
    }
}
