use super::*;
use crate::cluster::context::HostOptions;

const FILE: &str = "\
# mine
apiVersion: v1
kind: Config
clusters:
- cluster:
    server: https://h:6443
  name: c
contexts:
- context:
    cluster: c
    user: u   # of the hub
  name: hub
- context:
    cluster: c
    extensions:
    - extension:
        cluster: m1
        context: hub
      name: kubectl-mc.dev/host
    user: u
  name: m1
- context:
    cluster: c
    user: u
  name: other
current-context: hub
users:
# do not touch
- name: u
  user:
    token: secret
";

struct Scene {
    folder: tempfile::TempDir,
    env: Env,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, FILE).unwrap();
        Self { env: [(env::KUBECONFIG, file)].into_iter().collect(), folder }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("config")).unwrap()
    }

    fn host(&self) -> ClusterContext {
        ClusterContext::load(&HostOptions::default(), &self.env).unwrap()
    }

    fn try_write(&self, source: &Source) -> Result<PathBuf, UserEntryError> {
        let host = self.host();
        let binding = Binding::of_host(&login(&host), &host).unwrap();
        write(&host, source, &binding, None, &self.env)
    }

    fn write(&self, source: &Source) {
        self.try_write(source).unwrap();
    }
}

#[test]
fn host_and_its_members_use_the_login_and_logout_undoes_it() {
    let scene = Scene::new();
    scene.write(&Source::Token);
    let text = scene.text();
    assert!(text.contains("# mine\n") && text.contains("# do not touch\n- name: u\n"), "{text}");
    assert_eq!(text.matches("\n    user: kubectl-mc/hub\n").count(), 2, "{text}");
    assert_eq!(text.matches("\n    user: u\n").count(), 1, "of the other context: {text}");
    assert_eq!(exec(&scene.host()).and_then(Source::of_user), Some(("hub".to_owned(), Source::Token)));
    assert_eq!(remove(&scene.host(), &scene.env).unwrap(), Removed::Restored(Some("u".to_owned())));
    // Comments inside a changed entry are lost.
    assert_eq!(scene.text(), FILE.replace("   # of the hub", ""));
}

#[test]
fn second_login_keeps_the_user_before_the_first() {
    let scene = Scene::new();
    let command = Source::Command(vec!["aws".to_owned(), "--token".to_owned()]);
    scene.write(&Source::Token);
    scene.write(&command);
    assert_eq!(exec(&scene.host()).and_then(Source::of_user), Some(("hub".to_owned(), command)));
    assert_eq!(scene.text().matches("name: kubectl-mc/hub").count(), 1);
    assert_eq!(remove(&scene.host(), &scene.env).unwrap(), Removed::Restored(Some("u".to_owned())));
    assert_eq!(remove(&scene.host(), &scene.env).unwrap(), Removed::Kept);
}

#[test]
fn foreign_user_entry_is_left_alone() {
    let scene = Scene::new();
    let foreign = FILE.to_owned() + "- name: kubectl-mc/hub\n  user:\n    token: other\n";
    std::fs::write(scene.folder.path().join("config"), &foreign).unwrap();
    let error = scene.try_write(&Source::Token).unwrap_err();
    assert!(matches!(error, UserEntryError::Foreign { .. }), "{error}");
    assert_eq!(remove(&scene.host(), &scene.env).unwrap(), Removed::Kept);
    assert_eq!(scene.text(), foreign);
}

#[test]
fn layout_that_cannot_be_edited_is_left_to_kubectl() {
    let scene = Scene::new();
    let json = "{current-context: hub, clusters: [{name: c, cluster: {server: 'https://h'}}], \
                contexts: [{name: hub, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}]}";
    std::fs::write(scene.folder.path().join("config"), json).unwrap();
    let source = Source::Command(vec!["get token".to_owned()]);
    let error = scene.try_write(&source).unwrap_err();
    let hint = error.hint().unwrap().to_string();
    let commands = hint.split_once("anew: ").unwrap().1;
    let (credentials, context) = commands.split_once(" && ").unwrap();
    assert!(
        credentials.starts_with("kubectl --context=hub config set-credentials kubectl-mc/hub ")
            && credentials.contains(
                " --exec-arg=credential --exec-arg=--login=hub --exec-arg=--server=https://h --exec-arg=-- --exec-arg='get token' "
            ),
        "{credentials}"
    );
    assert_eq!(context, "kubectl --context=hub config set-context hub --user=kubectl-mc/hub");
    assert_eq!(scene.text(), json);
}

#[test]
fn login_keeps_its_name_when_the_context_is_renamed() {
    let scene = Scene::new();
    scene.write(&Source::Token);
    let file = scene.folder.path().join("config");
    let renamed =
        scene.text().replace("  name: hub\n", "  name: new\n").replace("context: hub", "context: new");
    std::fs::write(&file, &renamed).unwrap();
    assert_eq!(login(&scene.host()), "hub");
    scene.write(&Source::Token);
    assert_eq!(scene.text(), renamed);
    assert_eq!(remove(&scene.host(), &scene.env).unwrap(), Removed::Restored(Some("u".to_owned())));
}
