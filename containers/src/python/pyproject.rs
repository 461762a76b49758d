//! `pyproject.toml`: what a project needs, as it says it itself.
//!
//! Format: <https://packaging.python.org/en/latest/specifications/pyproject-toml/>; groups: PEP
//! 735; Poetry's tables: <https://python-poetry.org/docs/pyproject/>.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::{Table, Value};

use super::requirements;
use super::selection::Selection;
use super::wanted::{Ask, NeededPython, Place, Target, Wanted};
use crate::Result;
use crate::wheel::normal;

/// Largest depth of groups that include others.
const MAX_DEPTH: usize = 32;

/// Keys of uv's table, besides those of indexes, that change which packages are found, and where.
const PLACES: [&str; 6] = [
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "constraint-dependencies",
    "override-dependencies",
];

/// What a project's file says, besides its requirements.
#[derive(Debug)]
pub(super) struct Project {
    pub(super) name: Option<String>,
    pub(super) wanted: Wanted,
    /// Files with requirements, by their paths from the recipe's folder.
    pub(super) files: Vec<String>,
}

/// Reads a text that stands alone; `path` is that of its file from the recipe's folder.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line; also if the project has packages of
/// places that only its own lock file names.
pub(super) fn parse(text: &str, path: &str, selection: &Selection<'_>) -> Result<Project> {
    let project = parse_beside_lock(text, path, selection)?;
    if let Ok(table) = text.parse::<Table>() {
        Reader { text, path, table: &table }.must_be_of_usual_places(&project.wanted)?;
    }
    Ok(project)
}

/// Reads a text; the places of its packages are those of the lock file beside it.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) with the line.
pub(super) fn parse_beside_lock(
    text: &str,
    path: &str,
    selection: &Selection<'_>,
) -> Result<Project> {
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(e) => {
            let place = Place::at(path, text, e.span().map_or(0, |span| span.start));
            return Err(place.wrong(e.message().to_owned(), None));
        }
    };
    let reader = Reader { text, path, table: &table };
    let mut project = reader.project(selection)?;
    // Group of PEP 735, or of Poetry.
    for (name, _) in selection.groups(&reader.groups(), &reader.first())? {
        reader.group(name, &mut project.wanted.asks)?;
    }
    Ok(project)
}

/// The name of the project in a text, in the form that indexes use.
pub(super) fn name(text: &str) -> Option<String> {
    let table: Table = text.parse().ok()?;
    let of = |path: &[&str]| at(&table, path)?.get("name")?.as_str().map(normal);
    of(&["project"]).or_else(|| of(&["tool", "poetry"]))
}

/// The table at a path of keys.
fn at<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Table> {
    path.iter().try_fold(table, |table, key| table.get(*key)?.as_table())
}

struct Reader<'a> {
    text: &'a str,
    path: &'a str,
    table: &'a Table,
}

impl Reader<'_> {
    fn first(&self) -> Place {
        Place { path: self.path.to_owned(), line: 1 }
    }

    /// The line that has these words first, for values whose place the parser does not keep.
    fn place(&self, words: &str) -> Place {
        Place::at(self.path, self.text, self.text.find(words).unwrap_or(0))
    }

    fn folder(&self) -> &Path {
        Path::new(self.path).parent().unwrap_or(Path::new(""))
    }

    fn project(&self, selection: &Selection<'_>) -> Result<Project> {
        let name = name(self.text);
        let mut project = Project { name, wanted: Wanted::default(), files: Vec::new() };
        let poetry = at(self.table, &["tool", "poetry"]);
        let Some(table) = at(self.table, &["project"]) else {
            if let Some(poetry) = poetry {
                self.poetry(poetry, selection, &mut project)?;
                return Ok(project);
            }
            // Some projects have nothing but groups.
            if self.table.contains_key("dependency-groups") {
                selection.extras(&BTreeMap::<String, ()>::new(), &self.first())?;
                return Ok(project);
            }
            let reason = "it says nothing of the packages that its project needs";
            let hint = "give a `requirements.txt`, or the project's lock file";
            return Err(self.first().wrong(reason.to_owned(), Some(hint.to_owned())));
        };
        if let Some(python) = table.get("requires-python").and_then(Value::as_str) {
            let place = self.place("requires-python");
            project.wanted.python = Some(NeededPython::parse(python, place)?);
        }
        if self.is_dynamic(table, "dependencies") {
            self.dynamic(poetry, selection, &mut project)?;
        } else {
            project.wanted.asks = self.asks(table.get("dependencies"))?;
        }
        let mut extras = BTreeMap::new();
        for (extra, asks) in at(table, &["optional-dependencies"]).into_iter().flatten() {
            extras.insert(extra.clone(), asks);
        }
        if !self.is_dynamic(table, "dependencies")
            || !selection.extras.is_empty() && !extras.is_empty()
        {
            for (_, asks) in selection.extras(&extras, &self.first())? {
                project.wanted.asks.extend(self.asks(Some(asks))?);
            }
        }
        self.without_itself(&mut project, &extras)?;
        Ok(project)
    }

    /// Replaces `NAME[extra]`, by which an extra includes others of the same project.
    fn without_itself(
        &self,
        project: &mut Project,
        extras: &BTreeMap<String, &Value>,
    ) -> Result<()> {
        let Some(name) = project.name.clone() else { return Ok(()) };
        for _ in 0..MAX_DEPTH {
            let asks = std::mem::take(&mut project.wanted.asks);
            let (own, others): (Vec<_>, Vec<_>) =
                asks.into_iter().partition(|ask| ask.name.as_ref() == Some(&name));
            project.wanted.asks = others;
            if own.is_empty() {
                return Ok(());
            }
            let names: Vec<String> = own.into_iter().flat_map(|ask| ask.extras).collect();
            let selection = Selection { extras: &names, groups: &[] };
            for (_, asks) in selection.extras(extras, &self.first())? {
                for ask in self.asks(Some(asks))? {
                    if !project.wanted.asks.contains(&ask) {
                        project.wanted.asks.push(ask);
                    }
                }
            }
        }
        Err(self.first().wrong("its extras include each other".to_owned(), None))
    }

    fn is_dynamic(&self, project: &Table, key: &str) -> bool {
        let listed = project.get("dynamic").and_then(Value::as_array);
        listed.into_iter().flatten().any(|entry| entry.as_str() == Some(key))
    }

    /// Requirements that another table or file has.
    fn dynamic(
        &self,
        poetry: Option<&Table>,
        selection: &Selection<'_>,
        project: &mut Project,
    ) -> Result<()> {
        if let Some(poetry) = poetry.filter(|poetry| poetry.contains_key("dependencies")) {
            return self.poetry(poetry, selection, project);
        }
        // <https://setuptools.pypa.io/en/latest/userguide/pyproject_config.html#dynamic-metadata>.
        let setuptools = at(self.table, &["tool", "setuptools", "dynamic", "dependencies"]);
        let files = match setuptools.and_then(|table| table.get("file")) {
            Some(Value::String(file)) => vec![file.as_str()],
            Some(Value::Array(files)) => files.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if files.is_empty() {
            let reason = "its project computes what it needs while it is built (`dynamic`)";
            let hint = format!(
                "write it to a file with `uv pip compile {} -o requirements.txt`, and give that as `requirements`",
                self.path
            );
            return Err(self.place("dynamic").wrong(reason.to_owned(), Some(hint)));
        }
        project.files = files.iter().map(|file| requirements::below(self.folder(), file)).collect();
        Ok(())
    }

    fn asks(&self, list: Option<&Value>) -> Result<Vec<Ask>> {
        let list = list.and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        texts.map(|text| requirements::ask(text.trim(), self.folder(), &self.place(text))).collect()
    }

    fn groups(&self) -> BTreeMap<String, ()> {
        let tables = [&["dependency-groups"][..], &["tool", "poetry", "group"]];
        let tables = tables.iter().filter_map(|path| at(self.table, path));
        tables.flat_map(Table::keys).map(|name| (name.clone(), ())).collect()
    }

    /// Adds what a group needs.
    fn group(&self, name: &str, asks: &mut Vec<Ask>) -> Result<()> {
        if at(self.table, &["dependency-groups"]).is_some_and(|groups| groups.contains_key(name)) {
            return self.with_included(name, &mut Vec::new(), &mut BTreeSet::new(), asks);
        }
        let table = at(self.table, &["tool", "poetry", "group", name, "dependencies"]);
        for (package, value) in table.into_iter().flatten() {
            asks.extend(self.of_poetry(package, value, &[])?);
        }
        Ok(())
    }

    /// Adds what a group of PEP 735 and those that it includes need, each once; `open` are the
    /// groups that include this one.
    fn with_included(
        &self,
        name: &str,
        open: &mut Vec<String>,
        done: &mut BTreeSet<String>,
        asks: &mut Vec<Ask>,
    ) -> Result<()> {
        let wrong = |reason: String| Err(self.place(name).wrong(reason, None));
        let key = normal(name);
        if open.contains(&key) || open.len() > MAX_DEPTH {
            return wrong(format!("the group `{name}` includes itself, or too many others"));
        }
        if !done.insert(key.clone()) {
            return Ok(());
        }
        let groups = at(self.table, &["dependency-groups"]).into_iter().flatten();
        let entries = groups.filter(|(other, _)| normal(other) == key).map(|(_, list)| list);
        let Some(entries) = entries.filter_map(Value::as_array).next() else {
            return wrong(format!("the group `{name}` is included, and is not there"));
        };
        open.push(key);
        for entry in entries {
            match (entry, entry.get("include-group").and_then(Value::as_str)) {
                (Value::String(text), _) => {
                    asks.push(requirements::ask(text.trim(), self.folder(), &self.place(text))?);
                }
                (_, Some(other)) => self.with_included(other, open, done, asks)?,
                _ => return wrong(format!("the group `{name}` has an entry that is not known")),
            }
        }
        open.pop();
        Ok(())
    }

    /// Refuses indexes, repositories and folders that a table of a tool names: without them, the
    /// packages would be asked for by name from an index where anybody may offer that name.
    ///
    /// Sources: <https://docs.astral.sh/uv/reference/settings/>,
    /// <https://python-poetry.org/docs/repositories/>.
    fn must_be_of_usual_places(&self, wanted: &Wanted) -> Result<()> {
        let refuse = |words: &str, what: String, tool: &str| {
            let reason = format!("{what}, which the lock file of {tool} records");
            let lock = Path::new(self.path).with_file_name(format!("{tool}.lock"));
            let lock = lock.display();
            let hint = format!("run `{tool} lock`, and write `lock = \"{lock}\"` in `[python]`");
            Err(self.place(words).wrong(reason, Some(hint)))
        };
        let uv = at(self.table, &["tool", "uv"]);
        if let Some(key) =
            uv.into_iter().flat_map(Table::keys).find(|key| PLACES.contains(&&***key))
        {
            return refuse(
                key,
                format!("`{key}` of `[tool.uv]` changes where packages are from"),
                "uv",
            );
        }
        // Those that are explicit count for the packages that name them.
        let all = |table: Option<&Table>, key: &str| {
            let list = table.and_then(|table| table.get(key)).and_then(Value::as_array);
            list.into_iter().flatten().any(|index| {
                index.get("explicit").and_then(Value::as_bool) != Some(true)
                    && index.get("priority").and_then(Value::as_str) != Some("explicit")
            })
        };
        if all(uv, "index") {
            return refuse("[[tool.uv.index]]", "it names an index".to_owned(), "uv");
        }
        let poetry = at(self.table, &["tool", "poetry"]);
        if all(poetry, "source") {
            return refuse("[[tool.poetry.source]]", "it names an index".to_owned(), "poetry");
        }
        let of_uv = uv.and_then(|uv| at(uv, &["sources"]));
        let of_groups = poetry.and_then(|poetry| at(poetry, &["group"])).into_iter().flatten();
        let of_groups = of_groups.filter_map(|(_, group)| group.get("dependencies")?.as_table());
        let of_poetry = poetry.and_then(|poetry| at(poetry, &["dependencies"])).into_iter();
        let of_poetry: Vec<&Table> = of_poetry.chain(of_groups).collect();
        let asks = wanted.asks.iter().filter(|ask| matches!(ask.target, Target::Index { .. }));
        for name in asks.filter_map(|ask| ask.name.as_ref()) {
            let named = |(other, _): &(&String, &Value)| normal(other) == *name;
            let what = || format!("it names the place that `{name}` is from");
            if let Some((key, _)) = of_uv.into_iter().flatten().find(named) {
                return refuse(&format!("{key} ="), what(), "uv");
            }
            let mut entries = of_poetry.iter().flat_map(|table| table.iter()).filter(named);
            let elsewhere = |value: &Value| {
                ["source", "git", "path", "url", "file"].iter().any(|key| value.get(*key).is_some())
            };
            let found = entries.find(|(_, value)| match value {
                Value::Array(entries) => entries.iter().any(elsewhere),
                value => elsewhere(value),
            });
            if let Some((key, _)) = found {
                return refuse(&format!("{key} ="), what(), "poetry");
            }
        }
        Ok(())
    }

    /// Poetry's own table of requirements.
    fn poetry(
        &self,
        poetry: &Table,
        selection: &Selection<'_>,
        project: &mut Project,
    ) -> Result<()> {
        let mut extras = BTreeMap::new();
        for (extra, packages) in at(poetry, &["extras"]).into_iter().flatten() {
            let packages = packages.as_array().into_iter().flatten().filter_map(Value::as_str);
            extras.insert(extra.clone(), packages.map(normal).collect::<Vec<_>>());
        }
        let chosen = selection.extras(&extras, &self.first())?;
        let chosen: Vec<String> = chosen.into_iter().flat_map(|(_, names)| names.clone()).collect();
        for (package, value) in at(poetry, &["dependencies"]).into_iter().flatten() {
            if package == "python" {
                let text = value.as_str().unwrap_or_default();
                let versions = versions(text).unwrap_or_else(|| text.to_owned());
                let place = self.place("python =");
                project.wanted.python = Some(NeededPython::parse(&versions, place)?);
            } else {
                project.wanted.asks.extend(self.of_poetry(package, value, &chosen)?);
            }
        }
        Ok(())
    }

    /// The requirements of one of Poetry's keys; `chosen` are the optional packages to take.
    fn of_poetry(&self, package: &str, value: &Value, chosen: &[String]) -> Result<Vec<Ask>> {
        let place = self.place(&format!("{package} ="));
        let entries = match value {
            Value::Array(entries) => entries.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut asks = Vec::new();
        for entry in entries {
            let (version, table) = match entry {
                Value::String(version) => (version.as_str(), None),
                Value::Table(table) => {
                    let version = table.get("version").and_then(Value::as_str);
                    (version.unwrap_or("*"), Some(table))
                }
                _ => ("", None),
            };
            let word = |key: &str| table.and_then(|table| table.get(key)).and_then(Value::as_str);
            let optional = table.and_then(|table| table.get("optional"));
            if optional == Some(&Value::Boolean(true)) && !chosen.contains(&normal(package)) {
                continue;
            }
            let extras = table.and_then(|table| table.get("extras")).and_then(Value::as_array);
            let extras: Vec<_> = extras.into_iter().flatten().filter_map(Value::as_str).collect();
            let extras = match extras.is_empty() {
                true => String::new(),
                false => format!("[{}]", extras.join(",")),
            };
            let revision = ["rev", "tag", "branch"].iter().find_map(|key| word(key));
            let git = word("git").map(|git| match revision {
                Some(revision) => format!("git+{git}@{revision}"),
                None => format!("git+{git}"),
            });
            let inside = word("path").map(|path| match path.starts_with(['.', '/']) {
                true => path.to_owned(),
                false => format!("./{path}"),
            });
            let address = git.or_else(|| word("url").map(str::to_owned)).or(inside);
            let mut text = match (address, versions(version)) {
                (Some(address), _) => format!("{package}{extras} @ {address}"),
                (None, Some(versions)) => format!("{package}{extras}{versions}"),
                (None, None) => {
                    let reason =
                        format!("`{package}` has the versions `{version}`, which cannot be read");
                    let hint = "write the versions of all packages with `poetry lock`, and give `poetry.lock`";
                    return Err(place.wrong(reason, Some(hint.to_owned())));
                }
            };
            let python = word("python").and_then(versions);
            let python = python
                .filter(|versions| !versions.is_empty())
                .map(|versions| python_marker(&versions));
            let markers: Vec<String> =
                word("markers").map(|text| format!("({text})")).into_iter().chain(python).collect();
            if !markers.is_empty() {
                text.push_str(&format!(" ; {}", markers.join(" and ")));
            }
            asks.push(requirements::ask(&text, self.folder(), &place)?);
        }
        Ok(asks)
    }
}

/// The marker of versions such as `>=3.8,<3.12`.
fn python_marker(versions: &str) -> String {
    let one = |clause: &str| {
        let at = clause.find(|c: char| c.is_ascii_digit()).unwrap_or(clause.len());
        let (operator, version) = clause.split_at(at);
        format!("python_version {} '{}'", operator.trim(), version.trim())
    };
    versions.split(',').map(one).collect::<Vec<_>>().join(" and ")
}

/// Poetry's versions as PEP 440 writes them; `None` for alternatives (`||`) and what is not known.
///
/// <https://python-poetry.org/docs/dependency-specification/#version-constraints>.
pub(super) fn versions(text: &str) -> Option<String> {
    let mut clauses = Vec::new();
    for clause in text.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
        match clause.chars().next() {
            _ if clause.contains('|') => return None,
            _ if clause == "*" => {}
            Some('^') => clauses.push(up_to(clause.get(1..)?, |_, first| first)?),
            Some('~') if !clause.starts_with("~=") => {
                clauses.push(up_to(clause.get(1..)?, |count, _| count.min(2) - 1)?);
            }
            Some(c) if c.is_ascii_digit() => clauses.push(format!("=={clause}")),
            Some('=') if !clause.starts_with("==") => clauses.push(format!("={clause}")),
            _ => clauses.extend(clause.split_whitespace().fold(
                Vec::new(),
                |mut parts: Vec<String>, word| {
                    // `>= 1.0 <2` has a space after the operator, and one between clauses.
                    match parts.last_mut().filter(|last| last.ends_with(['=', '<', '>', '~'])) {
                        Some(last) => last.push_str(word),
                        None => parts.push(word.to_owned()),
                    }
                    parts
                },
            )),
        }
    }
    Some(clauses.join(","))
}

/// `>=1.2.3,<2` of `1.2.3`: the number at a position grows by one. The position is chosen from the
/// count of numbers and the first one that is not zero.
fn up_to(version: &str, position: impl Fn(usize, usize) -> usize) -> Option<String> {
    let version = version.trim();
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(version.len());
    let numbers: Vec<u64> =
        version.get(..end)?.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let first = numbers.iter().position(|number| *number != 0).unwrap_or(numbers.len() - 1);
    let position = position(numbers.len(), first);
    let mut upper: Vec<String> = numbers.iter().take(position).map(u64::to_string).collect();
    upper.push(numbers.get(position)?.checked_add(1)?.to_string());
    Some(format!(">={version},<{}", upper.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(text: &str, extras: &[&str], groups: &[&str]) -> Result<Vec<String>> {
        let owned =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (extras, groups) = (owned(extras), owned(groups));
        let selection = Selection { extras: &extras, groups: &groups };
        let project = parse(text, "in/pyproject.toml", &selection)?;
        Ok(project.wanted.asks.iter().map(|ask| ask.text("/")).collect())
    }

    const PROJECT: &str = "[project]\nname = \"Eo_Train\"\nrequires-python = \">=3.9\"\ndependencies = [\n  \"numpy>=1.24\",\n  \"tomli; python_version < '3.11'\",\n]\n[project.optional-dependencies]\nall = [\"eo-train[log,geo]\"]\nlog = [\"wandb\"]\ngeo = [\"rasterio\", \"wandb\"]\n[dependency-groups]\ndev = [\"pytest\", {include-group = \"lint\"}]\nlint = [\"ruff\"]\n";

    #[test]
    fn a_project_says_what_it_needs() {
        let always = ["numpy>=1.24", "tomli ; python_version < '3.11'"];
        assert_eq!(asks(PROJECT, &[], &[]).unwrap(), always);
        let all = asks(PROJECT, &["all"], &["dev"]).unwrap();
        assert_eq!(all[2..], ["wandb", "rasterio", "pytest", "ruff"].map(str::to_owned));
        let selection = Selection { extras: &[], groups: &[] };
        let project = parse(PROJECT, "p", &selection).unwrap();
        assert_eq!(project.name.as_deref(), Some("eo-train"));
        assert_eq!(project.wanted.python.unwrap().from.line, 3);
        let dynamic = "[project]\nname = \"a\"\ndynamic = [\"dependencies\"]\n";
        let files = format!(
            "{dynamic}[tool.setuptools.dynamic]\ndependencies = {{ file = [\"r.txt\"] }}\n"
        );
        assert_eq!(parse(&files, "in/p.toml", &selection).unwrap().files, ["in/r.txt"]);
        for (text, extras, says) in [
            (dynamic, &[][..], "line 3: its project computes what it needs"),
            (PROJECT, &["none"], "the extra `none`, which is not there"),
            ("[build-system]\nrequires = []\n", &[], "says nothing of the packages"),
            (
                "[project]\nname = 1\ndependencies = [\"a b\"]\n",
                &[],
                "line 3: `a b` is not a requirement",
            ),
            ("[project", &[], "line 1"),
        ] {
            let error = asks(text, extras, &[]).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let circle = "[project]\nname = \"a\"\n[project.optional-dependencies]\nx = [\"a[x]\"]\n";
        assert!(asks(circle, &["x"], &[]).unwrap_err().to_string().contains("include each other"));
        let circle = "[dependency-groups]\na = [{include-group = \"a\"}]\n";
        assert!(asks(circle, &[], &["a"]).is_err());
        let absent = "[dependency-groups]\na = [{include-group = \"b\"}]\nc = [\"not a name\"]\n";
        let error = asks(absent, &[], &["a"]).unwrap_err().to_string();
        assert!(error.contains("the group `b` is included, and is not there"), "{error}");
        // Groups that nobody chose are not read.
        assert!(asks(absent, &[], &[]).unwrap().is_empty());
    }

    #[test]
    fn a_group_that_is_included_often_is_read_once() {
        let mut text = "[dependency-groups]\ng30 = [\"a\"]\n".to_owned();
        for level in 0..30 {
            let next = format!("{{include-group = \"G_{}\"}}", level + 1).replace("G_30", "g30");
            text.push_str(&format!("g-{level} = [{next}, {next}]\n"));
        }
        assert_eq!(asks(&text, &[], &["g.0"]).unwrap(), ["a"]);
    }

    #[test]
    fn packages_of_other_places_need_the_lock_file_that_names_them() {
        let project = "[project]\nname = \"p\"\ndependencies = [\"own-tool\"]\n";
        let poetry = "[tool.poetry]\nname = \"p\"\n[tool.poetry.dependencies]\n";
        let index =
            |name: &str| format!("[[tool.{name}]]\nname = \"i\"\nurl = \"https://i.example\"\n");
        for (text, line, says, lock) in [
            (
                format!(
                    "{project}[tool.uv.sources]\nOwn_Tool = {{ git = \"https://x.example/t\" }}\n"
                ),
                5,
                "that `own-tool` is from",
                "uv",
            ),
            (format!("{project}{}", index("uv.index")), 4, "it names an index", "uv"),
            (
                format!("{project}[tool.uv]\nextra-index-url = [\"https://i.example\"]\n"),
                5,
                "`extra-index-url` of `[tool.uv]`",
                "uv",
            ),
            (
                format!("{poetry}own = \"*\"\n{}", index("poetry.source")),
                5,
                "it names an index",
                "poetry",
            ),
            (
                format!("{poetry}own = {{version = \"1\", source = \"i\"}}\n"),
                4,
                "that `own` is from",
                "poetry",
            ),
            (
                format!("{project}[tool.poetry.dependencies]\nown-tool = {{path = \"../t\"}}\n"),
                5,
                "that `own-tool` is from",
                "poetry",
            ),
        ] {
            let error = asks(&text, &[], &[]).unwrap_err();
            let shown = error.to_string();
            assert!(shown.starts_with(&format!("`in/pyproject.toml` line {line}: ")), "{shown}");
            assert!(shown.contains(says), "{shown}");
            let hint =
                format!("run `{lock} lock`, and write `lock = \"in/{lock}.lock\"` in `[python]`");
            assert_eq!(error.hint(), Some(hint.as_str()));
            let selection = Selection { extras: &[], groups: &[] };
            assert!(parse_beside_lock(&text, "p", &selection).is_ok());
        }
        // What is said of packages that nobody asks for changes nothing.
        let others = format!(
            "{project}[tool.uv.sources]\nother = {{ path = \"x\" }}\n{}explicit = true\n",
            index("uv.index")
        );
        assert_eq!(asks(&others, &[], &[]).unwrap(), ["own-tool"]);
    }

    #[test]
    fn poetrys_own_tables_are_read() {
        let text = "[tool.poetry]\nname = \"p\"\n[tool.poetry.dependencies]\npython = \"^3.9\"\nnumpy = \"^1.24\"\ntomli = {version = \"^2.0\", python = \"<3.11\"}\nown = {git = \"https://x.example/own\", rev = \"v1\"}\nlocal = {path = \"libs/local\"}\ntorch = [{version = \"2.1\", markers = \"sys_platform == 'linux'\"}, {version = \"2.0\", markers = \"sys_platform != 'linux'\"}]\nwandb = {version = \"*\", optional = true, extras = [\"media\"]}\n[tool.poetry.extras]\nlog = [\"wandb\"]\n[tool.poetry.group.dev.dependencies]\npytest = \"~7.1\"\n";
        let expected = [
            "local @ file:///in/libs/local",
            "numpy>=1.24, <2",
            "own @ git+https://x.example/own@v1",
            "tomli>=2.0, <3 ; python_version < '3.11'",
            "torch==2.1 ; (sys_platform == 'linux')",
            "torch==2.0 ; (sys_platform != 'linux')",
        ];
        assert_eq!(asks(text, &[], &[]).unwrap(), expected);
        let more = asks(text, &["log"], &["dev"]).unwrap();
        assert_eq!(more[6..], ["wandb[media]", "pytest>=7.1, <7.2"].map(str::to_owned));
    }

    /// Source: the page on version constraints of Poetry's documentation.
    #[test]
    fn poetrys_versions_are_those_of_pep_440() {
        for (text, expected) in [
            ("^1.2.3", ">=1.2.3,<2"),
            ("^0.2.3", ">=0.2.3,<0.3"),
            ("^0.0.3", ">=0.0.3,<0.0.4"),
            ("^0.0", ">=0.0,<0.1"),
            ("^0", ">=0,<1"),
            ("~1.2.3", ">=1.2.3,<1.3"),
            ("~1.2", ">=1.2,<1.3"),
            ("~1", ">=1,<2"),
            ("*", ""),
            ("1.2.*", "==1.2.*"),
            ("1.2", "==1.2"),
            (">= 1.2, <2", ">=1.2,<2"),
            (">=1.2 <2", ">=1.2,<2"),
            ("~=1.2", "~=1.2"),
            ("=1.2", "==1.2"),
        ] {
            assert_eq!(versions(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["^1 || ^2", "^x", "^"] {
            assert_eq!(versions(bad), None, "{bad}");
        }
    }
}
