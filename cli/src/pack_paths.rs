//! The options of `gular pack` that are path patterns: where images, masks and other files are.

use std::path::{Path, PathBuf};

use gular_bundle::FieldName;
use gular_pack::{Doubt, FieldFiles, LayoutError, Pattern, PythonCommand, WayToRead};

use crate::show;

/// Parsed `--mask`, and what `--field` has behind its name: a folder or archive, or a pattern.
pub(crate) fn files(name: FieldName, text: &str) -> Result<FieldFiles, String> {
    if !text.contains('{') {
        return Ok(FieldFiles { name, files: Some(text.into()), pattern: None });
    }
    let from_here = ["/", "./", "../"].iter().any(|start| text.starts_with(start));
    let (files, pattern) = match from_here {
        true => root(text),
        false => (None, text),
    };
    let pattern = Pattern::parse(pattern).map_err(|e| e.to_string())?;
    Ok(FieldFiles { name, files, pattern: Some(pattern) })
}

/// The folder or archive at the beginning of a pattern, and the rest of the pattern. Below an archive,
/// folders are part of the pattern.
fn root(text: &str) -> (Option<PathBuf>, &str) {
    let braces = text.find('{').unwrap_or(text.len());
    let fixed = text.get(..braces).unwrap_or_default();
    let slashes = fixed.match_indices('/').map(|(at, _)| at + 1);
    let is_archive = |end: &usize| {
        let start = text.get(..*end).unwrap_or_default();
        Path::new(start.trim_end_matches('/')).is_file()
    };
    let whole = fixed.rfind('/').map_or(0, |at| at + 1);
    let end = slashes.clone().find(is_archive).unwrap_or(whole);
    let (root, rest) = text.split_at(end);
    let root = if root.len() > 1 { root.trim_end_matches('/') } else { root };
    (Some(PathBuf::from(root)), rest)
}

/// Parsed `--field`.
pub(crate) fn field(text: &str) -> Result<FieldFiles, String> {
    let (name, files) = text
        .split_once('=')
        .ok_or("expected `NAME=FILES`, such as `depth=depths/` or `caption={key}.txt`")?;
    let name = FieldName::parse(name).ok_or_else(|| {
        format!("`{name}` cannot be the name of a field; expected lower-case letters, digits and `_`, beginning with a letter")
    })?;
    self::files(name, files)
}

/// Parsed `--mask`.
pub(crate) fn mask(text: &str) -> Result<FieldFiles, String> {
    let name = FieldName::parse("mask").ok_or("`mask` is not a name")?;
    files(name, text)
}

/// A warning or error about paths that can be read in several ways, with the options for each.
pub(crate) fn ways(doubt: &Doubt) -> Option<String> {
    let ways: Vec<String> = doubt.readings.iter().filter(|way| !way.otherwise).map(way).collect();
    (!ways.is_empty()).then(|| ways.join("; "))
}

/// The option for the colours of masks.
pub(crate) fn of_colours(file: &str) -> String {
    format!("--mask-colours {}", show::quoted(file))
}

/// The option for a field of files.
pub(crate) fn of_files(field: &str, files: &str) -> String {
    match field {
        "mask" => format!("--mask {}", show::quoted(files)),
        field => format!("--field {}", show::quoted(&format!("{field}={files}"))),
    }
}

fn way(way: &WayToRead) -> String {
    let options = options(way);
    match &way.convert {
        Some(convert) => format!("{}: `{}`, then `{options}`", way.when, command(convert)),
        None => format!("{}: `{options}`", way.when),
    }
}

/// A command of Python as a shell takes it, whatever names it has.
pub(crate) fn command(python: &PythonCommand) -> String {
    let words = python.arguments.iter().map(|argument| format!(" {}", show::quoted(argument)));
    format!("python3 -c {}{}", show::quoted(python.program), words.collect::<String>())
}

/// The options that read a source in this way.
pub(crate) fn options(way: &WayToRead) -> String {
    let mut options: Vec<String> =
        way.images.iter().map(|image| format!("--images {}", show::quoted(image))).collect();
    if way.as_arrays {
        options.insert(0, "--as arrays".to_owned());
    }
    options.extend(way.files.iter().map(|(field, files)| of_files(field, files)));
    options.extend(way.mask_ignore.iter().map(|(field, n)| format!("--mask-ignore {field}={n}")));
    options.extend(way.colours.iter().map(|file| of_colours(file)));
    if way.resamples {
        options.push("--align resample".to_owned());
    }
    if way.leaves_out {
        options.push("--unlabelled skip".to_owned());
    }
    if way.skips_bad {
        options.push("--on-error skip".to_owned());
    }
    options.extend(way.lists.iter().map(|list| format!("--labels {}", show::quoted(list))));
    if let Some(group) = &way.group {
        options.push(format!("--group {}", show::quoted(group)));
        // Where classes are in doubt, there are no fractions yet.
        if !way.images.is_empty() {
            options.push("--fractions train=0.8,val=0.2".to_owned());
        }
    }
    if let Some(column) = &way.key_column {
        options.push(format!("--key-column {}", show::quoted(column)));
    }
    if let Some(column) = &way.split_column {
        options.push(format!("--split-column {}", show::quoted(column)));
    }
    if let Some(column) = &way.label_column {
        options.push(format!("--label-column {}", show::quoted(column)));
    }
    if let Some(form) = way.box_form {
        options.push(format!("--box-format {}", form.word()));
    }
    if let Some(separator) = &way.label_separator {
        options.push(format!("--label-separator {}", show::quoted(separator)));
    }
    match way.tables.as_deref() {
        Some([]) => options.push("--labels FILE".to_owned()),
        tables => options.extend(
            tables.into_iter().flatten().map(|file| format!("--labels {}", show::quoted(file))),
        ),
    }
    options.join(" ")
}

/// The hint for an error of patterns.
pub(crate) fn hint(error: &LayoutError) -> Option<String> {
    Some(match error {
        LayoutError::Doubt(doubt) => return ways(doubt),
        LayoutError::Unread { unread, .. } => {
            let then = match &unread.makes {
                Some(made) => format!("then pack `{made}`"),
                None => "then give the same command again".to_owned(),
            };
            format!("convert them in the folder of the dataset: `{}`; {then}", unread.convert)
        }
        LayoutError::UnreadFormat { convert, .. } => {
            format!("{convert}, and give that file with `--labels`")
        }
        LayoutError::NoSplit { meant, .. } => {
            format!("say which splits its values are: `--split-column {}`", show::quoted(meant))
        }
        LayoutError::TwoReadings { name, short, .. } => {
            let kind = if short.bytes().all(|b| b.is_ascii_digit()) { "[0-9]+" } else { "[^/_.-]+" };
            format!("narrow a part by a regular expression, such as `{{{name}:{kind}}}`")
        }
        LayoutError::TwoPatterns { .. } => {
            "make one of them say more of the path: the pattern with the most literal text counts"
                .to_owned()
        }
        LayoutError::UnknownSplit { word, .. } => format!(
            "say which split it is, with a pattern for this folder: `{{split=train}}{word}` in place of `{{split}}`; or take no split from it: `{{*}}`"
        ),
        LayoutError::SplitTwice { patterns } => {
            let patterns: Vec<String> =
                patterns.iter().map(|p| format!("--images {}", show::quoted(p))).collect();
            format!(
                "leave out `--fractions`, or read the folders without splits: `{}`",
                patterns.join(" ")
            )
        }
        LayoutError::Unmatched { .. } => {
            "add a pattern for them with another `--images`, or leave them out with `--unlabelled skip`"
                .to_owned()
        }
        LayoutError::NothingShared { .. } => {
            "both patterns need the parts that tell samples apart, such as `{key}`".to_owned()
        }
        LayoutError::Meant { name, meant: "label", .. } => format!(
            "write `{{label}}` in place of `{{{name}}}`; if there are no classes, add `--labels none`"
        ),
        LayoutError::Meant { name, meant, .. } => format!(
            "write `{{{meant}}}` in place of `{{{name}}}`; for a field, give it a name that is less like `{meant}`"
        ),
        LayoutError::NoField { .. } | LayoutError::Lacks { .. } => {
            "give the part another name, or `{*}` if it does not matter".to_owned()
        }
        _ => "`gular help pack` explains patterns, at `--images`".to_owned(),
    })
}

/// Options that patterns replaced.
const REPLACED: [&str; 3] = ["--label-from", "--layout", "--mask-suffix"];

/// Words for the option that replaces `flag` with this value.
pub(crate) fn instead(flag: &str, value: Option<&str>) -> Option<(String, String)> {
    let flag = REPLACED.iter().find(|old| **old == flag)?;
    let text = format!("`gular pack` has no option `{flag}` any more; path patterns replace it");
    let images = |pattern: &str| format!("`--images {}`", show::quoted(pattern));
    let hint = match (*flag, value) {
        ("--layout", Some("split")) => images("{split}/{label}/{key}.{ext}"),
        ("--layout", Some("class")) => images("{label}/{key}.{ext}"),
        ("--layout", _) => "leave it out: folders are recognised".to_owned(),
        ("--label-from", value) => {
            let pattern = of_expression(value.unwrap_or("^(cat|dog)"));
            let below = format!("{{split}}/{pattern}");
            format!("{}, or {} if the first folder is the split", images(&pattern), images(&below))
        }
        (_, value) => {
            let pattern = format!("{{key}}{}.{{ext}}", value.unwrap_or("_mask"));
            format!(
                "`--mask {}` for masks beside their images; other folders come before it, as in `masks/{pattern}` (below SRC) or `./masks/{pattern}` (from here)",
                show::quoted(&pattern)
            )
        }
    };
    let hint = if hint.starts_with("leave") { hint } else { format!("give {hint}") };
    Some((text, hint))
}

/// The pattern that finds what a search for a regular expression found: group `label`, otherwise the
/// first group, otherwise the whole match.
fn of_expression(expression: &str) -> String {
    let (anchored, rest) = match expression.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, expression),
    };
    let (rest, ends) = match rest.strip_suffix('$').filter(|rest| !rest.ends_with('\\')) {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let parts = group(rest);
    let (before, label, after) = parts.unwrap_or(("", rest, ""));
    let part = |text: &str| match text {
        "" => String::new(),
        text if !text.contains(|c| r"\.+*?()|[]{}^$".contains(c)) => text.to_owned(),
        text => format!("{{*:{text}}}"),
    };
    let start = if anchored { "" } else { "{**}" };
    // A repetition ends as late as it can, as in a search.
    let greedy = if label.ends_with(['+', '*', '}', '?']) { "(?-U)" } else { "" };
    let end = if ends { "" } else { "{**}" };
    format!("{start}{}{{label:{greedy}{label}}}{}{end}", part(before), part(after))
}

/// The class's group of an expression: what is before it, in it and behind it.
fn group(expression: &str) -> Option<(&str, &str, &str)> {
    let named = ["(?<label>", "(?P<label>"].iter().find_map(|start| {
        let at = expression.find(start)?;
        Some((at, at + start.len()))
    });
    let plain = || {
        let at = expression.find('(')?;
        let is_group = !expression[at..].starts_with("(?") && !expression[..at].ends_with('\\');
        is_group.then_some((at, at + 1))
    };
    let (start, inner) = named.or_else(plain)?;
    let end = inner + expression.get(inner..)?.find(')')?;
    Some((expression.get(..start)?, expression.get(inner..end)?, expression.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_expression_becomes_a_pattern_that_finds_the_same() {
        for (expression, pattern, path, label) in [
            ("^(cat|dog)", "{label:cat|dog}{**}", "cat.0.jpg", "cat"),
            (r"(cat|dog)\.", r"{**}{label:cat|dog}{*:\.}{**}", "x/dog.1.jpg", "dog"),
            ("cat|dog", "{**}{label:cat|dog}{**}", "x/17-dog.jpg", "dog"),
            ("^[a-z]+", "{label:(?-U)[a-z]+}{**}", "cat.0.jpg", "cat"),
            (r"_([a-z]+)\.tif$", r"{**}_{label:(?-U)[a-z]+}{*:\.tif}", "1_wood.tif", "wood"),
            (
                r"(\d+)-(?<label>[a-z]+)",
                r"{**}{*:(\d+)-}{label:(?-U)[a-z]+}{**}",
                "17-dog.jpg",
                "dog",
            ),
        ] {
            let found = of_expression(expression);
            assert_eq!(found, pattern);
            let pattern = Pattern::parse(&found).unwrap();
            let values = pattern.read(path).unwrap().unwrap();
            assert_eq!(values.get("label"), Some(label), "{found}");
        }
    }

    #[test]
    fn names_in_a_command_are_words_of_the_shell() {
        let arguments = ["a b.csv", "it's; `id`", "$(id)", "-x"].map(str::to_owned).to_vec();
        let program = "import sys; print(sys.argv[1:])";
        let line = command(&PythonCommand { program, arguments: arguments.clone() });
        assert_eq!(line, format!(r"python3 -c '{program}' 'a b.csv' 'it'\''s; `id`' '$(id)' '-x'"));
        let line = line.replacen(&format!("python3 -c '{program}'"), "printf '%s\\n'", 1);
        let ran = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap().lines().collect::<Vec<_>>(), arguments);
    }

    #[test]
    fn files_are_below_the_source_or_from_here() {
        let dir = tempfile::tempdir().unwrap();
        let zip = dir.path().join("masks.zip");
        std::fs::write(&zip, "").unwrap();
        let of = |text: &str| {
            let found = mask(text).unwrap();
            (found.files, found.pattern.map(|pattern| pattern.to_string()))
        };
        assert_eq!(of("masks/"), (Some("masks/".into()), None));
        assert_eq!(of("m/{key}.png"), (None, Some("m/{key}.png".to_owned())));
        assert_eq!(of("./m/{key}.png"), (Some("./m".into()), Some("{key}.png".to_owned())));
        assert_eq!(of("/{key}.png").0, Some("/".into()));
        let inner = format!("{}/in/{{key}}_m.png", zip.display());
        assert_eq!(of(&inner), (Some(zip), Some("in/{key}_m.png".to_owned())));
        assert!(field("depth").is_err() && field("a b=c").is_err());
        assert!(mask("{Key}").unwrap_err().contains("`Key` is not a name"));
    }
}
