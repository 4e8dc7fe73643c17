//! Restores the APIService of a hub. If another program has written it in the meantime, its Service
//! is left unchanged: the record may have an old CA.

use std::time::Duration;

use kubectl_mc_api::manifests;
use kubectl_mc_api::names::{API_SERVICE, NAMESPACE, REPLACED};
use serde_json::{Value, json};

use super::target::{Record, Target};
use super::{Group, api_service, patch_to, unreadable_rights};
use crate::apply::delete::Delete;
use crate::cli::Hub;
use crate::cluster::connection::Connection;
use crate::error::Failure;
use crate::printer::Printer;

/// What happened to the APIService.
pub(super) enum PutBack {
    /// `hub-api apply` did not write it.
    NotReplaced,
    /// It points to the hub's own server, and the sidecar has no right to it.
    Restored(Target),
    /// It is unchanged, because it points to this third server.
    LeadsElsewhere(String),
}

/// Restores the APIService, and removes the sidecar's right to it.
pub(super) async fn put_back(
    group: Group,
    host: &Connection,
    dry_run: bool,
    printer: &Printer,
) -> Result<PutBack, Failure> {
    let own = host.readable(&api_service(API_SERVICE)).await?;
    let own = own.as_ref().and_then(Target::of).map(|own| own.service);
    let mut result = PutBack::NotReplaced;
    let patch = |current: &Value| {
        let annotation = current["metadata"]["annotations"][REPLACED].as_str();
        let Some(annotation) = annotation else {
            result = PutBack::NotReplaced;
            return Ok(None);
        };
        let record = Record::read(annotation).ok_or_else(|| group.unknown_annotation())?;
        let Some(now) = Target::of(current) else {
            result = PutBack::LeadsElsewhere("the kube-apiserver itself".to_owned());
            return Ok(None);
        };
        let patch = if now.service == record.original.service {
            json!({"metadata": {"annotations": {REPLACED: null}}})
        } else if record.sidecar.as_ref().or(own.as_ref()) == Some(&now.service) {
            patch_to(&record.original, &Value::Null)
        } else {
            result = PutBack::LeadsElsewhere(now.to_string());
            return Ok(None);
        };
        result = PutBack::Restored(record.original);
        Ok(Some(patch))
    };
    if group.update(host, dry_run, patch).await? && !dry_run {
        remove_rights(host, printer).await?;
    }
    Ok(result)
}

/// Restores the APIServices of hubs that point to the sidecar, before the sidecar is removed.
pub(crate) async fn put_all_back(host: &Connection, dry_run: bool, printer: &Printer) -> Result<(), Failure> {
    let group = Group::of(Hub::Karmada);
    if host.readable(&group.path()).await?.is_none() {
        return Ok(());
    }
    match put_back(group, host, dry_run, printer).await? {
        PutBack::NotReplaced => {}
        PutBack::Restored(original) => {
            let remark = if dry_run { " (server dry run)" } else { "" };
            printer.out_line(&format!("{} leads to {original} again{remark}", group.api_service));
        }
        PutBack::LeadsElsewhere(now) => {
            if !dry_run {
                remove_rights(host, printer).await?;
            }
            printer.note_line(&format!(
                "APIService {} is left: it leads to {now}, which hub-api apply did not write",
                group.api_service
            ));
        }
    }
    Ok(())
}

async fn remove_rights(host: &Connection, printer: &Printer) -> Result<(), Failure> {
    let rights = manifests::hub_api_rights(NAMESPACE).map_err(unreadable_rights)?;
    let delete = Delete { dry_run: false, timeout: DELETION };
    delete.print_each("", host, rights.into_iter(), printer).await?;
    Ok(())
}

/// Timeout for the deletion of the sidecar's right.
const DELETION: Duration = Duration::from_secs(30);
