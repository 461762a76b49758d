//! Training programs in Python: finds what goes wrong when they are stopped and started again.

use super::Job;
use crate::finding::FileFindings;
use crate::rules;

/// A line that is code, with its number and indentation.
struct Code<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

fn code(text: &str) -> Vec<Code<'_>> {
    let lines = text.lines().enumerate().map(|(i, line)| Code {
        number: i + 1,
        indent: line.len() - line.trim_start().len(),
        text: line.trim(),
    });
    lines.filter(|line| !line.text.is_empty() && !line.text.starts_with('#')).collect()
}

/// Whether a program may end with `exit_code`.
pub(crate) fn exits_with(text: &str, exit_code: i64) -> bool {
    let number = exit_code.to_string();
    code(text).iter().any(|line| has_word(line.text, &number))
}

/// Folders that it makes, by the names in its calls.
pub(crate) fn made_folders(text: &str) -> impl Iterator<Item = &str> {
    let makes = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with('#') && (line.contains("makedirs(") || line.contains("mkdir("))
    };
    text.lines().filter(makes).filter_map(|line| {
        let at = line.find(['"', '\''])?;
        let (quote, behind) = line.get(at..)?.split_at_checked(1)?;
        behind.split_once(quote).map(|(name, _)| name)
    })
}

/// Calls that read the file that is their first argument.
const READERS: [&str; 12] = [
    "open(",
    "read_csv(",
    "read_table(",
    "read_json(",
    "read_excel(",
    "read_parquet(",
    "load(",
    "loadtxt(",
    "genfromtxt(",
    "load_file(",
    "imread(",
    "Path(",
];

/// What a line has that writes a file, or looks whether it is there.
const NOT_READERS: [&str; 11] =
    ["'w", "\"w", "'a", "\"a", "'x'", "\"x\"", "save", "dump", "to_", "write", "exist"];

/// Files that it reads by a name in the text, with the line: none that it also writes or looks for.
pub(crate) fn read_files(text: &str) -> Vec<(usize, &str)> {
    let lines = code(text);
    let mut found: Vec<(usize, &str)> = Vec::new();
    for line in &lines {
        for (at, reader) in READERS.into_iter().flat_map(|name| line.text.match_indices(name)) {
            let (before, behind) = line.text.split_at(at);
            let is_part = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let behind = behind.get(reader.len()..).unwrap_or_default();
            let quote = behind.chars().next().filter(|c| matches!(c, '"' | '\''));
            let name = quote.and_then(|quote| behind.get(1..)?.split_once(quote));
            let Some((name, behind)) = name.filter(|_| !is_part) else { continue };
            let is_whole = behind.starts_with([')', ','])
                && (reader != "Path("
                    || [").open(", ").read_"].iter().any(|r| behind.starts_with(r)));
            let is_file =
                is_whole && !name.is_empty() && !name.starts_with('/') && !name.contains("://");
            if is_file && !found.iter().any(|(_, known)| *known == name) {
                found.push((line.number, name));
            }
        }
    }
    found.retain(|(_, name)| {
        let mut about = lines.iter().filter(|line| line.text.contains(name));
        !about.any(|line| {
            let rest = line.text.replace(name, "");
            NOT_READERS.iter().any(|word| rest.contains(word)) || rest.contains("isfile")
        })
    });
    found
}

/// Modules that it imports by name, with the line; of `a.b` the first part.
#[must_use]
pub fn imports(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for line in code(text) {
        let names = if let Some(names) = line.text.strip_prefix("import ") {
            names.split(',').map(str::trim).collect()
        } else if let Some(names) = line.text.strip_prefix("from ") {
            vec![names.trim_start()]
        } else {
            continue;
        };
        let first = |name: &str| name.find(['.', ' ', '#']).unwrap_or(name.len());
        let names = names.into_iter().map(|name| name.get(..first(name)).unwrap_or_default());
        found.extend(names.filter(|name| !name.is_empty()).map(|name| (line.number, name)));
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let after = text.get(at + word.len()..).unwrap_or_default();
        !before.ends_with(part) && !after.starts_with(part)
    })
}

/// Traps of a program that a job runs. `restarts`: it is stopped and started again.
pub(crate) fn check(text: &str, job: &Job<'_>, report: &mut FileFindings) {
    let lines = code(text);
    options_twice(&lines, report);
    splits(text, &lines, report);
    labels(&lines, report);
    shuffle(text, &lines, report);
    if job.restarts {
        exits_before_tests(&lines, report);
        saves(text, &lines, report);
    }
    report.findings.sort_by_key(|finding| finding.line);
}

/// Reports a short option that is used for two things: the second wins, or the program does not
/// start.
fn options_twice(lines: &[Code<'_>], report: &mut FileFindings) {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for line in lines {
        if line.text.starts_with("def ")
            || line.text.contains("ArgumentParser(")
            || line.text.contains("add_parser(")
        {
            seen.clear();
        }
        if !["add_argument(", "Option(", ".option("].iter().any(|call| line.text.contains(call)) {
            continue;
        }
        for option in short_options(line.text) {
            match seen.iter().find(|(known, _)| *known == option) {
                Some((_, first)) => {
                    let what =
                        format!("the option `{option}` is used twice: first in line {first}");
                    report.add(&rules::OPTION_TWICE, line.number, what);
                }
                None => seen.push((option, line.number)),
            }
        }
    }
}

/// Returns the options of the form `"-x"`, in quotes.
fn short_options(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('-') {
        let before = text.get(..at).unwrap_or_default();
        let letter = text.get(at + 1..).and_then(|rest| rest.chars().next());
        let Some(letter) = letter.filter(char::is_ascii_alphabetic) else { continue };
        let after = text.get(at + 1 + letter.len_utf8()..).unwrap_or_default();
        if before.ends_with(['"', '\'']) && after.starts_with(['"', '\'']) {
            found.extend(text.get(at..=at + 1));
        }
    }
    found
}

/// The text of the call that begins at line `at`, to its closing bracket.
fn call(lines: &[Code<'_>], at: usize, name: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    for (i, line) in lines.iter().skip(at).take(40).enumerate() {
        let part = if i == 0 {
            line.text.find(name).and_then(|at| line.text.get(at..))
        } else {
            Some(line.text)
        };
        for c in part.unwrap_or_default().chars() {
            text.push(c);
            match c {
                '(' => depth += 1,
                ')' if depth <= 1 => return text,
                ')' => depth -= 1,
                _ => {}
            }
        }
    }
    text
}

/// A split that is drawn again at each start: after a restart the program trains on samples that it tested on before.
fn splits(text: &str, lines: &[Code<'_>], report: &mut FileFindings) {
    let seeded = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let kinds: [(&str, &[&str], &[&str], &str); 3] = [
        (
            "train_test_split(",
            &["random_state"],
            &["np.random.seed(", "numpy.random.seed("],
            "add `random_state=0`",
        ),
        (
            "random_split(",
            &["generator"],
            &["manual_seed(", "seed_everything("],
            "add `generator=torch.Generator().manual_seed(0)`",
        ),
        (
            "random.shuffle(",
            &[],
            &["random.seed(", "seed_everything(", "set_seed("],
            "call `random.seed(0)` before, and sort the list first",
        ),
    ];
    for (i, line) in lines.iter().enumerate() {
        for (name, arguments, seeds, fix) in kinds {
            if !line.text.contains(name) || line.text.starts_with("def ") || seeded(seeds) {
                continue;
            }
            let call = call(lines, i, name);
            if arguments.iter().any(|argument| call.contains(argument)) {
                continue;
            }
            let what = format!("`{}` is drawn without a seed", name.trim_end_matches('('));
            report.add(&rules::UNSEEDED_SPLIT, line.number, what).fix(fix);
        }
    }
}

/// `"cat" in path` is true for every file of `/home/cathy/`.
fn labels(lines: &[Code<'_>], report: &mut FileFindings) {
    for line in lines {
        let chooses = line.text.contains(" if ") && line.text.contains(" else ");
        if !chooses && !line.text.contains("label") {
            continue;
        }
        for (at, _) in line.text.match_indices(" in ") {
            let before = line.text.get(..at).unwrap_or_default();
            let after = line.text.get(at + 4..).unwrap_or_default();
            let end = after.find([':', ')', ',']).unwrap_or(after.len());
            let place = after.get(..end).unwrap_or_default();
            let place = place.split(" else").next().unwrap_or_default().trim();
            let is_path = ["path", "file", "fname", "name"]
                .iter()
                .any(|word| place.to_lowercase().contains(word));
            let narrow = [".name", ".stem", "basename", ".parent", "split("]
                .iter()
                .any(|word| after.contains(word));
            let loops = before.trim_start().starts_with("for ") || before.contains(" for ");
            if before.ends_with(['"', '\'']) && is_path && !narrow && !loops {
                let what = format!("the label depends on a word anywhere in `{place}`");
                report.add(&rules::LABEL_IN_PATH, line.number, what);
            }
        }
    }
}

/// Reports a `DataLoader` for training that does not shuffle, so that batches have one class after
/// another.
fn shuffle(text: &str, lines: &[Code<'_>], report: &mut FileFindings) {
    // A list that is shuffled once is not in the order of its files.
    let calls = ["shuffle(", "permutation(", "randperm(", "random_split(", "train_test_split("];
    if lines.iter().any(|line| calls.iter().any(|call| line.text.contains(call))) {
        return;
    }
    for (i, line) in lines.iter().enumerate() {
        let Some(at) = line.text.find("DataLoader(") else { continue };
        let before = line.text.get(..at).unwrap_or_default();
        let call = call(lines, i, "DataLoader(");
        let first = call.split(['(', ',']).nth(1).unwrap_or_default();
        let trains = before.contains("train") || first.contains("train");
        // Our own loader shuffles unless it is told not to.
        let own = before.ends_with("gular.") || text.contains("from gular import");
        if trains
            && !own
            && !call.contains("shuffle")
            && !call.contains("sampler")
            && !call.contains("**")
        {
            report.add(&rules::NO_SHUFFLE, line.number, "the training images are not shuffled");
        }
    }
}

/// A loop that ends the program after each training, or each n-th, before the line that tests. An
/// exit for another reason, such as the time, in the middle of an epoch or before its training,
/// loses no test.
fn exits_before_tests(lines: &[Code<'_>], report: &mut FileFindings) {
    let is_exit = |line: &Code<'_>| {
        ["sys.exit(", "os._exit(", "typer.Exit("].iter().any(|call| line.text.contains(call))
            || line.text.starts_with("exit(")
    };
    let trains = |line: &Code<'_>| {
        ["train", ".backward(", ".step(", "fit("].iter().any(|word| line.text.contains(word))
    };
    for (start, head) in lines.iter().enumerate() {
        if !head.text.starts_with("for ") || !head.text.contains("epoch") {
            continue;
        }
        let rest = lines.get(start + 1..).unwrap_or_default();
        let end = rest.iter().position(|line| line.indent <= head.indent).unwrap_or(rest.len());
        let (body, behind) = rest.split_at(end);
        let Some(exit) = body.iter().position(is_exit) else { continue };
        let (before, after) = body.split_at(exit);
        let (Some(first), Some(line)) = (body.first(), after.first()) else { continue };
        // The line below which the exit stands, if it is not one of the loop's own.
        let outer = before.iter().rfind(|before| before.indent < line.indent);
        let each = line.indent == first.indent
            || outer.is_some_and(|outer| {
                let condition = outer.text.strip_prefix("if ").unwrap_or_default();
                outer.indent == first.indent
                    && condition.contains('%')
                    && ![" and ", " or ", " not "].iter().any(|word| condition.contains(word))
            });
        if !each || before.iter().any(tests) || !before.iter().any(trains) {
            continue;
        }
        if let Some(test) = after.iter().find(|line| tests(line))
            && !behind.iter().any(tests)
        {
            let what =
                format!("the program exits before its test, which is in line {}", test.number);
            report.add(&rules::EXIT_BEFORE_TEST, line.number, what);
        }
    }
}

/// Whether a line tests a model, or goes through test data.
fn tests(line: &Code<'_>) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let begins = |word: &&str| {
        let mut found = line.text.match_indices(*word);
        found.any(|(at, _)| !line.text.get(..at).is_some_and(|before| before.ends_with(part)))
    };
    !line.text.starts_with("def ")
        && (["test_", "test(", "evaluate(", "validate("].iter().any(begins)
            || ["_test(", ".eval()"].iter().any(|word| line.text.contains(word)))
}

/// A checkpoint that can be half-written, or does not hold all.
fn saves(text: &str, lines: &[Code<'_>], report: &mut FileFindings) {
    let Some(save) = lines.iter().find(|line| line.text.contains("torch.save(")) else { return };
    let renames =
        ["os.replace(", "os.rename(", ".rename(", "tmp.replace(", "temp.replace(", "shutil.move("];
    if !renames.iter().any(|word| text.contains(word)) {
        report.add(
            &rules::SAVE_NOT_ATOMIC,
            save.number,
            "each checkpoint overwrites the one before",
        );
    }
    // The state of a loader that counts what it gave out says how far the training was, and draws
    // the same again.
    let part = |c: char| !c.is_alphanumeric() && c != '_';
    let is_loader = |(at, _): (usize, &str)| {
        let name = text.get(..at).and_then(|before| before.rsplit(part).next()).unwrap_or_default();
        let name = name.to_lowercase();
        ["loader", "sampler"].iter().any(|word| name.contains(word))
    };
    if text.match_indices(".state_dict()").any(is_loader) {
        return;
    }
    let random = ["rng_state", "getstate("].iter().any(|word| text.contains(word));
    let position = ["'epoch'", "\"epoch\"", "epoch=", "'step'", "\"step\"", "step="]
        .iter()
        .any(|word| text.contains(word));
    let missing = match (random, position) {
        (true, true) => return,
        (false, true) => "the state of the random numbers",
        (true, false) => "how far the training was",
        (false, false) => "the state of the random numbers, nor how far the training was",
    };
    let what = format!("the checkpoint does not hold {missing}");
    report.add(&rules::STATE_INCOMPLETE, save.number, what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, restarts: bool) -> Vec<(&'static str, usize)> {
        let mut report = FileFindings::new("t.py");
        check(text, &Job { restarts, ..Job::default() }, &mut report);
        report.findings.iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn each_trap_is_found_and_its_repair_is_not() {
        let check = |text: &str, expected: &[(&'static str, usize)]| {
            assert_eq!(rules(text, true), expected, "{text}");
        };
        check(
            "a('x')\np.add_argument('-c', '--dir')\np.add_argument('-c', '--every')",
            &[("option-twice", 3)],
        );
        check("p.add_argument('-c')\nq = ArgumentParser()\nq.add_argument('-c')", &[]);
        check("p.add_argument('-c', default=-1)\np.add_argument('-d', default=-1)", &[]);
        check("a, b = train_test_split(x,\n  test_size=0.2)", &[("unseeded-split", 1)]);
        check("a, b = train_test_split(x,\n  random_state=0)", &[]);
        check("random.shuffle(files)", &[("unseeded-split", 1)]);
        check("random.seed(0)\nrandom.shuffle(files)", &[]);
        check("a, b = random_split(d, [1, 2])", &[("unseeded-split", 1)]);
        check("label = 0 if 'cat' in path else 1", &[("label-in-path", 1)]);
        check("label = 0 if 'cat' in Path(path).name else 1", &[]);
        check("labels = [x for x in files]\nlabel = names['a']\n", &[]);
        check("train_dl = DataLoader(ds, batch_size=5)", &[("no-shuffle", 1)]);
        check("train_dl = DataLoader(ds,\n shuffle=True)", &[]);
        check("test_dl = DataLoader(ds)", &[]);
        check("train = gular.DataLoader(url, 'train')", &[]);
        check("random.seed(1)\nrandom.shuffle(files)\ntrain_dl = DataLoader(files)", &[]);
        let saves =
            "torch.save({'m': m.state_dict(), 'data': loader.state_dict()}, t)\nos.replace(t, p)";
        check(saves, &[]);
        check(
            "for epoch in r:\n  train()\n  sys.exit(85)\n  evaluate(m)\nx",
            &[("exit-before-test", 3)],
        );
        check("for epoch in r:\n  train()\n  evaluate(m)\n  sys.exit(85)\n", &[]);
        let exits = |body: &str| format!("for epoch in range(start, n):\n{body}  evaluate(m)\n");
        let lost = "  train()\n  if epoch % every == 0:\n    save(epoch)\n    sys.exit(85)\n";
        check(&exits(lost), &[("exit-before-test", 5)]);
        check(&format!("{}evaluate(m)\n", exits(lost)), &[]);
        for right in [
            "  if stopped:\n    save(epoch)\n    sys.exit(85)\n  train()\n",
            "  if epoch % 5 == 0:\n    sys.exit(85)\n  train()\n",
            "  for batch in loader:\n    train(batch)\n    if stopped:\n      save(epoch, batch)\n      sys.exit(85)\n",
            "  for i, batch in loader:\n    train(batch)\n    if i % 100 == 0:\n      sys.exit(85)\n",
            "  train()\n  if math.isnan(loss):\n    sys.exit(1)\n",
            "  train()\n  save(epoch + 1)\n  if epoch + 1 < n and time.time() > end:\n    sys.exit(85)\n",
            "  train()\n  try:\n    save(epoch)\n  except OSError:\n    sys.exit(2)\n",
        ] {
            check(&exits(right), &[]);
        }
        check("for epoch in r:\n  train()\n  sys.exit(85)\n  copy(latest_path)\n", &[]);
        check("torch.save({'epoch': 1}, p)", &[("save-not-atomic", 1), ("state-incomplete", 1)]);
        check("torch.save({'epoch': 1, 'r': torch.get_rng_state()}, t)\nos.replace(t, p)", &[]);
    }

    #[test]
    fn what_matters_only_after_a_restart_is_not_said_otherwise() {
        assert_eq!(rules("torch.save(m, p)\nfor epoch in r:\n  sys.exit(1)\n  test(m)", false), []);
    }

    #[test]
    fn an_exit_code_is_a_number_of_its_own() {
        assert!(exits_with("sys.exit(85)", 85) && exits_with("CODE = 85\n", 85));
        assert!(!exits_with("# 85\nx = 850\ny = 0.85", 85));
    }

    #[test]
    fn folders_are_known_by_the_calls_that_make_them() {
        let text = "os.makedirs('out/a', exist_ok=True)\n# os.mkdir('no')\nPath(\"runs\").mkdir()\nos.makedirs(args.out)\n";
        assert_eq!(made_folders(text).collect::<Vec<_>>(), ["out/a", "runs"]);
        assert_eq!(made_folders("mkdir('é").count(), 0);
    }

    #[test]
    fn files_that_are_only_read_are_known() {
        let text = "c = json.load(open('a.json'))\nd = pd.read_csv(\"b.csv\", sep=';')\n\
            e = np.load('c.npy')\nf = Path('d.txt').read_text()\n# open('no')\n";
        assert_eq!(read_files(text), [(1, "a.json"), (2, "b.csv"), (3, "c.npy"), (4, "d.txt")]);
        for other in [
            "open('a', 'w')",
            "popen('a')",
            "open(f'a{i}')",
            "open('/etc/a')",
            "open(name)",
            "Path('a') / 'b'",
            "open('a' + b)",
            "if os.path.exists('a'):\n  open('a')",
            "torch.load('m.pt')\ntorch.save(m, 'm.pt')",
            "open('é",
        ] {
            assert_eq!(read_files(other), [], "{other}");
        }
    }

    #[test]
    fn imports_are_known_by_their_first_names() {
        let text = "import os, data.mine as d\nfrom model import Net\nfrom . import x\nif a:\n  import late # c\n";
        assert_eq!(imports(text), [(1, "os"), (1, "data"), (2, "model"), (5, "late")]);
    }

    #[test]
    fn odd_texts_do_not_panic() {
        for text in [
            "'-",
            "add_argument('-é'",
            "torch.save(",
            "DataLoader(",
            " in ",
            "label 'é' in é path",
            "for epoch",
        ] {
            rules(text, true);
        }
    }
}
