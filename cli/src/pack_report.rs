//! The text that `gular pack` prints at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use gular_bundle::Split;
use gular_pack::{
    BadInputs, BaseReport, Doubt, JoinedTables, PackReport, PixelColumns, Resampling, SplitReport,
};

use crate::{class_table, pack_paths, show};

/// The text for a new bundle, or for a part of one.
pub(crate) fn table(report: &PackReport, out: &Path) -> String {
    let mut text =
        format!("{:<8}{:>12}{:>12}{:>9}{:>9}\n", "split", "samples", "source", "shards", "classes");
    for (split, s) in &report.splits {
        let split = split.to_string();
        let (samples, bytes, shards, classes) =
            (s.samples, show::size(s.bytes), s.shards, s.classes.len());
        let _ = writeln!(text, "{split:<8}{samples:>12}{bytes:>12}{shards:>9}{classes:>9}");
    }
    let planned: u64 = report.splits.values().map(|split| split.samples).sum();
    if report.samples < planned && report.part.is_none() {
        let _ = writeln!(text, "{} of these were left out", planned - report.samples);
    }
    if let Some(columns) = &report.columns {
        let of = |what: &str, column: &Option<String>| {
            column.as_ref().map(|column| format!(", {what} from `{column}`")).unwrap_or_default()
        };
        let _ = writeln!(
            text,
            "\n{} from `{}`{}{}",
            match &columns.part {
                Some(part) => format!("`{{{part}}}` of the paths"),
                None => "file names".to_owned(),
            },
            columns.file_names,
            of("labels", &columns.labels),
            of("splits", &columns.splits)
        );
        for JoinedTables { files, by } in &columns.joined {
            let files: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
            let _ = writeln!(text, "{} joined by `{by}`", files.join(", "));
        }
    }
    if !report.fields.is_empty() {
        let _ = writeln!(text, "further fields: {}", report.fields.join(", "));
    }
    if report.dry_run {
        text.push_str(&classes(report));
    }
    text.push('\n');
    let list = match report.part {
        None => out.join(gular_pack::SKIPPED_NAME),
        Some(_) => out.join(gular_pack::PART_NAME),
    };
    text.push_str(&flaws(report.skipped, &list, Some((&report.tolerated, &report.misnamed))));
    if report.empty_tiles > 0 {
        let tiles = show::count(report.empty_tiles, "tile");
        let _ = writeln!(text, "left out: {tiles} with too few valid pixels (--min-valid)");
    }
    text.push_str(checked(report));
    if !report.ignored.is_empty() {
        let ignored: Vec<String> = report.ignored.iter().map(|(e, n)| format!("{n} {e}")).collect();
        let _ = writeln!(text, "not packed: {}", ignored.join(", "));
    }
    if report.resumed_shards > 0 {
        let _ = writeln!(
            text,
            "kept from an interrupted run: {}",
            show::count(report.resumed_shards, "shard")
        );
    }
    match &report.digest {
        None if !report.dry_run => text.push_str(&of_part(report, out)),
        None => {
            let _ = writeln!(
                text,
                "dry run: {} of {} in {}; nothing was written",
                show::count(report.samples, "sample"),
                show::size(report.bytes),
                show::count(report.shards, "shard")
            );
        }
        Some(digest) if report.already_done => {
            let _ = writeln!(
                text,
                "nothing to do: {} with the same names and sizes were packed before\n\
                 their bytes were not compared: if an image changed, pack into a new folder\n\
                 {digest}\nnext: gular verify {}",
                show::count(report.samples, "sample"),
                show::quoted(&out.display().to_string())
            );
        }
        Some(digest) => {
            let _ = writeln!(
                text,
                "packed {}, {} in {}{}\n{digest}\nnext: gular verify {}",
                show::count(report.samples, "sample"),
                show::size(report.bytes),
                show::count(report.shards, "shard"),
                show::pace(report.bytes, report.seconds),
                show::quoted(&out.display().to_string())
            );
        }
    }
    text
}

/// How the source was read: patterns, splits, classes and further fields.
pub(crate) fn read_as(report: &PackReport) -> String {
    let mut text = String::new();
    if report.images.is_empty() && report.pixels.is_none() {
        return text;
    }
    if let Some(dataset) = &report.dataset {
        let _ = writeln!(text, "dataset: {dataset}");
    }
    match &report.pixels {
        Some(rows) => text.push_str(&rows_read_as(rows)),
        None => text.push_str(&images_read_as(report)),
    }
    // Words that are the names of splits say nothing new.
    if report.split_words.iter().any(|(word, split)| word != split.name()) {
        let words = report.split_words.iter();
        let words: Vec<String> =
            words.map(|(word, split)| format!("`{word}` is {split}")).collect();
        let _ = writeln!(text, "splits: {}", words.join(", "));
    }
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for (class, n) in report.splits.values().flat_map(|split| &split.classes) {
        *classes.entry(class).or_default() += n;
    }
    if !classes.is_empty() {
        let all: Vec<String> = classes.iter().map(|(class, n)| format!("{n} {class}")).collect();
        let named = match all.as_slice() {
            [first @ .., last] if all.len() > MOST_CLASSES => {
                let first = first.get(..MOST_CLASSES - 1).unwrap_or_default();
                format!("{}, … {last}", first.join(", "))
            }
            _ => all.join(", "),
        };
        let _ = writeln!(text, "{}: {named}", n_classes(all.len()));
    }
    if let Some(axes) = &report.axes {
        let of = |axis| match axis {
            't' => "times",
            'z' => "depths",
            'c' => "bands",
            'y' => "rows",
            _ => "columns",
        };
        let words: Vec<&str> = axes.chars().map(of).collect();
        let _ = writeln!(text, "arrays: {} (--axes {axes})", words.join(", "));
        if !report.bands.is_empty() {
            let _ = writeln!(text, "bands: {}", report.bands.join(", "));
        }
    }
    text.push_str(&on_image(&report.resampling));
    if !report.box_classes.is_empty() {
        let all = &report.box_classes;
        let first: Vec<&str> = all.iter().take(MOST_CLASSES).map(String::as_str).collect();
        let more = if all.len() > MOST_CLASSES { ", …" } else { "" };
        let _ = writeln!(text, "boxes of {}: {}{more}", n_classes(all.len()), first.join(", "));
    }
    text + "\n"
}

/// Names the fields on the image's pixels, and says how each is resized.
pub(crate) fn on_image(resampling: &BTreeMap<String, Resampling>) -> String {
    let of = |(name, how): (&String, &Resampling)| match how {
        Resampling::Interpolated => format!("{name} (interpolated)"),
        Resampling::LikeImage => format!("{name} (like the image)"),
        Resampling::Nearest => format!("{name} (nearest)"),
    };
    match resampling.iter().map(of).collect::<Vec<_>>() {
        fields if fields.is_empty() => String::new(),
        fields => {
            format!("on the image's pixels, cropped and mirrored with it: {}\n", fields.join(", "))
        }
    }
}

fn n_classes(n: usize) -> String {
    if n == 1 { "1 class".to_owned() } else { format!("{n} classes") }
}

/// How paths were read, as the options that would do the same.
fn images_read_as(report: &PackReport) -> String {
    let given = |option: &str, texts: &[String]| -> String {
        texts.iter().map(|text| format!(" {option} {}", show::quoted(text))).collect()
    };
    let (images, lists) = (given("--images", &report.images), given("--labels", &report.lists));
    let files: String = report
        .files
        .iter()
        .map(|(field, files)| format!(" {}", pack_paths::of_files(field, files)))
        .collect();
    let split =
        report.split_column.iter().map(|name| format!(" --split-column {}", show::quoted(name)));
    let lists = lists + &split.collect::<String>();
    let label =
        report.label_dataset.iter().map(|name| format!(" --label-column {}", show::quoted(name)));
    let colours =
        report.mask_colours.iter().map(|file| format!(" {}", pack_paths::of_colours(file)));
    let ignore = report.mask_ignore.iter().map(|(name, n)| match name.is_mask() {
        true => format!(" --mask-ignore {n}"),
        false => format!(" --mask-ignore {name}={n}"),
    });
    let files = files + &colours.chain(ignore).collect::<String>();
    let rest = if report.leaves_out { " --unlabelled skip" } else { "" };
    format!("read as:{images}{files}{rest}{lists}{}\n", label.collect::<String>())
}

/// How rows of pixels were read.
fn rows_read_as(rows: &PixelColumns) -> String {
    let [height, width, channels] = rows.shape;
    let from = |what: &str, place: &Option<String>| {
        place.as_ref().map(|place| format!("{what} from {place}, ")).unwrap_or_default()
    };
    let (labels, splits) = (from("labels", &rows.labels), from("splits", &rows.splits));
    let channels = show::count(channels, "channel");
    let mut text = format!("read as: {labels}{splits}pixels of {width} x {height}, {channels}\n");
    for other in &rows.other_labels {
        let _ = writeln!(
            text,
            "not used: labels from `{other}`; to use them, `--as pixels --label-column {other}`"
        );
    }
    if rows.is_transposed {
        text.push_str(
            "EMNIST's files have rows and columns exchanged; the images are packed so, as torchvision reads them\n",
        );
    }
    if !rows.unused.is_empty() {
        let _ = writeln!(text, "columns not packed: {}", rows.unused.join(", "));
    }
    text
}

/// Most classes that are named with their numbers of images.
const MOST_CLASSES: usize = 6;

/// A warning about paths that can be read in another way.
pub(crate) fn doubt(doubt: &Doubt) -> String {
    match pack_paths::ways(doubt) {
        Some(ways) => format!("{}; {ways}", doubt.text),
        None => doubt.text.clone(),
    }
}

/// Says how carefully the images of this run were checked.
fn checked(report: &PackReport) -> &'static str {
    match report.checked == "header" && !report.dry_run && !report.already_done {
        true => "checked: the images' headers; `--check-images full` decodes every image\n",
        false => "",
    }
}

/// The end of a finished part's summary.
fn of_part(report: &PackReport, out: &Path) -> String {
    let part = report.part.map(|part| part.to_string()).unwrap_or_default();
    let samples = show::count(report.samples, "sample");
    if report.already_done {
        return format!("nothing to do: part {part} with {samples} was packed before\n");
    }
    format!(
        "packed part {part}: {samples}, {} in {}{}\nnext, when all parts are done: gular pack --merge {} … bundle/\n",
        show::size(report.bytes),
        show::count(report.shards, "shard"),
        show::pace(report.bytes, report.seconds),
        show::quoted(&out.display().to_string())
    )
}

/// Lists the classes of the folders, by which users notice a wrong layout.
fn classes(report: &PackReport) -> String {
    let names: BTreeSet<&String> = report.splits.values().flat_map(|s| s.classes.keys()).collect();
    if names.is_empty() {
        return String::new();
    }
    let splits: Vec<Split> = report.splits.keys().copied().collect();
    let n_classes = names.len();
    let row = |name: &String| {
        let of_split = |s: &SplitReport| Some(s.classes.get(name).copied().unwrap_or(0));
        (name.clone(), report.splits.values().map(of_split).collect())
    };
    class_table::classes(&splits, n_classes, names.into_iter().map(row))
}

/// The text for a new version of a bundle.
pub(crate) fn version(report: &BaseReport, out: &Path) -> String {
    let mut text = format!(
        "{} unchanged, {} changed, {} added, {} removed\n",
        report.unchanged, report.changed, report.added, report.removed
    );
    let packed = report.packed.as_ref();
    let (samples, bytes) = packed.map_or((0, 0), |packed| (packed.samples, packed.bytes));
    let (samples, bytes) = (show::count(samples, "sample"), show::size(bytes));
    let Some(made) = &report.bundle else {
        return text + &format!("dry run: {samples}, {bytes} to pack; nothing was written\n");
    };
    text.push_str(&flaws(
        report.skipped,
        &out.join(gular_pack::SKIPPED_NAME),
        packed.map(|packed| (&packed.tolerated, &packed.misnamed)),
    ));
    text.push_str(packed.map_or("", checked));
    text.push_str(&crate::derive::statistics(made));
    if made.symbolic_links > 0 {
        let links = show::count(made.symbolic_links, "file");
        text.push_str(&format!(
            "{links} could only be linked symbolically: the base must stay where it is\n"
        ));
    }
    let (linked, seconds) = (show::size(made.bytes_linked), report.seconds);
    text.push_str(&format!("packed {samples}, {bytes}, {linked} in all shards, {seconds:.2} s\n"));
    let out = show::quoted(&out.display().to_string());
    text + &format!("{}\nnext: gular verify {out}\n", made.digest)
}

/// Says what was left out, with the file `list` that lists it, and what was packed although it is
/// damaged or has the name of another format.
fn flaws(skipped: u64, list: &Path, packed: Option<(&BadInputs, &BadInputs)>) -> String {
    let mut text = String::new();
    if skipped > 0 {
        let _ = writeln!(text, "left out: {skipped}, listed in `{}`", list.display());
    }
    let Some((tolerated, misnamed)) = packed else { return text };
    for (what, of, n_named) in [
        ("damaged, but readable (`--strict` refuses them)", tolerated, 1),
        ("packed as what they are, not as what their names say", misnamed, 3),
    ] {
        let first: Vec<String> = of.named.iter().take(n_named).map(ToString::to_string).collect();
        if of.n > 0 {
            let (images, first) = (show::count(of.n, "image"), first.join("; "));
            let _ = writeln!(text, "{what}: {images}, such as {first}");
        }
    }
    text
}
