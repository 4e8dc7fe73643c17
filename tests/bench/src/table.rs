//! Formats figures as Markdown, with the goal and whether it is met.

use std::fmt;

/// A Markdown table.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|&column| column.to_owned()).collect()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, row) in self.rows.iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if number == 0 {
                writeln!(f, "|{}", "---|".repeat(row.len()))?;
            }
        }
        Ok(())
    }
}

/// The goal of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    pub(crate) fn verdict(self, value: f64) -> String {
        let (sign, bound, met) = match self {
            Self::AtLeast(bound) => ('≥', bound, value >= bound),
            Self::AtMost(bound) => ('≤', bound, value <= bound),
        };
        format!("{sign} {bound}: {}", if met { "met" } else { "**not met**" })
    }

    /// A ratio with its goal.
    pub(crate) fn ratio(self, value: f64) -> String {
        format!("{value:.2} ({})", self.verdict(value))
    }
}

/// The median of some values; NaN if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// The median of some values, and their quartiles.
pub(crate) struct Spread {
    pub(crate) median: f64,
    quartiles: (f64, f64),
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values.get(values.len() * quarter / 4).copied().unwrap_or(f64::NAN);
        Self { median: median(values.iter().copied()), quartiles: (at(1), at(3)) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.quartiles;
        write!(f, "{:.2} [{low:.2}, {high:.2}]", self.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_shows_median_and_quartiles() {
        let values = (1..=9).map(f64::from);
        assert_eq!(Spread::of(values).to_string(), "5.00 [3.00, 7.00]");
    }

    #[test]
    fn median_of_an_even_count_is_the_midpoint() {
        assert!((median([3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median([4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median([]).is_nan());
    }

    #[test]
    fn goal_is_met_at_its_bound_and_never_by_nan() {
        assert_eq!(Goal::AtLeast(0.9).verdict(0.9), "≥ 0.9: met");
        assert_eq!(Goal::AtLeast(0.9).verdict(0.89), "≥ 0.9: **not met**");
        assert_eq!(Goal::AtMost(15.0).verdict(15.1), "≤ 15: **not met**");
        assert_eq!(Goal::AtMost(1.5).ratio(1.2), "1.20 (≤ 1.5: met)");
        assert_eq!(Goal::AtMost(1.5).verdict(f64::NAN), "≤ 1.5: **not met**");
    }

    #[test]
    fn table_is_formatted_as_markdown() {
        let mut table = Table::new(&["a", "b"]);
        table.row(["1".to_owned(), "2".to_owned()]);
        assert_eq!(table.to_string(), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
