//! What fails when a script runs again in the same folder, as after exit code 85.

use super::{Command, Next, Script};
use crate::disk::base_name;
use crate::finding::{Edit, FileFindings};
use crate::rules;
use crate::script::Job;

/// After these words and operators, the next line belongs to the same statement.
const OPEN: [&str; 8] = ["&&", "||", "|", "|&", "()", "!", "time", "coproc"];

pub(super) fn check(text: &str, script: &Script, job: &Job<'_>, report: &mut FileFindings) {
    let lines: Vec<&str> = text.lines().collect();
    let mut guarded = false;
    for (i, command) in script.commands.iter().enumerate() {
        let words = command.call();
        let next = script.commands.get(i + 1);
        let asked = next.is_some_and(|next| next.words.iter().any(|word| word.contains("$?")));
        let asked = asked || command.next == Next::Or || command.tested;
        let was_guarded = guarded;
        guarded = command.next == Next::Or
            || (command.next == Next::And && matches!(command.program(), "[" | "[[" | "test"));
        match (command.program(), words) {
            ("mkdir", [_, rest @ ..]) => {
                // `mkdir lock && …` makes a lock: whether it fails is the question.
                let tolerated = was_guarded || asked || command.next == Next::And || command.looked;
                let has_option =
                    rest.iter().any(|word| word.starts_with('-') && word.contains('p'));
                if !tolerated && !has_option {
                    let what = format!("`{}` fails if the folder exists already", words.join(" "));
                    report.add(&rules::RESTART_MKDIR, command.line, what).edit =
                        with_option(text, script, command);
                }
            }
            ("rm", [_, rest @ ..]) => {
                let is_input = |word: &&String| job.inputs.iter().any(|i| i == base_name(word));
                let Some(input) = rest.iter().find(is_input) else { continue };
                let what = format!("the script removes `{input}`, which is an input");
                let does_more = asked || rest.iter().any(|w| !w.starts_with('-') && !is_input(&w));
                report.add(&rules::RESTART_RM, command.line, what).edit =
                    without(&lines, script, command).filter(|_| !does_more);
            }
            _ => {}
        }
    }
}

/// The edit that gives `-p` to a `mkdir`.
fn with_option(text: &str, script: &Script, command: &Command) -> Option<Edit> {
    let mut tokens = script.tokens_of(command).iter();
    let token = tokens.find(|token| base_name(&token.text) == "mkdir")?;
    let end = token.at? + token.text.len();
    Edit::within(text, token.line, end..end, " -p")
}

/// The edit that takes out the line of `command`, if the line is a whole statement and nothing
/// else.
fn without(lines: &[&str], script: &Script, command: &Command) -> Option<Edit> {
    let all = script.tokens.as_deref()?;
    let own = script.tokens_of(command);
    let (above, end) = (all.get(..command.tokens.start)?, all.get(command.tokens.end)?);
    let begins = above.last().is_none_or(|token| token.text == "\n");
    let is_open = above
        .iter()
        .rfind(|token| token.text != "\n")
        .is_some_and(|token| OPEN.contains(&token.text.as_str()));
    let joined = command.line.checked_sub(2).and_then(|i| lines.get(i));
    let in_line = |line: usize, text: &str| line == command.line && !text.contains('\n');
    let is_alone = begins
        && !is_open
        && !command.in_function
        && !joined.is_some_and(|line| line.ends_with('\\'))
        && own.len() == command.words.len()
        && own.iter().all(|token| in_line(token.line, &token.text))
        && (end.line, end.text.as_str()) == (command.line, "\n");
    is_alone.then_some(Edit { line: command.line, count: 1, lines: Vec::new() })
}

#[cfg(test)]
mod tests {
    use crate::finding::{Edit, FileFindings};
    use crate::script::Job;
    use crate::script::shell::{Script, check};

    /// The rules that are broken, and the text after some rounds of repairs.
    fn said(body: &str) -> (Vec<&'static str>, String) {
        let inputs = ["data.tar".to_owned()];
        let job = Job { restarts: true, inputs: &inputs, ..Job::default() };
        let mut text = format!("#!/bin/sh\n{body}");
        let mut rules = None;
        for _ in 0..4 {
            let mut report = FileFindings::new("x.sh");
            check(&text, &Script::parse(&text), &job, &mut report);
            rules.get_or_insert_with(|| report.findings.iter().map(|f| f.rule).collect());
            let edits: Vec<&Edit> =
                report.findings.iter().filter_map(|f| f.edit.as_ref()).collect();
            text = crate::repair("x.sh", &text, &edits);
        }
        let text = text.strip_prefix("#!/bin/sh\n").unwrap_or_default().to_owned();
        (rules.unwrap_or_default(), text)
    }

    #[test]
    fn only_a_line_that_does_nothing_else_is_taken_out() {
        assert_eq!(said("a\nrm -f data.tar # why\nb\n"), (vec!["restart-rm"], "a\nb\n".to_owned()));
        for text in [
            "rm data.tar && python train.py\n",
            "rm data.tar; python train.py\n",
            "rm data.tar | tee log\n",
            "rm data.tar & python train.py\n",
            "rm -f old.log \\\n  data.tar\nb\n",
            "rm data.tar \\\n\nb\n",
            "a \\\nrm data.tar\n\\\nrm data.tar\nb\n",
            "rm old.log data.tar\n",
            "rm data.tar > log\n",
            "rm data.tar <<E\nE\nb\n",
            "rm 'data.tar' 'a\nb'\n",
            "a &&\n\nrm data.tar\nb\n",
            "f()\nrm data.tar\nb\n",
            "if rm data.tar; then b; fi\n",
            "while\nrm data.tar\nb\ndo\nc\ndone\n",
            "if a; then\nrm data.tar\nfi\n",
            "rm data.tar\nif [ $? = 0 ]; then b; fi\n",
            "{ rm data.tar\n}\n",
        ] {
            assert_eq!(said(text), (vec!["restart-rm"], text.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_folder_is_made_by_the_word_that_makes_it() {
        let check = |text: &str, expected: &str| {
            assert_eq!(said(text), (vec!["restart-mkdir"], expected.to_owned()), "{text}");
        };
        check("echo \"mkdir out\"; mkdir out\n", "echo \"mkdir out\"; mkdir -p out\n");
        check("A=mkdir mkdir\tout # mkdir \n", "A=mkdir mkdir -p\tout # mkdir \n");
        check("/bin/mkdir out", "/bin/mkdir -p out\n");
        check("command \\\n  mkdir \\\n  out\n", "command \\\n  mkdir -p \\\n  out\n");
        check("\"mkdir\" out\n", "\"mkdir\" out\n");
        let both = (vec!["restart-mkdir"; 2], "mkdir -p a; mkdir -p b\n".to_owned());
        assert_eq!(said("mkdir a; mkdir b\n"), both);
    }

    #[test]
    fn a_folder_that_is_a_lock_is_none_that_exists_already() {
        for text in [
            "mkdir lock && python init.py\n",
            "mkdir lock || exit 1\n",
            "if mkdir lock; then a; fi\n",
            "until mkdir lock; do sleep 1; done\n",
            "if ! mkdir lock; then exit; fi\n",
            "mkdir lock\nif [ $? -ne 0 ]; then exit; fi\n",
        ] {
            assert_eq!(said(text), (vec![], text.to_owned()), "{text}");
        }
    }
}
