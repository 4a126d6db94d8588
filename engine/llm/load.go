package llm

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"weir/engine/gguf"
	"weir/engine/kernel/vector"
	"weir/engine/kernel/weight"
	"weir/internal/arena"
	"weir/internal/cpu"
	"weir/internal/inference"
)

// arenaBytes is the memory that the wanted tensors take.
func (l *loader) arenaBytes() (int64, error) {
	total := int64(0)
	for _, w := range l.wants {
		n, err := w.bytes()
		if err != nil {
			return 0, err
		}
		total += int64(n) + arenaAlign
	}
	return total, nil
}

// wantedBytes is the size of tensors; arenaBytes tells what is wrong with those that have none.
func wantedBytes(wants []want) int {
	total := 0
	for i := range wants {
		if n, err := wants[i].bytes(); err == nil {
			total += n
		}
	}
	return total
}

// arenaAlign is a cache line, which every tensor starts on.
const arenaAlign = 64

func (w *want) bytes() (int, error) {
	if w.vector != nil {
		return 4 * w.rows * w.cols, nil
	}
	var n int
	var err error
	if w.paired {
		n, err = weight.PairBytes(w.rows, w.cols)
	} else {
		n, err = weight.MatrixBytes(w.held, w.rows, w.cols)
	}
	if err != nil {
		return 0, fmt.Errorf("tensor %s: %w", w.tensor.Name, err)
	}
	return n, nil
}

// readChunk is how much a worker reads at a time.
const readChunk = 1 << 20

// load reads every wanted tensor, and makes the weights of them that a model computes with.
func (l *loader) load(w *weights, progress func(done, total int64), stopped func() error) error {
	if err := l.fill(&w.tensorMemory, progress, stopped); err != nil {
		return err
	}
	w.scaleLogits()
	if w.output == nil && w.head.pooling == inference.PoolingNone {
		w.output = w.embed
	}
	return nil
}

// tensorMemory is one arena with all tensors of a file.
type tensorMemory struct {
	arena *arena.Arena
	bytes int64 // in the arena
}

// release frees it.
func (t *tensorMemory) release() error {
	if t.arena == nil {
		return nil
	}
	return t.arena.Release()
}

// fill reads every wanted tensor into one arena, on as many goroutines as there
// are threads: laying rows out costs as much as reading them. An error of stopped ends it.
func (l *loader) fill(to *tensorMemory, progress func(done, total int64), stopped func() error) error {
	total, err := l.arenaBytes()
	if err != nil {
		return err
	}
	if to.arena, err = arena.New(total + arenaAlign); err != nil {
		return fmt.Errorf("reserve %d bytes for weights: %w", total, err)
	}
	to.bytes = total
	for i := range l.wants {
		if err := l.wants[i].reserve(to.arena); err != nil {
			return err
		}
	}
	var next atomic.Int64
	workers := min(cpu.Threads(), len(l.wants))
	news, failed := make(chan int, 64), make(chan error, workers)
	for range workers {
		go func() { failed <- l.work(&next, news, stopped) }()
	}
	done := int64(0)
	for workers > 0 {
		select {
		case n := <-news:
			done += int64(n)
			progress(min(done, total), total)
		case e := <-failed:
			workers--
			if err == nil && e != nil {
				err = e
				next.Store(int64(len(l.wants)))
			}
		}
	}
	if err != nil {
		return err
	}
	progress(total, total)
	return nil
}

// work reads tensors until none is left, telling the bytes it has read.
func (l *loader) work(next *atomic.Int64, news chan<- int, stopped func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: loading panicked: %v\n%s", inference.ErrInternal, v, debug.Stack())
		}
	}()
	var chunk []byte // as long as the largest part of a tensor that came so far: adapters have small ones, and are loaded by hundreds
	for {
		i := int(next.Add(1)) - 1
		if i >= len(l.wants) {
			return nil
		}
		if err := l.read(&l.wants[i], &chunk, stopped, func(n int) { news <- n }); err != nil {
			return err
		}
	}
}

// reserve takes the tensor's memory.
func (w *want) reserve(a *arena.Arena) error {
	n, err := w.bytes()
	if err != nil {
		return err
	}
	if w.memory, err = a.Alloc(n, arenaAlign); err != nil {
		return fmt.Errorf("tensor %s: %w", w.tensor.Name, err)
	}
	return nil
}

func (l *loader) read(w *want, chunk *[]byte, stopped func() error, advance func(int)) error {
	if err := stopped(); err != nil {
		return err
	}
	if w.vector != nil {
		defer advance(len(w.memory))
		return l.readVector(w, vector.Floats(w.memory))
	}
	p, err := w.packer()
	if err != nil {
		return fmt.Errorf("tensor %s: %w", w.tensor.Name, err)
	}
	rowBytes := int(w.tensor.RowBytes())
	rows := min(max(readChunk/p.RowBytes()/weight.PackRows, 1)*weight.PackRows, w.rows)
	*chunk = slices.Grow((*chunk)[:0], rows*rowBytes)
	for r := 0; r < w.rows; r += rows {
		part := (*chunk)[:min(rows, w.rows-r)*rowBytes]
		if err := l.readRows(w, part, r); err != nil {
			return err
		}
		if err := p.Add(w.converted(part)); err != nil {
			return fmt.Errorf("tensor %s: %w", w.tensor.Name, err)
		}
		advance(min(rows, w.rows-r) * p.RowBytes())
		if err := stopped(); err != nil {
			return err
		}
	}
	*w.matrix, err = p.Matrix()
	return err
}

// readRows reads rows of a matrix from row r on.
func (l *loader) readRows(w *want, to []byte, r int) error {
	rowBytes := int(w.tensor.RowBytes())
	if w.order == nil {
		return l.f.ReadTensorAt(w.tensor, to, int64((w.first+r)*rowBytes))
	}
	for order := w.order[r : r+len(to)/rowBytes]; len(order) > 0; {
		n := 1 // rows that follow each other
		for n < len(order) && order[n] == order[0]+n {
			n++
		}
		if err := l.f.ReadTensorAt(w.tensor, to[:n*rowBytes], int64(order[0]*rowBytes)); err != nil {
			return err
		}
		to, order = to[n*rowBytes:], order[n:]
	}
	return nil
}

func (w *want) packer() (*weight.Packer, error) {
	if w.paired {
		return weight.NewPairPacker(w.rows, w.cols, w.memory)
	}
	return weight.NewPacker(w.held, w.rows, w.cols, w.memory)
}

// converted are rows of the file in the type that the matrix has in memory.
func (w *want) converted(rows []byte) []byte {
	if w.held == w.tensor.Type {
		return rows
	}
	floats := make([]byte, 4*w.cols*(len(rows)/int(w.tensor.RowBytes())))
	weight.Decode(w.tensor.Type, vector.Floats(floats), rows)
	if w.held == gguf.TypeBF16 {
		return weight.AppendBF16(nil, vector.Floats(floats))
	}
	if w.held != gguf.TypeF16 {
		return floats
	}
	halves := floats[:0] // each written behind those that were read
	for _, v := range vector.Floats(floats) {
		halves = binary.LittleEndian.AppendUint16(halves, vector.F32ToF16(v))
	}
	return halves
}

func (l *loader) readVector(w *want, dst []float32) error {
	raw := make([]byte, w.tensor.Bytes)
	if err := l.f.ReadTensor(w.tensor, raw); err != nil {
		return err
	}
	if len(dst) < int(w.tensor.Elements()) { // a part of a fused bias
		whole := make([]float32, w.tensor.Elements())
		weight.Decode(w.tensor.Type, whole, raw)
		copy(dst, whole[w.first:])
	} else {
		weight.Decode(w.tensor.Type, dst, raw)
	}
	for i, v := range dst {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("%w: tensor %s holds %v at %d; the file is damaged", ErrModel, w.tensor.Name, v, i)
		}
	}
	*w.vector = dst
	return nil
}
