//! The grammar of ClassAd expressions (HTCondor manual, "ClassAd Evaluation Semantics"; src/classad
//! of HTCondor 24.12), as far as it takes to say where one cannot be read.

/// Where reading `text` stops; `None` if all of it is an expression.
pub(super) fn unread(text: &str) -> Option<usize> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let is_read = reader.ternary().is_some();
    reader.skip();
    if reader.depth > MOST_DEPTH {
        return None;
    }
    (!is_read || reader.at < text.len()).then_some(reader.at)
}

/// Operators between two operands, the loosest first. Of operators that begin alike, the longest
/// comes first.
const BINARY: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["=?=", "=!=", "==", "!=", "isnt", "is"],
    &["<=", "<", ">=", ">"],
    &[">>>", "<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];
/// Signs that are longer than the operators which they begin with.
const LONGER: [&str; 5] = ["||", "&&", "<<", ">>", "=="];
/// Deeper brackets are not judged.
const MOST_DEPTH: usize = 200;

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips spaces and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let spaces = rest.len() - trimmed.len();
            let comment = match trimmed.get(..2) {
                Some("//") => trimmed.find('\n').unwrap_or(trimmed.len()),
                Some("/*") => match trimmed.find("*/") {
                    Some(end) => end + 2,
                    None => 0,
                },
                _ => 0,
            };
            self.at += spaces + comment;
            if spaces + comment == 0 {
                return;
            }
        }
    }

    fn sign(&mut self, sign: &str) -> Option<()> {
        self.skip();
        let is_here = self.rest().starts_with(sign);
        is_here.then(|| self.at += sign.len())
    }

    fn next(&mut self) -> Option<char> {
        self.skip();
        self.rest().chars().next()
    }

    fn ternary(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return None;
        }
        self.binary(0)?;
        if self.sign("?").is_some() {
            // `a ?: b` takes `b` where `a` is undefined.
            if self.sign(":").is_none() {
                self.ternary()?;
                self.sign(":")?;
            }
            self.ternary()?;
        }
        self.depth -= 1;
        Some(())
    }

    fn binary(&mut self, level: usize) -> Option<()> {
        let Some(operators) = BINARY.get(level) else { return self.unary() };
        self.binary(level + 1)?;
        while self.operator(operators).is_some() {
            self.binary(level + 1)?;
        }
        Some(())
    }

    fn operator(&mut self, operators: &[&str]) -> Option<()> {
        self.skip();
        let rest = self.rest();
        let is_here = |operator: &&&str| {
            let starts =
                rest.get(..operator.len()).is_some_and(|text| text.eq_ignore_ascii_case(operator));
            let behind = rest.get(operator.len()..).unwrap_or_default();
            let is_word = operator.starts_with('i');
            starts
                && (!is_word || !behind.starts_with(is_name))
                && !LONGER.iter().any(|l| l.len() > operator.len() && rest.starts_with(l))
        };
        let found = operators.iter().find(is_here)?;
        self.at += found.len();
        Some(())
    }

    fn unary(&mut self) -> Option<()> {
        while let Some('-' | '+' | '!' | '~') = self.next() {
            self.at += 1;
        }
        self.operand()?;
        loop {
            match self.next() {
                Some('.') => {
                    self.at += 1;
                    // `a..b` begins again at the outermost scope.
                    let _ = self.sign(".");
                    self.name()?;
                }
                Some('[') => {
                    self.at += 1;
                    self.ternary()?;
                    self.sign("]")?;
                }
                _ => return Some(()),
            }
        }
    }

    fn operand(&mut self) -> Option<()> {
        match self.next()? {
            '(' => {
                self.at += 1;
                self.ternary()?;
                self.sign(")")
            }
            '{' => self.list("}"),
            '[' => self.record(),
            // Texts one after another are one.
            '"' => {
                while self.next() == Some('"') {
                    self.quoted('"')?;
                }
                Some(())
            }
            '.' if !self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                self.at += 1;
                self.name()
            }
            '.' | '0'..='9' => self.number(),
            _ => {
                let start = self.at;
                self.name()?;
                let name = self.text.get(start..self.at).unwrap_or_default();
                let is_value = ["true", "false", "undefined", "error", "is", "isnt"]
                    .iter()
                    .any(|word| name.eq_ignore_ascii_case(word));
                if self.next() == Some('(') && !is_value {
                    return self.list(")");
                }
                Some(())
            }
        }
    }

    /// The members of a list or the arguments of a function, from its bracket on.
    fn list(&mut self, end: &str) -> Option<()> {
        self.at += 1;
        if self.sign(end).is_some() {
            return Some(());
        }
        loop {
            self.ternary()?;
            if self.sign(",").is_none() {
                return self.sign(end);
            }
        }
    }

    fn record(&mut self) -> Option<()> {
        self.at += 1;
        while self.sign("]").is_none() {
            self.name()?;
            self.sign("=")?;
            self.ternary()?;
            if self.sign(";").is_none() {
                return self.sign("]");
            }
        }
        Some(())
    }

    /// The name of an attribute; in single quotes, any text.
    fn name(&mut self) -> Option<()> {
        if self.next()? == '\'' {
            return self.quoted('\'');
        }
        let rest = self.rest();
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let is_one = len > 0 && !rest.starts_with(|c: char| c.is_ascii_digit());
        is_one.then(|| self.at += len)
    }

    fn quoted(&mut self, quote: char) -> Option<()> {
        let mut escaped = true;
        for (at, c) in self.rest().char_indices() {
            if !escaped && c == quote {
                self.at += at + 1;
                return Some(());
            }
            escaped = c == '\\' && !escaped;
        }
        None
    }

    fn number(&mut self) -> Option<()> {
        let rest = self.rest();
        let digits = |from: usize| {
            let behind = rest.get(from..).unwrap_or_default();
            from + behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len())
        };
        let starts = |at: usize, with: &[char]| {
            rest.get(at..).is_some_and(|behind| behind.starts_with(with))
        };
        let mut end = digits(0);
        if rest.starts_with("0x") || rest.starts_with("0X") {
            let hex = rest.get(2..).unwrap_or_default();
            end = 2 + hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            (end > 2).then_some(())?;
        } else {
            if starts(end, &['.']) {
                let to = digits(end + 1);
                (to > end + 1).then_some(())?;
                end = to;
            }
            if starts(end, &['e', 'E']) {
                let from = end + 1 + usize::from(starts(end + 1, &['+', '-']));
                end = digits(from);
                (end > from).then_some(())?;
            }
        }
        // `16G` and `1.2.3` are no numbers.
        let is_over = !rest.get(end..)?.starts_with(|c| is_name(c) || c == '.');
        is_over.then(|| self.at += end)
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As HTCondor 24.12 reads them.
    #[test]
    fn what_htcondor_reads_is_read_and_nothing_else() {
        for right in [
            "true",
            "Memory >= 8 && OpSys =!= \"a=b (\"",
            "a ? b : c ? d : e",
            "a ?: b ?: c",
            "f(a, b)",
            "f ()",
            "{1, 2}[0]",
            "[a = 1; b = {2};].a",
            "'a b' == 1",
            "\"a\" \"b\"",
            "\"a\\\"b\"",
            "a /* x */ && b // c",
            "-+a - -b",
            "!!(a)",
            "a >>> 1 >> 2 << 3",
            "a | b ^ c & d",
            "a is undefined",
            "A ISNT b",
            ".a.b . c",
            "1e3 + .5 + 0x1F",
            "isUndefined(is_b)",
            "a\n&& b",
        ] {
            assert_eq!(unread(right), None, "{right}");
        }
        for (wrong, at) in [
            ("(Memory > 1) &&", 15),
            ("&& a", 0),
            ("a >", 3),
            ("a b", 2),
            ("a, b", 1),
            ("f(1,)", 4),
            ("f(a b)", 4),
            ("a ? b", 5),
            ("16G", 0),
            ("1.5.2", 0),
            ("a = 1", 2),
            ("a = < 1", 2),
            ("a <> 1", 3),
            ("a &&& b", 4),
            ("a ||| b", 4),
            ("{1, 2", 5),
            ("{,}", 1),
            ("[a]", 2),
            ("\"a", 0),
            ("a /* x", 3),
            ("", 0),
            ("a;", 1),
            ("a@b", 1),
            ("(a) (b)", 4),
            ("2 ** 3", 3),
            ("é", 0),
        ] {
            assert_eq!(unread(wrong), Some(at), "{wrong}");
        }
        assert_eq!(unread(&"(".repeat(100_000)), None);
    }
}
