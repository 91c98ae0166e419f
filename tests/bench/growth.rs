//! How each cost grows: the exponent between neighbouring sizes. One is a straight line, two a square; a cost with a
//! constant part stays below one. Computes from figures; measures nothing.

use crate::figure::{Cost, Figure, Figures, Size, Subject};

/// The tolerance for noise in the exponent of a straight line.
const TOLERANCE: f64 = 0.1;

/// One cost of one program, between its two largest sizes.
pub(crate) struct Growth {
    pub(crate) workload: &'static str,
    pub(crate) subject: Subject,
    pub(crate) what: String,
    pub(crate) from: Size,
    pub(crate) to: Size,
    /// The exponent of the size in the cost.
    pub(crate) exponent: f64,
}

impl Growth {
    /// Whether no part of it grows faster than the size.
    pub(crate) fn is_linear(&self) -> bool {
        self.exponent <= 1.0 + TOLERANCE
    }

    pub(crate) fn goal() -> f64 {
        1.0 + TOLERANCE
    }
}

/// Every cost that was measured at two sizes or more.
pub(crate) fn all(figures: &Figures) -> Vec<Growth> {
    let mut growths = Vec::new();
    for larger in figures.iter().filter(|figure| figure.cost.is_some()) {
        let mut same = figures.iter().filter(|figure| is_same(figure, larger));
        if same.any(|figure| figure.key.size > larger.key.size) {
            continue;
        }
        let smaller = figures
            .iter()
            .filter(|figure| is_same(figure, larger) && figure.key.size < larger.key.size)
            .max_by_key(|figure| figure.key.size);
        let Some(smaller) = smaller else { continue };
        let (low, high) = (smaller.median(), larger.median());
        if low <= 0.0 || high <= 0.0 {
            continue;
        }
        let sizes = larger.key.size.count() as f64 / smaller.key.size.count().max(1) as f64;
        growths.push(Growth {
            workload: larger.key.workload,
            subject: larger.key.subject,
            what: larger.key.what.clone(),
            from: smaller.key.size,
            to: larger.key.size,
            exponent: (high / low).ln() / sizes.ln(),
        });
    }
    growths
}

/// The figures of one cost at two sizes or more that grow in the same unit.
pub(crate) fn of_cost(figures: &Figures, cost: Cost, unit: &str) -> Vec<Figure> {
    let of_it = |figure: &&Figure| figure.cost == Some(cost) && figure.key.size.unit() == unit;
    let found: Vec<&Figure> = figures.iter().filter(of_it).collect();
    let grows = |figure: &&&Figure| {
        found
            .iter()
            .any(|other| is_same(other, figure) && other.key.size != figure.key.size)
    };
    found.iter().filter(grows).copied().cloned().collect()
}

fn is_same(one: &Figure, other: &Figure) -> bool {
    one.key.workload == other.key.workload
        && one.key.subject == other.key.subject
        && one.key.what == other.key.what
        && one.key.size.is_like(other.key.size)
}
