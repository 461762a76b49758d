//! docs/json.md: the output of `--json`, made from the types of the reports and their
//! documentation.
//!
//! `GULAR_BLESS=1 cargo xtask test -- --test pages json` writes it again. Real results are compared
//! with it: each of their members is in the page, and has its type.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gular_tests::run;
use serde_json::Value;

use crate::root;
use crate::shell::Shell;
use crate::types::{Type, Types};

/// The parts that a result is made of.
enum Source {
    /// Types with their files; the result has the members of all.
    Types(&'static [(&'static str, &'static str)]),
    /// Members that the program puts together: name, type, meaning; and the file in which types are
    /// looked for.
    Members(&'static str, &'static [(&'static str, &'static str, &'static str)]),
}

use Source::{Members, Types as Of};

/// The type that adds the number of duplicates to a report.
const WITH: (&str, &str) = ("cli/src/duplicates.rs", "With");
/// The type that adds the failures to a report.
const SAID: (&str, &str) = ("cli/src/any_folder.rs", "Said");

/// Members of the result of a command that makes the folder of a job.
const FOLDER: &[(&str, &str, &str)] = &[
    ("dir", "Path", "The folder."),
    ("files", "Vec<Any>", "For each file `name` and `text`."),
    ("notes", "Vec<String>", "What the user should know."),
    ("once", "Vec<String>", "Commands that fetch what the jobs need, to run in the folder once."),
    ("start", "Vec<String>", "Commands that check and submit it, to run in the folder."),
    ("dry_run", "bool", "Whether nothing was written."),
];

/// Every command with a result.
const RESULTS: &[(&str, Source)] = &[
    ("gular pack", Of(&[("pack/src/packing/pack_report.rs", "PackReport"), WITH])),
    ("gular pack --base", Of(&[("pack/src/derive/new_version.rs", "BaseReport"), WITH])),
    ("gular pack --merge", Of(&[("pack/src/packing/merge.rs", "MergeReport"), WITH])),
    (
        "gular inspect",
        Members(
            "crates/bundle/src/manifest.rs",
            &[
                ("digest", "Digest", "The bundle digest, `blake3:…`."),
                ("format", "String", "`gular-bundle`."),
                ("version", "u32", "Version of the format."),
                ("envelope", "Envelope", "The file format of the shards."),
                ("payload", "Payload", "How the images are stored."),
                ("fields", "Vec<Any>", "The fields, as in [the manifest](../FORMAT.md#manifest)."),
                ("classes", "Vec<String>", "Names of the classes, by number."),
                (
                    "splits",
                    "BTreeMap<Split, Any>",
                    "For each split `samples`, `bytes`, `shards`, and `classes`, the samples of each class; null if indexes were not read.",
                ),
                (
                    "made",
                    "BTreeMap<String, Any>",
                    "How the bundle was made: the options of `gular pack`.",
                ),
                (
                    "about",
                    "Any",
                    "Name, description, licence, citation and source, where they are known.",
                ),
                (
                    "statistics",
                    "Any",
                    "Sums of the pixels, where they were decoded; see [the manifest](../FORMAT.md#manifest).",
                ),
                (
                    "channel_statistics",
                    "Any",
                    "In place of `statistics`, sums of the pixels that have a value.",
                ),
                ("shards", "Vec<Any>", "The shards, as in [the manifest](../FORMAT.md#manifest)."),
                ("missing_files", "Vec<String>?", "Files that are not here."),
                ("duplicates", "Duplicates?", "Pictures that several samples have."),
                ("candidates", "Looks?", "With `--pixels` or `--near`: pairs that look alike."),
                (
                    "sheet",
                    "Any?",
                    "With `--sheet`: `path`, how many `images` are on it, and how many were `left_out`.",
                ),
                ("page", "String?", "With `--page`: the file."),
                ("sample_list", "Any?", "With `--samples`: the samples."),
            ],
        ),
    ),
    ("gular derive", Of(&[("pack/src/derive/derive_report.rs", "DeriveReport")])),
    ("gular diff", Of(&[("pack/src/diff.rs", "DiffReport")])),
    ("gular verify", Of(&[("verify/src/verify_report.rs", "VerifyReport")])),
    (
        "gular publish",
        Of(&[
            ("transfer/src/publish/publish_report.rs", "PublishReport"),
            ("cli/src/publish.rs", "Published"),
        ]),
    ),
    (
        "gular publish --recursive",
        Of(&[("transfer/src/publish/publish_report.rs", "PublishReport"), SAID]),
    ),
    ("gular publish oci://", Of(&[("cli/src/oci/publish.rs", "OciReport")])),
    ("gular fetch", Of(&[("transfer/src/fetch/fetch_report.rs", "FetchReport")])),
    ("gular fetch --keys", Of(&[("transfer/src/fetch/samples.rs", "SampleReport")])),
    (
        "gular fetch --recursive",
        Of(&[("transfer/src/folder/folder_report.rs", "FolderFetch"), SAID]),
    ),
    (
        "gular ls",
        Members(
            "cli/src/ls.rs",
            &[
                ("url", "Url", "What was listed."),
                (
                    "entries",
                    "Vec<Any>",
                    "For each entry `name`, `bytes` (null for a collection, and if the server does not say), and `collection`, whether it is a collection.",
                ),
                ("skipped", "u64", "Entries left out because no URL can hold their names."),
            ],
        ),
    ),
    ("gular repair", Of(&[("transfer/src/fetch/repair.rs", "RepairReport")])),
    ("gular prestage", Of(&[("transfer/src/prestage.rs", "PrestageReport")])),
    ("gular doctor", Of(&[("cli/src/machine.rs", "MachineReport")])),
    (
        "gular doctor URL",
        Members(
            "cli/src/doctor.rs",
            &[
                ("url", "Url", "The URL that was given."),
                ("asked", "Url", "The object that was asked for."),
                ("well", "bool", "Whether no server and no token has a fault."),
                ("readable", "bool", "Whether some server gives the object."),
                ("digest", "Option<Digest>", "Digest of the bundle that was found."),
                ("fault", "Option<String>", "What is wrong with the published bundle."),
                ("do", "Option<String>", "What to do about the fault."),
                ("namespace", "Option<String>", "The namespace of the federation."),
                ("needs_token", "Option<bool>", "Whether reading it needs a token."),
                (
                    "token",
                    "Any",
                    "Null where none is needed; else `ok`, `from` (where it was found), `seconds_left`, `fault` and `do`.",
                ),
                (
                    "servers",
                    "Vec<Any>",
                    "For each server `role`, `server`, `ok`, the times `name_ms`, `connection_ms` and `first_byte_ms`, `bytes`, `bytes_per_second`, `copy_age_seconds`, `fault` and `do`; null if not measured.",
                ),
            ],
        ),
    ),
    (
        "gular login",
        Members(
            "cli/src/login.rs",
            &[
                ("file", "Path", "The file with the token."),
                ("scopes", "Vec<String>", "The scopes of the token."),
                ("seconds", "Option<u64>", "How long the token is valid."),
            ],
        ),
    ),
    ("gular stage", Of(&[("stage/src/staged.rs", "StageReport")])),
    ("gular adopt", Of(&[("pack/src/adopt/in_place.rs", "AdoptReport")])),
    ("gular convert", Of(&[("pack/src/convert/conversion.rs", "ConvertReport"), WITH])),
    ("gular export", Of(&[("pack/src/export.rs", "ExportReport")])),
    ("gular bench", Of(&[("bench/src/bench_report.rs", "BenchReport")])),
    ("gular bench --dry-run", Of(&[("bench/src/rounds.rs", "Estimate")])),
    ("gular image lock", Of(&[("cli/src/image/lock.rs", "LockReport")])),
    ("gular image build", Of(&[("containers/src/make/build.rs", "Built")])),
    ("gular image check", Of(&[("cli/src/image/check.rs", "Checked")])),
    ("gular image inspect", Of(&[("cli/src/image/inspect.rs", "Inspected")])),
    ("gular image convert", Of(&[("containers/src/convert/conversion.rs", "Converted")])),
    (
        "gular image push",
        Of(&[("crates/registry/src/push.rs", "Pushed"), ("cli/src/image/push.rs", "PushReport")]),
    ),
    (
        "gular image pull",
        Of(&[
            ("containers/src/registry/pull.rs", "Pulled"),
            ("cli/src/image/pull.rs", "PullReport"),
        ]),
    ),
    ("gular image from", Of(&[("containers/src/import/mod.rs", "Imported")])),
    ("gular image export facts", Of(&[("containers/src/export/facts.rs", "ImageFacts")])),
    (
        "gular job lint",
        Members(
            "jobs/src/finding.rs",
            &[
                ("findings", "Vec<JobFinding>", "The findings."),
                ("errors", "u64", "Number of errors."),
                ("warnings", "u64", "Number of warnings."),
                ("notes", "u64", "Number of notes."),
                ("fixed", "u64", "With `--fix`: how many were repaired."),
                ("changed", "Vec<Path>", "With `--fix`: files that were, or would be, written."),
                ("dry_run", "bool", "Whether nothing was written."),
            ],
        ),
    ),
    (
        "gular job why",
        Members("jobs/src/why/mod.rs", &[("jobs", "Vec<JobReason>", "One for each job.")]),
    ),
    (
        "gular job translate",
        Members(
            "jobs/src/translate/mod.rs",
            &[
                ("files", "Vec<Any>", "For each new file `path` and `text`."),
                ("left", "Vec<Untranslated>", "What has no counterpart."),
                ("dry_run", "bool", "Whether nothing was written."),
            ],
        ),
    ),
    ("gular job new", Members("cli/src/job/folder.rs", FOLDER)),
    ("gular job pack", Members("cli/src/job/folder.rs", FOLDER)),
    (
        "gular job measure",
        Members(
            "jobs/src/measure/measured.rs",
            &[
                ("measured", "Measured", "What the command needed."),
                ("requests", "BTreeMap<String, String>", "Lines of a submit file."),
            ],
        ),
    ),
    ("gular job plan", Of(&[("jobs/src/plan.rs", "JobPlan")])),
    (
        "gular job hosts",
        Members("cli/src/job/hosts.rs", &[("nodes", "Vec<String>", "Names of the nodes.")]),
    ),
    ("gular view", Of(&[("cli/src/view.rs", "PageAddress")])),
    ("gular federation serve", Of(&[("cli/src/federation.rs", "Served")])),
    ("gular federation token", Of(&[("cli/src/federation.rs", "Minted")])),
];

/// Verbs that accept `--json` but print no result, with what they do instead.
const WITHOUT: [(&str, &str); 2] = [
    ("gular completions", "prints a script for a shell"),
    ("gular man", "writes pages for `man` to a folder"),
];

/// Commands whose results are compared with the page, in a folder with `photos` and `birds`.
const EXAMPLES: &[(&str, &str)] = &[
    ("gular pack", "gular pack photos made --json"),
    ("gular pack", "gular pack photos none --dry-run --json"),
    ("gular pack --base", "gular pack photos newer --base made --json"),
    (
        "gular pack --merge",
        "for i in 1 2; do gular pack -q photos p$i --part $i/2; done; gular pack --merge p1 p2 merged --json",
    ),
    ("gular inspect", "gular inspect birds --json"),
    ("gular derive", "gular derive birds part --where 'split = train' --json"),
    ("gular diff", "gular diff birds part --json"),
    ("gular verify", "gular verify birds --json"),
    (
        "gular verify",
        "cp -r birds bad; rm bad/data/train-*.index.safetensors; gular verify bad --json || true",
    ),
    ("gular repair", "gular repair bad --from birds --json"),
    ("gular publish", "gular publish birds ${URL%%#*} --json"),
    ("gular fetch", "gular fetch $URL fetched --json"),
    ("gular fetch --recursive", "gular fetch -r ${URL%%#*} files --json"),
    ("gular ls", "gular ls $URL --json"),
    ("gular doctor", "gular doctor --json || true"),
    ("gular doctor URL", "gular doctor $URL --json"),
    ("gular prestage", "gular prestage $URL --json"),
    ("gular stage", "gular stage birds --to . --json -- true"),
    ("gular convert", "gular convert birds tar --envelope tar --json"),
    ("gular adopt", "gular adopt tar/data/*.tar --out adopted --json"),
    ("gular export", "gular export birds --tar-zst birds.tar.zst --json"),
    ("gular bench --dry-run", "gular bench photos --quick --dry-run --json"),
    ("gular job new", "gular job new job --site chtc --json -- true"),
    (
        "gular job pack",
        "gular job pack parts photos packed --parts 2 --site slurm --dry-run --json",
    ),
    ("gular job lint", "echo 'requests_cpus = 1' > bad.sub; gular job lint bad.sub --json || true"),
    ("gular job why", "printf 'JobStatus = 5\\nHoldReasonCode = 34\\n' | gular job why - --json"),
    (
        "gular job translate",
        "printf 'executable = a\\nqueue\\n' > good.sub; gular job translate good.sub --dry-run --json",
    ),
    ("gular job measure", "gular job measure --json -- true"),
    ("gular job plan", "gular job plan --items 1000 --item-in 1MB --item-out 1MB --gpu 1s --json"),
    ("gular federation token", "gular federation token ../fed --read / --json"),
];

const HEAD: &str = "# JSON output

With `--json` a command prints its result as one JSON object on stdout, and messages on stderr. The exit code says what became of the command, as it does without `--json`.

Members may be added in later versions; none of those below changes its meaning. *Optional* members are left out when there is nothing to say. `x[].y` is member `y` of each object in the list `x`. In `x.NAME.y`, `x` is an object whose member names vary (for example, names of splits), and `y` is a member of each of its values. For a value of type *any*, the column *meaning* says what it is. Sizes are in bytes and times in seconds, unless the member's name has another unit. Digests are texts such as `blake3:4d40…`.

This page is made from the program's source; `GULAR_BLESS=1 cargo xtask test -- --test pages json` writes it again. Every command is on this page, except `gular completions` and `gular man`, which have no result of their own; `gular image export` takes `--json` only for `facts`. [cli.md](cli.md) has their options.
";

/// The type of a JSON value.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Integer,
    Number,
    Flag,
    Text,
    OneOf(Vec<String>),
    List(Box<Shape>),
    Map(Box<Shape>),
    Object(String, Vec<Row>),
    OrNull(Box<Shape>),
    /// Any value; its documentation describes it in words.
    Any,
}

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    shape: Shape,
    doc: String,
    optional: bool,
}

/// Objects that several results have.
type Shared = BTreeMap<String, Vec<Row>>;

#[test]
fn the_page_of_json_is_up_to_date() {
    let types = Types::read(&root());
    let page = page(&results(&types));
    let path = root().join("docs/json.md");
    if std::env::var_os("GULAR_BLESS").is_some() {
        fs::write(&path, page).unwrap();
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/json.md is out of date: run with GULAR_BLESS=1");
}

#[test]
fn every_verb_is_on_the_page_or_has_no_result() {
    let mut verbs = Vec::new();
    add_verbs(&mut verbs, "gular");
    assert!(verbs.len() > 30, "only {verbs:?} were found");
    // Help does not list hidden verbs.
    verbs.extend(WITHOUT.map(|(verb, _)| verb.to_owned()));
    let of = |command: &str, verb: &str| format!("{command} ").starts_with(&format!("{verb} "));
    let mut faults = Vec::new();
    for verb in &verbs {
        let on_page = RESULTS.iter().any(|(command, _)| of(command, verb));
        let without = WITHOUT.iter().any(|(without, _)| without == verb);
        if on_page == without {
            faults.push(format!("{verb}: {on_page}, {without}"));
        }
    }
    let unknown = RESULTS.iter().filter(|(command, _)| !verbs.iter().any(|verb| of(command, verb)));
    faults.extend(unknown.map(|(command, _)| format!("{command} is no verb")));
    assert!(
        faults.is_empty(),
        "verb: is it in RESULTS, is it in WITHOUT? It must be in one of them.\n{}",
        faults.join("\n")
    );
}

/// Adds the verbs below `verb` that have no verbs below them, as help lists them.
fn add_verbs(verbs: &mut Vec<String>, verb: &str) {
    let help = run(verb.split(' ').skip(1).chain(["--help"])).stdout;
    let below = gular_tests::verbs(&help);
    if below.is_empty() {
        return verbs.push(verb.to_owned());
    }
    for name in below {
        add_verbs(verbs, &format!("{verb} {name}"));
    }
}

/// Compares real results with the page.
pub(crate) fn check_examples(shell: &mut Shell, session: &Path, port: u16, digest: &str) {
    let types = Types::read(&root());
    let results: BTreeMap<_, _> = results(&types).into_iter().collect();
    let folder = session.join("json");
    fs::create_dir(&folder).unwrap();
    let prepared = format!(
        "cd '{}'; cp -r ../photos ../birds .; URL='pelican://localhost:{port}/gular/json/v1#blake3={digest}'",
        folder.display()
    );
    shell.run(&prepared).unwrap_or_else(|fault| panic!("{fault}"));
    let mut faults = Vec::new();
    for (command, line) in EXAMPLES {
        let said = match shell.run(&format!("( set -e; {line} )")) {
            Ok(said) => said.join("\n"),
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        let value: Value =
            serde_json::from_str(&said).unwrap_or_else(|e| panic!("{line}: {e}: {said}"));
        let (shape, n) = (Shape::Object(String::new(), results[command].clone()), faults.len());
        compare(&value, &shape, command, &mut faults);
        if faults.len() > n {
            faults.push(format!("as `{line}` printed: {said}"));
        }
    }
    assert!(faults.is_empty(), "docs/json.md is not what is printed:\n{}", faults.join("\n"));
}

/// Returns the members of each command's result.
fn results(types: &Types) -> Vec<(&'static str, Vec<Row>)> {
    let rows = |source: &Source| match source {
        Of(parts) => {
            let part = |(file, name): &(&str, &str)| {
                let file = Path::new(file);
                let found = types.find(name, file).filter(|found| found.file == file);
                rows_of(
                    found.unwrap_or_else(|| panic!("no type `{name}` in {}", file.display())),
                    types,
                )
            };
            parts.iter().flat_map(part).collect()
        }
        Members(file, members) => {
            let member = |(name, kind, doc): &(&str, &str, &str)| Row {
                name: (*name).to_owned(),
                shape: shape(kind.trim_end_matches('?'), Path::new(file), types),
                doc: (*doc).to_owned(),
                optional: kind.ends_with('?'),
            };
            members.iter().map(member).collect()
        }
    };
    RESULTS.iter().map(|(command, source)| (*command, rows(source))).collect()
}

/// Returns the members of a type that serde writes.
fn rows_of(from: &Type, types: &Types) -> Vec<Row> {
    let mut rows = Vec::new();
    for member in &from.members {
        let has = |word: &str| member.attributes.contains(word);
        if has("serde(skip)") {
            continue;
        }
        if has("flatten") {
            // For a type parameter, its types are listed beside each other.
            if let Shape::Object(_, flattened) = shape(&member.kind, &from.file, types)
                && !rows
                    .iter()
                    .any(|row: &Row| flattened.iter().any(|other| other.name == row.name))
            {
                rows.extend(flattened);
            }
            continue;
        }
        assert!(
            !member.doc.is_empty(),
            "`{}` of `{}` in {} has no documentation, and docs/json.md needs it",
            member.name,
            from.name,
            from.file.display()
        );
        let renamed =
            member.attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
        // A missing digest is written as an empty text.
        let kind = if has("serialize_or_empty") { "Digest" } else { &member.kind };
        rows.push(Row {
            name: renamed.unwrap_or(&member.name).to_owned(),
            shape: match shape(kind, &from.file, types) {
                Shape::OrNull(inner) if has("skip_serializing_if") => *inner,
                shape => shape,
            },
            doc: member.doc.clone(),
            optional: has("skip_serializing_if"),
        });
    }
    rows
}

/// Returns the JSON type for a Rust type.
fn shape(kind: &str, from: &Path, types: &Types) -> Shape {
    let kind = kind.trim_start_matches('&').trim();
    let kind = if kind.starts_with('\'') {
        kind.split_once(' ').map_or("", |(_, rest)| rest)
    } else {
        kind
    };
    let of = |inner: &str| Box::new(shape(inner, from, types));
    let inner = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>');
    if let Some(inner) = inner("Option<") {
        return Shape::OrNull(of(inner));
    }
    if let Some(inner) = inner("Vec<").or_else(|| inner("Box<[")) {
        return Shape::List(of(inner));
    }
    if let Some(inner) = kind.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Shape::List(of(inner.split(';').next().unwrap_or_default()));
    }
    if let Some(inner) = inner("BTreeMap<") {
        return Shape::Map(of(inner.split_once(", ").unwrap_or_default().1));
    }
    if let Some(inner) = inner("Box<") {
        return *of(inner);
    }
    let name = kind.rsplit("::").next().unwrap_or(kind).split('<').next().unwrap_or_default();
    match name {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => return Shape::Integer,
        "f32" | "f64" => return Shape::Number,
        "bool" => return Shape::Flag,
        "str" | "String" | "PathBuf" | "Path" | "Url" | "BundleUrl" | "Digest" | "OciDigest"
        | "ImageDigest" | "Sha256" => {
            return Shape::Text;
        }
        _ => {}
    }
    match types.find(name, from) {
        Some(found) if found.is_object() => Shape::Object(name.to_owned(), rows_of(found, types)),
        Some(found) if found.is_text() => Shape::Text,
        Some(found) if found.becomes().is_some() => {
            shape(found.becomes().unwrap_or_default(), &found.file, types)
        }
        Some(found) => found.texts().map_or(Shape::Any, Shape::OneOf),
        None => Shape::Any,
    }
}

/// Returns the whole page.
fn page(results: &[(&'static str, Vec<Row>)]) -> String {
    // An object that several results have is described only once.
    let mut seen = BTreeMap::<String, (BTreeSet<&str>, Vec<Row>)>::new();
    for (command, rows) in results {
        each_object(rows, &mut |name, rows| {
            let entry =
                seen.entry(name.to_owned()).or_insert_with(|| (BTreeSet::new(), rows.to_vec()));
            if entry.1 == rows {
                entry.0.insert(command);
            }
        });
    }
    let shared: Shared = seen
        .into_iter()
        .filter(|(_, (commands, rows))| commands.len() > 1 && rows.len() > 3)
        .map(|(name, (_, rows))| (name, rows))
        .collect();
    let mut page = HEAD.to_owned();
    for (command, rows) in results {
        let _ = write!(page, "\n## {command}\n\n");
        table(&mut page, rows, &shared);
    }
    page.push_str("\n## Objects of several results\n");
    for (name, rows) in &shared {
        let _ = write!(page, "\n### {name}\n\n");
        table(&mut page, rows, &shared);
    }
    page
}

fn each_object<'a>(rows: &'a [Row], found: &mut impl FnMut(&'a str, &'a [Row])) {
    fn of<'a>(shape: &'a Shape, found: &mut impl FnMut(&'a str, &'a [Row])) {
        match shape {
            Shape::Object(name, rows) => {
                found(name, rows);
                each_object(rows, found);
            }
            Shape::List(inner) | Shape::Map(inner) | Shape::OrNull(inner) => of(inner, found),
            _ => {}
        }
    }
    rows.iter().for_each(|row| of(&row.shape, found));
}

fn table(page: &mut String, rows: &[Row], shared: &Shared) {
    page.push_str("| member | type | meaning |\n|---|---|---|\n");
    lines(page, "", rows, shared);
}

fn lines(page: &mut String, before: &str, rows: &[Row], shared: &Shared) {
    for row in rows {
        let path = format!("{before}{}", row.name);
        let optional = if row.optional { "optional " } else { "" };
        let doc = row.doc.replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | {optional}{} | {doc} |", words(&row.shape, shared));
        let (mut shape, mut path) = (&row.shape, path);
        loop {
            match shape {
                Shape::OrNull(inner) => shape = inner,
                Shape::List(inner) => {
                    path.push_str("[]");
                    shape = inner;
                }
                Shape::Map(inner) => {
                    path.push_str(".NAME");
                    shape = inner;
                }
                Shape::Object(name, rows) => {
                    if shared.get(name) != Some(rows) {
                        lines(page, &format!("{path}."), rows, shared);
                    }
                    break;
                }
                _ => break,
            }
        }
    }
}

fn words(shape: &Shape, shared: &Shared) -> String {
    match shape {
        Shape::Integer => "integer".to_owned(),
        Shape::Number => "number".to_owned(),
        Shape::Flag => "true or false".to_owned(),
        Shape::Text => "text".to_owned(),
        Shape::OneOf(texts) => {
            texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
        }
        Shape::List(inner) => format!("list of {}", plural(inner, shared)),
        Shape::Map(inner) => format!("object of {}", plural(inner, shared)),
        Shape::Object(name, rows) if shared.get(name) == Some(rows) => {
            format!("[{name}](#{})", name.to_lowercase())
        }
        Shape::Object(..) => "object".to_owned(),
        Shape::OrNull(inner) => format!("{} or null", words(inner, shared)),
        Shape::Any => "any".to_owned(),
    }
}

fn plural(shape: &Shape, shared: &Shared) -> String {
    let word = words(shape, shared);
    match word.as_str() {
        "integer" | "number" | "text" | "object" => word + "s",
        _ => word,
    }
}

/// Adds to `faults` where `value` does not have the type `shape`.
fn compare(value: &Value, shape: &Shape, at: &str, faults: &mut Vec<String>) {
    let right = match (shape, value) {
        (Shape::Any, _) => true,
        (Shape::OrNull(_), Value::Null) => true,
        (Shape::OrNull(inner), value) => return compare(value, inner, at, faults),
        (Shape::Integer, value) => value.is_u64() || value.is_i64(),
        (Shape::Number, value) => value.is_number(),
        (Shape::Flag, value) => value.is_boolean(),
        (Shape::Text, value) => value.is_string(),
        (Shape::OneOf(texts), value) => {
            value.as_str().is_some_and(|text| texts.iter().any(|known| known == text))
        }
        (Shape::List(inner), Value::Array(values)) => {
            return values
                .iter()
                .for_each(|value| compare(value, inner, &format!("{at}[]"), faults));
        }
        (Shape::Map(inner), Value::Object(values)) => {
            return values
                .iter()
                .for_each(|(name, value)| compare(value, inner, &format!("{at}.{name}"), faults));
        }
        (Shape::Object(_, rows), Value::Object(values)) => {
            for (name, value) in values {
                match rows.iter().find(|row| row.name == *name) {
                    Some(row) => compare(value, &row.shape, &format!("{at}.{name}"), faults),
                    None => faults.push(format!("{at}.{name} is not in the page")),
                }
            }
            let missing =
                rows.iter().filter(|row| !row.optional && !values.contains_key(&row.name));
            faults.extend(missing.map(|row| format!("{at}.{} is missing", row.name)));
            return;
        }
        _ => false,
    };
    if !right {
        faults.push(format!("{at} is {value}, not {shape:?}"));
    }
}

#[test]
fn a_result_of_another_form_is_named() {
    let row = |name: &str, shape, optional| Row {
        name: name.to_owned(),
        shape,
        doc: String::new(),
        optional,
    };
    let rows = vec![
        row("n", Shape::Integer, false),
        row("names", Shape::List(Box::new(Shape::Text)), true),
        row("by", Shape::Map(Box::new(Shape::OneOf(vec!["a".to_owned()]))), false),
    ];
    let shape = Shape::Object(String::new(), rows);
    let check = |value: Value, expected: &[&str]| {
        let mut faults = Vec::new();
        compare(&value, &shape, "x", &mut faults);
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        assert!(
            faults.iter().zip(expected).all(|(fault, words)| fault.starts_with(words)),
            "{faults:?}"
        );
    };
    check(serde_json::json!({"n": 1, "by": {"k": "a"}}), &[]);
    check(
        serde_json::json!({"n": 1.5, "by": {"k": "b"}, "more": 0}),
        &["x.by.k is", "x.more is not in the page", "x.n is"],
    );
    check(serde_json::json!({"names": ["a", 1], "by": {}}), &["x.names[] is 1", "x.n is missing"]);
}
