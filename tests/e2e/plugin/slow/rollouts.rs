//! A batch ends when its pods run, and not already when the API server accepts the change: an image
//! that does not start gets no further than the first cluster.

use std::time::Duration;

use anyhow::{Result, ensure};
use harness::caller::Caller;
use harness::scene::{EVERY_VERB, Scene};
use harness::wait::eventually;
use serde_json::json;

use crate::plugin;

#[test]
fn broken_image_stays_in_the_first_batch() -> Result<()> {
    let caller = Caller::certificate("e2e-rollouts-user", &[])?;
    let (one, two) = (Scene::on("m1", "rollouts")?, Scene::on("m2", "rollouts")?);
    one.let_in(&caller, &["m1", "m2"], EVERY_VERB)?;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/web", one.name);
    for scene in [&one, &two] {
        scene.allow(&caller)?;
        scene.api.apply(&path, &deployment())?;
    }
    let image = |scene: &Scene| {
        let deployment = scene.api.get(&path)?;
        Ok::<_, anyhow::Error>(deployment["spec"]["template"]["spec"]["containers"][0]["image"].clone())
    };
    let plugin = plugin(&caller)?.with(&["--namespace", &one.name]);
    let change = |image: &str, timeout: &str| {
        let (image, timeout) = (format!("main={image}"), format!("--batch-timeout={timeout}"));
        plugin.run(&["--yes", "-C", "m1,m2", "--batch=1", &timeout, "set", "image", "deployment/web", &image])
    };
    eventually("the Deployments run", Duration::from_secs(120), || {
        plugin.ok(&["-C", "m1,m2", "rollout", "status", "deployment/web", "--timeout=60s"]).map(Some)
    })?;

    let broken = change("testbed.local/no-such-image:1", "20s")?;
    let said = &broken.stderr;
    // It succeeded on none.
    ensure!(broken.code == 5, "{said}");
    ensure!(said.contains("(m1); 1 not begun (m2)\n"), "{said}");
    let undo = said.lines().find_map(|line| line.strip_prefix("undo with: kubectl mc "));
    ensure!(undo.is_some_and(|line| line.contains("--cluster=m1 rollout undo deployment/web")), "{said}");
    assert_eq!(image(&one)?, "testbed.local/no-such-image:1");
    assert_eq!(image(&two)?, IMAGE, "the change has spread");

    plugin.ok(&["-C", "m1", "rollout", "undo", "deployment/web"])?;
    let good = change("testbed.local/agnhost:1", "120s")?;
    let said = good.success()?;
    ensure!(said.contains("m2 | deployment \"web\" successfully rolled out\n"), "{said}");
    assert_eq!(image(&two)?, "testbed.local/agnhost:1");
    Ok(())
}

fn deployment() -> serde_json::Value {
    let container = json!({
        "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", "sleep 100000"],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [container], "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 0,
                },
            },
        },
    })
}

const IMAGE: &str = "testbed.local/busybox:1";
