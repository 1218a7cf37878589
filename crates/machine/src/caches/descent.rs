use crate::machine::requests::Prefetch;

/// A reference on its way down: the line, with [`MODIFY`] when it modifies it, and the place of
/// its answer in the list of references; behind them and one more, that of a prefetch. A modified
/// line on its way out has the place of what it left for, with [`OUT`].
pub(crate) type Descent = (u32, u32);

/// Bit 31 of a place: a modified line on its way out, for which nobody waits.
pub(crate) const OUT: u32 = 1 << 31;

/// Slot of the answer to a descent: one place for all lines on their way out.
#[inline(always)]
pub(super) fn slot(place: u32, outgoing: u32) -> usize {
    let slot = if place & OUT == 0 { place } else { outgoing };
    slot as usize
}

/// Merges what goes to a level with `more`, in order: each comes before what is of its place or a later one.
#[inline(never)]
pub(super) fn merge(
    down: &[Descent],
    more: impl Iterator<Item = (u32, Descent)>,
    outgoing: u32,
    prefetches: &[Prefetch],
    merged: &mut Vec<Descent>,
) {
    merged.clear();
    let mut more = more.peekable();
    for &descent in down {
        let of = origin(descent.1, outgoing, prefetches);
        let before = std::iter::from_fn(|| more.next_if(|&(place, _)| place <= of));
        merged.extend(before.map(|(_, descent)| descent));
        merged.push(descent);
    }
    merged.extend(more.map(|(_, descent)| descent));
}

/// Lines that the kernel has filled, before the references behind them: modified, and from no level above.
pub(super) fn filled_by_kernel(filled: &[(u32, u32)]) -> impl Iterator<Item = (u32, Descent)> {
    filled
        .iter()
        .map(|&(line, place)| (place, (line, place | OUT)))
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
