// Package arena holds large blocks of memory, for weights and for the KV cache,
// outside the garbage collector's sight.
package arena

import (
	"errors"
	"fmt"
)

// Sentinels of this package.
var (
	ErrFull = errors.New("arena is full")
	ErrSize = errors.New("invalid size")
)

// Arena is a bounded region of memory, outside the garbage
// collector's sight on systems with mmap: its gigabytes neither count
// towards the next collection nor get scanned. Alloc takes memory front to back;
// Release returns all of it at once.
//
// The creator owns the arena. Slices from Alloc belong to it: they must not
// hold Go pointers, and no slice may be used after Release, where reading one
// is a fault that ends the process. Alloc and Release are for one goroutine;
// the slices may be filled and read by any.
type Arena struct {
	mem  []byte
	used int
}

// New reserves capacityBytes of zeroed memory. The system provides pages
// as they are first written.
func New(capacityBytes int64) (*Arena, error) {
	if capacityBytes < 0 || int64(int(capacityBytes)) != capacityBytes {
		return nil, fmt.Errorf("%w: capacity of %d bytes", ErrSize, capacityBytes)
	}
	if capacityBytes == 0 {
		return &Arena{}, nil
	}
	mem, err := mapMemory(int(capacityBytes))
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of memory: %w", capacityBytes, err)
	}
	return &Arena{mem: mem}, nil
}

// Alloc returns n zeroed bytes whose address is a multiple of align, a power
// of two up to the page size of 4096. It returns ErrFull, with the sizes,
// where they do not fit.
func (a *Arena) Alloc(n, align int) ([]byte, error) {
	if n < 0 || align <= 0 || align > 4096 || align&(align-1) != 0 {
		return nil, fmt.Errorf("%w: allocation of %d bytes aligned to %d", ErrSize, n, align)
	}
	begin := (a.used + align - 1) &^ (align - 1)
	if begin > len(a.mem) || n > len(a.mem)-begin {
		return nil, fmt.Errorf("%w: %d bytes asked, %d of %d used", ErrFull, n, a.used, len(a.mem))
	}
	a.used = begin + n
	return a.mem[begin:a.used:a.used], nil
}

// CapacityBytes is the size of the whole arena.
func (a *Arena) CapacityBytes() int { return len(a.mem) }

// UsedBytes is what Alloc has handed out, with the padding between.
func (a *Arena) UsedBytes() int { return a.used }

// Release returns all memory to the system. A second call does nothing.
func (a *Arena) Release() error {
	mem := a.mem
	a.mem, a.used = nil, 0
	if mem == nil {
		return nil
	}
	if err := unmapMemory(mem); err != nil {
		return fmt.Errorf("release arena: %w", err)
	}
	return nil
}
