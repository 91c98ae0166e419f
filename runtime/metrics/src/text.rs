//! The two text formats of a scrape: OpenMetrics, as prometheus-client writes it, and Prometheus' classic format, which
//! Go's managers serve unless they are asked for another one. Measures nothing.

use std::fmt::{self, Write as _};

use prometheus_client::encoding::text::encode as encode_open_metrics;
use prometheus_client::registry::Registry;

/// A text format of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Classic,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The value of the response's `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// The format for a request with this `Accept` header: OpenMetrics only where it is named and the classic format is
    /// not accepted at all. Prometheus accepts both and prefers OpenMetrics, but gets what Go's managers serve it: the
    /// bounds of buckets are written differently in OpenMetrics, so that their series would change their labels.
    pub fn accepted(accept: Option<&str>) -> Format {
        let accepts = |media_type: &str| {
            let mut ranges = accept.unwrap_or_default().split(',');
            ranges.any(|range| weight(range, media_type).is_some_and(|weight| weight > 0.0))
        };
        let takes_classic = ["text/plain", "text/*", "*/*"].into_iter().any(accepts);
        match accepts("application/openmetrics-text") && !takes_classic {
            true => Format::OpenMetrics,
            false => Format::Classic,
        }
    }
}

/// The weight of a media range of an `Accept` header if it names `media_type`.
fn weight(range: &str, media_type: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(media_type) {
        return None;
    }
    let weight = parts.find_map(|part| part.strip_prefix("q="));
    Some(weight.map_or(1.0, |weight| weight.trim().parse().unwrap_or(0.0)))
}

/// Writes all metrics of `registry`.
///
/// # Errors
/// A collector failed to write.
pub fn encode(registry: &Registry, format: Format) -> Result<String, fmt::Error> {
    let mut text = String::new();
    encode_open_metrics(&mut text, registry)?;
    match format {
        Format::OpenMetrics => Ok(text),
        Format::Classic => classic(&text),
    }
}

/// Translates OpenMetrics: counters are named with their suffix in `HELP` and `TYPE` too, units and the end mark do
/// not exist, and bucket bounds are written as Go writes them, so that a series keeps its labels when it comes from
/// this program instead of a Go binary.
fn classic(open_metrics: &str) -> Result<String, fmt::Error> {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "gaugehistogram" => ("", "histogram"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, help)) = help.take_if(|(of, _)| *of == name) {
                writeln!(text, "# HELP {name}{suffix} {help}")?;
            }
            writeln!(text, "# TYPE {name}{suffix} {kind}")?;
        } else if !line.starts_with('#') {
            sample(&mut text, line)?;
        }
    }
    Ok(text)
}

fn sample(text: &mut String, line: &str) -> fmt::Result {
    // Label values can contain anything; the first brace always opens the labels.
    let bound = line
        .split_once('{')
        .filter(|(name, _)| name.ends_with("_bucket"))
        .and_then(|(name, labels)| Some((name, labels.strip_prefix("le=\"")?)))
        .and_then(|(name, labels)| Some((name, labels.split_once('"')?)));
    match bound {
        Some((name, (bound, rest))) => {
            writeln!(text, "{name}{{le=\"{}\"{rest}", go_float(bound))
        }
        None => writeln!(text, "{line}"),
    }
}

/// A number as Go's `strconv.FormatFloat(…, 'g', -1, 64)` writes it: `1`, `0.5`, `1e-08`, `1.048576e+06`.
fn go_float(text: &str) -> String {
    let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return text.to_owned();
    };
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    match exponent {
        -4..6 => number.to_string(),
        _ => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}
