//! The options that hints name.

/// Settings of packing whose option has another name.
const OPTIONS: [(&str, &str); 3] =
    [("inputs", "as"), ("memory_bytes", "memory"), ("shard_bytes", "shard-size")];

/// Names the options of settings: `--a`, `--b` or `--c`.
pub(crate) fn options(settings: &[&str]) -> String {
    let option = |setting: &&str| {
        let other = OPTIONS.iter().find(|(of, _)| of == setting);
        format!(
            "`--{}`",
            other.map_or(setting.replace('_', "-"), |(_, option)| (*option).to_owned())
        )
    };
    let named: Vec<String> = settings.iter().map(option).collect();
    match named.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => named.concat(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    /// Adds the files below `dir` whose name passes.
    fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if entry.is_dir() && name != "target" && !name.starts_with('.') {
                sources(&entry, into);
            } else if name.ends_with(".rs") {
                into.push(entry);
            }
        }
    }

    #[test]
    fn settings_of_packing_are_options() {
        let mut command = Cli::command();
        command.build();
        let verbs = command.get_subcommands().flat_map(clap::Command::get_arguments);
        let known: BTreeSet<&str> = verbs.filter_map(clap::Arg::get_long).collect();
        let mut files = Vec::new();
        let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pack/src");
        sources(&room, &mut files);
        let text: String = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let text: String = text.split_whitespace().collect();
        let lists = ["setting(&[", "fail(&["].map(|call| text.split(call).skip(1));
        let lists = lists.into_iter().flatten().filter_map(|rest| rest.split(']').next());
        let names: BTreeSet<&str> =
            lists.flat_map(|list| list.split('"').skip(1).step_by(2)).collect();
        assert!(names.len() > 20 && names.contains("fractions"), "{names:?}");
        for name in names {
            let option = options(&[name]);
            let long = option.trim_matches('`').trim_start_matches("--");
            assert!(known.contains(long), "{name}: there is no option {option}");
        }
        assert_eq!(options(&["tile", "inputs"]), "`--tile` or `--as`");
    }

    #[test]
    fn no_hint_sends_the_reader_to_a_list_of_options() {
        let mut files = Vec::new();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        sources(&folder, &mut files);
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            for words in ["lists the options", "lists its options", "--help` lists", "-h` lists"] {
                // This list has each of them once.
                let allowed = usize::from(file.ends_with("settings.rs"));
                assert_eq!(text.matches(words).count(), allowed, "{}: {words}", file.display());
            }
        }
    }
}
