//! Shell scripts: commands, their words, and traps in them.

mod read;
mod restarts;

use std::collections::BTreeSet;
use std::ops::Range;

use super::Job;
use crate::disk::base_name;
use crate::finding::{Edit, FileFindings, JobFinding};
use crate::rules;
pub(crate) use read::Token;
use read::{Reading, read};

/// The operator between a command and the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next command follows after a new line or `;`.
    Then,
    /// `&`: the script continues while the command runs.
    Beside,
    /// The operator is `|`.
    Pipe,
    /// The operator is `&&`.
    And,
    /// The operator is `||`.
    Or,
}

/// One simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    /// The command's first line, from 1.
    pub(crate) line: usize,
    /// The command's words without quotes, redirections included.
    pub(crate) words: Vec<String>,
    pub(crate) next: Next,
    /// Whether the command consists of words: not `[[ … ]]`, not `(( … ))`.
    is_simple: bool,
    /// The line whose end ended the command before, if only that parts the two, and this one
    /// begins its line.
    after: Option<usize>,
    /// Whether the command is the condition of an `if` or a loop.
    tested: bool,
    /// Whether an `if` around the command looks whether a file or folder exists.
    looked: bool,
    /// Whether the command is in a function.
    in_function: bool,
    /// Where the command's tokens are among those of the script.
    tokens: Range<usize>,
}

/// Words before a command that leave it the command it is.
const PREFIXES: [&str; 3] = ["exec", "nohup", "command"];

/// Programs that start the one that is named behind them.
const LAUNCHERS: [&str; 17] = [
    "python",
    "python3",
    "bash",
    "sh",
    "source",
    ".",
    "torchrun",
    "srun",
    "mpirun",
    "mpiexec",
    "apptainer",
    "singularity",
    "timeout",
    "accelerate",
    "deepspeed",
    "stdbuf",
    "gular",
];

/// Other commands by which a shell script is known.
const OTHERS: [&str; 22] = [
    "cat",
    "cd",
    "chmod",
    "date",
    "echo",
    "exit",
    "export",
    "hostname",
    "ls",
    "mkdir",
    "module",
    "nvidia-smi",
    "pwd",
    "rm",
    "sleep",
    "tee",
    "touch",
    "trap",
    "wait",
    "[",
    "[[",
    "test",
];

/// Programs that bring or unpack files, after which nobody knows what is there.
const BRINGERS: [&str; 14] = [
    "tar",
    "unzip",
    "wget",
    "curl",
    "git",
    "pip",
    "conda",
    "pelican",
    "cp",
    "mv",
    "rsync",
    "7z",
    "gunzip",
    "unsquashfs",
];

impl Command {
    /// A command of these words.
    pub(crate) fn of(words: Vec<String>) -> Self {
        Self {
            line: 1,
            words,
            next: Next::Then,
            is_simple: true,
            after: None,
            tested: false,
            looked: false,
            in_function: false,
            tokens: 0..0,
        }
    }

    /// The command's words from the program's name on: without assignments and keywords.
    pub(crate) fn call(&self) -> &[String] {
        let skipped = |word: &&String| {
            let name = word.split('=').next().unwrap_or_default();
            let assigns = word.contains('=')
                && !name.is_empty()
                && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            assigns || PREFIXES.contains(&word.as_str())
        };
        let n = self.words.iter().take_while(skipped).count();
        self.words.get(n..).unwrap_or_default()
    }

    /// The program's name without its folder.
    pub(crate) fn program(&self) -> &str {
        self.call().first().map_or("", |word| base_name(word))
    }

    /// The script that the command runs, if it runs one.
    pub(crate) fn script(&self) -> Option<&str> {
        let is_script = |word: &str| {
            [".py", ".sh", ".bash"].iter().any(|end| word.ends_with(end))
                && !word.contains(char::is_whitespace)
        };
        let (first, rest) = self.call().split_first()?;
        if is_script(first) {
            return Some(first);
        }
        let program = self.program();
        if !LAUNCHERS.contains(&program) && !program.starts_with("python") {
            return None;
        }
        let found = rest.iter().map(String::as_str);
        let found = { found }.find(|word| is_script(word) && !word.starts_with('-'))?;
        // `source` looks for a bare name on the PATH.
        let on_path = matches!(program, "source" | ".") && !found.contains('/');
        (!on_path).then_some(found)
    }

    /// The script that the command runs, with the words behind it.
    pub(crate) fn script_words(&self) -> Option<(&str, &[String])> {
        let name = self.script()?;
        let at = self.words.iter().position(|word| word == name)?;
        Some((name, self.words.get(at + 1..).unwrap_or_default()))
    }

    /// Whether the command may add files that are not named in the script.
    pub(crate) fn brings(&self) -> bool {
        BRINGERS.contains(&self.program()) && !self.packs()
    }

    /// Whether the command is a `tar` that makes an archive.
    fn packs(&self) -> bool {
        let packs = |(at, word): (usize, &String)| {
            let is_option = at == 0 || (word.starts_with('-') && !word.starts_with("--"));
            word == "--create" || (is_option && word.contains('c') && !word.contains('x'))
        };
        self.program() == "tar" && self.call().iter().skip(1).enumerate().any(packs)
    }

    /// The archive that the command makes.
    fn archive(&self) -> Option<&String> {
        let words = self.call().get(1..)?;
        match self.program() {
            "zip" => words.iter().find(|word| !word.starts_with('-')),
            "tar" if self.packs() => {
                // `cfz FILE`, `-czf FILE`, `--file FILE`
                let names = |(at, word): (usize, &String)| {
                    word == "--file"
                        || (at == 0 && !word.starts_with('-') && word.contains('f'))
                        || (word.starts_with('-') && !word.starts_with("--") && word.ends_with('f'))
                };
                words.get(words.iter().enumerate().position(names)? + 1)
            }
            _ => None,
        }
    }

    /// The files that the command writes: behind `>`, `-o` or `wget -O`, those of `tee`, and
    /// archives that it makes.
    pub(crate) fn writes(&self) -> impl Iterator<Item = &str> {
        let operators = [">", ">>", ">|", "&>", "&>>", ">&", "<>"];
        let redirected = self.words.windows(2).filter_map(move |pair| match pair {
            [operator, file] => {
                let plain = operator.trim_start_matches(|c: char| c.is_ascii_digit());
                operators.contains(&plain).then_some(file)
            }
            _ => None,
        });
        let of_tee = self.call().iter().skip(1).filter(|_| self.program() == "tee");
        // Of these programs `-o` is another option.
        let is_other =
            ["apptainer", "grep", "singularity", "tar", "unzip"].contains(&self.program());
        let is_target = move |word: &str| {
            (word == "-o" && !is_other) || (word == "-O" && self.program() == "wget")
        };
        let targets = self.call().windows(2).filter_map(move |pair| match pair {
            [option, file] if is_target(option) => Some(file),
            _ => None,
        });
        redirected.chain(of_tee).chain(targets).chain(self.archive()).map(String::as_str)
    }

    /// Whether the command is one that shell scripts have and programs in other languages do not.
    fn is_of_shell(&self) -> bool {
        let program = self.program();
        match self.call() {
            [] => true,
            // Other languages have a `set`, too.
            [set, rest @ ..] if set == "set" => {
                rest.iter().all(|word| word.starts_with(['-', '+']))
            }
            [path, ..] => {
                path.contains('/')
                    || self.script().is_some()
                    || [&LAUNCHERS[..], &BRINGERS, &OTHERS].iter().any(|set| set.contains(&program))
            }
        }
    }

    /// Whether the command is the job's actual work, rather than preparation.
    pub(crate) fn is_work(&self) -> bool {
        let program = self.program();
        let module = self.call().iter().any(|word| word == "-m")
            && !self.call().iter().any(|word| ["pip", "venv", "zipfile"].contains(&word.as_str()));
        (self.script().is_some() && !matches!(program, "source" | "."))
            || (program.starts_with("python") && module)
            || matches!(program, "torchrun" | "gular-train" | "accelerate" | "deepspeed" | "srun")
    }
}

/// A script's commands.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) commands: Vec<Command>,
    /// Whether the script has `set -e`.
    pub(crate) stops_at_errors: bool,
    /// Whether the script has `set -o pipefail`.
    pub(crate) pipefail: bool,
    /// Lines that end in a comment.
    pub(crate) comments: BTreeSet<usize>,
    /// All words, operators and line ends, to compare the script with another one; `None` if it
    /// is not understood. Then `commands` is what was read before that point.
    pub(crate) tokens: Option<Vec<Token>>,
    /// The line at which reading stopped, if it is not understood.
    pub(crate) unread: Option<usize>,
    blank_words: BTreeSet<usize>,
}

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let Reading { commands, tokens, comments, blank_words, unread } = read(text);
        let tokens = unread.is_none().then_some(tokens);
        let mut script =
            Self { commands, comments, tokens, unread, blank_words, ..Self::default() };
        let shebang = text.lines().next().unwrap_or_default();
        script.stops_at_errors =
            shebang.starts_with("#!") && shebang.split(' ').any(|word| word == "-e");
        for command in &script.commands {
            if let [set, options @ ..] = command.call()
                && set == "set"
            {
                let short = |option: &&String| {
                    option.starts_with('-') && !option.starts_with("--") && option.contains('e')
                };
                script.stops_at_errors |=
                    options.iter().any(|option| short(&option) || option == "errexit");
                script.pipefail |= options.iter().any(|option| option == "pipefail");
            }
        }
        script
    }

    /// The tokens of one of the script's commands; none if the script is not understood.
    pub(crate) fn tokens_of(&self, command: &Command) -> &[Token] {
        let tokens = self.tokens.as_deref().unwrap_or_default();
        tokens.get(command.tokens.clone()).unwrap_or_default()
    }

    /// Whether the script itself may end with `exit_code`: `exit 85`, `code=85`.
    pub(crate) fn exits_with(&self, exit_code: i64) -> bool {
        let code = exit_code.to_string();
        let sets = |word: &str| {
            word.strip_suffix(&code)
                .and_then(|head| head.strip_suffix('='))
                .is_some_and(|name| !name.starts_with('-'))
        };
        self.commands.iter().any(|command| {
            let ends = matches!(command.program(), "exit" | "return");
            let first = command.words.iter().find(|word| !PREFIXES.contains(&word.as_str()));
            (ends && command.words.contains(&code)) || first.is_some_and(|word| sets(word))
        })
    }

    /// Whether the file `name`, which does not begin with `#!`, is a shell script beyond doubt.
    pub(crate) fn is_certain(&self, name: &str) -> bool {
        let is_known = || {
            self.commands.iter().all(Command::is_of_shell)
                && self.commands.iter().any(|command| !command.call().is_empty())
        };
        self.tokens.is_some()
            && match base_name(name).rsplit_once('.') {
                Some((_, end)) => matches!(end, "sh" | "bash" | "sbatch" | "slurm"),
                None => is_known(),
            }
    }

    /// The scripts that this one runs, each with the line.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = (usize, &str)> {
        self.commands.iter().filter_map(|command| Some((command.line, command.script()?)))
    }

    /// Whether the script itself writes the file `name`, as by `cat > name <<EOF`.
    pub(crate) fn writes(&self, name: &str) -> bool {
        self.writes_before(self.commands.len(), name)
    }

    /// Whether one of the first `end` commands writes the file `name`.
    pub(crate) fn writes_before(&self, end: usize, name: &str) -> bool {
        let plain = |path: &str| path.trim_start_matches("./").to_owned();
        self.commands.iter().take(end).flat_map(Command::writes).any(|file| {
            // Which folder a variable names is not known.
            plain(file) == plain(name) || (file.contains('$') && base_name(file) == base_name(name))
        })
    }

    /// Whether the script may add files that it does not name, or enters another folder.
    pub(crate) fn brings_files(&self) -> bool {
        self.commands.iter().any(|c| c.brings() || matches!(c.program(), "cd" | "pushd"))
    }
}

/// Reports faults that any script may have.
pub(crate) fn check(text: &str, script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    line_ends(text, script, job, report);
    if let Some(line) = script.unread {
        if !report.findings.iter().any(|finding| finding.rule == rules::WINDOWS_LINES.name) {
            let what = "the script is not understood from here on, so it was not judged";
            report.add(&rules::NOT_UNDERSTOOD, line, what);
        }
        return;
    }
    continuations(text, script, report);
    assignments(script, report);
    if job.restarts {
        restarts::check(text, script, job, report);
    }
    exit_code(script, job, report);
}

/// Reports line ends with which the kernel cannot read the first line of a program.
pub(crate) fn windows_lines<'a>(
    text: &str,
    report: &'a mut FileFindings,
) -> Option<&'a mut JobFinding> {
    let first = text.split('\n').next().unwrap_or_default();
    let is_bad = first.starts_with("#!") && first.ends_with('\r');
    is_bad.then(|| report.add(&rules::WINDOWS_LINES, 1, "the file has Windows line ends (CR LF)"))
}

/// Reports a first line that the kernel cannot read.
fn line_ends(text: &str, script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    let first = text.split('\n').next().unwrap_or_default();
    if let Some(finding) = windows_lines(text, report) {
        let lines =
            text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect::<Vec<_>>();
        finding.edit = Some(Edit { line: 1, count: lines.len(), lines });
    } else if let Some(rule) = job.needs_shebang.filter(|_| !first.starts_with("#!")) {
        let is_shell = script.is_certain(&report.file);
        let without_mark = first.strip_prefix('\u{feff}').filter(|rest| rest.starts_with("#!"));
        let what = match without_mark {
            Some(_) => "a byte order mark is before `#!`",
            None => "the script does not begin with `#!`",
        };
        let finding = report.add(rule, 1, what);
        if let Some(line) = without_mark {
            finding.edit = Some(Edit { line: 1, count: 1, lines: vec![line.to_owned()] });
        } else if is_shell {
            finding.edit = Some(Edit { line: 1, count: 0, lines: vec!["#!/bin/bash".to_owned()] });
        } else {
            finding.fix("begin it with `#!` and the program that runs it");
        }
    }
}

/// Reports `NAME = value`, which calls a program NAME.
fn assignments(script: &Script, report: &mut FileFindings) {
    for command in script.commands.iter().filter(|command| command.is_simple) {
        let [name, sign, ..] = command.words.as_slice() else { continue };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if sign == "=" && name.chars().all(is_name) && !name.is_empty() {
            let what = format!("`{name} =` calls a program `{name}`, and sets nothing");
            report.add(&rules::SPACED_ASSIGNMENT, command.line, what);
        }
    }
}

/// Reports options that became commands of their own: no program's name begins with `-`.
fn continuations(text: &str, script: &Script, report: &mut FileFindings) {
    let lines: Vec<&str> = text.lines().collect();
    for command in &script.commands {
        let (Some(first), Some(above)) = (command.words.first(), command.after) else { continue };
        if !first.starts_with('-') || first.trim_start_matches('-').is_empty() {
            continue;
        }
        let before = lines.get(above - 1).copied().unwrap_or_default().trim_end();
        if script.blank_words.contains(&above) {
            let words = before.strip_suffix('\\').unwrap_or(before).trim_end();
            report
                .add(&rules::BACKSLASH_SPACE, above, "there is a space after the backslash")
                .edit = Some(Edit { line: above, count: 1, lines: vec![format!("{words} \\")] });
            continue;
        }
        let what = format!(
            "`{first}` begins a new command, since the line above does not end with a backslash"
        );
        let is_next = above + 1 == command.line && !script.comments.contains(&above);
        report.add(&rules::NO_CONTINUATION, command.line, what).edit =
            is_next.then(|| Edit { line: above, count: 1, lines: vec![format!("{before} \\")] });
    }
}

/// Checks whether the job ends with the exit code of its program.
fn exit_code(script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    let Some(at) = script.commands.iter().rposition(Command::is_work) else { return };
    let Some(command) = script.commands.get(at) else { return };
    let name = command.script().unwrap_or_else(|| command.program());
    let code_rule = match job.exit_code {
        Some(_) => &rules::CHECKPOINT_CODE_LOST,
        None => &rules::EXIT_CODE_LOST,
    };
    if command.next == Next::Pipe && !script.pipefail && !command.tested {
        let what = format!("the exit code of `{name}` is lost in a pipe");
        report.add(code_rule, command.line, what).fix("write `set -o pipefail` at the top");
        return;
    }
    // Commands after a pipe belong to the command before it.
    let mut rest = script.commands.iter().skip(at + 1).peekable();
    let mut before = command.next;
    while before == Next::Pipe
        && let Some(next) = rest.next()
    {
        before = next.next;
    }
    let mut rest = rest.filter(|c| !c.words.first().is_some_and(|first| first.starts_with('-')));
    let Some(after) = rest.next() else { return };
    let said = |command: &Command| {
        command.words.iter().any(|word| word.contains("$?") || word.contains("PIPESTATUS"))
    };
    let kept = script.stops_at_errors
        || script.commands.iter().skip(at).any(|command| command.program() == "wait")
        || !matches!(before, Next::Then | Next::Beside)
        || said(after)
        || command.tested
        || command.in_function
        || command.words.iter().any(|word| word == "exec");
    if !kept {
        let what = format!(
            "the exit code of `{name}` is lost: `{}` comes after it",
            after.words.join(" ")
        );
        report.add(code_rule, after.line, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(text: &str) -> Vec<(usize, String, Next)> {
        Script::parse(text)
            .commands
            .into_iter()
            .map(|c| (c.line, c.words.join("|"), c.next))
            .collect()
    }

    #[test]
    fn commands_are_cut_as_a_shell_cuts_them() {
        use Next::{And, Beside, Or, Pipe, Then};
        let check = |text: &str, expected: &[(usize, &str, Next)]| {
            let expected: Vec<_> = expected.iter().map(|&(l, t, n)| (l, t.to_owned(), n)).collect();
            assert_eq!(calls(text), expected, "{text}");
        };
        check("a b; c", &[(1, "a|b", Then), (1, "c", Then)]);
        check("a \\\n  b\nc", &[(1, "a|b", Then), (3, "c", Then)]);
        check(
            "a | b && c || d &",
            &[(1, "a", Pipe), (1, "b", And), (1, "c", Or), (1, "d", Beside)],
        );
        check("a 'x y' \"z # $(date) \" # no", &[(1, "a|x y|z # $(date) ", Then)]);
        check("a $(b | c) `d e`", &[(1, "a|$(b | c)|d e", Then)]);
        check("if a; then\n b\nfi\n{ c; }", &[(1, "a", Then), (2, "b", Then), (4, "c", Then)]);
        check("x=(\n -a # b\n)\nc", &[(1, "x=(\n -a # b\n)", Then), (4, "c", Then)]);
        check("[[ -d a ||\n -n b ]] && c", &[(1, "[[|-d|a|-n|b", And), (2, "c", Then)]);
        check("f() {\n a\n}\ncase x in\n -b|--b) c ;;\nesac", &[(2, "a", Then), (5, "c", Then)]);
        check("a\nexit\n'", &[(1, "a", Then), (2, "exit", Then)]);
        check("cat <<EOF > f\nnot a command\nEOF\nb", &[(1, "cat|>|f", Then), (4, "b", Then)]);
        check("a 'two\nlines'\nb", &[(1, "a|two\nlines", Then), (3, "b", Then)]);
        check(
            "a >& f; b &> g; c 2>&1",
            &[(1, "a|>&|f", Then), (1, "b|&>|g", Then), (1, "c|2>&1", Then)],
        );
        for odd in ["'", "\"", "`", "$(", "<<", "<<E", "\\", "|", "&", "((", "a <<-'X", "é\\é"] {
            calls(odd);
        }
    }

    #[test]
    fn scripts_that_no_person_writes_are_read_to_an_end() {
        let n = 200_000;
        assert!(Script::parse(&"! ".repeat(n)).tokens.is_some());
        assert!(Script::parse(&"f() ".repeat(n)).tokens.is_none());
        assert!(Script::parse(&"function f ".repeat(n)).tokens.is_none());
        // Each level could be arithmetic or a command: 2^40 ways, if all were tried.
        for level in ["$((", "$(( \"", "((", "$(((", "(( $(", "${x:-$(("] {
            assert!(Script::parse(&format!("echo {}", level.repeat(40))).tokens.is_none());
        }
        let right = format!("echo {}x{}", "$(( 1 + ".repeat(20), "))".repeat(20));
        assert!(Script::parse(&right).tokens.is_some());
    }

    #[test]
    fn two_subshells_that_began_like_arithmetic_leave_nothing_behind() {
        // Only the text up to the first `)` could be arithmetic.
        let text = "if ((if a; then b; fi) | c); then\n mkdir x\nfi\npython t.py\n  -b\n";
        let script = Script::parse(text);
        let said = script.commands.iter().map(|c| (c.line, c.tested, c.looked, c.after));
        let expected = [
            (1, true, false, None),
            (1, false, false, None),
            (1, true, false, None),
            (2, false, false, None),
            (4, false, false, None),
            (5, false, false, Some(4)),
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        // In the comment, an attempt meets a condition that does not end.
        let text = "((a # $(if [ -f x ]\n) | b)\nmkdir x\n";
        let script = Script::parse(text);
        let mkdir = script.commands.last().map(|c| (c.line, c.tested, c.looked, c.after));
        assert_eq!(mkdir, Some((3, false, false, None)));
        assert!(script.tokens.is_some());
    }

    #[test]
    fn scripts_are_found_behind_launchers() {
        let check = |text: &str, expected: &[&str]| {
            let script = Script::parse(text);
            assert_eq!(
                script.scripts().map(|(_, name)| name).collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        };
        check("python3 -u train.py --x 1", &["train.py"]);
        check("A=1 exec ./run.sh", &["./run.sh"]);
        check("srun apptainer exec --nv x.sif python /app/t.py", &["/app/t.py"]);
        check("echo train.py; cp a.py b.py", &[]);
        check("if python train.py; then echo; fi", &["train.py"]);
        check("bash -c 'python x.py'", &[]);
    }

    #[test]
    fn files_that_a_script_writes_are_known() {
        for text in [
            "cat <<'E' > a.py\nx\nE\n",
            "cat > a.py <<E\nx\nE\n",
            "cat >./a.py <<E\nx\nE\n",
            "tee a.py <<E > /dev/null\nx\nE\n",
            "echo x >> \"$DIR/a.py\"",
            "f() { echo x &> a.py; }",
            "sort -o a.py b",
            "wget -q -O a.py https://x",
            "tar czf a.py b",
            "tar cfz a.py b",
            "tar -c -z -f a.py b",
            "tar -C d -czf a.py b",
            "tar --create --file a.py b",
            "zip -r a.py b",
        ] {
            assert!(Script::parse(text).writes("a.py"), "{text}");
        }
        for text in [
            "cat a.py",
            "cat < a.py",
            "echo x > b.py 2>&1",
            "echo x > $DIR/b.py",
            "tar xzf a.py",
            "tar czf b a.py",
            "tar -xf a.py -C c",
            "zip b a.py",
            "unzip -o a.py",
        ] {
            assert!(!Script::parse(text).writes("a.py"), "{text}");
        }
    }

    fn rules(text: &str, job: &Job<'_>) -> Vec<(&'static str, usize)> {
        let mut report = FileFindings::new("x.sh");
        check(text, &Script::parse(text), job, &mut report);
        report.findings.iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn traps_are_found_and_their_repairs_hold() {
        let inputs = ["train.zip".to_owned()];
        let job = Job {
            restarts: true,
            exit_code: Some(85),
            inputs: &inputs,
            needs_shebang: Some(&rules::NO_SHEBANG),
        };
        let bad = "#!/bin/bash\nmkdir out\nunzip train.zip\nrm train.zip\npython train.py \\ \n  --a 1 \\\n  --b 2\n  --c 3\nexit $?\n";
        assert_eq!(
            rules(bad, &job),
            [
                ("backslash-space", 5),
                ("no-continuation", 8),
                ("restart-mkdir", 2),
                ("restart-rm", 4)
            ]
        );
        let mut text = bad.to_owned();
        for _ in 0..6 {
            let mut report = FileFindings::new("x.sh");
            check(&text, &Script::parse(&text), &job, &mut report);
            let edits: Vec<&Edit> =
                report.findings.iter().filter_map(|f| f.edit.as_ref()).collect();
            text = crate::repair("x.sh", &text, &edits);
        }
        assert_eq!(rules(&text, &job), []);
        assert!(text.contains("mkdir -p out") && text.contains("--b 2 \\\n"), "{text}");
    }

    #[test]
    fn a_space_behind_a_backslash_is_taken_out_wherever_the_word_ends() {
        let fixed = |text: &str| {
            let mut report = FileFindings::new("x.sh");
            check(text, &Script::parse(text), &Job::default(), &mut report);
            assert_eq!(report.findings.first().map(|f| f.rule), Some("backslash-space"), "{text}");
            let edits: Vec<&Edit> =
                report.findings.iter().filter_map(|f| f.edit.as_ref()).collect();
            let better = crate::repair("x.sh", text, &edits);
            assert_eq!(rules(&better, &Job::default()), [], "{better}");
            better
        };
        let right = "python t.py \\\n  --lr 1\n";
        for end in ["\\ ", " \\ ", "\\   ", " \\\t", " \\\t ", "\\ \t"] {
            assert_eq!(fixed(&format!("python t.py{end}\n  --lr 1\n")), right, "{end:?}");
        }
        assert_eq!(fixed("python t.py 'a b'\\ \n  --lr 1\n"), "python t.py 'a b' \\\n  --lr 1\n");
        assert_eq!(
            fixed("python t.py \\\n --a 1\\ \n --b 2\\  \n --c 3\n"),
            "python t.py \\\n --a 1 \\\n --b 2 \\\n --c 3\n"
        );
    }

    #[test]
    fn what_looks_first_and_the_words_of_a_case_are_no_traps() {
        let job = Job { restarts: true, ..Job::default() };
        let check = |body: &str, expected: &[(&'static str, usize)]| {
            assert_eq!(rules(&format!("#!/bin/sh\nset -e\n{body}"), &job), expected, "{body}");
        };
        check("if [ ! -d env ]\nthen\n mkdir env\nfi\n", &[]);
        check("if [ ! -d env ]; then mkdir env; fi\nmkdir out\n", &[("restart-mkdir", 4)]);
        check("if [ \"$1\" = a ]; then\n mkdir env\nfi\n", &[("restart-mkdir", 4)]);
        check("case $1 in\n  -v|--verbose)\n    V=1 ;;\n  -* | --*)\n    exit 1 ;;\nesac\n", &[]);
        check("python t.py\n  --rate $(cat rate)\n", &[("no-continuation", 4)]);
    }

    #[test]
    fn a_lost_exit_code_is_found_and_a_kept_one_is_not() {
        let job = Job { exit_code: Some(85), ..Job::default() };
        let check = |body: &str, expected: &[(&'static str, usize)]| {
            assert_eq!(rules(&format!("#!/bin/sh\n{body}"), &job), expected, "{body}");
        };
        check("python t.py\necho done\n", &[("exit-code-lost", 3)]);
        check("python t.py | tee log\n", &[("exit-code-lost", 2)]);
        check("set -e\npython t.py\necho done\n", &[]);
        check("set -euo pipefail\npython t.py | tee log\n", &[]);
        check("python t.py\ncode=$?\necho done\nexit $code\n", &[]);
        check("python t.py && echo done\n", &[]);
        check("exec python t.py\n", &[]);
        check("if [ -f a ]; then\n python t.py\nfi\n", &[]);
        check("python t.py\nexit $?", &[]);
    }

    #[test]
    fn an_exit_code_is_not_one_that_is_compared_or_printed() {
        let ends = |text: &str| Script::parse(text).exits_with(85);
        assert!(ends("exit 85") && ends("if [ $x -eq 124 ]; then\n code=85\nfi\nexit $code"));
        assert!(!ends("[ $? -eq 85 ] && echo 85\npython t.py --epochs 85 --n=85\nexit 1850"));
    }

    #[test]
    fn a_script_that_is_not_understood_is_not_called_right() {
        let check = |body: &str, line: usize| {
            let text = format!("#!/bin/bash\n{body}");
            assert_eq!(rules(&text, &Job::default()), [("not-judged", line)], "{text}");
        };
        check("echo 'a\npython t.py\n  --lr 1\n", 2);
        check("if true; then\n echo\n", 4);
        check("for i in 1 2; do echo; fi\n", 2);
        check("python t.py\n  --lr 1\n)\n", 4);
        check("cat <<E\nmkdir a\n", 4);
        check("echo $(date\n", 3);
        check("for ((i=0;i<3 i++)); do echo; done\n", 2);
        check("ls | ; wc\n", 2);
        check("ls &; wait\n", 2);
        check("echo $$((x + 1))\n", 2);
        check("export A=\"b\"C=(\n 1)\n", 2);
        assert_eq!(rules("#!/bin/sh\r\nif a\r\n", &Job::default()), [("windows-lines", 1)]);
    }

    #[test]
    fn a_first_line_that_does_not_work_is_found() {
        let job = Job { needs_shebang: Some(&rules::NO_SHEBANG), ..Job::default() };
        assert_eq!(rules("#!/bin/sh\r\nls\r\n", &job), [("windows-lines", 1)]);
        assert_eq!(rules("ls\n", &job), [("no-shebang", 1)]);
        // A script that nobody starts by its name alone needs none.
        assert_eq!(rules("ls\n", &Job::default()), []);
        let is_repaired = |name: &str, text: &str| {
            let mut report = FileFindings::new(name);
            check(text, &Script::parse(text), &job, &mut report);
            report.findings.first().map(|finding| (finding.rule, finding.edit.is_some()))
        };
        for (name, text, expected) in [
            ("a.sh", "tool -x\n", true),
            ("a.sh", "\u{feff}#!/bin/bash\ntool -x\n", true),
            ("d/run", "set -e\nA=1\npython3 t.py | tee log\n", true),
            ("run", "tool -x\n", false),
            ("run", "set x 5\nsource a.tcl\n", false),
            ("run", "A=1\n", false),
            ("a.sh", "print('a')\n", false),
            ("a.R", "library\nx <- 1\n", false),
            ("a.pl", "use strict;\nexit 0;\n", false),
            ("a.jl", "using Flux\n", false),
            ("a.sh", "echo '\n", false),
        ] {
            assert_eq!(is_repaired(name, text), Some(("no-shebang", expected)), "{name} {text}");
        }
    }
}
