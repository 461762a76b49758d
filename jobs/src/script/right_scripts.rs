//! Shell scripts that are right, made from random bytes, for tests: nothing in them may be
//! repaired.

use std::fmt::Write as _;

/// Makes one script from `bytes`; equal bytes make equal scripts.
pub(crate) fn script(bytes: &[u8]) -> String {
    let mut maker = Maker { bytes: bytes.iter().copied(), text: String::new(), depth: 0, n: 0 };
    maker.text.push_str("#!/bin/bash\n");
    while maker.bytes.len() > 0 {
        maker.statement();
    }
    maker.text
}

struct Maker<I> {
    bytes: I,
    text: String,
    depth: usize,
    /// How many here-documents there are, for their names.
    n: usize,
}

/// Words that tempt a reader of single lines: options, keywords, quotes, brackets.
const WORDS: [&str; 28] = [
    "--lr",
    "-x",
    "a.csv",
    "'it is # no comment'",
    "\"say \\\"x\\\" # $HOME `date`\"",
    "'two\n  --lines \\ \n'",
    "\"two\n  -x \\ \n$(date \"+%F )\")\"",
    "$'tab\\t\\''",
    "${x:-\"a }\"}",
    "${#x}",
    "$((1 + (2 << 3)))",
    "$(date | sed 's/)/(/' # )\n)",
    "$(case $x in a) echo 1 ;; *) echo 2 ;; esac)",
    "$(cat <<IN\n)\n  --in\nIN\n)",
    "`date \\`hostname\\` `",
    "\\(",
    "a\\ b",
    "\\#",
    "a#b",
    "{1..3}",
    "[a-z]*",
    "if",
    "done",
    "<(sort a.csv |\n  uniq)",
    "2>&1",
    "&> log",
    "<<< \"in\"",
    "x=1",
];

/// Lines of here-documents and quotes.
const LINES: [&str; 8] =
    ["  --lr 1 \\ ", "( [[ {", "'\"`", "# no comment", "EOF_", "fi; done", "-x", "python t.py \\"];

impl<I: ExactSizeIterator<Item = u8>> Maker<I> {
    fn pick(&mut self, n: usize) -> usize {
        usize::from(self.bytes.next().unwrap_or(0)) % n
    }

    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn put_one(&mut self, texts: &[&str]) {
        let text = texts[self.pick(texts.len())];
        self.put(text);
    }

    /// Space between words: one, or a line that continues.
    fn gap(&mut self) {
        self.put_one(&[" ", " ", "  ", " \\\n    ", " \\\n"]);
    }

    fn words(&mut self) {
        for _ in 0..self.pick(4) {
            self.gap();
            self.put_one(&WORDS);
        }
    }

    /// Whitespace, line ends and comments where the shell allows all of them.
    fn lines(&mut self) {
        self.put_one(&["\n", "\n\n  ", " # why\n", "\n  # -x (\n  ", "  \n\t"]);
    }

    fn simple(&mut self) {
        self.put_one(&[
            "python t.py",
            "srun ./a",
            "A=1 B=\"$x\" env",
            "! grep",
            "time echo",
            "exec ls",
        ]);
        self.words();
    }

    /// `a=( … )` over several lines, with options and comments as members.
    fn array(&mut self) {
        self.put_one(&["ARGS=(", "ARGS+=(", "declare -a ARGS=(", "local -r A=1 ARGS=("]);
        for _ in 0..self.pick(5) {
            self.lines();
            self.put_one(&WORDS[..20]);
        }
        self.lines();
        self.put(")");
    }

    fn condition(&mut self) {
        let condition = [
            "[[ -d out ||\n      -n $x ]]",
            "[[ $x =~ ^(a|b)$ &&\n  ! -e \"a ]]\" ]]",
            "[[ ( -f a || $y == *.(c ) ]]",
            "[[ -z $x && # why\n   $a < $b ]]",
            "(( x > 3 &&\n   y < 2 ))",
            "[ -f a ] &&\n  test -d b",
            "{ true; }",
            "( cd / && ls )",
        ];
        // A pattern with an open bracket needs its partner.
        let condition = condition[self.pick(8)].replace("*.(c )", "*.c )");
        self.put(&condition);
    }

    fn heredoc(&mut self) {
        self.n += 1;
        let end = format!("E{}", self.n);
        let (mark, strip) =
            [("<<", ""), ("<<-", "\t"), ("<< '", ""), ("<<\"", ""), ("<<\\", "")][self.pick(5)];
        let close = if mark.ends_with(['\'', '"']) { &mark[mark.len() - 1..] } else { "" };
        let behind = ["", " | sort", " > out.txt", " && true", "; echo"][self.pick(5)];
        let _ = writeln!(self.text, "cat {mark}{end}{close}{behind}");
        for _ in 0..self.pick(4) {
            let line = LINES[self.pick(LINES.len())];
            // The body of an unquoted one may continue over its end.
            let line = if close.is_empty() { line.trim_end_matches('\\') } else { line };
            let _ = writeln!(self.text, "{}", line.replace('`', ""));
        }
        let _ = write!(self.text, "{strip}{end}");
    }

    fn block(&mut self) {
        for _ in 0..=self.pick(3) {
            self.statement();
        }
        // A block needs a command, which a comment is not.
        self.put("true\n");
    }

    fn statement(&mut self) {
        self.put_one(&["", "  ", "\t"]);
        self.depth += 1;
        let kinds = if self.depth > 3 { 8 } else { 17 };
        match self.pick(kinds) {
            0 | 1 => self.simple(),
            2 => self.array(),
            3 => self.heredoc(),
            4 => {
                self.simple();
                self.put_one(&[" |", " &&", " ||", " |&"]);
                self.lines();
                self.put("cat");
                self.words();
            }
            5 => {
                self.put("# a comment (with ' and \\ ");
            }
            6 => self.condition(),
            7 => self.put("x=$(\n  ls | head -n 1\n)  y=\"$x\n  -z\""),
            8 => {
                self.put("if ");
                self.condition();
                self.put_one(&["; then\n", "\nthen\n"]);
                self.block();
                self.put("else\n");
                self.block();
                self.put("fi");
            }
            9 => {
                self.put("while ");
                self.condition();
                self.put("; do\n");
                self.block();
                self.put("done < a.csv");
            }
            10 => {
                self.put_one(&[
                    "for x in a -b; do\n",
                    "for x; do\n",
                    "for ((i = 0; i < 3; i++)); do\n",
                ]);
                self.block();
                self.put("done");
            }
            11 => {
                self.put("case \"$1\" in\n");
                for _ in 0..self.pick(3) {
                    let pattern =
                        ["  -v|--verbose)", "  (-h | --help)\n", "  *.(c)", "  \"a b\")", "  -*)"]
                            [self.pick(5)];
                    self.put(if pattern.contains(".(") { "  *.c)" } else { pattern });
                    self.put(" ");
                    self.block();
                    self.put_one(&["  ;;\n", "  ;&\n", "  ;;&\n"]);
                }
                self.put("esac");
            }
            12 => {
                self.put_one(&["f() {\n", "function f {\n", "function f() {\n", "f ()\n{\n"]);
                self.block();
                self.put("}");
            }
            13 => {
                self.put("(\n");
                self.block();
                self.put(")");
            }
            14 => {
                self.put("{\n");
                self.block();
                self.put("} > log 2>&1");
            }
            15 => {
                self.put("until ");
                self.condition();
                self.put("\ndo\n");
                self.block();
                self.put("done | sort");
            }
            _ => {
                self.put("select x in a \\\n  -b; do\n");
                self.block();
                self.put("done");
            }
        }
        self.depth -= 1;
        // A here-document begins at the next line end.
        let after_document =
            self.text.rsplit('\n').next().is_some_and(|l| l.trim().starts_with('E'));
        let end = if after_document { 0 } else { self.pick(3) };
        self.put(["\n", "\n\n", "  \n"][end]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::script;
    use crate::disk::tests::Files;
    use crate::lint::lint_text;
    use crate::repair;
    use crate::script::shell::Script;

    /// The text after all repairs that are offered for it under `name`.
    fn fixed(name: &str, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..50 {
            let found = lint_text(name, &text, &Files::of(&[]));
            let edits: Vec<_> = found.iter().filter_map(|finding| finding.edit.as_ref()).collect();
            let better = repair(name, &text, &edits);
            if better == text {
                break;
            }
            text = better;
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn a_right_script_is_left_as_it_is(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = script(&bytes);
            for name in ["x.sh", "x.sbatch"] {
                prop_assert!(Script::parse(&text).tokens.is_some(), "not understood: {}", text);
                prop_assert_eq!(fixed(name, &text), text.as_str(), "{}", name);
            }
        }

        /// Lines lose their backslash, or get spaces behind it.
        #[test]
        fn a_second_repair_changes_nothing(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            faults in proptest::collection::vec(any::<bool>(), 1..20),
        ) {
            let mut faults = faults.iter().cycle();
            let mut damage = |line: &str| match (line.strip_suffix('\\'), faults.next()) {
                (Some(head), Some(true)) => format!("{head}\n"),
                (Some(_), Some(false)) => format!("{line}  \n"),
                _ => format!("{line}\n"),
            };
            let text: String = script(&bytes).lines().map(&mut damage).collect();
            let once = fixed("x.sh", &text);
            prop_assert_eq!(fixed("x.sh", &once), once);
        }
    }

    #[test]
    fn options_that_were_lost_are_joined_again_and_only_they() {
        let check = |text: &str, expected: Option<&str>| {
            let text = format!("#!/bin/bash\n{text}");
            let expected = expected.map_or(text.clone(), |text| format!("#!/bin/bash\n{text}"));
            assert_eq!(fixed("x.sh", &text), expected, "{text}");
        };
        check("python t.py\n  --a 1\n  --b 2\n", Some("python t.py \\\n  --a 1 \\\n  --b 2\n"));
        check("a \\ \n  -b\nc\n", Some("a \\\n  -b\nc\n"));
        check("f() {\n  a 'x'\n  -b\n}\n", Some("f() {\n  a 'x' \\\n  -b\n}\n"));
        // A comment or an empty line ends the command: no backslash repairs that.
        check("a # why\n  -b\n", None);
        check("a \\\n  # -c 1 \\\n  -b\n", None);
        check("a\n\n  -b\n", None);
        check("ARGS=(\n  -a\n)\n", None);
        check("cat <<E\n  -a\nE\n  x\n", None);
        check("[[ a ||\n  -n $b ]]\n", None);
        // The space is meant: it is a word of its own, or a part of one.
        check("tr a \\ \nls\n", None);
        check("exit\n  -b\n", None);
    }

    #[test]
    fn other_languages_are_not_repaired() {
        for first in ["#!/usr/bin/perl", "#!/usr/bin/env Rscript", "#!/usr/bin/env python3"] {
            let text = format!("{first}\n#SBATCH -t 1:00:00\nx = (\n  a\n  -b)\n");
            for name in ["x.sh", "x.sbatch", "x"] {
                assert_eq!(fixed(name, &text), text, "{name}");
            }
        }
    }

    /// bash itself says that the scripts are right; without bash there is nothing to ask.
    #[test]
    fn bash_reads_the_scripts() {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..100 {
            let bytes = bytes.new_tree(&mut runner).expect("bytes can be made").current();
            let text = script(&bytes);
            let bash = Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn();
            let Ok(mut bash) = bash else {
                eprintln!("skipped: there is no bash");
                return;
            };
            bash.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("bash reads");
            assert!(bash.wait().expect("bash ends").success(), "{text}");
        }
    }
}
