//! Tensors, optimisers and checkpoints of training runs, compared with libtorch's own.

#![cfg(feature = "torch")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixtures;

use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fixtures::{Recipe, make};
use gular_runtime::checkpoint::{CheckpointError, Checkpoints};
use gular_runtime::order::LoaderState;
use gular_runtime::torch::{
    AdamW, Optimiser, Saver, Sgd, TrainState, load_newest, load_weights, save, set_step_rng,
    weights, write_weights,
};
use gular_runtime::{Digest, Error, Loader, LoaderOptions, Split, jpeg_backend};
use tch::nn::{self, Module as _, OptimizerConfig as _, VarStore};
use tch::{Device, Kind, Tensor};

/// libtorch has one generator for the process, and tests share a process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn net(seed: u64) -> (VarStore, nn::Sequential) {
    set_step_rng(seed, u64::MAX, 0);
    let store = VarStore::new(Device::Cpu);
    let root = store.root();
    let net = nn::seq()
        .add(nn::linear(&root / "first", 7, 9, Default::default()))
        .add_fn(Tensor::tanh)
        .add_fn(|x| x.dropout(0.3, true))
        .add(nn::linear(&root / "last", 9, 3, Default::default()));
    (store, net)
}

fn loss(net: &nn::Sequential, step: u64) -> Tensor {
    set_step_rng(5, step, 0);
    let x = Tensor::randn([16, 7], (Kind::Float, Device::Cpu));
    net.forward(&x).square().mean(Kind::Float)
}

fn difference(a: &VarStore, b: &VarStore) -> f64 {
    let (a, b) = (a.variables(), b.variables());
    let of = |name: &String| (&a[name] - &b[name]).abs().max().double_value(&[]);
    a.keys().map(of).fold(0.0, f64::max)
}

fn state(step: u64) -> TrainState {
    let made = make(&Recipe::default());
    let loader = Loader::new(made.bundle, LoaderOptions::new(Split::Train)).unwrap();
    let loader: LoaderState = loader.state();
    let figures = [("loss".to_owned(), 0.1)].into();
    let decoder = jpeg_backend().into();
    TrainState { step, seed: 5, loader, decoder, machine: None, figures }
}

#[test]
fn adamw_is_libtorchs() {
    let _alone = alone();
    let ((ours, a), (theirs, b)) = (net(1), net(1));
    let mut adamw = AdamW::new(&ours);
    adamw.weight_decay = 0.05;
    let mut reference =
        nn::AdamW { wd: 0.05, ..nn::AdamW::default() }.build(&theirs, 1e-2).unwrap();
    for step in 0..50 {
        let rate = 1e-2 / (1.0 + step as f64);
        adamw.zero_grad();
        loss(&a, step).backward();
        adamw.step(rate).unwrap();
        reference.set_lr(rate);
        reference.backward_step(&loss(&b, step));
    }
    let difference = difference(&ours, &theirs);
    assert!(difference <= 2e-7, "{difference}");
}

#[test]
fn sgd_is_libtorchs() {
    let _alone = alone();
    for (momentum, nesterov, decay) in [(0.0, false, 0.0), (0.9, false, 0.01), (0.9, true, 0.01)] {
        let ((ours, a), (theirs, b)) = (net(2), net(2));
        let mut sgd = Sgd::new(&ours, momentum);
        (sgd.nesterov, sgd.weight_decay) = (nesterov, decay);
        let config = nn::Sgd { momentum, dampening: 0.0, wd: decay, nesterov };
        let mut reference = config.build(&theirs, 0.05).unwrap();
        for step in 0..50 {
            sgd.zero_grad();
            loss(&a, step).backward();
            sgd.step(0.05).unwrap();
            reference.backward_step(&loss(&b, step));
        }
        let difference = difference(&ours, &theirs);
        assert!(difference <= 2e-7, "momentum {momentum} nesterov {nesterov}: {difference}");
    }
}

#[test]
fn variables_without_a_gradient_stay() {
    let _alone = alone();
    let part = |net: &nn::Sequential, store: &VarStore, step: u64| {
        let loss = loss(net, step);
        let with_head = store.variables()["head"].square().sum(Kind::Float);
        // The head has a gradient in one of three steps.
        if step.is_multiple_of(3) { loss + with_head } else { loss }
    };
    let ((ours, a), (theirs, b)) = (net(1), net(1));
    for store in [&ours, &theirs] {
        let _ = store.root().ones("head", &[5, 70]);
    }
    let mut adamw = AdamW::new(&ours);
    let head = |store: &VarStore| store.variables()["head"].copy();
    for step in 0..9 {
        let before = head(&ours);
        adamw.zero_grad();
        part(&a, &ours, step).backward();
        adamw.step(1e-2).unwrap();
        assert_eq!(head(&ours) == before, step % 3 != 0, "step {step}");
    }
    // While the head has none, the others are what they are when libtorch steps them alone.
    let mut reference =
        nn::AdamW { wd: 0.01, ..nn::AdamW::default() }.build(&theirs, 1e-2).unwrap();
    for step in 0..9 {
        reference.backward_step(&loss(&b, step));
    }
    ours.variables().into_iter().filter(|(name, _)| name != "head").for_each(|(name, ours)| {
        let difference = (ours - &theirs.variables()[&name]).abs().max().double_value(&[]);
        assert!(difference <= 2e-7, "{name}: {difference}");
    });
}

#[test]
fn a_frozen_variable_stays() {
    let _alone = alone();
    let (store, net) = net(1);
    let mut adamw = AdamW::new(&store);
    let step = |adamw: &mut AdamW, number| {
        adamw.zero_grad();
        loss(&net, number).backward();
        adamw.step(1e-2).unwrap();
    };
    step(&mut adamw, 0);
    let frozen = store.variables()["first.weight"].set_requires_grad(false);
    let before = frozen.copy();
    step(&mut adamw, 1);
    assert_eq!(frozen, before);
}

#[test]
fn variables_that_were_moved_are_an_error() {
    let _alone = alone();
    let (mut store, net) = net(1);
    let mut adamw = AdamW::new(&store);
    store.double();
    net.forward(&Tensor::ones([2, 7], (Kind::Double, Device::Cpu))).sum(Kind::Double).backward();
    let error = adamw.step(0.1).unwrap_err().to_string();
    assert!(
        error.contains("`first.bias`") && error.contains("make this optimiser after"),
        "{error}"
    );
}

#[test]
fn weights_of_halves_move_by_less_than_halves_can_say() {
    let _alone = alone();
    let mut store = VarStore::new(Device::Cpu);
    let weight = store.root().ones("weight", &[4]);
    store.bfloat16();
    let mut sgd = Sgd::new(&store, 0.0);
    for _ in 0..100 {
        sgd.zero_grad();
        weight.sum(Kind::BFloat16).backward();
        sgd.step(1e-3).unwrap();
    }
    // 1 - 0.001 is 1 as `bf16`; so often, it is 0.9.
    let weight = weight.double_value(&[0]);
    assert!((weight - 0.9).abs() < 2e-3, "{weight}");
    let wide = sgd.tensors()["weights.weight"].double_value(&[0]);
    assert!((wide - 0.9).abs() < 1e-5, "{wide}");
}

#[test]
fn variables_of_several_kinds_share_no_bucket() {
    let _alone = alone();
    let step = |kinds: [Kind; 3]| {
        let store = VarStore::new(Device::Cpu);
        let mut variables = Vec::new();
        for (name, kind) in ["a", "b", "c"].iter().zip(kinds) {
            let mut variable = store.root().ones(name, &[3, 5]);
            variable.set_data(&(variable.detach() * 2).to_kind(kind));
            variables.push(variable);
        }
        let mut adamw = AdamW::new(&store);
        for variable in &variables {
            variable.sum(Kind::Double).backward();
        }
        adamw.step(0.1).unwrap();
        variables.iter().map(|v| (v.kind(), v.double_value(&[1, 2]))).collect::<Vec<_>>()
    };
    let mixed = step([Kind::Float, Kind::Double, Kind::Float]);
    assert_eq!(mixed[0], step([Kind::Float; 3])[0]);
    assert_eq!(mixed[1], step([Kind::Double; 3])[1]);
    assert!(mixed.iter().all(|(_, value)| *value < 1.95), "{mixed:?}");
}

#[test]
fn a_restored_training_ends_in_the_same_bits() {
    let _alone = alone();
    for adam in [true, false] {
        let optimiser = |store: &VarStore| -> Box<dyn Optimiser> {
            if adam { Box::new(AdamW::new(store)) } else { Box::new(Sgd::new(store, 0.9)) }
        };
        let run = |store: &VarStore, net: &nn::Sequential, o: &mut dyn Optimiser, steps| {
            for step in steps {
                o.zero_grad();
                loss(net, step).backward();
                o.step(0.03).unwrap();
            }
            weights(store).unwrap()
        };
        let (store, whole) = net(3);
        let expected = run(&store, &whole, optimiser(&store).as_mut(), 0..20);

        let dir = tempfile::tempdir().unwrap();
        let keep = NonZeroUsize::new(2).unwrap();
        let checkpoints = Checkpoints::open(dir.path(), Digest::of(b"b"), keep).unwrap();
        let (store, first) = net(3);
        let mut o = optimiser(&store);
        run(&store, &first, o.as_mut(), 0..9);
        save(&checkpoints, &state(9), &store, o.as_ref()).unwrap();

        let (mut store, second) = net(77);
        let mut o = optimiser(&store);
        let (found, loaded) = load_newest(&checkpoints, &mut store, o.as_mut()).unwrap().unwrap();
        assert_eq!((found, loaded.step), (state(9), 9));
        let resumed = run(&store, &second, o.as_mut(), 9..20);
        assert!(resumed == expected, "the weights differ after the resume");
    }
}

#[test]
fn weights_are_the_same_bytes_each_time_and_read_by_tch() {
    let _alone = alone();
    let (store, _) = net(4);
    let bytes = weights(&store).unwrap();
    assert_eq!(bytes, weights(&store).unwrap());
    assert_eq!(bytes, weights(&net(4).0).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w.safetensors");
    std::fs::write(&path, &bytes).unwrap();
    let (mut other, _) = net(9);
    assert_ne!(bytes, weights(&other).unwrap());
    other.load(&path).unwrap();
    assert_eq!(bytes, weights(&other).unwrap());
    let (mut third, _) = net(10);
    load_weights(&mut third, &bytes).unwrap();
    assert_eq!(bytes, weights(&third).unwrap());
}

#[test]
fn tensors_of_another_model_are_refused_and_change_nothing() {
    let _alone = alone();
    let (mut store, _) = net(6);
    let before = weights(&store).unwrap();
    let check = |store: &mut VarStore, bytes: &[u8], word: &str| {
        let error = load_weights(store, bytes).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    let other = |add: &dyn Fn(nn::Path<'_>)| {
        let store = VarStore::new(Device::Cpu);
        add(store.root());
        weights(&store).unwrap()
    };
    check(&mut store, b"no safetensors", "do not match");
    let more = other(&|p| drop(p.zeros("extra", &[1])));
    check(&mut store, &more, "tensor `extra`, which the model does not have");
    let shape = other(&|p| drop((p / "last").zeros("bias", &[4])));
    check(&mut store, &shape, "`last.bias` is F32 [4], expected F32 [3]");
    let few = other(&|p| drop((p / "last").zeros("bias", &[3])));
    check(&mut store, &few, "no tensor `first.bias`");
    assert_eq!(before, weights(&store).unwrap());

    let dir = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::open(dir.path(), Digest::of(b"b"), NonZeroUsize::MIN).unwrap();
    save(&checkpoints, &state(1), &store, &Sgd::new(&store, 0.9)).unwrap();
    let mut adamw = AdamW::new(&store);
    let error = load_newest(&checkpoints, &mut store, &mut adamw).unwrap_err();
    assert!(
        matches!(error, Error::Checkpoint(CheckpointError::Unfit { .. })) && error.hint().is_some(),
        "{error}"
    );
    assert!(error.to_string().contains("optimiser.safetensors"), "{error}");
}

#[test]
fn random_numbers_are_a_function_of_seed_and_step() {
    let _alone = alone();
    let draw = |seed, step| {
        set_step_rng(seed, step, 0);
        Vec::<f32>::try_from(Tensor::rand([4], (Kind::Float, Device::Cpu))).unwrap()
    };
    let first = draw(1, 2);
    assert_ne!(first, draw(1, 3));
    assert_ne!(first, draw(2, 2));
    assert_eq!(first, draw(1, 2));
}

#[test]
fn a_checkpoint_beside_the_training_is_of_the_moment_it_was_begun() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let state = state(3);
    let open = || {
        let keep = NonZeroUsize::new(2).unwrap();
        Checkpoints::open(dir.path(), state.loader.bundle, keep).unwrap()
    };
    let (store, layers) = net(1);
    let mut adamw = AdamW::new(&store);
    loss(&layers, 0).backward();
    adamw.step(0.1).unwrap();
    let (model, moments) = (weights(&store).unwrap(), adamw.state().unwrap());
    let mut saver = Saver::new(open());
    assert_eq!(saver.begin(&state, &store, &adamw).unwrap(), None);
    // The training run continues at once.
    adamw.step(0.1).unwrap();
    let saved = saver.finish().unwrap().unwrap();
    assert_eq!((saved.step, saver.is_busy(), saver.poll().unwrap()), (3, false, None));
    assert!(!saved.took.is_zero() && weights(&store).unwrap() != model);
    drop(saver);
    let (mut again, _) = net(2);
    let mut optimiser = AdamW::new(&again);
    let (found, _) = load_newest(&open(), &mut again, &mut optimiser).unwrap().unwrap();
    assert_eq!(found, state);
    assert!(weights(&again).unwrap() == model && optimiser.state().unwrap() == moments);
}

#[test]
fn a_checkpoint_that_fails_beside_the_training_is_told_at_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("checkpoints");
    let state = state(3);
    let keep = NonZeroUsize::new(2).unwrap();
    let checkpoints = Checkpoints::open(&folder, state.loader.bundle, keep).unwrap();
    let store = VarStore::new(Device::Cpu);
    let adamw = AdamW::new(&store);
    let mut saver = Saver::new(checkpoints);
    std::fs::remove_dir(&folder).unwrap();
    assert!(saver.begin(&state, &store, &adamw).is_ok());
    let error = saver.begin(&state, &store, &adamw).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");
    // The error is returned once; the last save of a run ignores it.
    assert!(saver.begin(&state, &store, &adamw).is_ok());
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(saver.save(&state, &store, &adamw).unwrap().step, 3);
}

#[test]
fn a_saver_whose_thread_cannot_be_started_says_so() {
    const STATE: &str = "GULAR_TEST_STATE_WITHOUT_THREADS";
    let Ok(state) = std::env::var(STATE) else {
        // A process whose threads would need more stack than there are addresses.
        let name = "a_saver_whose_thread_cannot_be_started_says_so";
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args([name, "--test-threads=1"]).env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let done = test.env(STATE, serde_json::to_string(&state(3)).unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{done:?}");
        return;
    };
    let state: TrainState = serde_json::from_str(&state).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let keep = NonZeroUsize::new(2).unwrap();
    let checkpoints = Checkpoints::open(dir.path(), state.loader.bundle, keep).unwrap();
    let store = VarStore::new(Device::Cpu);
    let adamw = AdamW::new(&store);
    let mut saver = Saver::new(checkpoints);
    let error = saver.begin(&state, &store, &adamw).unwrap_err();
    let is_own = matches!(&error, Error::Checkpoint(CheckpointError::Thread { .. }));
    assert!(is_own && error.hint().unwrap().contains("ulimit -u"), "{error}");
    // The last checkpoint of a run needs no thread.
    assert_eq!(saver.save(&state, &store, &adamw).unwrap().step, 3);
}

#[test]
fn moments_of_halves_are_f32_and_fall() {
    let _alone = alone();
    let mut store = VarStore::new(Device::Cpu);
    let weight = store.root().ones("weight", &[4]);
    store.bfloat16();
    let mut adamw = AdamW::new(&store);
    let square = |adamw: &AdamW| {
        let state = &adamw.tensors()["exp_avg_sq.weight"];
        assert_eq!(state.kind(), Kind::Float);
        state.double_value(&[0])
    };
    (&weight * 3.0).sum(Kind::BFloat16).backward();
    adamw.step(0.1).unwrap();
    let first = square(&adamw);
    for _ in 0..700 {
        adamw.zero_grad();
        (&weight * 0.0).sum(Kind::BFloat16).backward();
        adamw.step(0.0).unwrap();
    }
    let ratio = square(&adamw) / first;
    assert!((ratio - 0.999_f64.powi(700)).abs() < 1e-3, "{ratio}");
    assert_eq!(weight.kind(), Kind::BFloat16);
    assert!(weight.double_value(&[0]) < 1.0, "the step was taken");
}

#[test]
fn weights_go_to_a_file_as_they_go_to_memory() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = net(1);
    let path = dir.path().join("weights.safetensors");
    let digest = write_weights(&store, &path).unwrap();
    let bytes = weights(&store).unwrap();
    assert_eq!((std::fs::read(path).unwrap(), digest), (bytes.clone(), Digest::of(&bytes)));
}
