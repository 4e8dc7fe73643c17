use serde_json::json;

use super::*;

#[test]
fn expired_members_are_distinguished_from_healthy_ones() {
    let cluster = |reason: &str| {
        json!({"status": {"conditions": [
            {"type": "Ready", "reason": "Expired"}, {"type": "CredentialValid", "reason": reason},
        ]}})
    };
    assert!(needs_tokens(&cluster("Expired")) && needs_tokens(&cluster("ManagerExpired")));
    assert!(!needs_tokens(&cluster("Accepted")) && !needs_tokens(&cluster("ClientCertificate")));
    assert!(!needs_tokens(&json!({})));
    let connected =
        |status: &str| json!({"status": {"conditions": [{"type": "Connected", "status": status}]}});
    assert_eq!(need(&connected("False")), Some(Need::Agent));
    assert_eq!(need(&connected("True")), None);
    assert_eq!(need(&cluster("Expired")), Some(Need::Tokens));
}
