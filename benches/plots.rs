//! Draws docs/performance/*.svg of benches/results/*.csv: colours that are readable on white and on black, and no
//! background.

use std::fs;

use opaque_id_benches::Result;
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 420);
const TEXT: RGBColor = RGBColor(0x80, 0x80, 0x80);
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x2f, 0x81, 0xf7),
    RGBColor(0xe0, 0x7b, 0x24),
    RGBColor(0x2d, 0xa4, 0x4e),
    RGBColor(0xb0, 0x62, 0xe0),
];

fn main() -> Result {
    fs::create_dir_all(path("../docs/performance"))?;
    at_once()?;
    peers()
}

fn path(below: &str) -> String {
    format!("{}/{below}", env!("CARGO_MANIFEST_DIR"))
}

/// The nanoseconds of each case of a benchmark, in its order.
fn results(bench: &str) -> Result<Vec<(String, f64)>> {
    let text = fs::read_to_string(path(&format!("results/{bench}.csv")))?;
    let case = |line: &str| {
        let mut cells = line.split(',');
        let name = cells.next()?.to_owned();
        Some((name, cells.nth(1)?.parse().ok()?))
    };
    let cases: Option<_> = text.lines().skip(1).map(case).collect();
    cases.ok_or_else(|| format!("{bench}.csv: expected a name, a baseline, nanoseconds").into())
}

/// Nanoseconds per id by the number of ids that do not wait for each other.
fn at_once() -> Result {
    let results = results("codec")?;
    let svg = path("../docs/performance/at-once.svg");
    let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d((1.0..1_000.0).log_scale(), (2.0..400.0).log_scale())?;
    chart
        .configure_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 14, &TEXT))
        .x_desc("ids at once")
        .y_desc("ns per id")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .y_labels(4)
        .draw()?;
    for (resource, colour) in ["text Uuid7", "text i64", "tagged Uuid7", "uuid Uuid7"]
        .iter()
        .zip(COLOURS)
    {
        for (what, width) in [("seal", 3), ("open", 1)] {
            let points = [1, 8, 64, 1_000].map(|at_once| {
                let name = format!("{resource}: {what} {at_once} at once");
                let found = results.iter().find(|(case, _)| *case == name);
                (
                    f64::from(at_once),
                    found.map_or(f64::NAN, |(_, nanoseconds)| *nanoseconds),
                )
            });
            let style = colour.stroke_width(width);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(format!("{resource}: {what}"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 14, &TEXT))
        .draw()?;
    Ok(area.present()?)
}

/// From key to text and back, a bar per library.
fn peers() -> Result {
    // Rows count from below.
    let mut results = results("peers")?;
    results.reverse();
    let height = 24 * u32::try_from(results.len())? + 60;
    let svg = path("../docs/performance/peers.svg");
    let area = SVGBackend::new(&svg, (SIZE.0, height)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(260)
        .build_cartesian_2d(
            (1.0..10_000.0).log_scale(),
            (0..results.len() - 1).into_segmented(),
        )?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 14, &TEXT))
        .y_labels(results.len())
        .x_desc("ns per id")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|row| match row {
            SegmentValue::CenterOf(row) => results[*row].0.clone(),
            _ => String::new(),
        })
        .draw()?;
    chart.draw_series(
        results
            .iter()
            .enumerate()
            .map(|(row, (name, nanoseconds))| {
                let corners = [
                    (1.0, SegmentValue::Exact(row)),
                    (*nanoseconds, SegmentValue::Exact(row + 1)),
                ];
                let colour = COLOURS[usize::from(!name.starts_with("opaque-id"))];
                let mut bar = Rectangle::new(corners, colour.filled());
                bar.set_margin(4, 4, 0, 0);
                bar
            }),
    )?;
    Ok(area.present()?)
}
