//! Bars as SVG, by hand: no script, no font of its own, dark or light by the page.

use std::fmt::Write as _;

/// One horizontal bar with the range of its rounds.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// There for comparison only: drawn in grey.
    pub(crate) baseline: bool,
    /// The one that is recommended: named in bold.
    pub(crate) picked: bool,
    /// What is written behind it.
    pub(crate) text: String,
}

const WIDTH: f64 = 640.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 80.0;
const HEIGHT: f64 = 18.0;
const STEP: f64 = 26.0;

/// Bars from zero on one scale, that of the longest.
pub(crate) fn bars(bars: &[Bar], label: &str) -> String {
    let most = bars.iter().map(|bar| bar.max.max(bar.value)).fold(1e-9, f64::max);
    let x = |value: f64| LEFT + value / most * (WIDTH - LEFT - RIGHT);
    let height = bars.len() as f64 * STEP + 6.0;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\n",
        escape(label)
    );
    for (number, bar) in bars.iter().enumerate() {
        let y = number as f64 * STEP + 4.0;
        let (text, middle) = (y + 13.5, y + HEIGHT / 2.0);
        let class = if bar.baseline { "base" } else { "ours" };
        let weight = if bar.picked { " font-weight=\"700\"" } else { "" };
        let (low, high, cap) = (x(bar.min), x(bar.max), middle - 3.0);
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{text:.1}\" text-anchor=\"end\"{weight}>{}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>\
             <path class=\"range\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {cap:.1}v6M{high:.1} {cap:.1}v6\"/>\
             <text x=\"{:.1}\" y=\"{text:.1}\"{weight}>{}</text>",
            LEFT - 8.0,
            escape(&bar.name),
            x(bar.value) - LEFT,
            high + 6.0,
            escape(&bar.text),
        );
    }
    out.push_str("</svg>\n");
    out
}

/// `text` as HTML and XML have it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_lie_within_the_drawing() {
        let bar = |name: &str, value: f64| Bar {
            name: name.into(),
            value,
            min: value / 2.0,
            max: value * 1.5,
            baseline: value < 2.0,
            picked: false,
            text: format!("{value}"),
        };
        let svg = bars(&[bar("a <b> & \"c\"", 1.0), bar("d", 4.0)], "rates");
        let document = roxmltree::Document::parse(&svg).unwrap();
        let rects: Vec<_> = document.descendants().filter(|n| n.has_tag_name("rect")).collect();
        let number = |node: &roxmltree::Node<'_, '_>, name: &str| -> f64 {
            node.attribute(name).unwrap().parse().unwrap()
        };
        assert_eq!(rects.len(), 2);
        for rect in &rects {
            assert!(number(rect, "x") + number(rect, "width") <= WIDTH - RIGHT, "{svg}");
        }
        let paths = document.descendants().filter(|n| n.has_tag_name("path"));
        for path in paths {
            let of_a_path = |c: char| c.is_ascii_digit() || " .MHv".contains(c);
            assert!(path.attribute("d").unwrap().chars().all(of_a_path), "{svg}");
        }
        let widths = [number(&rects[0], "width"), number(&rects[1], "width")];
        assert!((widths[1] / widths[0] - 4.0).abs() < 0.02, "{widths:?}");
        assert!(document.descendants().any(|n| n.text() == Some("a <b> & \"c\"")), "{svg}");
    }
}
