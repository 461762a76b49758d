//! Shell scripts: commands, their words, and traps in them.

use super::Job;
use crate::disk::base_name;
use crate::finding::{Edit, FileFindings};
use crate::lines::spaces_after_backslash;

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
}

/// Words before a command that leave it the command it is.
const PREFIXES: [&str; 14] = [
    "if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "nohup",
    "command", "(",
];

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
        let is_script = |word: &str| [".py", ".sh", ".bash"].iter().any(|end| word.ends_with(end));
        let (first, rest) = self.call().split_first()?;
        if is_script(first) {
            return Some(first);
        }
        let program = self.program();
        if !LAUNCHERS.contains(&program) && !program.starts_with("python") {
            return None;
        }
        rest.iter().map(String::as_str).find(|word| is_script(word) && !word.starts_with('-'))
    }

    /// Whether the command may add files that are not named in the script.
    pub(crate) fn brings(&self) -> bool {
        let packs = |word: &String| {
            word == "--create"
                || (!word.starts_with("--") && word.contains('c') && !word.contains('x'))
        };
        let packs = self.program() == "tar" && self.call().get(1).is_some_and(packs);
        BRINGERS.contains(&self.program()) && !packs
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
}

impl Script {
    pub(crate) fn parse(text: &str) -> Self {
        let mut script = Self { commands: commands(text), ..Self::default() };
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

    /// The scripts that this one runs, each with the line.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = (usize, &str)> {
        self.commands.iter().filter_map(|command| Some((command.line, command.script()?)))
    }

    /// Whether the script may add files that it does not name, or enters another folder.
    pub(crate) fn brings_files(&self) -> bool {
        self.commands.iter().any(|c| c.brings() || matches!(c.program(), "cd" | "pushd"))
    }
}

/// Reads commands. A quote or bracket that is not closed ends with the text.
fn commands(text: &str) -> Vec<Command> {
    let mut reader =
        Reader { commands: Vec::new(), words: Vec::new(), word: None, line: 1, started: 1 };
    let mut heredocs: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let mut skip = c.len_utf8();
        match c {
            '\n' => {
                reader.end(Next::Then);
                reader.line += 1;
                for end in heredocs.drain(..) {
                    let mut tail = rest.get(skip..).unwrap_or_default();
                    while !tail.is_empty() {
                        let line = tail.split_inclusive('\n').next().unwrap_or_default();
                        skip += line.len();
                        reader.line += 1;
                        tail = rest.get(skip..).unwrap_or_default();
                        if line.trim() == end {
                            break;
                        }
                    }
                }
            }
            '\\' if after.starts_with('\n') => {
                skip = 2;
                reader.line += 1;
            }
            '\\' => {
                let next = after.chars().next();
                next.inspect(|&next| {
                    reader.push(next);
                    skip += next.len_utf8();
                });
            }
            '\'' | '"' | '`' => {
                let inside = quoted(after, c);
                reader.push_str(inside);
                reader.line += inside.matches('\n').count();
                skip += inside.len() + usize::from(after.len() > inside.len());
            }
            '$' if after.starts_with('(') => {
                let inside = nested(after);
                reader.push(c);
                reader.push_str(inside);
                reader.line += inside.matches('\n').count();
                skip += inside.len();
            }
            '#' if reader.word.is_none() => skip = rest.find('\n').unwrap_or(rest.len()),
            '<' if after.starts_with('<') && !after.starts_with("<<") => {
                let word = after
                    .get(1..)
                    .unwrap_or_default()
                    .trim_start_matches('-')
                    .trim_start_matches([' ', '\t']);
                let end = word
                    .find(|c: char| c.is_whitespace() || ";|&)".contains(c))
                    .unwrap_or(word.len());
                let end_word = word.get(..end).unwrap_or_default().trim_matches(['\'', '"', '\\']);
                if !end_word.is_empty() {
                    heredocs.push(end_word.to_owned());
                }
                let tail = word.get(end..).unwrap_or_default();
                skip = rest.len() - tail.len();
            }
            '|' | '&' if after.starts_with(c) => {
                reader.end(if c == '|' { Next::Or } else { Next::And });
                skip = 2;
            }
            '|' => reader.end(Next::Pipe),
            '&' if !after.starts_with('>')
                && !reader.word.as_deref().is_some_and(|w| w.ends_with('>')) =>
            {
                reader.end(Next::Beside);
            }
            ';' | '(' | ')' => reader.end(Next::Then),
            c if c.is_whitespace() => reader.end_word(),
            c => reader.push(c),
        }
        rest = rest.get(skip..).unwrap_or_default();
    }
    reader.end(Next::Then);
    reader.commands
}

struct Reader {
    commands: Vec<Command>,
    words: Vec<String>,
    word: Option<String>,
    line: usize,
    /// The line of the command's first word.
    started: usize,
}

impl Reader {
    fn push(&mut self, c: char) {
        self.word().push(c);
    }

    fn push_str(&mut self, text: &str) {
        self.word().push_str(text);
    }

    fn word(&mut self) -> &mut String {
        if self.words.is_empty() && self.word.is_none() {
            self.started = self.line;
        }
        self.word.get_or_insert_default()
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end(&mut self, next: Next) {
        self.end_word();
        if !self.words.is_empty() {
            let words = std::mem::take(&mut self.words);
            self.commands.push(Command { line: self.started, words, next });
        }
    }
}

/// The text up to the closing `quote`, or all of it.
fn quoted(text: &str, quote: char) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return text.get(..at).unwrap_or_default();
        }
        escaped = quote != '\'' && c == '\\' && !escaped;
    }
    text
}

/// `(…)` with what is nested in it, or all of the text.
fn nested(text: &str) -> &str {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return text.get(..=at).unwrap_or_default();
                }
            }
            _ => {}
        }
    }
    text
}

/// Reports faults that any script may have.
pub(crate) fn check(text: &str, script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    line_ends(text, report);
    continuations(text, script, report);
    if job.restarts {
        restarts(text, script, job, report);
    }
    exit_code(script, job, report);
}

/// Reports line ends with which the kernel cannot read the first line.
pub(crate) fn line_ends(text: &str, report: &mut FileFindings) {
    let first = text.lines().next().unwrap_or_default();
    if text.split('\n').next().is_some_and(|line| line.starts_with("#!") && line.ends_with('\r')) {
        let lines =
            text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect::<Vec<_>>();
        report
            .error("windows-lines", 1, [
                "the file has Windows line ends (CR LF)",
                "the kernel looks for a program whose name ends in CR: `bad interpreter`, and the job fails at once",
                "save it with Unix line ends, or run `dos2unix`",
            ])
            .edit = Some(Edit { line: 1, count: lines.len(), lines });
    } else if !first.starts_with("#!") {
        report
            .error("no-shebang", 1, [
                "the script does not begin with `#!`",
                "it may be started by another shell than it was written for, or not at all (`Exec format error`)",
                "begin it with `#!/bin/bash`",
            ])
            .edit = Some(Edit { line: 1, count: 0, lines: vec!["#!/bin/bash".to_owned()] });
    }
}

fn continuations(text: &str, script: &Script, report: &mut FileFindings) {
    let lines: Vec<&str> = text.lines().collect();
    for (i, line) in lines.iter().enumerate() {
        if spaces_after_backslash(line) && !line.trim_start().starts_with('#') {
            report.error("backslash-space", i + 1, [
                "there is a space after the backslash",
                "the shell ends the command here, and runs the options in the next line as a command of their own: they are lost",
                "remove the space, so that the backslash is the line's last character",
            ]);
        }
    }
    for command in &script.commands {
        let Some(first) = command.words.first() else { continue };
        let option = first.starts_with('-') && first.len() > 1 && !first.starts_with("---");
        let line = |back: usize| {
            command.line.checked_sub(back).and_then(|i| lines.get(i)).copied().unwrap_or_default()
        };
        let before = line(2);
        if is_case(line(1)) {
            continue;
        }
        // Spaces after a backslash in the line above are reported by another rule.
        if !option || spaces_after_backslash(before) || before.trim().is_empty() {
            continue;
        }
        let what = format!(
            "`{first}` begins a new command, since the line above does not end with a backslash"
        );
        report.error("no-continuation", command.line, [
            &what,
            "the program above runs without these options, and the exit code says that a command does not exist",
            "end the line above with ` \\`",
        ]);
    }
}

/// Whether `line` begins with the words of a `case`, such as `-v|--verbose)`.
fn is_case(line: &str) -> bool {
    let words = line.split_once(')').map_or("", |(words, _)| words);
    let mut words = words.split('|').map(str::trim).peekable();
    words.peek().is_some_and(|word| !word.is_empty())
        && words.all(|word| !word.contains(|c: char| c.is_whitespace() || "($=".contains(c)))
}

/// Whether a word of `[ … ]` asks whether a file or folder exists.
fn is_question(word: &str) -> bool {
    matches!(word, "-d" | "-e" | "-f" | "-s")
}

/// After exit code 85 the same script runs again in the same folder.
fn restarts(text: &str, script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    let lines: Vec<&str> = text.lines().collect();
    let mut guarded = false;
    // For each open `if`, whether it asks for files.
    let mut asked: Vec<bool> = Vec::new();
    for command in &script.commands {
        match command.words.first().map(String::as_str) {
            Some("if") => asked.push(command.words.iter().any(|word| is_question(word))),
            Some("fi") => drop(asked.pop()),
            _ => {}
        }
        let words = command.call();
        let tolerated = guarded || command.next == Next::Or || asked.contains(&true);
        guarded = command.next == Next::Or
            || (command.next == Next::And && command.program().starts_with(['[', 't']));
        let line = lines.get(command.line - 1).copied().unwrap_or_default();
        match (command.program(), words) {
            ("mkdir", [_, rest @ ..])
                if !tolerated
                    && !rest.iter().any(|word| word.starts_with('-') && word.contains('p')) =>
            {
                let what = format!("`{}` fails if the folder exists already", words.join(" "));
                let severity = if script.stops_at_errors {
                    FileFindings::error
                } else {
                    FileFindings::warning
                };
                severity(report, "restart-mkdir", command.line, [
                    &what,
                    "after a checkpoint the script runs again in the same folder, where the first run made this folder",
                    "use `mkdir -p`",
                ])
                .edit = Some(Edit { line: command.line, count: 1, lines: vec![line.replacen("mkdir ", "mkdir -p ", 1)] });
            }
            ("rm", [_, rest @ ..]) => {
                let Some(input) = rest
                    .iter()
                    .find(|word| job.inputs.iter().any(|input| input == base_name(word)))
                else {
                    continue;
                };
                let what = format!("the script removes `{input}`, which is an input");
                let alone = line.trim_start().starts_with("rm ");
                report
                    .error("restart-rm", command.line, [
                        &what,
                        "after a checkpoint the script runs again in the same folder, but inputs are not transferred again",
                        "keep the input: HTCondor removes the job's folder in the end; or unpack it only if the result does not exist yet",
                    ])
                    .edit = alone.then_some(Edit { line: command.line, count: 1, lines: Vec::new() });
            }
            _ => {}
        }
    }
}

/// Checks whether the job ends with the exit code of its program.
fn exit_code(script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    let Some(at) = script.commands.iter().rposition(Command::is_work) else { return };
    let Some(command) = script.commands.get(at) else { return };
    let name = command.script().unwrap_or_else(|| command.program());
    let code = match job.exit_code {
        Some(code) => format!(
            "the job does not exit with {code}, so a checkpoint counts as the end of the job"
        ),
        None => "the job counts as successful although the program failed".to_owned(),
    };
    let severity =
        if job.exit_code.is_some() { FileFindings::error } else { FileFindings::warning };
    if command.next == Next::Pipe && !script.pipefail {
        let what = format!("the exit code of `{name}` is lost in a pipe");
        severity(
            report,
            "exit-code-lost",
            command.line,
            [&what, &code, "write `set -o pipefail` at the top"],
        );
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
    let end = ["fi", "done", "}", "esac", "else", ";;"];
    let mut rest = rest.filter(|c| {
        let first = c.words.first().map_or("", String::as_str);
        !end.contains(&first) && !first.starts_with('-')
    });
    let Some(after) = rest.next() else { return };
    let said = |command: &Command| {
        command.words.iter().any(|word| word.contains("$?") || word.contains("PIPESTATUS"))
    };
    let kept = script.stops_at_errors
        || script.commands.iter().skip(at).any(|command| command.program() == "wait")
        || !matches!(before, Next::Then | Next::Beside)
        || said(after)
        || command.words.iter().any(|word| word == "exec" || word == "if" || word == "while");
    if !kept {
        let what = format!(
            "the exit code of `{name}` is lost: `{}` comes after it",
            after.words.join(" ")
        );
        severity(
            report,
            "exit-code-lost",
            after.line,
            [
                &what,
                &code,
                "write `set -e` at the top, or `code=$?` behind the program and `exit $code` at the end",
            ],
        );
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
    }

    fn rules(text: &str, job: &Job<'_>) -> Vec<(&'static str, usize)> {
        let mut report = FileFindings::new("x.sh");
        check(text, &Script::parse(text), job, &mut report);
        report.findings.iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn traps_are_found_and_their_repairs_hold() {
        let inputs = ["train.zip".to_owned()];
        let job = Job { restarts: true, exit_code: Some(85), inputs: &inputs };
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
        for _ in 0..4 {
            let mut report = FileFindings::new("x.sh");
            check(&text, &Script::parse(&text), &job, &mut report);
            let edits: Vec<&Edit> =
                report.findings.iter().filter_map(|f| f.edit.as_ref()).collect();
            text = crate::finding::repaired(&text, &edits);
        }
        assert_eq!(rules(&text, &job), [("backslash-space", 4), ("no-continuation", 7)]);
        assert!(text.contains("mkdir -p out"), "{text}");
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
    fn a_first_line_that_does_not_work_is_found() {
        let job = Job::default();
        assert_eq!(rules("#!/bin/sh\r\nls\r\n", &job), [("windows-lines", 1)]);
        assert_eq!(rules("ls\n", &job), [("no-shebang", 1)]);
    }
}
