//! `gular pack`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use gular_bundle::{Axes, Envelope, FieldName, Split};
use gular_pack::{
    Align, ArchiveLimits, BandNames, BaseReport, BoxForm, CheckImages, Classes, FieldFiles,
    FractionsBy, Inputs, MaskClass, MaskColours, OnBadInput, PackOptions, PackOrder, PackReport,
    Pages, Part, Pattern, PayloadOptions, PlanOptions, Progress, TileOptions, Unlabelled,
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::about::AboutArgs;
use crate::convert::stopped;
use crate::duplicates::{self, DuplicatesArgs, With};
use crate::exit::{Exit, Failure};
use crate::merge::{self, MergeArgs};
use crate::named::named;
use crate::pack_labels::LabelsArg;
use crate::pack_preview::Preview;
use crate::pack_url::{self, UrlArgs};
use crate::payload::PayloadArgs;
use crate::progress::{bytes_bar, counter};
use crate::shared::{Jobs, Output};
use crate::stop::Stop;
use crate::{datasets, pack_labels, pack_paths, pack_report, show, units};

/// Pack a folder or archive of images into a new bundle
///
/// SRC has JPEG, PNG or WebP images in folders `class/file` or `split/class/file`; a split's folder
/// is named `train`, `val` or `test`, or by a similar word. For all other paths, --images says where
/// class and split are. Class names become labels in sorted order. Labels may also be in a table
/// (--labels FILE).
/// SRC may also be a CSV of pixels, with a row per image, or the files of MNIST or CIFAR.
/// Images are stored byte for byte, unless --payload asks for pixels or for JPEG of a chosen size.
/// The same images and options give the same bundle digest on any machine and with any --jobs. If
/// interrupted, run the same command again: finished shards are kept.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Bundle",
    override_usage = "\
gular pack [OPTIONS] <SRC> <OUT>
       gular pack --merge <PART>... <OUT>      (joins parts made with --part)",
    after_help = "\
Example:
  gular pack photos/ bundle/ --fractions train=0.9,val=0.1",
    after_long_help = "\
Examples:
  gular pack photos/ bundle/ --fractions train=0.9,val=0.1
  gular pack train.zip bundle/ --images 'train/{label}.{key}.jpg'      train/cat.0.jpg, …
  gular pack images/ bundle/ --labels labels.csv               labels.csv: file_name,label
  gular pack images/ bundle/ --labels tags.csv --label-separator ' '   id,tags: 17,haze primary
  gular pack photos/ part-3 --part 3/8                         one of eight machines, then:
  gular pack --merge part-* bundle/                            the bundle of all eight"
)]
pub(crate) struct PackArgs {
    /// Images: a folder or its URL, a .zip, .tar, .tar.gz or .tar.zst, or a CSV of pixels
    ///
    /// A .csv or .tsv file has a row of pixels per image, such as `label,pixel1,…,pixel784` (see
    /// `--as pixels`). A folder or an archive with the files of MNIST (`train-images-idx3-ubyte`),
    /// CIFAR-10, CIFAR-100 or FER2013 is recognised, and needs no option.
    ///
    /// A URL, such as pelican://HOST/folder, names a collection that is fetched first (see
    /// --cache); it gives the same bundle as the folder would.
    ///
    /// Archives need not be unpacked first, and give the same bundle as the folder would. A
    /// compressed tar is unpacked once, into a temporary file in OUT (with --dry-run in TMPDIR).
    /// Archives in an archive without images of its own are read as folders.
    #[arg(required_unless_present_any = ["merge", "list_datasets"], help_heading = None)]
    pub(crate) src: Option<PathBuf>,
    /// The new bundle's folder
    ///
    /// It must be new or empty, or hold the same pack, interrupted or finished.
    #[arg(required_unless_present_any = ["merge", "list_datasets"], help_heading = None)]
    pub(crate) out: Option<PathBuf>,
    /// What paths mean: `{split}/{label}/{key}.{ext}`
    ///
    /// Without patterns, folders are recognised; the first lines of the output say how, in the form
    /// of this option. `{label}` is the class, `{split}` a word for train, val or test (also
    /// training, validation, dev, testing, eval, …), `{key}` what tells samples apart (it may have
    /// folders), `{ext}` the extension, `{group}` what --fractions keep together. Any other name
    /// becomes a field of text, such as `{patient}`. `{label:cat|dog}` narrows a part by a regular
    /// expression; `{split=test}` sets a value that the path does not have; `{*}` is what does not
    /// matter in a name, and `{**}` the same across folders. A pattern matches the whole path below
    /// SRC. May be repeated: of the patterns that match a path, the one with the most literal text
    /// counts.
    #[arg(long, value_name = "PATTERN", value_parser = pattern, help_heading = "Labels")]
    pub(crate) images: Vec<Pattern>,
    /// With --dry-run: show in the browser how SRC was read
    ///
    /// The page shows what is printed, the whole command for each other way to read SRC, and
    /// pictures: about 200 samples of each split, the first ones of each class, as they would be
    /// packed, with their masks, boxes and bands, and what training would see of them. They are
    /// packed into a temporary folder, which is removed when Ctrl-C ends the page. Images that
    /// cannot be packed are listed.
    #[arg(long, requires = "dry_run", conflicts_with_all = ["base", "part"], help_heading = "Labels")]
    pub(crate) view: bool,
    /// The port of the page [default: any free one]
    #[arg(long, value_name = "N", requires = "view", help_heading = "Labels")]
    pub(crate) port: Option<u16>,
    /// Only print the address of the page, and open no browser
    #[arg(long, requires = "view", help_heading = "Labels")]
    pub(crate) no_open: bool,
    /// List the datasets that are known by their files
    ///
    /// They need no options. --images or --labels turns this off.
    #[arg(long, help_heading = "Labels", hide_short_help = true)]
    pub(crate) list_datasets: bool,
    /// Further datasets, in TOML, as `gular pack --list-datasets --json` lists ours
    #[arg(long, value_name = "FILE", help_heading = "Labels", hide_short_help = true)]
    pub(crate) datasets: Option<PathBuf>,
    /// Where labels come from: `path`, `none`, a table
    ///
    /// `path`: from the part `{label}` of paths (see --images). With `none`, only folders that are
    /// splits have a meaning, and files may be anywhere. A table (.csv, .tsv, .jsonl or .parquet) has a
    /// row per image: a column of file names (`file_name`, `path`, `id`, …; see --key-column), one of
    /// labels, and further columns, which become fields (see --columns). A name matches an image if it
    /// equals the image's path below SRC, if that path ends with the name, or if the name ends with
    /// that path; the extension may be left out. Several tables with the same columns are read as one:
    /// repeat the option. Tables of the same images with other columns are joined, as are lists with
    /// the part `{id}`. Labels in words become classes in sorted order; numbers are taken as they are.
    /// A list of classes, in JSON or by --label-separator, becomes the field `labels`, u8 of shape
    /// `[classes]`: 1 for each class of the image, 0 for all others. Boxes: a COCO .json (instances),
    /// or a folder of YOLO's .txt or Pascal VOC's .xml files, becomes the fields `boxes` and
    /// `box_labels`, arrays with one row per box. A list without column names is given with the pattern
    /// of its lines: `train.txt={split=train}{path}` or `list.txt={path} {label}`; if no list has
    /// labels, those of --images count. `val.json={split=val}` puts all rows of a table into a split.
    #[arg(long, default_value = "path", value_name = "WHERE", value_parser = pack_labels::parse, help_heading = "Labels")]
    pub(crate) labels: Vec<LabelsArg>,
    /// The table's column of file names
    ///
    /// [default: one with a name such as file_name, path, image_id or id]
    #[arg(long, value_name = "NAME", help_heading = "Labels")]
    pub(crate) key_column: Option<String>,
    /// The table's column of labels, or `none`
    ///
    /// Several names, such as `bee,fly,wasp`, are columns of 0 and 1, one for each class. [default:
    /// one with a name such as label, class or category; columns of which exactly one is 1 in each
    /// row; or the only one beside the file names. In a table of pixels without column names, the
    /// first column]
    #[arg(long, value_name = "NAME", help_heading = "Labels")]
    pub(crate) label_column: Option<String>,
    /// Separates several classes in one cell, such as `|` or a space
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new(), help_heading = "Labels")]
    pub(crate) label_separator: Option<String>,
    /// The four numbers of boxes in a table: `xyxy`, `xywh` or `cxcywh`
    ///
    /// That is, left, top, right and bottom; left, top, width and height; or the centre, width and
    /// height. [default: what the names of the columns say, or the numbers, if only one can be]
    #[arg(long, value_name = "FORMAT", value_parser = pack_labels::box_format(), help_heading = "Labels", hide_possible_values = true)]
    pub(crate) box_format: Option<BoxForm>,
    /// Images without a label: `fail`, `skip` or `keep`
    ///
    /// That is, without a row in the table, or not matched by a pattern of --images. `skip` leaves
    /// them out and says how many. `keep` packs those without a row, with the label -1 and without
    /// boxes: the backgrounds of a set for YOLO.
    #[arg(long, default_value = "fail", value_name = "WHAT", value_parser = pack_labels::unlabelled(), help_heading = "Labels", hide_possible_values = true)]
    pub(crate) unlabelled: Unlabelled,
    /// A file with one class name per line, which sets their order
    ///
    /// [default: the names in paths, sorted]
    #[arg(long, value_name = "FILE", help_heading = "Labels")]
    pub(crate) classes: Option<PathBuf>,
    /// Columns that become fields: `all`, `none` or names
    ///
    /// Of the columns of the table that are neither file names nor labels nor splits.
    ///
    /// Their types: i64 for integers; f64 for other numbers (NaN if one is missing); u8 for
    /// booleans; text/plain for text; i64 or f64 for lists of numbers of one length;
    /// application/x-npy for lists of different lengths. `all` reports the columns that it had to
    /// leave out.
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "all",
        value_delimiter = ',',
        help_heading = "Fields and masks"
    )]
    pub(crate) columns: Vec<String>,
    /// Masks: a folder, or a pattern: `masks/{key}_mask.png`
    ///
    /// In a folder or an archive, the mask of SRC/a/1.jpg is a/1.png. A pattern is below SRC, or,
    /// if it begins with `/` or `./`, in any other folder or archive. It has the names of --images
    /// that tell samples apart. Masks are PNG files of one channel or of a palette, TIFF of one
    /// band, or .npy files of integers, `[height, width]`, each of its image's size. They become
    /// the field `mask`, which loaders crop and flip with the image. With `--payload raw` they are
    /// resized like the images, without mixing values.
    #[arg(long, value_name = "FILES", value_parser = pack_paths::mask, help_heading = "Fields and masks")]
    pub(crate) mask: Option<FieldFiles>,
    /// Masks in colours: a table `name,r,g,b` of classes
    ///
    /// Each line is a class: three numbers from 0 to 255, or `#rrggbb`, and a name. Classes are
    /// counted from 0, or have the numbers of a column `id`. The first line may name the columns.
    /// Masks are then PNG or TIFF files in colour, and become masks of one channel. A colour that
    /// the table does not have is an error.
    #[arg(
        long,
        visible_alias = "mask-colors",
        value_name = "FILE",
        requires = "mask",
        help_heading = "Fields and masks",
        hide_short_help = true
    )]
    pub(crate) mask_colours: Option<PathBuf>,
    /// The property of polygons that is their class: `class`, or `kind:road=1,building=2`
    ///
    /// For masks that are GeoJSON files or shapefiles. The values of the property are numbers from 0 to 254, or
    /// names whose numbers are given. Without it all polygons have class 1. Pixels in no polygon
    /// have class 0.
    #[arg(
        long,
        value_name = "PROPERTY",
        requires = "mask",
        help_heading = "Fields and masks",
        hide_short_help = true
    )]
    pub(crate) mask_class: Option<String>,
    /// The number in masks that says that a pixel has no class: `0`, or `roads=255`
    ///
    /// A --field with such a number is a further mask. Loaders fill with it what lies outside of the
    /// mask, and so do --tile and --fit pad. Without it, the number of `mask` is the nodata value
    /// of its files, or the largest unsigned number, or -1. May be repeated.
    #[arg(
        long,
        value_name = "[FIELD=]NUMBER",
        value_parser = mask_ignore,
        allow_hyphen_values = true,
        help_heading = "Fields and masks",
        hide_short_help = true
    )]
    pub(crate) mask_ignore: Vec<(FieldName, i64)>,
    /// Another field, with files as for --mask: `caption={key}.txt`
    ///
    /// .npy files of one type and shape become numbers, all others are stored byte for byte. May
    /// be repeated.
    #[arg(long, value_name = "NAME=FILES", value_parser = pack_paths::field, help_heading = "Fields and masks")]
    pub(crate) field: Vec<FieldFiles>,
    /// Which files of SRC to pack: `images`, `arrays`, `bytes` or `pixels`
    ///
    /// `arrays`: TIFF, JPEG 2000, NIfTI, .npy files, and .npz files of one array, all of one type
    /// and shape, which become the field `image`. `bytes`: files of any kind, byte for byte, which
    /// become the field `data`. `pixels`: a CSV in which each line is an image: a label (see
    /// --label-column), and in all other columns its pixel values, 0 to 255, row by row, with the
    /// channels of a pixel next to each other, or in one column `pixels` as text between spaces; or
    /// the files of MNIST or CIFAR. The images become the field `image`, u8 `[height, width,
    /// channels]`, with one or three channels; they are squares unless --size gives their width and
    /// height. [default: images; pixels if SRC is a .csv or .tsv file]
    #[arg(
        long = "as",
        value_enum,
        value_name = "WHAT",
        hide_possible_values = true,
        help_heading = "Arrays and tiles"
    )]
    pub(crate) inputs: Option<InputsArg>,
    /// What the axes of NumPy arrays mean, such as `cyx`
    ///
    /// One letter for each axis: `y` rows, `x` columns, `c` bands, `t` time, `z` depth. It is
    /// needed for arrays whose shape has more than one reading. A shape like [12, 64, 64] can
    /// only be `cyx`, [64, 64, 12] only `yxc`, and TIFF files are `yxc`. `depth=yx` gives the axes
    /// of a --field. A field whose arrays or pictures have the size of the image is cropped and
    /// mirrored with it; `depth=none` says that it is not on the image's pixels.
    #[arg(
        long,
        value_name = "[FIELD=]AXES",
        value_parser = axes,
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) axes: Vec<(FieldName, Option<Axes>)>,
    /// Pages of a TIFF: `as-said`, `bands` or `first`
    ///
    /// What several pages in one file are. `bands`: bands of one image, in their order; all pages
    /// must have one size and type. `first`: only the first page counts. `as-said`: bands, if the
    /// file itself says that they are channels (ImageJ, OME-XML), else an error. Smaller copies and
    /// masks within a file do not count.
    #[arg(
        long,
        value_parser = named::<Pages>(),
        default_value = "as-said",
        value_name = "WHAT",
        hide_possible_values = true,
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) pages: Pages,
    /// Places of an image and its files: `check`, `resample` or `ignore`
    ///
    /// If an image and its mask, or another field, are both georeferenced TIFF files, `check`
    /// refuses another CRS, another size of pixels, and a shift of more than half a pixel.
    /// `resample` brings a mask in the same CRS to the grid of its image: each pixel gets the value
    /// of the nearest one of the mask, which must cover the image. Of an image with a file for each
    /// {band}, it brings coarser bands to the grid of the finest by bilinear interpolation.
    /// `ignore` does not compare them.
    #[arg(
        long,
        value_parser = named::<Align>(),
        default_value = "check",
        value_name = "WHAT",
        hide_possible_values = true,
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) align: Align,
    /// Cut TIFF scenes into tiles of N x N pixels; implies `--as arrays`
    ///
    /// Keys say scene, row and column: `a.tif/r000000_c000480`. All tiles of a scene are in one
    /// split. The last tile of a row or column is moved back so that it ends at the scene's edge;
    /// it overlaps its neighbour more.
    #[arg(long, value_name = "N", help_heading = "Arrays and tiles")]
    pub(crate) tile: Option<u32>,
    /// Pixels that neighbouring tiles share
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "tile",
        help_heading = "Arrays and tiles"
    )]
    pub(crate) overlap: u32,
    /// Divide scenes into splits by blocks of N x N pixels
    ///
    /// For --fractions, if there are few scenes: each block of a scene falls into a split, and tiles
    /// are cut within blocks, so that no pixel is in two splits. Without it, all tiles of a scene
    /// are in one split.
    #[arg(
        long,
        value_name = "N",
        requires = "tile",
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) block: Option<u32>,
    /// Leave out tiles with a smaller share of valid pixels, 0 to 1
    ///
    /// A pixel is not valid if all its bands are nodata or NaN, or if the file's mask or alpha band
    /// is 0.
    #[arg(
        long,
        value_name = "PART",
        default_value_t = 0.0,
        requires = "tile",
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) min_valid: f64,
    /// Names of bands in TIFF files: `compare` or `ignore`
    ///
    /// `compare` packs the bands of every file in the order of the first file, and refuses files
    /// with other names. `ignore` packs them in the order in which each file has them, without
    /// names.
    #[arg(
        long,
        value_parser = named::<BandNames>(),
        default_value = "compare",
        value_name = "HOW",
        hide_possible_values = true,
        help_heading = "Arrays and tiles",
        hide_short_help = true
    )]
    pub(crate) band_names: BandNames,
    /// Fill up series of fewer dates with nodata
    ///
    /// If a pattern of --images has {date}, all samples must have the same number of dates. This
    /// appends frames of nodata (or 0) to shorter series; the field `image_dates` has a line for
    /// each date that a sample really has.
    #[arg(long, help_heading = "Arrays and tiles", hide_short_help = true)]
    pub(crate) pad_dates: bool,
    /// The table's column of splits: train, val (valid, validation) or test
    ///
    /// `NAME:VALUE=SPLIT,…` says what other values stand for, such as
    /// `usage:PublicTest=val,PrivateTest=test` or `is_train:1=train,0=test`.
    #[arg(long, value_name = "NAME", help_heading = "Splits and order")]
    pub(crate) split_column: Option<String>,
    /// Make splits, such as `train=0.8,val=0.1,test=0.1`
    ///
    /// For a SRC whose paths do not name splits; the fractions must sum to 1. The numbers are
    /// exact, and each class is divided like the whole. Which image is in which split depends on
    /// --seed. --dry-run shows the counts. [default: everything is train]
    #[arg(long, value_name = "FRACTIONS", value_parser = fractions, help_heading = "Splits and order")]
    pub(crate) fractions: Option<Fractions>,
    /// What stays in one split: `{patient}`, or a column
    ///
    /// A part of --images, or a column of the table of labels. No patient, place or burst is then
    /// on both sides. [default: `{group}`, if the patterns have it; with --tile, the scene]
    #[arg(long, value_name = "WHAT", requires = "fractions", help_heading = "Splits and order")]
    pub(crate) group: Option<String>,
    /// How --fractions divide: `exact` or `hash`
    ///
    /// By `hash` of --seed and path, adding or removing images never moves another one, but the
    /// numbers are only about right: for data that grows (--base).
    #[arg(
        long,
        value_parser = named::<FractionsBy>(),
        default_value = "exact",
        value_name = "HOW",
        requires = "fractions",
        hide_possible_values = true,
        help_heading = "Splits and order",
        hide_short_help = true
    )]
    pub(crate) fractions_by: FractionsBy,
    /// Order in a split: `shuffled` or `sorted`
    ///
    /// In which the samples are stored. `sorted` is the order of torchvision's ImageFolder.
    #[arg(long, value_parser = named::<PackOrder>(), default_value = "shuffled", value_name = "ORDER", help_heading = "Splits and order", hide_possible_values = true)]
    pub(crate) stored_order: PackOrder,
    /// Seed for --fractions and for the shuffled order
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Splits and order",
        hide_short_help = true
    )]
    pub(crate) seed: u64,
    /// Bytes of source files per shard
    ///
    /// With --payload raw, bytes of pixels. Units: KiB, MiB, GiB, KB, MB, GB; without a unit, bytes.
    #[arg(long, default_value = "1GiB", value_name = "SIZE", value_parser = units::bytes)]
    pub(crate) shard_size: u64,
    /// Format: shards, arrow, parquet, hdf5, tar, squashfs
    ///
    /// The file format of the shards. Gular reads all of these in the same way; choose the one that
    /// your other tools read: safetensors (`shards`), Hugging Face (`arrow`, `parquet`), HDF5
    /// (`hdf5`), WebDataset (`tar`), a mounted file system (`squashfs`).
    #[arg(long, value_name = "FORMAT", default_value_t = Envelope::Shards, value_parser = units::envelope)]
    pub(crate) envelope: Envelope,
    /// `header`, `full` (finds truncated files) or `none`
    ///
    /// How images are checked: `header` reads the first bytes of each, `none` nothing. `full`
    /// decodes every image, which takes several times as long as packing it. It refuses images that
    /// Pillow and torchvision cannot decode, and counts damaged ones that they can decode.
    #[arg(long, value_parser = named::<CheckImages>(), default_value = "header", value_name = "HOW", hide_possible_values = true, help_heading = "Images")]
    pub(crate) check_images: CheckImages,
    /// Also refuse damaged images that Pillow and torchvision can decode
    ///
    /// For example JPEG files with stray bytes or a damaged EXIF segment. Every pixel is decoded.
    #[arg(long, conflicts_with = "check_images", help_heading = "Images", hide_short_help = true)]
    pub(crate) strict: bool,
    /// What to do on a bad image: `fail` or `skip`
    ///
    /// `skip` leaves it out and lists it in OUT/skipped.jsonl.
    #[arg(long, value_parser = named::<OnBadInput>(), default_value = "fail", value_name = "WHAT", help_heading = "Images", hide_possible_values = true)]
    pub(crate) on_error: OnBadInput,
    /// Refuse images with more pixels than this
    #[arg(long, value_name = "N", default_value_t = gular_codec::Limits::default().max_pixels, help_heading = "Images", hide_short_help = true)]
    pub(crate) max_pixels: u64,
    /// Refuse an archive that unpacks to more than this
    #[arg(long, value_name = "SIZE", default_value = "1TiB", value_parser = units::bytes, help_heading = "Archives and downloads", hide_short_help = true)]
    pub(crate) max_unpacked: u64,
    /// Refuse an archive with a member larger than this
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::bytes, help_heading = "Archives and downloads", hide_short_help = true)]
    pub(crate) max_member: u64,
    /// Refuse an archive if it, or one of its members, unpacks to more than N times its size
    #[arg(long, value_name = "N", default_value_t = ArchiveLimits::default().ratio, help_heading = "Archives and downloads", hide_short_help = true)]
    pub(crate) max_ratio: u64,
    /// Memory for sorting paths; larger lists are sorted on disk
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = units::bytes, hide_short_help = true)]
    pub(crate) memory: u64,
    /// Pack only part I of N, such as `3/8`, to share the work
    ///
    /// So that N machines can share it.
    /// Every part gets the same SRC and options, and an OUT of its own. All parts make the same
    /// plan, and each packs whole shards of it, so a bad image that one part leaves out changes
    /// nothing in the other parts; --merge then makes the bundle that one machine would have made,
    /// byte for byte. Parts are numbered from 1, as the tasks of a Slurm array can be; with
    /// HTCondor's $(Process), add 1.
    #[arg(long, value_name = "I/N", value_parser = Part::parse, conflicts_with_all = ["base", "duplicates_out"], help_heading = "Versions and parts")]
    pub(crate) part: Option<Part>,
    /// Make a new version of this bundle: pack only what is new or changed
    ///
    /// Unchanged samples stay in the shards of BASE, and OUT gets links to those. A sample is
    /// unchanged if its image, its mask and all its other fields are. Images that SRC no longer has
    /// are left out, and new classes are added after the old ones. When OUT is published beside
    /// BASE, only new shards are sent. All of SRC is read to compare. Give the same options as for
    /// BASE, such as --mask, --field, --tile, --payload and --size. With --payload raw or
    /// reencoded, and with --as arrays, images are compared by the digests that --source-digests
    /// stored in BASE; --tile does not need them. A table of labels also relabels unchanged images.
    #[arg(long, value_name = "BASE", help_heading = "Versions and parts")]
    pub(crate) base: Option<PathBuf>,
    /// Store the digests of source files: the bundle can be a --base
    ///
    /// For images whose bytes are not stored: --payload raw or reencoded, and --as arrays. 32 bytes
    /// per sample in the indexes. Tiles do not need it.
    #[arg(long, help_heading = "Versions and parts", hide_short_help = true)]
    pub(crate) source_digests: bool,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    #[command(flatten)]
    pub(crate) duplicates: DuplicatesArgs,
    #[command(flatten)]
    pub(crate) merge: MergeArgs,
    #[command(flatten)]
    pub(crate) payload: PayloadArgs,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
    #[command(flatten)]
    pub(crate) from_url: UrlArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputsArg {
    /// JPEG, PNG, WebP
    Images,
    /// .npy, .npz
    Arrays,
    /// All files
    Bytes,
    /// The rows of a .csv
    Pixels,
}

/// Parsed `--fractions`.
#[derive(Debug, Clone)]
pub(crate) struct Fractions(pub(crate) Vec<(Split, f64)>);

pub(crate) fn run(args: &PackArgs, output: &Output) -> Result<Exit, Failure> {
    if args.list_datasets {
        return datasets::list(output);
    }
    let (Some(src), Some(out)) = (&args.src, &args.out) else {
        return merge::run(&args.merge, args.jobs, &args.duplicates, output);
    };
    let stop = Stop::install()?;
    let options = options(args, src)?;
    let dry_run = args.merge.dry_run;
    let fetched = pack_url::fetch(src, out, &args.from_url, dry_run, output, &stop)?;
    let src = fetched.as_ref().map_or(src, |fetched| &fetched.dir);
    let bars = Mutex::new((counter("scan", output), None::<ProgressBar>));
    let told = AtomicBool::new(false);
    // A person sees it before a byte is written. In a pipe it is a part of the result: a command that
    // fails has none.
    let is_watched = args.base.is_none() && !output.json && !output.quiet && show::is_watched();
    let progress = |p: Progress| {
        if let Progress::Read(report) = p {
            if is_watched && !told.swap(true, Ordering::Relaxed) {
                // What cannot be written now is written at the end, or fails there.
                let say = || show::text(&pack_report::read_as(report));
                let _ = bars.lock().map_or_else(|_| say(), |bars| bars.0.suspend(say));
            }
            return;
        }
        let Ok(mut bars) = bars.lock() else { return };
        match p {
            Progress::Scanned(n) => {
                // A new version is planned a second time, after it was compared.
                if let Some(compared) = bars.1.take() {
                    compared.finish_and_clear();
                    bars.0 = counter("scan", output);
                }
                bars.0.set_position(n);
            }
            Progress::ToCompare(bytes) => {
                bars.0.finish_and_clear();
                bars.1 = Some(bytes_bar("compare", bytes, output));
            }
            Progress::Planned(_, bytes) => {
                bars.0.finish_and_clear();
                if let Some(compared) = bars.1.take() {
                    compared.finish_and_clear();
                }
                bars.1 = (!args.merge.dry_run).then(|| bytes_bar("pack", bytes, output));
            }
            Progress::Read(_) => {}
            Progress::Compared(bytes) | Progress::Packed(_, bytes) => {
                if let Some(bar) = &bars.1 {
                    bar.inc(bytes);
                }
            }
        }
    };
    let result = match &args.base {
        None => gular_pack::pack(src, out, &options, &progress, &stop.flag)
            .map(|report| Made::New(Box::new(report))),
        Some(base) => {
            let made = gular_pack::pack_onto(base, src, out, &options, &progress, &stop.flag);
            made.map(|report| Made::Version(Box::new(report)))
        }
    };
    if let Ok(bars) = bars.lock() {
        bars.0.finish_and_clear();
        if let Some(bar) = &bars.1 {
            bar.finish_and_clear();
        }
    }
    let mut made = result.map_err(|e| stopped(e, &stop))?;
    let preview = match args.view {
        true => Some(Preview::pack(src, &options, output, &stop)?),
        false => None,
    };
    if let Some(fetched) = fetched {
        fetched.done_with();
    }
    let packed = match &mut made {
        Made::New(report) => Some(&mut **report),
        Made::Version(report) => report.packed.as_mut(),
    };
    if let Some(packed) = packed {
        packed.warnings.extend(packed.doubts.iter().map(pack_report::doubt));
        for warning in &packed.warnings {
            show::message("warning", warning);
        }
    }
    let is_bundle = match &made {
        Made::New(report) => report.digest.is_some(),
        Made::Version(report) => report.bundle.is_some(),
    };
    let found = is_bundle.then(|| args.duplicates.find_in(out, &stop)).transpose()?;
    if output.json {
        show::json(&With { report: &made, duplicates: found.as_ref() })?;
    } else if !output.quiet {
        let text = match &made {
            Made::New(report) => {
                let told = told.into_inner();
                let read_as = if told { String::new() } else { pack_report::read_as(report) };
                read_as + &pack_report::table(report, out)
            }
            Made::Version(report) => pack_report::version(report, out),
        };
        let found = found.map(|found| duplicates::text(&found)).unwrap_or_default();
        show::text(&(text + &found))?;
    }
    match (preview, &made) {
        (Some(preview), Made::New(report)) => {
            preview.serve(out, report, (args.port, args.no_open), output, &stop)
        }
        _ => Ok(Exit::Done),
    }
}

/// The result of a run.
#[derive(Serialize)]
#[serde(untagged)]
enum Made {
    New(Box<PackReport>),
    /// A new version of a bundle.
    Version(Box<BaseReport>),
}

/// Returns the files of `src` that are inputs.
fn inputs(args: &PackArgs, src: &Path) -> Result<Inputs, Failure> {
    let name = src.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let is_table = name.ends_with(".csv") || name.ends_with(".tsv");
    Ok(match args.inputs {
        None | Some(InputsArg::Images) if args.tile.is_some() => Inputs::Arrays,
        None if is_table && src.is_file() => Inputs::Pixels { size: args.payload.of_pixels()? },
        Some(InputsArg::Pixels) => Inputs::Pixels { size: args.payload.of_pixels()? },
        None | Some(InputsArg::Images) => Inputs::Images,
        Some(InputsArg::Arrays) => Inputs::Arrays,
        Some(InputsArg::Bytes) => Inputs::Bytes,
    })
}

fn options(args: &PackArgs, src: &Path) -> Result<PackOptions, Failure> {
    let inputs = inputs(args, src)?;
    let is_table = matches!(inputs, Inputs::Pixels { .. });
    let plan = PlanOptions {
        images: args.images.clone(),
        cards: args.datasets.as_deref().map(datasets::read).transpose()?.unwrap_or_default(),
        dataset: None,
        taken: Vec::new(),
        labels: match is_table {
            true => pack_labels::of_rows(args)?,
            false if inputs != Inputs::Bytes && gular_pack::has_datasets(src) => {
                pack_labels::of_datasets(args, src)?
            }
            false => pack_labels::of_images(args, src)?,
        },
        unlabelled: args.unlabelled,
        classes: args.classes.clone().map(Classes::File),
        fractions: args.fractions.as_ref().map(|f| f.0.clone()).unwrap_or_default(),
        fractions_by: args.fractions_by,
        group: args.group.as_deref().map(pack_labels::group),
        order: args.stored_order,
        seed: args.seed,
        shard_bytes: args.shard_size,
        envelope: args.envelope,
        payload: match is_table {
            true => PayloadOptions::Encoded,
            false => args.payload.options(inputs == Inputs::Arrays)?,
        },
        frame: match inputs == Inputs::Arrays {
            true => args.payload.frame()?,
            false => None,
        },
        pages: args.pages,
        align: args.align,
        tile: args.tile.map(|size| TileOptions {
            size,
            overlap: args.overlap,
            min_valid: args.min_valid,
            block: args.block,
        }),
        mask_ignore: each_once(&args.mask_ignore, "mask-ignore")?,
        mask_colours: args
            .mask_colours
            .as_deref()
            .map(MaskColours::read)
            .transpose()
            .map_err(gular_pack::Error::from)?,
        mask_class: args
            .mask_class
            .as_deref()
            .map(MaskClass::parse)
            .transpose()
            .map_err(gular_pack::Error::from)?,
        pad_dates: args.pad_dates,
        band_names: args.band_names,
        inputs,
        axes: each_once(&args.axes, "axes")?,
        fields: args.mask.iter().chain(&args.field).cloned().collect(),
        source_digests: args.source_digests,
        check: if args.strict { CheckImages::Strict } else { args.check_images },
        on_error: args.on_error,
        max_pixels: args.max_pixels,
        archive: ArchiveLimits {
            total_bytes: args.max_unpacked,
            member_bytes: args.max_member,
            ratio: args.max_ratio,
        },
        leave_out: Vec::new(),
        about: args.about.read()?,
        memory_bytes: usize::try_from(args.memory).unwrap_or(usize::MAX),
    };
    let temp_dir = std::env::temp_dir();
    let (jobs, dry_run, part) = (args.jobs.count(), args.merge.dry_run, args.part);
    Ok(PackOptions { plan, jobs, dry_run, part, temp_dir })
}

fn pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|e| e.to_string())
}

/// Reads the argument of `--axes`.
pub(crate) fn axes(text: &str) -> Result<(FieldName, Option<Axes>), String> {
    let (field, axes) = match text.split_once('=') {
        None => (FieldName::image(), text),
        Some((name, axes)) => (FieldName::try_from(name.to_owned())?, axes),
    };
    let axes = match axes {
        "none" if field != FieldName::image() => None,
        axes => Some(axes.parse().map_err(|e: gular_bundle::AxesError| e.to_string())?),
    };
    Ok((field, axes))
}

/// Reads the argument of `--mask-ignore`.
fn mask_ignore(text: &str) -> Result<(FieldName, i64), String> {
    let (name, number) = text.split_once('=').unwrap_or(("mask", text));
    let number = number.parse().map_err(|_| format!("`{number}` is not a whole number"))?;
    Ok((FieldName::try_from(name.to_owned())?, number))
}

/// The value of `--OPTION` for each field, which is given once.
pub(crate) fn each_once<T: Clone>(
    given: &[(FieldName, T)],
    option: &str,
) -> Result<BTreeMap<FieldName, T>, Failure> {
    let mut all = BTreeMap::new();
    for (name, value) in given {
        if all.insert(name.clone(), value.clone()).is_some() {
            let text = format!("`--{option}` is given twice for `{name}`");
            let hint = format!("keep one `--{option}` for `{name}`");
            return Err(Failure::new(text, Some(hint)));
        }
    }
    Ok(all)
}

pub(crate) fn fractions(text: &str) -> Result<Fractions, String> {
    let mut fractions: Vec<(Split, f64)> = Vec::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or(format!(
            "`{part}` has the wrong form; expected `split=fraction`, such as `train=0.9`"
        ))?;
        let split = Split::parse(name.trim())
            .ok_or(format!("`{name}` is not a split; expected `train`, `val` or `test`"))?;
        let value: f64 = value.trim().parse().map_err(|_| format!("`{value}` is not a number"))?;
        if fractions.iter().any(|(s, _)| *s == split) {
            return Err(format!("`{split}` is given twice"));
        }
        fractions.push((split, value));
    }
    Ok(Fractions(fractions))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn classes_are_not_separated_by_nothing() {
        let parse = |separator: &str| {
            let args = ["gular", "pack", "a", "b", "--labels", "t.csv", "--label-separator"];
            crate::Cli::try_parse_from(args.into_iter().chain([separator]))
        };
        assert!(parse("").is_err());
        assert!(parse(" ").is_ok());
    }

    #[test]
    fn what_a_merge_does_not_use_it_refuses() {
        let parse = |rest: &[&str]| {
            let args = ["gular", "pack"].iter().chain(rest);
            crate::parse(args).map(drop).map_err(|e| e.kind())
        };
        parse(&["--merge", "a", "b", "out", "--json", "--jobs", "2", "--dry-run"]).unwrap();
        parse(&["src", "out", "--part", "1/2", "--dry-run"]).unwrap();
        use clap::error::ErrorKind;
        assert_eq!(parse(&["src", "out", "--merge", "a", "b"]), Err(ErrorKind::ArgumentConflict));
        assert_eq!(parse(&["--merge", "a", "b", "--seed", "1"]), Err(ErrorKind::ArgumentConflict));
        assert_eq!(
            parse(&["--merge", "a", "b", "--licence", "x"]),
            Err(ErrorKind::ArgumentConflict)
        );
        assert_eq!(parse(&["--merge", "a", "b", "--size", "9"]), Err(ErrorKind::ArgumentConflict));
        assert_eq!(parse(&["src"]), Err(ErrorKind::MissingRequiredArgument));
        assert!(parse(&["--merge", "a"]).is_err(), "there is no output");
        let args = ["gular", "pack", "--merge", "a", "out", "--as", "bytes"];
        let error = crate::parse(args).unwrap_err().to_string();
        assert!(error.contains("`--merge` cannot be combined with `--as`"), "{error}");
    }

    #[test]
    fn axes_are_those_of_the_image_unless_a_field_is_named() {
        let name = |axes: Axes| axes.to_string();
        let of = |text| axes(text).map(|(field, axes)| (field.to_string(), axes.map(name)));
        assert_eq!(of("cyx"), Ok(("image".to_owned(), Some("cyx".to_owned()))));
        assert_eq!(of("depth=yx"), Ok(("depth".to_owned(), Some("yx".to_owned()))));
        assert_eq!(of("depth=none"), Ok(("depth".to_owned(), None)));
        assert!(of("none").is_err() && of("image=none").is_err());
        assert!(of("Depth=yx").unwrap_err().contains("`Depth`"));
        assert!(of("chw").unwrap_err().contains("`chw`"));
        let given = ["cyx", "depth=yx", "cyx"].map(|text| axes(text).unwrap());
        assert_eq!(each_once(&given[..2], "axes").unwrap().len(), 2);
        assert!(each_once(&given, "axes").is_err());
    }

    #[test]
    fn fractions_name_each_split_once() {
        assert!(fractions("train=0.5,train=0.5").is_err());
        assert_eq!(fractions("train=0.5,val=0.5").unwrap().0.len(), 2);
    }
}
