//! The plot of `packs tune`: ratios by the size of packs, in SVG.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::measure::{Layout, Measurement, PACK_BYTES, Report};
use super::{Column, find, ratios};

const SIZE: (u32, u32) = (1_100, 460);

/// The color of lines and text. It is legible on white and on black, because the background is transparent.
const INK: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// The colors from the least to the most. They differ in lightness as well as in hue.
const COLORS: [RGBColor; 5] = [
    RGBColor(0x99, 0x99, 0x99),
    RGBColor(0xd9, 0x8e, 0x04),
    RGBColor(0xd1, 0x4b, 0x7d),
    RGBColor(0x3b, 0x7d, 0xd8),
    RGBColor(0x1a, 0x9e, 0x6e),
];

/// Draws the ratio by the size of packs: on the left a line per dictionary, on the right one per level.
pub(super) fn draw(report: &Report) -> Result<String, Box<dyn Error>> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        let ratios = ratios(report, |level| level.to_string());
        for (area, (title, lines)) in [left, right].iter().zip(ratios) {
            chart(area, report, &title, &lines)?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// Draws a line for each level and dictionary, and a circle around the recommendation.
fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    report: &Report,
    title: &str,
    lines: &[Column],
) -> Result<(), Box<dyn Error>> {
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let layouts: Vec<_> = [Layout::Rows].into_iter().chain(PACK_BYTES.map(Layout::Packs)).collect();
    let ratios = report.measurements.iter().map(Measurement::ratio);
    let highest = ratios.fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, text(18))
        .margin(14)
        .margin_right(28)
        .x_label_area_size(30)
        .y_label_area_size(40)
        .build_cartesian_2d(0..PACK_BYTES.len(), 0.0..highest * 1.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.3))
        .axis_style(INK)
        .label_style(text(14))
        .x_labels(layouts.len())
        .x_label_formatter(&|x| match layouts.get(*x) {
            Some(Layout::Packs(bytes)) => format!("{:.1} kB", *bytes as f64 / 1e3),
            _ => "one row".to_owned(),
        })
        .y_label_formatter(&|y| format!("{y:.1}"))
        .draw()?;
    for ((name, level, dictionary), color) in lines.iter().zip(COLORS) {
        let found = |layout| find(report, layout, *level, *dictionary);
        let points = layouts.iter().enumerate();
        let points: Vec<_> = points.filter_map(|(x, layout)| Some((x, found(*layout)?))).collect();
        if points.is_empty() {
            continue;
        }
        let line = points.iter().map(|(x, found)| (*x, found.ratio()));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        let best = points.iter().filter(|(_, found)| **found == report.recommendation.packs);
        let circle = |(x, found): &(usize, &Measurement)| {
            Circle::new((*x, found.ratio()), 8, INK.stroke_width(2))
        };
        chart.draw_series(best.map(circle))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .border_style(INK.mix(0.3))
        .label_font(text(14))
        .draw()?;
    Ok(())
}
