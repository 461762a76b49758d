//! The options that a Python program knows: those of argparse, click and typer.
//!
//! A program whose options may come from elsewhere is not judged: its parser is given to a
//! function of another file, unknown options are kept, names are computed.

use std::collections::{BTreeMap, BTreeSet};

use super::shell::{Command, Script};
use crate::disk::{Disk, base_name, below};
use crate::finding::FileFindings;
use crate::rules;

/// What a program accepts.
#[derive(Debug, Default)]
struct Options {
    known: BTreeSet<String>,
    /// Whether the beginning of an option stands for it.
    abbreviated: bool,
}

impl Options {
    fn knows(&self, option: &str) -> bool {
        self.known.iter().any(|known| {
            known == option || (self.abbreviated && option.len() > 2 && known.starts_with(option))
        })
    }
}

/// Options among `words` that the program with this text does not know, with the one that was
/// probably meant.
pub(crate) fn unknown<'a>(
    text: &str,
    words: impl Iterator<Item = &'a str>,
) -> Vec<(String, Option<String>)> {
    let Some(options) = Source::of(text).options() else { return Vec::new() };
    let mut unknown = Vec::new();
    for word in words.take_while(|word| *word != "--") {
        let option = word.split('=').next().unwrap_or_default();
        let name = option.strip_prefix("--").unwrap_or_default();
        let is_plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        // `-l` may stand for `-lr`, and `-1` is a number.
        let letter = option.strip_prefix('-').filter(|rest| rest.len() == 1);
        let is_short = letter.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_alphabetic()))
            && !options.known.iter().any(|known| known.starts_with(option));
        if !(is_plain || is_short) || option == "-h" || options.knows(option) {
            continue;
        }
        let plain = |text: &str| text.replace(['-', '_'], "");
        let near = options.known.iter().find(|known| {
            known.starts_with("--")
                && (plain(known) == plain(option) || crate::spelling::distance(known, option) <= 2)
        });
        unknown.push((option.to_owned(), near.cloned()));
    }
    unknown
}

pub(crate) fn say(
    program: &str,
    (option, near): (String, Option<String>),
    line: usize,
    report: &mut FileFindings,
) {
    let what = format!("{program} has no option `{option}`");
    let finding = report.add(&rules::UNKNOWN_OPTION, line, what);
    if let Some(near) = near {
        finding.fix(format!("write `{near}`"));
    }
}

/// Reports options of the commands of a script that the Python programs do not know. `text_of`
/// returns the text of a program, where it is certain which one runs.
pub(crate) fn check(
    script: &Script,
    text_of: impl Fn(&str) -> Option<String>,
    report: &mut FileFindings,
) {
    check_at(script, &text_of, None, report);
}

/// The same; `line` is that of the command whose argument the script is, as of `bash -c`.
fn check_at(
    script: &Script,
    text_of: &dyn Fn(&str) -> Option<String>,
    line: Option<usize>,
    report: &mut FileFindings,
) {
    for command in &script.commands {
        if let Some(inner) = inner(command).filter(|_| line.is_none()) {
            let inner = Script::parse(inner);
            if inner.unread.is_none() && !inner.brings_files() {
                check_at(&inner, text_of, Some(command.line), report);
            }
            continue;
        }
        // `python -m torch.distributed.run train.py` runs a script.
        let module = module(command).filter(|(name, _)| text_of(name).is_some());
        let Some((name, words)) = module
            .as_ref()
            .map(|(name, words)| (name.as_str(), *words))
            .or_else(|| command.script_words())
        else {
            continue;
        };
        // The script may bring the program, or write it itself.
        let is_made = script.commands.iter().any(|other| {
            other.brings() && other.words.iter().any(|word| base_name(word) == base_name(name))
        });
        // srun may start the program in another folder.
        let moves = |word: &String| word.starts_with("--chdir") || word.starts_with("-D");
        let is_moved = command.words.iter().take_while(|word| *word != name).any(moves);
        if !name.ends_with(".py") || is_made || is_moved || script.writes(name) {
            continue;
        }
        let Some(text) = text_of(name) else { continue };
        for found in unknown(&text, words.iter().map(String::as_str)) {
            say(&format!("`{name}`"), found, line.unwrap_or(command.line), report);
        }
    }
}

/// The commands of `bash -c '…'`, also behind `srun`.
fn inner(command: &Command) -> Option<&str> {
    let shell = |word: &String| matches!(base_name(word), "bash" | "sh");
    let at = command.words.iter().position(shell)?;
    match command.words.get(at + 1..)? {
        [option, text, ..] if matches!(option.as_str(), "-c" | "-lc" | "-ec") => Some(text),
        _ => None,
    }
}

/// The file of the module that `python -m a.b` runs, and the words behind it.
fn module(command: &Command) -> Option<(String, &[String])> {
    let python = command.words.iter().position(|word| base_name(word).starts_with("python"))?;
    let words = command.words.get(python + 1..)?;
    // Behind the name of a program, `-m` is an option of that program.
    let at = words.iter().position(|word| word == "-m" || !word.starts_with('-'))?;
    let (name, words) = words.get(at..)?.strip_prefix(&["-m".to_owned()])?.split_first()?;
    let is_module = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    is_module.then(|| (format!("{}.py", name.replace('.', "/")), words))
}

/// Whether the script stays in the folder in which it is started.
pub(crate) fn stays(script: &Script) -> bool {
    let here = ["$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}", ".", "$PWD", "$(dirname $0)"];
    script.commands.iter().all(|command| match command.program() {
        "cd" | "pushd" => {
            let to = command.call().get(1).map(|word| word.replace('"', ""));
            to.is_some_and(|to| here.contains(&to.as_str()))
        }
        _ => true,
    })
}

/// The same for a script that runs where it is: its programs are looked up from `folder`.
pub(crate) fn check_in(folder: &str, script: &Script, disk: &dyn Disk, report: &mut FileFindings) {
    if stays(script) {
        check(script, |name| disk.text(&below(folder, name)), report);
    }
}

/// A word, text, sign or line end of a Python program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Name(&'a str),
    /// A text; `None` if it has escapes or expressions.
    Text(Option<&'a str>),
    Sign(char),
    End,
}
use Token::{End, Name, Sign, Text};

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut depth = 0_usize;
    while let Some(c) = rest.chars().next() {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(len);
        if behind.starts_with(['"', '\''])
            && len <= 2
            && name.chars().all(|c| "rbufRBUF".contains(c))
        {
            let (inside, after) = quoted(behind);
            let is_plain = !inside.contains('\\') && !name.contains(['f', 'F', 'b', 'B']);
            found.push(Text(is_plain.then_some(inside)));
            rest = after;
            continue;
        }
        if len > 0 {
            found.push(Name(name));
            rest = behind;
            continue;
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '#' => rest = rest.find('\n').and_then(|at| rest.get(at..)).unwrap_or_default(),
            '\\' => rest = rest.strip_prefix('\n').unwrap_or(rest),
            '\n' if depth == 0 => found.push(End),
            _ if c.is_whitespace() => {}
            _ => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                found.push(Sign(c));
            }
        }
    }
    found.push(End);
    found
}

/// The inside of a text that begins with its quote, and what follows it.
fn quoted(text: &str) -> (&str, &str) {
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| text.starts_with(quote));
    let quote = quote.unwrap_or_default();
    let inside = text.get(quote.len()..).unwrap_or_default();
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        let here = inside.get(at..).unwrap_or_default();
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if here.starts_with(quote) {
            let (inside, behind) = inside.split_at(at);
            return (inside, behind.get(quote.len()..).unwrap_or_default());
        }
    }
    (inside, "")
}

/// A program, with the names that it imports and defines.
struct Source<'a> {
    tokens: Vec<Token<'a>>,
    modules: BTreeSet<&'a str>,
    imported: BTreeSet<&'a str>,
    /// Its functions, with their parameters.
    functions: BTreeMap<&'a str, Vec<&'a str>>,
    classes: BTreeSet<&'a str>,
}

/// Programs of more words are not judged: brackets are looked for again for each name.
const MAX_TOKENS: usize = 50_000;

/// What makes a parser or a part of one.
const MAKERS: [&str; 5] = [
    "ArgumentParser",
    "add_argument_group",
    "add_mutually_exclusive_group",
    "add_subparsers",
    "add_parser",
];

/// What else is done with a parser and leaves its options as they are.
const METHODS: [&str; 16] = [
    "add_argument",
    "parse_args",
    "parse_intermixed_args",
    "set_defaults",
    "get_default",
    "error",
    "exit",
    "print_help",
    "print_usage",
    "format_help",
    "format_usage",
    "description",
    "epilog",
    "prog",
    "usage",
    "required",
];

/// Names by which the options of a program come from elsewhere, or unknown ones are kept.
const OPEN: [&str; 19] = [
    "parse_known_args",
    "parse_known_intermixed_args",
    "REMAINDER",
    "HfArgumentParser",
    "from_argparse_args",
    "jsonargparse",
    "configargparse",
    "simple_parsing",
    "optparse",
    "getopt",
    "docopt",
    "absl",
    "_actions",
    "_option_string_actions",
    "ignore_unknown_options",
    "allow_extra_args",
    "token_normalize_func",
    "MultiCommand",
    "CommandCollection",
];

/// Names of parsers that are still to be followed.
#[derive(Default)]
struct Parsers<'a> {
    names: Vec<&'a str>,
    /// Functions that return a parser.
    builders: Vec<&'a str>,
}

impl<'a> Source<'a> {
    fn of(text: &'a str) -> Self {
        let mut source = Self {
            tokens: tokens(text),
            modules: BTreeSet::new(),
            imported: BTreeSet::new(),
            functions: BTreeMap::new(),
            classes: BTreeSet::new(),
        };
        if source.tokens.len() > MAX_TOKENS {
            source.tokens.clear();
        }
        for i in 0..source.tokens.len() {
            match (source.at(i), source.at(i + 1)) {
                (Name("def"), Name(name)) => {
                    let names = source.parameters(i + 2);
                    source.functions.entry(name).or_default().extend(names);
                }
                (Name("class"), Name(name)) => drop(source.classes.insert(name)),
                (Name(word @ ("import" | "from")), Name(module)) => {
                    if !matches!(source.before(i), End | Sign(':' | ';')) {
                        continue;
                    }
                    source.modules.insert(module);
                    let mut names = source.tokens.get(i + 1..).unwrap_or_default().iter();
                    if word == "from" {
                        names.by_ref().take_while(|t| !matches!(t, Name("import") | End)).count();
                    }
                    for token in names.take_while(|token| **token != End) {
                        if let Name(name) = token {
                            source.imported.insert(name);
                        }
                    }
                }
                _ => {}
            }
        }
        source.modules.extend(["argparse"].iter().filter(|name| source.imported.contains(*name)));
        source
    }

    fn at(&self, i: usize) -> Token<'a> {
        self.tokens.get(i).copied().unwrap_or(End)
    }

    fn before(&self, i: usize) -> Token<'a> {
        i.checked_sub(1).map_or(End, |i| self.at(i))
    }

    /// Where `name` stands.
    fn all(&self, name: &str) -> impl Iterator<Item = usize> {
        (0..self.tokens.len()).filter(move |&i| self.at(i) == Name(name))
    }

    /// Where `name` is called.
    fn calls(&self, name: &str) -> impl Iterator<Item = usize> {
        self.all(name).filter(|&i| self.at(i + 1) == Sign('(') && self.before(i) != Name("def"))
    }

    /// Whether a call has this keyword, or something of this name is set.
    fn sets(&self, name: &str) -> bool {
        self.all(name).any(|i| self.is_set(i + 1))
    }

    /// Whether a `=` is at `i`, but no `==`.
    fn is_set(&self, i: usize) -> bool {
        self.at(i) == Sign('=') && self.at(i + 1) != Sign('=')
    }

    /// The bracket that closes the one at `i`.
    fn close(&self, i: usize) -> usize {
        let mut depth = 0_usize;
        for at in i..self.tokens.len() {
            match self.at(at) {
                Sign('(' | '[' | '{') => depth += 1,
                Sign(')' | ']' | '}') if depth <= 1 => return at,
                Sign(')' | ']' | '}') => depth -= 1,
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// The bracket around `i`.
    fn open(&self, i: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..i).rev() {
            match self.at(at) {
                Sign(')' | ']' | '}') => depth += 1,
                Sign('(' | '[' | '{') if depth == 0 => return Some(at),
                Sign('(' | '[' | '{') => depth -= 1,
                End if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// The first name of `a.b.c`, of which the last is at `i`.
    fn first(&self, mut i: usize) -> usize {
        while i >= 2 && self.at(i - 1) == Sign('.') && matches!(self.at(i - 2), Name(_)) {
            i -= 2;
        }
        i
    }

    /// The last name of `a.b.c`, of which the first is at `i`.
    fn last(&self, mut i: usize) -> usize {
        while self.at(i + 1) == Sign('.') && matches!(self.at(i + 2), Name(_)) {
            i += 2;
        }
        i
    }

    /// Names of the parameters in the brackets that open at `i`.
    fn parameters(&self, i: usize) -> Vec<&'a str> {
        // No function has more.
        const MAX: usize = 2_000;
        let mut names = Vec::new();
        let mut depth = 0_usize;
        for at in i..i.saturating_add(MAX) {
            match self.at(at) {
                Sign('(' | '[' | '{') => depth += 1,
                Sign(')' | ']' | '}') if depth <= 1 => break,
                Sign(')' | ']' | '}') => depth -= 1,
                Name(name) if depth == 1 && matches!(self.before(at), Sign('(' | ',' | '*')) => {
                    names.push(name);
                }
                _ => {}
            }
        }
        names
    }

    /// Whether the call of the name at `i` is one of a function of this file.
    fn is_own(&self, i: usize) -> bool {
        let Name(name) = self.at(i) else { return false };
        let receiver = self.first(i);
        let is_of = |of: &str| matches!(of, "self" | "cls") || self.classes.contains(of);
        self.functions.contains_key(name)
            && !self.imported.contains(name)
            && (receiver == i
                || matches!(self.at(receiver), Name(of) if i - receiver == 2 && is_of(of)))
    }

    /// What the program accepts; `None` if that is not certain.
    fn options(&self) -> Option<Options> {
        let uses = |module: &str| self.modules.contains(module);
        let is_open = |token: &Token<'_>| match token {
            Name(name) | Text(Some(name)) => OPEN.contains(name),
            _ => false,
        };
        if self.tokens.iter().any(is_open) || self.keeps_the_rest() {
            return None;
        }
        match (uses("argparse"), uses("click"), uses("typer")) {
            (true, false, false) => self.argparse(),
            (false, true, false) => self.click(),
            (false, _, true) => self.typer(),
            _ => None,
        }
    }

    /// Whether an argument of argparse may take all words that follow, options too.
    fn keeps_the_rest(&self) -> bool {
        // The values of `argparse.REMAINDER` and `argparse.PARSER`.
        let is_rest = |i: usize| match (self.before(i), self.at(i)) {
            (Sign('=' | ':'), Text(Some("..." | "A..."))) => true,
            (Sign('.'), Name("PARSER")) => self.at(i.saturating_sub(2)) == Name("argparse"),
            _ => false,
        };
        self.imported.contains("PARSER") || (0..self.tokens.len()).any(is_rest)
    }

    fn argparse(&self) -> Option<Options> {
        let derives = self.all("class").any(|i| {
            let head = (i..self.tokens.len()).take_while(|&at| self.at(at) != End);
            head.into_iter().any(|at| self.at(at) == Name("ArgumentParser"))
        });
        let is_open = derives || self.sets("parents") || self.sets("prefix_chars");
        if is_open || !self.reads_command_line() || !self.keeps_parsers() {
            return None;
        }
        let mut known = BTreeSet::from(["--help".to_owned()]);
        for i in self.all("add_argument") {
            if self.before(i) != Sign('.') || self.at(i + 1) != Sign('(') {
                return None;
            }
            let end = self.close(i + 1);
            let mut names = Vec::new();
            let mut at = i + 2;
            while at < end && !self.is_set(at + 1) {
                let (Text(Some(name)), Sign(',' | ')')) = (self.at(at), self.at(at + 1)) else {
                    return None;
                };
                names.push(name);
                at += 2;
            }
            known.extend(names.iter().map(|name| (*name).to_owned()));
            // Actions of the program's own may add names as BooleanOptionalAction does.
            let action = (at..end).find(|&at| self.at(at) == Name("action") && self.is_set(at + 1));
            if action.is_some_and(|at| !matches!(self.at(at + 2), Text(_))) {
                let names = names.iter().filter_map(|name| name.strip_prefix("--"));
                known.extend(names.map(|name| format!("--no-{name}")));
            }
        }
        Some(Options { known, abbreviated: !self.sets("allow_abbrev") })
    }

    /// Whether argparse gets the command line as it is.
    fn reads_command_line(&self) -> bool {
        let changes = |i: usize| {
            let behind = match self.at(i + 1) {
                Sign('[') => self.close(i + 1) + 1,
                _ => i + 1,
            };
            self.before(self.first(i)) == Name("del")
                || self.is_set(behind)
                || matches!(self.at(behind), Sign('.' | '+'))
        };
        let is_none = |name: &str| {
            self.all(name).any(|i| {
                let ends = (i + 1..i + 12).find(|&i| matches!(self.at(i), Sign('=' | ',' | ')')));
                ends.is_some_and(|i| self.is_set(i) && self.at(i + 1) == Name("None"))
            })
        };
        let mut n = 0;
        let whole = ["parse_args", "parse_intermixed_args"].iter().all(|method| {
            let mut calls = self.calls(method).filter(|&i| self.before(i) == Sign('.'));
            calls.all(|i| {
                n += 1;
                let inside = self.tokens.get(i + 2..self.close(i + 1)).unwrap_or_default();
                let inside = inside.strip_prefix(&[Name("args"), Sign('=')]).unwrap_or(inside);
                match inside {
                    [] | [Name("None")] => true,
                    [Name(name)] => is_none(name),
                    _ => {
                        let argv = [Name("sys"), Sign('.'), Name("argv")];
                        let rest = [Sign('['), Name("1"), Sign(':'), Sign(']')];
                        inside.strip_prefix(&argv).is_some_and(|behind| behind == rest)
                    }
                }
            })
        });
        n > 0 && whole && !self.imported.contains("argv") && !self.all("argv").any(changes)
    }

    /// Whether no other file can add options to a parser.
    fn keeps_parsers(&self) -> bool {
        // Programs with more are not judged: each name is looked for in the whole program.
        const MAX_NAMES: usize = 500;
        let mut parsers = Parsers::default();
        let mut makes = false;
        for (i, token) in self.tokens.iter().enumerate() {
            let Name(name) = *token else { continue };
            let is_method = MAKERS.iter().skip(1).chain(METHODS.iter().take(4)).any(|m| *m == name);
            if is_method
                && self.before(i) == Sign('.')
                && let Name(receiver) = self.at(i.saturating_sub(2))
            {
                parsers.names.push(receiver);
            }
            if MAKERS.contains(&name) && self.at(i + 1) == Sign('(') {
                let (first, end) = (self.first(i), self.close(i + 1));
                if self.before(first) == Sign('=')
                    && let Name(target) = self.at(first.saturating_sub(2))
                {
                    parsers.names.push(target);
                }
                if name == "ArgumentParser" {
                    makes = true;
                    if !matches!(self.at(end + 1), End | Sign('.')) {
                        return false;
                    }
                }
                if !self.stays(first, end, &mut parsers) {
                    return false;
                }
            }
        }
        let (mut names, mut builders) = (BTreeSet::new(), BTreeSet::new());
        while names.len() + builders.len() < MAX_NAMES {
            if let Some(name) = parsers.names.pop() {
                if names.insert(name)
                    && (self.imported.contains(name)
                        || !self.all(name).all(|i| self.keeps(i, &mut parsers)))
                {
                    return false;
                }
            } else if let Some(name) = parsers.builders.pop() {
                if builders.insert(name)
                    && !self.all(name).all(|i| self.keeps_built(i, &mut parsers))
                {
                    return false;
                }
            } else {
                return makes;
            }
        }
        false
    }

    /// Whether a parser stays in this file where its name stands at `i`. Other names that it gets
    /// are added to `parsers`.
    fn keeps(&self, i: usize, parsers: &mut Parsers<'a>) -> bool {
        let first = self.first(i);
        if !self.is_set(i + 1) || matches!(self.before(first), Sign('(' | ',')) {
            return self.stays(first, i, parsers);
        }
        let last = self.last(i + 2);
        match (self.at(last), self.at(last + 1)) {
            (Name(name), Sign('(')) => MAKERS.contains(&name) || self.is_own(last),
            (Name("None"), _) => true,
            (Name(name), End) => {
                parsers.names.push(name);
                true
            }
            _ => false,
        }
    }

    /// Whether the parser that a function returns stays in this file, where the function's name
    /// stands at `i`.
    fn keeps_built(&self, i: usize, parsers: &mut Parsers<'a>) -> bool {
        let first = self.first(i);
        let is_own = matches!(self.at(first), Name(of) if matches!(of, "self" | "cls"));
        match (self.before(i), self.at(i + 1)) {
            (Name("def"), _) => true,
            (_, Sign('(')) => self.stays(first, self.close(i + 1), parsers),
            // Something else of this name.
            (Sign('.'), _) => !is_own,
            (Sign('(' | ','), Sign('=')) => self.is_set(i + 1),
            _ => false,
        }
    }

    /// Whether a parser stays in this file that is the value of the words `first..=last`.
    fn stays(&self, first: usize, last: usize, parsers: &mut Parsers<'a>) -> bool {
        // No function has more words.
        const MAX_FUNCTION: usize = 5_000;
        let before = self.before(first);
        match self.at(last + 1) {
            Sign('.') => {
                let Name(method) = self.at(last + 2) else { return false };
                METHODS.contains(&method) || MAKERS.contains(&method)
            }
            Sign(',' | ')' | ']' | '}')
                if matches!(before, Sign('(' | ',' | '=' | '*' | '[' | '{' | ':'))
                    || matches!(before, Name("else" | "or" | "and")) =>
            {
                self.stays_in_brackets(first, parsers)
            }
            End if before == Sign('=') => {
                let Name(target) = self.at(first.saturating_sub(2)) else { return false };
                parsers.names.push(target);
                true
            }
            End if before == Name("return") => {
                parsers.builders.extend(self.function_at(first));
                // The function of the parser's name may have others inside.
                let is_made = |at: &usize| self.at(*at) == self.at(last) && self.is_set(at + 1);
                let made = (first.saturating_sub(MAX_FUNCTION)..first).rev().find(is_made);
                parsers.builders.extend(made.and_then(|at| self.function_at(at)));
                true
            }
            _ => true,
        }
    }

    /// Whether a parser stays in this file that is in the brackets around `first`.
    fn stays_in_brackets(&self, first: usize, parsers: &mut Parsers<'a>) -> bool {
        // No program has lists in lists in lists.
        const MAX_DEPTH: usize = 8;
        let mut at = first;
        for _ in 0..MAX_DEPTH {
            let Some(open) = self.open(at) else { return at == first };
            match (self.at(open), self.before(open)) {
                (_, Name("in")) => return true,
                (Sign('['), Name(name)) => return !["return", "else", "or", "and"].contains(&name),
                (Sign('['), Sign(')' | ']')) => return true,
                (Sign('('), Name(function)) => {
                    let harmless = ["isinstance", "print", "type", "str", "repr"];
                    if self.before(open - 1) == Name("def") || harmless.contains(&function) {
                        return true;
                    }
                    parsers.names.extend(self.functions.get(function).into_iter().flatten());
                    return self.is_own(open - 1);
                }
                // A tuple, list or dict, or another word in brackets.
                (_, Sign('(' | ',' | '[' | '{' | ':' | '=' | '*')) => at = open,
                (bracket, _) => return bracket == Sign('('),
            }
        }
        false
    }

    /// The last function that begins before `i`.
    fn function_at(&self, i: usize) -> Option<&'a str> {
        let def = (0..i).rev().find(|&at| self.at(at) == Name("def"))?;
        match self.at(def + 1) {
            Name(name) => Some(name),
            _ => None,
        }
    }

    /// All options that are written in the program, wherever they are.
    fn written(&self) -> BTreeSet<String> {
        let texts = self.tokens.iter().filter_map(|token| match token {
            Text(Some(text)) => Some(*text),
            _ => None,
        });
        let words = texts.flat_map(|text| text.split(['/', ' ', ';']));
        words.filter(|word| word.starts_with('-')).map(str::to_owned).collect()
    }

    fn click(&self) -> Option<Options> {
        let are_written = self.calls("option").all(|i| matches!(self.at(i + 2), Text(Some(_))));
        if !are_written || !self.has_own_commands("click") {
            return None;
        }
        let mut known = self.written();
        known.extend(["--help", "--version", "--yes", "--password"].map(str::to_owned));
        Some(Options { known, abbreviated: false })
    }

    fn typer(&self) -> Option<Options> {
        let own =
            |i: usize| matches!(self.at(i + 2), Name(name) if self.functions.contains_key(name));
        if !self.has_own_commands("typer") || !self.calls("run").all(own) {
            return None;
        }
        let mut known = self.written();
        known.extend(["--help", "--install-completion", "--show-completion"].map(str::to_owned));
        for name in self.functions.values().flatten() {
            let name = name.replace('_', "-").to_lowercase();
            known.extend([format!("--{name}"), format!("--no-{name}")]);
        }
        Some(Options { known, abbreviated: false })
    }

    /// Whether all commands are functions of this file, with decorators that add no options.
    fn has_own_commands(&self, module: &str) -> bool {
        let makes = ["command", "group", "callback"];
        let adds = ["add_command", "add_typer"];
        let foreign = adds
            .iter()
            .flat_map(|add| self.calls(add))
            .any(|i| !matches!(self.at(i + 2), Name(name) if !self.imported.contains(name)));
        let by_call = { makes.iter() }
            .flat_map(|make| self.calls(make))
            .any(|i| self.at(self.close(i + 1) + 1) == Sign('('));
        // Options in a list may come from anywhere.
        let by_list = { makes.iter() }.flat_map(|make| self.calls(make)).any(|i| {
            let end = self.close(i + 1);
            (i..end).any(|at| {
                (self.at(at) == Name("params") && self.is_set(at + 1))
                    || (self.at(at) == Sign('*') && self.at(at + 1) == Sign('*'))
            })
        });
        let adds = |i: usize| match (self.before(i), self.at(i + 1), self.at(i + 2)) {
            (Sign('.'), Sign('.'), Name(method)) => {
                ["append", "extend", "insert"].contains(&method)
            }
            (Sign('.'), Sign('+'), _) => true,
            (Sign('.'), ..) => self.is_set(i + 1),
            _ => false,
        };
        if foreign || by_call || by_list || self.sets("cls") || self.all("params").any(adds) {
            return false;
        }
        // Each function's decorators, one group after the other.
        let mut is_command = false;
        let mut is_known = true;
        let mut n = 0;
        let starts = (0..self.tokens.len()).filter(|&i| self.before(i) == End);
        for i in starts {
            match self.at(i) {
                Sign('@') => {
                    let last = self.last(i + 1);
                    let (Name(first), Name(name)) = (self.at(i + 1), self.at(last)) else {
                        return false;
                    };
                    let is_module = first == module;
                    let is_own = last == i + 1 && self.functions.contains_key(name);
                    let of_click = last == i + 1
                        && ["command", "group", "option", "argument", "pass_context"]
                            .contains(&name);
                    is_command |= makes.contains(&name) || is_module || of_click;
                    is_known &= is_module || makes.contains(&name) || is_own || of_click;
                }
                Name("def" | "async" | "class") => {
                    if is_command && !is_known {
                        return false;
                    }
                    n += usize::from(is_command);
                    (is_command, is_known) = (false, true);
                }
                _ => {}
            }
        }
        n > 0 || self.calls("run").next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(program: &str, words: &str) -> Vec<String> {
        unknown(program, words.split(' ')).into_iter().map(|(option, _)| option).collect()
    }

    /// A program whose parser is made by these lines.
    fn of(lines: &str) -> String {
        format!("import argparse\np = argparse.ArgumentParser()\n{lines}\nargs = p.parse_args()\n")
    }

    #[test]
    fn options_that_argparse_does_not_know_are_found() {
        let program =
            of("p.add_argument('--lr', type=float)\np.add_argument(\n  \"--batch-size\", \"-b\")");
        assert_eq!(found(&program, "--learning-rate 1 --lr=2 -b 3 --batch 4"), ["--learning-rate"]);
        let near = unknown(&program, ["--batch_size=3"].into_iter());
        assert_eq!(near, [("--batch_size".to_owned(), Some("--batch-size".to_owned()))]);
        assert_eq!(found(&program, "--x $Y --$Z -- --y"), ["--x"]);
    }

    #[test]
    fn all_ways_to_add_an_option_are_seen() {
        for lines in [
            "p.add_argument('--a'); p.add_argument('--b', '-c')",
            "p.add_argument(  # why, and (how\n    '--a',\n    help='the --c',\n)\np.add_argument('-c', '--b')",
            "g = p.add_argument_group('of it')\ng.add_argument('--a')\nm = g.add_mutually_exclusive_group()\nm.add_argument('--b')",
            "s = p.add_subparsers()\none = s.add_parser('one')\none.add_argument('--a')\ns.add_parser('two').add_argument('--b')",
            "for p in [p]:\n    p.add_argument('--a'), p.add_argument('--b')",
            "def more(parser):\n    parser.add_argument('--a')\n    parser.add_argument('--b')\nmore(p)",
            "(p.add_argument('--a'))\nif True: p.add_argument(\"\"\"--b\"\"\")",
        ] {
            let program = of(lines);
            assert_eq!(found(&program, "--a --b --c"), ["--c"], "{lines}");
        }
        let program = "from argparse import ArgumentParser\ndef parse_args(argv: list | None = None):\n    parser = ArgumentParser(description='x')\n    parser.add_argument('--a')\n    return parser.parse_args(argv)\nclass A:\n    pass\nparse_args()\n";
        assert_eq!(found(program, "--a --c"), ["--c"]);
        let own = "import argparse, sys\ndef build():\n    p = argparse.ArgumentParser()\n    p.add_argument('--a')\n    return p\nparser = build()\nparser.parse_args(sys.argv[1:])\n";
        assert_eq!(found(own, "--a --c"), ["--c"]);
    }

    #[test]
    fn abbreviations_and_negations_are_right() {
        let program =
            of("p.add_argument('--learning-rate')\np.add_argument('--amp', action='store_true')");
        assert_eq!(found(&program, "--learn 1 --no-amp"), ["--no-amp"]);
        let no = program.replace("'store_true'", "argparse.BooleanOptionalAction");
        assert_eq!(found(&no, "--no-amp --no-a --noamp --no-l"), ["--noamp", "--no-l"]);
        let strict = program.replace("Parser()", "Parser(allow_abbrev=False)");
        assert_eq!(found(&strict, "--learn 1"), ["--learn"]);
    }

    #[test]
    fn what_cannot_be_known_is_not_judged() {
        for lines in [
            "p.add_argument(*names)",
            "p.add_argument('--' + name)",
            "p.add_argument(f'--{name}')",
            "p.add_argument(name)",
            "add = p.add_argument",
            "from other import more\nmore(p)",
            "Trainer.add_argparse_args(p)",
            "other.extend(parser=p)",
            "g = p.add_argument_group('g')\nother.extend(g)",
            "def more(q):\n    other.extend(q)\nmore(p)",
            "p.add_lightning_args(T)",
            "p.add_argument('r', nargs=argparse.REMAINDER)",
            "p.add_argument('r', nargs='...')",
            "p.add_argument('r', nargs=\"A...\")",
            "p.add_argument('r', nargs=argparse.PARSER)",
            "REST = '...'\np.add_argument('r', nargs=REST)",
            "p.add_argument('r', **{'nargs': '...'})",
            "from other import extend\nextend([p])",
            "from other import extend\nextend(x, (p, 1))",
            "other.extend({'p': p})",
            "other.extend(parsers=[p])",
            "other.extend(*[p])",
            "cfg = {'p': p}\nother.extend(cfg)",
            "cfg = [1, p]\nother.extend(cfg)",
            "cfg = (p, 1)\nother.extend(cfg)",
            "cfg = {}\ncfg['p'] = p\nother.extend(cfg)",
            "other.extend(q or p)",
            "other.extend(p.add_argument_group('g'))",
            "def all():\n    return [p]\nother.extend(all())",
            "sys.argv.remove('--c')",
            "sys.argv = ['x']",
            "q = argparse.ArgumentParser(parents=[p])",
            "class P(argparse.ArgumentParser):\n    pass",
            "p = other.build()",
            "self.parser = p\nother.extend(self.parser)",
            "p.parse_known_args()",
            "p.parse_args(words)",
        ] {
            assert_eq!(found(&of(lines), "--c"), [""; 0], "{lines}");
        }
        let built = "import argparse\nimport other\ndef build():\n    p = argparse.ArgumentParser()\n    def inner():\n        pass\n    return p\n";
        for (end, expected) in [
            ("build().parse_args()", ["--c"].as_slice()),
            ("q = build()\nq.parse_args()", &["--c"]),
            ("other.run(main)\nbuild().parse_args()", &["--c"]),
            ("other.extend(build)\nbuild().parse_args()", &[]),
            ("other.extend(make=build)\nbuild().parse_args()", &[]),
            ("make = build\nmake().parse_args()", &[]),
            ("other.extend(build())\nbuild().parse_args()", &[]),
            ("q = build()\nother.extend(q)\nbuild().parse_args()", &[]),
        ] {
            assert_eq!(found(&format!("{built}{end}\n"), "--c"), expected, "{end}");
        }
        assert_eq!(
            found("from a import parser\nimport argparse\nparser.parse_args()", "--c"),
            [""; 0]
        );
        assert_eq!(found("import sys\nprint(sys.argv)", "--c"), [""; 0]);
        for odd in ["'", "f'", "(", ")", "@", "def", "p.add_argument(", "import", "x = '\\", "é'é"]
        {
            found(&of(odd), "--c");
            found(odd, "--c");
            found(&of(&odd.repeat(100_000)), "--c");
        }
        for many in [
            "p = [[p, ",
            "(p, [p], {p: p}, ",
            "def f():\n return p\n",
            "def f(",
            "p.add_argument(",
            "f(p,",
            "p = [p, ",
            "import p, ",
        ] {
            found(&of(&many.repeat(9_000)), "--c");
        }
    }

    #[test]
    fn options_of_click_and_typer_are_read() {
        let click = "import click\n@click.command()\n@click.option('--lr', '-l', default=1.0)\n@click.option('--amp/--no-amp')\ndef main(lr, amp):\n    pass\nmain()\n";
        assert_eq!(found(click, "--lr 1 --no-amp --help --l 2 --rate 3"), ["--l", "--rate"]);
        for (old, new) in [
            ("import click\n", "import click\nfrom other import common\n@common\n"),
            (
                "@click.command()",
                "@click.command(context_settings={'ignore_unknown_options': True})",
            ),
            ("'--lr'", "*NAMES"),
            ("@click.command()", "@click.command(params=PARAMS)"),
            ("@click.command()", "@click.command(**SETTINGS)"),
            ("main()\n", "main.params.extend(PARAMS)\nmain()\n"),
            ("main()\n", "main.params += PARAMS\nmain()\n"),
            ("main()\n", "from other import cli\nmain.add_command(cli)\n"),
        ] {
            assert_eq!(found(&click.replacen(old, new, 1), "--rate 3"), [""; 0], "{new}");
        }
        let typer = "import typer\napp = typer.Typer()\n@app.command()\ndef main(lr: float = 1.0, batch_size: int = typer.Option(8, '--size'), amp: bool = True):\n    pass\napp()\n";
        assert_eq!(found(typer, "--lr 1 --size 8 --no-amp --batch-size 3 --rate 3"), ["--rate"]);
        let upper = typer.replace("lr: float", "LR: float");
        assert_eq!(found(&upper, "--lr 1 --LR 1"), ["--LR"]);
        let run = "import typer\ndef main(lr: float = 1.0):\n    pass\ntyper.run(main)\n";
        assert_eq!(found(run, "--lr 1 --rate 3"), ["--rate"]);
        assert_eq!(found(&run.replace("run(main)", "run(other.main)"), "--rate 3"), [""; 0]);
    }
}
