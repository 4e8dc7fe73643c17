//! Parses the template of a line: text with `{field}`s. Nothing in it is evaluated.

use crate::error::Failure;

/// A parsed template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template(pub(super) Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Field(Field),
}

/// The origin and the content of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Cluster,
    Namespace,
    Pod,
    Container,
    Node,
    Time,
    Message,
}

impl Template {
    /// Parses a template; `{{` and `}}` are literal braces.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (brace, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            let (name, after) = match after.split_once('}') {
                Some(field) if brace == "{" => field,
                _ => return Err(invalid("a brace without its other one")),
            };
            let field = FIELDS.iter().find(|(known, _)| *known == name);
            let (_, field) = field.ok_or_else(|| invalid(&format!("no field {{{name}}}")))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Field(*field));
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
}

const FIELDS: &[(&str, Field)] = &[
    ("cluster", Field::Cluster),
    ("namespace", Field::Namespace),
    ("pod", Field::Pod),
    ("container", Field::Container),
    ("node", Field::Node),
    ("time", Field::Time),
    ("message", Field::Message),
];

fn invalid(why: &str) -> Failure {
    let names: Vec<_> = FIELDS.iter().map(|(name, _)| format!("{{{name}}}")).collect();
    Failure::usage(format!("invalid --template: {why}"))
        .with_hint(format!("the fields are {}; {{{{ and }}}} are braces", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_text_are_read() {
        let text = |text: &str| Part::Text(text.to_owned());
        let parts = |template: &str| Template::parse(template).unwrap().0;
        assert_eq!(
            parts("{cluster}/{pod}: {message}"),
            [
                Part::Field(Field::Cluster),
                text("/"),
                Part::Field(Field::Pod),
                text(": "),
                Part::Field(Field::Message)
            ]
        );
        assert_eq!(parts("{{x}} {time}"), [text("{x} "), Part::Field(Field::Time)]);
        assert_eq!(parts("žluť"), [text("žluť")]);
        assert!(parts("").is_empty());
    }

    #[test]
    fn unknown_fields_and_lone_braces_are_refused() {
        assert_eq!(Template::parse("{x}"), Err(invalid("no field {x}")));
        assert_eq!(Template::parse("{}"), Err(invalid("no field {}")));
        for lone in ["{", "}", "a } b", "{pod", "{pod {message}"] {
            assert!(Template::parse(lone).is_err(), "{lone}");
        }
    }
}
