use super::*;

#[test]
fn help_uses_kubectl_mc_and_shows_examples_first() {
    let help = <Cli as clap::CommandFactory>::command().render_help().to_string();
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text:?} is missing in {help}"));
    assert!(place("Examples:") < place("Usage:\n  kubectl mc [--cluster=CLUSTERS]"));
    assert!(place("Usage:") < place("--cluster <CLUSTERS>"));
    assert!(!help.contains("kubectl-mc "), "{help}");
}

#[test]
fn last_of_repeated_flags_wins_as_in_kubectl() {
    let cli = Cli::try_parse_from(["kubectl mc", "--context=a", "--context=b"]).unwrap();
    assert_eq!(cli.flags.context.as_deref(), Some("b"));
}
