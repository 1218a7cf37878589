//! Small files of /proc and /sys.

use std::fs;
use std::path::Path;

/// The trimmed text of a file, if it can be read.
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The number in a file, if it holds one.
pub fn number(path: impl AsRef<Path>) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The chosen word of a file such as `always [madvise] never`; the whole text without brackets.
pub fn choice(path: impl AsRef<Path>) -> Option<String> {
    let text = text(path)?;
    let chosen = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Some(chosen.unwrap_or(&text).to_owned())
}

/// The number after `key` in a file of `key: value kB` or `key value` lines, as it stands.
pub fn field(path: impl AsRef<Path>, key: &str) -> Option<u64> {
    field_of(&fs::read_to_string(path).ok()?, key)
}

/// The same in text already read. Adds the values up when the key comes more than once.
pub fn field_of(text: &str, key: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next()?.trim_end_matches(':') == key).then(|| words.next()?.parse().ok())?
        })
        .reduce(|a: u64, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_key_and_added() {
        let smaps = "Pss:  12 kB\nPss_Anon: 8 kB\nRss: 4 kB\nPss:  30 kB\n";
        assert_eq!(field_of(smaps, "Pss"), Some(42));
        assert_eq!(field_of(smaps, "Swap"), None);
    }
}
