//! Evaluates and predicts with weights.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod job;
#[path = "../../../crates/group/tests/group/port.rs"]
mod port;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use gular_bundle::{Decimal, Dtype, Field, FieldName, Manifest, Statistics, write_manifest};
use job::{Job, bundle, code, image, report, said, write_bundle, write_labelled};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;

/// Number of samples: 44 for training, 9 for the test.
const SAMPLES: usize = 53;

fn trainer(verb: &str, bundle: &Path, weights: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
    command.arg(verb).arg(bundle).arg("--weights").arg(weights);
    command.args(["--device", "cpu", "--batch-size", "8"]).args(more).stdin(Stdio::null());
    command
}

fn run(verb: &str, bundle: &Path, weights: &Path, more: &[&str]) -> Output {
    trainer(verb, bundle, weights, more).output().unwrap()
}

fn eval(bundle: &Path, weights: &Path, more: &[&str]) -> Value {
    report(&run("eval", bundle, weights, &[&["--json"], more].concat()))
}

fn predictions(bundle: &Path, weights: &Path, more: &[&str]) -> String {
    let output = run("predict", bundle, weights, more);
    assert_eq!(code(&output), 0, "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the verb on two ranks, and returns the output of each.
fn two_ranks(verb: &str, bundle: &Path, weights: &Path, more: &[&str]) -> [Output; 2] {
    let port = port::port().to_string();
    let start = |rank: &str| {
        let mut command = trainer(verb, bundle, weights, more);
        command.args(["--rank", rank, "--world-size", "2"]);
        command.args(["--master-addr", "127.0.0.1", "--master-port", &port]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    ["0", "1"].map(start).map(|child| child.wait_with_output().unwrap())
}

/// For each key, the texts and the numbers.
type Rows = BTreeMap<String, (Vec<String>, Vec<f32>)>;

/// The header and the rows of a file; asserts that keys come in order, each once.
fn rows(csv: &str) -> (Vec<String>, Rows) {
    let mut lines = csv.lines();
    let cells = |line: &str| line.split(',').map(String::from).collect::<Vec<_>>();
    let header = cells(lines.next().unwrap());
    let is_number = |name: &String| name.starts_with("probability_") || name.starts_with("score_");
    let n_texts = header.iter().position(is_number).unwrap();
    let mut found = BTreeMap::new();
    let mut last = String::new();
    for line in lines {
        let mut row = cells(line);
        let numbers = row.split_off(n_texts).iter().map(|cell| cell.parse().unwrap()).collect();
        assert!(last < row[0], "`{}` after `{last}`", row[0]);
        last.clone_from(&row[0]);
        found.insert(last.clone(), (row, numbers));
    }
    (header, found)
}

#[test]
fn an_evaluation_says_what_the_training_did_and_its_matrix_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    let trained = report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let matrix = job.dir.path().join("matrix.csv");
    // The size of the pictures is read from the weights.
    let found = eval(dir.path(), &weights, &["--confusion", matrix.to_str().unwrap()]);
    assert_eq!(found["accuracy"], trained["val_accuracy"]);
    let (loss, expected) = (found["loss"].as_f64().unwrap(), trained["val_loss"].as_f64().unwrap());
    assert!((loss - expected).abs() < 1e-5, "{loss}, the training says {expected}");
    assert_eq!((&found["samples"], &found["accuracy_top_5"]), (&9.into(), &1.0.into()));
    assert_eq!(found["weights"], trained["weights"]);
    let rows: Vec<Vec<u64>> = serde_json::from_value(found["confusion"].clone()).unwrap();
    // There are three test samples of each colour.
    assert_eq!(rows.iter().map(|row| row.iter().sum()).collect::<Vec<u64>>(), [3, 3, 3]);
    let right: u64 = (0..3).map(|class| rows[class][class]).sum();
    assert!((right as f64 / 9.0 - found["accuracy"].as_f64().unwrap()).abs() < 1e-12);
    let text = |row: &Vec<u64>| row.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let lines = ["red", "green", "blue"].iter().zip(&rows);
    let lines: String = lines.map(|(name, row)| format!("{name},{}\n", text(row))).collect();
    assert_eq!(fs::read_to_string(matrix).unwrap(), format!("class,red,green,blue\n{lines}"));
    // This prints a table for people, about another split.
    let shown = run("eval", dir.path(), &weights, &["--split", "train", "--quiet"]);
    let table = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(table.starts_with("44 samples of split `train`\nloss "), "{table}");
    assert_eq!(said(&shown), "");
}

#[test]
fn checkpoints_are_weights_too_and_the_best_one_stays() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--keep 1 --epochs 6");
    let trained = report(&job.run(&[]));
    let checkpoints = job.checkpoints();
    let newest = eval(dir.path(), &checkpoints, &[]);
    assert_eq!(newest["accuracy"], trained["val_accuracy"]);
    assert_eq!(eval(dir.path(), &job.newest(), &[])["weights"], newest["weights"]);
    let best = eval(dir.path(), &checkpoints.join("best"), &[]);
    assert_eq!(best["accuracy"], trained["best_val_accuracy"]);
    assert!(best["accuracy"].as_f64() >= newest["accuracy"].as_f64());
    // A changed byte is noticed.
    let model = job.newest().join("model.safetensors");
    let mut bytes = fs::read(&model).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&model, bytes).unwrap();
    let output = run("eval", dir.path(), &checkpoints, &[]);
    assert_eq!(code(&output), 2);
    assert!(
        said(&output).contains("is damaged: `model.safetensors` has digest"),
        "{}",
        said(&output)
    );
}

#[test]
fn predictions_come_once_in_the_order_of_keys_whatever_the_threads_and_ranks() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let all = predictions(dir.path(), &weights, &["--jobs", "1"]);
    assert!(all == predictions(dir.path(), &weights, &["--jobs", "3"]), "other bytes");
    let (header, found) = rows(&all);
    let columns = "key,split,label,prediction,probability_red,probability_green,probability_blue";
    assert_eq!(header.join(","), columns);
    assert_eq!(found.len(), SAMPLES);
    let colours = ["red", "green", "blue"];
    for (key, (texts, numbers)) in &found {
        let i: usize = key.trim_end_matches(".img").parse().unwrap();
        let split = if i < 44 { "train" } else { "val" };
        assert_eq!(texts[1..3], [split, colours[i % 3]], "{key}");
        assert!((numbers.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{numbers:?}");
        let best = numbers.iter().copied().fold(0.0, f32::max);
        let of_prediction = colours.iter().position(|name| *name == texts[3]).unwrap();
        assert!((numbers[of_prediction] - best).abs() < f32::EPSILON, "{texts:?} {numbers:?}");
    }
    // One split is predicted, and compared with the evaluation.
    let (_, of_val) = rows(&predictions(dir.path(), &weights, &["--split", "val"]));
    let right = of_val.values().filter(|(texts, _)| texts[2] == texts[3]).count();
    let accuracy = eval(dir.path(), &weights, &[])["accuracy"].as_f64().unwrap();
    assert!(of_val.len() == 9 && (right as f64 / 9.0 - accuracy).abs() < 1e-12, "{of_val:?}");
    // The two highest scores are written, before the softmax.
    let (header, top) = rows(&predictions(dir.path(), &weights, &["--top", "2", "--logits"]));
    assert_eq!(header.join(","), "key,split,label,prediction,prediction_2,score_1,score_2");
    for (key, (texts, numbers)) in &top {
        assert_eq!(texts[..4], found[key].0[..4]);
        assert!(numbers[0] >= numbers[1] && texts[3] != texts[4], "{texts:?} {numbers:?}");
    }
    // Two ranks, which share no folder but that of the first.
    let out = job.dir.path().join("two.csv");
    let outputs =
        two_ranks("predict", dir.path(), &weights, &["--out", out.to_str().unwrap(), "--json"]);
    for output in &outputs {
        assert_eq!(code(output), 0, "{}", said(output));
    }
    assert_eq!(report(&outputs[0])["samples"], SAMPLES);
    let (_, two) = rows(&fs::read_to_string(out).unwrap());
    assert_eq!(two.len(), SAMPLES);
    for (key, (texts, numbers)) in &two {
        assert_eq!(texts, &found[key].0);
        for (a, b) in numbers.iter().zip(&found[key].1) {
            assert!((a - b).abs() < 1e-5, "{key}: {a} and {b}");
        }
    }
    let outputs = two_ranks("eval", dir.path(), &weights, &["--json"]);
    let (one, two) = (eval(dir.path(), &weights, &[]), report(&outputs[0]));
    assert_eq!((&two["confusion"], &two["samples"]), (&one["confusion"], &one["samples"]));
    assert!(outputs[1].stdout.is_empty());
}

#[test]
fn parts_merge_into_the_bytes_of_one_process() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "");
    report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let at = |name: &str| job.dir.path().join(name);
    let predict = |name: &str, more: &[&str]| {
        let out = at(name);
        let all = [&["--out", out.to_str().unwrap()], more].concat();
        let output = run("predict", dir.path(), &weights, &all);
        assert_eq!(code(&output), 0, "{}", said(&output));
        fs::read(out).unwrap()
    };
    let merge = |names: &[&str], out: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gular-train"));
        let parts = names.iter().map(|name| at(name));
        command.arg("merge").args(parts).arg("--out").arg(at(out)).output().unwrap()
    };
    for end in ["csv", "parquet"] {
        let whole = predict(&format!("whole.{end}"), &[]);
        // There are more parts than the smaller split has batches.
        let names: Vec<String> = (1..=3).map(|i| format!("part{i}.{end}")).collect();
        for (i, name) in names.iter().enumerate() {
            predict(name, &["--part", &format!("{}/3", i + 1)]);
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let output = merge(&names, &format!("merged.{end}"));
        assert_eq!(code(&output), 0, "{}", said(&output));
        assert!(fs::read(at(&format!("merged.{end}"))).unwrap() == whole, "other bytes: {end}");
    }
    // Both formats give the same rows; a part given twice, another table, and rows out of order are
    // errors.
    let output = merge(&["part1.csv", "part2.parquet", "part3.csv"], "mixed.parquet");
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(fs::read(at("mixed.parquet")).unwrap() == fs::read(at("whole.parquet")).unwrap());
    let refused = |names: &[&str], word: &str| {
        let output = merge(names, "refused.csv");
        assert_eq!(code(&output), 2, "{}", said(&output));
        assert!(said(&output).contains(word), "{}", said(&output));
        assert!(!at("refused.csv").exists());
    };
    refused(&["part1.csv", "part2.csv", "part1.csv"], "are both part 1/3");
    refused(&["part1.csv", "part3.parquet"], "only 2 of 3 parts were given; missing: 2/3");
    refused(&["whole.csv", "whole.csv"], "every sample must be in exactly one part");
    predict("half.csv", &["--part", "1/2"]);
    refused(&["part1.csv", "half.csv"], "is one of 3 parts,");
    predict("top.csv", &["--top", "1"]);
    refused(&["part1.csv", "top.csv"], "does not say that it is a part");
    refused(&["whole.csv", "top.csv"], "different columns");
    let text = fs::read_to_string(at("whole.csv")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(1, 2);
    fs::write(at("unsorted.csv"), lines.join("\n")).unwrap();
    refused(&["unsorted.csv"], "not sorted by key");
    fs::write(at("other.csv"), "a,b\n1,2\n").unwrap();
    refused(&["other.csv"], "not written by");
}

#[test]
fn parquet_holds_what_csv_does() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--epochs 1");
    report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let out = job.dir.path().join("answers.parquet");
    predictions(dir.path(), &weights, &["--out", out.to_str().unwrap()]);
    let bytes = fs::read(&out).unwrap();
    predictions(dir.path(), &weights, &["--out", out.to_str().unwrap()]);
    assert!(bytes == fs::read(&out).unwrap(), "other bytes");
    let file = SerializedFileReader::new(File::open(out).unwrap()).unwrap();
    let (header, csv) = rows(&predictions(dir.path(), &weights, &[]));
    let mut n = 0;
    for (row, (key, (texts, numbers))) in file.get_row_iter(None).unwrap().zip(&csv) {
        let row = row.unwrap();
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, header.iter().collect::<Vec<_>>());
        let cells = row.get_column_iter().map(|(_, cell)| cell.to_string());
        let cells: Vec<String> = cells.map(|cell| cell.trim_matches('"').to_owned()).collect();
        assert_eq!(cells[..4], texts[..], "{key}");
        for (cell, number) in cells[4..].iter().zip(numbers) {
            assert!((cell.parse::<f32>().unwrap() - number).abs() < 1e-6, "{cell}, not {number}");
        }
        n += 1;
    }
    assert_eq!(n, SAMPLES);
}

#[test]
fn samples_without_a_class_are_predicted_and_not_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    let media = vec!["image/jpeg".into(), "image/png".into()];
    let encoded = Field::bytes(FieldName::image(), media);
    let label = |i: usize| if i == 45 { -1 } else { i as i64 % 3 };
    write_labelled(dir.path(), encoded, 9, &image, &label);
    let job = Job::new(dir.path(), "--epochs 1 --unknown-labels ignore");
    report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let (_, found) = rows(&predictions(dir.path(), &weights, &["--split", "val"]));
    assert_eq!((found.len(), found["45.img"].0[2].as_str()), (9, ""));
    let refused = run("eval", dir.path(), &weights, &[]);
    assert!(said(&refused).contains("1 of 9 samples of split `val` have no class"));
    for how in ["drop", "ignore"] {
        let found = eval(dir.path(), &weights, &["--unknown-labels", how]);
        assert_eq!(found["samples"], 8, "{how}");
    }
}

#[test]
fn torchvisions_networks_are_trained_and_their_running_sums_evaluated() {
    let dir = tempfile::tempdir().unwrap();
    bundle(dir.path(), 0);
    let job = Job::new(dir.path(), "--network resnet18 --epochs 1 --size 32");
    let trained = report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let found = eval(dir.path(), &weights, &[]);
    assert_eq!(found["accuracy"], trained["val_accuracy"]);
    let (loss, expected) = (found["loss"].as_f64().unwrap(), trained["val_loss"].as_f64().unwrap());
    // Batches of another size are added up in another order; a loss that is large differs by more.
    let most = 1e-4_f64.max(1e-6 * expected.abs());
    assert!((loss - expected).abs() < most, "{loss}, the training says {expected}");
    let told = said(&run("eval", dir.path(), &weights, &["--network", "resnet50"]));
    let expected = "do not fit the network `resnet50`: the tensors do not match what is expected: \
                    the tensor `fc.weight` of the weights is F32 [3, 512], expected F32 [3, 2048] as in the network";
    assert!(told.contains(expected), "{told}");
}

/// Says of all channels of a bundle that their values have this mean and standard deviation.
fn put_statistics(dir: &Path, channels: usize, mean: u64, std: u64) {
    let path = dir.join("manifest.json");
    let manifest = Manifest::parse("manifest.json", &fs::read(&path).unwrap()).unwrap();
    let all = |n: u64| vec![Decimal::parse(&n.to_string()).unwrap(); channels];
    let (sum, sum_of_squares) = (all(100 * mean), all(100 * (std * std + mean * mean)));
    let statistics = Some(Statistics { pixels: 100, counts: Vec::new(), sum, sum_of_squares });
    fs::remove_file(&path).unwrap();
    write_manifest(dir, &Manifest { statistics, ..manifest }).unwrap();
}

/// Returns a safetensors file without its metadata.
fn without_texts(file: &[u8]) -> Vec<u8> {
    let (len, rest) = file.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let mut header: Value = serde_json::from_slice(header).unwrap();
    assert!(header.as_object_mut().unwrap().remove("__metadata__").is_some());
    let header = header.to_string().into_bytes();
    [&(header.len() as u64).to_le_bytes()[..], &header, data].concat()
}

#[test]
fn pixels_of_many_bands_are_normalised_as_in_the_training_whatever_bundle_is_scored() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, other) = (dir.path().join("ours"), dir.path().join("other"));
    let value = |i: usize| (0..20 * 30 * 5).map(|p| (i % 3 * 60 + p % 41) as u8).collect();
    for (bundle, mean, std) in [(&ours, 90, 50), (&other, 10, 7)] {
        let field = Field::fixed(FieldName::image(), Dtype::U8, vec![20, 30, 5]);
        write_bundle(bundle, field, 9, &value);
        put_statistics(bundle, 5, mean, std);
    }
    let job = Job::new(&ours, "");
    let expected = report(&job.run(&[]))["val_loss"].as_f64().unwrap();
    let weights = job.checkpoints().join("weights.safetensors");
    let loss = |bundle: &Path, weights: &Path| {
        let output = run("eval", bundle, weights, &["--json"]);
        (report(&output)["loss"].as_f64().unwrap(), said(&output))
    };
    for bundle in [&ours, &other] {
        let (found, told) = loss(bundle, &weights);
        assert!((found - expected).abs() < 1e-5, "{found}, the training says {expected}");
        assert!(!told.contains("warning"), "{told}");
    }
    let (found, told) = loss(&other, &job.newest());
    assert!((found - expected).abs() < 1e-5, "{found}, the training says {expected}");
    assert!(!told.contains("warning"), "{told}");
    // Weights from other programs have no metadata.
    let silent = dir.path().join("silent.safetensors");
    fs::write(&silent, without_texts(&fs::read(&weights).unwrap())).unwrap();
    let (found, told) = loss(&other, &silent);
    assert!((found - expected).abs() > 1e-3, "the test shows nothing: {found}");
    let expected = "warning: the weights do not say how pixels were normalised; pixels of 5";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn what_does_not_fit_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, bands) = (dir.path().join("ours"), dir.path().join("bands"));
    bundle(&ours, 0);
    let field = Field::fixed(FieldName::image(), Dtype::U8, vec![20, 30, 5]);
    write_bundle(&bands, field, 9, &|i| vec![i as u8; 20 * 30 * 5]);
    let job = Job::new(&ours, "--epochs 1");
    report(&job.run(&[]));
    let weights = job.checkpoints().join("weights.safetensors");
    let check = |bundle: &Path, weights: &Path, more: &[&str], words: &str| {
        let output = run("eval", bundle, weights, more);
        assert_eq!((code(&output), said(&output).contains(words)), (2, true), "{}", said(&output));
    };
    check(&ours, &dir.path().join("none"), &[], "cannot read the weights `");
    check(&bands, &weights, &[], "for images with 3 channels, but the images of the bundle have 5");
    let other = "network `resnet18` has a tensor `conv1.weight`, but the file `";
    check(&ours, &weights, &["--network", "resnet18"], other);
    check(&ours, &weights, &["--split", "test"], "no samples of split `test`");
    // The error comes before anything is computed.
    let nowhere = ["--confusion", "no/such/folder/c.csv"];
    let output = run("eval", &ours, &weights, &nowhere);
    let told = said(&output);
    assert_eq!(code(&output), 2, "{told}");
    assert!(told.contains("the folder `no/such/folder` does not exist"), "{told}");
    assert!(!told.contains("each once"), "{told}");
    // Classes by other names, and as many as the weights have not.
    let renamed = |from: &str, to: &str| {
        let copy = tempfile::tempdir_in(dir.path()).unwrap().keep();
        bundle(&copy, 0);
        let path = copy.join("manifest.json");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).unwrap();
        copy
    };
    let said_so = "class 1 is `green` in the weights and `khaki` in the bundle";
    check(&renamed("\"green\"", "\"khaki\""), &weights, &[], said_so);
    let more = renamed("\"blue\"", "\"blue\",\"grey\"");
    let said_so =
        "the weights have 3 classes (`last.weight` has as many rows), but the bundle has 4";
    check(&more, &weights, &[], said_so);
    let refused = said(&run("predict", &more, &weights, &[]));
    assert!(
        refused.contains("but the bundle has 4; to predict the classes of the weights"),
        "{refused}"
    );
    let (header, found) = rows(&predictions(&more, &weights, &["--other-classes"]));
    assert!(!header.contains(&"label".to_owned()) && found.len() == SAMPLES, "{header:?}");
    fs::write(dir.path().join("text.safetensors"), "weights, they said").unwrap();
    check(&ours, &dir.path().join("text.safetensors"), &[], "is not a safetensors file");
}

#[test]
fn a_call_without_a_verb_says_the_new_form() {
    let output = Command::new(env!("CARGO_BIN_EXE_gular-train"))
        .args(["bundle", "--json"])
        .output()
        .unwrap();
    assert_eq!(code(&output), 2);
    let told = said(&output);
    assert!(
        told.contains("hint: what was `gular-train BUNDLE …` is now `gular-train train"),
        "{told}"
    );
}
