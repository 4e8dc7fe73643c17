//! Parses label selectors (apimachinery: `labels/selector.go`, the grammar above `Parse`).

use std::collections::BTreeSet;

use kubectl_mc_api::is_subdomain;

use super::Labels;

/// Requirements on a cluster's labels. All of them must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::endpoints::clusters) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    /// Also matches a cluster without the label.
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    pub(in crate::endpoints::clusters) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        if parser.peek() == Token::End {
            return Ok(Self(requirements));
        }
        loop {
            requirements.push(
                parser.requirement().map_err(|reason| format!("unable to parse requirement: {reason}"))?,
            );
            match parser.next() {
                Token::End => return Ok(Self(requirements)),
                Token::Symbol(",") => {}
                other => return Err(format!("found '{}', expected: ',' or 'end of string'", other.text())),
            }
        }
    }

    pub(super) fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let number = || value?.parse::<i64>().ok();
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(least) => number().is_some_and(|number| number > *least),
            Test::LessThan(most) => number().is_some_and(|number| number < *most),
        }
    }
}

/// A recursive-descent parser over the remaining text.
struct Parser<'a> {
    rest: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    End,
    Symbol(&'static str),
    /// A key, a value, or one of the words `in` and `notin`, depending on its position.
    Word(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::End => "",
            Self::Symbol(text) => text,
            Self::Word(text) => text,
        }
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        Parser { rest: self.rest }.next()
    }

    fn next(&mut self) -> Token<'a> {
        let rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (token, length) = if rest.is_empty() {
            (Token::End, 0)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            let end =
                rest.find([' ', '\t', '\r', '\n', '=', '!', '(', ')', ',', '>', '<']).unwrap_or(rest.len());
            (Token::Word(&rest[..end]), end)
        };
        self.rest = &rest[length..];
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.next();
        }
        let Token::Word(key) = self.next() else {
            return Err("expected: !, identifier".to_owned());
        };
        check_key(key)?;
        let test = match self.peek() {
            _ if absent => Test::DoesNotExist,
            Token::End | Token::Symbol(",") => Test::Exists,
            _ => self.comparison()?,
        };
        Ok(Requirement { key: key.to_owned(), test })
    }

    fn comparison(&mut self) -> Result<Test, String> {
        Ok(match self.next() {
            Token::Word("in") => Test::In(self.values()?),
            Token::Word("notin") => Test::NotIn(self.values()?),
            Token::Symbol("=" | "==") => Test::In(BTreeSet::from([self.value()?])),
            Token::Symbol("!=") => Test::NotIn(BTreeSet::from([self.value()?])),
            Token::Symbol(">") => Test::GreaterThan(self.number()?),
            Token::Symbol("<") => Test::LessThan(self.number()?),
            other => {
                return Err(format!("found '{}', expected: in, notin, =, ==, !=, >, <", other.text()));
            }
        })
    }

    /// Parses `(a,b)`; an empty item is the empty value. The result is a set, because a client may send very
    /// many values.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}', expected: '('", open.text()));
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(match self.peek() {
                Token::Word(_) => self.value()?,
                _ => String::new(),
            });
            match self.next() {
                Token::Symbol(",") => {}
                Token::Symbol(")") => return Ok(values),
                other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
            }
        }
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(value) => {
                self.next();
                check_value(value)?;
                Ok(value.to_owned())
            }
            Token::Symbol(other) => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value
            .parse()
            .map_err(|_| format!("'{value}': for 'Gt', 'Lt' operators, the value must be an integer"))
    }
}

/// Checks a key: a name, or a DNS subdomain, a slash and a name.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let valid = is_name(name) && prefix.is_none_or(is_subdomain);
    valid.then_some(()).ok_or_else(|| format!("invalid label key {key:?}"))
}

fn check_value(value: &str) -> Result<(), String> {
    let valid = value.is_empty() || is_name(value);
    valid.then_some(()).ok_or_else(|| format!("invalid label value {value:?}"))
}

fn is_name(name: &str) -> bool {
    let outer = |c: char| c.is_ascii_alphanumeric();
    let inner = |c: char| outer(c) || matches!(c, '-' | '_' | '.');
    name.len() <= 63 && name.chars().all(inner) && name.starts_with(outer) && name.ends_with(outer)
}

/// Longer symbols first.
const SYMBOLS: [&str; 9] = ["!=", "==", "=", "!", "(", ")", ",", ">", "<"];

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        LabelSelector::parse(selector).unwrap_or_else(|error| panic!("{selector}: {error}")).matches(&labels)
    }

    #[test]
    fn selectors_match_as_in_apimachinery() {
        let labels = [("x", "y"), ("z", "w"), ("n", "5"), ("empty", ""), ("example.com/k", "v")];
        for selector in [
            "",
            "  ",
            "x=y",
            "x==y",
            "x = y , z=w",
            "x!=z",
            "absent!=z",
            "x in (y,a)",
            "x in ( a , y )",
            "x notin (a)",
            "absent notin (a)",
            "x",
            "!absent",
            "! absent,x",
            "empty=",
            "empty=,x",
            "empty in ()",
            "empty in (,)",
            "empty in (a,,b)",
            "x notin ()",
            "n>4",
            "n<6",
            "n > 4, n < 6",
            "example.com/k=v",
            "in notin (in)",
            "!in,!notin",
        ] {
            assert!(matches(selector, &labels), "{selector}");
        }
        for selector in [
            "x=z",
            "x!=y",
            "absent=",
            "x in (a)",
            "absent in (a)",
            "x notin (y)",
            "absent",
            "!x",
            "n>5",
            "x>1",
            "empty",
        ] {
            assert_eq!(matches(selector, &labels), selector == "empty", "{selector}");
        }
        assert!(matches("in in (in,notin)", &[("in", "notin")]));
    }

    #[test]
    fn long_list_of_values_is_parsed_in_linear_time() {
        let values: Vec<_> = (0..100_000).map(|n| n.to_string()).collect();
        // CPU time of this thread, so that the load of the machine does not matter.
        let used = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec;
        let before = used();
        assert!(matches(&format!("x in ({})", values.join(",")), &[("x", "99999")]));
        // A hundred times the expected time, and a tenth of the time of a quadratic comparison.
        assert!(used() - before < 5);
    }

    #[test]
    fn invalid_selector_is_refused() {
        for selector in [
            ",",
            "x,",
            ",x",
            "x,,y",
            "x=a||y=b",
            "x==a==b",
            "!x=a",
            "!x in (a)",
            "x<a",
            "x>",
            "x in a",
            "x in (a",
            "x in",
            "x in (a b)",
            "x in (=)",
            "x y",
            "(x)",
            "!",
            "x=(",
            "a/b/c",
            "/x",
            "x/",
            "UPPER.com/x",
            "-x",
            "x=-",
            "x=ü",
            "x=a\0",
        ] {
            assert!(LabelSelector::parse(selector).is_err(), "{selector:?}");
        }
        assert!(LabelSelector::parse(&format!("x={}", "a".repeat(63))).is_ok());
        assert!(LabelSelector::parse(&format!("x={}", "a".repeat(64))).is_err());
    }
}
