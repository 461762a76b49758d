//! `gular image export`.

use std::path::Path;

use gular_containers::export;
use gular_containers::recipe::Target;

use super::args::{ExportArg, ExportArgs};
use super::check;
use super::places::Place;
use crate::exit::{Exit, Failure};
use crate::show;

pub(super) fn run(args: &ExportArgs) -> Result<Exit, Failure> {
    match args.what {
        ExportArg::Facts => {
            let image = check::open(&args.from, &args.place)?;
            let report = image.check(&Target::default(), &[])?;
            show::json(&check::facts(&image, &report))?;
            Ok(Exit::Done)
        }
        ExportArg::Def | ExportArg::Dockerfile => {
            let place = Place::open(&args.from)?;
            let lock = place.lock()?.ok_or_else(|| {
                let message = format!("there is no `{}`", place.lock_path.display());
                Failure::new(message, Some("make it: `gular image lock`".to_owned()))
            })?;
            lock.check(&place.recipe, &place.lock_path.display().to_string())?;
            let program = program(&place);
            let write = match args.what {
                ExportArg::Def => export::definition,
                _ => export::dockerfile,
            };
            show::stdout(write(&place.recipe, &lock, program.as_deref()).as_bytes())?;
            Ok(Exit::Done)
        }
    }
}

/// Where the program is, or will be when cargo has built it.
fn program(place: &Place) -> Option<String> {
    let app = place.recipe.app.as_ref().filter(|app| app.embed)?;
    if let Some(path) = &app.path {
        return Some(path.display().to_string());
    }
    let package = app.package.as_ref()?;
    Some(Path::new("target/release").join(package).display().to_string())
}
