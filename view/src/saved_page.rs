//! A page in one file, to be mailed and kept: the page's own files, with the answers that they would
//! ask the server for.
//!
//! ```text
//! <!doctype html> · mark · policy · view.css · index.html · answers as JSON · view.js
//! ```

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gular_bundle::{Bundle, Field, SampleId};
use gular_pack::Looks;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::counts::counted;
use crate::error::{Error, PictureError};
use crate::pairs::alike;
use crate::picture::{Look, histograms, picture, png};
use crate::report_part::ReportPart;
use crate::sample::describe;
use crate::sample_name::name;
use crate::site::{HTML, SCRIPT, STYLE, about, no_bundle};
use crate::values;

/// The longest side of pictures: a page of 300 photographs takes 6 MB.
const LONGEST: u32 = 96;

/// A page that needs no server.
#[derive(Debug)]
pub struct SavedPage {
    answers: Map<String, Value>,
}

impl SavedPage {
    /// How each page begins: only such files are replaced.
    pub const START: &[u8] = b"<!doctype html>\n<!-- saved by gular -->\n";

    /// Shows `samples` of a bundle, which is called `source`, and how many each class has.
    ///
    /// # Errors
    /// Those of reading the samples. Pictures that cannot be decoded are shown as faults.
    pub fn of_samples(bundle: &Bundle, source: &str, samples: &[SampleId]) -> Result<Self, Error> {
        let mut page = Self::new(about(bundle, source), &["samples", "about"]);
        let (mut list, mut known, mut bands) = (Vec::new(), Map::new(), Map::new());
        for &sample in samples {
            let mut found = describe(bundle, sample)?;
            (found["previous"], found["next"]) = (Value::Null, Value::Null);
            let mut shown = json!({
                "id": found["id"], "key": found["key"], "split": found["split"],
                "label": found["label"],
            });
            let id = name(sample);
            match page.add_picture(bundle, sample, &id, histograms)? {
                Some(Ok(found)) => drop(bands.insert(id, json!(found))),
                Some(Err(error)) => shown["fault"] = json!(error.to_string()),
                None => {}
            }
            list.push(shown);
            known.insert(name(sample), found);
        }
        page.add("samples", json!(list));
        page.add("sample", Value::Object(known));
        page.add("histogram", Value::Object(bands));
        page.add("counts", json!(counted(bundle)));
        Ok(page)
    }

    /// Shows pairs of images that look alike, of the bundles that `looks` was found in.
    ///
    /// # Errors
    /// As [`SavedPage::of_samples`].
    pub fn of_pairs(looks: &Looks, bundles: [&Bundle; 2], source: &str) -> Result<Self, Error> {
        let [one, other] = bundles;
        let mut about = about(one, source);
        let id = |of: usize, sample: SampleId| format!("{of}/{}", name(sample));
        let mut pairs = alike(looks, &id);
        // Numbers of classes can be compared, and have names, only where both bundles mean the same.
        if one.manifest().classes != other.manifest().classes {
            about["classes"] = json!([]);
            let groups = pairs["groups"].as_array_mut().into_iter().flatten();
            groups.for_each(|group| group["labels_differ"] = json!(false));
        }
        let mut page = Self::new(about, &["pairs"]);
        for pair in &looks.pairs {
            for (sample, place) in pair.samples.iter().zip(pair.places) {
                let of = sample.bundle.min(1);
                let bundle = if of == 0 { one } else { other };
                page.add_picture(bundle, place, &id(of, place), |_, _| Ok(()))?;
            }
        }
        page.add("pairs", json!({ "done": looks.compared, "of": looks.compared, "result": pairs }));
        Ok(page)
    }

    /// Shows a report.
    #[must_use]
    pub fn of_report(title: &str, parts: &[ReportPart]) -> Self {
        let mut about = no_bundle(title);
        about["about"] = json!({ "name": title });
        let mut page = Self::new(about, &["report"]);
        page.add("report", json!(parts));
        page
    }

    fn new(mut about: Value, views: &[&str]) -> Self {
        about["views"] = json!(views);
        let answers = [("bundle".to_owned(), about), ("picture".to_owned(), json!({}))];
        Self { answers: answers.into_iter().collect() }
    }

    fn add(&mut self, what: &str, answer: Value) {
        self.answers.insert(what.to_owned(), answer);
    }

    /// Adds the small picture of a sample; returns what `also` finds in its bytes, or why they are
    /// not a picture.
    fn add_picture<T>(
        &mut self,
        bundle: &Bundle,
        sample: SampleId,
        id: &str,
        also: impl FnOnce(&Field, &[u8]) -> Result<T, PictureError>,
    ) -> Result<Option<Result<T, PictureError>>, Error> {
        let manifest = bundle.manifest();
        let Some(at) = manifest.image() else { return Ok(None) };
        let Some(field) = at.of(&manifest.fields) else { return Ok(None) };
        let bytes = values::read(bundle, sample, at)?;
        let small = picture(field, &bytes, &Look::small(field, LONGEST));
        Ok(Some(small.and_then(|small| {
            let url = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png(&small)?));
            self.answers["picture"][id] = json!(url);
            also(field, &bytes)
        })))
    }

    /// The whole page. It loads nothing, and only its own script runs.
    #[must_use]
    pub fn html(&self) -> String {
        let start = String::from_utf8_lossy(Self::START);
        let hash =
            |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
        let policy = format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; script-src {}; style-src {}; base-uri 'none'; form-action 'none'\">",
            hash(SCRIPT),
            hash(STYLE)
        );
        // In JSON, `<` is part of texts alone; escaped, no text can end the element.
        let answers = json!(self.answers).to_string().replace('<', "\\u003c");
        let (head, rest) = HTML.split_once(LINKS).unwrap_or((HTML, ""));
        let (body, end) = rest.split_once("</body>").unwrap_or((rest, ""));
        let head = head.trim_start_matches("<!doctype html>\n");
        format!(
            "{start}{head}{policy}\n<style>{STYLE}</style>\n{body}\
             <script type=\"application/json\" id=\"saved\">{answers}</script>\n\
             <script>{SCRIPT}</script>\n</body>{end}"
        )
    }
}

/// The lines of `index.html` that load the other files.
const LINKS: &str =
    "<link rel=\"stylesheet\" href=\"view.css\">\n<script src=\"view.js\" defer></script>\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_page_is_whole_and_texts_stay_texts() {
        let hostile = "</script><script>alert(1)</script><!--";
        let page = SavedPage::of_report(hostile, &[ReportPart::Text(hostile.to_owned())]).html();
        assert!(page.as_bytes().starts_with(SavedPage::START));
        assert!(!page.contains("view.css\"") && !page.contains("src=\"view.js"));
        // The data and the script: neither ends early, and nothing else is an element.
        assert_eq!(page.matches("<script").count(), 2);
        assert_eq!((page.matches("</script").count(), page.matches("alert(1)").count()), (2, 3));
        let (_, data) = page.split_once("id=\"saved\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["report"], json!([{ "text": hostile }]));
        assert_eq!(data["bundle"]["views"], json!(["report"]));
    }
}
