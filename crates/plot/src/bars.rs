//! Bars as SVG, written by hand: no script, no font, dark or light as the reader chooses.

use std::fmt::Write as _;

/// One horizontal bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// The text before the bar.
    pub name: String,
    /// Length of the bar, in the unit of the drawing.
    pub value: f64,
    /// The range of the rounds, drawn as a line over the bar's end if its two values differ.
    pub range: (f64, f64),
    /// Whether the bar is only for comparison; it is then grey.
    pub baseline: bool,
    /// Whether the bar is recommended; its name is then bold.
    pub picked: bool,
    /// The text behind the bar.
    pub text: String,
}

/// Bars of one quantity in a [`chart`], with a line at a limit if there is one.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The quantity, with its unit and whether more or less is better.
    pub title: String,
    /// The bars, at least one.
    pub bars: Vec<Bar>,
    /// The position of the line, and its text.
    pub limit: Option<(f64, &'static str)>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 80.0;
const HEIGHT: f64 = 18.0;
const STEP: f64 = 26.0;
// Height of a panel's title above its bars, and the space below them.
const TITLE: f64 = 48.0;
const BELOW: f64 = 16.0;

/// Returns a separate picture: the panels, one below the other, and a caption. It is dark or light
/// as its reader's settings say.
#[must_use]
pub fn chart(panels: &[Panel], caption: &str) -> String {
    let height_of = |panel: &Panel| TITLE + panel.bars.len() as f64 * STEP + BELOW;
    let height: f64 = panels.iter().map(height_of).sum::<f64>() + 40.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n<style>\n\
         text {{ fill: #222 }} .base {{ fill: #9aa5b1 }} .ours {{ fill: #0b7285 }} \
         .range {{ fill: none; stroke: #222 }} .paper {{ fill: #fff }} \
         .limit {{ stroke: #c92a2a; stroke-dasharray: 4 3 }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e6e6 }} .base {{ fill: #5c6773 }} \
         .ours {{ fill: #3bc9db }} .range {{ stroke: #e6e6e6 }} .paper {{ fill: #16191d }} \
         .limit {{ stroke: #ff8787 }} }}\n\
         </style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
    );
    let mut top = 0.0;
    for panel in panels {
        let _ = writeln!(
            out,
            "<text x=\"16\" y=\"{:.0}\" font-weight=\"600\">{}</text>",
            top + 24.0,
            escape(&panel.title)
        );
        let x = scale(&panel.bars, panel.limit.map(|(limit, _)| limit));
        draw(&mut out, &panel.bars, top + TITLE, &x);
        if let Some((limit, name)) = panel.limit {
            let _ = writeln!(
                out,
                "<line class=\"limit\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.0}\" y2=\"{2:.0}\"/>\
                 <text x=\"{0:.1}\" y=\"{3:.0}\" font-size=\"12\" text-anchor=\"end\">{4}</text>",
                x(limit),
                top + TITLE - 4.0,
                top + height_of(panel) - BELOW,
                top + TITLE - 8.0,
                escape(name)
            );
        }
        top += height_of(panel);
    }
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{:.0}\" font-size=\"12\">{}</text>\n</svg>",
        height - 14.0,
        escape(caption)
    );
    out
}

/// Returns the function that places a value on the scale from zero to the largest.
fn scale(bars: &[Bar], limit: Option<f64>) -> impl Fn(f64) -> f64 {
    let values = bars.iter().map(|bar| bar.range.1.max(bar.value)).chain(limit);
    let most = values.fold(1e-9, f64::max);
    move |value| LEFT + value / most * (WIDTH - LEFT - RIGHT)
}

fn draw(out: &mut String, bars: &[Bar], top: f64, x: impl Fn(f64) -> f64) {
    for (number, bar) in bars.iter().enumerate() {
        let y = top + number as f64 * STEP;
        let (text, middle) = (y + 13.5, y + HEIGHT / 2.0);
        let class = if bar.baseline { "base" } else { "ours" };
        let weight = if bar.picked { " font-weight=\"700\"" } else { "" };
        let _ = write!(
            out,
            "<text x=\"{:.0}\" y=\"{text:.1}\" text-anchor=\"end\"{weight}>{}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>",
            LEFT - 8.0,
            escape(&bar.name),
            x(bar.value) - LEFT,
        );
        let (low, high, cap) = (x(bar.range.0), x(bar.range.1), middle - 3.0);
        if low < high {
            let _ = write!(
                out,
                "<path class=\"range\" d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {cap:.1}v6M{high:.1} {cap:.1}v6\"/>"
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{text:.1}\"{weight}>{}</text>",
            high.max(x(bar.value)) + 6.0,
            escape(&bar.text),
        );
    }
}

/// Returns `text` escaped for XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64) -> Bar {
        Bar {
            name: name.into(),
            value,
            range: (value / 2.0, value * 1.5),
            baseline: value < 2.0,
            picked: false,
            text: format!("{value}"),
        }
    }

    #[test]
    fn a_chart_is_a_document_with_every_title_bar_and_limit() {
        let panel = |title: &str, limit| Panel {
            title: title.into(),
            bars: vec![bar("a & b", 1.0), bar("c", 4.0)],
            limit,
        };
        let svg = chart(&[panel("rates", Some((20.0, "20 s"))), panel("sizes", None)], "caption");
        let document = roxmltree::Document::parse(&svg).unwrap();
        let count = |name: &str| document.descendants().filter(|n| n.has_tag_name(name)).count();
        // The background is a rectangle too.
        assert_eq!((count("rect"), count("line"), count("path")), (5, 1, 4), "{svg}");
        for text in ["rates", "20 s", "a & b", "sizes", "caption"] {
            assert!(document.descendants().any(|n| n.text() == Some(text)), "`{text}` in {svg}");
        }
        let rects = document.descendants().filter(|n| n.has_tag_name("rect")).skip(1);
        let widths: Vec<f64> =
            rects.map(|rect| rect.attribute("width").unwrap().parse().unwrap()).collect();
        // The longest value is the limit in the first panel, and the range of `c` in the second.
        assert!((widths[0] - (WIDTH - LEFT - RIGHT) / 20.0).abs() < 0.1, "{widths:?}");
        assert!((widths[2] - (WIDTH - LEFT - RIGHT) / 6.0).abs() < 0.1, "{widths:?}");
    }
}
