// Makes garbage on goroutines that talk to each other, with a small heap.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"sync"
)

func main() {
	debug.SetGCPercent(10)
	results := make(chan uint64, 64)
	var wait sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		wait.Add(1)
		go func(state uint64) {
			defer wait.Done()
			for round := 0; round < 8; round++ {
				pieces := make([][]uint64, 0)
				for i := 0; i < 40; i++ {
					piece := make([]uint64, 64+i)
					for j := range piece {
						state = state*6364136223846793005 + 1442695040888963407
						piece[j] = state
					}
					pieces = append(pieces, piece)
				}
				var sum uint64
				for _, piece := range pieces {
					sort.Slice(piece, func(a, b int) bool { return piece[a] < piece[b] })
					sum ^= piece[0] + piece[len(piece)-1]
				}
				results <- sum
			}
		}(uint64(worker))
	}
	wait.Wait()
	close(results)
	var all uint64
	for sum := range results {
		all += sum
	}
	fmt.Printf("%016x\n", all)
	os.Exit(5)
}
