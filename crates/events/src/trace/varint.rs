//! Unsigned LEB128 numbers, and zig-zag for signed ones.

/// Appends `value`: seven bits a byte, lowest first, the top bit set on all but the last byte.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front of `input`. `None` when it ends early or exceeds 64 bits.
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Signed to unsigned with small magnitudes first: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_is_taken(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put(&mut bytes, zigzag(signed));
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take(&mut rest).map(unzigzag), Some(signed));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn the_examples_of_the_leb128_definition() {
        let mut bytes = Vec::new();
        put(&mut bytes, 624_485);
        assert_eq!(bytes, [0xe5, 0x8e, 0x26]);
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn too_long_and_too_short_numbers_are_refused() {
        assert_eq!(take(&mut [0x80u8, 0x80].as_slice()), None);
        assert_eq!(take(&mut [0xffu8; 11].as_slice()), None);
        let over = [0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02];
        assert_eq!(take(&mut over.as_slice()), None);
    }
}
