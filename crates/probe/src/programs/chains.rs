//! Pointers that are followed, each load waiting for the last one.

use fastrand::Rng;

/// An element of a line; `next` is an index, so that no unsafe code is needed.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Element {
    value: u64,
    next: u32,
}

/// A cycle through all elements in random order.
fn cycle(bytes: usize, rng: &mut Rng) -> Vec<Element> {
    let count = (bytes / size_of::<Element>()).max(2);
    let mut order: Vec<u32> = (0..count as u32).collect();
    rng.shuffle(&mut order);
    let mut elements = vec![Element::default(); count];
    for (&from, &to) in order.iter().zip(order.iter().cycle().skip(1)) {
        elements[from as usize] = Element {
            value: u64::from(from),
            next: to,
        };
    }
    elements
}

pub fn one_field(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    let elements = cycle(bytes, rng);
    let mut at = 0;
    for _ in 0..steps {
        at = elements[at as usize].next;
    }
    u64::from(at)
}

pub fn two_fields(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    let elements = cycle(bytes, rng);
    let (mut at, mut sum) = (0, 0u64);
    for _ in 0..steps {
        let element = &elements[at as usize];
        sum = sum.wrapping_add(std::hint::black_box(element.value) + 1);
        at = element.next;
    }
    sum
}

struct Node {
    value: u64,
    next: Option<Box<Node>>,
}

pub fn linked_list(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    // Bytes that the C library's allocator takes for a node.
    const ALLOCATED: usize = 32;
    let count = (bytes / ALLOCATED).max(2);
    let mut nodes: Vec<Box<Node>> = (0..count as u64)
        .map(|value| Box::new(Node { value, next: None }))
        .collect();
    rng.shuffle(&mut nodes);
    let mut head = None;
    for mut node in nodes {
        node.next = head;
        head = Some(node);
    }
    let (mut at, mut sum) = (&head, 0u64);
    for _ in 0..steps {
        let Some(node) = at else {
            at = &head;
            continue;
        };
        sum = sum.wrapping_add(node.value + 1);
        at = &node.next;
    }
    // One by one: dropping the head would recurse through the whole list.
    while let Some(mut node) = head {
        head = node.next.take();
    }
    sum
}
