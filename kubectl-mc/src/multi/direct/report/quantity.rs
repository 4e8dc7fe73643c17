//! Parses amounts of CPU and memory in Kubernetes notation (apimachinery `resource.Quantity`): `100m`,
//! `1536Ki`, `12e3`.

/// An exact amount in billionths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Quantity(i128);

impl Quantity {
    /// Returns `None` for text that is not an amount, and for amounts finer than a billionth or larger than
    /// any cluster.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c)).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let factor = factor(suffix)?;
        let scaled = digits.checked_mul(factor)?;
        let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        (scaled % divisor == 0).then_some(Self(scaled / divisor))
    }

    #[must_use]
    pub(super) fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// In thousandths, rounded up.
    pub(super) fn millis(self) -> i128 {
        ceil(self.0, BILLION / 1000)
    }

    /// In whole units, rounded up.
    pub(super) fn value(self) -> i128 {
        ceil(self.0, BILLION)
    }
}

/// The factor of a suffix, in billionths.
fn factor(suffix: &str) -> Option<i128> {
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|exponent| !exponent.is_empty()) {
        let exponent: i32 = exponent.parse().ok()?;
        return 10_i128.checked_pow(u32::try_from(exponent.checked_add(9)?).ok()?);
    }
    let decimal = |power| Some(10_i128.pow(power));
    let binary = |power| Some(BILLION << power);
    match suffix {
        "n" => decimal(0),
        "u" => decimal(3),
        "m" => decimal(6),
        "" => decimal(9),
        "k" => decimal(12),
        "M" => decimal(15),
        "G" => decimal(18),
        "T" => decimal(21),
        "P" => decimal(24),
        "E" => decimal(27),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => None,
    }
}

fn ceil(amount: i128, unit: i128) -> i128 {
    amount.div_euclid(unit) + i128::from(amount.rem_euclid(unit) != 0)
}

const BILLION: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_as_in_kubernetes() {
        for (text, millis, value) in [
            ("0", 0, 0),
            ("100m", 100, 1),
            ("1", 1000, 1),
            ("1.5", 1500, 2),
            ("123456789n", 124, 1),
            ("999u", 1, 1),
            ("1536Ki", 1_572_864_000, 1_572_864),
            ("0.5Gi", 536_870_912_000, 536_870_912),
            ("2e3", 2_000_000, 2000),
            ("12E-1", 1200, 2),
            ("3E", 3_000_000_000_000_000_000_000, 3_000_000_000_000_000_000),
        ] {
            let quantity = Quantity::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((quantity.millis(), quantity.value()), (millis, value), "{text}");
        }
    }

    #[test]
    fn other_text_is_not_a_quantity() {
        for text in
            ["", "m", "1x", "1 Gi", "--1", "0.1n", "1e99", "1e2147483647", "9999999999999999999999999E"]
        {
            assert_eq!(Quantity::parse(text), None, "{text}");
        }
    }
}
