//! Checks redirects in a member's answer. A redirect by a program behind an inner proxy is forwarded,
//! rewritten to the member's path on the host, if it stays behind that proxy. Any other redirect would lead
//! the caller elsewhere and is an error (CVE-2022-3172). The host's aggregator forwards no redirects at all
//! (apimachinery: `util/proxy`, `RejectForwardingRedirects`).

use http::{HeaderValue, Response, header};
use kubectl_mc_api::{ClusterName, Origin};

use crate::head::headers;
use crate::head::request_info::MemberPath;
use crate::identity::authentication::By;
use crate::outbound::upstream::Error;

/// Removes the headers that are not for the caller, and rewrites a redirect.
///
/// # Errors
///
/// The same as those of [`checked`].
pub fn clean<B>(
    response: &mut Response<B>,
    group: Origin,
    cluster: &ClusterName,
    requested: &MemberPath,
    by: By,
) -> Result<(), Error> {
    let location = checked(response, group, cluster, requested, by)?;
    headers::clean_response(response.headers_mut(), requested.is_inner_proxy());
    if let Some(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(())
}

/// The `Location` for the caller, if the answer is a redirect.
///
/// # Errors
///
/// The redirect leaves the program, or the caller would not receive it.
fn checked<B>(
    response: &Response<B>,
    group: Origin,
    cluster: &ClusterName,
    requested: &MemberPath,
    by: By,
) -> Result<Option<HeaderValue>, Error> {
    let status = response.status();
    let Some(location) = response.headers().get(header::LOCATION).filter(|_| status.is_redirection()) else {
        return Ok(None);
    };
    let within = within(requested, location).map(|location| group.member_root(cluster) + location);
    let Some(location) = within else {
        return Err(Error::Redirect { cluster: cluster.clone(), status });
    };
    if by == By::RequestHeader {
        return Err(Error::RedirectPastHost { cluster: cluster.clone(), status, location });
    }
    Ok(HeaderValue::try_from(location).ok())
}

/// The redirect's target, if it is a path of the same program.
fn within<'a>(requested: &MemberPath, location: &'a HeaderValue) -> Option<&'a str> {
    // A kube-apiserver has already removed its own scheme and host (apimachinery: `util/proxy/transport.go`).
    let target = location.to_str().ok()?;
    let path = target.split(['?', '#']).next()?;
    let path = MemberPath::parse(path.strip_prefix('/')?).ok()?;
    (path.program()? == requested.program()?).then_some(target)
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    const UI: &str = "api/v1/namespaces/shop/services/https:web:443/proxy";

    fn location_of(requested: &str, location: &str, by: By) -> Result<Option<String>, Error> {
        let response = Response::builder().status(StatusCode::FOUND).header(header::LOCATION, location);
        let requested = MemberPath::parse(requested).unwrap();
        let found = checked(
            &response.body(()).unwrap(),
            Origin::MemberCluster,
            &"m1".parse().unwrap(),
            &requested,
            by,
        )?;
        Ok(found.map(|location| location.to_str().unwrap().to_owned()))
    }

    #[test]
    fn redirect_within_the_program_leads_to_its_path_here() {
        let root = "/apis/proxy.kubectl-mc.dev/v1alpha1/clusters/m1/proxy";
        for requested in [UI.to_owned(), format!("{UI}/"), format!("{UI}/old?x=%2F"), UI.replace(':', "%3A")]
        {
            for target in ["/", "/login?next=%2Fa#top", "/a/%2e%2fb"] {
                let location = format!("/{UI}{target}");
                match location_of(&requested, &location, By::Token) {
                    Ok(Some(found)) => assert_eq!(found, format!("{root}{location}")),
                    Err(Error::Redirect { .. }) if target.contains("%2e") => {}
                    other => panic!("{requested} {location}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn redirect_out_of_the_program_is_an_error() {
        let other_program = format!("/{}/", UI.replace("web", "db"));
        let dots = format!("/{UI}/../../secrets");
        let escaped_dots = format!("/{UI}/%2e%2e/secrets");
        let longer = format!("/{UI}x/");
        for location in [
            "https://elsewhere.example/",
            "//elsewhere.example/",
            "/\\elsewhere.example/",
            "login",
            "?next",
            "",
            "/",
            "/login",
            "/api/v1/namespaces/shop/secrets",
            other_program.as_str(),
            &dots,
            &escaped_dots,
            &longer,
        ] {
            let error = location_of(UI, location, By::Token).unwrap_err();
            assert!(matches!(error, Error::Redirect { .. }), "{location}: {error}");
        }
        let of_the_api = location_of("api/v1/nodes", "/api/v1/nodes/", By::Token).unwrap_err();
        assert!(matches!(of_the_api, Error::Redirect { .. }));
    }

    #[test]
    fn error_through_the_host_names_the_path() {
        let error = location_of(UI, &format!("/{UI}/login"), By::RequestHeader).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("clusters/m1/proxy/{UI}/login")) && text.contains("host"), "{text}");
    }

    #[test]
    fn other_answers_have_no_location() {
        let response =
            Response::builder().header(header::LOCATION, "https://elsewhere.example/").body(()).unwrap();
        let requested = MemberPath::parse(UI).unwrap();
        assert_eq!(
            checked(&response, Origin::MemberCluster, &"m1".parse().unwrap(), &requested, By::Token).unwrap(),
            None
        );
    }
}
