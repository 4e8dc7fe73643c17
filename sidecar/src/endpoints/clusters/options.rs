//! Parses and validates the query of a get, list or watch (apimachinery: `ListOptions`, `GetOptions`,
//! `TableOptions` and their validation).

use std::borrow::Cow;
use std::time::Duration;

use super::continuation::Continuation;
use super::error::Error;
use super::selector::{LabelSelector, Selection};
use super::table::Include;
use super::visibility::Visible;
use crate::head::field_selector::FieldSelector;
use crate::head::query::Query;
#[cfg(test)]
use crate::head::request_info::Verb;

/// The options of a request, except its format.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) selection: Selection,
    /// `None` without `resourceVersion`; 0 is "any".
    pub(super) version: Option<u64>,
    /// For a list: exactly this version, and not a newer one.
    pub(super) exact: bool,
    pub(super) limit: Option<usize>,
    pub(super) continuation: Option<Continuation>,
    /// For a watch.
    pub(super) send_initial_events: Option<bool>,
    pub(super) bookmarks: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) include: Include,
}

impl Options {
    pub(super) fn of_get(query: Option<&str>) -> Result<Self, Error> {
        let given = Given(Query::new(query));
        Ok(Self { version: given.version()?, include: given.include()?, ..Self::default() })
    }

    pub(super) fn of_list(query: Option<&str>) -> Result<Self, Error> {
        let given = Given(Query::new(query));
        let options = given.common()?;
        let limit: i64 = given.number("limit")?.unwrap_or_default();
        // Zero or a negative number means no limit, as upstream.
        let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0);
        let continuation = given.text("continue");
        let paged = continuation.is_some();
        let exact = match given.text("resourceVersionMatch").as_deref() {
            Some(_) if options.version.is_none() => {
                return refuse("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            Some(_) if paged => return refuse("resourceVersionMatch is forbidden when continue is provided"),
            Some("Exact") if options.version == Some(0) => {
                return refuse("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            Some("Exact") => true,
            Some("NotOlderThan") => false,
            Some(other) => return refuse(format!("unsupported resourceVersionMatch: {other:?}")),
            // The meaning of a limit before `resourceVersionMatch` existed.
            None => limit.is_some() && options.version.is_some_and(|version| version > 0),
        };
        if given.text("sendInitialEvents").is_some() {
            return refuse("sendInitialEvents is forbidden for list");
        }
        if paged && options.version.is_some_and(|version| version > 0) {
            return refuse("specifying resource version is not allowed when using continue");
        }
        let continuation =
            continuation.as_deref().map(Continuation::decode).transpose().map_err(Error::BadRequest)?;
        Ok(Self { exact, limit, continuation, ..options })
    }

    pub(super) fn of_watch(query: Option<&str>) -> Result<Self, Error> {
        let given = Given(Query::new(query));
        let options = given.common()?;
        let send_initial_events = given.0.boolean("sendInitialEvents");
        match (send_initial_events, given.text("resourceVersionMatch").as_deref()) {
            (None, None) | (Some(_), Some("NotOlderThan")) => {}
            (Some(_), _) => {
                return refuse("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
            }
            (None, Some(_)) => {
                return refuse(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                );
            }
        }
        if given.text("continue").is_some() {
            return refuse("continue is forbidden for watch");
        }
        let timeout: Option<u64> = given.number("timeoutSeconds")?;
        Ok(Self {
            send_initial_events,
            bookmarks: given.0.is_set("allowWatchBookmarks"),
            timeout: timeout.filter(|seconds| *seconds > 0).map(Duration::from_secs),
            ..options
        })
    }
}

/// Whether a list or a watch with this query is valid.
#[cfg(test)]
pub(crate) fn accepts(verb: Verb, query: Option<&str>) -> bool {
    match verb {
        Verb::Watch => Options::of_watch(query).is_ok(),
        _ => Options::of_list(query).is_ok(),
    }
}

/// The parameters of a request.
struct Given<'a>(Query<'a>);

impl<'a> Given<'a> {
    /// A parameter's value; an empty value counts as absent.
    fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        self.0.first(key).filter(|value| !value.is_empty())
    }

    fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>, Error> {
        let Some(text) = self.text(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Error::BadRequest(format!("invalid {key}: {text:?}")))
    }

    fn version(&self) -> Result<Option<u64>, Error> {
        self.number("resourceVersion")
    }

    fn include(&self) -> Result<Include, Error> {
        match self.text("includeObject").as_deref() {
            None | Some("Metadata") => Ok(Include::Metadata),
            Some("None") => Ok(Include::None),
            Some("Object") => Ok(Include::Object),
            Some(other) => refuse(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                 'Metadata', 'Object', 'None', or empty"
            )),
        }
    }

    fn common(&self) -> Result<Options, Error> {
        let labels = LabelSelector::parse(&self.text("labelSelector").unwrap_or_default());
        let fields = FieldSelector::parse(&self.text("fieldSelector").unwrap_or_default());
        let selection = Selection {
            visible: Visible::All,
            labels: labels.map_err(Error::BadRequest)?,
            fields: fields.map_err(Error::BadRequest)?,
        };
        Ok(Options { selection, version: self.version()?, include: self.include()?, ..Options::default() })
    }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::BadRequest(reason.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_form_decoded() {
        let options =
            Options::of_list(Some("labelSelector=env+in%20(prod%2Cdev)&limit=5&limit=x&other=%2")).unwrap();
        let expected = LabelSelector::parse("env in (prod,dev)").unwrap();
        assert_eq!((options.selection.labels, options.limit), (expected, Some(5)));
    }

    #[test]
    fn exact_or_limited_list_has_the_requested_version() {
        for (query, exact) in [
            ("", false),
            ("resourceVersion=0&limit=1", false),
            ("resourceVersion=5", false),
            ("resourceVersion=5&limit=1", true),
            ("resourceVersion=5&resourceVersionMatch=Exact", true),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=1", false),
        ] {
            assert_eq!(Options::of_list(Some(query)).unwrap().exact, exact, "{query}");
        }
    }

    #[test]
    fn invalid_list_options_are_refused() {
        for query in [
            "limit=x",
            "resourceVersion=x",
            "resourceVersion=-1",
            "continue=x",
            "labelSelector=,",
            "fieldSelector=status.x=1",
            "includeObject=All",
            "labelSelector=%FF",
            "sendInitialEvents=true",
            "resourceVersionMatch=Exact",
            "resourceVersionMatch=Exact&resourceVersion=0",
            "resourceVersionMatch=Newest&resourceVersion=1",
            "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
            "resourceVersion=1&continue=eyJydiI6MSwiYWZ0ZXIiOiJtMSJ9",
        ] {
            assert!(matches!(Options::of_list(Some(query)), Err(Error::BadRequest(_))), "{query}");
        }
    }

    #[test]
    fn invalid_watch_options_are_refused() {
        for query in [
            "sendInitialEvents=true",
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            "resourceVersionMatch=NotOlderThan",
            "timeoutSeconds=soon",
            "timeoutSeconds=-1",
            "continue=x",
        ] {
            assert!(matches!(Options::of_watch(Some(query)), Err(Error::BadRequest(_))), "{query}");
        }
    }

    #[test]
    fn watch_options_are_parsed() {
        let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
                     &timeoutSeconds=7&resourceVersion=";
        let options = Options::of_watch(Some(query)).unwrap();
        assert_eq!(options.send_initial_events, Some(true));
        assert!(options.bookmarks);
        assert_eq!(options.timeout, Some(Duration::from_secs(7)));
        assert_eq!(options.version, None);
        assert_eq!(Options::of_watch(Some("timeoutSeconds=0")).unwrap().timeout, None);
    }
}
