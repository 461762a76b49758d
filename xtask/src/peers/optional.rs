//! Peers that no package archive has: if one is missing, its checks are skipped and named.

/// A tool that cannot be installed like the others.
#[derive(Debug)]
struct Optional {
    name: &'static str,
    /// What the tool's checks would show.
    shows: &'static str,
}

const OPTIONAL: [Optional; 4] = [
    Optional {
        name: "pelican",
        shows: "that bundles are published to, fetched and verified from a whole federation of \
                the real Pelican, and that its client and its HTCondor plug-in work with ours",
    },
    Optional {
        name: "apptainer",
        shows: "that Apptainer runs, tests and inspects our images, and binds our shards",
    },
    Optional {
        name: "condor_master",
        shows: "that a real HTCondor takes what `gular job new` writes, from submission to outputs",
    },
    Optional {
        name: "github.com",
        shows: "that `gular job lint` finds in public files what was judged to be right, and no more",
    },
];

/// A check that was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Skip {
    /// The text `NAME: TOOL missing, install: …`.
    pub(super) text: String,
}

impl Skip {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }

    fn tool(&self) -> &str {
        let what = self.text.split_once(" missing, install:").map_or("", |(what, _)| what);
        what.rsplit_once(": ").map_or("", |(_, tool)| tool)
    }
}

/// The result for the checks that were skipped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Skipped checks that fail the run.
    pub(super) failed: Vec<String>,
    /// One line for each optional tool that is missing.
    pub(super) notes: Vec<String>,
}

/// Judges the skipped checks: those that need a tool of `required` fail; those of another
/// tool only `in_ci`, unless it is optional.
pub(super) fn judge(skipped: &[Skip], required: &[String], in_ci: bool) -> Verdict {
    let mut verdict = Verdict::default();
    let is_optional = |skip: &&Skip| OPTIONAL.iter().any(|tool| tool.name == skip.tool());
    let is_required = |skip: &&Skip| required.iter().any(|name| name == skip.tool());
    let fails = |skip: &&Skip| is_required(skip) || (in_ci && !is_optional(skip));
    verdict
        .failed
        .extend(skipped.iter().filter(fails).map(|skip| format!("{} (skipped)", skip.text)));
    for tool in &OPTIONAL {
        let n = skipped.iter().filter(|skip| skip.tool() == tool.name).count();
        if n > 0 {
            verdict.notes.push(format!(
                "{n} skipped: `{}` is missing, and no package archive has it. These tests \
                would show {}. With `--require {}` they fail instead",
                tool.name, tool.shows, tool.name
            ));
        }
    }
    verdict
}

/// Checks that a tool is optional, since `--require` with a wrong name would require nothing.
pub(super) fn parse_required(text: &str) -> Result<String, String> {
    match OPTIONAL.iter().find(|tool| tool.name == text) {
        Some(tool) => Ok(tool.name.to_owned()),
        None => {
            let names: Vec<_> = OPTIONAL.iter().map(|tool| tool.name).collect();
            Err(format!("only {} are optional", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_optional_peers_may_be_missing_in_ci_unless_they_are_required() {
        let skipped = [
            "federation_box::fetch::a: pelican missing, install: see its pages",
            "image_oci: skopeo missing, install: apt-get install skopeo",
        ]
        .map(Skip::new);
        let check = |required: &[&str], in_ci: bool, expected: &[&str]| {
            let required: Vec<String> = required.iter().map(|name| (*name).to_owned()).collect();
            let verdict = judge(&skipped, &required, in_ci);
            let failed: Vec<&str> =
                verdict.failed.iter().filter_map(|text| text.split(':').next()).collect();
            assert_eq!(failed, expected);
            assert_eq!(verdict.notes.len(), 1);
            assert!(verdict.notes[0].starts_with("1 skipped: `pelican`"), "{verdict:?}");
        };
        check(&[], false, &[]);
        check(&[], true, &["image_oci"]);
        check(&["pelican"], false, &["federation_box"]);
        check(&["pelican"], true, &["federation_box", "image_oci"]);
        check(&["apptainer"], true, &["image_oci"]);
        assert_eq!(judge(&[], &["pelican".to_owned()], true), Verdict::default());
    }

    #[test]
    fn a_tool_that_every_archive_has_cannot_be_required() {
        assert_eq!(parse_required("pelican").as_deref(), Ok("pelican"));
        assert!(parse_required("skopeo").is_err());
    }
}
