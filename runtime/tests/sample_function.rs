//! A function that is called with each sample before it is part of a batch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use gular_bundle::{Axes, Dtype, Field, FieldName};
use gular_runtime::{
    AxisOrder, Bundle, Each, Error, GivenSample, Loader, LoaderError, LoaderOptions, Normalise,
    Numbers, ResultValue, SampleFunction, SampleLane, SampleResult, Split, Transform, Untaken,
    Values,
};

use crate::fixtures::make_fields;

const WIDTH: usize = 6;
const HEIGHT: usize = 4;

/// A result that can be changed.
#[derive(Default)]
struct Changed {
    values: Vec<ResultValue>,
    bytes: Vec<u8>,
}

/// Calls a function of the bytes of each field, which come first, and of the types and shapes.
struct Calls<F>(F);

trait Function: Fn(&GivenSample<'_>, &mut Changed) -> Result<(), String> + Send + Sync {}

impl<F: Fn(&GivenSample<'_>, &mut Changed) -> Result<(), String> + Send + Sync> Function for F {}

impl<F: Function + 'static> SampleFunction for Calls<F> {
    fn lane(self: Arc<Self>) -> Result<Box<dyn SampleLane>, String> {
        Ok(Box::new(CallsLane { calls: self, picture: Vec::new(), made: VecDeque::new() }))
    }
}

/// The results that were not taken.
struct CallsLane<F> {
    calls: Arc<Calls<F>>,
    picture: Vec<u8>,
    made: VecDeque<(Option<i64>, Result<Changed, Untaken>)>,
}

impl<F: Function> SampleLane for CallsLane<F> {
    fn picture(&mut self, len: usize) -> Result<&mut [u8], String> {
        self.picture.resize(len, 0);
        Ok(&mut self.picture)
    }

    fn give(&mut self, sample: &GivenSample<'_>) -> Result<(), String> {
        let mut changed = Changed::default();
        for value in &sample.values {
            let start = changed.bytes.len();
            changed.bytes.extend_from_slice(value.bytes.unwrap_or(&self.picture));
            changed.values.push(ResultValue {
                name: value.name.to_owned(),
                numbers: value.numbers.clone(),
                planes: false,
                range: start..changed.bytes.len(),
            });
        }
        let made = (self.calls.0)(sample, &mut changed).map(|()| changed);
        self.made.push_back((sample.label, made.map_err(Untaken::Failed)));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.made.len() == 3
    }

    fn take(
        &mut self,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), Untaken> {
        let (label, made) = self.made.pop_front().expect("a sample was given");
        let Changed { values, bytes } = made?;
        Ok(take(&SampleResult { label, values, bytes: &bytes })?)
    }
}

fn each(
    function: impl Fn(&GivenSample<'_>, &mut Changed) -> Result<(), String> + Send + Sync + 'static,
) -> Option<Each> {
    Some(Each::new(Arc::new(Calls(function))))
}

fn options(each: Option<Each>) -> LoaderOptions {
    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    LoaderOptions {
        batch_size: 3,
        threads: 2,
        transform: Transform::Resize { width, height },
        fields: vec!["mask".into()],
        each,
        ..LoaderOptions::new(Split::Train)
    }
}

/// Images of `u16` with two bands, bands first, and masks of `u8`.
fn bundle() -> (tempfile::TempDir, Arc<Bundle>) {
    let shape = |bands: &[u64]| [bands, &[HEIGHT as u64, WIDTH as u64]].concat();
    let axes = |text: &str| Some(text.parse::<Axes>().unwrap());
    let image =
        Field { axes: axes("cyx"), ..Field::fixed(FieldName::image(), Dtype::U16, shape(&[2])) };
    let mask = FieldName::parse("mask").unwrap();
    let mask = Field {
        axes: axes("yx"),
        grid: Some(FieldName::image()),
        ..Field::fixed(mask, Dtype::U8, shape(&[]))
    };
    let value = |i: usize, field: &str| -> Vec<u8> {
        let n = WIDTH * HEIGHT;
        match field {
            "mask" => (0..n).map(|at| (i * 7 + at) as u8).collect(),
            _ => (0..2 * n).flat_map(|at| ((i * 100 + at * 10) as u16).to_le_bytes()).collect(),
        }
    };
    let made = make_fields(image, &[mask], &value);
    (made.dir, made.bundle)
}

/// The bytes of `field` in an epoch.
fn epoch(bundle: &Arc<Bundle>, options: &LoaderOptions, field: &str) -> Result<Vec<u8>, Error> {
    let mut loader = Loader::new(Arc::clone(bundle), options.clone())?;
    let mut all = Vec::new();
    for batch in loader.epoch(0) {
        let batch = batch?;
        match batch.field(field) {
            Some(Values::Array(array)) => all.extend_from_slice(array.bytes),
            Some(Values::Bytes(values)) => all.extend(values.concat()),
            None => unreachable!("no `{field}`"),
        }
    }
    Ok(all)
}

#[test]
fn what_a_function_leaves_is_as_without_it() {
    let (_dir, bundle) = bundle();
    for (numbers, layout) in [
        (Numbers::Stored, AxisOrder::Contiguous),
        (Numbers::F32, AxisOrder::ChannelsLast),
        (Numbers::F16, AxisOrder::Contiguous),
    ] {
        let normalise = Normalise { scale: None, mean: vec![0.1, 0.2], std: vec![2.0, 3.0] };
        let of = |each| LoaderOptions {
            numbers,
            layout,
            normalise: normalise.clone().into(),
            ..options(each)
        };
        let (plain, through) = (of(None), of(each(|_, _| Ok(()))));
        for field in ["image", "mask"] {
            let [plain, through] = [&plain, &through].map(|o| epoch(&bundle, o, field).unwrap());
            assert_eq!(plain, through, "{field} {numbers:?} {layout:?}");
        }
    }
}

#[test]
fn floats_are_final_and_may_have_their_bands_first() {
    let (_dir, bundle) = bundle();
    let n = WIDTH * HEIGHT;
    let floats = move |planes: bool| {
        each(move |_, result| {
            let shape = if planes { vec![2, HEIGHT, WIDTH] } else { vec![HEIGHT, WIDTH, 2] };
            let number = |at: usize| if planes { at } else { at % 2 * n + at / 2 };
            let start = result.bytes.len();
            result.bytes.extend((0..2 * n).flat_map(|at| (number(at) as f32).to_ne_bytes()));
            let image = &mut result.values[0];
            (image.numbers, image.planes) = (Some((Dtype::F32, shape)), planes);
            image.range = start..result.bytes.len();
            Ok(())
        })
    };
    let expected: Vec<u8> = (0..2 * n).flat_map(|at| (at as f32).to_ne_bytes()).collect();
    for planes in [false, true] {
        let options = LoaderOptions {
            numbers: Numbers::F32,
            layout: AxisOrder::Contiguous,
            normalise: Normalise::scaled().into(),
            ..options(floats(planes))
        };
        let found = epoch(&bundle, &options, "image").unwrap();
        assert!(found.chunks_exact(expected.len()).all(|one| one == expected), "{planes}");
        let stored = LoaderOptions { numbers: Numbers::Stored, ..options };
        let error = epoch(&bundle, &stored, "image").unwrap_err().to_string();
        assert!(error.ends_with("as the numbers of batches are those stored"), "{error}");
    }
}

#[test]
fn random_bits_and_labels_are_those_of_the_sample() {
    let (_dir, bundle) = bundle();
    let seen = Arc::new(Mutex::new(std::collections::BTreeMap::new()));
    let noted = Arc::clone(&seen);
    let options = options(each(move |sample, _| {
        let key = (sample.epoch, sample.key.to_owned());
        let mut seen = noted.lock().unwrap();
        let known = seen.entry(key).or_insert(sample.random);
        (*known == sample.random).then_some(()).ok_or_else(|| "other bits".to_owned())
    }));
    for threads in [1, 3] {
        let options = LoaderOptions { threads, ..options.clone() };
        epoch(&bundle, &options, "image").unwrap();
    }
    let seen = seen.lock().unwrap();
    let different: BTreeSet<_> = seen.values().collect();
    assert!(different.len() == seen.len() && !seen.is_empty());
}

#[test]
fn what_a_batch_cannot_have_is_named_with_the_sample() {
    let (_dir, bundle) = bundle();
    let check = |each: Option<Each>, expected: &str| {
        let error = epoch(&bundle, &options(each), "image").unwrap_err();
        assert!(matches!(error, Error::Loader(LoaderError::Each { .. })), "{error}");
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    check(each(|_, _| Err("by choice".into())), "`: by choice");
    let other = |at: usize, shape: Vec<usize>| {
        each(move |_, result| {
            result.values[at].numbers = Some((Dtype::U8, shape.clone()));
            Ok(())
        })
    };
    check(other(0, vec![1, 2]), "it returned u8 [1, 2] as `image`, and a batch has u16 [4, 6, 2]");
    check(
        other(1, vec![4]),
        "it returned u8 [4] as `mask`, and a batch has u8 [4, 6] for each sample",
    );
    let none = each(|_, result| {
        result.values.pop();
        Ok(())
    });
    check(none, "it returned no `mask`");
}

#[test]
fn results_that_the_program_puts_together_are_bytes() {
    let (_dir, bundle) = bundle();
    let function = Calls(|_: &GivenSample<'_>, result: &mut Changed| {
        result.bytes = format!("{} ", result.values[0].range.len()).into_bytes();
        Ok(())
    });
    let options = options(Some(Each::collected(Arc::new(function))));
    // Whole pictures, of whatever size they have.
    let options = LoaderOptions { transform: Transform::Whole { width: 9, height: 9 }, ..options };
    let found = String::from_utf8(epoch(&bundle, &options, "sample").unwrap()).unwrap();
    let bytes = (WIDTH * HEIGHT * 2 * 2).to_string();
    assert!(found.split_whitespace().all(|len| len == bytes), "{found}");
    let without = LoaderOptions { each: None, ..options };
    let error = epoch(&bundle, &without, "image").unwrap_err().to_string();
    assert!(error.contains("`each` is not given"), "{error}");
}

/// A function that runs until it is told to end.
struct Endless(AtomicBool);

impl SampleFunction for Endless {
    fn lane(self: Arc<Self>) -> Result<Box<dyn SampleLane>, String> {
        Ok(Box::new(EndlessLane(self, Vec::new())))
    }

    fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct EndlessLane(Arc<Endless>, Vec<u8>);

impl SampleLane for EndlessLane {
    fn picture(&mut self, len: usize) -> Result<&mut [u8], String> {
        self.1.resize(len, 0);
        Ok(&mut self.1)
    }

    fn give(&mut self, _: &GivenSample<'_>) -> Result<(), String> {
        Ok(())
    }

    fn is_full(&self) -> bool {
        true
    }

    fn take(
        &mut self,
        _: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), Untaken> {
        while !self.0.0.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        Err("ended".to_owned().into())
    }
}

/// Every call with a sample is interrupted once.
struct Interrupted(Mutex<BTreeSet<u64>>);

impl SampleFunction for Interrupted {
    fn lane(self: Arc<Self>) -> Result<Box<dyn SampleLane>, String> {
        let same = Arc::new(Calls(|_: &GivenSample<'_>, _: &mut Changed| Ok(()))).lane()?;
        Ok(Box::new(InterruptedLane { of: self, same, given: VecDeque::new() }))
    }
}

struct InterruptedLane {
    of: Arc<Interrupted>,
    same: Box<dyn SampleLane>,
    given: VecDeque<u64>,
}

impl SampleLane for InterruptedLane {
    fn picture(&mut self, len: usize) -> Result<&mut [u8], String> {
        self.same.picture(len)
    }

    fn give(&mut self, sample: &GivenSample<'_>) -> Result<(), String> {
        self.given.push_back(sample.number);
        self.same.give(sample)
    }

    fn is_full(&self) -> bool {
        self.same.is_full()
    }

    fn take(
        &mut self,
        take: &mut dyn FnMut(&SampleResult<'_>) -> Result<(), String>,
    ) -> Result<(), Untaken> {
        let number = self.given.pop_front().expect("a sample was given");
        if self.of.0.lock().unwrap().insert(number) {
            self.same.take(&mut |_| Ok(()))?;
            return Err(Untaken::Interrupted);
        }
        self.same.take(take)
    }
}

#[test]
fn samples_whose_calls_were_interrupted_are_given_again() {
    let (_dir, bundle) = bundle();
    let options = options(Some(Each::new(Arc::new(Interrupted(Mutex::default())))));
    let plain = LoaderOptions { each: None, ..options.clone() };
    for field in ["image", "mask"] {
        let again = Each::new(Arc::new(Interrupted(Mutex::default())));
        let options = LoaderOptions { each: Some(again), ..options.clone() };
        let made = [&options, &plain].map(|options| epoch(&bundle, options, field).unwrap());
        assert_eq!(made[0], made[1], "{field}");
    }
    let mut loader = Loader::new(bundle, options).unwrap();
    let batches: Vec<_> = loader.epoch(0).collect::<Result<_, _>>().unwrap();
    drop(batches);
    let state = loader.state();
    loader.check_delivered(&state).unwrap();
}

#[test]
fn a_loader_that_is_dropped_ends_calls() {
    let (_dir, bundle) = bundle();
    let each = Each::new(Arc::new(Endless(AtomicBool::new(false))));
    let mut loader = Loader::new(bundle, options(Some(each))).unwrap();
    loader.begin(0);
    drop(loader);
}
