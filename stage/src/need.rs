//! The space that a copy takes.

/// The space that stays free for the rest of the job is this plus a twentieth of the copy.
const MARGIN_BYTES: u64 = 16 << 20;
/// A file system in memory counts files in pages of this size.
const PAGE_BYTES: u64 = 4096;

/// The space that a copy needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Bytes of all files, in whole pages.
    pub(super) bytes: u64,
    /// The sum of the files' lengths.
    pub(super) content: u64,
    pub(super) files: u64,
    pub(super) inodes: u64,
    pub(super) largest: u64,
}

impl Need {
    /// Adds a file of `len` bytes, in whole pages.
    pub(super) fn add(&mut self, len: u64) {
        let pages = len.div_ceil(PAGE_BYTES).saturating_mul(PAGE_BYTES);
        self.bytes = self.bytes.saturating_add(pages);
        self.content = self.content.saturating_add(len);
        self.files = self.files.saturating_add(1);
        self.inodes = self.inodes.saturating_add(1);
        self.largest = self.largest.max(len);
    }

    /// Adds a file of our own beside the data, of `len` bytes or less.
    pub(super) fn add_list(&mut self, len: u64) {
        let (content, files) = (self.content, self.files);
        self.add(len);
        (self.content, self.files) = (content, files);
    }

    /// Adds `n` folders.
    pub(super) fn add_folders(&mut self, n: u64) {
        self.bytes = self.bytes.saturating_add(n.saturating_mul(PAGE_BYTES));
        self.inodes = self.inodes.saturating_add(n);
    }

    pub(super) fn with_margin(self) -> u64 {
        self.bytes.saturating_add(self.bytes / 20).saturating_add(MARGIN_BYTES)
    }
}
