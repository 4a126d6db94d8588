package kvevent

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tinylib/msgp/msgp"
)

// ID is an engine's hash of a block: its first bytes where it is a string of bytes, and its value where it is a number.
type ID [16]byte

// Kind says what an event reports.
type Kind uint8

// The kinds of events. Engines may publish others, which are passed over.
const (
	Other Kind = iota
	Stored
	Removed
	Cleared
)

var kinds = map[string]Kind{"BlockStored": Stored, "BlockRemoved": Removed, "AllBlocksCleared": Cleared}

// Event is one change of an engine's cache.
type Event struct {
	Kind        Kind
	Blocks      []ID
	Parent      ID // of the first block; where HasParent
	HasParent   bool
	Tokens      []int32 // of all blocks
	BlockTokens int
	Medium      string // where the blocks are: "", "GPU", "CPU", "STORAGE"
	Adapter     string // of LoRA; "" is none
	Extra       []Extra
	Group       int // of KV caches: models whose layers keep different windows have several
	Remote      bool
}

// Extra is what a block's KV depends on beside its tokens and the blocks before.
type Extra struct {
	Salt   string // cache_salt, of the first block
	Opaque bool   // something that tokens do not tell: a picture, an embedding
}

// Batch is what an engine publishes in one message: the events of one step.
type Batch struct {
	Events []Event
	Rank   int // of data parallelism
}

// fields are those of an event by their place, for publishers that write events as arrays. A map names them.
var fields = map[Kind][]string{
	Stored:  {"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys", "group_idx"},
	Removed: {"block_hashes", "medium", "group_idx"},
}

// Decode reads a message of a publisher: an array of a time, events, and a rank. What it allocates is bounded by the length of the text.
func Decode(text []byte) (Batch, error) {
	var b Batch
	n, text, err := msgp.ReadArrayHeaderBytes(text)
	switch {
	case err != nil:
		return b, wrong("batch", err)
	case n < 2:
		return b, fmt.Errorf("a batch of KV events has %d fields, want a time and events", n)
	}
	if text, err = msgp.Skip(text); err != nil { // when it was written
		return b, wrong("batch's time", err)
	}
	if b.Events, text, err = list(text, event); err != nil {
		return b, wrong("list", err)
	}
	for i := uint32(2); i < n; i++ {
		if i == 2 && msgp.NextType(text) == msgp.IntType || i == 2 && msgp.NextType(text) == msgp.UintType {
			b.Rank, text, err = msgp.ReadIntBytes(text)
		} else {
			text, err = msgp.Skip(text)
		}
		if err != nil {
			return b, wrong("batch", err)
		}
	}
	if len(text) > 0 {
		return b, fmt.Errorf("%d bytes follow a batch of KV events", len(text))
	}
	return b, nil
}

func wrong(what string, err error) error { return fmt.Errorf("a %s of KV events: %w", what, err) }

// list reads an array. Each element takes a byte or more, so a header that promises more than there is costs nothing.
func list[T any](text []byte, read func([]byte) (T, []byte, error)) ([]T, []byte, error) {
	n, text, err := msgp.ReadArrayHeaderBytes(text)
	if err != nil {
		return nil, text, err
	}
	if uint64(n) > uint64(len(text)) {
		return nil, text, fmt.Errorf("an array of %d elements in %d bytes", n, len(text))
	}
	var all []T
	for range n {
		var one T
		if one, text, err = read(text); err != nil {
			return nil, text, err
		}
		all = append(all, one)
	}
	return all, text, nil
}

// event reads one event: an array that begins with its type, or a map in which it stands as "type".
func event(text []byte) (e Event, rest []byte, err error) {
	switch t := msgp.NextType(text); t {
	case msgp.ArrayType:
		return positional(text)
	case msgp.MapType:
		return named(text)
	default:
		return e, text, fmt.Errorf("an event is a %v; want an array or a map", t)
	}
}

func positional(text []byte) (e Event, rest []byte, err error) {
	n, text, err := msgp.ReadArrayHeaderBytes(text)
	if err != nil {
		return e, text, err
	}
	if n == 0 {
		return e, text, errors.New("an event is an empty array")
	}
	kind, text, err := msgp.ReadStringZC(text)
	if err != nil {
		return e, text, err
	}
	e.Kind = kinds[string(kind)]
	names := fields[e.Kind]
	for i := range n - 1 {
		name := ""
		if int(i) < len(names) {
			name = names[i]
		}
		if text, err = e.field(name, text); err != nil {
			return e, text, err
		}
	}
	return e, text, e.check()
}

func named(text []byte) (e Event, rest []byte, err error) {
	n, text, err := msgp.ReadMapHeaderBytes(text)
	if err != nil {
		return e, text, err
	}
	for range n {
		var key []byte
		if key, text, err = msgp.ReadMapKeyZC(text); err != nil {
			return e, text, err
		}
		if string(key) != "type" {
			text, err = e.field(string(key), text)
		} else {
			var kind []byte
			kind, text, err = msgp.ReadStringZC(text)
			e.Kind = kinds[string(kind)]
		}
		if err != nil {
			return e, text, err
		}
	}
	return e, text, e.check()
}

// check says what is wrong with an event of a kind that is followed.
func (e *Event) check() error {
	if e.Kind == Stored && len(e.Tokens) > 0 && (e.BlockTokens < 1 || len(e.Tokens)%e.BlockTokens != 0) {
		return fmt.Errorf("%d tokens are stored in blocks of %d", len(e.Tokens), e.BlockTokens)
	}
	return nil
}

// field reads the value of a field, or passes over it.
func (e *Event) field(name string, text []byte) (rest []byte, err error) {
	if msgp.IsNil(text) {
		return msgp.Skip(text)
	}
	switch name {
	case "block_hashes":
		e.Blocks, rest, err = list(text, id)
	case "parent_block_hash":
		e.Parent, rest, err = id(text)
		e.HasParent = err == nil
	case "token_ids":
		e.Tokens, rest, err = list(text, msgp.ReadInt32Bytes)
	case "block_size":
		e.BlockTokens, rest, err = msgp.ReadIntBytes(text)
	case "medium":
		e.Medium, rest, err = msgp.ReadStringBytes(text)
	case "lora_name":
		e.Adapter, rest, err = msgp.ReadStringBytes(text)
	case "extra_keys":
		e.Extra, rest, err = list(text, e.extra)
	case "group_idx":
		e.Group, rest, err = msgp.ReadIntBytes(text)
	case "locality":
		var where string
		where, rest, err = msgp.ReadStringBytes(text)
		e.Remote = where == "REMOTE"
	default:
		return msgp.Skip(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return rest, err
}

// id reads a hash.
func id(text []byte) (made ID, rest []byte, err error) {
	switch t := msgp.NextType(text); t {
	case msgp.BinType:
		raw, rest, err := msgp.ReadBytesZC(text)
		copy(made[:], raw)
		return made, rest, err
	case msgp.UintType:
		n, rest, err := msgp.ReadUint64Bytes(text)
		binary.BigEndian.PutUint64(made[:], n)
		return made, rest, err
	case msgp.IntType:
		n, rest, err := msgp.ReadInt64Bytes(text)
		binary.BigEndian.PutUint64(made[:], uint64(n)) //nolint:gosec // as bits
		return made, rest, err
	default:
		return made, text, fmt.Errorf("a block's hash is a %v; want bytes or a number", t)
	}
}

// extra reads what one block depends on: nil, or an array in which the adapter's name and the salt are strings and all else is not.
func (e *Event) extra(text []byte) (x Extra, rest []byte, err error) {
	if msgp.IsNil(text) {
		rest, err = msgp.Skip(text)
		return x, rest, err
	}
	n, text, err := msgp.ReadArrayHeaderBytes(text)
	if err != nil {
		return x, text, err
	}
	for i := range n {
		if msgp.NextType(text) != msgp.StrType {
			x.Opaque = true
			if text, err = msgp.Skip(text); err != nil {
				return x, text, err
			}
			continue
		}
		var s string
		if s, text, err = msgp.ReadStringBytes(text); err != nil {
			return x, text, err
		}
		if i > 0 || e.Adapter == "" { // the first one is the adapter's
			x.Salt = s
		}
	}
	return x, text, nil
}
