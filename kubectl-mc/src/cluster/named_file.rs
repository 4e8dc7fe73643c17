//! Reads a file that a kubeconfig names. The kubeconfig may come from another person, so the file
//! may be endless, such as `/dev/zero`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The content of the file, if it is not larger than a certificate bundle can be.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(file)?.take(LONGEST + 1).read_to_end(&mut content)?;
    if content.len() as u64 > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {} MiB", LONGEST >> 20),
        ));
    }
    Ok(content)
}

/// Many times the size of a system's CA bundle.
const LONGEST: u64 = 8 * 1024 * 1024;

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn fault_81_file_without_an_end_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "it is larger than 8 MiB");
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
    }
}
