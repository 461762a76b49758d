//! The class of a polygon: the value of one of its properties.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::facts::{Fault, Remedy, setting};
use crate::plan::PlanError;

/// What loaders fill beyond an image, which no class has.
pub(super) const BEYOND: u8 = 255;

/// The property of polygons that is their class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MaskClass {
    property: String,
    /// The numbers of classes that are words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    numbers: Vec<(String, u8)>,
}

impl MaskClass {
    /// Reads `PROPERTY`, whose values are numbers from 0 to 254, or `PROPERTY:NAME=NUMBER,…`.
    ///
    /// # Errors
    /// [`PlanError::Run`], which says what is wrong.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let fail = |what: String| -> PlanError { setting(&["mask_class"], what) };
        // Names of properties may have colons, such as OpenStreetMap's `addr:city`.
        let names = text.split_once('=').map_or("", |(before, _)| before);
        let (property, classes) = match names.rfind(':') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, ""),
        };
        let mut numbers: Vec<(String, u8)> = Vec::new();
        for class in classes.split(',').filter(|class| !class.is_empty()) {
            let parts = class.rsplit_once('=');
            let number = parts.and_then(|(name, number)| Some((name, number.parse::<u8>().ok()?)));
            match number.filter(|(_, number)| *number < BEYOND) {
                Some((name, number)) if numbers.iter().all(|(known, _)| known != name) => {
                    numbers.push((name.to_owned(), number));
                }
                Some((name, _)) => return Err(fail(format!("the class `{name}` occurs twice"))),
                None => {
                    return Err(fail(format!(
                        "`{class}` is not a class and its number from 0 to 254, such as `road=1`"
                    )));
                }
            }
        }
        if property.is_empty() {
            return Err(fail(format!("`{text}` names no property")));
        }
        Ok(Self { property: property.to_owned(), numbers })
    }

    /// The option in words, for the manifest.
    pub(crate) fn note(&self) -> String {
        let classes = self.numbers.iter().map(|(name, number)| format!("{name}={number}"));
        let classes: Vec<String> = classes.collect();
        match classes.is_empty() {
            true => self.property.clone(),
            false => format!("{}:{}", self.property, classes.join(",")),
        }
    }

    /// The class of a polygon with these properties.
    pub(super) fn of(&self, properties: Option<&Map<String, Value>>) -> Result<u8, Fault> {
        let property = &self.property;
        let fault =
            |reason: String| Fault { remedy: Remedy::NameClasses, ..Fault::new(reason, None) };
        let value = properties.and_then(|all| all.get(property));
        let number = match value {
            Some(Value::String(name)) => {
                let known = self.numbers.iter().find(|(known, _)| known == name);
                known.map(|(_, number)| *number)
            }
            Some(value) => {
                // GDAL writes numbers of some columns as 1.0.
                let whole =
                    value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64);
                let number = whole.filter(|n| *n < BEYOND.into() && self.numbers.is_empty());
                let text = value.to_string();
                let named = self.numbers.iter().find(|(known, _)| *known == text);
                number.and_then(|n| u8::try_from(n).ok()).or(named.map(|(_, number)| *number))
            }
            None => {
                let names =
                    properties.into_iter().flat_map(Map::keys).map(|name| format!("`{name}`"));
                let names: Vec<String> = names.collect();
                return Err(fault(format!(
                    "a polygon has no property `{property}`; its properties are {}",
                    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
                )));
            }
        };
        number.ok_or_else(|| {
            let value = value.unwrap_or(&Value::Null);
            fault(format!("a polygon has {value} as `{property}`, which is not a number from 0 to 254, nor a class that was given"))
        })
    }
}
