//! Loads that an access waits for, at most two of them, in one number.
//!
//! An address is often made of a base and an index that two loads have brought, and the one that
//! came later in the program may well be there first: a pointer that was spilled to the stack, say,
//! beside an index from far away. So both are told, and the model of a machine finds out.
//!
//! The low 16 bits are how many accesses back the younger load is, the high 16 bits how many more the
//! older one is. 0 is no load.

/// The greatest distance to the younger load, and between the two, that can be told.
pub const FARTHEST: u32 = u16::MAX as u32;

/// Distance of the younger load in accesses; 0 for none.
#[inline(always)]
pub const fn near(dep: u32) -> u32 {
    dep & FARTHEST
}

/// Distance of the older load in accesses; 0 for none.
#[inline(always)]
pub const fn far(dep: u32) -> u32 {
    let apart = dep >> 16;
    if apart == 0 || near(dep) == 0 {
        0
    } else {
        near(dep) + apart
    }
}

/// The number of two loads at these distances, in any order; 0 for none, as what lies too far back is.
#[inline(always)]
pub const fn of_two(one: u32, other: u32) -> u32 {
    let (near, far) = match (one, other) {
        (0, only) | (only, 0) => (only, only),
        _ if one <= other => (one, other),
        _ => (other, one),
    };
    if near > FARTHEST {
        0
    } else if far - near > FARTHEST {
        near
    } else {
        near | (far - near) << 16
    }
}

/// The rest of it where nothing is known of what lies more than `reach` accesses back.
#[inline]
pub const fn within(dep: u32, reach: u32) -> u32 {
    let (near, far) = (near(dep), far(dep));
    of_two(
        if near > reach { 0 } else { near },
        if far > reach { 0 } else { far },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_distances_are_one_number_and_back() {
        for (one, other, both) in [
            (0, 0, (0, 0)),
            (7, 0, (7, 0)),
            (0, 7, (7, 0)),
            (7, 7, (7, 0)),
            (1, 7, (1, 7)),
            (7, 1, (1, 7)),
            (FARTHEST, 1, (1, FARTHEST)),
            (FARTHEST + 1, 0, (0, 0)),
            (FARTHEST + 4, 3, (3, 0)),
        ] {
            let dep = of_two(one, other);
            assert_eq!((near(dep), far(dep)), both, "{one} and {other}");
        }
        assert_eq!(within(of_two(3, 9), 8), 3);
        assert_eq!(within(of_two(3, 9), 9), of_two(3, 9));
        assert_eq!(within(of_two(3, 9), 2), 0);
    }
}
