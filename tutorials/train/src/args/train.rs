//! Options of `train`.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use gular_runtime::order::OrderKind;
use gular_runtime::torch::Place;
use gular_runtime::{Ranks, Scaling, Size, UnknownLabels};

use super::augment::AugmentArgs;
use super::{Bits, DataArgs, PlaceArgs};
use crate::network::Architecture;

/// Trains an image classifier on a bundle, to be stopped and resumed at any time.
///
/// SIGTERM, SIGINT or SIGUSR1: the step is finished, a checkpoint saved, exit code 85. The
/// same command line then resumes from the newest checkpoint and, on the same kind of
/// CPU, ends with the same weights, bit for bit, as if it had never been stopped.
///
/// Several processes train together when their launcher (torchrun, srun, mpirun) or
/// `--rank` says so: each takes its part of the samples, and all take the same steps.
///
/// Example: gular-train train bundle --epochs 10 --checkpoint-dir run1 --metrics run1
#[derive(Debug, Args)]
#[command(args_override_self = true)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// The network to train; ResNets are torchvision's, with its names
    #[arg(long, value_enum, default_value_t = Architecture::Small, value_name = "NETWORK")]
    pub(crate) network: Architecture,
    /// Passes over the training split
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub(crate) epochs: u64,
    /// Side of the pictures the network sees, in pixels
    #[arg(long, default_value_t = 64, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(8..=4096))]
    pub(crate) size: u32,
    /// The highest learning rate, after the warm-up
    #[arg(long, default_value_t = 3e-3, value_name = "RATE", value_parser = rate, allow_negative_numbers = true)]
    pub(crate) lr: f64,
    /// How many of the last layer's inputs are left out while training, 0 to 1
    #[arg(long, default_value_t = 0.1, value_name = "PART", value_parser = part, allow_negative_numbers = true)]
    pub(crate) dropout: f64,
    /// The seed from which initial weights, order, augmentation and dropout follow
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// The order of samples
    #[arg(long, value_enum, default_value_t = OrderArg::Elastic)]
    pub(crate) order: OrderArg,
    /// Shards that order `window` mixes at a time
    #[arg(long, default_value_t = 16, value_name = "SHARDS")]
    pub(crate) window: u64,
    /// How much of a bundle from a URL may be kept at a time, such as `200GB`; with `--order
    /// window` and without `--fold` less than all of it is enough, and shards are fetched while it
    /// trains [default: what the file system has]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) cache_limit: Option<u64>,
    /// Train on all but one fold of the training split and validate on that one: `0/5` is the
    /// first of five [default: train on the whole split, validate on split `val`]
    #[arg(long, value_name = "NUMBER/OF", value_parser = fold)]
    pub(crate) fold: Option<(u64, u64)>,
    /// A file of digests, one per line: images with one of them are not trained on
    #[arg(long, value_name = "FILE")]
    pub(crate) never: Option<PathBuf>,
    /// How often samples come in an epoch
    #[arg(long, value_enum, default_value_t = Drawn::EachOnce)]
    pub(crate) draw: Drawn,
    /// Where checkpoints and, at the end, `weights.safetensors` go
    #[arg(long, default_value = "checkpoints", value_name = "DIR")]
    pub(crate) checkpoint_dir: PathBuf,
    /// Steps between checkpoints; besides, one after each epoch and when stopped
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) checkpoint_every: Option<u64>,
    /// Minutes between checkpoints, fractions too [default: 10 without `--checkpoint-every`]
    #[arg(long, value_name = "MINUTES", value_parser = minutes, allow_negative_numbers = true)]
    pub(crate) checkpoint_minutes: Option<Duration>,
    /// How many checkpoints to keep
    #[arg(long, default_value = "2", value_name = "N")]
    pub(crate) keep: NonZeroUsize,
    /// Resume from the newest checkpoint, or start again
    #[arg(long, value_enum, default_value_t = Resume::Auto)]
    pub(crate) resume: Resume,
    /// Folder for `metrics.jsonl` and TensorBoard's event files [default: none]
    #[arg(long, value_name = "DIR")]
    pub(crate) metrics: Option<PathBuf>,
    /// Do at most this many steps now, then save and exit with 85
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) stop_after_steps: Option<u64>,
    /// Train for this long now, such as `11h` or `1h30m`, then save and exit with 85. The end that
    /// Slurm or HTCondor gives the job is respected anyhow: it stops before, in time to save
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) stop_after: Option<Duration>,
    /// Train on another sample instead of one that cannot be decoded, and validate without such
    /// ones, instead of failing
    #[arg(long)]
    pub(crate) skip_broken: bool,
    /// Samples whose class is unknown (label -1): `refuse` them, `drop` them, or have loss and
    /// accuracy `ignore` them
    #[arg(long, value_enum, default_value_t = Unknown::Refuse, value_name = "HOW")]
    pub(crate) unknown_labels: Unknown,
    /// Bits of a pixel: `stored` takes pixels of payload `raw` as they are and refuses encoded
    /// images of 16; `8` keeps the high byte of 16, `16` all of it
    #[arg(long, value_enum, default_value_t = Bits::Stored, value_name = "BITS")]
    pub(crate) depth: Bits,
    /// How a JPEG is decoded of which a sixth or less is wanted: at a fraction of its size, or in
    /// full; a resume has the same
    #[arg(long, value_enum, default_value_t = Scaled::Reduced, value_name = "HOW")]
    pub(crate) scaling: Scaled,
    /// In which numbers products and convolutions are computed; weights, gradients and checkpoints
    /// are f32 in both
    #[arg(long, value_enum, default_value_t = Precision::F32, value_name = "NUMBERS")]
    pub(crate) precision: Precision,
    /// Read the loss of a step this many steps later, so that nothing waits for a GPU
    /// [default: 2 on a GPU, else 0]
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(0..=64))]
    read_loss_after: Option<u64>,
    #[command(flatten)]
    pub(crate) augment: AugmentArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OrderArg {
    /// Bit-identical to PyTorch's DistributedSampler
    Torch,
    /// A keyed permutation; no memory, any number of ranks
    Elastic,
    /// Permuted shards, mixed within a window
    Window,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Drawn {
    /// Each sample once
    EachOnce,
    /// Each class as often as any other; with order `elastic`
    ByClass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Precision {
    /// 32 bits
    F32,
    /// Mixed precision as torch.autocast has it: 16 bits with the range of f32
    Bf16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scaled {
    /// At 1/2, 1/4 or 1/8 where that is enough
    Reduced,
    /// Every pixel
    Full,
}

impl Scaled {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        ["reduced", "full"][self as usize]
    }

    /// Returns the scaling whose [`Scaled::name`] this is.
    pub(crate) fn of(name: &str) -> Option<Self> {
        [Self::Reduced, Self::Full].into_iter().find(|scaled| scaled.name() == name)
    }
}

impl From<Scaled> for Scaling {
    fn from(scaled: Scaled) -> Self {
        match scaled {
            Scaled::Reduced => Self::Reduced,
            Scaled::Full => Self::Full,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Unknown {
    /// Fail, and say how many there are
    Refuse,
    /// Leave them out of every epoch
    Drop,
    /// Keep them in the batches, where neither loss nor accuracy counts them
    Ignore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resume {
    /// Resume if there is a checkpoint
    Auto,
    /// Fail if there is one
    Never,
}

fn rate(text: &str) -> Result<f64, String> {
    number(text, "a number above 0", |n| n > 0.0)
}

fn part(text: &str) -> Result<f64, String> {
    number(text, "a number from 0 and below 1", |n| (0.0..1.0).contains(&n))
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes = number(text, "a number of minutes above 0", |n| n > 0.0)?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|_| "too many minutes".into())
}

fn size(text: &str) -> Result<u64, String> {
    let size = Size::parse(text).ok_or("expected a size such as `200GB`, `64GiB` or plain bytes");
    Ok(size?.0)
}

/// Parses `0/5`, which is the first of five.
fn fold(text: &str) -> Result<(u64, u64), String> {
    let both = text.split_once('/');
    let both = both.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    both.filter(|(number, of)| number < of && *of > 1)
        .ok_or_else(|| "expected a fold and the number of folds, such as `0/5` to `4/5`".into())
}

/// Numbers with units, the largest first: `90s`, `30m`, `11h`, `1d12h`.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time such as `45s`, `30m`, `11h` or `1d12h`".to_owned();
    let (mut rest, mut seconds, mut smaller) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at(digits);
        let of = match unit.bytes().next() {
            Some(b'd') => 86_400,
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => return Err(expected()),
        };
        let part = number.parse::<u64>().ok().filter(|_| of < smaller);
        let sum = part.and_then(|n| n.checked_mul(of)).and_then(|n| seconds.checked_add(n));
        (seconds, smaller) = (sum.ok_or_else(expected)?, of);
        rest = unit.get(1..).unwrap_or_default();
    }
    if seconds == 0 { Err(expected()) } else { Ok(Duration::from_secs(seconds)) }
}

pub(super) fn number(
    text: &str,
    expected: &str,
    fits: impl Fn(f64) -> bool,
) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|n| n.is_finite() && fits(*n)).ok_or_else(|| format!("expected {expected}"))
}

impl From<Unknown> for UnknownLabels {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Refuse => Self::Refuse,
            Unknown::Drop => Self::Drop,
            Unknown::Ignore => Self::Ignore,
        }
    }
}

impl TrainArgs {
    pub(crate) fn order_kind(&self) -> OrderKind {
        match self.order {
            OrderArg::Torch => OrderKind::Torch { shuffle: true },
            OrderArg::Elastic => OrderKind::Elastic,
            OrderArg::Window => OrderKind::Window { shards: self.window },
        }
    }

    /// Whether the shards of a URL are fetched during training. This is so with windows, which need
    /// only a few shards at a time. With folds it is not, since validation on a fold uses another
    /// order, which needs all shards.
    pub(crate) fn is_streamed(&self) -> bool {
        matches!(self.order_kind(), OrderKind::Window { .. }) && self.fold.is_none()
    }

    /// Returns how long after a checkpoint the next one is due; `None` if only the number of steps
    /// decides.
    pub(crate) fn checkpoint_interval(&self) -> Option<Duration> {
        let default = self.checkpoint_every.is_none().then_some(Duration::from_secs(600));
        self.checkpoint_minutes.or(default)
    }

    /// Returns the settings that the weights depend on, besides the seed and the order, which are
    /// in the loader's state.
    fn settings(&self, ranks: &Ranks) -> Vec<(&'static str, f64)> {
        let flag = |set: bool| f64::from(u8::from(set));
        let bits = |precision| if precision == Precision::Bf16 { 16.0 } else { 32.0 };
        let own = [
            ("batch-size", self.data.batch_size.get() as f64),
            ("dropout", self.dropout),
            ("epochs", self.epochs as f64),
            ("lr", self.lr),
            ("size", f64::from(self.size)),
            ("ignore-exif", flag(self.data.ignore_exif)),
            ("depth", f64::from(self.depth.number())),
            ("world-size", ranks.world_size as f64),
            ("precision", bits(self.precision)),
        ];
        own.into_iter().chain(self.augment.settings()).collect()
    }

    /// After how many steps the loss of one is read.
    pub(crate) fn read_loss_after(&self, place: &Place) -> usize {
        let default = if place.device().is_cuda() { 2 } else { 0 };
        self.read_loss_after.map_or(default, |steps| steps as usize)
    }

    /// Keeps the settings with a checkpoint's figures.
    pub(crate) fn remember(&self, ranks: &Ranks, figures: &mut BTreeMap<String, f64>) {
        figures.extend(
            self.settings(ranks).into_iter().map(|(name, value)| (format!("--{name}"), value)),
        );
    }

    /// The settings that are not what they were: name, before, now.
    pub(crate) fn changes(
        &self,
        ranks: &Ranks,
        figures: &BTreeMap<String, f64>,
    ) -> Vec<(&'static str, f64, f64)> {
        let changed = |(name, now): (&'static str, f64)| {
            let was = *figures.get(&format!("--{name}"))?;
            (was != now).then_some((name, was, now))
        };
        self.settings(ranks).into_iter().filter_map(changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Verb};

    #[test]
    fn times_are_numbers_with_units() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration(text).ok().map(|time| time.as_secs()), expected, "{text}");
        };
        check("45s", Some(45));
        check("30m", Some(1800));
        check("11h", Some(39_600));
        check("1d12h", Some(129_600));
        check("1h30m5s", Some(5405));
        for wrong in
            ["", "11", "h", "0s", "1m1h", "1h1h", "-1h", "1.5h", "99999999999999999999d", "1H"]
        {
            check(wrong, None);
        }
        assert_eq!(minutes("0.5"), Ok(Duration::from_secs(30)));
        assert!(minutes("0").is_err() && minutes("1e300").is_err());
    }

    #[test]
    fn folds_are_counted_from_0() {
        assert_eq!((fold("0/5"), fold("4/5")), (Ok((0, 5)), Ok((4, 5))));
        for wrong in ["5/5", "0/1", "0/0", "1", "-1/5", "1/", "a/b"] {
            assert!(fold(wrong).is_err(), "{wrong}");
        }
    }

    fn parse(more: &[&str]) -> TrainArgs {
        let cli = Cli::try_parse_from([&["t", "train", "b"], more].concat()).unwrap();
        let Verb::Train(args) = cli.verb else { unreachable!("the verb is `train`") };
        *args
    }

    #[test]
    fn shards_come_while_it_trains_where_windows_are_all_that_needs_them() {
        let check = |more: &[&str], expected| {
            assert_eq!(parse(more).is_streamed(), expected, "{more:?}");
        };
        check(&["--order", "window"], true);
        check(&["--order", "window", "--fold", "0/5"], false);
        check(&["--order", "torch"], false);
        check(&[], false);
    }

    #[test]
    fn checkpoints_are_due_by_time_unless_steps_are_given() {
        let interval = |more: &[&str]| parse(more).checkpoint_interval().map(|t| t.as_secs());
        assert_eq!(interval(&[]), Some(600));
        assert_eq!(interval(&["--checkpoint-every", "3"]), None);
        assert_eq!(interval(&["--checkpoint-minutes", "2"]), Some(120));
        assert_eq!(interval(&["--checkpoint-every", "3", "--checkpoint-minutes", "2"]), Some(120));
    }
}
