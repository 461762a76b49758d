//! `gular image inspect`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use gular_containers::check::CheckReport;
use gular_containers::export::ImageFacts;
use gular_containers::recipe::TargetSection;
use gular_containers::rootfs::What;
use gular_containers::{ImagePart, StoredImage};
use serde::Serialize;

use super::check;
use super::places::PlaceArgs;
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Show an image's objects, layers, environment, labels, packages and the GPUs it supports
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image inspect train-0123456789abcdef.sif")]
pub(super) struct InspectArgs {
    /// A .sif, the folder of an OCI layout, or an OCI archive
    pub(super) image: PathBuf,
    /// Also list all files
    #[arg(long)]
    pub(super) files: bool,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Inspected<'a> {
    /// Values of the image that jobs must ask for.
    facts: &'a ImageFacts,
    /// The program that the image starts.
    program: Option<String>,
    /// Environment variables that the image sets.
    env: &'a BTreeMap<String, String>,
    /// Labels of the image.
    labels: &'a BTreeMap<String, String>,
    /// The SIF's objects, or the OCI image's layers.
    parts: &'a [ImagePart],
    /// The packages in the image's list of contents.
    packages: Vec<Package>,
    /// The recipe or definition file that the image was made from; may be empty.
    recipe: &'a str,
    /// The result of the check.
    check: &'a CheckReport,
    /// With `--files`: the files of the image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<Listed>,
}

/// A package of the list of contents.
#[derive(Debug, Serialize)]
struct Package {
    /// Name of the package.
    name: String,
    /// The package's version, if the list has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
}

#[derive(Debug, Serialize)]
struct Listed {
    /// Path of the file in the image.
    path: String,
    /// The kind of file, as the first letter of `ls -l`, and its permissions in octal.
    mode: String,
    /// Length of the file.
    bytes: u64,
    /// The target, if the file is a link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(super) fn run(args: &InspectArgs, output: &Output) -> Result<Exit, Failure> {
    let image = check::open(&args.image, &args.place)?;
    let report = image.check(&TargetSection::default(), &[])?;
    let facts = check::facts(&image, &report);
    let inspected = Inspected {
        facts: &facts,
        program: image.program.as_ref().map(ToString::to_string),
        env: &image.env,
        labels: &image.labels,
        parts: &image.parts,
        packages: packages(image.sbom.as_deref()),
        recipe: &image.recipe,
        check: &report,
        files: if args.files { files(&image) } else { Vec::new() },
    };
    if output.json {
        show::json(&inspected)?;
    } else {
        show::text(&text(&inspected))?;
    }
    Ok(Exit::Done)
}

fn packages(sbom: Option<&str>) -> Vec<Package> {
    let sbom: serde_json::Value =
        sbom.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let all = sbom["packages"].as_array().into_iter().flatten();
    let package = |package: &serde_json::Value| {
        let field = |name: &str| package[name].as_str().map(str::to_owned);
        Some(Package { name: field("name")?, version: field("versionInfo") })
    };
    all.filter_map(package).collect()
}

fn files(image: &StoredImage) -> Vec<Listed> {
    let nodes = image.tree.iter().skip(1);
    let listed = nodes.map(|(path, node)| Listed {
        path: path.to_string(),
        mode: format!("{}{:04o}", kind(&node.what), node.mode),
        bytes: node.bytes(),
        target: match &node.what {
            What::Symlink(target) => Some(target.clone()),
            What::Hardlink(first) => Some(first.to_string()),
            What::Dir | What::File(_) => None,
        },
    });
    listed.collect()
}

fn kind(what: &What) -> char {
    match what {
        What::Dir => 'd',
        What::File(_) => '-',
        What::Symlink(_) => 'l',
        What::Hardlink(_) => 'h',
    }
}

fn text(inspected: &Inspected<'_>) -> String {
    let Inspected { facts, .. } = inspected;
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<18}{value}");
    };
    line("image", facts.image.as_deref().unwrap_or_default());
    line("digest", &facts.digest.map(|digest| digest.to_string()).unwrap_or_default());
    line("platform", &format!("linux/{}", facts.arch));
    let bytes = show::size(facts.bytes.unwrap_or(0));
    line("size", &format!("{bytes}, {} unpacked", show::size(facts.unpacked_bytes)));
    line("program", inspected.program.as_deref().unwrap_or("none: jobs bring theirs"));
    text.push_str(&check::facts_text(inspected.check, facts));
    let mut table = |title: &str, rows: Vec<(String, String)>| {
        if !rows.is_empty() {
            let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 2;
            let _ = writeln!(text, "\n{title}");
            for (name, value) in rows {
                let _ = writeln!(text, "  {:<width$}{}", show::plain(&name), show::plain(&value));
            }
        }
    };
    let parts = inspected.parts.iter().map(|part| {
        let digest = part.digest.as_ref().map(|digest| format!("  {digest}")).unwrap_or_default();
        (part.name.clone(), format!("{:<10} {:>9}{digest}", part.kind, show::size(part.bytes)))
    });
    table("parts", parts.collect());
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    };
    table("environment", pairs(inspected.env));
    table("labels", pairs(inspected.labels));
    let packages =
        inspected.packages.iter().map(|p| (p.name.clone(), p.version.clone().unwrap_or_default()));
    table("packages", packages.collect());
    let files = inspected.files.iter().map(|file| {
        let target = file.target.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
        (file.mode.clone(), format!("{:>12} {}{target}", file.bytes, file.path))
    });
    table("files", files.collect());
    text
}
