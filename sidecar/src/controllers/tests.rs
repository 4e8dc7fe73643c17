use super::*;

fn enabled(words: &str) -> Result<Enabled, UnknownController> {
    Enabled::parse(&words.split(',').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn nothing_is_none_and_a_star_is_all() {
    assert_eq!(enabled("").unwrap().0, [""; 0]);
    let all: Vec<_> = ALL.iter().map(|controller| controller.name).collect();
    assert_eq!(enabled("*").unwrap().0, all);
}

#[test]
fn a_word_that_names_no_controller_is_told() {
    for word in ["healht", "-healht"] {
        assert!(
            enabled(word).unwrap_err().to_string().starts_with(&format!("there is no controller {word:?}"))
        );
    }
}
