package router

import (
	"encoding/json"
	"testing"

	"weir/kvcache"
)

func TestBlockEventsAsText(t *testing.T) {
	a, b := kvcache.Hash{1, 2, 0xfe}, kvcache.Hash{15: 9}
	for _, e := range []kvcache.Event{
		{Kind: kvcache.Stored, Hash: a}, {Kind: kvcache.Stored, Hash: a, Parent: b}, {Kind: kvcache.Removed, Hash: b}, {Kind: kvcache.Cleared},
	} {
		text, err := json.Marshal(BlockEvent{e})
		if err != nil {
			t.Fatal(err)
		}
		var got BlockEvent
		if err := json.Unmarshal(text, &got); err != nil || got.Event != e {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	if text, _ := (BlockEvent{kvcache.Event{Hash: a}}).MarshalText(); string(text) != "stored 0102fe00000000000000000000000000" {
		t.Errorf("%s", text)
	}
	if _, err := (BlockEvent{kvcache.Event{Kind: 7}}).MarshalText(); err == nil {
		t.Error("an unknown kind has a text")
	}
}

func FuzzBlockEvent(f *testing.F) {
	f.Add("stored 0102fe00000000000000000000000000 0102fe00000000000000000000000001")
	f.Add("removed 0102fe00000000000000000000000000")
	f.Add("cleared")
	f.Add("stored  ")
	f.Fuzz(func(t *testing.T, text string) {
		var e, again BlockEvent
		if e.UnmarshalText([]byte(text)) != nil {
			return
		}
		out, err := e.MarshalText()
		if err != nil || again.UnmarshalText(out) != nil || again != e {
			t.Errorf("%q becomes %q, %v", text, out, err)
		}
	})
}
