//! Formats of science and of Earth observation that are not read, and how to convert their files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::facts::OTHERS;

/// A format that is not read.
#[derive(Debug, PartialEq, Eq)]
pub struct Outside {
    /// Its name.
    pub name: &'static str,
    /// How names of its files end, in lower case.
    pub endings: &'static [&'static str],
    /// Bytes by which it is known, with their positions.
    pub magic: &'static [(usize, &'static [u8])],
    /// How its files become ones that are packed: a command, or a line of Python.
    pub convert: &'static str,
    /// Where the format and the command are described.
    pub source: &'static str,
}

/// The formats that are known and not read.
pub const OUTSIDE: [Outside; 6] = [
    Outside {
        name: "netCDF",
        endings: &["nc", "nc4", "cdf"],
        // Version 4 is HDF5 within, which is read outside of archives.
        magic: &[(0, b"CDF\x01"), (0, b"CDF\x02"), (0, b"CDF\x05"), (0, b"\x89HDF\r\n\x1a\n")],
        convert: "`nccopy -k nc4 IN.nc OUT.nc` makes netCDF-4, whose rows are packed from a folder with such files alone; of a map, `gdal_translate NETCDF:IN.nc:NAME OUT.tif`, or in Python: `np.save(\"OUT.npy\", xarray.open_dataset(\"IN.nc\")[\"NAME\"].values)`",
        source: "docs.unidata.ucar.edu/netcdf-c, \"File formats\"; gdal.org/drivers/raster/netcdf.html",
    },
    Outside {
        name: "HDF5",
        endings: &["h5", "hdf5", "he5"],
        magic: &[(0, b"\x89HDF\r\n\x1a\n")],
        convert: "put the files alone into a folder, unpacked, and give that: the rows of their datasets are packed; or in Python: `np.save(\"OUT.npy\", h5py.File(\"IN.h5\")[\"NAME\"][:])`",
        source: "HDF5 File Format Specification 3.0; support.hdfgroup.org, h5repack",
    },
    Outside {
        name: "HDF4",
        endings: &["hdf", "hdf4"],
        magic: &[(0, b"\x0e\x03\x13\x01")],
        convert: "`gdal_translate 'HDF4_EOS:EOS_GRID:\"IN.hdf\":GRID:NAME' OUT.tif`; `gdalinfo IN.hdf` lists the names",
        source: "gdal.org/drivers/raster/hdf4.html",
    },
    Outside {
        name: "Zarr",
        endings: &["zarr"],
        magic: &[],
        convert: "in Python: `np.save(\"OUT.npy\", zarr.open(\"IN.zarr\")[\"NAME\"][:])`, without `[\"NAME\"]` if it is one array; or, if its rows are samples, `np.savez(\"OUT.npz\", image=…, label=…)` of two such arrays, whose rows are packed",
        source: "zarr-specs.readthedocs.io, versions 2 and 3",
    },
    Outside {
        name: "DICOM",
        endings: &["dcm", "dicom"],
        magic: &[(128, b"DICM")],
        convert: "in Python: `np.save(\"OUT.npy\", pydicom.dcmread(\"IN.dcm\").pixel_array)`",
        source: "DICOM PS3.10, 7.1; pydicom.github.io",
    },
    Outside {
        name: "GRIB",
        endings: &["grib", "grib2", "grb", "grb2"],
        magic: &[(0, b"GRIB")],
        convert: "`gdal_translate IN.grib OUT.tif`",
        source: "gdal.org/drivers/raster/grib.html",
    },
];

// The longest position of a magic, and its bytes.
const HEAD: u64 = 132;

/// The kind that the report counts a file as, if its name ends like those of such a format.
pub(crate) fn ending(name: &str) -> Option<&'static str> {
    let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
    // The metadata of a store of Zarr.
    if matches!(name.as_str(), ".zarray" | ".zgroup" | "zarr.json") {
        return Some("zarr");
    }
    let of = |ending: &&&str| {
        let stem = name.strip_suffix(**ending).and_then(|rest| rest.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty())
    };
    let mut all = OUTSIDE.iter().flat_map(|format| format.endings);
    all.find(of).copied()
}

/// Files that were left out: the first one of each ending, and the first one without an extension.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    first: BTreeMap<&'static str, PathBuf>,
    plain: Option<PathBuf>,
}

impl LeftOut {
    /// Takes a file, and returns the kind that it is counted as, if it may have such a format.
    pub(crate) fn add(&mut self, name: &str, path: &Path) -> Option<&'static str> {
        let ending = ending(name);
        match ending {
            Some(ending) => drop(self.first.entry(ending).or_insert_with(|| path.to_owned())),
            None if path.extension().is_none() && self.plain.is_none() => {
                self.plain = Some(path.to_owned());
            }
            None => {}
        }
        ending
    }

    /// The format of most files, of those counted as `ignored`, if it is one of these.
    pub(crate) fn format(&self, ignored: &BTreeMap<String, u64>) -> Option<&'static Outside> {
        let known = self
            .first
            .iter()
            .filter_map(|(ending, path)| Some((ignored.get(*ending)?, *ending, path)));
        let Some((n, ending, path)) = known.max_by_key(|(n, ..)| **n) else {
            return self.plain.as_deref().and_then(of_file);
        };
        let is_picture = |kind: &str| OTHERS.contains(&kind) && !self.first.contains_key(kind);
        let others = ignored.iter().filter(|(kind, _)| is_picture(kind)).map(|(_, n)| *n);
        if others.max() > Some(*n) {
            return None;
        }
        let named = || OUTSIDE.iter().find(|format| format.endings.contains(&ending));
        // What is in an archive is not opened for this.
        of_file(path).or_else(named)
    }
}

/// The format of a file by its name and its first bytes, or by one of them.
pub(crate) fn of_file(path: &Path) -> Option<&'static Outside> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    let starts = |format: &&Outside| {
        format
            .magic
            .iter()
            .any(|(at, magic)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)))
    };
    let name = path.file_name()?.to_string_lossy();
    let ending = ending(&name);
    let named = |format: &&Outside| ending.is_some_and(|ending| format.endings.contains(&ending));
    let both = OUTSIDE.iter().filter(named).find(starts);
    let plain = || OUTSIDE.iter().find(|format| format.name != "netCDF" && starts(format));
    both.or_else(plain)
        .or_else(|| OUTSIDE.iter().find(starts))
        .or_else(|| OUTSIDE.iter().find(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_their_first_bytes() {
        assert_eq!(ending("a/T33.SAFE/B02.NC"), Some("nc"));
        assert_eq!((ending("a.gz"), ending("nc"), ending(".nc")), (None, None, None));
        assert_eq!(ending("x.zarr/.zarray"), Some("zarr"));
        let dir = tempfile::tempdir().unwrap();
        for format in &OUTSIDE {
            for (at, magic) in format.magic {
                let path = dir.path().join("plain");
                std::fs::write(&path, [&vec![0; *at][..], magic, b"and more"].concat()).unwrap();
                let found = of_file(&path).unwrap().name;
                let is_within = format.name == "netCDF" && found == "HDF5";
                assert!(found == format.name || is_within, "{found}");
            }
            for ending in format.endings {
                let path = dir.path().join(format!("a.{ending}"));
                std::fs::write(&path, b"text").unwrap();
                assert_eq!(of_file(&path).unwrap().name, format.name);
            }
            assert!(!format.source.is_empty() && format.convert.contains('`'), "{format:?}");
            let longest = format.magic.iter().map(|(at, magic)| at + magic.len()).max();
            assert!(longest.unwrap_or(0) as u64 <= HEAD);
        }
        assert!(of_file(&dir.path().join("none")).is_none());
        let netcdf = dir.path().join("a.nc");
        std::fs::write(&netcdf, b"\x89HDF\r\n\x1a\n").unwrap();
        assert_eq!(of_file(&netcdf).unwrap().name, "netCDF");
        let modis = dir.path().join("a.hdf");
        std::fs::write(&modis, b"\x89HDF\r\n\x1a\n").unwrap();
        assert_eq!(of_file(&modis).unwrap().name, "HDF5");
    }

    #[test]
    fn the_format_of_most_files_counts() {
        let found = |all: &[(&str, u64)]| {
            let mut left_out = LeftOut::default();
            for (kind, _) in all {
                left_out.add(&format!("a.{kind}"), Path::new(&format!("/none/a.{kind}")));
            }
            let counts = all.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
            left_out.format(&counts).map(|format| format.name)
        };
        assert_eq!(found(&[("h5", 2), ("grib", 3), ("txt", 9)]), Some("GRIB"));
        assert_eq!(found(&[("dcm", 2), ("ico", 3)]), None);
        assert_eq!(found(&[("dcm", 2), ("ico", 1)]), Some("DICOM"));
        assert_eq!(found(&[("txt", 9)]), None);
    }
}
