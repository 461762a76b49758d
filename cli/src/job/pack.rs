//! `gular job pack`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_jobs::write::{JobSpec, Parameters, Site, Stages, write};

use super::folder::finish;
use super::new::SITES;
use super::plan::seconds;
use super::sources::Source;
use crate::exit::{Exit, Failure};
use crate::named::described;
use crate::shared::Output;
use crate::units;

/// Write a folder of jobs that pack one bundle on several machines
///
/// Each job packs a part, `gular pack --part 3/8`, and a last one merges them: the bundle is the
/// one that a single machine makes, byte for byte. With HTCondor it is a DAG, with Slurm an array
/// and a job that waits for it. All machines must see SRC and OUT.
///
/// Options behind `--` go to `gular pack`; paths among them are made absolute.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular job pack pack8 /scratch/photos /scratch/birds --parts 8 --site slurm -- --payload reencoded")]
pub(super) struct PackArgs {
    /// The folder to make for the job's files; its name is the job's name
    dir: PathBuf,
    /// The images, as `gular pack` takes them
    src: PathBuf,
    /// The folder that gets the parts and, as OUT/bundle, the finished bundle
    out: PathBuf,
    /// Options of `gular pack`
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
    /// How many jobs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    parts: u32,
    /// chtc, jsc, slurm, or generic (any HTCondor) [default: generic]
    #[arg(long, value_parser = described::<Site>(SITES), default_value = "generic", hide_default_value = true, hide_possible_values = true)]
    site: Site,
    /// Cores of each job
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=4096))]
    cpus: u64,
    /// Memory of each job
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = units::request)]
    memory: u64,
    /// How long one job may take
    #[arg(long, value_name = "TIME", default_value = "10h", value_parser = seconds)]
    time: f64,
    /// Slurm's account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Show the files and write nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &PackArgs, output: &Output) -> Result<Exit, Failure> {
    let site = args.site;
    let failed = |action, path: &Path, e| Failure::from(gular_files::Error::new(action, path, e));
    fs::metadata(&args.src).map_err(|e| {
        let what = format!("cannot read `{}`: {e}", args.src.display());
        let hint =
            "give a path to the images that exists on this machine and on the machines of the jobs";
        Failure::new(what, Some(hint.to_owned()))
    })?;
    // The paths are those that all machines know. Links are not resolved, since other machines need
    // not see the target's path.
    let src = text(&std::path::absolute(&args.src).map_err(|e| failed("find", &args.src, e))?)?;
    let out = text(&std::path::absolute(&args.out).map_err(|e| failed("find", &args.out, e))?)?;
    // HTCondor brings this very program; on Slurm PATH is that of the shell that submits.
    let (sources, program) = if site.is_slurm() {
        (Vec::new(), "gular")
    } else {
        let path = env::current_exe().map_err(|e| failed("find", Path::new("gular"), e))?;
        let bytes = fs::metadata(&path).map_err(|e| failed("read", &path, e))?.len();
        (vec![Source { path, name: "gular".to_owned(), bytes }], "./gular")
    };
    let place = |name: &str| format!("{}/{name}", out.trim_end_matches('/'));
    let of = args.parts;
    let options = options(&args.options)?;
    if site == Site::Chtc {
        shared_at_chtc([&src, &out].into_iter().chain(&options.files))?;
    }
    let mut command = vec![program.to_owned(), "pack".to_owned(), src];
    command.extend([place("part-{part}"), "--part".to_owned(), format!("{{part}}/{of}")]);
    command.extend(["--jobs".to_owned(), args.cpus.to_string()]);
    command.extend(options.words);
    check(&command)?;
    let mut merge = vec![program.to_owned(), "pack".to_owned(), "--merge".to_owned()];
    merge.extend((1..=of).map(|part| place(&format!("part-{part}"))));
    merge.push(place("bundle"));
    let name = args.dir.file_name().map(|name| name.to_string_lossy().into_owned());
    let spec = JobSpec {
        name: name.unwrap_or_default(),
        site,
        command,
        image: None,
        data: None,
        inputs: sources.iter().map(|source| (source.name.clone(), source.bytes)).collect(),
        checkpoint: None,
        checkpoint_hours: 1.0,
        parameters: Some(Parameters {
            names: vec!["part".to_owned()],
            rows: (1..=of).map(|part| vec![part.to_string()]).collect(),
        }),
        stages: Stages { merge: Some(merge), ..Stages::default() },
        cpus: args.cpus,
        memory_bytes: Some(args.memory),
        retry_memory_bytes: None,
        cpu_level: None,
        lines: Vec::new(),
        before: Vec::new(),
        master_suffix: None,
        shm_bytes: 0,
        scratch_bytes: 0,
        gpus: 0,
        evaluate_gpus: 0,
        gpu_memory_bytes: None,
        capability: None,
        cuda: None,
        hours: args.time / 3600.0,
        nodes: 1,
        tasks: 1,
        account: args.account.clone(),
        partition: args.partition.clone(),
        stay: false,
        credentials: None,
        imports_gular: false,
        left_here: Vec::new(),
        binds: Vec::new(),
        input_urls: Vec::new(),
        absent: Vec::new(),
        not_in_image: Vec::new(),
        shared: true,
    };
    let folder =
        write(&spec).map_err(|refusal| Failure::new(&refusal, Some(refusal.fix.clone())))?;
    finish(&args.dir, &folder, &sources, args.dry_run, output)
}

/// Options of `gular pack` that name files.
const OF_FILES: [&str; 8] = [
    "--labels",
    "--classes",
    "--mask",
    "--mask-colours",
    "--mask-colors",
    "--field",
    "--about",
    "--datasets",
];

/// Options for jobs.
#[derive(Debug, Default)]
struct Options {
    words: Vec<String>,
    /// The files and folders that they name.
    files: Vec<String>,
}

/// Options for jobs, which run in folders of their own: their paths from the root.
fn options(given: &[String]) -> Result<Options, Failure> {
    let mut options = Options::default();
    let mut of = None;
    for word in given {
        let (option, value) = match (of.take(), word.split_once('=')) {
            (Some(option), _) => (option, Some(word.as_str())),
            (None, Some((option, value))) => (option, Some(value)),
            (None, None) => (word.as_str(), None),
        };
        let Some(value) = value.filter(|_| OF_FILES.contains(&option)) else {
            of = Some(word.as_str()).filter(|word| OF_FILES.contains(word));
            options.words.push(word.clone());
            continue;
        };
        let start = word.strip_suffix(value).unwrap_or_default();
        let Some((name, file)) = named_file(option, value)? else {
            options.words.push(word.clone());
            continue;
        };
        options.words.push(format!("{start}{name}{file}"));
        options.files.push(file);
    }
    Ok(options)
}

/// The file that a value names, from the root, with what is before it: of `--field` the name and
/// `=`. `--labels` may have a word instead.
fn named_file<'a>(option: &str, value: &'a str) -> Result<Option<(&'a str, String)>, Failure> {
    let at = match (option, value) {
        ("--labels", "path" | "folder" | "none") => return Ok(None),
        // A pattern below SRC.
        ("--mask" | "--field", value) if value.contains('{') && !is_from_here(value) => {
            return Ok(None);
        }
        ("--field", value) => value.find('=').map_or(0, |at| at + 1),
        _ => 0,
    };
    let (name, path) = value.split_at(at);
    let failed = |e| Failure::from(gular_files::Error::new("find", path, e));
    Ok(Some((name, text(&std::path::absolute(path).map_err(failed)?)?)))
}

/// Whether the pattern in a value begins at the present folder, or at the root.
fn is_from_here(value: &str) -> bool {
    let pattern = value.split_once('=').map_or(value, |(_, pattern)| pattern);
    ["/", "./", "../"].iter().any(|start| pattern.starts_with(start))
}

/// Checks that `gular pack` accepts these arguments, before the jobs run.
fn check(command: &[String]) -> Result<(), Failure> {
    let command = command.iter().map(|word| word.replace("{part}", "1"));
    let args = std::iter::once("gular".to_owned()).chain(command.skip(1));
    let Err(error) = crate::parse(args) else { return Ok(()) };
    let error = error.to_string();
    let first = error.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let message = format!("`gular pack` does not take these options: {first}");
    let hint = "`gular help pack` explains each option; SRC, OUT, `--part` and `--jobs` are set by this command";
    Err(Failure::new(message, Some(hint.to_owned())))
}

/// Machines of CHTC share `/staging` and `/projects`, and not the folders of users.
fn shared_at_chtc<'a>(mut paths: impl Iterator<Item = &'a String>) -> Result<(), Failure> {
    let shared = |path: &str| ["/staging/", "/projects/"].iter().any(|at| path.starts_with(at));
    let Some(path) = paths.find(|path| !shared(path)) else { return Ok(()) };
    let hint = "copy the images to one of the two, and choose an OUT there; if the job is for another pool, whose machines share this folder, name that pool with `--site`, such as `--site generic`";
    let what = format!("the machines of CHTC share only `/staging` and `/projects`, not `{path}`");
    Err(Failure::new(what, Some(hint.to_owned())))
}

/// Returns a path as text, if the files of a job can contain it.
fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!(
            "the path `{}` is not UTF-8, so it cannot be written into a job's files",
            path.display()
        );
        Failure::new(message, Some("rename it".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn paths_in_options_are_those_of_the_folder_that_they_were_given_in() {
        let here = env::current_dir().unwrap().display().to_string();
        let check = |given: &[&str], expected: &[&str]| {
            let given: Vec<String> = given.iter().map(|&word| word.to_owned()).collect();
            let expected: Vec<String> =
                expected.iter().map(|word| word.replace("HERE", &here)).collect();
            assert_eq!(options(&given).unwrap().words, expected);
        };
        check(
            &["--payload", "raw", "--labels", "t.csv"],
            &["--payload", "raw", "--labels", "HERE/t.csv"],
        );
        check(
            &["--labels=t.csv", "--labels", "none"],
            &["--labels=HERE/t.csv", "--labels", "none"],
        );
        check(&["--field", "depth=d", "--mask=/m"], &["--field", "depth=HERE/d", "--mask=/m"]);
        check(
            &["--field=depth=d", "--images=a={key}"],
            &["--field=depth=HERE/d", "--images=a={key}"],
        );
        check(
            &["--mask", "m/{key}.png", "--field=d=./d/{key}.npy"],
            &["--mask", "m/{key}.png", "--field=d=HERE/d/{key}.npy"],
        );
    }

    #[test]
    fn at_chtc_folders_are_shared_and_other_words_may_begin_with_a_slash() {
        let refused = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|&word| word.to_owned()).collect();
            let found = options(&given).unwrap();
            shared_at_chtc(found.files.iter()).err().map(|failure| format!("{failure:?}"))
        };
        let at_staging = ["--images", "a/{label}/{key}", "--mask=/staging/me/masks"];
        assert_eq!(refused(&at_staging), None);
        assert_eq!(refused(&["--label-separator", "/", "--columns=/a"]), None);
        assert!(refused(&["--mask", "/home/me/masks"]).unwrap().contains("/home/me/masks"));
        assert!(refused(&["--field=depth=/home/d"]).unwrap().contains("`/home/d`"));
        assert!(refused(&["--labels", "t.csv"]).is_some());
    }

    #[test]
    fn every_option_of_pack_that_names_a_file_is_known() {
        use clap::CommandFactory as _;
        let command = crate::Cli::command();
        let pack = command.find_subcommand("pack").unwrap();
        let names_files = |arg: &&clap::Arg| {
            arg.get_value_parser().type_id() == clap::builder::ValueParser::path_buf().type_id()
        };
        let options = pack.get_arguments().filter(names_files).filter_map(clap::Arg::get_long);
        // These options are not for the parts of a folder that all machines see.
        let others = ["base", "cache", "token", "duplicates-out", "merge"];
        for option in options.filter(|option| !others.contains(option)) {
            assert!(OF_FILES.contains(&format!("--{option}").as_str()), "{option}");
        }
    }

    #[test]
    fn options_that_no_job_would_take_are_refused() {
        let refused = |options: &[&str]| {
            let fixed = ["./gular", "pack", "src", "out", "--part", "{part}/2", "--jobs", "4"];
            let command: Vec<String> = fixed.iter().chain(options).map(|&w| w.to_owned()).collect();
            check(&command).err().map(|failure| format!("{failure:?}"))
        };
        assert!(refused(&["--payload", "reencoded", "--on-error", "skip"]).is_none());
        assert!(refused(&["--payloads"]).unwrap().contains("--payloads"));
        assert!(refused(&["--jobs", "8"]).unwrap().contains("--jobs"));
    }

    #[test]
    fn a_path_is_passed_on_as_it_is_or_refused() {
        assert_eq!(text(Path::new("/a b/ü")).unwrap(), "/a b/ü");
        assert!(text(Path::new(OsStr::from_bytes(b"/a\xff"))).is_err());
    }
}
