//! Reproduces every order that PyTorch gave in `sampler/vectors.json`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use gular_order::Generator;
use gular_order::pytorch::{
    ShuffledLoader, batch_sampler, distributed_sampler, random_sampler, random_split, randperm,
    split_lengths,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

fn vectors() -> Value {
    serde_json::from_str(include_str!("sampler/vectors.json")).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn sha(indices: impl Iterator<Item = u64>) -> String {
    let mut hasher = Sha256::new();
    let mut buffer = Vec::with_capacity(1 << 16);
    for index in indices {
        buffer.extend_from_slice(&index.to_le_bytes());
        if buffer.len() == 1 << 16 {
            hasher.update(&buffer);
            buffer.clear();
        }
    }
    hasher.update(&buffer);
    hex(&hasher.finalize())
}

fn u64s(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect()
}

/// A seed in the file may be negative: PyTorch reads it as two's complement.
fn seed(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| value.as_i64().unwrap() as u64)
}

/// Compares with an entry of `len`, `sha256` and either all values or both ends.
fn check(indices: &[u64], expected: &Value, what: &str) {
    assert_eq!(indices.len() as u64, expected["len"].as_u64().unwrap(), "{what}");
    assert_eq!(sha(indices.iter().copied()), expected["sha256"].as_str().unwrap(), "{what}");
    match expected.get("values") {
        Some(values) => assert_eq!(indices, u64s(values), "{what}"),
        None => {
            assert!(indices.starts_with(&u64s(&expected["head"])), "{what}");
            assert!(indices.ends_with(&u64s(&expected["tail"])), "{what}");
        }
    }
}

#[test]
fn generator_states_are_pytorchs() {
    let vectors = vectors();
    for v in vectors["generator_state"].as_array().unwrap() {
        let state = Generator::new(seed(&v["seed"])).state_bytes();
        assert_eq!(state.len() as u64, v["state_bytes"].as_u64().unwrap());
        assert_eq!(hex(&Sha256::digest(&state)), v["state_sha256"].as_str().unwrap(), "{v}");
    }
    let mut generator = Generator::new(42);
    let _ = randperm(1000, &mut generator);
    let expected = vectors["generator_state_after_randperm_1000_seed_42"].as_str().unwrap();
    assert_eq!(hex(&Sha256::digest(generator.state_bytes())), expected);
    let mut generator = Generator::new(123);
    for v in vectors["int64_random_draws_seed_123"].as_array().unwrap() {
        // `random_()` on int64 uses 63 bits.
        assert_eq!(generator.next_u64() & (u64::MAX >> 1), v.as_u64().unwrap());
    }
}

#[test]
fn randperm_is_pytorchs() {
    let vectors = vectors();
    for v in vectors["randperm"].as_array().unwrap() {
        let mut generator = Generator::new(seed(&v["seed"]));
        let order: Vec<u64> = randperm(v["n"].as_u64().unwrap(), &mut generator).iter().collect();
        check(&order, v, &v.to_string());
    }
    for v in vectors["randperm_twice"].as_array().unwrap() {
        let mut generator = Generator::new(seed(&v["seed"]));
        for part in ["first", "second"] {
            let order: Vec<u64> =
                randperm(v["n"].as_u64().unwrap(), &mut generator).iter().collect();
            check(&order, &v[part], part);
        }
    }
}

/// The lengths are on both sides of the one where PyTorch changes its algorithm; this takes 0.9 GB
/// of memory.
#[test]
fn long_randperm_is_pytorchs() {
    if std::env::var_os("GULAR_LONG_TESTS").is_none() {
        println!("skipped: set GULAR_LONG_TESTS=1 to permute 2 x 214 million indices");
        return;
    }
    for v in vectors()["randperm_large"].as_array().unwrap() {
        let order = randperm(v["n"].as_u64().unwrap(), &mut Generator::new(seed(&v["seed"])));
        assert_eq!(order.iter().take(6).collect::<Vec<_>>(), u64s(&v["head"]));
        assert_eq!(sha(order.iter()), v["sha256"].as_str().unwrap());
    }
}

#[test]
fn distributed_sampler_is_pytorchs() {
    for v in vectors()["distributed_sampler"].as_array().unwrap() {
        let (n, world) = (v["n"].as_u64().unwrap(), v["world"].as_u64().unwrap());
        let flag = |name: &str| v[name].as_bool().unwrap();
        let epoch = v["epoch"].as_u64().unwrap();
        for (rank, expected) in v["ranks"].as_array().unwrap().iter().enumerate() {
            let ours = distributed_sampler(
                n,
                (rank as u64, world),
                seed(&v["seed"]),
                epoch,
                flag("shuffle"),
                flag("drop_last"),
            );
            let what = format!("n {n} world {world} rank {rank}");
            if let Some(values) = expected.get("v") {
                assert_eq!(ours, u64s(values), "{what}");
            } else {
                assert_eq!(
                    ours.len() as u64,
                    expected["len"].as_u64().unwrap(),
                    "{what}: {expected}"
                );
                let digest = sha(ours.into_iter());
                assert_eq!(&digest[..16], expected["sha256"].as_str().unwrap(), "{what}");
            }
        }
    }
}

#[test]
fn batch_sampler_is_pytorchs() {
    for v in vectors()["batch_sampler"].as_array().unwrap() {
        let indices: Vec<u64> = (0..v["n"].as_u64().unwrap()).collect();
        let batch = v["batch"].as_u64().unwrap() as usize;
        let ours = batch_sampler(&indices, batch, v["drop_last"].as_bool().unwrap());
        let expected: Vec<Vec<u64>> = v["batches"].as_array().unwrap().iter().map(u64s).collect();
        assert_eq!(ours, expected);
    }
}

#[test]
fn shuffled_data_loader_is_pytorchs() {
    for v in vectors()["dataloader_shuffle"].as_array().unwrap() {
        let n = v["n"].as_u64().unwrap();
        let mut loader = match v.get("generator_seed") {
            Some(s) => ShuffledLoader::with_generator(n, seed(s)),
            None => ShuffledLoader::with_global_seed(n, seed(&v["global_seed"])),
        };
        for (epoch, expected) in v["epochs"].as_array().unwrap().iter().enumerate() {
            let order: Vec<u64> = loader.next_epoch().iter().collect();
            check(&order, expected, &format!("n {n} epoch {epoch} {}", v["how"]));
        }
    }
}

#[test]
fn random_sampler_is_pytorchs() {
    let vectors = vectors();
    let of = |name: &str| vectors[name].as_array().unwrap();
    for v in of("random_sampler").iter().chain(of("random_sampler_wide")) {
        let mut generator = Generator::new(seed(&v["seed"]));
        let replacement = v["replacement"].as_bool().unwrap();
        let n = v["n"].as_u64().unwrap();
        let ours = random_sampler(n, v["num_samples"].as_u64(), replacement, &mut generator);
        check(&ours, v, &v.to_string());
    }
}

#[test]
fn random_split_is_pytorchs() {
    for v in vectors()["random_split"].as_array().unwrap() {
        let n = v["n"].as_u64().unwrap();
        let lengths: Vec<f64> =
            v["lengths"].as_array().unwrap().iter().map(|l| l.as_f64().unwrap()).collect();
        let lengths = if lengths.iter().sum::<f64>() > 1.5 {
            lengths.iter().map(|l| *l as u64).collect()
        } else {
            split_lengths(n, &lengths)
        };
        let parts = random_split(&lengths, &mut Generator::new(seed(&v["seed"])));
        for (part, expected) in parts.iter().zip(v["parts"].as_array().unwrap()) {
            check(part, expected, &v["lengths"].to_string());
        }
        assert_eq!(parts.len(), v["parts"].as_array().unwrap().len());
    }
}
