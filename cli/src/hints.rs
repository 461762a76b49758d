//! What the user can do about an error, in words and flags of this program.
//!
//! Libraries return what is wrong. Their own `hint()` names no flag, since other programs print
//! it too; the functions here answer first where a flag of `gular` helps.

use std::io;

use gular_bundle::{FieldName, MANIFEST_NAME, Split};
use gular_pack::{ArchiveLimit, OtherFiles, Remedy};
use gular_pelican::{Diagnosis, Scheme, Url, percent_decode};
use gular_transfer::WrongCopy;

use crate::image::hints::AWAY;
use crate::settings;

/// The hint for an error of a bundle on this machine.
pub(crate) fn bundle(error: &gular_bundle::Error) -> Option<String> {
    use gular_bundle::Error as E;
    let text = match error {
        E::Length { .. } | E::Digest { .. } | E::Block { .. } | E::SampleDigest(_) => {
            "repair the bundle from another copy with `gular repair`, or fetch or copy the file again: its content is not what the manifest records; `gular verify` lists every fault"
        }
        E::TooLarge { .. } => {
            "check that this is the right file, or copy or fetch it again: no bundle has so large a file of this kind"
        }
        E::Malformed { .. } | E::Label { .. } | E::Format { .. } => {
            "the file may be cut short or damaged: copy or fetch it again; `gular verify` lists every fault of a bundle"
        }
        E::OutOfRange { .. } | E::NoField { .. } => "`gular inspect` lists fields and counts",
        E::NotInPlace { .. } => NOT_IN_PLACE,
        other => return other.hint().map(str::to_owned),
    };
    Some(text.to_owned())
}

/// The hint for a file that cannot be adopted.
const NOT_IN_PLACE: &str = "pack the images themselves with `gular pack`; if compression is the reason, you can also write the file again without it";

/// The hint for an error of a federation, server or token.
pub(crate) fn pelican(error: &gular_pelican::Error) -> Option<String> {
    match error {
        gular_pelican::Error::NotFound { url, .. } => match Url::parse(url) {
            Ok(_) if twice_encoded(url).is_some() => twice_encoded(url),
            Ok(url) if url.scheme() != Scheme::File => not_found(&url),
            _ => error.hint(),
        },
        gular_pelican::Error::NoOrigin { .. } => {
            let hint = "compare the path with the federation's namespaces; if its origin is down, run the same command again later. To read from the caches until then, add the bundle's `#blake3=…` to the URL; if this machine has never read from this namespace, also set PELICAN_CLIENT_PREFERREDCACHES to a cache";
            Some(hint.to_owned())
        }
        gular_pelican::Error::Denied { diagnosis, action, url, .. } => {
            Some(token(diagnosis, *action == "write", url))
        }
        other => other.hint(),
    }
}

/// The hint for a name that itself contains percent-encoding, as `shown` in messages: probably a
/// name that was encoded twice.
fn twice_encoded(shown: &str) -> Option<String> {
    let path = shown.split('?').next()?;
    let decoded = percent_decode(path).filter(|decoded| decoded != path)?;
    Some(format!(
        "in a URL, `%25` stands for the character `%`. If you mean `{decoded}`, write it so, or encode it once (`%20` for a space)"
    ))
}

/// The hint for an object that does not exist.
fn not_found(url: &Url) -> Option<String> {
    let above = url.parent().filter(|above| above.path() != "/")?;
    let lists = |folder: &Url| format!("`gular ls '{folder}'` lists what is there");
    if url.name() != MANIFEST_NAME {
        return Some(lists(&above));
    }
    // A bundle was expected, and its manifest is what is missing.
    let version = above;
    let lists = lists(&version.parent().filter(|above| above.path() != "/")?);
    Some(format!(
        "there is no bundle at `{version}`: {lists}. If it is another file or folder, fetch it with `gular fetch` or `gular fetch -r`"
    ))
}

/// The hint for a token that `url` was refused with, or for a missing one.
pub(crate) fn token(diagnosis: &Diagnosis, write: bool, url: &str) -> String {
    use Diagnosis as D;
    let federation = Url::parse(url).ok().filter(|url| url.scheme() == Scheme::Pelican);
    let is_own = |url: &Url| url.authority().split(':').next() == Some("localhost");
    if matches!(diagnosis, D::NoToken { misplaced: true, .. }) {
        return diagnosis.hint().to_owned();
    }
    let needs_another = matches!(
        diagnosis,
        D::NoToken { .. }
            | D::Expired { .. }
            | D::Issuer { .. }
            | D::NoScope { .. }
            | D::ScopePath { .. }
            | D::Withheld { .. }
    );
    match (needs_another, federation) {
        (true, Some(url)) if is_own(&url) => {
            let create = if write { " --create=/" } else { "" };
            format!(
                "if `gular federation serve DIR` runs this federation, make a token with `gular \
                federation token DIR --read=/{create} > token`, then `export \
                BEARER_TOKEN_FILE=$PWD/token`"
            )
        }
        (true, Some(_)) if matches!(diagnosis, D::Withheld { .. }) => {
            let another = login(write, url);
            format!("{another}; to send this token anyway, give its file with `--token`")
        }
        (true, Some(_)) => login(write, url),
        (_, _) if matches!(diagnosis, D::Withheld { .. }) => {
            "get a token from an issuer that the namespace trusts; to send this token anyway, give its file with `--token`".to_owned()
        }
        (_, _) => diagnosis.hint().to_owned(),
    }
}

/// Says how to get a token for the collection of the object at `url`.
fn login(write: bool, url: &str) -> String {
    let object = url.split('?').next().unwrap_or(url);
    // Pelican asks for a token for the folder above the path that it is given: of a bundle's
    // NAME/data, or NAME/VERSION, that is NAME, which holds all of it.
    let collection = object.rsplit_once('/').map_or(object, |(above, _)| above);
    match write {
        true => format!(
            "run `gular login --write --token-file writes {collection}` to get a token that may write (it \
            runs `pelican credentials token get`), and add `--token writes` to the command"
        ),
        false => format!(
            "get a token with `gular login {collection}`: it runs `pelican credentials token get`, and saves the token where the other commands look for it"
        ),
    }
}

/// Lists the servers that sent wrong bytes during a fetch or a check.
pub(crate) fn wrong_copies(copies: &[WrongCopy]) -> Vec<String> {
    let line = |copy: &WrongCopy| {
        let objects = crate::show::count(copy.objects, "object");
        format!(
            "`{}` sent wrong bytes for {objects}, such as `{}`; another server sent the right \
            bytes. Please tell the operators of the first server",
            copy.server, copy.such_as
        )
    };
    copies.iter().map(line).collect()
}

/// The hint for a folder that has only these splits.
pub(crate) fn only_splits(here: &[Split]) -> String {
    let names: Vec<_> = here.iter().map(Split::to_string).collect();
    let names = names.join(",");
    format!("`--splits {names}` verifies what is here")
}

/// The hint for an error of filling one cache.
pub(crate) fn prestage(error: &gular_transfer::Error) -> Option<String> {
    use gular_pelican::Error as P;
    match error {
        gular_transfer::Error::Pelican(P::Corrupt { attempts, .. }) if !attempts.origin_asked => {
            let hint = "tell the cache's operators; until they have repaired it, name another cache with `--at`, if there is one. `gular fetch` avoids damaged copies by itself";
            Some(hint.to_owned())
        }
        gular_transfer::Error::ObjectDigest { .. } => {
            let hint = "the cache has other bytes than those of this digest: check the URL, then tell the cache's operators";
            Some(hint.to_owned())
        }
        gular_transfer::Error::Pelican(P::Failed { .. }) => {
            let hint = "run the same command again later, or choose another cache with `--at`; \
                `gular doctor` shows which caches answer";
            Some(hint.to_owned())
        }
        other => transfer(other),
    }
}

/// The hint for an error of publishing to `url`.
pub(crate) fn publish(error: &gular_transfer::Error, url: &str) -> Option<String> {
    use gular_transfer::Error as E;
    let example = |base: &str| {
        let base = base.trim_end_matches('/');
        format!("add the bundle's name and a version, such as `{base}/birds/v1`")
    };
    match error {
        E::NoRoomForName { .. } => Some(example(url)),
        E::NoBundleUrl { .. } => Some(example(&format!("{}/NAMESPACE", url.trim_end_matches('/')))),
        other => transfer(other),
    }
}

/// Whether the name of a column is that of an image.
fn is_file_name(column: Option<&String>) -> bool {
    let ends = [".jpg", ".jpeg", ".png", ".webp", ".tif"];
    column.is_some_and(|name| ends.iter().any(|end| name.to_lowercase().ends_with(end)))
}

/// The hint for a fault of an HDF5 or netCDF-4 file.
fn of_datasets(fault: &gular_pack::DatasetFault) -> &'static str {
    use gular_pack::DatasetFault as F;
    match fault {
        F::Packed { .. } => {
            "save the values themselves, in Python: `d = xarray.load_dataset(\"IN.nc\")`, then `for v in d.variables: d[v].encoding = {}`, then `d.to_netcdf(\"OUT.nc\")`"
        }
        F::LabelType { .. } => {
            "write each class as an integer, in Python: `numpy.unique(labels, return_inverse=True)[1]`, or pack without labels: `--labels none`"
        }
        F::NotAClass { .. } => {
            "name the dataset with the labels with `--label-column`, or pack without: `--labels none`; rows of several classes become a field with `--labels none --field 'classes=NAME/{key}.npy'`, with `{split}/` before NAME where there are splits"
        }
        F::Labels { .. } => "give a file in which each row of the one belongs to that of the other",
        F::Twice { .. } | F::Differ { .. } => {
            "name the split of each file in its name, such as `train.h5`, or pack the files one at a time; if each file is one sample, save its dataset as an .npy file"
        }
        _ => {
            "if h5py reads the dataset, write it again in Python: `h5py.File(\"OUT.h5\", \"w\")[\"NAME\"] = h5py.File(\"IN.h5\")[\"NAME\"][:]`"
        }
    }
}

/// The hint for an error of packing, adopting, converting or exporting.
pub(crate) fn pack(error: &gular_pack::Error) -> Option<String> {
    use gular_pack::Error as E;
    let text = match error {
        E::Run(error) => return run_of_pack(error),
        E::Source(error) => return source(error),
        E::Layout(error) => return layout(error),
        E::Plan(error) => return plan(error),
        E::Shard(error) => return shards(error),
        E::Unlike { what, .. } if what == "envelope" => {
            "convert one bundle to the envelope of the other with `gular convert`"
        }
        E::Unlike { what, .. } if what == "fields" => {
            "if the fields differ only in axes, or in whether they are on the image's pixels, pack one bundle again; `--axes FIELD=none` says that a field is not on them, and `--axes FIELD=AXES` what its axes mean"
        }
        E::Unlike { .. } => {
            "only bundles with the same envelope, payload, fields and classes can be combined"
        }
        E::SharedKeys { .. } => {
            "first leave these samples out of one bundle: `gular derive BUNDLE OUT --remove FILE`"
        }
        E::NoSuchKeys { .. } => {
            "keys are paths such as `train/cat/1.jpg`; `gular inspect BUNDLE --samples 5` lists some"
        }
        E::NoPictures { .. } => {
            "leave out `--pixels` and `--near`: files with equal bytes are found without these options. If the files are images, pack them again without `--as bytes`"
        }
        E::UnlikeBase { setting, old, .. } => return Some(unlike_base(setting, old.as_deref())),
        E::UnlikeField { name, old, new } => {
            return Some(unlike_field(name, old.is_some(), new.is_some()));
        }
        E::NoSources { .. } => {
            "pack the bundle again with `--source-digests`; later versions made from it then have the digests too"
        }
        E::NothingTaken { .. } => "check the condition and the lists of keys",
        E::Inside { .. } => "choose an output folder outside the source",
        E::Parts { .. } => {
            "give each part exactly once, as in `gular pack --merge part-* bundle/`; if a part was made from another source or with other options, make it again"
        }
        E::NotInPlace { .. } => NOT_IN_PLACE,
        E::BadKeys { .. } => {
            "choose another column with `--key-column NAME`, or make keys from file names and row numbers with `--key-column none`"
        }
        E::UnknownLabels { .. } => {
            "leave these samples out with `--unknown-labels drop`, or give them class number N with `--unknown-labels N`"
        }
        E::NoImage { .. } => {
            "name the column of images with `--image-column NAME`, or repair the file"
        }
        E::NotEqual { .. } => {
            "check the disk and memory of this machine, and convert again; if it happens again, report it as a bug"
        }
        E::Exists { .. } => {
            "convert to an envelope instead of a folder: there samples may share a file name"
        }
        E::FileExists { .. } => "choose a new file name",
        E::NoFiles { .. } => {
            "give the files themselves; to pack a folder of images use `gular pack`, to convert a bundle use `gular convert`"
        }
        E::MixedFormats { .. } => {
            "run `gular adopt` once for each format: each becomes a bundle of its own"
        }
        E::Condition(_) => {
            "`gular help derive` explains conditions (`--where`); `gular inspect BUNDLE` lists fields and classes"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for an error that can end a run at any step.
fn run_of_pack(error: &gular_pack::RunError) -> Option<String> {
    use gular_pack::RunError as E;
    let text = match error {
        E::UnknownClass { .. } => {
            "add the class to the file given with `--classes`, or move the folder away"
        }
        E::BadInputs(bad) => return Some(bad_inputs(bad)),
        E::NoSpace { .. } => "free some space, or choose a folder on another file system",
        E::Cancelled => "run the same command again",
        E::Io(error) if error.kind() == io::ErrorKind::StorageFull => {
            "free some space and run the same command again"
        }
        E::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "check the permissions of the file and its folders"
        }
        E::Io(_) => "check the path",
        E::Setting { names: ["axes"], .. } => {
            "leave it out, or correct the name: `--as arrays --axes AXES` gives the axes of images that are arrays, and `--axes NAME=AXES` those of another field"
        }
        E::Setting { names, .. } => return Some(format!("change {}", settings::options(names))),
        E::Bundle(error) => return bundle(error),
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for an error of a source.
fn source(error: &gular_pack::SourceError) -> Option<String> {
    use gular_pack::SourceError as E;
    let text = match error {
        E::Outside { format, .. } => {
            return Some(format!(
                "convert the files: {}; then pack TIFF and NumPy files with `--as arrays`",
                format.convert
            ));
        }
        E::Shards { path } => {
            return Some(format!(
                "`gular adopt {} --out DIR` makes a bundle of them without a copy; to pack the images alone: `--images '{{*}}/{{key}}.{{ext}}'`",
                crate::show::quoted(path)
            ));
        }
        E::NoSource { .. } => {
            "unpack the file and give the folder; a table with pixels in its columns must end in .csv, or use `--as pixels`"
        }
        E::ArchivePart { .. } => {
            "join the parts first, in their order: `cat NAME.zip.* > NAME.zip`"
        }
        E::BadArchive { .. } => "fetch or copy the archive again: it may be cut short",
        E::BadMembers { .. } => {
            "nothing was packed; if you trust the archive, unpack it yourself and give the folder"
        }
        E::Expands { limit, .. } => match limit {
            ArchiveLimit::Total => "if you trust the archive, raise `--max-unpacked`",
            ArchiveLimit::Member => "if you trust the archive, raise `--max-member`",
            ArchiveLimit::Ratio => "if you trust the archive, raise `--max-ratio`",
        },
        E::NoColumn { what: "file names", path, columns, .. } if is_file_name(columns.first()) => {
            let is_number = |column: &String| column.trim().parse::<f64>().is_ok();
            let parts = match columns.get(1..) {
                // As Keras' RetinaNet has boxes.
                Some([corners @ .., class])
                    if corners.len() == 4 && corners.iter().all(is_number) && !is_number(class) =>
                {
                    "{x1},{y1},{x2},{y2},{label}".to_owned()
                }
                _ => format!("{{label}}{}", ",{*}".repeat(columns.len().saturating_sub(2))),
            };
            let pattern = format!("{path}={{path}},{parts}");
            return Some(format!(
                "if the first line is a row and does not name columns, say what a line has: `--labels {}`",
                crate::show::quoted(&pattern)
            ));
        }
        E::NoColumn { what: "file names", .. } => {
            "name the column of file names with `--key-column NAME`"
        }
        E::NoColumn { what: "labels", .. } => {
            "name the column of labels with `--label-column NAME`, or pack without labels: `--label-column none`"
        }
        E::NoColumn { what: "splits", .. } => {
            "name one of these columns with `--split-column NAME`"
        }
        E::NoColumn { .. } => {
            "choose among these columns with `--columns NAME,NAME`, `--columns all` or `--columns none`"
        }
        E::ParquetImages { .. } => {
            "write the bytes of the images into it, not their paths, compressed with Snappy, gzip, Zstandard or not at all: `pyarrow.parquet.write_table` and `Dataset.push_to_hub` of Hugging Face's datasets do so"
        }
        E::ParquetSplit { .. } => {
            "give a folder with the files to pack, in which names begin with the split, such as `val-00000-of-00001.parquet`"
        }
        E::ParquetSets { .. } | E::ParquetFolders { .. } => {
            "give the folder, or the file, of one of them"
        }
        E::PixelFiles { .. } => {
            "give a folder or an archive with all files of one dataset, and no others of its kind"
        }
        E::PixelFile { .. } => {
            "fetch the file again; if it has another format, unpack or convert it first"
        }
        E::Datasets { fault, .. } => return Some(of_datasets(fault).to_owned()),
        E::NoLabels { .. } => {
            "put the file of labels there, or pack without labels: `--labels none`"
        }
        E::Table { .. } => "correct the table, or export it again from the program that made it",
        E::Loop { .. } => "remove the link",
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for an error of the meaning of a source.
fn layout(error: &gular_pack::LayoutError) -> Option<String> {
    use gular_pack::LayoutError as E;
    let text = match error {
        E::NoImages { others, .. } => match others {
            OtherFiles::Pictures => {
                return Some(format!("to pack these pictures, {}", gular_codec::CONVERT));
            }
            OtherFiles::Arrays => "pack TIFF, JPEG 2000, NIfTI and NumPy files with `--as arrays`",
            OtherFiles::Archives => {
                "give the archive itself as SRC, or unpack each into a folder of its own"
            }
            OtherFiles::Tables => {
                "give the folder with the images; a table with pixels in its columns is packed by itself: give the table as SRC"
            }
            OtherFiles::PngOrJpeg => {
                "PNG and JPEG files are arrays, and scenes for `--tile`, if a pattern names them, such as `--images '{key}.png'`"
            }
            OtherFiles::Any => {
                "give the folder whose subfolders are the classes, or the splits with the classes inside; to pack files of any kind, add `--as bytes`"
            }
        },
        E::NoTable { .. } => {
            "give `--labels` the word `path`, the word `none`, or a table in one of these formats"
        }
        E::NoLines { path, first } => {
            // A tab could not be copied from a terminal.
            let separator = if first.contains('\t') { "{*:\\s}" } else { " " };
            let stem = std::path::Path::new(path).file_stem().and_then(|stem| stem.to_str());
            let split = match stem.and_then(gular_pack::split_of) {
                Some(split) => format!("{{split={split}}}"),
                None if first.contains([' ', '\t', ',']) => String::new(),
                None => "{split=train}".to_owned(),
            };
            let is_numbered = first.split_once(' ').is_some_and(|(number, name)| {
                let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
                is_number && is_file_name(Some(&name.to_owned()))
            });
            if is_numbered {
                return Some(format!(
                    "say what its lines are; if the number is the class: `--labels '{path}={{label:[0-9]+}} {{path}}'`; if it is that by which other lists name the image: `--labels '{path}={{id:[0-9]+}} {{path}}'`"
                ));
            }
            let parts = match first.contains([' ', '\t', ',']) {
                true if first.contains(',') => format!("{split}{{path}},{{label}}"),
                true => format!("{split}{{path}}{separator}{{label}}"),
                false => format!("{split}{{path}}"),
            };
            return Some(format!("say what its lines are: `--labels '{path}={parts}'`"));
        }
        E::DoubledRows { .. } => {
            "keep one row per image; to give an image several classes, put them into one cell and set `--label-separator`; boxes, a row for each, have columns such as `xmin`, `ymin`, `xmax` and `ymax`"
        }
        E::UnclearRows { .. } => {
            "write longer names into the table: the path below SRC, with the extension"
        }
        E::NothingJoins { .. } => {
            "the table must name each image by its path below SRC, or by the end of that path; if another column has these names, use `--key-column`"
        }
        E::ManyArrays { .. } => {
            "if the pictures are previews or masks of the arrays, pack these with `--as arrays`; to pack the pictures, give their pattern: `--images '{key}.{ext}'`, or with classes `--images '{label}/{key}.{ext}'`"
        }
        other => return crate::pack_paths::hint(other),
    };
    Some(text.to_owned())
}

/// The hint for an error of a plan.
fn plan(error: &gular_pack::PlanError) -> Option<String> {
    use gular_pack::PlanError as E;
    let text = match error {
        E::Unlabelled { .. } => {
            "give them labels (in a table, add the missing rows), leave these images out with `--unlabelled skip`, or pack them without labels and boxes with `--unlabelled keep`"
        }
        E::CaseCollision { .. } => {
            "rename one of the two: on file systems that ignore case they would be one file"
        }
        E::MixedDepth { .. } => "choose one type: `--dtype u8` or `--dtype u16`",
        E::MixedArrays { only_size: true, .. } => {
            "bring arrays of nearly one size to one with `--as arrays --fit pad` or `--as arrays --fit crop`; if a few have another size by mistake, leave them out with `--on-error skip`; cut TIFF files of all sizes into tiles of one size with `--tile N`, which pads smaller ones with nodata or 0; or pack each size into a bundle of its own"
        }
        E::MixedArrays { .. } => {
            "if they are several files of the same samples, such as images and heights, give patterns that tell them apart: `--images 'rgb/{key}.{ext}' --field 'height=height/{key}.{ext}'`, or `--mask` for classes; crop or pad volumes of different depths to one before; otherwise pack the arrays of each type and shape into a bundle of their own"
        }
        E::UnknownAxes { field, shape, .. } => return Some(axes(field, shape)),
        E::NoAxes { .. } => {
            "pack such files as they are with `--as bytes`; to adopt them, choose another column with `--image-column`"
        }
        E::WrongAxes { .. } => {
            "give the axes of the array as it is stored with `--axes`, such as `--axes cyx`, one letter for each: `y` rows, `x` columns, `c` bands, `t` time, `z` depth; for another field than the images, `--axes NAME=AXES`, or `--axes NAME=none` if it is not on their pixels"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for an error of writing shards.
fn shards(error: &gular_pack::ShardError) -> Option<String> {
    use gular_pack::ShardError as E;
    let text = match error {
        E::Full { files, .. } if *files < gular_pack::FEW_FILES => {
            "remove files that you do not need (their number counts, not only their size), and run the same command again: finished shards are kept"
        }
        E::Full { .. } => {
            "free some space and run the same command again: finished shards are kept"
        }
        E::AlreadyBundle { .. } => {
            "bundles are never overwritten: choose a new folder, or remove this one"
        }
        E::NotEmpty { .. } => "choose a new or empty folder",
        E::OtherPlan { .. } => {
            "run the interrupted command again, or remove the folder and start from the beginning"
        }
        E::BadPart { .. } => {
            "give only folders that `gular pack --part` has finished; if a part was interrupted, run its command again"
        }
        E::AlreadyPart { .. } => {
            "give each part a folder of its own, then merge the parts into a new folder with `--merge`"
        }
        E::OtherPart { .. } => {
            "run the interrupted command again, or give each part a folder of its own"
        }
        E::Busy { .. } => "wait until that process ends, or choose another place",
        E::Unfinished { .. } => "run the same command again: it continues where it stopped",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Says how to pack a new version with the same setting as its base, where it is `old`.
fn unlike_base(setting: &str, old: Option<&str>) -> String {
    let how = match (setting, old) {
        ("payload", Some("raw")) => {
            "see with `gular inspect` what the base has, and give the option with which it was packed: `--tile` (tiles), `--as arrays` (arrays), or `--payload raw` with `--size` (images)"
                .to_owned()
        }
        (
            "payload" | "envelope" | "size" | "fit" | "fractions" | "quality" | "tile" | "overlap"
            | "align",
            Some(old),
        ) => {
            format!("give `--{setting} {old}`")
        }
        ("images", Some(old)) => format!("give `--images '{}'`", old.replace("` and `", "' --images '")),
        ("max_side" | "min_valid", Some(old)) => {
            format!("give `--{} {old}`", setting.replace('_', "-"))
        }
        ("max_side" | "tile" | "overlap" | "min_valid" | "align", None) => {
            format!("leave `--{}` out", setting.replace('_', "-"))
        }
        ("order of fields", _) => "give the fields in the order of the base".to_owned(),
        ("classes", _) => "the values of `labels` and `box_labels` are numbers of classes, so no class may be added"
                .to_owned(),
        _ => "use the version of gular that packed the base".to_owned(),
    };
    how + WITHOUT_BASE
}

/// Says how to pack a new version with the same fields as its base. `old` is whether the base has
/// the field `name`, and `new` whether this pack makes it.
fn unlike_field(name: &str, old: bool, new: bool) -> String {
    let how = match (name, old, new) {
        ("label" | "labels" | "boxes" | "box_labels" | "box_crowd", true, false) => {
            "give `--labels` as for the base".to_owned()
        }
        ("mask", true, false) => "add `--mask DIR`".to_owned(),
        ("image_nodata", ..) => {
            "give the images the nodata values of those of the base".to_owned()
        }
        ("image_crs" | "image_transform" | "image_gcps" | "image_rpc", ..) => {
            "georeference the images as those of the base".to_owned()
        }
        ("image_scale" | "image_offset", ..) => {
            "give the images scales and offsets if those of the base have some".to_owned()
        }
        ("image_world" | "image_spacing" | "image_units", ..) => {
            "give the images as NIfTI if those of the base are, else in another format".to_owned()
        }
        (_, true, false) => {
            format!("add `--field {name}=DIR`, or the column `{name}` of a table of labels")
        }
        ("mask", false, _) => "leave `--mask` out".to_owned(),
        ("label", false, _) => "pack without labels: `--labels none`, or `--label-column none` if a table gives other fields".to_owned(),
        ("labels" | "box_labels", true, true) => "its values are numbers of the classes, so the classes must be those of the base".to_owned(),
        (_, false, _) => {
            format!("pack without `{name}`: remove its `--field`, or remove it from `--columns`")
        }
        ("image", ..) => "for images, give the same `--dtype` and `--channels` as for the base; for arrays and scenes, use files with the same type and bands".to_owned(),
        _ => format!("save the values of `{name}` as those of the base; if only axes or pixels differ, `--axes {name}=AXES` or `--axes {name}=none` says what they are"),
    };
    how + WITHOUT_BASE
}

const WITHOUT_BASE: &str = ". Or leave out `--base`: then all images go into a new bundle";

/// Says how the axes of an array of `shape` are given.
fn axes(field: &FieldName, shape: &[u64]) -> String {
    if *field != FieldName::image() {
        return format!(
            "name them, such as `--axes {field}=yxc` or `--axes {field}=cyx`, or say that the field is not on the image's pixels: `--axes {field}=none`"
        );
    }
    let letters = "one letter for each: `y` rows, `x` columns, `c` bands, `t` time, `z` depth";
    match *shape {
        [a, b, c] => format!(
            "`--axes yxc` for {a} rows, {b} columns and {c} bands, or `--axes cyx` for {a} bands, {b} rows and {c} columns"
        ),
        [n] => format!("`--axes c` for {n} bands, or `--axes t` for {n} times"),
        [_, _, _, _] => format!("say it with `--axes`, such as `--axes tcyx`, {letters}"),
        _ => format!("say it with `--axes`, {letters}"),
    }
}

/// Says what the first damaged input needs, or how to pack without all of them.
fn bad_inputs(bad: &gular_pack::BadInputs) -> String {
    let skip = "or run again with `--on-error skip`: this keeps finished shards, packs the other files, and lists the files left out in `skipped.jsonl`";
    let first = bad.named.first();
    let repair = match first.map(|bad| bad.remedy).unwrap_or_default() {
        Remedy::AllowMorePixels => "if you trust the file, raise `--max-pixels`",
        Remedy::UseLessMemory => "lower `--max-pixels` or use fewer `--jobs`",
        Remedy::Shrink => "set `--max-side`",
        Remedy::KeepColour => "pack with `--channels 3`",
        Remedy::NameAxes => {
            "name the axes of the field's arrays, such as `--axes depth=yx`, or `--axes depth=none` if its values are not on the pixels of the image"
        }
        Remedy::NotOnImage => {
            "save them at the same size, or give `--axes FIELD=none` if the values are not on the pixels of the image"
        }
        Remedy::SameColours => {
            "save all pictures of the field in colour, or all with one channel, or read all as colours with `--axes FIELD=yxc`"
        }
        Remedy::TakeFirstFrame => "take only the first picture of each: `--pages first`",
        Remedy::ChoosePages => {
            "say what the pages are: `--pages bands` makes them bands of one image, and `--pages first` takes only the first; save slices and times as files of their own"
        }
        Remedy::Align => {
            "bring both files to the same grid, for example with `gdalwarp -r near -t_srs CRS -te XMIN YMIN XMAX YMAX -ts COLUMNS ROWS IN.tif OUT.tif` (for a mask in the same CRS, `--align resample` does it; volumes with nibabel's `resample_from_to`), or, if only the georeference is wrong and the pixels fit, add `--align ignore`"
        }
        Remedy::AlignPolygons => {
            "bring the polygons to the CRS of the image in another folder, for example with `ogr2ogr -t_srs EPSG:… -lco RFC7946=NO OUT.geojson IN` (and `-s_srs EPSG:…` if no file names theirs), or, if their coordinates are in it, add `--align ignore`"
        }
        Remedy::Resample => {
            "bring all bands to the pixels of the finest with `--align resample` (bilinear), or name the bands that have one size, such as `{band:B02|B03|B04}`"
        }
        Remedy::NameClasses => {
            "name the property of the polygons that is their class, and the numbers of classes that are names: `--mask-class 'kind:road=1,building=2'`; without it, all polygons have class 1"
        }
        Remedy::NameColours => {
            "if the colours are classes, give a table of them, `name,r,g,b`, with `--mask-colours FILE`; otherwise save masks as PNG with one channel or with a palette, as TIFF, or as .npy"
        }
        Remedy::WriteMasks => {
            r#"JPEG changes the values of masks. If theirs are black and white, write 0 and 1 as PNG with `python3 -c 'import sys; from pathlib import Path as P; from PIL import Image as I; P(sys.argv[2]).mkdir(); [I.open(p).convert("L").point(lambda v: v//128).save(P(sys.argv[2], p.stem+".png")) for p in P(sys.argv[1]).iterdir()]' MASKS NEW`, and give these with `--mask './NEW/{key}.png'`"#
        }
        Remedy::IgnoreBandNames => {
            "give all files the same names of bands, or, if their bands are in the same order, pack without names with `--band-names ignore`"
        }
        Remedy::Repair => {
            first.and_then(|bad| bad.hint.as_deref()).unwrap_or("repair or remove the file")
        }
    };
    format!("{repair}, {skip}")
}

/// The hint for an error of verifying.
pub(crate) fn verify(error: &gular_verify::Error) -> Option<String> {
    use gular_verify::Error as E;
    let text = match error {
        E::NoManifest { .. } => "give the folder that contains `manifest.json`",
        E::Interrupted { .. } => "run the same `gular pack` again: it continues where it stopped",
        E::Io(_) => "check the path and its permissions",
        E::Transfer(error) => return transfer(error),
        E::Manifest(error) | E::TooNew(error) => return error.hint().map(str::to_owned),
        E::Pelican(error) => return pelican(error),
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for an error of measuring.
pub(crate) fn bench(error: &gular_bench::Error) -> Option<String> {
    use gular_bench::Error as E;
    let text = match error {
        E::NoSpace { .. } => {
            "choose another folder with `--scratch`, set a smaller `--limit-bytes`, or measure fewer envelopes"
        }
        E::Io(error) if error.action == "create" => {
            "choose a folder for temporary bundles with `--scratch`"
        }
        E::Io(error) if error.kind() == io::ErrorKind::NotFound => "check the path",
        E::Nothing { .. } => "give the folder of a bundle, or a folder of images",
        E::Differs { .. } => {
            "check the bundle with `gular verify`; if it is intact, please report this as a bug"
        }
        E::Bundle(error) => return bundle(error),
        E::Pack(error) => return pack(error),
        E::Loader(error) => return runtime(error),
        _ => return None,
    };
    Some(text.to_owned())
}

/// The hint for a page that cannot be served.
pub(crate) fn view(error: &gular_view::Error) -> Option<String> {
    match error {
        gular_view::Error::Listen { port: 0, .. } => None,
        gular_view::Error::Listen { .. } => {
            Some("choose another port with `--port`, or leave it out to take any free one".into())
        }
        _ => None,
    }
}

/// The hint for an error of publishing or fetching.
pub(crate) fn transfer(error: &gular_transfer::Error) -> Option<String> {
    use gular_transfer::Error as E;
    let text = match error {
        E::ObjectDigest { .. } => {
            "read the object from its origin with `--direct`; if those bytes differ too, the digest is of another object"
        }
        E::NoSpace { .. } => {
            "free some space, use another folder, or fetch only some splits with `--splits`; files already fetched are kept"
        }
        E::Bundle(error) => return bundle(error),
        E::Pelican(error) => return pelican(error),
        E::Fragment { .. } => {
            "copy the digest from the output of `gular publish` or `gular pack`; if you do not have it, leave out `#…`"
        }
        E::NoManifest { .. } => {
            "give the URL of one version of the bundle (`gular ls` lists what is there); to fetch a \
            collection that is not a bundle, use `gular fetch -r`"
        }
        E::TooMany { .. } => "choose a smaller folder inside it, or raise `--max-objects`",
        E::NotCollection { .. } => {
            "fetch this object without `-r`, or give the URL of the collection that contains it"
        }
        E::SingleObject { .. } => {
            "give the URL of a bundle; `gular fetch` reads a single object, and checks it if the URL has its digest"
        }
        E::NoBundleUrl { .. } => "copy the URL from the output of `gular publish`",
        E::AnotherBundle { .. } => {
            "check that the URL has the right version and the complete digest, as `gular publish` printed them; a published version never changes"
        }
        E::Condition(_) => "`gular help derive` explains conditions (`--where`)",
        E::Source { hint: None, passes: true, .. } => AWAY,
        E::NoneAccepted { .. } => {
            "run `gular verify` with a token that may read: it tells whether the bundle is already there"
        }
        other => return other.hint(),
    };
    Some(text.to_owned())
}

/// The hint for files that no copy has right. `is_published` says whether a copy is at a URL.
pub(crate) fn unrepaired(passes: bool, is_published: bool) -> &'static str {
    match (passes, is_published) {
        (true, _) => {
            "run the same command again later, since some servers did not answer; or name another copy with one more `--from`"
        }
        (_, true) => {
            "name another copy with one more `--from`; if there is none, pack the bundle again, and publish it under another version"
        }
        (_, false) => {
            "name another copy with one more `--from`, such as the URL at which the bundle is published; if there is none, pack it again"
        }
    }
}

/// The hint for an error of staging.
pub(crate) fn stage(error: &gular_stage::Error) -> Option<String> {
    use gular_stage::{Error as E, Unfit};
    let text = match error {
        E::Transfer(error) => return transfer(error),
        E::NoRoom { memory: true, .. } => {
            "ask the batch system for more memory, or copy to the job's disk instead, with `--to scratch`"
        }
        E::NoRoom { .. } => {
            "ask the batch system for more disk, or choose another folder with `--to DIR`"
        }
        E::FileTooLarge { .. } => {
            "raise the limit (`ulimit -f unlimited`), or pack with a smaller `--shard-size`"
        }
        E::TooManyFiles { .. } => "stage the bundle without `--unpack`: that makes fewer files",
        E::Target { .. } => "choose an existing folder with `--to DIR`",
        E::NoSource { .. } => {
            "give a bundle's folder, a folder of files, or the URL of a published bundle"
        }
        E::Foreign { .. } => {
            "nothing there was changed; choose another place with `--to DIR`, or remove what is there now (if it is not yours, ask its owner to)"
        }
        E::Source { reason, .. } => match reason {
            Unfit::HoldsTheCopy => "choose a place outside it with `--to DIR`",
            Unfit::NotAFolder => "give the folder that it is in",
            Unfit::LinkToFolder => {
                "remove the link (what it points to can stay), or pack the files with `gular pack`"
            }
            Unfit::NotAFile => {
                "remove it from the folder that you stage, or pack the files with `gular pack`"
            }
            Unfit::NoManifest => {
                "copy or fetch the bundle again, or wait until the program that writes it has ended"
            }
            Unfit::Changed => "run the command again when no program is writing to the folder",
            _ => return error.hint(),
        },
        other => return other.hint(),
    };
    Some(text.to_owned())
}

/// The hint for an error of loading.
fn runtime(error: &gular_runtime::Error) -> Option<String> {
    use gular_runtime::Error as E;
    match error {
        E::Loader(gular_runtime::LoaderError::Decode { .. }) => {
            Some("pack again with `--check-images full`, which lists all such files".to_owned())
        }
        E::Loader(gular_runtime::LoaderError::NoImages { .. }) => {
            Some("`gular inspect` lists the fields".to_owned())
        }
        E::Bundle(error) => bundle(error),
        other => other.hint(),
    }
}

/// The hint for an error of the embedded federation.
pub(crate) fn federation(error: &gular_federation::Error) -> Option<String> {
    use gular_federation::Error as E;
    match error {
        E::NotServed { path } => {
            Some(format!("start a federation with `gular federation serve {}`", path.display()))
        }
        E::Served { path, by: Some((_, process)) } => Some(format!(
            "use the running federation: `gular federation token {} --read /` makes a token for it; or stop it with `kill {process}`, or serve another folder",
            path.display()
        )),
        E::NoScope => Some(
            "say what the token allows: give a path with `--read`, `--create` or `--modify`"
                .to_owned(),
        ),
        other => other.hint().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    #[test]
    fn what_does_not_exist_is_looked_for_in_the_folder_above() {
        let check = |url: &str, expected: &[&str]| {
            let (url, server) = (url.to_owned(), "https://h".to_owned());
            let error = gular_pelican::Error::NotFound { url, server, said: String::new() };
            let hint = pelican(&error).unwrap_or_default();
            for part in expected {
                assert!(hint.contains(part), "{hint}");
            }
        };
        check("pelican://h/ns/a/x", &["`gular ls 'pelican://h/ns/a'`"]);
        check(
            "pelican://h/ns/a/v1/manifest.json",
            &["no bundle at `pelican://h/ns/a/v1`", "`gular ls 'pelican://h/ns/a'`", "gular fetch"],
        );
        check("file:///none", &["check the path"]);
        check("pelican://h/ns/a%20b", &["`%25`", "`pelican://h/ns/a b`"]);
        check("pelican://h/ns/100%", &["list the collection"]);
    }

    /// Returns every `--flag` in a text.
    fn flags(text: &str) -> BTreeSet<String> {
        let names = text.split("`--").skip(1).map(|rest| {
            rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>()
        });
        names.filter(|name| !name.is_empty()).collect()
    }

    fn known(command: &clap::Command, into: &mut BTreeSet<String>) {
        into.extend(command.get_arguments().filter_map(|a| a.get_long()).map(str::to_owned));
        for verb in command.get_subcommands() {
            known(verb, into);
        }
    }

    fn error_files(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if entry.is_dir() && name != "target" && !name.starts_with('.') {
                error_files(&entry, into);
            } else if name == "error.rs" {
                into.push(entry);
            }
        }
    }

    #[test]
    fn a_token_comes_from_where_its_federation_makes_them() {
        let none = Diagnosis::NoToken { looked: Vec::new(), misplaced: false };
        let check = |url: &str, write: bool, words: &[&str]| {
            let hint = token(&none, write, url);
            assert!(words.iter().all(|word| hint.contains(word)), "{hint}");
        };
        let own = "pelican://localhost:8443/gular/birds/v1/manifest.json";
        check(own, false, &["`gular federation token DIR --read=/ > token`"]);
        check(own, true, &["--read=/ --create=/"]);
        let osdf = "osdf:///lab/birds/v1/manifest.json?directread";
        check(
            osdf,
            false,
            &["`gular login osdf:///lab/birds/v1`", "pelican credentials token get"],
        );
        check(
            osdf,
            true,
            &["`gular login --write --token-file writes osdf:///lab/birds/v1`", "--token"],
        );
        check("https://h/birds/v1/manifest.json", false, &["from the server's operators"]);
        let from = "`BEARER_TOKEN`".to_owned();
        let withheld = Diagnosis::Withheld { from, issuer: None, trusted: Vec::new() };
        assert!(token(&withheld, false, osdf).contains("`--token`"));
        assert!(token(&withheld, false, "https://h/x").contains("`--token`"));
    }

    #[test]
    fn every_flag_that_a_hint_names_exists() {
        let mut command = Cli::command();
        command.build();
        let mut known_flags = BTreeSet::new();
        known(&command, &mut known_flags);
        let named = flags(include_str!("hints.rs").split("#[cfg(test)]").next().unwrap());
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.difference(&known_flags).collect();
        assert!(unknown.is_empty(), "no such flags: {unknown:?}");
    }

    #[test]
    fn the_page_on_packing_has_every_format_that_is_not_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let page = fs::read_to_string(root.join("docs/packing.md")).unwrap();
        for gular_pack::Outside { name, convert, .. } in &gular_pack::OUTSIDE {
            let row = format!("| {name} | {convert} |");
            assert!(page.contains(&row), "docs/packing.md does not have: {row}");
        }
    }

    /// Several programs print what a library says, each with flags of its own.
    #[test]
    fn errors_of_libraries_name_no_flag() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Vec::new();
        error_files(root, &mut files);
        assert!(files.len() > 8, "{files:?}");
        for file in files {
            // Only this program builds images, so the errors of that room may name its flags.
            if file.starts_with(root.join("containers")) {
                continue;
            }
            let named = flags(&fs::read_to_string(&file).unwrap());
            assert!(named.is_empty(), "{} names {named:?}", file.display());
        }
    }
}
