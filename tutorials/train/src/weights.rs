//! Weights for evaluating or predicting: where they are stored, and what their metadata says.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use gular_runtime::checkpoint::read_checkpoint;
use gular_runtime::torch::WeightsFile;
use gular_runtime::{Digest, Normalise};
use serde_json::{Value, json};

use crate::args::{Scaled, ScoreArgs, TrainArgs};
use crate::network::Architecture;

/// The text of a weights file that says how pictures became what the network took.
const ABOUT: &str = "gular-train";

/// The bytes of a weights file, and what is known of the training.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) bytes: Vec<u8>,
    /// Digest of `bytes`.
    pub(crate) digest: Digest,
    /// The settings of the training run, by the name of the option.
    settings: BTreeMap<String, f64>,
}

/// The facts that weights contain about their training run, as far as they do.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) size: Option<u32>,
    pub(crate) depth: Option<u32>,
    pub(crate) ignore_exif: bool,
    pub(crate) scaling: Option<Scaled>,
    pub(crate) normalise: Option<Normalise>,
    pub(crate) classes: Option<Vec<String>>,
}

impl Weights {
    /// Reads the file, or the model of the checkpoint, that `path` names.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let is_pointer = path.extension().is_none()
            && path.metadata().is_ok_and(|file| file.is_file() && file.len() <= 64);
        let mut settings = BTreeMap::new();
        let bytes = if path.is_dir() || is_pointer {
            let mut checkpoint = read_checkpoint(path)?;
            let state = checkpoint.files.remove("training.json").unwrap_or_default();
            let state: Value = serde_json::from_slice(&state).unwrap_or_default();
            let figures = state["figures"].as_object().into_iter().flatten();
            settings.extend(figures.filter_map(|(name, n)| Some((name.clone(), n.as_f64()?))));
            let model = checkpoint.files.remove("model.safetensors");
            let dir = checkpoint.path.display();
            model.with_context(|| format!("checkpoint `{dir}` holds no `model.safetensors`"))?
        } else {
            let shown = path.display();
            std::fs::read(path).with_context(|| format!("cannot read the weights `{shown}`"))?
        };
        Ok(Self { digest: Digest::of(&bytes), bytes, settings })
    }

    /// Parses the contents of the file.
    pub(crate) fn parse(&self, args: &ScoreArgs) -> Result<WeightsFile<'_>> {
        let shown = args.weights.display();
        WeightsFile::parse(&self.bytes).with_context(|| {
            let json = self.bytes.trim_ascii_start().starts_with(b"{");
            let is = if json { "is JSON and" } else { "is" };
            format!(
                "`{shown}` {is} not a safetensors file; name a folder of checkpoints, or the \
                 `weights.safetensors` that a training run leaves there"
            )
        })
    }

    /// Returns the facts about the weights, from the file's metadata or the checkpoint's figures.
    pub(crate) fn said(&self, file: &WeightsFile<'_>) -> Said {
        let about = file.about(ABOUT).and_then(|text| serde_json::from_str::<Value>(text).ok());
        let about = about.unwrap_or_default();
        let number = |name: &str| {
            let figure = self.settings.get(&format!("--{name}")).map(|n| *n as u64);
            about[name].as_u64().or(figure).and_then(|n| u32::try_from(n).ok())
        };
        let classes = about["classes"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        Said {
            size: number("size"),
            depth: number("depth"),
            ignore_exif: number("ignore-exif") == Some(1),
            scaling: about["scaling"].as_str().and_then(Scaled::of),
            normalise: read_normalise(&about["normalise"]),
            classes,
        }
    }
}

fn read_normalise(said: &Value) -> Option<Normalise> {
    let number = |n: &Value| n.as_f64().map(|n| n as f32);
    let list =
        |name: &str| -> Option<Vec<f32>> { said[name].as_array()?.iter().map(number).collect() };
    let scale = match &said["scale"] {
        Value::Null => None,
        scale => Some(number(scale)?),
    };
    Some(Normalise { scale, mean: list("mean")?, std: list("std")? })
}

/// Returns the texts that describe the weights of a training run, for [`Weights::said`].
pub(crate) fn about(
    args: &TrainArgs,
    normalise: &Normalise,
    classes: &[String],
) -> BTreeMap<String, String> {
    let Normalise { scale, mean, std } = normalise;
    let about = json!({
        "network": args.network.name(),
        "size": args.size,
        "depth": args.depth.number(),
        "ignore-exif": u32::from(args.data.ignore_exif),
        "scaling": args.scaling.name(),
        "normalise": { "scale": scale, "mean": mean, "std": std },
        "classes": classes,
    });
    BTreeMap::from([(ABOUT.to_owned(), about.to_string())])
}

/// The network that `file` is of: as the command line says, else as its names do.
pub(crate) fn network(args: &ScoreArgs, file: &WeightsFile<'_>) -> Result<Architecture> {
    let Some(kind) = args.network.or_else(|| Architecture::of(file)) else {
        let shown = args.weights.display();
        bail!(
            "the tensor names of `{shown}` fit none of the networks `small`, `resnet18` and `resnet50`; name the network with `--network`"
        )
    };
    Ok(kind)
}

/// The channels of pictures and the number of classes that the weights are for.
pub(crate) fn ends(
    args: &ScoreArgs,
    kind: Architecture,
    file: &WeightsFile<'_>,
) -> Result<(i64, i64)> {
    let shape = |name: &str, dims: usize| {
        let shown = args.weights.display();
        let network = kind.name();
        let shape = file.shape(name).with_context(|| {
            format!("network `{network}` has a tensor `{name}`, but the file `{shown}` does not")
        })?;
        ensure!(
            shape.len() == dims,
            "tensor `{name}` of `{shown}` has shape {shape:?}, network `{network}` expects {dims} \
             dimensions"
        );
        Ok(shape)
    };
    let (first, last) = (shape(kind.first(), 4)?, shape(kind.last(), 2)?);
    let (channels, classes) = (first[1], last[0]);
    for (n, name, of) in [(channels, kind.first(), "channels"), (classes, kind.last(), "classes")] {
        let shown = args.weights.display();
        ensure!(n > 0, "tensor `{name}` of `{shown}` has 0 {of}, expected at least 1");
    }
    Ok((channels, classes))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Verb};

    #[test]
    fn weights_without_classes_or_channels_are_refused() {
        let cli = Cli::try_parse_from(["t", "eval", "b", "--weights", "w"]).unwrap();
        let Verb::Eval(args) = cli.verb else { unreachable!("the verb is `eval`") };
        let read = |channels: usize, classes: usize| {
            let end = 36 * channels + 8 * classes;
            let header = json!({
                "block0.conv.weight": {
                    "dtype": "F32", "shape": [1, channels, 3, 3],
                    "data_offsets": [0, 36 * channels],
                },
                "last.weight": {
                    "dtype": "F32", "shape": [classes, 2], "data_offsets": [36 * channels, end],
                },
            });
            let header = header.to_string().into_bytes();
            let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
            bytes.extend(header);
            bytes.resize(bytes.len() + end, 0);
            let file = WeightsFile::parse(&bytes).unwrap();
            ends(&args.score, Architecture::Small, &file).map_err(|error| error.to_string())
        };
        assert_eq!(read(3, 4), Ok((3, 4)));
        let refused = read(3, 0).unwrap_err();
        assert_eq!(refused, "tensor `last.weight` of `w` has 0 classes, expected at least 1");
        let refused = read(0, 4).unwrap_err();
        assert!(refused.contains("`block0.conv.weight` of `w` has 0 channels"), "{refused}");
    }

    #[test]
    fn what_are_no_weights_is_said_with_the_next_step() {
        let cli = Cli::try_parse_from(["t", "eval", "b", "--weights", "run.json"]).unwrap();
        let Verb::Eval(args) = cli.verb else { unreachable!("the verb is `eval`") };
        for (bytes, expected) in
            [("{\"accuracy\":0.9}", "is JSON and not"), ("PK\u{3}\u{4}", "`run.json` is not")]
        {
            let (bytes, settings) = (bytes.as_bytes().to_vec(), BTreeMap::new());
            let weights = Weights { digest: Digest::of(&bytes), bytes, settings };
            let error = weights.parse(&args.score).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("weights.safetensors"), "{error}");
        }
    }

    #[test]
    fn how_pixels_were_normalised_is_read_as_it_was_written() {
        let mean = vec![0.1, 1.0 / 3.0];
        for scale in [None, Some(255.0)] {
            let how = Normalise { scale, mean: mean.clone(), std: vec![1e-7, 2.5] };
            let Normalise { scale, mean, std } = &how;
            let text = json!({ "scale": scale, "mean": mean, "std": std }).to_string();
            assert_eq!(read_normalise(&serde_json::from_str(&text).unwrap()), Some(how));
        }
        for wrong in ["null", "{}", r#"{"mean": [1], "std": ["a"]}"#] {
            assert_eq!(read_normalise(&serde_json::from_str(wrong).unwrap()), None, "{wrong}");
        }
    }
}
