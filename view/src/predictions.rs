//! Predictions, joined with the bundle by key: which classes are taken for which, and the pictures
//! of what was predicted wrongly.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use gular_bundle::{Bundle, SampleId, ShardIdx};
use serde_json::{Value, json};

use crate::Error;
use crate::error::TableError;
use crate::join::{BundleLabels, Joined, MOST_ROWS, Rows};
use crate::runs::Run;
use crate::sample_name::name;
use crate::table;

/// The most classes that a confusion matrix is shown for.
const MOST_CLASSES: usize = 100;
/// Predictions that are shown of each kind.
const MOST_SHOWN: usize = 60;

/// A prediction of a sample.
#[derive(Debug, Clone, PartialEq)]
struct Prediction {
    key: String,
    split: Option<String>,
    label: String,
    predicted: String,
    /// Of the predicted class, and of the sample's own.
    scores: [Option<f64>; 2],
    /// The score of the predicted class, if it cannot be read as a number or a probability.
    unread: Option<String>,
    order: f64,
}

/// A table of predictions, read in the background.
#[derive(Debug)]
pub(crate) struct Reading {
    result: Mutex<Option<Value>>,
    cancel: AtomicBool,
}

impl Reading {
    /// Starts to read the `nth` table of predictions.
    pub(crate) fn start(
        bundle: Option<&Arc<Bundle>>,
        runs: &[Run],
        nth: usize,
    ) -> Option<Arc<Self>> {
        let run = runs.iter().filter(|run| run.is_predictions()).nth(nth)?.clone();
        let reading = Arc::new(Self { result: Mutex::new(None), cancel: AtomicBool::new(false) });
        let (to, bundle) = (Arc::clone(&reading), bundle.map(Arc::clone));
        let read = move || {
            let found = predictions(bundle.as_deref(), &run, &to.cancel);
            let found = found.unwrap_or_else(|error| json!({ "fault": error.to_string() }));
            *to.result.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        };
        thread::Builder::new().name("predictions".into()).spawn(read).ok()?;
        Some(reading)
    }

    pub(crate) fn cancel(&self) {
        self.cancel.store(true, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> Value {
        json!({ "result": *self.result.lock().unwrap_or_else(PoisonError::into_inner) })
    }
}

/// Which columns of a table say what.
#[derive(Debug)]
struct Columns {
    key: usize,
    split: Option<usize>,
    label: Option<usize>,
    predicted: usize,
    /// The score of the predicted class.
    score: Option<usize>,
    /// Whether that is a probability.
    is_probability: bool,
    /// With the most probable classes alone: columns of each one's name and score.
    ranks: Vec<(usize, usize)>,
    /// Else the column of each class's score.
    scores: HashMap<String, usize>,
}

impl Columns {
    fn of(names: &csv::StringRecord) -> Result<Self, TableError> {
        let is = |name: &str, wanted: &str| name.trim().eq_ignore_ascii_case(wanted);
        let at = |wanted: &str| names.iter().position(|name| is(name, wanted));
        let n_of = |wanted: &str| names.iter().filter(|name| is(name, wanted)).count();
        let read = ["key", "split", "label", "prediction", "predicted", "probability", "score"];
        if let Some(column) = read.iter().find(|column| n_of(column) > 1) {
            return Err(TableError::TwoColumns { column: (*column).to_owned() });
        }
        let any = |wanted: &[&str]| wanted.iter().find_map(|wanted| at(wanted));
        let need = |expected: &'static [&'static str]| {
            let found = || names.iter().map(str::to_owned).collect();
            any(expected).ok_or_else(|| TableError::Column { expected, found: found() })
        };
        let predicted = need(&["prediction", "predicted"])?;
        let score_of =
            |class: &str| any(&[&format!("probability_{class}"), &format!("score_{class}")]);
        let rank = |n: usize| Some((at(&format!("prediction_{n}"))?, score_of(&n.to_string())?));
        let mut ranks: Vec<(usize, usize)> = (2..).map_while(rank).collect();
        let mut scores = HashMap::new();
        if ranks.is_empty() {
            let class = |name: &str| {
                let class = name.strip_prefix("probability_").or(name.strip_prefix("score_"));
                class.map(str::to_owned)
            };
            let named = names.iter().enumerate();
            scores.extend(named.filter_map(|(at, name)| Some((class(name)?, at))));
        } else {
            ranks.extend(score_of("1").map(|score| (predicted, score)));
        }
        // One class alone is the predicted one.
        let first = || score_of("1").filter(|_| scores.len() == 1);
        let score = any(&["probability", "score"]).or_else(first);
        let (key, split, label) = (need(&["key"])?, at("split"), at("label"));
        let is_probability = score.is_some() && score == at("probability");
        Ok(Self { key, split, label, predicted, score, is_probability, ranks, scores })
    }

    fn read(
        &self,
        classes: &Classes<'_>,
        [of_label, of_predicted]: [CellKind; 2],
        of_bundle: Option<&BundleLabels>,
        row: &csv::StringRecord,
    ) -> Prediction {
        let text = |at: usize| row.get(at).unwrap_or_default().to_owned();
        let class = |at: usize, kind| match kind {
            CellKind::Names => text(at),
            CellKind::Numbers => classes.by_number(&text(at)).map_or(text(at), str::to_owned),
        };
        let split = self.split.map(text).filter(|split| !split.is_empty());
        let own = self.label.map(|at| class(at, of_label)).filter(|label| !label.is_empty());
        let of_bundle = || {
            let number = of_bundle?.get(row.get(self.key)?, split.as_deref())?;
            classes.names.get(number).cloned()
        };
        let label = own.or_else(of_bundle).unwrap_or_default();
        let predicted = class(self.predicted, of_predicted);
        let is_score = |n: &f64| n.is_finite() && (!self.is_probability || (0.0..=1.0).contains(n));
        let number = |at: usize| row.get(at)?.trim().parse::<f64>().ok().filter(is_score);
        let score_of = |wanted: &str| {
            let ranked = self.ranks.iter().find(|(at, _)| class(*at, of_predicted) == wanted);
            let column = ranked.map(|(_, score)| *score).or(self.scores.get(wanted).copied());
            let first = self.score.filter(|_| wanted == predicted);
            first.or(column).and_then(number)
        };
        let scores = [score_of(&predicted), score_of(&label)];
        let cell = self.score.map(text).filter(|cell| !cell.is_empty() && scores[0].is_none());
        Prediction {
            key: text(self.key),
            split,
            label,
            predicted,
            scores,
            unread: cell,
            order: 0.0,
        }
    }
}

/// The classes of a bundle, by name and by number.
struct Classes<'a> {
    names: &'a [String],
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Classes<'a> {
    fn of(names: &'a [String]) -> Self {
        let numbers = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        Self { names, numbers }
    }

    fn by_number(&self, text: &str) -> Option<&'a str> {
        // pandas writes `4.0` where other cells of the column are empty.
        let number = text.strip_suffix(".0").unwrap_or(text);
        self.names.get(number.parse::<usize>().ok()?).map(String::as_str)
    }
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellKind {
    Names,
    Numbers,
}

/// What the cells of a column could be: examples of each.
#[derive(Debug, Clone, Default)]
struct CellKinds {
    /// Names of classes, and not their numbers.
    name: Option<String>,
    /// Numbers of classes, and not their names.
    number: Option<String>,
    /// The name of one class, and the number of another.
    both: Option<String>,
}

impl CellKinds {
    fn look(&mut self, classes: &Classes<'_>, cell: &str) {
        let by_name = classes.numbers.contains_key(cell);
        let slot = match (by_name, classes.by_number(cell)) {
            (true, None) => &mut self.name,
            (false, Some(_)) => &mut self.number,
            (true, Some(other)) if other != cell => &mut self.both,
            // The same class in both ways, or no class of this bundle.
            _ => return,
        };
        slot.get_or_insert_with(|| cell.to_owned());
    }

    fn and(&self, other: &Self) -> Self {
        let one = |a: &Option<String>, b: &Option<String>| a.as_ref().or(b.as_ref()).cloned();
        Self {
            name: one(&self.name, &other.name),
            number: one(&self.number, &other.number),
            both: one(&self.both, &other.both),
        }
    }

    fn decide(&self) -> Result<CellKind, TableError> {
        match (&self.name, &self.number, &self.both) {
            (Some(name), Some(number), _) => {
                Err(TableError::Mixed { name: name.clone(), number: number.clone() })
            }
            (None, None, Some(cell)) => Err(TableError::Unclear { cell: cell.clone() }),
            (None, Some(_), _) => Ok(CellKind::Numbers),
            _ => Ok(CellKind::Names),
        }
    }
}

/// Decides whether labels and predictions are names or numbers: together, and one by one only where
/// one column has names and the other numbers.
fn decide(label: &CellKinds, predicted: &CellKinds) -> Result<[CellKind; 2], TableError> {
    match label.and(predicted).decide() {
        Ok(kind) => Ok([kind; 2]),
        Err(_) => Ok([label.decide()?, predicted.decide()?]),
    }
}

/// Keeps the predictions of the greatest `order`.
#[derive(Default)]
struct Greatest(Vec<Prediction>);

impl Greatest {
    fn add(&mut self, prediction: &Prediction, order: f64) {
        let full = self.0.len() >= MOST_SHOWN;
        if full && self.0.last().is_some_and(|last| last.order >= order) {
            return;
        }
        let at = self.0.partition_point(|other| other.order >= order);
        self.0.insert(at, Prediction { order, ..prediction.clone() });
        self.0.truncate(MOST_SHOWN);
    }
}

fn predictions(bundle: Option<&Bundle>, run: &Run, cancel: &AtomicBool) -> Result<Value, Error> {
    let wrong = |source| Error::Predictions { path: run.shown.clone(), source };
    let goes_on = || !cancel.load(Ordering::Relaxed);
    let columns = table::header(run).and_then(|names| Columns::of(&names)).map_err(wrong)?;
    let needed: Vec<usize> =
        [columns.key, columns.predicted].into_iter().chain(columns.label).collect();
    // All cells decide what they are; so the table is read twice.
    let known = bundle.map(|bundle| &bundle.manifest().classes);
    let classes = Classes::of(known.map_or(&[], Vec::as_slice));
    let (mut of_label, mut of_predicted) = (CellKinds::default(), CellKinds::default());
    let mut named = BTreeSet::new();
    let (mut keys, mut n_without) = (Rows::default(), 0_u64);
    let mut look = |row: &csv::StringRecord| {
        let cell = |at| row.get(at).unwrap_or_default();
        // Rows without a label of their own.
        if bundle.is_some() && columns.label.is_none_or(|at| cell(at).is_empty()) {
            n_without += 1;
            let split = columns.split.map(cell).filter(|split| !split.is_empty());
            keys.add(cell(columns.key), split, None);
        }
        let (label, predicted) = (columns.label.map(cell), cell(columns.predicted));
        label.into_iter().for_each(|label| of_label.look(&classes, label));
        of_predicted.look(&classes, predicted);
        if known.is_none() && named.len() <= MOST_CLASSES {
            let cells = label.into_iter().chain([predicted]);
            named.extend(cells.filter(|cell| !cell.is_empty()).map(in_order));
        }
        goes_on()
    };
    table::rows(run, &needed, &mut look).map_err(wrong)?;
    let kinds = decide(&of_label, &of_predicted).map_err(wrong)?;
    let labelling = bundle.filter(|_| n_without > 0);
    let of_bundle = labelling.map(|bundle| keys.labels(bundle, cancel)).transpose()?;
    // Without the bundle, classes are those that the table names.
    let named: Vec<String> = named.into_iter().map(|(_, name)| name).collect();
    let classes = Classes::of(known.unwrap_or(&named));
    let number = &classes.numbers;
    let n_classes = classes.names.len();
    let side = if n_classes <= MOST_CLASSES { n_classes } else { 0 };
    let mut confusion = vec![vec![0_u64; side]; side];
    let (mut n, mut right, mut unknown, mut elsewhere) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut joined, mut unread) = (Rows::default(), (0_u64, None));
    let (mut surest, mut worst) = (Greatest::default(), Greatest::default());
    let mut is_ranked = false;
    let mut take = |row: &csv::StringRecord| {
        let prediction = columns.read(&classes, kinds, of_bundle.as_ref(), row);
        n += 1;
        let class = number.get(prediction.label.as_str()).copied();
        joined.add(&prediction.key, prediction.split.as_deref(), class);
        if let Some(cell) = &prediction.unread {
            unread.0 += 1;
            unread.1.get_or_insert_with(|| cell.clone());
        }
        if prediction.label.is_empty() {
            unknown += 1;
            return goes_on();
        }
        let (label, predicted) =
            (number.get(prediction.label.as_str()), number.get(prediction.predicted.as_str()));
        if let (Some(label), Some(predicted)) = (label, predicted)
            && let Some(count) = confusion.get_mut(*label).and_then(|row| row.get_mut(*predicted))
        {
            *count += 1;
        }
        elsewhere += u64::from(known.is_some() && (label.is_none() || predicted.is_none()));
        if prediction.label == prediction.predicted {
            right += 1;
            return goes_on();
        }
        let [of_predicted, of_label] = prediction.scores;
        is_ranked |= of_predicted.is_some();
        // Those without a score follow in the order of the table.
        surest.add(&prediction, of_predicted.unwrap_or(f64::NEG_INFINITY));
        match of_label {
            Some(score) => worst.add(&prediction, -score),
            // Not among the most probable classes.
            None if !columns.ranks.is_empty() => worst.add(&prediction, f64::INFINITY),
            None => {}
        }
        goes_on()
    };
    table::rows(run, &needed, &mut take).map_err(wrong)?;
    let mut wanted: HashMap<(String, Option<String>), Option<SampleId>> = HashMap::new();
    for shown in surest.0.iter().chain(&worst.0) {
        wanted.insert((shown.key.clone(), shown.split.clone()), None);
    }
    let mut joined = match bundle {
        Some(bundle) => {
            find(bundle, &mut wanted, cancel)?;
            Some(joined.compare(bundle, cancel)?)
        }
        None => None,
    };
    if let Some(joined) = &mut joined {
        name_examples(joined, run, columns.key).map_err(wrong)?;
    }
    let shown = |predictions: &[Prediction]| {
        let one = |p: &Prediction| {
            let id = wanted.get(&(p.key.clone(), p.split.clone())).copied().flatten();
            let [of_predicted, of_label] = p.scores;
            json!({
                "id": id.map(name), "key": p.key, "split": p.split, "class": p.label,
                "predicted": p.predicted, "score": of_predicted, "score_of_class": of_label,
            })
        };
        predictions.iter().map(one).collect::<Vec<_>>()
    };
    Ok(json!({
        "name": run.shown, "n": n, "right": right, "unknown": unknown,
        "labels_of_bundle": n_without, "most_labels_of_bundle": MOST_ROWS, "elsewhere": elsewhere,
        "classes": classes.names.get(..side), "confusion": confusion, "is_ranked": is_ranked,
        "surest": shown(&surest.0), "worst": shown(&worst.0),
        "joined": joined, "unread_scores": { "n": unread.0, "cell": unread.1 },
    }))
}

/// Finds the keys of the rows that are examples.
fn name_examples(joined: &mut Joined, run: &Run, key: usize) -> Result<(), TableError> {
    let mut examples = joined.examples();
    let mut number = 0;
    let mut look = |row: &csv::StringRecord| {
        for example in examples.remove(&number).into_iter().flatten() {
            row.get(key).unwrap_or_default().clone_into(example);
        }
        number += 1;
        !examples.is_empty()
    };
    table::rows(run, &[], &mut look)
}

/// A class as it is sorted: numbers first, by their values.
fn in_order(class: &str) -> ((bool, u64), String) {
    let number = class.parse::<u64>();
    ((number.is_err(), number.unwrap_or(0)), class.to_owned())
}

/// Finds samples by key, and by split where it is given: indexes are read until all are found.
fn find(
    bundle: &Bundle,
    wanted: &mut HashMap<(String, Option<String>), Option<SampleId>>,
    cancel: &AtomicBool,
) -> Result<(), Error> {
    let mut left = wanted.len();
    for (at, entry) in bundle.manifest().shards.iter().enumerate() {
        if left == 0 || cancel.load(Ordering::Relaxed) {
            break;
        }
        let shard = ShardIdx(at);
        let index = bundle.index(shard)?;
        for row in index.rows() {
            let key = index.key(row).unwrap_or_default();
            for split in [None, Some(entry.split.to_string())] {
                if let Some(place) = wanted.get_mut(&(key.to_owned(), split))
                    && place.is_none()
                {
                    *place = Some(SampleId { shard, row });
                    left -= 1;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_names_or_numbers_of_classes() {
        let check = |classes: &[&str], labels: &[&str], predicted: &[&str]| {
            let names: Vec<String> = classes.iter().map(|name| (*name).to_owned()).collect();
            let classes = Classes::of(&names);
            let kinds = |cells: &[&str]| {
                let mut kinds = CellKinds::default();
                cells.iter().for_each(|cell| kinds.look(&classes, cell));
                kinds
            };
            decide(&kinds(labels), &kinds(predicted)).map_err(|error| error.to_string())
        };
        use CellKind::{Names, Numbers};
        let digits = ["1", "2", "3"];
        assert_eq!(check(&digits, &["1", "3"], &["2", "2"]), Ok([Names; 2]));
        assert_eq!(check(&digits, &["1", "0"], &["2", "2"]), Ok([Numbers; 2]));
        let unclear = check(&digits, &["1", "2"], &["2", ""]).unwrap_err();
        assert!(unclear.contains("`1` is the name of one class and the number of another"));
        assert_eq!(check(&["0", "1"], &["1", "0"], &["1", "1"]), Ok([Names; 2]), "the same");
        let words = ["cat", "dog"];
        assert_eq!(check(&words, &["cat", ""], &["1", "0"]), Ok([Names, Numbers]));
        assert_eq!(check(&words, &["cat", "horse"], &["dog", "7"]), Ok([Names; 2]));
        assert!(check(&words, &["cat", "1"], &["dog"]).unwrap_err().contains("in one column"));
    }

    #[test]
    fn the_greatest_come_first() {
        let of = |key: &str| Prediction {
            key: key.to_owned(),
            split: None,
            label: String::new(),
            predicted: String::new(),
            scores: [None; 2],
            unread: None,
            order: 0.0,
        };
        let mut greatest = Greatest::default();
        (0..200).for_each(|n| greatest.add(&of(&n.to_string()), f64::from(n % 100)));
        let keys: Vec<&str> = greatest.0.iter().map(|p| p.key.as_str()).collect();
        assert_eq!((keys.len(), &keys[..3]), (MOST_SHOWN, &["99", "199", "98"][..]));
    }

    /// Scores of the predicted class and of the sample's own, by what a table has of them.
    #[test]
    fn scores_are_those_of_the_class_that_they_belong_to() {
        let check = |header: &[&str], row: &[&str]| {
            let columns = Columns::of(&header.to_vec().into()).unwrap();
            let names = ["0", "1", "2"].map(str::to_owned);
            let kinds = [CellKind::Names; 2];
            columns.read(&Classes::of(&names), kinds, None, &row.to_vec().into()).scores
        };
        let first = ["key", "label", "prediction"];
        let with = |more: &[&'static str]| [&first[..], more].concat();
        let row = |more: &[&'static str]| [&["a", "1", "2"][..], more].concat();
        assert_eq!(check(&first, &row(&[])), [None, None]);
        // The score of the predicted class says nothing of the others.
        assert_eq!(check(&with(&["probability"]), &row(&["0.75"])), [Some(0.75), None]);
        assert_eq!(check(&with(&["score"]), &row(&["-3"])), [Some(-3.0), None]);
        for wrong in ["nan", "83%", "2", "-1"] {
            assert_eq!(check(&with(&["probability"]), &row(&[wrong])), [None, None]);
        }
        let all = with(&["probability_0", "probability_1", "probability_2"]);
        assert_eq!(check(&all, &row(&["0.1", "0.2", "0.7"])), [Some(0.7), Some(0.2)]);
        // Ranks, and not classes of these names.
        let top = with(&["prediction_2", "probability_1", "probability_2"]);
        assert_eq!(check(&top, &row(&["0", "0.6", "0.3"])), [Some(0.6), None]);
        assert_eq!(check(&top, &row(&["1", "0.6", "0.3"])), [Some(0.6), Some(0.3)]);
        let error = Columns::of(&vec!["key", "label"].into()).unwrap_err().to_string();
        let twice = Columns::of(&vec!["Key", "prediction", "Prediction"].into()).unwrap_err();
        assert!(twice.to_string().starts_with("it has two columns `prediction`"));
        assert_eq!(
            error,
            "expected a column `prediction` or `predicted`, found only `key`, `label`"
        );
    }
}
