//! Tests a credential plugin whose token expires while a command runs.

use crate::bed::Bed;

const LIST: &str = r#"{"kind": "ClusterList", "items": [{"metadata": {"name": "m1"}}]}"#;

/// The bearer tokens of the requests.
fn tokens(bed: &Bed) -> Vec<String> {
    let token = |head: String| {
        let line = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
        line.unwrap_or_default().to_owned()
    };
    bed.requests().into_iter().map(token).collect()
}

#[test]
fn expired_token_is_renewed_before_the_next_request() {
    let bed = Bed::answering((200, "application/json", LIST.to_owned()));
    bed.credential_plugin(
        "echo run >>runs; n=$(wc -l <runs)\n\
         echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\": {\"token\": \"t'$n'\", \"expirationTimestamp\": \"'$END'\"}}'",
    );
    for (end, are_renewed) in [("2020-01-01T00:00:00Z", true), ("2100-01-01T00:00:00Z", false), ("", false)] {
        let ran = bed.run_with("END", end, &["access", "list"]);
        let tokens = tokens(&bed);
        let have_token = tokens.iter().all(|token| token.starts_with('t'));
        assert!(tokens.len() > 1 && have_token, "{end:?}: {tokens:?}, {ran:?}");
        assert_eq!(tokens.windows(2).all(|pair| pair[0] != pair[1]), are_renewed, "{end:?}: {tokens:?}");
    }
}
