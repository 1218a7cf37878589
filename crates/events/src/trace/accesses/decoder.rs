use super::shapes::Shape;
use super::{
    CLASSES, History, MAX_ACCESSES, SITES, STEP_FROM_PREVIOUS, Site, Streams, WINDOW, boxed,
    residual_bytes,
};
use crate::trace::varint::unzigzag;
use crate::{Batch, Op};

/// Bytes appended to the residuals, so that the last ones can be read eight at a time.
const PADDING: usize = 8;

/// The bits of the residual of each length.
const MASKS: [u64; 8] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    u64::MAX,
];

/// Decodes the accesses of one chunk after the other.
pub struct Decoder {
    /// By code. No access has a code beyond the chunk's dictionary.
    shapes: Box<[Shape; MAX_ACCESSES]>,
    history: History,
    sites: Box<[Site; SITES]>,
    /// The last addresses and dependences, by place in the chunk.
    recent_addr: [u64; WINDOW],
    recent_dep: [u32; WINDOW],
    /// Of the accesses being decoded.
    places: Vec<Place>,
    /// Accesses decoded, and bytes of residuals used.
    index: usize,
    residual_at: usize,
}

/// What is needed of an access to find its address.
#[derive(Clone, Copy, Default)]
struct Place {
    site: u16,
    sibling: u8,
    class: u8,
}

impl Decoder {
    pub fn new() -> Decoder {
        Decoder {
            shapes: boxed(),
            history: History::default(),
            sites: boxed(),
            recent_addr: [0; WINDOW],
            recent_dep: [0; WINDOW],
            places: Vec::new(),
            index: 0,
            residual_at: 0,
        }
    }

    /// Starts a chunk of `accesses`.
    ///
    /// # Errors
    /// What is wrong with the streams. When nothing is, [`Decoder::decode`] cannot fail.
    pub fn start(&mut self, streams: &mut Streams, accesses: usize) -> Result<(), &'static str> {
        if streams.codes_low.len() != accesses
            || streams.codes_high.len() != accesses
            || streams.classes.len() != accesses
        {
            return Err("the streams do not hold as many accesses as the header says");
        }
        let mut input = streams.shapes.as_slice();
        let mut known = 0;
        while !input.is_empty() {
            let slot = self.shapes.get_mut(known).ok_or("too many shapes")?;
            *slot = Shape::take(&mut input).ok_or("the shapes are damaged")?;
            known += 1;
        }
        let codes = streams.codes_low.iter().zip(&streams.codes_high);
        let most = codes
            .map(|(&low, &high)| u16::from_le_bytes([low, high]))
            .max();
        if most.is_some_and(|most| usize::from(most) >= known) {
            return Err("a code has no shape");
        }
        if streams.classes.iter().any(|&class| class >= CLASSES) {
            return Err("a class is not defined");
        }
        let lengths = streams.classes.iter().map(|&class| residual_bytes(class));
        if lengths.sum::<usize>() != streams.residuals.len() {
            return Err("the residuals are not as long as their classes say");
        }
        streams.residuals.extend([0; PADDING]);
        self.history = History::default();
        self.sites.fill(Site::default());
        self.recent_addr.fill(0);
        self.recent_dep.fill(0);
        self.index = 0;
        self.residual_at = 0;
        Ok(())
    }

    /// Appends the next `count` accesses of the chunk, which has as many left, to the batch.
    pub fn decode(&mut self, streams: &Streams, count: usize, batch: &mut Batch) {
        let from = batch.len();
        batch.addr.resize(from + count, 0);
        batch.op.resize(from + count, Op::default());
        batch.gap.resize(from + count, 0);
        batch.dep.resize(from + count, 0);
        // In two passes, each with few enough variables for the registers.
        self.decode_shapes(streams, batch, from);
        self.decode_addresses(streams, &mut batch.addr[from..]);
        self.index += count;
    }

    /// All but the addresses.
    fn decode_shapes(&mut self, streams: &Streams, batch: &mut Batch, from: usize) {
        let range = self.index..self.index + batch.len() - from;
        self.places.resize(range.len(), Place::default());
        let streams = streams.codes_low[range.clone()]
            .iter()
            .zip(&streams.codes_high[range.clone()])
            .zip(&streams.classes[range.clone()]);
        let columns = batch.op[from..]
            .iter_mut()
            .zip(&mut batch.gap[from..])
            .zip(&mut batch.dep[from..])
            .zip(&mut self.places);
        for ((((&low, &high), &class), (((op, gap), dep), place)), index) in
            streams.zip(columns).zip(range)
        {
            let code = u16::from_le_bytes([low, high]);
            let shape = self.shapes[usize::from(code)];
            self.history.push(code);
            *place = Place {
                site: self.history.site(),
                sibling: shape.sibling,
                class,
            };
            *op = Op(shape.op);
            *gap = shape.gap;
            *dep = shape.dep;
            if shape.sibling != 0 {
                let sibling = index.wrapping_sub(usize::from(shape.sibling)) % WINDOW;
                *dep = self.recent_dep[sibling].wrapping_add(u32::from(shape.sibling));
            }
            self.recent_dep[index % WINDOW] = *dep;
        }
    }

    fn decode_addresses(&mut self, streams: &Streams, addrs: &mut [u64]) {
        let mut residuals = &streams.residuals[self.residual_at..];
        let mut previous = self.recent_addr[self.index.wrapping_sub(1) % WINDOW];
        for ((addr, place), index) in addrs.iter_mut().zip(&self.places).zip(self.index..) {
            let (bytes, _) = residuals
                .split_first_chunk()
                .expect("the residuals are padded");
            let residual = u64::from_le_bytes(*bytes) & MASKS[usize::from(place.class % 8)];
            residuals = &residuals[residual_bytes(place.class)..];

            let site = &mut self.sites[usize::from(place.site) % SITES];
            let sibling = index.wrapping_sub(usize::from(place.sibling)) % WINDOW;
            let base = match place.sibling {
                0 => site.addr,
                _ => self.recent_addr[sibling],
            };
            let predictor = place.class / 8;
            let origin = match predictor {
                STEP_FROM_PREVIOUS => previous,
                _ => base,
            };
            let found = origin
                .wrapping_add(site.moves[usize::from(predictor % 4)] as u64)
                .wrapping_add(unzigzag(residual) as u64);
            site.addr = found;
            site.moves = [
                0,
                found.wrapping_sub(base) as i32,
                found.wrapping_sub(previous) as i32,
                0,
            ];
            self.recent_addr[index % WINDOW] = found;
            previous = found;
            *addr = found;
        }
        self.residual_at = streams.residuals.len() - residuals.len();
    }
}
