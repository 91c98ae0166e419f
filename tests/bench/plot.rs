//! Plots as SVG: one for each workload, and one for each cost over the sizes. Chooses and draws; computes nothing.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::figure::{Cost, Figure, Figures, number};
use crate::{growth, initial};

/// The subject of the plots of growth, in place of a workload.
pub(crate) const GROWTH: &str = "growth";

const WIDTH: u32 = 860;
/// Height of a plot with lines, and of a bar.
const HEIGHT: u32 = 420;
const BAR: u32 = 26;
/// Height above and below the bars together.
const FRAME: u32 = 110;
const FONT: (&str, u32) = ("sans-serif", 17);

/// A plot that was written.
pub(crate) struct Drawn {
    /// The workload, or [`GROWTH`].
    pub(crate) about: String,
    pub(crate) title: String,
    pub(crate) file: String,
}

/// Draws all plots into a folder.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn draw_all(figures: &Figures, folder: &Path) -> Result<Vec<Drawn>> {
    let mut drawn = Vec::new();
    let mut workloads: Vec<&str> = figures.iter().map(|one| one.key.workload).collect();
    workloads.dedup();
    for workload in workloads {
        // W1 is drawn beside its limit.
        let is_limit = |one: &Figure| workload == "W1" && initial::is_limit(&one.key);
        let of_it = figures.iter();
        let of_it = of_it.filter(|one| one.key.workload == workload || is_limit(one));
        let shown: Vec<Figure> = of_it.filter(|one| one.is_shown).cloned().collect();
        let name = workload.to_lowercase();
        draw(&shown, workload, workload, &name, folder, &mut drawn)?;
    }
    for cost in Cost::ALL {
        for unit in ["nodes", "Services"] {
            let grown = growth::of_cost(figures, cost, unit);
            let title = format!("{} over {unit}", cost.name());
            let name = format!(
                "growth-{}-{}",
                cost.name().replace(' ', "-").to_lowercase(),
                unit.to_lowercase()
            );
            draw(&grown, GROWTH, &title, &name, folder, &mut drawn)?;
        }
    }
    Ok(drawn)
}

fn draw(
    figures: &[Figure],
    about: &str,
    title: &str,
    name: &str,
    folder: &Path,
    drawn: &mut Vec<Drawn>,
) -> Result<()> {
    let Some(first) = figures.first() else {
        return Ok(());
    };
    let lines = lines(figures);
    let has_lines = lines.iter().any(|line| line.len() > 1);
    let title = format!("{title} ({})", unit(first));
    let file = format!("{name}.svg");
    let path = folder.join(&file);
    let done = match has_lines {
        true => draw_lines(&lines, &title, &path),
        false => draw_bars(figures, &title, &path),
    };
    done.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    drawn.push(Drawn {
        about: about.to_owned(),
        title,
        file,
    });
    Ok(())
}

fn unit(figure: &Figure) -> &'static str {
    match figure.unit {
        "" => "number",
        unit => unit,
    }
}

fn named(figure: &Figure) -> String {
    format!("{}: {}", figure.key.subject.name(), figure.key.what)
}

/// The figures of one program and one name over the sizes, smallest first. A logarithmic scale has no place for zeros.
fn lines(figures: &[Figure]) -> Vec<Vec<&Figure>> {
    let mut lines: Vec<Vec<&Figure>> = Vec::new();
    for figure in figures {
        if figure.median() <= 0.0 || figure.key.size.count() == 0 {
            continue;
        }
        let same = lines.iter_mut().find(|line| {
            let key = &line[0].key;
            key.subject == figure.key.subject
                && key.what == figure.key.what
                && key.workload == figure.key.workload
                && key.size.is_like(figure.key.size)
        });
        match same {
            Some(line) => line.push(figure),
            None => lines.push(vec![figure]),
        }
    }
    for line in &mut lines {
        line.sort_by_key(|figure| figure.key.size);
    }
    lines
}

type Drawing = std::result::Result<(), Box<dyn std::error::Error>>;

/// Lines with their spreads, both axes by powers of ten.
fn draw_lines(lines: &[Vec<&Figure>], title: &str, path: &Path) -> Drawing {
    let all = || lines.iter().flatten();
    let sizes = all().map(|figure| figure.key.size.count() as f64);
    let (left, right) = ends(sizes);
    let (low, _) = ends(all().map(|figure| figure.smallest().max(f64::MIN_POSITIVE)));
    let (_, high) = ends(all().map(|figure| figure.largest()));
    let root = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(76)
        .build_cartesian_2d(
            (left * 0.8..right * 1.25).log_scale(),
            (low * 0.7..high * 1.5).log_scale(),
        )?;
    let x = all().next().map_or("", |figure| figure.key.size.unit());
    // Each line of the grid has a label, and those between 5 and 10 are too close.
    let number = |value: &f64| match begins_with_1_2_or_5(*value) {
        true => number(*value),
        false => String::new(),
    };
    chart
        .configure_mesh()
        .x_desc(x)
        .label_style(FONT)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .max_light_lines(1)
        .draw()?;
    for (place, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(place).to_rgba();
        let at = |figure: &&Figure| (figure.key.size.count() as f64, figure.median());
        chart
            .draw_series(LineSeries::new(line.iter().map(at), colour.stroke_width(2)))?
            .label(series(line))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(line.iter().map(|figure| {
            let (size, median) = at(figure);
            let low = figure.smallest().max(f64::MIN_POSITIVE);
            ErrorBar::new_vertical(size, low, median, figure.largest(), colour.filled(), 8)
        }))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 16))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Whether a positive number is 1, 2 or 5 times a power of ten.
fn begins_with_1_2_or_5(value: f64) -> bool {
    let power = 10_f64.powf((value * 1.0001).log10().floor());
    let is_near = |digit: f64| (value / power - digit).abs() < 0.01;
    [1.0, 2.0, 5.0].into_iter().any(is_near)
}

/// The name of a line, with the workload if there are costs of several.
fn series(line: &[&Figure]) -> String {
    let first = line[0];
    match first.cost {
        Some(_) => format!("{}, {}", first.key.workload, named(first)),
        None => named(first),
    }
}

/// One bar for each figure, with its name beside it.
fn draw_bars(figures: &[Figure], title: &str, path: &Path) -> Drawing {
    let count = u32::try_from(figures.len())?;
    let (_, high) = ends(figures.iter().map(Figure::largest));
    let high = if high > 0.0 { high } else { 1.0 };
    let root = SVGBackend::new(path, (WIDTH, FRAME + BAR * count)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(42)
        .build_cartesian_2d(0.0..high * 1.05, f64::from(count)..0.0)?;
    let number = |value: &f64| number(*value);
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .label_style(FONT)
        .x_label_formatter(&number)
        .max_light_lines(1)
        .draw()?;
    for (place, figure) in figures.iter().enumerate() {
        let y = f64::from(u32::try_from(place)?);
        let colour = Palette99::pick(figure.key.subject as usize).mix(0.45);
        let bar = [(0.0, y + 0.1), (figure.median(), y + 0.9)];
        chart.draw_series([Rectangle::new(bar, colour.filled())])?;
        if figure.values.len() > 1 {
            let spread = [(figure.smallest(), y + 0.5), (figure.largest(), y + 0.5)];
            chart.draw_series([PathElement::new(spread, BLACK.stroke_width(2))])?;
        }
        let text = format!(
            "{}, {}: {} {}",
            figure.key.size,
            named(figure),
            number(&figure.median()),
            figure.unit
        );
        chart.draw_series([Text::new(text, (high * 0.01, y + 0.3), FONT)])?;
    }
    root.present()?;
    Ok(())
}

fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}
