//! Masks that are polygons of GeoJSON and of shapefiles.

use gular_bundle::{Dtype, MadeValue};
use gular_codec::{DecodeOptions, Decoder};
use gular_pack::{
    Error, Fit, Labels, MaskClass, PayloadOptions, PlanOptions, RawOptions, Remedy, RunError,
};

use shapefile::{Point, Polygon, PolygonRing};

use crate::fields::field;
use crate::support::{png, put, run, samples, small_shards};

/// A square with a hole, and after it a triangle over a part of it.
const TWO: &str = r#"{"type": "FeatureCollection", "features": [
    {"type": "Feature", "properties": {"kind": "road", "id": 5, "of:id": 7.0}, "geometry": {"type": "Polygon", "coordinates": [
        [[1, 1], [7, 1], [7, 7], [1, 7], [1, 1]], [[3, 3], [5, 3], [5, 5], [3, 5], [3, 3]]]}},
    {"type": "Feature", "properties": {"kind": "tree", "id": 6, "of:id": 8}, "geometry": {"type": "MultiPolygon", "coordinates": [
        [[[6, 0, 12.5], [12, 0], [12, 2], [6, 2]]]]}},
    {"type": "Feature", "properties": {"kind": "none"}, "geometry": null}]}"#;

/// The mask of [`TWO`] on 12 x 9 pixels, with these classes.
fn expected(square: u8, triangle: u8) -> Vec<u8> {
    let class = |x: usize, y: usize| {
        if x >= 6 && y < 2 {
            triangle
        } else if (1..7).contains(&x)
            && (1..7).contains(&y)
            && !((3..5).contains(&x) && (3..5).contains(&y))
        {
            square
        } else {
            0
        }
    };
    (0..9).flat_map(|y| (0..12).map(move |x| class(x, y))).collect()
}

fn plan(class: Option<&str>, masks: &std::path::Path) -> PlanOptions {
    let fields = vec![field("mask", masks, "")];
    let mask_class = class.map(|class| MaskClass::parse(class).unwrap());
    PlanOptions { fields, mask_class, labels: Labels::None, ..small_shards() }
}

#[test]
fn polygons_become_classes() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    for i in 0..2 {
        put(&images, &format!("{i}.png"), &png(i));
    }
    put(&masks, "0.geojson", TWO.as_bytes());
    put(&masks, "1.geojson", format!("\u{feff}{TWO}").as_bytes());
    let mut decoder = Decoder::new(DecodeOptions::default());
    let cases = [
        (None, 1, 1),
        (Some("id"), 5, 6),
        (Some("kind:road=2,tree=0"), 2, 0),
        (Some("of:id"), 7, 8),
    ];
    for (number, (class, square, triangle)) in cases.into_iter().enumerate() {
        let out = dir.path().join(format!("out{number}"));
        run(&images, &out, plan(class, &masks), 2).unwrap();
        let (bundle, found) = samples(&out);
        let made = bundle.manifest().made.get("mask_class");
        assert_eq!(made, class.map(|class| MadeValue::Text(class.to_owned())).as_ref());
        for (_, values) in found.values() {
            let (size, found) = decoder.decode_values(&values[1]).unwrap();
            let found: Vec<u8> = found.into_iter().map(|v| u8::try_from(v).unwrap()).collect();
            assert_eq!((size, found), ((12, 9), expected(square, triangle)));
        }
    }
    let raw = RawOptions { width: 12, height: 9, fit: Fit::Stretch, channels: 3, depth: None };
    let raw = PlanOptions { payload: PayloadOptions::Raw(raw), ..plan(None, &masks) };
    let out = dir.path().join("raw");
    run(&images, &out, raw, 1).unwrap();
    let (bundle, found) = samples(&out);
    assert_eq!(bundle.manifest().fields[1].as_fixed(), Some((Dtype::U8, &[9, 12][..])));
    assert!(found.values().all(|(_, values)| values[1] == expected(1, 1)));
}

#[test]
fn what_is_not_polygons_on_the_image_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    put(&images, "0.png", &png(0));
    let refuse = |file: &str, class: Option<&str>, remedy: Remedy, expected: &str| {
        put(&masks, "0.geojson", file.as_bytes());
        let error = run(&images, &dir.path().join("bad"), plan(class, &masks), 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let Error::Run(RunError::BadInputs(bad)) = error else { panic!("{error}") };
        assert_eq!(bad.named[0].remedy, remedy);
    };
    let repair = Remedy::Repair;
    refuse("{", None, repair, "is not GeoJSON");
    refuse(r#"{"type": "Polygon", "coordinates": [[1, 2]]}"#, None, repair, "three or more [x, y]");
    refuse(r#"{"type": "Point", "coordinates": [1, 2]}"#, None, repair, "has a Point");
    let far = r#"{"type": "Polygon", "coordinates": [[[20, 1], [30, 1], [30, 5]]]}"#;
    refuse(far, None, repair, "none of its polygons is on its image");
    // Longitude and latitude, of an image without a location.
    let field = r#"{"type": "Polygon", "coordinates": [[[8.5, 5.1], [8.6, 5.1], [8.6, 5.2]]]}"#;
    refuse(field, None, repair, "read as columns and rows");
    let named = r#"{"type": "Polygon", "coordinates": [], "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}}"#;
    refuse(named, None, repair, "in EPSG:32632, but its image has no location");
    let crs = r#"{"type": "FeatureCollection", "features": [], "crs": {"type": "link"}}"#;
    refuse(crs, None, repair, "its CRS is");
    refuse(TWO, Some("name"), Remedy::NameClasses, "properties are `id`, `kind`, `of:id`");
    refuse(TWO, Some("kind"), Remedy::NameClasses, "\"road\" as `kind`");
    refuse(&TWO.replace("5,", "300,"), Some("id"), Remedy::NameClasses, "300 as `id`");
    put(&masks, "0.png", &png(0));
    let error = run(&images, &dir.path().join("bad"), plan(None, &masks), 1).unwrap_err();
    assert!(error.to_string().contains("several files"), "{error}");
    for (class, expected) in
        [("", "no property"), ("a:b=x", "`b=x`"), ("a:b=255", "255"), ("a:b=1,b=2", "twice")]
    {
        let error = MaskClass::parse(class).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Writes the polygons of [`TWO`] as a shapefile: a column of numbers and one of words.
fn write_shapes(path: &std::path::Path) {
    let name = |text: &str| dbase::FieldName::try_from(text).unwrap();
    let table = dbase::TableWriterBuilder::new()
        .add_numeric_field(name("id"), 5, 0)
        .add_character_field(name("kind"), 10);
    let mut file = shapefile::Writer::from_path(path, table).unwrap();
    let ring = |points: &[(f64, f64)]| points.iter().map(|(x, y)| Point::new(*x, *y)).collect();
    let square = [(1., 1.), (7., 1.), (7., 7.), (1., 7.), (1., 1.)];
    let hole = [(3., 3.), (5., 3.), (5., 5.), (3., 5.), (3., 3.)];
    let square = Polygon::with_rings(vec![
        PolygonRing::Outer(ring(&square)),
        PolygonRing::Inner(ring(&hole)),
    ]);
    let strip = [(6., 0.), (12., 0.), (12., 2.), (6., 2.), (6., 0.)];
    let strip = Polygon::new(PolygonRing::Outer(ring(&strip)));
    for (shape, id, kind) in [(square, 5.0, "road"), (strip, 6.0, "tree")] {
        let mut row = dbase::Record::default();
        row.insert("id".to_owned(), dbase::FieldValue::Numeric(Some(id)));
        row.insert("kind".to_owned(), dbase::FieldValue::Character(Some(kind.to_owned())));
        file.write_shape_and_record(&shape, &row).unwrap();
    }
}

#[test]
fn shapefiles_become_classes() {
    let dir = tempfile::tempdir().unwrap();
    let (images, masks) = (dir.path().join("images"), dir.path().join("masks"));
    put(&images, "0.png", &png(0));
    std::fs::create_dir(&masks).unwrap();
    write_shapes(&masks.join("0.shp"));
    put(&masks, "0.cpg", b"UTF-8");
    put(&masks, "0.qmd", b"<qgis/>");
    let mut decoder = Decoder::new(DecodeOptions::default());
    let cases = [(None, 1, 1), (Some("id"), 5, 6), (Some("kind:road=2,tree=0"), 2, 0)];
    for (number, (class, square, strip)) in cases.into_iter().enumerate() {
        let out = dir.path().join(format!("out{number}"));
        let report = run(&images, &out, plan(class, &masks), 1).unwrap();
        let warnings = report.warnings.join("\n");
        assert!(!warnings.contains("belong"), "the parts of a shapefile are its own: {warnings}");
        let (_, found) = samples(&out);
        for (_, values) in found.values() {
            let (_, found) = decoder.decode_values(&values[1]).unwrap();
            let found: Vec<u8> = found.into_iter().map(|v| u8::try_from(v).unwrap()).collect();
            assert_eq!(found, expected(square, strip), "{class:?}");
        }
    }
    let refuse = |class: Option<&str>, expected: &str| {
        let error = run(&images, &dir.path().join("bad"), plan(class, &masks), 1).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    refuse(Some("name"), "properties are `id`, `kind`");
    put(&masks, "0.prj", b"GEOGCS[\"GCS_WGS_1984\",DATUM[\"D_WGS_1984\"]]");
    refuse(None, "in EPSG:4326, but its image has no location");
    std::fs::remove_file(masks.join("0.prj")).unwrap();
    // The second row is deleted: which shape has which row is no longer known.
    let mut table = std::fs::read(masks.join("0.dbf")).unwrap();
    let rows = usize::from(u16::from_le_bytes([table[8], table[9]]));
    let row = usize::from(u16::from_le_bytes([table[10], table[11]]));
    table[rows + row] = b'*';
    put(&masks, "0.dbf", &table);
    refuse(Some("id"), "another number of rows");
    refuse(None, "another number of rows");
    std::fs::remove_file(masks.join("0.dbf")).unwrap();
    refuse(Some("id"), "it has no `.dbf`");
    run(&images, &dir.path().join("no-classes"), plan(None, &masks), 1).unwrap();
}
