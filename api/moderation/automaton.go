package moderation

import (
	"encoding/binary"
	"math"
	"regexp/syntax"
	"slices"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// automaton looks for several patterns at once in a text of which it sees each rune once: the
// programs of regexp/syntax, made deterministic state by state as texts ask for them (Rob Pike's
// simulation with its sets of instructions remembered, as in RE2). Each step looks one rune
// ahead, so that assertions such as \b and $ are exact. It is safe for concurrent use.
type automaton struct {
	insts    []syntax.Inst // of all patterns, one program behind the other
	owners   []int32       // by instruction: its pattern
	patterns []*pattern
	entries  []uint32             // by pattern: where its program begins
	begins   []border             // that patterns ask for, without repetitions
	allowed  [utf8.RuneSelf]uint8 // by the rune before: which of begins allow a match; not behind a dot

	ascii  [utf8.RuneSelf]uint16
	lows   []rune   // where ranges of runes of one class begin, ascending
	of     []uint16 // by range: the class
	sample []rune   // by class: one of its runes; the last class is the end of the text

	starts [1 << maxBorders][numKinds]atomic.Pointer[state]

	mu     sync.Mutex
	states map[string]*state
	bytes  int
}

// maxStateBytes bounds the states that an automaton remembers. What is beyond is computed
// each time again.
const maxStateBytes = 16 << 20

// kind is what assertions need to know of the rune before a state.
type kind uint8

const (
	kindBegin kind = iota
	kindNewline
	kindWord
	kindOther
	numKinds = 4
)

// before are runes of the kinds, as syntax.EmptyOpContext takes them.
var before = [numKinds]rune{kindBegin: -1, kindNewline: '\n', kindWord: 'a', kindOther: ' '}

func kindOf(r rune) kind {
	switch {
	case r < 0:
		return kindBegin
	case r == '\n':
		return kindNewline
	case syntax.IsWordChar(r):
		return kindWord
	}
	return kindOther
}

// state is a set of instructions that threads wait at: instructions that take a rune, and
// assertions, which the next rune decides.
type state struct {
	pcs     []uint32
	kind    kind
	longest int                    // bytes of a match of the patterns that are left
	next    []atomic.Pointer[step] // by class; nil: not computed yet
}

// step is what a rune makes of a state.
type step struct {
	state *state  // nil: nothing can match any more
	hits  []int32 // patterns that match up to before the rune
}

func newAutomaton(patterns []*pattern) *automaton {
	if len(patterns) == 0 {
		return nil
	}
	a := &automaton{patterns: patterns, states: make(map[string]*state)}
	for i, p := range patterns {
		base := uint32(len(a.insts)) //nolint:gosec // maxInsts bounds it
		for _, in := range p.prog.Inst {
			switch in.Op {
			case syntax.InstAlt, syntax.InstAltMatch:
				in.Out, in.Arg = in.Out+base, in.Arg+base
			case syntax.InstMatch, syntax.InstFail:
			case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
				in.Out += base
			}
			a.insts = append(a.insts, in)
			a.owners = append(a.owners, int32(i)) //nolint:gosec // maxInsts bounds it
		}
		a.entries = append(a.entries, base+uint32(p.prog.Start)) //nolint:gosec // maxInsts bounds it
		if !slices.Contains(a.begins, p.begin) {
			a.begins = append(a.begins, p.begin)
		}
	}
	for r := range rune(utf8.RuneSelf) {
		a.allowed[r] = a.begin(-1, r)
	}
	a.classify()
	return a
}

// classify divides all runes into classes that no instruction tells apart. Each range of an
// instruction has a random mark; the runes between two ends of ranges have the marks of the
// ranges around them, and those with the same marks are one class.
func (a *automaton) classify() {
	marks := make(map[rune]uint64)
	add := func(lo, hi rune, mark uint64) {
		marks[lo] ^= mark
		marks[hi+1] ^= mark
	}
	random := uint64(0x9e3779b97f4a7c15)
	mark := func() uint64 { // splitmix64
		random += 0x9e3779b97f4a7c15
		z := random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		return z ^ z>>31
	}
	word, line := mark(), mark()
	for _, r := range [][2]rune{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}} {
		add(r[0], r[1], word)
	}
	add('\n', '\n', line)
	for i := range a.insts {
		in := &a.insts[i]
		if in.Op != syntax.InstRune && in.Op != syntax.InstRune1 {
			continue
		}
		m := mark()
		if len(in.Rune) == 1 {
			r := in.Rune[0]
			add(r, r, m)
			if syntax.Flags(in.Arg)&syntax.FoldCase != 0 {
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					add(f, f, m)
				}
			}
			continue
		}
		for k := 0; k+1 < len(in.Rune); k += 2 {
			add(in.Rune[k], in.Rune[k+1], m)
		}
	}
	marks[0] ^= 0 // the first range begins here
	for r := range marks {
		a.lows = append(a.lows, r)
	}
	slices.Sort(a.lows)
	a.of = make([]uint16, len(a.lows))
	known := make(map[uint64]uint16)
	sum := uint64(0)
	for i, low := range a.lows {
		sum ^= marks[low]
		class, ok := known[sum]
		if !ok {
			class = uint16(min(len(a.sample), math.MaxUint16-1)) //nolint:gosec // bounded here
			known[sum] = class
			a.sample = append(a.sample, low)
		}
		a.of[i] = class
	}
	a.sample = append(a.sample, -1)
	for r := range rune(utf8.RuneSelf) {
		a.ascii[r] = a.search(r)
	}
}

func (a *automaton) search(r rune) uint16 {
	i, exact := slices.BinarySearch(a.lows, r)
	if !exact {
		i--
	}
	return a.of[i]
}

// class is that of a rune; of -1, the end of the text.
func (a *automaton) class(r rune) int {
	switch {
	case r < 0:
		return len(a.sample) - 1
	case r < utf8.RuneSelf:
		return int(a.ascii[r])
	}
	return int(a.search(r))
}

// start is the state before a rune, where the runes before that are given: of the patterns
// that may begin there.
func (a *automaton) start(prev2, prev rune) *state {
	var mask uint8
	if prev >= 0 && prev < utf8.RuneSelf && prev != '.' {
		mask = a.allowed[prev]
	} else {
		mask = a.begin(prev2, prev)
	}
	k := kindOf(prev)
	if s := a.starts[mask][k].Load(); s != nil {
		return s
	}
	set := newSet(len(a.insts))
	for i, p := range a.patterns {
		if mask>>slices.Index(a.begins, p.begin)&1 != 0 {
			a.follow(set, a.entries[i], 0, false)
		}
	}
	s, _ := a.intern(set.list, k)
	a.starts[mask][k].Store(s)
	return s
}

// begin says, by bits, which of the patterns' borders allow a match between two runes before it and
// the rune that begins it.
func (a *automaton) begin(prev2, prev rune) (mask uint8) {
	for i, b := range a.begins {
		if b.begins(prev2, prev) {
			mask |= 1 << i
		}
	}
	return mask
}

// step is what the rune of a class makes of a state.
func (a *automaton) step(s *state, class int) *step {
	if t := s.next[class].Load(); t != nil {
		return t
	}
	t, kept := a.compute(s, class)
	if kept {
		s.next[class].Store(t)
	}
	return t
}

func (a *automaton) compute(s *state, class int) (t *step, kept bool) {
	r := a.sample[class]
	now, then := newSet(len(a.insts)), newSet(len(a.insts))
	flags := syntax.EmptyOpContext(before[s.kind], r)
	for _, pc := range s.pcs {
		a.follow(now, pc, flags, true)
	}
	t = &step{}
	for _, pc := range now.list {
		switch in := &a.insts[pc]; {
		case in.Op == syntax.InstMatch:
			if owner := a.owners[pc]; !slices.Contains(t.hits, owner) {
				t.hits = append(t.hits, owner)
			}
		case r >= 0 && takes(in, r):
			a.follow(then, in.Out, 0, false)
		}
	}
	slices.Sort(t.hits)
	if len(then.list) == 0 {
		return t, true
	}
	t.state, kept = a.intern(then.list, kindOf(r))
	return t, kept
}

func takes(in *syntax.Inst, r rune) bool {
	switch in.Op {
	case syntax.InstRune, syntax.InstRune1:
		return in.MatchRune(r)
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return r != '\n'
	case syntax.InstAlt, syntax.InstAltMatch, syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstMatch, syntax.InstFail, syntax.InstNop:
	}
	return false
}

// follow adds to a set what a thread reaches from an instruction without a rune. Where the
// assertions are not decided yet, it waits at them.
func (a *automaton) follow(set *set, pc uint32, flags syntax.EmptyOp, decided bool) {
	stack := append(set.stack[:0], pc)
	for len(stack) > 0 {
		pc = stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if !set.mark(pc) {
			continue
		}
		switch in := &a.insts[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			switch {
			case !decided:
				set.list = append(set.list, pc)
			case syntax.EmptyOp(in.Arg)&^flags == 0:
				stack = append(stack, in.Out)
			}
		case syntax.InstFail:
		case syntax.InstMatch, syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			set.list = append(set.list, pc)
		}
	}
	set.stack = stack
}

// set is a set of instructions that is being made.
type set struct {
	seen  []uint64
	list  []uint32
	stack []uint32
}

func newSet(insts int) *set { return &set{seen: make([]uint64, (insts+63)/64)} }

func (s *set) mark(pc uint32) bool {
	word, bit := pc/64, uint64(1)<<(pc%64)
	if s.seen[word]&bit != 0 {
		return false
	}
	s.seen[word] |= bit
	return true
}

// intern gives the state of a set; kept says that it is remembered.
func (a *automaton) intern(pcs []uint32, k kind) (s *state, kept bool) {
	slices.Sort(pcs)
	key := make([]byte, 0, 4*len(pcs)+1)
	for _, pc := range pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	key = append(key, byte(k))
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.states[string(key)]; s != nil {
		return s, true
	}
	s = &state{pcs: pcs, kind: k, next: make([]atomic.Pointer[step], len(a.sample))}
	for _, pc := range pcs {
		s.longest = max(s.longest, a.patterns[a.owners[pc]].maxBytes)
	}
	size := 2*len(key) + 8*len(s.next) + 128
	if a.bytes+size > maxStateBytes {
		return s, false
	}
	a.bytes += size
	a.states[string(key)] = s
	return s, true
}
