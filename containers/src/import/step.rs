//! What one instruction of a file asks for, whichever tool the file is for.

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// The line where it begins, from 1.
    pub(super) line: usize,
    /// The instruction as it is in the file.
    pub(super) text: String,
    pub(super) kind: StepKind,
}

/// The kinds of instructions that become part of a recipe, and all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StepKind {
    /// Another stage, which begins with what is there already.
    Stage,
    /// An image in a registry.
    Image(String),
    /// The folder of an OCI layout, or an archive.
    Archive(String),
    /// A Debian release that is installed from its packages.
    Debian(String),
    /// Nothing to begin with.
    Scratch,
    /// A base that no recipe can have; the reason.
    NoBase(&'static str),
    /// A variable of the build, with its default.
    Arg(String),
    /// Variables of the image: `NAME=VALUE` words, or `NAME VALUE`.
    Env(String),
    /// Labels, written like [`Env`](Self::Env).
    Label(String),
    /// A label with its value.
    LabelIs(String, String),
    /// Operating system and processor.
    Platform(String),
    /// Text for a shell, and files that only this text sees: path in the image, path here.
    Run {
        text: String,
        mounts: Vec<(String, String)>,
        /// Whether the text sees what else is mounted, such as secrets.
        needs_more: bool,
        /// Whether it has no network.
        is_cut_off: bool,
    },
    /// The words of the shell for the texts that follow.
    OwnShell(Vec<String>),
    /// Text for a shell that sets the variables of the image.
    Environment(String),
    Copy {
        sources: Vec<String>,
        dest: String,
        /// Whether Apptainer's rules hold.
        is_apptainer: bool,
    },
    /// What follows is of another stage, of which only what is copied matters.
    OtherStage {
        /// The stage that it begins with, by its place in the file.
        begins_with: Option<usize>,
    },
    /// A stage ends; `None` for what is before all of them.
    StageEnd(Option<usize>),
    /// What follows is of the image's own stage again.
    OwnStage,
    /// Files of another stage, which was done before.
    CopyFrom {
        sources: Vec<String>,
        dest: String,
        /// Whether Apptainer's rules hold.
        is_apptainer: bool,
    },
    /// Archives that are unpacked into a folder.
    Unpack {
        sources: Vec<String>,
        dest: String,
    },
    /// A file of this text.
    Text {
        lines: String,
        /// Whether values of variables are in it.
        expands: bool,
        dest: String,
    },
    /// The mode of what the step before copied.
    Modes(String),
    WorkDir(String),
    Entrypoint(Start),
    Cmd(Start),
    /// Something that becomes nothing; the reason.
    Other(Fate),
}

impl StepKind {
    /// Text for a shell, as of `%post`.
    pub(super) fn post(text: String) -> Self {
        Self::Run { text, mounts: Vec::new(), needs_more: false, is_cut_off: false }
    }
}

/// How a program is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    Words(Vec<String>),
    /// Text for `sh -c`.
    Shell(String),
    /// A whole script.
    Script(String),
}

/// Why an instruction becomes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The image lacks something; what to do.
    Missing(&'static str),
    /// An image of a recipe behaves otherwise, or need not do this.
    Different(&'static str),
}
