package kvevent

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"weir/router/prefix"
)

// recorded are the batches that a vLLM 0.32.0 has published, and the requests between them: what it was asked, and how many tokens of that
// it had cached. Its cache had 28 blocks of 32 tokens, so that most of what it stored it removed again.
func recorded(t testing.TB) (batches [][]byte, asked []struct {
	Batches int // that came before the request
	Tokens  []int32
	Salt    string
	Cached  int
}) {
	t.Helper()
	raw, err := os.ReadFile("testdata/vllm-0.32.0.events")
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		n := binary.BigEndian.Uint32(raw)
		batches, raw = append(batches, raw[4:4+n]), raw[4+n:]
	}
	text, err := os.ReadFile("testdata/vllm-0.32.0.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &asked); err != nil {
		t.Fatal(err)
	}
	return batches, asked
}

// reader brings batches into an index.
type reader struct {
	t      *testing.T
	ledger *Ledger
	index  *prefix.Index
	seq    uint64
}

func newReader(t *testing.T, model string, most int) *reader {
	t.Helper()
	index, err := prefix.New(prefix.Config{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &reader{t: t, ledger: NewLedger(model, most), index: index}
}

func (r *reader) take(events ...Event) error {
	r.t.Helper()
	for i := range events {
		changes, err := r.ledger.Take(nil, &events[i])
		if err != nil {
			return err
		}
		for _, e := range changes {
			r.seq++
			e.Epoch, e.Seq = 1, r.seq
			if err := r.index.Apply(0, e); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return nil
}

func (r *reader) cached(tokens []int32, salt string) int {
	block := r.ledger.BlockTokens()
	if block == 0 {
		return 0
	}
	return block * r.index.Depth(0, Domain(block, salt).Chain(nil, tokens, block))
}

// What the index says of each prompt is what vLLM then found in its cache: evictions, salts and a reset included.
func TestIndexIsWhatVLLMHasCached(t *testing.T) {
	batches, asked := recorded(t)
	r := newReader(t, "smollm2", 1000)
	next, hits := 0, 0
	for i, a := range asked {
		for ; next < a.Batches; next++ {
			b, err := Decode(batches[next])
			if err != nil {
				t.Fatalf("batch %d: %v", next, err)
			}
			if err := r.take(b.Events...); err != nil {
				t.Fatal(err)
			}
		}
		// The last token is computed even where all are cached.
		if got := min(r.cached(a.Tokens, a.Salt), (len(a.Tokens)-1)/32*32); got != a.Cached {
			t.Errorf("request %d of %d tokens: the index says %d, vLLM %d", i, len(a.Tokens), got, a.Cached)
		}
		hits += a.Cached
	}
	if r.ledger.Unread > 0 || hits == 0 || len(asked) < 20 {
		t.Errorf("%d blocks were not read; %d requests had %d tokens cached", r.ledger.Unread, len(asked), hits)
	}
	if err := r.index.Check(); err != nil {
		t.Error(err)
	}
}

// A listing tells all that is held.
func TestList(t *testing.T) {
	batches, _ := recorded(t)
	r := newReader(t, "smollm2", 1000)
	for _, text := range batches {
		b, err := Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.take(b.Events...); err != nil {
			t.Fatal(err)
		}
	}
	list := r.ledger.List(nil)
	if len(list) != r.ledger.Blocks() || len(list) != r.index.Entries(0) || len(list) == 0 {
		t.Errorf("%d are listed, %d are in the ledger, %d in the index", len(list), r.ledger.Blocks(), r.index.Entries(0))
	}
}

// The form of older versions and of SGLang: events as arrays, hashes as numbers of either sign, fields that are left out.
func arrays(t *testing.T) []byte {
	t.Helper()
	text := msgp.AppendArrayHeader(nil, 3)
	text = msgp.AppendFloat64(text, 1.5)
	text = msgp.AppendArrayHeader(text, 4)
	text = msgp.AppendArrayHeader(text, 6) // as SGLang writes it
	text = msgp.AppendString(text, "BlockStored")
	text = msgp.AppendInt64(msgp.AppendArrayHeader(text, 1), -5)
	text = msgp.AppendNil(text)
	text = tokens(text, 0, 16)
	text = msgp.AppendNil(msgp.AppendInt(text, 16))
	text = msgp.AppendArrayHeader(text, 8) // as vLLM 0.11 writes it
	text = msgp.AppendString(text, "BlockStored")
	text = msgp.AppendBytes(msgp.AppendArrayHeader(text, 1), []byte("0123456789abcdefghijklmnopqrstuv"))
	text = msgp.AppendInt64(text, -5)
	text = tokens(text, 16, 32)
	text = msgp.AppendNil(msgp.AppendInt(text, 16))
	text = msgp.AppendNil(msgp.AppendString(text, "GPU"))
	text = msgp.AppendString(msgp.AppendArrayHeader(text, 1), "SomethingNew")
	text = msgp.AppendArrayHeader(text, 3)
	text = msgp.AppendString(text, "BlockRemoved")
	text = msgp.AppendUint64(msgp.AppendArrayHeader(text, 1), 1<<63)
	text = msgp.AppendString(text, "GPU")
	return msgp.AppendInt(text, 2)
}

func tokens(text []byte, from, to int) []byte {
	text = msgp.AppendArrayHeader(text, uint32(to-from))
	for i := from; i < to; i++ {
		text = msgp.AppendInt(text, i)
	}
	return text
}

func count(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i)
	}
	return ids
}

func TestArrays(t *testing.T) {
	b, err := Decode(arrays(t))
	if err != nil || len(b.Events) != 4 || b.Rank != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	r := newReader(t, "m", 100)
	if err := r.take(b.Events...); err != nil {
		t.Fatal(err)
	}
	if got := r.cached(count(40), ""); got != 32 {
		t.Errorf("%d tokens are cached, want 32", got)
	}
}

// stored is an event of blocks of 16 tokens, which are named by the numbers from first on.
func stored(first byte, ids []int32, parent ...byte) Event {
	e := Event{Kind: Stored, Tokens: ids, BlockTokens: 16}
	for i := range len(ids) / 16 {
		e.Blocks = append(e.Blocks, ID{first + byte(i)})
	}
	for _, p := range parent {
		e.Parent, e.HasParent = ID{p}, true
	}
	return e
}

func TestLedger(t *testing.T) {
	ids := count(64)
	on := func(e Event, change func(*Event)) Event {
		change(&e)
		return e
	}
	all := stored(1, ids)
	for _, c := range []struct {
		name           string
		events         []Event
		cached, unread int
	}{
		{"a prompt", []Event{all}, 64, 0},
		{"in two events", []Event{stored(1, ids[:32]), stored(3, ids[32:], 2)}, 64, 0},
		{"twice", []Event{all, all}, 64, 0},
		{"after what is not known", []Event{stored(1, ids[:16]), stored(3, ids[32:], 2)}, 16, 2},
		{"removed at its end", []Event{all, {Kind: Removed, Blocks: []ID{{4}, {3}}}}, 32, 0},
		{"removed in the middle", []Event{all, {Kind: Removed, Blocks: []ID{{2}}}}, 16, 0},
		{"removed and back", []Event{all, {Kind: Removed, Blocks: []ID{{2}}}, stored(2, ids[16:32], 1)}, 64, 0},
		{"removed without being held", []Event{all, {Kind: Removed, Blocks: []ID{{9}}}}, 64, 0},
		{"all are cleared", []Event{all, {Kind: Cleared}}, 0, 0},
		{"copied to memory and removed from the GPU", []Event{all, {Kind: Stored, Medium: "CPU", Blocks: all.Blocks}, {Kind: Removed, Medium: "GPU", Blocks: all.Blocks}}, 64, 0},
		{"and from memory", []Event{all, {Kind: Stored, Medium: "CPU", Blocks: all.Blocks}, {Kind: Removed, Medium: "GPU", Blocks: all.Blocks}, {Kind: Removed, Medium: "CPU", Blocks: all.Blocks}}, 0, 0},
		{"in storage, which all have", []Event{on(all, func(e *Event) { e.Medium = "STORAGE" })}, 0, 0},
		{"elsewhere", []Event{on(all, func(e *Event) { e.Remote = true })}, 0, 0},
		{"of another group", []Event{all, {Kind: Removed, Group: 1, Blocks: all.Blocks}, on(stored(1, ids, 9), func(e *Event) { e.Group = 1 })}, 64, 0},
		{"of an adapter", []Event{on(all, func(e *Event) { e.Adapter = "other" })}, 0, 4},
		{"of this adapter", []Event{on(all, func(e *Event) { e.Adapter = "m" })}, 64, 0},
		{"of this adapter after its base", []Event{all, on(stored(11, ids[:32]), func(e *Event) { e.Adapter = "m" }), all}, 32, 4},
		{"with a salt", []Event{on(all, func(e *Event) { e.Extra = []Extra{{Salt: "s"}} })}, 0, 0},
		{"with a picture", []Event{on(all, func(e *Event) { e.Extra = []Extra{{}, {}, {Opaque: true}} })}, 32, 2},
		{"of other sizes", []Event{stored(1, ids[:16]), on(stored(2, ids[16:], 1), func(e *Event) { e.BlockTokens = 48 })}, 16, 3},
		{"fewer than their tokens", []Event{stored(9, ids[:16]), on(all, func(e *Event) { e.Blocks = e.Blocks[1:] })}, 16, 3},
	} {
		r := newReader(t, "m", 100)
		if err := r.take(c.events...); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := r.cached(ids, ""); got != c.cached || r.ledger.Unread != c.unread {
			t.Errorf("%s: %d tokens are cached and %d blocks were not read, want %d and %d", c.name, got, r.ledger.Unread, c.cached, c.unread)
		}
		if err := r.index.Check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLedgerIsBounded(t *testing.T) {
	r := newReader(t, "m", 3)
	for i := range byte(20) {
		ids := count(16)
		ids[0] = int32(i)
		if err := r.take(stored(i, ids)); err != nil {
			t.Fatal(err)
		}
	}
	if n, in := r.ledger.Blocks(), r.index.Entries(0); n != 3 || in != 3 {
		t.Errorf("%d blocks, %d keys; 3 are the most", n, in)
	}
}

func TestBlocksThatAreTooSmallOrLarge(t *testing.T) {
	for _, size := range []int{1, 7, 257} {
		err := newReader(t, "m", 10).take(Event{Kind: Stored, Blocks: []ID{{1}}, Tokens: count(size), BlockTokens: size})
		if err == nil || !strings.Contains(err.Error(), "--page-size 16") {
			t.Errorf("blocks of %d tokens: %v", size, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	text := func(parts ...func([]byte) []byte) []byte {
		b := msgp.AppendFloat64(msgp.AppendArrayHeader(nil, 2), 1)
		for _, p := range parts {
			b = p(b)
		}
		return b
	}
	array := func(n uint32) func([]byte) []byte {
		return func(b []byte) []byte { return msgp.AppendArrayHeader(b, n) }
	}
	word := func(s string) func([]byte) []byte { return func(b []byte) []byte { return msgp.AppendString(b, s) } }
	number := func(n int) func([]byte) []byte { return func(b []byte) []byte { return msgp.AppendInt(b, n) } }
	for name, b := range map[string][]byte{
		"nothing":                nil,
		"a map":                  msgp.AppendMapHeader(nil, 2),
		"one field":              msgp.AppendArrayHeader(nil, 1),
		"no events":              text(),
		"a long list":            text(array(1 << 31)),
		"an event that is none":  text(array(1), number(5)),
		"an empty event":         text(array(1), array(0)),
		"an event without kind":  text(array(1), array(1), number(5)),
		"a hash that is none":    text(array(1), array(2), word("BlockRemoved"), array(1), word("x")),
		"a long list of tokens":  text(array(1), array(4), word("BlockStored"), array(0), number(1), array(1<<30)),
		"a token above 31 bits":  text(array(1), array(4), word("BlockStored"), array(0), number(1), array(1), number(1<<31)),
		"more than a batch":      text(array(0), number(1)),
		"tokens without a size":  text(array(1), array(4), word("BlockStored"), array(0), number(1), array(1), number(1)),
		"tokens of half a block": text(array(1), array(5), word("BlockStored"), array(0), number(1), array(1), number(1), number(16)),
	} {
		if got, err := Decode(b); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// FuzzDecode reads whatever a publisher says, and follows it.
func FuzzDecode(f *testing.F) {
	batches, _ := recorded(f)
	for _, b := range batches[:min(len(batches), 8)] {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := Decode(text)
		if err != nil {
			return
		}
		r := newReader(t, "m", 50)
		if r.take(b.Events...) != nil {
			return
		}
		if err := r.index.Check(); err != nil {
			t.Fatal(err)
		}
		if r.ledger.Blocks() > 50 {
			t.Fatalf("%d blocks", r.ledger.Blocks())
		}
	})
}
