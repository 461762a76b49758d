//! What is answered at each address below the secret. No request changes anything.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

use gular_bundle::{
    Bundle, Decimal, Field, FieldIdx, Filter, Nodata, Row, SampleId, ShardIdx, Split,
};
use serde_json::{Value, json};

use crate::array::Stretch;
use crate::client::Client;
use crate::counts::{Counts, count};
use crate::error::PictureError;
use crate::http::{Answer, Request, Status};
use crate::listing::{Wanted, list};
use crate::pairs::{Likeness, Search};
use crate::picture::{Look, histograms, picture, png};
use crate::predictions::Reading;
use crate::runs::{Run, curves};
use crate::sample::{describe, is_pictured, n_bands, type_of};
use crate::sample_name;
use crate::source_reading::SourceReading;
use crate::training::{Asked, batch, epochs};
use crate::turns::{LoaderTurn, PictureTurns};
use crate::{Error, overlay, values};

/// The page's own files. They are part of the program, and refer to nothing else.
pub(crate) const HTML: &str = include_str!("page/index.html");
pub(crate) const STYLE: &str = include_str!("page/view.css");
pub(crate) const SCRIPT: &str = include_str!("page/view.js");
const FILES: [(&str, &str, &str); 3] = [
    ("", "text/html; charset=utf-8", HTML),
    ("view.css", "text/css; charset=utf-8", STYLE),
    ("view.js", "text/javascript; charset=utf-8", SCRIPT),
];

/// Stands in the lines of code for a bundle that was not packed yet.
const NOT_PACKED: &str = "BUNDLE";

/// A bundle to be shown, training runs, or both.
#[derive(Debug)]
pub struct Site {
    bundle: Option<Arc<Bundle>>,
    source: String,
    temp_dir: PathBuf,
    runs: Vec<Run>,
    reading: Option<SourceReading>,
    predictions: Mutex<BTreeMap<usize, Arc<Reading>>>,
    counts: OnceLock<Arc<Mutex<Counts>>>,
    equal: OnceLock<Arc<Search>>,
    alike: OnceLock<Arc<Search>>,
    pictures: PictureTurns,
    loader: LoaderTurn,
}

impl Site {
    /// Shows `bundle`, which programs open as `source`: its folder or URL. `temp_dir` is for
    /// sorting what does not fit in memory.
    #[must_use]
    pub fn new(bundle: Arc<Bundle>, source: &str, temp_dir: PathBuf) -> Self {
        let mut site = Self::of_runs(Vec::new(), source, temp_dir);
        site.bundle = Some(bundle);
        site
    }

    /// Shows training runs without the bundle that they are of: `source` names them.
    #[must_use]
    pub fn of_runs(runs: Vec<Run>, source: &str, temp_dir: PathBuf) -> Self {
        Self {
            bundle: None,
            source: source.to_owned(),
            temp_dir,
            runs,
            reading: None,
            predictions: Mutex::default(),
            counts: OnceLock::new(),
            equal: OnceLock::new(),
            alike: OnceLock::new(),
            // As many as there are cores, so that memory stays bounded.
            pictures: PictureTurns::new(available_parallelism().map_or(2, usize::from).min(8)),
            loader: LoaderTurn::default(),
        }
    }

    /// Shows these training runs, too.
    #[must_use]
    pub fn with_runs(mut self, runs: Vec<Run>) -> Self {
        self.runs = runs;
        self
    }

    /// Shows first how a source was read: the bundle has only some of its samples.
    #[must_use]
    pub fn with_reading(mut self, reading: SourceReading) -> Self {
        self.reading = Some(reading);
        self
    }

    fn bundle(&self) -> Result<&Arc<Bundle>, Error> {
        self.bundle.as_ref().ok_or(Error::NoBundle)
    }

    pub(crate) fn answer(&self, path: &str, request: &Request, client: Client<'_>) -> Answer {
        if let Some((_, media_type, body)) = FILES.iter().find(|(name, ..)| *name == path) {
            let body = body.as_bytes().to_vec();
            return Answer { status: Status::Ok, media_type, body, is_fixed: false };
        }
        let Some(what) = path.strip_prefix("api/") else {
            return Answer::text(Status::NotFound, "not found");
        };
        let json = match what {
            "picture" | "overlay" => {
                let png = self.picture(what, request, client);
                return png.map_or_else(|error| fault(&error), Answer::png);
            }
            "bundle" => Ok(self.about()),
            "counts" => self.counts(),
            "samples" => self.samples(request),
            "sample" => self.sample(request, client),
            "histogram" => self.histogram(request, client),
            "batch" => self.batch(request, client),
            "epochs" => self.epochs(request, client),
            "pairs" => self.pairs(request),
            "runs" => Ok(curves(&self.runs)),
            "predictions" => self.predictions(request),
            _ => return Answer::text(Status::NotFound, "not found"),
        };
        json.map_or_else(|error| fault(&error), |value| Answer::json(Status::Ok, &value))
    }

    fn about(&self) -> Value {
        let mut about = match &self.bundle {
            Some(bundle) => about(bundle, &self.source),
            None => no_bundle(&self.source),
        };
        let (reads, runs) = (self.reading.is_some(), !self.runs.is_empty());
        let has = self.bundle.is_some();
        let views = [
            ("reading", reads),
            ("samples", has),
            ("training", has),
            ("pairs", has),
            ("runs", runs),
            ("about", has),
        ];
        about["views"] = views.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        about["reading"] = json!(self.reading);
        about
    }

    fn counts(&self) -> Result<Value, Error> {
        let bundle = self.bundle()?;
        let counts = self.counts.get_or_init(|| count(bundle));
        Ok(json!(*counts.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn samples(&self, request: &Request) -> Result<Value, Error> {
        let bundle = self.bundle()?;
        let manifest = bundle.manifest();
        let filter = request
            .value("where")
            .map(|text| Filter::parse(text, &manifest.fields, &manifest.classes));
        let wanted = Wanted {
            split: request.value("split").map(split).transpose()?,
            label: number(request, "class")?,
            key: request.value("key").map(str::to_owned),
            filter: filter.transpose()?,
        };
        let from = match request.value("from") {
            Some(text) => sample_name::parse(bundle, text)?,
            None => SampleId { shard: ShardIdx(0), row: Row(0) },
        };
        list(bundle, &wanted, from, number(request, "n")?.unwrap_or(60))
    }

    fn id(&self, request: &Request) -> Result<SampleId, Error> {
        sample_name::parse(self.bundle()?, request.value("id").unwrap_or_default())
    }

    fn field(&self, request: &Request) -> Result<(FieldIdx, &Field), Error> {
        let manifest = self.bundle()?.manifest();
        let at = manifest.field(request.value("field").unwrap_or("image"))?;
        let field = at.of(&manifest.fields).ok_or_else(|| Error::Parameter {
            name: "field",
            reason: "the bundle does not have it".to_owned(),
        })?;
        Ok((at, field))
    }

    fn sample(&self, request: &Request, client: Client<'_>) -> Result<Value, Error> {
        let sample = self.id(request)?;
        let _turn = self.pictures.turn(client)?;
        describe(self.bundle()?, sample)
    }

    fn picture(&self, what: &str, request: &Request, client: Client<'_>) -> Result<Vec<u8>, Error> {
        let (sample, (at, field)) = (self.id(request)?, self.field(request)?);
        let _turn = self.pictures.turn(client)?;
        let bytes = values::read(self.bundle()?, sample, at)?;
        let made = match what {
            "overlay" => overlay::overlay(field, &bytes).map(|made| made.png),
            _ => picture(field, &bytes, &look(request)?).and_then(|picture| png(&picture)),
        };
        made.map_err(|source| self.not_shown(sample, field, source))
    }

    fn not_shown(&self, sample: SampleId, field: &Field, source: PictureError) -> Error {
        let of = |bundle: &Arc<Bundle>| Error::picture(bundle, sample, field, source);
        self.bundle.as_ref().map_or(Error::NoBundle, of)
    }

    fn histogram(&self, request: &Request, client: Client<'_>) -> Result<Value, Error> {
        let (sample, (at, field)) = (self.id(request)?, self.field(request)?);
        let _turn = self.pictures.turn(client)?;
        let bytes = values::read(self.bundle()?, sample, at)?;
        let bands = histograms(field, &bytes);
        Ok(json!(bands.map_err(|source| self.not_shown(sample, field, source))?))
    }

    fn asked<'a>(&'a self, request: &'a Request) -> Asked<'a> {
        let settings = request.value("settings").unwrap_or("{}");
        // A source that was only read is no bundle yet.
        let source = if self.reading.is_some() { NOT_PACKED } else { &self.source };
        Asked { settings, source }
    }

    fn batch(&self, request: &Request, client: Client<'_>) -> Result<Value, Error> {
        let epoch = number(request, "epoch")?.unwrap_or(0);
        let step = number(request, "step")?.unwrap_or(0);
        let (asked, bundle) = (self.asked(request), self.bundle()?);
        self.loader.run(client, |stop| batch(bundle, &asked, epoch, step, stop))
    }

    fn epochs(&self, request: &Request, client: Client<'_>) -> Result<Value, Error> {
        let (first, n) =
            (number(request, "epoch")?.unwrap_or(0), number(request, "n")?.unwrap_or(8));
        let (sample, bundle) = (self.id(request)?, self.bundle()?);
        let shards = &bundle.manifest().shards;
        let split = sample.shard.of(shards).map_or(Split::Train, |entry| entry.split);
        let before = shards.iter().take(sample.shard.0).filter(|s| s.split == split);
        let place = before.map(|s| s.samples).sum::<u64>() + sample.row.0 as u64;
        let asked = self.asked(request);
        self.loader.run(client, |stop| epochs(bundle, &asked, (split, place), (first, n), stop))
    }

    fn pairs(&self, request: &Request) -> Result<Value, Error> {
        let (slot, kind) = match request.value("kind") {
            Some("equal") => (&self.equal, Likeness::Equal),
            Some("alike") => (&self.alike, Likeness::Alike),
            other => {
                let reason = format!("`{}` is not `equal` or `alike`", other.unwrap_or_default());
                return Err(Error::Parameter { name: "kind", reason });
            }
        };
        let bundle = self.bundle()?;
        let start = || Search::start(bundle, kind, self.temp_dir.clone());
        Ok(slot.get_or_init(start).state())
    }
}

impl Site {
    fn predictions(&self, request: &Request) -> Result<Value, Error> {
        let nth = number(request, "table")?.unwrap_or(0);
        let mut started = self.predictions.lock().unwrap_or_else(PoisonError::into_inner);
        let reading = match started.entry(nth) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let reading = Reading::start(self.bundle.as_ref(), &self.runs, nth);
                let reason =
                    || format!("table {nth} of predictions, counted from 0, was not given");
                new.insert(
                    reading.ok_or_else(|| Error::Parameter { name: "table", reason: reason() })?,
                )
            }
        };
        Ok(reading.state())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let readings = self.predictions.get_mut().unwrap_or_else(PoisonError::into_inner);
        readings.values().for_each(|reading| reading.cancel());
        [&self.equal, &self.alike].into_iter().filter_map(OnceLock::get).for_each(|s| s.cancel());
    }
}

/// What the page is told of a bundle.
pub(crate) fn about(bundle: &Bundle, source: &str) -> Value {
    let manifest = bundle.manifest();
    let splits = Split::ALL.into_iter().filter(|split| manifest.of_split(*split).count() > 0);
    let split = |split: Split| {
        let bytes: u64 = manifest.of_split(split).map(|shard| shard.file.bytes).sum();
        json!({
            "name": split, "samples": manifest.n_samples(split),
            "shards": manifest.of_split(split).count(), "bytes": bytes,
        })
    };
    let field = |field: &Field| {
        let bands = field.bands.iter().map(|band| {
            let wave = band.wavelength_nm.as_ref().map(Decimal::as_str);
            json!({ "name": band.name, "wavelength_nm": wave })
        });
        json!({
            "name": field.name, "type": type_of(field), "bands": bands.collect::<Vec<_>>(),
            "n_bands": n_bands(field), "is_picture": is_pictured(field),
            "is_on_image": field.is_on_image(),
            "is_stretched": Stretch::usual(field) == Stretch::Percentiles,
            "nodata": field.nodata.as_ref().map(Nodata::as_str), "crs": field.crs,
        })
    };
    json!({
        "source": source,
        "digest": bundle.digest().to_string(),
        "about": manifest.about,
        "made": manifest.made,
        "envelope": manifest.envelope,
        "payload": manifest.payload,
        "has_labels": manifest.has_labels(),
        "classes": manifest.classes,
        "splits": splits.map(split).collect::<Vec<_>>(),
        "fields": manifest.fields.iter().map(field).collect::<Vec<_>>(),
    })
}

/// The same without a bundle.
pub(crate) fn no_bundle(source: &str) -> Value {
    json!({ "source": source, "has_labels": false, "classes": [], "splits": [], "fields": [] })
}

fn fault(error: &Error) -> Answer {
    let status = match error {
        Error::Parameter { .. } | Error::Filter(_) | Error::NoBundle => Status::BadRequest,
        Error::Bundle(gular_bundle::Error::NoField { .. }) => Status::BadRequest,
        Error::Unwanted => Status::Busy,
        _ => Status::Failed,
    };
    Answer::json(status, &json!({ "error": error.to_string() }))
}

fn split(name: &str) -> Result<Split, Error> {
    Split::ALL.into_iter().find(|split| split.name() == name).ok_or_else(|| Error::Parameter {
        name: "split",
        reason: format!("`{name}` is not a split; expected `train`, `val` or `test`"),
    })
}

/// A number among the parameters.
fn number<T: std::str::FromStr>(request: &Request, name: &'static str) -> Result<Option<T>, Error> {
    let parse = |text: &str| {
        text.parse().map_err(|_| Error::Parameter {
            name,
            reason: format!("`{text}` is not a number that is possible here"),
        })
    };
    request.value(name).map(parse).transpose()
}

fn look(request: &Request) -> Result<Look, Error> {
    let band = |text: &str| {
        text.parse().map_err(|_| Error::Parameter {
            name: "bands",
            reason: format!("`{text}` is not a band's number, counted from 0"),
        })
    };
    let bands = request.value("bands").map(|list| list.split(',').map(band).collect());
    let stretch = match request.value("stretch") {
        Some(_) => Stretch::Percentiles,
        None => Stretch::Stored,
    };
    Ok(Look { bands: bands.transpose()?, stretch, longest: number(request, "size")? })
}
