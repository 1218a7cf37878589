//! Dependences through memory of random programs, against an interpreter that knows of each
//! byte which load produced it.

mod common;

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

use common::{assemble_text, run};
use pagelab_events::{
    Stores,
    dependence::{far, near},
};
use pagelab_recorder::{MAX_DEP, Request};

/// An instruction of the small programs. Places are bytes from `data`; registers are numbers of
/// [`REGISTERS`], or of vector registers.
#[derive(Clone, Copy, Debug)]
enum Step {
    Load(usize, MemoryOperand),
    Store(usize, MemoryOperand),
    Constant(MemoryOperand),
    /// `add register, place`: loads and stores.
    Update(usize, MemoryOperand),
    Exchange(usize, MemoryOperand),
    Push(usize),
    Pop(usize),
    VectorLoad(usize, MemoryOperand),
    VectorStore(usize, MemoryOperand),
    Move(usize, usize),
    Add(usize, usize),
    Set(usize),
    /// Loads 0 into the register that is added to addresses.
    Index,
    Jump,
}

#[derive(Clone, Copy, Debug)]
struct MemoryOperand {
    offset: u64,
    size: u64,
    /// The address depends on the load of the index.
    indexed: bool,
}

const REGISTERS: [[&str; 4]; 5] = [
    ["al", "ax", "eax", "rax"],
    ["bl", "bx", "ebx", "rbx"],
    ["cl", "cx", "ecx", "rcx"],
    ["dl", "dx", "edx", "rdx"],
    ["r8b", "r8w", "r8d", "r8"],
];

/// Bytes from `data`: places that are read and written, the 0 that is the index, the stack's end.
const PLACES: u64 = 200;
const ZERO: u64 = 256;
const STACK: u64 = 1024;
const ROUNDS: usize = 3;

/// A generator of numbers (Knuth's).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A place; with `whole`, of whole units of four bytes.
    fn place(&mut self, whole: bool, size: Option<u64>) -> MemoryOperand {
        let log2 = if whole {
            2 + self.below(2)
        } else {
            self.below(4)
        };
        let align = if whole { 4 } else { 1 };
        MemoryOperand {
            offset: self.below(PLACES) / align * align,
            size: size.unwrap_or(1 << log2),
            indexed: self.below(4) == 0,
        }
    }

    fn program(&mut self, whole: bool, length: usize) -> Vec<Step> {
        let mut depth = 0;
        let mut program = vec![Step::Index];
        for _ in 0..length {
            let register = self.below(5) as usize;
            program.push(match self.below(15) {
                0 | 1 => Step::Load(register, self.place(whole, None)),
                2 | 3 => Step::Store(register, self.place(whole, None)),
                4 => Step::Constant(self.place(whole, None)),
                5 => Step::Update(register, self.place(whole, None)),
                6 => Step::Exchange(register, self.place(whole, Some(8))),
                7 if depth < 20 => {
                    depth += 1;
                    Step::Push(register)
                }
                7 | 8 if depth > 0 => {
                    depth -= 1;
                    Step::Pop(register)
                }
                9 => Step::VectorLoad(register, self.place(whole, Some(16))),
                10 => Step::VectorStore(register, self.place(whole, Some(16))),
                11 => Step::Move(register, self.below(5) as usize),
                12 => Step::Add(register, self.below(5) as usize),
                13 => Step::Set(register),
                14 => Step::Index,
                _ => Step::Jump,
            });
        }
        program.extend((0..depth).map(|_| Step::Pop(0)));
        program
    }
}

fn text(program: &[Step]) -> String {
    let mut text = String::from(
        "    .globl _start\n    .intel_syntax noprefix\n_start:\n    lea rdi, data[rip]\n",
    );
    writeln!(
        text,
        "    lea rsp, [rdi+{STACK}]\n    mov ebp, {ROUNDS}\nround:"
    )
    .unwrap();
    for (number, &step) in program.iter().enumerate() {
        writeln!(text, "    {}", instruction(step, number)).unwrap();
    }
    text += "    dec ebp\n    jnz round\n    mov eax, 60\n    xor edi, edi\n    syscall\n";
    text + "    .bss\n    .balign 4096\ndata:\n    .space 4096\n"
}

fn instruction(step: Step, number: usize) -> String {
    let part = |register: usize, size: u64| REGISTERS[register][size.trailing_zeros() as usize];
    let whole = |register| part(register, 8);
    match step {
        Step::Load(to, from) if from.size < 4 => format!("movzx {}, {}", part(to, 4), memory(from)),
        Step::Load(to, from) => format!("mov {}, {}", part(to, from.size), memory(from)),
        Step::Store(from, to) => format!("mov {}, {}", memory(to), part(from, to.size)),
        Step::Constant(to) => format!("mov {}, 1", memory(to)),
        Step::Update(by, place) => format!("add {}, {}", memory(place), part(by, place.size)),
        Step::Exchange(with, place) => format!("xchg {}, {}", memory(place), whole(with)),
        Step::Push(from) => format!("push {}", whole(from)),
        Step::Pop(to) => format!("pop {}", whole(to)),
        Step::VectorLoad(to, from) => format!("movups xmm{to}, {}", memory(from)),
        Step::VectorStore(from, to) => format!("movups {}, xmm{from}", memory(to)),
        Step::Move(to, from) => format!("mov {}, {}", whole(to), whole(from)),
        Step::Add(to, by) => format!("add {}, {}", whole(to), whole(by)),
        Step::Set(to) => format!("mov {}, 7", part(to, 4)),
        Step::Index => format!("mov r9, [rdi+{ZERO}]"),
        Step::Jump => format!("jmp to{number}\nto{number}:"),
    }
}

fn memory(place: MemoryOperand) -> String {
    let kind = match place.size {
        1 => "byte",
        2 => "word",
        4 => "dword",
        8 => "qword",
        _ => "xmmword",
    };
    let index = if place.indexed { "+r9" } else { "" };
    format!("{kind} ptr [rdi{index}+{}]", place.offset)
}

/// Expectation of the interpreter for an access: where, and which loads it waits for, the younger first, from 1; 0
/// for none.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    offset: u64,
    store: bool,
    producers: [u64; 2],
}

/// The loads behind a value, all of them.
type Loads = BTreeSet<u64>;

fn youngest(loads: &Loads) -> u64 {
    loads.last().copied().unwrap_or(0)
}

/// By whom everything was produced: numbers of loads. Memory is followed by the youngest.
#[derive(Default)]
struct Interpreter {
    registers: [Loads; 5],
    vectors: [Loads; 5],
    index: u64,
    stack: u64,
    bytes: HashMap<u64, u64>,
    accesses: Vec<Expected>,
}

impl Interpreter {
    fn load(&mut self, place: MemoryOperand) -> Loads {
        let number = self.accesses.len() as u64 + 1;
        let stored = (place.offset..place.offset + place.size)
            .filter_map(|byte| self.bytes.get(&byte).copied())
            .max()
            .filter(|&stored| number - stored <= Stores::REACH)
            .unwrap_or(0);
        self.access(place, false, stored);
        Loads::from([number])
    }

    fn store(&mut self, place: MemoryOperand, value: &Loads) {
        let value = youngest(value);
        self.access(place, true, 0);
        for byte in place.offset..place.offset + place.size {
            self.bytes.insert(byte, value);
        }
    }

    fn access(&mut self, place: MemoryOperand, store: bool, stored: u64) {
        let number = self.accesses.len() as u64 + 1;
        let address = if place.indexed { self.index } else { 0 };
        let address = if number - address <= MAX_DEP {
            address
        } else {
            0
        };
        self.accesses.push(Expected {
            offset: place.offset,
            store,
            producers: match address.max(stored) {
                first if first == address.min(stored) => [first, 0],
                first => [first, address.min(stored)],
            },
        });
    }

    fn step(&mut self, step: Step) {
        let place = |offset| MemoryOperand {
            offset,
            size: 8,
            indexed: false,
        };
        match step {
            Step::Load(to, from) => self.registers[to] = self.load(from),
            Step::Store(from, to) => self.store(to, &self.registers[from].clone()),
            Step::Constant(to) => self.store(to, &Loads::new()),
            Step::Update(_, at) => {
                let loaded = self.load(at);
                self.store(at, &loaded);
            }
            Step::Exchange(with, at) => {
                let loaded = self.load(at);
                self.store(at, &self.registers[with].clone());
                self.registers[with] = loaded;
            }
            Step::Push(from) => {
                self.stack -= 8;
                self.store(place(self.stack), &self.registers[from].clone());
            }
            Step::Pop(to) => {
                self.registers[to] = self.load(place(self.stack));
                self.stack += 8;
            }
            Step::VectorLoad(to, from) => self.vectors[to] = self.load(from),
            Step::VectorStore(from, to) => self.store(to, &self.vectors[from].clone()),
            Step::Move(to, from) => self.registers[to] = self.registers[from].clone(),
            Step::Add(to, by) => {
                let more = self.registers[by].clone();
                self.registers[to].extend(more);
            }
            Step::Set(to) => self.registers[to] = Loads::new(),
            Step::Index => self.index = youngest(&self.load(place(ZERO))),
            Step::Jump => {}
        }
    }
}

fn expected(program: &[Step]) -> Vec<Expected> {
    let mut interpreter = Interpreter {
        stack: STACK,
        ..Interpreter::default()
    };
    for _ in 0..ROUNDS {
        program.iter().for_each(|&step| interpreter.step(step));
    }
    interpreter.accesses
}

/// Recorded accesses of it.
fn recorded(program: &[Step], name: &str, verbatim: bool) -> Vec<Expected> {
    let built = assemble_text(name, &text(program));
    let data = built.symbols()["data"];
    let recorded = run(&Request {
        verbatim,
        ..built.request()
    });
    (1..)
        .zip(recorded.program_accesses())
        .map(|(number, access)| Expected {
            offset: access.addr - data,
            store: access.op.is_store(),
            producers: [near(access.dep), far(access.dep)].map(|distance| match distance {
                0 => 0,
                distance => number - u64::from(distance),
            }),
        })
        .collect()
}

#[test]
fn values_of_whole_units_are_followed_exactly() {
    for seed in 1..=4 {
        let program = Random(seed).program(true, 1500);
        let got = recorded(&program, &format!("whole{seed}"), seed % 2 == 0);
        let wanted = expected(&program);
        for (number, (got, wanted)) in (1..).zip(got.iter().zip(&wanted)) {
            assert_eq!(got, wanted, "seed {seed}, access {number}");
        }
        assert_eq!(got.len(), wanted.len());
    }
}

/// Bytes beside it in the same four count as read with it (`Stores`).
#[test]
fn of_parts_of_a_unit_no_dependence_is_missed() {
    let mut more = 0;
    let mut all = 0;
    for seed in 11..=14 {
        let program = Random(seed).program(false, 1500);
        let got = recorded(&program, &format!("parts{seed}"), seed % 2 == 0);
        let wanted = expected(&program);
        assert_eq!(got.len(), wanted.len());
        for (number, (got, wanted)) in (1..).zip(got.iter().zip(&wanted)) {
            assert_eq!((got.offset, got.store), (wanted.offset, wanted.store));
            let which = format!("seed {seed}, access {number}");
            assert!(
                got.producers[0] >= wanted.producers[0],
                "{which}: {got:?}, {wanted:?}"
            );
            more += usize::from(got.producers != wanted.producers);
            all += 1;
        }
    }
    assert!(more > 0 && more * 10 < all, "{more} of {all}");
}
