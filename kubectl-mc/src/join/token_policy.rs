//! Fills in the member's policy for the manager's TokenRequests: their audiences and their lifetime. A
//! kube-apiserver adds its own audiences to a TokenRequest without any, so the first token shows them.

use std::time::Duration;

use kubectl_mc_api::names::{FLEET_GROUP, NAMESPACE};
use serde_json::{Value, json};

/// The name of the policy and of its binding in `sidecar/deploy/member.yaml`.
const NAME: &str = "kubectl-mc-manager-tokens";

/// Writes the maximum lifetime of a token into the policy.
pub(crate) fn set_longest(policy: &mut Value, life: Duration) {
    set(policy, "maxSeconds", &life.as_secs().to_string());
}

/// The maximum lifetime of a token, unless the member's administrators wrote another expression.
pub(crate) fn longest(policy: &Value) -> Option<Duration> {
    let seconds: u32 = expression(policy, "maxSeconds")?.parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// Writes the audiences of the member's API into the policy, as a CEL list: a JSON string is also a CEL
/// string.
pub(crate) fn set_audiences(policy: &mut Value, audiences: &[String]) {
    set(policy, "audiences", &json!(audiences).to_string());
}

/// Makes the policy check the audiences with RBAC, for an agent that writes them when it enrolls: a
/// plugin that cannot reach the member does not know them. An empty list would allow all.
pub(crate) fn set_enrolled(policy: &mut Value) {
    let asked = "object.spec.?audiences.orValue([])";
    let expression = format!(
        "authorizer.group('{FLEET_GROUP}').resource('audiences').namespace('{NAMESPACE}').name({asked}.join(','))\
         .check('use').allowed() ? {asked} : ['']"
    );
    set(policy, "audiences", &expression);
}

/// The API path of the policy.
pub(crate) fn path() -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{NAME}")
}

/// Whether an object of the manifest is the policy.
pub(crate) fn is_policy(object: &Value) -> bool {
    object["kind"] == "ValidatingAdmissionPolicy" && object["metadata"]["name"] == NAME
}

/// Commands that write the audiences of a token that `kubectl create token` requests for this account.
pub(crate) fn shell(kubectl: &str, namespace: &str, account: &str) -> String {
    format!(
        "AUDIENCES=$({kubectl} -n {namespace} create token {account} -o jsonpath='{{.spec.audiences}}' | tr '\"' \"'\")\n\
         {kubectl} patch validatingadmissionpolicy {NAME} --type=json --field-manager=kubectl-mc \\\n  \
         -p \"[{{\\\"op\\\":\\\"replace\\\",\\\"path\\\":\\\"/spec/variables/0/expression\\\",\\\"value\\\":\\\"$AUDIENCES\\\"}}]\"\n"
    )
}

/// Writes a variable of a policy.
pub(super) fn set(policy: &mut Value, name: &str, expression: &str) {
    let variables = policy["spec"]["variables"].as_array_mut().into_iter().flatten();
    for variable in variables.filter(|variable| variable["name"] == name) {
        variable["expression"] = expression.into();
    }
}

/// The expression of a policy's variable.
pub(super) fn expression<'a>(policy: &'a Value, name: &str) -> Option<&'a str> {
    let mut variables = policy["spec"]["variables"].as_array()?.iter();
    variables.find(|variable| variable["name"] == name)?["expression"].as_str()
}

#[cfg(test)]
mod tests {
    use kubectl_mc_api::token_life::{DEFAULT, of_manager};

    use super::*;
    use crate::join::manifest;

    #[test]
    fn manifest_has_the_policy_and_its_variables() {
        let mut policies: Vec<Value> = manifest::member().unwrap().into_iter().filter(is_policy).collect();
        let [policy] = policies.as_mut_slice() else { panic!("{policies:?}") };
        let shipped = of_manager(DEFAULT).as_secs().to_string();
        assert_eq!(policy["spec"]["variables"][1]["expression"], shipped);
        set_longest(policy, Duration::from_secs(7200));
        assert_eq!(longest(policy), Some(Duration::from_secs(7200)));
        set_audiences(policy, &["https://kubernetes.default.svc".to_owned(), "a\"b".to_owned()]);
        let expected = json!([
            {"name": "audiences", "expression": r#"["https://kubernetes.default.svc","a\"b"]"#},
            {"name": "maxSeconds", "expression": "7200"},
        ]);
        assert_eq!(policy["spec"]["variables"], expected);
    }
}
