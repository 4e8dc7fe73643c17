//! Parses the value of `--hub`: the project of the host's hub.

use std::str::FromStr;

use kubectl_mc_api::dialect::{Dialect, InvalidDialect};
use serde::{Deserialize, Deserializer};

/// The value of the flag.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum HubChoice {
    /// kubectl-mc's own sidecar, or else the hub that the host serves.
    #[default]
    Auto,
    Is(Dialect),
    /// The hub that this command found on its host; `Auto` for any other host.
    Found(FoundHub),
}

/// The hub of another project that a host serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FoundHub {
    /// The server of the host in the kubeconfig.
    pub(crate) server: String,
    pub(crate) dialect: Dialect,
}

impl HubChoice {
    pub(crate) const OWN: Self = Self::Is(Dialect::Own);

    /// The accepted values, except for the syntax of a template.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        [AUTO, "own"]
            .into_iter()
            .chain(Dialect::HUBS.iter().chain(&Dialect::NAMED).map(Dialect::word))
            .chain([TEMPLATE])
    }
}

impl FromStr for HubChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == AUTO {
            return Ok(Self::Auto);
        }
        text.parse().map(Self::Is).map_err(|error| match error {
            InvalidDialect::Unknown(_) => {
                format!("expected one of {}/PATH/{{cluster}}", Self::words().collect::<Vec<_>>().join(", "))
            }
            error @ InvalidDialect::Namespace => error.to_string(),
            InvalidDialect::Template(error) => error.to_string(),
        })
    }
}

impl<'de> Deserialize<'de> for HubChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

const AUTO: &str = "auto";
const TEMPLATE: &str = "template=";
