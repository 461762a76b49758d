//! Fat binaries: the containers in which `nvcc` embeds GPU code in an ELF file.
//!
//! NVIDIA publishes no description. As found in libraries of CUDA 11 to 13:
//!
//! ```text
//! region  u32 0xBA55ED50, u16 version 1, u16 header bytes 16, u64 bytes that follow
//! entry   u16 kind (1 PTX, 2 cubin), u16, u32 header bytes, u64 bytes that follow, …,
//!         u32 at +28: architecture, such as 86 for sm_86
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::str::FromStr;

use crate::{Error, Result};

const MAGIC: [u8; 4] = 0xBA55_ED50_u32.to_le_bytes();
const REGION_HEADER: usize = 16;
const ENTRY_HEADER: usize = 32;
const PTX: u16 = 1;
const CUBIN: u16 = 2;
/// Number of bytes that are searched at a time.
const WINDOW: usize = 1 << 20;

/// A GPU's compute capability, such as 8.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The major number; code runs on GPUs with the same one only.
    pub major: u32,
    /// Code runs on its own minor number and higher ones.
    pub minor: u32,
}

impl Capability {
    /// Makes a compute capability from the number in `sm_86`.
    pub fn from_sm(sm: u32) -> Self {
        Self { major: sm / 10, minor: sm % 10 }
    }

    /// The capability as one number, as in `sm_86`.
    pub fn sm(self) -> u32 {
        self.major * 10 + self.minor
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Capability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a compute capability; expected a number such as `8.6`");
        let (major, minor) = text.split_once('.').ok_or_else(wrong)?;
        let number = |text: &str| match text.parse() {
            Ok(number) if text.len() <= 2 => Ok(number),
            _ => Err(wrong()),
        };
        let (major, minor) = (number(major)?, number(minor)?);
        if minor > 9 { Err(wrong()) } else { Ok(Self { major, minor }) }
    }
}

/// The GPU code in one library: bytes by architecture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Architectures {
    /// Machine code: runs on the same major and on minor numbers not below.
    pub cubin: BTreeMap<Capability, u64>,
    /// Intermediate code: the driver compiles it at the program's start for any
    /// GPU not below.
    pub ptx: BTreeMap<Capability, u64>,
}

impl Architectures {
    /// Finds all GPU code in a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("open", path))?;
        Self::scan(&file).map_err(Error::io("read", path))
    }

    /// Whether there is no GPU code at all.
    pub fn is_empty(&self) -> bool {
        self.cubin.is_empty() && self.ptx.is_empty()
    }

    /// Bytes of machine code that a GPU of this capability runs, of the best
    /// fitting architecture; `None` when it has none.
    pub fn runs_on(&self, gpu: Capability) -> Option<u64> {
        let fits = |sm: &Capability| sm.major == gpu.major && sm.minor <= gpu.minor;
        self.cubin.iter().rfind(|(sm, _)| fits(sm)).map(|(_, bytes)| *bytes)
    }

    fn scan(file: &File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let mut found = Self::default();
        let mut window = vec![0; WINDOW];
        let mut at = 0;
        while at < len {
            let read = read_up_to(file, &mut window, at)?;
            let bytes = window.get(..read).unwrap_or_default();
            let mut next = at + read.saturating_sub(MAGIC.len() - 1).max(1) as u64;
            let mut from = 0;
            while let Some(hit) = bytes.get(from..).and_then(find) {
                let start = at + (from + hit) as u64;
                let Some(end) = found.region(file, start, len)? else {
                    from += hit + 1;
                    continue;
                };
                next = next.max(end);
                match usize::try_from(end - at) {
                    Ok(end) if end < read => from = end,
                    _ => break,
                }
            }
            at = next;
        }
        Ok(found)
    }

    /// Reads the entries of the region at `start`, and returns where it ends;
    /// `None` when there is none, but the four bytes by chance.
    fn region(&mut self, file: &File, start: u64, len: u64) -> io::Result<Option<u64>> {
        let mut header = [0; REGION_HEADER];
        if read_up_to(file, &mut header, start)? < REGION_HEADER
            || (u16_at(&header, 4), u16_at(&header, 6)) != (1, REGION_HEADER as u16)
        {
            return Ok(None);
        }
        let body = start + REGION_HEADER as u64;
        let Some(end) = body.checked_add(u64_at(&header, 8)).filter(|end| *end <= len) else {
            return Ok(None);
        };
        let mut at = body;
        let mut entry = [0; ENTRY_HEADER];
        while at + ENTRY_HEADER as u64 <= end {
            read_up_to(file, &mut entry, at)?;
            let kind = u16_at(&entry, 0);
            let (header, payload) = (u64::from(u32_at(&entry, 4)), u64_at(&entry, 8));
            let Some(next) = header.checked_add(payload).and_then(|bytes| at.checked_add(bytes))
            else {
                break;
            };
            if header < ENTRY_HEADER as u64 || next > end {
                break;
            }
            let sm = Capability::from_sm(u32_at(&entry, 28));
            match kind {
                PTX => *self.ptx.entry(sm).or_default() += payload,
                CUBIN => *self.cubin.entry(sm).or_default() += payload,
                _ => {}
            }
            at = next;
        }
        Ok(Some(end))
    }
}

fn find(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, &MAGIC)
}

fn read_up_to(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Zeros where the bytes end before; headers are read whole.
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn entry(kind: u16, sm: u32, payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; 64 + payload];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(payload as u64).to_le_bytes());
        bytes[28..32].copy_from_slice(&sm.to_le_bytes());
        bytes
    }

    fn region(entries: &[Vec<u8>]) -> Vec<u8> {
        let body = entries.concat();
        let mut bytes = [&MAGIC[..], &[1, 0, 16, 0], &(body.len() as u64).to_le_bytes()].concat();
        bytes.extend(body);
        bytes
    }

    fn scan(bytes: &[u8]) -> Architectures {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Architectures::scan(&file).unwrap()
    }

    fn counts(map: &BTreeMap<Capability, u64>) -> Vec<(u32, u64)> {
        map.iter().map(|(sm, bytes)| (sm.sm(), *bytes)).collect()
    }

    #[test]
    fn regions_are_found_wherever_they_lie() {
        let one = region(&[entry(CUBIN, 80, 100), entry(CUBIN, 86, 50), entry(PTX, 90, 7)]);
        let large = region(&[entry(CUBIN, 120, 3 * WINDOW)]);
        for padding in [0, 8, WINDOW - 20, WINDOW - 3, WINDOW - 1, WINDOW + 5] {
            let file = [vec![0x50; padding], one.clone(), large.clone(), vec![9; 77], one.clone()];
            let found = scan(&file.concat());
            let expected = [(80, 200), (86, 100), (120, 3 * WINDOW as u64)];
            assert_eq!(counts(&found.cubin), expected, "after {padding} bytes");
            assert_eq!(counts(&found.ptx), [(90, 14)]);
        }
    }

    #[test]
    fn what_only_looks_like_one_is_passed_over() {
        let good = region(&[entry(CUBIN, 75, 10)]);
        let mut version = good.clone();
        version[4] = 2;
        let mut long = good.clone();
        long[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut entry_too_long = good.clone();
        entry_too_long[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        for bad in [&version, &long, &entry_too_long, &good[..20].to_vec()] {
            assert!(scan(bad).is_empty());
        }
        assert_eq!(counts(&scan(&[long, good].concat()).cubin), [(75, 10)]);
    }

    #[test]
    fn code_runs_on_its_major_and_later_minors() {
        let found = scan(&region(&[60, 75, 80, 86].map(|sm| entry(CUBIN, sm, sm as usize))));
        let runs = |gpu: &str| found.runs_on(gpu.parse().unwrap());
        assert_eq!(runs("6.1"), Some(60));
        assert_eq!(runs("8.0"), Some(80));
        assert_eq!(runs("8.9"), Some(86));
        assert_eq!([runs("7.0"), runs("9.0"), runs("10.3")], [None; 3]);
        for bad in ["86", "8.", ".6", "8.66", "a.b", "-8.6"] {
            assert!(bad.parse::<Capability>().is_err(), "{bad}");
        }
    }
}
