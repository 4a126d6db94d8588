package recurrence

import (
	"errors"
	"fmt"
)

// Kind is what a layer does with what rows leave behind.
type Kind uint8

// The kinds.
const (
	None        Kind = iota
	Convolution      // a short convolution and no more (LFM2)
	Delta            // the gated delta rule behind a convolution (Qwen3.5, Qwen3-Next)
	Scan             // the selective scan behind a convolution (Mamba 2)
)

// Shape fixes what a layer keeps of a sequence. Heads share keys and queries by groups.
type Shape struct {
	Kind     Kind
	Taps     int // rows that the convolution sees, the row itself included
	Channels int // of the convolution
	Heads    int // of values; with Convolution none, as all that follow
	Groups   int // of heads with the same keys and queries
	KeyDim   int // values of a key or query
	ValueDim int // values of a head

	Beside bool // of Delta: heads of a group lie beside each other, as they do with Scan; otherwise they are dealt to groups in turns
}

// ErrShape is wrapped by every refusal of a shape.
var ErrShape = errors.New("unusable shape of a recurrent layer")

// most bounds sizes, so that their products stay small.
const most = 1 << 20

// Check says whether the layer can be computed.
func (s *Shape) Check() error {
	switch {
	case s.Kind == None || s.Kind > Scan:
		return fmt.Errorf("%w: kind %d", ErrShape, s.Kind)
	case s.Taps < 1 || s.Taps > mostTaps:
		return fmt.Errorf("%w: a convolution over %d rows, want 1 to %d", ErrShape, s.Taps, mostTaps)
	case s.Channels < 1 || s.Channels > most:
		return fmt.Errorf("%w: %d channels, want 1 to %d", ErrShape, s.Channels, most)
	case s.Kind == Convolution:
		return nil
	}
	for _, n := range [...]struct {
		what  string
		value int
	}{{"heads", s.Heads}, {"groups", s.Groups}, {"values of a key", s.KeyDim}, {"values of a head", s.ValueDim}} {
		if n.value < 1 || n.value > most {
			return fmt.Errorf("%w: %d %s, want 1 to %d", ErrShape, n.value, n.what, most)
		}
	}
	switch {
	case s.Heads%s.Groups != 0:
		return fmt.Errorf("%w: %d heads are no multiple of %d groups", ErrShape, s.Heads, s.Groups)
	case s.KeyDim%sumsBeside != 0:
		return fmt.Errorf("%w: keys of %d values, want a multiple of %d", ErrShape, s.KeyDim, sumsBeside)
	case s.Channels != 2*s.Groups*s.KeyDim+s.Heads*s.ValueDim:
		return fmt.Errorf("%w: %d channels, and %d groups of keys and queries of %d values and %d heads of %d make %d", ErrShape,
			s.Channels, s.Groups, s.KeyDim, s.Heads, s.ValueDim, 2*s.Groups*s.KeyDim+s.Heads*s.ValueDim)
	}
	return nil
}

// Width is how many values a row gives: those of all heads, or the channels of a convolution.
func (s *Shape) Width() int {
	if s.Kind == Convolution {
		return s.Channels
	}
	return s.Heads * s.ValueDim
}

// StateValues is how many floats a state has: the last rows before the convolution, [Taps-1][Channels], and behind them for each head
// tiles of 16 of its values, [Heads][tiles][KeyDim][16].
func (s *Shape) StateValues() int { return s.tail() + s.Heads*s.headState() }

// tail is how many floats of a state are rows before the convolution.
func (s *Shape) tail() int { return (s.Taps - 1) * s.Channels }

// headState is how many floats of a state a head has.
func (s *Shape) headState() int { return s.tiles() * s.KeyDim * tileValues }

// tiles is how many tiles a head's values take.
func (s *Shape) tiles() int { return (s.ValueDim + tileValues - 1) / tileValues }

// group is that of a head: Qwen3.5's converter deals value heads to key heads in turns, groups of Qwen3-Next and Mamba are neighbours.
func (s *Shape) group(head int) int {
	if s.Kind == Delta && !s.Beside {
		return head % s.Groups
	}
	return head / (s.Heads / s.Groups)
}

// keys, queries and values are where a row of channels has those of a head.
func (s *Shape) keys(head int) int {
	if s.Kind == Delta {
		return (s.Groups + s.group(head)) * s.KeyDim
	}
	return s.Heads*s.ValueDim + s.group(head)*s.KeyDim
}

func (s *Shape) queries(head int) int {
	if s.Kind == Delta {
		return s.group(head) * s.KeyDim
	}
	return s.keys(head) + s.Groups*s.KeyDim
}

func (s *Shape) values(head int) int {
	if s.Kind == Delta {
		return 2*s.Groups*s.KeyDim + head*s.ValueDim
	}
	return head * s.ValueDim
}
