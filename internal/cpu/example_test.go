package cpu_test

import (
	"fmt"

	"weir/internal/cpu"
)

// A server asks what the machine, or its container, leaves it. The values are the machine's: 8, 15032385536, [AVX512_VNNI].
func Example() {
	threads := cpu.Threads()
	cpu.MakeRoom(threads)
	if quota, ok := cpu.Quota(); ok {
		fmt.Println("a container with", quota, "CPUs")
	}
	fmt.Println(threads, "compute threads")
	fmt.Println(cpu.AvailableMemoryBytes(), "bytes before the machine swaps")
	fmt.Println("without", cpu.Missing("avx2", "avx512_vnni"))
	if warning := cpu.Excess(64); warning != "" {
		fmt.Println("warning:", warning)
	}
}
