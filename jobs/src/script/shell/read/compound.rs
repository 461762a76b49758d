//! Compound commands: `if`, loops, `case`, functions, groups and conditions.

use super::{End, NotRead, Read, Reader};

impl Reader<'_> {
    /// Takes a word of the shell's grammar.
    pub(super) fn keyword(&mut self, word: &str) -> Read {
        self.lines()?;
        if !self.is_word(word) {
            return Err(NotRead);
        }
        self.token(self.line, word);
        self.take(word);
        self.at_line_start = false;
        Ok(())
    }

    pub(super) fn condition(&mut self, end: &'static [&'static str]) -> Read {
        let before = std::mem::replace(&mut self.in_condition, true);
        self.list(&End::Words(end))?;
        self.in_condition = before;
        Ok(())
    }

    pub(super) fn branch(&mut self, end: &End) -> Read {
        let before = std::mem::replace(&mut self.in_condition, false);
        self.list(end)?;
        self.in_condition = before;
        Ok(())
    }

    pub(super) fn read_if(&mut self) -> Read {
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

    pub(super) fn read_while(&mut self) -> Read {
        let word = if self.is_word("while") { "while" } else { "until" };
        self.keyword(word)?;
        self.condition(&["do"])?;
        self.body()
    }

    /// `do … done`
    pub(super) fn body(&mut self) -> Read {
        self.keyword("do")?;
        self.branch(&End::Words(&["done"]))?;
        self.keyword("done")
    }

    pub(super) fn read_for(&mut self) -> Read {
        let word = if self.is_word("for") { "for" } else { "select" };
        self.keyword(word)?;
        self.blanks();
        if self.starts("((") {
            let from = self.at;
            self.read_arithmetic()?;
            let raw = self.text.get(from..self.at).unwrap_or_default();
            if raw.matches(';').count() != 2 && !raw.contains(['$', '`']) {
                return Err(NotRead);
            }
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

    pub(super) fn read_case(&mut self) -> Read {
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

    pub(super) fn read_function(&mut self) -> Read {
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

    pub(super) fn function_body(&mut self) -> Read {
        self.lines()?;
        self.at_line_start = false;
        self.functions += 1;
        self.enter()?;
        self.command()?;
        self.depth -= 1;
        self.functions -= 1;
        Ok(())
    }

    pub(super) fn read_group(&mut self) -> Read {
        self.keyword("{")?;
        self.list(&End::Words(&["}"]))?;
        self.keyword("}")
    }

    pub(super) fn read_subshell(&mut self) -> Read {
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
    pub(super) fn read_question(&mut self) -> Read {
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

    /// `(( … ))`; if it does not end so, it is two subshells.
    pub(super) fn read_arithmetic(&mut self) -> Read {
        let (at, line) = (self.at, self.line);
        let mut command = self.begin();
        if self.tries_arithmetic()? {
            let raw = self.text.get(at..self.at).unwrap_or_default();
            self.token(line, raw);
            command.words.push(raw.to_owned());
            command.is_simple = false;
            self.end(command);
            return Ok(());
        }
        self.read_subshell()
    }
}
