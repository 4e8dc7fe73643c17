//! Requests to the fleet view, without members.

use kubectl_mc_api::path::CLUSTERS_PATH;

use super::*;

async fn answer_of(fleet: bool, user: &str, method: Method, path: &str) -> (StatusCode, String) {
    let (services, _) = app(Flags { fleet, ..Flags::default() }, &front_proxy());
    let path = format!("{CLUSTERS_PATH}/{path}");
    let login = ("authorization", &*format!("Bearer {user}"));
    let (status, _, body) =
        send_as(&services, &stranger(), Version::HTTP_11, method, &path, Some(login)).await;
    let message = serde_json::from_str::<Value>(&body).map(|status| status["message"].clone());
    (status, message.ok().and_then(|message| Some(message.as_str()?.to_owned())).unwrap_or(body))
}

#[tokio::test]
async fn view_is_off_by_default() {
    for star in ["*", "%2A"] {
        let path = format!("{star}/proxy/api/v1/namespaces/shop_m1/pods");
        let (status, message) = answer_of(false, "jane", Method::GET, &path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let expected =
            format!("invalid cluster name {star:?}: only lower case letters, digits and '-' are allowed");
        assert_eq!(message, expected);
    }
}

#[tokio::test]
async fn right_to_the_view_opens_no_member() {
    for (method, path) in [
        (Method::GET, "api/v1/namespaces/shop_m1/pods"),
        (Method::GET, "api/v1/nodes/n_m1"),
        (Method::GET, "api/v1/pods?fieldSelector=spec.nodeName%3Dn_m1"),
        (Method::GET, "api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn_m1"),
        (Method::DELETE, "api/v1/namespaces/shop_m1"),
    ] {
        let (status, message) = answer_of(true, "star", method.clone(), &format!("*/proxy/{path}")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
        assert!(message.contains(r#""m1" is forbidden"#), "{message}");
        let (_, of_other) =
            answer_of(true, "star", method, &format!("*/proxy/{}", path.replace("m1", "m9"))).await;
        assert_eq!(message.replace("m1", "m9"), of_other, "an unknown member has another answer");
    }
}

#[tokio::test]
async fn read_of_the_view_needs_the_name_star() {
    for path in ["api/v1/pods", "api/v1/pods?watch=1", "apis", "api/v1/namespaces/shop/pods/a"] {
        let (status, message) = answer_of(true, "bob", Method::GET, &format!("*/proxy/{path}")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{path}");
        assert!(message.contains(r#""*" is forbidden"#) || message.contains("\"*\""), "{message}");
    }
    let (status, _) = answer_of(true, "star", Method::GET, "*/proxy/api/v1/pods").await;
    assert_eq!(status, StatusCode::OK, "there are no members");
}

#[tokio::test]
async fn write_without_a_member_is_refused() {
    let (status, message) =
        answer_of(true, "jane", Method::DELETE, "*/proxy/api/v1/namespaces/shop/pods/a").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(message.contains("<namespace>_<member>"), "{message}");
    let (status, _) = answer_of(true, "jane", Method::DELETE, "*/proxy/api/v1/namespaces/shop/pods").await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
    let (status, _) =
        answer_of(true, "jane", Method::GET, "*/proxy/api/v1/watch/namespaces/shop_m1/pods").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}
