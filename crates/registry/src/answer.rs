//! Reads a registry's answer.

use gular_pelican::Answered;
use serde_json::Value;

/// Whether another attempt may succeed.
pub(crate) fn passes(answer: &Answered) -> bool {
    matches!(answer.status, 408 | 425 | 429 | 500..=599) && answer.status != 501
}

/// `404: manifest unknown`, by the errors of the specification where there are some.
pub(crate) fn said(answer: &Answered) -> String {
    let document: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let errors = document.as_ref().and_then(|document| document.get("errors")?.as_array());
    let said = errors.into_iter().flatten().filter_map(|error| {
        let text = |name: &str| error.get(name)?.as_str().filter(|text| !text.is_empty());
        text("message").or_else(|| text("code"))
    });
    let said: Vec<&str> = said.take(4).collect();
    let said = match said.as_slice() {
        [] => String::from_utf8_lossy(&answer.body).lines().next().unwrap_or_default().to_owned(),
        some => some.join("; "),
    };
    // A page of a proxy is not a message of the registry.
    let said = if said.trim_start().starts_with('<') { String::new() } else { said };
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    let status = answer.status;
    if said.is_empty() {
        format!("the registry answers {status}")
    } else {
        format!("the registry answers {status}: {said}")
    }
}

/// The number of bytes that an upload has, by `Range: 0-N`; `None` if the answer does not say.
pub(crate) fn uploaded(answer: &Answered) -> Option<u64> {
    let range = answer.header("range")?;
    let range = range.strip_prefix("bytes=").unwrap_or(range);
    let (from, to) = range.split_once('-')?;
    let (from, to): (u64, u64) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
    // distribution says `0-0` of an upload that has nothing.
    if from != 0 {
        None
    } else if to == 0 {
        Some(0)
    } else {
        to.checked_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str, headers: &[(&str, &str)]) -> Answered {
        let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Answered { status: 404, headers, body: body.into(), retry_after: None }
    }

    #[test]
    fn errors_are_told_in_the_words_of_the_registry() {
        for (body, expected) in [
            (
                r#"{"errors":[{"code":"X","message":"manifest unknown"},{"code":"Y"}]}"#,
                "the registry answers 404: manifest unknown; Y",
            ),
            ("plain\nmore", "the registry answers 404: plain"),
            ("<html>", "the registry answers 404"),
            ("", "the registry answers 404"),
            (r#"{"errors":7}"#, r#"the registry answers 404: {"errors":7}"#),
            ("a\u{1b}[2Jb", "the registry answers 404: a[2Jb"),
        ] {
            assert_eq!(said(&answer(body, &[])), expected);
        }
    }

    #[test]
    fn a_range_says_how_much_is_there() {
        for (range, expected) in [
            ("0-4194303", Some(4_194_304)),
            ("bytes=0-9", Some(10)),
            ("0-0", Some(0)),
            ("5-9", None),
            ("0-", None),
            ("0--1", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(uploaded(&answer("", &[("range", range)])), expected, "{range}");
        }
        assert_eq!(uploaded(&answer("", &[])), None);
    }
}
