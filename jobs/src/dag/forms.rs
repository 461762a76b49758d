//! What lines of the simple commands look like.

/// A word behind a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// A node's name.
    Node,
    Text,
    Number,
    /// A number that is not negative.
    Count,
    /// A count, or a share such as `10%`.
    Share,
    Key(&'static str),
}
use Part::{Count, Key, Node, Number, Share, Text};

/// The words that a command needs, and those that may follow: all of them or none.
#[derive(Debug)]
pub(super) struct Form {
    command: &'static str,
    needs: &'static [Part],
    more: &'static [Part],
    /// The same in words.
    pub(super) takes: &'static str,
}

macro_rules! forms {
    ($($command:literal $needs:expr, $more:expr, $takes:literal;)*) => {
        /// The manual, DAGMan file commands; by the parser of HTCondor 25.14.
        const FORMS: &[Form] = &[$(Form {
            command: $command, needs: &$needs, more: &$more, takes: $takes,
        }),*];
    };
}

forms! {
    "RETRY" [Node, Count], [Key("UNLESS_EXIT"), Number], "a node and a whole number, perhaps with `UNLESS-EXIT` and a code";
    "ABORT_DAG_ON" [Node, Number], [Key("RETURN"), Count], "a node and a code, perhaps with `RETURN` and a code";
    "PRIORITY" [Node, Number], [], "a node and a whole number";
    "PRE_SKIP" [Node, Number], [], "a node and a code";
    "TOLERANCE" [Node, Share], [Text], "a node and a whole number, perhaps with `FAIL-FAST` or `WAIT`";
    "CATEGORY" [Node, Text], [], "a node and a category";
    "MAXJOBS" [Text, Count], [], "a category and a whole number";
    "DONE" [Node], [], "a node";
    "SAVE_POINT_FILE" [Node], [Text], "a node, perhaps with a file";
    "CONNECT" [Node, Node], [], "two splices";
    "PIN_IN" [Node, Count], [], "a node and a whole number";
    "PIN_OUT" [Node, Count], [], "a node and a whole number";
    "INCLUDE" [Text], [], "a file";
    "CONFIG" [Text], [], "a file";
    "JOBSTATE_LOG" [Text], [], "a file";
    "REJECT" [], [], "no words";
}

impl Form {
    /// The form of `command`, if it has a simple one.
    pub(super) fn of(command: &str) -> Option<&'static Self> {
        FORMS.iter().find(|form| form.command == command)
    }

    /// Whether `words`, which follow the command, are right.
    pub(super) fn fits(&self, words: &[&str]) -> bool {
        let Some((needed, more)) = words.split_at_checked(self.needs.len()) else { return false };
        let is = |parts: &[Part], words: &[&str]| {
            parts.len() == words.len() && parts.iter().zip(words).all(|(part, word)| part.is(word))
        };
        is(self.needs, needed) && (more.is_empty() || is(self.more, more))
    }

    /// The nodes among `words`.
    pub(super) fn nodes<'w, 'a>(&self, words: &'w [&'a str]) -> impl Iterator<Item = &'w &'a str> {
        let of = self.needs.iter().zip(words);
        of.filter(|(part, _)| **part == Node).map(|(_, word)| word)
    }
}

impl Part {
    fn is(self, word: &str) -> bool {
        match self {
            Node | Text => true,
            Number => word.parse::<i64>().is_ok(),
            Count => word.parse::<u64>().is_ok(),
            Share => word.strip_suffix('%').unwrap_or(word).parse::<u64>().is_ok(),
            Key(key) => super::words::canonical(word) == key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_all_words_or_are_wrong() {
        let check = |line: &str, expected: bool| {
            let mut words = line.split(' ');
            let command = words.next().unwrap_or_default();
            let words: Vec<&str> = words.collect();
            let form = Form::of(command).expect("it is in the table");
            assert_eq!(form.fits(&words), expected, "{line}");
        };
        for right in [
            "RETRY a 3",
            "RETRY a 3 unless-exit -1",
            "ABORT_DAG_ON a 1 RETURN 0",
            "PRIORITY a -5",
            "TOLERANCE a 10% WAIT",
            "SAVE_POINT_FILE a",
            "MAXJOBS big 0",
            "CONNECT a b",
            "REJECT",
        ] {
            check(right, true);
        }
        for wrong in [
            "RETRY a",
            "RETRY a -1",
            "RETRY a 3 UNLESS-EXIT",
            "RETRY a 3 EXIT 2",
            "ABORT_DAG_ON a",
            "CATEGORY a",
            "CATEGORY a big big",
            "MAXJOBS big -1",
            "MAXJOBS big",
            "DONE a b",
            "INCLUDE",
            "REJECT a",
        ] {
            check(wrong, false);
        }
    }
}
