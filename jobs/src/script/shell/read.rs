//! Reads scripts of sh and bash: words, quotes, here-documents, arrays, `[[ ]]` and the compound
//! commands.
//!
//! ```text
//! text ──words, operators, lines──▶ commands, each with its line and what follows it
//! ```
//!
//! What cannot be read this way is not guessed: [`Reading::unread`] says where reading stopped,
//! and no rule that rests on commands is applied to such a script.

mod compound;
mod words;

use std::collections::{BTreeSet, VecDeque};

use super::{Command, Next};
use words::is_assignment;

/// Compound commands and substitutions nest; no person nests deeper.
const MAX_DEPTH: usize = 60;

/// How many bytes may be read for nothing, since `((` looked like arithmetic and was not.
const MAX_WASTED: usize = 1 << 16;

/// One word, operator, line end or here-document, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The byte at which a word begins in the script; `None` for all else.
    pub(crate) at: Option<usize>,
}

/// What a script says.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) commands: Vec<Command>,
    /// All of the script, to compare it with another.
    pub(crate) tokens: Vec<Token>,
    /// Lines that end in a comment.
    pub(crate) comments: BTreeSet<usize>,
    /// Lines that end in a backslash, then spaces.
    pub(crate) blank_words: BTreeSet<usize>,
    /// The line at which reading stopped, where the script is not understood.
    pub(crate) unread: Option<usize>,
}

/// Something that this reader, and probably the shell, does not understand.
struct NotRead;

type Read<T = ()> = Result<T, NotRead>;

/// Reads one kind of compound command.
type Compound<'a> = fn(&mut Reader<'a>) -> Read;

pub(crate) fn read(text: &str) -> Reading {
    let mut reader = Reader { text, line: 1, at_line_start: true, ..Reader::default() };
    if reader.list(&End::Text).is_err() {
        reader.reading.unread = Some(reader.line);
    }
    reader.reading
}

/// What ends a list of commands.
enum End {
    /// The end of the script.
    Text,
    /// `)`
    Bracket,
    /// `;;` or `esac`
    CaseItem,
    /// One of these words, where a command could begin.
    Words(&'static [&'static str]),
}

#[derive(Debug, Default)]
struct Word {
    text: String,
    /// Whether the word has quotes or expansions.
    quoted: bool,
    /// The word as it is written.
    raw: String,
}

#[derive(Clone)]
struct HereDocument {
    end: String,
    strips_tabs: bool,
    /// Whether a backslash at the end of a line joins it with the next.
    joins: bool,
}

#[derive(Default)]
struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    depth: usize,
    /// Greater than 0 inside of `$(…)`, whose commands are part of a word.
    nested: usize,
    documents: VecDeque<HereDocument>,
    /// For each open `if`, whether its condition looks for a file.
    ifs: Vec<bool>,
    /// Whether a condition is being read, whose exit code somebody asks for.
    in_condition: bool,
    /// Open functions, which run when they are called.
    functions: usize,
    /// Whether the line has only blanks so far.
    at_line_start: bool,
    /// The line whose end ended the simple command before.
    ended: Option<usize>,
    /// The bytes that were read for nothing so far.
    wasted: usize,
    reading: Reading,
}

/// Words that no command begins with.
const RESERVED: [&str; 9] = ["then", "elif", "else", "fi", "do", "done", "esac", "}", "]]"];

/// Commands whose arguments may be arrays: `declare -a a=(1 2)`.
const DECLARES: [&str; 5] = ["declare", "typeset", "local", "readonly", "export"];

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn starts(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    /// Takes `text` if it is next.
    fn take(&mut self, text: &str) -> bool {
        let found = self.starts(text);
        if found {
            for _ in text.chars() {
                self.bump();
            }
        }
        found
    }

    fn token(&mut self, line: usize, text: &str) {
        if self.nested == 0 {
            self.reading.tokens.push(Token { line, text: text.to_owned(), at: None });
        }
    }

    /// A word, which begins at the byte `at`.
    fn word_token(&mut self, line: usize, at: usize, text: &str) {
        if self.nested == 0 {
            self.reading.tokens.push(Token { line, text: text.to_owned(), at: Some(at) });
        }
    }

    fn enter(&mut self) -> Read {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(NotRead) } else { Ok(()) }
    }

    /// Spaces, joined lines, and a comment, but not the line's end.
    fn blanks(&mut self) {
        loop {
            if self.starts("\\\n") {
                self.bump();
                self.bump();
                self.at_line_start = false;
            } else if self.peek().is_some_and(|c| c == ' ' || c == '\t') {
                self.bump();
            } else {
                break;
            }
        }
        if self.peek() == Some('#') {
            let len = self.rest().find('\n').unwrap_or(self.rest().len());
            self.at += len;
            if self.nested == 0 {
                self.reading.comments.insert(self.line);
            }
        }
    }

    /// A line's end, with the here-documents that follow it.
    fn newline(&mut self) -> Read<bool> {
        if self.peek() != Some('\n') {
            return Ok(false);
        }
        let ended = self.line;
        self.token(ended, "\n");
        self.bump();
        self.at_line_start = true;
        while let Some(document) = self.documents.pop_front() {
            let from = self.at;
            let mut joined = false;
            loop {
                let rest = self.rest();
                if rest.is_empty() {
                    return Err(NotRead);
                }
                let body = rest.split('\n').next().unwrap_or_default();
                self.at += body.len();
                self.bump();
                let bare = if document.strips_tabs { body.trim_start_matches('\t') } else { body };
                if bare == document.end && !joined {
                    break;
                }
                let backslashes = body.len() - body.trim_end_matches('\\').len();
                joined = document.joins && backslashes % 2 == 1;
            }
            let text = self.text.get(from..self.at).unwrap_or_default();
            self.token(ended, text);
        }
        Ok(true)
    }

    /// Line ends, spaces and comments.
    fn lines(&mut self) -> Read {
        self.blanks();
        while self.newline()? {
            self.blanks();
        }
        Ok(())
    }

    /// Commands up to `end`, which is not taken.
    fn list(&mut self, end: &End) -> Read {
        self.enter()?;
        let outside = std::mem::take(&mut self.ended);
        let mut before = Next::Then;
        let start = self.at;
        loop {
            self.lines()?;
            if self.is_end(end) {
                let is_empty = self.text.get(start..self.at).is_some_and(|text| {
                    text.lines().all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
                });
                if is_empty && matches!(end, End::Words(_)) {
                    return Err(NotRead);
                }
                break;
            }
            if self.peek().is_none() {
                return Err(NotRead);
            }
            let is_single = self.command()?;
            self.blanks();
            let line = self.line;
            let Some((text, next)) = self.operator(end)? else { break };
            if text != "\n" {
                self.token(line, text);
            }
            self.ended = None;
            let follows = std::mem::replace(&mut before, next) == Next::Then;
            let last = self.reading.commands.last_mut();
            if let Some(command) = last.filter(|_| is_single && self.nested == 0) {
                command.next = next;
                if text == "\n" && command.is_simple {
                    self.ended = Some(line);
                }
                if command.program() == "exit" && text == "\n" && follows && self.depth == 1 {
                    // The shell reads no further.
                    let rest = self.rest();
                    self.token(self.line, rest);
                    self.at = self.text.len();
                }
            }
        }
        self.ended = outside;
        self.depth -= 1;
        Ok(())
    }

    fn is_end(&self, end: &End) -> bool {
        match end {
            End::Text => self.peek().is_none(),
            End::Bracket => self.peek() == Some(')'),
            End::CaseItem => self.starts(";;") || self.starts(";&") || self.is_word("esac"),
            End::Words(words) => words.iter().any(|word| self.is_word(word)),
        }
    }

    /// Whether the plain word `word` is next.
    fn is_word(&self, word: &str) -> bool {
        self.rest().strip_prefix(word).is_some_and(|rest| {
            rest.chars().next().is_none_or(|c| c.is_ascii_whitespace() || ";|&()<>".contains(c))
        })
    }

    /// The operator after a command; `None` at the end of the list.
    fn operator(&mut self, end: &End) -> Read<Option<(&'static str, Next)>> {
        if self.peek() == Some('\n') {
            self.newline()?;
            return Ok(Some(("\n", Next::Then)));
        }
        if self.is_end(end) {
            return Ok(None);
        }
        if self.starts(";;") || self.starts(";&") {
            return Err(NotRead);
        }
        let operators = [
            ("&&", Next::And),
            ("||", Next::Or),
            ("|&", Next::Pipe),
            ("|", Next::Pipe),
            (";", Next::Then),
            ("&", Next::Beside),
        ];
        let found = operators.into_iter().find(|(text, _)| self.take(text)).ok_or(NotRead)?;
        self.at_line_start = false;
        if matches!(found.1, Next::And | Next::Or | Next::Pipe) {
            self.lines()?;
            if self.is_end(end) {
                return Err(NotRead);
            }
        }
        Ok(Some(found))
    }

    /// One command with its redirections. Returns whether it is a single one, not a compound.
    fn command(&mut self) -> Read<bool> {
        let prefixes = ["!", "time", "coproc"];
        while let Some(prefix) = prefixes.into_iter().find(|prefix| self.is_word(prefix))
            && !self.starts("!(")
        {
            self.keyword(prefix)?;
            self.blanks();
            if prefix == "time" && self.is_word("-p") {
                self.keyword("-p")?;
                self.blanks();
            }
            if self.peek().is_none_or(|c| "\n;|&)".contains(c)) {
                return Ok(false);
            }
        }
        if self.starts("!(") {
            self.token(self.line, "!");
            self.bump();
        }
        if RESERVED.iter().any(|word| self.is_word(word)) {
            return Err(NotRead);
        }
        let compounds: [(&str, Compound<'a>); 9] = [
            ("if", Self::read_if),
            ("while", Self::read_while),
            ("until", Self::read_while),
            ("for", Self::read_for),
            ("select", Self::read_for),
            ("case", Self::read_case),
            ("function", Self::read_function),
            ("{", Self::read_group),
            ("[[", Self::read_question),
        ];
        let compound = compounds.into_iter().find(|(word, _)| self.is_word(word));
        let compound = match compound {
            Some((_, read)) => read,
            None if self.starts("((") => Self::read_arithmetic,
            None if self.starts("(") => Self::read_subshell,
            None => return self.simple(),
        };
        let n = self.reading.commands.len();
        let is_single = self.is_word("[[") || self.starts("((");
        self.enter()?;
        compound(self)?;
        self.depth -= 1;
        self.redirections()?;
        Ok(is_single && self.reading.commands.len() == n + 1)
    }

    fn redirections(&mut self) -> Read {
        loop {
            self.blanks();
            let rest = self.rest().trim_start_matches(|c: char| c.is_ascii_digit());
            let named = rest.strip_prefix('{').and_then(|r| r.split_once('}')).map(|(_, r)| r);
            let is_next = |rest: &str| rest.starts_with(['<', '>']) || rest.starts_with("&>");
            if !is_next(rest) && !named.is_some_and(is_next) {
                return Ok(());
            }
            self.redirection()?;
        }
    }

    /// One redirection: its operator and its operand.
    fn redirection(&mut self) -> Read<(String, Word)> {
        let (line, from) = (self.line, self.at);
        while self.peek().is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
        }
        if self.peek() == Some('{') {
            while self.bump().is_some_and(|c| c != '}') {}
        }
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "&>>", "&>", ">>", ">&", ">|", "<", ">"];
        let operator = operators.into_iter().find(|text| self.take(text)).ok_or(NotRead)?;
        let written = self.text.get(from..self.at).unwrap_or_default().to_owned();
        self.token(line, &written);
        self.blanks();
        if self.peek().is_none_or(|c| "\n;|&()".contains(c)) {
            return Err(NotRead);
        }
        let operand = self.word(false)?;
        if matches!(operator, "<<" | "<<-") {
            self.documents.push_back(HereDocument {
                end: operand.text.clone(),
                strips_tabs: operator == "<<-",
                joins: !operand.quoted,
            });
        }
        Ok((written, operand))
    }

    /// A command that begins here.
    fn begin(&mut self) -> Command {
        let begins_line = std::mem::replace(&mut self.at_line_start, false);
        let first = self.reading.tokens.len();
        Command {
            tokens: first..first,
            line: self.line,
            after: self.ended.filter(|_| begins_line),
            tested: self.in_condition,
            looked: self.ifs.contains(&true),
            in_function: self.functions > 0,
            ..Command::of(Vec::new())
        }
    }

    fn end(&mut self, mut command: Command) {
        command.tokens.end = self.reading.tokens.len();
        let looks = command.words.iter().any(|word| matches!(&**word, "-d" | "-e" | "-f" | "-s"));
        if looks
            && self.in_condition
            && let Some(asked) = self.ifs.last_mut()
        {
            *asked = true;
        }
        if self.nested == 0 && !command.words.is_empty() {
            self.reading.commands.push(command);
        }
    }

    /// Assignments, words and redirections; or the head of a function.
    fn simple(&mut self) -> Read<bool> {
        let start = self.at;
        let mut command = self.begin();
        let mut n_plain = 0;
        loop {
            self.blanks();
            let Some(c) = self.peek() else { break };
            let rest = self.rest().trim_start_matches(|c: char| c.is_ascii_digit());
            let substitutes = self.starts("<(") || self.starts(">(");
            let named = self.rest().strip_prefix('{').and_then(|r| r.split_once('}'));
            let named = named.is_some_and(|(name, rest)| {
                !name.is_empty()
                    && name.chars().all(|c| c.is_alphanumeric() || c == '_')
                    && rest.starts_with(['<', '>'])
            });
            if (rest.starts_with(['<', '>']) && !substitutes) || self.starts("&>") || named {
                let (operator, operand) = self.redirection()?;
                match operator.trim_start_matches(|c: char| c.is_ascii_digit()) {
                    "<<" | "<<-" => {}
                    ">&" | "<&"
                        if operand.raw.starts_with(|c: char| c.is_ascii_digit() || c == '-') =>
                    {
                        command.words.push(operator + &operand.text);
                    }
                    _ => command.words.extend([operator, operand.text]),
                }
                continue;
            }
            match c {
                '\n' | ';' | '&' | '|' | ')' => break,
                '(' => {
                    // `name ()` begins a function.
                    if n_plain != 1 || command.words.len() != 1 {
                        return Err(NotRead);
                    }
                    self.bump();
                    self.blanks();
                    if !self.take(")") {
                        return Err(NotRead);
                    }
                    self.token(self.line, "()");
                    self.function_body()?;
                    return Ok(false);
                }
                _ => {}
            }
            let declares = command.words.first().is_some_and(|first| DECLARES.contains(&&**first));
            let arrays = n_plain == 0 || declares;
            let word = self.word(arrays)?;
            n_plain += usize::from(!is_assignment(&word.raw));
            command.words.push(word.text);
        }
        if self.at == start {
            return Err(NotRead);
        }
        self.end(command);
        Ok(true)
    }
}
