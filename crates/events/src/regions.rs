//! The GiBs of address spaces that a program uses, numbered.

use std::collections::HashMap;

/// Process, and address divided by a GiB.
type Name = (u32, u64);

/// Names remembered: a program goes to and fro between its stack, its heap and some more.
const REMEMBERED: usize = 64;

/// Numbers of the GiBs that were named so far.
#[derive(Debug)]
pub struct Regions {
    numbers: HashMap<Name, usize>,
    remembered: [(Name, usize); REMEMBERED],
}

/// That of no region.
const NOBODY: Name = (u32::MAX, u64::MAX);

impl Default for Regions {
    fn default() -> Self {
        Regions {
            numbers: HashMap::new(),
            remembered: [(NOBODY, 0); REMEMBERED],
        }
    }
}

impl Regions {
    /// The number of a region, if it was used before.
    #[inline(always)]
    pub fn number(&mut self, name: Name) -> Option<usize> {
        let (known, number) = self.remembered[place(name)];
        if known == name {
            Some(number)
        } else {
            self.look_up(name)
        }
    }

    #[cold]
    fn look_up(&mut self, name: Name) -> Option<usize> {
        let &number = self.numbers.get(&name)?;
        self.remembered[place(name)] = (name, number);
        Some(number)
    }

    /// Takes the regions of a process out, and returns their numbers.
    pub fn remove(&mut self, process: u32) -> Vec<usize> {
        self.remembered = [(NOBODY, 0); REMEMBERED];
        let gone = self.numbers.extract_if(|&(of, _), _| of == process);
        gone.map(|(_, number)| number).collect()
    }

    /// All regions with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = ((u32, u64), usize)> {
        self.numbers.iter().map(|(&name, &number)| (name, number))
    }

    /// Numbers a new region.
    pub fn add(&mut self, name: Name, number: usize) {
        self.numbers.insert(name, number);
        self.remembered[place(name)] = (name, number);
    }
}

fn place((process, gib): Name) -> usize {
    (gib ^ gib >> 6 ^ u64::from(process)) as usize % REMEMBERED
}
