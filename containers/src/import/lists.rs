//! Lists of commands, in which one may be run only if another failed or succeeded. Such a list is
//! one command of a step, or becomes nothing.

use super::command::{Outcome, Walk, empties_caches, joined, outcome_of, unknown};
use super::leftovers::Need;
use super::shell::{self, Command, CommandJoint, is_conditional};
use super::step::Fate;

const CHOICE: Fate = Fate::Missing(
    "whether it is run depends on other commands, and a step cannot run all of them: name packages in the recipe, and write the rest into a step of `[[run]]`",
);

/// What a command in such a list does.
#[derive(Debug, Clone, Copy)]
enum ListPart {
    /// Nothing that stays.
    Nothing,
    /// It tells the others something.
    Test,
    /// It sets a variable or the folder.
    State,
    /// Something else than a step takes its place.
    Taken(Outcome),
    /// A step can run it.
    Step(Need, Fate),
}

impl Walk<'_> {
    /// Takes what a recipe can say from a text that begins at `line`.
    pub(super) fn run(&mut self, text: &str, line: usize) {
        for list in shell::lists(text) {
            self.list(text, &list, |command| line + command.line);
        }
    }

    /// Takes what a recipe can say from a list of a text.
    pub(super) fn list(&mut self, text: &str, list: &[Command], line: impl Fn(&Command) -> usize) {
        let mut list = list;
        // What `&&` follows has succeeded when the rest is run.
        while let Some((first, rest)) = list.split_first().filter(|_| is_conditional(list)) {
            let part = self.part(first);
            if first.joint != CommandJoint::And
                || !matches!(part, ListPart::Nothing | ListPart::Taken(_))
            {
                break;
            }
            self.command(first, line(first));
            list = rest;
        }
        let Some((first, others)) = list.split_first() else { return };
        if !is_conditional(list) {
            return list.iter().for_each(|command| self.command(command, line(command)));
        }
        let parts: Vec<ListPart> = list.iter().map(|command| self.part(command)).collect();
        let line = line(first);
        // `apt-get install x || true`
        if let Some((ListPart::Taken(outcome), rest)) = parts.split_first()
            && first.joint == CommandJoint::Or
            && rest.iter().all(|part| matches!(part, ListPart::Nothing))
        {
            self.command(first, line);
            if matches!(outcome, Outcome::Packages | Outcome::Wheels) {
                let reason =
                    "if this cannot be installed, no image is built, whatever follows `||`";
                self.draft.other(line, &shown(list), reason);
            }
            return;
        }
        let end = others.last().unwrap_or(first).range.end;
        text.get(first.range.start..end).unwrap_or_default().clone_into(&mut self.source);
        self.whole(&shown(list), line, &parts);
        self.follow(list);
    }

    /// Leaves a whole list to a step.
    fn whole(&mut self, text: &str, line: usize, parts: &[ListPart]) {
        let steps = || {
            parts.iter().filter_map(|part| match part {
                ListPart::Step(need, fate) => Some((*need, *fate)),
                _ => None,
            })
        };
        let of = |wanted: Need| steps().find(|(need, _)| *need == wanted);
        let step = of(Need::MakesOnImage).or_else(|| of(Need::Makes)).or_else(|| of(Need::Beside));
        let mut taken = parts.iter().filter_map(|part| match part {
            ListPart::Taken(outcome) => Some(*outcome),
            _ => None,
        });
        let is_state = parts.iter().any(|part| matches!(part, ListPart::State));
        match (step, taken.next()) {
            (None, None) if is_state => self.leave(line, text, Need::State, None),
            (None, None) => {}
            (None, Some(Outcome::Left(fate @ Fate::Different(_)))) => {
                self.draft.fate(line, text, fate);
            }
            (_, Some(_)) => self.draft.fate(line, text, CHOICE),
            (Some((need, fate)), None) => self.leave(line, text, need, Some(fate)),
        }
    }

    /// Notes the folder and the variables that a list may leave behind.
    fn follow(&mut self, list: &[Command]) {
        for command in list {
            self.variables.forget_assigned(&command.text);
            let words = shlex::split(&command.text).unwrap_or_default();
            if let [cd, to, ..] = words.as_slice()
                && cd == "cd"
            {
                self.folder = joined(&self.folder, to);
            }
        }
    }

    fn part(&mut self, command: &Command) -> ListPart {
        if command.is_test() {
            return ListPart::Test;
        }
        let outcome = match command.is_plain {
            false => unknown(&command.text),
            true => {
                let text = &command.text;
                let text = self.variables.expand(text, true).unwrap_or_else(|_| text.clone());
                // To look at a command sets nothing.
                let before = self.variables.clone();
                let words = self.names(&shlex::split(&text).unwrap_or_default());
                self.variables = before;
                match words.split_first() {
                    Some((first, _)) if STATE.contains(&first.as_str()) => return ListPart::State,
                    Some((first, rest)) if first == "rm" && empties_caches(rest) => {
                        return ListPart::Nothing;
                    }
                    Some((first, _)) if first == "rm" => {
                        let fate = Fate::Different("nothing is removed from the image");
                        return ListPart::Step(Need::Beside, fate);
                    }
                    _ => outcome_of(&words),
                }
            }
        };
        match outcome {
            Outcome::Nothing => ListPart::Nothing,
            Outcome::Makes(fate) => ListPart::Step(Need::Makes, fate),
            Outcome::MakesOnImage(fate) => ListPart::Step(Need::MakesOnImage, fate),
            Outcome::Beside(fate) => ListPart::Step(Need::Beside, fate),
            Outcome::Packages | Outcome::Wheels | Outcome::Lock | Outcome::Left(_) => {
                ListPart::Taken(outcome)
            }
        }
    }
}

/// Commands that change the shell that runs them.
const STATE: [&str; 9] = [".", "cd", "export", "pushd", "set", "shopt", "source", "umask", "unset"];

/// The commands of a list on one line.
fn shown(list: &[Command]) -> String {
    let mut text = String::new();
    for (n, command) in list.iter().enumerate() {
        text.push_str(&command.text);
        if n + 1 < list.len() {
            text.push_str(if command.joint == CommandJoint::Or { " || " } else { " && " });
        }
    }
    text
}
