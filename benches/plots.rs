//! Draws docs/performance/*.svg of benches/results/*.csv: colors that are readable on white and on black, and no
//! background.

use std::collections::BTreeMap;
use std::fs;

use opaque_id_benches::Result;
use plotters::coord::CoordTranslate;
use plotters::coord::ranged1d::ValueFormatter;
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

type Chart<'a, C> = ChartContext<'a, SVGBackend<'a>, C>;

/// Draws the axes of lines.
fn axes<X, Y>(chart: &mut Chart<'_, Cartesian2d<X, Y>>, x: &str, y: &str) -> Result
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .axis_style(TEXT)
        .bold_line_style(TEXT.mix(0.3))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 14, &TEXT))
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&f64::to_string)
        .draw()?;
    Ok(())
}

fn legend<C: CoordTranslate>(chart: &mut Chart<'_, C>, position: SeriesLabelPosition) -> Result {
    chart
        .configure_series_labels()
        .position(position)
        .label_font(("sans-serif", 14, &TEXT))
        .draw()?;
    Ok(())
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
    axes(&mut chart, "ids at once", "ns per id")?;
    for (resource, color) in
        ["text Uuid7", "text i64", "tagged Uuid7", "uuid Uuid7"].iter().zip(COLORS)
    {
        for (what, width) in [("seal", 3), ("open", 1)] {
            let points = [1, 8, 64, 1_000].map(|at_once| {
                let name = format!("{resource}: {what} {at_once} at once");
                let found = results.iter().find(|(case, _)| *case == name);
                (f64::from(at_once), found.map_or(f64::NAN, |(_, nanoseconds)| *nanoseconds))
            });
            let style = color.stroke_width(width);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(format!("{resource}: {what}"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)?;
    Ok(area.present()?)
}

/// Reads per second of a server with little memory, by the copies of the rows that it has.
fn packs() -> Result {
    let text = fs::read_to_string(path("results/packs.csv"))?;
    let points = |group: &str, table: &str| -> Vec<(f64, f64)> {
        let point = |line: &str| {
            let cells: Vec<_> = line.split(',').collect();
            let [found, copies, case, value, "encrypted", ..] = cells[..] else {
                return None;
            };
            let is_asked = (found, case) == (group, table);
            is_asked.then_some((copies.parse().ok()?, value.parse().ok()?))
        };
        text.lines().filter_map(point).collect()
    };
    let tables = ["encrypted", "dictionary", "inline", "large"];
    let all = points("memory point reads", tables[0]);
    let most = all.last().ok_or("packs.csv has no reads in little memory")?.0;
    let svg = path("../docs/performance/packs.svg");
    let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((1.0..most).log_scale(), (0.03..100_000.0).log_scale())?;
    axes(&mut chart, "copies of the rows", "reads per second")?;
    for (table, color) in tables.iter().zip(COLORS) {
        for (what, width) in [("point reads", 3), ("ranges", 1)] {
            let style = color.stroke_width(width);
            let points = points(&format!("memory {what}"), table);
            chart
                .draw_series(LineSeries::new(points, style))?
                .label(format!("{table}: {what}"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
    }
    legend(&mut chart, SeriesLabelPosition::LowerLeft)?;
    Ok(area.present()?)
}

/// The kinds of keys whose lines have the same color, by how their cases' names begin.
const CLASSES: [(&str, &[&str]); 4] = [
    (
        "in order: auto-increment, UUIDv7, ULID, structured, 64-bit",
        &["auto-increment", "UUIDv7", "ULID", "structured", "64-bit id"],
    ),
    ("random: UUIDv4 in 36, 22 and 16 bytes", &["UUIDv4"]),
    ("pseudo-ordered", &["pseudo-ordered"]),
    ("mapping", &["mapping"]),
];

/// Turns whose mean is a point of a line: a server that writes in bursts alternates between fast and slow ones.
const SMOOTHED: usize = 8;

/// Rows per second over time, a line per kind of key.
fn insert_rates(run: &str) -> Result {
    let text = fs::read_to_string(path(&format!("results/{run}.csv")))?;
    let mut lines = BTreeMap::<_, Vec<(f64, f64)>>::new();
    for line in text.lines().skip(1) {
        let [name, seconds, rate] = line.split(',').collect::<Vec<_>>()[..] else {
            return Err(format!("{run}: expected three cells, found `{line}`").into());
        };
        lines.entry(name).or_default().push((seconds.parse()?, rate.parse()?));
    }
    for points in lines.values_mut() {
        let smoothed = points.windows(SMOOTHED.min(points.len())).map(|turns| {
            let sum: f64 = turns.iter().map(|(_, rate)| rate).sum();
            (turns[turns.len() / 2].0, sum / turns.len() as f64)
        });
        *points = smoothed.collect();
    }
    let points = || lines.values().flatten();
    let end = points().map(|(seconds, _)| *seconds).fold(1.0, f64::max);
    let most = points().map(|(_, rate)| *rate).fold(1.0, f64::max);
    let least = points().map(|(_, rate)| *rate).fold(most, f64::min);
    let svg = path(&format!("../docs/performance/{run}.svg"));
    let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
    // The legend is below the lines.
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, (least / 10.0..most * 2.0).log_scale())?;
    axes(&mut chart, "seconds", "rows per second")?;
    for ((class, names), color) in CLASSES.iter().zip(COLORS) {
        let style = color.stroke_width(2);
        let is_of_class = |name: &str| names.iter().any(|start| name.starts_with(start));
        let of_class = lines.iter().filter(|(name, _)| is_of_class(name));
        for (i, (_, points)) in of_class.enumerate() {
            let series = chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
            if i == 0 {
                series
                    .label(*class)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
            }
        }
    }
    legend(&mut chart, SeriesLabelPosition::LowerLeft)?;
    Ok(area.present()?)
}
