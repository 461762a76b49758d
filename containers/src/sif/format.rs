//! The offsets and sizes of the parts of a SIF.

use super::{Arch, ObjectKind};
use crate::UnixTime;

pub(super) const HEADER_BYTES: usize = 128;
pub(super) const DESCRIPTOR_BYTES: usize = 585;
pub(super) const DESCRIPTORS_START: u64 = 4096;
/// Partitions start at its multiples, so that a kernel can mount them in place.
pub(super) const PARTITION_ALIGN: u64 = 4096;
/// Descriptors a file has room for, as the Sylabs library chooses.
pub(super) const CAPACITY: u64 = 48;

/// Shell line of the file itself, for kernels that run it as a script.
pub(super) const LAUNCH: &[u8; 32] = b"#!/usr/bin/env run-singularity\n\0";
pub(super) const MAGIC: &[u8; 10] = b"SIF_MAGIC\0";
pub(super) const VERSION: &[u8; 3] = b"01\0";

/// Marks a number as that of a group.
pub(super) const GROUP: u32 = 0xf000_0000;

const DEFFILE: u32 = 0x4001;
const PARTITION: u32 = 0x4004;
const JSON: u32 = 0x4006;
const SBOM: u32 = 0x4009;
const SQUASHFS: u32 = 1;
const PRIMARY_SYSTEM: u32 = 2;
const SPDX_JSON: u32 = 4;

/// The numbers in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) arch: [u8; 3],
    pub(super) uuid: [u8; 16],
    pub(super) created: UnixTime,
    pub(super) modified: UnixTime,
    pub(super) free: u64,
    pub(super) capacity: u64,
    pub(super) data_start: u64,
    pub(super) data_bytes: u64,
}

impl Header {
    pub(super) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..32].copy_from_slice(LAUNCH);
        bytes[32..42].copy_from_slice(MAGIC);
        bytes[42..45].copy_from_slice(VERSION);
        bytes[45..48].copy_from_slice(&self.arch);
        bytes[48..64].copy_from_slice(&self.uuid);
        let descriptor_bytes = self.capacity * DESCRIPTOR_BYTES as u64;
        let numbers = [
            self.created.0 as u64,
            self.modified.0 as u64,
            self.free,
            self.capacity,
            DESCRIPTORS_START,
            descriptor_bytes,
            self.data_start,
            self.data_bytes,
        ];
        for (place, number) in bytes[64..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// One descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: ObjectKind,
    pub(super) id: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The object's length with the padding before it.
    pub(super) padded: u64,
    pub(super) time: UnixTime,
    pub(super) name: String,
}

impl Entry {
    pub(super) fn to_bytes(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let (kind, extra) = kind_fields(self.kind);
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4] = 1;
        bytes[5..9].copy_from_slice(&self.id.to_le_bytes());
        bytes[9..13].copy_from_slice(&(GROUP | 1).to_le_bytes());
        // Bytes 13 to 16: the object is linked to no other.
        for (place, number) in
            bytes[17..41].chunks_exact_mut(8).zip([self.offset, self.bytes, self.padded])
        {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes[41..49].copy_from_slice(&self.time.0.to_le_bytes());
        bytes[49..57].copy_from_slice(&self.time.0.to_le_bytes());
        // Bytes 57 to 72: owner and group, which are root's.
        for (place, byte) in bytes[73..].iter_mut().zip(self.name.bytes().take(MAX_NAME)) {
            *place = byte;
        }
        for (place, byte) in bytes[201..].iter_mut().zip(extra) {
            *place = byte;
        }
        bytes
    }
}

/// Longest name of an object: one byte of its 128 ends it.
pub(super) const MAX_NAME: usize = 127;

fn kind_fields(kind: ObjectKind) -> (u32, Vec<u8>) {
    match kind {
        ObjectKind::Deffile => (DEFFILE, Vec::new()),
        ObjectKind::RootPartition(arch) => {
            let numbers = [SQUASHFS.to_le_bytes(), PRIMARY_SYSTEM.to_le_bytes()];
            (PARTITION, [numbers.as_flattened(), &arch.code()].concat())
        }
        ObjectKind::Json => (JSON, Vec::new()),
        ObjectKind::SpdxJson => (SBOM, SPDX_JSON.to_le_bytes().to_vec()),
        ObjectKind::Other(kind) => (kind, Vec::new()),
    }
}

/// The kind that a descriptor's type and `extra` bytes say.
pub(super) fn kind(number: u32, extra: &[u8]) -> ObjectKind {
    let field = |at: usize| {
        extra.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    };
    match number {
        DEFFILE => ObjectKind::Deffile,
        JSON => ObjectKind::Json,
        SBOM if field(0) == Some(SPDX_JSON) => ObjectKind::SpdxJson,
        PARTITION if (field(0), field(4)) == (Some(SQUASHFS), Some(PRIMARY_SYSTEM)) => {
            let code = extra.get(8..11).and_then(|code| code.try_into().ok());
            code.and_then(Arch::from_code)
                .map_or(ObjectKind::Other(number), ObjectKind::RootPartition)
        }
        other => ObjectKind::Other(other),
    }
}
