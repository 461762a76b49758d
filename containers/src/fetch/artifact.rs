//! What is fetched.

/// A file of known bytes, and where to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What it is called in messages: a package's name.
    pub name: String,
    /// Its file name: one safe segment.
    pub file_name: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Where it is, the best place first.
    pub urls: Vec<String>,
}
