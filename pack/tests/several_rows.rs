//! Tables in which an image has several rows: captions, classes, boxes.

use crate::support::{jpeg, put, run, samples};
use gular_pack::{
    BoxForm, Error, LabelColumn, Labels, LayoutError, PackReport, PlanOptions, TableOptions,
};

type Values = Vec<(String, Vec<u8>)>;

/// Packs four images, of 20 x 16 to 23 x 19 pixels, by this table; the values of `field`.
fn packed(name: &str, text: &str, field: &str) -> Result<(PackReport, Values), Error> {
    let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    (0..4).for_each(|i| put(dir.path(), &format!("{i}.jpg"), &jpeg(i)));
    put(dir.path(), name, text.as_bytes());
    let label = if name.starts_with("none") { LabelColumn::None } else { LabelColumn::Find };
    let files = vec![dir.path().join(name)];
    let labels = Labels::Table(TableOptions { files, label, ..TableOptions::default() });
    let plan = PlanOptions { labels, ..PlanOptions::default() };
    let report = run(dir.path(), out.path(), plan, 1)?;
    let (bundle, found) = samples(out.path());
    let at = bundle.manifest().fields.iter().position(|of| of.name.as_str() == field);
    let at = at.unwrap_or(usize::MAX);
    assert!(at != usize::MAX, "{:?}", report.fields);
    Ok((report, found.into_iter().map(|(key, (_, mut values))| (key, values.remove(at))).collect()))
}

fn rows(of: &dyn Fn(usize, usize) -> String) -> String {
    (0..4).flat_map(|i| (0..2).map(move |j| format!("{i}.jpg,{}\n", of(i, j)))).collect()
}

#[test]
fn captions_are_a_list_for_each_image() {
    let text = format!("image,caption\n{}", rows(&|i, j| format!("\"{j}, of {i}\"")));
    let (report, captions) = packed("captions.csv", &text, "caption").unwrap();
    assert_eq!(captions[1].1, br#"["0, of 1","1, of 1"]"#);
    assert!(report.doubts[0].text.contains("up to 2, which are read together"));
    // The header of a text says that it is a table.
    assert_eq!(packed("captions.txt", &text, "caption").unwrap().1, captions);
    let coco = serde_json::json!({
        "images": (0..4).map(|i| serde_json::json!({"id": i, "file_name": format!("{i}.jpg")})).collect::<Vec<_>>(),
        "annotations": (0..8).map(|n| serde_json::json!({"id": n, "image_id": n / 2,
            "caption": format!("{}, of {}", n % 2, n / 2)})).collect::<Vec<_>>(),
    });
    assert_eq!(packed("captions.json", &coco.to_string(), "caption").unwrap().1, captions);
}

#[test]
fn classes_in_several_rows_are_several_classes() {
    let text = format!("image,label\n{}", rows(&|i, j| ["a", "b", "c"][(i + j) % 3].to_owned()));
    let (report, labels) = packed("labels.csv", &text, "labels").unwrap();
    let hot: Vec<&[u8]> = labels.iter().map(|(_, hot)| hot.as_slice()).collect();
    assert_eq!(hot, [[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]]);
    assert!(report.doubts[0].text.contains("`label` has a list"), "{:?}", report.doubts);
    // One image with two rows is a mistake.
    let once = "image,label\n0.jpg,a\n1.jpg,a\n2.jpg,a\n3.jpg,b\n3.jpg,a\n";
    let error = packed("labels.csv", once, "label").unwrap_err();
    assert!(matches!(error, Error::Layout(LayoutError::DoubledRows { n: 1, .. })), "{error}");
}

#[test]
fn classes_in_one_cell_are_divided_where_that_is_clear() {
    let table = |column: &str, cells: [&str; 4]| {
        let rows = cells.iter().enumerate().map(|(i, cell)| format!("{i}.jpg,{cell}\n"));
        format!("image,{column}\n{}", rows.collect::<String>())
    };
    let bars = table("label", ["a|b", "b", "c", "a"]);
    let (report, labels) = packed("bars.csv", &bars, "labels").unwrap();
    assert_eq!(labels[0].1, [1, 1, 0]);
    assert!(report.doubts[0].text.contains("are divided at `|`"), "{:?}", report.doubts);
    let tags = table("tags", ["haze sea", "haze", "sea", "clear sea"]);
    assert_eq!(packed("tags.csv", &tags, "labels").unwrap().1[3].1, [1, 0, 1]);
    let words = table("label", ["red fox", "fox", "red fox", "grey fox"]);
    let report = packed("words.csv", &words, "label").unwrap().0;
    assert_eq!(report.fields, Vec::<String>::new());
    let flags =
        "image,Cat,Dog\n0.jpg,TRUE,FALSE\n1.jpg,FALSE,TRUE\n2.jpg,true,false\n3.jpg,TRUE,FALSE\n";
    let report = packed("flags.csv", flags, "label").unwrap().0;
    assert!(report.doubts[0].text.contains("exactly one is 1"), "{:?}", report.doubts);
}

#[test]
fn boxes_in_pixels_become_fractions_of_their_images() {
    let corners = |at: usize| format!("{},{},{},{}", at, 4, at + 5, 12);
    let text = format!(
        "filename,class,xmin,ymin,xmax,ymax\n{}",
        rows(&|i, j| format!("{},{}", ["cat", "dog"][j], corners(i + j)))
    );
    let (report, boxes) = packed("boxes.csv", &text, "boxes").unwrap();
    let numbers = |npy: &[u8]| -> Vec<f64> {
        npy[128..].as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect()
    };
    // The second image has 21 x 17 pixels.
    let near = |a: &[f64], b: &[f64]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12)
    };
    let expected = [1.0 / 21.0, 4.0 / 17.0, 6.0 / 21.0, 12.0 / 17.0];
    assert!(near(&numbers(&boxes[1].1)[..4], &expected), "{:?}", numbers(&boxes[1].1));
    assert_eq!(report.fields, ["boxes", "box_labels", "box_crowd"]);
    let objects: String = (0..4)
        .map(|i| {
            let boxes: Vec<[usize; 4]> = (0..2).map(|j| [i + j, 4, 5, 8]).collect();
            let of = serde_json::json!({"file_name": format!("{i}.jpg"),
                "objects": {"bbox": boxes, "categories": [0, 1]}});
            format!("{of}\n")
        })
        .collect();
    assert_eq!(packed("metadata.jsonl", &objects, "boxes").unwrap().1, boxes);
    // Those that are not within their image are told.
    let (report, _) = packed("boxes.csv", &text.replace(",12\n", ",40\n"), "boxes").unwrap();
    let told = report.doubts.iter().any(|doubt| doubt.text.contains("4 images have boxes"));
    assert!(told, "{:?}", report.doubts);
    // One box for each image is a row of numbers, which is told.
    let one = "image,label,x1,y1,x2,y2\n0.jpg,a,1,2,3,4\n1.jpg,b,1,2,3,4\n2.jpg,a,1,2,3,4\n3.jpg,b,1,2,3,4\n";
    let (report, _) = packed("one.csv", one, "x1").unwrap();
    assert_eq!(report.fields, ["x1", "y1", "x2", "y2"]);
    assert!(report.doubts.iter().any(|doubt| doubt.text.contains("may be boxes")), "{report:?}");
}

#[test]
fn lists_in_cells_are_several_classes() {
    let rows = "image,label\n0.jpg,\"[\"\"a\"\", \"\"b\"\"]\"\n1.jpg,\"[\"\"a\"\"]\"\n2.jpg,\"[\"\"b\"\", \"\"c, d\"\"]\"\n3.jpg,\"[\"\"a\"\"]\"\n";
    let (report, labels) = packed("lists.csv", rows, "labels").unwrap();
    assert_eq!(report.fields, ["labels"]);
    assert_eq!(labels[0].1, [1, 1, 0]);
    assert_eq!(labels[2].1, [0, 1, 1]);
}

#[test]
fn points_are_no_classes_and_told_to_stay_where_they_are() {
    let points = "image,nose_x,nose_y,left_eye_x,left_eye_y\n0.jpg,1,2,3,4\n1.jpg,1,2,3,4\n2.jpg,1,2,3,4\n3.jpg,1,2.5,3,4\n";
    let (report, _) = packed("points.csv", points, "nose_x").unwrap();
    assert_eq!(report.fields, ["nose_x", "nose_y", "left_eye_x", "left_eye_y"]);
    let told = report.doubts.iter().any(|doubt| {
        doubt.text.starts_with("`nose_x`, `nose_y`, `left_eye_x` and 1 other may be points")
    });
    assert!(told, "{:?}", report.doubts);
}

#[test]
fn boxes_that_have_two_readings_are_refused() {
    let table = |columns: &str, rows: &[&str]| format!("{columns}\n{}\n", rows.join("\n"));
    let corners = "image,label,xmin,ymin,xmax,ymax";
    let sized = "image,label,x,y,w,h";
    let with_size = "image,label,width,height,xmin,ymin,xmax,ymax";
    for (name, text, expected) in [
        (
            "mixed.csv",
            table(
                corners,
                &["0.jpg,a,0.1,0.1,0.5,0.5", "0.jpg,a,0.2,0.2,0.6,0.6", "1.jpg,a,3,3,9,9"],
            ),
            "2 of 3 boxes end below 1",
        ),
        (
            "centres.csv",
            table(sized, &["0.jpg,a,0.9,0.9,0.2,0.2", "0.jpg,b,0.95,0.5,0.2,0.2"]),
            "2 of 2 boxes end outside",
        ),
        (
            "sizes.csv",
            table(with_size, &["0.jpg,a,20,16,1,1,5,5", "0.jpg,a,40,32,1,1,9,9"]),
            "another width or height",
        ),
        ("turned.csv", table(corners, &["0.jpg,a,9,9,3,3", "0.jpg,a,1,1,4,4"]), "which is not one"),
        ("nan.csv", table(corners, &["0.jpg,a,nan,1,3,3", "0.jpg,a,1,1,4,4"]), "which is not one"),
    ] {
        let error = packed(name, &text, "boxes").unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
    // Rounding past the edge of an image does not make pixels of fractions; and a box for each image
    // is a box, if its columns mean nothing else.
    let rows =
        ["0.jpg,a,0.1,0.1,1.002,0.5", "1.jpg,a,0,0,1,1", "2.jpg,b,0,0,1,1", "3.jpg,b,0,0,1,1"];
    let (_, values) = packed("rounded.csv", &table(corners, &rows), "boxes").unwrap();
    let expected = [0.1_f64, 0.1, 1.002, 0.5].map(f64::to_le_bytes).concat();
    let first = values.iter().find(|(key, _)| key == "0.jpg").unwrap();
    assert!(first.1.ends_with(&expected), "{first:?}");
}

#[test]
fn boxes_are_read_as_the_names_of_their_columns_say() {
    let numbers = |npy: &[u8]| -> Vec<i64> {
        let all = npy[128..].as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b));
        all.zip([20.0, 16.0].into_iter().cycle())
            .map(|(x, side)| (x * side).round() as i64)
            .collect()
    };
    for (names, one) in [
        ("xmin,ymin,xmax,ymax", "2,4,8,12"),
        ("left,top,right,bottom", "2,4,8,12"),
        ("xmin,ymin,width,height", "2,4,6,8"),
        ("x_min,y_min,w,h", "2,4,6,8"),
        ("bbox_x,bbox_y,bbox_w,bbox_h", "2,4,6,8"),
        ("x_center,y_center,width,height", "5,8,6,8"),
        ("cx,cy,w,h", "5,8,6,8"),
        ("x_center,y_center,width,height", "0.25,0.5,0.3,0.5"),
        // As fractions, left and top would have them end outside.
        ("x,y,w,h", "0.95,0.5,0.1,0.5"),
    ] {
        let text = format!("image,label,{names}\n{}", rows(&|_, j| format!("{j},{one}")));
        let (_, boxes) = packed("boxes.csv", &text, "boxes").unwrap();
        let expected = if one.starts_with("0.95") { [18, 4, 20, 12] } else { [2, 4, 8, 12] };
        assert_eq!(numbers(&boxes[0].1)[..4], expected, "{names}");
    }
}

#[test]
fn numbers_of_boxes_that_have_two_readings_are_a_question() {
    let forms = |columns: &str, cell: &str| {
        let text = format!("image,label,{columns}\n{}", rows(&|_, j| format!("{j},{cell}")));
        match packed("boxes.csv", &text, "boxes").unwrap_err() {
            Error::Layout(LayoutError::Doubt(doubt)) => {
                doubt.readings.iter().filter_map(|way| way.box_form).collect::<Vec<_>>()
            }
            error => panic!("{error}"),
        }
    };
    use BoxForm::{Centred, Ends, Sized};
    for cell in ["\"[2, 4, 8, 12]\"", "2 4 8 12", "\"(2,4,8,12)\""] {
        assert_eq!(forms("bbox", cell), [Sized, Ends]);
    }
    assert_eq!(forms("x,y,w,h", "0.5,0.5,0.2,0.2"), [Sized, Centred]);
    // What ends before it begins is a size.
    let text = format!("image,label,bbox\n{}", rows(&|_, j| format!("{j},9 4 8 3")));
    assert!(packed("boxes.csv", &text, "boxes").is_ok());
}

#[test]
fn minus_one_is_no_or_unknown() {
    let table = |rows: [&str; 4]| {
        let rows = rows.iter().enumerate().map(|(i, row)| format!("{i}.jpg,{row}\n"));
        format!("image,bald,young,male\n{}", rows.collect::<String>())
    };
    let signs = table(["-1,1,1", "1,-1,1", "-1,-1,-1", "1,1,1"]);
    let error = packed("signs.csv", &signs, "label").unwrap_err().to_string();
    assert!(error.contains("in some rows several or none"), "{error}");
    let one = table(["-1,1,-1", "1,-1,-1", "-1,-1,1", "1,-1,-1"]);
    assert_eq!(packed("signs.csv", &one, "label").unwrap().0.fields, Vec::<String>::new());
    let unsure = table(["-1,1,", "1,0,1", ",-1,1", "0,1,1"]);
    let error = packed("unsure.csv", &unsure, "label").unwrap_err().to_string();
    assert!(error.contains("and also -1, which often says that nobody is sure"), "{error}");
    let fields = packed("none.csv", &unsure, "bald").unwrap().0.fields;
    assert_eq!(fields, ["bald", "young", "male"]);
}
