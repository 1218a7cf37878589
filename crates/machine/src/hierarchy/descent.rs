use crate::requests::Prefetch;

/// A reference on its way down: the line, with [`MODIFY`] when it modifies it, and the place of
/// its answer in the list of references; behind them and one more, that of a prefetch. A modified
/// line on its way out has the place of what it left for, with [`OUT`].
pub(crate) type Descent = (u32, u32);

/// Bit 31 of a place: a modified line on its way out, for which nobody waits.
pub(crate) const OUT: u32 = 1 << 31;

/// Where the answer to a descent goes: of all lines on their way out to one place.
#[inline(always)]
pub(super) fn slot(place: u32, outgoing: u32) -> usize {
    let slot = if place & OUT == 0 { place } else { outgoing };
    slot as usize
}

/// What goes to a level, with the lines that the kernel has filled meanwhile: modified, and from no level
/// above. `filled` has for each the place of the reference after it.
pub(super) fn merge_filled(
    down: &[Descent],
    filled: &[(u32, u32)],
    outgoing: u32,
    prefetches: &[Prefetch],
    merged: &mut Vec<Descent>,
) {
    merged.clear();
    let mut filled = filled.iter().peekable();
    for &descent in down {
        let of = origin(descent.1, outgoing, prefetches);
        let before = std::iter::from_fn(|| filled.next_if(|&&(_, place)| place <= of));
        merged.extend(before.map(|&(line, place)| (line, place | OUT)));
        merged.push(descent);
    }
    merged.extend(filled.map(|&(line, place)| (line, place | OUT)));
}

/// The place of the reference that a descent comes of.
#[inline(always)]
pub(super) fn origin(place: u32, outgoing: u32, prefetches: &[Prefetch]) -> u32 {
    let place = place & !OUT;
    if place < outgoing {
        place
    } else {
        prefetches[(place - outgoing - 1) as usize].place
    }
}
