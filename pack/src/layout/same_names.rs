//! Files of one sample, told by what their names share, whatever they and their folders are called.
//!
//! ```text
//! img_dir/train/7.jpg  ─┐ the same name in each folder but for a fixed part, and another format,
//! ann_dir/train/7.png  ─┘ or colours in one folder and numbers in the other
//! cat/7.jpg            ─┐ one end behind nearly all names
//! cat/7.mask.png       ─┘
//! ```
//!
//! Such files are as well classes, so this is a question to the user, and nothing is taken.

use std::collections::{BTreeMap, BTreeSet};

use super::companions::of_masks;
use super::folder_patterns::Recognised;
use super::folders::Folders;
use super::parts::{field_of, is_of_images, is_other_part};
use crate::facts::{Doubt, WayToRead, formats, literal, named, stem_and_extension};

/// More folders of equal names, or ends of names, are classes rather than parts of a sample.
const MOST_PARTS: usize = 6;
/// So few uncounted names may be the same by chance.
const FEW_NAMES: usize = 6;
/// Folders of each class that are compared.
const MOST_COMPARED: usize = 16;
/// What may be before an end that is not part of the name itself.
const BEFORE_ENDS: [char; 6] = ['_', '-', '.', ' ', '(', '@'];
/// Ends of the names of images, where formats do not tell them from others. Source: CVPPP (`rgb`),
/// DeepGlobe (`sat`), xBD (`pre`), pix2pix (`input`).
const OF_IMAGES: [&str; 11] =
    ["rgb", "img", "image", "input", "pre", "co", "sat", "before", "orig", "original", "color"];
/// Says of the file of a path whether it is a picture of colours, and not of one channel or with a
/// palette, as masks and depths are.
pub(super) type IsOfColours<'a> = &'a dyn Fn(&str) -> Option<bool>;

/// Whether `n` are nearly all of `all`.
fn nearly_all(n: usize, all: usize) -> bool {
    n * 5 >= all * 4
}

/// Some files of one kind: whether they have colours, and their format.
#[derive(Debug, PartialEq, Eq)]
struct KindOfFiles {
    of_colours: Option<bool>,
    extension: Option<String>,
}

impl KindOfFiles {
    fn of(paths: &[String], is_of_colours: IsOfColours<'_>) -> Self {
        let extension = |path: &String| match stem_and_extension(path).1.to_lowercase().as_str() {
            "jpeg" => "jpg".to_owned(),
            other => other.to_owned(),
        };
        let mut extensions: Vec<String> = paths.iter().map(extension).collect();
        extensions.dedup();
        let one = (extensions.len() == 1).then(|| extensions.remove(0));
        let looked: Vec<Option<bool>> = paths.iter().take(3).map(|p| is_of_colours(p)).collect();
        let first = looked.first().copied().flatten();
        let of_colours = first.filter(|_| looked.iter().all(|known| *known == first));
        Self { of_colours, extension: one }
    }

    /// Whether these look like masks or depths of the other files.
    fn are_numbers_of(&self, images: &Self) -> bool {
        match (images.of_colours, self.of_colours) {
            (_, Some(true)) => false,
            (Some(true), Some(false)) => true,
            _ => images.extension.as_deref() == Some("jpg") && self.differ_in_format(images),
        }
    }

    /// Pictures of colours in JPEG are not masks, not even those with a table of their colours.
    fn may_be_masks(&self) -> bool {
        !(self.of_colours == Some(true) && self.extension.as_deref() == Some("jpg"))
    }

    fn differ_in_format(&self, other: &Self) -> bool {
        self.extension.is_some() && other.extension.is_some() && self.extension != other.extension
    }
}

/// Other files of each sample than its image.
struct OtherFile {
    /// What names them: an end or a folder.
    name: String,
    pattern: String,
    are_numbers: bool,
    /// Whether they are not pictures of colours in JPEG, which are never masks.
    may_be_mask: bool,
}

/// The ways to read images with further files of theirs: each that may be the mask, and all as
/// further images.
fn ways_with(images: &[String], others: &[OtherFile], leaves_out: bool) -> Vec<WayToRead> {
    let images: Vec<&str> = images.iter().map(String::as_str).collect();
    let way = |when: &str, mask: Option<usize>| {
        let mut files: Vec<(String, String)> = Vec::new();
        for (i, other) in others.iter().enumerate() {
            let mut name = if Some(i) == mask { "mask".to_owned() } else { field_of(&other.name) };
            while files.iter().any(|(known, _)| *known == name) {
                name.push_str("_2");
            }
            files.push((name, other.pattern.clone()));
        }
        WayToRead { files, leaves_out, asks: true, ..WayToRead::new(when, &images) }
    };
    let masks = others.iter().enumerate().filter(|(_, other)| other.are_numbers);
    let of_masks = masks
        .map(|(i, other)| way(&format!("if `{}` is the mask of each image", other.name), Some(i)));
    let of_fields = way("if they are further images of each sample", None);
    let mut ways: Vec<WayToRead> = of_masks.chain([of_fields]).collect();
    if let ([other], [first, ..]) = (others, ways.as_slice())
        && !other.are_numbers
        && other.may_be_mask
        && first.files.len() == 1
    {
        ways.push(way("if it is the mask of each image", Some(0)));
    }
    ways
}

/// The question what the files are whose names are those of others with an end; `patterns` are those
/// of all of them.
pub(super) fn in_one_folder(
    folders: &Folders,
    patterns: &[String],
    is_of_colours: IsOfColours<'_>,
) -> Option<Doubt> {
    let ends = ends(folders)?;
    let kind = |end: &str| {
        let path = |(folder, name): (&str, &str)| {
            let slash = if folder.is_empty() { "" } else { "/" };
            format!("{}{folder}{slash}{name}", folders.prefix)
        };
        let all = folders.examples.names().filter(|(_, name)| {
            let stem = stem_and_extension(name).0;
            match end {
                "" => ends.iter().all(|of| of.is_empty() || !stem.ends_with(of.as_str())),
                end => stem.ends_with(end),
            }
        });
        KindOfFiles::of(&all.map(path).collect::<Vec<_>>(), is_of_colours)
    };
    let kinds: BTreeMap<&String, KindOfFiles> = ends.iter().map(|end| (end, kind(end))).collect();
    let only = |is: &dyn Fn(&KindOfFiles) -> bool| {
        let mut found = kinds.iter().filter(|(_, kind)| is(kind));
        found.next().map(|(end, _)| *end).filter(|_| found.next().is_none())
    };
    let is_of_images = |end: &&String| {
        let word = end.trim_start_matches(BEFORE_ENDS).to_lowercase();
        word.is_empty() || OF_IMAGES.contains(&word.as_str())
    };
    let image = ends
        .iter()
        .find(|end| end.is_empty())
        .or_else(|| only(&|kind| kind.of_colours == Some(true)))
        .or_else(|| only(&|kind| kind.extension.as_deref() == Some("jpg")))
        .or_else(|| ends.iter().find(is_of_images))
        .or_else(|| ends.first())?;
    let with = |end: &str| -> Vec<String> {
        let of =
            |pattern: &String| pattern.replacen("{key}", &format!("{{key}}{}", literal(end)), 1);
        patterns.iter().map(of).collect()
    };
    let of_image = kinds.get(image)?;
    let others = ends.iter().filter(|end| *end != image).filter_map(|end| {
        let kind = kinds.get(end)?;
        let (are_numbers, may_be_mask) = (kind.are_numbers_of(of_image), kind.may_be_masks());
        let pattern = with(end).into_iter().next()?;
        Some(OtherFile { name: end.clone(), pattern, are_numbers, may_be_mask })
    });
    let others: Vec<OtherFile> = others.collect();
    let text = match image.as_str() {
        "" => format!(
            "nearly each image has a file beside it whose name ends in {}",
            named(others.iter().map(|other| other.name.as_str()))
        ),
        _ => format!(
            "names are equal but for their ends: nearly each has {}",
            named(ends.iter().map(String::as_str))
        ),
    };
    let mut ways = ways_with(&with(image), &others, false);
    let all: Vec<&str> = patterns.iter().map(String::as_str).collect();
    ways.push(WayToRead { asks: true, ..WayToRead::new("if all of them are images", &all) });
    Some(Doubt::new(text, ways))
}

/// The ends that nearly all names have behind what they share.
fn ends(folders: &Folders) -> Option<BTreeSet<String>> {
    let mut of_key: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut stems: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (folder, name) in folders.examples.names() {
        let stem = stem_and_extension(name).0;
        stems.insert((folder, stem));
        for (key, end) in divided(stem) {
            of_key.entry((folder, key)).or_default().insert(end);
        }
    }
    of_key.retain(|_, ends| ends.len() > 1);
    let frequent = |of_key: &BTreeMap<(&str, &str), BTreeSet<&str>>| {
        let mut n_of: BTreeMap<String, usize> = BTreeMap::new();
        for end in of_key.values().flatten() {
            *n_of.entry((*end).to_owned()).or_default() += 1;
        }
        let most = n_of.values().copied().max().unwrap_or_default();
        n_of.retain(|_, n| *n > 1 && nearly_all(*n, most));
        n_of.into_keys().collect::<BTreeSet<String>>()
    };
    let mut found = frequent(&of_key);
    if found.contains("") {
        of_key.retain(|_, ends| ends.contains(""));
        found = frequent(&of_key);
    }
    // Of `7_im_rgb` and `7_im_fg`, the longer ends say the same.
    let all = found.clone();
    let is_longer = |end: &String| {
        all.iter().any(|of| !of.is_empty() && of != end && end.ends_with(of.as_str()))
    };
    found.retain(|end| !is_longer(end));
    if !(2..=MOST_PARTS).contains(&found.len()) {
        return None;
    }
    let is_whole = |ends: &&BTreeSet<&str>| found.iter().all(|end| ends.contains(end.as_str()));
    let n_keys = of_key.values().filter(is_whole).count();
    let holders: BTreeSet<&str> =
        of_key.iter().filter(|(_, ends)| is_whole(ends)).map(|((folder, _), _)| *folder).collect();
    let n_beside = stems.iter().filter(|(folder, _)| holders.contains(folder)).count();
    let n = n_keys * found.len();
    (n_keys > 1 && nearly_all(n, n_beside) && n * 2 >= stems.len()).then_some(found)
}

/// A name as what it may share with others and its end: the whole name, and each part with a letter
/// behind a mark.
fn divided(stem: &str) -> impl Iterator<Item = (&str, &str)> {
    let marks = stem.match_indices(BEFORE_ENDS).map(|(at, _)| stem.split_at(at));
    let has_letter = |end: &str| end.chars().any(char::is_alphabetic);
    // `7.png~2` is another version of a file, and not a part of its sample.
    let is_extension = |end: &str| {
        let word = end.strip_prefix('.').unwrap_or_default();
        formats::is_image(word.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(word))
    };
    let parts =
        marks.filter(move |(key, end)| !key.is_empty() && has_letter(end) && !is_extension(end));
    [(stem, "")].into_iter().chain(parts)
}

/// Folders of one class, by what their paths have beside its name, with names of files.
type FoldersOfClass<'a> = BTreeMap<Vec<&'a str>, Vec<&'a str>>;

/// A fixed part that names of images lack or have, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FixedPart {
    of_image: String,
    of_other: String,
    place: FixedPlace,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum FixedPlace {
    Nowhere,
    Start,
    /// Behind this mark.
    Behind(char),
    End,
}

impl FixedPart {
    fn between(image: &str, other: &str) -> Option<Self> {
        let shared = |a: &str, b: &str| -> usize {
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
            same.map(|(a, _)| a.len_utf8()).sum()
        };
        let start = shared(image, other);
        let (before, image) = image.split_at(start);
        let other = other.get(start..)?;
        let reversed = image.chars().rev().zip(other.chars().rev());
        let end: usize = reversed.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let of_image = image.get(..image.len() - end)?;
        let of_other = other.get(..other.len() - end)?;
        let place = match (start, end) {
            _ if of_image.is_empty() && of_other.is_empty() => FixedPlace::Nowhere,
            (0, _) => FixedPlace::Start,
            (_, 0) => FixedPlace::End,
            _ => FixedPlace::Behind(before.chars().next_back()?),
        };
        let [of_image, of_other] = [of_image, of_other].map(str::to_owned);
        Some(Self { of_image, of_other, place })
    }

    /// Whether each name has the name of its folder in it, or the beginning of that.
    fn is_of(&self, image: &str, other: &str) -> bool {
        let is = |part: &str, folder: &str| {
            let word = part.trim_matches(BEFORE_ENDS).to_lowercase();
            folder.to_lowercase().starts_with(&word)
        };
        is(&self.of_image, image) && is(&self.of_other, other)
    }

    /// Whether it tells parts of a sample apart, and is not only the name of the class or a number.
    fn tells(&self, class: &str) -> bool {
        let (one, none) = match self.of_image.is_empty() {
            true => (&self.of_other, &self.of_image),
            false => (&self.of_image, &self.of_other),
        };
        let word = one.trim_matches(BEFORE_ENDS).to_lowercase();
        let is_name = class.to_lowercase().contains(&word);
        none.is_empty() && !is_name && word.chars().any(char::is_alphabetic)
    }

    /// `{key}` of a pattern as the names of images and of the others have it.
    fn keys(&self) -> [String; 2] {
        [&self.of_image, &self.of_other].map(|part| {
            let part = literal(part);
            match self.place {
                FixedPlace::Nowhere => "{key}".to_owned(),
                FixedPlace::Start => format!("{part}{{key}}"),
                FixedPlace::Behind(mark) => format!("{{set}}{mark}{part}{{key}}"),
                FixedPlace::End => format!("{{key}}{part}"),
            }
        })
    }

    fn is_none(&self) -> bool {
        self.place == FixedPlace::Nowhere
    }
}

/// The question what folders are that were read as classes and have files of the same names.
pub(super) fn in_folders(
    folders: &Folders,
    found: &Recognised,
    is_of_colours: IsOfColours<'_>,
) -> Option<Doubt> {
    let pattern = found.patterns.first().filter(|_| found.patterns.len() == 1)?;
    if !(2..=MOST_PARTS).contains(&found.classes.len()) {
        return None;
    }
    let n_around = folders.prefix.matches('/').count();
    let at = |part: &str| pattern.split('/').position(|of| of == part)?.checked_sub(n_around);
    let (at_class, at_split) = (at("{label}")?, at("{split}"));
    let mut of_class: BTreeMap<&str, FoldersOfClass> = BTreeMap::new();
    for (folder, name) in folders.examples.names() {
        let mut parts: Vec<&str> = folder.split('/').collect();
        let class = (at_class < parts.len()).then(|| parts.remove(at_class))?;
        of_class.entry(class).or_default().entry(parts).or_default().push(name);
    }
    let kind = |class: &str| {
        let paths = of_class.get(class).into_iter().flatten().flat_map(|(rest, names)| {
            let mut parts = rest.clone();
            parts.insert(at_class, class);
            let below = format!("{}{}", folders.prefix, parts.join("/"));
            names.iter().map(move |name| format!("{below}/{name}"))
        });
        KindOfFiles::of(&paths.collect::<Vec<_>>(), is_of_colours)
    };
    let kinds: BTreeMap<&str, KindOfFiles> = of_class.keys().map(|of| (*of, kind(of))).collect();
    let mut classes: Vec<&str> = of_class.keys().copied().collect();
    // The likeliest images first.
    classes.sort_by_key(|class| {
        let kind = kinds.get(class);
        let is_jpeg = kind.is_some_and(|kind| kind.extension.as_deref() == Some("jpg"));
        let of_colours = kind.is_some_and(|kind| kind.of_colours == Some(true));
        let word = class.trim_end_matches(|c: char| c.is_ascii_digit() || BEFORE_ENDS.contains(&c));
        (!is_of_images(word), is_other_part(word), !of_colours, !is_jpeg)
    });
    let (image, others) = classes.split_first()?;
    let related = others.iter().map(|other| {
        let (of_image, of_other) = (of_class.get(image)?, of_class.get(other)?);
        let fixed = relation(of_image, of_other)?;
        let (kind, of_images) = (kinds.get(other)?, kinds.get(image)?);
        // Colours in the one and numbers in the other are no chance, whatever the names have.
        // Grey JPEGs are photographs as well, such as X-rays of another hospital.
        let grey = if kind.of_colours == Some(false) { kind } else { of_images };
        let by_colours = kind.of_colours.zip(of_images.of_colours).is_some_and(|(a, b)| a != b)
            && grey.extension.as_deref() != Some("jpg");
        // X-rays of one class may be grey, and each has the name of its class.
        let is_own = fixed.is_of(image, other);
        let is_proven =
            by_colours && (fixed.is_none() || kind.differ_in_format(of_images) && !is_own);
        let tells = match fixed.is_none() {
            _ if is_proven => true,
            true => {
                kind.differ_in_format(of_images)
                    || of_image.values().flatten().any(|name| !is_counted(name))
                        && of_image.values().map(Vec::len).sum::<usize>() > FEW_NAMES
            }
            false => fixed.tells(other) && fixed.tells(image),
        };
        Some((*other, fixed, [tells, is_proven]))
    });
    let related: Vec<(&str, FixedPart, [bool; 2])> = related.collect::<Option<_>>()?;
    // Where one of them is proven, the others have the same names by no chance, either.
    let is_proven = related.iter().any(|(.., [_, is_proven])| *is_proven);
    if !related.iter().all(|(_, fixed, [tells, _])| *tells || is_proven && fixed.is_none()) {
        return None;
    }
    let first = related.first().map(|(_, fixed, _)| fixed)?;
    if related.iter().any(|(_, fixed, _)| fixed.of_image != first.of_image) {
        return None;
    }
    // Splits in which all classes are.
    let in_all = |rest: &&Vec<&str>| of_class.values().all(|of| of.contains_key(*rest));
    let all_rests: BTreeSet<&Vec<&str>> = of_class.values().flat_map(BTreeMap::keys).collect();
    let shared: Vec<&Vec<&str>> = all_rests.iter().copied().filter(in_all).collect();
    let is_whole = shared.len() == all_rests.len();
    let split_at = at_split.map(|at| if at > at_class { at - 1 } else { at });
    let words: BTreeSet<String> =
        shared.iter().filter_map(|rest| Some(regex::escape(rest.get(split_at?)?))).collect();
    let of = |class: &str, key: &str| {
        let pattern = pattern.replacen("{label}", &literal(class), 1).replacen("{key}", key, 1);
        match is_whole || words.is_empty() {
            true => pattern,
            false => {
                let words = words.iter().map(String::as_str).collect::<Vec<_>>().join("|");
                pattern.replacen("{split}", &format!("{{split:{words}}}"), 1)
            }
        }
    };
    let [key, _] = first.keys();
    let files = related.iter().filter_map(|(other, fixed, _)| {
        let kind = kinds.get(other)?;
        let are_numbers = kind.are_numbers_of(kinds.get(image)?);
        let may_be_mask = kind.may_be_masks();
        let [_, key] = fixed.keys();
        let (name, pattern) = ((*other).to_owned(), of(other, &key));
        Some(OtherFile { name, pattern, are_numbers, may_be_mask })
    });
    let files: Vec<OtherFile> = files.collect();
    let text = format!(
        "{} have files of the same names, so they may be parts of the samples and not classes",
        named(found.classes.iter().map(String::as_str))
    );
    let leaves_out = !is_whole || related.iter().any(|(_, fixed, _)| !fixed.is_none());
    let mut ways = ways_with(&[of(image, &key)], &files, leaves_out);
    ways.push(WayToRead { asks: true, ..WayToRead::new("if they are classes", &[pattern]) });
    Some(Doubt::new(text, ways))
}

/// The ways to read folders of the same names in each of many folders, such as `scene7/blur` and
/// `scene7/sharp`, with files of the same names, where these may be classes by `pattern`.
pub(super) fn in_deeper_folders(
    folders: &Folders,
    pattern: &str,
    is_of_colours: IsOfColours<'_>,
) -> Vec<WayToRead> {
    let ways = || {
        let n_around = folders.prefix.matches('/').count();
        let at = pattern.split('/').position(|part| part == "{label}")?.checked_sub(n_around)?;
        let mut of_folder: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        for (folder, name) in folders.examples.names() {
            let (around, part) =
                folder.rsplit_once('/').filter(|_| folder.matches('/').count() == at)?;
            let stem = stem_and_extension(name).0;
            of_folder.entry(around).or_default().entry(part).or_default().insert(stem);
        }
        let (around, parts) = of_folder.first_key_value()?;
        let is_same = |of: &BTreeMap<&str, BTreeSet<&str>>| {
            let first = of.values().next();
            of.keys().eq(parts.keys()) && of.values().all(|stems| Some(stems) == first)
        };
        if of_folder.len() < 2 || parts.len() > MOST_PARTS || !of_folder.values().all(is_same) {
            return None;
        }
        let mut parts: Vec<&str> = parts.keys().copied().collect();
        parts.sort_by_key(|part| (!is_of_images(part), is_other_part(part)));
        let (image, others @ [_, ..]) = parts.split_first()? else { return None };
        let kind = |part: &str| {
            let below = format!("{around}/{part}");
            let names = folders.examples.names().filter(|(folder, _)| *folder == below);
            let paths = names.map(|(folder, name)| format!("{}{folder}/{name}", folders.prefix));
            KindOfFiles::of(&paths.collect::<Vec<_>>(), is_of_colours)
        };
        let of = |part: &str| {
            pattern.replacen("{*}/{label}", &format!("{{folder}}/{}", literal(part)), 1)
        };
        let files = others.iter().map(|other| OtherFile {
            name: (*other).to_owned(),
            pattern: of(other),
            are_numbers: kind(other).are_numbers_of(&kind(image)),
            may_be_mask: kind(other).may_be_masks(),
        });
        Some(ways_with(&[of(image)], &files.collect::<Vec<_>>(), false))
    };
    ways().unwrap_or_default()
}

/// What is said of folders that were read as classes, of which each has the same few files.
#[derive(Debug)]
pub(super) enum FilesOfFolders {
    /// `scene7/noisy.png` and `scene7/gt.png` are as likely an image and its mask.
    Asked(Doubt),
    /// `scene7/im0.png` and `scene7/im1.png` may be.
    Told(Doubt),
}

/// Finds folders that were read as classes, of which each has the same few files.
pub(super) fn in_each_folder(folders: &Folders, patterns: &[String]) -> Option<FilesOfFolders> {
    let [pattern] = patterns else { return None };
    let at = pattern.split('/').position(|part| part == "{label}")?;
    let at = at.checked_sub(folders.prefix.matches('/').count())?;
    let mut of_folder: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (folder, name) in folders.examples.names() {
        let is_class = folder.matches('/').count() == at;
        of_folder
            .entry(is_class.then_some(folder)?)
            .or_default()
            .insert(stem_and_extension(name).0);
    }
    let (example, stems) = of_folder.first_key_value()?;
    let is_same = of_folder.len() > 1 && of_folder.values().all(|of| of == stems);
    // `img_0` and `img_1` are counted, and equal by chance.
    let word = |stem: &&str| stem.chars().filter(|c| c.is_alphabetic()).collect::<String>();
    let words: BTreeSet<String> = stems.iter().map(word).collect();
    let are_words = words.len() == stems.len() && !words.contains("");
    // `front` and `left` may as well be views of each person.
    let is_known = |stem: &&str| {
        let mut words = stem.split(|c: char| !c.is_alphabetic()).map(str::to_lowercase);
        of_masks(stem) == Some(true) || words.any(|word| OF_IMAGES.contains(&word.as_str()))
    };
    if !is_same || !(2..=MOST_PARTS).contains(&stems.len()) {
        return None;
    }
    let asks = are_words && stems.iter().any(is_known);
    // A few images of each of a few classes have the same numbers.
    if !asks && of_folder.len() <= stems.len().max(2) {
        return None;
    }
    let mut parts: Vec<&str> = stems.iter().copied().collect();
    parts.sort_by_key(|part| of_masks(part) == Some(true));
    let of =
        |part: &str| pattern.replacen("{label}/{key}", &format!("{{key}}/{}", literal(part)), 1);
    let (image, others) = parts.split_first()?;
    let files = others.iter().map(|other| OtherFile {
        name: (*other).to_owned(),
        pattern: of(other),
        are_numbers: false,
        may_be_mask: true,
    });
    let text = format!(
        "each folder has the files {}, as those of `{example}`, so they may be samples and not classes",
        named(parts.iter())
    );
    let mut ways = ways_with(&[of(image)], &files.collect::<Vec<_>>(), false);
    if !asks {
        // Without masks among them.
        ways.truncate(1);
        return Some(FilesOfFolders::Told(Doubt::new(text, ways)));
    }
    ways.push(WayToRead { asks: true, ..WayToRead::new("if they are classes", &[pattern]) });
    Some(FilesOfFolders::Asked(Doubt::new(text, ways)))
}

/// How nearly all names of images become names of others.
fn relation(images: &FoldersOfClass, others: &FoldersOfClass) -> Option<FixedPart> {
    let mut found: BTreeMap<FixedPart, usize> = BTreeMap::new();
    let mut n = 0;
    let both = images.iter().filter_map(|(rest, names)| Some((names, others.get(rest)?)));
    for (of_images, of_others) in both.take(MOST_COMPARED) {
        let stems = |names: &[&str]| -> BTreeSet<String> {
            names.iter().map(|name| stem_and_extension(name).0.to_owned()).collect()
        };
        let (of_images, of_others) = (stems(of_images), stems(of_others));
        n += of_images.len();
        for image in &of_images {
            let fixed = of_others.iter().filter_map(|other| FixedPart::between(image, other));
            for fixed in fixed.collect::<BTreeSet<_>>() {
                *found.entry(fixed).or_default() += 1;
            }
        }
    }
    let simple = |fixed: &FixedPart| usize::MAX - fixed.of_image.len() - fixed.of_other.len();
    let (fixed, most) = found.into_iter().max_by_key(|(fixed, n)| (*n, simple(fixed)))?;
    (n > 1 && nearly_all(most, n)).then_some(fixed)
}

/// Whether a name is a number behind a word, as those of `cat/0.jpg` and `dog/0.jpg` are, which are
/// equal by chance.
fn is_counted(name: &str) -> bool {
    let stem = stem_and_extension(name).0;
    let word = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    word.len() < stem.len() && !word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::recognise;

    fn folders(paths: &[String]) -> Folders {
        let mut folders = Folders::new(String::new());
        paths.iter().for_each(|path| folders.add(path, 1));
        folders
    }

    /// Paths, of which each `#` is a number.
    fn counted(paths: &[&str]) -> Vec<String> {
        let of = |i: usize| paths.iter().map(move |path| path.replace('#', &i.to_string()));
        (0..4).flat_map(of).collect()
    }

    /// Pictures are of colours, but for those whose paths have one of the `numbers` in them.
    fn asked(paths: &[&str], numbers: &str) -> Option<Doubt> {
        let folders = folders(&counted(paths));
        let found = recognise(&folders, true).unwrap();
        let look = |path: &str| Some(numbers.is_empty() || !path.contains(numbers));
        in_one_folder(&folders, &found.patterns, &look)
            .or_else(|| in_folders(&folders, &found, &look))
    }

    #[track_caller]
    fn check(paths: &[&str], numbers: &str, images: &str, files: &[(&str, &str)]) {
        let doubt = asked(paths, numbers).expect("a question");
        let first = &doubt.readings[0];
        let of: Vec<(&str, &str)> =
            first.files.iter().map(|(name, files)| (name.as_str(), files.as_str())).collect();
        assert_eq!((first.images[0].as_str(), of.as_slice()), (images, files), "{doubt}");
        assert!(doubt.readings.iter().all(|way| way.asks), "nothing is taken");
        assert!(doubt.readings.last().unwrap().files.is_empty(), "all may be images");
    }

    #[test]
    fn folders_with_files_of_the_same_names_are_a_question() {
        check(
            &["img_dir/train/#.jpg", "ann_dir/train/#.png"],
            "ann",
            "img_dir/{split}/{key}.{ext}",
            &[("mask", "ann_dir/{split}/{key}.{ext}")],
        );
        check(&["x/#.png", "y/#.png"], "y/", "x/{key}.{ext}", &[("mask", "y/{key}.{ext}")]);
        check(
            &["x/im_#.jpg", "y/gt_#.png"],
            "y/",
            "x/im{key}.{ext}",
            &[("mask", "y/gt{key}.{ext}")],
        );
        check(
            &["left/im#.png", "tint/im#.png", "ids/im#.png"],
            "ids",
            "left/{key}.{ext}",
            &[("tint", "tint/{key}.{ext}"), ("mask", "ids/{key}.{ext}")],
        );
        check(&["x/#.jpg", "y/#.png"], "", "x/{key}.{ext}", &[("y", "y/{key}.{ext}")]);
        check(
            &["train/rain/norain-#x2.png", "train/norain/norain-#.png"],
            "",
            "{split}/norain/{key}.{ext}",
            &[("rain", "{split}/rain/{key}x2.{ext}")],
        );
        check(
            &["train/image_2/um_#.png", "train/gt_image_2/um_road_#.png", "test/image_2/um_#.png"],
            "",
            "{split:train}/image_2/{set}_{key}.{ext}",
            &[("gt_image_2", "{split:train}/gt_image_2/{set}_road_{key}.{ext}")],
        );
    }

    #[test]
    fn files_whose_names_are_those_of_images_with_an_end_are_a_question() {
        for end in ["_lesion", ".mask", "_L", "_1stHO", "_labelIds", "_label_ground-truth"] {
            let path = format!("cat/im#{end}.png");
            let mask = format!("{{label}}/{{key}}{end}.{{ext}}");
            check(
                &["cat/im#.jpg", &path, "dog/im#.jpg"],
                end,
                "{label}/{key}.{ext}",
                &[("mask", &mask)],
            );
        }
        check(
            &["cat/#_co.png", "cat/#_ma.png", "dog/#_co.png", "dog/#_ma.png"],
            "_ma",
            "{label}/{key}_co.{ext}",
            &[("mask", "{label}/{key}_ma.{ext}")],
        );
        check(
            &["cat/a_#_pre.png", "cat/a_#_post.png", "dog/b_#.png"],
            "",
            "{label}/{key}_pre.{ext}",
            &[("post", "{label}/{key}_post.{ext}")],
        );
    }

    #[test]
    fn folders_of_the_same_names_in_each_scene_are_parts_of_samples() {
        let ways = |paths: &[&str], pattern: &str| {
            let ways = in_deeper_folders(&folders(&counted(paths)), pattern, &|_| None);
            ways.first().map(|way| (way.images.clone(), way.files.clone()))
        };
        let paths = [
            "train/a/blur/#.png",
            "train/a/sharp/#.png",
            "test/b/blur/#.png",
            "test/b/sharp/#.png",
        ];
        let pattern = "{split}/{*}/{label}/{key}.{ext}";
        let (images, files) = ways(&paths, pattern).unwrap();
        assert_eq!(images, ["{split}/{folder}/blur/{key}.{ext}"]);
        let sharp = "{split}/{folder}/sharp/{key}.{ext}".to_owned();
        assert_eq!(files, [("sharp".to_owned(), sharp)]);
        assert!(ways(&paths[..3], pattern).is_none(), "one scene lacks a part");
        let classes =
            ["train/a/cat/1#.png", "train/a/dog/2#.png", "test/b/cat/3#.png", "test/b/dog/4#.png"];
        assert!(ways(&classes, pattern).is_none());
    }

    #[test]
    fn folders_that_each_have_the_same_few_files_are_a_question() {
        let asked = |paths: &[&str], pattern: &str| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            in_each_folder(&folders(&paths), &[pattern.to_owned()])
        };
        let told = |paths: &[&str]| match asked(paths, "{label}/{key}.{ext}") {
            Some(FilesOfFolders::Told(doubt)) => doubt,
            other => panic!("{paths:?}: {other:?}"),
        };
        let paths = ["a/gt_1.png", "a/noisy_1.png", "b/gt_1.png", "b/noisy_1.png"];
        let Some(FilesOfFolders::Asked(doubt)) = asked(&paths, "{label}/{key}.{ext}") else {
            panic!("a question");
        };
        assert_eq!(doubt.readings[0].images, ["{key}/noisy_1.{ext}"]);
        let gt = ("gt_1".to_owned(), "{key}/gt_1.{ext}".to_owned());
        assert_eq!(doubt.readings[0].files, [gt]);
        assert!(asked(&paths[..3], "{label}/{key}.{ext}").is_none());
        let faces = ["a/front.png", "a/left.png", "b/front.png", "b/left.png"];
        assert!(asked(&faces, "{label}/{key}.{ext}").is_none());
        let faces = [&faces[..], &["c/front.png", "c/left.png"]].concat();
        assert_eq!(told(&faces).readings[0].images, ["{key}/front.{ext}"]);
        for [one, two] in [["im_1", "im_2"], ["s1_04", "s2_05"], ["7", "8"]] {
            let paths = [
                format!("a/{one}.png"),
                format!("a/{two}.png"),
                format!("b/{one}.png"),
                format!("b/{two}.png"),
                format!("c/{one}.png"),
                format!("c/{two}.png"),
            ];
            let doubt = told(&paths.each_ref().map(String::as_str));
            assert_eq!(doubt.readings.len(), 1, "{doubt}");
        }
    }

    #[test]
    fn classes_are_not_a_question() {
        for paths in [
            &["cat/#.jpg", "dog/#.jpg"][..],
            &["cat/cat_#.jpg", "dog/dog_#.jpg"],
            &["cat/IMG_#.jpg", "dog/IMG_1#.png"],
            &["good/#.png", "bad/#_bad.png"],
            &["a/#.jpg", "b/#b.jpg", "c/#.jpg"],
            &["cat/#.jpg", "cat/#_1.jpg", "dog/#.jpg"],
            &["cat/x_#_a.jpg", "dog/x_#_b.jpg"],
            &["cat/#.jpg", "cat/#.png~2.jpg", "dog/#.jpg"],
        ] {
            assert_eq!(asked(paths, ""), None, "{paths:?}");
        }
        assert_eq!(asked(&["normal/N_#.png", "covid/covid_#.jpg"], "normal"), None);
    }
}
