//! Limits on the unpacked size of archives.

/// The limits of an archive's unpacked size; an archive over one of them is refused before anything
/// is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Most bytes of all members together.
    pub total_bytes: u64,
    /// Most bytes of one member.
    pub member_bytes: u64,
    /// Most bytes of a member, or of the archive, as a multiple of its size in the archive.
    pub ratio: u64,
}

impl Default for ArchiveLimits {
    /// 1 TiB, 1 GiB, 200 times. Photographs in archives expand 1.0 times, PNG of a single colour
    /// some 50 times; deflate ends at 1032 times.
    fn default() -> Self {
        Self { total_bytes: 1 << 40, member_bytes: 1 << 30, ratio: 200 }
    }
}

/// One of the limits of [`ArchiveLimits`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveLimit {
    /// [`ArchiveLimits::total_bytes`].
    Total,
    /// [`ArchiveLimits::member_bytes`].
    Member,
    /// [`ArchiveLimits::ratio`].
    Ratio,
}

/// An archive that unpacks to at most this many bytes is never refused.
pub(crate) const SMALL: u64 = 1 << 20;

impl ArchiveLimits {
    /// Whether `unpacked` bytes are too many for `packed`.
    pub(crate) fn expands_too_far(&self, packed: u64, unpacked: u64) -> bool {
        unpacked > SMALL && unpacked > packed.saturating_mul(self.ratio)
    }
}
