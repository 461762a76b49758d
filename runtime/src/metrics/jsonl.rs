//! `metrics.jsonl`: `{"step":…,"epoch":…,"wall":…,"loss":…}`, one object per line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::ser::{SerializeMap as _, Serializer as _};

use super::append::AppendFile;
use crate::Error;

/// The file of all metrics.
pub const METRICS_NAME: &str = "metrics.jsonl";

#[derive(Debug)]
pub(crate) struct Jsonl {
    file: AppendFile,
    /// The names of each line of the step it was resumed at: a run that was killed after it
    /// logged them, and before it saved, has them logged again by the next.
    logged: Vec<(u64, Names)>,
}

type Names = BTreeSet<String>;

impl Jsonl {
    pub(crate) fn open(dir: &Path, resume_step: Option<u64>) -> Result<Self, Error> {
        let path = dir.join(METRICS_NAME);
        let (keep_bytes, logged) = match resume_step {
            Some(step) => up_to(&path, step).map_err(|e| Error::io("read", &path, e))?,
            None => {
                move_aside(dir, &path)?;
                (0, Vec::new())
            }
        };
        Ok(Self { file: AppendFile::open(path, keep_bytes)?, logged })
    }

    /// Appends a line; `false` where the step has one of these names from before the resume.
    pub(crate) fn append(
        &mut self,
        step: u64,
        epoch: u64,
        wall: f64,
        values: &[(&str, f64)],
    ) -> Result<bool, Error> {
        let names: Names = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        if self.logged.contains(&(step, names)) {
            return Ok(false);
        }
        let mut line = encode(step, epoch, wall, values)
            .expect("string keys and numbers written to memory cannot fail");
        line.push(b'\n');
        self.file.append(&line)?;
        Ok(true)
    }
}

fn encode(step: u64, epoch: u64, wall: f64, values: &[(&str, f64)]) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut json = serde_json::Serializer::new(&mut line);
    let mut map = json.serialize_map(None)?;
    map.serialize_entry("step", &step)?;
    map.serialize_entry("epoch", &epoch)?;
    map.serialize_entry("wall", &wall)?;
    for (name, value) in values {
        // The names that protobuf's JSON and many readers use; JSON itself has none.
        match value {
            v if v.is_finite() => map.serialize_entry(name, v)?,
            v if v.is_nan() => map.serialize_entry(name, "NaN")?,
            v if v.is_sign_positive() => map.serialize_entry(name, "Infinity")?,
            _ => map.serialize_entry(name, "-Infinity")?,
        }
    }
    map.end()?;
    Ok(line)
}

/// Returns the length of the lines up to `step`, without a last line that is incomplete after a
/// kill, and the names in the lines of `step` itself.
///
/// Steps only grow within a file, since each resume shortens it. Other whole lines are ignored.
fn up_to(path: &Path, step: u64) -> io::Result<(u64, Vec<(u64, Names)>)> {
    #[derive(Deserialize)]
    struct Line {
        step: u64,
        #[serde(flatten)]
        others: BTreeMap<String, serde_json::Value>,
    }
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((0, Vec::new())),
        Err(e) => return Err(e),
    };
    let (mut len_bytes, mut logged) = (0, Vec::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = file.read_until(b'\n', &mut line)?;
        let ours: Option<Line> = serde_json::from_slice(&line).ok();
        if ours.as_ref().is_some_and(|line| line.step > step) || !line.ends_with(b"\n") {
            return Ok((len_bytes, logged));
        }
        len_bytes += n as u64;
        if let Some(line) = ours.filter(|line| line.step == step) {
            let names = line.others.into_keys().filter(|name| name != "epoch" && name != "wall");
            logged.push((step, names.collect()));
        }
    }
}

fn move_aside(dir: &Path, path: &Path) -> Result<(), Error> {
    if !fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Ok(());
    }
    let free: Option<PathBuf> =
        (1_u32..).map(|n| dir.join(format!("metrics.{n}.jsonl"))).find(|path| !path.exists());
    let to = free.unwrap_or_else(|| dir.join("metrics.0.jsonl"));
    fs::rename(path, &to).map_err(|e| Error::io("move earlier metrics to", to, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, resume_step: u64, expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(METRICS_NAME);
        fs::write(&path, before).unwrap();
        let mut jsonl = Jsonl::open(dir.path(), Some(resume_step)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        jsonl.append(9, 1, 2.0, &[("a", 0.5)]).unwrap();
        let line = "{\"step\":9,\"epoch\":1,\"wall\":2.0,\"a\":0.5}\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{expected}{line}"));
    }

    #[test]
    fn resume_cuts_later_steps() {
        check("{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n", 2, "{\"step\":1}\n{\"step\":2}\n");
        check("{\"step\":1}\n{\"step\":5}\n{\"step\":6}\n", 2, "{\"step\":1}\n");
        check("{\"step\":5}\n", 2, "");
        check("", 2, "");
    }

    #[test]
    fn torn_last_line_is_dropped() {
        check("{\"step\":1}\n{\"step\":2,\"lo", 7, "{\"step\":1}\n");
        check("{\"step\":1}\n{\"step\":2}", 7, "{\"step\":1}\n");
        check("{\"st", 7, "");
    }

    #[test]
    fn lines_of_others_stay() {
        check("# note\n{\"step\":1}\n\n{\"step\":8}\n", 7, "# note\n{\"step\":1}\n\n");
    }

    #[test]
    fn values_that_are_no_numbers_are_named() {
        let values = [("a", f64::NAN), ("b", f64::INFINITY), ("c", f64::NEG_INFINITY), ("d", 0.1)];
        let line = String::from_utf8(encode(1, 0, 0.5, &values).unwrap()).unwrap();
        let expected = r#""a":"NaN","b":"Infinity","c":"-Infinity","d":0.1}"#;
        assert!(line.ends_with(expected), "{line}");
    }

    #[test]
    fn beginning_anew_moves_earlier_metrics_aside() {
        let dir = tempfile::tempdir().unwrap();
        for n in 1..=3 {
            let mut jsonl = Jsonl::open(dir.path(), None).unwrap();
            jsonl.append(n, 0, 0.0, &[]).unwrap();
        }
        for (name, step) in [("metrics.1.jsonl", 1), ("metrics.2.jsonl", 2), (METRICS_NAME, 3)] {
            let text = fs::read_to_string(dir.path().join(name)).unwrap();
            assert!(text.starts_with(&format!("{{\"step\":{step},")), "{name}: {text}");
        }
    }
}
