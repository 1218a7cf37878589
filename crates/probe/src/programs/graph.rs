//! A search of a graph.

use fastrand::Rng;

/// Each step searches from another vertex. The graph is a ring with random edges, so that every
/// vertex is reached.
pub fn search(bytes: usize, steps: u64, rng: &mut Rng) -> u64 {
    const DEGREE: usize = 8;
    // Edges, the beginning of a row, the distance, a place in the queue: four bytes each.
    let count = (bytes / (4 * (DEGREE + 3))).max(2) as u32;
    let rows: Vec<u32> = (0..=count).map(|v| v * DEGREE as u32).collect();
    let mut edges = vec![0; count as usize * DEGREE];
    for (vertex, row) in (0..).zip(edges.chunks_mut(DEGREE)) {
        row.fill_with(|| rng.u32(..count));
        row[0] = (vertex + 1) % count;
    }
    let mut sum = 0u64;
    for step in 0..steps {
        let mut distances = vec![u32::MAX; count as usize];
        let mut queue = Vec::with_capacity(count as usize);
        let start = step as u32 % count;
        distances[start as usize] = 0;
        queue.push(start);
        let mut next = 0;
        while let Some(&vertex) = queue.get(next) {
            next += 1;
            let distance = distances[vertex as usize] + 1;
            let (from, to) = (rows[vertex as usize], rows[vertex as usize + 1]);
            for &neighbour in &edges[from as usize..to as usize] {
                let known = &mut distances[neighbour as usize];
                if *known == u32::MAX {
                    *known = distance;
                    queue.push(neighbour);
                }
            }
        }
        sum += distances.iter().map(|&d| u64::from(d)).sum::<u64>();
    }
    sum
}
