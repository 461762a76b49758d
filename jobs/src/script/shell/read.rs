//! Reads scripts of sh and bash: words, quotes, here-documents, arrays, `[[ ]]` and the compound
//! commands.
//!
//! ```text
//! text ──words, operators, lines──▶ commands, each with its line and what follows it
//! ```
//!
//! What cannot be read this way is not guessed: [`Reading::unread`] says where reading stopped,
//! and no rule that rests on commands is applied to such a script.

use std::collections::{BTreeSet, VecDeque};

use super::{Command, Next};

/// Compound commands and substitutions nest; no person nests deeper.
const MAX_DEPTH: usize = 60;

/// One word, operator, line end or here-document, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// What a script says.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) commands: Vec<Command>,
    /// All of the script, to compare it with another.
    pub(crate) tokens: Vec<Token>,
    /// Lines that end in a comment.
    pub(crate) comments: BTreeSet<usize>,
    /// Lines that end in a word of spaces: a backslash, then spaces.
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
            self.reading.tokens.push(Token { line, text: text.to_owned() });
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
            self.token(line, text);
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
        for prefix in ["!", "time", "coproc"] {
            if self.is_word(prefix) && !self.starts("!(") {
                self.keyword(prefix)?;
                self.blanks();
                if prefix == "time" && self.is_word("-p") {
                    self.keyword("-p")?;
                    self.blanks();
                }
                if self.peek().is_none_or(|c| "\n;|&)".contains(c)) {
                    return Ok(false);
                }
                return self.command();
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

    /// Takes a word of the shell's grammar.
    fn keyword(&mut self, word: &str) -> Read {
        self.lines()?;
        if !self.is_word(word) {
            return Err(NotRead);
        }
        self.token(self.line, word);
        self.take(word);
        self.at_line_start = false;
        Ok(())
    }

    fn condition(&mut self, end: &'static [&'static str]) -> Read {
        let before = std::mem::replace(&mut self.in_condition, true);
        self.list(&End::Words(end))?;
        self.in_condition = before;
        Ok(())
    }

    fn branch(&mut self, end: &End) -> Read {
        let before = std::mem::replace(&mut self.in_condition, false);
        self.list(end)?;
        self.in_condition = before;
        Ok(())
    }

    fn read_if(&mut self) -> Read {
        self.keyword("if")?;
        self.ifs.push(false);
        loop {
            self.condition(&["then"])?;
            self.keyword("then")?;
            self.branch(&End::Words(&["elif", "else", "fi"]))?;
            if self.is_word("elif") {
                self.keyword("elif")?;
                continue;
            }
            if self.is_word("else") {
                self.keyword("else")?;
                self.branch(&End::Words(&["fi"]))?;
            }
            self.ifs.pop();
            return self.keyword("fi");
        }
    }

    fn read_while(&mut self) -> Read {
        let word = if self.is_word("while") { "while" } else { "until" };
        self.keyword(word)?;
        self.condition(&["do"])?;
        self.body()
    }

    /// `do … done`
    fn body(&mut self) -> Read {
        self.keyword("do")?;
        self.branch(&End::Words(&["done"]))?;
        self.keyword("done")
    }

    fn read_for(&mut self) -> Read {
        let word = if self.is_word("for") { "for" } else { "select" };
        self.keyword(word)?;
        self.blanks();
        if self.starts("((") {
            self.read_arithmetic()?;
        } else {
            self.word(false)?;
            self.lines()?;
            if self.is_word("in") {
                self.keyword("in")?;
                self.blanks();
                while self.peek().is_some_and(|c| c != '\n' && c != ';') {
                    self.word(false)?;
                    self.blanks();
                }
            }
        }
        self.blanks();
        if self.peek() == Some(';') {
            self.token(self.line, ";");
            self.bump();
        }
        self.lines()?;
        if self.is_word("{") {
            return self.read_group();
        }
        self.body()
    }

    fn read_case(&mut self) -> Read {
        self.keyword("case")?;
        self.blanks();
        self.word(false)?;
        self.keyword("in")?;
        loop {
            self.lines()?;
            if self.is_word("esac") {
                return self.keyword("esac");
            }
            if self.peek() == Some('(') {
                self.token(self.line, "(");
                self.bump();
            }
            loop {
                self.blanks();
                self.word(false)?;
                self.blanks();
                if self.peek() != Some('|') {
                    break;
                }
                self.token(self.line, "|");
                self.bump();
            }
            if self.peek() != Some(')') {
                return Err(NotRead);
            }
            self.token(self.line, ")");
            self.bump();
            self.at_line_start = false;
            self.branch(&End::CaseItem)?;
            let line = self.line;
            if let Some(end) = [";;&", ";;", ";&"].into_iter().find(|end| self.take(end)) {
                self.token(line, end);
            } else if !self.is_word("esac") {
                return Err(NotRead);
            }
        }
    }

    fn read_function(&mut self) -> Read {
        self.keyword("function")?;
        self.blanks();
        self.word(false)?;
        self.blanks();
        if self.take("(") {
            self.blanks();
            if !self.take(")") {
                return Err(NotRead);
            }
            self.token(self.line, "()");
        }
        self.function_body()
    }

    fn function_body(&mut self) -> Read {
        self.lines()?;
        self.at_line_start = false;
        self.functions += 1;
        self.command()?;
        self.functions -= 1;
        Ok(())
    }

    fn read_group(&mut self) -> Read {
        self.keyword("{")?;
        self.list(&End::Words(&["}"]))?;
        self.keyword("}")
    }

    fn read_subshell(&mut self) -> Read {
        self.token(self.line, "(");
        self.bump();
        self.at_line_start = false;
        self.list(&End::Bracket)?;
        self.lines()?;
        self.token(self.line, ")");
        self.bump();
        Ok(())
    }

    /// `[[ … ]]`: a line's end is a space in it.
    fn read_question(&mut self) -> Read {
        let mut command = self.begin();
        self.token(self.line, "[[");
        self.take("[[");
        loop {
            self.lines()?;
            if self.is_word("]]") {
                self.token(self.line, "]]");
                self.take("]]");
                break;
            }
            let operator = ["&&", "||", "(", ")", "<", ">"];
            let line = self.line;
            if let Some(operator) = operator.into_iter().find(|text| self.take(text)) {
                self.token(line, operator);
                continue;
            }
            let word = self.word(true)?;
            let is_pattern = word.text == "=~";
            command.words.push(word.text);
            if is_pattern {
                self.blanks();
                self.pattern(&mut command)?;
            }
        }
        command.words.insert(0, "[[".to_owned());
        command.is_simple = false;
        self.end(command);
        Ok(())
    }

    /// A regular expression, in which brackets and `|` are characters.
    fn pattern(&mut self, command: &mut Command) -> Read {
        let (line, from) = (self.line, self.at);
        let mut depth = 0_usize;
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '\n' => break,
                ' ' | '\t' if depth == 0 => break,
                '(' => depth += 1,
                ')' if depth == 0 => break,
                ')' => depth -= 1,
                '\\' | '\'' | '"' | '$' | '`' => {
                    self.part(&mut word, c)?;
                    continue;
                }
                _ => {}
            }
            word.text.push(c);
            self.bump();
        }
        let raw = self.text.get(from..self.at).unwrap_or_default();
        self.token(line, raw);
        command.words.push(word.text);
        Ok(())
    }

    /// `(( … ))`; if it does not end so, it is two subshells.
    fn read_arithmetic(&mut self) -> Read {
        let (at, line) = (self.at, self.line);
        let mut command = self.begin();
        if self.tries_arithmetic() {
            let raw = self.text.get(at..self.at).unwrap_or_default();
            self.token(line, raw);
            command.words.push(raw.to_owned());
            command.is_simple = false;
            self.end(command);
            return Ok(());
        }
        self.read_subshell()
    }

    /// Takes `(( … ))` if it is one; else nothing.
    fn tries_arithmetic(&mut self) -> bool {
        let (at, line, depth, nested) = (self.at, self.line, self.depth, self.nested);
        let n_documents = self.documents.len();
        self.skip(2);
        let found = self.arithmetic().is_ok();
        if !found {
            (self.at, self.line, self.depth, self.nested) = (at, line, depth, nested);
            self.documents.truncate(n_documents);
        }
        found
    }

    /// The rest of an arithmetic expression, with `))`.
    fn arithmetic(&mut self) -> Read {
        let mut depth = 0_usize;
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => return if self.take("))") { Ok(()) } else { Err(NotRead) },
                ')' => depth -= 1,
                '\\' | '\'' | '"' | '$' | '`' => {
                    self.part(&mut word, c)?;
                    continue;
                }
                _ => {}
            }
            self.bump();
        }
        Err(NotRead)
    }

    /// A command that begins here.
    fn begin(&mut self) -> Command {
        let begins_line = std::mem::replace(&mut self.at_line_start, false);
        Command {
            line: self.line,
            after: self.ended.filter(|_| begins_line),
            tested: self.in_condition,
            looked: self.ifs.contains(&true),
            in_function: self.functions > 0,
            ..Command::of(Vec::new())
        }
    }

    fn end(&mut self, command: Command) {
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
        self.end(command);
        Ok(true)
    }

    /// One word. With `arrays`, `name=(` begins an array.
    fn word(&mut self, arrays: bool) -> Read<Word> {
        let (line, from) = (self.line, self.at);
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '\\' | '\'' | '"' | '$' | '`' => {
                    self.part(&mut word, c)?;
                    continue;
                }
                '<' | '>'
                    if self.rest().get(1..2) == Some("(")
                        && (self.at == from || word.text.ends_with('=')) =>
                {
                    let start = self.at;
                    self.bump();
                    self.bump();
                    self.substitution()?;
                    word.text.push_str(self.text.get(start..self.at).unwrap_or_default());
                    word.quoted = true;
                    continue;
                }
                '(' => {
                    let raw = self.text.get(from..self.at).unwrap_or_default();
                    let start = self.at;
                    if arrays && is_assignment(raw) && raw.ends_with('=') {
                        self.array()?;
                    } else if raw.len() > usize::from(raw == "!")
                        && raw.ends_with(['?', '*', '+', '@', '!'])
                    {
                        self.bump();
                        self.glob()?;
                    } else {
                        break;
                    }
                    word.text.push_str(self.text.get(start..self.at).unwrap_or_default());
                    word.quoted = true;
                    continue;
                }
                ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')' => break,
                _ => {}
            }
            word.text.push(c);
            self.bump();
        }
        if self.at == from {
            return Err(NotRead);
        }
        self.text.get(from..self.at).unwrap_or_default().clone_into(&mut word.raw);
        self.token(line, &word.raw);
        self.at_line_start = false;
        Ok(word)
    }

    /// Members of an array; a line's end is a space in it.
    fn array(&mut self) -> Read {
        self.nested += 1;
        self.enter()?;
        self.bump();
        loop {
            self.lines()?;
            if self.take(")") {
                break;
            }
            self.word(false)?;
        }
        self.depth -= 1;
        self.nested -= 1;
        Ok(())
    }

    /// The rest of a pattern such as `@(a|b)`.
    fn glob(&mut self) -> Read {
        let mut depth = 0_usize;
        let mut word = Word::default();
        while let Some(c) = self.peek() {
            match c {
                '(' => depth += 1,
                ')' if depth == 0 => {
                    self.bump();
                    return Ok(());
                }
                ')' => depth -= 1,
                '\n' => return Err(NotRead),
                '\\' | '\'' | '"' | '$' | '`' => {
                    self.part(&mut word, c)?;
                    continue;
                }
                _ => {}
            }
            self.bump();
        }
        Err(NotRead)
    }

    /// A part of a word that begins with a backslash, quote or `$`.
    fn part(&mut self, word: &mut Word, c: char) -> Read {
        word.quoted = true;
        let from = self.at;
        match c {
            '\\' if self.starts("\\\n") => {
                self.bump();
                self.bump();
                return Ok(());
            }
            '\\' => {
                self.bump();
                let rest = self.rest().split('\n').next().unwrap_or_default();
                let blank = rest.trim_end_matches('\r');
                let is_blank = !blank.is_empty() && blank.trim().is_empty();
                if is_blank && self.nested == 0 && word.text.is_empty() {
                    self.reading.blank_words.insert(self.line);
                }
                word.text.extend(self.bump());
                return Ok(());
            }
            '\'' => {
                self.bump();
                let (inside, _) = self.rest().split_once('\'').ok_or(NotRead)?;
                word.text.push_str(inside);
                self.skip(inside.len() + 1);
                return Ok(());
            }
            '"' => {
                self.bump();
                let from = self.at;
                self.double_quoted()?;
                let inside = self.text.get(from..self.at.saturating_sub(1)).unwrap_or_default();
                word.text.push_str(&inside.replace("\\\"", "\"").replace("\\\n", ""));
                return Ok(());
            }
            '`' => {
                self.bump();
                let start = self.at;
                self.backquoted()?;
                let inside = self.text.get(start..self.at.saturating_sub(1)).unwrap_or_default();
                word.text.push_str(inside);
                return Ok(());
            }
            _ if self.starts("$'") => {
                self.skip(2);
                loop {
                    match self.bump().ok_or(NotRead)? {
                        '\\' => drop(self.bump()),
                        '\'' => break,
                        _ => {}
                    }
                }
            }
            _ if self.starts("$\"") => {
                self.skip(2);
                self.double_quoted()?;
            }
            _ => self.dollar(false)?,
        }
        word.text.push_str(self.text.get(from..self.at).unwrap_or_default());
        Ok(())
    }

    /// Takes `n` bytes.
    fn skip(&mut self, n: usize) {
        let end = self.at.saturating_add(n);
        while self.at < end && self.bump().is_some() {}
    }

    /// The rest of a text in double quotes.
    fn double_quoted(&mut self) -> Read {
        self.enter()?;
        loop {
            match self.peek().ok_or(NotRead)? {
                '"' => {
                    self.bump();
                    self.depth -= 1;
                    return Ok(());
                }
                '\\' => {
                    self.bump();
                    self.bump();
                }
                '$' => self.dollar(true)?,
                '`' => {
                    self.bump();
                    self.backquoted()?;
                }
                _ => drop(self.bump()),
            }
        }
    }

    fn backquoted(&mut self) -> Read {
        loop {
            match self.bump().ok_or(NotRead)? {
                '\\' => drop(self.bump()),
                '`' => return Ok(()),
                _ => {}
            }
        }
    }

    /// `$` and what it expands.
    fn dollar(&mut self, in_quotes: bool) -> Read {
        self.enter()?;
        self.bump();
        if self.starts("((") {
            if !self.tries_arithmetic() {
                self.bump();
                self.substitution()?;
            }
        } else if self.take("(") {
            self.substitution()?;
        } else if self.take("{") {
            self.parameter(in_quotes)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// The rest of `$(…)`: commands, and the bracket.
    fn substitution(&mut self) -> Read {
        self.nested += 1;
        let line_start = std::mem::replace(&mut self.at_line_start, false);
        self.list(&End::Bracket)?;
        self.at_line_start = line_start;
        self.nested -= 1;
        if self.take(")") { Ok(()) } else { Err(NotRead) }
    }

    /// The rest of `${…}`.
    fn parameter(&mut self, in_quotes: bool) -> Read {
        let name = self.rest().trim_start_matches(['!', '#']);
        let operator =
            name.trim_start_matches(|c: char| c.is_alphanumeric() || "_@*[]".contains(c));
        let quotes = !in_quotes || operator.starts_with(['#', '%', '/', '^', ',']);
        let mut word = Word::default();
        loop {
            match self.peek().ok_or(NotRead)? {
                '}' => {
                    self.bump();
                    return Ok(());
                }
                '\'' if !quotes => drop(self.bump()),
                '$' => self.dollar(in_quotes)?,
                c @ ('\\' | '\'' | '"' | '`') => {
                    self.nested += 1;
                    self.part(&mut word, c)?;
                    self.nested -= 1;
                }
                _ => drop(self.bump()),
            }
        }
    }
}

/// Whether a word begins with `name=`, `name+=` or `name[…]=`.
fn is_assignment(raw: &str) -> bool {
    let end = raw.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(raw.len());
    let (name, rest) = raw.split_at(end);
    let rest = match rest.strip_prefix('[') {
        Some(inside) => inside.split_once(']').map_or("", |(_, rest)| rest),
        None => rest,
    };
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && (rest.starts_with('=') || rest.starts_with("+="))
}
