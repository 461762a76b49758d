//! Formats that are only adopted, `mds` and `ffcv`, in files that the tests make byte by byte from
//! their documentation.

use gular_bundle::{
    Dtype, Envelope, Error, Field, FieldName, FixedPlaces, ReadAt, Run, ShardSpec, ShardWriter,
    Split, Survey, Values, survey,
};

use crate::beton::Beton;
use crate::mds::Mds;
use crate::random::Rng;

fn open(bytes: &[u8], envelope: Envelope) -> (ReadAt, Survey) {
    let file = ReadAt::in_memory("file", bytes.to_vec());
    let survey = survey(&file, envelope).unwrap();
    (file, survey)
}

fn refusal(bytes: &[u8], envelope: Envelope) -> Error {
    survey(&ReadAt::in_memory("file", bytes.to_vec()), envelope).unwrap_err()
}

fn read(file: &ReadAt, run: Run) -> Vec<u8> {
    let mut out = vec![0; run.len as usize];
    file.read_at(run.offset, &mut out).unwrap();
    out
}

fn column<'a>(survey: &'a Survey, name: &str) -> &'a Values {
    &survey.column(name).unwrap().values
}

/// Reads every value of a column of bytes.
fn blobs(file: &ReadAt, survey: &Survey, name: &str) -> Vec<Vec<u8>> {
    match column(survey, name) {
        Values::Bytes(runs) => runs.iter().map(|run| read(file, run.unwrap())).collect(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Returns type, shape and every value of a column of fixed values.
fn fixed(file: &ReadAt, survey: &Survey, name: &str) -> (Dtype, Vec<u64>, Vec<Vec<u8>>) {
    let Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) } =
        column(survey, name)
    else {
        panic!("{name}: {:?}", column(survey, name));
    };
    let len = shape.iter().product::<u64>() * dtype.size_bytes();
    let value = |offset: &u64| read(file, Run { offset: *offset, len });
    (*dtype, shape.clone(), offsets.iter().map(value).collect())
}

fn not_stored(survey: &Survey, name: &str) -> String {
    match column(survey, name) {
        Values::NotStored(reason) => reason.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

fn image(i: usize) -> Vec<u8> {
    vec![i as u8; 30 + i]
}

#[test]
fn every_encoding_of_mds_is_found() {
    let dynamic = |dtype: &[u8], i: usize| [dtype, &[2 << 2, 2, 3], &[i as u8; 6]].concat();
    let pil = |i: usize| {
        let head = [5_u32, 4, 3].map(u32::to_le_bytes).concat();
        [head, b"RGB".to_vec(), vec![i as u8; 60]].concat()
    };
    let text = |i: usize| format!("c/ä{i}.jpg").into_bytes();
    let shard = Mds::new(7)
        .column("image", "jpeg", None, image)
        .column("label", "int", Some(8), |i| (i as i64 - 1).to_le_bytes().to_vec())
        .column("many", "uint64", Some(8), |i| (i as u64).to_le_bytes().to_vec())
        .column("half", "float16", Some(2), |i| vec![i as u8; 2])
        .column("name", "str", None, text)
        .column("digits", "str_int", None, |i| format!("-{i}").into_bytes())
        .column("tile", "ndarray:int16:2,3", Some(12), |i| vec![i as u8; 12])
        .column("typed", "ndarray:uint8", None, move |i| dynamic(&[], i))
        .column("free", "ndarray", None, move |i| dynamic(&[9], i))
        .column("pil", "pil", None, pil)
        .column("empty", "bytes", None, |_| Vec::new())
        .column("pickle", "pkl", None, |_| vec![0x80])
        .column("list", "list[jpeg]", None, |_| vec![0; 8])
        .column("later", "hologram", Some(3), |_| vec![0; 3]);
    let (file, found) = open(&shard.bytes(), Envelope::Mds);
    assert_eq!((found.rows, found.columns.len()), (7, 14));
    let all = |value: &dyn Fn(usize) -> Vec<u8>| (0..7).map(value).collect::<Vec<_>>();
    assert_eq!(blobs(&file, &found, "image"), all(&image));
    let labels = all(&|i| (i as i64 - 1).to_le_bytes().to_vec());
    assert_eq!(fixed(&file, &found, "label"), (Dtype::I64, vec![], labels));
    assert_eq!(column(&found, "many"), &Values::Integers((0..7).map(Some).collect()));
    assert_eq!(fixed(&file, &found, "half"), (Dtype::F16, vec![], all(&|i| vec![i as u8; 2])));
    let texts = (0..7).map(|i| String::from_utf8(text(i)).ok()).collect();
    assert_eq!(column(&found, "name"), &Values::Texts(texts));
    assert_eq!(
        column(&found, "digits"),
        &Values::Integers((0..7).map(|i: i64| Some(-i)).collect())
    );
    let tiles = all(&|i| vec![i as u8; 12]);
    assert_eq!(fixed(&file, &found, "tile"), (Dtype::I16, vec![2, 3], tiles));
    let six = all(&|i| vec![i as u8; 6]);
    assert_eq!(fixed(&file, &found, "typed"), (Dtype::U8, vec![2, 3], six.clone()));
    assert_eq!(fixed(&file, &found, "free"), (Dtype::I8, vec![2, 3], six));
    let pixels = all(&|i| vec![i as u8; 60]);
    assert_eq!(fixed(&file, &found, "pil"), (Dtype::U8, vec![4, 5, 3], pixels));
    assert_eq!(blobs(&file, &found, "empty"), vec![Vec::<u8>::new(); 7]);
    for (name, reason) in [("pickle", "pickles"), ("list", "several images"), ("later", "hologram")]
    {
        assert!(not_stored(&found, name).contains(reason), "{name}");
    }
}

#[test]
fn values_of_mds_that_differ_are_no_arrays() {
    let shard = Mds::new(3)
        .column("shape", "ndarray:uint8", None, |i| {
            [vec![1 << 2, 1 + i as u8], vec![0; 1 + i]].concat()
        })
        .column("mode", "pil", None, |_| {
            [[1_u32, 1, 4].map(u32::to_le_bytes).concat(), b"CMYK".to_vec(), vec![0; 4]].concat()
        })
        .column("large", "uint64", Some(8), |_| u64::MAX.to_le_bytes().to_vec())
        .column("long", "str", None, |i| vec![b'x'; 4000 + 100 * i])
        .column("words", "str_int", None, |i| format!("n{i}").into_bytes());
    let (file, found) = open(&shard.bytes(), Envelope::Mds);
    for (name, reason) in [("shape", "differ"), ("mode", "CMYK"), ("large", "63 bits")] {
        assert!(not_stored(&found, name).contains(reason), "{name}");
    }
    assert_eq!(blobs(&file, &found, "long")[2].len(), 4200, "texts too long for keys are bytes");
    assert!(matches!(column(&found, "words"), Values::Texts(_)));
}

#[test]
fn what_is_no_mds_says_so() {
    let good = Mds::new(3).column("image", "jpeg", None, image);
    let bytes = good.bytes();
    for cut in [0, 3, 10, 40, bytes.len() - 1] {
        assert!(matches!(refusal(&bytes[..cut], Envelope::Mds), Error::Malformed { .. }), "{cut}");
    }
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(refusal(&longer, Envelope::Mds), Error::Malformed { .. }));
    let config = good.config();
    for (from, to, expected) in [
        ("\"version\": 2", "\"version\": 3", "version 3"),
        ("\"mds\"", "\"xsv\"", "`xsv`"),
        ("[null]", "[0]", "`image`"),
        ("[null]", "[1, 2]", "2 sizes"),
        ("\"jpeg\"", "\"int\"", "`image`"),
    ] {
        let said = refusal(&good.bytes_with(&config.replace(from, to)), Envelope::Mds).to_string();
        assert!(said.contains(expected), "{said}");
    }
    let said = refusal(&good.bytes_with(&" ".repeat(2 << 20)), Envelope::Mds);
    assert!(matches!(said, Error::TooLarge { .. }), "{said}");
    let text = Mds::new(1).column("name", "str", None, |_| vec![0xff]);
    assert!(refusal(&text.bytes(), Envelope::Mds).to_string().contains("UTF-8"));
}

#[test]
fn a_beton_of_jpegs_and_its_other_fields_are_found() {
    let beton = Beton::new(9)
        .jpegs("image", image)
        .integers("label", |i| i as i64 - 1)
        .floats("weight", |i| i as f64 / 2.0)
        .blobs("a_name_of_sixteen_1", |i| vec![7; i])
        .blobs("a_name_of_sixteen_2", |i| vec![8; i + 1])
        .json("info", |i| format!("{{\"i\": {i}}}"))
        .array("tile", "<f4", &[2, 3], |i| vec![i as u8; 24])
        .array("odd", "<u8", &[1], |_| vec![0; 8]);
    let (file, found) = open(&beton.bytes(), Envelope::Ffcv);
    assert_eq!(found.rows, 9);
    let all = |value: &dyn Fn(usize) -> Vec<u8>| (0..9).map(value).collect::<Vec<_>>();
    assert_eq!(blobs(&file, &found, "image"), all(&image));
    let labels = all(&|i| (i as i64 - 1).to_le_bytes().to_vec());
    assert_eq!(fixed(&file, &found, "label"), (Dtype::I64, vec![], labels));
    let weights = all(&|i| (i as f64 / 2.0).to_le_bytes().to_vec());
    assert_eq!(fixed(&file, &found, "weight"), (Dtype::F64, vec![], weights));
    assert_eq!(blobs(&file, &found, "a_name_of_sixtee"), all(&|i| vec![7; i]));
    assert_eq!(blobs(&file, &found, "a_name_of_sixtee~2"), all(&|i| vec![8; i + 1]));
    assert_eq!(blobs(&file, &found, "info"), all(&|i| format!("{{\"i\": {i}}}").into_bytes()));
    let tiles = all(&|i| vec![i as u8; 24]);
    assert_eq!(fixed(&file, &found, "tile"), (Dtype::F32, vec![2, 3], tiles));
    assert!(not_stored(&found, "odd").contains("<u8"));
}

#[test]
fn pixels_of_a_beton_need_one_size_and_one_mode() {
    let same = Beton::new(4).pixels("image", |_| (5, 3), |i| vec![i as u8; 45]);
    let (file, found) = open(&same.bytes(), Envelope::Ffcv);
    let expected: Vec<Vec<u8>> = (0..4).map(|i| vec![i; 45]).collect();
    assert_eq!(fixed(&file, &found, "image"), (Dtype::U8, vec![3, 5, 3], expected));
    let sizes = Beton::new(4).pixels("image", |i| (i as u16 + 1, 3), |i| vec![0; 9 * (i + 1)]);
    let (_, found) = open(&sizes.bytes(), Envelope::Ffcv);
    assert!(not_stored(&found, "image").contains("different sizes"));
    let (_, found) = open(&same.jpeg_among_pixels().bytes(), Envelope::Ffcv);
    let said = not_stored(&found, "image");
    assert!(said.contains("1 of 4 images") && said.contains("write_mode='jpg'"), "{said}");
}

#[test]
fn what_is_no_beton_says_so() {
    let good = Beton::new(3).jpegs("image", image).integers("label", |_| 0).bytes();
    for cut in [0, 23, 500, good.len() - 1] {
        assert!(
            matches!(refusal(&good[..cut], Envelope::Ffcv), Error::Malformed { .. }) || cut == 0
        );
    }
    let patched = |at: usize, bytes: &[u8]| {
        let mut patched = good.clone();
        patched[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&patched, Envelope::Ffcv)
    };
    assert!(
        matches!(patched(0, &[1]), Error::NotInPlace { reason, .. } if reason.contains("version is 1"))
    );
    assert!(
        matches!(patched(24, &[255]), Error::NotInPlace { reason, .. } if reason.contains("255"))
    );
    for (at, bytes, expected) in [
        (2, &[0, 0][..], "0 fields"),
        (4, &[0xe8, 3, 0, 0], "pages of 1000 bytes"),
        (8, &[0xff; 8], "room for"),
        (16, &[0; 8], "never finished"),
        (24 + 2 * 1041, &[9], "sample 0"),
        (24 + 2 * 1041 + 5, &[1], "allocation table"),
    ] {
        let said = patched(at, bytes).to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn neither_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let fields = [Field::bytes(FieldName::image(), vec!["image/jpeg".into()])];
    for envelope in Envelope::ADOPTED {
        let spec = ShardSpec::new(envelope, Split::Train, &fields);
        let error = ShardWriter::create(dir.path(), &spec).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Unwritable { .. }), "{error}");
        assert!(error.hint().is_some());
    }
}

/// Changes some bytes. Those that are not zero are changed more often, since they have a meaning.
fn mutate(good: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = good.to_vec();
    for _ in 0..1 + rng.below(4) {
        let mut at = rng.below(bytes.len());
        while at + 1 < bytes.len() && bytes[at] == 0 && rng.below(16) > 0 {
            at += 1;
        }
        let end = (at + 8).min(bytes.len());
        match rng.below(6) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.below(256) as u8,
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => bytes.truncate(at.max(1)),
            4 => bytes.insert(at, b"0123456789-[]{}\",:"[rng.below(18)]),
            _ => {
                let extreme = [u64::MAX, 1 << 63, i64::MAX as u64, 1 << 40][rng.below(4)];
                bytes[at..end].copy_from_slice(&extreme.to_le_bytes()[..end - at]);
            }
        }
    }
    bytes
}

/// Checks that every run of a survey is within the file, and that all columns have as many values.
fn check(survey: &Survey, len: u64, seed: u64) {
    for column in &survey.columns {
        let n = match &column.values {
            Values::Bytes(runs) => {
                let inside = |run: &Run| run.offset + run.len <= len;
                assert!(runs.iter().flatten().all(inside), "seed {seed}");
                runs.len()
            }
            Values::Fixed { dtype, shape, places: FixedPlaces::Offsets(offsets) } => {
                let size = shape.iter().product::<u64>() * dtype.size_bytes();
                assert!(offsets.iter().all(|offset| offset + size <= len), "seed {seed}");
                offsets.len()
            }
            Values::Integers(values) => values.len(),
            Values::Texts(texts) => texts.len(),
            _ => survey.rows,
        };
        assert_eq!(n, survey.rows, "seed {seed}: {}", column.name);
    }
}

#[test]
fn damaged_files_never_panic_and_never_leave_the_file() {
    let shard = Mds::new(5)
        .column("image", "jpeg", None, image)
        .column("label", "int", Some(8), |i| vec![i as u8; 8])
        .column("name", "str", None, |i| format!("{i}.jpg").into_bytes())
        .column("free", "ndarray", None, |i| vec![8, 1 << 2, 2, i as u8, 0])
        .column("tile", "ndarray:uint8:2,3", Some(6), |i| vec![i as u8; 6]);
    let jpegs = Beton::new(5)
        .jpegs("image", image)
        .integers("label", |i| i as i64)
        .blobs("blob", |i| vec![7; i])
        .array("tile", "<f4", &[2, 3], |i| vec![i as u8; 24]);
    let pixels = Beton::new(5).pixels("image", |_| (5, 3), |i| vec![i as u8; 45]);
    for (good, envelope) in [
        (shard.bytes(), Envelope::Mds),
        (jpegs.bytes(), Envelope::Ffcv),
        (pixels.bytes(), Envelope::Ffcv),
    ] {
        let mut refused = 0;
        for seed in 0..20_000 {
            let bytes = mutate(&good, seed);
            let len = bytes.len() as u64;
            match survey(&ReadAt::in_memory("damaged", bytes), envelope) {
                Ok(survey) => check(&survey, len, seed),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 5_000, "{envelope}: {refused}");
    }
}
