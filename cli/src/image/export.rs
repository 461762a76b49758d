//! `gular image export`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gular_containers::export;
use gular_containers::make::Project;
use gular_containers::recipe::TargetSection;

use super::check;
use super::places::PlaceArgs;
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show::{self, AsIs};

/// Write a definition file, a Dockerfile, or what the image needs from a machine (`facts`)
///
/// `def` and `dockerfile` let other tools build a similar image, and do not take --json; `facts` is
/// JSON: minimum compute capability, CUDA runtime, driver, bytes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular image export facts train-0123456789abcdef.sif")]
pub(super) struct ExportArgs {
    /// What to write to stdout
    #[arg(value_enum)]
    pub(super) what: ExportArg,
    /// A recipe (for def and dockerfile), or an image (for facts)
    pub(super) from: PathBuf,
    #[command(flatten)]
    pub(super) place: PlaceArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ExportArg {
    /// Apptainer's definition file
    Def,
    /// A Dockerfile, for Docker, Podman and Buildah
    Dockerfile,
    /// JSON for job files
    Facts,
}

pub(super) fn run(args: &ExportArgs, output: &Output) -> Result<Exit, Failure> {
    match args.what {
        ExportArg::Facts => {
            let image = check::open(&args.from, &args.place)?;
            let report = image.check(&TargetSection::default(), &[])?;
            show::json(&check::facts(&image, &report))?;
            Ok(Exit::Done)
        }
        ExportArg::Def | ExportArg::Dockerfile if output.json => {
            let message = "`--json` has no effect on definition files and Dockerfiles";
            let hint = "leave it out; `gular image export facts IMAGE` prints JSON";
            Err(Failure::new(message, Some(hint.to_owned())))
        }
        ExportArg::Def | ExportArg::Dockerfile => {
            let project = Project::open(&args.from)?;
            let lock = project.current_lock()?;
            let program = program(&project);
            let write = match args.what {
                ExportArg::Def => export::definition,
                _ => export::dockerfile,
            };
            let file = write(&project.recipe, &lock, program.as_deref());
            show::as_is(AsIs::File, file.as_bytes())?;
            Ok(Exit::Done)
        }
    }
}

/// The path of the program, which cargo may still have to build.
fn program(project: &Project) -> Option<String> {
    let app = project.recipe.app.as_ref().filter(|app| app.embed)?;
    if let Some(path) = &app.path {
        return Some(path.display().to_string());
    }
    let package = app.package.as_ref()?;
    Some(Path::new("target/release").join(package).display().to_string())
}
