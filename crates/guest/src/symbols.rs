use std::io::{self, BufRead};

/// Addresses and names of a kernel's System.map, in order; lines that have none are passed over.
///
/// # Errors
/// When it cannot be read.
pub fn symbols(map: impl BufRead) -> io::Result<Vec<(u64, String)>> {
    let mut found = Vec::new();
    for line in map.lines() {
        let line = line?;
        let mut words = line.split_ascii_whitespace();
        let (address, kind, name) = (words.next(), words.next(), words.next());
        if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (address, kind, name)
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            found.push((address, name.to_owned()));
        }
    }
    found.sort();
    Ok(found)
}
