//! The location of a picture in GML (GMLJP2 1.0), as Sentinel-2 has it.
//!
//! ```xml
//! <gml:RectifiedGrid> <gml:origin><gml:Point srsName="urn:ogc:def:crs:EPSG::32633"><gml:pos>x y</gml:pos>
//!   <gml:offsetVector>10 0</gml:offsetVector> <gml:offsetVector>0 -10</gml:offsetVector>
//! ```
//!
//! The origin is the middle of the first pixel, and the vectors lead to the next column and the
//! next row. In which order an EPSG system has its axes is not in the file, so that only systems
//! whose first axis is east are read: UTM zones and Web Mercator.

use roxmltree::{Document, Node};

use crate::tiff::Geo;

/// Codes of EPSG with the east first: UTM of WGS 84 north and south, Web Mercator.
const EAST_FIRST: [std::ops::RangeInclusive<u32>; 3] =
    [32_601..=32_660, 32_701..=32_760, 3857..=3857];

/// Finds the location in an `asoc` box.
pub(super) fn geo(content: &[u8]) -> Option<Geo> {
    let start = content.windows(4).position(|four| four == b"xml ")?;
    let xml = content.get(start + 4..)?;
    // A box may follow; XML ends with its last tag.
    let end = xml.iter().rposition(|byte| *byte == b'>')?;
    let xml = std::str::from_utf8(xml.get(..=end)?).ok()?;
    let document = Document::parse(xml).ok()?;
    let is = |name: &'static str| move |node: &Node<'_, '_>| node.tag_name().name() == name;
    let grid = document.descendants().find(is("RectifiedGrid"))?;
    let point = grid.descendants().find(is("Point"))?;
    let pos = point.descendants().find(is("pos"))?;
    let [x, y] = two(pos.text()?)?;
    let mut vectors = grid.children().filter(is("offsetVector"));
    let (across, down) = (vectors.next()?, vectors.next()?);
    let ([ax, ay], [dx, dy]) = (two(across.text()?)?, two(down.text()?)?);
    let named = |node: Node<'_, '_>| node.attribute("srsName").map(str::to_owned);
    let name = named(point).or_else(|| named(grid)).or_else(|| named(across))?;
    let (_, code) = name.rsplit_once([':', '#'])?;
    let code: u32 = code.parse().ok()?;
    let is_known = name.contains("EPSG") || name.contains("epsg");
    if !is_known || !EAST_FIRST.iter().any(|range| range.contains(&code)) {
        return None;
    }
    let corner = [x - (ax + dx) / 2.0, ax, dx, y - (ay + dy) / 2.0, ay, dy];
    let is_finite = corner.iter().all(|number| number.is_finite());
    is_finite.then(|| Geo {
        transform: Some(corner),
        crs: Some(format!("EPSG:{code}")),
        ..Geo::default()
    })
}

fn two(text: &str) -> Option<[f64; 2]> {
    let mut numbers = text.split([' ', ',', '\n', '\t']).filter(|part| !part.is_empty());
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(code: u32) -> Vec<u8> {
        let xml = format!(
            r#"<gml:FeatureCollection xmlns:gml="http://www.opengis.net/gml"><gml:RectifiedGrid>
            <gml:origin><gml:Point srsName="urn:ogc:def:crs:EPSG::{code}"><gml:pos>600005 5300035</gml:pos>
            </gml:Point></gml:origin><gml:offsetVector>10 0</gml:offsetVector>
            <gml:offsetVector>0 -10</gml:offsetVector></gml:RectifiedGrid></gml:FeatureCollection>"#
        );
        [b"\0\0\0\x09lbl \0\0\0\0\x09xml ", xml.as_bytes(), b"\0"].concat()
    }

    #[test]
    fn the_origin_is_the_middle_of_a_pixel() {
        let found = geo(&grid(32_633)).unwrap();
        assert_eq!(found.transform, Some([600_000.0, 10.0, 0.0, 5_300_040.0, 0.0, -10.0]));
        assert_eq!(found.crs.as_deref(), Some("EPSG:32633"));
    }

    #[test]
    fn systems_whose_axes_may_be_exchanged_are_not_read() {
        assert_eq!(geo(&grid(4326)), None);
        assert_eq!(geo(b"xml <a>"), None);
        assert_eq!(geo(b""), None);
    }
}
