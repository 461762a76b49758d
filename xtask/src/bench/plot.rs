//! Bar charts as SVG, by hand: no script, no font of its own, dark or light.

use std::fmt::Write as _;

/// One horizontal bar.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Ours: drawn in the accent colour.
    pub(crate) ours: bool,
}

/// Bars of one quantity, with a line at a limit where there is one.
pub(crate) struct Panel {
    /// What is shown, with its unit and which way is better.
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) limit: Option<(f64, &'static str)>,
    /// Digits behind the point.
    pub(crate) digits: usize,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 70.0;
const BAR: f64 = 26.0;

/// The panels, one below the other.
pub(crate) fn svg(panels: &[Panel], caption: &str) -> String {
    let height: f64 = panels.iter().map(height_of).sum::<f64>() + 40.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"14\">\n<style>\n\
         text {{ fill: #222 }} .bar {{ fill: #9aa5b1 }} .ours {{ fill: #0b7285 }} \
         .limit {{ stroke: #c92a2a; stroke-dasharray: 4 3 }} .paper {{ fill: #fff }}\n\
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6e6e6 }} .bar {{ fill: #5c6773 }} \
         .ours {{ fill: #3bc9db }} .limit {{ stroke: #ff8787 }} .paper {{ fill: #16191d }} }}\n\
         </style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
    );
    let mut top = 0.0;
    for panel in panels {
        draw(&mut out, panel, top);
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

fn height_of(panel: &Panel) -> f64 {
    64.0 + panel.bars.len() as f64 * (BAR + 10.0)
}

fn draw(out: &mut String, panel: &Panel, top: f64) {
    let most = panel.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let most = panel.limit.map_or(most, |(limit, _)| most.max(limit)).max(1e-9);
    let x = |value: f64| LEFT + value / most * (WIDTH - LEFT - RIGHT);
    let _ = writeln!(
        out,
        "<text x=\"16\" y=\"{:.0}\" font-weight=\"600\">{}</text>",
        top + 28.0,
        escape(&panel.title)
    );
    let first = top + 48.0;
    for (number, bar) in panel.bars.iter().enumerate() {
        let y = first + number as f64 * (BAR + 10.0);
        let class = if bar.ours { "ours" } else { "bar" };
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\
             <rect class=\"{class}\" x=\"{LEFT}\" y=\"{y:.0}\" width=\"{:.1}\" height=\"{BAR}\"/>\
             <text x=\"{:.1}\" y=\"{:.0}\">{:.*}</text>",
            LEFT - 10.0,
            y + 18.0,
            escape(&bar.name),
            x(bar.value) - LEFT,
            x(bar.value) + 6.0,
            y + 18.0,
            panel.digits,
            bar.value
        );
    }
    if let Some((limit, name)) = panel.limit {
        let bottom = first + panel.bars.len() as f64 * (BAR + 10.0) - 6.0;
        let _ = writeln!(
            out,
            "<line class=\"limit\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.0}\" y2=\"{bottom:.0}\"/>\
             <text x=\"{0:.1}\" y=\"{2:.0}\" font-size=\"12\" text-anchor=\"end\">{3}</text>",
            x(limit),
            first - 4.0,
            first - 8.0,
            escape(name)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
