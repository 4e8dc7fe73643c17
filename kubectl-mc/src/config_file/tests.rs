use super::*;
use crate::exit::ExitStatus;

const WHOLE: &str = "\
host: eu-host
sets:
  prod:
    clusters: ['eu-*', '!eu-9', '@asia']
    selector: env=prod
  asia:
    clusters: [asia-1]
defaults:
  clusterConcurrency: 7
  clusterTimeout: 1m30s
  color: never
";

#[test]
fn every_key_is_read() {
    let file = ConfigFile::parse(WHOLE).unwrap();
    assert_eq!(file.host.as_deref(), Some("eu-host"));
    assert_eq!(file.sets["prod"].clusters, ["eu-*", "!eu-9", "@asia"]);
    assert_eq!(file.sets["prod"].selector.as_deref(), Some("env=prod"));
    assert_eq!(file.defaults.cluster_concurrency.map(NonZeroUsize::get), Some(7));
    assert_eq!(file.defaults.cluster_timeout, Some(Duration::from_secs(90)));
    assert_eq!(file.defaults.color, Some(Color::Never));
}

#[test]
fn set_is_a_map_or_the_list_of_its_clusters() {
    let file = ConfigFile::parse("sets: {prod: [m1, 'context:legacy-*'], eu: {selector: a=b}}").unwrap();
    assert_eq!(file.sets["prod"].clusters, ["m1", "context:legacy-*"]);
    assert_eq!(file.sets["prod"].selector, None);
    assert_eq!(file.sets["eu"].selector.as_deref(), Some("a=b"));
    for (text, reason) in [("sets: {a: m1}", "a list of clusters, or a map"), ("sets: {a: [[m1]]}", "line 1")]
    {
        let error = ConfigFile::parse(text).unwrap_err().without_snippet().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn empty_set_never_chooses_all_clusters() {
    let hint = "chooses all clusters";
    for (text, reason) in [
        ("[]", "the set @prod is empty"),
        ("{}", "the set @prod is empty"),
        ("{clusters: []}", "the set @prod is empty"),
        ("{selector: }", "the set @prod is empty"),
        ("{selector: ''}", "the set @prod has an empty selector"),
        ("{clusters: [m1], selector: ' '}", "the set @prod has an empty selector"),
    ] {
        let error =
            ConfigFile::parse(&format!("sets: {{prod: {text}}}")).unwrap_err().without_snippet().to_string();
        assert!(error.contains(reason) && error.contains(hint), "{text}: {error}");
    }
    assert!(ConfigFile::parse("sets: {prod: }").is_err());
    assert!(ConfigFile::parse("sets: {prod: ['!m1'], some: {where: ready=True}}").is_ok());
}

#[test]
fn empty_file_equals_no_file() {
    for text in ["", "\n# nothing\n", "{}"] {
        assert_eq!(ConfigFile::parse(text).unwrap(), ConfigFile::default(), "{text:?}");
    }
    let nowhere = tempfile::tempdir().unwrap();
    let env: Env = [(env::HOME, nowhere.path())].into_iter().collect();
    assert_eq!(ConfigFile::load(&env).unwrap(), ConfigFile::default());
}

#[test]
fn unknown_key_is_refused_with_a_suggestion() {
    for (text, said, nearest) in [
        ("hots: x", "hots", "did you mean `host`?"),
        ("sets: {a: {cluster: [m1]}}", "cluster", "did you mean `clusters`?"),
        ("defaults: {clusterTimout: 3s}", "clusterTimout", "did you mean `clusterTimeout`?"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubectl-mc/config.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        let env: Env = [(env::XDG_CONFIG_HOME, folder.path())].into_iter().collect();
        let error = ConfigFile::load(&env).unwrap_err();
        assert!(error.to_string().contains(&format!("unknown field `{said}`")), "{error}");
        assert!(error.to_string().contains("line 1"), "{error}");
        assert_eq!(error.hint, Some(nearest.into()), "{error}");
        assert_eq!(error.status, ExitStatus::Usage);
    }
    let wrong = ConfigFile::parse("defaults: {clusterTimeout: soon}").unwrap_err().to_string();
    assert!(wrong.contains("is not a duration"), "{wrong}");
}

/// `UPDATE=1 cargo test -p kubectl-mc schema` updates the schema.
#[test]
fn schema_matches_the_types() {
    let schema = schemars::schema_for!(ConfigFile);
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/config.schema.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "UPDATE=1 cargo test -p kubectl-mc schema");
}
