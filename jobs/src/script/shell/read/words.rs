//! Words: quotes, expansions, arrays and patterns.

use super::super::Command;
use super::{End, MAX_WASTED, NotRead, Read, Reader, Reading, Word};

impl Reader<'_> {
    /// A regular expression, in which brackets and `|` are characters.
    pub(super) fn pattern(&mut self, command: &mut Command) -> Read {
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

    /// Takes `(( … ))` if it is one; else nothing. What is tried in vain is tried again as
    /// something else, at each level, so there is a limit for all of it.
    pub(super) fn tries_arithmetic(&mut self) -> Read<bool> {
        // Nothing is recorded inside, so only the rest must be as it was after a failure.
        let before = Self {
            documents: self.documents.clone(),
            ifs: self.ifs.clone(),
            reading: Reading::default(),
            ..*self
        };
        self.nested += 1;
        self.skip(2);
        let found = self.arithmetic().is_ok();
        let read = if found { 0 } else { self.at - before.at };
        let wasted = self.wasted.saturating_add(read).saturating_add(before.documents.len());
        if found {
            self.nested -= 1;
        } else {
            let reading = std::mem::take(&mut self.reading);
            *self = Self { reading, ..before };
        }
        self.wasted = wasted;
        if wasted > MAX_WASTED { Err(NotRead) } else { Ok(found) }
    }

    /// The rest of an arithmetic expression, with `))`.
    pub(super) fn arithmetic(&mut self) -> Read {
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

    /// One word. With `arrays`, `name=(` begins an array.
    pub(super) fn word(&mut self, arrays: bool) -> Read<Word> {
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
                    if arrays
                        && is_assignment(raw)
                        && raw.ends_with('=')
                        && !raw.contains(['"', '\''])
                    {
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
        self.word_token(line, from, &word.raw);
        self.at_line_start = false;
        Ok(word)
    }

    /// Members of an array; a line's end is a space in it.
    pub(super) fn array(&mut self) -> Read {
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
    pub(super) fn glob(&mut self) -> Read {
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
    pub(super) fn part(&mut self, word: &mut Word, c: char) -> Read {
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
                if is_blank && self.nested == 0 {
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
    pub(super) fn skip(&mut self, n: usize) {
        let end = self.at.saturating_add(n);
        while self.at < end && self.bump().is_some() {}
    }

    /// The rest of a text in double quotes.
    pub(super) fn double_quoted(&mut self) -> Read {
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

    pub(super) fn backquoted(&mut self) -> Read {
        loop {
            match self.bump().ok_or(NotRead)? {
                '\\' => drop(self.bump()),
                '`' => return Ok(()),
                _ => {}
            }
        }
    }

    /// `$` and what it expands.
    pub(super) fn dollar(&mut self, in_quotes: bool) -> Read {
        self.enter()?;
        self.bump();
        if self.take("$") {
            // The number of the shell's process.
        } else if self.starts("((") {
            if !self.tries_arithmetic()? {
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
    pub(super) fn substitution(&mut self) -> Read {
        self.nested += 1;
        let line_start = std::mem::replace(&mut self.at_line_start, false);
        self.list(&End::Bracket)?;
        self.at_line_start = line_start;
        self.nested -= 1;
        if self.take(")") { Ok(()) } else { Err(NotRead) }
    }

    /// The rest of `${…}`.
    pub(super) fn parameter(&mut self, in_quotes: bool) -> Read {
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
pub(super) fn is_assignment(raw: &str) -> bool {
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
