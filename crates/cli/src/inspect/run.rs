//! Finds out what a path is.

use gular_bundle::{Backend, Digest, Manifest, ReadAt};
use serde_json::Value;

use super::{bundle, describe, file};
use crate::args::{InspectArgs, Output};
use crate::exit::{Exit, Failure};
use crate::show;

pub(crate) fn run(args: &InspectArgs, output: &Output) -> Result<Exit, Failure> {
    let path = &args.path;
    if path.is_dir() {
        return bundle::bundle(args, output);
    }
    let only_bundles = if args.sheet.is_some() {
        Some("--sheet")
    } else {
        args.extract.as_ref().map(|_| "--extract")
    };
    if let Some(flag) = only_bundles {
        let hint = "name the folder that holds `manifest.json`".to_owned();
        return Err(Failure::new(
            format!("`{flag}` needs a bundle's folder, `{}` is a file", path.display()),
            Some(hint),
        ));
    }
    let file = ReadAt::open(path, Backend::Pread)?;
    let mut first = [0; 1];
    if file.len_bytes() > 0 {
        file.read_at(0, &mut first)?;
    }
    if first == *b"{" {
        let bytes = std::fs::read(path)
            .map_err(|e| Failure::new(format!("cannot read `{}`: {e}", path.display()), None))?;
        let manifest = Manifest::parse(&path.display().to_string(), &bytes)?;
        let value = describe::json(&manifest, Digest::of(&bytes), None);
        return emit(&value, &describe::text(&manifest, Digest::of(&bytes), None), output);
    }
    file::tensor_file(&file, output)
}

pub(super) fn emit(value: &Value, text: &str, output: &Output) -> Result<Exit, Failure> {
    if output.json {
        show::json(value)?;
    } else {
        show::stdout(text)?;
    }
    Ok(Exit::Done)
}
