//! Kinds of TIFF that are not read, and the commands that make others of them.

use crate::Error;

/// A kind of file that is not read.
struct Outside {
    /// The numbers of the compression, from the first to the last.
    compression: (u64, u64),
    name: &'static str,
}

/// Compressions that are not read. GDAL reads them, where it was built with their libraries.
/// Source: tiff.h of libtiff 4.7; gdal.org/drivers/raster/gtiff.html.
const COMPRESSIONS: [Outside; 5] = [
    Outside { compression: (2, 4), name: "CCITT fax" },
    Outside { compression: (6, 6), name: "old-style JPEG" },
    Outside { compression: (34_712, 34_712), name: "JPEG 2000" },
    Outside { compression: (50_002, 50_002), name: "JPEG XL" },
    Outside { compression: (52_546, 52_546), name: "JPEG XL" },
];

const BY_GDAL: &str = "convert it with GDAL: `gdal_translate -co COMPRESS=DEFLATE IN.tif OUT.tif`";

/// Types of numbers that are not read: the sample format (1 and 4: unsigned, 2: signed, 3: float,
/// 5 and 6: complex), the least and the most bits, and what makes a type of them that is. The first
/// row that fits counts. Source: TIFF 6.0, "SampleFormat"; gdal.org/programs/gdal_translate.html.
const NUMBERS: [(u64, (u64, u64), &str); 9] = [
    (1, (1, 16), "convert it with GDAL: `gdal_translate -ot UInt16 IN.tif OUT.tif`"),
    (1, (17, 32), "convert it with GDAL: `gdal_translate -ot UInt32 IN.tif OUT.tif`"),
    (1, (33, 64), "convert it with GDAL: `gdal_translate -ot Int64 IN.tif OUT.tif`"),
    (2, (1, 32), "convert it with GDAL: `gdal_translate -ot Int32 IN.tif OUT.tif`"),
    (2, (33, 64), "convert it with GDAL: `gdal_translate -ot Int64 IN.tif OUT.tif`"),
    (3, (1, 32), "convert it with GDAL: `gdal_translate -ot Float32 IN.tif OUT.tif`"),
    (3, (33, u64::MAX), "convert it with GDAL: `gdal_translate -ot Float64 IN.tif OUT.tif`"),
    (5, (1, u64::MAX), COMPLEX),
    (6, (1, u64::MAX), COMPLEX),
];

const COMPLEX: &str = "store the two parts as bands, in Python with rasterio: `x = src.read(1); dst.write(x.real, 1); dst.write(x.imag, 2)`";

/// The error for a compression.
pub(super) fn compression(kind: u64) -> Error {
    let known =
        COMPRESSIONS.iter().find(|of| (of.compression.0..=of.compression.1).contains(&kind));
    let name = known.map_or("an unknown method", |of| of.name);
    Error::TiffKind { detail: format!("it is compressed by {name} ({kind})"), convert: BY_GDAL }
}

/// The error for a type of numbers.
pub(super) fn number(bits: u64, format: u64) -> Error {
    let name = match format {
        1 | 4 => "unsigned integers",
        2 => "integers",
        3 => "floats",
        5 | 6 => "complex numbers",
        _ => "an unknown sample format",
    };
    let of = if format == 4 { 1 } else { format };
    let known = NUMBERS
        .iter()
        .find(|(kind, (least, most), _)| *kind == of && (*least..=*most).contains(&bits));
    let convert = known.map_or(BY_GDAL, |(.., convert)| *convert);
    Error::TiffKind { detail: format!("{name} of {bits} bits"), convert }
}

/// The error for another kind.
pub(super) fn other(detail: impl Into<String>) -> Error {
    Error::TiffKind { detail: detail.into(), convert: BY_GDAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_and_a_command() {
        let check = |error: Error, words: &str, command: &str| {
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.hint().unwrap_or_default().contains(command), "{error:?}");
        };
        check(compression(34_712), "JPEG 2000 (34712)", "COMPRESS=DEFLATE");
        check(compression(3), "CCITT fax (3)", "COMPRESS=DEFLATE");
        check(compression(99), "an unknown method (99)", "COMPRESS=DEFLATE");
        check(number(12, 1), "unsigned integers of 12 bits", "-ot UInt16");
        check(number(64, 1), "unsigned integers of 64 bits", "-ot Int64");
        check(number(24, 3), "floats of 24 bits", "-ot Float32");
        check(number(64, 6), "complex numbers of 64 bits", "x.imag");
        check(number(8, 9), "an unknown sample format of 8 bits", "gdal_translate");
    }
}
