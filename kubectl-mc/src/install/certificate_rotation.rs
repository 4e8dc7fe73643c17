//! Changes the issuer of the serving certificate without losing requests. The host trusts both
//! authorities from before the first new sidecar presents its certificate until the last old
//! sidecar no longer gets requests. Then the objects of the old issuer are deleted.
//!
//! The progress is determined from the existing objects, so the next installation completes an
//! interrupted one.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kubectl_mc_api::Origin;
use kubectl_mc_api::manifests::{AUTHORITY, Certificates, Parameters, SERVED};
use kubectl_mc_api::names::{API_SERVICE, SIDECAR};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::cleanup;
use super::plan::InstallPlan;
use super::wait::Deadline;
use crate::apply::ApplyError;
use crate::apply::delete::Delete;
use crate::apply::object::Object;
use crate::cluster::connection::Connection;
use crate::cluster::fields::condition;
use crate::error::{CommandLine, Failure};
use crate::progress::Step;

/// The change of the issuer, with the objects of the old one.
pub(crate) struct CertificateRotation<'a> {
    host: &'a Connection,
    parameters: &'a Parameters,
    /// The objects of the old issuer, in the order of their creation.
    surplus: Vec<Value>,
    is_registered: bool,
}

impl<'a> CertificateRotation<'a> {
    pub(crate) async fn find(host: &'a Connection, plan: &'a InstallPlan) -> Result<Self, Failure> {
        let parameters = &plan.parameters;
        let surplus = match plan.run_on {
            None => cleanup::of_other_certificates(host, parameters).await?,
            // The sidecars run in another cluster, so the host's objects do not show their certificates.
            Some(_) => Vec::new(),
        };
        let is_registered = registration(API_SERVICE)?.get(host).await?.is_some();
        Ok(Self { host, parameters, surplus, is_registered })
    }

    /// Whether sidecars serve, or served, a certificate of the old issuer.
    pub(crate) fn is_due(&self) -> bool {
        self.is_registered && !self.surplus.is_empty()
    }

    /// Makes the host trust both authorities before any new sidecar runs, or configures the new sidecars to
    /// do so.
    pub(crate) async fn trust_both(&self, deadline: &Deadline, step: &mut Step<'_>) -> Result<(), Failure> {
        match self.parameters.values.certificates {
            Certificates::CertManager | Certificates::Secret => {
                let new = match self.given() {
                    Some(given) => given,
                    None => self.issued(deadline, step).await?,
                };
                // Sidecars with self-managed certificates keep the host's bundle in sync with the
                // Secret.
                if let Some(both) = self.edit(&self.secret(AUTHORITY)?, |bundle| with(bundle, &new)).await? {
                    self.register(&both).await?;
                }
            }
            Certificates::SelfManaged => {
                if let Some(old) = self.bundle(&self.secret(SERVED)?).await? {
                    self.edit(&self.secret(AUTHORITY)?, |bundle| with(bundle, &old)).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes the old authority and the objects of the old issuer; reports each deleted object.
    pub(crate) async fn finish(&self, delete: Delete, report: impl FnMut(&Object)) -> Result<(), Failure> {
        let certificates = self.parameters.values.certificates;
        let is_change = self.is_due() && !delete.dry_run;
        // This also runs without a change, because an interrupted run may have deleted the objects
        // of the old issuer but left its authority in the host's bundle.
        let is_external = certificates != Certificates::SelfManaged && self.is_registered && !delete.dry_run;
        if is_change {
            sleep(LEAVING).await;
        }
        let served = if is_change || is_external { self.bundle(&self.secret(SERVED)?).await? } else { None };
        if let (Certificates::SelfManaged, Some(old)) = (certificates, &served)
            && let Some(own) = self.edit(&self.secret(AUTHORITY)?, |bundle| without(bundle, old)).await?
        {
            self.register(&own).await?;
        }
        delete.each(self.host, self.surplus.iter().cloned(), report).await?;
        // This is safe only now: while their Secret exists, stopping sidecars write it into the host's bundle
        // again. cert-manager's injector removes nothing.
        if let Some(new) = self.given().or(served).filter(|new| is_external && !new.is_empty()) {
            self.register(&new).await?;
        }
        Ok(())
    }

    /// Makes the host trust this bundle for the API groups of the sidecar.
    async fn register(&self, bundle: &str) -> Result<(), ApplyError> {
        for name in registered(self.parameters) {
            self.edit(&registration(&name)?, |_| bundle.to_owned()).await?;
        }
        Ok(())
    }

    /// The authority of an existing Secret, from the values.
    fn given(&self) -> Option<String> {
        let values = &self.parameters.values;
        (values.certificates == Certificates::Secret).then(|| values.tls.ca_bundle.clone())
    }

    /// Waits for the authority of cert-manager's certificate.
    async fn issued(&self, deadline: &Deadline, step: &mut Step<'_>) -> Result<String, Failure> {
        let namespace = &self.parameters.namespace;
        let metadata = json!({"name": SIDECAR, "namespace": namespace});
        let certificate =
            json!({"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata});
        let (certificate, served) = (Object::new(certificate)?, self.secret(SERVED)?);
        loop {
            let found = certificate.get(self.host).await?.unwrap_or_default();
            let state = match ready(&found) {
                Ok(()) => match self.bundle(&served).await? {
                    Some(authority) => return Ok(authority),
                    None => format!("no ca.crt in Secret {SERVED}"),
                },
                Err(state) => state,
            };
            if deadline.is_over() {
                let shown = format!("{} -n {namespace} describe certificates", self.host.cluster.kubectl());
                return Err(Failure::new(format!(
                    "cert-manager has not issued the serving certificate, and the running sidecars are unchanged: \
                     {state}"
                ))
                .with_hint(CommandLine::new(shown).that("shows the details; then run install again")));
            }
            step.update(&state);
            sleep(POLL).await;
        }
    }

    /// Edits the authorities in an object and returns the result; `None` if the object does not exist.
    /// Concurrent writes are not overwritten.
    async fn edit(
        &self,
        object: &Object,
        change: impl Fn(&str) -> String,
    ) -> Result<Option<String>, ApplyError> {
        for attempt in 1.. {
            let Some(found) = object.get(self.host).await? else { break };
            let before = authorities(&found).unwrap_or_default();
            let after = change(&before);
            if after == before {
                return Ok(Some(after));
            }
            let (parent, field) = place(&found);
            let version = &found["metadata"]["resourceVersion"];
            let patch =
                json!({"metadata": {"resourceVersion": version}, parent: {field: STANDARD.encode(&after)}});
            match object.merge(self.host, &patch).await {
                Ok(()) => return Ok(Some(after)),
                Err(ApplyError::Refused { status, .. }) if status.code == 409 && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn bundle(&self, secret: &Object) -> Result<Option<String>, ApplyError> {
        Ok(secret.get(self.host).await?.as_ref().and_then(authorities))
    }

    fn secret(&self, name: &str) -> Result<Object, ApplyError> {
        let metadata = json!({"name": name, "namespace": self.parameters.namespace});
        Object::new(json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}))
    }
}

/// The names of this installation's APIServices. Another server may serve a hub's group, so its APIService is
/// excluded unless this installation serves it.
fn registered(parameters: &Parameters) -> impl Iterator<Item = String> {
    [API_SERVICE.to_owned()].into_iter().chain(parameters.served_hub().map(Origin::api_service))
}

fn registration(name: &str) -> Result<Object, ApplyError> {
    let api_version = "apiregistration.k8s.io/v1";
    Object::new(json!({"apiVersion": api_version, "kind": "APIService", "metadata": {"name": name}}))
}

/// Whether cert-manager has issued the certificate; the error is its message.
fn ready(certificate: &Value) -> Result<(), String> {
    match condition(certificate, "Ready") {
        Some(ready) if ready["status"] == "True" => Ok(()),
        Some(ready) => Err(ready["message"].as_str().unwrap_or("cert-manager gives no reason").to_owned()),
        None => Err("cert-manager has not processed it".to_owned()),
    }
}

/// The field with the authorities of an object.
fn place(object: &Value) -> (&'static str, &'static str) {
    if object["kind"] == "Secret" { ("data", "ca.crt") } else { ("spec", "caBundle") }
}

fn authorities(object: &Value) -> Option<String> {
    let (parent, field) = place(object);
    let decoded = STANDARD.decode(object[parent][field].as_str()?).ok()?;
    String::from_utf8(decoded).ok().filter(|pem| !pem.is_empty())
}

/// Adds the missing certificates of another bundle to a bundle.
fn with(bundle: &str, more: &str) -> String {
    let lacks = |one: &&str| !certificates(bundle).any(|known| is_same(known, one));
    let all = certificates(bundle).chain(certificates(more).filter(lacks));
    all.map(|one| format!("{one}\n")).collect()
}

/// Removes the certificates of another bundle from a bundle.
fn without(bundle: &str, less: &str) -> String {
    let stays = |one: &&str| !certificates(less).any(|known| is_same(known, one));
    certificates(bundle).filter(stays).map(|one| format!("{one}\n")).collect()
}

/// The certificates of a PEM bundle, each as its text.
fn certificates(bundle: &str) -> impl Iterator<Item = &str> {
    bundle.split_inclusive(END).map(str::trim).filter(|one| one.ends_with(END))
}

fn is_same(one: &str, other: &str) -> bool {
    one.split_whitespace().eq(other.split_whitespace())
}

const END: &str = "-----END CERTIFICATE-----";
const POLL: Duration = Duration::from_millis(500);
/// The time during which a stopping sidecar may still get requests (`--shutdown-delay-duration`).
const LEAVING: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::fake;

    fn pem(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n{END}\n")
    }

    #[tokio::test]
    async fn interrupted_rotation_is_completed_by_the_bundle() {
        let (old, new) = (pem("T2xk"), pem("TmV3"));
        let (patched, patches) = std::sync::mpsc::channel();
        let bundle = STANDARD.encode(format!("{old}{new}"));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            if request.method() == http::Method::PATCH {
                patched.send(request.uri().path().to_owned()).unwrap();
            }
            let found = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
                "metadata": {"name": API_SERVICE}, "spec": {"caBundle": bundle}});
            let answer = http::Response::new(kube::client::Body::from(found.to_string().into_bytes()));
            std::future::ready(Ok::<_, std::io::Error>(answer))
        });
        let at = fake::over("host", kube::Client::new(service, "default"));
        let mut parameters = Parameters::new("image");
        parameters.values.certificates = Certificates::Secret;
        parameters.values.tls.ca_bundle = new;
        let rotation = CertificateRotation {
            host: &at,
            parameters: &parameters,
            surplus: Vec::new(),
            is_registered: true,
        };
        for dry_run in [true, false] {
            rotation.finish(Delete { dry_run, timeout: POLL }, |_| ()).await.unwrap();
            assert_eq!(patches.try_iter().count(), usize::from(!dry_run));
        }
    }

    #[test]
    fn api_service_of_another_server_is_left_alone() {
        let names = |inventory: &[Origin]| {
            let mut parameters = Parameters::new("image");
            parameters.values.inventory = inventory.to_vec();
            registered(&parameters).collect::<Vec<_>>()
        };
        let [own, karmada, kubeadmiral] = Origin::ALL;
        assert_eq!(names(&[own]), [API_SERVICE]);
        assert_eq!(names(&[own, karmada]), [API_SERVICE]);
        assert_eq!(names(&[own, kubeadmiral]), [API_SERVICE, "v1alpha1.aggregated.kubeadmiral.io"]);
    }

    #[test]
    fn bundle_gains_and_loses_a_certificate_once() {
        let (old, new) = (pem("T2xk"), pem("TmV3"));
        let both = with(&old, &new);
        assert_eq!(both, format!("{old}{new}"));
        assert_eq!(with(&both, &new), both);
        assert_eq!(with("", &new), new);
        assert_eq!(without(&both, &old), new);
        assert_eq!(without(&both, &pem("T3RoZXI=")), both);
    }

    #[test]
    fn line_endings_do_not_change_a_certificate() {
        let (old, new) = (pem("T2xk"), pem("TmV3"));
        assert_eq!(with(old.trim_end(), &new), format!("{old}{new}"));
        assert_eq!(without(&format!("{old}{new}"), &old.replace('\n', "\r\n")), new);
    }

    #[test]
    fn missing_certificate_has_cert_managers_reason() {
        let with = |status: &str| {
            json!({"status": {"conditions": [
                {"type": "Issuing", "status": "True", "message": "other"},
                {"type": "Ready", "status": status, "message": "no such Issuer"},
            ]}})
        };
        assert_eq!(ready(&with("True")), Ok(()));
        assert_eq!(ready(&with("False")), Err("no such Issuer".to_owned()));
        assert_eq!(ready(&Value::Null), Err("cert-manager has not processed it".to_owned()));
    }
}
