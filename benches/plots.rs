//! Draws docs/performance/*.svg of benches/results/*.csv: colors that are readable on white and on black, and no
//! background.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use opaque_id_benches::Result;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (800, 420);
const TEXT: RGBColor = RGBColor(0x80, 0x80, 0x80);
const COLORS: [RGBColor; 4] = [
    RGBColor(0x2f, 0x81, 0xf7),
    RGBColor(0xe0, 0x7b, 0x24),
    RGBColor(0x2d, 0xa4, 0x4e),
    RGBColor(0xb0, 0x62, 0xe0),
];

fn main() -> Result {
    fs::create_dir_all(path("../docs/performance"))?;
    at_once()?;
    for file in fs::read_dir(path("results"))? {
        let file = file?.file_name();
        let name = file.to_str().and_then(|name| name.strip_suffix(".csv"));
        let name =
            name.filter(|name| name.starts_with("insert-rates-") && !name.ends_with("-cases"));
        name.map_or(Ok(()), insert_rates)?;
    }
    packs()
}

fn path(below: &str) -> String {
    format!("{}/{below}", env!("CARGO_MANIFEST_DIR"))
}

fn results(run: &str) -> Result<Vec<Vec<String>>> {
    let text = fs::read_to_string(path(&format!("results/{run}.csv")))?;
    let cells = |line: &str| line.split(',').map(str::to_owned).collect();
    Ok(text.lines().skip(1).map(cells).collect())
}

struct Line {
    label: Option<String>,
    color: RGBColor,
    width: u32,
    points: Vec<(f64, f64)>,
}

fn plot<X>(
    name: &str,
    (x_title, x): (&str, X),
    (y_title, y): (&str, Range<f64>),
    legend: SeriesLabelPosition,
    lines: Vec<Line>,
) -> Result
where
    X: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>,
{
    let svg = path(&format!("../docs/performance/{name}.svg"));
    let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y.log_scale())?;
    chart
        .configure_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 14, &TEXT))
        .x_desc(x_title)
        .y_desc(y_title)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&f64::to_string)
        .draw()?;
    for Line { label, color, width, points } in lines {
        let style = color.stroke_width(width);
        let series = chart.draw_series(LineSeries::new(points, style))?;
        if let Some(label) = label {
            series
                .label(label)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    chart
        .configure_series_labels()
        .position(legend)
        .label_font(("sans-serif", 14, &TEXT))
        .draw()?;
    Ok(area.present()?)
}

fn at_once() -> Result {
    let results = results("codec")?;
    let mut lines = Vec::new();
    for (resource, color) in
        ["text Uuid7", "text i64", "tagged Uuid7", "uuid Uuid7"].iter().zip(COLORS)
    {
        for (what, width) in [("seal", 3), ("open", 1)] {
            let label = format!("{resource}: {what}");
            let mut points = Vec::new();
            for at_once in [1, 8, 64, 1_000] {
                let name = format!("{label} {at_once} at once");
                let found = results.iter().find(|cells| cells[0] == name).ok_or(name)?;
                points.push((f64::from(at_once), found[2].parse()?));
            }
            lines.push(Line { label: Some(label), color, width, points });
        }
    }
    let (x, y) = (("ids at once", (1.0..1_000.0).log_scale()), ("ns per id", 2.0..400.0));
    plot("at-once", x, y, SeriesLabelPosition::UpperRight, lines)
}

fn packs() -> Result {
    let results = results("packs")?;
    let mut lines = Vec::new();
    for (table, color) in ["encrypted", "dictionary", "inline", "large"].iter().zip(COLORS) {
        for (what, width) in [("point reads", 3), ("ranges", 1)] {
            let mut points = Vec::new();
            for cells in &results {
                let is_asked = cells[0] == format!("memory {what}") && cells[2] == *table;
                // Each case is in the file once for each baseline.
                if is_asked && cells[4] == "encrypted" {
                    points.push((cells[1].parse()?, cells[3].parse()?));
                }
            }
            lines.push(Line { label: Some(format!("{table}: {what}")), color, width, points });
        }
    }
    let most = lines[0].points.last().ok_or("packs.csv has no reads in little memory")?.0;
    let x = ("copies of the rows", (1.0..most).log_scale());
    let y = ("reads per second", 0.03..100_000.0);
    plot("packs", x, y, SeriesLabelPosition::LowerLeft, lines)
}

const CLASSES: [(&str, &[&str]); 4] = [
    (
        "in order: auto-increment, UUIDv7, ULID, structured, 64-bit",
        &["auto-increment", "UUIDv7", "ULID", "structured", "64-bit id"],
    ),
    ("random: UUIDv4 in 36, 22 and 16 bytes", &["UUIDv4"]),
    ("pseudo-ordered", &["pseudo-ordered"]),
    ("mapping", &["map"]),
];

/// The mean of this many turns is a point of a line. A server that writes in bursts alternates between fast
/// and slow turns.
const SMOOTHED: usize = 8;

fn insert_rates(run: &str) -> Result {
    let mut turns = BTreeMap::<_, Vec<(f64, f64)>>::new();
    for cells in results(run)? {
        turns.entry(cells[0].clone()).or_default().push((cells[1].parse()?, cells[2].parse()?));
    }
    let mut lines = Vec::new();
    for ((class, names), color) in CLASSES.iter().zip(COLORS) {
        let is_of_class = |name: &str| names.iter().any(|start| name.starts_with(start));
        let of_class = turns.iter().filter(|(name, _)| is_of_class(name));
        for (i, (_, turns)) in of_class.enumerate() {
            let smoothed = turns.windows(SMOOTHED.min(turns.len())).map(|turns| {
                let sum: f64 = turns.iter().map(|(_, rate)| rate).sum();
                (turns[turns.len() / 2].0, sum / turns.len() as f64)
            });
            let label = (i == 0).then(|| (*class).to_owned());
            lines.push(Line { label, color, width: 2, points: smoothed.collect() });
        }
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|(seconds, _)| *seconds).fold(1.0, f64::max);
    let most = points().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let least = points().map(|(_, rate)| *rate).fold(most, f64::min);
    // The legend is below the lines.
    let y = ("rows per second", least / 10.0..most * 2.0);
    plot(run, ("seconds", 0.0..end), y, SeriesLabelPosition::LowerLeft, lines)
}
