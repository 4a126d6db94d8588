package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Log-probabilities of a reference on disk, in the format that llama-perplexity writes with --save-all-logits and
// reads with --kl-divergence-base, little-endian:
//
//	"_logits_", uint32 context, int32 vocabulary, int32 windows
//	int32 [windows][context]: tokens
//	[windows][context-1-context/2] rows, of the second half of each window:
//	  float32 scale, float32 least, uint16 [vocabulary, or one more if it is odd]: ln p = scale x code + least
//
// A token whose probability is below the first choice's by more than e^16 has code 0.
const (
	logProbsMagic  = "_logits_"
	logProbsHeader = len(logProbsMagic) + 12
	logProbsFloor  = -16 // tokens that are less probable are left out of a divergence, as llama-perplexity does
	mostContext    = 1 << 22
	mostVocabulary = 1 << 24
)

// ErrLogProbs is wrapped by errors about files of log-probabilities.
var ErrLogProbs = errors.New("bad file of log-probabilities")

// logProbsRow is the bytes of a position.
func logProbsRow(vocabulary int) int { return 8 + 2*((vocabulary+1)/2*2) }

// LogProbsWriter saves a reference's log-probabilities as they are computed.
type LogProbsWriter struct {
	out *bufio.Writer
	row []byte
	err error
}

// NewLogProbsWriter begins a file for windows of tokens, all of one length.
func NewLogProbsWriter(w io.Writer, vocabulary int, windows [][]int32) *LogProbsWriter {
	l := &LogProbsWriter{out: bufio.NewWriterSize(w, 1<<20), row: make([]byte, logProbsRow(vocabulary))}
	head := append([]byte(nil), logProbsMagic...)
	for _, n := range []int{len(windows[0]), vocabulary, len(windows)} {
		head = binary.LittleEndian.AppendUint32(head, uint32(n)) //nolint:gosec // sizes of what is in memory
	}
	for _, w := range windows {
		for _, t := range w {
			head = binary.LittleEndian.AppendUint32(head, uint32(t)) //nolint:gosec // tokens are not negative
		}
	}
	_, l.err = l.out.Write(head)
	return l
}

// add writes one position's row. Errors come out of Close.
func (l *LogProbsWriter) add(logits []float32) {
	d := newDistribution(logits)
	most := logits[d.top]
	least := most
	for _, x := range logits {
		least = min(least, x)
	}
	least = max(least, most+logProbsFloor)
	scale := (most - least) / math.MaxUint16
	binary.LittleEndian.PutUint32(l.row, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(l.row[4:], math.Float32bits(float32(d.log(least))))
	for i, x := range logits {
		code := 0.0
		if scale > 0 && x > least {
			code = math.RoundToEven(float64((x - least) / scale))
		}
		binary.LittleEndian.PutUint16(l.row[8+2*i:], uint16(min(code, math.MaxUint16)))
	}
	if l.err == nil {
		_, l.err = l.out.Write(l.row)
	}
}

// Close writes what is buffered. It does not close the writer below.
func (l *LogProbsWriter) Close() error { return errors.Join(l.err, l.out.Flush()) }

// LogProbs are a reference's saved log-probabilities. They stand for a model in
// CompareQuality, window after window in the order of the file.
type LogProbs struct {
	Context int       // tokens of a window; its second half counts
	Windows [][]int32 // [windows][context]: tokens

	vocabulary int
	in         *bufio.Reader
	row        []byte
	values     []float32
}

// OpenLogProbs reads the header of a file of so many bytes. The rows are read by CompareQuality.
func OpenLogProbs(r io.Reader, size int64) (*LogProbs, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	head := make([]byte, logProbsHeader)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, fmt.Errorf("%w: header of %d bytes: %w", ErrLogProbs, logProbsHeader, err)
	}
	if string(head[:8]) != logProbsMagic {
		return nil, fmt.Errorf("%w: it begins with %q, not with %q; llama-perplexity --save-all-logits and weir bench quality --save-all-logits write such files",
			ErrLogProbs, head[:8], logProbsMagic)
	}
	context, vocabulary, windows := binary.LittleEndian.Uint32(head[8:]), binary.LittleEndian.Uint32(head[12:]), binary.LittleEndian.Uint32(head[16:])
	if context < 4 || context > mostContext || vocabulary < 2 || vocabulary > mostVocabulary || windows < 1 {
		return nil, fmt.Errorf("%w: %d windows of %d tokens of %d in the vocabulary; windows have 4 to %d tokens, vocabularies 2 to %d",
			ErrLogProbs, windows, context, vocabulary, mostContext, mostVocabulary)
	}
	l := &LogProbs{Context: int(context), vocabulary: int(vocabulary), in: in}
	rows := int64(l.Context - 1 - l.Context/2)
	l.row = make([]byte, logProbsRow(l.vocabulary))
	want := int64(logProbsHeader) + int64(windows)*(4*int64(context)+rows*int64(len(l.row)))
	if size != want {
		return nil, fmt.Errorf("%w: %d bytes where %d windows of %d tokens, %d in the vocabulary, take %d; it may be cut: save it again",
			ErrLogProbs, size, windows, context, vocabulary, want)
	}
	l.values = make([]float32, l.vocabulary)
	return l, l.readTokens(int(windows))
}

func (l *LogProbs) readTokens(windows int) error {
	raw := make([]byte, 4*l.Context)
	for range windows {
		if _, err := io.ReadFull(l.in, raw); err != nil {
			return fmt.Errorf("%w: tokens: %w", ErrLogProbs, err)
		}
		window := make([]int32, l.Context)
		for i := range window {
			t := binary.LittleEndian.Uint32(raw[4*i:])
			if int64(t) >= int64(l.vocabulary) {
				return fmt.Errorf("%w: token %d of a vocabulary of %d", ErrLogProbs, int32(t), l.vocabulary) //nolint:gosec // as it was written
			}
			window[i] = int32(t) //nolint:gosec // below the vocabulary
		}
		l.Windows = append(l.Windows, window)
	}
	return nil
}

// Vocabulary is the number of tokens that a row tells the probability of.
func (l *LogProbs) Vocabulary() int { return l.vocabulary }

// Score yields the next window's log-probabilities; the caller names the file's own windows, in their order.
func (l *LogProbs) Score(tokens []int32, from int, yield func(position int, logits []float32)) error {
	if len(tokens) != l.Context-1 || from != l.Context/2 {
		return fmt.Errorf("%w: windows of %d tokens counted from %d; the file has %d from %d", ErrLogProbs, len(tokens)+1, from, l.Context, l.Context/2)
	}
	for position := from; position < len(tokens); position++ {
		if _, err := io.ReadFull(l.in, l.row); err != nil {
			return fmt.Errorf("%w: row of position %d: %w", ErrLogProbs, position, err)
		}
		scale := math.Float32frombits(binary.LittleEndian.Uint32(l.row))
		least := math.Float32frombits(binary.LittleEndian.Uint32(l.row[4:]))
		if !(scale >= 0 && scale <= 1) || !(least >= -1e4 && least <= 0) { // NaN, too
			return fmt.Errorf("%w: position %d has scale %v and least value %v", ErrLogProbs, position, scale, least)
		}
		for i := range l.values {
			l.values[i] = scale*float32(binary.LittleEndian.Uint16(l.row[8+2*i:])) + least
		}
		yield(position, l.values)
	}
	return nil
}
