use crate::emitter::{Emitter, Loaded};
use crate::hash::{below, mix, random};
use crate::memory::Memory;
use crate::program::Program;
use crate::{Parameter, Parameters, Workload, footprint};

/// XSBench (Tramm et al., PHYSOR 2014), version 20: macroscopic cross-section lookups on the
/// unionized energy grid, `run_event_based_simulation` with the baseline kernels. A lookup draws an
/// energy and a material, finds the energy in the unionized grid by binary search, takes from there
/// an index into the grid of each nuclide of the material, and interpolates between two points.
///
/// (XSBench's other simulation, of particle histories, draws the next energy depending on the cross
/// sections; here those are implicit.)
///
/// The problem is the Hoogenboom-Martin reactor with 355 nuclides ("large"), with as many grid
/// points a nuclide as the footprint has room for. Implicit are the grids: energies are spread
/// evenly, and nuclides take turns in the unionized grid. (XSBench draws energies at random and
/// sorts them; the place of an energy then differs by some 1,000 in 6 million.) Which nuclides make
/// up a material is drawn; how many, and how often it is chosen, is as in XSBench.
pub(crate) const WORKLOAD: Workload = Workload {
    name: "xsbench",
    description: "neutron cross sections: binary search, then the grids of nuclides (XSBench)",
    parameters: &[
        footprint(9 << 30, 1 << 21),
        Parameter {
            name: "lookups",
            description: "macroscopic cross sections looked up",
            default: 17_000_000,
            min: 1,
            max: 1 << 50,
        },
    ],
    build,
};

const NUCLIDES: u64 = 355;
/// Six numbers of a grid point: the energy and five cross sections.
const POINT: u64 = 48;
/// Nuclides in each material, fuel first.
const MATERIALS: [u64; 12] = [321, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9];
/// The chance of each material, in thousandths.
const CHANCES: [u64; 12] = [140, 52, 275, 134, 154, 64, 66, 55, 8, 15, 25, 13];

fn build(parameters: &Parameters) -> Program {
    let point = POINT + 8 + 4 * NUCLIDES;
    let gridpoints = (parameters.get("footprint") / NUCLIDES / point).max(2);
    let lookups = parameters.get("lookups");
    let mut memory = Memory::default();
    let seed = parameters.get("seed");
    let grids = Grids::new(&mut memory, gridpoints, seed);
    let start = STARTING_SEED ^ mix(seed) ^ mix(1);
    Program::new(memory, None, move |out| {
        let mut seed = start;
        for _ in 0..lookups {
            let energy = next(&mut seed);
            let material = material(next(&mut seed));
            grids.look_up(out, energy, material);
        }
    })
}

/// The state that XSBench starts with, and this with seed 1.
const STARTING_SEED: u64 = 1070;

/// XSBench's linear congruential generator, modulo 2^63. Numbers are in units of 2^-63.
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(2_806_196_910_506_780_709).wrapping_add(1) & (u64::MAX >> 1);
    *seed
}

/// The material that a random number stands for. XSBench adds up chances from material 1 on and
/// takes fuel when the number is beyond them all.
fn material(number: u64) -> usize {
    let roll = below(number << 1, 1000);
    let mut sum = 0;
    for (material, chance) in CHANCES.iter().enumerate().skip(1) {
        sum += chance;
        if roll < sum {
            return material;
        }
    }
    0
}

struct Grids {
    gridpoints: u64,
    /// Nuclides of each material.
    contents: Vec<Vec<u64>>,
    num_nucs: u64,
    mats: u64,
    concs: u64,
    /// The unionized grid's energies, and for each an index into the grid of each nuclide.
    energies: u64,
    index: u64,
    /// The grid of each nuclide, one after the other.
    nuclides: u64,
}

/// Materials are rows of a table as wide as the largest.
const WIDTH: u64 = MATERIALS[0];

impl Grids {
    fn new(memory: &mut Memory, gridpoints: u64, seed: u64) -> Self {
        let points = NUCLIDES * gridpoints;
        let contents = (0..).zip(MATERIALS).map(|(material, count)| {
            let mut all: Vec<u64> = (0..NUCLIDES).collect();
            all.sort_by_key(|&nuclide| random(seed, material * NUCLIDES + nuclide));
            all.truncate(count as usize);
            all
        });
        Grids {
            gridpoints,
            contents: contents.collect(),
            nuclides: memory.allocate(points * POINT),
            energies: memory.allocate(points * 8),
            index: memory.allocate(points * NUCLIDES * 4),
            num_nucs: memory.allocate(4 * MATERIALS.len() as u64),
            mats: memory.allocate(4 * WIDTH * MATERIALS.len() as u64),
            concs: memory.allocate(8 * WIDTH * MATERIALS.len() as u64),
        }
    }

    /// The place in the unionized grid below an energy.
    fn place(&self, energy: u64) -> u64 {
        below(energy << 1, NUCLIDES * self.gridpoints)
    }

    /// The place in a nuclide's grid below a place of the unionized grid, whose point number
    /// `NUCLIDES * k + n` is point k of nuclide n. The last point is never the lower one.
    fn lower(&self, place: u64, nuclide: u64) -> u64 {
        (place.saturating_sub(nuclide) / NUCLIDES).min(self.gridpoints - 2)
    }

    /// `calculate_macro_xs`.
    fn look_up(&self, out: &mut Emitter, energy: u64, material: usize) {
        let place = self.place(energy);
        self.search(out, place);
        out.load(self.num_nucs + 4 * material as u64, 4, 4, Loaded::NONE);
        let row = WIDTH * material as u64;
        for (&nuclide, entry) in self.contents[material].iter().zip(row..) {
            let number = out.load(self.mats + 4 * entry, 4, 5, Loaded::NONE);
            out.load(self.concs + 8 * entry, 8, 1, Loaded::NONE);
            // The place found goes into this address too, but has been known for longer.
            let index = self.index + 4 * (place * NUCLIDES + nuclide);
            let index = out.load(index, 4, 5, number);
            let low = nuclide * self.gridpoints + self.lower(place, nuclide);
            let low = self.nuclides + POINT * low;
            // Energies for the interpolation, then five cross sections.
            for member in 0..6 {
                out.load(low + POINT + 8 * member, 8, 2, index);
                out.load(low + 8 * member, 8, 1, index);
            }
        }
    }

    /// `grid_search`. Which half goes on is known when the energy in the middle has come, which is
    /// why each load depends on the one before; a processor guesses every other one right.
    fn search(&self, out: &mut Emitter, wanted: u64) {
        let (mut lower, mut upper) = (0, NUCLIDES * self.gridpoints - 1);
        let mut loaded = Loaded::NONE;
        while upper - lower > 1 {
            let middle = lower + (upper - lower) / 2;
            loaded = out.load(self.energies + 8 * middle, 8, 5, loaded);
            if middle > wanted {
                upper = middle;
            } else {
                lower = middle;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_places, run};

    /// The grids as XSBench keeps them, from explicit energies.
    #[test]
    fn indices_are_those_of_searches_in_explicit_grids() {
        let mut memory = Memory::default();
        let grids = Grids::new(&mut memory, 40, 1);
        let points = NUCLIDES * 40;
        // Point number i has the energy i.
        let grid = |nuclide: u64| (0..40).map(move |k| NUCLIDES * k + nuclide);
        let mut seed = STARTING_SEED;
        for _ in 0..200 {
            let energy = next(&mut seed);
            let place = grids.place(energy);
            let exact = energy as f64 / (1u64 << 63) as f64 * points as f64;
            assert!(place as f64 <= exact + 1e-6 && exact < place as f64 + 1.0 + 1e-6);
            for nuclide in 0..NUCLIDES {
                let below = grid(nuclide).filter(|&point| point <= place).count() as u64;
                let expected = below.saturating_sub(1).min(38);
                assert_eq!(grids.lower(place, nuclide), expected);
            }
        }
    }

    #[test]
    fn a_lookup_ends_where_the_energy_is() {
        let mut memory = Memory::default();
        let grids = Grids::new(&mut memory, 40, 1);
        let mut seed = STARTING_SEED;
        for _ in 0..100 {
            let energy = next(&mut seed);
            let material = material(next(&mut seed));
            let ((), accesses) = run(|out| grids.look_up(out, energy, material));
            check_places(&memory, &accesses);
            let nuclides = MATERIALS[material] as usize;
            let searched = accesses.len() - 1 - 15 * nuclides;
            // Bisecting 14,200 points takes 13 or 14 steps.
            assert!((13..=14).contains(&searched), "{searched}");
            let place = grids.place(energy);
            let near = accesses[..searched].iter().any(|access| {
                let point = (access.addr - grids.energies) / 8;
                point.abs_diff(place) <= 1
            });
            assert!(near);
        }
    }

    #[test]
    fn materials_are_chosen_as_often_as_stated() {
        let mut counts = [0u64; 12];
        let mut seed = STARTING_SEED;
        for _ in 0..100_000 {
            counts[material(next(&mut seed))] += 1;
        }
        for (count, chance) in counts.iter().zip(CHANCES) {
            let expected = 100 * chance;
            assert!(count.abs_diff(expected) < 40 + expected / 20, "{counts:?}");
        }
    }
}
