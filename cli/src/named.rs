//! Flags whose value is an enum of a library: serde says what its values are called.

use std::fmt::{self, Display};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer as _, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

/// Parses the name of a value of `T`.
pub(crate) fn named<T>() -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    described(&[])
}

/// Does the same as [`named`]; `about` says what the help tells of each value, in the order of the
/// enum.
pub(crate) fn described<T>(about: &[&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let mut about = about.iter();
    let values = names::<T>().iter().map(|name| {
        let value = PossibleValue::new(*name);
        about.next().map_or(value.clone(), |about| value.help(*about))
    });
    PossibleValuesParser::from(values.collect::<Vec<_>>()).try_map(|text| {
        let name: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
        T::deserialize(name)
    })
}

/// The names of the values of an enum.
fn names<T: DeserializeOwned>() -> &'static [&'static str] {
    T::deserialize(Names).err().map_or(&[], |names| names.0)
}

/// Reads nothing; its error is the names that an enum asks for.
struct Names;

#[derive(Debug)]
struct Asked(&'static [&'static str]);

impl Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Asked {}

impl serde::de::Error for Asked {
    fn custom<T: Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Names {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(&[]))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(names))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use clap::Command;
    use gular_bundle::Payload;

    use super::*;

    #[test]
    fn values_have_the_names_that_serde_gives_them() {
        assert_eq!(names::<Payload>(), ["encoded", "reencoded", "raw"]);
        let parser = described::<Payload>(&["As found", "Smaller"]);
        let values: Vec<_> = parser.possible_values().unwrap().collect();
        let help = |at: usize| values[at].get_help().map(ToString::to_string);
        assert_eq!((help(1), help(2)), (Some("Smaller".to_owned()), None));
        let parse = |text: &str| parser.parse_ref(&Command::new("x"), None, OsStr::new(text));
        assert_eq!(parse("raw").unwrap(), Payload::Raw);
        let error = parse("Raw").unwrap_err().to_string();
        assert!(error.contains("[possible values: encoded, reencoded, raw]"), "{error}");
    }
}
