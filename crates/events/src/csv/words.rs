//! The words of the text form.

use crate::{Advice, Backing, HugePages, Protection, Touch};

/// Words for the backing of a mapping.
pub const BACKINGS: [(Backing, &str); 5] = [
    (Backing::Anonymous, "anonymous"),
    (Backing::SharedAnonymous, "shared-anonymous"),
    (Backing::PrivateFile, "private-file"),
    (Backing::SharedFile, "shared-file"),
    (Backing::Stack, "stack"),
];

/// The advice that has a word; other advice is a number.
pub const ADVICE: [(Advice, &str); 5] = [
    (Advice::DontNeed, "dontneed"),
    (Advice::Free, "free"),
    (Advice::HugePage, "hugepage"),
    (Advice::NoHugePage, "nohugepage"),
    (Advice::Populate, "populate"),
];

/// Words for touches where accesses were left out.
pub const TOUCHES: [(Touch, &str); 4] = [
    (Touch::Loaded, "loaded"),
    (Touch::Stored, "stored"),
    (Touch::Present, "present"),
    (Touch::Executed, "executed"),
];

/// Memory that may have huge pages.
pub const HUGE_PAGES: [(HugePages, &str); 3] = [
    (HugePages::Anywhere, "anywhere"),
    (HugePages::Nowhere, "nowhere"),
    (HugePages::WhereAdvised, "where-advised"),
];

/// The letters of a protection, in the order in which they are written.
const PROTECTIONS: [(u8, char); 3] = [
    (Protection::READ, 'r'),
    (Protection::WRITE, 'w'),
    (Protection::EXEC, 'x'),
];

/// `rw-` and the like; a number when there are other bits.
pub fn protection(prot: Protection) -> String {
    if prot.0 >= 8 {
        return prot.0.to_string();
    }
    let letter = |(bit, letter)| if prot.0 & bit == 0 { '-' } else { letter };
    PROTECTIONS.map(letter).iter().collect()
}

/// Reads what [`protection`] writes, the letters in any order and dashes left out or not.
pub fn to_protection(word: &str) -> Option<Protection> {
    if let Ok(number) = word.parse() {
        return Some(Protection(number));
    }
    word.chars().try_fold(Protection(0), |prot, letter| {
        let bit = match letter {
            '-' => 0,
            _ => PROTECTIONS.iter().find(|known| known.1 == letter)?.0,
        };
        Some(Protection(prot.0 | bit))
    })
}
