//! Determines which texts need quotes, by libyaml's analysis of scalars and the words and numbers of YAML
//! 1.1.

use jiff::civil::Date;

/// The allowed styles of a text.
#[derive(Debug, PartialEq)]
pub(super) struct Styles {
    pub(super) plain: bool,
    pub(super) single_quoted: bool,
    pub(super) block: bool,
}

impl Styles {
    /// The same as libyaml's `yaml_emitter_analyze_scalar`.
    pub(super) fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { plain: true, single_quoted: true, block: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) = (false, false, false, false);
        let (mut after_blank, mut after_space, mut after_break) = (true, false, false);
        let mut rest = text.chars().enumerate().peekable();
        while let Some((at, c)) = rest.next() {
            let blank_follows = rest.peek().is_none_or(|(_, next)| matches!(next, ' ' | '\t'));
            indicators |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`'
                    if at == 0 =>
                {
                    true
                }
                '?' | '-' if at == 0 => blank_follows,
                ':' => blank_follows,
                '#' => after_blank,
                _ => false,
            };
            special |= !is_printable(c);
            break_space |= c == ' ' && after_break;
            space_break |= is_break(c) && after_space;
            breaks |= is_break(c);
            (after_space, after_break) = (c == ' ', is_break(c));
            after_blank = matches!(c, ' ' | '\t' | '\0') || is_break(c);
        }
        let ends = |end: fn(char) -> bool| text.starts_with(end) || text.ends_with(end);
        let trailing_space = text.ends_with(' ');
        let odd = break_space || space_break || special;
        Self {
            plain: !(indicators || breaks || odd || ends(|c| c == ' ' || is_break(c))),
            single_quoted: !odd,
            block: !(trailing_space || space_break || special),
        }
    }
}

/// Whether plain text would be parsed as another type than a string.
pub(super) fn is_no_string(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return true };
    match first {
        'y' | 'Y' | 'n' | 'N' | 't' | 'T' | 'f' | 'F' | 'o' | 'O' | '~' => WORDS.contains(&text),
        '.' => WORDS.contains(&text) || is_go_float(text),
        '+' | '-' | '0'..='9' => {
            let digits = text.replace('_', "");
            WORDS.contains(&text)
                || is_timestamp(text)
                || is_integer(&digits)
                || is_float(&digits)
                || is_base_60(text)
        }
        _ => false,
    }
}

/// Whether a character needs an escape inside double quotes.
pub(super) fn needs_escape(c: char) -> bool {
    !is_printable(c) || is_break(c) || matches!(c, '"' | '\\')
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The same as Go's `strconv.ParseInt` or `ParseUint` with base 0, and binary numbers.
fn is_integer(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'o', ..] => (&lower[2..], 8),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', _, ..] => (&lower[1..], 8),
        _ => (lower.as_str(), 10),
    };
    // A sign after the prefix is not part of a number.
    if digits.starts_with(['+', '-']) {
        return false;
    }
    let Ok(value) = u64::from_str_radix(digits, radix) else { return false };
    // ParseUint accepts no sign.
    match text.as_bytes().first() {
        Some(b'-') => value <= 1 << 63,
        Some(b'+') => value < 1 << 63,
        _ => true,
    }
}

/// Matches `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$` in the range of a float.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned
        .split_once(['e', 'E'])
        .map_or((unsigned, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits =
        all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    mantissa_fits && exponent_fits && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// The same as Go's `strconv.ParseFloat` for text that begins with a point.
fn is_go_float(text: &str) -> bool {
    is_float(text)
}

/// Matches `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let (sixties, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut parts = sixties.split(':');
    let first = parts.next().unwrap_or_default();
    let mut more = false;
    let rest = parts.all(|part| {
        more = true;
        matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9'])
    });
    first.starts_with(|c: char| c.is_ascii_digit()) && digits(first) && rest && more && digits(fraction)
}

/// The four timestamp formats of go-yaml.
fn is_timestamp(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let Some((month, rest)) = rest.split_once('-') else { return false };
    let day_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, time) = rest.split_at(day_end);
    let number = |text: &str, least: usize, most: usize| {
        let fits = (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        fits.then(|| text.parse::<i16>().ok()).flatten()
    };
    let (Some(year), Some(month), Some(day)) = (number(year, 4, 4), number(month, 1, 2), number(day, 1, 2))
    else {
        return false;
    };
    let date =
        |month: i16, day: i16| Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok();
    if date(month, day).is_none() {
        return false;
    }
    if time.is_empty() {
        return true;
    }
    let (Some(separator), Some(time)) = (time.chars().next(), time.get(1..)) else { return false };
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock.split_once(['.', ',']).map_or((clock, None), |(clock, f)| (clock, Some(f)));
    let parts: Vec<_> = clock.split(':').map(|part| number(part, 1, 2)).collect();
    let clock_fits = matches!(parts.as_slice(), [Some(0..=23), Some(0..=59), Some(0..=59)])
        && fraction
            .is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let zone_fits = zone == "Z"
        || zone.get(1..).and_then(|zone| zone.split_once(':')).is_some_and(|(hours, minutes)| {
            matches!((number(hours, 2, 2), number(minutes, 2, 2)), (Some(0..=24), Some(0..=60)))
        });
    clock_fits
        && match separator {
            'T' | 't' => zone_fits,
            ' ' => zone.is_empty(),
            _ => false,
        }
}

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
    "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF",
    "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
];
