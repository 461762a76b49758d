//! Inspects the folder of a bundle.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::{Bundle, Manifest, ShardIdx, Split};
use gular_pack::{Among, Duplicates, Looks};
use gular_view::SavedPage;
use serde_json::{Value, json};

use super::args::InspectArgs;
use super::describe::{self, COUNTED_INDEX_BYTES, Counts, text_of};
use super::files_here::FilesHere;
use super::pairs::{self, Wanted};
use super::recognise::open;
use super::{samples, sheet};
use crate::exit::{Exit, Failure};
use crate::html_page::{check, check_start};
use crate::progress::counter;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{duplicates, show};

/// Prints everything that was asked for about the bundle.
pub(super) fn bundle(
    bundle: &Bundle,
    args: &InspectArgs,
    output: &Output,
) -> Result<Exit, Failure> {
    let here = FilesHere::of(bundle);
    if let Some(key) = &args.extract {
        return samples::extract(bundle, &here, key);
    }
    let manifest = bundle.manifest();
    let counts = class_counts(bundle, &here, output)?;
    let mut value = describe::json(manifest, bundle.digest(), counts.as_ref());
    let mut text = describe::text(manifest, bundle.digest(), counts.as_ref());
    if !here.is_whole() {
        let missing = |split: &Split| (split.to_string(), here.missing_of(manifest, *split).0);
        let missing: BTreeMap<String, u64> = Split::ALL.iter().map(missing).collect();
        value["missing_files"] = json!(missing);
        let _ = write!(text, "\n{}", here.text(manifest));
    }
    let wanted = args.against.is_some() || args.duplicates.duplicates_out.is_some();
    if wanted || is_quickly_counted(manifest) {
        let found = duplicates(bundle, &here, args)?;
        text.push_str(&match &args.against {
            Some(other) => duplicates::text_against(&found, other),
            None => duplicates::text(&found),
        });
        value["duplicates"] = json!(found);
    }
    let wanted = Wanted { pixels: args.pixels, near: args.near };
    if wanted.pixels || wanted.near {
        let looks = looks(bundle, &here, args, wanted, output)?;
        text.push_str(&pairs::text(&looks, wanted));
        value["candidates"] = json!(looks);
    } else if args.pairs.is_some() {
        let hint = "add `--pixels`, `--near` or both".to_owned();
        return Err(Failure::new(
            "`--pairs` needs `--pixels` or `--near`, whose pairs it shows",
            Some(hint),
        ));
    }
    if args.samples > 0 {
        let rows = samples::rows(bundle, &here, args.samples)?;
        text.push('\n');
        for row in &rows {
            let _ = writeln!(
                text,
                "{:<6}{:>5}{:>14}{:>11}  {}",
                text_of(&row["split"]),
                text_of(&row["label"]),
                text_of(&row["offset"]),
                text_of(&row["bytes"]),
                text_of(&row["key"])
            );
        }
        value["sample_list"] = Value::Array(rows);
    }
    if let Some(out) = &args.sheet {
        check_start(out, "a contact sheet (PNG)", b"\x89PNG\r\n\x1a\n")?;
        let sheet::Shown { images, left_out } = sheet::write(bundle, &here, out, args.seed)?;
        for reason in &left_out {
            show::message("warning", &format!("not on the sheet: {reason}"));
        }
        let _ = writeln!(text, "\ncontact sheet: {images} images in `{}`", out.display());
        value["sheet"] = json!({"path": out, "images": images, "left_out": left_out});
    }
    if let Some(to) = &args.page {
        check(to)?;
        let samples = match manifest.image() {
            Some(_) => sheet::choose(bundle, &here, args.seed)?.concat(),
            None => Vec::new(),
        };
        let page = SavedPage::of_samples(bundle, &args.path.display().to_string(), &samples)?;
        gular_files::write_file(to, page.html().as_bytes())?;
        let _ = writeln!(text, "\npage: `{}`", to.display());
        value["page"] = json!(to);
    }
    show::value(&value, &text, output)?;
    Ok(Exit::Done)
}

fn looks(
    bundle: &Bundle,
    here: &FilesHere,
    args: &InspectArgs,
    wanted: Wanted,
    output: &Output,
) -> Result<Looks, Failure> {
    let among = Among { bundle, has: &|shard| here.has(shard) };
    let other = args.against.as_deref().map(open).transpose()?;
    let other_here = other.as_ref().map(FilesHere::of);
    let has = |shard| other_here.as_ref().is_some_and(|here| here.has(shard));
    let shelf = other.as_ref().map(|bundle| Among { bundle, has: &has });
    let looks = pairs::find(&among, shelf.as_ref(), wanted, output)?;
    if let Some(page) = &args.pairs {
        check(page)?;
        let bundles = [bundle, other.as_ref().unwrap_or(bundle)];
        let made = SavedPage::of_pairs(&looks, bundles, &args.path.display().to_string())?;
        gular_files::write_file(page, made.html().as_bytes())?;
    }
    Ok(looks)
}

fn duplicates(
    bundle: &Bundle,
    here: &FilesHere,
    args: &InspectArgs,
) -> Result<Duplicates, Failure> {
    let stop = Stop::install()?;
    let among = Among { bundle, has: &|shard| here.has(shard) };
    let Some(other) = &args.against else { return args.duplicates.find(&among, None, &stop) };
    let other = open(other)?;
    let other_here = FilesHere::of(&other);
    let other = Among { bundle: &other, has: &|shard| other_here.has(shard) };
    args.duplicates.find(&among, Some(&other), &stop)
}

/// Whether indexes and views are small enough to be read without being asked.
fn is_quickly_counted(manifest: &Manifest) -> bool {
    manifest.listings().map(|file| file.bytes).sum::<u64>() <= COUNTED_INDEX_BYTES
}

/// Counts the classes of the splits that are complete in this folder.
fn class_counts(
    bundle: &Bundle,
    here: &FilesHere,
    output: &Output,
) -> Result<Option<Counts>, Failure> {
    let manifest = bundle.manifest();
    if manifest.classes.is_empty() || !is_quickly_counted(manifest) {
        return Ok(None);
    }
    let bar = counter("indexes", output);
    let mut counts = Counts::new();
    for (i, entry) in manifest.shards.iter().enumerate() {
        if here.missing_of(manifest, entry.split).0 > 0 {
            continue;
        }
        let shard = bundle.shard(ShardIdx(i))?;
        let of_split = counts.entry(entry.split).or_insert_with(|| vec![0; manifest.classes.len()]);
        for label in shard.index()?.labels() {
            if let Some(n) = usize::try_from(label).ok().and_then(|l| of_split.get_mut(l)) {
                *n += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(Some(counts))
}
