//! `gular image from`.

use std::path::{Path, PathBuf};

use clap::Args;
use gular_containers::Error;
use gular_containers::import::{Difference, ImportOptions, Imported, translate};

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show::{self, AsIs};

/// Write a recipe from a Dockerfile or an Apptainer definition file
///
/// Takes what a recipe can say: the base, Debian packages, Python packages, files, variables,
/// labels, and how the program is started. Other commands become steps of `[[run]]`. What a recipe
/// cannot say is listed line by line on stderr, and in comments of the recipe. Nothing of the file
/// is run.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image from Dockerfile --output image.toml")]
pub(super) struct FromArgs {
    /// A Dockerfile or a definition file
    pub(super) file: PathBuf,
    /// Write the recipe, and its files beside it [default: stdout]
    ///
    /// The files are its requirements and its start script.
    #[arg(long, short, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// The name of the image [default: that of the file or its folder]
    #[arg(long, value_name = "TEXT")]
    pub(super) name: Option<String>,
    /// The folder that the file copies from [default: the file's]
    #[arg(long, value_name = "DIR")]
    pub(super) context: Option<PathBuf>,
    /// A value for an `ARG`, or for a name of `%arguments`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(super) build_arg: Vec<(String, String)>,
    /// The stage to translate [default: the last]
    #[arg(long, value_name = "NAME")]
    pub(super) stage: Option<String>,
    /// Keep the file's base, even if Debian's packages could replace it
    #[arg(long)]
    pub(super) keep_base: bool,
}

/// A value of `--build-arg`.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Longest file read.
const MAX_BYTES: u64 = 4 << 20;

pub(super) fn run(args: &FromArgs, output: &Output) -> Result<Exit, Failure> {
    let file = &args.file;
    let shown = file.display().to_string();
    let found = std::fs::metadata(file).map_err(io("read", file))?.len();
    if found > MAX_BYTES {
        return Err(Error::Limit { path: shown, what: "bytes", found, limit: MAX_BYTES }.into());
    }
    let text = std::fs::read_to_string(file).map_err(io("read", file))?;
    let context = args.context.clone().unwrap_or_else(|| folder_of(file));
    let options = ImportOptions {
        name: args.name.clone().unwrap_or_else(|| name_of(file)),
        prefix: prefix(args.output.as_deref(), &context)?,
        context,
        arguments: args.build_arg.iter().cloned().collect(),
        stage: args.stage.clone(),
        keep_base: args.keep_base,
    };
    let made = translate(&text, &shown, &options)?;
    match &args.output {
        Some(recipe) => write(recipe, &made)?,
        None if !output.json => show::as_is(AsIs::File, with_files(&made).as_bytes())?,
        None => {}
    }
    if output.json {
        show::json(&made)?;
    } else if !output.quiet {
        tell(args, &made)?;
    }
    Ok(Exit::Done)
}

/// Writes the recipe and its files; nothing that is there is replaced.
fn write(recipe: &Path, made: &Imported) -> Result<(), Failure> {
    let folder = folder_of(recipe);
    let beside = made.files.iter().map(|(name, text)| (folder.join(name), text));
    let all: Vec<(PathBuf, &String)> = beside.chain([(recipe.to_owned(), &made.recipe)]).collect();
    if let Some((path, _)) = all.iter().find(|(path, _)| path.exists()) {
        return Err(Error::Exists { path: path.display().to_string() }.into());
    }
    for (path, text) in all {
        gular_files::write_file(&path, text.as_bytes()).map_err(Error::from)?;
    }
    Ok(())
}

/// The recipe, with the files that must be beside it as comments.
fn with_files(made: &Imported) -> String {
    let mut text = made.recipe.clone();
    for (name, lines) in &made.files {
        text.push_str(&format!("\n# The file {name}:\n"));
        for line in lines.lines() {
            text.push_str(format!("#   {line}").trim_end());
            text.push('\n');
        }
    }
    text
}

/// Says what was left out and written.
fn tell(args: &FromArgs, made: &Imported) -> Result<(), Failure> {
    for left in &made.left_out {
        let kind = match left.difference {
            Difference::Missing => "left out",
            Difference::Other => "note",
        };
        show::message(kind, &format!("line {}: `{}`: {}", left.line, left.text, left.reason));
    }
    if let Some(recipe) = &args.output {
        let names: Vec<String> = made.files.keys().map(|name| format!("`{name}`")).collect();
        let beside = match names.is_empty() {
            true => String::new(),
            false => format!(", and beside it {}", names.join(" and ")),
        };
        show::text(&format!("wrote `{}`{beside}\n", recipe.display()))?;
    }
    Ok(())
}

/// The context as the recipe's paths name it.
fn prefix(recipe: Option<&Path>, context: &Path) -> Result<String, Failure> {
    let Some(recipe) = recipe else { return Ok(String::new()) };
    let real = |path: &Path| path.canonicalize().map_err(io("read", path));
    let (folder, context) = (real(&folder_of(recipe))?, real(context)?);
    let below = context.strip_prefix(&folder).unwrap_or(&context);
    Ok(below.display().to_string())
}

fn folder_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// The name of an image: the stem of `NAME.def` or `NAME.Dockerfile`, else the folder's name.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let usual = ["dockerfile", "containerfile", "singularity", "apptainer", "image"];
    let name = if usual.contains(&stem.as_str()) {
        let folder = folder_of(file).canonicalize().unwrap_or_default();
        folder.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
    } else {
        stem
    };
    let good = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = name.chars().map(good).take(80).collect();
    match name.trim_start_matches(['-', '_', '.']) {
        "" => "image".to_owned(),
        name => name.to_owned(),
    }
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Error::from(gular_files::Error::new(action, path, source)).into()
}
