//! Several processes take the same steps that one process would take on the whole batch.

#![cfg(feature = "torch")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;
#[path = "../../crates/group/tests/group/port.rs"]
mod port;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use fixtures::{Recipe, make};
use gular_runtime::group::{Group, GroupOptions, Rendezvous};
use gular_runtime::order::LoaderState;
use gular_runtime::torch::{
    DataParallel, Feed, FeedOptions, Optimiser, Place, Sgd, TrainState, describe, set_step_rng,
    set_threads, weights,
};
use gular_runtime::{Env, LoaderOptions, LoaderPlan, Ranks, Split, Transform};
use port::port;
use safetensors::SafeTensors;
use tch::nn::{self, ModuleT as _, VarStore};
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

/// Samples of each step: one that divides among 2 and 4, some that do not, and fewer than
/// there are ranks.
const BATCHES: [i64; 6] = [12, 13, 2, 8, 1, 15];

struct Net {
    store: VarStore,
    layers: nn::SequentialT,
}

/// Convolutions, `f32` and `f64`, and a variable that nothing uses.
fn net() -> Net {
    set_step_rng(3, u64::MAX, 0);
    let store = VarStore::new(Device::Cpu);
    let root = store.root();
    let config = nn::ConvConfig { padding: 1, ..Default::default() };
    let layers = nn::seq_t()
        .add(nn::conv2d(&root / "conv", 3, 8, 3, config))
        .add(nn::group_norm(&root / "norm", 4, 8, Default::default()))
        .add_fn(|x| x.relu().mean_dim([2_i64, 3].as_slice(), false, Kind::Float))
        .add(nn::linear(&root / "last", 8, 5, Default::default()));
    let _ = root.zeros("unused", &[7]);
    let mut wide = root.ones("wide", &[5]);
    wide.set_data(&wide.to_kind(Kind::Double));
    let layers = layers.add_fn(move |x| (x * &wide).to_kind(Kind::Float));
    Net { store, layers }
}

/// Returns all samples of a step.
fn samples(step: usize, n: i64) -> (Tensor, Tensor) {
    set_step_rng(4, step as u64, 0);
    let images = Tensor::randn([n, 3, 8, 8], (Kind::Float, Device::Cpu));
    (images, Tensor::randint(5, [n], (Kind::Int64, Device::Cpu)))
}

/// Trains on every `world_size`th sample from `rank` on; returns the weights.
fn train(group: Group) -> Vec<u8> {
    let Net { mut store, layers } = net();
    let (rank, world_size) = (group.rank() as i64, group.world_size() as i64);
    let place = Place::cpu();
    let mut parallel = DataParallel::new(group, &store, &place).unwrap();
    let mut optimiser = Sgd::new(&store, 0.9);
    optimiser.weight_decay = 0.01;
    // Rank 0 resumes; the others know nothing of it.
    if rank == 0 {
        let _ = tch::no_grad(|| store.variables().get_mut("last.bias").unwrap().fill_(0.25));
    }
    let mut state = state(rank as u64);
    parallel.share(&mut store, &mut optimiser, &mut state).unwrap();
    assert_eq!(state.step, 100, "the state is that of rank 0");
    for (step, n) in BATCHES.into_iter().enumerate() {
        let (images, labels) = samples(step, n);
        let mine = images.slice(0, rank, n, world_size);
        let len = mine.size()[0];
        optimiser.zero_grad();
        if len > 0 {
            let scores = layers.forward_t(&mine, true);
            scores.cross_entropy_for_logits(&labels.slice(0, rank, n, world_size)).backward();
        }
        let total = parallel.average_gradients(len as usize).unwrap();
        assert_eq!(total, n as u64);
        optimiser.step(0.1).unwrap();
        let mut sums = [len as f64, 1.0];
        parallel.sum(&mut sums).unwrap();
        assert_eq!(sums, [n as f64, world_size as f64]);
    }
    assert_eq!(parallel.average_gradients(0).unwrap(), 0, "no samples at all");
    parallel.finish().unwrap();
    weights(&store).unwrap()
}

fn state(rank: u64) -> TrainState {
    let loader = LoaderState {
        bundle: gular_runtime::Digest::of(b"any"),
        split: Split::Train,
        order: gular_runtime::order::OrderSpec {
            kind: gular_runtime::order::OrderKind::Elastic,
            seed: 0,
            drop_last: false,
        },
        epoch: 0,
        consumed: 0,
        world_size: 1,
        left_out: 0,
        selection: None,
        drawn_by: gular_runtime::order::DrawnBy::EachOnce,
        tally: None,
    };
    let figures = [("loss".to_owned(), 0.1 + rank as f64)].into();
    let decoder = "any".into();
    TrainState { step: 100 + rank, seed: 5, loader, decoder, machine: None, figures }
}

/// A rank, in a process that the tests below start; among them it does nothing.
#[test]
fn rank() {
    let env = Env::process();
    let Ok(out) = std::env::var("PARALLEL_OUT") else { return };
    // Idle threads of several processes would take turns in waiting.
    set_threads(1);
    let ranks = Ranks::discover(None, &env).unwrap();
    let place = Rendezvous::discover(None, &env).unwrap();
    let about = describe(&net().store);
    let never = AtomicBool::new(false);
    let group =
        Group::join(ranks.seat(), &place, &about, &GroupOptions::default(), &never).unwrap();
    let file = Path::new(&out).join(ranks.rank.to_string());
    let left = match std::env::var("PARALLEL_CASE").as_deref() {
        Ok("norm") => batch_norm(group),
        Ok(case) => first_epoch(case, group, &ranks).into_bytes(),
        Err(_) => train(group),
    };
    std::fs::write(file, left).unwrap();
}

/// Runs a network with batch norm on samples that no other rank has; returns its running
/// statistics, then those after all ranks have shared theirs.
fn batch_norm(group: Group) -> Vec<u8> {
    set_step_rng(3, u64::MAX, 0);
    let rank = group.rank();
    let mut store = VarStore::new(Device::Cpu);
    let norm = nn::batch_norm2d(&store.root() / "norm", 3, Default::default());
    let parallel = DataParallel::new(group, &store, &Place::cpu()).unwrap();
    for step in 0..3 {
        set_step_rng(4, step, rank);
        let images = Tensor::randn([8, 3, 4, 4], (Kind::Float, Device::Cpu)) * (rank + 2) as f64;
        let _ = norm.forward_t(&images, true);
    }
    let before = weights(&store).unwrap();
    parallel.share_buffers(&mut store).unwrap();
    let after = weights(&store).unwrap();
    parallel.finish().unwrap();
    assert_eq!(before.len(), after.len());
    [before, after].concat()
}

/// Begins an epoch with a loader that is right on rank 0 only; what that gives.
fn first_epoch(case: &str, group: Group, ranks: &Ranks) -> String {
    let made = make(&Recipe::default());
    let mut options = LoaderOptions::for_ranks(Split::Train, ranks);
    (options.batch_size, options.transform) = (4, Transform::train(8));
    if case == "alone" {
        (options.rank, options.world_size) = (0, 1);
    }
    let plan = LoaderPlan::new(made.bundle, options).unwrap();
    let mut feed = Feed::new(plan, &Place::cpu(), FeedOptions::default()).unwrap();
    if case == "elsewhere" && ranks.rank == 1 {
        let mut state = feed.state().clone();
        state.consumed = 8;
        feed.restore(&state).unwrap();
    }
    let store = VarStore::new(Device::Cpu);
    let parallel = DataParallel::new(group, &store, &Place::cpu()).unwrap();
    let epoch = parallel.epoch(&mut feed, 0).map(Iterator::count);
    match epoch.and_then(|n| parallel.finish().map(|()| n)) {
        Ok(n) => format!("{n} steps"),
        Err(error) => error.to_string(),
    }
}

fn start(case: Option<&str>, rank: u64, world_size: u64, port: u16, out: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    case.map(|case| command.env("PARALLEL_CASE", case));
    command
        .args(["--exact", "rank", "--nocapture"])
        .env("RANK", rank.to_string())
        .env("WORLD_SIZE", world_size.to_string())
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.to_string())
        .env("PARALLEL_OUT", out)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the weights of each rank.
fn trained(world_size: u64) -> Vec<Vec<u8>> {
    left(None, world_size)
}

/// Returns what each rank writes.
fn left(case: Option<&str>, world_size: u64) -> Vec<Vec<u8>> {
    let out = TempDir::new().unwrap();
    let port = port();
    let ranks: Vec<Child> =
        (0..world_size).map(|rank| start(case, rank, world_size, port, out.path())).collect();
    for mut rank in ranks {
        assert!(rank.wait().unwrap().success());
    }
    let file = |rank: u64| -> PathBuf { out.path().join(rank.to_string()) };
    (0..world_size).map(|rank| std::fs::read(file(rank)).unwrap()).collect()
}

/// The largest difference between two files of weights.
fn difference(a: &[u8], b: &[u8]) -> f64 {
    let (a, b) = (SafeTensors::deserialize(a).unwrap(), SafeTensors::deserialize(b).unwrap());
    let tensor = |view: &safetensors::tensor::TensorView<'_>| {
        let kind = if view.dtype() == safetensors::Dtype::F64 { Kind::Double } else { Kind::Float };
        let shape: Vec<i64> = view.shape().iter().map(|n| *n as i64).collect();
        Tensor::from_data_size(view.data(), &shape, kind)
    };
    assert_eq!(a.len(), b.len());
    let differ = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        (tensor(&view) - tensor(&b.tensor(name).unwrap())).abs().max().double_value(&[])
    };
    a.iter().map(differ).fold(0.0, f64::max)
}

#[test]
fn two_and_four_processes_equal_one_on_the_whole_batch() {
    let alone = train(Group::alone());
    let Net { store, .. } = net();
    assert!(difference(&alone, &weights(&store).unwrap()) > 1e-2, "it learned nothing");
    for world_size in [2, 4] {
        let ranks = trained(world_size);
        for rank in &ranks {
            assert_eq!(rank, &ranks[0], "all ranks have the same bits");
        }
        let difference = difference(&alone, &ranks[0]);
        assert!(difference < 1e-6, "{world_size} processes differ by {difference:e}");
    }
}

#[test]
fn running_statistics_are_those_of_rank_0_once_shared() {
    let ranks = left(Some("norm"), 2);
    let [first, second] = [&ranks[0], &ranks[1]].map(|both| both.split_at(both.len() / 2));
    assert!(difference(first.0, second.0) > 0.1, "each rank has its own before");
    assert_eq!(first.0, first.1, "rank 0 keeps its own");
    assert_eq!(first.1, second.1, "all have the same bits");
}

#[test]
fn a_loader_of_another_rank_or_place_ends_all_before_the_first_step() {
    let said = |case| -> Vec<String> {
        left(Some(case), 2).into_iter().map(|text| String::from_utf8(text).unwrap()).collect()
    };
    assert_eq!(said("right"), ["4 steps", "4 steps"]);
    for text in said("alone") {
        assert!(
            text.contains("the loader was made for rank 0 of 1, but this process is rank"),
            "{text}"
        );
        assert!(text.contains("`LoaderOptions::for_ranks`"), "{text}");
    }
    for text in said("elsewhere") {
        let told = "that of rank 0 has consumed 0, that of rank 1 has 8";
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn the_same_processes_give_the_same_bits_again() {
    assert_eq!(trained(3)[0], trained(3)[0]);
}
