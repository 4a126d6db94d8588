package router

import (
	"encoding/hex"
	"fmt"
	"strings"

	"weir/kvcache"
)

// BlockEvents is a weir's answer to GET /admin/kv-events: changes of one model's prefix cache, and what its
// block hashes are made with beside the secret that replicas share (--prefix-cache-key).
type BlockEvents struct {
	Model       string       `json:"model"`
	Version     string       `json:"version"`
	Digest      string       `json:"model_digest"`
	KVType      string       `json:"kv_cache_dtype"`
	BlockTokens int          `json:"block_size"`
	Epoch       uint64       `json:"epoch,string"`   // another one after each start of the engine
	First       uint64       `json:"first_sequence"` // of the events, which are numbered without gaps
	Events      []BlockEvent `json:"events"`
}

// MostBlockEvents are in one answer.
const MostBlockEvents = 16384

// BlockEventsPath is where they are asked for, on the admin listener.
const BlockEventsPath = "/admin/kv-events"

// BlockEvent is a change as JSON has it: "stored HASH", "stored HASH PARENT", "removed HASH" or
// "cleared", with hashes of 32 hexadecimal digits.
type BlockEvent struct{ kvcache.Event }

var blockEventWords = [...]string{kvcache.Stored: "stored", kvcache.Removed: "removed", kvcache.Cleared: "cleared"}

// MarshalText implements encoding.TextMarshaler.
func (e BlockEvent) MarshalText() ([]byte, error) {
	if int(e.Kind) >= len(blockEventWords) {
		return nil, fmt.Errorf("a block event is of unknown kind %d", e.Kind)
	}
	text := append(make([]byte, 0, 80), blockEventWords[e.Kind]...)
	if e.Kind == kvcache.Cleared {
		return text, nil
	}
	text = hex.AppendEncode(append(text, ' '), e.Hash[:])
	if e.Kind == kvcache.Stored && e.Parent != (kvcache.Hash{}) {
		text = hex.AppendEncode(append(text, ' '), e.Parent[:])
	}
	return text, nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (e *BlockEvent) UnmarshalText(text []byte) error {
	words := strings.Split(string(text), " ")
	*e = BlockEvent{}
	wrong := fmt.Errorf("%.100q is no block event; it must be stored HASH, stored HASH PARENT, removed HASH or cleared", text)
	switch {
	case words[0] == "stored" && (len(words) == 2 || len(words) == 3):
	case words[0] == "removed" && len(words) == 2:
		e.Kind = kvcache.Removed
	case words[0] == "cleared" && len(words) == 1:
		e.Kind = kvcache.Cleared
	default:
		return wrong
	}
	for i, to := range []*kvcache.Hash{&e.Hash, &e.Parent}[:len(words)-1] {
		raw, err := hex.DecodeString(words[i+1])
		if err != nil || len(raw) != len(to) {
			return wrong
		}
		copy(to[:], raw)
	}
	return nil
}
