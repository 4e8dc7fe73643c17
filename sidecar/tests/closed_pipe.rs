//! Tests that the program ends without an error when the reader of its output has closed the pipe.

use std::process::Command;

#[test]
fn closed_pipe_ends_output_without_error() {
    for words in [&["--help"][..], &["serve", "--help"], &["--version"], &["crds"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_mc-sidecar"));
        let output = command.args(words).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{words:?}: {} {said}", output.status);
    }
}
